//! Secrets of a file, which a diff must not show.
//!
//! A diff shows the lines around a change, and these are full of tokens. Values of environments and headers, values of
//! flags that carry credentials, and URLs behind their host are hidden, in the old text and in the new one; so is every
//! random text, including comments. A value that only names a variable is shown, and so are names of packages, paths
//! and flags.
//!
//! This module judges by place and by appearance. The diff also passes each line through the redactor, which knows the
//! formats of keys.

use super::credential;
use super::dialect::Dialect;
use super::document::Document;
use super::randomness::{is_open_authority, is_open_url, random_parts};
use super::tree::{Node, Range, Table, Value};
use super::wrap_entry::variable_base;

/// The findings in a text, each list in order and without overlaps.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Parts that are hidden.
    pub(crate) hidden: Vec<Range>,
    /// Parts that only name a variable, and are shown whatever they look like.
    pub(crate) named: Vec<Range>,
}

/// Scans a text for secrets.
pub(crate) fn scan(document: &Document<'_>) -> ScanResult {
    let mut scanner = Scanner { text: document.text, found: ScanResult::default(), leaves: Vec::new() };
    scanner.table(&document.root, false);
    scanner.between();
    let Scanner { mut found, .. } = scanner;
    for ranges in [&mut found.hidden, &mut found.named] {
        ranges.sort_by_key(|range| (range.start, range.end));
        ranges.dedup_by(|later, earlier| {
            let overlap = later.start < earlier.end;
            if overlap {
                earlier.end = earlier.end.max(later.end);
            }
            overlap
        });
    }
    found
}

/// Formats words of a command line without secrets.
pub(crate) fn shown_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut shown = Vec::new();
    let mut before = "";
    for word in words {
        let mut one = word.to_owned();
        let parts = in_argument(word, before);
        parts.into_iter().rev().for_each(|part| one.replace_range(part, HIDDEN));
        shown.push(one);
        before = word;
    }
    shown.join(" ")
}

/// Formats a message that may quote the file, without secrets.
pub(crate) fn shown_sentence(sentence: &str) -> String {
    let mut shown = String::with_capacity(sentence.len());
    let ends_word = |sign: char| sign.is_whitespace() || SEPARATORS.contains(sign);
    for piece in sentence.split_inclusive(ends_word) {
        let mut one = piece.to_owned();
        let word = piece.trim_end_matches(ends_word);
        random_parts(word).into_iter().rev().for_each(|part| one.replace_range(part, HIDDEN));
        shown += &one;
    }
    redacted(&shown)
}

/// Removes the parts of a text that the redactor takes for credentials.
pub(crate) fn redacted(text: &str) -> String {
    let redacted = mendline::observe::redact::Redactor::default().redact(text.as_bytes()).into_owned();
    String::from_utf8_lossy(&redacted).replace("‹secret›", HIDDEN)
}

/// Placeholder for hidden text.
pub(crate) const HIDDEN: &str = "…";

struct Scanner<'a> {
    text: &'a str,
    found: ScanResult,
    /// Keys, and values that are neither tables nor lists. Between them are punctuation, blanks and comments.
    leaves: Vec<Range>,
}

