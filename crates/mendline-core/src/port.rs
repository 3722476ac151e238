//! What a shell may say to the engine, what the engine asks of a shell, and in which order.
//!
//! This is the whole surface between decisions and I/O. Shells report facts ("the process ended by signal 9 after 4,711
//! bytes had been accepted by its stdin") and never what they mean; the engine decides and never touches a handle.
//!
//! # The contract of a child link
//!
//! 1. [`Output::Spawn`] is answered by exactly one [`Input::Spawned`] or [`Input::SpawnFailed`] of the same [`LinkId`].
//! 2. Between `Spawned` and [`Input::ChildExited`] come any number of [`Input::FromLink`] and [`Input::Stderr`], and at most
//!    one [`Input::LinkBroken`] for each of its two pipes.
//! 3. `ChildExited` is the last word about a link and is said exactly once after `Spawned`: the process has been reaped, all
//!    that it had written to its stdout before it died has been delivered as `FromLink`, and what is left of its process
//!    group has been killed. Nothing about that link follows.
//! 4. A dial is a new [`LinkId`]; ids are never used twice. Inputs about a link that is over are a shell's mistake; the
//!    engine ignores them.
//!
//! # The contract of an HTTP exchange
//!
//! [`Output::Exchange`] is answered by at most one [`Input::Reached`], then at most one [`Input::Head`], then any number of [`Input::StreamEvent`] (when its
//! content is `Events`) or at most one [`Input::Body`] (anything else that has one), and exactly one [`Input::End`], which is
//! last. `Head` comes before `StreamEvent` and `Body`. [`Output::Abort`] is also answered by `End`, unless the exchange has
//! ended already. The `written` of an `End` is what the peer can have received at most; a shell that does not know says
//! [`Written::Whole`]. A `Body` is whole or not there at all: one that is cut short, or not JSON-RPC, is the `End`'s or
//! `Received::Broken`'s business. A shell makes each exchange exactly once: it never sends a request a second time by
//! itself, except on a fresh connection after a reused one was found dead before its first byte was written.
//!
//! # The contract of a client
//!
//! [`Input::ClientOpened`] first; then [`Input::FromClient`] until [`Input::ClientEnded`] (it will send no more, but may
//! still read) or [`Input::ClientLost`] (it can no longer be written to). `ClientLost` is last.
//!
//! # Reading and writing
//!
//! Sinks pull: a shell calls `Engine::poll_write` for a port only while it can take more bytes, and counts what the
//! operating system accepted. Sources ask leave: a shell reads from a port only while `Engine::may_read` says so.
//!
//! # Text of peers
//!
//! Words in [`SpawnError`] and [`EndHow`] and the line of [`Input::Stderr`] may quote a server, a proxy or the system. A
//! shell hides secrets in them before it passes them on. The engine itself quotes from messages only through the
//! [`Quote`](crate::Quote) that the shell has given to it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use mendline_wire::{Received, ReceivedEvent};

use crate::config::UpstreamConfig;
use crate::event::Event;
use crate::list_cache::ListCache;
pub use crate::reason::{ConnectError, CutReason, Exit, Pipe, RefusalReason, SpawnError};

/// One client's conversation with a frontend. The shell numbers them and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// One configured server, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(pub u16);

/// One dial of one upstream: each child process that is started has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// Whose link it is.
    pub upstream: UpstreamId,
    /// Counts the dials of that upstream, from 1.
    pub dial: u32,
}

/// One HTTP request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u64);

impl ExchangeId {
    /// The exchange of this upstream with this number.
    pub fn new(upstream: UpstreamId, number: u64) -> ExchangeId {
        ExchangeId(u64::from(upstream.0) << 48 | number)
    }

    /// Whose it is.
    pub fn upstream(self) -> UpstreamId {
        UpstreamId((self.0 >> 48) as u16)
    }
}

impl From<ExchangeId> for UpstreamId {
    fn from(exchange: ExchangeId) -> UpstreamId {
        exchange.upstream()
    }
}

impl From<LinkId> for UpstreamId {
    fn from(link: LinkId) -> UpstreamId {
        link.upstream
    }
}

/// Something that bytes can be written to or read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// A client: its stdout side (we write) and stdin side (we read).
    Client(ClientId),
    /// A child process: its stdin (we write) and stdout (we read).
    Link(LinkId),
    /// The response of an HTTP exchange (we read).
    Exchange(ExchangeId),
}

