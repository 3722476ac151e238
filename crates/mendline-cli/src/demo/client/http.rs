//! The HTTP connection of the plain client: one TCP connection per request, one session, no retries.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Reply;
use crate::demo::stop::{self, POLL_INTERVAL};

/// A server at a URL.
pub(super) struct HttpConnection {
    address: SocketAddr,
    session: Option<String>,
}

impl HttpConnection {
    /// Parses a URL like `http://127.0.0.1:4711/mcp`.
    pub(super) fn new(url: &str) -> Result<HttpConnection> {
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")?.parse().ok());
        let address = address.ok_or_else(|| Error::other(format!("not a URL of the demo server: {url}")))?;
        Ok(HttpConnection { address, session: None })
    }

    /// Posts a message and returns the answer, or the outcome without one. A notification has no answer.
    pub(super) fn send(&mut self, message: &Value, timeout: Duration) -> std::result::Result<Value, Reply> {
        let deadline = Instant::now() + timeout;
        let wire = match self.exchange(message, deadline) {
            Ok(wire) => wire,
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(Reply::Hung),
            Err(_) => return Err(Reply::Lost),
        };
        let (head, body) = wire.split_once("\r\n\r\n").ok_or(Reply::Lost)?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            return Err(Reply::Failed);
        }
        let header = |name: &str| head.lines().find_map(|line| value_of(line, name));
        if let Some(session) = header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        if message.get("id").is_none() {
            return Ok(Value::Null);
        }
        let is_chunked = header("transfer-encoding").is_some();
        let body = if is_chunked { joined(body).ok_or(Reply::Lost)? } else { body.to_owned() };
        let is_stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let text = if is_stream {
            body.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| !data.is_empty()).unwrap_or_default()
        } else {
            &body
        };
        serde_json::from_str(text).map_err(|_| Reply::Lost)
    }

    /// Reads everything until the connection closes.
    fn exchange(&self, message: &Value, deadline: Instant) -> Result<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut connection = TcpStream::connect_timeout(&self.address, left)?;
        connection.set_read_timeout(Some(POLL_INTERVAL))?;
        let (host, body) = (self.address, message.to_string());
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(request.as_bytes())?;
        let (mut wire, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match connection.read(&mut buffer) {
                Ok(0) => return String::from_utf8(wire).map_err(Error::other),
                Ok(count) => wire.extend_from_slice(&buffer[..count]),
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(error);
                }
                Err(_) if Instant::now() >= deadline => return Err(ErrorKind::TimedOut.into()),
                Err(_) if stop::is_wanted() => return Err(ErrorKind::ConnectionAborted.into()),
                Err(_) => {}
            }
        }
    }
}

fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (its_name, value) = line.split_once(':')?;
    its_name.eq_ignore_ascii_case(name).then(|| value.trim())
}

/// Joins the chunks of a body; `None` if the last one is missing.
fn joined(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole += rest.get(..size)?;
        body = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_cut_bodies_rejected() {
        assert_eq!(joined("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").as_deref(), Some("abcde"));
        for cut in ["3\r\nabc\r\n2\r\nd", "3\r\nabc\r\n", "3\r\nab", "3", ""] {
            assert_eq!(joined(cut), None, "{cut:?}");
        }
    }

    #[test]
    fn other_urls_are_rejected() {
        assert!(HttpConnection::new("http://127.0.0.1:4711/mcp").is_ok());
        assert!(HttpConnection::new("https://example.com/mcp").is_err());
    }
}
