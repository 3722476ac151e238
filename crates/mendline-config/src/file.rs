//! A configuration file as it was written: every value with the place where it stands.
//!
//! Two languages lead to one tree: JSON with comments and trailing commas, which is what every client but one writes, and
//! TOML, which is Codex's. The tree keeps what a person wrote and nothing of what it means: doubles stay double, numbers
//! stay text, so that whoever complains can point at it.
//!
//! A complaint shows the line that it is about, and a line may hold a token. So a file has a second text for showing, equal
//! in length, in which secrets are stars ([`Source::shown`]).

pub(crate) mod json;
mod mask;
mod toml;

use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use mendline::observe::escaped::Escaped;

use crate::finding::Finding;
pub(crate) use mask::mask;

/// No configuration is longer; what is longer is something else.
const LONGEST: u64 = 4 << 20;

/// A file's text and where it came from.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    shown: String,
}

/// What the text is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// With comments and trailing commas.
    Json,
    /// Codex's.
    Toml,
}

impl Source {
    /// Reads a file, or says why it cannot be.
    pub fn read(path: &Path) -> Result<Source, String> {
        match text_of(path) {
            Ok(text) => Ok(Source::new(path, text)),
            Err(error) => {
                let path = Escaped(path.to_string_lossy().as_bytes()).to_string();
                Err(format!("{path} cannot be read: {error}"))
            }
        }
    }

    /// A text as if it had been read from there.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Source {
        let mut text = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        // Until somebody has understood it, everything in quotes may be a secret.
        let shown = mask::mask_all(&text);
        Source { path: path.into(), text, shown }
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What may be shown of it: as long as the text, with stars for secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn language(&self) -> Language {
        match self.path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Language::Toml,
            _ => Language::Json,
        }
    }

    /// The tree, or the one place where it ends to be one.
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

    /// The line and the column of a place, both from 1; columns are characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// What stands in a file that is not too long to be meant. It need not be one on a disk: some keep secrets in a pipe.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = std::fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if length as u64 > LONGEST {
        let words = format!("it has more than {} MiB, and nobody writes that", LONGEST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(text)
}

/// Something that stands in a file, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub at: Range<usize>,
    pub kind: ValueKind,
}

/// What it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueKind {
    Null,
    Flag(bool),
    /// As it is written.
    Number(String),
    Text(String),
    List(Vec<Value>),
    /// In the order of the file, doubles included.
    Table(Vec<Entry>),
    /// What only TOML has.
    Date,
}

/// One key and what stands behind it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub key_at: Range<usize>,
    pub value: Value,
}

impl Value {
    /// What it is, in words, for those who expected something else.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            ValueKind::Null => "null",
            ValueKind::Flag(_) => "true or false",
            ValueKind::Number(_) => "a number",
            ValueKind::Text(_) => "text",
            ValueKind::List(_) => "a list",
            ValueKind::Table(_) => "a block in braces",
            ValueKind::Date => "a date",
        }
    }

    pub fn table(&self) -> Option<&[Entry]> {
        match &self.kind {
            ValueKind::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// What stands behind this key first.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.table()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str, text: &str) -> Value {
        Source::new(path, text).parse().expect("it can be read")
    }

    #[test]
    fn json_with_comments_and_trailing_commas_keeps_its_places() {
        let text = "\u{feff}{ // a remark\n  \"a\": [1, 'x', /* inside */ true,],\n  \"a\": null,\n}";
        assert!(Source::new("x.json", text).parse().is_err(), "single quotes are nobody's JSON");
        let text = text.replace('\'', "\"");
        let source = Source::new("x.json", text.as_str());
        let tree = source.parse().unwrap();
        let [first, second] = tree.table().unwrap() else { panic!("{tree:?}") };
        assert_eq!((first.key.as_str(), second.key.as_str()), ("a", "a"), "doubles stay double");
        let ValueKind::List(list) = &first.value.kind else { panic!() };
        assert_eq!(&source.text()[list[1].at.clone()], "\"x\"");
        assert_eq!(source.position(first.key_at.start), (2, 3));
    }

    #[test]
    fn toml_gives_the_same_tree() {
        let text = "[mcp_servers.notes]\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\nenv = { A = \"1\" }\nstartup_timeout_sec = 20.5\n\n[mcp_servers.notes.http_headers]\nX = \"y\"\n";
        let tree = parsed("config.toml", text);
        let notes = tree.get("mcp_servers").and_then(|servers| servers.get("notes")).unwrap();
        assert_eq!(notes.get("command").unwrap().kind, ValueKind::Text("npx".into()));
        assert_eq!(notes.get("startup_timeout_sec").unwrap().kind, ValueKind::Number("20.5".into()));
        assert_eq!(&text[notes.get("env").unwrap().get("A").unwrap().at.clone()], "\"1\"");
        assert_eq!(notes.get("http_headers").unwrap().get("X").unwrap().kind, ValueKind::Text("y".into()));
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_place() {
        for (path, text, place) in [
            ("x.json", "{\n  \"a\": }", "}"),
            ("x.json", "{\"a\": 1 \"b\": 2}", ""),
            ("x.json", "", ""),
            ("x.json", "{\"a\": Infinity}", "Infinity"),
            ("x.toml", "a = \n", ""),
        ] {
            let finding = Source::new(path, text).parse().unwrap_err();
            let at = finding.at.clone().unwrap();
            assert!(text.get(at.clone()).is_some_and(|found| found.starts_with(place)), "{text}: {at:?} {finding:?}");
        }
    }

    #[test]
    fn a_bomb_of_brackets_is_refused_and_not_followed() {
        for (path, text) in [("x.json", "[".repeat(100_000)), ("x.toml", format!("a = {}", "[".repeat(100_000)))] {
            assert!(Source::new(path, text).parse().is_err());
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        std::fs::write(&path, vec![b' '; (LONGEST + 1) as usize]).unwrap();
        assert!(Source::read(&path).unwrap_err().contains("4 MiB"));
        assert!(Source::read(directory.path()).is_err(), "a directory is no file");
    }
}
