//! TOML, for Codex.
//!
//! Tables with headers and tables between braces are both read. Dotted members (`env.KEY = …`) are read so that their
//! values can be hidden; they are never changed, because nothing can be added to them without knowing which lines
//! belong together.

use toml_edit::{Document, Item, TableLike};

use super::document::ParseError;
use super::tree::{Member, Node, Range, Shape, Table, Value};

/// Parses the root table. `start` is the offset of the text in its file.
pub(crate) fn parse(text: &str, start: usize) -> Result<Table, ParseError> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        ParseError::at(text, at, error.message().to_owned())
    })?;
    Ok(table(document.as_table(), Shape::Lines, start))
}

fn table(read: &dyn TableLike, shape: Shape, start: usize) -> Table {
    let mut members = Vec::new();
    for (name, item) in read.iter() {
        let span = read.key(name).and_then(toml_edit::Key::span);
        let Some(key_range) = span.map(|span| shifted(span, start)) else { continue };
        members.push(Member { key: name.to_owned(), key_range, value: node(item, start) });
    }
    Table { members, shape }
}

fn node(item: &Item, start: usize) -> Node {
    let range = item.span().map_or(0..0, |span| shifted(span, start));
    let value = match item {
        Item::Table(read) if read.is_dotted() => Value::Dotted(table(read, Shape::Lines, start)),
        Item::Table(read) => Value::Table(table(read, Shape::Lines, start)),
        Item::ArrayOfTables(all) => {
            let each = |read: &toml_edit::Table| table(read, Shape::Lines, start);
            Value::List(all.iter().map(|read| Node { range: 0..0, value: Value::Table(each(read)) }).collect())
        }
        Item::Value(value) => return value_node(value, start),
        _ => Value::Other,
    };
    Node { range, value }
}

fn value_node(read: &toml_edit::Value, start: usize) -> Node {
    let value = match read {
        toml_edit::Value::String(text) => Value::Text(text.value().clone()),
        toml_edit::Value::Array(items) => Value::List(items.iter().map(|item| value_node(item, start)).collect()),
        toml_edit::Value::InlineTable(read) if read.is_dotted() => Value::Dotted(table(read, Shape::Braces, start)),
        toml_edit::Value::InlineTable(read) => Value::Table(table(read, Shape::Braces, start)),
        _ => Value::Other,
    };
    Node { range: read.span().map_or(0..0, |span| shifted(span, start)), value }
}

fn shifted(span: Range, start: usize) -> Range {
    span.start + start..span.end + start
}
