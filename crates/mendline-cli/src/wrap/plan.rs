//! The plan for one file, made before anything is written.
//!
//! Each entry is judged by itself, and each change is verified (`proof`). An entry that fails is left with the reason,
//! so that everything that is written can be undone.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use mendline_config::start_of_arguments;

use super::document::{Document, Entry, ParseError, Section, Syntax};
use super::edit::{Edit, apply};
use super::program::Program;
use super::proof::{Proposal, Prover};
use super::secrets::shown_words;
use super::unwrap_entry::unwrap;
use super::wrap_entry::{Verdict, wrap};

/// Direction of the change.
#[derive(Clone, Copy)]
pub(crate) enum Action<'a> {
    /// Wrap with this program.
    Wrap {
        program: &'a Program,
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
        let (mut proposals, mut servers, mut lines) = (Vec::new(), Vec::new(), HashMap::new());
        for section in sections {
            for member in document.servers(section) {
                if !chosen.is_empty() && !chosen.contains(&member.key) || !document.is_server(section, member) {
                    continue;
                }
                let entry = document.entry(section, member);
                let verdict = match (&entry, action) {
                    (Some(entry), Action::Wrap { program }) => wrap(entry, program, chosen.contains(&member.key)),
                    (Some(entry), Action::Unwrap) => unwrap(entry),
                    (None, Action::Wrap { program }) => Verdict::Left(not_a_table(syntax, program, &member.key)),
                    (None, Action::Unwrap) => Verdict::Already,
                };
                let (mut result, mut notes) = (EntryResult::Changed, Vec::new());
                match (verdict, entry) {
                    (Verdict::Change(mut change), _) => {
                        lines.insert(servers.len(), change.arguments.clone());
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
        for (server, mut reason) in proven.left {
            reason += &by_hand(lines.get(&server).map_or(&[][..], Vec::as_slice), action);
            servers[server] =
                Server { result: EntryResult::Left(reason), notes: Vec::new(), ..servers[server].clone() };
        }
        let edits: Vec<Edit> = proven.kept.into_iter().flat_map(|proposal| proposal.change.edits).collect();
        let after = apply(&text, &edits);
        Ok(Plan { before: text, after, syntax, edits, servers })
    }

    /// Returns whether another plan replaces the same texts by the same texts, wherever they are now.
    pub(crate) fn is_same_change(&self, other: &Plan) -> bool {
        let changed = |plan: &Plan| -> Vec<(String, String)> {
            plan.edits.iter().map(|edit| (plan.before[edit.range.clone()].to_owned(), edit.text.clone())).collect()
        };
        let names = |plan: &Plan| -> Vec<String> {
            let changed = plan.servers.iter().filter(|server| server.result == EntryResult::Changed);
            changed.map(|server| server.name.clone()).collect()
        };
        names(self) == names(other) && changed(self) == changed(other)
    }

    pub(crate) fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// Returns the reason to leave an entry that is not a table, or is one that cannot be changed in its place.
fn not_a_table(syntax: Syntax, program: &Program, name: &str) -> String {
    if syntax != Syntax::Yaml {
        return "it is not a table".to_owned();
    }
    let line = program.line();
    format!(
        "it is not a table, or has an anchor, a tag or a merge key, and is not changed; by hand, put `{line} run --name {name} --` before its command"
    )
}

/// Returns the command line to write by hand, for an entry that could not be changed in its notation.
fn by_hand(arguments: &[String], action: Action<'_>) -> String {
    match action {
        Action::Wrap { program } => {
            let words = program.words().chain(arguments.iter().map(String::as_str));
            format!("; the command to write by hand: {}", shown_words(words))
        }
        Action::Unwrap => String::new(),
    }
}

/// Returns a remark about an entry that is wrapped already, but with another program.
fn elsewhere(entry: &Entry<'_>, action: Action<'_>) -> Option<String> {
    let Action::Wrap { program } = action else { return None };
    let words = entry.words()?;
    let own = &words[..start_of_arguments(&words)?];
    if program.words().eq(own.iter().copied()) {
        return None;
    }
    let is_gone = Path::new(own[0]).is_absolute() && !Path::new(own[0]).exists();
    let more = if is_gone { ", which is gone: unwrap it, and wrap it again" } else { "" };
    Some(format!("through {}{more}", own.join(" ")))
}
