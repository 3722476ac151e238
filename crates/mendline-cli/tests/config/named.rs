//! `mendline run NAME`.

use serde_json::json;

use crate::client::{MENDLINE, SOON, eventually};
use crate::stage::{SECRET, Stage, demo, file};

#[test]
fn server_runs_by_name() {
    let stage = Stage::with(&file(&json!({ "notes": demo(), "other": { "command": "/nonexistent" } })));
    let mut client = stage.client(&["notes"]);
    let result = client.result("1", "lookup", &json!({ "key": "k" }));
    assert!(result.to_string().contains("k is 42"), "{result}");
}

#[test]
fn u09_command_without_separator_runs() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["--name", "bare", MENDLINE, "demo-server"]);
    let result = client.result("1", "lookup", &json!({ "key": "k" }));
    assert!(result.to_string().contains("k is 42"), "{result}");
    assert_eq!(stage.started().len(), 1);
}

#[test]
fn u09_command_with_the_name_of_a_server_is_announced() {
    let stage = Stage::with(&file(&json!({ "sh": demo() })));
    let mut client = stage.client(&["sh", "-c", "exec \"$0\" demo-server", MENDLINE]);
    client.result("1", "lookup", &json!({ "key": "k" }));
    let log = client.whole_log();
    assert!(log.contains("runs the command `sh`, because words follow the name"), "{log}");
    assert!(log.contains("is run by `mendline run sh`"), "{log}");
}

#[test]
fn u09_server_name_with_unknown_flag_is_a_usage_error() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    for (line, words) in [
        (&["run", "notes", "--verbose"][..], "unexpected argument '--verbose' found"),
        (&["run", "notes", "--cal-timeout", "5s"], "'--call-timeout'"),
        (&["run", "other", "--cal-timeout", "5s"], "'--call-timeout'"),
        (&["run", "notes", "--", "npx", "foo"], "'mendline run --name NAME -- COMMAND'"),
    ] {
        let (code, printed) = stage.output(line);
        assert_eq!(code, 2, "{line:?}: {printed}");
        assert!(printed.contains(words), "{line:?}: {printed}");
    }
    assert_eq!(stage.started(), Vec::<i32>::new());
}

#[test]
fn unknown_name_is_reported_with_nearest_match() {
    let stage = Stage::with(&file(&json!({ "notes": demo(), "tickets": demo() })));
    let (code, printed) = stage.output(&["run", "nodes"]);
    assert_eq!(code, 3);
    assert!(
        printed.contains("there is no server \"nodes\" in HOME/mendline/config.json; did you mean \"notes\"?"),
        "{printed}"
    );
    assert!(printed.contains("Its servers are: notes, tickets"), "{printed}");
    assert_eq!(stage.started(), Vec::<i32>::new());
}

#[test]
fn file_in_working_directory_is_ignored() {
    let stage = Stage::with(&file(&json!({})));
    for name in [".mcp.json", "mcp.json", "config.json", "mendline.json"] {
        stage.other(name, &file(&json!({ "notes": demo() })));
    }
    assert_eq!(stage.output(&["run", "notes"]).0, 3);
    assert_eq!(stage.started(), Vec::<i32>::new());
}

#[test]
fn config_may_be_client_file_or_come_from_variable() {
    let stage = Stage::with("{}");
    let cursor = stage.other("mcp.json", &json!({ "mcpServers": { "notes": demo() } }).to_string());
    stage.client(&["--config", cursor.to_str().unwrap(), "notes"]);
    assert_eq!(stage.started().len(), 1);
    let text = format!("[mcp_servers.notes]\ncommand = {:?}\nargs = [\"demo-server\"]\n", crate::client::MENDLINE);
    let codex = stage.other("config.toml", &text);
    let output =
        stage.command(&["run", "notes"]).env("MENDLINE_CONFIG", codex).stdin(std::process::Stdio::null()).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    assert_eq!(stage.started().len(), 2);
}

