//! What by its looks is a credential.
//!
//! Four looks: a key that begins as its issuer begins all of them (`ghp_…`), what follows `Bearer` or `Basic`, what stands
//! before the host in a URL, and the value of something whose name says that it is secret (`api_key=…`,
//! `"password": "…"`, `--token …`, `Authorization: …`). One pass over the bytes for each, and no look at anything twice.

use std::ops::Range;

use memchr::{memchr2_iter, memmem};

/// How the keys of well-known issuers begin, and how long they are at least.
const BEGINNINGS: &[(&[u8], usize)] = &[
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

/// How names of secrets end, once `_`, `-` and `.` are left out.
const SECRET_ENDS: &[&str] = &[
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

/// What ends like a secret and is none.
const HARMLESS: &[&str] = &["progresstoken", "pagetoken", "nexttoken", "continuationtoken", "maxtoken", "stoptoken"];

/// No name that means anything is longer.
const LONGEST_NAME: usize = 48;

/// A value shorter than this says nothing: `token: no`.
const SHORTEST_VALUE: usize = 4;

/// Adds the places of everything in this text that looks like a credential.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    words(text, found);
    users(text, found);
    for at in memchr2_iter(b'=', b':', text) {
        found.extend(assigned(text, at).filter(|place| !is_reference(&text[place.start..])));
    }
}

/// `${NAME}`, with or without a scheme before it, says where a secret is and not what it is: our own advice is written so.
fn is_reference(value: &[u8]) -> bool {
    let scheme = value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let value = value[scheme..].strip_prefix(b" ").filter(|_| scheme > 0).unwrap_or(value);
    let Some(rest) = value.strip_prefix(b"${") else { return false };
    let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    name > 0 && rest.get(name) == Some(&b'}') && rest.get(name + 1).is_none_or(|after| !is_name(*after))
}

/// What begins a word: keys of known issuers, schemes, flags.
fn words(text: &[u8], found: &mut Vec<Range<usize>>) {
    let mut before = b' ';
    for (at, byte) in text.iter().enumerate() {
        if !before.is_ascii_alphanumeric() {
            let rest = &text[at..];
            let place = match byte {
                b'B' | b'b' => after_scheme(rest),
                b'-' if before != b'-' => after_flag(rest),
                _ if STARTS[usize::from(*byte)] => key(rest),
                _ => None,
            };
            found.extend(place.map(|place| at + place.start..at + place.end));
        }
        before = *byte;
    }
}

/// The bytes with which a key may begin: most words are passed over for one look at a table.
static STARTS: [bool; 256] = {
    let mut starts = [false; 256];
    let mut at = 0;
    while at < BEGINNINGS.len() {
        starts[BEGINNINGS[at].0[0] as usize] = true;
        at += 1;
    }
    starts
};

fn key(rest: &[u8]) -> Option<Range<usize>> {
    // Two bytes are compared at once, and more only if they are the same.
    let first = rest.first_chunk::<2>();
    let is_it = |beginning: &[u8]| beginning.first_chunk() == first && rest.starts_with(beginning);
    let (beginning, least) = BEGINNINGS.iter().find(|(beginning, _)| is_it(beginning))?;
    let length = token(rest);
    let body = &rest[beginning.len()..length.max(beginning.len())];
    let is_one = match *beginning {
        // Otherwise it is a cursor, or anything else in JSON and base64.
        b"eyJ" => body.contains(&b'.'),
        // A word with hyphens in it may begin like this, too.
        b"sk-" => body.iter().any(u8::is_ascii_digit) || !body.contains(&b'-'),
        b"AKIA" | b"ASIA" => body.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        _ => true,
    };
    (length >= *least && is_one).then_some(0..length)
}

/// `Bearer …` and `Basic …`.
fn after_scheme(rest: &[u8]) -> Option<Range<usize>> {
    let scheme = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let blanks = rest[scheme..].iter().take_while(|byte| **byte == b' ').count();
    let start = scheme + blanks;
    let length = token(&rest[start..]);
    let credential = &rest[start..start + length];
    let is_one = blanks > 0
        && match &rest[..scheme] {
            word if word.eq_ignore_ascii_case(b"bearer") => length >= 8,
            word if word.eq_ignore_ascii_case(b"basic") => {
                let is_odd = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() || *byte == b'=';
                length >= 8 && length.is_multiple_of(4) && credential[1..].iter().any(is_odd)
            }
            _ => false,
        };
    is_one.then_some(start..start + length)
}

/// `--token …`, where the value is the next word.
fn after_flag(rest: &[u8]) -> Option<Range<usize>> {
    let name = rest.strip_prefix(b"--")?;
    let length = name.iter().take_while(|byte| is_name(**byte)).count();
    if !is_secret(name.get(..length)?) || name.get(length) != Some(&b' ') {
        return None;
    }
    let start = 2 + length + 1;
    let end = start + rest[start..].iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
    (end - start >= SHORTEST_VALUE && rest[start] != b'-').then_some(start..end)
}

/// Who somebody is in `https://me:password@host`, and `https://token@host`.
fn users(text: &[u8], found: &mut Vec<Range<usize>>) {
    for at in memmem::find_iter(text, b"://") {
        let start = at + 3;
        let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b' ' | b'\n');
        let end = text[start..].iter().position(ends).map_or(text.len(), |length| start + length);
        if let Some(length) = memchr::memrchr(b'@', &text[start..end]).filter(|length| *length > 0) {
            found.push(start..start + length);
        }
    }
}

