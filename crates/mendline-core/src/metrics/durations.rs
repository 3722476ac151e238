//! Durations in the buckets of the MCP conventions of OpenTelemetry.

use std::time::Duration;

/// The upper bounds of the buckets in milliseconds: those that the conventions advise for MCP.
pub const BOUNDS: [u64; 14] =
    [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000];

/// A histogram of durations. Unlike [`Histogram`](crate::histogram::Histogram), which gives percentiles to people, its
/// buckets are those that a monitoring system expects to stay the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// The durations up to each bound and above the one before; the last bucket has those above all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

impl Durations {
    /// Records a duration.
    pub fn note(&mut self, took: Duration) {
        let bucket = BOUNDS.iter().position(|bound| took <= Duration::from_millis(*bound)).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_falls_into_the_bucket_of_its_upper_bound() {
        let mut durations = Durations::default();
        for millis in [0, 10, 11, 300_000, 300_001] {
            durations.note(Duration::from_millis(millis));
        }
        assert_eq!((durations.buckets[0], durations.buckets[1]), (2, 1));
        assert_eq!((durations.buckets[13], durations.buckets[14]), (1, 1));
        assert_eq!((durations.count(), durations.sum), (5, Duration::from_millis(600_022)));
    }
}
