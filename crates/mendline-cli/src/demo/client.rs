//! A plain MCP client without recovery: it sends, waits and gives up.
//!
//! It uses a process over stdin and stdout, or a URL. Both sides of the demo use it, so that only Mendline makes a
//! difference. Like most clients, it initializes a session once and never again.

mod http;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use http::HttpConnection;
use serde_json::{Value, json};

use super::stop::{self, POLL_INTERVAL};

/// Time limit for the start and the handshake of a server, generous for slow machines.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a process to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Answered.
    Answered,
    /// Answered with an error that says that the call may have run.
    MayHaveRun,
    /// Answered with any other error.
    Failed,
    /// Not answered, and no answer can come any more.
    Lost,
    /// Not answered within the timeout.
    Hung,
}

/// Server of a client.
pub(super) enum Target {
    Process(Command),
    Url(String),
}

/// A client and its connection.
pub(super) struct Client {
    connection: Connection,
    timeout: Duration,
    last_id: u64,
    last_text: String,
}

enum Connection {
    Pipe(Pipe),
    Http(HttpConnection),
}

impl Client {
    /// Starts the process or connects to the URL, and initializes the session. `timeout` applies to each later answer.
    pub(super) fn start(target: Target, timeout: Duration) -> std::io::Result<Client> {
        let connection = match target {
            Target::Process(command) => Connection::Pipe(Pipe::start(command)?),
            Target::Url(url) => Connection::Http(HttpConnection::new(&url)?),
        };
        let mut client = Client { connection, timeout: HANDSHAKE_TIMEOUT, last_id: 0, last_text: String::new() };
        if !client.handshake() {
            return Err(std::io::Error::other("the server did not answer the handshake"));
        }
        client.timeout = timeout;
        Ok(client)
    }

    fn handshake(&mut self) -> bool {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "mendline-demo", "version": env!("CARGO_PKG_VERSION") },
        });
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        if self.request("initialize", &params).is_err() {
            return false;
        }
        let is_noted = match &mut self.connection {
            Connection::Pipe(pipe) => pipe.send(&note),
            Connection::Http(http) => http.send(&note, self.timeout).is_ok(),
        };
        // Clients request the list first; it also tells Mendline which tools only read.
        is_noted && self.request("tools/list", &json!({})).is_ok()
    }

    /// Calls a tool.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let answer = match self.request("tools/call", &json!({ "name": tool, "arguments": arguments })) {
            Ok(answer) => answer,
            Err(reply) => return reply,
        };
        let result = &answer["result"];
        self.last_text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        let outcome = result["_meta"]["dev.mendline/failure"]["outcome"].as_str();
        match (result["isError"].as_bool(), outcome) {
            (Some(true), Some("unknown")) => Reply::MayHaveRun,
            (Some(true), _) => Reply::Failed,
            _ if result.is_object() => Reply::Answered,
            _ => Reply::Failed,
        }
    }

    /// Returns the text of the last answer, as a model reads it.
    pub(super) fn last_text(&self) -> &str {
        &self.last_text
    }

    /// Returns the answer, or the outcome without one.
    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Reply> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        match &mut self.connection {
            Connection::Pipe(pipe) => {
                if !pipe.send(&request) {
                    return Err(Reply::Lost);
                }
                pipe.answer(id, self.timeout)
            }
            Connection::Http(http) => http.send(&request, self.timeout),
        }
    }

    /// Closes the connection.
    pub(super) fn finish(self) {
        if let Connection::Pipe(pipe) = self.connection {
            pipe.finish();
        }
    }
}

/// A process, line by line.
struct Pipe {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Pipe {
    fn start(mut command: Command) -> std::io::Result<Pipe> {
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
        Ok(Pipe { process, stdin, lines })
    }

    fn send(&mut self, message: &Value) -> bool {
        let line = format!("{message}\n");
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(line.as_bytes()).is_ok())
    }

    fn answer(&self, id: u64, timeout: Duration) -> Result<Value, Reply> {
        let deadline = Instant::now() + timeout;
        while !stop::is_wanted() {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left.min(POLL_INTERVAL)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(Reply::Hung),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let message: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
        Err(Reply::Lost)
    }

    /// Closes stdin and waits for the process to exit.
    fn finish(mut self) {
        self.stdin = None;
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
