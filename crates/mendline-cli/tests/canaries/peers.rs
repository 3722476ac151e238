//! Peers on loopback that repeat what they receive: an MCP server and a proxy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::canary::{SESSION, across_limits, forms};

/// The behaviour of the server towards calls and earlier requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerMode {
    /// Refuses every request with a JSON-RPC error without an id.
    Refuses(u16),
    /// Answers every request with an HTML page.
    Shows(u16),
    /// Works, lists secrets in its tools, and refuses calls.
    Works,
    /// Redirects every request to another address.
    Redirects,
}

/// Starts a server that repeats the head of every request, and then each of these secrets in every form.
pub(crate) fn server(mode: ServerMode, secrets: &'static [&'static str]) -> SocketAddr {
    listen(move |stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((head, body)) = request(&mut reader) {
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let call = message["params"]["arguments"]["number"].as_u64();
            let (status, kind, text) = answer(mode, &head, &message, &echo(&head, secrets, call));
            let location = if status == 307 { "Location: http://other.test/there\r\n" } else { "" };
            let session = format!("Mcp-Session-Id: {SESSION}\r\n");
            let length = text.len();
            let head = format!(
                "HTTP/1.1 {status} Fine\r\nContent-Type: {kind}\r\n{location}{session}Content-Length: {length}\r\n\r\n"
            );
            if stream.write_all(format!("{head}{text}").as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// Returns the text that is sent with a call of this number, or with any other request.
fn echo(head: &str, secrets: &[&str], number: Option<u64>) -> String {
    let all: Vec<String> =
        secrets.iter().flat_map(|secret| forms(secret).into_iter().chain(across_limits(secret))).collect();
    match number {
        Some(number) => all[number as usize % all.len()].clone(),
        None => format!("{head} {}", all.join(" ")),
    }
}

fn answer(mode: ServerMode, head: &str, message: &Value, echo: &str) -> (u16, &'static str, String) {
    const JSON: &str = "application/json";
    let id = &message["id"];
    let error_body = |words: &str| {
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": words, "data": words } })
            .to_string()
    };
    match (mode, message["method"].as_str()) {
        (ServerMode::Works, None) => (405, JSON, String::new()),
        (ServerMode::Works, Some("initialize")) => {
            let who = json!({ "name": "repeater", "version": "1" });
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": who });
            (200, JSON, json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
        }
        (ServerMode::Works, Some("tools/list")) => {
            let tool =
                json!({ "name": "pay", "description": format!("{echo} {head}"), "inputSchema": { "type": "object" } });
            (200, JSON, json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": [tool] } }).to_string())
        }
        (ServerMode::Works, Some("tools/call")) => (422, JSON, error_body(echo)),
        (ServerMode::Works, Some(_)) if id.is_null() => (202, JSON, String::new()),
        (ServerMode::Works, Some(_)) => (200, JSON, json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string()),
        (ServerMode::Refuses(status), _) => (status, JSON, error_body(echo)),
        (ServerMode::Shows(status), _) => {
            (status, "text/html", format!("<html><title>{echo}</title><h1>{echo}</h1></html>"))
        }
        (ServerMode::Redirects, _) => (307, JSON, error_body(echo)),
    }
}

/// Starts a proxy that answers every CONNECT with this text, in which `{}` stands for the credentials that it received.
pub(crate) fn proxy(answer: &'static str) -> SocketAddr {
    listen(move |stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some((head, _)) = request(&mut reader) else { return };
        let sent = head.lines().find_map(|line| line.strip_prefix("Proxy-Authorization: Basic ")).unwrap_or_default();
        // The client may already have closed the connection.
        let _ = stream.write_all(answer.replace("{}", sent).as_bytes());
    })
}

fn listen(serve: impl Fn(&mut TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(&mut stream));
        }
    });
    address
}

/// Reads the head and the body of the next request.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}
