//! A test client that writes given bytes and returns the bytes that come back.
//!
//! Every wait has a timeout, so that a test fails instead of hanging.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use mendline_wire::{SseDecoder, SseEvent};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of every wait.
pub const TIMEOUT: Duration = Duration::from_secs(10);

pub const MODERN: &str = "2026-07-28";

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Complete by the rules of HTTP.
    Whole,
    /// A FIN before the end.
    Fin,
    /// A RST.
    Reset,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// 0 if there is no status line.
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub end: End,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The events of the body.
    pub fn events(&self) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(64 << 20);
        decoder.buffer().extend_from_slice(&self.body);
        std::iter::from_fn(|| decoder.next_event()).map(Result::unwrap).collect()
    }

    /// The messages of the body, as JSON or as events.
    pub fn messages(&self) -> Vec<Value> {
        if self.header("content-type") == Some("text/event-stream") {
            let data = self.events().into_iter().filter_map(|event| event.data).filter(|data| !data.is_empty());
            return data.map(|data| serde_json::from_slice(&data).unwrap()).collect();
        }
        vec![serde_json::from_slice(&self.body).unwrap()]
    }

    /// The last message of the body.
    pub fn answer(&self) -> Value {
        self.messages().pop().unwrap()
    }

    /// The text of the tool's result.
    pub fn tool_text(&self) -> String {
        self.answer()["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    /// The bytes of the current body that are missing; `None` for a chunked body.
    left: Option<usize>,
}

impl Connection {
    pub async fn dial(address: SocketAddr) -> Connection {
        let stream = timeout(TIMEOUT, TcpStream::connect(address)).await.unwrap().unwrap();
        Connection { stream, buffer: BytesMut::new(), left: Some(0) }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        timeout(TIMEOUT, self.stream.write_all(bytes)).await.unwrap().unwrap();
    }

    /// Sends a request and reads the head of the response.
    pub async fn send_request(&mut self, request: &str) -> Result<Reply, End> {
        self.write(request.as_bytes()).await;
        self.head().await
    }

    /// Reads the head of a response.
    pub async fn head(&mut self) -> Result<Reply, End> {
        let text = self.until(b"\r\n\r\n").await?;
        let text = String::from_utf8(text.to_vec()).unwrap();
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let reply = Reply { status, headers: lines.filter_map(pair).collect(), body: Vec::new(), end: End::Whole };
        let is_chunked = reply.header("transfer-encoding") == Some("chunked");
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        self.left = (!is_chunked).then_some(length);
        Ok(reply)
    }

    /// The next piece of the body; empty at the end.
    pub async fn piece(&mut self) -> Result<Vec<u8>, End> {
        let Some(left) = self.left else { return self.chunk().await };
        if left > 0 && self.buffer.is_empty() {
            self.fill().await?;
        }
        let piece = self.buffer.split_to(left.min(self.buffer.len()));
        self.left = Some(left - piece.len());
        Ok(piece.to_vec())
    }

    async fn chunk(&mut self) -> Result<Vec<u8>, End> {
        let head = self.until(b"\r\n").await?;
        let length = usize::from_str_radix(std::str::from_utf8(&head).unwrap().trim(), 16).unwrap();
        while self.buffer.len() < length + 2 {
            if let Err(end) = self.fill().await {
                // The bytes of an incomplete chunk are returned.
                return if self.buffer.is_empty() { Err(end) } else { Ok(self.buffer.split().to_vec()) };
            }
        }
        let piece = self.buffer.split_to(length).to_vec();
        let _ = self.buffer.split_to(2);
        if length == 0 {
            self.left = Some(0);
        }
        Ok(piece)
    }

    /// Reads the rest of a response until it ends or breaks.
    pub async fn rest(&mut self, mut reply: Reply) -> Reply {
        reply.end = loop {
            match self.piece().await {
                Ok(piece) if piece.is_empty() => break End::Whole,
                Ok(piece) => reply.body.extend(piece),
                Err(end) => break end,
            }
        };
        reply
    }

    /// Reads the body until it holds so many events.
    pub async fn events(&mut self, reply: &mut Reply, count: usize) -> Vec<SseEvent> {
        while reply.events().len() < count {
            let piece = self.piece().await.unwrap();
            assert!(!piece.is_empty(), "the stream ended after {:?}", reply.text());
            reply.body.extend(piece);
        }
        reply.events()
    }

    /// Reads at most so many bytes.
    pub async fn bytes(&mut self, most: usize) -> Result<Vec<u8>, End> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        let length = most.min(self.buffer.len());
        Ok(self.buffer.split_to(length).to_vec())
    }

    /// Returns how the connection ends; panics if more bytes come.
    pub async fn end(&mut self) -> End {
        self.fill().await.expect_err("unexpected bytes")
    }

    /// Returns whether nothing arrives for this long.
    pub async fn is_silent(&mut self, time: Duration) -> bool {
        timeout(time, self.stream.read_buf(&mut self.buffer)).await.is_err()
    }

    /// Sends a FIN.
    pub async fn shutdown(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    async fn until(&mut self, mark: &[u8]) -> Result<BytesMut, End> {
        loop {
            if let Some(at) = self.buffer.windows(mark.len()).position(|window| window == mark) {
                return Ok(self.buffer.split_to(at + mark.len()));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), End> {
        match timeout(TIMEOUT, self.stream.read_buf(&mut self.buffer)).await.expect("no bytes before the timeout") {
            Ok(1..) => Ok(()),
            Ok(0) => Err(End::Fin),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(End::Reset),
            Err(error) => panic!("{error}"),
        }
    }
}

/// An MCP client of either era.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub path: String,
    pub is_modern: bool,
    pub session: Option<String>,
}

impl Client {
    pub fn modern(address: SocketAddr) -> Client {
        Client { address, path: "/mcp".to_owned(), is_modern: true, session: None }
    }

    /// A legacy client with an initialized session.
    pub async fn legacy(address: SocketAddr) -> Client {
        let mut client = Client { address, path: "/mcp".to_owned(), is_modern: false, session: None };
        let reply = client.send(&initialize()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        client.session = reply.header("mcp-session-id").map(str::to_owned);
        client
    }

    /// One exchange on a new connection.
    pub async fn send(&self, message: &Value) -> Reply {
        self.exchange(&self.post(message)).await
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, key: &str) -> Reply {
        self.send(&call(7, tool, &json!({ "key": key }))).await
    }

    /// Resumes a stream.
    pub async fn resume(&self, last: &str) -> Reply {
        self.exchange(&self.get(Some(last))).await
    }

    pub async fn exchange(&self, request: &str) -> Reply {
        let mut connection = Connection::dial(self.address).await;
        match connection.send_request(request).await {
            Ok(reply) => connection.rest(reply).await,
            Err(end) => Reply { status: 0, headers: Vec::new(), body: Vec::new(), end },
        }
    }

    /// The text of a POST.
    pub fn post(&self, message: &Value) -> String {
        let mut message = message.clone();
        let mut headers = String::new();
        if self.is_modern {
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            let method = message["method"].as_str().unwrap_or_default();
            headers += &format!("MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n");
            if let Some(name) = message["params"]["name"].as_str().or(message["params"]["uri"].as_str()) {
                headers += &format!("Mcp-Name: {name}\r\n");
            }
        }
        self.post_text(&headers, &message.to_string())
    }

    /// The text of a POST with exactly these headers and this body.
    pub fn post_text(&self, headers: &str, body: &str) -> String {
        let session = self.session.as_ref().map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n{session}{headers}Content-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        )
    }

    /// The text of a GET.
    pub fn get(&self, last: Option<&str>) -> String {
        let session = self.session.as_ref().map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
        let last = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{session}{last}\r\n",
            self.path, self.address
        )
    }

    /// The text of a DELETE.
    pub fn delete(&self) -> String {
        let session = self.session.as_ref().map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
        format!("DELETE {} HTTP/1.1\r\nHost: {}\r\n{session}\r\n", self.path, self.address)
    }
}

pub fn initialize() -> Value {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

pub fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "t" } }))
}
