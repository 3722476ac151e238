//! The table of keys as a JSON Schema, for editors, and as a Markdown table, for the guide.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::keys::{self, Key, Kind};

/// Returns the output of `mendline schema`.
pub fn schema() -> String {
    let mut top = block(keys::TOP);
    let mut schema = Map::new();
    schema.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
    schema.insert("$id".into(), json!("https://mendline.dev/mendline.schema.json"));
    schema.insert("title".into(), json!("Mendline's configuration"));
    if let Some(properties) = top.as_object_mut() {
        schema.append(properties);
    }
    let mut definitions = Map::new();
    definitions.insert("server".into(), block(keys::SERVER));
    definitions.insert("duration".into(), duration_definition());
    schema.insert("definitions".into(), definitions.into());
    // Numbers and strings only: this cannot fail.
    serde_json::to_string_pretty(&Value::Object(schema)).unwrap_or_default()
}

fn duration_definition() -> Value {
    json!({
        "description": "Milliseconds as a number, or a string with units such as \"2s\", \"1h30m\" or \"${VAR}\".",
        "oneOf": [
            { "type": "integer", "minimum": 1, "maximum": keys::LONGEST.as_millis() as u64 },
            { "type": "string", "pattern": "^(([0-9]+ *[a-zA-Z]+ *)+|.*\\$\\{.*)$" }
        ]
    })
}

fn block(keys: &'static [Key]) -> Value {
    let offered = keys.iter().filter(|key| !matches!(key.kind, Kind::Unsupported(_)));
    let properties: Map<String, Value> = offered.map(|key| (key.name.to_owned(), described(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn described(key: &'static Key) -> Value {
    let mut schema = of_kind(&key.kind);
    let words =
        if key.default.is_empty() { key.doc.to_owned() } else { format!("{} Default: {}.", key.doc, key.default) };
    if let Some(schema) = schema.as_object_mut() {
        // Members beside `$ref` are ignored, so it is wrapped.
        if let Some(reference) = schema.remove("$ref") {
            schema.insert("allOf".into(), json!([{ "$ref": reference }]));
        }
        schema.insert("description".into(), words.into());
    }
    schema
}

fn of_kind(kind: &'static Kind) -> Value {
    match kind {
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Text | Kind::Secret => json!({ "type": "string" }),
        Kind::TextOrFalse => json!({ "oneOf": [{ "type": "string" }, { "enum": [false] }] }),
        Kind::Words => json!({
            "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        }),
        Kind::Url => json!({ "type": "string", "pattern": "^([a-zA-Z][a-zA-Z0-9+.-]*://|.*\\$\\{)" }),
        Kind::TextList => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Pairs | Kind::Variables => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Duration(_) => json!({ "$ref": "#/definitions/duration" }),
        Kind::Seconds => json!({ "type": "number", "minimum": 0.001, "maximum": keys::LONGEST.as_secs() }),
        Kind::Millis => json!({ "type": "number", "minimum": 1, "maximum": keys::LONGEST.as_millis() as u64 }),
        Kind::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Number(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Block(keys) => block(keys),
        Kind::BlockOrFalse(keys) => json!({ "oneOf": [block(keys), { "enum": [false] }] }),
        Kind::TextsOrBlocks(keys) => json!({
            "type": "array",
            "items": { "oneOf": [{ "type": "string" }, block(keys)] }
        }),
        Kind::Each(keys) if std::ptr::eq(*keys, keys::SERVER) => {
            json!({ "type": "object", "additionalProperties": { "$ref": "#/definitions/server" } })
        }
        Kind::Each(keys) => json!({ "type": "object", "additionalProperties": block(keys) }),
        Kind::Codes(words) => json!({
            "type": "object",
            "patternProperties": { "^-?[0-9]+$": { "enum": words } },
            "additionalProperties": false
        }),
        Kind::Statuses(words) => json!({
            "type": "object",
            "patternProperties": { "^[345][0-9][0-9]$": { "enum": words } },
            "additionalProperties": false
        }),
        Kind::Foreign(_) | Kind::Unsupported(_) => json!({}),
    }
}

/// Returns every key of a server and of `mendline`, as a Markdown table.
pub fn key_table() -> String {
    let mut table = String::from("| Key | Value | Default | Description |\n|---|---|---|---|\n");
    rows(keys::SERVER, "", &mut table);
    rows(keys::MENDLINE, "mendline.", &mut table);
    table
}

fn rows(keys: &'static [Key], path: &str, table: &mut String) {
    for key in keys {
        if matches!(key.kind, Kind::Foreign(_) | Kind::Unsupported(_)) {
            continue;
        }
        let name = format!("{path}{}", key.name);
        let _ = writeln!(table, "| `{name}` | {} | {} | {} |", in_words(&key.kind), key.default, key.doc);
        match key.kind {
            Kind::Block(inner) if std::ptr::eq(inner, keys::POLICIES) => {}
            Kind::Block(inner) | Kind::BlockOrFalse(inner) => rows(inner, &format!("{name}."), table),
            Kind::TextsOrBlocks(inner) => rows(inner, &format!("{name}[]."), table),
            Kind::Each(inner) => rows(inner, &format!("{name}.NAME."), table),
            _ => {}
        }
    }
}

fn in_words(kind: &Kind) -> String {
    match kind {
        Kind::Flag => "true or false".into(),
        Kind::Text | Kind::Secret => "string".into(),
        Kind::TextOrFalse => "string, or false".into(),
        Kind::Words => "array of strings, or one string".into(),
        Kind::Url => "URL".into(),
        Kind::TextList => "array of strings".into(),
        Kind::Pairs => "object of strings".into(),
        Kind::Variables => "object of variable names".into(),
        Kind::Duration(least) => format!("duration from {}", humantime::format_duration(*least)),
        Kind::Seconds => "seconds".into(),
        Kind::Millis => "milliseconds".into(),
        Kind::Integer(least, most) => format!("integer from {least} to {most}"),
        Kind::Number(least, most) => format!("number from {least} to {most}"),
        Kind::Choice(words) => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
        Kind::Block(_) => "object".into(),
        Kind::BlockOrFalse(_) => "object, or false".into(),
        Kind::TextsOrBlocks(_) => "array of strings and objects".into(),
        Kind::Each(_) => "object of objects".into(),
        Kind::Codes(words) => format!("object of error codes: {}", words.join(", ")),
        Kind::Statuses(words) => format!("object of HTTP statuses: {}", words.join(", ")),
        Kind::Foreign(_) | Kind::Unsupported(_) => "anything".into(),
    }
}
