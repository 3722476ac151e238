//! Fair queueing: the order of waiting calls, and their eviction when the queue is full.
//!
//! Calls that wait for a slot are sent oldest first. With several clients, the clients alternate, and each one's calls
//! keep their order. Otherwise the client with the most calls would get most of the slots.
//!
//! The queue is bounded, and the client with the most calls would fill it. So when it is full, the client with the most
//! calls in it loses its newest one to a client with fewer: that call is answered at once. A client with no more than
//! an equal share loses no call, and a client with less than that is not rejected; no space is reserved for clients
//! that do not use it.
//!
//! With one client, as in every bridge, the queue is first come, first served, and a call to a full queue is rejected.
//! The limit is `limits.waiting`; the owner of the queue enforces it.

use std::collections::{BTreeMap, VecDeque};

use crate::port::ClientId;

/// The client whose call was sent last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    last: Option<ClientId>,
}

impl Rotation {
    /// Records that a call of this client is sent.
    pub fn note(&mut self, client: ClientId) {
        self.last = Some(client);
    }

    /// The order of calls that are given oldest first, each with its client.
    pub fn order<T>(&self, waiting: impl Iterator<Item = (ClientId, T)>) -> Vec<T> {
        let mut lanes: BTreeMap<ClientId, VecDeque<T>> = BTreeMap::new();
        for (client, call) in waiting {
            lanes.entry(client).or_default().push_back(call);
        }
        // Clients after the last one come first, then those before it.
        let behind = |client: &ClientId| self.last.is_none_or(|last| *client > last);
        let (mut lanes, before): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|(client, _)| behind(client));
        lanes.extend(before);
        let mut order = Vec::new();
        while !lanes.is_empty() {
            lanes.retain_mut(|(_, lane)| {
                order.extend(lane.pop_front());
                !lane.is_empty()
            });
        }
        order
    }
}

