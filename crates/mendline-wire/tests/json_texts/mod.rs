//! Generators of JSON texts as peers write them: whitespace, number formats, escapes, duplicate keys, any order.

use proptest::collection::vec;
use proptest::prelude::*;

/// Whitespace between tokens, mostly none.
fn blank() -> impl Strategy<Value = String> {
    prop_oneof![6 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// A number in any notation that fits into a double, so that the oracle can read it.
pub fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?"
}

/// A string with its quotes.
pub fn string() -> impl Strategy<Value = String> {
    let short = prop::sample::select(vec!["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"]);
    let unicode = prop::sample::select(vec!["\\u0041", "\\u00e9", "\\u20AC", "\\ud83d\\ude00", "\\u0000"]);
    let piece = prop_oneof![
        8 => "[a-zA-Z0-9 _/{}\\[\\]:,.-]{1,12}",
        2 => "[^\"\\\\\u{0}-\u{1f}]{1,6}",
        1 => short.prop_map(str::to_owned),
        1 => unicode.prop_map(str::to_owned),
    ];
    vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// A key: usually one of a few, so that duplicates occur, sometimes with escapes.
pub fn key() -> impl Strategy<Value = String> {
    let frequent = ["\"a\"", "\"name\"", "\"_meta\"", "\"n\\u0061me\"", "\"progressToken\"", "\"\""];
    prop_oneof![
        6 => prop::sample::select(frequent.to_vec()).prop_map(str::to_owned),
        1 => string(),
    ]
}

/// An object with values of this kind.
fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    vec((blank(), key(), blank(), blank(), value, blank()), 0..6).prop_map(|members| {
        let members: Vec<String> =
            members.into_iter().map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

/// Any JSON text.
pub fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        number(),
        string(),
        prop::sample::select(vec!["true", "false", "null", "{}", "[ ]"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let array = vec((blank(), inner.clone(), blank()), 0..6).prop_map(|elements| {
            let elements: Vec<String> = elements.into_iter().map(|(a, value, b)| format!("{a}{value}{b}")).collect();
            format!("[{}]", elements.join(","))
        });
        prop_oneof![array, object(inner)]
    })
}

/// An object with any members.
pub fn any_object() -> impl Strategy<Value = String> {
    object(value())
}

/// The id of a request.
pub fn id() -> impl Strategy<Value = String> {
    prop_oneof![number(), string()]
}

/// A valid message and its id, with its members in any order among unknown ones.
pub fn message() -> impl Strategy<Value = (String, Option<String>)> {
    let body = prop_oneof![3 => any_object(), 1 => value()];
    (0..4u8, id(), string(), body, vec(("[xyz]{3,5}", value()), 0..3), blank(), any::<prop::sample::Index>()).prop_map(
        |(kind, id, method, body, unknown, space, rotation)| {
            let mut members = vec![format!("\"jsonrpc\"{space}:{space}\"2.0\"")];
            if kind != 1 {
                members.push(format!("\"id\":{space}{id}{space}"));
            }
            match kind {
                0 | 1 => members.extend([format!("\"method\":{method}"), format!("\"params\":{body}{space}")]),
                2 => members.push(format!("{space}\"result\":{body}")),
                _ => members.push(format!("\"error\"{space}:{body}")),
            }
            members.extend(unknown.into_iter().map(|(key, value)| format!("\"{key}\":{value}")));
            let first = rotation.index(members.len());
            members.rotate_left(first);
            (format!("{space}{{{}}}{space}", members.join(",")), (kind != 1).then_some(id))
        },
    )
}
