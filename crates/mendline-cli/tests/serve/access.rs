//! Requests that are refused: foreign hosts and origins, wrong forms, other addresses.

use std::process::Command;

use serde_json::json;

use super::gateway::Gateway;
use super::{initialize, request};

#[test]
fn z102_foreign_host_is_refused_with_the_line_to_write() {
    let gateway = Gateway::start(&["--host", "mcp.example.com"]);
    let list = request(1, "tools/list", &json!({}));
    let answer = gateway.post(&[("Host", "evil.example")], &list);
    assert_eq!(answer.status, 421);
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(r#""hosts": ["evil.example"]"#), "{message}");
    assert_eq!(gateway.post(&[("Host", "mcp.example.com")], &list).status, 200);
}

#[test]
fn z101_foreign_origin_is_refused_and_a_named_one_gets_cors() {
    let gateway = Gateway::start(&["--origin", "http://localhost:6274"]);
    let list = request(1, "tools/list", &json!({}));
    assert_eq!(gateway.post(&[("Origin", "https://evil.example")], &list).status, 403);
    let answer = gateway.post(&[("Origin", "http://localhost:6274")], &list);
    let allowed = answer.header("access-control-allow-origin");
    assert_eq!((answer.status, allowed), (200, Some("http://localhost:6274")));
    let preflight = gateway.send("OPTIONS", "/mcp/demo", &[("Origin", "http://localhost:6274")], "");
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("mcp-session-id"));
    let asked = [("Origin", "http://localhost:6274"), ("Access-Control-Request-Headers", "mcp-param-key, x-other")];
    let preflight = gateway.send("OPTIONS", "/mcp/demo", &asked, "");
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("mcp-param-key") && !allowed.contains("x-other"), "{allowed}");
    assert_eq!(gateway.send("OPTIONS", "/mcp/demo", &[("Origin", "https://evil.example")], "").status, 403);
}

#[test]
fn wrong_forms_are_refused() {
    let gateway = Gateway::start(&[]);
    let text = initialize("2025-11-25");
    assert_eq!(gateway.post(&[("Content-Type", "text/plain")], &text).status, 415);
    assert_eq!(gateway.post(&[("Accept", "text/html")], &text).status, 406);
    for body in ["", "{", "[]", "17", r#"{"jsonrpc":"2.0"}"#] {
        let answer = gateway.post(&[], body);
        assert_eq!(answer.status, 400, "{body:?}");
        assert!(answer.json()["error"]["message"].is_string());
    }
}

#[test]
fn used_address_is_named_with_the_way_out() {
    let gateway = Gateway::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_mendline"))
        .args(["serve", "--listen", &gateway.address.to_string(), "--", "true"])
        .env("MENDLINE_STATE_DIR", tempfile::tempdir().unwrap().path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("cannot listen on") && words.contains("--listen"), "{words}");
}
