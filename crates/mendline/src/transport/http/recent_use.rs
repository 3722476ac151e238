//! The number of connections that recent use needed at the same time.
//!
//! The pool keeps that many idle connections. A load of many calls in flight then dials each connection once, although
//! all connections are idle for a moment between two bursts. The number decays: it is the largest of the current period
//! and of the one before, so a burst is remembered for one to two periods.

use std::time::Duration;

use tokio::time::Instant;

/// The length of a period. It is longer than the default idle limit of a connection, so that a steady load with short
/// pauses does not dial again, and short enough that connections of a past load are closed soon.
const PERIOD: Duration = Duration::from_secs(5);

pub(super) struct RecentUse {
    /// The end of the current period.
    until: Instant,
    current: usize,
    previous: usize,
}

impl RecentUse {
    pub(super) fn new(now: Instant) -> RecentUse {
        RecentUse { until: now + PERIOD, current: 0, previous: 0 }
    }

    /// Notes how many connections are in use now, or would be if there were enough.
    pub(super) fn note(&mut self, in_use: usize, now: Instant) {
        if now >= self.until {
            // If more than a period has passed, the last use was before the previous one.
            self.previous = if now < self.until + PERIOD { self.current } else { 0 };
            self.current = 0;
            self.until = now + PERIOD;
        }
        self.current = self.current.max(in_use);
    }

    /// Returns the largest number that was in use recently; `in_use` is the number now.
    pub(super) fn peak(&mut self, in_use: usize, now: Instant) -> usize {
        self.note(in_use, now);
        self.current.max(self.previous)
    }

    /// Returns the time from which the peak can be lower.
    pub(super) fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn peak_is_remembered_for_one_to_two_periods() {
        let start = Instant::now();
        let mut recent = RecentUse::new(start);
        recent.note(300, start);
        recent.note(7, start);
        assert_eq!(recent.peak(7, start), 300);
        assert_eq!(recent.peak(7, start + PERIOD), 300, "it belongs to the period before");
        recent.note(20, start + PERIOD);
        assert_eq!(recent.peak(3, start + PERIOD * 2), 20);
        assert_eq!(recent.peak(3, start + PERIOD * 3), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn long_pause_forgets_the_peak_at_once() {
        let start = Instant::now();
        let mut recent = RecentUse::new(start);
        recent.note(300, start);
        assert_eq!(recent.peak(2, start + PERIOD * 2), 2);
        recent.note(200, start + PERIOD * 9);
        assert_eq!(recent.peak(2, start + PERIOD * 9), 200, "a burst after a pause counts");
    }
}
