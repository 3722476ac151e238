//! A pipe, to the byte.
//!
//! What a process can have received is decided by bytes, not by messages: a child may die when its stdin has accepted
//! all of a line, none of it, or all but the newline, and Mendline must tell these apart. So the pipe counts bytes and keeps
//! the messages only with the offset at which each ends. Three marks move over the same line of bytes:
//!
//! ```text
//! read by the child ≤ accepted by the pipe ≤ pulled from the engine by the shell
//! ```
//!
//! When a pipe accepts, when its reader reads and what the writer does about an end is left to the world.

use std::collections::VecDeque;

use mendline_wire::Message;

use crate::oracle::Key;

/// One message on its way through a pipe.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// The message as it was handed out.
    pub message: Message,
    /// The request that it carries, if it is one of those that the oracle knows.
    pub key: Option<Key>,
    /// The offset of the byte after its newline.
    end: u64,
    reported: bool,
}

/// A pipe with a reader at one end and a shell at the other.
#[derive(Debug)]
pub struct Pipe {
    capacity: u64,
    pulled: u64,
    accepted: u64,
    read: u64,
    queue: VecDeque<QueuedMessage>,
}

impl Pipe {
    /// An empty pipe that holds this many bytes.
    pub fn new(capacity: u64) -> Pipe {
        Pipe { capacity: capacity.max(1), pulled: 0, accepted: 0, read: 0, queue: VecDeque::new() }
    }

    /// Takes a message over from the engine. Its newline is added here.
    pub fn pull(&mut self, message: Message, key: Option<Key>) {
        self.pulled += message.text().len() as u64 + 1;
        self.queue.push_back(QueuedMessage { message, key, end: self.pulled, reported: false });
    }

    /// Lets the pipe accept what it has room for; says which requests the reader can have had all of. The newline does not
    /// count: some programs take a last line without it.
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

    /// Reads up to this many bytes; gives back the messages that came to their end.
    pub fn read(&mut self, at_most: u64) -> Vec<QueuedMessage> {
        self.read = self.accepted.min(self.read + at_most);
        let read = self.read;
        let mut out = Vec::new();
        while self.queue.front().is_some_and(|queued| queued.end <= read) {
            out.extend(self.queue.pop_front());
        }
        out
    }

    /// Bytes that the writer has pulled and the pipe has not accepted.
    pub fn unaccepted(&self) -> u64 {
        self.pulled - self.accepted
    }

    /// Bytes that the pipe has accepted and the reader has not read.
    pub fn unread(&self) -> u64 {
        self.accepted - self.read
    }

    /// Bytes accepted since the beginning.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether a line has been accepted in part.
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
    fn a_line_can_have_been_had_with_its_last_byte_and_is_read_with_its_newline() {
        let length = message().text().len() as u64;
        let mut pipe = Pipe::new(length - 1);
        pipe.pull(message(), Some(Key(4)));
        assert_eq!(pipe.accept(), []);
        assert!(pipe.is_within_a_line());
        assert!(pipe.read(1).is_empty());
        assert_eq!(pipe.accept(), [Key(4)]);
        assert!(pipe.read(1).is_empty());
        assert_eq!(pipe.accept(), [], "and only once");
        assert_eq!(pipe.accepted(), length + 1);
        assert_eq!(pipe.read(length).len(), 1);
    }

    #[test]
    fn a_full_pipe_accepts_only_what_its_reader_makes_room_for() {
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
