//! A unified diff of the changes.
//!
//! The edits tell which lines change, so no comparison is needed. Secrets are hidden, control characters are escaped,
//! and very long lines are cut.

use std::fmt::Write;

use super::document::{Document, Syntax};
use super::edit::{Edit, apply};
use super::secrets::{HIDDEN, ScanResult, redacted, scan};
use super::tree::Range;

const CONTEXT: usize = 3;
const LONGEST: usize = 400;

/// Placeholder for the name of a variable while a line is redacted: a character that files do not use.
const STAND_IN: char = '\u{e000}';

/// The colour setting.
#[derive(Clone, Copy)]
pub(crate) struct DiffStyle {
    pub(crate) colour: bool,
}

/// Formats the change that these edits make of a text. `name` is the name of the file.
pub(crate) fn render(name: &str, before: &str, edits: &[Edit], syntax: Syntax, style: DiffStyle) -> String {
    let after = apply(before, edits);
    let (old, new) = (Side::of(before, syntax), Side::of(&after, syntax));
    let blocks = blocks(&old, &new, edits);
    let mut shown = String::new();
    style.line(&mut shown, "1", "--- ", name);
    style.line(&mut shown, "1", "+++ ", name);
    let mut rest = blocks.as_slice();
    while let Some(first) = rest.first() {
        let near = |pair: &[Block]| pair[1].old.start - pair[0].old.end <= 2 * CONTEXT;
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (hunk, others) = rest.split_at(count);
        rest = others;
        let last = &hunk[count - 1];
        let from = first.old.start.saturating_sub(CONTEXT);
        let to = (last.old.end + CONTEXT).min(old.lines.len());
        let new_from = first.new.start - (first.old.start - from);
        let new_to = last.new.end + (to - last.old.end);
        let head = format!("@@ -{},{} +{},{} @@", from + 1, to - from, new_from + 1, new_to - new_from);
        style.line(&mut shown, "36", "", &head);
        let mut at = from;
        for block in hunk {
            (at..block.old.start).for_each(|line| style.line(&mut shown, "", " ", &old.shown(line)));
            block.old.clone().for_each(|line| style.line(&mut shown, "31", "-", &old.shown(line)));
            block.new.clone().for_each(|line| style.line(&mut shown, "32", "+", &new.shown(line)));
            at = block.old.end;
        }
        (at..to).for_each(|line| style.line(&mut shown, "", " ", &old.shown(line)));
    }
    shown
}

impl DiffStyle {
    fn line(self, shown: &mut String, colour: &str, mark: &str, text: &str) {
        let _ = if self.colour && !colour.is_empty() {
            writeln!(shown, "\x1b[{colour}m{mark}{text}\x1b[0m")
        } else {
            writeln!(shown, "{mark}{text}")
        };
    }
}

/// Lines that are replaced by others.
struct Block {
    old: Range,
    new: Range,
}

/// Returns the lines that edits concern, on both sides.
fn blocks(old: &Side<'_>, new: &Side<'_>, edits: &[Edit]) -> Vec<Block> {
    let mut sorted: Vec<&Edit> = edits.iter().collect();
    sorted.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut blocks: Vec<Block> = Vec::new();
    // Offset of the new text.
    let (mut put_in, mut taken_out) = (0, 0);
    for edit in sorted {
        let new_start = edit.range.start + put_in - taken_out;
        put_in += edit.text.len();
        taken_out += edit.range.len();
        let replaced = new_start..new_start + edit.text.len();
        let block = match (old.whole_lines(&edit.range), new.whole_lines(&replaced)) {
            (Some(old), Some(new)) => Block { old, new },
            _ => Block { old: old.touched_lines(&edit.range), new: new.touched_lines(&replaced) },
        };
        match blocks.last_mut() {
            Some(last) if block.old.start < last.old.end || block.new.start < last.new.end => {
                last.old.end = last.old.end.max(block.old.end);
                last.new.end = last.new.end.max(block.new.end);
            }
            _ => blocks.push(block),
        }
    }
    blocks
}

