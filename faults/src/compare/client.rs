//! A client on stdio that makes calls at fixed times and collects the answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};

/// The time that the client waits after its last call.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that a bridge has for its start and its handshake. Some load an interpreter first.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A client and its bridge.
pub(super) struct Client {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: UnboundedReceiver<String>,
    answers: BTreeMap<u64, Value>,
}

impl Client {
    pub(super) fn start(mut command: Command) -> std::io::Result<Client> {
        let mut process = command.spawn()?;
        let stdin = process.stdin.take();
        let (sender, lines) = unbounded_channel();
        if let Some(stdout) = process.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Client { process, stdin, lines, answers: BTreeMap::new() })
    }

    /// Initializes the session and lists the tools, as every client does.
    pub(super) async fn initialize(&mut self) -> std::io::Result<()> {
        let client_info = json!({ "name": "compare", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info });
        self.request(0, "initialize", &params);
        self.collect_answers(Instant::now() + START_TIMEOUT, 1).await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self.request(1_000_000, "tools/list", &json!({}));
        self.collect_answers(Instant::now() + START_TIMEOUT, 2).await;
        let is_ready = self.answers.len() == 2 && self.answers.values().all(|answer| answer.get("result").is_some());
        self.answers.clear();
        if is_ready { Ok(()) } else { Err(std::io::Error::other("the bridge did not complete the handshake")) }
    }

    pub(super) fn request(&mut self, id: u64, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    fn send(&mut self, message: &Value) {
        // A bridge that has ended cannot be written to; its missing answers are counted.
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{message}\n").as_bytes());
        }
    }

    /// Collects answers until this time, until there are `enough`, or until the bridge closes its stdout.
    pub(super) async fn collect_answers(&mut self, until: Instant, enough: usize) {
        while self.answers.len() < enough {
            let line = match timeout_at(until, self.lines.recv()).await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    // No more answers can come, but the next call must not be made earlier.
                    if enough == usize::MAX {
                        tokio::time::sleep_until(until).await;
                    }
                    return;
                }
                Err(_) => return,
            };
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
                self.answers.entry(id).or_insert(message);
            }
        }
    }

    /// The answers so far, by id.
    pub(super) fn answers(&self) -> &BTreeMap<u64, Value> {
        &self.answers
    }

    /// Returns whether the bridge has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A working bridge and its children end when its stdin ends.
        self.stdin = None;
        for _ in 0..100 {
            if self.has_ended() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
