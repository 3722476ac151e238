//! The actions of a server. The world executes them: as lines of a child, or as HTTP responses and events.

use std::time::Duration;

use bytes::Bytes;

use crate::fact::Stamp;
use crate::oracle::Key;

/// The stream to which a server replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyStream {
    /// The number of the stream.
    pub stream: u32,
    /// The stream can carry other messages before the answer.
    pub allows_interim: bool,
}

impl ReplyStream {
    /// The pipe of a child, which carries all messages.
    pub const PIPE: ReplyStream = ReplyStream { stream: 0, allows_interim: true };
}

/// An action of a server. The first number is that of the stream.
#[derive(Debug)]
pub enum Action {
    /// Writes a line.
    Write(u32, Bytes),
    /// Sends a request to the client.
    Request(u32, Bytes),
    /// Sends a notification to the client.
    Notify(u32, Bytes, Stamp),
    /// Writes the answer to a request; the second text is its body.
    Answer(u32, Bytes, Option<Key>, Bytes),
    /// Writes an answer that is not valid JSON.
    WriteMalformed(u32, Bytes),
    /// Executes the request.
    Run(Key),
    /// Continues this job after a delay.
    Continue(u32, Duration),
    /// Records a protocol violation of the peer.
    Violation(String),
}
