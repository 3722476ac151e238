//! The conditions of a command: the scenarios of the promises with real processes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::answer_within;
use crate::client::{Client, MENDLINE, SOON, eventually};
use crate::support::{Bridge, Setup};

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
