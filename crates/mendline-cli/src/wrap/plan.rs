//! What is to be done with one file, found out before anything is touched.
//!
//! Each entry is judged by itself, and a wrapped one has to prove itself before it counts: the changed text is read again, the
//! entry in it has to say exactly what was meant, `mendline run` has to accept its arguments, and unwrapping it has to give
//! back the same bytes. An entry that fails is left, with the reason; so whatever is written can be undone.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Parser;

use super::document::{Document, Entry, Fault, Section, Syntax};
use super::edit::{Edit, apply};
use super::original::unwrap;
use super::wrapped::{Change, Verdict, wrap};
use crate::cli::Cli;

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
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) fate: Fate,
    pub(crate) notes: Vec<String>,
}

/// What becomes of an entry.
#[derive(Debug, PartialEq, Eq)]
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
        let (mut edits, mut servers) = (Vec::new(), Vec::new());
        for section in sections {
            for member in document.servers(section) {
                if !chosen.is_empty() && !chosen.contains(&member.key) {
                    continue;
                }
                let entry = document.entry(section, member);
                let verdict = match &entry {
                    Some(entry) => judge(&document, section, entry, way, chosen.contains(&member.key)),
                    None => Verdict::Left("it is not a table".to_owned()),
                };
                let (fate, notes) = match verdict {
                    Verdict::Change(change) => {
                        edits.extend(change.edits);
                        (Fate::Changed, change.notes)
                    }
                    Verdict::Already => {
                        (Fate::Already, entry.and_then(|entry| elsewhere(&entry, way)).into_iter().collect())
                    }
                    Verdict::Left(reason) => (Fate::Left(reason), Vec::new()),
                };
                servers.push(Server { name: member.key.clone(), fate, notes });
            }
        }
        let after = apply(&text, &edits);
        Document::parse(&after, syntax)?;
        Ok(Plan { before: text, after, syntax, edits, servers })
    }

    pub(crate) fn changes(&self) -> bool {
        self.before != self.after
    }
}

fn judge(document: &Document<'_>, section: &Section, entry: &Entry<'_>, way: Way<'_>, named: bool) -> Verdict {
    let verdict = match way {
        Way::Wrap { binary } => wrap(entry, binary, named),
        Way::Unwrap => unwrap(entry),
    };
    let Verdict::Change(change) = verdict else { return verdict };
    let trial = Trial { document, section, entry, change: &change };
    let proof = match way {
        Way::Wrap { binary } => trial.wrapped(binary),
        Way::Unwrap => trial.unwrapped(),
    };
    match proof {
        Ok(()) => Verdict::Change(change),
        Err(reason) => Verdict::Left(reason),
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

/// A change that is made to see whether it may be.
struct Trial<'a> {
    document: &'a Document<'a>,
    section: &'a Section,
    entry: &'a Entry<'a>,
    change: &'a Change,
}

impl Trial<'_> {
    fn wrapped(&self, binary: &str) -> Result<(), String> {
        let accepted = std::iter::once("mendline").chain(self.change.arguments.iter().map(String::as_str));
        Cli::try_parse_from(accepted).map_err(|_| "`mendline run` would not accept its arguments".to_owned())?;
        self.with_result(|text, entry| {
            let command = entry.table.get("command").and_then(|member| member.text());
            let arguments = entry.table.get("args").and_then(|member| member.texts());
            let environment = entry.table.table("env");
            let meant =
                command == Some(binary)
                    && arguments.is_some_and(|words| words.iter().eq(self.change.arguments.iter()))
                    && self.change.variables.iter().all(|(name, value)| {
                        environment.and_then(|table| table.get(name)?.text()) == Some(value.as_str())
                    });
            if !meant {
                return Err("it is written in a way that cannot be changed in place".to_owned());
            }
            match unwrap(entry) {
                Verdict::Change(back) if apply(text, &back.edits) == self.document.text => Ok(()),
                _ => Err("it is written in a way that could not be brought back exactly".to_owned()),
            }
        })
    }

    fn unwrapped(&self) -> Result<(), String> {
        self.with_result(|_, entry| {
            let known = entry.table.get("command").or(entry.table.get("url")).and_then(|member| member.text());
            known.map(|_| ()).ok_or_else(|| BROKEN.to_owned())
        })
    }

    /// Looks at the entry as it would be.
    fn with_result(&self, look: impl Fn(&str, &Entry<'_>) -> Result<(), String>) -> Result<(), String> {
        let text = apply(self.document.text, &self.change.edits);
        let document = Document::parse(&text, self.document.syntax).map_err(|fault| format!("{BROKEN} ({fault})"))?;
        let found = document.servers(self.section).iter().find(|member| member.key == self.entry.name);
        let entry = found.and_then(|member| document.entry(self.section, member)).ok_or(BROKEN)?;
        look(&text, &entry)
    }
}

const BROKEN: &str = "it is written in a way that cannot be changed in place";
