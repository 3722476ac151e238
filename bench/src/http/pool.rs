//! The client side: persistent connections, as many as there are concurrent exchanges.
//!
//! The connection that became free last is used first, so that sequential calls use only one. The first session id that
//! a response carries is sent with all later requests.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use super::message::Message;
use super::{Poller, write_both};

pub(crate) struct Pool {
    poller: Poller,
    /// `host:port`.
    authority: String,
    /// The head of a request up to the value of `Content-Length`.
    head: Vec<u8>,
    has_session: bool,
    connections: Vec<Connection>,
    free: Vec<usize>,
    /// Reused for its capacity.
    whole_head: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    response: Message,
}

impl Pool {
    /// Connections are dialed when they are needed.
    pub(crate) fn try_new(url: &str) -> io::Result<Self> {
        let (authority, path) = super::address(url)?;
        let head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nContent-Length: "
        );
        Ok(Self {
            poller: Poller::new()?,
            authority: authority.to_owned(),
            head: head.into_bytes(),
            has_session: false,
            connections: Vec::new(),
            free: Vec::new(),
            whole_head: Vec::new(),
        })
    }

    /// Watches another descriptor. `number` must be larger than any number of connections.
    pub(crate) fn watch(&mut self, what: impl AsFd, number: usize) -> io::Result<()> {
        Ok(self.poller.add(what, number)?)
    }

    pub(crate) fn unwatch(&mut self, what: impl AsFd) -> io::Result<()> {
        Ok(self.poller.remove(what)?)
    }

    /// Returns whether an exchange is open.
    pub(crate) fn is_busy(&self) -> bool {
        self.free.len() < self.connections.len()
    }

    /// Starts an exchange.
    pub(crate) fn post(&mut self, body: &[u8]) -> io::Result<()> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => self.dial()?,
        };
        self.whole_head.clear();
        self.whole_head.extend_from_slice(&self.head);
        write!(self.whole_head, "{}\r\n\r\n", body.len())?;
        let Connection { stream, response } = &mut self.connections[number];
        response.clear();
        write_both(stream, &self.whole_head, body)
    }

    /// Returns the number of the next readable connection or other descriptor.
    pub(crate) fn ready(&mut self) -> io::Result<usize> {
        loop {
            match self.poller.next_ready() {
                Some(number) => return Ok(number),
                None => self.poller.wait()?,
            }
        }
    }

    /// Returns the same without waiting.
    pub(crate) fn ready_already(&mut self) -> Option<usize> {
        self.poller.next_ready()
    }

    /// Reads a connection once. Returns true when that completed an exchange with a body. The body is valid until the
    /// next `post`.
    pub(crate) fn read(&mut self, number: usize) -> io::Result<bool> {
        let Connection { stream, response } = &mut self.connections[number];
        match response.read(stream) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            // Servers close connections that are idle for some seconds; no exchange is lost with them.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.free.contains(&number) => {
                self.poller.remove(&*stream)?;
                self.free.retain(|free| *free != number);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        if !response.head().starts_with(b"HTTP/1.1 2") {
            let head = String::from_utf8_lossy(response.head());
            return Err(io::Error::other(head.lines().next().unwrap_or_default().to_owned()));
        }
        if !self.has_session
            && let Some(session) = response.header(b"mcp-session-id")
        {
            let length = b"Content-Length: ".len();
            self.head.truncate(self.head.len() - length);
            self.head.extend_from_slice(b"Mcp-Session-Id: ");
            self.head.extend_from_slice(session);
            self.head.extend_from_slice(b"\r\nContent-Length: ");
            self.has_session = true;
        }
        self.free.push(number);
        Ok(!response.body().is_empty())
    }

    pub(crate) fn body(&self, number: usize) -> &[u8] {
        self.connections[number].response.body()
    }

    pub(crate) fn body_as_line(&mut self, number: usize) -> &[u8] {
        self.connections[number].response.body_as_line()
    }

    fn dial(&mut self) -> io::Result<usize> {
        let stream = TcpStream::connect(&self.authority)?;
        // A small request must not wait for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        let number = self.connections.len();
        self.poller.add(&stream, number)?;
        self.connections.push(Connection { stream, response: Message::new() });
        Ok(number)
    }
}
