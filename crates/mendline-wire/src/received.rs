//! What came in one frame.
//!
//! A frame is usually one message. It can also be a batch (2025-03-26 knew them), noise, or too long to keep; each is a
//! value here, because what to do about it is a decision and decisions are made elsewhere.

use bytes::Bytes;

use crate::salvage::salvage;
use crate::scan::{Scanner, Stop};
use crate::{Fault, Id, Limits, Line, Message, WireError};

/// The content of one frame, well formed or not.
#[derive(Clone, Debug)]
pub enum Received {
    /// One message.
    Message(Message),
    /// A batch: its messages in order, each well formed or not.
    Batch(Vec<Result<Message, WireError>>),
    /// Something else.
    Broken {
        /// What is wrong with it.
        error: WireError,
        /// The frame as it came.
        text: Bytes,
    },
    /// A frame beyond the limit, of which only the ends were kept.
    TooLong {
        /// How many bytes it had.
        length: u64,
        /// The id, if it could be made out.
        id: Option<Id>,
        /// How it began.
        head: Bytes,
    },
}

impl Received {
    /// Makes out what a line is.
    pub fn from_line(line: Line, limits: &Limits) -> Received {
        match line {
            Line::Text(text) => Received::from_text(text, limits),
            Line::TooLong { length, head, tail } => {
                Received::TooLong { length, id: salvage(&head, Some(&tail), limits).id, head }
            }
        }
    }

    /// Makes out what a whole text is (the body of a response, the data of an event).
    pub fn from_text(text: Bytes, limits: &Limits) -> Received {
        match Message::parse_or_return(text, limits) {
            Ok(message) => Received::Message(message),
            Err((WireError { fault: Fault::Batch, .. }, text)) => match split(&text, limits) {
                Ok(messages) => Received::Batch(messages),
                Err(Stop { fault, at }) => Received::Broken { error: WireError::new(fault, at), text },
            },
            Err((error, text)) => Received::Broken { error, text },
        }
    }
}

/// The messages of a batch. The array itself must be sound; its elements are judged one by one.
fn split(text: &Bytes, limits: &Limits) -> Result<Vec<Result<Message, WireError>>, Stop> {
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
    Ok(messages.into_iter().map(|range| Message::parse_with(text.slice(range), limits)).collect())
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
    fn a_batch_is_taken_apart_and_each_message_judged_by_itself() {
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
    fn a_batch_that_is_empty_too_long_or_unsound_is_broken() {
        assert_eq!(fault(received("[ ]")), Fault::EmptyBatch);
        assert_eq!(fault(received(&format!("[{}1]", "1,".repeat(1000)))), Fault::BatchTooLong);
        assert!(matches!(received(&format!("[{}1]", "1,".repeat(999))), Received::Batch(batch) if batch.len() == 1000));
        assert_eq!(fault(received("[1,]")), Fault::NotJson);
        assert_eq!(fault(received("[1")), Fault::Truncated);
        assert_eq!(fault(received("[1] x")), Fault::NotJson);
        assert_eq!(fault(received("[INFO] starting")), Fault::NotJson);
    }

    #[test]
    fn a_line_beyond_the_limit_names_its_request_if_either_end_does() {
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
