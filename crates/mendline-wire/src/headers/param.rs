//! `Mcp-Param-*`: tool arguments that are repeated as headers.
//!
//! A server marks a property of the `inputSchema` of a tool with `x-mcp-header`, and a client that calls the tool over
//! HTTP repeats that argument as a header. The mark must have a name that HTTP allows, be unique, be on a string, an
//! integer or a boolean, and be reachable from the root of the schema through `properties` alone. A tool that breaks
//! one of these rules must not be used.

use std::borrow::Cow;
use std::fmt;

use super::{PARAM_PREFIX, encode_value};
use crate::{Message, Value};

/// The keyword of the mark.
const ANNOTATION: &str = "x-mcp-header";

/// The maximum depth of the search. Each level is scanned once more, so the depth bounds the cost; real schemas reach
/// about 20 levels.
const DEEPEST: u32 = 64;

/// An argument that is repeated as a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The full name of the header.
    name: String,
    /// The path of the argument.
    path: Vec<String>,
}

/// The reason why the marks of a tool are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamFault {
    /// The mark is not a string, is empty, or is not a valid header name.
    BadName,
    /// Two marks have the same name; case does not matter.
    NotUnique(String),
    /// The property is not a string, an integer or a boolean.
    NotPrimitive(String),
    /// The mark is not on a property that is reached through `properties` alone.
    OutOfReach,
}

impl fmt::Display for ParamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamFault::BadName => write!(f, "{ANNOTATION} names no header that HTTP allows"),
            ParamFault::NotUnique(name) => write!(f, "{ANNOTATION} {name:?} is there twice"),
            ParamFault::NotPrimitive(name) => {
                write!(f, "{ANNOTATION} {name:?} is on something that is no string, integer or boolean")
            }
            ParamFault::OutOfReach => {
                write!(f, "{ANNOTATION} is on something that cannot be reached through properties alone")
            }
        }
    }
}

impl std::error::Error for ParamFault {}

impl ParamHeader {
    /// Returns whether a list of tools may contain marks.
    pub fn may_be_in(list: &Message) -> bool {
        list.mentions(ANNOTATION)
    }

    /// Returns the headers that a schema requires.
    pub fn of_schema(schema: Value<'_>) -> Result<Vec<ParamHeader>, ParamFault> {
        let mut found = Vec::new();
        walk(schema, Some(&mut Vec::new()), 0, &mut found)?;
        Ok(found)
    }

    /// Returns the name of the header.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the header value for these arguments. `None` if the argument is missing or null, or is an object or an
    /// array.
    pub fn value(&self, arguments: Value<'_>) -> Option<String> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let argument = arguments.at(&path)?;
        match argument.raw().first()? {
            b'"' => Some(encode_value(&argument.as_str()?).into_owned()),
            b't' | b'f' | b'-' | b'0'..=b'9' => Some(decimal(std::str::from_utf8(argument.raw()).ok()?).into_owned()),
            _ => None,
        }
    }
}

/// Normalises a number: `7` for `7`, `7.0` and `70e-1`. A number that is not an integer, or too large for a double,
/// stays as written; the server decides.
fn decimal(raw: &str) -> Cow<'_, str> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if raw != "-0" && !raw.contains(['.', 'e', 'E']) {
        return Cow::Borrowed(raw);
    }
    match raw.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && value.abs() <= EXACT => Cow::Owned((value as i64).to_string()),
        _ => Cow::Borrowed(raw),
    }
}

