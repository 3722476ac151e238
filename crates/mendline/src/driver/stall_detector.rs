//! Detects that the process was stalled.
//!
//! A timer that fires far too late means that the process was stopped, its virtual machine was paused, or it got no
//! CPU. Peers may have closed their connections meanwhile. The driver reports a stall as a resume from sleep. Several
//! signs of one stall are reported once.

use std::time::Duration;

use mendline_core::Moment;

/// The delay of a timer that counts as a stall. Load alone delays timers by milliseconds.
const STALL_THRESHOLD: Duration = Duration::from_secs(5);

/// The time within which signs belong to the same stall.
const DEDUP_WINDOW: Duration = Duration::from_secs(5);

/// The time of the expected wakeup, and of the last reported stall.
#[derive(Debug, Default)]
pub(super) struct StallDetector {
    expected: Option<Moment>,
    reported: Option<Moment>,
}

impl StallDetector {
    /// Notes that the next wakeup is expected at `due`.
    pub(super) fn sleep_until(&mut self, due: Option<Moment>) {
        self.expected = due;
    }

    /// Returns whether this wakeup is late enough to be a stall.
    pub(super) fn wake(&mut self, now: Moment) -> bool {
        self.expected.take().is_some_and(|due| now.since(due) > STALL_THRESHOLD)
    }

    /// Returns whether a sign of a stall is the first of that stall.
    pub(super) fn is_new_stall(&mut self, now: Moment) -> bool {
        let is_new_stall = self.reported.is_none_or(|reported| now.since(reported) > DEDUP_WINDOW);
        if is_new_stall {
            self.reported = Some(now);
        }
        is_new_stall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn only_a_timer_that_fires_late_is_a_stall() {
        let mut stall_detector = StallDetector::default();
        for (up, late) in [(9_000, false), (10_001, false), (15_000, false), (15_001, true), (900_000, true)] {
            stall_detector.sleep_until(Some(at(10_000)));
            assert_eq!(stall_detector.wake(at(up)), late, "{up}");
        }
        assert!(!stall_detector.wake(at(1_000_000)), "no timer was armed");
    }

    #[test]
    fn wakeup_without_a_timer_is_no_stall() {
        let mut stall_detector = StallDetector::default();
        stall_detector.sleep_until(None);
        assert!(!stall_detector.wake(at(3_600_000)));
    }

    #[test]
    fn signs_of_the_same_stall_are_reported_once() {
        let mut stall_detector = StallDetector::default();
        assert!(stall_detector.is_new_stall(at(7_000)));
        assert!(!stall_detector.is_new_stall(at(7_001)));
        assert!(!stall_detector.is_new_stall(at(12_000)));
        assert!(stall_detector.is_new_stall(at(12_001)));
    }
}
