//! What is to be done with one file, found out before anything is touched.
//!
//! Each entry is judged by itself, and a wrapped one has to prove itself before it counts (`proof`). An entry that fails is
//! left, with the reason; so whatever is written can be undone.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::{Document, Entry, Fault, Section, Syntax};
use super::edit::{Edit, apply};
use super::original::unwrap;
use super::proof::{Proposal, Prover};
use super::wrapped::{Verdict, wrap};

/// Which way.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// Through this binary.
    Wrap {
        binary: &'a str,
    },
    Unwrap,
}

/// The servers that a person named; none means all.
pub(crate) type Chosen = BTreeSet<String>;

/// What is to be done with a file.
pub(crate) struct Plan {
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) syntax: Syntax,
    pub(crate) edits: Vec<Edit>,
    pub(crate) servers: Vec<Server>,
}

/// What is to be done with one server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) fate: Fate,
    pub(crate) notes: Vec<String>,
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Changed,
    /// It is as it should be.
    Already,
    /// It stays as it is, for this reason.
    Left(String),
}

impl Plan {
    /// Finds out what is to be done with a text. Without sections, all that it has are meant.
    pub(crate) fn make(
        text: String,
        syntax: Syntax,
        sections: &[Section],
        way: Way<'_>,
        chosen: &Chosen,
    ) -> Result<Plan, Fault> {
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
                let verdict = match (&entry, way) {
                    (Some(entry), Way::Wrap { binary }) => wrap(entry, binary, chosen.contains(&member.key)),
                    (Some(entry), Way::Unwrap) => unwrap(entry),
                    (None, Way::Wrap { .. }) => Verdict::Left("it is not a table".to_owned()),
                    (None, Way::Unwrap) => Verdict::Already,
                };
                let (mut fate, mut notes) = (Fate::Changed, Vec::new());
                match (verdict, entry) {
                    (Verdict::Change(mut change), _) => {
                        notes = std::mem::take(&mut change.notes);
                        proposals.push(Proposal { server: servers.len(), section, name: &member.key, change });
                    }
                    (Verdict::Already, entry) => {
                        fate = Fate::Already;
                        notes.extend(entry.and_then(|entry| elsewhere(&entry, way)));
                    }
                    (Verdict::Left(reason), _) => fate = Fate::Left(reason),
                }
                servers.push(Server { name: member.key.clone(), fate, notes });
            }
        }
        let proven = Prover::new(&document, way).prove(proposals);
        for (server, reason) in proven.left {
            servers[server] = Server { fate: Fate::Left(reason), notes: Vec::new(), ..servers[server].clone() };
        }
        let edits: Vec<Edit> = proven.kept.into_iter().flat_map(|proposal| proposal.change.edits).collect();
        let after = apply(&text, &edits);
        Ok(Plan { before: text, after, syntax, edits, servers })
    }

    pub(crate) fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// What there is to say about an entry that is wrapped already, but with another program than it would be now.
fn elsewhere(entry: &Entry<'_>, way: Way<'_>) -> Option<String> {
    let (Way::Wrap { binary }, program) = (way, entry.table.get("command")?.text()?) else { return None };
    if program == binary {
        return None;
    }
    let gone = Path::new(program).is_absolute() && !Path::new(program).exists();
    let more = if gone { ", which is gone: unwrap it, and wrap it again" } else { "" };
    Some(format!("through {program}{more}"))
}
