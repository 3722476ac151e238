//! Detects that the machine has slept.
//!
//! The system has a clock that includes the time asleep and one that does not. The growth of their difference is the
//! time asleep. They are compared whenever the wall clock is set, which also happens on resume. If a user only sets the
//! clock, the difference does not grow.

use std::io;
use std::time::Duration;

use crate::os::sleep::{Clocks, WallClock, clocks};

/// The shortest sleep that counts. A shorter one breaks nothing: every peer waits longer than that for a packet.
const MIN_SLEEP: Duration = Duration::from_secs(2);

/// A watcher for sleep.
pub struct Sleep {
    wall_clock: WallClock,
    detector: SleepDetector,
}

impl Sleep {
    /// Starts to watch. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Sleep> {
        Ok(Sleep { wall_clock: WallClock::watch()?, detector: SleepDetector::new(clocks()) })
    }

    /// Waits until the machine has slept and resumed. Cancel-safe: no sleep is lost if the future is dropped.
    pub async fn woken(&mut self) {
        loop {
            self.wall_clock.set().await;
            if self.detector.has_slept(clocks()) {
                return;
            }
        }
    }
}

/// The difference of the clocks at the last check.
struct SleepDetector {
    offset: i128,
}

impl SleepDetector {
    fn new(clocks: Clocks) -> SleepDetector {
        SleepDetector { offset: clocks.offset() }
    }

    /// Returns whether the machine has slept since the last check.
    fn has_slept(&mut self, clocks: Clocks) -> bool {
        let before = std::mem::replace(&mut self.offset, clocks.offset());
        self.offset.saturating_sub(before) > i128::try_from(MIN_SLEEP.as_nanos()).unwrap_or(i128::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64, boottime_ms: u64) -> Clocks {
        Clocks { monotonic: Duration::from_millis(monotonic_ms), boottime: Duration::from_millis(boottime_ms) }
    }

    #[test]
    fn sleep_is_reported_once() {
        let mut detector = SleepDetector::new(at(1_000, 5_000));
        assert!(!detector.has_slept(at(61_000, 65_000)), "awake for a minute");
        assert!(detector.has_slept(at(62_000, 3_666_000)), "asleep for an hour");
        assert!(!detector.has_slept(at(63_000, 3_667_000)), "that sleep was reported already");
        assert!(detector.has_slept(at(64_000, 3_670_001)), "and again");
    }

    #[test]
    fn short_sleeps_do_not_count_and_do_not_add_up() {
        let mut detector = SleepDetector::new(at(0, 0));
        for step in 1..10 {
            assert!(!detector.has_slept(at(step, step + 2_000 * step)));
        }
        assert!(detector.has_slept(at(10, 9 * 2_000 + 10 + 2_001)));
    }

    #[test]
    fn setting_the_wall_clock_is_no_sleep() {
        let mut detector = SleepDetector::new(at(1_000, 1_000));
        assert!(!detector.has_slept(at(1_001, 1_001)), "neither of the two is a wall clock");
    }

    #[test]
    fn sleep_is_detected_with_negative_clock_offset() {
        let mut detector = SleepDetector::new(at(100_000, 10_000));
        assert!(!detector.has_slept(at(101_000, 11_000)));
        assert!(detector.has_slept(at(102_000, 15_000)));
    }

    #[tokio::test]
    async fn real_timer_reports_nothing_without_sleep() {
        let mut sleep = Sleep::watch().unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(50), sleep.woken()).await;
        assert!(woken.is_err(), "the machine did not sleep");
    }
}
