//! The streams that are over and have no connection: their answers are kept for clients that resume them.
//!
//! A client that never comes back must not take memory without limit, nor from others. The limits hold for a session,
//! for a principal and for the gateway. Beyond one of them the oldest stream goes. The newest stays in any case, so a
//! limit is exceeded by one stream at most.

use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;

use mendline_core::{ClientId, StreamId, defaults};

/// One stream of one client.
pub(super) type Key = (ClientId, StreamId);

/// The size of what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Events. A stream without any counts as one.
    pub events: usize,
    /// The bytes of their texts.
    pub bytes: usize,
}

impl Amount {
    fn exceeds(self, limit: Amount) -> bool {
        self.events > limit.events || self.bytes > limit.bytes
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Amount) {
        self.events = self.events.saturating_sub(other.events);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// The limits.
#[derive(Clone, Copy, Debug)]
struct Limits {
    session: Amount,
    principal: Amount,
    all: Amount,
}

const LIMITS: Limits = Limits {
    session: Amount { events: defaults::KEPT_EVENTS, bytes: defaults::KEPT_BYTES },
    principal: Amount { events: defaults::KEPT_EVENTS_OF_PRINCIPAL, bytes: defaults::KEPT_BYTES_OF_PRINCIPAL },
    all: Amount { events: usize::MAX, bytes: defaults::KEPT_BYTES_OF_ALL },
};

/// The kept streams, oldest first, as one group sees them.
#[derive(Debug, Default)]
struct Group {
    streams: BTreeMap<u64, Key>,
    sum: Amount,
}

impl Group {
    /// Returns the oldest stream, unless it is the only one.
    fn oldest(&self) -> Option<Key> {
        if self.streams.len() > 1 { self.streams.values().next().copied() } else { None }
    }
}

#[derive(Debug)]
struct Kept {
    number: u64,
    principal: Arc<str>,
    amount: Amount,
}

/// All kept streams.
#[derive(Debug)]
pub(super) struct KeptStreams {
    limits: Limits,
    next: u64,
    streams: HashMap<Key, Kept>,
    of_clients: HashMap<ClientId, Group>,
    of_principals: HashMap<Arc<str>, Group>,
    all: Group,
}

impl Default for KeptStreams {
    fn default() -> KeptStreams {
        KeptStreams {
            limits: LIMITS,
            next: 0,
            streams: HashMap::new(),
            of_clients: HashMap::new(),
            of_principals: HashMap::new(),
            all: Group::default(),
        }
    }
}

impl KeptStreams {
    /// Keeps a stream. Returns the streams that have to go for it.
    pub(super) fn keep(&mut self, key: Key, principal: &Arc<str>, amount: Amount) -> Vec<Key> {
        self.remove(key);
        let amount = Amount { events: amount.events.max(1), ..amount };
        let number = self.next;
        self.next += 1;
        let groups = [
            self.of_clients.entry(key.0).or_default(),
            self.of_principals.entry(Arc::clone(principal)).or_default(),
            &mut self.all,
        ];
        for group in groups {
            group.streams.insert(number, key);
            group.sum += amount;
        }
        self.streams.insert(key, Kept { number, principal: Arc::clone(principal), amount });
        let mut dropped = Vec::new();
        while let Some(oldest) = self.surplus(key.0, principal) {
            self.remove(oldest);
            dropped.push(oldest);
        }
        dropped
    }

    /// Returns the oldest stream of a group that has too many.
    fn surplus(&self, client: ClientId, principal: &Arc<str>) -> Option<Key> {
        let of = |group: Option<&Group>, limit: Amount| group.filter(|group| group.sum.exceeds(limit))?.oldest();
        of(self.of_clients.get(&client), self.limits.session)
            .or_else(|| of(self.of_principals.get(principal), self.limits.principal))
            .or_else(|| of(Some(&self.all), self.limits.all))
    }

    /// Removes a stream, because it has a connection again or is not needed any more.
    pub(super) fn remove(&mut self, key: Key) {
        let Some(Kept { number, principal, amount }) = self.streams.remove(&key) else { return };
        let take = |group: &mut Group| {
            group.streams.remove(&number);
            group.sum -= amount;
            group.streams.is_empty()
        };
        take(&mut self.all);
        if self.of_clients.get_mut(&key.0).is_some_and(take) {
            self.of_clients.remove(&key.0);
        }
        if self.of_principals.get_mut(&principal).is_some_and(take) {
            self.of_principals.remove(&principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> KeptStreams {
        let amount = |events, bytes| Amount { events, bytes };
        let limits = Limits { session: amount(3, 100), principal: amount(5, 150), all: amount(100, 200) };
        KeptStreams { limits, ..KeptStreams::default() }
    }

    fn key(client: u32, stream: u32) -> Key {
        (ClientId(client), StreamId(stream))
    }

    fn bytes(bytes: usize) -> Amount {
        Amount { events: 1, bytes }
    }

    #[test]
    fn oldest_stream_of_a_session_goes_first() {
        let (mut kept, ann) = (kept(), Arc::from("ann"));
        for stream in 1..=3 {
            assert_eq!(kept.keep(key(1, stream), &ann, bytes(1)), []);
        }
        assert_eq!(kept.keep(key(1, 4), &ann, bytes(1)), [key(1, 1)], "three events");
        assert_eq!(kept.keep(key(1, 5), &ann, bytes(99)), [key(1, 2), key(1, 3)], "a hundred bytes");
    }

    #[test]
    fn stream_above_the_limit_stays_while_it_is_the_newest() {
        let (mut kept, ann) = (kept(), Arc::from("ann"));
        assert_eq!(kept.keep(key(1, 1), &ann, bytes(500)), []);
        assert_eq!(kept.keep(key(1, 2), &ann, bytes(1)), [key(1, 1)]);
    }

    #[test]
    fn one_principal_does_not_displace_the_streams_of_another() {
        let (mut kept, ann, bob) = (kept(), Arc::from("ann"), Arc::from("bob"));
        kept.keep(key(9, 1), &bob, bytes(40));
        for client in 1..=3 {
            kept.keep(key(client, 1), &ann, bytes(50));
        }
        assert_eq!(kept.keep(key(4, 1), &ann, bytes(50)), [key(1, 1)], "150 bytes");
        assert!(kept.streams.contains_key(&key(9, 1)));
    }

    #[test]
    fn removed_streams_leave_nothing_behind() {
        let (mut kept, ann) = (kept(), Arc::from("ann"));
        kept.keep(key(1, 1), &ann, bytes(10));
        kept.keep(key(1, 1), &ann, bytes(20));
        assert_eq!(kept.all.sum, bytes(20), "counted once");
        kept.remove(key(1, 1));
        kept.remove(key(1, 1));
        assert_eq!(kept.all.sum, Amount::default());
        assert!(kept.of_clients.is_empty() && kept.of_principals.is_empty() && kept.all.streams.is_empty());
    }
}
