//! How much memory unfinished bodies and events may take together.
//!
//! Each has its own limit, but a server may leave hundreds of them unfinished. So what all readers hold is summed up, and
//! when the sum comes near the limit, only the oldest of those that hold something is read on: it is the nearest to its
//! end, and room for the rest of it was kept free. When that does not help for a while, because its end does not come
//! either, the largest of them has to be given up.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long readers are held back before the largest is given up: time enough for the oldest to end over a slow line,
/// and less than any call's patience.
const STUCK: Duration = Duration::from_secs(10);

/// What readers hold.
pub(super) struct Budget {
    /// Those that hold something.
    held: BTreeMap<ExchangeId, usize>,
    sum: usize,
    limit: usize,
    /// What the oldest may still need.
    reserve: usize,
    /// When being held back has lasted too long.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Budget {
    /// For readers that hold at most so many bytes together, and one alone at most `reserve`.
    pub(super) fn new(limit: usize, reserve: usize) -> Budget {
        Budget { held: BTreeMap::new(), sum: 0, limit, reserve, stuck: None }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// How much is held in all.
    pub(super) fn held(&self) -> usize {
        self.sum
    }

    /// This exchange holds so much now.
    pub(super) fn note(&mut self, exchange: ExchangeId, held: usize) {
        let before = match held {
            0 => self.held.remove(&exchange),
            held => self.held.insert(exchange, held),
        };
        let before = before.unwrap_or(0);
        self.sum = self.sum - before + held;
        if held < before {
            // Something has moved, so that nothing is stuck.
            self.stuck = None;
        }
    }

    /// Whether this exchange may be read on.
    pub(super) fn may_read(&self, exchange: ExchangeId) -> bool {
        self.is_roomy() || self.held.first_key_value().is_none_or(|(oldest, _)| *oldest == exchange)
    }

    /// The exchange that holds the most.
    pub(super) fn largest(&self) -> Option<ExchangeId> {
        self.held.iter().max_by_key(|(_, held)| **held).map(|(exchange, _)| *exchange)
    }

    /// Whether readers have been held back for too long. `any_starved`: whether any is held back now.
    pub(super) fn poll_stuck(&mut self, any_starved: bool, cx: &mut Context<'_>) -> bool {
        if !any_starved {
            self.stuck = None;
            return false;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + STUCK)));
        let is_over = stuck.as_mut().poll(cx).is_ready();
        if is_over {
            self.stuck = None;
        }
        is_over
    }

    fn is_roomy(&self) -> bool {
        self.sum.saturating_add(self.reserve) <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s05_only_the_oldest_is_read_when_room_is_short() {
        let mut budget = Budget::new(100, 20);
        let [one, two, three] = [1, 2, 3].map(ExchangeId);
        budget.note(two, 40);
        budget.note(three, 40);
        assert!([one, two, three].iter().all(|id| budget.may_read(*id)));
        budget.note(three, 41);
        assert_eq!([one, two, three].map(|id| budget.may_read(id)), [false, true, false]);
        assert_eq!((budget.held(), budget.largest()), (81, Some(three)));
        budget.note(two, 0);
        assert!([one, two, three].iter().all(|id| budget.may_read(*id)));
        budget.set_limit(0);
        assert_eq!([one, two, three].map(|id| budget.may_read(id)), [false, false, true]);
        budget.note(three, 0);
        assert!([one, two, three].iter().all(|id| budget.may_read(*id)), "one at a time always goes on");
    }
}
