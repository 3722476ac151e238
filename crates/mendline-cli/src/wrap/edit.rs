//! Edits of a text: ranges that are replaced, and formatting of inserted text like the text around it.

use super::dialect::CommandForm;
use super::document::{Entry, Syntax};
use super::tree::{Member, Node, Range, Shape, Table};

/// A range of a text, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) range: Range,
    pub(crate) text: String,
}

impl Edit {
    pub(crate) fn replace(range: Range, text: impl Into<String>) -> Edit {
        Edit { range, text: text.into() }
    }

    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Edit {
        Edit { range: at..at, text: text.into() }
    }

    pub(crate) fn remove(range: Range) -> Edit {
        Edit { range, text: String::new() }
    }
}

/// Applies all edits. Overlapping removals are merged.
pub(crate) fn apply(text: &str, edits: &[Edit]) -> String {
    let mut sorted: Vec<&Edit> = edits.iter().collect();
    sorted.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut changed = String::with_capacity(text.len());
    let mut done = 0;
    for edit in sorted {
        changed.push_str(&text[done..edit.range.start.max(done)]);
        changed.push_str(&edit.text);
        done = edit.range.end.max(done);
    }
    changed.push_str(&text[done..]);
    changed
}

impl Syntax {
    /// Quotes a text.
    pub(crate) fn quoted(self, text: &str) -> String {
        let quoted = serde_json::Value::from(text).to_string();
        match self {
            Syntax::Json => quoted,
            // The only character that JSON allows unescaped and the others do not.
            Syntax::Toml | Syntax::Yaml => quoted.replace('\u{7f}', "\\u007f"),
        }
    }

    /// Formats a word in the notation of an existing one.
    pub(crate) fn word_like(self, word: &str, old: &str) -> String {
        match (self, old.chars().next()) {
            (Syntax::Yaml, Some('\'')) => format!("'{word}'"),
            (Syntax::Yaml, Some(first)) if first != '"' => word.to_owned(),
            _ => self.quoted(word),
        }
    }

    /// Formats a key in the notation of an existing one.
    pub(crate) fn key_like(self, key: &str, old: &str) -> String {
        let bare = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        match old.chars().next() {
            Some('\'') if !key.contains('\'') => format!("'{key}'"),
            Some('"' | '\'') => self.quoted(key),
            _ if bare(key) => key.to_owned(),
            _ => self.quoted(key),
        }
    }

    fn key(self, key: &str) -> String {
        match self {
            Syntax::Json => self.quoted(key),
            Syntax::Toml | Syntax::Yaml => self.key_like(key, "a"),
        }
    }

    /// Formats a list on one line.
    pub(crate) fn list(items: &[String]) -> String {
        format!("[{}]", items.join(", "))
    }
}

