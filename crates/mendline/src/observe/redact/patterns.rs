//! Text that looks like a credential.
//!
//! There are four patterns: a key with the prefix of its issuer (`ghp_…`), the text after `Bearer` or `Basic`, the user
//! info of a URL, and the value of a name that denotes a secret (`api_key=…`, `"password": "…"`, `--token …`,
//! `Authorization: …`).
//!
//! Peers choose the text, so the time per byte must be bounded. The end of a token or of a value is searched once, and
//! later lookups use the result. So each byte is scanned a bounded number of times.
//!
//! A cut text (`is_truncated`) may end within a credential. A match that reaches its end counts, however short it is.

use std::ops::Range;

use memchr::{memchr2_iter, memmem};

/// The prefixes of keys of known issuers, with the minimum length of the key.
const KEY_PREFIXES: &[(&[u8], usize)] = &[
    (b"sk-", 20),
    (b"sk_", 16),
    (b"rk_", 16),
    (b"pk_live_", 16),
    (b"whsec_", 16),
    (b"ghp_", 16),
    (b"gho_", 16),
    (b"ghu_", 16),
    (b"ghs_", 16),
    (b"ghr_", 16),
    (b"github_pat_", 20),
    (b"glpat-", 16),
    (b"gsk_", 20),
    (b"xoxa-", 14),
    (b"xoxb-", 14),
    (b"xoxe-", 14),
    (b"xoxo-", 14),
    (b"xoxp-", 14),
    (b"xoxr-", 14),
    (b"xoxs-", 14),
    (b"xapp-", 14),
    (b"AKIA", 20),
    (b"ASIA", 20),
    (b"AIza", 30),
    (b"ATATT3", 20),
    (b"ya29.", 20),
    (b"eyJ", 20),
    (b"npm_", 20),
    (b"pypi-", 20),
    (b"hf_", 20),
    (b"lin_api_", 16),
    (b"ntn_", 20),
    (b"secret_", 24),
    (b"shpat_", 20),
    (b"figd_", 16),
    (b"sntrys_", 20),
    (b"tvly-", 16),
    (b"dop_v1_", 20),
    (b"SG.", 20),
];

/// The suffixes of names that denote secrets, without `_`, `-` and `.`.
const SECRET_SUFFIXES: &[&str] = &[
    "apikey",
    "accesskey",
    "accesskeyid",
    "secretkey",
    "privatekey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "licensekey",
    "subscriptionkey",
    "servicekey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "bearer",
];

/// Names with such a suffix that denote no secret.
const NOT_SECRET: &[&str] = &["progresstoken", "pagetoken", "nexttoken", "continuationtoken", "maxtoken", "stoptoken"];

/// The limit of a name, in bytes.
const MAX_NAME_LENGTH: usize = 48;

/// The minimum length of a value. Shorter ones are words: `token: no`.
const MIN_VALUE_LENGTH: usize = 4;

/// Adds the ranges of a text that look like credentials. `is_truncated` says that the text was cut.
pub(super) fn find(text: &[u8], is_truncated: bool, found: &mut Vec<Range<usize>>) {
    WordPatterns { text, is_truncated, token: Token::default() }.find(found);
    users(text, is_truncated, found);
    Values { text, is_truncated, value: Value::default(), line: 0..0 }.find(found);
}

/// Counts scanned bytes, so that a test can check that the time is linear.
#[cfg(test)]
pub(super) mod scan_count {
    use std::cell::Cell;

    thread_local! {
        static SCANNED: Cell<u64> = const { Cell::new(0) };
    }

    pub(in super::super) fn add(bytes: usize) {
        SCANNED.set(SCANNED.get() + bytes as u64);
    }

    pub(in super::super) fn take() -> u64 {
        SCANNED.take()
    }
}

#[cfg(not(test))]
mod scan_count {
    pub(super) fn add(_: usize) {}
}

/// Returns the number of matching bytes at the start of a text.
fn run(text: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    let length = text.iter().position(|byte| !is_part(*byte)).unwrap_or(text.len());
    scan_count::add(length + 1);
    length
}

