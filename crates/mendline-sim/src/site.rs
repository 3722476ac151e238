//! What is behind a URL: minds, sessions and streams.
//!
//! A server over HTTP has one mind per conversation: per session, per trunk, or one for all when it keeps no sessions. Each
//! response is a stream with a number; stream 0 of a mind is the one for what is said unasked. A stream outlives the
//! exchange that carries it: what was said over it is kept, if its events have names, and said again to whoever asks for
//! what came after the last one that it knows.
//!
//! What is admitted, and how it is answered, is in `world/origin.rs`; this is the furniture.

use std::collections::BTreeMap;

use bytes::Bytes;
use mendline_core::port::ExchangeId;
use mendline_wire::SseEvent;

use crate::exchange::PendingRequest;
use crate::oracle::Key;
use crate::server::Server;
use crate::network_faults::NetworkFaults;

/// What a server over HTTP speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpServerKind {
    /// Streamable HTTP of the legacy era, with sessions.
    Stateful,
    /// The same without.
    Stateless,
    /// Streamable HTTP of the modern era.
    Modern,
    /// HTTP+SSE: one long stream over which everything comes.
    Sse,
}

/// What is the same for all lives of one HTTP server.
#[derive(Clone, Debug)]
pub struct Site {
    /// What it speaks.
    pub kind: HttpServerKind,
    /// What the way to it is like now.
    pub faults: NetworkFaults,
    /// Of a hundred answers, how many come as events.
    pub events: u64,
    /// Its events have names, so its streams can be resumed.
    pub names: bool,
    /// Of a hundred responses with names, how many are closed early, to be asked for again.
    pub polls: u64,
    /// It says things unasked, over a stream of their own.
    pub has_notice_stream: bool,
    /// Milliseconds that a connection takes, from and to.
    pub connect: (u64, u64),
}

impl Site {
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

/// How the answer over a stream is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As one body.
    Json,
    /// As events without names.
    Events,
    /// As events with names.
    NamedEvents,
}

/// One stream of a mind.
#[derive(Debug)]
pub struct Stream {
    /// How it is put.
    pub form: Form,
    /// Over which exchange it goes now.
    pub listener: Option<ExchangeId>,
    /// What the head of its response says of the session.
    pub session: Option<String>,
    /// The request that it answers.
    pub key: Option<Key>,
    /// What was said over it, if that can be asked for again.
    pub log: Vec<Bytes>,
    /// Everything was said.
    pub finished: bool,
    /// How often it was primed.
    pub primed: u32,
}

impl Stream {
    /// A stream over which nothing was said.
    pub fn new(form: Form, listener: Option<ExchangeId>) -> Stream {
        Stream { form, listener, session: None, key: None, log: Vec::new(), finished: false, primed: 0 }
    }
}

/// One conversation.
pub struct Conversation {
    /// What thinks.
    pub server: Server,
    /// Its session, if it has one.
    pub session: Option<String>,
    /// It is known under that; a forgotten one finishes what it has begun.
    pub known: bool,
    /// More than the greeting was said in it.
    pub used: bool,
    /// Its streams, by number.
    pub streams: BTreeMap<u32, Stream>,
    opened: u32,
}

impl Conversation {
    /// A mind that nobody has spoken to.
    pub fn new(server: Server, session: Option<String>) -> Conversation {
        Conversation { server, session, known: true, used: false, streams: BTreeMap::new(), opened: 0 }
    }

    /// Opens a stream for one answer.
    pub fn open(&mut self, stream: Stream) -> u32 {
        self.opened += 1;
        self.streams.insert(self.opened, stream);
        self.opened
    }

    /// Opens the stream for what is said unasked, or lets another exchange carry it.
    pub fn listen(&mut self, form: Form, listener: ExchangeId) {
        let stream = self.streams.entry(0).or_insert_with(|| Stream::new(form, None));
        stream.listener = Some(listener);
    }

    /// Whether somebody hears what is said unasked.
    pub fn has_listener(&self) -> bool {
        self.streams.get(&0).is_some_and(|stream| stream.listener.is_some())
    }
}

/// What answers at one URL.
#[derive(Default)]
pub struct Origin {
    /// The conversations, by number; numbers only rise.
    pub conversations: BTreeMap<u32, Conversation>,
    /// Requests on the last stretch of their way.
    pub in_transit: BTreeMap<u32, PendingRequest>,
    enqueued: u32,
    made: u32,
}

impl Origin {
    /// The number of the next mind.
    pub fn next_conversation(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Puts a whole request under way; says under which number.
    pub fn enqueue(&mut self, pending: PendingRequest) -> u32 {
        self.enqueued += 1;
        self.in_transit.insert(self.enqueued, pending);
        self.enqueued
    }

    /// The mind that is known under this session.
    pub fn of_session(&self, session: &str) -> Option<u32> {
        let known = |conversation: &Conversation| conversation.known && conversation.session.as_deref() == Some(session);
        self.conversations.iter().find(|(_, conversation)| known(conversation)).map(|(number, _)| *number)
    }

    /// Whether there is a session that was used and is still known.
    pub fn has_live_session(&self) -> bool {
        self.conversations.values().any(|conversation| conversation.known && conversation.used && conversation.session.is_some())
    }

    /// The request whose answer goes over the stream of an event.
    pub fn answers(&self, (conversation, stream, _): (u32, u32, usize)) -> Option<Key> {
        self.conversations.get(&conversation)?.streams.get(&stream)?.key
    }

    /// Nobody listens at this exchange any more; gives the streams that it carried.
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

/// The name of an event: which mind, which stream, how many events before it and with it.
pub fn event_name(conversation: u32, stream: u32, count: usize) -> Bytes {
    Bytes::from(format!("{conversation}.{stream}.{count}"))
}

/// Reads the name of an event, priming or not.
pub fn read_event_name(text: &str) -> Option<(u32, u32, usize)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// An event with nothing to say but its name, so that the stream can be resumed after the event with that count. No two
/// events have the same name, so this one counts the priming events too.
pub fn priming(conversation: u32, stream: u32, count: usize, primed: u32, retry: Option<u64>) -> SseEvent {
    let id = Bytes::from(format!("{conversation}.{stream}.{count}.p{primed}"));
    SseEvent { id: Some(id), event: None, data: Some(Bytes::new()), retry }
}
