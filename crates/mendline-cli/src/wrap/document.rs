//! A parsed file: its tables, its servers and its syntax.

use std::fmt;
use std::path::Path;

use super::dialect::Dialect;
use super::tree::{Member, Node, Range, Shape, Table, Value};
use super::{json, toml, yaml};

const BOM: &str = "\u{feff}";

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Toml,
    Yaml,
}

/// A parse error, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) words: String,
}

/// A parsed text.
pub(crate) struct Document<'a> {
    pub(crate) text: &'a str,
    pub(crate) syntax: Syntax,
    pub(crate) root: Table,
}

/// The entry of a server.
pub(crate) struct Entry<'a> {
    pub(crate) text: &'a str,
    pub(crate) syntax: Syntax,
    pub(crate) name: &'a str,
    pub(crate) table: &'a Table,
    pub(crate) dialect: &'static Dialect,
    /// True for VS Code, whose `http` falls back to legacy SSE.
    pub(crate) http_falls_back: bool,
    /// The policies that the file has for all servers.
    pub(crate) defaults: Option<&'a Table>,
}

#[cfg(test)]
thread_local! {
    /// Number of bytes that this thread has parsed.
    pub(crate) static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The path to the table that holds a file's servers.
pub(crate) type Section = Vec<String>;

impl<'a> Document<'a> {
    pub(crate) fn parse(text: &'a str, syntax: Syntax) -> Result<Document<'a>, ParseError> {
        #[cfg(test)]
        PARSED.set(PARSED.get() + text.len());
        let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
        let root = match syntax {
            Syntax::Json => json::parse(&text[start..], start)?,
            Syntax::Toml => toml::parse(&text[start..], start)?,
            Syntax::Yaml => yaml::parse(&text[start..], start)?,
        };
        let mut root = root;
        name_list(&mut root).map_err(|(at, words)| ParseError::at(text, at, words))?;
        Ok(Document { text, syntax, root })
    }

    /// Returns the members of a section: servers, and other values in their place.
    pub(crate) fn servers(&self, section: &Section) -> &[Member] {
        let found = section.iter().try_fold(&self.root, |table, key| table.table(key));
        found.map_or(&[], |table| &table.members)
    }

    /// Returns whether the file has a section, empty or not.
    pub(crate) fn has(&self, section: &Section) -> bool {
        section.iter().try_fold(&self.root, |table, key| table.table(key)).is_some()
    }

    /// Returns whether a member of a section is a server. Other members are not of interest to this program.
    pub(crate) fn is_server(&self, section: &Section, member: &Member) -> bool {
        match section.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            // opencode has settings beside its servers, and later versions have a table of servers there.
            ["mcp"] => member.key != "servers" && member.table().is_some(),
            // Most extensions of Goose are a part of it.
            ["extensions"] => {
                let kind = member.table().map(|table| table.get("type").and_then(Member::text));
                matches!(kind, None | Some(Some("stdio" | "sse" | "streamable_http")))
            }
            _ => true,
        }
    }

    /// Returns a member as an entry, if it is a table.
    pub(crate) fn entry(&'a self, section: &Section, server: &'a Member) -> Option<Entry<'a>> {
        let http_falls_back = section.last().is_some_and(|key| key == "servers");
        let (dialect, table) = Dialect::of(self.syntax, section, server.table()?);
        // Mendline reads no defaults in TOML, and none for the servers of single projects.
        let has_defaults = self.syntax != Syntax::Toml && section.first().is_none_or(|key| key != "projects");
        let defaults = self.root.table("mendline").and_then(|ours| ours.table("defaults")).filter(|_| has_defaults);
        Some(Entry {
            text: self.text,
            syntax: self.syntax,
            name: &server.key,
            table,
            dialect,
            http_falls_back,
            defaults,
        })
    }

    /// Returns all sections of the file, wherever clients have theirs.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let plain = [
            &["mcpServers"][..],
            &["servers"],
            &["mcp", "servers"],
            &["mcp_servers"],
            &["context_servers"],
            &["mcp"],
            &["extensions"],
        ];
        let mut sections: Vec<Section> =
            plain.iter().map(|path| path.iter().map(|key| (*key).to_owned()).collect()).collect();
        if let Some(projects) = self.root.table("projects") {
            sections.extend(
                projects
                    .members
                    .iter()
                    .map(|project| vec!["projects".to_owned(), project.key.clone(), "mcpServers".to_owned()]),
            );
        }
        sections.retain(|section| self.servers(section).iter().any(|server| self.is_server(section, server)));
        sections
    }
}

