//! Verification of changes before they are written.
//!
//! The changed text is parsed again, each entry must have the intended content, `mendline run` must accept its
//! arguments, and unwrapping must restore the same bytes. All entries are verified together, so the text is parsed
//! once, however many entries it has. Entries that fail are removed, and the rest is verified again. If the failing
//! entry is unknown, the entries are bisected, up to a limit.

use std::collections::HashMap;

use super::arguments;
use super::document::{Document, Entry, Section};
use super::edit::{Edit, apply};
use super::plan::Action;
use super::tree::Range;
use super::unwrap_entry::unwrap;
use super::wrap_entry::{Change, Verdict};

/// A proposed change of an entry.
pub(crate) struct Proposal<'a> {
    /// Its index among all servers.
    pub(crate) server: usize,
    pub(crate) section: &'a Section,
    pub(crate) name: &'a str,
    pub(crate) change: Change,
}

/// Result of the verification.
#[derive(Default)]
pub(crate) struct Proven<'a> {
    /// The changes that may be written, all together.
    pub(crate) kept: Vec<Proposal<'a>>,
    /// The servers that are left unchanged, with the reason.
    pub(crate) left: Vec<(usize, String)>,
}

/// The reason why changes cannot be written together.
enum Failure {
    /// These changes fail, by their index in the list.
    Of(Vec<(usize, String)>),
    /// One or more of the changes fail.
    Somewhere(String),
}

/// Verifies the changes of one document.
pub(crate) struct Prover<'a> {
    document: &'a Document<'a>,
    action: Action<'a>,
    /// Number of remaining verifications.
    budget: usize,
}

/// Number of verifications of a file, whatever its size.
const PROOFS: usize = 64;

/// Number of bytes for further verifications: a small file gets more of them.
const MORE_BYTES: usize = 16 << 20;

const BROKEN: &str = "it is written in a way that cannot be changed in place";
const NOT_EXACT: &str = "it is written in a way that could not be restored exactly";

