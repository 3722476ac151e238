//! The HTTP requests to a server, and their comparison.
//!
//! A message is compared as over stdio: byte for byte, except for the table of [differences](crate::differences).
//! Headers are compared by their [meaning](Request::meaning). Headers that only identify the client or control the
//! connection are ignored.
//!
//! Each request may use its own connection, so the order of two calls is undefined. Requests are therefore paired by
//! content.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::compare;
use crate::differences::Side;
use crate::rename::SplitLine;
use crate::stage::Transport;
use crate::transcript::{Direction, Transcript};

/// Headers whose meaning must be equal. Those that begin with [`OURS`] are compared too.
const COMPARED: [&str; 2] = ["accept", CONTENT_TYPE];
const CONTENT_TYPE: &str = "content-type";
/// The prefix of the headers of the protocol.
const OURS: &str = "mcp-";
/// The server chooses its value, so only its presence is compared.
const SESSION: &str = "mcp-session-id";

/// One request as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// POST, GET or DELETE.
    pub verb: String,
    /// The path without the query, in which some servers put their session.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The message.
    pub body: String,
}

/// Parses all requests on one connection.
///
/// # Errors
///
/// Fails if the bytes are not complete requests.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<Request>, String> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let end = find(bytes, b"\r\n\r\n").ok_or("a head without an end")?;
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is no text")?;
        bytes = &bytes[end + 4..];
        let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
        let [verb, target, "HTTP/1.1"] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("no request: {line}"));
        };
        let pair =
            |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let headers: BTreeMap<_, _> = headers.split("\r\n").filter_map(pair).collect();
        if headers.contains_key("transfer-encoding") {
            return Err(format!("a body without a length: {line}"));
        }
        let length: usize = match headers.get("content-length") {
            Some(length) => length.parse().map_err(|_| format!("no length: {length}"))?,
            None => 0,
        };
        let body = bytes.get(..length).ok_or_else(|| format!("a body that is cut short: {line}"))?;
        let body = std::str::from_utf8(body).map_err(|_| format!("a body that is no text: {line}"))?.to_owned();
        bytes = &bytes[length..];
        let path = target.split('?').next().unwrap_or_default().to_owned();
        requests.push(Request { verb: verb.to_owned(), path, headers, body });
    }
    Ok(requests)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

impl Request {
    /// Returns the meaning of the headers, independent of their spelling.
    ///
    /// The 2024-11-05 transport requires only a content type; other headers are ignored there.
    pub fn meaning(&self, transport: Transport) -> BTreeMap<&str, BTreeSet<String>> {
        let is_compared = |name: &str| match transport {
            Transport::Sse => name == CONTENT_TYPE,
            _ => COMPARED.contains(&name) || name.starts_with(OURS),
        };
        let compared = self.headers.iter().filter(|(name, _)| is_compared(name));
        let compared = compared.map(|(name, value)| {
            let parts: BTreeSet<_> = match name.as_str() {
                SESSION => BTreeSet::new(),
                name if COMPARED.contains(&name) => value.split(',').map(media_type).collect(),
                _ => [value.clone()].into(),
            };
            (name.as_str(), parts)
        });
        compared.collect()
    }
}

/// Returns the media type without parameters, in lower case.
fn media_type(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// Compares the requests of Mendline with those of the client itself. Returns the number of messages.
///
/// # Errors
///
/// Returns the first difference that the table does not allow, or the first header with another meaning.
pub fn same(dialed: &[Request], bridged: &[Request], transport: Transport) -> Result<usize, String> {
    let (dialed, bridged) = (posted(dialed), posted(bridged));
    for (one, other) in dialed.iter().zip(&bridged) {
        let (ours, theirs) = (one.meaning(transport), other.meaning(transport));
        if ours != theirs || one.path != other.path {
            let begin: String = one.body.chars().take(160).collect();
            return Err(format!(
                "the headers differ around {begin}\n  direct:  {} {ours:?}\n  bridged: {} {theirs:?}",
                one.path, other.path
            ));
        }
    }
    let transcript = |posts: &[&Request]| Transcript {
        up: posts.iter().map(|request| request.body.clone()).collect(),
        down: Vec::new(),
    };
    compare(&transcript(&dialed), &transcript(&bridged), Some(Side::Server))?;
    Ok(dialed.len())
}

/// Returns the POST requests, sorted by content without ids.
fn posted(requests: &[Request]) -> Vec<&Request> {
    let mut posted: Vec<_> = requests.iter().filter(|request| request.verb == "POST").collect();
    posted.sort_by_cached_key(|request| SplitLine::new(&request.body, Direction::Up).skeleton);
    posted
}

#[cfg(test)]
mod tests {
    use super::{Request, parse, same};
    use crate::stage::Transport;

    fn post(headers: &str, body: &str) -> Vec<Request> {
        let text =
            format!("POST /mcp?s=1 HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        parse(text.as_bytes()).unwrap()
    }

    const CALL: &str = r#"{"id":1,"method":"tools/call","params":{"name":"a"}}"#;

    #[test]
    fn consecutive_requests_are_parsed_and_partial_one_rejected() {
        let text = "GET /mcp HTTP/1.1\r\nA: b\r\n\r\nPOST /mcp HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
        let requests = parse(text.as_bytes()).unwrap();
        assert_eq!(requests.iter().map(|it| (&*it.verb, &*it.body)).collect::<Vec<_>>(), [("GET", ""), ("POST", "{}")]);
        assert!(parse(&text.as_bytes()[..text.len() - 1]).unwrap_err().starts_with("a body that is cut short"));
        assert!(parse(b"hello\r\n\r\n").unwrap_err().starts_with("no request"));
    }

    #[test]
    fn equivalent_headers_are_equal() {
        let one = post("Accept: application/json, text/event-stream\r\nMcp-Session-Id: 5\r\nUser-Agent: me\r\n", CALL);
        let other = post(
            "accept: text/event-stream,Application/JSON;q=1\r\nmcp-session-id: 6\r\n",
            &CALL.replace('1', "65536"),
        );
        assert_eq!(same(&one, &other, Transport::Http), Ok(1));
        let missing = post("accept: text/event-stream, application/json\r\n", CALL);
        assert!(same(&one, &missing, Transport::Http).unwrap_err().starts_with("the headers differ"));
        assert_eq!(same(&one, &missing, Transport::Sse), Ok(1), "the first revision has no such header");
    }

    #[test]
    fn body_key_order_is_ignored_and_text_is_compared() {
        let two = CALL.replace("\"a\"", "\"b\"").replace('1', "2");
        let one = [post("", CALL), post("", &two)].concat();
        let other = [post("", &two), post("", CALL)].concat();
        assert_eq!(same(&one, &other, Transport::Http), Ok(2));
        let changed = [post("", &two), post("", &CALL.replace(":{", ": {"))].concat();
        assert!(same(&one, &changed, Transport::Http).unwrap_err().contains("the text differs"));
        assert!(same(&one, &one[..1], Transport::Http).is_err(), "one is missing");
    }
}