/// Returns whether a value is a reference such as `${NAME}` or `Bearer ${NAME}`, which contains no secret. Our own
/// advice uses them.
fn is_reference(value: &[u8]) -> bool {
    let scheme = run(value, |byte| byte.is_ascii_alphabetic());
    let value = value[scheme..].strip_prefix(b" ").filter(|_| scheme > 0).unwrap_or(value);
    let Some(rest) = value.strip_prefix(b"${") else { return false };
    let name = run(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    name > 0 && rest.get(name) == Some(&b'}') && rest.get(name + 1).is_none_or(|after| !is_name(*after))
}

/// Finds credentials at the start of a word: keys of known issuers, schemes, flags.
struct WordPatterns<'a> {
    text: &'a [u8],
    is_truncated: bool,
    /// The last scanned token.
    token: Token,
}

/// A run of characters of credentials from the position of the first lookup, and the last positions of characters that
/// distinguish credentials from words.
#[derive(Default)]
struct Token {
    run: Range<usize>,
    /// The end without trailing dots, which belong to the sentence.
    end: usize,
    dot: Option<usize>,
    hyphen: Option<usize>,
    digit: Option<usize>,
    /// The last character that is neither an upper case letter nor a digit.
    not_upper: Option<usize>,
    /// The last upper case letter, digit or `=`.
    mixed: Option<usize>,
}

impl WordPatterns<'_> {
    fn find(mut self, found: &mut Vec<Range<usize>>) {
        let mut at = 0;
        while at < self.text.len() {
            let before = at.checked_sub(1).map_or(b' ', |before| self.text[before]);
            let range = if before.is_ascii_alphanumeric() { None } else { self.at(at, before) };
            scan_count::add(1);
            // The search continues after a match.
            at = range.as_ref().map_or(at + 1, |range| range.end.max(at + 1));
            found.extend(range);
        }
    }

    fn at(&mut self, at: usize, before: u8) -> Option<Range<usize>> {
        match self.text[at] {
            b'B' | b'b' => self.after_scheme(at),
            b'-' if before != b'-' => self.after_flag(at),
            byte if STARTS[usize::from(byte)] => self.key(at),
            _ => None,
        }
    }

    fn key(&mut self, at: usize) -> Option<Range<usize>> {
        // Two bytes are compared first; most prefixes differ there.
        let rest = &self.text[at..];
        let first = rest.first_chunk::<2>();
        let is_prefix = |beginning: &[u8]| beginning.first_chunk() == first && rest.starts_with(beginning);
        let (beginning, least) = KEY_PREFIXES.iter().find(|(beginning, _)| is_prefix(beginning))?;
        let body = at + beginning.len();
        let is_cut = self.scan(at);
        let token = &self.token;
        let has = |index: Option<usize>| index.is_some_and(|index| index >= body);
        let is_one = match *beginning {
            // Without a dot it is a cursor or other JSON in base64.
            b"eyJ" => has(token.dot),
            // A word with hyphens may have the same prefix.
            b"sk-" => has(token.digit) || !has(token.hyphen),
            b"AKIA" | b"ASIA" => !has(token.not_upper),
            _ => true,
        };
        let length = token.end.saturating_sub(at);
        ((length >= *least && is_one) || is_cut).then_some(at..token.end.max(body))
    }

    /// Finds the credential after `Bearer` or `Basic`.
    fn after_scheme(&mut self, at: usize) -> Option<Range<usize>> {
        let rest = &self.text[at..];
        let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let is_bearer = begins(b"bearer");
        if !is_bearer && !begins(b"basic") {
            return None;
        }
        let scheme = if is_bearer { 6 } else { 5 };
        let blanks = run(&rest[scheme..], |byte| byte == b' ');
        let start = at + scheme + blanks;
        if blanks == 0 || start >= self.text.len() {
            return None;
        }
        let is_cut = self.scan(start);
        let token = &self.token;
        let length = token.end.saturating_sub(start);
        let is_one =
            length >= 8 && (is_bearer || (length.is_multiple_of(4) && token.mixed.is_some_and(|index| index > start)));
        (is_one || (is_cut && length > 0)).then_some(start..token.end)
    }

    /// Finds the value after `--token`, which is the next word.
    fn after_flag(&self, at: usize) -> Option<Range<usize>> {
        let name = self.text[at..].strip_prefix(b"--")?;
        let name = &name[..name.len().min(MAX_NAME_LENGTH + 1)];
        let length = run(name, is_name);
        if name.get(length) != Some(&b' ') || !is_secret(&name[..length]) {
            return None;
        }
        let start = at + 2 + length + 1;
        let rest = self.text.get(start..).filter(|rest| rest.first().is_some_and(|first| *first != b'-'))?;
        let end = start + run(rest, |byte| !byte.is_ascii_whitespace());
        let is_cut = self.is_truncated && end == self.text.len();
        (end - start >= MIN_VALUE_LENGTH || is_cut).then_some(start..end)
    }

    /// Scans the token at a position, unless it is the last one. Returns whether it may continue after the end of the
    /// text.
    fn scan(&mut self, at: usize) -> bool {
        if !self.token.run.contains(&at) {
            let mut token = Token { run: at..at, end: at, ..Token::default() };
            let mut dot = None;
            for (index, byte) in self.text.iter().enumerate().skip(at) {
                if !is_token(*byte) {
                    break;
                }
                token.run.end = index + 1;
                if *byte == b'.' {
                    dot = Some(index);
                    continue;
                }
                token.end = index + 1;
                token.dot = dot;
                let note = |last: &mut Option<usize>, is_it: bool| {
                    if is_it {
                        *last = Some(index);
                    }
                };
                let is_upper = byte.is_ascii_uppercase() || byte.is_ascii_digit();
                note(&mut token.hyphen, *byte == b'-');
                note(&mut token.digit, byte.is_ascii_digit());
                note(&mut token.not_upper, !is_upper);
                note(&mut token.mixed, is_upper || *byte == b'=');
            }
            // A dot also excludes a key in capitals.
            token.not_upper = token.not_upper.max(token.dot);
            scan_count::add(token.run.len() + 1);
            self.token = token;
        }
        self.is_truncated && self.token.run.end == self.text.len()
    }
}

