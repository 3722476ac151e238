//! The content of the log files, and the settings that control it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::client::failure;
use crate::stage::{LATER, Stage, end};

#[test]
fn log_file_has_stderr_and_decisions_and_is_private() {
    let stage = Stage::new();
    let mut client = stage.bridge(&[], &["stderr-flood=1", "die-before=2"]);
    client.result("a", "lookup", &json!({ "key": "a" }));
    client.result("b", "lookup", &json!({ "key": "b" }));
    end(client);
    let output = stage.run_logs(&["notes"]);
    assert_eq!(output.code, 0, "{output:?}");
    let order = [
        "ready after",
        "| demo-server: call 1",
        "Up → Waiting",
        "retrying (attempt 2 of 3)",
        "answered after",
        "stopped",
    ];
    let mut at = 0;
    for expected in order {
        at += output.stdout[at..]
            .find(expected)
            .unwrap_or_else(|| panic!("no {expected:?} after that:\n{}", output.stdout));
    }
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&stage.logs()), 0o700);
    for entry in fs::read_dir(stage.logs()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn t05_log_of_failed_call_names_tool_attempt_and_reason() {
    let stage = Stage::new();
    let mut client = stage.bridge(&[], &["die-after=3"]);
    for id in ["a", "b"] {
        client.result(id, "create_note", &json!({ "key": id }));
    }
    let result = client.result("c", "create_note", &json!({ "key": "c" }));
    let call = failure(&result)["call"].as_u64().unwrap_or_else(|| panic!("{result}")).to_string();
    end(client);
    let output = stage.run_logs(&["notes", "--call", &call]);
    let texts: Vec<&str> = output.stdout.lines().map(|line| line.split_once("notes  ").unwrap().1).collect();
    assert_eq!(texts.len(), 4, "{output:?}");
    assert_eq!(texts[0], format!("#{call} create_note: accepted"));
    assert_eq!(texts[1], format!("#{call}: attempt 1 started"));
    assert!(texts[2].starts_with(&format!("#{call} create_note: attempt 1 ended (unknown)")), "{output:?}");
    assert!(texts[3].starts_with(&format!("#{call} create_note: failed after ")), "{output:?}");
    assert!(texts[3].contains("outcome_unknown"), "{output:?}");
    assert!(texts[2..].iter().all(|text| text.contains(": the server ")), "both have the reason: {output:?}");
    let times: Vec<&str> = output.stdout.lines().map(|line| &line[..24]).collect();
    assert!(times.is_sorted(), "{times:?}");
    // Successful calls are not logged at this level.
    assert!(!stage.run_logs(&["--level", "debug"]).stdout.contains(": answered after"));
    let none = stage.run_logs(&["--call", "1"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("--log-file-level debug"), "{none:?}");
}

#[test]
fn t05_call_that_was_never_sent_is_not_logged_as_sent() {
    let stage = Stage::new();
    // Nothing listens on port 1 of this address.
    let options = ["run", "--name", "gone", "--recovery-timeout", "1s", "--log-file-level", "debug"];
    let mut client = stage.client(&[&options[..], &["http://127.0.0.1:1/mcp"]].concat());
    client.call("a", "lookup", &json!({ "key": "a" }));
    assert_eq!(failure(&client.answer("a")["result"])["outcome"], "not_sent");
    client.stdin = None;
    client.exit_code(LATER);
    let output = stage.run_logs(&["--level", "debug"]);
    let lines = |text: &str| output.stdout.lines().filter(|line| line.contains(text)).count();
    assert!(lines("#1: attempt 1 started") > 0, "{output:?}");
    assert_eq!(lines("#1: attempt 1 started"), lines("#1 lookup: attempt 1 ended (not_sent): nothing listens on "));
    assert_eq!(lines("outcome not_sent, attempts: 0"), 1, "{output:?}");
    assert!(!output.stdout.replace("not sent", "").contains(" sent"), "{output:?}");
}

#[test]
fn debug_level_logs_every_call() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--log-file-level", "debug"], &[]);
    client.result("a", "create_note", &json!({ "key": "a" }));
    end(client);
    let answered = stage
        .records()
        .into_iter()
        .find(|record| record["kind"] == "call_answered" && record["method"] == "tools/call");
    let answered = answered.unwrap_or_else(|| panic!("{:?}", stage.files()));
    let output = stage.run_logs(&["--call", &answered["call"].to_string()]);
    assert_eq!(output.stdout.lines().count(), 3, "{output:?}");
    assert!(output.stdout.contains(": accepted") && output.stdout.contains(": attempt 1 started"), "{output:?}");
}

#[test]
fn flag_or_variable_turns_log_files_off() {
    let stage = Stage::new();
    end(stage.bridge(&["--no-log-files"], &[]));
    end(stage.bridge(&["--log-file-level", "off"], &[]));
    let mut command = stage.command(&["run", "--", crate::client::MENDLINE, "demo-server"]);
    command.env("MENDLINE_LOG_FILES", "off").stdin(std::process::Stdio::piped());
    let mut client = crate::client::Client::start(&mut command);
    client.initialize();
    end(client);
    assert!(!stage.logs().exists());
}

#[test]
fn configuration_file_sets_log_level_by_default() {
    let stage = Stage::new();
    let entry = json!({ "command": crate::client::MENDLINE, "args": ["demo-server", "--fault", "stderr-flood=1"] });
    let write = |logs: serde_json::Value| {
        fs::create_dir_all(stage.path("config/mendline")).unwrap();
        let file = json!({ "mcpServers": { "notes": entry }, "mendline": { "logs": logs } });
        fs::write(stage.path("config/mendline/config.json"), file.to_string()).unwrap();
    };
    let call = |arguments: &[&str]| {
        let mut client = stage.client(&[&["run"], arguments].concat());
        client.initialize();
        client.result("a", "lookup", &json!({ "key": "a" }));
        end(client);
    };
    write(json!({ "level": "off" }));
    call(&["notes"]);
    assert!(!stage.logs().exists());
    write(json!({ "level": "warn", "wire": true }));
    call(&["notes"]);
    let kinds: Vec<String> = stage.records().iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    assert!(!kinds.iter().any(|kind| kind == "stderr") && kinds.iter().any(|kind| kind == "wire"), "{kinds:?}");
    call(&["--log-file-level", "debug", "notes"]);
    assert!(stage.records().iter().any(|record| record["kind"] == "call_accepted"));
}

#[test]
fn full_log_rotates_and_oldest_files_are_deleted() {
    let stage = Stage::new();
    let entry = json!({ "command": crate::client::MENDLINE, "args": ["demo-server", "--fault", "stderr-flood=2000"] });
    fs::create_dir_all(stage.path("config/mendline")).unwrap();
    let logs = json!({ "fileBytes": 65_536, "totalBytes": 262_144 });
    let file = json!({ "mcpServers": { "notes": entry }, "mendline": { "logs": logs } });
    fs::write(stage.path("config/mendline/config.json"), file.to_string()).unwrap();
    let mut client = stage.client(&["run", "notes"]);
    client.initialize();
    for id in 0..10 {
        client.result(&id.to_string(), "lookup", &json!({ "key": "a" }));
    }
    end(client);
    let files = stage.files();
    let total: usize = files.iter().map(|(_, text)| text.len()).sum();
    assert!(files.len() > 1 && files.iter().all(|(_, text)| text.len() <= 65_536), "{}", files.len());
    assert!(total <= 262_144 + 65_536, "{total}");
    let output = stage.run_logs(&[]).stdout;
    assert!(output.ends_with(" stopped\n"), "the end is there: {}", output.lines().next_back().unwrap_or_default());
}
