//! The conditions of a command: the scenarios of the promises with real processes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, MENDLINE, SOON, eventually, failure, kill};
use crate::support::{Bridge, Setup, is_gone};
use crate::{answer_within, next_answer};

/// The deadline for events that need several timers on a busy machine.
const LATER: Duration = Duration::from_secs(30);

#[test]
fn scenario_h_command_that_exits_at_first_start_appears_later() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, starts) = (folder.path().join("may-live"), folder.path().join("starts"));
    let script = format!(
        "echo >> '{}'; test -e '{}' && exec '{MENDLINE}' demo-server; echo 'the database is locked' >&2; exit 3",
        starts.display(),
        gate.display()
    );
    let mut command = Command::new(MENDLINE);
    command.args(["run", "--", "sh", "-c", &script]).stdin(Stdio::piped());
    let mut client = Client::start(&mut command);
    client.read_log();
    let begin = Instant::now();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    client.request("init", "initialize", &params);
    let handshake = answer_within(&mut client, "init", LATER)["result"].clone();
    assert!(begin.elapsed() >= Duration::from_secs(3), "the server has this time: {:?}", begin.elapsed());
    let instructions = handshake["instructions"].as_str().unwrap_or_else(|| panic!("{handshake}"));
    assert!(instructions.contains("the database is locked"), "{instructions}");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    client.call("call", "create_note", &json!({ "key": "k" }));
    eventually("the outage has lasted", SOON, || begin.elapsed() >= Duration::from_secs(10));
    let tried = fs::read_to_string(&starts).unwrap().lines().count();
    assert!((5..=12).contains(&tried), "it is tried again and again, not too often: {tried}");
    fs::write(&gate, "").unwrap();
    let list: Value = answer_within(&mut client, "list", LATER);
    assert!(list.to_string().contains("create_note"), "its tools appear: {list}");
    let call = answer_within(&mut client, "call", LATER);
    assert_eq!(call["result"]["content"][0]["text"], "wrote k", "{call}");
    let log = client.whole_log();
    assert!(!log.contains("Parked"), "{log}");
}

#[test]
fn scenario_i_frozen_child_is_replaced_after_overdue_unsafe_call() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let options = ["--keep-alive", "3s", "--keep-alive-timeout", "2s", "--tool-timeout", "create_note=4s"];
    let mut bridge = Bridge::start(Setup { options: &options, ..Setup::default() });
    bridge.initialize();
    let frozen = bridge.server();
    let begin = Instant::now();
    bridge.call("write", "create_note", &json!({ "key": "write", "until": gate }));
    eventually("it runs", SOON, || bridge.executions("create_note", "write") == 1);
    kill(frozen, Signal::STOP);
    // The client goes on calling, so that there is always a call within its deadline.
    let mut reads = 0;
    let mut next_read = begin;
    let write = loop {
        if Instant::now() >= next_read {
            bridge.call(&format!("read {reads}"), "lookup", &json!({ "key": format!("r{reads}") }));
            reads += 1;
            next_read += Duration::from_millis(200);
        }
        let line = bridge.lines.as_ref().unwrap().recv_timeout(next_read.saturating_duration_since(Instant::now()));
        if let Ok(line) = line {
            break serde_json::from_str::<Value>(&line).unwrap();
        }
    };
    assert_eq!(write["id"], "write", "{write}");
    assert!(begin.elapsed() >= Duration::from_secs(4), "{:?}", begin.elapsed());
    let result = &write["result"];
    assert_eq!(failure(result)["cause"], "timed_out", "{result}");
    assert_eq!(failure(result)["outcome"], "unknown", "{result}");
    assert_eq!(bridge.noted("start"), [frozen], "until its deadline the child may be busy");
    // Two pings of two seconds with a pause of one second.
    eventually("a new child starts", LATER, || bridge.noted("start").len() == 2);
    assert!(begin.elapsed() >= Duration::from_secs(9), "it had its time: {:?}", begin.elapsed());
    for _ in 0..reads {
        let answer = next_answer(&mut bridge, LATER);
        let id = answer["id"].as_str().unwrap().replace("read ", "r");
        assert_eq!(answer["result"]["content"][0]["text"], format!("{id} is 42"), "{answer}");
    }
    let next = bridge.result("next", "create_note", &json!({ "key": "next" }));
    assert_eq!(next["content"][0]["text"], "wrote next", "{next}");
    eventually("the frozen child is gone", SOON, || is_gone(frozen));
    assert_eq!((bridge.executions("create_note", "write"), bridge.executions("create_note", "next")), (1, 1));
    assert_eq!(bridge.noted("start").len(), 2, "{}", bridge.ledger());
}

/// A server that handles one line at a time: a call of `wait` blocks it until the gate exists, and it answers no ping.
fn single_threaded(gate: &str, starts: &str) -> String {
    let tools = r#"{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}"#;
    let handshake =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"single","version":"1"}}"#;
    let result = r#"{"content":[{"type":"text","text":"done"}],"isError":false}"#;
    format!(
        r#"echo >> '{starts}'
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
            case "$line" in
                *'"initialize"'*) body='{handshake}' ;;
                *'"tools/list"'*) body='{tools}' ;;
                *'"tools/call"'*) while ! test -e '{gate}'; do sleep 0.05; done; body='{result}' ;;
                *) continue ;;
            esac
            printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$body"
        done"#
    )
}

#[test]
fn scenario_n_busy_single_threaded_command_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, starts) = (folder.path().join("gate"), folder.path().join("starts"));
    let script = single_threaded(gate.to_str().unwrap(), starts.to_str().unwrap());
    let options = ["--keep-alive", "3s", "--keep-alive-timeout", "1s"];
    let setup = Setup { command: Some(&["sh", "-c", &script]), options: &options, ..Setup::default() };
    let mut bridge = Bridge::start(setup);
    assert_eq!(Client::initialize(&mut bridge), "single");
    let begin = Instant::now();
    bridge.call("busy", "wait", &json!({}));
    // Idle, the server would have been replaced after two missed pings.
    eventually("time passes", SOON, || begin.elapsed() >= Duration::from_secs(12));
    fs::write(&gate, "").unwrap();
    assert_eq!(bridge.answer("busy")["result"]["content"][0]["text"], "done");
    assert_eq!(fs::read_to_string(&starts).unwrap().lines().count(), 1, "one process");
    let log = bridge.whole_log();
    assert!(!log.contains("Up → Waiting"), "{log}");
}