/// The first bytes of key prefixes: one table lookup skips most words.
static STARTS: [bool; 256] = {
    let mut starts = [false; 256];
    let mut at = 0;
    while at < KEY_PREFIXES.len() {
        starts[KEY_PREFIXES[at].0[0] as usize] = true;
        at += 1;
    }
    starts
};

/// Finds the user info in `https://me:password@host` and `https://token@host`.
fn users(text: &[u8], is_truncated: bool, found: &mut Vec<Range<usize>>) {
    for at in memmem::find_iter(text, b"://") {
        let start = at + 3;
        let ends = |byte: u8| matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b' ' | b'\n');
        let end = start + run(&text[start..], |byte| !ends(byte));
        match memchr::memrchr(b'@', &text[start..end]) {
            Some(length) if length > 0 => found.push(start..start + length),
            None if is_truncated && end == text.len() && start < end => found.push(start..end),
            _ => {}
        }
    }
}

/// Finds values after `=` and `:`.
struct Values<'a> {
    text: &'a [u8],
    is_truncated: bool,
    /// The last scanned value without quotes.
    value: Value,
    /// The last scanned rest of a line.
    line: Range<usize>,
}

/// A run of characters of a value without quotes, from the position of the first lookup.
#[derive(Default)]
struct Value {
    run: Range<usize>,
    /// The last digit in it.
    digit: Option<usize>,
    /// The last character that is not a letter.
    other: Option<usize>,
}