/// A fact that a shell reports.
#[derive(Clone, Debug)]
pub enum Input {
    /// This is known of an upstream from an earlier time. Said before the first client is, or not at all.
    Cached {
        /// Which upstream, with which credential: what is remembered of another is another's.
        upstream: UpstreamId,
        /// What is known.
        what: ListCache,
    },
    /// A client has come, and this is the upstream that it talks to.
    ClientOpened {
        /// The new conversation.
        client: ClientId,
        /// Where its requests go.
        upstream: UpstreamId,
    },
    /// A client sent one frame (a line on stdio, a body over HTTP).
    FromClient {
        /// Who sent it.
        client: ClientId,
        /// What came, well formed or not.
        received: Received,
    },
    /// A client will send no more (end of its stdin). It may still be reading.
    ClientEnded {
        /// Which client.
        client: ClientId,
    },
    /// A client can no longer be written to.
    ClientLost {
        /// Which client.
        client: ClientId,
    },

    /// The child runs.
    Spawned {
        /// The link that was asked for.
        link: LinkId,
        /// Its process id, which is also the id of its process group.
        pid: u32,
    },
    /// The child could not be started.
    SpawnFailed {
        /// The link that was asked for.
        link: LinkId,
        /// Why not.
        why: SpawnError,
    },
    /// The child wrote one line to its stdout, protocol or noise.
    FromLink {
        /// Which child.
        link: LinkId,
        /// What came.
        received: Received,
    },
    /// The child wrote one line to its stderr (without the line end, redacted and then cut to a few KiB by the shell).
    Stderr {
        /// Which child.
        link: LinkId,
        /// The line, without secrets.
        line: Bytes,
    },
    /// One of the child's pipes is gone although the process has not been seen to end.
    LinkBroken {
        /// Which child.
        link: LinkId,
        /// Which pipe.
        pipe: Pipe,
    },
    /// The child has ended and is reaped. The last word about this link.
    ChildExited {
        /// Which child.
        link: LinkId,
        /// How it ended.
        how: Exit,
        /// How many of the bytes that `poll_write` handed out for this link it can have read, at most: what its stdin
        /// accepted, less what provably lies unread in a pipe that has no reader any more.
        written: u64,
    },

    /// A connection carries this exchange: the upstream can be reached.
    Reached {
        /// Which exchange.
        exchange: ExchangeId,
    },
    /// The head of an HTTP response.
    Head {
        /// Which exchange.
        exchange: ExchangeId,
        /// The parts of it that decisions need.
        head: Head,
    },
    /// One event of an SSE response.
    StreamEvent {
        /// Which exchange.
        exchange: ExchangeId,
        /// The event, with what its data is; the shell has read it within the limits of the configuration.
        event: ReceivedEvent,
    },
    /// The whole body of a response that is not a stream.
    Body {
        /// Which exchange.
        exchange: ExchangeId,
        /// What it holds, JSON-RPC or not.
        received: Received,
    },
    /// The exchange is over. The last word about it.
    End {
        /// Which exchange.
        exchange: ExchangeId,
        /// How it ended.
        how: EndHow,
        /// What the peer can have received of the request, at most.
        written: Written,
    },

    /// Someone asked for a new connection manually.
    Reconnect {
        /// Of which upstream.
        upstream: UpstreamId,
    },
    /// Someone takes an upstream out manually: nothing new is sent to it until it is resumed.
    Isolate {
        /// Which upstream.
        upstream: UpstreamId,
    },
    /// Someone brings it back.
    Resume {
        /// Which upstream.
        upstream: UpstreamId,
    },
    /// Its configuration has changed. New policies hold for calls that come from now on.
    Reconfigure {
        /// Of which upstream.
        upstream: UpstreamId,
        /// What holds from now on. Its name stays, and so does whether it is a child.
        config: Box<UpstreamConfig>,
        /// How much has changed.
        change: Change,
    },
    /// The machine slept, or this process stood still for long: what was connected may not be any more.
    SystemResumed,
    /// An interface, an address or a route has changed: what was connected may not be any more, what was out of reach may be
    /// within it. Shells say so at most once in a few seconds.
    NetworkChanged,
    /// Stop: finish what is running, take nothing new. Said twice, it means at once.
    Stop,
}

