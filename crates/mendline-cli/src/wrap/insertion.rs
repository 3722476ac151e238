//! The text of a new entry, and its place in a file.

use super::clients::Client;
use super::document::{Document, Section, Syntax};
use super::edit::{Edit, apply};
use super::tree::{Shape, Table, Value};
use super::{json, secrets::shown_words};

/// A value of a new entry.
enum Part {
    Text(String),
    List(Vec<String>),
    /// A value as it is written in every syntax.
    Raw(&'static str),
}

/// Plans the edits that add an entry to a text, which may be empty.
pub(crate) fn plan(
    text: &str,
    syntax: Syntax,
    client: Client,
    section: &Section,
    name: &str,
    words: &[String],
) -> Result<Vec<Edit>, String> {
    let document = Document::parse(text, syntax)
        .map_err(|fault| format!("it cannot be read as {}: {fault}; correct it first", syntax.title()))?;
    if document.servers(section).iter().any(|member| member.key == name) {
        return Err(format!("it has an entry {name:?} already; choose another name, or remove that entry"));
    }
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let members = members(client, name, program, arguments);
    let writer = Writer { text, syntax, section, name };
    let by_hand = || {
        let words = shown_words(words.iter().map(String::as_str));
        format!("its notation has no place for an entry; add {name:?} with the command `{words}` by hand")
    };
    let edit = match syntax {
        Syntax::Json => writer.json(&document.root, &members),
        Syntax::Toml => writer.toml(&document.root, &members),
        Syntax::Yaml => writer.yaml(&document.root, &members),
    };
    let edits = vec![edit.ok_or_else(by_hand)?];
    let after = apply(text, &edits);
    let checked = Document::parse(&after, syntax).map_err(|_| by_hand())?;
    let member = checked.servers(section).iter().find(|member| member.key == name);
    let entry = member.and_then(|member| checked.entry(section, member));
    let is_meant = entry.is_some_and(|entry| entry.words().is_some_and(|line| line.iter().eq(words.iter())));
    let are_kept =
        document.servers(section).iter().all(|old| checked.servers(section).iter().any(|member| member.key == old.key));
    if is_meant && are_kept { Ok(edits) } else { Err(by_hand()) }
}

/// Returns the members of a new entry, as the client writes them.
fn members(client: Client, name: &str, program: &str, arguments: &[String]) -> Vec<(&'static str, Part)> {
    let command = |key| (key, Part::Text(program.to_owned()));
    let args = || ("args", Part::List(arguments.to_vec()));
    match client {
        Client::VsCode => vec![("type", Part::Text("stdio".to_owned())), command("command"), args()],
        Client::ClaudeCode => {
            vec![("type", Part::Text("stdio".to_owned())), command("command"), args(), ("env", Part::Raw("{}"))]
        }
        Client::OpenCode => {
            let line = std::iter::once(program.to_owned()).chain(arguments.iter().cloned()).collect();
            vec![
                ("type", Part::Text("local".to_owned())),
                ("command", Part::List(line)),
                ("enabled", Part::Raw("true")),
            ]
        }
        Client::Zed => {
            vec![("source", Part::Text("custom".to_owned())), command("command"), args(), ("env", Part::Raw("{}"))]
        }
        Client::Goose => vec![
            ("enabled", Part::Raw("true")),
            ("type", Part::Text("stdio".to_owned())),
            ("name", Part::Text(name.to_owned())),
            ("description", Part::Text(String::new())),
            command("cmd"),
            args(),
            ("envs", Part::Raw("{}")),
            ("env_keys", Part::Raw("[]")),
            ("timeout", Part::Raw("300")),
        ],
        _ => vec![command("command"), args()],
    }
}

struct Writer<'a> {
    text: &'a str,
    syntax: Syntax,
    section: &'a Section,
    name: &'a str,
}

