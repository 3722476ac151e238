//! Detects changes of the network.
//!
//! Joining a network or a VPN produces dozens of reports of the system at once. So the first report starts a pause
//! without reads, and all reports until its end count as one change. Changes are reported at most every few seconds,
//! because a machine that starts containers changes its network all the time.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::os::network::NetworkChanges;

/// The pause after the first report of a burst.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// The shortest time between two reported changes.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// A watcher of the network.
pub struct Network {
    changes: NetworkChanges,
    debounce: Debounce,
}

impl Network {
    /// Starts to watch. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Network> {
        Ok(Network { changes: NetworkChanges::watch()?, debounce: Debounce::default() })
    }

    /// Waits until the network has changed. Cancel-safe: no change is lost if the future is dropped.
    pub async fn changed(&mut self) {
        let due = match self.debounce.due {
            Some(due) => due,
            None => {
                self.changes.next().await;
                self.debounce.changed_at(Instant::now())
            }
        };
        sleep_until(due).await;
        // Reports that arrived during the pause belong to the same change.
        self.changes.skip();
        self.debounce.reported_at(Instant::now());
    }
}

/// The state that limits how often changes are reported.
#[derive(Default)]
struct Debounce {
    due: Option<Instant>,
    last_report: Option<Instant>,
}

impl Debounce {
    /// Records a change. Returns the time at which to report it.
    fn changed_at(&mut self, now: Instant) -> Instant {
        let settled = now + DEBOUNCE;
        let due = self.last_report.map_or(settled, |last_report| settled.max(last_report + MIN_INTERVAL));
        *self.due.get_or_insert(due)
    }

    /// Records that the change was reported.
    fn reported_at(&mut self, now: Instant) {
        self.due = None;
        self.last_report = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_one_change_and_next_report_is_delayed() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut debounce = Debounce::default();
        assert_eq!(debounce.changed_at(start), start + DEBOUNCE);
        assert_eq!(debounce.changed_at(start + ms(400)), start + DEBOUNCE, "the rest of the burst does not move it");
        debounce.reported_at(start + DEBOUNCE);
        assert_eq!(debounce.changed_at(start + ms(600)), start + DEBOUNCE + MIN_INTERVAL);
        debounce.reported_at(start + DEBOUNCE + MIN_INTERVAL);
        let later = start + Duration::from_secs(60);
        assert_eq!(debounce.changed_at(later), later + DEBOUNCE, "after a quiet minute there is no extra delay");
    }

    #[tokio::test]
    async fn real_socket_reports_nothing_before_debounce_ends() {
        let mut network = Network::watch().unwrap();
        let changed = tokio::time::timeout(Duration::from_millis(50), network.changed()).await;
        assert!(changed.is_err());
    }
}
