//! The access log.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::gateway::{Gateway, eventually};
use super::{initialize, request};

/// Waits until the log has this many lines.
fn lines(gateway: &Gateway, count: usize) -> Vec<Value> {
    let path = gateway.state().join("access.log");
    let mut lines: Vec<Value> = Vec::new();
    eventually("the lines are written", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains("0123456789abcdef") && !text.contains("canary"), "a secret is written: {text}");
        lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.len() >= count
    });
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    lines
}

#[test]
fn request_has_a_line_with_its_principal_and_status() {
    let access = r#""access": { "log": "requests", "proxies": ["127.0.0.2"],
        "tokens": [{ "name": "ann", "token": "ann-0123456789abcdef" }] }"#;
    let gateway = Gateway::configured(access, "", &[]);
    let ann = ("Authorization", "Bearer ann-0123456789abcdef");
    let opened = gateway.post(&[ann], &initialize("2025-11-25"));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let body = opened.text();
    gateway
        .send(
            "POST",
            "/mcp/demo?key=canary",
            &[("Authorization", "Bearer canary-wrong-token")],
            &request(1, "ping", &json!({})),
        )
        .text();
    gateway.send("GET", "/mcp/demo", &[ann, ("Host", "evil.example"), ("X-Forwarded-For", "203.0.113.9")], "").text();
    gateway.send("DELETE", "/mcp/demo", &[ann, ("Mcp-Session-Id", &session)], "").text();
    let lines = lines(&gateway, 4);
    let of = |line: &Value| {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        (text("principal"), text("method").unwrap(), text("path").unwrap(), line["status"].as_u64().unwrap())
    };
    let expected = [
        (Some("ann".to_owned()), "POST", 200),
        (None, "POST", 401),
        (None, "GET", 421),
        (Some("ann".to_owned()), "DELETE", 204),
    ];
    for (line, (principal, method, status)) in lines.iter().zip(expected) {
        assert_eq!(of(line), (principal, method.to_owned(), "/mcp/demo".to_owned(), status), "{line}");
        assert_eq!(line["client"], "127.0.0.1", "the header of an unnamed address does not count");
        assert!(line["ms"].is_u64() && line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }
    assert_eq!(lines[0]["bytes"], body.len());
    let text = std::fs::read_to_string(gateway.state().join("access.log")).unwrap();
    assert!(!text.contains(&session), "{text}");
}

#[test]
fn address_of_the_client_is_that_of_a_named_proxy() {
    let gateway = Gateway::start(&["--access-log", "--danger-allow-anyone", "--proxy", "127.0.0.1"]);
    gateway.send("GET", "/readyz", &[("X-Forwarded-For", "203.0.113.9")], "").text();
    let lines = lines(&gateway, 1);
    assert_eq!((&lines[0]["client"], &lines[0]["principal"]), (&json!("203.0.113.9"), &json!("local")));
}