/// Names the items of a list of servers, as Continue has it, by their `name`.
fn name_list(root: &mut Table) -> Result<(), (usize, String)> {
    let Some(member) = root.members.iter_mut().find(|member| member.key == "mcpServers") else { return Ok(()) };
    let Value::List(items) = &mut member.value.value else { return Ok(()) };
    let mut members: Vec<Member> = Vec::new();
    for item in std::mem::take(items) {
        let name = |node: &Node| match &node.value {
            Value::Table(table) => {
                table.get("name").and_then(|name| Some((name.text()?.to_owned(), name.value.range.clone())))
            }
            _ => None,
        };
        // An item without a name, such as a reference to a published block, is not a server of this file.
        let Some((key, key_range)): Option<(String, Range)> = name(&item) else { continue };
        if members.iter().any(|other| other.key == key) {
            return Err((key_range.start, format!("the name {key:?} is there twice")));
        }
        members.push(Member { key, key_range, value: item });
    }
    member.value.value = Value::Table(Table { members, shape: Shape::Items });
    Ok(())
}

impl Syntax {
    /// Returns the name of the syntax.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Syntax::Json => "JSON",
            Syntax::Toml => "TOML",
            Syntax::Yaml => "YAML",
        }
    }

    pub(crate) fn of(path: &Path) -> Syntax {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("toml") => Syntax::Toml,
            Some("yaml" | "yml") => Syntax::Yaml,
            _ => Syntax::Json,
        }
    }
}

impl ParseError {
    /// Creates an error at this byte of a text.
    pub(crate) fn at(text: &str, byte: usize, words: String) -> ParseError {
        let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
        ParseError { line: before.iter().filter(|byte| **byte == b'\n').count() + 1, words }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::tree::{Shape, Value};

    #[test]
    fn every_json_value_has_its_byte_range() {
        let text = "\u{feff}{ // größe\n \"ä\": {\"url\" : \"x\\n\", \"args\": [\"…\", 1,]},\n}";
        let document = Document::parse(text, Syntax::Json).unwrap();
        let outer = &document.root.members[0];
        assert_eq!(&text[outer.key_range.clone()], "\"ä\"");
        let url = outer.table().unwrap().get("url").unwrap();
        assert_eq!((&text[url.value.range.clone()], url.text()), ("\"x\\n\"", Some("x\n")));
        let items = outer.table().unwrap().get("args").unwrap().items().unwrap();
        assert_eq!(&text[items[0].range.clone()], "\"…\"");
        assert!(matches!(items[1].value, Value::Other));
    }

    #[test]
    fn toml_values_have_their_byte_ranges() {
        let text =
            "# größe\n[mcp_servers.a]\nurl = 'x' # why\nheaders = { \"A\" = \"b\" }\n[mcp_servers.a.env]\nK = \"v\"\n";
        let document = Document::parse(text, Syntax::Toml).unwrap();
        let section = vec!["mcp_servers".to_owned()];
        let table = document.servers(&section)[0].table().unwrap();
        assert_eq!(table.shape, Shape::Lines);
        assert_eq!(&text[table.get("url").unwrap().value.range.clone()], "'x'");
        let headers = table.get("headers").unwrap();
        assert_eq!(&text[headers.table().unwrap().members[0].key_range.clone()], "\"A\"");
        let environment = table.get("env").unwrap();
        assert_eq!(&text[environment.key_range.clone()], "env");
        assert_eq!(&text[environment.table().unwrap().members[0].key_range.clone()], "K");
    }

    #[test]
    fn parse_error_names_its_line() {
        for (text, syntax, line, part) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", Syntax::Json, 2, "comma"),
            ("{\n\"a\": {},\n\"a\": {}}", Syntax::Json, 3, "twice"),
            ("[1]", Syntax::Json, 1, "not an object"),
            ("a = 1\na = 2\n", Syntax::Toml, 2, "duplicate"),
            ("a = \n", Syntax::Toml, 1, ""),
        ] {
            let Err(fault) = Document::parse(text, syntax) else { panic!("{text} was read") };
            assert!(fault.line == line && fault.words.to_lowercase().contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn empty_file_has_no_servers() {
        for text in ["", " \n", "// nothing\n", "\u{feff}"] {
            assert!(Document::parse(text, Syntax::Json).unwrap().sections().is_empty());
        }
    }
}
