//! Shared helpers: a transport with its facts as lines of text, and in-memory connections.

use mendline::decisions::reason::ConnectError;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mendline::transport::http::{Dial, Dialed, HostPort, Http, Target};
use mendline_core::Input;
use mendline_core::port::{ExchangeEnd, ExchangeId, HttpRequest, Reuse, Verb};
use mendline_wire::{Received, Spliced};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

pub use super::dialer::MemoryDialer;

pub const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
pub const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// The capacity of a connection in bytes.
pub const CAPACITY: usize = 16 * 1024;

pub fn target(url: &str) -> Target {
    Target::parse(url).unwrap()
}

pub fn post(body: impl Into<String>) -> HttpRequest {
    let body = Spliced::whole(Bytes::from(body.into()));
    HttpRequest { verb: Verb::Post, target: None, headers: Vec::new(), body: Some(body) }
}

pub fn get() -> HttpRequest {
    HttpRequest { verb: Verb::Get, target: None, headers: Vec::new(), body: None }
}

/// A transport and its facts.
pub struct Stage<D: Dial> {
    pub http: Http<D>,
    next: u64,
}

impl<D: Dial> Stage<D> {
    pub fn new(target: Target, dial: D) -> Stage<D> {
        Stage { http: Http::new(target, dial), next: 0 }
    }

    pub fn begin(&mut self, ask: HttpRequest) -> ExchangeId {
        self.begin_with(ask, Reuse::Any)
    }

    pub fn begin_with(&mut self, ask: HttpRequest, reuse: Reuse) -> ExchangeId {
        self.next += 1;
        let id = ExchangeId(self.next);
        self.http.begin(id, ask, reuse);
        id
    }

    /// Returns the next fact.
    pub async fn next(&mut self) -> Input {
        poll_fn(|cx| self.http.poll_input(cx, |_| true)).await
    }

    /// Returns the facts up to the end of `count` exchanges, as lines. How often bytes are reported depends on their
    /// split, so these reports are left out.
    pub async fn facts(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut ends = 0;
        while ends < count {
            let fact = self.next().await;
            ends += usize::from(matches!(fact, Input::End { .. }));
            if !matches!(fact, Input::ResponseBytes { .. }) {
                lines.push(line(&fact));
            }
        }
        lines
    }

    /// Performs one complete exchange.
    pub async fn exchange(&mut self, ask: HttpRequest) -> Vec<String> {
        self.begin(ask);
        self.facts(1).await
    }

    /// Runs the transport beside another future.
    pub async fn during<T>(&mut self, other: impl Future<Output = T>) -> T {
        tokio::select! {
            done = other => done,
            fact = self.next() => panic!("{fact:?} came unasked"),
        }
    }
}

/// Formats a fact as a line, with the number of the exchange unless it is the first.
pub fn line(fact: &Input) -> String {
    let (id, text) = match fact {
        Input::Reached { exchange } => (exchange, "reached".to_owned()),
        Input::ResponseBytes { exchange } => (exchange, "bytes".to_owned()),
        Input::Head { exchange, head } => {
            let mut text = format!("head {} {:?}", head.status, head.content);
            if let Some(session) = &head.session {
                text += &format!(" session={session}");
            }
            if let Some(wait) = head.retry_after_ms {
                text += &format!(" retry-after={wait}ms");
            }
            (exchange, text)
        }
        Input::StreamEvent { exchange, event } => {
            let show = |name: &str, field: &Option<Bytes>| {
                field.as_ref().map_or(String::new(), |field| format!(" {name}={}", String::from_utf8_lossy(field)))
            };
            let data = match &event.received {
                Some(Received::Message(message)) => Some(message.text().clone()),
                Some(Received::Broken { text, .. }) => Some(text.clone()),
                Some(other) => Some(Bytes::from(format!("{other:?}"))),
                None => None,
            };
            (exchange, format!("event{}{}", show("id", &event.id), show("data", &data)))
        }
        Input::Body { exchange, received } => match received {
            Received::Message(message) => (exchange, format!("body {}", String::from_utf8_lossy(message.text()))),
            Received::Broken { text, .. } => (exchange, format!("broken {}", String::from_utf8_lossy(text))),
            other => (exchange, format!("{other:?}")),
        },
        Input::End { exchange, how, written } => (exchange, format!("end {} {written:?}", end_text(how))),
        other => panic!("{other:?} is no fact of an exchange"),
    };
    if id.0 == 1 { text } else { format!("{}: {text}", id.0) }
}

pub fn memory_dialer() -> (MemoryDialer, Servers) {
    let (dialer, servers) = MemoryDialer::new(CAPACITY);
    (dialer, Servers(servers))
}

