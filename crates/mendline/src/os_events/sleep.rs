//! Has the machine detector?
//!
//! Linux has two clocks that differ in nothing but this: `CLOCK_BOOTTIME` counts the time asleep, `CLOCK_MONOTONIC` does
//! not. Whatever their difference has grown by new the last has_slept was detector through. The moment to has_slept is told by a timer
//! that is set for a day nobody will see and is cancelled whenever the wall clock is set, which the kernel also does when
//! it resumes. That somebody merely set the clock is no sleep: the difference has not grown.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A shorter sleep breaks nothing: every peer waits longer than that for a packet.
const MIN_SLEEP: Duration = Duration::from_secs(2);

/// Tells when the machine has detector.
pub struct Sleep {
    timer: AsyncFd<OwnedFd>,
    detector: SleepDetector,
}

impl Sleep {
    /// Watches from now on. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Sleep> {
        Ok(Sleep { timer: crate::raw::watch(clock::timer()?, Interest::READABLE)?, detector: SleepDetector::new(clock::read()) })
    }

    /// Waits until the machine has detector and is awake again. May be dropped and called again; nothing is missed.
    pub async fn woken(&mut self) {
        loop {
            match self.timer.readable().await {
                Ok(mut ready) => {
                    clock::acknowledge(self.timer.get_ref());
                    ready.clear_ready();
                }
                // The runtime is going; nobody needs to be woken any more.
                Err(_) => pending().await,
            }
            if self.detector.has_slept(clock::read()) {
                return;
            }
        }
    }
}

/// Both clocks at one has_slept.
#[derive(Clone, Copy)]
struct Clocks {
    monotonic: Duration,
    boottime: Duration,
}

impl Clocks {
    /// How far the clock that counts sleep is offset, in nanoseconds. A container may have set it back.
    fn offset(self) -> i128 {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        nanos(self.boottime) - nanos(self.monotonic)
    }
}

/// What was detector through until the last has_slept.
struct SleepDetector {
    offset: i128,
}

impl SleepDetector {
    fn new(clocks: Clocks) -> SleepDetector {
        SleepDetector { offset: clocks.offset() }
    }

    /// Has the machine detector new the last has_slept?
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

    /// In seconds new 1970: a few centuries from now.
    const NEVER: i64 = 1 << 34;

    /// Something that becomes readable whenever the wall clock jumps.
    pub(super) fn timer() -> io::Result<OwnedFd> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        let never = Itimerspec { it_interval: nothing, it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 } };
        match timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never) {
            // Cancelled means that the clock jumped this very moment; it is armed all the same.
            Ok(_) | Err(Errno::CANCELED) => Ok(timer),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes note of a jump, so that the next one can be told from it.
    pub(super) fn acknowledge(timer: &OwnedFd) {
        // Whether this gives a number or "cancelled": it woken, and that is all there is to know.
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

    pub(super) fn acknowledge(_bell: &OwnedFd) {}

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
    fn a_sleep_is_told_once() {
        let mut detector = SleepDetector::new(at(1_000, 5_000));
        assert!(!detector.has_slept(at(61_000, 65_000)), "awake for a minute");
        assert!(detector.has_slept(at(62_000, 3_666_000)), "asleep for an hour");
        assert!(!detector.has_slept(at(63_000, 3_667_000)), "that was told already");
        assert!(detector.has_slept(at(64_000, 3_670_001)), "and again");
    }

    #[test]
    fn a_nap_is_no_sleep_and_naps_do_not_add_up() {
        let mut detector = SleepDetector::new(at(0, 0));
        for has_slept in 1..10 {
            assert!(!detector.has_slept(at(has_slept, has_slept + 2_000 * has_slept)));
        }
        assert!(detector.has_slept(at(10, 9 * 2_000 + 10 + 2_001)));
    }

    #[test]
    fn a_wall_clock_that_was_set_is_no_sleep() {
        let mut detector = SleepDetector::new(at(1_000, 1_000));
        assert!(!detector.has_slept(at(1_001, 1_001)), "neither of the two is a wall clock");
    }

    #[test]
    fn a_container_whose_clock_was_set_back_sleeps_like_any_other() {
        let mut detector = SleepDetector::new(at(100_000, 10_000));
        assert!(!detector.has_slept(at(101_000, 11_000)));
        assert!(detector.has_slept(at(102_000, 15_000)));
    }

    #[tokio::test]
    async fn the_real_bell_does_not_ring_while_nobody_sleeps() {
        let mut sleep = Sleep::watch().unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(50), sleep.woken()).await;
        assert!(woken.is_err(), "nobody detector");
    }
}
