//! The demo server at a URL: Streamable HTTP on loopback, with sessions, event streams and faults.
//!
//! It uses one blocking thread per connection and no HTTP library, unlike the code under test. It prints its URL on the
//! first line of stdout and ends when its stdin does, so that it never outlives its parent. Results of tools are event
//! streams with event ids, and a broken stream can be resumed as the specification says. All other responses are sent
//! in one piece.

mod request;

use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use mendline::os::processes::crash;
use request::Request;
use serde_json::{Value, json};

use super::faults::{ServerFault, ServerFaults};
use super::ledger::Ledger;
use super::server::initialize_result;
use super::{LONGEST_LIFE, tools};

/// Duration of an overload, also sent as `Retry-After`.
const BUSY: Duration = Duration::from_secs(1);

/// Number of calls in a row that get a 503.
const UNAVAILABLE: usize = 2;

/// Delay before a broken stream may be resumed, sent as `retry`.
const RETRY_MS: u32 = 100;

/// Maximum number of connections; further clients wait.
const CONNECTIONS: usize = 64;

/// Maximum number of answers kept for broken streams.
const KEPT: usize = 64;

/// State shared by all connections.
struct HttpServer {
    faults: ServerFaults,
    ledger: Ledger,
    sessions: Mutex<HashSet<String>>,
    /// Answers of broken streams, by the number of the stream.
    owed: Mutex<HashMap<usize, String>>,
    busy_until: Mutex<Option<Instant>>,
    streams: AtomicUsize,
    connections: AtomicUsize,
}

