//! A configuration file as it was written: every value with its span.
//!
//! JSON with comments and trailing commas, which nearly all clients write, and TOML, which Codex writes, are parsed
//! into one tree. The tree keeps the text as it was written: duplicate keys stay, and numbers stay text, so that a
//! finding can point at them.
//!
//! A finding shows a line of the file, and the line may hold a secret. A file therefore has a second text for display,
//! of equal length, in which secrets are masked ([`Source::shown`]).

mod edit;
pub(crate) mod json;
mod mask;
mod replace;
mod toml;

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use mendline::observe::escaped::Escaped;

use crate::finding::Finding;
pub use edit::{EditError, Editor, NewValue};
pub(crate) use mask::mask;
pub use replace::{NewText, ReplaceError, replace};

/// The maximum size of a file.
const LONGEST: u64 = 4 << 20;

/// The text of a file and its path.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    shown: String,
}

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// JSON with comments and trailing commas.
    Json,
    /// TOML, for Codex.
    Toml,
}

/// A file that cannot be read.
#[derive(Debug)]
pub struct ReadError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", Escaped(self.path.to_string_lossy().as_bytes()), self.error)
    }
}

impl std::error::Error for ReadError {}

impl Source {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Source, ReadError> {
        match text_of(path) {
            Ok(text) => Ok(Source::new(path, text)),
            Err(error) => Err(ReadError { path: path.to_owned(), error }),
        }
    }

    /// Creates a source from a text and a path.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Source {
        let mut text = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        // Until the file is checked, everything in quotes may be a secret.
        let shown = mask::mask_all(&text);
        Source { path: path.into(), text, shown }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text for display: same length, with masked secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn language(&self) -> Language {
        match self.path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Language::Toml,
            _ => Language::Json,
        }
    }

    /// Parses the text. The error names the first invalid position.
    pub(crate) fn parse(&self) -> Result<Value, Finding> {
        match self.language() {
            Language::Json => json::parse(&self.text),
            Language::Toml => toml::parse(&self.text),
        }
    }

    pub(crate) fn show_as(&mut self, shown: String) {
        debug_assert_eq!(shown.len(), self.text.len());
        self.shown = shown;
    }

    /// Returns the line and the column of an offset, both from 1; columns count characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// Returns the text of a file up to the maximum size. The path may also be a pipe.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = std::fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if length as u64 > LONGEST {
        let words = format!("the file is larger than {} MiB, which is the maximum", LONGEST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(text)
}

/// A value and its span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub at: Range<usize>,
    pub kind: ValueKind,
}

/// The kind of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueKind {
    Null,
    Flag(bool),
    /// The number as it is written.
    Number(String),
    Text(String),
    List(Vec<Value>),
    /// The entries in the order of the file, duplicates included.
    Table(Vec<Entry>),
    /// A date, in TOML only.
    Date,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub key_at: Range<usize>,
    pub value: Value,
}

impl Value {
    /// Returns the name of its kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            ValueKind::Null => "null",
            ValueKind::Flag(_) => "a boolean",
            ValueKind::Number(_) => "a number",
            ValueKind::Text(_) => "a string",
            ValueKind::List(_) => "an array",
            ValueKind::Table(_) => "an object",
            ValueKind::Date => "a date",
        }
    }

    pub fn table(&self) -> Option<&[Entry]> {
        match &self.kind {
            ValueKind::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the first value of this key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.table()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str, text: &str) -> Value {
        Source::new(path, text).parse().expect("the text is valid")
    }

    #[test]
    fn json_with_comments_keeps_its_spans() {
        let text = "\u{feff}{ // a comment\n  \"a\": [1, 'x', /* inside */ true,],\n  \"a\": null,\n}";
        assert!(Source::new("x.json", text).parse().is_err(), "single quotes are not JSON");
        let text = text.replace('\'', "\"");
        let source = Source::new("x.json", text.as_str());
        let tree = source.parse().unwrap();
        let [first, second] = tree.table().unwrap() else { panic!("{tree:?}") };
        assert_eq!((first.key.as_str(), second.key.as_str()), ("a", "a"), "duplicate keys are kept");
        let ValueKind::List(list) = &first.value.kind else { panic!() };
        assert_eq!(&source.text()[list[1].at.clone()], "\"x\"");
        assert_eq!(source.position(first.key_at.start), (2, 3));
    }

    #[test]
    fn toml_is_parsed_into_the_same_tree() {
        let text = "[mcp_servers.notes]\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\nenv = { A = \"1\" }\nstartup_timeout_sec = 20.5\n\n[mcp_servers.notes.http_headers]\nX = \"y\"\n";
        let tree = parsed("config.toml", text);
        let notes = tree.get("mcp_servers").and_then(|servers| servers.get("notes")).unwrap();
        assert_eq!(notes.get("command").unwrap().kind, ValueKind::Text("npx".into()));
        assert_eq!(notes.get("startup_timeout_sec").unwrap().kind, ValueKind::Number("20.5".into()));
        assert_eq!(&text[notes.get("env").unwrap().get("A").unwrap().at.clone()], "\"1\"");
        assert_eq!(notes.get("http_headers").unwrap().get("X").unwrap().kind, ValueKind::Text("y".into()));
    }

    #[test]
    fn syntax_error_is_reported_with_its_span() {
        for (path, text, found_text) in [
            ("x.json", "{\n  \"a\": }", "}"),
            ("x.json", "{\"a\": 1 \"b\": 2}", ""),
            ("x.json", "", ""),
            ("x.json", "{\"a\": Infinity}", "Infinity"),
            ("x.toml", "a = \n", ""),
        ] {
            let finding = Source::new(path, text).parse().unwrap_err();
            let at = finding.at.clone().unwrap();
            assert!(
                text.get(at.clone()).is_some_and(|found| found.starts_with(found_text)),
                "{text}: {at:?} {finding:?}"
            );
        }
    }

    #[test]
    fn deeply_nested_brackets_are_refused() {
        for (path, text) in [("x.json", "[".repeat(100_000)), ("x.toml", format!("a = {}", "[".repeat(100_000)))] {
            assert!(Source::new(path, text).parse().is_err());
        }
    }

    #[test]
    fn file_above_the_size_limit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        std::fs::write(&path, vec![b' '; (LONGEST + 1) as usize]).unwrap();
        assert!(Source::read(&path).unwrap_err().to_string().contains("4 MiB"));
        assert!(Source::read(directory.path()).is_err(), "a directory is not a file");
    }
}
