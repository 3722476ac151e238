//! Masking of secrets in the text of a file.
//!
//! Each byte of a possible secret becomes a star, so that all offsets stay the same. `${VAR}` stays visible: the name
//! of a variable is useful and its value is not in the file.

use std::ops::Range;

/// Masks everything in quotes that is not a key, for a text that is not parsed.
pub(super) fn mask_all(text: &str) -> String {
    let mut spans = Vec::new();
    let mut rest = 0;
    while let Some(at) = text[rest..].find(['"', '\'']).map(|at| rest + at) {
        let quote = text.as_bytes()[at];
        let end = closing(text, at, quote);
        let is_key = text.get(end + 1..).unwrap_or_default().trim_start_matches([' ', '\t']).starts_with([':', '=']);
        if !is_key {
            spans.push(at + 1..end);
        }
        rest = (end + 1).min(text.len());
        while !text.is_char_boundary(rest) {
            rest += 1;
        }
    }
    mask(text, spans)
}

/// Returns the end of a quoted text; the end of its line if the quote is missing.
fn closing(text: &str, at: usize, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut here = at + 1;
    while here < bytes.len() && bytes[here] != quote && bytes[here] != b'\n' {
        here += if bytes[here] == b'\\' { 2 } else { 1 };
    }
    here.min(bytes.len())
}

/// Masks these spans. Quotes around a span and variables in it stay visible.
pub(crate) fn mask(text: &str, spans: impl IntoIterator<Item = Range<usize>>) -> String {
    let mut shown = text.as_bytes().to_vec();
    for span in spans {
        let Some(secret) = text.get(span.clone()) else { continue };
        let mut keep = variables(secret).into_iter().peekable();
        for (offset, byte) in secret.bytes().enumerate() {
            while keep.peek().is_some_and(|kept| kept.end <= offset) {
                keep.next();
            }
            let is_edge = matches!(byte, b'"' | b'\'') && (offset == 0 || offset + 1 == secret.len());
            let is_kept = keep.peek().is_some_and(|kept| kept.contains(&offset));
            if !is_edge && !is_kept && byte != b'\n' {
                shown[span.start + offset] = b'*';
            }
        }
    }
    // If a span does not end at a character boundary, nothing is shown.
    String::from_utf8(shown).unwrap_or_else(|_| "*".repeat(text.len()))
}

/// Returns the spans of `${NAME}`, without defaults, which may be secrets.
fn variables(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(at) = text[rest..].find("${").map(|at| rest + at) {
        let name = text[at + 2..].find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')));
        let end = name.map_or(text.len(), |length| at + 2 + length);
        let closed = text[end..].starts_with('}');
        found.push(at..if closed { end + 1 } else { at + 2 });
        rest = at + 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unparsed_text_shows_keys_only() {
        let shown = mask_all("{ \"Authorization\": \"Bearer s3cret\", \"n\": 5, \"open");
        assert_eq!(shown, "{ \"Authorization\": \"*************\", \"n\": 5, \"****");
        assert_eq!(mask_all("token = 's3cret'\n"), "token = '******'\n");
        assert_eq!(mask_all("\"a\\\"b\" \"ü"), "\"****\" \"**");
    }

    #[test]
    fn variable_is_shown_without_its_default() {
        let text = "\"Bearer ${TOKEN} ${OTHER:-s3cret} ${env:X}\"";
        assert_eq!(mask(text, Some(0..text.len())), "\"*******${TOKEN}*${***************${env:X}\"");
    }

    #[test]
    fn masking_keeps_every_offset() {
        for text in ["\"ü\u{1f600}\"", "\"\\\\\"", "'${'", "\"${a", ""] {
            assert_eq!(mask_all(text).len(), text.len());
            assert_eq!(mask(text, Some(0..text.len())).len(), text.len());
        }
    }
}
