//! The leanest MCP server on stdio that we could write, so that the program in front of it is what is measured.
//!
//! One thread, blocking reads, and one `write` per answer: real servers answer each call when it is done, and a proxy
//! has to live with those small writes. The big result is built once and kept.

use std::io::{self, Write};
use std::os::fd::AsFd;

use memchr::memchr;
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};

use crate::scan::{member, number};

/// Larger results are refused; no measurement asks for more than a few MiB.
const BIGGEST_RESULT: usize = 64 << 20;

const INITIALIZED: &[u8] = br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mendline-bench","version":"1"}}"#;
const TOOLS: &[u8] = br#"{"tools":[{"name":"echo","description":"Says the text again.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}},{"name":"big","description":"A text of the given size.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}]}"#;

/// Serves until stdin ends or nobody reads the answers any more.
pub(crate) fn serve() -> io::Result<()> {
    let mut server = Server::default();
    let mut buffer = vec![0; 64 << 10];
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
        let read = match rustix::io::read(stdin(), &mut buffer[filled..]) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        // What was there before this read holds no newline, so only the new bytes are searched.
        let mut searched = filled;
        filled += read;
        let mut line_start = 0;
        while let Some(length) = memchr(b'\n', &buffer[searched..filled]) {
            let line_end = searched + length;
            server.answer(&buffer[line_start..line_end]);
            match write_all(stdout(), &server.answer) {
                Err(Errno::PIPE) => return Ok(()),
                written => written?,
            }
            line_start = line_end + 1;
            searched = line_start;
        }
        buffer.copy_within(line_start..filled, 0);
        filled -= line_start;
    }
}

#[derive(Default)]
struct Server {
    /// The line that answers the last message; empty if it needs none. Kept for its capacity.
    answer: Vec<u8>,
    /// The content of the last big result.
    big: Vec<u8>,
}

impl Server {
    fn answer(&mut self, message: &[u8]) {
        self.answer.clear();
        let (Some(id), Some(method)) = (member(message, b"\"id\""), member(message, b"\"method\"")) else { return };
        self.answer.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.answer.extend_from_slice(id);
        match method {
            b"\"tools/call\"" => match member(message, b"\"name\"") {
                Some(b"\"echo\"") => self.text(member(message, b"\"text\"").unwrap_or(br#""""#)),
                Some(b"\"big\"") => self.big(number(message, b"\"bytes\"").unwrap_or(0) as usize),
                _ => self.refuse(-32602, "unknown tool"),
            },
            b"\"initialize\"" => self.result(INITIALIZED),
            b"\"tools/list\"" => self.result(TOOLS),
            b"\"ping\"" => self.result(b"{}"),
            _ => self.refuse(-32601, "method not found"),
        }
        self.answer.extend_from_slice(b"}\n");
    }

    fn result(&mut self, result: &[u8]) {
        self.answer.extend_from_slice(br#","result":"#);
        self.answer.extend_from_slice(result);
    }

    fn text(&mut self, quoted: &[u8]) {
        self.result(br#"{"content":[{"type":"text","text":"#);
        self.answer.extend_from_slice(quoted);
        self.answer.extend_from_slice(b"}]}");
    }

    fn big(&mut self, bytes: usize) {
        if bytes > BIGGEST_RESULT {
            return self.refuse(-32602, "too big");
        }
        if self.big.len() != bytes + 2 {
            self.big = vec![b'x'; bytes + 2];
            self.big[0] = b'"';
            self.big[bytes + 1] = b'"';
        }
        let big = std::mem::take(&mut self.big);
        self.text(&big);
        self.big = big;
    }

    fn refuse(&mut self, code: i32, why: &str) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.answer, r#","error":{{"code":{code},"message":"{why}"}}"#);
    }
}

fn write_all(sink: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&sink, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &str) -> serde_json::Value {
        let mut server = Server::default();
        server.answer(message.as_bytes());
        assert!(server.answer.ends_with(b"}\n"), "not a line");
        serde_json::from_slice(&server.answer).unwrap()
    }

    #[test]
    fn every_answer_is_json_with_the_id_of_its_request() {
        for request in [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"one","method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":-5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"no/such"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"none"}}"#,
        ] {
            let asked: serde_json::Value = serde_json::from_str(request).unwrap();
            assert_eq!(answer(request)["id"], asked["id"]);
        }
    }

    #[test]
    fn echo_says_the_text_again() {
        let answer = answer(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a \"b\""}}}"#,
        );
        assert_eq!(answer["result"]["content"][0]["text"], "a \"b\"");
    }

    #[test]
    fn big_results_have_the_size_asked_for_and_an_end() {
        let call = |bytes: usize| {
            answer(&format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"big","arguments":{{"bytes":{bytes}}}}}}}"#
            ))
        };
        assert_eq!(call(1 << 20)["result"]["content"][0]["text"].as_str().unwrap().len(), 1 << 20);
        assert_eq!(call(BIGGEST_RESULT + 1)["error"]["code"], -32602);
    }

    #[test]
    fn notifications_are_not_answered() {
        let mut server = Server::default();
        server.answer(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(server.answer.is_empty());
    }
}