/// Listens on this loopback port, or on any free one for 0, until stdin ends.
pub(super) fn serve(port: u16, faults: ServerFaults, ledger: Ledger) -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    println!("http://{}/mcp", listener.local_addr()?);
    let server = Arc::new(HttpServer {
        faults,
        ledger,
        sessions: Mutex::default(),
        owed: Mutex::default(),
        busy_until: Mutex::default(),
        streams: AtomicUsize::new(0),
        connections: AtomicUsize::new(0),
    });
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            while server.connections.load(Ordering::Relaxed) >= CONNECTIONS {
                sleep(Duration::from_millis(5));
            }
            server.connections.fetch_add(1, Ordering::Relaxed);
            let server = Arc::clone(&server);
            thread::spawn(move || {
                // A broken connection concerns only its client.
                let _ = server.serve_connection(&connection);
                server.connections.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map(drop)
}

/// Next step of a connection after a response.
#[derive(PartialEq, Eq)]
enum After {
    KeepOpen,
    Close,
}

impl HttpServer {
    fn serve_connection(&self, connection: &TcpStream) -> std::io::Result<()> {
        connection.set_read_timeout(Some(LONGEST_LIFE))?;
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection);
        while let Some(request) = Request::read(&mut reader)? {
            let is_last = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            if self.answer(&request, connection)? == After::Close || is_last {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request, out: &TcpStream) -> std::io::Result<After> {
        // A web page could be made to send requests here; real clients send no Origin.
        if request.header("origin").is_some() {
            return plain(out, "403 Forbidden", "");
        }
        match (request.verb.as_str(), request.path.as_str()) {
            ("POST", "/mcp") => self.post(request, out),
            ("GET", "/mcp") => self.resume(request, out),
            ("DELETE", "/mcp") => {
                lock(&self.sessions).remove(request.header("mcp-session-id").unwrap_or_default());
                plain(out, "204 No Content", "")
            }
            (_, "/mcp") => plain(out, "405 Method Not Allowed", ""),
            _ => plain(out, "404 Not Found", ""),
        }
    }

    fn post(&self, request: &Request, out: &TcpStream) -> std::io::Result<After> {
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return plain(out, "400 Bad Request", "");
        };
        let (method, params, id) = (message["method"].as_str().unwrap_or_default(), &message["params"], &message["id"]);
        let body = |member: &str, value: &Value| json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string();
        if method == "initialize" {
            let session = format!("{:016x}", fastrand::u64(..));
            let head = format!("Mcp-Session-Id: {session}\r\n");
            lock(&self.sessions).insert(session);
            return whole(out, "200 OK", &head, &body("result", &initialize_result(params)));
        }
        let number = if method == "tools/call" {
            let number = self.ledger.count_call(params["name"].as_str().unwrap_or_default());
            if let Some(refusal) = self.refusal(number) {
                return plain(out, refusal.0, refusal.1);
            }
            number
        } else {
            0
        };
        let session = request.header("mcp-session-id").unwrap_or_default();
        if !lock(&self.sessions).contains(session) {
            let status = if session.is_empty() { "400 Bad Request" } else { "404 Not Found" };
            return plain(out, status, "");
        }
        match method {
            _ if id.is_null() => plain(out, "202 Accepted", ""),
            "ping" => whole(out, "200 OK", "", &body("result", &json!({}))),
            "tools/list" => whole(out, "200 OK", "", &body("result", &tools::list(self.faults.has_more_tools()))),
            "tools/call" => self.call(number, id, params, out),
            _ => {
                let error = json!({ "code": -32601, "message": format!("no method {method}") });
                whole(out, "200 OK", "", &body("error", &error))
            }
        }
    }

    /// Returns the HTTP error that rejects the n-th call before it runs, if a fault demands one.
    fn refusal(&self, number: usize) -> Option<(&'static str, &'static str)> {
        if self.faults.has(&ServerFault::Forget(number)) {
            self.ledger.note("hit");
            lock(&self.sessions).clear();
        }
        let mut busy_until = lock(&self.busy_until);
        if self.faults.has(&ServerFault::Busy(number)) {
            *busy_until = Some(Instant::now() + BUSY);
        }
        if busy_until.is_some_and(|until| Instant::now() < until) {
            self.ledger.note("hit");
            return Some(("429 Too Many Requests", "Retry-After: 1\r\n"));
        }
        if (0..UNAVAILABLE).any(|before| self.faults.has(&ServerFault::Unavailable(number.saturating_sub(before)))) {
            self.ledger.note("hit");
            return Some(("503 Service Unavailable", ""));
        }
        None
    }

    fn call(&self, number: usize, id: &Value, params: &Value, mut out: &TcpStream) -> std::io::Result<After> {
        let now = |fault: fn(usize) -> ServerFault| self.faults.has(&fault(number));
        if now(ServerFault::DieBefore) {
            crash();
        }
        let tool = params["name"].as_str().unwrap_or_default();
        let arguments = &params["arguments"];
        let key = arguments["key"].as_str().unwrap_or("-");
        let Some(text) = tools::answer(tool, key, arguments) else {
            let error = json!({ "code": -32602, "message": format!("no tool {tool}") });
            return whole(out, "200 OK", "", &json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        };
        self.ledger.executed(tool, key);
        if now(ServerFault::DieAfter) {
            crash();
        }
        if now(ServerFault::Stall) {
            self.ledger.note("hit");
            sleep(LONGEST_LIFE);
        }
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": tools::result(&text) }).to_string();
        let stream = self.streams.fetch_add(1, Ordering::Relaxed) + 1;
        out.write_all(STREAM_HEAD.as_bytes())?;
        out.write_all(chunk(&format!("id: {stream}-0\nretry: {RETRY_MS}\ndata:\n\n")).as_bytes())?;
        sleep(Duration::from_millis(arguments["delayMs"].as_u64().unwrap_or(0)));
        let event = event(stream, &answer);
        if now(ServerFault::CutStream) {
            self.ledger.note("hit");
            let mut owed = lock(&self.owed);
            if owed.len() < KEPT {
                owed.insert(stream, answer);
            }
            drop(owed);
            // Half of the event, and half of its chunk.
            let chunk = chunk(&event);
            out.write_all(&chunk.as_bytes()[..chunk.len() / 2])?;
            out.shutdown(std::net::Shutdown::Both)?;
            return Ok(After::Close);
        }
        out.write_all(format!("{}{LAST_CHUNK}", chunk(&event)).as_bytes())?;
        Ok(After::KeepOpen)
    }

    /// Sends the rest of a broken stream. No other stream is available.
    fn resume(&self, request: &Request, mut out: &TcpStream) -> std::io::Result<After> {
        let stream = request.header("last-event-id").and_then(|id| id.strip_suffix("-0")?.parse().ok());
        let Some(stream) = stream else { return plain(out, "405 Method Not Allowed", "") };
        let Some(answer) = lock(&self.owed).remove(&stream) else { return plain(out, "404 Not Found", "") };
        let event = chunk(&event(stream, &answer));
        out.write_all(format!("{STREAM_HEAD}{event}{LAST_CHUNK}").as_bytes())?;
        Ok(After::KeepOpen)
    }
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n";

const LAST_CHUNK: &str = "0\r\n\r\n";

fn event(stream: usize, answer: &str) -> String {
    format!("id: {stream}-1\ndata: {answer}\n\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Sends a response without a body.
fn plain(mut out: &TcpStream, status: &str, head: &str) -> std::io::Result<After> {
    // A 204 has no Content-Length.
    let length = if status.starts_with("204") { "" } else { "Content-Length: 0\r\n" };
    out.write_all(format!("HTTP/1.1 {status}\r\n{head}{length}\r\n").as_bytes())?;
    Ok(After::KeepOpen)
}

/// Sends a response in one piece.
fn whole(mut out: &TcpStream, status: &str, head: &str, body: &str) -> std::io::Result<After> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{head}\r\n");
    out.write_all(format!("{head}{body}").as_bytes())?;
    Ok(After::KeepOpen)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
