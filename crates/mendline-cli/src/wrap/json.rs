//! JSON as clients write it: with comments and trailing commas.
//!
//! A key that occurs twice means different things to different readers, so a file with one is rejected.

use std::collections::HashSet;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, parse_to_ast};
use mendline_config::CLIENT_JSON_OPTIONS;

use super::document::ParseError;
use super::tree::{Member, Node, Shape, Table, Value};

/// Parses the root table. `start` is the offset of the text in its file.
pub(crate) fn parse(text: &str, start: usize) -> Result<Table, ParseError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &CLIENT_JSON_OPTIONS)
        .map_err(|error| ParseError::at(text, error.range().start, error.kind().to_string()))?;
    let reader = Reader { text, start };
    match parsed.value {
        None => Ok(Table { members: Vec::new(), shape: Shape::Braces }),
        Some(ast::Value::Object(object)) => reader.table(&object),
        Some(other) => Err(ParseError::at(text, other.start(), "it is not an object".to_owned())),
    }
}

struct Reader<'a> {
    text: &'a str,
    start: usize,
}

impl Reader<'_> {
    fn table(&self, object: &ast::Object<'_>) -> Result<Table, ParseError> {
        let mut seen = HashSet::new();
        let mut members = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            let key = property.name.as_str().to_owned();
            if !seen.insert(property.name.as_str()) {
                return Err(ParseError::at(self.text, property.range.start, format!("the key {key:?} is there twice")));
            }
            let key_range = self.range(property.name.start(), property.name.end());
            members.push(Member { key, key_range, value: self.node(&property.value)? });
        }
        Ok(Table { members, shape: Shape::Braces })
    }

    fn node(&self, value: &ast::Value<'_>) -> Result<Node, ParseError> {
        let read = match value {
            ast::Value::StringLit(text) => Value::Text(text.value.to_string()),
            ast::Value::Array(array) => {
                Value::List(array.elements.iter().map(|element| self.node(element)).collect::<Result<_, _>>()?)
            }
            ast::Value::Object(object) => Value::Table(self.table(object)?),
            _ => Value::Other,
        };
        Ok(Node { range: self.range(value.start(), value.end()), value: read })
    }

    fn range(&self, start: usize, end: usize) -> super::tree::Range {
        self.start + start..self.start + end
    }
}
