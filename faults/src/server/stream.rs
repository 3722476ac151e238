//! A stream of messages that outlives the connections which carry it.
//!
//! What a server says on a stream is written down and numbered from 1. A response carries the stream from some number on,
//! and a resumed one goes on where the last one broke. How events look on the wire is the business of
//! [`carry`](super::carry).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

/// So many messages are kept for those who resume.
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
    /// How many messages were forgotten.
    forgotten: u64,
    messages: VecDeque<Bytes>,
    ended: bool,
    /// The last message that a connection took.
    delivered: u64,
}

/// What comes next on a stream.
pub(crate) enum Next {
    Message(u64, Bytes),
    Ended,
    NotYet,
}

impl Stream {
    pub(crate) fn new(name: String) -> Stream {
        Stream { name, log: Mutex::default(), changed: watch::channel(()).0 }
    }

    /// The id of the event with this number.
    pub(crate) fn event_id(&self, number: u64) -> String {
        format!("{}.{number}", self.name)
    }

    /// The stream and the number that an event id names.
    pub(crate) fn parse_event_id(id: &str) -> Option<(&str, u64)> {
        let (name, number) = id.rsplit_once('.')?;
        Some((name, number.parse().ok()?))
    }

    /// What it is called in event ids.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Says something. After the end nothing is said any more.
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

    /// Nothing more will be said.
    pub(crate) fn end(&self) {
        self.log().ended = true;
        self.changed.send_replace(());
    }

    /// What follows on the message with this number.
    pub(crate) fn next(&self, after: u64) -> Next {
        let log = self.log();
        let number = after.max(log.forgotten) + 1;
        let place = usize::try_from(number - log.forgotten - 1).unwrap_or(usize::MAX);
        match log.messages.get(place) {
            Some(message) => Next::Message(number, message.clone()),
            None if log.ended => Next::Ended,
            None => Next::NotYet,
        }
    }

    /// Whoever waits on this is woken by everything that is said, and by the end.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// All that was said, once it is over.
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

    /// A connection took a message.
    pub(crate) fn mark_delivered(&self, number: u64) {
        let mut log = self.log();
        log.delivered = log.delivered.max(number);
    }

    /// The last message that a connection took.
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
    async fn a_stream_is_read_from_any_number_on() {
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
    fn old_messages_are_forgotten_and_numbers_go_on() {
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
