//! Detects that the machine has slept.
//!
//! Linux has two clocks that differ only in this: `CLOCK_BOOTTIME` includes the time asleep, `CLOCK_MONOTONIC` does
//! not. The growth of their difference is the time asleep. A timer tells when to compare them: it is set for a distant
//! date, and the kernel cancels it whenever the wall clock is set, which also happens on resume. If a user only sets
//! the clock, the difference does not grow.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The shortest sleep that counts. A shorter one breaks nothing: every peer waits longer than that for a packet.
const MIN_SLEEP: Duration = Duration::from_secs(2);

/// A watcher for sleep.
pub struct Sleep {
    timer: AsyncFd<OwnedFd>,
    detector: SleepDetector,
}

impl Sleep {
    /// Starts to watch. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Sleep> {
        Ok(Sleep {
            timer: crate::raw::watch(clock::timer()?, Interest::READABLE)?,
            detector: SleepDetector::new(clock::read()),
        })
    }

    /// Waits until the machine has slept and resumed. Cancel-safe: no sleep is lost if the future is dropped.
    pub async fn woken(&mut self) {
        loop {
            match self.timer.readable().await {
                Ok(mut ready) => {
                    clock::acknowledge(self.timer.get_ref());
                    ready.clear_ready();
                }
                // The runtime is shutting down.
                Err(_) => pending().await,
            }
            if self.detector.has_slept(clock::read()) {
                return;
            }
        }
    }
}

/// Both clocks, read at the same time.
#[derive(Clone, Copy)]
struct Clocks {
    monotonic: Duration,
    boottime: Duration,
}

impl Clocks {
    /// Returns how far the clock that includes sleep is ahead, in nanoseconds. Negative where a container has set it
    /// back.
    fn offset(self) -> i128 {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        nanos(self.boottime) - nanos(self.monotonic)
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

#[cfg(target_os = "linux")]
mod clock {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    };

    use super::Clocks;

    /// In seconds since 1970: a few centuries from now.
    const NEVER: i64 = 1 << 34;

    /// Creates a timer that becomes readable whenever the wall clock is set.
    pub(super) fn timer() -> io::Result<OwnedFd> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        let never = Itimerspec { it_interval: nothing, it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 } };
        match timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never) {
            // `CANCELED` means that the clock was set at this moment; the timer is armed nevertheless.
            Ok(_) | Err(Errno::CANCELED) => Ok(timer),
            Err(error) => Err(error.into()),
        }
    }

    /// Clears the readiness of the timer, so that it reports the next change of the clock.
    pub(super) fn acknowledge(timer: &OwnedFd) {
        // The result is a number or `ECANCELED`; neither matters.
        let _ = rustix::io::read(timer, &mut [0; 8]);
    }

    pub(super) fn read() -> Clocks {
        let since_start = |clock| {
            let time = clock_gettime(clock);
            Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
        };
        Clocks { monotonic: since_start(ClockId::Monotonic), boottime: since_start(ClockId::Boottime) }
    }
}

#[cfg(not(target_os = "linux"))]
mod clock {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use super::Clocks;

    pub(super) fn timer() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn acknowledge(_timer: &OwnedFd) {}

    pub(super) fn read() -> Clocks {
        Clocks { monotonic: Duration::ZERO, boottime: Duration::ZERO }
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