/// The server sides, in the order of the dials.
pub struct Servers(mpsc::UnboundedReceiver<DuplexStream>);

impl Servers {
    pub async fn next(&mut self) -> Server {
        Server(self.0.recv().await.unwrap())
    }

    /// Returns the number of connections that the test has not taken.
    pub fn unseen(&self) -> usize {
        self.0.len()
    }
}

/// The server side of one connection.
pub struct Server<Io = DuplexStream>(pub Io);

impl<Io: AsyncRead + AsyncWrite + Unpin> Server<Io> {
    /// Reads one request with its body.
    pub async fn request(&mut self) -> String {
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if let Some(end) = text.find("\r\n\r\n") {
                let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if read.len() >= end + 4 + length.unwrap_or(0) {
                    return text;
                }
            }
            let count = self.0.read_buf(&mut read).await.unwrap();
            assert_ne!(count, 0, "the request ends early: {text:?}");
        }
    }

    pub async fn write(&mut self, text: impl AsRef<[u8]>) {
        self.0.write_all(text.as_ref()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Reads one request and answers it with this text.
    pub async fn answer(&mut self, text: impl AsRef<[u8]>) -> String {
        let request = self.request().await;
        self.write(text).await;
        request
    }

    /// Returns true once the other side is closed and all bytes are read.
    pub async fn is_closed(&mut self) -> bool {
        matches!(self.0.read_u8().await, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }
}

/// Returns a JSON response.
pub fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The head of an event stream.
pub const EVENTS_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Returns a chunked response with these events.
pub fn events(events: &[&str]) -> String {
    let mut text =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for event in events {
        text += &format!("{:x}\r\n{event}\r\n", event.len());
    }
    text + "0\r\n\r\n"
}

/// A dialer of connections that break after a number of written bytes.
pub struct BreakingDialer {
    memory_dialer: MemoryDialer,
    limits: Arc<Mutex<Vec<usize>>>,
    pub dials: Arc<AtomicUsize>,
}

impl BreakingDialer {
    /// Each connection takes its number of bytes; further connections take all.
    pub fn new(limits: &[usize]) -> (BreakingDialer, Servers) {
        let (memory_dialer, servers) = memory_dialer();
        let limits = limits.iter().rev().copied().collect();
        (BreakingDialer { memory_dialer, limits: Arc::new(Mutex::new(limits)), dials: Arc::default() }, servers)
    }
}

impl Dial for BreakingDialer {
    type Io = BreakingStream;

    fn dial(
        &self,
        place: &HostPort,
        patience: Duration,
    ) -> impl Future<Output = Result<Dialed<BreakingStream>, ConnectError>> + Send + 'static {
        let left = self.limits.lock().unwrap().pop().unwrap_or(usize::MAX);
        self.dials.fetch_add(1, Ordering::Relaxed);
        let dialed = self.memory_dialer.dial(place, patience);
        async move {
            let Dialed { io, .. } = dialed.await?;
            Ok(Dialed { io: BreakingStream { io, left, broken: false }, looks_open: None })
        }
    }
}

/// A connection that the peer resets: after its number of bytes, writes and reads fail.
pub struct BreakingStream {
    io: DuplexStream,
    left: usize,
    broken: bool,
}

impl AsyncRead for BreakingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for BreakingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.left == 0 {
            self.broken = true;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let most = buf.len().min(self.left);
        let written = Pin::new(&mut self.io).poll_write(cx, &buf[..most]);
        if let Poll::Ready(Ok(count)) = written {
            self.left -= count;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<D: Dial> Stage<D> {
    /// Returns the next connection, once an exchange has reached it.
    pub async fn next_server(&mut self, servers: &mut Servers) -> Server {
        let reached = async {
            let fact = line(&self.next().await);
            assert!(fact.ends_with("reached"), "{fact}");
        };
        let ((), server) = tokio::join!(reached, servers.next());
        // The bytes are written when the connection is polled next. A fact before the answer is an error.
        let settle = tokio::time::sleep(Duration::from_millis(1));
        self.during(settle).await;
        server
    }
}

/// Returns an end with the text of its reason.
fn end_text(how: &ExchangeEnd) -> String {
    match how {
        ExchangeEnd::NoConnection(why) => format!("NoConnection({:?})", why.to_string()),
        ExchangeEnd::Cut(why) => format!("Cut({:?})", why.to_string()),
        ExchangeEnd::Forbidden(why) => format!("Forbidden({:?})", why.to_string()),
        other => format!("{other:?}"),
    }
}