/// Searches a schema for marks. The path is `None` after the first step that is not `properties`.
fn walk(
    schema: Value<'_>,
    mut path: Option<&mut Vec<String>>,
    depth: u32,
    found: &mut Vec<ParamHeader>,
) -> Result<(), ParamFault> {
    if depth > DEEPEST {
        return Ok(());
    }
    let depth = depth + 1;
    if let Some(mark) = schema.at(&[ANNOTATION]) {
        let path = path.as_deref().filter(|path| !path.is_empty()).ok_or(ParamFault::OutOfReach)?;
        found.push(read_mark(mark, schema, path, found)?);
    }
    for (key, value) in schema.members() {
        let Some(key) = key.as_str() else { continue };
        match key.as_ref() {
            // A mark in an example is not a mark.
            ANNOTATION | "default" | "examples" | "enum" | "const" => {}
            "properties" => {
                for (name, property) in value.members() {
                    match path.as_deref_mut() {
                        Some(path) => {
                            path.push(name.as_str().unwrap_or_default().into_owned());
                            walk(property, Some(path), depth, found)?;
                            path.pop();
                        }
                        None => walk(property, None, depth, found)?,
                    }
                }
            }
            // The keys are names here, not keywords.
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                for (_, schema) in value.members() {
                    walk(schema, None, depth, found)?;
                }
            }
            _ => {
                walk(value, None, depth, found)?;
                for schema in value.elements(&[]) {
                    walk(schema, None, depth, found)?;
                }
            }
        }
    }
    Ok(())
}

fn read_mark(
    mark: Value<'_>,
    schema: Value<'_>,
    path: &[String],
    found: &[ParamHeader],
) -> Result<ParamHeader, ParamFault> {
    let name = mark.as_str().filter(|name| is_token(name)).ok_or(ParamFault::BadName)?;
    if !is_primitive(schema) {
        return Err(ParamFault::NotPrimitive(name.into_owned()));
    }
    let whole = format!("{PARAM_PREFIX}{name}");
    if found.iter().any(|other| other.name.eq_ignore_ascii_case(&whole)) {
        return Err(ParamFault::NotUnique(name.into_owned()));
    }
    Ok(ParamHeader { name: whole, path: path.to_vec() })
}

/// Returns whether a schema is that of a string, an integer or a boolean, possibly nullable.
fn is_primitive(schema: Value<'_>) -> bool {
    let is_primitive = |kind: &str| matches!(kind, "string" | "integer" | "boolean");
    match schema.at(&["type"]) {
        Some(kind) if kind.raw().first() == Some(&b'[') => {
            let kinds: Vec<_> = kind.elements(&[]).filter_map(|kind| kind.as_str()).collect();
            let mut others = kinds.iter().filter(|kind| *kind != "null");
            others.next().is_some_and(|kind| is_primitive(kind)) && others.next().is_none()
        }
        Some(kind) => kind.as_str().is_some_and(|kind| is_primitive(&kind)),
        None => false,
    }
}

