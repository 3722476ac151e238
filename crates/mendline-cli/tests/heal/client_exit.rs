//! Clients that exit during a call or use a request id twice.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mendline_faults::Answers;
use serde_json::{Value, json};

use crate::client::{MENDLINE, SOON, eventually};
use crate::site::{Site, event_answers, modern};
use crate::support::Bridge;

/// A client with direct access to its pipes, so that no other thread holds them open when it closes them.
struct PipeClient {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl PipeClient {
    fn before(url: &str) -> PipeClient {
        let mut command = Command::new(MENDLINE);
        command
            .args(["run", "--log-level", "off", "--no-log-files", "--no-catalogue", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        PipeClient { process, stdin, stdout }
    }

    fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn recv(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Closes both pipes at once, like the exit of a process.
    fn close(self) -> Child {
        self.process
    }
}

fn ends(mut process: Child, within: Duration) {
    eventually("Mendline ends", within, || process.try_wait().unwrap().is_some());
}

#[test]
fn c86_legacy_call_continues_after_client_exit() {
    let site = Site::start(event_answers());
    let mut client = PipeClient::before(&site.url());
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    assert_eq!(client.recv()["id"], 1);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let params = json!({ "name": "create_note", "arguments": { "key": "k", "delayMs": 1000 } });
    client.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    ends(client.close(), 3 * SOON);
    let counts = site.counts();
    let cancelled = (counts.cancellations, counts.messages_of("notifications/cancelled"));
    assert_eq!(cancelled, (0, 0), "a dropped connection is no cancellation in this era");
}

#[test]
fn c86_modern_call_is_cancelled_after_client_exit() {
    let site = Site::start(modern(Answers::Events));
    let mut client = PipeClient::before(&site.url());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "create_note", "arguments": { "key": "k", "delayMs": 60_000 }, "_meta": meta });
    client.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    let process = client.close();
    // The end of stdin does not mean that stdout is closed, and Mendline writes nothing. It checks stdout once per
    // second.
    site.until("its response is closed", |counts| counts.cancellations == 1);
    ends(process, SOON);
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn c86_legacy_cancellation_just_before_eof_reaches_server() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "create_note", &json!({ "key": "k", "delayMs": 60_000 }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "a" } });
    client.stdin.take().unwrap().write_all(format!("{cancelled}\n").as_bytes()).unwrap();
    assert_eq!(client.exit_code(SOON), Some(0));
    let counts = site.counts();
    assert_eq!((counts.messages_of("notifications/cancelled"), counts.sessions_deleted), (1, 1));
}

#[test]
fn c88_duplicate_request_id_gets_two_answers() {
    let mut bridge = Bridge::around(&[]);
    for (key, delay) in [("a", 300), ("b", 100)] {
        bridge.call("same", "create_note", &json!({ "key": key, "delayMs": delay }));
    }
    let mut texts: Vec<Value> = Vec::new();
    for _ in 0..2 {
        texts.push(bridge.answer("same")["result"]["content"][0]["text"].clone());
    }
    texts.sort_by_key(Value::to_string);
    assert_eq!(texts, ["wrote a", "wrote b"]);
    assert_eq!((bridge.executions("create_note", "a"), bridge.executions("create_note", "b")), (1, 1));
    bridge.stdin = None;
    assert_eq!(bridge.rest(), Vec::<String>::new(), "and no third one");
}
