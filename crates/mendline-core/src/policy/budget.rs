//! The retry budget: it keeps retries from becoming the load.
//!
//! A bucket per upstream: each retry costs one, each success earns a tenth, and one is refilled every six seconds. In a
//! full outage, retries stop after the bucket instead of tripling the traffic. It counts successes and not calls, which
//! suits MCP's low rates.

use crate::defaults;
use crate::moment::Moment;

const WHOLE: u64 = 1000;

/// The bucket, in thousandths of a retry.
#[derive(Debug)]
pub struct Budget {
    milli: u64,
    refilled: Moment,
}

impl Budget {
    /// A full bucket.
    pub fn new(now: Moment) -> Self {
        Budget { milli: u64::from(defaults::BUDGET_BUCKET) * WHOLE, refilled: now }
    }

    /// Records a success.
    pub fn earn(&mut self) {
        self.add(u64::from(defaults::BUDGET_PER_SUCCESS_MILLI));
    }

    /// Takes one retry out, if there is one.
    pub fn try_spend(&mut self, now: Moment) -> bool {
        self.refill(now);
        if self.milli < WHOLE {
            return false;
        }
        self.milli -= WHOLE;
        true
    }

    fn refill(&mut self, now: Moment) {
        let step = defaults::BUDGET_REGROWTH.as_nanos() / u128::from(WHOLE);
        let grown = now.since(self.refilled).as_nanos() / step;
        if grown > 0 {
            self.add(u64::try_from(grown).unwrap_or(u64::MAX));
            // Only whole steps are credited; the remainder of the time is kept.
            self.refilled = Moment(self.refilled.0.saturating_add(u64::try_from(grown * step).unwrap_or(u64::MAX)));
        }
    }

    fn add(&mut self, milli: u64) {
        self.milli = self.milli.saturating_add(milli).min(u64::from(defaults::BUDGET_BUCKET) * WHOLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn outage_spends_the_bucket_then_one_retry_per_six_seconds() {
        let mut budget = Budget::new(Moment::ZERO);
        let spent = (0..100).filter(|_| budget.try_spend(Moment::ZERO)).count();
        assert_eq!(spent, 10);
        assert!(!budget.try_spend(Moment::ZERO + Duration::from_millis(5_999)));
        assert!(budget.try_spend(Moment::ZERO + Duration::from_millis(6_000)));
        assert!(!budget.try_spend(Moment::ZERO + Duration::from_millis(6_000)));
    }

    #[test]
    fn ten_successes_earn_one_retry() {
        let mut budget = Budget::new(Moment::ZERO);
        while budget.try_spend(Moment::ZERO) {}
        (0..9).for_each(|_| budget.earn());
        assert!(!budget.try_spend(Moment::ZERO));
        budget.earn();
        assert!(budget.try_spend(Moment::ZERO));
    }

    proptest! {
        #[test]
        fn retries_never_exceed_a_tenth_of_successes_plus_the_bucket_plus_time(steps in prop::collection::vec((0u64..2_000, any::<bool>()), 1..400)) {
            let mut budget = Budget::new(Moment::ZERO);
            let (mut now, mut spent, mut successes) = (Moment::ZERO, 0u64, 0u64);
            for (millis, success) in steps {
                now = now + Duration::from_millis(millis);
                if success {
                    budget.earn();
                    successes += 1;
                } else if budget.try_spend(now) {
                    spent += 1;
                }
                prop_assert!(spent * 1000 <= 10_000 + successes * 100 + now.0 / 6_000_000, "{spent} after {successes} and {now}");
            }
        }
    }
}
