//! Parameters of queries and forms.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Parses `application/x-www-form-urlencoded` text. The last value of a repeated name counts.
pub(crate) fn parse(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// Decodes `%41` and `+`. Invalid escapes stay as they are.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Encodes a value for a query.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_decoded_and_values_are_encoded() {
        let form = parse("a=b+c&d=%2F%zz&e&a=last");
        assert_eq!((form["a"].as_str(), form["d"].as_str(), form["e"].as_str()), ("last", "/%zz", ""));
        assert_eq!(encode("http://a/ü"), "http%3A%2F%2Fa%2F%C3%BC");
        assert_eq!(decode(&encode("ä b+c")), "ä b+c");
    }
}
