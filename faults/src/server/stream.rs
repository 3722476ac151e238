//! A stream of messages that outlives the connections that carry it.
//!
//! Messages are stored and numbered from 1. A response carries the stream from some number on, and a resumed one
//! continues where the last one broke. [`sse`](super::sse) encodes the events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

/// The number of messages that are kept for resumption.
const KEPT: usize = 10_000;

/// A numbered stream of messages.
#[derive(Debug)]
pub(crate) struct Stream {
    name: String,
    log: Mutex<Log>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    /// The number of messages that were dropped.
    forgotten: u64,
    messages: VecDeque<Bytes>,
    ended: bool,
    /// The number of the last message that was delivered.
    delivered: u64,
}

/// The next item of a stream.
pub(crate) enum Next {
    Message(u64, Bytes),
    Ended,
    NotYet,
}

impl Stream {
    pub(crate) fn new(name: String) -> Stream {
        Stream { name, log: Mutex::default(), changed: watch::channel(()).0 }
    }

    /// Returns the id of the event with this number.
    pub(crate) fn event_id(&self, number: u64) -> String {
        format!("{}.{number}", self.name)
    }

    /// Parses an event id into the name of its stream and its number.
    pub(crate) fn parse_event_id(id: &str) -> Option<(&str, u64)> {
        let (name, number) = id.rsplit_once('.')?;
        Some((name, number.parse().ok()?))
    }

    /// The name of the stream in event ids.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends a message. Ignored after the end.
    pub(crate) fn push(&self, message: Bytes) {
        let mut log = self.log();
        if log.ended {
            return;
        }
        if log.messages.len() == KEPT {
            log.messages.pop_front();
            log.forgotten += 1;
        }
        log.messages.push_back(message);
        drop(log);
        self.changed.send_replace(());
    }

    /// Ends the stream.
    pub(crate) fn end(&self) {
        self.log().ended = true;
        self.changed.send_replace(());
    }

    /// Returns the message after this number.
    pub(crate) fn next(&self, after: u64) -> Next {
        let log = self.log();
        let number = after.max(log.forgotten) + 1;
        let index = usize::try_from(number - log.forgotten - 1).unwrap_or(usize::MAX);
        match log.messages.get(index) {
            Some(message) => Next::Message(number, message.clone()),
            None if log.ended => Next::Ended,
            None => Next::NotYet,
        }
    }

    /// Subscribes to new messages and the end.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns all messages once the stream has ended.
    pub(crate) async fn collect(&self) -> Vec<Bytes> {
        let mut changed = self.watch();
        loop {
            changed.mark_unchanged();
            {
                let log = self.log();
                if log.ended {
                    return log.messages.iter().cloned().collect();
                }
            }
            // The sender is ours, so this only ends with a change.
            let _ = changed.changed().await;
        }
    }

    /// Records that a message was delivered.
    pub(crate) fn mark_delivered(&self, number: u64) {
        let mut log = self.log();
        log.delivered = log.delivered.max(number);
    }

    /// Returns the number of the last message that was delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.log().delivered
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stream_is_read_from_any_number() {
        let stream = Stream::new("s1".to_owned());
        stream.push(Bytes::from_static(b"a"));
        stream.push(Bytes::from_static(b"b"));
        assert!(matches!(stream.next(0), Next::Message(1, text) if text == "a"));
        assert!(matches!(stream.next(1), Next::Message(2, text) if text == "b"));
        assert!(matches!(stream.next(2), Next::NotYet));
        stream.end();
        stream.push(Bytes::from_static(b"too late"));
        assert!(matches!(stream.next(2), Next::Ended));
        assert_eq!(stream.collect().await, ["a", "b"]);
        assert_eq!(Stream::parse_event_id(&stream.event_id(2)), Some(("s1", 2)));
        assert_eq!(Stream::parse_event_id("nonsense"), None);
    }

    #[test]
    fn old_messages_are_dropped_and_numbers_continue() {
        let stream = Stream::new("s1".to_owned());
        for number in 1..=KEPT + 5 {
            stream.push(Bytes::from(number.to_string()));
        }
        assert!(matches!(stream.next(0), Next::Message(6, text) if text == "6"));
        let last = KEPT as u64 + 5;
        assert!(matches!(stream.next(last - 1), Next::Message(number, _) if number == last));
        assert!(matches!(stream.next(last), Next::NotYet));
    }
}
