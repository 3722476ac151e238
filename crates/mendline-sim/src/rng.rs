//! Where every choice of a simulated world comes from.
//!
//! A generator of our own (splitmix64 to spread the seed, xoshiro256** to roll), because a dependency that changes its
//! algorithm in a patch release would silently turn every recorded seed into another world. [`Dice::fork`] gives each part
//! of the world its own dice, so that one more roll in a server does not change what the clients do.

/// Seeded dice. The same seed rolls the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Dice for this seed.
    pub fn new(seed: u64) -> Rng {
        let mut spread = seed;
        Rng { state: std::array::from_fn(|_| splitmix(&mut spread)) }
    }

    /// Dice of their own for a part of the world that this label names.
    pub fn fork(&self, label: u64) -> Rng {
        let mut spread = self.state[0] ^ label.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Rng::new(splitmix(&mut spread))
    }

    /// The next 64 bits.
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

    /// A number below `end`; 0 for an empty range, so that no caller has to think about it.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the multiplication is far below anything that a world could notice.
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A span of milliseconds from `low` to `high`, to the microsecond.
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
    fn the_same_seed_rolls_the_same_numbers_and_another_seed_others() {
        let rolls = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
    }

    #[test]
    fn a_roll_in_a_fork_leaves_the_other_dice_alone() {
        let whole = Rng::new(3);
        let (mut left, mut right) = (whole.fork(1), whole.fork(2));
        let alone = whole.fork(2).next_u64();
        left.next_u64();
        assert_eq!(right.next_u64(), alone);
    }

    #[test]
    fn every_face_of_a_small_die_comes_up_and_no_other() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[rng.between(1, 6) as usize - 1] += 1;
        }
        assert!(seen.iter().all(|&times| (800..1_200).contains(&times)), "{seen:?}");
    }
}
