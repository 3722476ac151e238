//! Whose turn is it, when several clients wait? And who has room to wait at all?
//!
//! Calls that wait for a place go oldest first. With several clients that would let the one that asks for most have most, so
//! there the clients take turns, and each one's calls stay in order.
//!
//! The queue has an end, and the one that asks for most would have most of it, too. So when it is full, whoever has the most
//! calls in it makes room for one who has less: its newest call is answered at once, as it would have been if it had come a
//! moment later. Nobody loses a call who has no more than an equal share, and nobody who has less than that is rejected;
//! no room is kept free for clients who do not use it.
//!
//! With one client, which is every bridge, there is nothing to decide and nothing is spent on it: first come, first served,
//! and the one too many is rejected. How many may wait is `limits.waiting`, and whoever holds the queue looks to that.

use std::collections::{BTreeMap, VecDeque};

use crate::port::ClientId;

/// Who went last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    last: Option<ClientId>,
}

impl Rotation {
    /// A call of this client goes.
    pub fn note(&mut self, client: ClientId) {
        self.last = Some(client);
    }

    /// The order in which calls go that are given oldest first, each with its client.
    pub fn order<T>(&self, waiting: impl Iterator<Item = (ClientId, T)>) -> Vec<T> {
        let mut lanes: BTreeMap<ClientId, VecDeque<T>> = BTreeMap::new();
        for (client, call) in waiting {
            lanes.entry(client).or_default().push_back(call);
        }
        // Those behind the one who went last come first, then those before it.
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

/// The call that gives way to one of this client when there is no room, of those that wait, each client's oldest first. A call
/// that must stay is counted, but not given.
pub fn evict_for<T>(waiting: impl Iterator<Item = (ClientId, Option<T>)>, client: ClientId) -> Option<T> {
    let mut lanes: BTreeMap<ClientId, (usize, Option<T>)> = BTreeMap::new();
    for (whose, call) in waiting {
        let (count, newest) = lanes.entry(whose).or_default();
        *count += 1;
        *newest = call.or(newest.take());
    }
    let mine = lanes.get(&client).map_or(0, |(count, _)| *count);
    // Who has only one more would have one less afterwards: the two would drive each other out for ever.
    let may_give = |(count, newest): &(usize, Option<T>)| *count > mine + 1 && newest.is_some();
    lanes.into_values().filter(may_give).max_by_key(|(count, _)| *count)?.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A queue as an upstream keeps it; gives whose call was rejected or gave way.
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
        assert_eq!(evict_for(all(), ClientId(2)), None, "one more is as good as equal");
        assert_eq!(evict_for(all(), ClientId(1)), None, "nobody gives way to whoever has most");
        let sent_before = |call: &&str| !["a2", "a3"].contains(call);
        let some = || all().map(|(client, call)| (client, call.filter(sent_before)));
        assert_eq!(evict_for(some(), ClientId(3)), Some("a1"), "what must stay stays");
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
                            prop_assert_eq!(before.len(), limit, "nobody goes while there is room");
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
