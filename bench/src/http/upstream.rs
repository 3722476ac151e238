//! A minimal Streamable HTTP server, so that the measurement is about the program in front of it.
//!
//! It has one thread and uses `epoll`; every answer is JSON in one `writev`. All clients share one session, but a
//! request without its id is refused, as by real servers. There is no GET stream.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::io::Errno;

use super::message::Message;
use super::{Poller, write_both};
use crate::answers::Answers;
use crate::scan::member;
use crate::upstream::Delayed;

const LISTENER: usize = usize::MAX;
const STDIN: usize = usize::MAX - 1;

const SESSION: &[u8] = b"one-for-all";
const NEW_SESSION: &str = "Content-Type: application/json\r\nMcp-Session-Id: one-for-all\r\n";

/// Prints the URL and serves until stdin ends. Port 0 selects a free port.
pub(crate) fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut stdout = io::stdout();
    writeln!(stdout, "http://{}/mcp", listener.local_addr()?)?;
    stdout.flush()?;

    let mut poller = Poller::new()?;
    poller.add(&listener, LISTENER)?;
    let stdin = rustix::stdio::stdin();
    match poller.add(stdin, STDIN) {
        // A stdin that is neither a pipe nor a terminal cannot be watched.
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let mut answers = Answers::default();
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut delayed: Delayed<usize> = Delayed::default();
    loop {
        poller.wait_until(delayed.next_due())?;
        while let Some((answer, number)) = delayed.take_due() {
            if connections[number].as_mut().is_some_and(|open| open.write_json(&answer).is_err()) {
                connections[number] = None;
            }
        }
        while let Some(number) = poller.next_ready() {
            match number {
                LISTENER => {
                    let connection = Connection::try_new(listener.accept()?.0)?;
                    let free = connections.iter().position(Option::is_none).unwrap_or(connections.len());
                    poller.add(&connection.stream, free)?;
                    connections.resize_with(connections.len().max(free + 1), || None);
                    connections[free] = Some(connection);
                }
                STDIN => {
                    if rustix::io::read(stdin, &mut [0; 256])? == 0 {
                        return Ok(());
                    }
                }
                number => {
                    // A connection that is closed or invalid is dropped; the client reports the error.
                    match connections[number].as_mut().map(|open| open.serve(&mut answers)) {
                        Some(Ok(Some(delay))) => delayed.add(delay, answers.json().to_vec(), number),
                        Some(Ok(None)) | None => {}
                        Some(Err(_)) => connections[number] = None,
                    }
                }
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    request: Message,
    /// Reused for its capacity.
    head: Vec<u8>,
}

impl Connection {
    fn try_new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: Message::new(), head: Vec::new() })
    }

    /// Reads once, and answers when the request is complete. Returns the delay of an answer that is due later.
    fn serve(&mut self, answers: &mut Answers) -> io::Result<Option<Duration>> {
        if !self.request.read(&mut self.stream)? {
            return Ok(None);
        }
        let (status, headers) = respond(&self.request, answers);
        if let Some(delay) = answers.take_delay() {
            self.request.clear();
            return Ok(Some(delay));
        }
        let body = if status.starts_with("200") { answers.json() } else { b"" };
        self.head.clear();
        write!(self.head, "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len())?;
        write_both(&mut self.stream, &self.head, body)?;
        self.request.clear();
        Ok(None)
    }

    /// Writes an answer that was delayed.
    fn write_json(&mut self, json: &[u8]) -> io::Result<()> {
        self.head.clear();
        write!(
            self.head,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            json.len()
        )?;
        write_both(&mut self.stream, &self.head, json)?;
        self.request.clear();
        Ok(())
    }
}

/// Returns status and headers. The body of status 200 is the answer.
fn respond(request: &Message, answers: &mut Answers) -> (&'static str, &'static str) {
    if !request.head().starts_with(b"POST ") {
        return ("405 Method Not Allowed", "Allow: POST\r\n");
    }
    let knows_session = request.header(b"mcp-session-id") == Some(SESSION);
    if !knows_session && member(request.body(), b"\"method\"") != Some(b"\"initialize\"") {
        return ("404 Not Found", "");
    }
    answers.answer(request.body());
    match answers.json() {
        b"" => ("202 Accepted", ""),
        _ if knows_session => ("200 OK", "Content-Type: application/json\r\n"),
        _ => ("200 OK", NEW_SESSION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> &'static str {
        let mut message = Message::new();
        assert!(message.read(&mut request.as_bytes()).unwrap(), "the request is whole");
        respond(&message, &mut Answers::default()).0
    }

    fn post(headers: &str, body: &str) -> &'static str {
        status(&format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    #[test]
    fn initialize_returns_the_session_that_other_requests_need() {
        let session = str::from_utf8(SESSION).unwrap();
        assert!(NEW_SESSION.contains(&format!("Mcp-Session-Id: {session}\r\n")));
        let known = format!("mcp-session-id: {session}\r\n");
        assert_eq!(post("", r#"{"id":1,"method":"initialize"}"#), "200 OK");
        assert_eq!(post("", r#"{"id":1,"method":"ping"}"#), "404 Not Found");
        assert_eq!(post(&known, r#"{"id":1,"method":"ping"}"#), "200 OK");
        assert_eq!(post(&known, r#"{"method":"notifications/initialized"}"#), "202 Accepted");
    }

    #[test]
    fn get_is_refused() {
        assert_eq!(status("GET /mcp HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
    }
}
