//! The answers of the upstream, independent of the transport.
//!
//! Answers are built from constants and bytes of the request, without a parser. The big result is built once and
//! reused.

use std::io::Write;
use std::time::Duration;

use crate::scan::{member, number};

/// The largest result; measurements use a few MiB at most.
const BIGGEST_RESULT: usize = 64 << 20;

const INITIALIZED: &[u8] = br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mendline-bench","version":"1"}}"#;
const TOOLS: &[u8] = br#"{"tools":[{"name":"echo","description":"Says the text again.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}},{"name":"big","description":"A text of the given size.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}}},"annotations":{"readOnlyHint":true}},{"name":"wait","description":"Answers after some time.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}]}"#;

/// The answer to the last message.
#[derive(Default)]
pub(crate) struct Answers {
    /// Reused for its capacity.
    line: Vec<u8>,
    /// The content of the last big result.
    big: Vec<u8>,
    /// The time after which the answer is due.
    delay: Option<Duration>,
}

impl Answers {
    /// Builds the answer to a message. It replaces the one before.
    pub(crate) fn answer(&mut self, message: &[u8]) {
        self.line.clear();
        self.delay = None;
        let (Some(id), Some(method)) = (member(message, b"\"id\""), member(message, b"\"method\"")) else { return };
        self.line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.line.extend_from_slice(id);
        match method {
            b"\"tools/call\"" => match member(message, b"\"name\"") {
                Some(b"\"echo\"") => self.text(member(message, b"\"text\"").unwrap_or(br#""""#)),
                Some(b"\"big\"") => self.big(number(message, b"\"bytes\"").unwrap_or(0) as usize),
                Some(b"\"wait\"") => {
                    self.delay = number(message, b"\"ms\"").map(Duration::from_millis);
                    self.text(br#""waited""#);
                }
                _ => self.refuse(-32602, "unknown tool"),
            },
            b"\"initialize\"" => self.result(INITIALIZED),
            b"\"tools/list\"" => self.result(TOOLS),
            b"\"ping\"" => self.result(b"{}"),
            _ => self.refuse(-32601, "method not found"),
        }
        self.line.extend_from_slice(b"}\n");
    }

    /// Returns the answer with a newline; empty if the message needs no answer.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Takes the time after which the answer is due; none if it is due at once.
    pub(crate) fn take_delay(&mut self) -> Option<Duration> {
        self.delay.take()
    }

    /// Returns the answer without a newline.
    pub(crate) fn json(&self) -> &[u8] {
        self.line.strip_suffix(b"\n").unwrap_or_default()
    }

    fn result(&mut self, result: &[u8]) {
        self.line.extend_from_slice(br#","result":"#);
        self.line.extend_from_slice(result);
    }

    fn text(&mut self, quoted: &[u8]) {
        self.result(br#"{"content":[{"type":"text","text":"#);
        self.line.extend_from_slice(quoted);
        self.line.extend_from_slice(b"}]}");
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
        let _ = write!(self.line, r#","error":{{"code":{code},"message":"{why}"}}"#);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &str) -> serde_json::Value {
        let mut answers = Answers::default();
        answers.answer(message.as_bytes());
        assert!(answers.line().ends_with(b"}\n"), "not a line");
        serde_json::from_slice(answers.json()).unwrap()
    }

    #[test]
    fn answer_is_json_with_the_id_of_its_request() {
        for request in [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"one","method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":-5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"no/such"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"none"}}"#,
        ] {
            let parsed: serde_json::Value = serde_json::from_str(request).unwrap();
            assert_eq!(answer(request)["id"], parsed["id"]);
        }
    }

    #[test]
    fn echo_returns_the_text() {
        let answer = answer(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a \"b\""}}}"#,
        );
        assert_eq!(answer["result"]["content"][0]["text"], "a \"b\"");
    }

    #[test]
    fn big_result_has_the_requested_size_up_to_a_limit() {
        let call = |bytes: usize| {
            answer(&format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"big","arguments":{{"bytes":{bytes}}}}}}}"#
            ))
        };
        assert_eq!(call(1 << 20)["result"]["content"][0]["text"].as_str().unwrap().len(), 1 << 20);
        assert_eq!(call(BIGGEST_RESULT + 1)["error"]["code"], -32602);
    }

    #[test]
    fn only_the_tool_wait_delays_its_answer() {
        let mut answers = Answers::default();
        answers.answer(br#"{"id":1,"method":"tools/call","params":{"name":"wait","arguments":{"ms":20}}}"#);
        assert_eq!(answers.take_delay(), Some(Duration::from_millis(20)));
        answers.answer(br#"{"id":2,"method":"ping"}"#);
        assert_eq!(answers.take_delay(), None);
    }

    #[test]
    fn notifications_are_not_answered() {
        let mut answers = Answers::default();
        answers.answer(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(answers.line().is_empty() && answers.json().is_empty());
    }
}
