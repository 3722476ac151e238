//! YAML, for Goose and Continue.
//!
//! The file is read by a parser that keeps the positions, and changed as text, so that comments and notation stay. What
//! has another meaning elsewhere in the file is not changed: values with an anchor or a tag, and aliases, count as
//! values that are not interpreted, and so does a table with a merge key.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::document::ParseError;
use super::tree::{Member, Node, Range, Shape, Table, Value};

/// Maximum depth of lists and tables.
const DEEPEST: usize = 64;

/// Maximum number of values: aliases are not expanded, so the text limits it, too.
const MOST_VALUES: usize = 1 << 20;

/// Parses the root table. `start` is the offset of the text in its file.
pub(crate) fn parse(text: &str, start: usize) -> Result<Table, ParseError> {
    let mut reader = Reader { text, start, bytes: char_offsets(text), events: Parser::new_from_str(text), values: 0 };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if root.is_some() => return Err(reader.error(span, "it has more than one document")),
            event => root = Some(reader.node(event, span, 0)?),
        }
    }
    match root.map(|node| node.value) {
        Some(Value::Table(table)) => Ok(table),
        // An empty file, or one with comments alone.
        None => Ok(Table { members: Vec::new(), shape: Shape::Lines }),
        Some(Value::Other) if text.trim().is_empty() => Ok(Table { members: Vec::new(), shape: Shape::Lines }),
        Some(_) => Err(ParseError::at(text, 0, "it is not a table".to_owned())),
    }
}

/// Returns the byte offset of each character if they differ, and that of the end.
fn char_offsets(text: &str) -> Option<Vec<usize>> {
    (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).chain([text.len()]).collect())
}

struct Reader<'a> {
    text: &'a str,
    start: usize,
    bytes: Option<Vec<usize>>,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    values: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), ParseError> {
        match self.events.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                Err(ParseError::at(self.text, self.byte(error.marker().index()), error.info().to_owned()))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, ParseError> {
        self.values += 1;
        if depth > DEEPEST || self.values > MOST_VALUES {
            return Err(self.error(span, "it is nested too deeply, or too large"));
        }
        let range = self.byte(span.start.index())..self.byte(span.end.index());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = match style {
                    ScalarStyle::Plain => !is_other_than_text(&text),
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => true,
                    // Its text depends on the indentation, so it cannot be moved.
                    ScalarStyle::Literal | ScalarStyle::Folded => false,
                };
                let is_ours = is_text && anchor == 0 && tag.is_none();
                let value = if is_ours { Value::Text(text.into_owned()) } else { Value::Other };
                let raw = &self.text[range.clone()];
                let length = quoted_length(raw).unwrap_or_else(|| raw.trim_end().len());
                Ok(self.at(range.start..range.start + length, value))
            }
            Event::SequenceStart(anchor, tag) => {
                let mut items = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => break span,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                };
                let last = items.last().map(|item| item.range.end - self.start);
                let first = items.first().map(|item| item.range.start - self.start);
                let range = self.whole(self.dash_before(first).unwrap_or(range.start), end, last);
                let is_ours = anchor == 0 && tag.is_none();
                Ok(self.at(range, if is_ours { Value::List(items) } else { Value::Other }))
            }
            Event::MappingStart(anchor, tag) => {
                let (members, end) = self.members(depth)?;
                let last = members.last().map(|member| member.value.range.end - self.start);
                let shape = if self.text[range.start..].starts_with('{') { Shape::Braces } else { Shape::Lines };
                let range = self.whole(range.start, end, last);
                let is_ours = anchor == 0 && tag.is_none() && !members.iter().any(|member| member.key == "<<");
                Ok(self.at(range, if is_ours { Value::Table(Table { members, shape }) } else { Value::Other }))
            }
            _ => Ok(self.at(range, Value::Other)),
        }
    }

    fn members(&mut self, depth: usize) -> Result<(Vec<Member>, Span), ParseError> {
        let (mut members, mut seen): (Vec<Member>, HashSet<String>) = (Vec::new(), HashSet::new());
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok((members, span));
            }
            let name = match &event {
                Event::Scalar(text, ..) => text.clone().into_owned(),
                _ => return Err(self.error(span, "a key is not a text")),
            };
            let key = self.node(event, span, depth + 1)?;
            if !seen.insert(name.clone()) {
                return Err(self.error(span, &format!("the key {name:?} is there twice")));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            members.push(Member { key: name, key_range: key.range, value });
        }
    }

    /// Returns the position of the dash of a first item. The parser sees the beginning of a list at the dash, or behind
    /// it if the list is not indented.
    fn dash_before(&self, first: Option<usize>) -> Option<usize> {
        let before = self.text[..first?].trim_end();
        before.ends_with('-').then(|| before.len() - 1)
    }

    /// Returns the range of a list or a table. The parser sees the end of one without brackets only behind the blanks
    /// and comments that follow it.
    fn whole(&self, start: usize, end: Span, last: Option<usize>) -> Range {
        let is_bracketed = self.text[start..].starts_with(['[', '{']);
        let end = if is_bracketed { self.byte(end.start.index()) + 1 } else { last.unwrap_or(start) };
        start..end.max(start)
    }

    fn at(&self, range: Range, value: Value) -> Node {
        Node { range: self.start + range.start..self.start + range.end, value }
    }

    fn byte(&self, character: usize) -> usize {
        match &self.bytes {
            Some(bytes) => bytes.get(character).copied().unwrap_or(self.text.len()),
            None => character.min(self.text.len()),
        }
    }

    fn error(&self, span: Span, words: &str) -> ParseError {
        ParseError::at(self.text, self.byte(span.start.index()), words.to_owned())
    }
}

