//! Recovery of the id of an invalid message.
//!
//! A refused message (too deep, too long, a syntax error) can only be answered if its id is known. The text is parsed
//! leniently from its beginning. If that yields no id and the end of the message is available, the end is tried too,
//! because some SDKs write `"id"` last.
//!
//! Only a certain id is reported: an id that is truncated, duplicated, too long or of the wrong kind is ignored,
//! because an answer to the wrong request is worse than none.

use crate::scan::Scanner;
use crate::string;
use crate::value::{skip_separators, string_end, value_end};
use crate::{Id, Limits};

/// The recovered parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    pub(crate) id: Option<Id>,
    pub(crate) method_seen: bool,
}

/// Searches `head`, the beginning of a message, and then `tail`, its end, if available.
pub(crate) fn salvage(head: &[u8], tail: Option<&[u8]>, limits: &Limits) -> Salvaged {
    let mut found = Salvaged::default();
    let mut ids = 0;
    let mut at = skip_separators(head, 0);
    if head.get(at) != Some(&b'{') {
        return found;
    }
    at += 1;
    loop {
        at = skip_separators(head, at);
        if head.get(at) != Some(&b'"') {
            break;
        }
        let key = &head[at..string_end(head, at)];
        let start = skip_separators(head, at + key.len());
        found.method_seen |= start < head.len() && string::equals(key, "method");
        let end = value_end(head, start);
        // A value at the end of the text may be incomplete.
        if end >= head.len() {
            break;
        }
        if string::equals(key, "id") {
            ids += 1;
            found.id = whole_id(&head[start..end], limits);
        }
        at = end;
    }
    match ids {
        0 => found.id = tail.and_then(|tail| last_member_id(tail, limits)),
        1 => {}
        _ => found.id = None,
    }
    found
}

/// Returns the id, if it is a number or a string within the limit.
fn whole_id(raw: &[u8], limits: &Limits) -> Option<Id> {
    if raw.len() > limits.id_bytes || std::str::from_utf8(raw).is_err() {
        return None;
    }
    let mut scanner = Scanner::new(raw, 0);
    let passed = match raw.first() {
        Some(b'"') => scanner.string(),
        _ => scanner.number(),
    };
    (passed.is_ok() && scanner.at() == raw.len()).then(|| Id::from_raw(raw))
}

/// Returns the id of a message that ends with `"id": 7 }`. The last bracket closes the envelope, so the member before
/// it belongs to the envelope.
fn last_member_id(tail: &[u8], limits: &Limits) -> Option<Id> {
    let inside = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let key = memchr::memmem::rfind(inside, b"\"id\"")?;
    let before = inside[..key].trim_ascii_end().last()?;
    let value = inside[key + 4..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    matches!(before, b',' | b'{').then(|| whole_id(value, limits))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(head: &str, tail: Option<&str>) -> Option<String> {
        salvage(head.as_bytes(), tail.map(str::as_bytes), &Limits::default()).id.map(|id| id.to_string())
    }

    #[test]
    fn id_is_found_before_and_after_the_error() {
        assert_eq!(id_of(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":["#, None).as_deref(), Some("7"));
        assert_eq!(id_of(r#"{"jsonrpc":"2.0","params":{"a":tru},"id":"s","x":1}"#, None).as_deref(), Some("\"s\""));
    }

    #[test]
    fn truncated_or_duplicate_id_is_ignored() {
        assert_eq!(id_of(r#"{"id":7"#, None), None);
        assert_eq!(id_of(r#"{"id":"abc"#, None), None);
        assert_eq!(id_of(r#"{"id":7,"id":8,"#, None), None);
        assert_eq!(id_of(r#"{"id":{},"#, None), None);
        assert_eq!(id_of(r#"{"id":null,"#, None), None);
        assert_eq!(id_of(r#"{"params":{"id":7},"#, None), None, "the id of another object");
        assert_eq!(id_of(&format!("{{\"id\":{},", "1".repeat(5_000)), None), None);
    }

    #[test]
    fn id_at_the_end_is_found_in_the_tail() {
        let head = r#"{"result":{"text":"aaaa"#;
        assert_eq!(id_of(head, Some(r#"aaaa"},"jsonrpc":"2.0","id":12}"#)).as_deref(), Some("12"));
        assert_eq!(id_of(head, Some("aaaa\"} , \"id\" : \"x\" } \r")).as_deref(), Some("\"x\""));
        assert_eq!(id_of(head, Some(r#"aaaa\"id\":12}"#)), None, "that is text");
        assert_eq!(id_of(head, Some(r#""id":12},"jsonrpc":"2.0"}"#)), None, "that is a member of another object");
        assert_eq!(id_of(head, Some(r#""id":12"#)), None);
    }

    #[test]
    fn method_is_detected() {
        assert!(salvage(br#"{"method":"x"#, None, &Limits::default()).method_seen, "even if its name is cut off");
        assert!(salvage(br#"{"method":"x","id":"#, None, &Limits::default()).method_seen);
        assert!(!salvage(br#"{"result":{"method":"x"},"id":1,"#, None, &Limits::default()).method_seen);
        assert_eq!(salvage(b"Listening on port 3000", None, &Limits::default()), Salvaged::default());
    }
}