/// One side of the diff.
struct Side<'a> {
    text: &'a str,
    /// The range of each line, without its end.
    lines: Vec<Range>,
    found: ScanResult,
}

impl<'a> Side<'a> {
    fn of(text: &'a str, syntax: Syntax) -> Side<'a> {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            lines.push(start..start + line.trim_end_matches(['\n', '\r']).len());
            start += line.len();
        }
        // A text that cannot be parsed is hidden.
        let everything = || ScanResult { hidden: std::iter::once(0..text.len()).collect(), named: Vec::new() };
        let found = Document::parse(text, syntax).map_or_else(|_| everything(), |document| scan(&document));
        Side { text, lines, found }
    }

    /// Returns the lines that a range consists of, if it begins and ends between lines.
    fn whole_lines(&self, range: &Range) -> Option<Range> {
        let is_between = |byte: usize| byte == self.text.len() || byte == 0 || self.text[..byte].ends_with('\n');
        let before = |byte: usize| self.lines.partition_point(|line| line.start < byte);
        (is_between(range.start) && is_between(range.end)).then(|| before(range.start)..before(range.end))
    }

    /// Returns the lines of which a range has a part.
    fn touched_lines(&self, range: &Range) -> Range {
        self.line_of(range.start)..self.line_of(range.end) + 1
    }

    fn line_of(&self, byte: usize) -> usize {
        self.lines.partition_point(|line| line.start <= byte).saturating_sub(1)
    }

    /// Returns a line without its secrets, passed through the redactor.
    fn shown(&self, number: usize) -> String {
        let line = &self.lines[number];
        // The redactor would take some names of variables for credentials, so a placeholder replaces them meanwhile.
        let can_stand_for = !self.text[line.clone()].contains(STAND_IN);
        let named = if can_stand_for { within(&self.found.named, line) } else { &[] };
        let mut pieces: Vec<(&Range, bool)> =
            within(&self.found.hidden, line).iter().map(|range| (range, true)).collect();
        pieces.extend(named.iter().filter(|range| range.end <= line.end).map(|range| (range, false)));
        pieces.sort_by_key(|(range, _)| range.start);
        let mut kept = String::new();
        let mut names = Vec::new();
        let mut at = line.start;
        for (range, is_hidden) in pieces {
            kept.push_str(&self.text[at..range.start.max(at)]);
            if is_hidden {
                kept.push_str(HIDDEN);
            } else {
                kept.push(STAND_IN);
                names.push(&self.text[range.clone()]);
            }
            at = range.end.min(line.end).max(at);
        }
        kept.push_str(&self.text[at..line.end]);
        let kept = redacted(&kept);
        let mut names = names.into_iter();
        let shown = kept.split_inclusive(STAND_IN).fold(String::with_capacity(kept.len()), |mut shown, piece| {
            match piece.strip_suffix(STAND_IN).filter(|_| can_stand_for) {
                Some(before) => shown.extend([before, names.next().unwrap_or(HIDDEN)]),
                None => shown.push_str(piece),
            }
            shown
        });
        let shown: String = plain(&shown);
        match shown.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}… ({} more)", &shown[..end], shown[end..].chars().count()),
            None => shown,
        }
    }
}

/// Returns the ranges, which are in order, that overlap a line.
fn within<'a>(ranges: &'a [Range], line: &Range) -> &'a [Range] {
    let first = ranges.partition_point(|range| range.end <= line.start);
    let count = ranges[first..].partition_point(|range| range.start < line.end);
    &ranges[first..first + count]
}

