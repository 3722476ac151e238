//! A histogram of durations with little memory and a known error.
//!
//! A value falls into one of a fixed number of buckets. Up to sixteen microseconds each has its own; above, each power
//! of two is cut into sixteen equal parts. A bucket is at most a sixteenth of its lower end wide, so its middle is
//! within 3.2 % of each value in it. Two KiB cover a microsecond to more than an hour, and recording a value is one
//! shift and one addition.

use std::time::Duration;

/// The parts of a power of two, as a power of two.
const PARTS: u32 = 4;

/// The longest distinct duration: 2^32 microseconds, more than an hour.
const LONGEST: u32 = 32;

const BUCKETS: usize = ((LONGEST - PARTS + 1) << PARTS) as usize;

/// A histogram of durations.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u32; BUCKETS],
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: [0; BUCKETS], count: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram of {}", self.count)
    }
}

impl Histogram {
    /// Records a duration.
    pub fn note(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = &mut self.counts[bucket_of(micros)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The percentile `share` of 1,000; `None` without durations.
    pub fn per_mille(&self, share: u64) -> Option<Duration> {
        // A full bucket counts no further, so the rank is that of the counted ones.
        let known: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (known * share).div_ceil(1_000).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        Some(Duration::from_micros(middle_of(bucket)))
    }
}

fn bucket_of(micros: u64) -> usize {
    let micros = micros.min((1 << LONGEST) - 1);
    if micros < 1 << PARTS {
        return micros as usize;
    }
    let power = micros.ilog2() - PARTS;
    // The leading one is at bit PARTS after the shift, so buckets are contiguous.
    ((u64::from(power) << PARTS) + (micros >> power)) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let (bucket, parts) = (bucket as u64, 1 << PARTS);
    if bucket < parts {
        return bucket;
    }
    let power = bucket / parts - 1;
    let lower = (bucket - power * parts) << power;
    lower + ((1 << power) - 1) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The exact percentile of a sorted list, by the same rank.
    fn truth(sorted: &[u64], share: u64) -> u64 {
        let rank = (sorted.len() as u64 * share).div_ceil(1_000).max(1);
        sorted[usize::try_from(rank).unwrap() - 1]
    }

    proptest! {
        #[test]
        fn every_percentile_is_within_five_percent(
            mut values in proptest::collection::vec(
                prop_oneof![0u64..100, 0u64..1_000_000, 0u64..4_000_000_000], 1..500,
            ),
            share in 1u64..=1_000,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|micros| histogram.note(Duration::from_micros(*micros)));
            values.sort_unstable();
            let (said, truth) = (histogram.per_mille(share).unwrap().as_micros() as f64, truth(&values, share) as f64);
            prop_assert!((said - truth).abs() <= truth * 0.05, "said {said}, is {truth}");
        }

        #[test]
        fn middle_of_a_bucket_lies_in_the_bucket(micros in 0u64..(1 << LONGEST)) {
            let bucket = bucket_of(micros);
            prop_assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
    }

    #[test]
    fn every_duration_has_exactly_one_bucket() {
        let mut histogram = Histogram::default();
        histogram.note(Duration::ZERO);
        histogram.note(Duration::MAX);
        assert_eq!((histogram.counts[0], histogram.counts[BUCKETS - 1], histogram.count()), (1, 1, 2));
        assert!(size_of::<Histogram>() <= 2 * 1024, "{} bytes", size_of::<Histogram>());
    }

    #[test]
    fn empty_histogram_has_no_percentile() {
        assert_eq!(Histogram::default().per_mille(500), None);
    }
}
