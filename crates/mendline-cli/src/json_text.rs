//! JSON as it was written, with new whitespace only.
//!
//! Parsing and printing a value would reorder its keys and round large numbers. The answer of a server is shown as it
//! is, so only the whitespace between tokens changes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Members(pub(crate) Vec<(String, Box<RawValue>)>);

impl Members {
    /// Parses the members of a text, if it is an object.
    pub(crate) fn of(text: &RawValue) -> Option<Members> {
        serde_json::from_str(text.get()).ok()
    }

    /// Returns the member of this name; the last of several.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the text of a member.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Returns the boolean of a member.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Returns the elements of a member.
    pub(crate) fn list(&self, name: &str) -> Vec<Box<RawValue>> {
        self.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
    }

    /// Returns the members of a member.
    pub(crate) fn members(&self, name: &str) -> Members {
        self.get(name).and_then(Members::of).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Formats a value with one member or element per line, indented; an empty one stays on its line.
pub(crate) fn pretty(text: &RawValue) -> String {
    let mut out = String::with_capacity(text.get().len() * 2);
    let mut depth = 0_usize;
    let mut characters = text.get().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                let mut is_escaped = false;
                for inner in characters.by_ref() {
                    out.push(inner);
                    if !is_escaped && inner == '"' {
                        break;
                    }
                    is_escaped = !is_escaped && inner == '\\';
                }
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn pretty_keeps_order_numbers_and_escapes() {
        let text = r#"{"b":1.50,"a":[123456789012345678901,{"x":"q\"}\\"}], "e":{} ,"f":[ ]}"#;
        let expected = "{\n  \"b\": 1.50,\n  \"a\": [\n    123456789012345678901,\n    {\n      \"x\": \"q\\\"}\\\\\"\n    }\n  ],\n  \"e\": {},\n  \"f\": []\n}";
        assert_eq!(pretty(&raw(text)), expected);
        assert_eq!(pretty(&raw(expected)), expected, "what is pretty stays so");
        assert_eq!(pretty(&raw("\"a:b,c\"")), "\"a:b,c\"");
    }

    #[test]
    fn members_keep_order_and_the_last_duplicate_wins() {
        let members = Members::of(&raw(r#"{"z":1,"a":"x","z":true}"#)).unwrap();
        let names: Vec<&str> = members.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z", "a", "z"]);
        assert_eq!((members.flag("z"), members.text("a")), (Some(true), Some("x".to_owned())));
        assert!(Members::of(&raw("[]")).is_none());
    }
}
