//! The rate limit.
//!
//! The *generic cell rate algorithm*: instead of a bucket it stores the time at which the next call is due if all calls
//! are evenly spaced. A call may be earlier by as much as the burst allows. It needs no timer and no refill, and it
//! knows exactly when the n-th call from now may be sent, which becomes the retry hint of a rejected call.
//!
//! Every attempt of a client's call counts, retries included: the server sees no difference. Internal requests
//! (handshakes, pings, lists after an outage) do not count: they are few and have limits of their own, and calls must
//! not delay the handshake that they wait for.

use crate::config::RateLimit;
use crate::moment::Moment;
use crate::reason::RefusalReason;

/// The rate limit.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The interval of evenly spaced calls, in nanoseconds.
    interval: u64,
    /// The time by which a call may be early, in nanoseconds.
    tolerance: u64,
    /// The time at which the next evenly spaced call is due.
    due: Moment,
    policy: RateLimit,
    /// It is that of one tool.
    is_of_tool: bool,
}

impl Limit {
    /// An unused limit.
    pub fn new(policy: RateLimit) -> Limit {
        let per_second = if policy.per_second > 0.0 { policy.per_second } else { f64::MIN_POSITIVE };
        // Rounded up: never above the limit. A float that is too large saturates.
        let interval = ((1e9 / per_second).ceil() as u64).max(1);
        let tolerance = interval.saturating_mul(u64::from(policy.burst.max(1)) - 1);
        Limit { interval, tolerance, due: Moment::ZERO, policy, is_of_tool: false }
    }

    /// The limit of one tool.
    pub fn of_tool(self) -> Limit {
        Limit { is_of_tool: true, ..self }
    }

    /// The time at which a call may be sent that has `ahead` others before it.
    pub fn slot_after(&self, ahead: usize, now: Moment) -> Moment {
        let before = self.interval.saturating_mul(u64::try_from(ahead).unwrap_or(u64::MAX));
        let due = self.due.max(now).0.saturating_add(before);
        Moment(due.saturating_sub(self.tolerance)).max(now)
    }

    /// Takes a slot if one is free now.
    pub fn try_take(&mut self, now: Moment) -> bool {
        let may_go = self.slot_after(0, now) <= now;
        if may_go {
            self.due = Moment(self.due.max(now).0.saturating_add(self.interval));
        }
        may_go
    }

    /// Returns the reason for the wait.
    pub fn reason(&self) -> RefusalReason {
        let RateLimit { burst, per_second } = self.policy;
        RefusalReason::RateLimit { burst, per_second, of_tool: self.is_of_tool }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_passes_at_once_then_one_call_per_interval() {
        let mut limit = Limit::new(RateLimit { burst: 3, per_second: 2.0 });
        let mut now = Moment::ZERO + Duration::from_secs(100);
        assert_eq!((0..10).filter(|_| limit.try_take(now)).count(), 3);
        assert_eq!(limit.slot_after(0, now), now + Duration::from_millis(500));
        assert_eq!(limit.slot_after(3, now), now + Duration::from_secs(2), "three others go first");
        now = now + Duration::from_millis(499);
        assert!(!limit.try_take(now));
        now = now + Duration::from_millis(1);
        assert!(limit.try_take(now) && !limit.try_take(now));
        now = now + Duration::from_secs(60);
        assert_eq!((0..10).filter(|_| limit.try_take(now)).count(), 3, "a pause earns no more than the burst");
    }

    #[test]
    fn invalid_rate_is_slow_and_not_unlimited() {
        for per_second in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE, f64::INFINITY] {
            let mut limit = Limit::new(RateLimit { burst: 0, per_second });
            assert!(limit.try_take(Moment::ZERO), "{per_second}");
            assert!(!limit.try_take(Moment::ZERO), "{per_second}");
        }
    }

    #[test]
    fn rate_limit_reason_uses_readable_units() {
        let words = |burst, per_second| Limit::new(RateLimit { burst, per_second }).reason().to_string();
        assert_eq!(words(10, 10.0), "the configured limit is 10 calls a second, 10 at once");
        assert_eq!(words(1, 0.1), "the configured limit is one call in 10 s, 1 at once");
        let of_tool = Limit::new(RateLimit { burst: 2, per_second: 2.0 }).of_tool().reason().to_string();
        assert_eq!(of_tool, "the configured limit of this tool is 2 calls a second, 2 at once");
    }

    proptest! {
        #[test]
        fn no_interval_exceeds_burst_plus_rate(
            burst in 1u32..20,
            per_second in 0.2f64..50.0,
            steps in prop::collection::vec(0u64..700, 1..300),
        ) {
            let mut limit = Limit::new(RateLimit { burst, per_second });
            let (mut now, mut went) = (Moment::ZERO, Vec::new());
            for millis in steps {
                now = now + Duration::from_millis(millis);
                let promised = limit.slot_after(0, now);
                let goes = limit.try_take(now);
                prop_assert_eq!(goes, promised <= now);
                if goes {
                    went.push(now);
                }
            }
            for (first, from) in went.iter().enumerate() {
                for (last, to) in went.iter().enumerate().skip(first) {
                    let allowed = f64::from(burst) + per_second * to.since(*from).as_secs_f64();
                    prop_assert!((last - first + 1) as f64 <= allowed + 1e-6, "{} calls, {allowed}", last - first + 1);
                }
            }
        }

        #[test]
        fn announced_slot_is_the_actual_slot(burst in 1u32..10, per_second in 0.5f64..20.0, ahead in 0usize..30) {
            let mut limit = Limit::new(RateLimit { burst, per_second });
            let promised = limit.slot_after(ahead, Moment::ZERO);
            let mut now = Moment::ZERO;
            for _ in 0..=ahead {
                now = limit.slot_after(0, now);
                prop_assert!(limit.try_take(now));
            }
            prop_assert_eq!(now, promised);
        }
    }
}
