//! Tokens: configured ones, the one of the first start, and what each of them opens.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::json;

use super::gateway::Gateway;
use super::{initialize, request};

const ANN: &str = "Bearer ann-0123456789abcdef";
const CI: &str = "Bearer ci-0123456789abcdef";

fn list() -> String {
    request(1, "tools/list", &json!({}))
}

#[test]
fn request_needs_a_configured_token() {
    let tokens = r#""access": { "tokens": ["ann-0123456789abcdef"] }"#;
    let gateway = Gateway::configured(tokens, "", &[]);
    let refused = gateway.post(&[], &list());
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    for wrong in ["Bearer ann-0123456789abcdeF", "Bearer ann-0123456789abcde", "Basic ann-0123456789abcdef", "Bearer"] {
        assert_eq!(gateway.post(&[("Authorization", wrong)], &list()).status, 401, "{wrong}");
    }
    assert_eq!(gateway.post(&[("Authorization", ANN)], &list()).status, 200);
    assert_eq!(gateway.send("GET", "/healthz", &[], "").status, 200, "the process runs");
}

#[test]
fn z103_i14_token_opens_its_servers_and_sessions_only() {
    let tokens = r#""access": { "tokens": [
        { "name": "ann", "token": "ann-0123456789abcdef" },
        { "name": "ci", "token": "ci-0123456789abcdef", "servers": ["demo"] }
    ] }"#;
    let gateway = Gateway::configured(tokens, "", &[]);
    let status = |path: &str, token: &str| gateway.send("POST", path, &[("Authorization", token)], &list()).status;
    assert_eq!((status("/mcp/demo", CI), status("/mcp/other", CI), status("/mcp/other", ANN)), (200, 403, 200));
    let opened = gateway.post(&[("Authorization", ANN)], &initialize("2025-11-25"));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let with = |token| gateway.post(&[("Authorization", token), ("Mcp-Session-Id", &session)], &list()).status;
    assert_eq!((with(ANN), with(CI)), (200, 404), "the session of another principal is not known");
}

#[test]
fn expired_token_is_named() {
    let tokens = r#""access": { "tokens": [
        { "name": "ci", "token": "ci-0123456789abcdef", "expires": "2020-01-31" },
        { "name": "ann", "token": "ann-0123456789abcdef", "expires": "2120-01-31T12:00:00Z" }
    ] }"#;
    let gateway = Gateway::configured(tokens, "", &[]);
    let refused = gateway.post(&[("Authorization", CI)], &list());
    assert_eq!(refused.status, 401);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\"ci\"") && message.contains("expired"), "{message}");
    assert_eq!(gateway.post(&[("Authorization", ANN)], &list()).status, 200);
}

#[test]
fn first_start_off_loopback_makes_a_token_for_all_later_ones() {
    let gateway = Gateway::at_any_address(tempfile::tempdir().unwrap());
    gateway.line("made the access token \"first\"");
    let token = format!("Bearer {}", gateway.line("mdl_").trim());
    assert_eq!(gateway.post(&[], &list()).status, 401);
    assert_eq!(gateway.post(&[("Authorization", &token)], &list()).status, 200);
    let file = gateway.state().join("gateway-tokens.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("mdl_"), "only its hash is stored");
    let gateway = Gateway::at_any_address(gateway.into_state());
    assert_eq!(gateway.post(&[], &list()).status, 401);
    assert_eq!(gateway.post(&[("Authorization", &token)], &list()).status, 200, "the same token");
    assert!(!gateway.lines().iter().any(|line| line.contains("access token")), "it is shown once");
}

#[test]
fn danger_flag_opens_any_address() {
    let gateway = Gateway::configured_at("0.0.0.0:0", "", "", &["--danger-allow-anyone"]);
    assert_eq!(gateway.post(&[], &list()).status, 200);
    assert!(!gateway.state().join("gateway-tokens.json").exists());
}

#[test]
fn new_token_is_added_and_shown() {
    let gateway =
        Gateway::configured(r#""access": { "tokens": ["ann-0123456789abcdef"] }"#, "", &["--new-token", "ci"]);
    let token = format!("Bearer {}", gateway.line("mdl_").trim());
    for token in [ANN, &token] {
        assert_eq!(gateway.post(&[("Authorization", token)], &list()).status, 200, "{token}");
    }
}

#[test]
fn unset_variable_of_a_token_stops_the_gateway_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    let text = r#"{ "mendline": { "access": { "tokens": ["${NO_SUCH_TOKEN}"] } }, "mcpServers": { "x": { "command": "true" } } }"#;
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mendline"))
        .args(["serve", "--config", file.to_str().unwrap()])
        .env("MENDLINE_STATE_DIR", folder.path().join("state"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("NO_SUCH_TOKEN") && words.contains("config.json:1"), "{words}");
}
