//! The memory budget of unfinished bodies and events.
//!
//! Each body has its own limit, but a server may leave hundreds of them unfinished. So the buffered bytes of all
//! readers are summed up. When the sum nears the limit, only the oldest exchange with buffered bytes is read: it is the
//! nearest to its end, and the budget reserves memory for the rest of it. If no buffer shrinks for a while, the largest
//! one is given up.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use tokio::time::{Instant, Sleep, sleep_until};

/// The time that readers are held back before the largest is given up: enough for the oldest to end over a slow
/// connection, and shorter than the timeout of a call.
const STUCK: Duration = Duration::from_secs(10);

/// The buffered bytes of all readers.
pub(super) struct Budget {
    /// Exchanges with buffered bytes.
    held: BTreeMap<ExchangeId, usize>,
    sum: usize,
    limit: usize,
    /// The memory that the oldest may still need.
    reserve: usize,
    /// Ends when readers have been held back too long.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Budget {
    /// Creates a budget of `limit` bytes for all readers, of which one alone needs at most `reserve`.
    pub(super) fn new(limit: usize, reserve: usize) -> Budget {
        Budget { held: BTreeMap::new(), sum: 0, limit, reserve, stuck: None }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the number of buffered bytes.
    pub(super) fn held(&self) -> usize {
        self.sum
    }

    /// Records the number of buffered bytes of an exchange.
    pub(super) fn update(&mut self, exchange: ExchangeId, held: usize) {
        let before = match held {
            0 => self.held.remove(&exchange),
            held => self.held.insert(exchange, held),
        };
        let before = before.unwrap_or(0);
        self.sum = self.sum - before + held;
        if held < before {
            // A buffer shrank, so nothing is stuck.
            self.stuck = None;
        }
    }

    /// Returns whether this exchange may be read.
    pub(super) fn may_read(&self, exchange: ExchangeId) -> bool {
        self.has_room() || self.held.first_key_value().is_none_or(|(oldest, _)| *oldest == exchange)
    }

    /// Returns the exchange with the largest buffer.
    pub(super) fn largest(&self) -> Option<ExchangeId> {
        self.held.iter().max_by_key(|(_, held)| **held).map(|(exchange, _)| *exchange)
    }

    /// Returns whether readers have been held back too long. `any_starved` tells whether any is held back now.
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

    fn has_room(&self) -> bool {
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
        budget.update(two, 40);
        budget.update(three, 40);
        assert!([one, two, three].iter().all(|id| budget.may_read(*id)));
        budget.update(three, 41);
        assert_eq!([one, two, three].map(|id| budget.may_read(id)), [false, true, false]);
        assert_eq!((budget.held(), budget.largest()), (81, Some(three)));
        budget.update(two, 0);
        assert!([one, two, three].iter().all(|id| budget.may_read(*id)));
        budget.set_limit(0);
        assert_eq!([one, two, three].map(|id| budget.may_read(id)), [false, false, true]);
        budget.update(three, 0);
        assert!([one, two, three].iter().all(|id| budget.may_read(*id)), "one at a time always goes on");
    }
}
