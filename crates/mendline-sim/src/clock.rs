//! What time it is in the world, and what is due next.
//!
//! Time only moves when the world asks for the next thing that is due. Things due at the same instant happen in the order in
//! which they were planned, so that a world has one history and not one per heap implementation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{ClientId, LinkId, Moment};

use crate::oracle::Key;

/// Something that will happen in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The operating system is done with a spawn, for better or worse.
    SpawnEnds(LinkId),
    /// A child gets round to reading its stdin.
    ChildReads(LinkId),
    /// A child goes on with one of its jobs.
    JobContinues(LinkId, u32),
    /// What a child wrote reaches our end of its stdout.
    OutputArrives(LinkId),
    /// A child reacts to the end of its stdin or to a signal, or dies by itself.
    ChildEnds(LinkId, Ending),
    /// The shell reaps a dead child.
    Reap(LinkId),
    /// An attempt to connect has come to its end, for better or worse.
    ConnectEnds(ExchangeId),
    /// The cable takes another piece of a request.
    RequestBytesAccepted(ExchangeId),
    /// A whole request reaches the server of this upstream.
    RequestArrives(usize, u32),
    /// A part of a response reaches our end.
    PartArrives(ExchangeId),
    /// The shell finds out that a line is dead.
    DeadConnectionFound(ExchangeId),
    /// A conversation of an HTTP server goes on with one of its jobs: upstream, mind, job.
    ConversationContinues(usize, u32, u32),
    /// A client does the next thing of its workload.
    ClientActs(ClientId),
    /// A client reads what was written to it.
    ClientReads(ClientId),
    /// A client answers what it was asked.
    ClientReplies(ClientId, u32),
    /// The fault with this place in the plan begins.
    FaultBegins(usize),
    /// The fault with this place in the plan goes on: many come in pulses.
    FaultRepeats(usize),
    /// The fault with this place in the plan ends.
    FaultEnds(usize),
    /// A request must have been answered by now.
    AnswerDue(Key),
    /// A request that never got out must have been answered by now.
    RecoveryEnds(Key),
    /// Nothing happens, but the clock has come this far: phases end here.
    Pause(u32),
}

/// Why a child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Code(i32),
    /// By a signal from outside.
    Signal(i32),
}

/// The clock and the agenda.
#[derive(Debug)]
pub struct Clock {
    now: Moment,
    planned: u64,
    agenda: BinaryHeap<Reverse<(Moment, u64, Entry)>>,
}

/// Keeps [`Due`] out of the ordering: the sequence number already decides.
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
    /// The time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Plans something for a while from now.
    pub fn after(&mut self, wait: Duration, due: Due) {
        self.at(self.now + wait, due);
    }

    /// Plans something for a moment, or for now if that is past.
    pub fn at(&mut self, when: Moment, due: Due) {
        self.planned += 1;
        self.agenda.push(Reverse((when.max(self.now), self.planned, Entry(due))));
    }

    /// When the next thing is due.
    pub fn next(&self) -> Option<Moment> {
        self.agenda.peek().map(|Reverse((when, ..))| *when)
    }

    /// Takes the next thing, and moves the time to it.
    pub fn take(&mut self) -> Option<Due> {
        let Reverse((when, _, Entry(due))) = self.agenda.pop()?;
        self.now = when;
        Some(due)
    }

    /// Moves the time forward to a moment that is not past the next thing due.
    pub fn advance(&mut self, to: Moment) {
        self.now = self.now.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_due_at_the_same_instant_happen_in_the_order_of_planning() {
        let mut clock = Clock::default();
        clock.after(Duration::from_secs(2), Due::Pause(3));
        clock.after(Duration::from_secs(1), Due::Pause(1));
        clock.after(Duration::from_secs(1), Due::Pause(2));
        let order: Vec<Due> = std::iter::from_fn(|| clock.take()).collect();
        assert_eq!(order, [Due::Pause(1), Due::Pause(2), Due::Pause(3)]);
        assert_eq!(clock.now(), Moment::ZERO + Duration::from_secs(2));
    }
}
