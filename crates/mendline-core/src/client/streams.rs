//! The streams of a client, and the messages that wait for each.
//!
//! A client over stdio has one stream. A client over HTTP has one for each frame with requests, which is over with the
//! last answer, and a common one for messages that belong to no request. A stream may lose its connection and get
//! another. Without a connection it keeps answers and requests, and only a bounded number of notifications, counted
//! from the loss of the connection: the shell may have taken some of them. With a connection it keeps more of them. A
//! client that never reads must not slow down its server, nor take memory without limit.

use std::collections::BTreeMap;

use mendline_wire::Spliced;

use super::outbox::Outbox;
use crate::cx::Cx;
use crate::defaults;
use crate::event::Dropped;
use crate::port::{ClientId, Output, StreamId, StreamMessage};

/// The streams of one client.
#[derive(Debug)]
pub struct Streams {
    client: ClientId,
    layout: Layout,
    common: Stream,
    of_requests: BTreeMap<StreamId, Stream>,
}

/// The number of streams that a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The common one only.
    One,
    /// One for each frame with requests, too.
    Many,
}

/// Whether a message may be dropped if its stream is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// An answer or a request of the server: never, as long as a client can read it.
    Always,
    /// A notification.
    WhileThereIsRoom,
}

/// An error: the stream has no room for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// It has no connection.
    NoConnection,
    /// Its client does not read.
    NotRead,
}

impl From<NoRoom> for Dropped {
    fn from(why: NoRoom) -> Dropped {
        match why {
            NoRoom::NoConnection => Dropped::NoStream,
            NoRoom::NotRead => Dropped::NotRead,
        }
    }
}

#[derive(Debug)]
struct Stream {
    outbox: Outbox,
    /// Requests without an answer.
    open: usize,
    connection: Connection,
    /// The notifications since the connection was lost.
    since_loss: Notifications,
    announced: Announced,
}

#[derive(Clone, Copy, Debug, Default)]
struct Notifications {
    count: usize,
    bytes: usize,
}

impl Notifications {
    fn are_too_many(self) -> bool {
        self.count >= defaults::DETACHED_QUEUE || self.bytes >= defaults::DETACHED_QUEUE_BYTES
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Attached,
    Detached,
}

/// Whether the shell knows that there is something to pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announced {
    No,
    Yes,
}

impl Stream {
    fn new(connection: Connection) -> Stream {
        let (outbox, since_loss) = (Outbox::default(), Notifications::default());
        Stream { outbox, open: 0, connection, since_loss, announced: Announced::No }
    }

    fn is_attached(&self) -> bool {
        self.connection == Connection::Attached
    }

    fn is_over(&self) -> bool {
        self.open == 0 && self.outbox.len() == 0
    }

    /// Returns whether it has room for a message.
    fn has_room(&self, id: StreamId, keep: Keep) -> bool {
        match (keep, self.connection) {
            // The client cannot resume the answers on its common stream, so they are lost with the connection.
            (Keep::Always, Connection::Detached) => id != StreamId::COMMON || !self.outbox.is_full_for_lost_client(),
            (Keep::Always, Connection::Attached) => true,
            (Keep::WhileThereIsRoom, Connection::Detached) => {
                !self.outbox.is_full_for_detached() && !self.since_loss.are_too_many()
            }
            (Keep::WhileThereIsRoom, Connection::Attached) => !self.outbox.is_full_for_notifications(),
        }
    }
}

impl Streams {
    pub fn new(client: ClientId, layout: Layout) -> Streams {
        let connection = match layout {
            Layout::One => Connection::Attached,
            Layout::Many => Connection::Detached,
        };
        Streams { client, layout, common: Stream::new(connection), of_requests: BTreeMap::new() }
    }

    /// Returns whether the client has many streams.
    pub fn are_many(&self) -> bool {
        self.layout == Layout::Many
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.common.outbox.len() + self.of_requests.values().map(|stream| stream.outbox.len()).sum::<usize>()
    }

    /// Returns whether a reader is so far behind that a child must be slowed down. A stream without a connection has no
    /// reader.
    pub fn is_behind(&self) -> bool {
        let is_behind = |stream: &Stream| stream.is_attached() && stream.outbox.is_behind();
        is_behind(&self.common) || self.of_requests.values().any(is_behind)
    }

    /// Returns whether the client is so far behind that the engine stops reading from it.
    pub fn is_stuck(&self) -> bool {
        self.common.outbox.is_stuck() || self.of_requests.values().any(|stream| stream.outbox.is_stuck())
    }

