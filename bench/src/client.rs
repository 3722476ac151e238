//! The client that makes the measured calls.
//!
//! Requests and answers are handled on one thread with one `write` per request, as real clients do. Reads have no
//! timeout, because a timeout would cost a system call per answer; the watchdog of `load` ends a run that hangs.

mod program;

use std::io::{self, Write};

use memchr::memmem;

use crate::http::pool::Pool;
use crate::scan;
use program::Program;

/// The distance from either end of a message within which the members of its envelope are searched.
const ENVELOPE: usize = 256;

/// The peer of the client.
pub(crate) enum Endpoint {
    /// A command that serves MCP on its stdio; never empty.
    Command(Vec<String>),
    /// The upstream itself over HTTP, without a program in the middle.
    Url(String),
}

/// A client with an open connection.
pub(crate) struct Client {
    transport: Transport,
    buffer: Vec<u8>,
    last_id: u64,
}

enum Transport {
    Stdio(Program),
    Http(Pool),
}

impl Client {
    pub(crate) fn start(endpoint: &Endpoint) -> Result<Self, String> {
        let transport = match endpoint {
            Endpoint::Command(command) => {
                Program::start(command).map(Transport::Stdio).map_err(|error| format!("{}: {error}", command[0]))?
            }
            Endpoint::Url(url) => Pool::try_new(url).map(Transport::Http).map_err(|error| error.to_string())?,
        };
        Ok(Self { transport, buffer: Vec::new(), last_id: 0 })
    }

    /// Performs the handshake of the legacy era, which all compared peers support.
    pub(crate) fn handshake(&mut self) -> io::Result<()> {
        self.initialize()?;
        self.transport.send(&mut br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec())
    }

    /// Performs the first half of the handshake, up to the first answer.
    pub(crate) fn initialize(&mut self) -> io::Result<()> {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mendline-bench","version":"1"}}"#;
        self.request("initialize", params)?;
        self.read_expected_answer().map(drop)
    }

    /// Sends a call of about a hundred bytes with an answer of the same size. Returns its id.
    pub(crate) fn call_echo(&mut self) -> io::Result<u64> {
        self.request("tools/call", r#"{"name":"echo","arguments":{"text":"hello there"}}"#)
    }

    /// Sends a call for a result of this size.
    pub(crate) fn call_big(&mut self, bytes: usize) -> io::Result<u64> {
        self.request("tools/call", &format!(r#"{{"name":"big","arguments":{{"bytes":{bytes}}}}}"#))
    }

    /// Reads the next answer and returns its id and size. Anything but a result is an error, because its figure would
    /// be meaningless.
    pub(crate) fn read_answer(&mut self) -> io::Result<(u64, usize)> {
        loop {
            let line = self.transport.next()?;
            // The members of the envelope are before or after the result; searching the whole message would be slow.
            let head = &line[..line.len().min(ENVELOPE)];
            let tail = &line[line.len().saturating_sub(ENVELOPE)..];
            let has = |quoted| memmem::find(head, quoted).is_some();
            if has(b"\"result\"")
                && let Some(id) = scan::number(head, b"\"id\"").or_else(|| scan::number(tail, b"\"id\""))
            {
                return Ok((id, line.len()));
            }
            // Notifications are ignored.
            if !has(b"\"method\"") {
                return Err(io::Error::other(format!("not a result: {}", String::from_utf8_lossy(head))));
            }
        }
    }

    /// Reads the answer to the last request and returns its size. No other request may be in flight.
    pub(crate) fn read_expected_answer(&mut self) -> io::Result<usize> {
        match self.read_answer()? {
            (id, size) if id == self.last_id => Ok(size),
            (id, _) => Err(io::Error::other(format!("answered request {id} instead of {}", self.last_id))),
        }
    }

    /// Ends the connection and waits for the program. A program that does not end is killed.
    pub(crate) fn end(self) -> io::Result<()> {
        match self.transport {
            Transport::Stdio(program) => program.end(),
            Transport::Http(_) => Ok(()),
        }
    }

    /// The last lines that the program wrote to stderr.
    pub(crate) fn stderr_tail(&mut self) -> String {
        match &mut self.transport {
            Transport::Stdio(program) => program.stderr_tail(),
            Transport::Http(_) => String::new(),
        }
    }

    fn request(&mut self, method: &str, params: &str) -> io::Result<u64> {
        self.last_id += 1;
        self.buffer.clear();
        write!(self.buffer, r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, self.last_id)?;
        self.transport.send(&mut self.buffer)?;
        Ok(self.last_id)
    }
}

impl Transport {
    /// Sends a message. The contents of its buffer are undefined afterwards.
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Stdio(program) => program.send(message),
            Self::Http(pool) => pool.post(message),
        }
    }

    /// Returns the next message of the peer.
    fn next(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Stdio(program) => program.next(),
            Self::Http(pool) => loop {
                let number = pool.ready()?;
                if pool.read(number)? {
                    return Ok(pool.body(number));
                }
            },
        }
    }
}
