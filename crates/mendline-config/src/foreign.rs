//! Servers of files whose notation this crate does not parse: YAML, and entries with other names for their members.
//!
//! The program that parses such a file gives each entry in the notation of Mendline, with the span of its name. Findings
//! point at that span, and the rest of the text is never shown.

use std::ops::Range;

use crate::check::{Checker, Owner};
use crate::file::{Entry, Value, ValueKind};
use crate::finding::{Cause, Finding, Scope, Severity};
use crate::{Environment, Loaded, NewValue, Source, load_tree, lower};

/// An entry that another parser has read.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignEntry {
    /// The name of the server.
    pub name: String,
    /// The span of the name in the text of the source.
    pub at: Range<usize>,
    /// The entry in the notation of Mendline.
    pub value: NewValue,
}

/// Loads the servers of a file that another parser has read, or could not read for this reason.
pub fn load_foreign(source: Source, entries: Result<Vec<ForeignEntry>, String>, environment: Environment) -> Loaded {
    let tree = entries.map(|entries| table(&entries, source.text())).map_err(unreadable);
    let check = |tree: &Value, checker: &mut Checker<'_>, loaded: &mut Loaded| {
        let mut shown = 0;
        for entry in tree.table().unwrap_or_default() {
            lower::server(entry, &Default::default(), checker, loaded);
            checker.secrets.push(shown..entry.key_at.start.max(shown));
            shown = entry.key_at.end.max(shown);
        }
        checker.secrets.push(shown..tree.at.end.max(shown));
        // The values have the spans of the names, which are shown.
        checker.secrets.retain(|span| !is_name(tree, span));
    };
    load_tree(source, tree, environment, |_, _| Owner::OtherProgram, check)
}

fn is_name(tree: &Value, span: &Range<usize>) -> bool {
    tree.table().unwrap_or_default().iter().any(|entry| entry.key_at == *span)
}

fn unreadable(what: String) -> Finding {
    Finding {
        severity: Severity::Error,
        cause: Cause::File,
        at: None,
        what,
        help: None,
        server: None,
        scope: Scope::Servers,
    }
}

fn table(entries: &[ForeignEntry], text: &str) -> Value {
    let entry = |entry: &ForeignEntry| Entry {
        key: entry.name.clone(),
        key_at: entry.at.clone(),
        value: value(&entry.value, &entry.at),
    };
    let mut entries: Vec<Entry> = entries.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.key_at.start);
    Value { at: 0..text.len(), kind: ValueKind::Table(entries) }
}

/// Returns a value with this span.
fn value(new: &NewValue, at: &Range<usize>) -> Value {
    let kind = match new {
        NewValue::Null => ValueKind::Null,
        NewValue::Flag(flag) => ValueKind::Flag(*flag),
        NewValue::Number(number) => ValueKind::Number(number.clone()),
        NewValue::Text(text) => ValueKind::Text(text.clone()),
        NewValue::List(items) => ValueKind::List(items.iter().map(|item| value(item, at)).collect()),
        NewValue::Table(members) => {
            let member = |(key, member): &(String, NewValue)| Entry {
                key: key.clone(),
                key_at: at.clone(),
                value: value(member, at),
            };
            ValueKind::Table(members.iter().map(member).collect())
        }
    };
    Value { at: at.clone(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, RenderStyle};

    fn loaded(value: NewValue) -> Loaded {
        let text = "extensions:\n  notes:\n    envs: {TOKEN: s3cret}\n";
        let entry = ForeignEntry { name: "notes".to_owned(), at: 14..19, value };
        load_foreign(Source::new("config.yaml", text), Ok(vec![entry]), Environment::new(|_| None))
    }

    fn member(key: &str, value: NewValue) -> (String, NewValue) {
        (key.to_owned(), value)
    }

    #[test]
    fn entry_of_another_parser_becomes_a_server() {
        let loaded = loaded(NewValue::Table(vec![
            member("command", NewValue::text("npx")),
            member("args", NewValue::List(vec![NewValue::text("notes")])),
        ]));
        let Endpoint::Command { program, arguments, .. } = &loaded.server("notes").unwrap().endpoint else {
            panic!("{loaded:?}")
        };
        assert_eq!((program.as_str(), arguments.as_slice()), ("npx", &["notes".to_owned()][..]));
    }

    #[test]
    fn finding_points_at_the_name_and_shows_no_secret() {
        let loaded = loaded(NewValue::Table(vec![
            member("command", NewValue::text("npx")),
            member("env", NewValue::Table(vec![member("TOKEN", NewValue::text("${UNSET}"))])),
        ]));
        assert!(loaded.server("notes").is_none() && loaded.names == ["notes"], "{loaded:?}");
        let shown = loaded.render(&loaded.findings, RenderStyle::Plain);
        assert!(shown.contains("config.yaml:2:3") && shown.contains("UNSET"), "{shown}");
        assert!(!loaded.source.shown().contains("s3cret") && loaded.source.shown().contains("notes"), "{shown}");
    }

    #[test]
    fn file_that_could_not_be_read_has_one_finding() {
        let source = Source::new("config.yaml", "a: [");
        let loaded = load_foreign(source, Err("line 1: a list does not end".to_owned()), Environment::new(|_| None));
        assert!(loaded.names.is_empty() && loaded.has_errors());
    }
}