/// The call to evict for one of this client when the queue is full, among the waiting ones, each client's oldest first.
/// A call without a value is counted, but never evicted.
pub fn evict_for<T>(waiting: impl Iterator<Item = (ClientId, Option<T>)>, client: ClientId) -> Option<T> {
    let mut lanes: BTreeMap<ClientId, (usize, Option<T>)> = BTreeMap::new();
    for (whose, call) in waiting {
        let (count, newest) = lanes.entry(whose).or_default();
        *count += 1;
        *newest = call.or(newest.take());
    }
    let mine = lanes.get(&client).map_or(0, |(count, _)| *count);
    // A client with one more would have one less afterwards, and the two would evict each other for ever.
    let may_give = |(count, newest): &(usize, Option<T>)| *count > mine + 1 && newest.is_some();
    lanes.into_values().filter(may_give).max_by_key(|(count, _)| *count)?.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The queue of an upstream; returns the client whose call was rejected or evicted.
    fn join(queue: &mut Vec<ClientId>, limit: usize, client: ClientId) -> Option<ClientId> {
        let mut out = None;
        if queue.len() >= limit {
            let indices = queue.iter().enumerate().map(|(index, whose)| (*whose, Some(index)));
            match evict_for(indices, client) {
                Some(index) => out = Some(queue.remove(index)),
                None => return Some(client),
            }
        }
        queue.push(client);
        out
    }

    fn share_of(queue: &[ClientId], client: ClientId) -> usize {
        queue.iter().filter(|whose| **whose == client).count()
    }

    #[test]
    fn newest_call_of_the_largest_client_is_evicted() {
        let waiting = [(1, "a1"), (2, "b1"), (1, "a2"), (1, "a3"), (2, "b2")];
        let all = || waiting.iter().map(|(client, call)| (ClientId(*client), Some(*call)));
        assert_eq!(evict_for(all(), ClientId(3)), Some("a3"));
        assert_eq!(evict_for(all(), ClientId(2)), None, "a difference of one counts as equal");
        assert_eq!(evict_for(all(), ClientId(1)), None, "no call is evicted for the largest client");
        let sent_before = |call: &&str| !["a2", "a3"].contains(call);
        let some = || all().map(|(client, call)| (client, call.filter(sent_before)));
        assert_eq!(evict_for(some(), ClientId(3)), Some("a1"), "a protected call is not evicted");
    }

    #[test]
    fn clients_alternate_and_each_keeps_its_order() {
        let mut rotation = Rotation::default();
        let waiting = [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")];
        let calls = || waiting.iter().map(|(client, call)| (ClientId(*client), *call));
        assert_eq!(rotation.order(calls()), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        rotation.note(ClientId(2));
        assert_eq!(rotation.order(calls()), ["c1", "a1", "b1", "a2", "b2", "a3"]);
        rotation.note(ClientId(3));
        assert_eq!(rotation.order(calls())[0], "a1");
    }

    proptest! {
        #[test]
        fn queue_is_bounded_and_every_client_has_a_share(
            steps in prop::collection::vec(prop::option::weighted(0.8, 0u32..4), 1..200),
            limit in 1usize..20,
        ) {
            let (clients, mut queue, mut rotation) = (4, Vec::new(), Rotation::default());
            for step in steps {
                let before = queue.clone();
                match step.map(ClientId) {
                    Some(client) => {
                        let out = join(&mut queue, limit, client);
                        let has_lost = |whose| share_of(&queue, whose) < share_of(&before, whose);
                        if out.is_some() {
                            prop_assert_eq!(before.len(), limit, "no call is evicted while there is room");
                        }
                        if out == Some(client) {
                            prop_assert!(share_of(&before, client) >= limit / clients, "rejected below its share");
                        }
                        for whose in (0..4).map(ClientId).filter(|whose| has_lost(*whose)) {
                            prop_assert_eq!(out, Some(whose));
                            prop_assert!(share_of(&queue, whose) >= limit / clients, "has lost some of its share");
                            prop_assert!(share_of(&queue, whose) >= share_of(&queue, client), "gave more than it got");
                        }
                    }
                    None => {
                        let indices = queue.iter().enumerate().map(|(index, whose)| (*whose, index));
                        if let Some(index) = rotation.order(indices).first() {
                            rotation.note(queue.remove(*index));
                        }
                    }
                }
                prop_assert!(queue.len() <= limit);
            }
        }

        #[test]
        fn queue_of_one_client_is_first_come_first_served(count in 1usize..50, limit in 1usize..20) {
            let mut queue = Vec::new();
            let rejected = (0..count).filter(|_| join(&mut queue, limit, ClientId(0)).is_some()).count();
            prop_assert_eq!((queue.len(), rejected), (count.min(limit), count.saturating_sub(limit)));
            let calls: Vec<usize> = (0..queue.len()).collect();
            let order = Rotation { last: Some(ClientId(0)) }.order(calls.iter().map(|call| (ClientId(0), *call)));
            prop_assert_eq!(order, calls);
        }

        #[test]
        fn waiting_client_is_not_overtaken_twice_by_another(
            waiting in prop::collection::vec(0u32..6, 1..120),
            last in prop::option::of(0u32..6),
        ) {
            let rotation = Rotation { last: last.map(ClientId) };
            let order = rotation.order(waiting.iter().enumerate().map(|(age, client)| (ClientId(*client), (*client, age))));
            prop_assert_eq!(order.len(), waiting.len());
            for client in 0..6 {
                let mine: Vec<usize> = order.iter().filter(|(it, _)| *it == client).map(|(_, age)| *age).collect();
                prop_assert!(mine.is_sorted(), "its own calls stay in order");
            }
            for other in 0..6 {
                for client in (0..6).filter(|client| *client != other) {
                    let mut in_a_row = 0;
                    let until = order.iter().rposition(|(it, _)| *it == client).map_or(0, |at| at + 1);
                    for (who, _) in &order[..until] {
                        in_a_row = if *who == other { in_a_row + 1 } else if *who == client { 0 } else { in_a_row };
                        prop_assert!(in_a_row <= 1, "{other} goes twice while {client} waits: {order:?}");
                    }
                }
            }
        }
    }
}
