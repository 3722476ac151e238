//! The calls of an upstream, and the queue of those that wait.
//!
//! A waiting call is in the queue, oldest first, and a call that is not waiting is not: the state of a call and the
//! queue change together, here and nowhere else.

use std::collections::VecDeque;

use super::call::{Call, Owner, State};
use super::internal::InternalRequest;
use crate::moment::Moment;
use crate::slab::{Key, Slab};

/// The calls that are accepted and not answered, and the internal requests.
#[derive(Debug, Default)]
pub struct CallTable {
    calls: Slab<Call>,
    /// The number of internal requests.
    internal: usize,
    /// Open subscriptions, in any state.
    subscriptions: usize,
    /// Calls in `State::Waiting`, oldest first.
    waiting: VecDeque<Key>,
}

impl CallTable {
    /// Adds a client's call and numbers it. It is not in the queue yet. `accepted` is the number of accepted calls of
    /// all upstreams: a number means one call in the whole process.
    pub fn accept(&mut self, mut call: Call, accepted: &mut u64) -> Option<Key> {
        call.name = *accepted + 1;
        let is_subscription = call.is_subscription();
        let key = self.calls.insert(call)?;
        *accepted += 1;
        self.subscriptions += usize::from(is_subscription);
        Some(key)
    }

    /// Adds an internal request.
    pub fn add_internal(&mut self, call: Call) -> Option<Key> {
        let key = self.calls.insert(call)?;
        self.internal += 1;
        Some(key)
    }

    /// Makes a client's call an internal request: the client has an answer already.
    pub fn make_internal(&mut self, key: Key, purpose: InternalRequest) {
        if let Some(call) = self.calls.get_mut(key) {
            self.internal += usize::from(matches!(call.owner, Owner::Client { .. }));
            call.owner = Owner::Us(purpose);
        }
    }

    /// Removes a call, from the queue too.
    pub fn remove(&mut self, key: Key) -> Option<Call> {
        let call = self.calls.remove(key)?;
        self.internal -= usize::from(matches!(call.owner, Owner::Us(_)));
        self.subscriptions -= usize::from(call.is_subscription());
        if let State::Waiting { .. } = call.state {
            self.leave_queue(key);
        }
        Some(call)
    }

    /// The call of this key.
    pub fn get(&self, key: Key) -> Option<&Call> {
        self.calls.get(key)
    }

