//! The output of `--json` against `--schema`: every printed member is described, and every described member is
//! required.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::MENDLINE;
use crate::site::{Site, json_answers};
use crate::stage::{Stage, kind};

/// Validates a value against a schema. It supports the part of JSON Schema that Mendline uses and rejects any other
/// keyword. A member that the schema does not describe is an error here, although readers must accept it.
fn check(value: &Value, schema: &Value, place: &str) -> Result<(), String> {
    let known = [
        "$schema",
        "title",
        "description",
        "type",
        "required",
        "properties",
        "items",
        "enum",
        "const",
        "oneOf",
        "minimum",
    ];
    let fault = |what: &str| Err(format!("{place}: {what}: {value}"));
    for key in schema.as_object().unwrap().keys() {
        assert!(known.contains(&key.as_str()), "{place}: the schema says {key}, which this test does not understand");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return fault("another constant");
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        return fault("not one of the values");
    }
    if let Some(kinds) = schema["oneOf"].as_array() {
        let right = kinds.iter().filter(|kind| check(value, kind, place).is_ok()).count();
        return if right == 1 { Ok(()) } else { fault("not one of the shapes") };
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        other => panic!("{place}: the schema says {other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return fault("of another type");
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_i64(), value.as_i64())
        && number < least
    {
        return fault("too small");
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(name.as_str().unwrap()) {
                return fault(&format!("{name} is missing"));
            }
        }
        for (name, value) in object {
            match schema["properties"].get(name) {
                Some(schema) => check(value, schema, &format!("{place}.{name}"))?,
                None => return fault(&format!("{name} is not described")),
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], &format!("{place}[{index}]"))?;
    }
    Ok(())
}

#[test]
fn status_json_matches_schema_and_schema_requires_every_member() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let output = stage.query(&["status", "--schema"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let schema: Value = serde_json::from_str(&output.stdout).unwrap();
    let mut notes = stage.bridge("notes");
    notes.result("a", "lookup", &json!({ "key": "k" }));
    let _ghost = stage.run(&["--name", "ghost", "--", "/nonexistent/server"]);
    let mut far = stage.run(&["--name", "far", "--rate-limit", "10/s", &site.url()]);
    far.initialize();
    let hung = stage.bridge("hung");
    hung.signal(Signal::STOP);
    stage.until("ghost", "it is parked", |server| kind(server) == "parked");
    let file = stage.folder().join("servers.json");
    let servers = json!({ "mcpServers": { "rests": { "command": MENDLINE, "args": ["demo-server"] }, "gone": { "command": "/nonexistent" } } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let counts =
        |report: &Value| ["servers", "unresponsive", "probed"].map(|name| report[name].as_array().unwrap().len());
    let arguments = ["status", "--json", "--probe", "--config", file.to_str().unwrap()];
    // The report must contain every part.
    let report = stage.query_until(&arguments, |output| counts(&output.json()) == [3, 1, 2]).json();
    assert_eq!(check(&report, &schema, "report"), Ok(()), "{report:#}");
    let usual = stage.report_until(|report| counts(report) == [3, 1, 0]);
    assert_eq!(check(&usual, &schema, "report"), Ok(()), "{usual:#}");
    every_member_is_required(&schema, "schema");
    // The validator itself detects mistakes.
    for (name, value) in
        [("version", json!(1)), ("servers", json!([{}])), ("extra", json!(1)), ("unresponsive", json!("none"))]
    {
        let mut wrong = report.clone();
        wrong[name] = value;
        assert!(check(&wrong, &schema, "report").is_err(), "{name}");
    }
}

fn every_member_is_required(schema: &Value, place: &str) {
    if let Some(properties) = schema["properties"].as_object() {
        for name in properties.keys() {
            let required = schema["required"].as_array().unwrap();
            assert!(required.contains(&json!(name)), "{place}.{name} is described and not required");
        }
        properties.iter().for_each(|(name, schema)| every_member_is_required(schema, &format!("{place}.{name}")));
    }
    let inner = schema["oneOf"].as_array().into_iter().flatten().chain(schema.get("items"));
    inner.for_each(|schema| every_member_is_required(schema, place));
}
