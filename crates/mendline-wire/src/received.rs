//! The content of one frame.
//!
//! A frame is usually one message. It can also be a batch (2025-03-26), noise, or too long; the caller decides what to
//! do.

use std::ops::Range;

use bytes::{Buf as _, Bytes};

use crate::message::on_one_line;
use crate::salvage::salvage;
use crate::scan::{Scanner, Stop};
use crate::{Fault, Id, Limits, Line, Message, SseEvent, WireError};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The content of one frame, well formed or not.
#[derive(Clone, Debug)]
pub enum Received {
    /// One message.
    Message(Message),
    /// A batch: its messages in order, each well formed or not.
    Batch(Vec<Result<Message, WireError>>),
    /// Invalid content.
    Broken {
        /// The error.
        error: WireError,
        /// The frame as received.
        text: Bytes,
    },
    /// A frame that exceeds the limit; only its ends are kept.
    TooLong {
        /// Its length in bytes.
        length: u64,
        /// The id, if it could be determined.
        id: Option<Id>,
        /// Its beginning.
        head: Bytes,
    },
}

impl Received {
    /// Parses a line.
    pub fn from_line(line: Line, limits: &Limits) -> Received {
        match line {
            Line::Text(text) => Received::parse(text, limits),
            Line::TooLong { length, head, tail } => {
                Received::TooLong { length, id: salvage(&head, Some(&tail), limits).id, head }
            }
        }
    }

    /// Parses a text (the body of a response, the data of an event). A byte order mark before it and whitespace around
    /// it are ignored.
    pub fn from_text(mut text: Bytes, limits: &Limits) -> Received {
        // Trims in place, so that an unshared text is not copied.
        if text.starts_with(BYTE_ORDER_MARK) {
            text.advance(BYTE_ORDER_MARK.len());
        }
        text.truncate(text.trim_ascii_end().len());
        text.advance(text.len() - text.trim_ascii_start().len());
        Received::parse(text, limits)
    }

    fn parse(text: Bytes, limits: &Limits) -> Received {
        match Message::parse_or_return(text, limits) {
            Ok(message) => Received::Message(message),
            Err((WireError { fault: Fault::Batch, .. }, text)) => match split(&text, limits) {
                Ok(ranges) => {
                    let text = on_one_line(text);
                    let message = |range| Message::parse_with(text.slice(range), limits);
                    Received::Batch(ranges.into_iter().map(message).collect())
                }
                Err(Stop { fault, at }) => Received::Broken { error: WireError::new(fault, at), text },
            },
            Err((error, text)) => Received::Broken { error, text },
        }
    }
}

/// An event of a stream with its content.
#[derive(Clone, Debug, Default)]
pub struct ReceivedEvent {
    /// The id for a resumption. An empty id clears the last one.
    pub id: Option<Bytes>,
    /// Milliseconds to wait before a reconnect.
    pub retry: Option<u64>,
    /// The endpoint of a 2024-11-05 server.
    pub endpoint: Option<String>,
    /// The content, if the data is not empty.
    pub received: Option<Received>,
}

impl ReceivedEvent {
    /// Parses an event.
    pub fn new(event: SseEvent, limits: &Limits) -> ReceivedEvent {
        let data = event.data.filter(|data| !data.is_empty());
        let is_endpoint = event.event.as_deref() == Some(b"endpoint");
        ReceivedEvent {
            id: event.id,
            retry: event.retry,
            endpoint: data.as_ref().filter(|_| is_endpoint).map(|data| String::from_utf8_lossy(data).into_owned()),
            received: data.map(|data| Received::from_text(data, limits)),
        }
    }
}

