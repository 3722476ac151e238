//! The sessions that clients have ended.
//!
//! A session id opens its session again, also after the session was removed for being idle. A session that its client
//! has ended with DELETE stays ended: its id is answered with 404, as the specification has it. The table is in memory
//! and bounded; the oldest entry is dropped first. A restarted gateway does not know these sessions, and opens one again
//! for the id, which harms no one: only its own client has the id.

use std::collections::{HashSet, VecDeque};

/// The limit of ended sessions that are known.
const KNOWN: usize = 4096;

/// The numbers of ended sessions.
#[derive(Debug, Default)]
pub struct EndedSessions {
    numbers: HashSet<u64>,
    order: VecDeque<u64>,
}

impl EndedSessions {
    /// Adds the number of a ticket.
    pub fn insert(&mut self, number: u64) {
        if !self.numbers.insert(number) {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }

    /// Returns whether the session of this ticket was ended.
    pub fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_entry_is_dropped_at_the_limit() {
        let mut ended = EndedSessions::default();
        let count = u64::try_from(KNOWN).unwrap();
        for number in 0..count {
            ended.insert(number);
            ended.insert(number);
        }
        assert!(ended.contains(0) && ended.contains(count - 1));
        ended.insert(count);
        assert!(!ended.contains(0) && ended.contains(1) && ended.contains(count));
        assert_eq!((ended.numbers.len(), ended.order.len()), (KNOWN, KNOWN));
    }
}