impl Scanner<'_> {
    fn table(&mut self, table: &Table, secret: bool) {
        for member in &table.members {
            self.leaves.push(member.key_range.clone());
            self.hide(&member.key_range, &member.key, in_text(&member.key));
            let holds = secret || Dialect::holds_secrets(&member.key);
            self.node(&member.value, holds || names_a_secret(&member.key), "");
        }
    }

    /// Scans a value. In a list, `before` is the text before it.
    fn node(&mut self, node: &Node, secret: bool, before: &str) {
        match &node.value {
            Value::Table(table) | Value::Dotted(table) => self.table(table, secret),
            Value::List(items) => {
                let mut before = "";
                for item in items {
                    self.node(item, secret, before);
                    before = item.text().unwrap_or_default();
                }
            }
            Value::Text(text) => {
                self.leaves.push(node.range.clone());
                if only_names(text) || is_ours(text, before) {
                    self.found.named.push(node.range.clone());
                } else if secret && !text.is_empty() {
                    self.hide(&node.range, text, everything(text));
                } else {
                    self.hide(&node.range, text, in_argument(text, before));
                }
            }
            Value::Other => {
                self.leaves.push(node.range.clone());
                let raw = &self.text[node.range.clone()];
                let is_long = raw.len() >= SHORTEST_NUMBER && !matches!(raw, "true" | "false" | "null");
                let parts = if secret && is_long { everything(raw) } else { in_words(raw) };
                let start = node.range.start;
                self.found.hidden.extend(parts.into_iter().map(|part| start + part.start..start + part.end));
            }
        }
    }

    /// Hides parts of a text at this range, in quotes or not. If the text is written with escapes, all of it is hidden
    /// when a part is, or when the redactor would hide something.
    fn hide(&mut self, range: &Range, text: &str, parts: Vec<Range>) {
        let raw = &self.text[range.clone()];
        let quotes = match raw {
            _ if raw.starts_with("\"\"\"") || raw.starts_with("'''") => 3,
            _ if raw.starts_with(['"', '\'']) => 1,
            _ => 0,
        };
        let inside = range.start + quotes..range.end.saturating_sub(quotes).max(range.start + quotes);
        if self.text.get(inside.clone()) == Some(text) {
            let moved = parts.into_iter().map(|part| inside.start + part.start..inside.start + part.end);
            self.found.hidden.extend(moved);
        } else if !parts.is_empty() || redacted(text) != text {
            self.found.hidden.push(inside);
        }
    }

    /// Scans the text between keys and values: comments, and what could not be parsed.
    fn between(&mut self) {
        self.leaves.sort_by_key(|leaf| leaf.start);
        let mut at = 0;
        let end = self.text.len();
        for leaf in self.leaves.iter().cloned().chain(std::iter::once(end..end)) {
            if leaf.start > at {
                let parts = in_words(&self.text[at..leaf.start]);
                self.found.hidden.extend(parts.into_iter().map(|part| at + part.start..at + part.end));
            }
            at = at.max(leaf.end);
        }
    }
}

/// Minimum length of a number that may be a secret.
const SHORTEST_NUMBER: usize = 4;

/// Separators of words in a comment that may be code.
const SEPARATORS: &str = "\"'`,;()[]{}<>#";

fn everything(text: &str) -> Vec<Range> {
    std::iter::once(0..text.len()).filter(|whole| !whole.is_empty()).collect()
}

/// Returns the parts to hide of an argument that follows `before`.
fn in_argument(text: &str, before: &str) -> Vec<Range> {
    if text.is_empty() || only_names(text) || is_ours(text, before) {
        return Vec::new();
    }
    if is_carrier(before) && !is_flag(text) {
        return everything(text);
    }
    if is_short_carrier(before) && !is_flag(text) && !is_plain_value(text) {
        return everything(text);
    }
    // `-pPASSWORD`
    let joined = text.strip_prefix("-k").or(text.strip_prefix("-p"));
    if joined.is_some_and(|value| value.contains(|c: char| c.is_ascii_digit()) && !is_plain_value(value)) {
        return std::iter::once(2..text.len()).collect();
    }
    if let Some((name, value)) = text.split_once('=').filter(|_| !text.contains("://") || is_flag(text)) {
        let start = text.len() - value.len();
        let from = |parts: Vec<Range>| parts.into_iter().map(|part| start + part.start..start + part.end).collect();
        let holds = names_a_secret(name)
            || is_variable(name)
            || is_carrier(name)
            || (is_short_carrier(name) && !is_plain_value(value))
            || matches!(before, "-e" | "--env");
        if !name.contains(char::is_whitespace) && !only_names(value) && (holds && !value.is_empty()) {
            return from(everything(value));
        }
        if is_flag(name) && is_word_of_a_line(name) {
            return from(in_text(value));
        }
    }
    in_text(text)
}

