//! Whose turn is it, when several clients wait?
//!
//! Calls that wait for a place go oldest first. With several clients that would let the one that asks for most have most, so
//! there the clients take turns, and each one's calls stay in order. With one client, which is every bridge, there is
//! nothing to decide and nothing is spent on it.

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clients_take_turns_and_each_keeps_its_own_order() {
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
        fn nobody_who_waits_is_passed_by_twice_by_the_same_client(
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
