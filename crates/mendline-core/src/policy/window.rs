//! What share of the calls of the last while went well?
//!
//! The time is cut into slices, and each slice only counts; so a call costs the same however many there were before it, and
//! nothing is kept per call. What is older than the window is never counted, what is younger than the window less one slice
//! always is. A slice is found again by its number since the beginning of time, so that one that has not been touched for a
//! whole turn of the ring is known to be old without anybody having cleared it.

use std::time::Duration;

use crate::moment::Moment;

/// Into how many slices a window is cut: a tenth of it is as exact as a share of ten calls needs.
const SLICES: usize = 10;

/// The calls of the last while, counted.
#[derive(Clone, Debug)]
pub struct Window {
    /// How long a slice is, in nanoseconds.
    slice: u64,
    slices: [Slice; SLICES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    counts: Counts,
}

/// So many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that went well.
    pub successes: u32,
    /// Calls that did not.
    pub failures: u32,
}

impl Counts {
    /// All of them.
    pub fn calls(self) -> u32 {
        self.successes.saturating_add(self.failures)
    }

    /// Did fewer than this share go well? Of no calls nothing can be said.
    pub fn is_below(self, share: f64) -> bool {
        self.calls() > 0 && f64::from(self.successes) < share * f64::from(self.calls())
    }
}

impl Window {
    /// A window of this length in which nothing has happened yet.
    pub fn new(length: Duration) -> Window {
        let slice = u64::try_from(length.as_nanos() / SLICES as u128).unwrap_or(u64::MAX).max(1);
        Window { slice, slices: [Slice::default(); SLICES] }
    }

    /// A call went well.
    pub fn note_success(&mut self, now: Moment) {
        let counts = self.current(now);
        counts.successes = counts.successes.saturating_add(1);
    }

    /// A call did not.
    pub fn note_failure(&mut self, now: Moment) {
        let counts = self.current(now);
        counts.failures = counts.failures.saturating_add(1);
    }

    /// What is in it now.
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
        assert_eq!(window.counts(at(31)), Counts { successes: 1, failures: 0 }, "what is old is gone though nobody came");
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
