//! `mendline check` and `mendline schema`.

use serde_json::{Value, json};

use crate::stage::{Stage, demo, file};

#[test]
fn each_mistake_is_reported_with_its_line() {
    let stage = Stage::with(include_str!("../../../mendline-config/tests/files/ten-mistakes.json"));
    let (code, printed) = stage.output(&["check"]);
    assert_eq!(code, 2);
    let places: Vec<_> =
        printed.lines().filter(|line| line.trim_start().starts_with("--> HOME/mendline/config.json:")).collect();
    assert!(places.len() >= 10, "{printed}");
    assert_eq!(printed.matches("\nerror: ").count() + usize::from(printed.starts_with("error: ")), 11, "{printed}");
    assert!(printed.ends_with("cannot be used as it is: 10 mistakes\n"), "{printed}");
    assert!(!printed.contains("literal-secret"), "{printed}");
}

#[test]
fn check_summarizes_valid_file_without_secrets() {
    let mut notes = demo();
    notes["env"] = json!({ "API_TOKEN": "${STAGE_TOKEN}" });
    notes["autoReconnect"] = json!({ "maxRetries": 5, "initialRetryDelay": "2s" });
    notes["tools"] = json!({ "search": { "effect": "read", "timeout": "10s" } });
    let remote = json!({ "url": "https://mcp.example.com/mcp?key=${STAGE_TOKEN}", "headers": { "Authorization": "Bearer ${STAGE_TOKEN}" },
        "circuitBreaker": { "enabled": false }, "rateLimit": { "perSecond": 2.5 }, "startup": "wait" });
    let stage =
        Stage::with(&file(&json!({ "notes": notes, "remote": remote, "off": { "command": "x", "disabled": true } })));
    let (code, printed) = stage.output(&["check"]);
    let printed = printed.replace(crate::client::MENDLINE, "MENDLINE");
    assert_eq!(code, 0, "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn check_agrees_with_run() {
    let stage = Stage::with("{}");
    for entry in [
        json!({ "command": "/nonexistent/server" }),
        json!({ "command": 5 }),
        json!({ "url": "https://x.test", "command": "y" }),
        json!({ "command": "mendline", "args": ["run", "--call-timeout", "soon", "--", "x"] }),
        json!({ "command": "mendline", "args": ["run", "name"] }),
        json!({ "command": "mendline", "args": ["run", "--", "/nonexistent/server"] }),
        json!({ "command": "x", "retry": { "maxAttempts": 99 } }),
        json!({ "command": "${NOT_SET}" }),
    ] {
        stage.write(&file(&json!({ "notes": entry })));
        let (checked, printed) = stage.output(&["check"]);
        // Stdin is closed, so `run` does not need a working server.
        let (ran, words) = stage.output(&["run", "notes"]);
        assert_eq!(checked == 2, ran == 2, "{entry}: check {checked}: {printed}\nrun {ran}: {words}");
    }
}

#[test]
fn schema_is_printed_as_json() {
    let stage = Stage::with("{}");
    let (code, printed) = stage.output(&["schema"]);
    let schema: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(code, 0);
    assert!(schema["definitions"]["server"]["properties"]["autoReconnect"].is_object());
}

#[test]
fn z108_world_readable_secrets_cause_warning_and_are_not_shown() {
    use std::os::unix::fs::PermissionsExt;
    let mut entry = demo();
    entry["env"] = json!({ "API_TOKEN": "literal-secret" });
    let stage = Stage::with(&file(&json!({ "notes": entry })));
    for (mode, is_warned) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(stage.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let (code, printed) = stage.output(&["check"]);
        assert_eq!((code, printed.contains("others on this machine can read this file")), (0, is_warned), "{printed}");
        assert!(!printed.contains("literal-secret"), "{printed}");
    }
}
