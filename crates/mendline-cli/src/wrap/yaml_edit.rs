//! A new, replaced or removed entry in a YAML file, for Goose and Continue.
//!
//! The file is changed as text, so that comments and notation stay. The result is parsed again: everything else must be
//! as it was. A file whose notation has no place for an entry, such as a table between braces, is not changed.

use std::fmt;

use mendline_config::NewValue;

use super::document::{Document, ParseError, Section, Syntax};
use super::edit::{Edit, apply};
use super::tree::{Member, Range, Shape, Value};

/// The reason why a file was not changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum YamlEditError {
    Unreadable(ParseError),
    /// The notation has no place for an entry.
    NoPlace,
}

impl fmt::Display for YamlEditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            YamlEditError::Unreadable(fault) => write!(f, "it cannot be read as YAML: {fault}; correct it first"),
            YamlEditError::NoPlace => f.write_str("its notation has no place for an entry that can be changed here"),
        }
    }
}

/// Adds an entry as the last one of a section, or replaces the one of this name in its place.
pub(crate) fn put(
    text: &str,
    section: &Section,
    name: &str,
    members: &[(String, NewValue)],
) -> Result<String, YamlEditError> {
    Editor::parse(text, section, name)?.changed(|editor| editor.put(members))
}

/// Removes the entry of this name.
pub(crate) fn remove(text: &str, section: &Section, name: &str) -> Result<String, YamlEditError> {
    Editor::parse(text, section, name)?.changed(Editor::remove)
}

struct Editor<'a> {
    document: Document<'a>,
    text: &'a str,
    /// The key of the servers.
    key: &'a str,
    section: &'a Section,
    name: &'a str,
}

impl<'a> Editor<'a> {
    fn parse(text: &'a str, section: &'a Section, name: &'a str) -> Result<Editor<'a>, YamlEditError> {
        let document = Document::parse(text, Syntax::Yaml).map_err(YamlEditError::Unreadable)?;
        let [key] = section.as_slice() else { return Err(YamlEditError::NoPlace) };
        Ok(Editor { document, text, key, section, name })
    }

    /// Makes an edit, and checks that everything else is as it was.
    fn changed(&self, edit: impl FnOnce(&Self) -> Option<Vec<Edit>>) -> Result<String, YamlEditError> {
        let after = apply(self.text, &edit(self).ok_or(YamlEditError::NoPlace)?);
        let checked = Document::parse(&after, Syntax::Yaml).map_err(|_| YamlEditError::NoPlace)?;
        let (before, now) = (self.others(&self.document), self.others(&checked));
        // A new file gets members that its client requires.
        let is_kept = if before.is_empty() { true } else { before == now };
        if is_kept { Ok(after) } else { Err(YamlEditError::NoPlace) }
    }

    /// Returns the text of all entries and other members except this one.
    fn others<'b>(&self, document: &'b Document<'_>) -> Vec<(&'b str, &'b str)> {
        let is_other = |member: &&Member| member.key != self.name;
        let servers = document.servers(self.section).iter().filter(is_other);
        let rest = document.root.members.iter().filter(|member| member.key != self.key);
        let raw = |member: &'b Member| (member.key.as_str(), &document.text[member.value.range.clone()]);
        servers.chain(rest).map(raw).collect()
    }

    /// Returns whether the servers are items of a list, as Continue has them.
    fn is_list(&self) -> bool {
        self.key == "mcpServers"
    }

    fn put(&self, members: &[(String, NewValue)]) -> Option<Vec<Edit>> {
        if self.entry().is_some() {
            let (range, outer) = self.place()?;
            return Some(vec![Edit::replace(range, self.lines(&outer, members))]);
        }
        let line_end = self.line_end();
        let Some(member) = self.document.root.get(self.key) else {
            let start = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { line_end };
            let is_new = self.document.root.members.is_empty() && self.is_list();
            let head = if is_new { new_continue_file(line_end) } else { String::new() };
            let text = format!("{start}{head}{}:{line_end}{}", self.key, self.lines("  ", members));
            return Some(vec![Edit::insert(self.text.len(), text)]);
        };
        let raw = &self.text[member.value.range.clone()];
        if matches!(raw, "" | "{}" | "[]") {
            return self.below(member, &self.lines("  ", members));
        }
        let outer = self.indentation(self.block(member)?)?;
        let end = self.line_after(member.value.range.end);
        let start = if self.text[..end].ends_with('\n') { "" } else { line_end };
        Some(vec![Edit::insert(end, format!("{start}{}", self.lines(outer, members)))])
    }

