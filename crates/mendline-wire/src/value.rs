//! Lookups in the body of a valid message.
//!
//! Most of a message is never read. A value (the name of a tool, a cursor, a progress token) is found by a walk from
//! the first byte of the body, which is cheaper than an index for small bodies. The text is valid JSON, so values are
//! skipped by counting brackets.
//!
//! If a key occurs twice in an object, the last one counts, as in `JSON.parse`, in the `json` module of Python and in
//! `Value` of serde: Mendline must see what the peers see. (A duplicate key in the envelope is a fault; see
//! [`crate::Fault`].)

use std::borrow::Cow;

use crate::Span;
use crate::scan::plain;
use crate::string;

/// A value in a message, and its span.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    text: &'a [u8],
    span: Span,
}

impl<'a> Value<'a> {
    pub(crate) fn new(text: &'a [u8], span: Span) -> Value<'a> {
        Value { text, span }
    }

    /// Returns the JSON text as written.
    pub fn raw(&self) -> &'a [u8] {
        self.text.get(self.span.range()).unwrap_or_default()
    }

    /// Returns its span in the message.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns the decoded text, if it is a string.
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        let raw = self.raw();
        string::is_string(raw).then(|| string::decode(raw))
    }

    /// Returns the value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<Value<'a>> {
        path.iter().try_fold(*self, |value, key| {
            value.members().filter(|(name, _)| string::equals(name.raw(), key)).last().map(|(_, found)| found)
        })
    }

    /// Returns the span of the value at a path.
    pub fn find(&self, path: &[&str]) -> Option<Span> {
        self.at(path).map(|value| value.span)
    }

    /// Returns the JSON text of the value at a path.
    pub fn get(&self, path: &[&str]) -> Option<&'a [u8]> {
        self.at(path).map(|value| value.raw())
    }

    /// Returns the decoded string at a path.
    pub fn get_str(&self, path: &[&str]) -> Option<Cow<'a, str>> {
        self.at(path)?.as_str()
    }

    /// Returns the elements of the array at a path; none if there is no array.
    pub fn elements(&self, path: &[&str]) -> Elements<'a> {
        match self.at(path) {
            Some(array) if array.raw().first() == Some(&b'[') => Elements(Walk::into(array)),
            _ => Elements(Walk::empty()),
        }
    }

    /// Returns the keys (as string values) and values of an object; none if this is not an object.
    pub fn members(&self) -> Members<'a> {
        match self.raw().first() {
            Some(b'{') => Members(Walk::into(*self)),
            _ => Members(Walk::empty()),
        }
    }
}

/// The values of an array, in order.
#[derive(Clone, Debug)]
pub struct Elements<'a>(Walk<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.0.value()
    }
}

/// The keys and values of an object, in order.
#[derive(Clone, Debug)]
pub struct Members<'a>(Walk<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<(Value<'a>, Value<'a>)> {
        Some((self.0.value()?, self.0.value()?))
    }
}

/// An iterator over the values of one container. In valid JSON, separators can be skipped like whitespace.
#[derive(Clone, Debug)]
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Walk<'a> {
    fn into(container: Value<'a>) -> Walk<'a> {
        let range = container.span.range();
        Walk { text: container.text, at: range.start + 1, end: range.end.saturating_sub(1) }
    }

    fn empty() -> Walk<'a> {
        Walk { text: &[], at: 0, end: 0 }
    }

    fn value(&mut self) -> Option<Value<'a>> {
        let inside = self.text.get(..self.end)?;
        let start = skip_separators(inside, self.at);
        if start >= inside.len() {
            self.at = inside.len();
            return None;
        }
        self.at = value_end(inside, start);
        Some(Value { text: self.text, span: Span::new(start, self.at) })
    }
}

/// Returns the first byte from `at` on that is neither whitespace nor a separator.
pub(crate) fn skip_separators(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r' | b',' | b':') = text.get(at) {
        at += 1;
    }
    at
}

/// Returns the end of the value that begins at `at`. In invalid JSON it is a later offset, at most the end of the text.
pub(crate) fn value_end(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => string_end(text, at),
        Some(b'{' | b'[') => container_end(text, at),
        _ => {
            let rest = text.get(at..).unwrap_or_default();
            let scalar = rest.iter().position(|byte| b",]}: \n\t\r".contains(byte)).unwrap_or(rest.len());
            // At least one byte, so that a walk terminates.
            at + scalar.max(1).min(rest.len())
        }
    }
}

/// Returns the end of the string that begins at `at`.
pub(crate) fn string_end(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        at = plain(text, at);
        match text.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

fn container_end(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value::new(text.as_bytes(), Span::new(0, text.len()))
    }

    #[test]
    fn path_leads_through_objects() {
        let value = value(r#"{ "x" : [1,{"b":"}"}] , "a":{"\"":"\\", "b" : {"c":"d"} }, "z":null}"#);
        assert_eq!(value.get(&["a", "b", "c"]), Some(&b"\"d\""[..]));
        assert_eq!(value.get_str(&["a", "\""]).as_deref(), Some("\\"));
        assert_eq!(value.get(&["z"]), Some(&b"null"[..]));
        assert_eq!(value.get(&["x", "b"]), None, "an array is not an object");
        assert_eq!(value.get(&["z", "b"]), None);
        assert_eq!(value.get(&["nope"]), None);
        assert_eq!(value.get(&[]), Some(value.raw()));
        assert_eq!(value.get_str(&["z"]), None, "null is no string");
    }

    #[test]
    fn last_of_equal_decoded_keys_counts() {
        let value = value(r#"{"name":1,"n\u0061me":2,"name ":3}"#);
        assert_eq!(value.get(&["name"]), Some(&b"2"[..]));
    }

    #[test]
    fn elements_of_an_array_come_in_order() {
        let value = value(r#"{"tools":[ {"name":"a"} ,{"name":"b","x":[[]]}, 5,"s" , [ ] ,null]}"#);
        let raws: Vec<_> = value.elements(&["tools"]).map(|tool| String::from_utf8_lossy(tool.raw())).collect();
        assert_eq!(raws, [r#"{"name":"a"}"#, r#"{"name":"b","x":[[]]}"#, "5", "\"s\"", "[ ]", "null"]);
        let names: Vec<_> = value.elements(&["tools"]).filter_map(|tool| tool.get_str(&["name"])).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(value.elements(&[]).count(), 0, "an object has members, not elements");
        assert_eq!(value.elements(&["nope"]).count(), 0);
        assert_eq!(super::tests::value("[ ]").elements(&[]).count(), 0);
    }

    #[test]
    fn walk_over_any_text_terminates() {
        for text in ["{", "[", "{\"", "[]]]]", "{}}}}", "[}", "{]", "[\"\\", "[,,,,]", "{:::}", "[a b]", "{\"a\":}"] {
            let value = value(text);
            assert!(value.members().count() <= text.len() && value.elements(&[]).count() <= text.len(), "{text}");
        }
    }
}
