//! A minimal HTTP/1.1 request parser, for well-behaved clients.

use std::io::{BufRead, Error, Read, Result};

/// Maximum length of the head.
const HEAD: u64 = 16 << 10;

/// Maximum length of the body.
const BODY: usize = 4 << 20;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads the next request, or `None` at the end of the connection.
    pub(super) fn read(reader: &mut impl BufRead) -> Result<Option<Request>> {
        let mut head = reader.take(HEAD);
        let Some(first) = line(&mut head)? else { return Ok(None) };
        let mut words = first.split(' ');
        let (verb, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
        let mut headers = Vec::new();
        loop {
            let line = line(&mut head)?.ok_or_else(|| Error::other("the head has no end"))?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| Error::other("a header without a colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Request { verb, path, headers, body: Vec::new() };
        if request.header("transfer-encoding").is_some() {
            return Err(Error::other("a body without a length"));
        }
        let length = request.header("content-length").map_or(Ok(0), str::parse).map_err(Error::other)?;
        if length > BODY {
            return Err(Error::other("a body that is too long"));
        }
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    /// Returns the value of a header by its lower-case name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(its_name, _)| its_name == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a line without its end, or `None` at the end of the input.
fn line(reader: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    match line.strip_suffix('\n') {
        Some(line) => Ok(Some(line.trim_end_matches('\r').to_owned())),
        None => Err(Error::other("a line that is too long, or cut off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_one_after_another() {
        let mut wire =
            &b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\nMcp-Session-Id: s\r\n\r\n{}GET /mcp HTTP/1.1\r\n\r\n"[..];
        let first = Request::read(&mut wire).unwrap().unwrap();
        assert_eq!((first.verb.as_str(), first.path.as_str(), &first.body[..]), ("POST", "/mcp", &b"{}"[..]));
        assert_eq!((first.header("mcp-session-id"), first.header("origin")), (Some("s"), None));
        assert_eq!(Request::read(&mut wire).unwrap().unwrap().verb, "GET");
        assert_eq!(Request::read(&mut wire).unwrap(), None);
    }

    #[test]
    fn cut_or_oversized_requests_are_rejected() {
        for wire in [
            "POST /mcp HT",
            "POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{",
            "POST /mcp HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)),
        ] {
            assert!(Request::read(&mut wire.as_bytes()).is_err(), "{wire:.60}");
        }
    }
}