    fn remove(&self) -> Option<Vec<Edit>> {
        let (range, _) = self.place()?;
        let (entry, section) = (self.entry()?, self.document.root.get(self.key)?);
        let is_only =
            self.start(entry)? == section.value.range.start && entry.value.range.end == section.value.range.end;
        let mut edits = vec![Edit::remove(range)];
        if is_only {
            let after = &self.text[section.key_range.end..];
            let colon = after.find(':').filter(|at| after[..*at].trim().is_empty())?;
            let empty = if self.is_list() { " []" } else { " {}" };
            edits.push(Edit::insert(section.key_range.end + colon + 1, empty));
        }
        Some(edits)
    }

    fn entry(&self) -> Option<&Member> {
        self.document.servers(self.section).iter().find(|member| member.key == self.name)
    }

    /// Returns the lines of the entry, and its indentation.
    fn place(&self) -> Option<(Range, String)> {
        let entry = self.entry()?;
        self.block(self.document.root.get(self.key)?)?;
        let start = self.start(entry)?;
        let outer = self.indentation(start)?;
        Some((start - outer.len()..self.line_after(entry.value.range.end), outer.to_owned()))
    }

    /// Returns the start of an entry: of its dash, or of its key.
    fn start(&self, entry: &Member) -> Option<usize> {
        if !self.is_list() {
            return Some(entry.key_range.start);
        }
        let before = self.text[..entry.value.range.start].trim_end();
        before.ends_with('-').then(|| before.len() - 1)
    }

    /// Returns the start of the entries of a section, if they are on lines of their own.
    fn block(&self, section: &Member) -> Option<usize> {
        let Value::Table(table) = &section.value.value else { return None };
        let raw = &self.text[section.value.range.clone()];
        let is_block = if self.is_list() { raw.starts_with('-') } else { table.shape == Shape::Lines };
        is_block.then_some(section.value.range.start)
    }

    /// Returns the blanks before a position, if there is nothing else before it in its line.
    fn indentation(&self, position: usize) -> Option<&'a str> {
        let before = &self.text[..position];
        let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
        line.chars().all(|sign| sign == ' ').then_some(line)
    }

    /// Returns the lines of a new entry.
    fn lines(&self, outer: &str, members: &[(String, NewValue)]) -> String {
        let first = match self.is_list() {
            true => format!("{outer}- name: {}", Syntax::Yaml.quoted(self.name)),
            false => format!("{outer}{}:", Syntax::Yaml.key_like(self.name, "a")),
        };
        let rest = members.iter().map(|(key, value)| format!("{outer}  {key}: {}", written(value)));
        std::iter::once(first).chain(rest).map(|line| line + self.line_end()).collect()
    }

    /// Replaces an empty value by lines below its key.
    fn below(&self, member: &Member, lines: &str) -> Option<Vec<Edit>> {
        let value = &member.value.range;
        let end = self.line_after(member.key_range.end);
        let rest = self.text.get(value.end..end)?;
        let start = if rest.ends_with('\n') { "" } else { self.line_end() };
        let from = if value.is_empty() { value.end } else { value.start };
        Some(vec![Edit::replace(from..end, format!("{rest}{start}{lines}"))])
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Returns the end of the line of a position, with its line end.
    fn line_after(&self, position: usize) -> usize {
        self.text[position..].find('\n').map_or(self.text.len(), |at| position + at + 1)
    }
}

