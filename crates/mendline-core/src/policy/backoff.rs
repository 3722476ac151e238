//! How long to wait before the next try.
//!
//! Redials use *equal jitter* (half of the delay is certain, half is chance): the certain half is a floor that bounds the
//! dial rate, the chance disperses a herd. Calls that are sent again use *full jitter*: the link is up, so there is no floor
//! to keep, and dispersion is all that counts.

use std::time::Duration;

use crate::config::Reconnect;
use crate::defaults;
use crate::dice::Dice;

/// The wait before redial number `attempt` of an incident, counted from 1.
pub fn redial(policy: &Reconnect, attempt: u32, called: bool, dice: &mut Dice) -> Duration {
    if attempt <= 1 {
        return dice.between(Duration::ZERO, policy.first);
    }
    let cap = if called { policy.cap_called.min(policy.cap_idle) } else { policy.cap_idle };
    let factor = policy.multiplier.max(1.0).powi(i32::try_from(attempt - 2).unwrap_or(i32::MAX));
    let delay = Duration::try_from_secs_f64(policy.initial.as_secs_f64() * factor).unwrap_or(cap).min(cap);
    dice.between(delay / 2, delay)
}

/// The wait before a call is sent again as attempt number `attempt` (2 or more) on a link that stayed up.
pub fn retry(attempt: u32, dice: &mut Dice) -> Duration {
    let doublings = attempt.saturating_sub(2).min(16);
    let delay = defaults::RETRY_INITIAL.saturating_mul(1 << doublings).min(defaults::RETRY_CAP);
    dice.between(Duration::ZERO, delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_redial_is_quick_and_later_ones_double_up_to_the_cap() {
        let policy = Reconnect::default();
        let mut dice = Dice::new(1);
        for (attempt, low, high) in [
            (1, 0, 200),
            (2, 100, 200),
            (3, 200, 400),
            (4, 400, 800),
            (9, 12_800, 25_600),
            (10, 15_000, 30_000),
            (1000, 15_000, 30_000),
        ] {
            for _ in 0..100 {
                let delay = redial(&policy, attempt, false, &mut dice).as_millis();
                assert!((low..=high).contains(&delay), "attempt {attempt}: {delay} ms");
            }
        }
        for _ in 0..100 {
            let delay = redial(&policy, 1000, true, &mut dice).as_millis();
            assert!((2_500..=5_000).contains(&delay), "a waiting call lowers the cap");
        }
    }

    proptest! {
        #[test]
        fn no_policy_can_make_a_delay_longer_than_its_cap(attempt in 0u32.., multiplier in -10.0f64..1e300, initial_ms in 0u64..10_000_000, seed: u64) {
            let policy = Reconnect { multiplier, initial: Duration::from_millis(initial_ms), ..Reconnect::default() };
            let delay = redial(&policy, attempt, false, &mut Dice::new(seed));
            prop_assert!(delay <= policy.cap_idle);
        }

        #[test]
        fn a_retry_never_waits_longer_than_its_cap(attempt in 0u32.., seed: u64) {
            prop_assert!(retry(attempt, &mut Dice::new(seed)) <= defaults::RETRY_CAP);
        }
    }
}
