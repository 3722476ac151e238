//! A client that writes one HTTP request per connection, for tests that count what happens to each of them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The deadline of a request on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A complete response.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// `Mcp-Session-Id`.
    pub session: Option<String>,
    /// The last message of the body: the body itself, or the last event of a stream.
    pub message: Value,
}

/// Makes a POST with a JSON-RPC message and reads the response to its end.
///
/// # Errors
///
/// Fails if the connection is refused or ends before the response does.
pub fn post(port: u16, session: Option<&str>, body: &Value) -> Result<Response, String> {
    let body = body.to_string();
    let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|why| why.to_string())?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(|why| why.to_string())?;
    connection.write_all(request.as_bytes()).map_err(|why| why.to_string())?;
    let mut text = Vec::new();
    connection.read_to_end(&mut text).map_err(|why| why.to_string())?;
    parse(&String::from_utf8_lossy(&text)).ok_or_else(|| "the response is incomplete".to_owned())
}

/// Reads a response. Returns nothing for one that is cut off.
fn parse(text: &str) -> Option<Response> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(its, _)| its.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).next()
    };
    let is_complete = match header("content-length") {
        Some(length) => length.parse() == Ok(body.len()),
        None => body.ends_with("0\r\n\r\n") || body.is_empty(),
    };
    let mut events = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
    let message = serde_json::from_str(events.next_back().unwrap_or(body)).unwrap_or_default();
    is_complete.then(|| Response { status, session: header("mcp-session-id"), message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn cut_response_is_no_response() {
        let whole = "HTTP/1.1 200 OK\r\nMcp-Session-Id: 5\r\nContent-Length: 8\r\n\r\n{\"id\":1}";
        let response = parse(whole).unwrap();
        assert_eq!((response.status, response.session.as_deref()), (200, Some("5")));
        assert_eq!(response.message, json!({ "id": 1 }));
        assert!(parse(&whole[..whole.len() - 1]).is_none());
        assert!(parse("HTTP/1.1 200").is_none());
    }

    #[test]
    fn last_event_is_the_message() {
        let events = "10\r\ndata: {\"id\":1}\n\n\r\n10\r\ndata: {\"id\":2}\n\n\r\n0\r\n\r\n";
        let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{events}");
        assert_eq!(parse(&text).unwrap().message, json!({ "id": 2 }));
        assert!(parse(text.trim_end()).is_none());
    }
}
