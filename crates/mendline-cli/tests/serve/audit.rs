//! The audit log.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::gateway::{Gateway, SOON};
use super::{call, initialize};

/// Waits until the log has this many lines.
fn lines(gateway: &Gateway, count: usize) -> Vec<Value> {
    let path = gateway.state().join("audit.log");
    let end = Instant::now() + SOON;
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if lines.len() >= count {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(!text.contains("canary"), "no argument is written: {text}");
            return lines;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn audit_names_who_called_what_and_no_argument() {
    let access = r#""access": { "audit": "calls", "tokens": [{ "name": "ann", "token": "ann-0123456789abcdef" }] }"#;
    let gateway = Gateway::configured(access, r#", "denyTools": ["big"]"#, &[]);
    let ann = ("Authorization", "Bearer ann-0123456789abcdef");
    let opened = gateway.post(&[ann], &initialize("2025-11-25"));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let with = [ann, ("Mcp-Session-Id", &session[..])];
    gateway.post(&with, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for (id, tool) in [(2, "create_note"), (3, "big"), (4, "no_such_tool")] {
        assert_eq!(gateway.post(&with, &call(id, tool, &json!({ "key": "canary" }))).status, 200);
    }
    let lines = lines(&gateway, 3);
    let facts: Vec<_> =
        lines.iter().map(|line| (line["tool"].as_str().unwrap(), line["outcome"].as_str().unwrap())).collect();
    assert!(facts.contains(&("create_note", "ok")) && facts.contains(&("big", "denied")), "{facts:?}");
    assert!(facts.iter().any(|(tool, outcome)| *tool == "no_such_tool" && *outcome != "ok"), "{facts:?}");
    for line in &lines {
        assert_eq!((&line["principal"], &line["server"]), (&json!("ann"), &json!("demo")), "{line}");
        assert_eq!(line["client"], "test 1", "{line}");
    }
}

#[test]
fn refusals_by_token_are_in_the_audit_log_and_counted() {
    let access = r#""access": { "audit": "calls", "tokens": [{
        "name": "ann", "token": "ann-0123456789abcdef",
        "tools": { "deny": ["create_*"] }, "rateLimit": { "perSecond": 0.01, "burst": 1 }
    }] }"#;
    let gateway = Gateway::configured(access, "", &[]);
    let ann = ("Authorization", "Bearer ann-0123456789abcdef");
    for tool in ["create_note", "lookup", "lookup"] {
        assert_eq!(gateway.post(&[ann], &call(2, tool, &json!({ "key": "canary" }))).status, 200);
    }
    let lines = lines(&gateway, 3);
    let line =
        |outcome: &str| lines.iter().find(|line| line["outcome"] == outcome).unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(line("denied")["tool"], "create_note");
    assert_eq!((&line("rejected")["tool"], &line("rejected")["cause"]), (&json!("lookup"), &json!("rate_limited")));
    assert!(lines.iter().all(|line| line["principal"] == "ann" && line["server"] == "demo"), "{lines:?}");
    let metrics = gateway.send("GET", "/metrics", &[ann], "").text();
    for reason in ["tool_denied", "rate_limit"] {
        assert!(metrics.contains(&format!(r#"outcome="rejected",reason="{reason}""#)), "{metrics}");
    }
}
