//! `mendline check` and `mendline schema`.

use serde_json::{Value, json};

use crate::client::MENDLINE;
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
fn check_shows_choices_for_programs() {
    let mut notes = demo();
    notes["failures"] = json!("error");
    notes["retry"] = json!({ "statuses": { "502": "never" } });
    notes["tools"] = json!({ "search": { "limits": { "inFlight": 2 }, "circuitBreaker": { "enabled": false } } });
    let (code, printed) = Stage::with(&file(&json!({ "notes": notes }))).output(&["check"]);
    assert_eq!(code, 0, "{printed}");
    for words in ["failures: JSON-RPC errors", "http 502 never", "tools.search: 2 in flight, circuitBreaker: off"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
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

/// A client's file whose entry runs Mendline with these arguments.
fn wrapped(arguments: &[&str], others: &Value) -> String {
    let mut entry = json!({ "command": "mendline", "args": arguments });
    for (key, value) in others.as_object().unwrap() {
        entry[key] = value.clone();
    }
    json!({ "mcpServers": { "notes": entry } }).to_string()
}

#[test]
fn u03_variable_of_own_env_is_seen_by_check_and_doctor() {
    let stage = Stage::with("{}");
    let arguments = ["run", "--policy", "timeouts.call=${OWN_LIMIT}", "--", MENDLINE, "demo-server"];
    let unset = stage.other("unset.json", &wrapped(&arguments, &json!({})));
    let (code, printed) = stage.output(&["check", unset.to_str().unwrap()]);
    assert!(code == 2 && printed.contains("OWN_LIMIT is not set"), "{printed}");
    stage.other("limits.env", "OWN_LIMIT=3m\n");
    for (own, limit) in [
        (json!({ "env": { "OWN_LIMIT": "2m" } }), "2m"),
        (json!({ "envFile": "limits.env" }), "3m"),
        (json!({ "envFile": "limits.env", "env": { "OWN_LIMIT": "4m" } }), "4m"),
    ] {
        let file = stage.other("mcp.json", &wrapped(&arguments, &own));
        let (code, printed) = stage.output(&["check", file.to_str().unwrap()]);
        assert!(code == 0 && printed.contains(&format!("timeouts.call: {limit}")), "{own}: {printed}");
        let (code, printed) = stage.output(&["doctor", "--config", file.to_str().unwrap(), "notes"]);
        assert_eq!(code, 0, "{own}: {printed}");
    }
    let header = ["run", "--header", "Authorization: Bearer ${OWN_TOKEN}", "https://mcp.example.com/mcp"];
    let file = stage.other("mcp.json", &wrapped(&header, &json!({ "env": { "OWN_TOKEN": "t" } })));
    let (code, printed) = stage.output(&["check", file.to_str().unwrap()]);
    assert!(code == 0 && printed.contains("headers Authorization"), "{printed}");
}

#[test]
fn u03_wrap_carries_policies_over_and_check_names_those_without_effect() {
    let stage = Stage::with("{}");
    let mut entry = demo();
    entry["autoReconnect"] = json!({ "maxRetries": 5 });
    entry["circuitBreaker"] = json!({ "window": "1m", "enabled": true });
    entry["tools"] = json!({ "lookup": { "effect": "unsafe", "timeout": "10s" } });
    let text = json!({ "mcpServers": { "notes": entry } }).to_string();
    let path = stage.other("mcp.json", &text);
    let file = path.to_str().unwrap();
    let (code, printed) = stage.output(&["wrap", "--binary", MENDLINE, "--file", file, "--yes"]);
    assert_eq!(code, 0, "{printed}");
    let (code, printed) = stage.output(&["check", file]);
    assert!(code == 0 && !printed.contains("without effect"), "{printed}");
    for policy in ["autoReconnect: 5 attempts", "tools.lookup: unsafe, 10s", "circuitBreaker: opens after 5 failures"] {
        assert!(printed.contains(policy), "{policy}: {printed}");
    }

    // The client runs it with these arguments.
    let wrapped: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let arguments = wrapped["mcpServers"]["notes"]["args"].as_array().unwrap().iter();
    let arguments: Vec<&str> = arguments.map(|word| word.as_str().unwrap()).collect();
    assert!(arguments.contains(&"autoReconnect.maxRetries=5"), "{arguments:?}");
    stage.client(&arguments[1..]);

    // A change of the entry alone has no effect.
    std::fs::write(&path, wrapped.to_string().replace("\"maxRetries\":5", "\"maxRetries\":7")).unwrap();
    let (code, printed) = stage.output(&["check", file]);
    assert!(code == 0 && printed.contains("autoReconnect: 5 attempts"), "{printed}");
    assert!(printed.contains("without effect, because the arguments do not have it: autoReconnect: 7"), "{printed}");
    let (code, printed) = stage.output(&["unwrap", "--file", file, "--yes"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("drops --policy autoReconnect.maxRetries=5"), "{printed}");
    std::fs::write(&path, &text).unwrap();
    stage.output(&["wrap", "--binary", MENDLINE, "--file", file, "--yes"]);
    stage.output(&["unwrap", "--file", file, "--yes"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
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