impl Entry<'_> {
    /// Returns the command.
    pub(crate) fn command(&self) -> Option<&Member> {
        self.table.get(self.dialect.command)
    }

    /// Returns the arguments, if they have a member of their own.
    pub(crate) fn args(&self) -> Option<&Member> {
        self.table.get("args").filter(|_| self.dialect.form == CommandForm::ProgramAndArgs)
    }

    pub(crate) fn environment(&self) -> Option<&Member> {
        self.table.get(self.dialect.environment)
    }

    pub(crate) fn headers(&self) -> Option<&Member> {
        self.table.get(self.dialect.headers)
    }

    /// Returns the members that hold a URL.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &Member> {
        self.dialect.urls.iter().filter_map(|key| self.table.get(key))
    }

    /// Returns the type. Older files of Cline have another name for it.
    pub(crate) fn kind(&self) -> Option<&Member> {
        self.table.get("type").or_else(|| self.table.get("transportType"))
    }

    /// Returns the arguments of the command, each with its range.
    pub(crate) fn arguments(&self) -> Option<&[Node]> {
        match self.dialect.form {
            CommandForm::ProgramAndArgs => self.args()?.items(),
            CommandForm::OneList => self.command()?.items()?.get(1..),
        }
    }

    /// Returns the command line: the program and its arguments.
    pub(crate) fn words(&self) -> Option<Vec<&str>> {
        match self.dialect.form {
            CommandForm::ProgramAndArgs => {
                let arguments = self.args().map_or(Some(Vec::new()), Member::texts)?;
                Some(std::iter::once(self.command()?.text()?).chain(arguments).collect())
            }
            CommandForm::OneList => self.command()?.texts().filter(|words| !words.is_empty()),
        }
    }

    /// Formats items like those of an existing list, and a separator at the end if more items follow.
    pub(crate) fn items_like(&self, list: &Member, items: &[String], more_follow: bool) -> String {
        let first = list.items().and_then(<[Node]>::first).map(|first| first.range.start);
        let gap = match first {
            Some(first) if self.is_block(&list.value) => self.dash_gap(first),
            _ => ", ".to_owned(),
        };
        let end = match first {
            Some(_) if !more_follow => String::new(),
            Some(_) if self.is_block(&list.value) => gap.clone(),
            Some(first) => self.item_gap(first),
            None => String::new(),
        };
        items.join(&gap) + &end
    }

    /// Formats a list that takes the place of an existing one.
    pub(crate) fn list_like(&self, list: &Member, items: &[String]) -> String {
        if self.is_block(&list.value) {
            return format!("- {}", self.items_like(list, items, false));
        }
        Syntax::list(items)
    }

    /// Returns whether a list has its items on lines with a dash.
    fn is_block(&self, node: &Node) -> bool {
        self.syntax == Syntax::Yaml && self.text[node.range.clone()].starts_with('-')
    }

    /// Returns the separator before an item with a dash, judged by the item at `start`.
    fn dash_gap(&self, start: usize) -> String {
        let before = &self.text[..start];
        let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
        let (indentation, dash) = line.split_at(line.rfind('-').unwrap_or(line.len()));
        format!("{}{}{dash}", self.line_end(), as_blank(indentation))
    }

    /// Returns the end of a line of this file.
    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Returns the text of a range.
    pub(crate) fn raw(&self, range: &Range) -> &str {
        &self.text[range.clone()]
    }

    /// Replaces the key of a member.
    pub(crate) fn rename(&self, member: &Member, key: &str) -> Edit {
        let old = self.raw(&member.key_range);
        Edit::replace(member.key_range.clone(), self.syntax.key_like(key, old))
    }

    /// Returns whether a key is written without escapes, so that renaming it can be undone.
    pub(crate) fn is_plain(&self, member: &Member) -> bool {
        self.raw(&member.key_range).trim_matches(['"', '\'']) == member.key
    }

    /// Formats a new member that follows this one, with the separator.
    pub(crate) fn member_after(&self, neighbour: &Member, key: &str, value: &str) -> String {
        let gap = self.gap(self.table.shape, neighbour);
        format!("{gap}{}{}{value}", self.syntax.key(key), self.assignment(neighbour))
    }

    /// Inserts members at the beginning of a table; `None` if there is no position for them.
    pub(crate) fn members_into(&self, owner: &Member, members: &[(String, String)]) -> Option<Edit> {
        let table = owner.table()?;
        let (at, gap, assignment, end) = match (table.members.first(), table.shape) {
            (Some(first), shape) => {
                let gap = self.gap(shape, first);
                (first.key_range.start, gap.clone(), self.assignment(first), gap)
            }
            (None, Shape::Braces) => {
                (owner.value.range.start + 1, ", ".to_owned(), self.default_assignment(), String::new())
            }
            (None, Shape::Lines | Shape::Items) => return None,
        };
        Some(Edit::insert(at, self.joined(members, &gap, &assignment) + &end))
    }

    /// Formats a table between braces, on one line.
    pub(crate) fn braces(&self, members: &[(String, String)]) -> String {
        format!("{{{}}}", self.joined(members, ", ", &self.default_assignment()))
    }

    fn joined(&self, members: &[(String, String)], gap: &str, assignment: &str) -> String {
        let written = members.iter().map(|(key, value)| format!("{}{assignment}{value}", self.syntax.key(key)));
        written.collect::<Vec<_>>().join(gap)
    }

    /// Returns the separator before an item, judged by the item at `start`.
    pub(crate) fn item_gap(&self, start: usize) -> String {
        self.blank_before(start).1.map_or_else(|| ", ".to_owned(), |line| format!(",{line}"))
    }

    /// Returns the whitespace before a position, and the part of it that begins a line, if one begins there.
    fn blank_before(&self, start: usize) -> (&str, Option<&str>) {
        let before = &self.text[..start];
        let blank = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
        let line = blank.rfind('\n').map(|at| {
            let at = if blank[..at].ends_with('\r') { at - 1 } else { at };
            &blank[at..]
        });
        (blank, line)
    }

    /// Returns the separator before a member, judged by this member.
    fn gap(&self, shape: Shape, member: &Member) -> String {
        let (blank, line) = self.blank_before(member.key_range.start);
        match (shape, line) {
            (Shape::Lines | Shape::Items, _) if self.syntax == Syntax::Yaml => {
                let before = &self.text[..member.key_range.start];
                let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
                // In the first line of an item, the key follows a dash.
                format!("{}{}", self.line_end(), as_blank(line.trim_start_matches('\u{feff}')))
            }
            (Shape::Lines | Shape::Items, Some(line)) => line.to_owned(),
            (Shape::Lines | Shape::Items, None) => "\n".to_owned(),
            (Shape::Braces, Some(line)) => format!(",{line}"),
            (Shape::Braces, None) if blank.is_empty() && !self.assignment(member).contains(' ') => ",".to_owned(),
            (Shape::Braces, None) => ", ".to_owned(),
        }
    }

    /// Returns the text between the key of a member and its value.
    fn assignment(&self, member: &Member) -> String {
        let between = &self.text[member.key_range.end..member.value.range.start.max(member.key_range.end)];
        let plain = between.trim_matches([' ', '\t']);
        if matches!(plain, ":" | "=") { between.to_owned() } else { self.default_assignment() }
    }

    fn default_assignment(&self) -> String {
        match self.syntax {
            Syntax::Json | Syntax::Yaml => ": ".to_owned(),
            Syntax::Toml => " = ".to_owned(),
        }
    }

    /// Removes a member, with the separator before it.
    pub(crate) fn without(&self, member: &Member) -> Vec<Edit> {
        self.without_members(self.table, |other| std::ptr::eq(other, member))
    }

    /// Removes the unwanted members of a table, each with a separator.
    pub(crate) fn without_members(&self, table: &Table, unwanted: impl Fn(&Member) -> bool) -> Vec<Edit> {
        let members = &table.members;
        let (Some(first), Some(last)) = (members.first(), members.last()) else { return Vec::new() };
        let Some(kept) = members.iter().rposition(|member| !unwanted(member)) else {
            return vec![Edit::remove(first.key_range.start..self.past_comma(last.value.range.end))];
        };
        let early = members.windows(2).take(kept).filter(|pair| unwanted(&pair[0]));
        let mut edits: Vec<Edit> =
            early.map(|pair| Edit::remove(pair[0].key_range.start..pair[1].key_range.start)).collect();
        if kept + 1 < members.len() {
            edits.push(Edit::remove(members[kept].value.range.end..last.value.range.end));
        }
        edits
    }

    /// Returns the position behind a comma that would be left over.
    pub(crate) fn past_comma(&self, end: usize) -> usize {
        let rest = &self.text[end..];
        let blank = rest.len() - rest.trim_start().len();
        if rest[blank..].starts_with(',') { end + blank + 1 } else { end }
    }
}

/// Returns blanks of the same width as this part of a line.
fn as_blank(line: &str) -> String {
    line.chars().map(|sign| if sign == '\t' { '\t' } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_any_order_of_the_list() {
        let edits = [Edit::replace(4..5, "E"), Edit::insert(0, "<"), Edit::remove(1..3)];
        assert_eq!(apply("abcde", &edits), "<adE");
        assert_eq!(apply("abcde", &[]), "abcde");
    }

    #[test]
    fn key_takes_the_notation_of_the_old_key() {
        for (old, key, written) in [
            ("\"a\"", "env", "\"env\""),
            ("'a'", "env", "'env'"),
            ("'a'", "it's", "\"it's\""),
            ("a", "X-Key", "X-Key"),
            ("a", "a b", "\"a b\""),
        ] {
            assert_eq!(Syntax::Toml.key_like(key, old), written);
        }
        assert_eq!(Syntax::Toml.quoted("\u{7f}\u{1}\""), "\"\\u007f\\u0001\\\"\"");
    }
}
