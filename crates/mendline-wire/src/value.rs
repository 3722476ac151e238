//! Looking things up in the body of a message that has been checked.
//!
//! Most of a message is never read. What is read (a tool's name, a cursor, a progress token) is found by walking the
//! text from the body's first byte, which for the small bodies of requests is cheaper than any index. The text is known
//! to be valid JSON, so values are passed by counting brackets.
//!
//! When a key occurs twice in one object the last one counts, as it does for `JSON.parse`, Python's `json` and serde's
//! `Value`: Mendline has to see what the peers see. (Twice in the *envelope* is a fault; see [`crate::Fault`].)

use std::borrow::Cow;

use crate::Span;
use crate::scan::plain;
use crate::string;

/// A value inside of a message, and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    text: &'a [u8],
    span: Span,
}

impl<'a> Value<'a> {
    pub(crate) fn new(text: &'a [u8], span: Span) -> Value<'a> {
        Value { text, span }
    }

    /// The JSON text of the value, as it was written.
    pub fn raw(&self) -> &'a [u8] {
        self.text.get(self.span.range()).unwrap_or_default()
    }

    /// Where it lies in the message's text.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The value's text, if it is a string.
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        let raw = self.raw();
        string::is_string(raw).then(|| string::decode(raw))
    }

    /// The value at the end of a path of object keys.
    pub fn at(&self, path: &[&str]) -> Option<Value<'a>> {
        path.iter().try_fold(*self, |value, key| {
            value.members().filter(|(name, _)| string::says(name.raw(), key)).last().map(|(_, found)| found)
        })
    }

    /// Where the value at the end of a path lies.
    pub fn find(&self, path: &[&str]) -> Option<Span> {
        self.at(path).map(|value| value.span)
    }

    /// The JSON text of the value at the end of a path.
    pub fn get(&self, path: &[&str]) -> Option<&'a [u8]> {
        self.at(path).map(|value| value.raw())
    }

    /// The string at the end of a path, decoded.
    pub fn get_str(&self, path: &[&str]) -> Option<Cow<'a, str>> {
        self.at(path)?.as_str()
    }

    /// The values of the array at the end of a path; none if there is no array.
    pub fn elements(&self, path: &[&str]) -> Elements<'a> {
        match self.at(path) {
            Some(array) if array.raw().first() == Some(&b'[') => Elements(Walk::into(array)),
            _ => Elements(Walk::nowhere()),
        }
    }

    /// The keys (as string values) and values of an object; none if this is no object.
    pub fn members(&self) -> Members<'a> {
        match self.raw().first() {
            Some(b'{') => Members(Walk::into(*self)),
            _ => Members(Walk::nowhere()),
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

/// A walk from value to value inside of one container. Separators say nothing new in valid text, so they are passed
/// over like whitespace.
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

    fn nowhere() -> Walk<'a> {
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

/// The first byte from `at` on that is neither whitespace nor a separator.
pub(crate) fn skip_separators(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r' | b',' | b':') = text.get(at) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends. In text that is not valid JSON this is some later place in the text, or
/// its end.
pub(crate) fn value_end(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => string_end(text, at),
        Some(b'{' | b'[') => container_end(text, at),
        _ => {
            let rest = text.get(at..).unwrap_or_default();
            let scalar = rest.iter().position(|byte| b",]}: \n\t\r".contains(byte)).unwrap_or(rest.len());
            // At least one byte, so that a walk over anything comes to an end.
            at + scalar.max(1).min(rest.len())
        }
    }
}

/// Where the string that begins at `at` ends.
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
    fn a_path_leads_through_objects_whatever_lies_beside_it() {
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
    fn keys_are_compared_decoded_and_the_last_one_counts() {
        let value = value(r#"{"name":1,"n\u0061me":2,"name ":3}"#);
        assert_eq!(value.get(&["name"]), Some(&b"2"[..]));
    }

    #[test]
    fn the_elements_of_an_array_come_in_order_and_can_be_asked() {
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
    fn a_walk_over_anything_comes_to_an_end() {
        for text in ["{", "[", "{\"", "[]]]]", "{}}}}", "[}", "{]", "[\"\\", "[,,,,]", "{:::}", "[a b]", "{\"a\":}"] {
            let value = value(text);
            assert!(value.members().count() <= text.len() && value.elements(&[]).count() <= text.len(), "{text}");
        }
    }
}
