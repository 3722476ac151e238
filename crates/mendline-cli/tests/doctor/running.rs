//! Servers that run already: `mendline doctor` asks their Mendline and starts no second copy.

use std::process::Stdio;

use mendline_faults::Rule;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, kill};
use crate::site::{Site, json_answers};
use crate::stage::{CommandOutput, MENDLINE, Stage};

impl Stage {
    /// Starts `mendline run` with these arguments.
    fn bridge(&self, arguments: &[&str]) -> Client {
        std::fs::create_dir_all(self.path().join("runtime")).unwrap();
        let mut command = self.command(&["run"]);
        let mut client = Client::start(command.args(arguments).stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// Starts the demo server behind a bridge of this name, and performs the handshake.
    fn demo_bridge(&self, name: &str) -> Client {
        let mut client = self.bridge(&["--name", name, "--startup", "wait", "--", MENDLINE, "demo-server"]);
        assert_eq!(client.initialize(), "demo-server");
        client
    }

    /// Returns the number of starts of the demo server.
    fn starts(&self) -> usize {
        self.ledger().lines().filter(|line| line.starts_with("start ")).count()
    }

    /// Repeats `mendline doctor` until the output fulfils the condition: on a busy machine a process may answer late.
    fn doctor_until(&self, arguments: &[&str], is_so: impl Fn(&CommandOutput) -> bool) -> CommandOutput {
        let mut last = None;
        eventually("doctor prints what is expected", 3 * SOON, || {
            let output = self.run(&[&["doctor"], arguments].concat());
            let is_so = is_so(&output);
            last = Some(output);
            is_so
        });
        last.unwrap()
    }

    /// Waits for a state of the only server, and returns the server.
    fn until_state(&self, kind: &str) -> Value {
        let mut server = Value::Null;
        eventually(kind, SOON, || {
            server = self.run(&["status", "--json"]).json()["servers"][0].clone();
            server["state"]["kind"] == kind
        });
        server
    }
}

#[test]
fn u05_running_server_is_asked_and_not_started_again() {
    let stage = Stage::new();
    let _client = stage.demo_bridge("notes");
    let output = stage.doctor_until(&["notes"], |output| output.stdout.contains("ready for"));
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains(" for test: ready for"), "the client is named: {}", output.stdout);
    assert!(output.stdout.ends_with("Healthy: notes runs.\n"), "{}", output.stdout);
    assert_eq!(stage.starts(), 1, "{}", stage.ledger());
}

#[test]
fn passive_examination_starts_nothing_and_says_so() {
    let servers = json!({ "notes": { "command": MENDLINE, "args": ["demo-server"] }, "gone": { "command": "x" } });
    let stage = Stage::with_file(&json!({ "mcpServers": servers }).to_string());
    let output = stage.run(&["doctor", "--passive", "notes"]);
    assert!(output.code == 0 && output.stdout.contains("not tried (--passive)"), "{}", output.stdout);
    assert!(!output.stdout.contains("runs already"), "{}", output.stdout);
    assert_eq!(stage.starts(), 0, "{}", stage.ledger());
    let output = stage.run(&["doctor", "--passive", "gone"]);
    let advice = "Install it, or write its whole path. A client that";
    assert!(output.code != 0 && output.stdout.contains(advice), "a short name is near every other: {}", output.stdout);
}

#[test]
fn u05_configured_server_is_started_again_only_on_request() {
    let file = json!({ "mcpServers": { "notes": { "command": MENDLINE, "args": ["demo-server"] } } });
    let stage = Stage::with_file(&file.to_string());
    let mut client = stage.bridge(&["--startup", "wait", "notes"]);
    client.initialize();
    for arguments in [&["notes"][..], &[]] {
        let output = stage.doctor_until(arguments, |output| output.stdout.contains("ready for"));
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("it runs already; --start starts another copy"), "{}", output.stdout);
    }
    assert_eq!(stage.starts(), 1, "{}", stage.ledger());
    let output = stage.run(&["doctor", "--start", "notes"]);
    assert!(output.code == 0 && output.stdout.contains("✓ lists"), "{}{}", output.stdout, output.stderr);
    assert!(stage.starts() > 1, "{}", stage.ledger());
}

#[test]
fn u05_parked_server_is_a_failure() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--name", "broken", "--", "mendline-no-such-command"]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    stage.until_state("parked");
    for arguments in [&[][..], &["broken"]] {
        let output = stage.doctor_until(arguments, |output| output.stdout.contains("parked for"));
        assert_eq!(output.code, 1, "{}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("`mendline-no-such-command` was not found"), "{}", output.stdout);
        assert!(output.stdout.ends_with("Unhealthy: broken is parked.\n"), "{}", output.stdout);
    }
}

#[test]
fn u05_missing_login_of_running_server_has_its_exit_code() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let mut client = stage.bridge(&["--name", "guarded", &site.url()]);
    client.initialize();
    site.add_fault(Rule::new("a73_token_expired_401").verb("POST"));
    client.result("a", "lookup", &json!({ "key": "k" }));
    let output = stage.doctor_until(&["guarded"], |output| output.stdout.contains("needs login"));
    assert_eq!(output.code, 6, "{}{}", output.stdout, output.stderr);
}

#[test]
fn u05_stopped_process_of_ready_server_is_a_failure() {
    let stage = Stage::new();
    let _client = stage.demo_bridge("notes");
    let child = stage.until_state("ready")["connection"]["child"].as_i64().unwrap();
    let child = i32::try_from(child).unwrap();
    kill(child, Signal::STOP);
    let output = stage.doctor_until(&["notes"], |output| output.stdout.contains("is stopped"));
    kill(child, Signal::CONT);
    assert_eq!(output.code, 1, "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains(&format!("`kill -CONT {child}`")), "{}", output.stdout);
}

#[test]
fn u05_isolated_server_is_a_failure_with_advice() {
    let stage = Stage::new();
    let client = stage.demo_bridge("notes");
    stage.run(&["isolate", "notes"]);
    stage.until_state("isolated");
    let id = format!("notes#{}", client.process.id());
    let output = stage.doctor_until(&[&id], |output| output.stdout.contains("isolated for"));
    assert_eq!(output.code, 1, "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("`mendline resume notes`"), "{}", output.stdout);
}

#[test]
fn u05_unknown_name_lists_running_servers() {
    let stage = Stage::new();
    let _client = stage.demo_bridge("notes");
    let output = stage.doctor_until(&["nots"], |output| output.stderr.contains("Running: notes"));
    assert_eq!(output.code, 3, "{}{}", output.stdout, output.stderr);
}

#[test]
fn u05_stopped_mendline_is_a_failure() {
    let stage = Stage::new();
    let client = stage.demo_bridge("notes");
    client.signal(Signal::STOP);
    let output = stage.doctor_until(&["notes"], |output| output.stdout.contains("does not answer"));
    client.signal(Signal::CONT);
    assert_eq!(output.code, 1, "{}{}", output.stdout, output.stderr);
}
