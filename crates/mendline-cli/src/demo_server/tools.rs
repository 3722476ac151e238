//! The tools of the demo server: names, annotations and answers.

use serde_json::{Value, json};

/// Returns the list of tools. Only `create_note` has an effect, and it does not claim to be idempotent.
pub(super) fn list(has_extra: bool) -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let number = |description: &str| json!({ "type": "integer", "description": description });
    let tool = |name: &str, description: &str, properties: Value, annotations: Value| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object", "properties": properties },
            "annotations": annotations,
        })
    };
    let wait = number("how long to wait between running and answering");
    let mut list = json!({ "tools": [
        tool("lookup", "Looks something up.", json!({ "key": text("what"), "delayMs": wait }), json!({ "readOnlyHint": true })),
        tool("create_note", "Writes a note.", json!({ "key": text("which"), "delayMs": wait }), json!({ "readOnlyHint": false })),
        tool("slow", "Takes its time and says so.", json!({ "key": text("what"), "steps": number("how many"), "stepMs": number("how long each") }), json!({ "readOnlyHint": true })),
        tool("big", "Answers at length.", json!({ "key": text("what"), "bytes": number("how long") }), json!({ "readOnlyHint": true })),
    ] });
    if let (true, Some(tools)) = (has_extra, list["tools"].as_array_mut()) {
        tools.push(tool("forget", "Forgets something.", json!({ "key": text("what") }), json!({})));
    }
    list
}

/// Returns the answer of a tool, or `None` if there is no such tool.
pub(super) fn answer(tool: &str, key: &str, arguments: &Value) -> Option<String> {
    match tool {
        "lookup" => Some(format!("{key} is 42")),
        "create_note" => Some(format!("wrote {key}")),
        "slow" => Some(format!("{key} is done")),
        "big" => {
            let bytes = arguments["bytes"].as_u64().unwrap_or(1 << 20).min(12 << 20);
            Some("x".repeat(usize::try_from(bytes).unwrap_or(0)))
        }
        _ => None,
    }
}

/// Returns the result of a call.
pub(super) fn result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": false })
}