/// Returns the parts to hide of any text.
fn in_text(text: &str) -> Vec<Range> {
    if text.is_empty() || only_names(text) {
        return Vec::new();
    }
    let has_pairs = text.contains(';') && text.contains('=');
    if text.contains("Bearer ") || text.contains("PRIVATE KEY") || (has_pairs && text.split(';').any(is_secret_pair)) {
        return everything(text);
    }
    if text.contains(char::is_whitespace) {
        return in_words(text);
    }
    if let Some(at) = text.find("://") {
        return in_url(text, at);
    }
    random_parts(&without_variables(text))
}

/// Returns whether a part of a connection string is a secret, such as `Password=…`.
fn is_secret_pair(pair: &str) -> bool {
    pair.split_once('=').is_some_and(|(name, _)| names_a_secret(name) || name.trim().eq_ignore_ascii_case("uid"))
}

/// Returns the parts to hide of a URL: everything behind its host, unless it is certainly public; and the host, if it
/// looks random.
fn in_url(text: &str, at: usize) -> Vec<Range> {
    let known = without_variables(text);
    if is_open_url(&known) {
        return Vec::new();
    }
    let start = at + "://".len();
    let host_end = known[start..].find(['/', '?', '#']).map_or(known.len(), |length| start + length);
    let from = if is_open_authority(&known[start..host_end]) {
        // The slash behind the host is shown.
        host_end + usize::from(known[host_end..].starts_with('/'))
    } else {
        start
    };
    let mut parts = random_parts(&known[..at]);
    parts.extend(Some(from..text.len()).filter(|rest| !rest.is_empty()));
    parts
}

/// Returns the parts to hide of several words: a script, a comment, perhaps a piece of code.
fn in_words(text: &str) -> Vec<Range> {
    let mut hidden = Vec::new();
    let mut before = "";
    // The word before a lonely `:` or `=` is a key.
    let mut is_value = false;
    let mut at = 0;
    let ends_word = |sign: char| sign.is_whitespace() || SEPARATORS.contains(sign);
    for piece in text.split_inclusive(ends_word) {
        let word = piece.trim_end_matches(ends_word);
        let start = at;
        at += piece.len();
        if word.is_empty() {
            continue;
        }
        if matches!(word, ":" | "=") {
            is_value = names_a_secret(before) || is_variable(before);
            continue;
        }
        let follows_name =
            before.strip_suffix([':', '=']).is_some_and(|name| is_variable(name) && names_a_secret(name));
        let parts =
            if (is_value || follows_name) && !only_names(word) { everything(word) } else { in_argument(word, before) };
        hidden.extend(parts.into_iter().map(|part| start + part.start..start + part.end));
        (before, is_value) = (word, false);
    }
    hidden
}

/// Returns whether the word after this flag is a credential.
fn is_carrier(flag: &str) -> bool {
    let names_one = is_flag(flag) && names_a_secret(flag) && !flag.contains('=') && !flag.ends_with("-env");
    matches!(flag, "--header" | "-H" | "-k" | "-K") || names_one
}

/// Returns whether the word after this flag of one letter may be a credential: a password, a token, a secret, a user
/// with both.
fn is_short_carrier(flag: &str) -> bool {
    matches!(flag, "-p" | "-P" | "-t" | "-T" | "-s" | "-S" | "-a" | "-u" | "-U" | "-w" | "-W")
}

/// Returns whether a value is a number, a path, a scoped package, or an address with a port, and so no password.
fn is_plain_value(text: &str) -> bool {
    let is_made_of = |signs: &str| text.chars().all(|sign| sign.is_ascii_digit() || signs.contains(sign));
    is_made_of(".:-") || (text.contains(['/', '\\', '.']) && random_parts(text).is_empty() && !text.contains("://"))
}

fn is_flag(word: &str) -> bool {
    word.starts_with('-')
}

fn is_word_of_a_line(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.' | ':'))
}

/// Returns whether this is the name of a variable in capitals.
fn is_variable(name: &str) -> bool {
    name.len() > 1
        && name.starts_with(|sign: char| sign.is_ascii_uppercase() || sign == '_')
        && name.chars().all(|sign| sign.is_ascii_uppercase() || sign.is_ascii_digit() || sign == '_')
}

