//! Recorded messages (`--record-wire`).

use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::{Client, SOON, lines_of};
use crate::site::{Site, event_answers, json_answers};
use crate::stage::{Stage, end};

fn arrows(stage: &Stage, of: &str) -> Vec<String> {
    let output = stage.run_logs(&["--wire", "--full", "-n", "all"]);
    let ways = ["client → ", "→ server ", "← server ", "client ← "];
    let lines = output.stdout.lines().filter(|line| line.contains(of));
    lines.filter_map(|line| ways.iter().find(|way| line.contains(**way))).map(|way| way.trim().to_owned()).collect()
}

#[test]
fn message_is_logged_at_every_hop_over_stdio_and_http() {
    let expected = ["client →", "→ server", "← server", "client ←"];
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    // The answer repeats the key.
    assert_eq!(arrows(&stage, "needle"), expected);
    for answers in [json_answers(), event_answers()] {
        let (stage, site) = (Stage::new(), Site::start(answers));
        let mut command = stage.command(&["run", "--record-wire", &site.url()]);
        let mut client = Client::start(command.stdin(std::process::Stdio::piped()));
        client.initialize();
        client.result("a", "create_note", &json!({ "key": "needle" }));
        end(client);
        assert_eq!(arrows(&stage, "needle"), expected);
    }
}

#[test]
fn messages_are_stored_and_shown_only_on_request() {
    let stage = Stage::new();
    let mut client = stage.bridge(&[], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    let output = stage.run_logs(&["--wire"]);
    assert!(!output.stdout.contains("needle") && output.stderr.contains("--record-wire"), "{output:?}");
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    assert!(!stage.run_logs(&["--level", "debug"]).stdout.contains("needle"));
}

#[test]
fn long_message_is_truncated_unless_full_is_requested() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    client.request("a", "demo/echo", &json!({ "text": "x".repeat(300_000) }));
    client.answer("a");
    end(client);
    let long = |arguments: &[&str]| stage.run_logs(arguments).stdout.lines().map(str::len).max().unwrap();
    assert!(long(&["--wire"]) < 300);
    assert!(stage.run_logs(&["--wire"]).stdout.contains("… (300"));
    let full = long(&["--wire", "--full"]);
    assert!((10_000..20_000).contains(&full), "{full}");
}

#[test]
fn log_of_call_has_messages_of_all_attempts() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &["die-after=2", "die-after=3"]);
    // The messages of another call must not appear.
    client.result("a", "lookup", &json!({ "key": "hay" }));
    client.result("b", "lookup", &json!({ "key": "needle" }));
    end(client);
    let records = stage.records();
    let retried: Vec<_> = records.iter().filter(|it| it["kind"] == "call_retried").collect();
    assert_eq!(retried.len(), 2, "{records:?}");
    let call = retried[0]["call"].to_string();
    for follow in [false, true] {
        let log = if follow {
            followed(&stage, &call)
        } else {
            stage.run_logs(&["--wire", "--full", "--call", &call]).stdout
        };
        let count = |way: &str| log.lines().filter(|line| line.contains(way) && line.contains("needle")).count();
        assert_eq!((count("→ server "), count("← server ")), (3, 1), "{log}");
        assert!(!log.contains("hay"), "{log}");
    }
    let lines = stage.run_logs(&["--wire", "--json", "--call", &call]).stdout;
    let numbers: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].clone()).collect();
    assert_eq!(numbers.iter().filter(|number| number.is_u64()).count(), 3, "one for each attempt: {lines}");
}

/// Follows an earlier call until its answer is shown, and returns the output.
fn followed(stage: &Stage, call: &str) -> String {
    let mut command = stage.command(&["logs", "--wire", "--full", "-n", "all", "-f", "--call", call]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(process.stdout.take().unwrap());
    let mut log = String::new();
    while !log.contains("← server ") {
        log += &lines.recv_timeout(SOON).unwrap_or_else(|error| panic!("{error}: {log}"));
        log.push('\n');
    }
    process.kill().unwrap();
    process.wait().unwrap();
    log
}

#[test]
fn log_of_call_has_truncated_messages() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire", "--log-file-level", "debug"], &[]);
    client.request("a", "demo/echo", &json!({ "text": "x".repeat(300_000) }));
    client.answer("a");
    end(client);
    let records = stage.records();
    let answered = records.iter().rfind(|it| it["kind"] == "call_answered").unwrap();
    let log = stage.run_logs(&["--wire", "--call", &answered["call"].to_string()]).stdout;
    assert!(log.contains("→ server ") && log.contains("← server "), "{log}");
}

#[test]
fn log_of_call_has_its_progress() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    let arguments = json!({ "key": "k", "steps": 1000, "stepMs": 20 });
    let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "t" } });
    client.request("a", "tools/call", &params);
    assert!(client.line().contains("notifications/progress"));
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "a" } });
    client.send(&cancelled.to_string());
    end(client);
    let records = stage.records();
    let cancelled = records.iter().find(|it| it["kind"] == "call_cancelled").unwrap();
    let log = stage.run_logs(&["--wire", "--full", "--call", &cancelled["call"].to_string()]).stdout;
    let has = |way: &str, what: &str| log.lines().any(|line| line.contains(way) && line.contains(what));
    assert!(has("← server ", "notifications/progress") && has("→ server ", "notifications/cancelled"), "{log}");
}

#[test]
fn log_of_call_has_its_messages() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire", "--log-file-level", "debug"], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    let records = stage.records();
    let answered = records.iter().find(|it| it["kind"] == "call_answered" && it["method"] == "tools/call").unwrap();
    let output = stage.run_logs(&["--wire", "--call", &answered["call"].to_string()]);
    assert!(output.stdout.contains("→ server ") && output.stdout.contains("← server "), "{output:?}");
    assert_eq!(output.stdout.lines().count(), 5, "{output:?}");
}
