//! Clocks that tell whether the machine has slept.
//!
//! Linux has two clocks that differ only in this: `CLOCK_BOOTTIME` includes the time asleep, `CLOCK_MONOTONIC` does
//! not. A timer tells when to compare them: it is set for a distant date, and the kernel cancels it whenever the wall
//! clock is set, which also happens on resume.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::raw;

/// Both clocks, read at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    pub(crate) monotonic: Duration,
    pub(crate) boottime: Duration,
}

impl Clocks {
    /// Returns how far the clock that includes sleep is ahead, in nanoseconds. Negative where a container has set it
    /// back.
    pub(crate) fn offset(self) -> i128 {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        nanos(self.boottime) - nanos(self.monotonic)
    }
}

/// Reads both clocks.
pub(crate) fn clocks() -> Clocks {
    Clocks { monotonic: since_start(ClockId::Monotonic), boottime: since_start(ClockId::Boottime) }
}

/// Returns the time since boot, including the time asleep.
pub(crate) fn since_boot() -> Duration {
    since_start(ClockId::Boottime)
}

fn since_start(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A watcher of the wall clock.
pub(crate) struct WallClock {
    timer: AsyncFd<OwnedFd>,
}

impl WallClock {
    /// Starts to watch. Must be called inside a tokio runtime.
    pub(crate) fn watch() -> io::Result<WallClock> {
        Ok(WallClock { timer: raw::watch(timer()?, Interest::READABLE)? })
    }

    /// Waits until the wall clock is set, which also happens when the machine resumes. Cancel-safe.
    pub(crate) async fn set(&self) {
        match self.timer.readable().await {
            Ok(mut ready) => {
                acknowledge(self.timer.get_ref());
                ready.clear_ready();
            }
            // The runtime is shutting down.
            Err(_) => pending().await,
        }
    }
}

/// In seconds since 1970: a few centuries from now.
const NEVER: i64 = 1 << 34;

/// Creates a timer that becomes readable whenever the wall clock is set.
fn timer() -> io::Result<OwnedFd> {
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
fn acknowledge(timer: &OwnedFd) {
    // The result is a number or `ECANCELED`; neither matters.
    let _ = rustix::io::read(timer, &mut [0; 8]);
}
