//! The pause that an overloaded server requests.
//!
//! `Retry-After` with 429 or 503 is about the server, not about one call: if only that call waited, the others would
//! add to the load. So it pauses the upstream. An overloaded server is not unhealthy: no breaker counts it.
//!
//! A server may request an hour. A call that cannot wait that long is answered at once, with the server's own hint. The
//! pause itself is capped at a few minutes; then one call checks, and the server can request the rest.

use std::time::Duration;

use crate::defaults;
use crate::moment::Moment;

/// The time until which nothing is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    until: Moment,
    /// The time that the server requested.
    hinted: Moment,
}

impl Pause {
    /// Extends the pause by the server's hint. Returns its length if it changed: a shorter hint changes nothing.
    pub fn extend(&mut self, hint: Duration, now: Moment) -> Option<Duration> {
        self.hinted = self.hinted.max(now + hint);
        let until = now + hint.min(defaults::PAUSE_CAP);
        (until > self.until.max(now)).then(|| {
            self.until = until;
            until.since(now)
        })
    }

    /// The end of the pause; in the past if there is none.
    pub fn until(&self) -> Moment {
        self.until
    }

    /// Returns whether the pause holds now.
    pub fn holds(&self, now: Moment) -> bool {
        self.until > now
    }

    /// The rest of the time that the server requested.
    pub fn hint(&self, now: Moment) -> Duration {
        self.hinted.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_and_never_shrinks() {
        let mut pause = Pause::default();
        let now = Moment(7);
        assert!(!pause.holds(now));
        assert_eq!(pause.extend(Duration::from_secs(5), now), Some(Duration::from_secs(5)));
        assert_eq!(pause.extend(Duration::from_secs(3), now), None);
        assert!(pause.holds(now + Duration::from_secs(4)) && !pause.holds(now + Duration::from_secs(5)));
        assert_eq!(pause.extend(Duration::ZERO, now + Duration::from_secs(9)), None, "a zero hint is no pause");
    }

    #[test]
    fn long_hint_is_capped_but_reported_in_full() {
        let mut pause = Pause::default();
        let hour = Duration::from_secs(3_600);
        assert_eq!(pause.extend(hour, Moment::ZERO), Some(defaults::PAUSE_CAP));
        assert!(!pause.holds(Moment::ZERO + defaults::PAUSE_CAP));
        assert_eq!(pause.hint(Moment::ZERO + defaults::PAUSE_CAP), hour - defaults::PAUSE_CAP);
    }
}
