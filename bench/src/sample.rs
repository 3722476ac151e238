//! Measured durations and their percentiles.
//!
//! Percentiles use the nearest rank: each one is a measured duration, not an interpolated value.

use std::time::Duration;

/// One or more durations, sorted.
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// Sorts the durations. Returns `None` if there are none.
    pub(crate) fn try_new(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        (!durations.is_empty()).then_some(Self(durations))
    }

    /// Returns the percentile in microseconds, by nearest rank.
    pub(crate) fn percentile_us(&self, percent: u32) -> f64 {
        let rank = (self.0.len() * percent as usize).div_ceil(100).max(1);
        micros(self.0[rank - 1])
    }
}

/// Converts to microseconds with a fraction.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(micros: impl IntoIterator<Item = u64>) -> Sample {
        Sample::try_new(micros.into_iter().map(Duration::from_micros).collect()).unwrap()
    }

    #[test]
    fn percentiles_use_the_nearest_rank_in_any_order() {
        let hundred = sample((1..=100).rev());
        assert_eq!([50, 95, 99, 100].map(|p| hundred.percentile_us(p)), [50.0, 95.0, 99.0, 100.0]);
        let five = sample([30, 10, 50, 20, 40]);
        assert_eq!([1, 20, 21, 50, 95].map(|p| five.percentile_us(p)), [10.0, 10.0, 20.0, 30.0, 50.0]);
    }

    #[test]
    fn single_duration_is_every_percentile() {
        let one = sample([7]);
        assert_eq!([0, 1, 50, 100].map(|p| one.percentile_us(p)), [7.0; 4]);
    }

    #[test]
    fn empty_sample_is_refused() {
        assert!(Sample::try_new(Vec::new()).is_none());
    }
}
