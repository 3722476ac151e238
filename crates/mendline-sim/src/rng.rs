//! The seeded random number generator of the simulation.
//!
//! The generator is implemented here (splitmix64 expands the seed, xoshiro256** draws), because a dependency that
//! changes its algorithm in a patch release would change the meaning of every recorded seed. [`Rng::fork`] gives each
//! part of the world its own generator, so that one more draw in a server does not change what the clients do.

/// A seeded generator. The same seed always yields the same numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates a generator for this seed.
    pub fn new(seed: u64) -> Rng {
        let mut spread = seed;
        Rng { state: std::array::from_fn(|_| splitmix(&mut spread)) }
    }

    /// Creates an independent generator for the part of the world that this label names.
    pub fn fork(&self, label: u64) -> Rng {
        let mut spread = self.state[0] ^ label.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Rng::new(splitmix(&mut spread))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let out = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        out
    }

    /// Returns a number below `end`; 0 for an empty range.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the multiplication is negligible here.
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns one of these items.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns a duration from `low` to `high` milliseconds, with microsecond resolution.
    pub fn millis(&mut self, low: u64, high: u64) -> std::time::Duration {
        std::time::Duration::from_micros(self.between(low * 1_000, high * 1_000))
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_yields_same_numbers() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn draws_from_a_fork_do_not_affect_other_forks() {
        let whole = Rng::new(3);
        let (mut left, mut right) = (whole.fork(1), whole.fork(2));
        let alone = whole.fork(2).next_u64();
        left.next_u64();
        assert_eq!(right.next_u64(), alone);
    }

    #[test]
    fn between_covers_its_range_evenly() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[rng.between(1, 6) as usize - 1] += 1;
        }
        assert!(seen.iter().all(|&times| (800..1_200).contains(&times)), "{seen:?}");
    }
}
