//! What a server does, for the world to carry out: in a child it becomes lines, over HTTP responses and events.

use std::time::Duration;

use bytes::Bytes;

use crate::fact::Stamp;
use crate::oracle::Key;

/// Where what a server says about a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyStream {
    /// The number of the stream.
    pub stream: u32,
    /// More than the answer can go there.
    pub allows_interim: bool,
}

impl ReplyStream {
    /// A pipe: everything goes the same way.
    pub const PIPE: ReplyStream = ReplyStream { stream: 0, allows_interim: true };
}

/// What a server does in answer to something. The number is that of the stream that it belongs to.
#[derive(Debug)]
pub enum Action {
    /// It writes a line.
    Write(u32, Bytes),
    /// It asks its client something.
    Request(u32, Bytes),
    /// It writes a notification for its client.
    Notify(u32, Bytes, Stamp),
    /// It writes the answer to a request, whose body is the second text.
    Answer(u32, Bytes, Option<Key>, Bytes),
    /// It writes an answer that nobody can read.
    WriteMalformed(u32, Bytes),
    /// It does what the request asks for.
    Run(Key),
    /// It will go on with this job after a while.
    Continue(u32, Duration),
    /// It is surprised.
    Violation(String),
}