/// The value behind the `=` or `:` at this place, if what stands before it names a secret.
fn assigned(text: &[u8], at: usize) -> Option<Range<usize>> {
    let name = name_before(text, at)?;
    if !is_secret(name) {
        return None;
    }
    let blanks = text[at + 1..].iter().take_while(|byte| **byte == b' ').count();
    let mut start = at + 1 + blanks;
    let escapes = text[start..].iter().take_while(|byte| **byte == b'\\').count();
    start += escapes;
    if let Some(quote) = text.get(start).copied().filter(|byte| matches!(byte, b'"' | b'\'')) {
        let inside = &text[start + 1..];
        let end = closing(inside, quote, escapes > 0);
        return (end >= SHORTEST_VALUE).then_some(start + 1..start + 1 + end);
    }
    let rest = &text[start..];
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'&' | b')' | b'}' | b']' | b'"');
    let mut end = rest.iter().position(ends).unwrap_or(rest.len());
    if ends_like(name, "cookie") {
        // One cookie after the other, to the end of the line.
        end = rest.iter().position(|byte| matches!(byte, b'\n' | b'"')).unwrap_or(rest.len());
    } else if ends_like(name, "authorization") && rest[..end].iter().all(u8::is_ascii_alphabetic) {
        let credential = rest.get(end + 1..).unwrap_or_default();
        end += 1 + credential.iter().position(ends).unwrap_or(credential.len());
    } else if text[at] == b':' && !rest[..end].iter().any(u8::is_ascii_digit) {
        // `unexpected token: identifier` is a sentence.
        return None;
    }
    let end = end.min(rest.len());
    (end >= SHORTEST_VALUE).then_some(start..start + end)
}

/// Where a quoted text ends, past what is escaped in it. A text inside of a text ends with an escaped quote.
fn closing(inside: &[u8], quote: u8, is_nested: bool) -> usize {
    let mut at = 0;
    while at < inside.len() && inside[at] != quote {
        if is_nested && inside[at] == b'\\' && inside.get(at + 1) == Some(&quote) {
            return at;
        }
        at += if inside[at] == b'\\' { 2 } else { 1 };
    }
    at.min(inside.len())
}

fn name_before(text: &[u8], at: usize) -> Option<&[u8]> {
    let mut end = at;
    while end > 0 && at - end < 3 && matches!(text[end - 1], b'"' | b'\'' | b'\\' | b' ' | b']') {
        end -= 1;
    }
    let length = text[..end].iter().rev().take(LONGEST_NAME).take_while(|byte| is_name(**byte)).count();
    (length > 0).then(|| &text[end - length..end])
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_secret(name: &[u8]) -> bool {
    // Most names are told by their last letter, and need no more of a look.
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
    is_whole || (SECRET_ENDS.iter().any(|end| name.ends_with(end)) && !HARMLESS.iter().any(|it| name.ends_with(it)))
}

fn ends_like(name: &[u8], end: &str) -> bool {
    name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
}

/// How long the token is with which this begins.
fn token(text: &[u8]) -> usize {
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=');
    let length = text.iter().take_while(|byte| is_part(byte)).count();
    // The end of a sentence is not part of it.
    length - text[..length].iter().rev().take_while(|byte| **byte == b'.').count()
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
    fn what_only_looks_a_little_like_a_secret_is_shown() {
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
    fn what_is_named_a_secret_is_hidden() {
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

    proptest! {
        #[test]
        fn a_key_of_a_known_issuer_is_hidden_in_any_surroundings(
            which in 0..super::BEGINNINGS.len(),
            body in "[A-Z0-9]{40}",
            before in "(\\PC{0,30}[^A-Za-z0-9])?",
            after in "([^A-Za-z0-9._~+/=-]\\PC{0,30})?",
        ) {
            let beginning = String::from_utf8(super::BEGINNINGS[which].0.to_vec()).unwrap();
            let dot = if beginning == "eyJ" { ".x" } else { "" };
            let text = format!("{before}{beginning}{body}{dot}{after}");
            prop_assert!(!shown(&text).contains(&body), "{} → {}", text, shown(&text));
        }

        #[test]
        fn the_value_of_a_secret_is_hidden_in_json_at_any_depth(value in "[a-zA-Z0-9+/=_-]{4,60}", name in "[a-z]{0,8}_?") {
            for key in ["token", "apiKey", "password", "client_secret"] {
                let text = serde_json::json!({ "a": [{ format!("{name}{key}"): value }] }).to_string();
                prop_assume!(!text.contains("progress"));
                let inner = serde_json::json!({ "text": text }).to_string();
                prop_assert!(!shown(&text).contains(&format!("\"{value}\"")), "{}", shown(&text));
                prop_assert!(!shown(&inner).contains(&format!("\\\"{value}\\\"")), "{}", shown(&inner));
            }
        }
    }
}
