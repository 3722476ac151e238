//! Allowed and denied tools, of a server and of a token.

use serde_json::{Value, json};

use super::gateway::Gateway;
use super::{call, request};

fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn denied_tool_of_a_server_is_neither_listed_nor_called() {
    let gateway = Gateway::configured("", r#", "denyTools": ["create_*"]"#, &[]);
    let listed = names(&gateway.post(&[], &request(1, "tools/list", &json!({}))).json());
    assert!(!listed.is_empty() && !listed.contains(&"create_note".to_owned()), "{listed:?}");
    let answer = gateway.post(&[], &call(2, "create_note", &json!({ "key": "x" }))).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn token_sees_and_calls_its_tools_only() {
    let tokens = r#""access": { "tokens": [
        { "name": "ann", "token": "ann-0123456789abcdef" },
        { "name": "ci", "token": "ci-0123456789abcdef", "tools": { "allow": ["lookup", "create_*"], "deny": ["create_note"] } }
    ] }"#;
    let gateway = Gateway::configured(tokens, "", &[]);
    let post = |token: &str, body: &str| gateway.post(&[("Authorization", token)], body).json();
    let (ann, ci) = ("Bearer ann-0123456789abcdef", "Bearer ci-0123456789abcdef");
    let list = request(1, "tools/list", &json!({}));
    assert!(names(&post(ann, &list)).contains(&"create_note".to_owned()));
    assert_eq!(names(&post(ci, &list)), ["lookup"]);
    let write = call(2, "create_note", &json!({ "key": "x" }));
    let denied = post(ci, &write);
    assert_eq!((&denied["id"], &denied["error"]["code"]), (&json!(2), &json!(-32602)), "{denied}");
    assert_eq!(post(ci, &call(3, "lookup", &json!({ "key": "x" })))["result"]["isError"], false);
    assert_eq!(post(ann, &write)["result"]["isError"], false);
    let batch = format!("[{write},{}]", call(4, "lookup", &json!({ "key": "x" })));
    assert_eq!(gateway.post(&[("Authorization", ci)], &batch).status, 400, "a batch hides no denied call");
}
