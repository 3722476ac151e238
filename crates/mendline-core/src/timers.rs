//! The timers of the engine.
//!
//! One heap for the whole engine. Cancelling is lazy: the entry stays in the heap and is skipped when it comes up.
//! Calls live milliseconds and their deadlines minutes, so disarmed entries soon outnumber armed ones; then the heap is
//! rebuilt, at a constant amortised cost per timer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::moment::Moment;
use crate::slab::{Key, Slab};

/// The id of an armed timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(Key);

/// The armed timers, each with its purpose.
#[derive(Debug)]
pub struct Timers<A> {
    heap: BinaryHeap<Reverse<(Moment, Key)>>,
    armed: Slab<A>,
}

impl<A> Default for Timers<A> {
    fn default() -> Self {
        Timers { heap: BinaryHeap::new(), armed: Slab::default() }
    }
}

impl<A> Timers<A> {
    /// Arms a timer. `None` when tens of thousands are armed already, which the limits on calls rule out.
    pub fn arm(&mut self, at: Moment, alarm: A) -> Option<TimerId> {
        let key = self.armed.insert(alarm)?;
        self.heap.push(Reverse((at, key)));
        Some(TimerId(key))
    }

    /// Disarms a timer. A timer that has fired is ignored.
    pub fn disarm(&mut self, timer: TimerId) {
        self.armed.remove(timer.0);
        if self.heap.len() > 64 && self.heap.len() > 2 * self.armed.len() {
            let armed = &self.armed;
            self.heap.retain(|Reverse((_, key))| armed.get(*key).is_some());
        }
        self.drop_disarmed();
    }

    /// Disarms all timers with such a purpose.
    pub fn disarm_where(&mut self, is_over: impl Fn(&A) -> bool) {
        let over: Vec<Key> = self.armed.iter().filter(|(_, alarm)| is_over(alarm)).map(|(key, _)| key).collect();
        over.into_iter().for_each(|key| self.disarm(TimerId(key)));
    }

    /// The time of the next timer.
    pub fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the next timer that is due.
    pub fn take_due(&mut self, now: Moment) -> Option<A> {
        let Reverse((at, key)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        let alarm = self.armed.remove(key);
        self.drop_disarmed();
        alarm
    }

    /// Removes disarmed entries from the top of the heap.
    fn drop_disarmed(&mut self) {
        while let Some(Reverse((_, key))) = self.heap.peek()
            && self.armed.get(*key).is_none()
        {
            self.heap.pop();
        }
    }

    /// The number of armed timers.
    pub fn len(&self) -> usize {
        self.armed.len()
    }

    #[cfg(test)]
    fn stored(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_only_when_due() {
        let mut timers = Timers::default();
        timers.arm(Moment(30), 'c');
        timers.arm(Moment(10), 'a');
        let gone = timers.arm(Moment(5), 'x').unwrap();
        timers.arm(Moment(20), 'b');
        timers.disarm(gone);
        assert_eq!(timers.next(), Some(Moment(10)));
        assert_eq!(timers.take_due(Moment(9)), None);
        assert_eq!(timers.take_due(Moment(20)), Some('a'));
        assert_eq!(timers.take_due(Moment(20)), Some('b'));
        assert_eq!(timers.take_due(Moment(20)), None);
        assert_eq!((timers.next(), timers.len()), (Some(Moment(30)), 1));
    }

    #[test]
    fn timers_of_one_purpose_are_disarmed_together() {
        let mut timers = Timers::default();
        for at in 0..100 {
            timers.arm(Moment(at), at % 2);
        }
        timers.disarm_where(|alarm| *alarm == 0);
        assert_eq!((timers.len(), timers.next()), (50, Some(Moment(1))));
    }

    #[test]
    fn heap_stays_small_after_a_million_short_calls() {
        let mut timers = Timers::default();
        for n in 0..1_000_000u64 {
            let timer = timers.arm(Moment(n + 300_000_000_000), ()).unwrap();
            timers.disarm(timer);
            assert!(timers.stored() <= 65);
        }
    }
}