    /// Registers a request, whose messages go to this stream. Opens the stream if it is new.
    pub fn begin_request(&mut self, id: StreamId) {
        if id != StreamId::COMMON {
            self.of_requests.entry(id).or_insert_with(|| Stream::new(Connection::Attached)).open += 1;
        }
    }

    /// Registers the end of a request whose answer is queued, or that gets none.
    pub fn end_request(&mut self, id: StreamId, cx: &mut Cx<'_>) {
        if id == StreamId::COMMON {
            return;
        }
        let Some(stream) = self.of_requests.get_mut(&id) else { return };
        stream.open = stream.open.saturating_sub(1);
        if stream.is_over() {
            // A cancelled request has no answer that would end the stream.
            announce(self.client, id, stream, cx);
        }
    }

    /// Queues a message.
    pub fn push(&mut self, id: StreamId, message: Spliced, keep: Keep, cx: &mut Cx<'_>) -> Result<(), NoRoom> {
        if self.layout == Layout::One {
            self.common.outbox.push(message, cx.ledger);
            return Ok(());
        }
        let id = if self.of_requests.contains_key(&id) { id } else { StreamId::COMMON };
        let client = self.client;
        let Some(stream) = self.get_mut(id) else { return Err(NoRoom::NoConnection) };
        if !stream.has_room(id, keep) {
            return Err(if stream.is_attached() { NoRoom::NotRead } else { NoRoom::NoConnection });
        }
        if keep == Keep::WhileThereIsRoom && !stream.is_attached() {
            stream.since_loss.count += 1;
            stream.since_loss.bytes += message.len();
        }
        stream.outbox.push(message, cx.ledger);
        announce(client, id, stream, cx);
        Ok(())
    }

    /// Returns the next message of the common stream of a client that has no other.
    pub fn pull_common(&mut self, cx: &mut Cx<'_>) -> Option<Spliced> {
        self.common.outbox.pop(cx.ledger)
    }

    /// Returns the next message of a stream. A stream that is over is removed.
    pub fn pull(&mut self, id: StreamId, cx: &mut Cx<'_>) -> Option<StreamMessage> {
        let stream = self.get_mut(id)?;
        let message = stream.outbox.pop(cx.ledger);
        let is_last = id != StreamId::COMMON && stream.is_over();
        if is_last {
            self.of_requests.remove(&id);
        } else if message.is_none() {
            stream.announced = Announced::No;
            return None;
        }
        Some(StreamMessage { message, is_last })
    }

    /// The stream has a connection.
    pub fn attach(&mut self, id: StreamId, cx: &mut Cx<'_>) {
        let client = self.client;
        let Some(stream) = self.get_mut(id) else { return };
        stream.connection = Connection::Attached;
        stream.since_loss = Notifications::default();
        stream.announced = Announced::No;
        if stream.outbox.len() > 0 {
            announce(client, id, stream, cx);
        }
    }

    /// The connection of the stream is lost.
    pub fn detach(&mut self, id: StreamId) {
        if let Some(stream) = self.get_mut(id) {
            stream.connection = Connection::Detached;
        }
    }

    /// Removes a stream whose requests are cancelled.
    pub fn close(&mut self, id: StreamId, cx: &mut Cx<'_>) {
        if let Some(mut stream) = self.of_requests.remove(&id) {
            stream.outbox.clear(cx.ledger);
        }
    }

    /// Drops all messages, because the client is gone.
    pub fn clear(&mut self, cx: &mut Cx<'_>) {
        self.common.outbox.clear(cx.ledger);
        for stream in self.of_requests.values_mut() {
            stream.outbox.clear(cx.ledger);
        }
    }

    /// Chooses the stream for a request of the server: that of the call which caused it, else the common one, else any
    /// with a connection. A client without one cannot be asked.
    pub fn for_server_request(&self, cause: Option<StreamId>) -> Option<StreamId> {
        if let Some(cause) = cause.filter(|id| *id == StreamId::COMMON || self.of_requests.contains_key(id)) {
            return Some(cause);
        }
        if self.common.is_attached() {
            return Some(StreamId::COMMON);
        }
        self.of_requests.iter().find(|(_, stream)| stream.is_attached()).map(|(id, _)| *id)
    }

    fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        match id {
            StreamId::COMMON => Some(&mut self.common),
            _ => self.of_requests.get_mut(&id),
        }
    }
}

/// Tells the shell once that there is something to pull.
fn announce(client: ClientId, id: StreamId, stream: &mut Stream, cx: &mut Cx<'_>) {
    if stream.announced == Announced::No {
        stream.announced = Announced::Yes;
        cx.output(Output::StreamReady { client, stream: id });
    }
}
