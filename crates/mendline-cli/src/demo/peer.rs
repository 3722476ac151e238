//! A plain MCP client over a process's stdin and stdout, as simple as one can be: it asks, waits, and gives up.
//!
//! Both sides of the demonstration use this one, so that nothing but Mendline can make the difference.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the client waits for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an ended process may take to go.
const FAREWELL: Duration = Duration::from_secs(6);

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It was answered.
    Answered,
    /// The client was told that it may have run.
    MayHaveRun,
    /// The client was told that it failed, in any other way.
    Failed,
    /// No answer came, and none will.
    Lost,
}

/// A client and the process that it talks to.
pub(super) struct Peer {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    last_id: u64,
}

impl Peer {
    /// Starts the process and greets it.
    pub(super) fn start(mut command: Command) -> std::io::Result<Peer> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = process.stdin.take();
        let (sender, lines) = channel();
        if let Some(stdout) = process.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut peer = Peer { process, stdin, lines, last_id: 0 };
        peer.greet()?;
        Ok(peer)
    }

    fn greet(&mut self) -> std::io::Result<()> {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "mendline-demo", "version": env!("CARGO_PKG_VERSION") },
        });
        // The list is what a client asks for first; it also tells whoever listens which tools only read.
        let greeted = self.request("initialize", &hello).is_some()
            && self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            && self.request("tools/list", &json!({})).is_some();
        if greeted { Ok(()) } else { Err(std::io::Error::other("the server did not answer the greeting")) }
    }

    /// Calls a tool.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let Some(answer) = self.request("tools/call", &json!({ "name": tool, "arguments": arguments })) else {
            return Reply::Lost;
        };
        let result = &answer["result"];
        let outcome = result["_meta"]["dev.mendline/failure"]["outcome"].as_str();
        match (result["isError"].as_bool(), outcome) {
            (Some(true), Some("unknown")) => Reply::MayHaveRun,
            (Some(true), _) => Reply::Failed,
            _ if result.is_object() => Reply::Answered,
            _ => Reply::Failed,
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.last_id += 1;
        let id = self.last_id;
        if !self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })) {
            return None;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
            let message: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
            if message["id"] == id && message.get("method").is_none() {
                return Some(message);
            }
        }
    }

    fn send(&mut self, message: &Value) -> bool {
        let line = format!("{message}\n");
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(line.as_bytes()).is_ok())
    }

    /// Closes its stdin and waits for it to go.
    pub(super) fn finish(mut self) {
        self.stdin = None;
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
