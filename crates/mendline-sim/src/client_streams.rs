//! The streams of a client over HTTP, as the shell of a gateway has them.
//!
//! Each frame with requests has its own stream, which may lose its connection and get another. A client reads all its
//! streams through one pipe.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::StreamId;
use mendline_wire::{Kind, Message, Received};

use crate::rng::Rng;

/// The part of clients with many streams, in a hundred.
const MANY: u64 = 25;

/// The part of streams that lose their connection, in a hundred.
const LOST: u64 = 30;

/// The streams of one client.
#[derive(Debug)]
pub struct ClientStreams {
    next: u32,
    /// Streams for which messages wait.
    ready: VecDeque<StreamId>,
    /// The streams of requests, by the text of their id, which a client may use twice.
    by_request: BTreeMap<Vec<u8>, BTreeSet<StreamId>>,
    /// Streams without a connection.
    detached: BTreeSet<StreamId>,
    stay_attached: bool,
    rng: Rng,
}

impl ClientStreams {
    /// Chooses whether a client has many streams. Draws from a generator of its own, so that nothing else changes.
    pub fn choose(rng: &Rng) -> Option<ClientStreams> {
        let mut rng = rng.fork(0x57ea);
        rng.percent(MANY).then(|| ClientStreams {
            next: 1,
            ready: VecDeque::new(),
            by_request: BTreeMap::new(),
            detached: BTreeSet::new(),
            stay_attached: false,
            rng,
        })
    }

    /// Returns the stream for the answers to a frame.
    pub fn of_frame(&mut self, received: &Received) -> StreamId {
        let has_request = match received {
            Received::Message(message) => message.kind() == Kind::Request,
            _ => true,
        };
        if !has_request {
            return StreamId::COMMON;
        }
        let stream = StreamId(self.next);
        self.next += 1;
        let messages: Vec<&Message> = match received {
            Received::Message(message) => vec![message],
            Received::Batch(messages) => messages.iter().flatten().collect(),
            Received::Broken { .. } | Received::TooLong { .. } => Vec::new(),
        };
        for id in messages.iter().filter_map(|message| message.id()) {
            self.by_request.entry(id.to_vec()).or_default().insert(stream);
        }
        stream
    }

    /// Returns whether a message may be written to a stream: an answer only to a stream of a request with its id.
    pub fn is_of_stream(&self, message: &[u8], stream: StreamId) -> bool {
        let Ok(message) = Message::parse(Bytes::copy_from_slice(message)) else { return true };
        let is_answer = matches!(message.kind(), Kind::Result | Kind::Error);
        let streams = message.id().filter(|_| is_answer).and_then(|id| self.by_request.get(id));
        streams.is_none_or(|streams| streams.contains(&stream))
    }

    /// Draws whether a stream loses its connection now.
    pub fn loses(&mut self, stream: StreamId) -> bool {
        !self.stay_attached && stream != StreamId::COMMON && self.rng.percent(LOST) && self.detached.insert(stream)
    }

    /// Lets no stream lose its connection any more. Returns those that have none.
    pub fn stay_attached(&mut self) -> BTreeSet<StreamId> {
        self.stay_attached = true;
        std::mem::take(&mut self.detached)
    }

    /// Returns whether a stream has no connection.
    pub fn has_detached(&self) -> bool {
        !self.detached.is_empty()
    }

    /// Draws the time until a stream gets a connection again.
    pub fn pause(&mut self) -> Duration {
        self.rng.millis(1, 3_000)
    }

    /// Returns a stream that gets a connection again.
    pub fn reattached(&mut self) -> Option<StreamId> {
        self.detached.pop_first()
    }

    /// Notes that messages wait for a stream.
    pub fn announce(&mut self, stream: StreamId) {
        self.ready.push_back(stream);
    }

    /// Returns the next stream that can be written to. A stream without a connection is announced again with the next.
    pub fn next_ready(&mut self) -> Option<StreamId> {
        loop {
            let stream = self.ready.pop_front()?;
            if !self.detached.contains(&stream) {
                return Some(stream);
            }
        }
    }
}