impl Values<'_> {
    fn find(mut self, found: &mut Vec<Range<usize>>) {
        let mut hidden = 0;
        for at in memchr2_iter(b'=', b':', self.text) {
            let range = self.at(at).filter(|range| !is_reference(&self.text[range.start..]));
            // A value may contain others: `token=token=…`.
            if let Some(range) = range.filter(|range| range.end > hidden) {
                hidden = range.end;
                found.push(range);
            }
        }
    }

    /// Returns the value after the `=` or `:` at a position, if the name before it denotes a secret.
    fn at(&mut self, at: usize) -> Option<Range<usize>> {
        let text = self.text;
        let name = name_before(text, at)?;
        if !is_secret(name) {
            return None;
        }
        let mut start = at + 1 + run(&text[at + 1..], |byte| byte == b' ');
        let escapes = run(&text[start..], |byte| byte == b'\\');
        start += escapes;
        if let Some(quote) = text.get(start).copied().filter(|byte| matches!(byte, b'"' | b'\'')) {
            let inside = &text[start + 1..];
            let end = closing(inside, quote, escapes > 0);
            return self.hidden(start + 1..start + 1 + end, true);
        }
        if ends_like(name, "cookie") {
            // Several cookies, up to the end of the line.
            if !self.line.contains(&start) {
                self.line = start..start + run(&text[start..], |byte| !matches!(byte, b'\n' | b'"'));
            }
            return self.hidden(start..self.line.end, true);
        }
        self.scan(start);
        let Value { run: Range { end, .. }, digit, other } = self.value;
        let has = |index: Option<usize>| index.is_some_and(|index| index >= start);
        if ends_like(name, "authorization") && !has(other) {
            let credential = (end + 1).min(text.len());
            self.scan(credential);
            return self.hidden(start..self.value.run.end.max(credential), true);
        }
        // `unexpected token: identifier` is a sentence.
        self.hidden(start..end, text[at] != b':' || has(digit))
    }

    /// Returns the range if it is a value, or if it may continue after the end of the text.
    fn hidden(&self, range: Range<usize>, is_one: bool) -> Option<Range<usize>> {
        let is_cut = self.is_truncated && range.end == self.text.len() && !range.is_empty();
        ((is_one && range.len() >= MIN_VALUE_LENGTH) || is_cut).then_some(range)
    }

    /// Scans the value at a position, unless it is the last one.
    fn scan(&mut self, at: usize) {
        if self.value.run.contains(&at) {
            return;
        }
        let mut value = Value { run: at..at, ..Value::default() };
        for (index, byte) in self.text.iter().enumerate().skip(at) {
            if byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'&' | b')' | b'}' | b']' | b'"') {
                break;
            }
            value.run.end = index + 1;
            if byte.is_ascii_digit() {
                value.digit = Some(index);
            }
            if !byte.is_ascii_alphabetic() {
                value.other = Some(index);
            }
        }
        scan_count::add(value.run.len() + 1);
        self.value = value;
    }
}

/// Returns the end of a quoted text, skipping escapes. A nested text ends with an escaped quote.
fn closing(inside: &[u8], quote: u8, is_nested: bool) -> usize {
    let mut at = 0;
    while at < inside.len() && inside[at] != quote {
        if is_nested && inside[at] == b'\\' && inside.get(at + 1) == Some(&quote) {
            break;
        }
        at += if inside[at] == b'\\' { 2 } else { 1 };
    }
    scan_count::add(at + 1);
    at.min(inside.len())
}

fn name_before(text: &[u8], at: usize) -> Option<&[u8]> {
    let mut end = at;
    while end > 0 && at - end < 3 && matches!(text[end - 1], b'"' | b'\'' | b'\\' | b' ' | b']') {
        end -= 1;
    }
    let length = text[..end].iter().rev().take(MAX_NAME_LENGTH).take_while(|byte| is_name(**byte)).count();
    scan_count::add(length + 1);
    (length > 0).then(|| &text[end - length..end])
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=')
}

fn is_secret(name: &[u8]) -> bool {
    // The last letter excludes most names.
    let may_be = matches!(
        name.last().map(u8::to_ascii_lowercase),
        Some(b'y' | b'n' | b't' | b'd' | b'e' | b'l' | b's' | b'r' | b'g' | b'h')
    );
    if !may_be {
        return false;
    }
    let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(|byte| byte.to_ascii_lowercase());
    let name = String::from_utf8(letters.collect()).unwrap_or_default();
    let is_whole = matches!(name.as_str(), "auth" | "sig" | "signature" | "pwd" | "pat");
    is_whole
        || (SECRET_SUFFIXES.iter().any(|end| name.ends_with(end)) && !NOT_SECRET.iter().any(|it| name.ends_with(it)))
}

