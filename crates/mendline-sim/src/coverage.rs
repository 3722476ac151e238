//! Coverage of a set of worlds.
//!
//! A fault that never has an effect and a state transition that never happens prove nothing. Worlds count what they
//! visit; the tests name what is missing.

use std::collections::BTreeMap;
use std::fmt;

use mendline_core::port::{ExchangeEnd, Written};

use crate::fact::Fact;
use crate::fault;
use crate::machine::EventKind;
use crate::oracle::Verdict;

/// The state transitions of a link that must be visited: from, to.
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
    // After a suspend or a network change, earlier failures do not count.
    ("Parked", "Waiting"),
    // Over HTTP there is no process to end, and a server may use another dialect.
    ("Up", "Idle"),
    ("Up", "Dialing"),
];

/// Rare transitions: over HTTP, a request other than the probe may find that the server is reachable.
const RARE: &[(&str, &str)] = &[("Waiting", "Up"), ("Parked", "Up"), ("Idle", "Up"), ("Idle", "Waiting")];

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Occurrences of each fault.
    pub faults: BTreeMap<&'static str, u64>,
    /// Occurrences of each transition.
    pub edges: BTreeMap<(&'static str, &'static str), u64>,
    /// Errors of Mendline by cause and outcome.
    pub answers: BTreeMap<(String, String), u64>,
    /// Dropped messages by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Requests.
    pub requests: u64,
    /// Answers of servers that reached a client.
    pub passed: u64,
    /// Children that ended.
    pub deaths: u64,
    /// Children that ended while a line was accepted in part.
    pub deaths_within_a_line: u64,
    /// Silent calls that were reported.
    pub silent: u64,
    /// Silent calls that were sent once more.
    pub repeated: u64,
    /// Ends of HTTP exchanges, and how much of the request was written.
    pub exchanges: BTreeMap<(&'static str, &'static str), u64>,
}

impl Coverage {
    /// Counts a fact.
    pub fn record(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Arrived(_) => self.requests += 1,
            Fact::Emitted(event) => match event.kind {
                EventKind::Moved(from, to) => *self.edges.entry((from, to)).or_default() += 1,
                EventKind::Dropped(why) => *self.dropped.entry(why).or_default() += 1,
                EventKind::Silent(_) => self.silent += 1,
                EventKind::Retried(..) if event.reason == Some("timed_out") => self.repeated += 1,
                _ => {}
            },
            Fact::Answered { verdict: Verdict::Failed(failure), .. } => {
                *self.answers.entry((failure.cause.clone(), failure.outcome.clone())).or_default() += 1;
            }
            Fact::Answered { verdict: Verdict::Passed(_), .. } => self.passed += 1,
            _ => {}
        }
    }

    /// Counts a fault.
    pub fn fault_began(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Counts the end of a child.
    pub fn cut_within_a_line(&mut self, within: bool) {
        self.deaths += 1;
        self.deaths_within_a_line += u64::from(within);
    }

    /// Counts the end of an exchange.
    pub fn exchange_ended(&mut self, how: &ExchangeEnd, written: Written) {
        let how = match how {
            ExchangeEnd::Complete => "complete",
            ExchangeEnd::NoConnection(_) => "no connection",
            ExchangeEnd::Cut(_) => "cut",
            ExchangeEnd::Aborted => "aborted",
            ExchangeEnd::Refused | ExchangeEnd::TooLarge | ExchangeEnd::Forbidden(_) => "other",
        };
        let written = match written {
            Written::Nothing => "nothing written",
            Written::Partial => "partly written",
            Written::Whole => "wholly written",
        };
        *self.exchanges.entry((how, written)).or_default() += 1;
    }

    /// Adds the counts of another set.
    pub fn add(&mut self, other: &Coverage) {
        add_up(&mut self.faults, &other.faults);
        add_up(&mut self.edges, &other.edges);
        add_up(&mut self.answers, &other.answers);
        add_up(&mut self.dropped, &other.dropped);
        add_up(&mut self.exchanges, &other.exchanges);
        self.requests += other.requests;
        self.passed += other.passed;
        self.deaths += other.deaths;
        self.silent += other.silent;
        self.repeated += other.repeated;
        self.deaths_within_a_line += other.deaths_within_a_line;
    }

    /// Returns the names of everything that was not visited.
    pub fn missing(&self) -> Vec<String> {
        let faults = fault::all().map(|fault| fault.name()).filter(|name| !self.faults.contains_key(name));
        let edges = EDGES.iter().filter(|edge| !self.edges.contains_key(edge));
        faults
            .map(|name| format!("fault {name}"))
            .chain(edges.map(|(from, to)| format!("transition {from} → {to}")))
            .collect()
    }

    /// Returns the transitions that were visited and are not listed.
    pub fn unexpected(&self) -> Vec<String> {
        self.edges
            .keys()
            .filter(|edge| !EDGES.contains(edge) && !RARE.contains(edge))
            .map(|(from, to)| format!("transition {from} → {to}"))
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
            "requests {}, passed {}, silent {} ({} sent once more), deaths {} ({} within a line)",
            self.requests, self.passed, self.silent, self.repeated, self.deaths, self.deaths_within_a_line
        )?;
        writeln!(f, "faults")?;
        for (name, count) in &self.faults {
            writeln!(f, "  {name:<34} {count:>9}")?;
        }
        writeln!(f, "transitions")?;
        for ((from, to), count) in &self.edges {
            writeln!(f, "  {:<34} {count:>9}", format!("{from} → {to}"))?;
        }
        writeln!(f, "errors of Mendline")?;
        for ((cause, outcome), count) in &self.answers {
            writeln!(f, "  {:<34} {count:>9}", format!("{cause} ({outcome})"))?;
        }
        writeln!(f, "exchanges")?;
        for ((how, written), count) in &self.exchanges {
            writeln!(f, "  {:<34} {count:>9}", format!("{how}, {written}"))?;
        }
        writeln!(f, "dropped messages")?;
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
