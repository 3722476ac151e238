//! What a set of worlds has visited.
//!
//! A fault that never bites and a state edge that is never walked prove nothing, however many seeds are green. Worlds count
//! what they saw; the counts are added up, and the tests name what is missing.

use std::collections::BTreeMap;
use std::fmt;

use mendline_core::port::{EndHow, Written};

use crate::fact::Fact;
use crate::fault;
use crate::machine::EventKind;
use crate::oracle::Verdict;

/// The edges of a link that must be walked: from, to.
pub const EDGES: &[(&str, &str)] = &[
    ("Idle", "Dialing"),
    ("Dialing", "Up"),
    ("Dialing", "Waiting"),
    ("Dialing", "Parked"),
    ("Dialing", "Idle"),
    ("Up", "Waiting"),
    ("Up", "Parked"),
    ("Up", "Draining"),
    ("Draining", "Waiting"),
    ("Draining", "Parked"),
    ("Draining", "Idle"),
    ("Waiting", "Dialing"),
    ("Waiting", "Idle"),
    ("Parked", "Dialing"),
    ("Parked", "Idle"),
    // The machine woke up, or the network has changed: what was learned about the way there is worth nothing.
    ("Parked", "Waiting"),
    // Over HTTP there is no process to end, and a server may turn out to speak another dialect.
    ("Up", "Idle"),
    ("Up", "Dialing"),
];

/// Edges that may be walked and seldom are: over HTTP others than the one that was sent to look may find the way.
const RARE: &[(&str, &str)] = &[("Waiting", "Up"), ("Parked", "Up"), ("Idle", "Up"), ("Idle", "Waiting")];

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// How often each fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often each edge was walked.
    pub edges: BTreeMap<(&'static str, &'static str), u64>,
    /// How often each of Mendline's own answers was given: cause and outcome.
    pub answers: BTreeMap<(String, String), u64>,
    /// Reasons for dropped messages.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Requests in all.
    pub requests: u64,
    /// Answers of servers that came through.
    pub passed: u64,
    /// Children that died.
    pub deaths: u64,
    /// Children that died with a line accepted in part.
    pub deaths_within_a_line: u64,
    /// How HTTP exchanges ended, and how much of the request was written by then.
    pub exchanges: BTreeMap<(&'static str, &'static str), u64>,
}

impl Coverage {
    /// Takes a fact in.
    pub fn record(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Arrived(_) => self.requests += 1,
            Fact::Emitted(event) => match event.kind {
                EventKind::Moved(from, to) => *self.edges.entry((from, to)).or_default() += 1,
                EventKind::Dropped(why) => *self.dropped.entry(why).or_default() += 1,
                _ => {}
            },
            Fact::Answered { verdict: Verdict::Failed(failure), .. } => {
                *self.answers.entry((failure.cause.clone(), failure.outcome.clone())).or_default() += 1;
            }
            Fact::Answered { verdict: Verdict::Passed(_), .. } => self.passed += 1,
            _ => {}
        }
    }

    /// A fault struck.
    pub fn fault_began(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// A child died, with a line accepted in part or not.
    pub fn cut_within_a_line(&mut self, within: bool) {
        self.deaths += 1;
        self.deaths_within_a_line += u64::from(within);
    }

    /// An exchange ended.
    pub fn exchange_ended(&mut self, how: &EndHow, written: Written) {
        let how = match how {
            EndHow::Complete => "complete",
            EndHow::NoConnection(_) => "no connection",
            EndHow::Cut(_) => "cut",
            EndHow::Aborted => "aborted",
            EndHow::Refused | EndHow::TooLarge | EndHow::Forbidden(_) => "other",
        };
        let written = match written {
            Written::Nothing => "nothing written",
            Written::Partly => "partly written",
            Written::Whole => "wholly written",
        };
        *self.exchanges.entry((how, written)).or_default() += 1;
    }

    /// Adds the counts of another set of worlds.
    pub fn add(&mut self, other: &Coverage) {
        add_up(&mut self.faults, &other.faults);
        add_up(&mut self.edges, &other.edges);
        add_up(&mut self.answers, &other.answers);
        add_up(&mut self.dropped, &other.dropped);
        add_up(&mut self.exchanges, &other.exchanges);
        self.requests += other.requests;
        self.passed += other.passed;
        self.deaths += other.deaths;
        self.deaths_within_a_line += other.deaths_within_a_line;
    }

    /// What should have been visited and was not, each by its name.
    pub fn missing(&self) -> Vec<String> {
        let faults = fault::all().map(|fault| fault.name()).filter(|name| !self.faults.contains_key(name));
        let edges = EDGES.iter().filter(|edge| !self.edges.contains_key(edge));
        faults
            .map(|name| format!("fault {name}"))
            .chain(edges.map(|(from, to)| format!("edge {from} → {to}")))
            .collect()
    }

    /// Edges that were walked although nobody listed them.
    pub fn unexpected(&self) -> Vec<String> {
        self.edges
            .keys()
            .filter(|edge| !EDGES.contains(edge) && !RARE.contains(edge))
            .map(|(from, to)| format!("edge {from} → {to}"))
            .collect()
    }
}

fn add_up<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *to.entry(key.clone()).or_default() += count;
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "requests {}, passed {}, deaths {} ({} within a line)",
            self.requests, self.passed, self.deaths, self.deaths_within_a_line
        )?;
        writeln!(f, "faults")?;
        for (name, count) in &self.faults {
            writeln!(f, "  {name:<34} {count:>9}")?;
        }
        writeln!(f, "edges")?;
        for ((from, to), count) in &self.edges {
            writeln!(f, "  {:<34} {count:>9}", format!("{from} → {to}"))?;
        }
        writeln!(f, "answers of our own")?;
        for ((cause, outcome), count) in &self.answers {
            writeln!(f, "  {:<34} {count:>9}", format!("{cause} ({outcome})"))?;
        }
        writeln!(f, "exchanges")?;
        for ((how, written), count) in &self.exchanges {
            writeln!(f, "  {:<34} {count:>9}", format!("{how}, {written}"))?;
        }
        writeln!(f, "dropped and counted")?;
        for (why, count) in &self.dropped {
            writeln!(f, "  {why:<34} {count:>9}")?;
        }
        let missing = self.missing();
        if !missing.is_empty() {
            writeln!(f, "never visited: {}", missing.join(", "))?;
        }
        Ok(())
    }
}