/// What the engine asks of a shell.
#[derive(Clone, Debug)]
pub enum Output {
    /// Start the child process of this upstream.
    Spawn {
        /// The name of the new link.
        link: LinkId,
    },
    /// Close the child's stdin once all that was pulled for it is written.
    CloseStdin {
        /// Which child.
        link: LinkId,
    },
    /// Send a signal to the child's whole process group.
    Signal {
        /// Which child.
        link: LinkId,
        /// Which signal.
        signal: Signal,
    },
    /// Make an HTTP exchange.
    Exchange {
        /// Its name.
        exchange: ExchangeId,
        /// Which upstream.
        upstream: UpstreamId,
        /// What to send. In a box, because most outputs are events and would be as large as it.
        request: Box<HttpRequest>,
        /// Whether a connection that has been idle may carry it.
        reuse: Reuse,
    },
    /// Give an exchange up; in the modern era this is how a call is cancelled.
    Abort {
        /// Which exchange.
        exchange: ExchangeId,
    },
    /// Keep this for the next time; it replaces what was kept of this upstream before. Nobody waits for it.
    Cache {
        /// Of which upstream.
        upstream: UpstreamId,
        /// What to keep.
        what: ListCache,
    },
    /// From now on, reach this upstream the new way. Asked for at a moment in which no call is out; what is still open over the
    /// old way is heard to its end.
    Renew {
        /// Which upstream.
        upstream: UpstreamId,
    },
    /// Something happened. For status, logs, metrics and traces alike.
    Event(Event),
    /// Everything is answered, every child is reaped: the process may end once it has written what `poll_write` still has
    /// for its clients, which it need not try for longer than [`crate::defaults::FINAL_WRITE`].
    Finished {
        /// How the upstreams were.
        ending: Ending,
    },
}

/// How much of a configuration has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Policies only: what runs goes on.
    Policies,
    /// The way to the server too, its command or its URL or what goes with them: it is replaced at the first moment in which
    /// no call is with it.
    Transport,
}

/// How an engine's upstreams were, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Each was ready once, or nobody wanted anything of it.
    Ready,
    /// One never was.
    NeverReady,
    /// One lets nobody in without a login, and never did.
    NeedsLogin,
}

/// The signals that end a child, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Asks.
    Term,
    /// Does not ask.
    Kill,
}

/// One HTTP request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// GET, POST or DELETE.
    pub verb: Verb,
    /// Where to, when it is not the upstream's own URL: the endpoint that a legacy SSE server named, as it named it. The
    /// shell resolves it against the URL and refuses another origin ([`EndHow::Forbidden`]).
    pub target: Option<String>,
    /// Headers that follow from the message and the session; the shell adds its own (Host, Accept, credentials).
    pub headers: Vec<(Cow<'static, str>, Arc<str>)>,
    /// The message, for POST.
    pub body: Option<mendline_wire::Spliced>,
}

/// The three verbs of Streamable HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Opens or resumes a stream.
    Get,
    /// Sends a message.
    Post,
    /// Ends a session.
    Delete,
}

/// May an exchange use a connection that others have used?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Any that looks open: the message can be sent again if the connection turns out dead.
    Any,
    /// Only a fresh one, or one idle so briefly that a keep-alive race is out of the question.
    Fresh,
}

/// What decisions need of a response head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// What kind of body follows.
    pub content: Content,
    /// The session that the server assigned.
    pub session: Option<String>,
    /// `Retry-After`, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
}

/// Kinds of response bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// None.
    Empty,
    /// `application/json`.
    Json,
    /// `text/event-stream`.
    Events,
    /// Anything else, HTML for instance.
    Other,
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EndHow {
    /// The response came to its proper end.
    Complete,
    /// No connection could be made.
    NoConnection(ConnectError),
    /// The connection was lost (reset, end of file, timeout of the transport).
    Cut(CutReason),
    /// The peer proved that it did not process the request (REFUSED_STREAM, a GOAWAY below our stream).
    Refused,
    /// We gave it up.
    Aborted,
    /// A limit of ours was exceeded (head, body or event too large).
    TooLarge,
    /// It leads where nothing may be sent: another origin, an address that is not allowed, a certificate that is not
    /// trusted. Trying again soon is pointless.
    Forbidden(RefusalReason),
}

/// What a peer can have received of a request, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Not one byte.
    Nothing,
    /// Some, but not all: it cannot have been processed.
    Partly,
    /// Possibly all of it.
    Whole,
}
