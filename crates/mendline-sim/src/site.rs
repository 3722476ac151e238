//! An HTTP server: its conversations, sessions and streams.
//!
//! An HTTP server has one conversation per session or per SSE stream, or one for all if it keeps no sessions. Each
//! response is a stream with a number; stream 0 of a conversation carries messages that belong to no response. A stream
//! outlives the exchange that carries it: if its events have ids, they are kept and replayed when a client resumes the
//! stream.
//!
//! `world/origin.rs` admits and answers requests; this file holds the data.

use std::collections::BTreeMap;

use bytes::Bytes;
use mendline_core::port::ExchangeId;
use mendline_wire::SseEvent;

use crate::authorization::Authorization;
use crate::exchange::PendingRequest;
use crate::network_faults::{NetworkFaults, SessionLostReply};
use crate::oracle::Key;
use crate::server::Server;

/// The protocol of an HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpServerKind {
    /// Streamable HTTP of the legacy era, with sessions.
    Stateful,
    /// Streamable HTTP of the legacy era, without sessions.
    Stateless,
    /// Streamable HTTP of the modern era.
    Modern,
    /// HTTP+SSE (2024-11-05): one SSE stream carries all server messages.
    Sse,
}

/// The settings of one HTTP server; they survive a restart.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its protocol.
    pub kind: HttpServerKind,
    /// Its current network faults.
    pub faults: NetworkFaults,
    /// Percentage of answers that are sent as events.
    pub events: u64,
    /// Its events have ids, so its streams can be resumed.
    pub names: bool,
    /// Percentage of resumable responses that are closed early, to be resumed.
    pub polls: u64,
    /// Its usual reply for a lost session.
    pub session_lost_reply: SessionLostReply,
    /// It sends comments in responses with events while the call runs.
    pub comments: bool,
    /// It offers a stream for notifications.
    pub has_notice_stream: bool,
    /// Milliseconds to connect: minimum and maximum.
    pub connect: (u64, u64),
    /// Statuses after which the server has done nothing, as the configuration says (`retry.statuses`).
    pub harmless: Vec<u16>,
}

impl Site {
    /// Its reply for a lost session.
    pub fn session_lost_reply(&self) -> SessionLostReply {
        self.faults.session_lost_reply.unwrap_or(self.session_lost_reply)
    }

    /// Gives a server of the legacy era sessions.
    pub fn keep_sessions(&mut self) {
        if self.kind != HttpServerKind::Modern {
            self.kind = HttpServerKind::Stateful;
        }
    }

    /// Gives a server of the legacy era streams that can be resumed.
    pub fn name_events(&mut self) {
        self.keep_sessions();
        (self.events, self.names) = (100, true);
    }
}

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON body.
    Json,
    /// Events without ids.
    Events,
    /// Events with ids.
    NamedEvents,
}

/// A stream of a conversation.
#[derive(Debug)]
pub struct Stream {
    /// Its form.
    pub form: Form,
    /// The exchange that carries it now.
    pub listener: Option<ExchangeId>,
    /// The session id in the head of its response.
    pub session: Option<String>,
    /// The request that it answers.
    pub key: Option<Key>,
    /// The messages so far, if the stream can be resumed.
    pub log: Vec<Bytes>,
    /// The stream is complete.
    pub finished: bool,
    /// Number of priming events.
    pub primed: u32,
}

impl Stream {
    /// Creates an empty stream.
    pub fn new(form: Form, listener: Option<ExchangeId>) -> Stream {
        Stream { form, listener, session: None, key: None, log: Vec::new(), finished: false, primed: 0 }
    }
}

/// A conversation.
pub struct Conversation {
    /// Its server.
    pub server: Server,
    /// Its session id.
    pub session: Option<String>,
    /// The session is valid. An invalid conversation completes its jobs.
    pub known: bool,
    /// It has received more than `initialize`.
    pub used: bool,
    /// Its streams, by number.
    pub streams: BTreeMap<u32, Stream>,
    opened: u32,
}

impl Conversation {
    /// Creates a conversation.
    pub fn new(server: Server, session: Option<String>) -> Conversation {
        Conversation { server, session, known: true, used: false, streams: BTreeMap::new(), opened: 0 }
    }

    /// Opens a stream for one response.
    pub fn open(&mut self, stream: Stream) -> u32 {
        self.opened += 1;
        self.streams.insert(self.opened, stream);
        self.opened
    }

    /// Opens the notification stream, or assigns another exchange to it.
    pub fn listen(&mut self, form: Form, listener: ExchangeId) {
        let stream = self.streams.entry(0).or_insert_with(|| Stream::new(form, None));
        stream.listener = Some(listener);
    }

    /// Returns whether an exchange carries the notification stream.
    pub fn has_listener(&self) -> bool {
        self.streams.get(&0).is_some_and(|stream| stream.listener.is_some())
    }
}

/// The server state at one URL.
#[derive(Default)]
pub struct Origin {
    /// The conversations by number; numbers only increase.
    pub conversations: BTreeMap<u32, Conversation>,
    /// Requests in transit.
    pub in_transit: BTreeMap<u32, PendingRequest>,
    /// Its credentials.
    pub authorization: Authorization,
    /// A ping was refused with 400 or 404.
    pub refused_ping: bool,
    enqueued: u32,
    made: u32,
}

impl Origin {
    /// Returns the number of the next conversation.
    pub fn next_conversation(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Adds a request in transit. Returns its number.
    pub fn enqueue(&mut self, pending: PendingRequest) -> u32 {
        self.enqueued += 1;
        self.in_transit.insert(self.enqueued, pending);
        self.enqueued
    }

    /// Returns the conversation of this session.
    pub fn of_session(&self, session: &str) -> Option<u32> {
        let known =
            |conversation: &Conversation| conversation.known && conversation.session.as_deref() == Some(session);
        self.conversations.iter().find(|(_, conversation)| known(conversation)).map(|(number, _)| *number)
    }

    /// Returns whether a used session is still valid.
    pub fn has_live_session(&self) -> bool {
        self.conversations
            .values()
            .any(|conversation| conversation.known && conversation.used && conversation.session.is_some())
    }

    /// Returns the request that the stream of an event answers.
    pub fn answers(&self, (conversation, stream, _): (u32, u32, usize)) -> Option<Key> {
        self.conversations.get(&conversation)?.streams.get(&stream)?.key
    }

    /// Detaches an exchange. Returns the streams that it carried.
    pub fn detach(&mut self, exchange: ExchangeId) -> Vec<(u32, u32)> {
        let mut carried = Vec::new();
        for (number, conversation) in &mut self.conversations {
            for (name, stream) in &mut conversation.streams {
                if stream.listener == Some(exchange) {
                    stream.listener = None;
                    carried.push((*number, *name));
                }
            }
        }
        carried
    }
}

/// Returns the id of an event: conversation, stream, number of events so far.
pub fn event_name(conversation: u32, stream: u32, count: usize) -> Bytes {
    Bytes::from(format!("{conversation}.{stream}.{count}"))
}

/// Parses the id of an event.
pub fn read_event_name(text: &str) -> Option<(u32, u32, usize)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns a priming event: an id without data, so that the stream can be resumed after the event with that count.
/// Event ids are unique, so it also counts the priming events.
pub fn priming(conversation: u32, stream: u32, count: usize, primed: u32, retry: Option<u64>) -> SseEvent {
    let id = Bytes::from(format!("{conversation}.{stream}.{count}.p{primed}"));
    SseEvent { id: Some(id), event: None, data: Some(Bytes::new()), retry }
}
