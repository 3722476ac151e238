//! Peers of the driver in memory: children, and servers over HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use mendline::decisions::port::SpawnError;
use mendline::decisions::{Event, LinkId, UpstreamId};
use mendline::transport::http::{Http, Target};
use mendline::{Host, Observer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc::UnboundedSender;

use super::child::{ExitSlot, FakeChild};
use super::dialer::MemoryDialer;

/// The default capacity of a stream.
pub(crate) const CAPACITY: usize = 64 * 1024;

/// The program side of a child.
pub(crate) struct FakeServer {
    pub(crate) link: LinkId,
    pub(crate) stdin: BufReader<DuplexStream>,
    pub(crate) stdout: Option<DuplexStream>,
    pub(crate) stderr: DuplexStream,
    pub(crate) exit_slot: ExitSlot,
}

impl FakeServer {
    pub(crate) async fn recv(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.stdin.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Reads messages until the end of stdin.
    pub(crate) async fn stdin_ended(&mut self) {
        self.stdin.read_to_end(&mut Vec::new()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, line: &str) {
        self.stdout.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &serde_json::Value, result: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"])).await;
    }
}

/// Creates children whose stdin has these capacities, and sends their program side to the test. Dials connections in
/// memory.
pub(crate) struct Stage {
    pub(crate) stdin_capacities: VecDeque<usize>,
    pub(crate) programs: UnboundedSender<FakeServer>,
    /// The dialers of upstreams that have a URL.
    pub(crate) dialers: BTreeMap<UpstreamId, MemoryDialer>,
}

impl Host for Stage {
    type Child = FakeChild<DuplexStream>;
    type Dial = MemoryDialer;

    fn remote(&mut self, upstream: UpstreamId) -> Option<Http<MemoryDialer>> {
        let dialer = self.dialers.remove(&upstream)?;
        Some(Http::new(Target::parse("http://server.test/mcp").unwrap(), dialer))
    }

    fn spawn(&mut self, link: LinkId) -> Result<FakeChild<DuplexStream>, SpawnError> {
        let (stdin, program_stdin) = tokio::io::duplex(self.stdin_capacities.pop_front().unwrap_or(CAPACITY));
        let (stdout, program_stdout) = tokio::io::duplex(CAPACITY);
        let (stderr, program_stderr) = tokio::io::duplex(CAPACITY);
        let exit_slot = ExitSlot::default();
        let program = FakeServer {
            link,
            stdin: BufReader::new(program_stdin),
            stdout: Some(program_stdout),
            stderr: program_stderr,
            exit_slot: exit_slot.clone(),
        };
        let over = |_| SpawnError::Other { command: "notes-server".to_owned(), error: "the test is over".to_owned() };
        self.programs.send(program).map_err(over)?;
        Ok(FakeChild::new((stdin, stdout, stderr), exit_slot))
    }
}

#[derive(Clone, Default)]
pub(crate) struct EventLog(pub(crate) Arc<Mutex<Vec<String>>>);

impl Observer for EventLog {
    fn on_event(&mut self, event: &Event, _: mendline::driver::At) {
        self.0.lock().unwrap().push(event.to_string());
    }

    fn on_stderr(&mut self, _: UpstreamId, line: &[u8]) {
        self.0.lock().unwrap().push(format!("stderr {}", String::from_utf8_lossy(line)));
    }
}

/// The methods that an HTTP server in memory has received.
#[derive(Clone, Default)]
pub(crate) struct HttpLog(pub(crate) Arc<Mutex<Vec<String>>>);

/// Starts an HTTP server in memory, which answers a call with its own name.
pub(crate) fn http_server(name: &'static str) -> (MemoryDialer, HttpLog) {
    let (dialer, mut connections) = MemoryDialer::new(CAPACITY);
    let log = HttpLog::default();
    let seen = log.clone();
    tokio::spawn(async move {
        while let Some(connection) = connections.recv().await {
            tokio::spawn(serve_http(connection, name, seen.clone()));
        }
    });
    (dialer, log)
}

async fn serve_http(io: DuplexStream, name: &str, log: HttpLog) {
    let mut io = BufReader::new(io);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            if io.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        for line in head.lines() {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        io.read_exact(&mut body).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        log.0.lock().unwrap().push(method.to_owned());
        let result = match method {
            "initialize" => initialize_result(name),
            "tools/list" => json!({ "tools": [] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": name }] }),
            _ => json!({}),
        };
        let (status, body) = match (head.starts_with("POST"), message.get("id")) {
            (true, Some(id)) => ("200 OK", json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()),
            (true, None) => ("202 Accepted", String::new()),
            (false, _) => ("405 Method Not Allowed", String::new()),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
        if io.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The result of a handshake with a server of this name.
pub(crate) fn initialize_result(name: &str) -> Value {
    let info = json!({ "name": name, "version": "1" });
    json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info })
}
