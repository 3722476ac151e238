//! The modern era: no session, headers that repeat the body, cancellation by the end of the connection.

use serde_json::{Value, json};

use super::gateway::Gateway;
use super::request;

fn modern(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(1, method, &params)
}

const VERSION: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");

#[test]
fn request_is_answered_without_a_session() {
    let gateway = Gateway::start(&[]);
    let answer = gateway.post(&[VERSION, ("Mcp-Method", "server/discover")], &modern("server/discover", json!({})));
    assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
    assert!(answer.json()["result"]["supportedVersions"].is_array());
    let headers = [VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "lookup")];
    let answer =
        gateway.post(&headers, &modern("tools/call", json!({ "name": "lookup", "arguments": { "key": "a" } })));
    assert!(answer.json()["result"]["content"].is_array());
}

#[test]
fn headers_that_do_not_match_the_body_are_refused() {
    let gateway = Gateway::start(&[]);
    let text = modern("tools/call", json!({ "name": "create_note", "arguments": {} }));
    let answer = gateway.post(&[VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "lookup")], &text);
    assert_eq!(answer.status, 400);
    let answer = answer.json();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32020)));
}

#[test]
fn unknown_method_is_not_found() {
    let gateway = Gateway::start(&[]);
    let answer = gateway.post(&[VERSION, ("Mcp-Method", "no/such")], &modern("no/such", json!({})));
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json()["error"]["code"], -32601);
}

#[test]
fn handshake_does_not_exist() {
    let gateway = Gateway::start(&[]);
    let answer = gateway.post(&[VERSION, ("Mcp-Method", "initialize")], &modern("initialize", json!({})));
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json()["error"]["code"], -32601);
}

#[test]
fn request_without_capabilities_is_refused() {
    let gateway = Gateway::start(&[]);
    let text =
        request(1, "tools/list", &json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } }));
    let answer = gateway.post(&[VERSION, ("Mcp-Method", "tools/list")], &text);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["code"], -32602);
}

#[test]
fn notification_is_accepted() {
    let gateway = Gateway::start(&[]);
    let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let answer = gateway.post(&[VERSION, ("Mcp-Method", "notifications/cancelled")], text);
    assert_eq!((answer.status, answer.header("mcp-session-id")), (202, None));
}
