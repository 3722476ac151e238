//! JSON with comments and trailing commas, and no other extension: the client that owns the file must be able to read
//! it.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Entry, Value, ValueKind};
use crate::finding::Finding;

/// The JSON syntax that is accepted in the files of clients.
pub const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(crate) fn parse(text: &str) -> Result<Value, Finding> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| refused(text, &error))?;
    match parsed.value {
        Some(value) => Ok(convert(value)),
        None => Err(Finding::error(0..0, "the file is empty").help("write at least `{ \"mcpServers\": {} }`")),
    }
}

fn refused(text: &str, error: &ParseError) -> Finding {
    let range = error.range();
    let at = on_characters(text, range.start..range.end);
    let why = error.kind().to_string();
    let mut letters = why.chars();
    let why: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
    Finding::error(at, format!("this is not JSON: {why}"))
        .help("comments and trailing commas are allowed; fix everything else that is not JSON")
}

/// Aligns a range to character boundaries.
fn on_characters(text: &str, range: Range<usize>) -> Range<usize> {
    let down = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = down(range.start);
    start..down(range.end).max(start)
}

fn convert(value: ast::Value<'_>) -> Value {
    let range = value.range();
    let kind = match value {
        ast::Value::NullKeyword(_) => ValueKind::Null,
        ast::Value::BooleanLit(flag) => ValueKind::Flag(flag.value),
        ast::Value::NumberLit(number) => ValueKind::Number(number.value.to_owned()),
        ast::Value::StringLit(text) => ValueKind::Text(text.value.into_owned()),
        ast::Value::Array(list) => ValueKind::List(list.elements.into_iter().map(convert).collect()),
        ast::Value::Object(table) => ValueKind::Table(table.properties.into_iter().map(entry).collect()),
    };
    Value { at: range.start..range.end, kind }
}

fn entry(property: ast::ObjectProp<'_>) -> Entry {
    let range = property.name.range();
    Entry { key: property.name.into_string(), key_at: range.start..range.end, value: convert(property.value) }
}
