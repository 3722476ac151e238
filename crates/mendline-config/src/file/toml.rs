//! TOML, for the configuration of Codex.

use toml_edit::{Document, InlineTable, Item, Table, Value as Toml};

use super::{Entry, Value, ValueKind};
use crate::finding::Finding;

pub(super) fn parse(text: &str) -> Result<Value, Finding> {
    match Document::parse(text) {
        Ok(document) => {
            let entries = of_table(document.as_table());
            Ok(Value { at: 0..text.len(), kind: ValueKind::Table(entries) })
        }
        Err(error) => {
            let at = error.span().unwrap_or(0..0);
            Err(Finding::error(at, format!("this is not TOML: {}", error.message().trim().replace('\n', ", ")))
                .help("fix the syntax at this position"))
        }
    }
}

fn of_table(table: &Table) -> Vec<Entry> {
    table.iter().filter_map(|(name, item)| entry(name, table.key(name)?.span(), item)).collect()
}

fn of_inline(table: &InlineTable) -> Vec<Entry> {
    let entries = table.iter().filter_map(|(name, value)| {
        let key_at = table.key(name)?.span().unwrap_or(0..0);
        Some(Entry { key: name.to_owned(), value: of_value(value, &key_at), key_at })
    });
    entries.collect()
}

fn entry(name: &str, key_at: Option<std::ops::Range<usize>>, item: &Item) -> Option<Entry> {
    let key_at = key_at.unwrap_or(0..0);
    // An implicit table has no span of its own.
    let at = item.span().unwrap_or_else(|| key_at.clone());
    let value = match item {
        Item::None => return None,
        Item::Value(value) => of_value(value, &key_at),
        Item::Table(table) => Value { at, kind: ValueKind::Table(of_table(table)) },
        Item::ArrayOfTables(tables) => {
            let one = |table: &Table| Value {
                at: table.span().unwrap_or_else(|| at.clone()),
                kind: ValueKind::Table(of_table(table)),
            };
            Value { kind: ValueKind::List(tables.iter().map(one).collect()), at }
        }
    };
    Some(Entry { key: name.to_owned(), key_at, value })
}

fn of_value(value: &Toml, otherwise: &std::ops::Range<usize>) -> Value {
    let at = value.span().unwrap_or_else(|| otherwise.clone());
    let kind = match value {
        Toml::String(text) => ValueKind::Text(text.value().clone()),
        Toml::Integer(number) => ValueKind::Number(number.value().to_string()),
        Toml::Float(number) => ValueKind::Number(number.value().to_string()),
        Toml::Boolean(flag) => ValueKind::Flag(*flag.value()),
        Toml::Datetime(_) => ValueKind::Date,
        Toml::Array(list) => ValueKind::List(list.iter().map(|value| of_value(value, &at)).collect()),
        Toml::InlineTable(table) => ValueKind::Table(of_inline(table)),
    };
    Value { at, kind }
}
