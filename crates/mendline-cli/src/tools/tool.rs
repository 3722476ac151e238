//! A tool as its server describes it.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_text::Members;

/// The keywords by which a schema accepts further properties. A schema without them usually accepts no others.
const OPEN: [&str; 6] = ["additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref"];

/// A tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) arguments: Vec<Argument>,
    /// True if it accepts arguments that it does not name.
    pub(crate) takes_others: bool,
    /// The schemas of its arguments and of its result.
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) output: Option<Box<RawValue>>,
    is_read_only: bool,
    is_destructive: bool,
    is_idempotent: bool,
}

/// An argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// Its type, in a word or two.
    pub(crate) kind: String,
    pub(crate) is_required: bool,
    pub(crate) description: Option<String>,
    /// True if its schema says text, false if it says another type.
    pub(crate) is_text: Option<bool>,
}

impl Tool {
    /// Parses a tool, if it has a name.
    pub(crate) fn of(text: &RawValue) -> Option<Tool> {
        let tool = Members::of(text)?;
        let hints = tool.members("annotations");
        let input = tool.get("inputSchema").map(ToOwned::to_owned);
        let schema = tool.members("inputSchema");
        let required: Vec<String> =
            schema.list("required").iter().filter_map(|name| serde_json::from_str(name.get()).ok()).collect();
        let properties = schema.members("properties");
        let arguments = properties.0.iter().map(|(name, schema)| Argument::of(name, schema, required.contains(name)));
        let is_read_only = hints.flag("readOnlyHint") == Some(true);
        Some(Tool {
            name: tool.text("name")?,
            title: tool.text("title").or_else(|| hints.text("title")),
            description: tool.text("description").filter(|text| !text.trim().is_empty()),
            arguments: arguments.collect(),
            takes_others: OPEN.iter().any(|word| schema.get(word).is_some_and(|value| value.get() != "false")),
            input,
            output: tool.get("outputSchema").map(ToOwned::to_owned),
            is_read_only,
            is_destructive: !is_read_only && hints.flag("destructiveHint") == Some(true),
            is_idempotent: !is_read_only && hints.flag("idempotentHint") == Some(true),
        })
    }

    /// Returns the server's hints about the tool's effects.
    pub(crate) fn hints(&self) -> Vec<&'static str> {
        let hints = [
            (self.is_read_only, "read-only"),
            (self.is_destructive, "destructive"),
            (self.is_idempotent, "idempotent"),
        ];
        hints.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word).collect()
    }
}

impl Argument {
    fn of(name: &str, schema: &RawValue, is_required: bool) -> Argument {
        let schema: Value = serde_json::from_str(schema.get()).unwrap_or(Value::Null);
        let mut description = schema["description"].as_str().map(str::to_owned);
        if let Some(usual) = schema.get("default") {
            let usual = format!("[default: {}]", usual.as_str().map_or_else(|| usual.to_string(), str::to_owned));
            description = Some(description.map_or(usual.clone(), |text| format!("{text} {usual}")));
        }
        let is_text = schema["type"].as_str().map(|kind| kind == "string");
        Argument { name: name.to_owned(), kind: kind(&schema), is_required, description, is_text }
    }
}

/// Describes the type of a value in a word or two.
fn kind(schema: &Value) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().map(shown).collect::<Vec<_>>().join("|");
    }
    if let Some(only) = schema.get("const") {
        return shown(only);
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("{}[]", kind_of_items(&schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().map(shown).filter(|kind| kind != "null").collect::<Vec<_>>().join("|"),
        _ => {
            let choices = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
            let kinds: Vec<String> = choices.into_iter().flatten().map(kind).filter(|kind| kind != "null").collect();
            if kinds.is_empty() { "any".to_owned() } else { kinds.join("|") }
        }
    }
}

fn kind_of_items(items: &Value) -> String {
    let kind = kind(items);
    if kind.contains('|') { format!("({kind})") } else { kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Tool {
        Tool::of(&RawValue::from_string(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn arguments_keep_schema_order_and_have_types() {
        let tool = tool(
            r#"{"name":"t","inputSchema":{"type":"object","required":["z"],"properties":{
                "z":{"type":"string","description":"which"},
                "a":{"type":"array","items":{"enum":["x","y"]},"default":[]},
                "m":{"anyOf":[{"type":"integer"},{"type":"null"}]},
                "n":{"type":["number","null"]},
                "o":{}}},
                "annotations":{"destructiveHint":true,"idempotentHint":true}}"#,
        );
        let shown: Vec<_> =
            tool.arguments.iter().map(|it| (it.name.as_str(), it.kind.as_str(), it.is_required)).collect();
        let expected = [
            ("z", "string", true),
            ("a", "(x|y)[]", false),
            ("m", "integer", false),
            ("n", "number", false),
            ("o", "any", false),
        ];
        assert_eq!(shown, expected);
        assert_eq!(tool.arguments[1].description.as_deref(), Some("[default: []]"));
        assert_eq!(tool.hints(), ["destructive", "idempotent"]);
    }

    #[test]
    fn read_only_tool_has_no_other_hints() {
        let tool =
            tool(r#"{"name":"t","annotations":{"readOnlyHint":true,"destructiveHint":true,"idempotentHint":true}}"#);
        assert_eq!((tool.hints(), tool.arguments.len()), (vec!["read-only"], 0));
    }

    #[test]
    fn invalid_schema_has_no_arguments() {
        for text in [r#"{"name":"t","inputSchema":5}"#, r#"{"name":"t","inputSchema":{"properties":[]}}"#] {
            assert!(tool(text).arguments.is_empty(), "{text}");
        }
        assert!(Tool::of(&RawValue::from_string("{}".to_owned()).unwrap()).is_none());
    }
}
