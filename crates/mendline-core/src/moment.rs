//! Points in time.
//!
//! A [`Moment`] is a number of nanoseconds since an origin that only the shell knows: a monotonic clock in production,
//! a counter in the simulation. The core compares and adds; it never reads a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time on the shell's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The start of the shell's clock.
    pub const ZERO: Moment = Moment(0);

    /// The time since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, later: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1000)
    }
}