#[test]
fn env_of_entry_reaches_only_its_server() {
    let mut entry = demo();
    entry["env"] = json!({ "HANDED_ON": "Bearer ${STAGE_TOKEN}" });
    let stage = Stage::with(&file(&json!({ "notes": entry })));
    let mut client = stage.client(&["notes", "--log-level", "debug"]);
    let server = *stage.started().last().unwrap();
    let environment = std::fs::read(format!("/proc/{server}/environ")).unwrap();
    let expected = format!("HANDED_ON=Bearer {SECRET}");
    assert!(String::from_utf8_lossy(&environment).split('\0').any(|pair| pair == expected));
    for pid in [server, i32::try_from(client.process.id()).unwrap()] {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&words).contains(SECRET));
    }
    let log = client.whole_log();
    assert!(log.contains("DEBUG") && !log.contains(SECRET), "{log}");
}

#[test]
fn flags_override_file() {
    let mut entry = demo();
    // The file's timeouts are too short for a handshake. The flags override them.
    entry["timeouts"] = json!({ "call": "1ms", "total": "1ms" });
    entry["tools"] = json!({ "lookup": { "timeout": "1h" } });
    let stage = Stage::with(&file(&json!({ "notes": entry })));
    let flags =
        ["--call-timeout", "1h", "--total-timeout", "1h", "--tool-timeout", "lookup=300ms", "--name", "renamed"];
    let mut client = stage.client(&[&["notes"], &flags[..]].concat());
    let result = client.result("1", "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
    let printed = result.to_string();
    assert!(printed.contains("timed_out") && printed.contains("renamed"), "{printed}");
}

#[test]
fn policy_of_file_is_applied() {
    let mut entry = demo();
    // The short timeout applies to this tool only, not to the handshake.
    entry["tools"] = json!({ "lookup": { "timeout": 300 } });
    let stage = Stage::with(&file(&json!({ "notes": entry })));
    let mut client = stage.client(&["notes"]);
    let result = client.result("1", "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
    assert!(result.to_string().contains("timed_out"), "{result}");
}

#[test]
fn wrapped_entry_is_not_wrapped_again() {
    let mut entry = demo();
    entry["args"] = json!(["run", "--tool-timeout", "lookup=300ms", "--", crate::client::MENDLINE, "demo-server"]);
    let stage = Stage::with(&file(&json!({ "notes": entry })));
    let mut client = stage.client(&["notes"]);
    let server = *stage.started().last().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned();
    assert_eq!(parent, client.process.id().to_string(), "there is one Mendline and not two");
    let result = client.result("1", "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
    assert!(result.to_string().contains("timed_out"), "its own flags hold: {result}");
    entry["args"] = json!(["run", "notes"]);
    stage.write(&file(&json!({ "notes": entry })));
    let (code, printed) = stage.output(&["run", "notes"]);
    assert!(code == 2 && printed.contains("leads back"), "{printed}");
}

#[test]
fn invalid_file_starts_no_server() {
    let stage = Stage::with(include_str!("../../../mendline-config/tests/files/ten-mistakes.json"));
    let (code, printed) = stage.output(&["run", "both"]);
    assert_eq!(code, 2);
    assert!(printed.contains("nothing was started: 9 mistakes"), "{printed}");
    let mut entry = demo();
    entry["disabled"] = json!(true);
    stage.write(&file(&json!({ "notes": entry })));
    let (code, printed) = stage.output(&["run", "notes"]);
    assert!(code == 2 && printed.contains("\"notes\" is disabled"), "{printed}");
    assert_eq!(stage.started(), Vec::<i32>::new());
}

#[test]
fn mistake_in_other_server_is_reported_and_not_fatal() {
    let stage = Stage::with(&file(&json!({ "notes": demo(), "away": { "url": "https://${NOT_SET}/mcp" } })));
    let client = stage.client(&["notes"]);
    eventually("the log reports it", SOON, || client.log().contains("other servers in it cannot be used"));
    assert_eq!(stage.output(&["run", "away"]).0, 2);
}