/// Returns whether a name indicates a secret.
fn names_a_secret(name: &str) -> bool {
    const WORDS: [&str; 21] = [
        "pass",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "pw",
        "pat",
        "pin",
        "cred",
        "creds",
        "jwt",
        "session",
        "sid",
        "conn",
        "connection",
        "dsn",
        "sig",
        "signature",
        "otp",
        "login",
        "license",
    ];
    let is_word = |word: &str| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known));
    credential::is_secret(name) || words_in(name).into_iter().any(is_word)
}

/// Splits a name into words, however they are joined: `db-pass`, `DB_PASS`, `dbPass`.
fn words_in(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in name.split(|sign: char| !sign.is_ascii_alphanumeric()) {
        let mut start = 0;
        for (at, pair) in part.as_bytes().windows(2).enumerate() {
            if pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase() {
                words.push(&part[start..=at]);
                start = at + 1;
            }
        }
        words.push(&part[start..]);
    }
    words
}

/// Returns whether an argument of `--header-env` or `--url-env` names a variable, as `wrap` writes it.
fn is_ours(text: &str, before: &str) -> bool {
    match before {
        "--header-env" => text.split_once('=').is_some_and(|(header, variable)| {
            let base = variable_base(header);
            let number = variable.strip_prefix(&base).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()) && number.len() <= 2)
                || (is_name(variable) && random_parts(variable).is_empty())
        }),
        "--url-env" => is_name(text) && random_parts(text).is_empty(),
        _ => false,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|sign| sign.is_ascii_uppercase() || sign.is_ascii_digit() || sign == '_')
}

/// Replaces variables without a default by characters of the same length.
fn without_variables(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (inside, after))) =
        rest.split_once("${").and_then(|cut| Some((cut.0, cut.1.split_once('}')?)))
    {
        plain.push_str(before);
        if inside.contains(":-") {
            plain.push_str(&rest[before.len()..rest.len() - after.len()]);
        } else {
            plain.extend(std::iter::repeat_n('-', inside.len() + "${}".len()));
        }
        rest = after;
    }
    plain + rest
}

/// Returns whether a text only names variables, perhaps after the name of a header and a scheme.
pub(crate) fn only_names(text: &str) -> bool {
    let mut around = String::new();
    let mut rest = text;
    let mut named = false;
    while let Some((before, (inside, after))) =
        rest.split_once("${").and_then(|cut| Some((cut.0, cut.1.split_once('}')?)))
    {
        // A default is a value.
        if inside.contains(":-") {
            return false;
        }
        named = true;
        around.push_str(before);
        rest = after;
    }
    around.push_str(rest);
    let value = around.rsplit(':').next().unwrap_or_default().trim();
    named && (value.is_empty() || ["Bearer", "Basic", "Token"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::document::Syntax;

    #[test]
    fn name_of_a_variable_is_no_secret() {
        for text in ["${X}", "Bearer ${input:key}", "Authorization: Bearer ${X}", "X-Key:${X}", "${A} ${B}"] {
            assert!(only_names(text), "{text}");
        }
        for text in ["", "x", "Bearer abc", "${X:-abc}", "Bearer ${X", "abc ${X}", "${X} abc", "X-Key: abc${X}"] {
            assert!(!only_names(text), "{text}");
        }
    }

    #[test]
    fn only_possible_secrets_are_hidden() {
        let text = r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "--header", "A: s1", "--api-key=s2", "x", "Bearer s3",
            "--token", "s4", "https://x/?s5", "https://x/y", "--header-env", "A=B"], "env": {"K": "s6", "V": "${X}", "N": 1},
            "headers": {"H": "s7 ${X}"}, "apiKey": "s8"}}}"#;
        let document = Document::parse(text, Syntax::Json).unwrap();
        let hidden = scan(&document).hidden;
        let mut shown = text.to_owned();
        for range in hidden.iter().rev() {
            shown.replace_range(range.clone(), "…");
        }
        for secret in ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(shown.contains("${X}") && shown.contains("https://x/y") && shown.contains("A=B"), "{shown}");
        assert_eq!(hidden.len(), 8, "{shown}");
    }
}
