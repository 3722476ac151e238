//! Sets one member of an object in the body of a message and leaves everything else unchanged.
//!
//! An existing member gets a new value in place; a new member is appended to its object. Missing objects on the path
//! (`params`, `_meta`) are created. If a value on the path cannot have members (a string, an array), the message stays
//! unchanged. `null` counts as missing.

use crate::string::quote;
use crate::value::Value;
use crate::{Kind, Message, Patch, Span, Spliced};

/// Returns the message with the member `key` of the object at `path` (relative to the body) set to this JSON text.
pub fn set_member(message: &Message, path: &[&str], key: &str, raw_value: &[u8]) -> Spliced {
    Spliced::new(message.text().clone(), member(message, path, key, raw_value))
}

/// Returns the same change as an edit, to be combined with others (that of the id, for example). `None` if a value on
/// the path cannot have members. Two edits that both create members of the same object are not combined: create the
/// outermost missing object once.
pub fn member(message: &Message, path: &[&str], key: &str, raw_value: &[u8]) -> Option<(Span, Patch)> {
    let mut keys: Vec<&str> = path.to_vec();
    keys.push(key);
    let Some(mut value) = message.value() else {
        return new_params(message, &keys, raw_value);
    };
    for (place, name) in keys.iter().enumerate() {
        let missing = &keys[place..];
        match value.raw().first() {
            Some(b'{') => {}
            Some(b'n') => return Some((value.span(), Patch::from(nested(missing, raw_value).as_slice()))),
            _ => return None,
        }
        match value.at(&[name]) {
            Some(found) => value = found,
            None => return Some(append(value, missing, raw_value)),
        }
    }
    Some((value.span(), Patch::from(raw_value)))
}

/// Adds `params` after the method.
fn new_params(message: &Message, keys: &[&str], raw_value: &[u8]) -> Option<(Span, Patch)> {
    if !matches!(message.kind(), Kind::Request | Kind::Notification) {
        return None;
    }
    let mut text = b",\"params\":".to_vec();
    text.extend(nested(keys, raw_value));
    Some((Span::at(message.method_span().end), Patch::from(text.as_slice())))
}

/// Appends a member to an object.
fn append(object: Value<'_>, keys: &[&str], raw_value: &[u8]) -> (Span, Patch) {
    let mut text = Vec::new();
    if object.members().next().is_some() {
        text.push(b',');
    }
    let whole = nested(keys, raw_value);
    text.extend_from_slice(&whole[1..whole.len() - 1]);
    (Span::at(object.span().end - 1), Patch::from(text.as_slice()))
}

/// Returns `{"a":{"b":value}}` for the keys a and b.
fn nested(keys: &[&str], raw_value: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for key in keys {
        text.push(b'{');
        text.extend_from_slice(quote(key).as_bytes());
        text.push(b':');
    }
    text.extend_from_slice(raw_value);
    text.extend(std::iter::repeat_n(b'}', keys.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn set(text: &str, path: &[&str], key: &str, value: &str) -> String {
        let message = Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap();
        let edited = set_member(&message, path, key, value.as_bytes()).to_bytes();
        let reread = Message::parse(edited.clone()).expect("still a message");
        if edited != *message.text() {
            let whole: Vec<_> = path.iter().copied().chain([key]).collect();
            assert_eq!(reread.get(&whole), Some(value.as_bytes()));
        }
        String::from_utf8_lossy(&edited).into_owned()
    }

    #[test]
    fn existing_member_is_replaced_in_place() {
        assert_eq!(
            set(
                r#"{"jsonrpc":"2.0","id":1.0,"method":"x","params":{ "a" : 1e3 , "b":"\u0041"},"z":0}"#,
                &[],
                "a",
                "[2]"
            ),
            r#"{"jsonrpc":"2.0","id":1.0,"method":"x","params":{ "a" : [2] , "b":"\u0041"},"z":0}"#
        );
    }

    #[test]
    fn new_member_is_appended_to_its_object() {
        assert_eq!(
            set(r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"x":1 }}}"#, &["_meta"], "k/é\"", "true"),
            r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"x":1 ,"k/é\"":true}}}"#
        );
        assert_eq!(
            set(r#"{"jsonrpc":"2.0","id":1,"result":{ }}"#, &[], "a", "1"),
            r#"{"jsonrpc":"2.0","id":1,"result":{ "a":1}}"#
        );
    }

    #[test]
    fn missing_objects_on_the_path_are_created() {
        assert_eq!(
            set(r#"{"id":1,"method":"ping","jsonrpc":"2.0"}"#, &["_meta"], "a", "1"),
            r#"{"id":1,"method":"ping","params":{"_meta":{"a":1}},"jsonrpc":"2.0"}"#
        );
        assert_eq!(
            set(r#"{"jsonrpc":"2.0","method":"x","params":{"n":1}}"#, &["_meta", "b"], "a", "1"),
            r#"{"jsonrpc":"2.0","method":"x","params":{"n":1,"_meta":{"b":{"a":1}}}}"#
        );
        assert_eq!(
            set(r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":null}}"#, &["_meta"], "a", "1"),
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"a":1}}}"#
        );
    }

    #[test]
    fn value_without_members_is_left_unchanged() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"x","params":[1,2]}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":"text"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":5}"#,
        ] {
            assert_eq!(set(text, &["_meta"], "a", "1"), text);
        }
    }
}
