//! The waits before redials and retries.
//!
//! Redials, retries and pauses use *equal jitter* (half of the delay is fixed, half is random): the fixed half bounds the
//! rate, the random half disperses clients. While a call waits, the longest delay of a redial is nearly fixed, so that
//! the end of an outage is found in time.

use std::time::Duration;

use crate::config::{Reconnect, Retry};
use crate::defaults;
use crate::rng::SeededRng;

/// The wait before redial number `attempt` of an incident, counted from 1.
pub fn redial(policy: &Reconnect, attempt: u32, called: bool, rng: &mut SeededRng) -> Duration {
    let steps = match policy.first {
        Some(first) if attempt <= 1 => return rng.between(Duration::ZERO, first),
        Some(_) => attempt - 2,
        None => attempt.saturating_sub(1),
    };
    let cap = if called { policy.cap_called.min(policy.cap_idle) } else { policy.cap_idle };
    let factor = policy.multiplier.max(1.0).powi(i32::try_from(steps).unwrap_or(i32::MAX));
    let delay = Duration::try_from_secs_f64(policy.initial.as_secs_f64() * factor).unwrap_or(cap).min(cap);
    // At the cap of a waiting call the delay varies by a sixth only.
    let least = if called && delay == defaults::RECONNECT_CAP_CALLED { delay * 5 / 6 } else { delay / 2 };
    rng.between(least, delay)
}

/// The wait before an unsent call is tried again on a link that stayed up, for the `times`th time. It costs no attempt,
/// so the default policy is the lower bound.
pub fn unsent(policy: &Reconnect, times: u32, rng: &mut SeededRng) -> Duration {
    redial(policy, times, true, rng).max(redial(&Reconnect::default(), times, true, rng))
}

/// The wait before a call is sent again as attempt number `attempt` (2 or more) on a link that stayed up.
pub fn retry(policy: &Retry, attempt: u32, rng: &mut SeededRng) -> Duration {
    let doublings = attempt.saturating_sub(2).min(16);
    let delay = policy.initial.saturating_mul(1 << doublings).min(policy.cap);
    rng.between(delay / 2, delay)
}

/// The pause of an overloaded server that names no time, after `pauses` others in a row.
pub fn overloaded(pauses: u32, rng: &mut SeededRng) -> Duration {
    let delay = (defaults::PAUSE_MIN * 2).saturating_mul(1 << pauses.min(16)).min(defaults::PAUSE_UNHINTED_CAP);
    rng.between(delay / 2, delay)
}

/// Returns the pause before a handshake's response is resumed for the `total`-th time. It doubles: a server that ends
/// every stream of a handshake must not be asked once a second for ever.
pub fn resumed_handshake(total: u32) -> Duration {
    let doubled = defaults::RESUME_WAIT.saturating_mul(2u32.saturating_pow(total.saturating_sub(1).min(16)));
    doubled.min(defaults::RECONNECT_CAP_IDLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unsent_call_backs_off_even_with_a_quick_policy() {
        let quick = Reconnect {
            first: None,
            initial: Duration::from_millis(50),
            multiplier: 1.0,
            cap_idle: Duration::from_secs(2),
            ..Reconnect::default()
        };
        let mut rng = SeededRng::new(1);
        let minute: Duration = (1..=36).map(|times| unsent(&quick, times, &mut rng)).sum();
        assert!(minute > Duration::from_secs(60), "36 tries within {minute:?}");
    }

    #[test]
    fn redial_delay_doubles_up_to_the_cap() {
        let policy = Reconnect::default();
        let mut rng = SeededRng::new(1);
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
                let delay = redial(&policy, attempt, false, &mut rng).as_millis();
                assert!((low..=high).contains(&delay), "attempt {attempt}: {delay} ms");
            }
        }
        for _ in 0..100 {
            let delay = redial(&policy, 1000, true, &mut rng).as_millis();
            assert!((2_000..=2_400).contains(&delay), "a waiting call lowers the cap");
        }
        let widest =
            |attempt, called, rng: &mut SeededRng| (0..100).map(|_| redial(&policy, attempt, called, rng)).min();
        assert!(widest(4, true, &mut rng) < Some(Duration::from_millis(500)), "below the cap the jitter is wide");
        let same = Reconnect { cap_idle: defaults::RECONNECT_CAP_CALLED, ..policy.clone() };
        let idle = (0..100).map(|_| redial(&same, 1000, false, &mut rng)).min();
        assert!(idle < Some(Duration::from_millis(1_500)), "without a waiting call the jitter is wide");
    }

    #[test]
    fn configured_first_delay_applies_to_the_first_redial() {
        let policy =
            Reconnect { first: None, initial: Duration::from_secs(2), multiplier: 1.5, ..Reconnect::default() };
        let mut rng = SeededRng::new(1);
        for (attempt, low, high) in [(1, 1_000, 2_000), (2, 1_500, 3_000), (3, 2_250, 4_500)] {
            for _ in 0..100 {
                let delay = redial(&policy, attempt, false, &mut rng).as_millis();
                assert!((low..=high).contains(&delay), "attempt {attempt}: {delay} ms");
            }
        }
    }

    proptest! {
        #[test]
        fn redial_delay_never_exceeds_the_cap(attempt in 0u32.., multiplier in -10.0f64..1e300, initial_ms in 0u64..10_000_000, seed: u64) {
            let policy = Reconnect { multiplier, initial: Duration::from_millis(initial_ms), ..Reconnect::default() };
            let delay = redial(&policy, attempt, false, &mut SeededRng::new(seed));
            prop_assert!(delay <= policy.cap_idle);
        }

        #[test]
        fn retry_delay_never_exceeds_the_cap(attempt in 0u32.., seed: u64) {
            prop_assert!(retry(&Retry::default(), attempt, &mut SeededRng::new(seed)) <= defaults::RETRY_CAP);
        }
    }
}
