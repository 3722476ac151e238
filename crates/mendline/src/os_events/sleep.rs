//! Has the machine slept?
//!
//! Linux has two clocks that differ in nothing but this: `CLOCK_BOOTTIME` counts the time asleep, `CLOCK_MONOTONIC` does
//! not. Whatever their difference has grown by since the last look was slept through. The moment to look is told by a timer
//! that is set for a day nobody will see and is cancelled whenever the wall clock is set, which the kernel also does when
//! it resumes. That somebody merely set the clock is no sleep: the difference has not grown.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A shorter sleep breaks nothing: every peer waits longer than that for a packet.
const NAP: Duration = Duration::from_secs(2);

/// Tells when the machine has slept.
pub struct Sleep {
    bell: AsyncFd<OwnedFd>,
    slept: Slept,
}

impl Sleep {
    /// Watches from now on. Must be called inside a tokio runtime.
    pub fn watch() -> io::Result<Sleep> {
        Ok(Sleep { bell: crate::raw::watch(system::bell()?, Interest::READABLE)?, slept: Slept::since(system::read()) })
    }

    /// Waits until the machine has slept and is awake again. May be dropped and called again; nothing is missed.
    pub async fn woken(&mut self) {
        loop {
            match self.bell.readable().await {
                Ok(mut ready) => {
                    system::quieten(self.bell.get_ref());
                    ready.clear_ready();
                }
                // The runtime is going; nobody needs to be woken any more.
                Err(_) => pending().await,
            }
            if self.slept.look(system::read()) {
                return;
            }
        }
    }
}

/// Both clocks at one look.
#[derive(Clone, Copy)]
struct Reading {
    monotonic: Duration,
    boottime: Duration,
}

impl Reading {
    /// How far the clock that counts sleep is ahead, in nanoseconds. A container may have set it back.
    fn ahead(self) -> i128 {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        nanos(self.boottime) - nanos(self.monotonic)
    }
}

/// What was slept through until the last look.
struct Slept {
    ahead: i128,
}

impl Slept {
    fn since(reading: Reading) -> Slept {
        Slept { ahead: reading.ahead() }
    }

    /// Has the machine slept since the last look?
    fn look(&mut self, reading: Reading) -> bool {
        let before = std::mem::replace(&mut self.ahead, reading.ahead());
        self.ahead.saturating_sub(before) > i128::try_from(NAP.as_nanos()).unwrap_or(i128::MAX)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    };

    use super::Reading;

    /// In seconds since 1970: a few centuries from now.
    const NEVER: i64 = 1 << 34;

    /// Something that becomes readable whenever the wall clock jumps.
    pub(super) fn bell() -> io::Result<OwnedFd> {
        let bell = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        let never = Itimerspec { it_interval: nothing, it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 } };
        match timerfd_settime(&bell, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never) {
            // Cancelled means that the clock jumped this very moment; it is armed all the same.
            Ok(_) | Err(Errno::CANCELED) => Ok(bell),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes note of a jump, so that the next one can be told from it.
    pub(super) fn quieten(bell: &OwnedFd) {
        // Whether this gives a number or "cancelled": it rang, and that is all there is to know.
        let _ = rustix::io::read(bell, &mut [0; 8]);
    }

    pub(super) fn read() -> Reading {
        let since_start = |clock| {
            let time = clock_gettime(clock);
            Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
        };
        Reading { monotonic: since_start(ClockId::Monotonic), boottime: since_start(ClockId::Boottime) }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use super::Reading;

    pub(super) fn bell() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn quieten(_bell: &OwnedFd) {}

    pub(super) fn read() -> Reading {
        Reading { monotonic: Duration::ZERO, boottime: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64, boottime_ms: u64) -> Reading {
        Reading { monotonic: Duration::from_millis(monotonic_ms), boottime: Duration::from_millis(boottime_ms) }
    }

    #[test]
    fn a_sleep_is_told_once() {
        let mut slept = Slept::since(at(1_000, 5_000));
        assert!(!slept.look(at(61_000, 65_000)), "awake for a minute");
        assert!(slept.look(at(62_000, 3_666_000)), "asleep for an hour");
        assert!(!slept.look(at(63_000, 3_667_000)), "that was told already");
        assert!(slept.look(at(64_000, 3_670_001)), "and again");
    }

    #[test]
    fn a_nap_is_no_sleep_and_naps_do_not_add_up() {
        let mut slept = Slept::since(at(0, 0));
        for look in 1..10 {
            assert!(!slept.look(at(look, look + 2_000 * look)));
        }
        assert!(slept.look(at(10, 9 * 2_000 + 10 + 2_001)));
    }

    #[test]
    fn a_wall_clock_that_was_set_is_no_sleep() {
        let mut slept = Slept::since(at(1_000, 1_000));
        assert!(!slept.look(at(1_001, 1_001)), "neither of the two is a wall clock");
    }

    #[test]
    fn a_container_whose_clock_was_set_back_sleeps_like_any_other() {
        let mut slept = Slept::since(at(100_000, 10_000));
        assert!(!slept.look(at(101_000, 11_000)));
        assert!(slept.look(at(102_000, 15_000)));
    }

    #[tokio::test]
    async fn the_real_bell_does_not_ring_while_nobody_sleeps() {
        let mut sleep = Sleep::watch().unwrap();
        let rang = tokio::time::timeout(Duration::from_millis(50), sleep.woken()).await;
        assert!(rang.is_err(), "nobody slept");
    }
}
