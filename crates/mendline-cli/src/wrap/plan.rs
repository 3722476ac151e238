//! The plan for one file, made before anything is written.
//!
//! Each entry is judged by itself, and each change is verified (`proof`). An entry that fails is left with the reason,
//! so that everything that is written can be undone.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::{Document, Entry, ParseError, Section, Syntax};
use super::edit::{Edit, apply};
use super::proof::{Proposal, Prover};
use super::unwrap_entry::unwrap;
use super::wrap_entry::{Verdict, wrap};

/// Direction of the change.
#[derive(Clone, Copy)]
pub(crate) enum Action<'a> {
    /// Wrap with this binary.
    Wrap {
        binary: &'a str,
    },
    Unwrap,
}

/// The servers that were named; empty means all.
pub(crate) type Chosen = BTreeSet<String>;

/// The plan for a file.
pub(crate) struct Plan {
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) syntax: Syntax,
    pub(crate) edits: Vec<Edit>,
    pub(crate) servers: Vec<Server>,
}

/// The plan for one server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) result: EntryResult,
    pub(crate) notes: Vec<String>,
}

/// Result for an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryResult {
    Changed,
    /// There is nothing to change.
    Already,
    /// It is left unchanged, for this reason.
    Left(String),
}

impl Plan {
    /// Makes the plan for a text. Without sections, all its sections are meant.
    pub(crate) fn make(
        text: String,
        syntax: Syntax,
        sections: &[Section],
        action: Action<'_>,
        chosen: &Chosen,
    ) -> Result<Plan, ParseError> {
        let document = Document::parse(&text, syntax)?;
        let found = document.sections();
        let sections = if sections.is_empty() { &found } else { sections };
        let (mut proposals, mut servers) = (Vec::new(), Vec::new());
        for section in sections {
            for member in document.servers(section) {
                if !chosen.is_empty() && !chosen.contains(&member.key) {
                    continue;
                }
                let entry = document.entry(section, member);
                let verdict = match (&entry, action) {
                    (Some(entry), Action::Wrap { binary }) => wrap(entry, binary, chosen.contains(&member.key)),
                    (Some(entry), Action::Unwrap) => unwrap(entry),
                    (None, Action::Wrap { .. }) => Verdict::Left("it is not a table".to_owned()),
                    (None, Action::Unwrap) => Verdict::Already,
                };
                let (mut result, mut notes) = (EntryResult::Changed, Vec::new());
                match (verdict, entry) {
                    (Verdict::Change(mut change), _) => {
                        notes = std::mem::take(&mut change.notes);
                        proposals.push(Proposal { server: servers.len(), section, name: &member.key, change });
                    }
                    (Verdict::Already, entry) => {
                        result = EntryResult::Already;
                        notes.extend(entry.and_then(|entry| elsewhere(&entry, action)));
                    }
                    (Verdict::Left(reason), _) => result = EntryResult::Left(reason),
                }
                servers.push(Server { name: member.key.clone(), result, notes });
            }
        }
        let proven = Prover::new(&document, action).prove(proposals);
        for (server, reason) in proven.left {
            servers[server] =
                Server { result: EntryResult::Left(reason), notes: Vec::new(), ..servers[server].clone() };
        }
        let edits: Vec<Edit> = proven.kept.into_iter().flat_map(|proposal| proposal.change.edits).collect();
        let after = apply(&text, &edits);
        Ok(Plan { before: text, after, syntax, edits, servers })
    }

    pub(crate) fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// Returns a remark about an entry that is wrapped already, but with another program.
fn elsewhere(entry: &Entry<'_>, action: Action<'_>) -> Option<String> {
    let (Action::Wrap { binary }, program) = (action, entry.table.get("command")?.text()?) else { return None };
    if program == binary {
        return None;
    }
    let gone = Path::new(program).is_absolute() && !Path::new(program).exists();
    let more = if gone { ", which is gone: unwrap it, and wrap it again" } else { "" };
    Some(format!("through {program}{more}"))
}