impl<'a> Prover<'a> {
    pub(crate) fn new(document: &'a Document<'a>, action: Action<'a>) -> Prover<'a> {
        Prover { document, action, budget: PROOFS + MORE_BYTES / document.text.len().max(1) }
    }

    /// Verifies as many of these as possible.
    pub(crate) fn prove<'p>(mut self, proposals: Vec<Proposal<'p>>) -> Proven<'p> {
        let is_unwrapping = matches!(self.action, Action::Unwrap);
        let is_accepted =
            |proposal: &Proposal<'_>| is_unwrapping || arguments::are_accepted(&proposal.change.arguments);
        let (accepted, refused): (Vec<_>, Vec<_>) = proposals.into_iter().partition(is_accepted);
        let mut proven = Proven::default();
        let reason = "`mendline run` would not accept its arguments";
        proven.left.extend(refused.iter().map(|proposal| (proposal.server, reason.to_owned())));
        proven.kept = self.settle(accepted, &mut proven.left);
        proven
    }

    fn settle<'p>(&mut self, mut set: Vec<Proposal<'p>>, left: &mut Vec<(usize, String)>) -> Vec<Proposal<'p>> {
        while !set.is_empty() {
            if self.budget == 0 {
                left.extend(set.iter().map(|proposal| (proposal.server, NOT_EXACT.to_owned())));
                break;
            }
            self.budget -= 1;
            match self.trial(&set) {
                Ok(()) => return set,
                Err(Failure::Of(faults)) => {
                    let mut faults: HashMap<usize, String> = faults.into_iter().collect();
                    let mut at = 0;
                    set.retain(|proposal| {
                        let fault = faults.remove(&at);
                        at += 1;
                        let is_kept = fault.is_none();
                        left.extend(fault.map(|reason| (proposal.server, reason)));
                        is_kept
                    });
                }
                Err(Failure::Somewhere(reason)) => return self.halve(set, &reason, left),
            }
        }
        Vec::new()
    }

    fn halve<'p>(
        &mut self,
        mut set: Vec<Proposal<'p>>,
        reason: &str,
        left: &mut Vec<(usize, String)>,
    ) -> Vec<Proposal<'p>> {
        if let [one] = set.as_slice() {
            left.push((one.server, reason.to_owned()));
            return Vec::new();
        }
        let second = set.split_off(set.len() / 2);
        let (first, second) = (self.settle(set, left), self.settle(second, left));
        if first.is_empty() || second.is_empty() {
            return [first, second].into_iter().flatten().collect();
        }
        let count = first.len();
        let mut both: Vec<Proposal<'p>> = first.into_iter().chain(second).collect();
        if self.trial(&both).is_err() {
            // Each half passes by itself, but not together.
            let apart = both.split_off(count);
            left.extend(apart.iter().map(|proposal| (proposal.server, reason.to_owned())));
        }
        both
    }

    /// Applies these changes, and checks the result.
    fn trial(&self, set: &[Proposal<'_>]) -> Result<(), Failure> {
        let edits: Vec<Edit> = set.iter().flat_map(|proposal| proposal.change.edits.iter().cloned()).collect();
        let text = apply(self.document.text, &edits);
        let document = Document::parse(&text, self.document.syntax)
            .map_err(|fault| Failure::Somewhere(format!("{BROKEN} ({fault})")))?;
        let mut entries = HashMap::new();
        let mut sections: Vec<&Section> = set.iter().map(|proposal| proposal.section).collect();
        sections.dedup();
        for section in sections {
            let members = document.servers(section).iter();
            entries.extend(members.map(|member| ((section, member.key.as_str()), member)));
        }
        let (mut faults, mut back) = (Vec::new(), Vec::new());
        for (at, proposal) in set.iter().enumerate() {
            let member = entries.get(&(proposal.section, proposal.name));
            let entry = member.and_then(|member| document.entry(proposal.section, member));
            match entry.ok_or(BROKEN).and_then(|entry| self.restoring_edits(&entry, &proposal.change)) {
                Ok(edits) => back.push(edits),
                Err(reason) => faults.push((at, reason.to_owned())),
            }
        }
        if !faults.is_empty() {
            return Err(Failure::Of(faults));
        }
        let all: Vec<Edit> = back.iter().flatten().cloned().collect();
        if matches!(self.action, Action::Unwrap) || apply(&text, &all) == self.document.text {
            return Ok(());
        }
        let inexact = self.inexact(set, &text, &back);
        let reasons: Vec<(usize, String)> = inexact.into_iter().map(|at| (at, NOT_EXACT.to_owned())).collect();
        Err(if reasons.is_empty() { Failure::Somewhere(NOT_EXACT.to_owned()) } else { Failure::Of(reasons) })
    }

    /// Checks a changed entry, and returns the edits that restore it if it is wrapped.
    fn restoring_edits(&self, entry: &Entry<'_>, change: &Change) -> Result<Vec<Edit>, &'static str> {
        let line = entry.words();
        let Action::Wrap { program } = self.action else {
            let is_known = line.is_some() || entry.urls().any(|url| url.text().is_some());
            return if is_known { Ok(Vec::new()) } else { Err(BROKEN) };
        };
        let environment = entry.environment().and_then(|member| member.table());
        let holds = |(name, value): &(String, String)| {
            environment.and_then(|table| table.get(name)?.text()) == Some(value.as_str())
        };
        let wanted = program.words().chain(change.arguments.iter().map(String::as_str));
        let is_meant = line.is_some_and(|words| words.into_iter().eq(wanted)) && change.variables.iter().all(holds);
        if !is_meant {
            return Err(BROKEN);
        }
        match unwrap(entry) {
            Verdict::Change(back) => Ok(back.edits),
            _ => Err(NOT_EXACT),
        }
    }

    /// Returns the changes that are not restored exactly, judged by the part of the text that each of them changes.
    /// Returns none if these parts overlap.
    fn inexact(&self, set: &[Proposal<'_>], after: &str, back: &[Vec<Edit>]) -> Vec<usize> {
        let before = self.document.text;
        let mut places: Vec<(usize, Range)> = Vec::new();
        for (at, proposal) in set.iter().enumerate() {
            let edits = &proposal.change.edits;
            let start = edits.iter().map(|edit| edit.range.start).min().unwrap_or(0);
            let end = edits.iter().map(|edit| edit.range.end).max().unwrap_or(start);
            places.push((at, start..end));
        }
        places.sort_by_key(|(_, place)| place.start);
        if places.windows(2).any(|pair| pair[1].1.start < pair[0].1.end) {
            return Vec::new();
        }
        let (mut put_in, mut taken_out) = (0, 0);
        let mut inexact = Vec::new();
        for (at, place) in places {
            let start = place.start + put_in - taken_out;
            for edit in &set[at].change.edits {
                put_in += edit.text.len();
                taken_out += edit.range.len();
            }
            let end = place.end + put_in - taken_out;
            // The restoring edits may begin before the first change, or end behind the last.
            let edits = &back[at];
            let first = edits.iter().map(|edit| edit.range.start).min().unwrap_or(start).min(start);
            let last = edits.iter().map(|edit| edit.range.end).max().unwrap_or(end).max(end);
            let was = (place.start + first).checked_sub(start).map(|from| from..place.end + (last - end));
            let (Some(was), Some(is)) = (was.and_then(|was| before.get(was)), after.get(first..last)) else {
                return Vec::new();
            };
            let moved = |edit: &Edit| Edit { range: edit.range.start - first..edit.range.end - first, ..edit.clone() };
            let edits: Vec<Edit> = edits.iter().map(moved).collect();
            if apply(is, &edits) != was {
                inexact.push(at);
            }
        }
        inexact
    }
}