/// Returns a value on one line.
fn written(value: &NewValue) -> String {
    match value {
        NewValue::Null => "null".to_owned(),
        NewValue::Flag(flag) => flag.to_string(),
        NewValue::Number(number) => number.clone(),
        NewValue::Text(text) => Syntax::Yaml.quoted(text),
        NewValue::List(items) => Syntax::list(&items.iter().map(written).collect::<Vec<_>>()),
        NewValue::Table(members) => {
            let member =
                |(key, value): &(String, NewValue)| format!("{}: {}", Syntax::Yaml.quoted(key), written(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the members that Continue requires in a file.
fn new_continue_file(line_end: &str) -> String {
    ["name: Local Config", "version: 1.0.0", "schema: v1"].map(|line| format!("{line}{line_end}")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(key: &str) -> Section {
        vec![key.to_owned()]
    }

    fn command(word: &str) -> Vec<(String, NewValue)> {
        vec![("cmd".to_owned(), NewValue::text(word))]
    }

    #[test]
    fn entry_is_added_and_removed_without_other_changes() {
        for (key, text, added) in [
            (
                "mcpServers",
                "name: me\nmcpServers:\n- name: a # first\n  command: x\n# end\nmodels: []\n",
                "name: me\nmcpServers:\n- name: a # first\n  command: x\n- name: \"b\"\n  cmd: \"m\"\n# end\nmodels: []\n",
            ),
            (
                "mcpServers",
                "mcpServers:\n  - uses: a/b\nmodels: []\n",
                "mcpServers:\n  - uses: a/b\n  - name: \"b\"\n    cmd: \"m\"\nmodels: []\n",
            ),
            (
                "extensions",
                "extensions:\r\n    a: # one\r\n        type: builtin\r\n\r\n# end\r\nMODE: auto\r\n",
                "extensions:\r\n    a: # one\r\n        type: builtin\r\n    b:\r\n      cmd: \"m\"\r\n\r\n# end\r\nMODE: auto\r\n",
            ),
            (
                "extensions",
                "extensions: {} # none\nMODE: auto\n",
                "extensions:  # none\n  b:\n    cmd: \"m\"\nMODE: auto\n",
            ),
        ] {
            let section = section(key);
            let after = put(text, &section, "b", &command("m")).unwrap();
            assert_eq!(after, added);
            let back = remove(&after, &section, "b").unwrap();
            assert_eq!(back.replace("{}  #", "{} #"), text);
        }
    }

    #[test]
    fn empty_files_and_sections_get_an_entry() {
        for (key, text) in [
            ("extensions", ""),
            ("extensions", "MODE: auto"),
            ("extensions", "extensions:\nMODE: auto\n"),
            ("extensions", "# mine\nextensions: {}"),
            ("mcpServers", ""),
            ("mcpServers", "mcpServers: []\n"),
            ("mcpServers", "name: x\n"),
        ] {
            let section = section(key);
            let after = put(text, &section, "b", &command("m")).unwrap();
            let document = Document::parse(&after, Syntax::Yaml).unwrap();
            assert_eq!(document.servers(&section).len(), 1, "{after}");
            let back = remove(&after, &section, "b").unwrap();
            assert!(Document::parse(&back, Syntax::Yaml).unwrap().servers(&section).is_empty(), "{back}");
        }
    }

    #[test]
    fn entry_is_replaced_in_its_place() {
        let text = "extensions:\n  b: # old\n    cmd: x\n    envs:\n      K: v\n  c:\n    cmd: y\n";
        let after = put(text, &section("extensions"), "b", &command("m")).unwrap();
        assert_eq!(after, "extensions:\n  b:\n    cmd: \"m\"\n  c:\n    cmd: y\n");
    }

    #[test]
    fn file_without_a_place_is_not_changed() {
        for (key, text) in [
            ("extensions", "extensions: {b: {type: stdio}}\n"),
            ("extensions", "extensions: &all\n  b:\n    type: stdio\n"),
            ("extensions", "extensions: 7\n"),
            ("mcpServers", "mcpServers: [{name: b, command: x}]\n"),
        ] {
            let section = section(key);
            assert_eq!(put(text, &section, "c", &command("m")), Err(YamlEditError::NoPlace), "{text}");
            assert_eq!(remove(text, &section, "b"), Err(YamlEditError::NoPlace), "{text}");
        }
        let broken = put("a: [1\nb: 2\n", &section("extensions"), "c", &command("m"));
        assert!(matches!(broken, Err(YamlEditError::Unreadable(_))), "{broken:?}");
    }
}
