//! What may be shown of a file.
//!
//! Stars take the place of whatever may be a secret, byte for byte, so that every place in the file is the same place in
//! what is shown. `${VAR}` stays: a name is what people need to see, and what it stands for is not in the file.

use std::ops::Range;

/// For a text that nobody has understood: stars for everything in quotes that is not a key.
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

/// Where a text in quotes ends; with the line, if nobody ended it.
fn closing(text: &str, at: usize, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut here = at + 1;
    while here < bytes.len() && bytes[here] != quote && bytes[here] != b'\n' {
        here += if bytes[here] == b'\\' { 2 } else { 1 };
    }
    here.min(bytes.len())
}

/// Stars for these places. Quotes around a place stay, and so do variables in it.
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
    // Only whole characters were replaced, but for the end of a place that somebody else chose; then none is shown.
    String::from_utf8(shown).unwrap_or_else(|_| "*".repeat(text.len()))
}

/// Where `${NAME}` stands, without a default, which may be a secret itself.
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
    fn what_is_not_understood_shows_keys_and_nothing_else() {
        let shown = mask_all("{ \"Authorization\": \"Bearer s3cret\", \"n\": 5, \"open");
        assert_eq!(shown, "{ \"Authorization\": \"*************\", \"n\": 5, \"****");
        assert_eq!(mask_all("token = 's3cret'\n"), "token = '******'\n");
        assert_eq!(mask_all("\"a\\\"b\" \"ü"), "\"****\" \"**");
    }

    #[test]
    fn a_variable_is_shown_and_its_default_is_not() {
        let text = "\"Bearer ${TOKEN} ${OTHER:-s3cret} ${env:X}\"";
        assert_eq!(mask(text, Some(0..text.len())), "\"*******${TOKEN}*${***************${env:X}\"");
    }

    #[test]
    fn every_place_stays_where_it_is() {
        for text in ["\"ü\u{1f600}\"", "\"\\\\\"", "'${'", "\"${a", ""] {
            assert_eq!(mask_all(text).len(), text.len());
            assert_eq!(mask(text, Some(0..text.len())).len(), text.len());
        }
    }
}