/// Returns the length of a text in quotes at the beginning of `raw`. The parser includes the blanks and the comment behind
/// it.
fn quoted_length(raw: &str) -> Option<usize> {
    let quote = raw.chars().next().filter(|sign| matches!(sign, '"' | '\''))?;
    let mut signs = raw.char_indices().skip(1).peekable();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' if quote == '"' => drop(signs.next()),
            '\'' if quote == '\'' && signs.peek().is_some_and(|(_, next)| *next == '\'') => drop(signs.next()),
            _ if sign == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns whether a word without quotes is something other than a text to one of the usual parsers.
fn is_other_than_text(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_word = matches!(lower.as_str(), "" | "~" | "null" | "true" | "false" | "yes" | "no" | "on" | "off");
    let number = word.replace('_', "");
    let digits = number.trim_start_matches(['+', '-']);
    let is_radix = ["0x", "0o", "0b"].iter().any(|prefix| digits.starts_with(prefix));
    is_word || is_radix || number.parse::<f64>().is_ok() || matches!(digits, ".inf" | ".Inf" | ".nan" | ".NaN")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of all values, with their paths.
    fn values(text: &str) -> Vec<(String, String)> {
        fn add(path: &str, node: &Node, text: &str, all: &mut Vec<(String, String)>) {
            all.push((path.to_owned(), text[node.range.clone()].to_owned()));
            match &node.value {
                Value::Table(table) => table.members.iter().for_each(|member| {
                    assert!(text[member.key_range.clone()].contains(&member.key), "{path}");
                    add(&format!("{path}/{}", member.key), &member.value, text, all);
                }),
                Value::List(items) => {
                    items.iter().enumerate().for_each(|(at, item)| add(&format!("{path}/{at}"), item, text, all));
                }
                _ => {}
            }
        }
        let mut all = Vec::new();
        for member in &parse(text, 0).unwrap().members {
            add(&member.key, &member.value, text, &mut all);
        }
        all
    }

    #[test]
    fn every_yaml_value_has_its_byte_range() {
        let text = "größe: {} # none\nl: [ä, \"b\\\" ]\" ] # c\nblock:\n  - 'it''s' # \"\n  - y: 1\n    z: two words  # x\nargs:\n- -y\n-   b\n\n# end\n\"k\": |\n  t\nn:\n";
        let expected = [
            ("größe", "{}"),
            ("l", "[ä, \"b\\\" ]\" ]"),
            ("l/0", "ä"),
            ("l/1", "\"b\\\" ]\""),
            ("block", "- 'it''s' # \"\n  - y: 1\n    z: two words"),
            ("block/0", "'it''s'"),
            ("block/1", "y: 1\n    z: two words"),
            ("block/1/y", "1"),
            ("block/1/z", "two words"),
            ("args", "- -y\n-   b"),
            ("args/0", "-y"),
            ("args/1", "b"),
            ("k", "t"),
            ("n", ""),
        ];
        let expected: Vec<_> = expected.map(|(path, raw)| (path.to_owned(), raw.to_owned())).to_vec();
        assert_eq!(values(text), expected);
    }

    #[test]
    fn only_plain_texts_are_interpreted() {
        let text = "a: x\nb: 1\nc: true\nd: \"1\"\ne: &x y\nf: *x\ng: !!str z\nh: |\n  x\ni: ~\nj: 0x1f\nk: {<<: {}}\nl: v1.2\n";
        let table = parse(text, 0).unwrap();
        let texts: Vec<(&str, &str)> =
            table.members.iter().filter_map(|member| Some((member.key.as_str(), member.text()?))).collect();
        assert_eq!(texts, [("a", "x"), ("d", "1"), ("l", "v1.2")]);
        assert!(matches!(table.get("k").unwrap().value.value, Value::Other));
    }

    #[test]
    fn unusable_yaml_is_reported_with_its_line() {
        for (text, line, part) in [
            ("a: 1\na: 2\n", 2, "twice"),
            ("a: 1\n---\nb: 2\n", 3, "document"),
            ("- a\n", 1, "not a table"),
            ("a: [1\nb: 2\n", 2, ""),
            ("a: 1\n? [x]\n: 1\n", 2, "key"),
        ] {
            let fault = parse(text, 0).err().unwrap_or_else(|| panic!("{text} was read"));
            assert!(fault.line >= line && fault.words.contains(part), "{text}: {fault}");
        }
        let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
        assert!(parse(&deep, 0).is_err());
        for empty in ["", "# nothing\n", "\n \n"] {
            assert!(parse(empty, 0).unwrap().members.is_empty(), "{empty:?}");
        }
    }
}
