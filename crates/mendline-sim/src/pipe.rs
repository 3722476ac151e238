//! A pipe, simulated byte by byte.
//!
//! Bytes, not messages, determine what a process can have received. A child may die when its stdin has accepted all of
//! a line, none of it, or all but the newline, and Mendline must distinguish these cases. The pipe therefore counts
//! bytes and keeps each message with the offset of its end. Three offsets advance over the same sequence of bytes:
//!
//! ```text
//! read by the child ≤ accepted by the pipe ≤ pulled from the engine by the shell
//! ```
//!
//! The world decides when a pipe accepts bytes and when its reader reads.

use std::collections::VecDeque;

use mendline_wire::Message;

use crate::oracle::Key;

/// A message in a pipe.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// The message as the engine wrote it.
    pub message: Message,
    /// The client request in it, if the oracle knows it.
    pub key: Option<Key>,
    /// The offset after its newline.
    end: u64,
    reported: bool,
}

/// A pipe from the shell to a reader.
#[derive(Debug)]
pub struct Pipe {
    capacity: u64,
    pulled: u64,
    accepted: u64,
    read: u64,
    queue: VecDeque<QueuedMessage>,
}

impl Pipe {
    /// Creates an empty pipe with this capacity in bytes.
    pub fn new(capacity: u64) -> Pipe {
        Pipe { capacity: capacity.max(1), pulled: 0, accepted: 0, read: 0, queue: VecDeque::new() }
    }

    /// Takes a message from the engine and appends a newline.
    pub fn pull(&mut self, message: Message, key: Option<Key>) {
        self.pulled += message.text().len() as u64 + 1;
        self.queue.push_back(QueuedMessage { message, key, end: self.pulled, reported: false });
    }

    /// Accepts as many bytes as there is room for. Returns the requests that the reader can now have received
    /// completely. The newline does not count, because some programs accept a last line without it.
    pub fn accept(&mut self) -> Vec<Key> {
        let room = self.capacity.saturating_sub(self.accepted - self.read);
        let before = self.accepted;
        self.accepted = self.pulled.min(self.accepted + room);
        let mut whole = Vec::new();
        if self.accepted > before {
            let accepted = self.accepted;
            for queued in self.queue.iter_mut().filter(|queued| queued.end <= accepted + 1 && !queued.reported) {
                queued.reported = true;
                whole.extend(queued.key);
            }
        }
        whole
    }

    /// Reads up to this many bytes and returns the messages that are complete.
    pub fn read(&mut self, at_most: u64) -> Vec<QueuedMessage> {
        self.read = self.accepted.min(self.read + at_most);
        let read = self.read;
        let mut out = Vec::new();
        while self.queue.front().is_some_and(|queued| queued.end <= read) {
            out.extend(self.queue.pop_front());
        }
        out
    }

    /// Bytes that were pulled from the engine and not accepted by the pipe.
    pub fn unaccepted(&self) -> u64 {
        self.pulled - self.accepted
    }

    /// Bytes that the pipe accepted and the reader has not read.
    pub fn unread(&self) -> u64 {
        self.accepted - self.read
    }

    /// Bytes accepted in total.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns whether a line is accepted in part.
    pub fn is_within_a_line(&self) -> bool {
        self.queue.iter().any(|queued| {
            queued.end > self.accepted && queued.end - (queued.message.text().len() as u64 + 1) < self.accepted
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message() -> Message {
        Message::parse(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"a"}"#)).unwrap()
    }

    #[test]
    fn line_is_whole_before_its_newline_is_accepted() {
        let length = message().text().len() as u64;
        let mut pipe = Pipe::new(length - 1);
        pipe.pull(message(), Some(Key(4)));
        assert_eq!(pipe.accept(), []);
        assert!(pipe.is_within_a_line());
        assert!(pipe.read(1).is_empty());
        assert_eq!(pipe.accept(), [Key(4)]);
        assert!(pipe.read(1).is_empty());
        assert_eq!(pipe.accept(), [], "a request is reported only once");
        assert_eq!(pipe.accepted(), length + 1);
        assert_eq!(pipe.read(length).len(), 1);
    }

    #[test]
    fn full_pipe_accepts_only_what_was_read() {
        let mut pipe = Pipe::new(10);
        pipe.pull(message(), None);
        pipe.accept();
        pipe.accept();
        assert_eq!((pipe.accepted(), pipe.unread()), (10, 10));
        pipe.read(3);
        pipe.accept();
        assert_eq!((pipe.accepted(), pipe.unread()), (13, 10));
    }
}
