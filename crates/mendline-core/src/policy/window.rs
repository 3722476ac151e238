//! A sliding window of successes and failures.
//!
//! Time is cut into slices that only count, so the cost per call is constant and nothing is stored per call. Calls
//! older than the window are never counted; calls younger than the window less one slice always are. A slice stores its
//! number since time zero, so an outdated slice is recognised without a cleanup.

use std::time::Duration;

use crate::moment::Moment;

/// The number of slices: a tenth of the window is precise enough for a rate of ten calls.
const SLICES: usize = 10;

/// A sliding window.
#[derive(Clone, Debug)]
pub struct Window {
    /// The length of a slice, in nanoseconds.
    slice: u64,
    slices: [Slice; SLICES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    counts: Counts,
}

/// The number of successes and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successful calls.
    pub successes: u32,
    /// Failed calls.
    pub failures: u32,
}

impl Counts {
    /// All calls.
    pub fn calls(self) -> u32 {
        self.successes.saturating_add(self.failures)
    }

    /// Returns whether the success rate is below `share`; false without calls.
    pub fn is_below(self, share: f64) -> bool {
        self.calls() > 0 && f64::from(self.successes) < share * f64::from(self.calls())
    }
}

impl Window {
    /// An empty window of this length.
    pub fn new(length: Duration) -> Window {
        let slice = u64::try_from(length.as_nanos() / SLICES as u128).unwrap_or(u64::MAX).max(1);
        Window { slice, slices: [Slice::default(); SLICES] }
    }

    /// Records a success.
    pub fn note_success(&mut self, now: Moment) {
        let counts = self.current(now);
        counts.successes = counts.successes.saturating_add(1);
    }

    /// Records a failure.
    pub fn note_failure(&mut self, now: Moment) {
        let counts = self.current(now);
        counts.failures = counts.failures.saturating_add(1);
    }

    /// The counts of the window.
    pub fn counts(&self, now: Moment) -> Counts {
        let number = now.0 / self.slice;
        let young = self.slices.iter().filter(|slice| slice.number.saturating_add(SLICES as u64) > number);
        young.fold(Counts::default(), |sum, slice| Counts {
            successes: sum.successes.saturating_add(slice.counts.successes),
            failures: sum.failures.saturating_add(slice.counts.failures),
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slices = [Slice::default(); SLICES];
    }

    fn current(&mut self, now: Moment) -> &mut Counts {
        let number = now.0 / self.slice;
        let slice = &mut self.slices[(number % SLICES as u64) as usize];
        if slice.number != number {
            *slice = Slice { number, counts: Counts::default() };
        }
        &mut slice.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: Duration = Duration::from_secs(30);

    #[test]
    fn window_slides() {
        let mut window = Window::new(LENGTH);
        let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
        window.note_failure(at(1));
        window.note_success(at(20));
        assert_eq!(window.counts(at(26)), Counts { successes: 1, failures: 1 });
        assert_eq!(window.counts(at(31)), Counts { successes: 1, failures: 0 }, "old calls expire without new ones");
        assert_eq!(window.counts(at(1_000)), Counts::default());
        window.note_success(at(1_000));
        window.clear();
        assert_eq!(window.counts(at(1_000)), Counts::default());
    }

    #[test]
    fn empty_window_is_not_below_any_share() {
        assert!(!Counts::default().is_below(1.0));
        assert!(Counts { successes: 4, failures: 6 }.is_below(0.5));
        assert!(!Counts { successes: 5, failures: 5 }.is_below(0.5), "half is not less than half");
    }

    proptest! {
        #[test]
        fn window_counts_exactly_the_recent_calls_within_one_slice(
            steps in prop::collection::vec((0u64..9_000, any::<bool>()), 1..300),
            length_ms in 1u64..60_000,
        ) {
            let length = Duration::from_millis(length_ms);
            let mut window = Window::new(length);
            let (mut now, mut seen) = (Moment::ZERO, Vec::new());
            for (millis, success) in steps {
                now = now + Duration::from_millis(millis);
                if success { window.note_success(now) } else { window.note_failure(now) }
                seen.push((now, success));
                let within = |age: Duration, what: bool| {
                    seen.iter().filter(|(at, success)| *success == what && now.since(*at) < age).count() as u32
                };
                let counts = window.counts(now);
                let slice = length / SLICES as u32;
                prop_assert!(counts.successes <= within(length, true) && counts.failures <= within(length, false));
                prop_assert!(counts.successes >= within(length - slice, true));
                prop_assert!(counts.failures >= within(length - slice, false));
            }
        }
    }
}
