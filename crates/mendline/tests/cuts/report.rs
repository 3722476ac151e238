//! The results of all cuts as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::check::{AnswerKind, answer_kind, violations};
use super::faulty_stream::Fault;
use super::observations::{Observations, Role};

/// The results of cut conversations.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of the runs.
    held: Vec<ConversationRows>,
    /// The violations, each with the bytes at which it happened.
    violations: BTreeMap<Violation, BTreeSet<usize>>,
}

/// The rows of one conversation.
#[derive(Debug)]
struct ConversationRows {
    name: &'static str,
    up: usize,
    down: usize,
    /// One row for each kind of fault, in the order of [`Fault::KINDS`].
    rows: [Row; Fault::KINDS.len()],
}

/// The outcomes of the unsafe call over many cuts.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    cuts: usize,
    answered: usize,
    /// The answers after a resumption of the response.
    resumed: usize,
    not_sent: usize,
    refused: usize,
    unknown: usize,
    cancelled: usize,
    /// The slowest answer of all requests.
    slowest: Duration,
}

/// A violated rule. The same violation usually happens at many consecutive bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    what: String,
    conversation: &'static str,
    fault: &'static str,
}

impl Report {
    /// Adds a conversation with this fault. The first one has none.
    pub fn add(&mut self, name: &'static str, fault: Option<Fault>, observed: &Observations) {
        if fault.is_none() {
            self.held.push(ConversationRows {
                name,
                up: observed.up.0,
                down: observed.down.0,
                rows: Default::default(),
            });
        }
        let kind = Fault::KINDS.iter().position(|(known, _, _)| fault.is_some_and(|fault| fault.name() == *known));
        if let (Some(kind), Some(held)) = (kind, self.held.last_mut()) {
            held.rows[kind].count(observed);
        }
        for what in violations(observed, fault) {
            let violation = Violation { what, conversation: name, fault: fault.map_or("none", |fault| fault.name()) };
            self.violations.entry(violation).or_default().insert(fault.map_or(0, |fault| fault.at));
        }
    }

    /// Adds another report.
    pub fn absorb(&mut self, other: Report) {
        self.held.extend(other.held);
        self.violations.extend(other.violations);
    }

    pub fn cuts(&self) -> usize {
        self.held.iter().flat_map(|held| &held.rows).map(|row| row.cuts).sum()
    }

    /// Returns the number of violations.
    pub fn found(&self) -> usize {
        self.violations.values().map(BTreeSet::len).sum()
    }

    /// Returns the outcomes of the unsafe call: a block for each conversation, and one for all.
    pub fn table(&self) -> String {
        let mut text = format!(
            "outcome of the unsafe call (none after a failed handshake), and the slowest answer of all\n\n{:<22}{:<12}{}\n",
            "conversation",
            "fault",
            Row::HEAD
        );
        let mut sums = [Row::default(); Fault::KINDS.len()];
        for held in &self.held {
            let mut labels = [held.name.to_owned(), format!("  {} B up", held.up), format!("  {} B down", held.down)];
            put_block(&mut text, &mut labels, &held.rows);
            for (sum, row) in sums.iter_mut().zip(&held.rows) {
                sum.absorb(row);
            }
        }
        if self.held.len() > 1 {
            put_block(&mut text, &mut ["all conversations".to_owned()], &sums);
        }
        let mut all = Row::default();
        sums.iter().for_each(|sum| all.absorb(sum));
        let _ = writeln!(text, "\n{:<22}{:<12}{}", "everything", "", all.text());
        let _ = write!(text, "\n{} conversations, {} cuts, {} violations", self.held.len(), all.cuts, self.found());
        text
    }

    /// Returns one line for each violation, with its bytes and the command that reproduces the first.
    pub fn failures(&self) -> Vec<String> {
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

/// Appends the rows of one conversation, with its labels beside the first ones.
fn put_block(text: &mut String, labels: &mut [String], rows: &[Row]) {
    let mut labels = labels.iter_mut();
    text.push('\n');
    for ((fault, _, _), row) in Fault::KINDS.iter().zip(rows).filter(|(_, row)| row.cuts > 0) {
        let label = labels.next().map(std::mem::take).unwrap_or_default();
        let _ = writeln!(text, "{label:<22}{fault:<12}{}", row.text());
    }
}

impl Row {
    const HEAD: &str = "  cuts  answered   resumed  not sent   refused   unknown cancelled   slowest";

    fn count(&mut self, observed: &Observations) {
        self.cuts += 1;
        let call = observed.of(Role::Unsafe);
        match call.and_then(|request| request.answers.first()).map(answer_kind) {
            Some(AnswerKind::Success) => {
                self.answered += 1;
                self.resumed += usize::from(observed.resumed > 0);
            }
            Some(AnswerKind::NotSent) => self.not_sent += 1,
            Some(AnswerKind::Refused) => self.refused += 1,
            Some(AnswerKind::Unknown) => self.unknown += 1,
            None if call.is_some_and(|request| request.cancelled) => self.cancelled += 1,
            Some(AnswerKind::OtherFailure) | None => {}
        }
        let slowest = observed.requests.iter().filter_map(|request| request.took).max();
        self.slowest = self.slowest.max(slowest.unwrap_or_default());
    }

    fn absorb(&mut self, other: &Row) {
        self.cuts += other.cuts;
        self.answered += other.answered;
        self.resumed += other.resumed;
        self.not_sent += other.not_sent;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.cancelled += other.cancelled;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Returns the numbers of a row; a dot stands for zero.
    fn text(&self) -> String {
        let Row { cuts, answered, resumed, not_sent, refused, unknown, cancelled, slowest } = *self;
        let counts = [answered, resumed, not_sent, refused, unknown, cancelled];
        let counts: String =
            counts.map(|count| if count == 0 { format!("{:>10}", "·") } else { format!("{count:>10}") }).concat();
        format!("{cuts:>6}{counts}{:>10}", format_duration(slowest))
    }
}

/// Formats a duration.
fn format_duration(time: Duration) -> String {
    match time.as_millis() {
        0 => "at once".to_owned(),
        millis @ 1..1000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::conversation::Wire;
    use super::super::faulty_stream::{Direction, Kind};
    use super::super::site::{AnswerMode, Variant};
    use super::*;

    #[test]
    fn cut_is_counted_in_its_row() {
        let mut observed = Observations::nothing(Wire::Http1, AnswerMode::ResumableEvents, Variant::Plain);
        observed.ask(&[Role::Unsafe], false);
        observed.note(&json!({"id": "unsafe", "result": {}}).to_string(), Duration::from_millis(1200));
        (observed.runs, observed.resumed, observed.ended) = (1, 1, Some(Duration::ZERO));
        let mut report = Report::default();
        report.add("one", None, &observed);
        report.add("one", Some(Fault { kind: Kind::Cut, direction: Direction::Down, at: 3 }), &observed);
        let row = "one                   cut-down         1         1         1         ·         ·         ·         ·     1.2 s";
        assert!(report.table().contains(row), "{}", report.table());
        assert_eq!((report.cuts(), report.found()), (1, 0));
    }
}
