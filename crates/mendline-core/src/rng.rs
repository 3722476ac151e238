//! The seeded random number generator.
//!
//! Jitter is random, and a simulation must be repeatable. So the shell provides a seed, and all randomness in the core
//! comes from this one generator (SplitMix64: small, well mixed, and not for secrets).

use std::time::Duration;

/// A seeded random number generator.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Creates a generator. The same seed gives the same values.
    pub fn new(seed: u64) -> Self {
        SeededRng(seed)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A duration between `low` and `high`, both included.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_nanos();
        // Scaling by multiplication: its bias is negligible for jitter.
        let part = (u128::from(self.next_u64()) * (span + 1)) >> 64;
        low + Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_values_within_bounds() {
        let (mut a, mut b) = (SeededRng::new(7), SeededRng::new(7));
        let (low, high) = (Duration::from_millis(100), Duration::from_millis(200));
        for _ in 0..1000 {
            let drawn = a.between(low, high);
            assert_eq!(drawn, b.between(low, high));
            assert!((low..=high).contains(&drawn));
        }
        assert_eq!(a.between(low, low), low);
    }
}