/// Escapes control characters, except tabs.
pub(crate) fn plain(text: &str) -> String {
    use mendline::observe::escaped::Escaped;
    text.split('\t').map(|part| Escaped(part.as_bytes()).to_string()).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_COLOUR: DiffStyle = DiffStyle { colour: false };

    #[test]
    fn diff_shows_context_lines() {
        let text = "{\n\"a\": 1,\n\"b\": 2,\n\"c\": 3,\n\"d\": 4,\n\"e\": 5,\n\"f\": 6\n}\n";
        let at = text.find('4').unwrap();
        let edits = [Edit::replace(at..at + 1, "44,\n\"x\": 0")];
        assert_eq!(
            render("f", text, &edits, Syntax::Json, NO_COLOUR),
            "--- f\n+++ f\n@@ -2,7 +2,8 @@\n \"a\": 1,\n \"b\": 2,\n \"c\": 3,\n-\"d\": 4,\n+\"d\": 44,\n+\"x\": 0,\n \"e\": 5,\n \"f\": 6\n }\n"
        );
    }

    #[test]
    fn added_and_removed_lines_are_shown_alone() {
        let shown = |text: &str, edit: Edit| render("f", text, &[edit], Syntax::Toml, NO_COLOUR);
        let head = "--- f\n+++ f\n";
        assert_eq!(shown("a = 1\n", Edit::insert(6, "b = 2\n")), format!("{head}@@ -1,1 +1,2 @@\n a = 1\n+b = 2\n"));
        assert_eq!(shown("a = 1\n", Edit::insert(0, "b = 2\n")), format!("{head}@@ -1,1 +1,2 @@\n+b = 2\n a = 1\n"));
        assert_eq!(shown("", Edit::insert(0, "b = 2\n")), format!("{head}@@ -1,0 +1,1 @@\n+b = 2\n"));
        assert_eq!(shown("a = 1\nb = 2\n", Edit::remove(0..6)), format!("{head}@@ -1,2 +1,1 @@\n-a = 1\n b = 2\n"));
        assert_eq!(shown("a = 1\n", Edit::remove(0..6)), format!("{head}@@ -1,1 +1,0 @@\n-a = 1\n"));
        let unended = shown("a = 1", Edit::insert(5, "\nb = 2\n"));
        assert_eq!(unended, format!("{head}@@ -1,1 +1,2 @@\n-a = 1\n+a = 1\n+b = 2\n"));
    }

    #[test]
    fn distant_changes_have_separate_hunks() {
        let text: String = (0..30).map(|number| format!("k{number} = {number}\n")).collect();
        let at = |number: usize| text.find(&format!("= {number}\n")).unwrap() + 2;
        let edit = |number: usize| Edit::replace(at(number)..at(number) + 1, "9");
        let shown = render("f", &text, &[edit(2), edit(3), edit(25)], Syntax::Toml, NO_COLOUR);
        assert_eq!(shown.matches("@@ -").count(), 2, "{shown}");
        assert!(shown.contains("-k2 = 2\n+k2 = 9\n-k3 = 3\n+k3 = 9\n"), "{shown}");
        assert!(shown.contains("-k25 = 25\n+k25 = 95\n"), "{shown}");
    }

    #[test]
    fn secrets_and_control_characters_do_not_reach_a_terminal() {
        let text = "{\"env\": {\"K\": \"s3cret\", \"L\": \"${L}\"}, \"x\": \"\u{1b}[2J\"}\r\n";
        let edits = [Edit::insert(1, "\"headers\": {\"A\": \"t0ken\"}, ")];
        let shown = render("f", text, &edits, Syntax::Json, DiffStyle { colour: true });
        assert!(!shown.contains("s3cret") && !shown.contains("t0ken") && !shown.contains("[2J\u{1b}"), "{shown}");
        assert!(shown.contains("${L}") && shown.contains("\\u{1b}[2J"), "{shown}");
        let long = format!("{{\"a\": \"{}\"}}", "word ".repeat(200));
        let shown = render("f", &long, &[Edit::insert(1, " ")], Syntax::Json, NO_COLOUR);
        assert!(shown.contains("more)") && shown.len() < 1200, "{shown}");
    }
}
