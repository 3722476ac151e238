//! Peers of the driver in memory: children, and servers over HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use mendline::decisions::port::{ConnectError, Exit, Signal, SpawnError};
use mendline::decisions::{Event, LinkId, UpstreamId};
use mendline::transport::http::{Dial, Dialed, HostPort, Http, Target};
use mendline::{Child, Drained, Host, Observer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadBuf};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

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

/// The exit status of a child, once it has exited.
#[derive(Clone, Default)]
pub(crate) struct ExitSlot(Arc<Mutex<(Option<Exit>, Option<Waker>)>>);

impl ExitSlot {
    pub(crate) fn set(&self, exit: Exit) {
        let mut exit_slot = self.0.lock().unwrap();
        exit_slot.0.get_or_insert(exit);
        if let Some(waker) = exit_slot.1.take() {
            waker.wake();
        }
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

pub(crate) struct FakeChild {
    pipes: Option<(DuplexStream, DuplexStream, DuplexStream)>,
    exit_slot: ExitSlot,
}

impl Host for Stage {
    type Child = FakeChild;
    type Dial = MemoryDialer;

    fn remote(&mut self, upstream: UpstreamId) -> Option<Http<MemoryDialer>> {
        let dialer = self.dialers.remove(&upstream)?;
        Some(Http::new(Target::parse("http://server.test/mcp").unwrap(), dialer))
    }

    fn spawn(&mut self, link: LinkId) -> Result<FakeChild, SpawnError> {
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
        Ok(FakeChild { pipes: Some((stdin, stdout, stderr)), exit_slot })
    }
}

impl Child for FakeChild {
    type Stdin = DuplexStream;
    type Stdout = DuplexStream;
    type Stderr = DuplexStream;

    fn pid(&self) -> u32 {
        4711
    }

    fn pipes(&mut self) -> Option<(DuplexStream, DuplexStream, DuplexStream)> {
        self.pipes.take()
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut exit_slot = self.exit_slot.0.lock().unwrap();
        if exit_slot.0.is_some() {
            return Poll::Ready(());
        }
        exit_slot.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    fn signal(&mut self, signal: Signal) {
        self.exit_slot.set(match signal {
            Signal::Term => Exit::Signal(15),
            Signal::Kill => Exit::Signal(9),
        });
    }

    fn reap(&mut self) -> Exit {
        self.exit_slot.0.lock().unwrap().0.expect("reaped before it exited")
    }

    fn unread(&self, _: &DuplexStream) -> u64 {
        0
    }

    fn drain_stdout(&self, stdout: &mut DuplexStream, into: &mut BytesMut) -> Drained {
        drain(stdout, into)
    }

    fn drain_stderr(&self, stderr: &mut DuplexStream, into: &mut BytesMut) -> Drained {
        drain(stderr, into)
    }
}

fn drain(stream: &mut DuplexStream, into: &mut BytesMut) -> Drained {
    let mut space = vec![0; CAPACITY];
    let mut buffer = ReadBuf::new(&mut space);
    let read = Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
    match (read, buffer.filled().len()) {
        (Poll::Ready(Ok(())), count) if count > 0 => {
            into.extend_from_slice(buffer.filled());
            Drained::Bytes(count)
        }
        _ => Drained::Nothing,
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

/// A dialer of connections in memory. It sends the server side of each to its server.
pub(crate) struct MemoryDialer(pub(crate) UnboundedSender<DuplexStream>);

impl Dial for MemoryDialer {
    type Io = DuplexStream;

    fn dial(
        &self,
        _: &HostPort,
        _: Duration,
    ) -> impl Future<Output = Result<Dialed<DuplexStream>, ConnectError>> + Send + 'static {
        let (near, far) = tokio::io::duplex(CAPACITY);
        let error = || ConnectError::Other { target: "server.test:80".to_owned(), error: "it has ended".to_owned() };
        let sent = self.0.send(far).map_err(|_| error());
        async move { sent.map(|()| Dialed { io: near, looks_open: None }) }
    }
}

/// The methods that an HTTP server in memory has received.
#[derive(Clone, Default)]
pub(crate) struct HttpLog(pub(crate) Arc<Mutex<Vec<String>>>);

/// Starts an HTTP server in memory, which answers a call with its own name.
pub(crate) fn http_server(name: &'static str) -> (MemoryDialer, HttpLog) {
    let (dialer, mut connections) = unbounded_channel();
    let log = HttpLog::default();
    let seen = log.clone();
    tokio::spawn(async move {
        while let Some(connection) = connections.recv().await {
            tokio::spawn(serve_http(connection, name, seen.clone()));
        }
    });
    (MemoryDialer(dialer), log)
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
