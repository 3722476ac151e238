//! Which bytes are cut, and what came of all of them.
//!
//! A conversation without a fault tells how many bytes there are and where its messages meet. [`Reach::Every`] byte is
//! cut on request; [`Reach::Sample`], for every day, takes all bytes of a short conversation, and of a longer one every
//! few bytes and all that lie near a seam between messages, because that is where things are decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;

use super::cable::{Fault, Kind, Way};
use super::check::{Came, came, violations};
use super::conversation::{Conversation, Role, Seen};

/// Up to so many bytes in one direction, the sample is everything.
const SHORT: usize = 2048;
/// Beyond that, one byte in so many.
const STRIDE: usize = 31;
/// And so many to both sides of a seam.
const NEAR: usize = 16;
/// One byte at a time is the same from wherever it begins, so a few beginnings are enough for every day.
const DRIPS: usize = 97;

/// How many of the bytes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Every,
    Sample,
    One(usize),
}

/// What came of cutting one conversation.
#[derive(Debug, Default)]
pub struct Tally {
    pub up: usize,
    pub down: usize,
    pub cuts: usize,
    /// How unsafe calls came out: well, not sent, unknown.
    pub unsafe_calls: [usize; 3],
    /// What was found, and at how many bytes of which kind of fault.
    pub violations: BTreeMap<Violation, BTreeSet<usize>>,
}

/// A promise that was broken. The same one is usually broken at many bytes in a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    pub what: String,
    pub conversation: &'static str,
    pub fault: &'static str,
}

impl Tally {
    pub const HEAD: &str = "conversation        bytes up    down    cuts  unsafe: well  not sent  unknown  violations";

    pub fn row(&self, name: &str) -> String {
        let [well, not_sent, unknown] = self.unsafe_calls;
        let (up, down, cuts, found) = (self.up, self.down, self.cuts, self.found());
        format!("{name:<20}{up:>8}{down:>8}{cuts:>8}{well:>14}{not_sent:>10}{unknown:>9}{found:>12}")
    }

    fn add(&mut self, conversation: &Conversation, fault: Fault, seen: &Seen) {
        self.cuts += 1;
        let call = seen.asked.iter().find(|asked| asked.role == Role::Unsafe).and_then(|asked| asked.answers.first());
        match call.map(came) {
            Some(Came::Well) => self.unsafe_calls[0] += 1,
            Some(Came::NotSent) => self.unsafe_calls[1] += 1,
            Some(Came::Unknown) => self.unsafe_calls[2] += 1,
            Some(Came::Badly) | None => {}
        }
        for what in violations(seen, Some(fault)) {
            let violation = Violation { what, conversation: conversation.name, fault: fault.name() };
            self.violations.entry(violation).or_default().insert(fault.at);
        }
    }

    /// How many cuts broke how many promises.
    pub fn found(&self) -> usize {
        self.violations.values().map(BTreeSet::len).sum()
    }

    /// One line for each kind of violation, with the bytes and what repeats the first of them.
    pub fn complaints(&self) -> Vec<String> {
        let line = |(violation, bytes): (&Violation, &BTreeSet<usize>)| {
            let Violation { what, conversation, fault } = violation;
            let (first, last) = (bytes.first().unwrap_or(&0), bytes.last().unwrap_or(&0));
            format!(
                "{what} ({} bytes from {first} to {last})\n    cargo xtask cuts --conversation {conversation} --fault {fault} --at {first}",
                bytes.len()
            )
        };
        self.violations.iter().map(line).collect()
    }
}

/// Cuts one conversation, with these kinds of faults, on all processors.
pub fn sweep(conversation: &Conversation, kinds: &[(&str, Kind, Way)], reach: Reach) -> Tally {
    let plain = conversation.hold(None);
    let mut tally = Tally { up: plain.up.0, down: plain.down.0, ..Tally::default() };
    for what in violations(&plain, None) {
        let violation = Violation { what, conversation: conversation.name, fault: "none" };
        tally.violations.insert(violation, BTreeSet::from([0]));
    }
    let faults: Vec<Fault> = kinds
        .iter()
        .flat_map(|&(_, kind, way)| {
            let carried = if way == Way::Up { &plain.up } else { &plain.down };
            bytes(carried, kind, reach).into_iter().map(move |at| Fault { kind, way, at })
        })
        .collect();
    let (left, tallied) = (Mutex::new(faults.into_iter()), Mutex::new(tally));
    let cut = || {
        loop {
            let Some(fault) = left.lock().unwrap().next() else { return };
            let seen = conversation.hold(Some(fault));
            tallied.lock().unwrap().add(conversation, fault, &seen);
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(cut);
        }
        cut();
    });
    tallied.into_inner().unwrap()
}

fn bytes((total, seams): &(usize, Vec<usize>), kind: Kind, reach: Reach) -> BTreeSet<usize> {
    let near = |at: usize| seams.iter().any(|seam| seam.abs_diff(at) <= NEAR);
    match reach {
        Reach::One(at) => BTreeSet::from([at]),
        Reach::Sample if kind == Kind::Drip => (0..*total).step_by(DRIPS).collect(),
        Reach::Sample if *total > SHORT => (0..=*total).filter(|at| at % STRIDE == 0 || near(*at)).collect(),
        Reach::Every | Reach::Sample => (0..=*total).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_conversation_is_cut_everywhere_and_a_long_one_near_its_seams() {
        assert_eq!(bytes(&(100, vec![50]), Kind::Cut, Reach::Sample).len(), 101);
        let sample = bytes(&(10_000, vec![5_000]), Kind::Cut, Reach::Sample);
        assert!((4_984..=5_016).all(|at| sample.contains(&at)), "{sample:?}");
        assert!(sample.len() < 2_000, "{}", sample.len());
        assert_eq!(bytes(&(10_000, Vec::new()), Kind::Cut, Reach::Every).len(), 10_001);
    }
}
