//! The times at which a credential is renewed without a refusal.
//!
//! A credential is renewed before it expires, early enough for several attempts. Failures are repeated with backoff
//! while the credential is still valid, or while calls wait for a newer one; later the next refusal asks again. All
//! times are those of the wall clock, because a credential expires by it. The clock may jump, so no wait is longer than
//! [`LONGEST_WAIT`].

use std::time::{Duration, SystemTime};

/// The least time before the expiry.
const MIN_MARGIN: Duration = Duration::from_secs(30);
/// The most time before the expiry.
const MAX_MARGIN: Duration = Duration::from_secs(5 * 60);
/// The part by which jitter makes a margin or a backoff longer: many processes do not renew at the same moment.
const JITTER: f64 = 0.25;
/// The wait after the first failure; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);
/// The longest wait after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The wait after many failures in a row, which keeps the attempts below 300 a day.
const SLOW_BACKOFF: Duration = Duration::from_secs(5 * 60);
/// The number of failures after which the attempts become rare.
const MANY_FAILURES: u32 = 12;
/// The longest pause that an authorization server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// The longest wait before the clock is read again.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// The schedule of one credential.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    expiry: Option<Expiry>,
    failures: u32,
    /// The end of the backoff, and its length.
    backoff: Option<(SystemTime, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Expiry {
    /// The time at which the credential is renewed.
    due: SystemTime,
    at: SystemTime,
}

impl Schedule {
    /// Notes a new credential. `jitter` is from 0 to 1.
    pub(super) fn renewed(&mut self, now: SystemTime, expires_at: Option<SystemTime>, jitter: f64) {
        let expiry = expires_at.map(|at| {
            let lifetime = at.duration_since(now).unwrap_or_default();
            let margin = (lifetime / 10).min(MAX_MARGIN).max(MIN_MARGIN);
            // A credential with a very short lifetime is used for half of it.
            let margin = margin.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0)).min(lifetime / 2);
            Expiry { due: at.checked_sub(margin).unwrap_or(now), at }
        });
        *self = Schedule { expiry, failures: 0, backoff: None };
    }

    /// Notes that there is no newer credential.
    pub(super) fn failed(&mut self, now: SystemTime, jitter: f64) {
        let wait = match self.failures {
            many if many >= MANY_FAILURES => SLOW_BACKOFF,
            few => FIRST_BACKOFF.saturating_mul(1 << few.min(10)).min(MAX_BACKOFF),
        };
        let wait = wait.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0));
        self.failures = self.failures.saturating_add(1);
        self.backoff = now.checked_add(wait).map(|end| (end, wait));
    }

    /// Makes the backoff at least this long: the authorization server asked for a pause.
    pub(super) fn wait_at_least(&mut self, now: SystemTime, pause: Duration) {
        let pause = pause.min(LONGEST_PAUSE);
        if self.backoff.is_some_and(|(_, length)| length < pause) {
            self.backoff = now.checked_add(pause).map(|end| (end, pause));
        }
    }

    /// Ends a backoff: the network has changed, or the machine slept.
    pub(super) fn end_backoff(&mut self) {
        self.backoff = None;
    }

    /// Returns the time until the next read of the source; `None` if nothing is due by itself. `is_awaited` means that
    /// calls wait for a newer credential.
    pub(super) fn next_read(&self, now: SystemTime, is_awaited: bool) -> Option<Duration> {
        let wait = |then: SystemTime| then.duration_since(now).unwrap_or_default();
        // A clock that was set back must not make the backoff longer.
        let backoff = self.backoff.map_or(Duration::ZERO, |(end, length)| wait(end).min(length));
        if is_awaited {
            return Some(backoff);
        }
        let expiry = self.expiry?;
        if expiry.at <= now && self.failures > 0 {
            return None;
        }
        Some(wait(expiry.due).max(backoff))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn noon() -> SystemTime {
        UNIX_EPOCH + seconds(1_800_000_000)
    }

    fn schedule(lifetime: u64) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.renewed(noon(), Some(noon() + seconds(lifetime)), 0.0);
        schedule
    }

    #[test]
    fn credential_is_renewed_a_margin_before_expiry() {
        for (lifetime, due) in [(3600, 3300), (100_000, 99_700), (600, 540), (60, 30), (40, 20), (10, 5), (0, 0)] {
            assert_eq!(schedule(lifetime).next_read(noon(), false), Some(seconds(due)), "{lifetime}");
        }
        assert_eq!(Schedule::default().next_read(noon(), false), None, "no credential");
        let mut endless = Schedule::default();
        endless.renewed(noon(), None, 0.0);
        assert_eq!(endless.next_read(noon(), false), None);
    }

    #[test]
    fn jitter_makes_the_margin_longer() {
        let mut schedule = Schedule::default();
        schedule.renewed(noon(), Some(noon() + seconds(3600)), 1.0);
        assert_eq!(schedule.next_read(noon(), false), Some(seconds(3600 - 375)));
    }

    #[test]
    fn failures_are_repeated_until_expiry_with_backoff() {
        let mut schedule = schedule(3600);
        let mut now = noon() + seconds(3300);
        assert_eq!(schedule.next_read(now, false), Some(Duration::ZERO));
        let mut waits = Vec::new();
        loop {
            schedule.failed(now, 0.0);
            let Some(wait) = schedule.next_read(now, false) else { break };
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60], "the last one is after the expiry");
        assert!(now >= noon() + seconds(3600));
    }

    #[test]
    fn expired_credential_is_renewed_once_without_a_refusal() {
        let mut schedule = schedule(3600);
        let late = noon() + seconds(80_000);
        assert_eq!(schedule.next_read(late, false), Some(Duration::ZERO), "after a sleep");
        schedule.failed(late, 0.0);
        assert_eq!(schedule.next_read(late, false), None);
        assert_eq!(schedule.next_read(late, true), Some(seconds(2)), "calls wait");
    }

    #[test]
    fn attempts_for_waiting_calls_stay_below_300_a_day() {
        let mut schedule = Schedule::default();
        let (mut now, mut attempts) = (noon(), 0);
        while now < noon() + seconds(86_400) {
            schedule.failed(now, 0.0);
            attempts += 1;
            now += schedule.next_read(now, true).unwrap();
        }
        assert!((250..=300).contains(&attempts), "{attempts}");
    }

    #[test]
    fn requested_pause_makes_a_shorter_backoff_longer() {
        let mut schedule = schedule(3600);
        schedule.failed(noon(), 0.0);
        schedule.wait_at_least(noon(), seconds(1));
        assert_eq!(schedule.next_read(noon(), true), Some(seconds(2)));
        schedule.wait_at_least(noon(), seconds(120));
        assert_eq!(schedule.next_read(noon(), true), Some(seconds(120)));
        schedule.wait_at_least(noon(), seconds(1_000_000));
        assert_eq!(schedule.next_read(noon(), true), Some(seconds(3600)));
    }

    #[test]
    fn clock_that_was_set_back_does_not_prolong_backoff() {
        let mut schedule = schedule(3600);
        schedule.failed(noon(), 0.0);
        let yesterday = noon() - seconds(86_400);
        assert_eq!(schedule.next_read(yesterday, true), Some(seconds(2)));
        schedule.end_backoff();
        assert_eq!(schedule.next_read(yesterday, true), Some(Duration::ZERO));
    }
}