/// Returns whether a name is a `token` of RFC 9110.
fn is_token(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn holding(json: &str) -> Message {
        Message::parse(Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{json}}}"#))).unwrap()
    }

    fn headers(schema: &str) -> Result<Vec<ParamHeader>, ParamFault> {
        ParamHeader::of_schema(holding(schema).value().unwrap())
    }

    fn derived(schema: &str, arguments: &str) -> Vec<(String, String)> {
        let arguments = holding(arguments);
        let value = arguments.value().unwrap();
        let headers = headers(schema).unwrap();
        headers.iter().filter_map(|header| Some((header.name().to_owned(), header.value(value)?))).collect()
    }

    fn one(property: &str) -> String {
        format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#)
    }

    #[test]
    fn marked_arguments_become_headers_at_any_depth() {
        let schema = r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},"query":{"type":"string"},
            "options":{"type":"object","properties":{"limit":{"type":"integer","x-mcp-header":"Limit"},
                "dry":{"type":["boolean","null"],"x-mcp-header":"dry-run"}}}}}"#;
        let named = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(
            derived(schema, r#"{"region":"us-west1","query":"x","options":{"limit":-7,"dry":false}}"#),
            named(&[("Mcp-Param-Region", "us-west1"), ("Mcp-Param-Limit", "-7"), ("Mcp-Param-dry-run", "false")])
        );
        assert_eq!(derived(schema, r#"{"query":"x","region":null,"options":{"dry":null}}"#), []);
        assert_eq!(derived(schema, r#"{"region":{"a":1},"options":[1]}"#), [], "what no header can carry");
    }

    #[test]
    fn values_are_encoded_as_specified() {
        let schema = one(r#"{"type":"string","x-mcp-header":"A"}"#);
        for (argument, value) in [
            (r#""us-west1""#, "us-west1"),
            (r#""""#, ""),
            (r#""\u0048i\n""#, "=?base64?SGkK?="),
            (r#""caf\u00e9""#, "=?base64?Y2Fmw6k=?="),
            (r#"" padded ""#, "=?base64?IHBhZGRlZCA=?="),
            ("true", "true"),
            ("42", "42"),
            ("42.0", "42"),
            ("-4.2e1", "-42"),
            ("-0", "0"),
            ("9007199254740993", "9007199254740993"),
            ("0.5", "0.5"),
            ("1e400", "1e400"),
        ] {
            let arguments = format!(r#"{{"a":{argument}}}"#);
            assert_eq!(derived(&schema, &arguments), [("Mcp-Param-A".to_owned(), value.to_owned())], "{argument}");
        }
    }

    #[test]
    fn invalid_mark_is_refused_with_reason() {
        for bad in [r#""""#, r#""a b""#, r#""a\r\nX: 1""#, r#""é""#, r#""a:""#, "7", "null", "{}"] {
            let schema = one(&format!(r#"{{"type":"string","x-mcp-header":{bad}}}"#));
            assert_eq!(headers(&schema), Err(ParamFault::BadName), "{bad}");
        }
        for kind in [r#""number""#, r#""object""#, r#""array""#, r#""null""#, r#"["string","integer"]"#, "[]", "5"] {
            let schema = one(&format!(r#"{{"type":{kind},"x-mcp-header":"A"}}"#));
            assert_eq!(headers(&schema), Err(ParamFault::NotPrimitive("A".into())), "{kind}");
        }
        assert_eq!(headers(&one(r#"{"x-mcp-header":"A"}"#)), Err(ParamFault::NotPrimitive("A".into())));
        let twice = r#"{"properties":{"a":{"type":"string","x-mcp-header":"Id"},
            "b":{"properties":{"c":{"type":"string","x-mcp-header":"iD"}}}}}"#;
        assert_eq!(headers(twice), Err(ParamFault::NotUnique("iD".into())));
    }

    #[test]
    fn mark_is_valid_only_under_properties() {
        let mark = r#"{"type":"string","x-mcp-header":"A"}"#;
        for schema in [
            r#"{"type":"object","x-mcp-header":"A"}"#.to_owned(),
            one(&format!(r#"{{"type":"array","items":{mark}}}"#)),
            one(&format!(r#"{{"anyOf":[{{"type":"null"}},{mark}]}}"#)),
            format!(r#"{{"allOf":[{{"properties":{{"a":{mark}}}}}]}}"#),
            format!(r#"{{"if":{{"properties":{{"a":{mark}}}}}}}"#),
            format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/a"}}}},"$defs":{{"a":{mark}}}}}"##),
            format!(r#"{{"patternProperties":{{"^a":{mark}}}}}"#),
            format!(r#"{{"additionalProperties":{mark}}}"#),
        ] {
            assert_eq!(headers(&schema), Err(ParamFault::OutOfReach), "{schema}");
        }
    }

    #[test]
    fn deep_schema_is_searched_to_a_limit() {
        let nested = |depth: usize, inner: &str| {
            format!("{}{inner}{}", r#"{"properties":{"a":"#.repeat(depth), "}}".repeat(depth))
        };
        let mark = r#"{"type":"string","x-mcp-header":"A"}"#;
        assert_eq!(headers(&nested(60, mark)).unwrap().len(), 1);
        assert_eq!(headers(&nested(200, mark)), Ok(Vec::new()));
    }

    #[test]
    fn text_that_resembles_a_mark_is_ignored() {
        for schema in [
            r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#,
            r#"{"$defs":{"x-mcp-header":{"type":"number"}}}"#,
            r#"{"properties":{"a":{"type":"object","default":{"x-mcp-header":"A"},"examples":[{"x-mcp-header":5}]}}}"#,
            r#"{"properties":{"a":{"const":{"x-mcp-header":"A"}},"b":{"enum":[{"x-mcp-header":"A"}]}}}"#,
            r#"{"description":"x-mcp-header"}"#,
            "true",
        ] {
            assert_eq!(headers(schema), Ok(Vec::new()), "{schema}");
        }
    }
}
