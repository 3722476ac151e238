//! JSON strings: decoding, comparison and encoding.
//!
//! Decoding borrows unless there is an escape. A lone surrogate decodes to U+FFFD; the original text is forwarded
//! unchanged.

use std::borrow::Cow;
use std::cmp::Ordering;

use memchr::memchr;

/// Returns the JSON string of a text, with its quotes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte @ (b'"' | b'\\') => out.extend(['\\', char::from(byte)]),
            control => {
                out.push_str("\\u00");
                out.extend(
                    [control >> 4, control & 15].map(|nibble| char::from(b"0123456789abcdef"[usize::from(nibble)])),
                );
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
    out
}

/// Returns the text of a valid JSON string, given with its quotes.
pub(crate) fn decode(raw: &[u8]) -> Cow<'_, str> {
    let body = body(raw);
    match memchr(b'\\', body) {
        // Checked text is valid UTF-8; this check is cheaper than a lossy conversion.
        None => std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed),
        Some(first) => Cow::Owned(unescape(body, first)),
    }
}

/// Returns whether a valid JSON string, given with its quotes, equals this text.
#[inline]
pub(crate) fn equals(raw: &[u8], text: &str) -> bool {
    let body = body(raw);
    // An escape is longer than its character, so a string of equal length has no escape.
    match body.len().cmp(&text.len()) {
        Ordering::Less => false,
        Ordering::Equal => body == text.as_bytes() && memchr(b'\\', body).is_none(),
        Ordering::Greater => memchr(b'\\', body).is_some_and(|first| unescape(body, first) == text),
    }
}

/// Returns whether the text of a value is a string.
pub(crate) fn is_string(raw: &[u8]) -> bool {
    raw.first() == Some(&b'"')
}

fn body(raw: &[u8]) -> &[u8] {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}

/// Decodes the body of a string whose first backslash is at `next`.
fn unescape(body: &[u8], mut next: usize) -> String {
    let mut out = Vec::with_capacity(body.len());
    let mut from = 0;
    while let Some(&kind) = body.get(next + 1) {
        out.extend_from_slice(&body[from..next]);
        if kind == b'u' {
            let (character, end) = unicode(body, next);
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            from = end;
        } else {
            out.push(match kind {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                other => other,
            });
            from = next + 2;
        }
        next = match memchr(b'\\', &body[from.min(body.len())..]) {
            Some(ahead) => from + ahead,
            None => break,
        };
    }
    out.extend_from_slice(body.get(from..).unwrap_or_default());
    String::from_utf8(out).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned())
}

/// Returns the character of the `\u` escape at `at`, including a second surrogate, and the end of the escape.
fn unicode(body: &[u8], at: usize) -> (char, usize) {
    let first = hex(body, at + 2);
    let end = (at + 6).min(body.len());
    if let 0xd800..=0xdbff = first
        && body.get(end..end + 2) == Some(b"\\u")
        && let second @ 0xdc00..=0xdfff = hex(body, end + 2)
    {
        let whole = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(whole).unwrap_or(char::REPLACEMENT_CHARACTER), end + 6);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), end)
}

fn hex(body: &[u8], at: usize) -> u32 {
    let digits = body.get(at..at + 4).unwrap_or_default();
    digits.iter().fold(0, |sum, &digit| sum << 4 | char::from(digit).to_digit(16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(decode("\"tools/call é\"".as_bytes()), Cow::Borrowed("tools/call é")));
    }

    #[test]
    fn every_escape_is_decoded() {
        let raw = r#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00 end""#;
        assert_eq!(decode(raw.as_bytes()), "\"\\/\u{8}\u{c}\n\r\tAé€😀 end");
        assert!(equals(raw.as_bytes(), "\"\\/\u{8}\u{c}\n\r\tAé€😀 end"));
    }

    #[test]
    fn lone_surrogate_decodes_to_replacement_character() {
        for raw in [r#""\ud83dx""#, r#""\ude00x""#, r#""\ud83d""#, r#""\ud83d\n""#, r#""\ud83d\u0041""#] {
            assert!(decode(raw.as_bytes()).starts_with('\u{fffd}'), "{raw}");
        }
    }

    #[test]
    fn names_are_compared_decoded() {
        assert!(equals(br#""id""#, "id"));
        assert!(equals(br#""\u0069d""#, "id"));
        assert!(equals(br#""i\u0064""#, "id"));
        assert!(!equals(br#""\u0069""#, "id"));
        assert!(!equals(br#""ID""#, "id"));
        assert!(!equals(br#""a\nb""#, "a\\nb"));
        assert!(equals(br#""""#, ""));
    }

    #[test]
    fn quoted_text_round_trips() {
        for text in ["", "plain", "\"\\/\u{0}\u{1f}\n\r\t\u{7f}é😀", "\u{2028}", "tail\\"] {
            let quoted = quote(text);
            assert_eq!(decode(quoted.as_bytes()), text);
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
        }
    }
}
