//! The policies of an entry, which `wrap` carries over to its arguments.
//!
//! A client starts the command of an entry and passes none of its other keys on. So every policy becomes `--policy
//! KEY=VALUE`. It also stays in the entry, where `unwrap` leaves it.

use mendline_config::keys::{self, Kind};
use mendline_config::{Environment, PolicySet, is_policy};

use super::document::{Entry, Syntax};
use super::tree::{Node, Table, Value};

/// The flag for a policy. It has a value.
pub(crate) const POLICY: &str = "--policy";

/// The policies of an entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    /// The values of the flag.
    pub(crate) words: Vec<String>,
    /// Remarks about policies that are not carried over.
    pub(crate) notes: Vec<String>,
}

impl Policies {
    /// Returns the policies of an entry, and the file's defaults for all servers.
    pub(crate) fn of(entry: &Entry<'_>) -> Policies {
        let mut policies = Policies::default();
        policies.add(entry, entry.table);
        if let Some(defaults) = entry.defaults {
            policies.add(entry, defaults);
        }
        policies
    }

    /// Adds the policies of a table, except those that are there already.
    fn add(&mut self, entry: &Entry<'_>, table: &Table) {
        for member in table.members.iter().filter(|member| is_policy(&member.key)) {
            let mut words = Vec::new();
            let read = flatten(entry, &member.key, &member.value, &mut words);
            words.retain(|word| !self.words.iter().any(|known| path(known) == path(word)));
            // A variable may be set for the client and not here.
            let known = self.words.iter().chain(&words).filter(|word| !word.contains("${")).map(String::as_str);
            let parse = || PolicySet::parse(known, &Environment::new(|_| None)).map_err(|error| error.to_string());
            let checked = read.and_then(|()| parse());
            match checked {
                Ok(_) => self.words.append(&mut words),
                Err(why) => {
                    self.notes.push(format!("its {:?} is not carried over and has no effect: {why}", member.key));
                }
            }
        }
    }

    /// Returns the arguments for these policies.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> {
        self.words.iter().flat_map(|word| [POLICY.to_owned(), word.clone()])
    }
}

fn path(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// Appends a value and everything in it, each with its path.
fn flatten(entry: &Entry<'_>, path: &str, node: &Node, words: &mut Vec<String>) -> Result<(), String> {
    let value = match &node.value {
        Value::Table(table) | Value::Dotted(table) => {
            return table.members.iter().filter(|member| !is_foreign(path, &member.key)).try_for_each(|member| {
                if member.key.contains('=') {
                    return Err(format!("`{}` contains `=`", member.key));
                }
                flatten(entry, &format!("{path}.{}", member.key), &member.value, words)
            });
        }
        Value::List(_) => return Err(format!("`{path}` is a list")),
        Value::Text(text) => text.clone(),
        Value::Other => match entry.raw(&node.range) {
            "null" => return Ok(()),
            number if entry.syntax == Syntax::Toml => number.replace('_', ""),
            raw => raw.to_owned(),
        },
    };
    words.push(format!("{path}={value}"));
    Ok(())
}

/// Returns whether a key in the object of a tool belongs to the client.
fn is_foreign(path: &str, key: &str) -> bool {
    let (first, is_of_tool) = (path.split('.').next().unwrap_or(path), path.contains('.'));
    match keys::find(keys::SERVER, first).map(|key| &key.kind) {
        Some(Kind::Each(inner)) if is_of_tool => {
            matches!(keys::find(inner, key).map(|key| &key.kind), Some(Kind::Foreign(_)))
        }
        _ => false,
    }
}