fn ends_like(name: &[u8], end: &str) -> bool {
    name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Redactor;

    fn shown(text: &str) -> String {
        String::from_utf8(Redactor::default().redact(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn keys_of_known_issuers_are_hidden() {
        for key in [
            "sk-abcdefghijklmnopqrstuv",
            "sk-proj-a1b2c3d4e5f6g7h8i9",
            "sk_live_a1b2c3d4e5f6",
            "ghp_0123456789abcdefABCDEF0123456789abcd",
            "github_pat_11ABCDEFG0123456789_abcdef",
            "xoxb-123456789012-abcdefghij",
            "AKIAIOSFODNN7EXAMPLE",
            "AIzaSyA1234567890abcdefghijklmnopqrstuv",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2lnbmF0dXJl",
            "glpat-abcdefghij0123456789",
        ] {
            for text in [format!("using {key}."), format!("x={key}"), format!("\"{key}\""), format!("({key})")] {
                let seen = shown(&text);
                assert!(!seen.contains(&key[4..]) && seen.contains("‹secret›"), "{text}: {seen}");
            }
        }
    }

    #[test]
    fn text_similar_to_a_secret_is_shown() {
        for text in [
            "task-force-of-the-north-and-the-south",
            "sk-learn-contrib-imbalanced-learn",
            "disk-usage of /dev/sda1",
            "Basic understanding of things",
            "bearer of bad news",
            "SyntaxError: unexpected token: identifier",
            "max_tokens=100000 total tokens: 1234567",
            r#"{"progressToken":"abcdef123","nextCursor":"eyJwYWdlIjoyfQabcdefgh"}"#,
            "listening on http://127.0.0.1:8080/mcp",
            "key: value and keys=12345",
            "mail me@example.com about https://example.com/",
            "10:22:33 token expired",
            "send it: --header 'Authorization: Bearer ${TOKEN}', or api_key=${NOTES_KEY}",
            "call 65537 (tools/call) answered after 3 ms, attempts: 1",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn values_of_secret_names_are_hidden() {
        for (text, expected) in [
            ("api_key=abcdef rest", "api_key=‹secret› rest"),
            ("GET https://x/?a=1&access_token=abcdef&b=2", "GET https://x/?a=1&access_token=‹secret›&b=2"),
            (r#"{"password": "open \"sesame\"", "a": 1}"#, r#"{"password": "‹secret›", "a": 1}"#),
            (r#"{"text":"{\"apiKey\":\"abcdef\"}"}"#, r#"{"text":"{\"apiKey\":\"‹secret›\"}"}"#),
            ("Authorization: Bearer abc", "Authorization: ‹secret›"),
            ("authorization: token abcdef, next", "authorization: ‹secret›, next"),
            ("Cookie: a=b; c=d", "Cookie: ‹secret›"),
            ("api_key=${KEY:-abcdef} x", "api_key=‹secret›} x"),
            ("x-api-key: abc123 more", "x-api-key: ‹secret› more"),
            ("running npx foo --token abcdef --verbose", "running npx foo --token ‹secret› --verbose"),
            ("--client-secret=abcdef", "--client-secret=‹secret›"),
            ("process.env['GITHUB_TOKEN'] = 'abcdef'", "process.env['GITHUB_TOKEN'] = '‹secret›'"),
            ("postgres://me:pw@db.example:5432/x", "postgres://‹secret›@db.example:5432/x"),
            ("https://t0ken@git.example/x", "https://‹secret›@git.example/x"),
            ("header Bearer abcdefgh ok", "header Bearer ‹secret› ok"),
            ("Basic dXNlcjpwYXNzd29yZA==", "Basic ‹secret›"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    /// Returns texts of everything that starts a pattern, with every separator.
    fn hostile_texts(length: usize) -> Vec<(String, String)> {
        let keys = super::KEY_PREFIXES.iter().map(|(beginning, _)| String::from_utf8(beginning.to_vec()).unwrap());
        let names = ["token", "authorization", "cookie", "pwd"];
        let named = names.into_iter().flat_map(|name| {
            ["=", ":", ": ", "=\"", "='", "=\\\"", "=\\'", "=\\\\\"", "=${A}", "=${", " = "]
                .map(|sign| format!("{name}{sign}"))
        });
        let flags =
            ["--token", "--token ", " --token -", "--_", "-", "--", "_--token ", ",--api-key "].map(str::to_owned);
        let others = [
            "b-",
            "B.",
            "bearer",
            "bearer ",
            "Bearer  b",
            "basic",
            "Basic ",
            "://",
            "://a@",
            "://a:",
            "=",
            ":",
            "e:",
            "\\",
            "%",
            "%2",
            "\\u00",
            "\"",
            "'",
            " ",
            ".",
        ];
        let pieces: Vec<String> = keys.chain(named).chain(flags).chain(others.map(str::to_owned)).collect();
        let separators = ["", "a", "-", " ", ".", "/", ",", "'", "\"", "\\\"", "1", "="];
        let mut texts = Vec::new();
        for piece in &pieces {
            for separator in separators {
                let unit = format!("{piece}{separator}");
                // Values without an end, and values that end only at the end of the text.
                for (before, after) in [("", ""), ("", " "), ("token=\"", "1"), ("cookie:", "\n")] {
                    let text = format!("{before}{}{after}", unit.repeat(length / unit.len() + 1));
                    texts.push((format!("{before}({unit})…{after:?}"), text));
                }
            }
        }
        texts
    }

    #[test]
    fn s09_each_byte_is_scanned_a_bounded_number_of_times() {
        let redactor = Redactor::default();
        redactor.learn(&[mendline_core::Secret::new("a-known-secret")]);
        let measure = |text: &str, is_truncated: bool| {
            super::scan_count::take();
            super::find(text.as_bytes(), is_truncated, &mut Vec::new());
            super::scan_count::take() as f64 / text.len() as f64
        };
        let (short, long) = (hostile_texts(1 << 10), hostile_texts(8 << 10));
        for ((name, short), (_, long)) in short.iter().zip(&long) {
            for is_truncated in [false, true] {
                let (few, many) = (measure(short, is_truncated), measure(long, is_truncated));
                assert!(many <= few * 1.2 + 0.5, "{name}: {few:.1} times at 1 KiB, {many:.1} times at 8 KiB");
                assert!(many <= 64.0, "{name}: {many:.1} times");
            }
        }
    }

    proptest! {
        #[test]
        fn key_of_a_known_issuer_is_hidden_in_any_context(
            which in 0..super::KEY_PREFIXES.len(),
            body in "[A-Z0-9]{40}",
            before in "(\\PC{0,30}[^A-Za-z0-9])?",
            after in "([^A-Za-z0-9._~+/=-]\\PC{0,30})?",
        ) {
            let beginning = String::from_utf8(super::KEY_PREFIXES[which].0.to_vec()).unwrap();
            let dot = if beginning == "eyJ" { ".x" } else { "" };
            let text = format!("{before}{beginning}{body}{dot}{after}");
            prop_assert!(!shown(&text).contains(&body), "{} → {}", text, shown(&text));
        }

        #[test]
        fn value_of_a_secret_is_hidden_in_nested_json(value in "[a-zA-Z0-9+/=_-]{4,60}", name in "[a-z]{0,8}_?") {
            for key in ["token", "apiKey", "password", "client_secret"] {
                let name = format!("{name}{key}");
                let plain = name.replace('_', "").to_ascii_lowercase();
                prop_assume!(!super::NOT_SECRET.iter().any(|harmless| plain.ends_with(harmless)));
                let text = serde_json::json!({ "a": [{ name: value }] }).to_string();
                let inner = serde_json::json!({ "text": text }).to_string();
                prop_assert!(!shown(&text).contains(&format!("\"{value}\"")), "{}", shown(&text));
                prop_assert!(!shown(&inner).contains(&format!("\\\"{value}\\\"")), "{}", shown(&inner));
            }
        }
    }
}