    /// The call of this key, mutable. Its state changes by [`CallTable::wait`] and [`CallTable::queue`], or when it is
    /// sent.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Call> {
        self.calls.get_mut(key)
    }

    /// Gives a call a new key, so that a late answer to a lost attempt is not taken for that of the next one.
    pub fn rename(&mut self, key: Key) -> Option<Key> {
        self.calls.rename(key)
    }

    /// Returns whether this key was ever issued.
    pub fn was_issued(&self, key: Key) -> bool {
        self.calls.was_issued(key)
    }

    /// All calls and internal requests.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Call)> {
        self.calls.iter()
    }

    /// All keys, oldest first.
    pub fn keys_by_age(&self) -> Vec<Key> {
        self.calls.keys_by_age()
    }

    /// The number of calls and internal requests.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether there is neither a call nor an internal request.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The number of clients' calls.
    pub fn of_clients(&self) -> usize {
        self.calls.len() - self.internal
    }

    /// The number of open subscriptions, in any state.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// The number of clients' calls that are sent or queued for the link, except subscriptions.
    pub fn in_flight(&self) -> usize {
        let out = self.of_clients() - self.waiting.len();
        if self.subscriptions == 0 {
            return out;
        }
        let waiting = self.waiting().filter(|(_, call)| call.is_subscription()).count();
        out - (self.subscriptions - waiting)
    }

    // ---- the queue ----

    /// The waiting calls, in the order in which they are sent.
    pub fn waiting(&self) -> impl Iterator<Item = (Key, &Call)> {
        self.waiting.iter().filter_map(|key| Some((*key, self.calls.get(*key)?)))
    }

    /// Their keys.
    pub fn waiting_keys(&self) -> Vec<Key> {
        self.waiting.iter().copied().collect()
    }

    /// The key at this place of the queue.
    pub fn waiting_at(&self, index: usize) -> Option<Key> {
        self.waiting.get(index).copied()
    }

    /// The length of the queue.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether a call waits.
    pub fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets a call wait, behind all older ones.
    pub fn wait(&mut self, key: Key, since: Moment, not_before: Moment) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.state = State::Waiting { since, not_before };
        let name = call.name;
        let is_older = |other: &Key| self.calls.get(*other).is_some_and(|other| other.name <= name);
        let index = self.waiting.iter().rposition(is_older).map_or(0, |index| index + 1);
        self.waiting.insert(index, key);
    }

    /// Takes a call out of the queue: it is to be sent next.
    pub fn queue(&mut self, key: Key) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        if let State::Waiting { since, .. } = call.state {
            call.waited_since = Some(since);
            self.leave_queue(key);
        }
        if let Some(call) = self.calls.get_mut(key) {
            call.state = State::Queued;
        }
        true
    }

    /// Takes the calls that match out of the queue; the caller decides about each of them.
    pub fn take_waiting(&mut self, matches: impl Fn(&Call) -> bool) -> Vec<Key> {
        let taken: Vec<Key> = self.waiting().filter(|(_, call)| matches(call)).map(|(key, _)| key).collect();
        if !taken.is_empty() {
            self.waiting.retain(|key| !taken.contains(key));
        }
        taken
    }

    /// Sets the order of the queue.
    pub fn order(&mut self, waiting: Vec<Key>) {
        debug_assert_eq!(waiting.len(), self.waiting.len());
        self.waiting = waiting.into();
    }

    fn leave_queue(&mut self, key: Key) {
        if self.waiting.front() == Some(&key) {
            self.waiting.pop_front();
        } else if let Some(index) = self.waiting.iter().position(|it| *it == key) {
            self.waiting.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use mendline_wire::Message;

    use super::*;
    use crate::policy::effect::Effect;
    use crate::port::ClientId;
    use crate::request::ClientRequest;

    fn call(owner: Owner) -> Call {
        let message = Message::parse(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        Call::new(
            owner,
            ClientRequest::new(message.unwrap_or_else(|error| panic!("{error:?}"))),
            Effect::Read,
            Moment::ZERO,
        )
    }

    fn three() -> (CallTable, [Key; 3]) {
        let mut table = CallTable::default();
        let (client, request) = (ClientId(1), Key::from_number(0));
        let mut accepted = 0;
        let mut accept = || table.accept(call(Owner::Client { client, request }), &mut accepted);
        let keys = [(); 3].map(|()| accept().unwrap_or_else(|| panic!()));
        keys.iter().for_each(|key| table.wait(*key, Moment::ZERO, Moment::ZERO));
        (table, keys)
    }

    #[test]
    fn call_that_waits_again_keeps_its_place() {
        let (mut table, [one, two, three]) = three();
        assert!(table.queue(one) && table.queue(two));
        assert_eq!((table.waiting_keys(), table.in_flight()), (vec![three], 2));
        let two = table.rename(two).unwrap_or_else(|| panic!());
        table.wait(two, Moment::ZERO, Moment::ZERO + Duration::from_secs(1));
        table.wait(one, Moment::ZERO, Moment::ZERO);
        assert_eq!((table.waiting_keys(), table.in_flight()), (vec![one, two, three], 0));
    }

    #[test]
    fn removed_call_leaves_queue_and_counts() {
        let (mut table, [one, two, three]) = three();
        let internal = table.add_internal(call(Owner::Us(InternalRequest::Ping))).unwrap_or_else(|| panic!());
        assert_eq!((table.len(), table.of_clients(), table.in_flight()), (4, 3, 0));
        assert!(table.remove(two).is_some() && table.remove(internal).is_some());
        assert_eq!((table.waiting_keys(), table.len(), table.of_clients()), (vec![one, three], 2, 2));
        assert!(!table.is_empty() && table.remove(one).is_some() && table.remove(three).is_some());
        assert!(table.is_empty() && !table.any_waits());
    }

    #[test]
    fn taken_calls_are_out_of_the_queue_until_they_wait_again() {
        let (mut table, [one, two, three]) = three();
        assert_eq!(table.take_waiting(|call| call.name == 2), [two]);
        assert_eq!(table.waiting_keys(), [one, three]);
        table.wait(two, Moment::ZERO, Moment::ZERO);
        assert_eq!(table.waiting_keys(), [one, two, three]);
    }

    #[test]
    fn adopted_handshake_counts_as_internal_request() {
        let (mut table, [one, ..]) = three();
        table.queue(one);
        table.make_internal(one, InternalRequest::Handshake);
        assert_eq!((table.of_clients(), table.in_flight()), (2, 0));
    }
}
