//! The simulated clock and its agenda.
//!
//! Time advances only when the world takes the next event. Events at the same time occur in the order in which they
//! were scheduled, so that a run does not depend on the heap implementation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{ClientId, LinkId, Moment};

use crate::oracle::Key;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A spawn completes or fails.
    SpawnEnds(LinkId),
    /// A child reads its stdin.
    ChildReads(LinkId),
    /// A child continues one of its jobs.
    JobContinues(LinkId, u32),
    /// Output of a child arrives at the shell.
    OutputArrives(LinkId),
    /// A child reacts to the end of its stdin or to a signal, or crashes.
    ChildEnds(LinkId, Ending),
    /// The shell reaps a dead child.
    Reap(LinkId),
    /// A connection attempt completes or fails.
    ConnectEnds(ExchangeId),
    /// The connection accepts another piece of a request.
    RequestBytesAccepted(ExchangeId),
    /// A complete request arrives at the server of this upstream.
    RequestArrives(usize, u32),
    /// The source of the credential of this upstream answers.
    CredentialRead(usize),
    /// A server sends a comment in this response.
    CommentSent(ExchangeId),
    /// A part of a response arrives.
    PartArrives(ExchangeId),
    /// The shell detects a dead connection.
    DeadConnectionFound(ExchangeId),
    /// A conversation of an HTTP server continues a job: upstream, conversation, job.
    ConversationContinues(usize, u32, u32),
    /// The guest with this index connects.
    GuestConnects(usize),
    /// A client leaves.
    ClientLeaves(ClientId),
    /// A client performs the next item of its workload.
    ClientActs(ClientId),
    /// A client reads what was written to it.
    ClientReads(ClientId),
    /// A client answers a request of the server.
    ClientReplies(ClientId, u32),
    /// The fault with this index begins.
    FaultBegins(usize),
    /// The fault with this index acts again.
    FaultRepeats(usize),
    /// The fault with this index ends.
    FaultEnds(usize),
    /// The deadline of a request.
    AnswerDue(Key),
    /// The deadline of a request that was never sent.
    RecoveryEnds(Key),
    /// A stream of a client gets a connection again.
    StreamReattaches(ClientId),
    /// No event; only advances the clock.
    Pause(u32),
}

/// The reason for the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exits with this code.
    Code(i32),
    /// It is killed by this signal.
    Signal(i32),
}

/// The clock and the agenda.
#[derive(Debug)]
pub struct Clock {
    now: Moment,
    planned: u64,
    agenda: BinaryHeap<Reverse<(Moment, u64, Entry)>>,
}

/// Excludes [`Due`] from the ordering: the sequence number decides.
#[derive(Debug)]
struct Entry(Due);

impl PartialEq for Entry {
    fn eq(&self, _: &Entry) -> bool {
        true
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, _: &Entry) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { now: Moment::ZERO, planned: 0, agenda: BinaryHeap::new() }
    }
}

impl Clock {
    /// Returns the current time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Schedules an event after a delay.
    pub fn after(&mut self, wait: Duration, due: Due) {
        self.at(self.now + wait, due);
    }

    /// Schedules an event at a time, or now if that is past.
    pub fn at(&mut self, when: Moment, due: Due) {
        self.planned += 1;
        self.agenda.push(Reverse((when.max(self.now), self.planned, Entry(due))));
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<Moment> {
        self.agenda.peek().map(|Reverse((when, ..))| *when)
    }

    /// Removes the next event and advances the time to it.
    pub fn take(&mut self) -> Option<Due> {
        let Reverse((when, _, Entry(due))) = self.agenda.pop()?;
        self.now = when;
        Some(due)
    }

    /// Advances the time; must not pass the next event.
    pub fn advance(&mut self, to: Moment) {
        self.now = self.now.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_at_same_time_keep_scheduling_order() {
        let mut clock = Clock::default();
        clock.after(Duration::from_secs(2), Due::Pause(3));
        clock.after(Duration::from_secs(1), Due::Pause(1));
        clock.after(Duration::from_secs(1), Due::Pause(2));
        let order: Vec<Due> = std::iter::from_fn(|| clock.take()).collect();
        assert_eq!(order, [Due::Pause(1), Due::Pause(2), Due::Pause(3)]);
        assert_eq!(clock.now(), Moment::ZERO + Duration::from_secs(2));
    }
}
