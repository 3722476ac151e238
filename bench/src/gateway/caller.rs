//! A client with a connection and any number of sessions.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpStream};

use crate::http::message::Message;
use crate::http::write_both;

/// The handshake of every session.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub(super) const ECHO: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello there"}}}"#;
pub(super) const LIST: &str = r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#;

/// One connection to a gateway, with one exchange at a time.
pub(super) struct Caller {
    stream: TcpStream,
    response: Message,
    path: String,
    /// Reused for its capacity.
    head: Vec<u8>,
}

impl Caller {
    /// Connects. `path` is that of the server.
    pub(super) fn connect(port: u16, path: &str) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, response: Message::new(), path: path.to_owned(), head: Vec::new() })
    }

    /// Opens a session and returns its id.
    pub(super) fn open(&mut self) -> io::Result<String> {
        self.send("POST", None, INITIALIZE)?;
        self.receive(b"protocolVersion")?;
        let id = self.response.header(b"mcp-session-id").map(|id| String::from_utf8_lossy(id).into_owned());
        let id = id.ok_or_else(|| io::Error::other("the handshake returned no session"))?;
        self.send("POST", Some(&id), INITIALIZED)?;
        self.receive(b"")?;
        Ok(id)
    }

    /// Calls the smallest tool.
    pub(super) fn echo(&mut self, session: &str) -> io::Result<()> {
        self.send("POST", Some(session), ECHO)?;
        self.receive(b"hello there")
    }

    /// Sends a request.
    pub(super) fn send(&mut self, method: &str, session: Option<&str>, body: &str) -> io::Result<()> {
        self.head.clear();
        write!(
            self.head,
            "{method} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nContent-Length: {}\r\n",
            self.path,
            body.len()
        )?;
        if let Some(session) = session {
            write!(self.head, "Mcp-Session-Id: {session}\r\n")?;
        }
        self.head.extend_from_slice(b"\r\n");
        self.response.clear();
        write_both(&mut self.stream, &self.head, body.as_bytes())
    }

    /// Reads the response, which must succeed and contain these bytes.
    pub(super) fn receive(&mut self, expected: &[u8]) -> io::Result<()> {
        while !self.response.read(&mut self.stream)? {}
        let is_expected = memchr::memmem::find(self.response.body(), expected).is_some();
        if self.response.head().starts_with(b"HTTP/1.1 2") && is_expected {
            return Ok(());
        }
        let head = String::from_utf8_lossy(self.response.head()).lines().next().unwrap_or_default().to_owned();
        Err(io::Error::other(format!("{head}: {}", String::from_utf8_lossy(self.response.body()))))
    }
}