/// Returns the ranges of the messages of a batch. The array must be valid; its elements are parsed separately.
fn split(text: &[u8], limits: &Limits) -> Result<Vec<Range<usize>>, Stop> {
    let mut messages = Vec::new();
    let mut scanner = Scanner::new(text, 0);
    scanner.whitespace();
    scanner.expect(b'[')?;
    scanner.whitespace();
    if scanner.peek() == Some(b']') {
        scanner.pass();
    } else {
        loop {
            let start = scanner.at();
            scanner.value(u32::from(limits.depth))?;
            if messages.len() == limits.batch {
                return Err(Stop { fault: Fault::BatchTooLong, at: start });
            }
            messages.push(start..scanner.at());
            scanner.whitespace();
            match scanner.peek() {
                Some(b',') => scanner.pass(),
                Some(b']') => {
                    scanner.pass();
                    break;
                }
                _ => return Err(scanner.stop()),
            }
            scanner.whitespace();
        }
    }
    scanner.whitespace();
    if scanner.peek().is_some() {
        return Err(scanner.stop());
    }
    if messages.is_empty() {
        return Err(Stop { fault: Fault::EmptyBatch, at: 0 });
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(text: &str) -> Received {
        Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default())
    }

    fn fault(received: Received) -> Fault {
        match received {
            Received::Broken { error, .. } => error.fault,
            other => panic!("{other:?} is not broken"),
        }
    }

    #[test]
    fn messages_of_a_batch_are_parsed_separately() {
        let Received::Batch(batch) = received(
            r#" [ {"jsonrpc":"2.0","id":1,"method":"ping"}, 5 , {"id":2}, [], {"jsonrpc":"2.0","method":"x"} ] "#,
        ) else {
            panic!("a batch");
        };
        let faults: Vec<_> = batch.iter().map(|item| item.as_ref().err().map(|error| error.fault)).collect();
        assert_eq!(faults, [None, Some(Fault::NotJsonRpc), Some(Fault::NotJsonRpc), Some(Fault::Batch), None]);
        assert_eq!(batch[0].as_ref().unwrap().text(), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        assert_eq!(batch[2].as_ref().unwrap_err().id, Some(Id::number(2)));
    }

    #[test]
    fn w01_line_ends_between_tokens_become_spaces_and_nothing_moves() {
        let pretty = "{\r\n\t\"jsonrpc\": \"2.0\",\n\t\"id\": 7,\r\t\"result\": {\n\t\t\"a\": \"\\n\"\n\t}\n}";
        let flat = pretty.replace(['\r', '\n'], " ");
        for text in [pretty.to_owned(), format!("\u{feff}\r\n {pretty}\n\r\n\t ")] {
            let Received::Message(message) = Received::from_text(Bytes::from(text), &Limits::default()) else {
                panic!("a message");
            };
            assert_eq!(message.text(), &flat);
            assert_eq!((message.id(), message.get_str(&["a"]).as_deref()), (Some(&b"7"[..]), Some("\n")));
        }
        let batch = format!("[\n{pretty},\r\n{pretty}\n]\n");
        let Received::Batch(batch) = Received::from_text(Bytes::from(batch), &Limits::default()) else {
            panic!("a batch");
        };
        assert!(batch.iter().all(|message| message.as_ref().unwrap().text() == &flat), "{batch:?}");
    }

    #[test]
    fn w01_line_end_inside_a_string_is_refused() {
        for end in ["\n", "\r"] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"a\":\"x{end}y\"}}}}");
            assert_eq!(fault(Received::from_text(Bytes::from(text.clone()), &Limits::default())), Fault::NotJson);
            assert_eq!(
                fault(Received::from_text(Bytes::from(format!("[{text}]")), &Limits::default())),
                Fault::NotJson
            );
        }
    }

    #[test]
    fn w05_message_without_whitespace_around_it_is_not_copied() {
        let text = Bytes::from(br#"{"jsonrpc":"2.0","id":1,"result":{"a":"\n"}}"#.to_vec());
        let place = text.as_ptr();
        let Received::Message(message) = Received::from_text(text, &Limits::default()) else { panic!("a message") };
        assert_eq!(message.text().as_ptr(), place);
        let text = Bytes::from(b"{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}\n".to_vec());
        let place = text.as_ptr();
        let Received::Message(message) = Received::from_text(text, &Limits::default()) else { panic!("a message") };
        assert_eq!(message.text().as_ptr(), place, "line ends are replaced where they lie");
        assert!(message.text().ends_with(b"}"));
    }

    #[test]
    fn w01_stray_carriage_return_of_a_line_becomes_a_space() {
        let Received::Message(message) = received("{\"jsonrpc\":\"2.0\",\r\"method\":\"x\"}\r") else {
            panic!("a message");
        };
        assert_eq!(message.text(), &r#"{"jsonrpc":"2.0", "method":"x"} "#);
    }

    #[test]
    fn invalid_batch_is_broken() {
        assert_eq!(fault(received("[ ]")), Fault::EmptyBatch);
        assert_eq!(fault(received(&format!("[{}1]", "1,".repeat(1000)))), Fault::BatchTooLong);
        assert!(matches!(received(&format!("[{}1]", "1,".repeat(999))), Received::Batch(batch) if batch.len() == 1000));
        assert_eq!(fault(received("[1,]")), Fault::NotJson);
        assert_eq!(fault(received("[1")), Fault::Truncated);
        assert_eq!(fault(received("[1] x")), Fault::NotJson);
        assert_eq!(fault(received("[INFO] starting")), Fault::NotJson);
    }

    #[test]
    fn line_above_the_limit_reports_its_id() {
        let too_long = |head: &'static str, tail: &'static str| {
            let line = Line::TooLong { length: 1 << 30, head: head.into(), tail: tail.into() };
            match Received::from_line(line, &Limits::default()) {
                Received::TooLong { length: 0x4000_0000, id, .. } => id,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(too_long(r#"{"jsonrpc":"2.0","id":5,"result":{"a":"#, "aaa\"}}"), Some(Id::number(5)));
        assert_eq!(too_long(r#"{"result":{"a":"#, r#"aaa"},"jsonrpc":"2.0","id":6}"#), Some(Id::number(6)));
        assert_eq!(too_long("aaaa", "aaaa"), None);
    }
}