impl Writer<'_> {
    fn value(&self, part: &Part) -> String {
        match part {
            Part::Text(text) => self.syntax.quoted(text),
            Part::List(items) => Syntax::list(&items.iter().map(|item| self.syntax.quoted(item)).collect::<Vec<_>>()),
            Part::Raw(raw) => (*raw).to_owned(),
        }
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Returns the indentation of one level, judged by the first indented line.
    fn unit(&self) -> String {
        let blank = |line: &str| line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned();
        let lines = self.text.lines().filter(|line| !line.trim().is_empty());
        let unit = lines.map(blank).find(|blank| !blank.is_empty());
        unit.unwrap_or_else(|| "  ".to_owned())
    }

    /// Adds the entry as the last member of its section in a JSON file. Missing tables are made.
    fn json(&self, root: &Table, members: &[(&str, Part)]) -> Option<Edit> {
        let (unit, line_end) = (self.unit(), self.line_end());
        // The innermost table of the section that exists, and its range.
        let (mut table, mut range, mut depth) = (root, json::root_range(self.text), 0);
        while let Some(member) = self.section.get(depth).and_then(|key| table.get(key)) {
            let Value::Table(inner) = &member.value.value else { return None };
            (table, range, depth) = (inner, Some(member.value.range.clone()), depth + 1);
        }
        let indentation = |level: usize| format!("{line_end}{}", unit.repeat(level));
        let mut keys: Vec<&str> = self.section[depth..].iter().map(String::as_str).collect();
        keys.push(self.name);
        let innermost = depth + keys.len();
        let lines = members.iter().map(|(key, part)| {
            format!("{}{}: {}", indentation(innermost + 1), self.syntax.quoted(key), self.value(part))
        });
        let mut written = format!("{{{}{}}}", lines.collect::<Vec<_>>().join(","), indentation(innermost));
        for (level, key) in keys.iter().enumerate().rev() {
            let level = depth + level + 1;
            written = format!("{}{}: {written}", indentation(level), self.syntax.quoted(key));
            if level > depth + 1 {
                written = format!("{{{written}{}}}", indentation(level - 1));
            }
        }
        match (range, table.members.last()) {
            // The text has no value at all.
            (None, _) => Some(Edit::insert(self.text.len(), format!("{{{written}{line_end}}}{line_end}"))),
            (Some(_), Some(last)) => Some(Edit::insert(last.value.range.end, format!(",{written}"))),
            (Some(range), None) => {
                let inside = &self.text[range.start + 1..range.end - 1];
                let end = if inside.contains('\n') { String::new() } else { indentation(depth) };
                Some(Edit::insert(range.start + 1, format!("{written}{end}")))
            }
        }
    }

    /// Adds a table with a header at the end of a TOML file.
    fn toml(&self, root: &Table, members: &[(&str, Part)]) -> Option<Edit> {
        let is_inline =
            self.section.first().and_then(|key| root.table(key)).is_some_and(|table| table.shape == Shape::Braces);
        if is_inline {
            return None;
        }
        let line_end = self.line_end();
        let header: Vec<String> = self
            .section
            .iter()
            .map(String::as_str)
            .chain([self.name])
            .map(|key| self.syntax.key_like(key, "a"))
            .collect();
        let mut written = self.separator();
        written += &format!("[{}]{line_end}", header.join("."));
        for (key, part) in members {
            written += &format!("{key} = {}{line_end}", self.value(part));
        }
        Some(Edit::insert(self.text.len(), written))
    }

    /// Returns the line ends that separate an addition from the end of the text.
    fn separator(&self) -> String {
        let line_end = self.line_end();
        match self.text.trim_start_matches('\u{feff}') {
            "" => String::new(),
            text if text.ends_with('\n') => line_end.to_owned(),
            _ => line_end.repeat(2),
        }
    }

    /// Adds the entry as the last member, or item, of its section in a YAML file.
    fn yaml(&self, root: &Table, members: &[(&str, Part)]) -> Option<Edit> {
        let line_end = self.line_end();
        let [key] = self.section.as_slice() else { return None };
        let is_list = key == "mcpServers";
        let lines = |outer: &str| {
            let inner = format!("{outer}  ");
            let named = (!is_list).then(|| format!("{outer}{}:", self.syntax.key_like(self.name, "a")));
            let item = is_list.then(|| format!("{outer}- name: {}", self.syntax.quoted(self.name)));
            let rest = members.iter().map(|(key, part)| format!("{inner}{key}: {}", self.value(part)));
            let rest: Vec<String> = rest.collect();
            named.into_iter().chain(item).chain(rest).map(|line| line + line_end).collect::<String>()
        };
        let Some(member) = root.get(key) else {
            let start = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { line_end };
            let head = if root.members.is_empty() && is_list { new_continue_file(line_end) } else { String::new() };
            return Some(Edit::insert(self.text.len(), format!("{start}{head}{key}:{line_end}{}", lines("  "))));
        };
        let raw = &self.text[member.value.range.clone()];
        let Value::Table(table) = &member.value.value else {
            // A key without a value.
            let end = self.line_after(member.key_range.end);
            return (raw.is_empty() || raw == "[]")
                .then(|| self.below(end, member.value.range.clone(), &lines("  ")))?;
        };
        match table.members.last() {
            None if raw == "{}" || raw == "[]" => {
                self.below(self.line_after(member.key_range.end), member.value.range.clone(), &lines("  "))
            }
            Some(last) if table.shape != Shape::Braces && !raw.starts_with('[') => {
                let first = table.members.first()?;
                let start = if is_list { first.value.range.start } else { first.key_range.start };
                let before = &self.text[..start];
                let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
                let outer = &line[..line.len() - line.trim_start_matches(' ').len()];
                let end = self.line_after(last.value.range.end);
                let start = if self.text[..end].ends_with('\n') { "" } else { line_end };
                Some(Edit::insert(end, format!("{start}{}", lines(outer))))
            }
            _ => None,
        }
    }

    /// Replaces an empty value by lines below its key.
    fn below(&self, end: usize, value: super::tree::Range, lines: &str) -> Option<Edit> {
        let rest = self.text.get(value.end..end)?;
        let start = if rest.ends_with('\n') { "" } else { self.line_end() };
        let from = if value.is_empty() { value.end } else { value.start };
        Some(Edit::replace(from..end, format!("{rest}{start}{lines}")))
    }

    /// Returns the end of the line of a position, with its line end.
    fn line_after(&self, position: usize) -> usize {
        self.text[position..].find('\n').map_or(self.text.len(), |at| position + at + 1)
    }
}

/// Returns the members that Continue requires in a file.
fn new_continue_file(line_end: &str) -> String {
    ["name: Local Config", "version: 1.0.0", "schema: v1"].map(|line| format!("{line}{line_end}")).concat()
}
