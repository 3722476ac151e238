//! The contract between the engine and a shell: inputs, outputs and their order.
//!
//! This is the only interface between decisions and I/O. Shells report facts ("the process ended by signal 9 after its
//! stdin had accepted 4,711 bytes") without an interpretation; the engine decides and never touches a handle.
//!
//! # The contract of a child link
//!
//! 1. [`Output::Spawn`] is answered by exactly one [`Input::Spawned`] or [`Input::SpawnFailed`] of the same [`LinkId`].
//! 2. Between `Spawned` and [`Input::ChildExited`] come any number of [`Input::FromLink`] and [`Input::Stderr`], and at
//!    most one [`Input::LinkBroken`] for each of its two pipes.
//! 3. `ChildExited` is the last input about a link and comes exactly once after `Spawned`. By then the process is
//!    reaped, all that it had written to its stdout is delivered as `FromLink`, and the rest of its process group is
//!    killed.
//! 4. A dial is a new [`LinkId`]; ids are never reused. Inputs about a link that is over are an error of the shell; the
//!    engine ignores them.
//!
//! # The contract of an HTTP exchange
//!
//! [`Output::Exchange`] is answered by at most one [`Input::Reached`], then at most one [`Input::Head`], then any
//! number of [`Input::StreamEvent`] (for the content `Events`) or at most one [`Input::Body`] (for any other content),
//! and exactly one [`Input::End`], which is last. `Head` comes before `StreamEvent` and `Body`. Between them, bytes that
//! complete neither are reported by [`Input::ResponseBytes`], at most once a second. [`Output::Abort`] is also answered
//! by `End`, unless the exchange has ended already. The `written` of an `End` is the upper bound of what the peer can
//! have received; a shell that does not know it reports [`Written::Whole`]. A `Body` is always complete: a truncated
//! one is reported by the `End`, one that is not JSON-RPC by `Received::Broken`. A shell makes each exchange exactly
//! once: it never repeats a request by itself, except on a new connection after a reused one was found dead before the
//! first byte was written.
//!
//! # The contract of a credential
//!
//! The shell adds the credential of an upstream to every exchange and numbers the credentials from 1. It reports each
//! new one by [`Input::CredentialChanged`] before the first exchange that uses it begins. [`Output::RenewCredential`]
//! requests a newer one; a shell may also renew a credential by itself, before it expires. A requested renewal whose
//! trouble can pass goes on until `CredentialChanged`, or until a failure that cannot pass. A new transport
//! ([`Output::ReplaceTransport`]) ends it; the numbers go on.
//!
//! # The contract of a client
//!
//! [`Input::ClientOpened`] first; then [`Input::FromClient`] until [`Input::ClientEnded`] (it will send no more, but
//! may still read) or [`Input::ClientLost`] (it can no longer be written to). `ClientLost` is last.
//!
//! A client with many streams (over HTTP) opens one with each frame that has requests. All messages that belong to
//! these requests are written to it, and it is over with its last answer. A stream without a connection keeps its
//! answers and a bounded number of notifications.
//!
//! # The contract of an upstream
//!
//! The upstreams of the configuration exist from the start. Others are added by [`Input::AddUpstream`]. An upstream is
//! removed by [`Input::RemoveUpstream`], and is over with [`Output::UpstreamRemoved`]: until then its number is in use,
//! and the inputs about its process and its exchanges go on.
//!
//! # Reading and writing
//!
//! Writes are pulled: a shell calls `Engine::poll_write` for a port only while the port can take more bytes, and counts
//! the bytes that the operating system accepted. Reads need permission: a shell reads from a port only while
//! `Engine::may_read` returns true.
//!
//! # Text of peers
//!
//! The texts in [`SpawnError`] and [`ExchangeEnd`] and the line of [`Input::Stderr`] may quote a server, a proxy or the
//! system. A shell redacts secrets in them before it passes them on. The engine itself quotes from messages only
//! through the [`Quote`](crate::Quote) of the shell.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use mendline_wire::{Message, Method, Received, ReceivedEvent, Spliced};

use crate::config::UpstreamConfig;
use crate::event::Event;
use crate::list_cache::ListCache;
pub use crate::reason::{
    ConnectError, CredentialError, CutReason, Exit, Pipe, RefusalReason, RequestRefusal, SpawnError,
};

/// One client's session with a frontend. The shell numbers them and never reuses a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// One stream of messages to a client. The shell numbers them for each client and never reuses a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The stream for messages that belong to no request: stdout of a client over stdio, where it is the only one, and
    /// the response to GET over HTTP.
    pub const COMMON: StreamId = StreamId(0);
}

/// One upstream: a configured server by its index in the configuration, or one that was added later. The shell numbers
/// those, and uses a number again only after [`Output::UpstreamRemoved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(pub u16);

impl UpstreamId {
    /// The number of no upstream.
    pub const NONE: UpstreamId = UpstreamId(u16::MAX);
}

/// One dial of one upstream: each child process has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// The upstream.
    pub upstream: UpstreamId,
    /// The number of the dial of that upstream, from 1.
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

    /// The upstream.
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

/// A source or sink of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// A client: its input (we read) and its common stream (we write).
    Client(ClientId),
    /// One stream of a client (we write).
    Stream(ClientId, StreamId),
    /// A child process: its stdin (we write) and stdout (we read).
    Link(LinkId),
    /// The response of an HTTP exchange (we read).
    Exchange(ExchangeId),
}

/// A fact that a shell reports.
#[derive(Clone, Debug)]
pub enum Input {
    /// The cached lists of an upstream. Reported before its first client, or not at all.
    Cached {
        /// The upstream. The cache belongs to one upstream and one credential.
        upstream: UpstreamId,
        /// The cache.
        what: ListCache,
    },
    /// A client of this upstream has connected.
    ClientOpened {
        /// The new client.
        client: ClientId,
        /// The upstream of its requests.
        upstream: UpstreamId,
        /// The way in which messages reach it.
        streams: ClientStreams,
    },
    /// A client sent one frame (a line on stdio, a body over HTTP).
    FromClient {
        /// The client.
        client: ClientId,
        /// The stream for the answers to its requests. A number that was not used before opens a stream.
        stream: StreamId,
        /// The frame, well formed or not.
        received: Received,
    },
    /// A stream of a client has a connection again, or the common stream has its first.
    StreamAttached {
        /// The client.
        client: ClientId,
        /// The stream.
        stream: StreamId,
    },
    /// The connection of a stream is lost. The client may attach the stream again; its requests go on.
    StreamDetached {
        /// The client.
        client: ClientId,
        /// The stream.
        stream: StreamId,
    },
    /// A stream is over before its last answer: its requests are cancelled.
    StreamClosed {
        /// The client.
        client: ClientId,
        /// The stream.
        stream: StreamId,
    },
    /// The shell has refused a request: its principal may not make it, or not now.
    RequestRefused {
        /// The upstream of the request.
        upstream: UpstreamId,
        /// The client, or a number that stands for its principal.
        client: ClientId,
        /// The method of the request.
        method: Method,
        /// The tool, for the call of one.
        tool: Option<String>,
        /// The reason.
        why: RequestRefusal,
    },
    /// A client will send no more (end of its stdin). It may still be reading.
    ClientEnded {
        /// The client.
        client: ClientId,
    },
    /// A client can no longer be written to.
    ClientLost {
        /// The client.
        client: ClientId,
    },

    /// The child runs.
    Spawned {
        /// The requested link.
        link: LinkId,
        /// Its process id, which is also the id of its process group.
        pid: u32,
    },
    /// The child could not be started.
    SpawnFailed {
        /// The requested link.
        link: LinkId,
        /// The reason.
        why: SpawnError,
    },
    /// The child wrote one line to its stdout, protocol or noise.
    FromLink {
        /// The child.
        link: LinkId,
        /// The line.
        received: Received,
    },
    /// The child wrote one line to its stderr (without the line end, redacted and then cut to a few KiB by the shell).
    Stderr {
        /// The child.
        link: LinkId,
        /// The line, without secrets.
        line: Bytes,
    },
    /// One of the child's pipes is gone although the process has not been seen to end.
    LinkBroken {
        /// The child.
        link: LinkId,
        /// The pipe.
        pipe: Pipe,
    },
    /// The child has ended and is reaped. The last input about this link.
    ChildExited {
        /// The child.
        link: LinkId,
        /// Its exit status.
        how: Exit,
        /// The upper bound of the bytes from `poll_write` that the child can have read: the bytes that its stdin
        /// accepted, less those that provably lie unread in a pipe without a reader.
        written: u64,
    },

    /// A connection carries this exchange: the upstream can be reached.
    Reached {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// The head of an HTTP response.
    Head {
        /// The exchange.
        exchange: ExchangeId,
        /// The parts that decisions need.
        head: Head,
    },
    /// Bytes of a response arrived that complete neither an event nor the body: a comment, or a part of one of them.
    /// At most one a second for each exchange.
    ResponseBytes {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// One event of an SSE response.
    StreamEvent {
        /// The exchange.
        exchange: ExchangeId,
        /// The parsed event; the shell enforces the configured limits.
        event: ReceivedEvent,
    },
    /// The whole body of a response that is not a stream.
    Body {
        /// The exchange.
        exchange: ExchangeId,
        /// The content, JSON-RPC or not.
        received: Received,
    },
    /// The exchange is over. The last input about it.
    End {
        /// The exchange.
        exchange: ExchangeId,
        /// Its end.
        how: ExchangeEnd,
        /// The part of the request that the peer can have received.
        written: Written,
    },

    /// The shell uses another credential for exchanges that begin from now on.
    CredentialChanged {
        /// The upstream.
        upstream: UpstreamId,
        /// The number of the credential. The first one has the number 1; 0 means none.
        number: u32,
    },
    /// A requested renewal gave no newer credential. A renewal whose trouble can pass goes on in the shell, and
    /// `CredentialChanged` follows when it has succeeded.
    CredentialFailed {
        /// The upstream.
        upstream: UpstreamId,
        /// The reason.
        why: CredentialError,
    },

    /// The operator requests a new connection.
    Reconnect {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// The operator requested new connections to all servers.
    ReconnectAll,
    /// The operator isolates an upstream: no new call is sent to it until it is resumed.
    Isolate {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// The operator resumes it.
    Resume {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// The configuration has changed. New policies apply to calls that arrive from now on.
    Reconfigure {
        /// The upstream.
        upstream: UpstreamId,
        /// The new configuration. The name and the kind of transport stay the same.
        config: Box<UpstreamConfig>,
        /// The extent of the change.
        change: Change,
    },
    /// There is another upstream: a server that was added to the configuration, or one more process or session of a
    /// server. Clients may be opened for it from now on.
    AddUpstream {
        /// Its number, which no upstream has.
        upstream: UpstreamId,
        /// Its configuration.
        config: Box<UpstreamConfig>,
        /// An upstream of the same server and credential, whose lists it may answer with.
        like: Option<UpstreamId>,
    },
    /// An upstream is not needed any more. Its running calls end within the time of a drain, new ones are refused; then
    /// its process or session ends. Answered by one [`Output::UpstreamRemoved`].
    RemoveUpstream {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// An upstream was not used for long: its process or session ends, and the next request starts it again. Ignored
    /// if it has calls. If it has no client, the next client is served as if it were the first.
    StopIdle {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// The machine slept, or this process was stopped for long: connections may be lost.
    SystemResumed,
    /// An interface, an address or a route has changed: connections may be lost, and unreachable servers may be
    /// reachable. Shells report it at most once in a few seconds.
    NetworkChanged,
    /// Stop: finish running calls, accept no new ones. A second one ends the engine at once.
    Stop,
}

/// A request of the engine to a shell.
#[derive(Clone, Debug)]
pub enum Output {
    /// Start the child process of this upstream.
    Spawn {
        /// The id of the new link.
        link: LinkId,
    },
    /// Close the child's stdin after all pulled messages are written.
    CloseStdin {
        /// The child.
        link: LinkId,
    },
    /// Send a signal to the child's whole process group.
    Signal {
        /// The child.
        link: LinkId,
        /// The signal.
        signal: Signal,
    },
    /// Make an HTTP exchange.
    Exchange {
        /// The exchange.
        exchange: ExchangeId,
        /// The upstream.
        upstream: UpstreamId,
        /// The request. In a box, because most outputs are events, which are smaller.
        request: Box<HttpRequest>,
        /// Whether an idle connection may carry it.
        reuse: Reuse,
    },
    /// Abort an exchange; in the modern era this cancels a call.
    Abort {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// Read the source of the credential again, because the server refused the credential with this number. Answered
    /// by [`Input::CredentialChanged`] or [`Input::CredentialFailed`]; requested again only after one of them.
    RenewCredential {
        /// The upstream.
        upstream: UpstreamId,
        /// The number of the refused credential.
        refused: u32,
        /// The request of the server.
        challenge: Challenge,
    },
    /// A message waits for a stream of a client that has many; [`Engine::poll_stream`](crate::Engine::poll_stream)
    /// returns it. Emitted when the first one waits, and not again until the stream was found empty.
    StreamReady {
        /// The client.
        client: ClientId,
        /// The stream.
        stream: StreamId,
    },
    /// Save this cache; it replaces the last one of this upstream. No input answers it.
    Cache {
        /// The upstream.
        upstream: UpstreamId,
        /// The cache.
        what: ListCache,
    },
    /// Use the new transport configuration of this upstream from now on. Requested while no call is in flight, and for
    /// a server that needs a login at once; exchanges that are still open over the old one are read to their end.
    ReplaceTransport {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// An upstream is removed: everything is answered, its process is reaped, its exchanges have ended. No input about it
    /// may follow, and its number may be used again. Requests of clients that it still has are answered with a failure.
    UpstreamRemoved {
        /// The upstream.
        upstream: UpstreamId,
    },
    /// An event, for status, logs, metrics and traces.
    Event(Event),
    /// Everything is answered, every child is reaped. The process may exit after it has written what `poll_write` still
    /// has for its clients, for at most [`crate::defaults::FINAL_WRITE`].
    Finished {
        /// The result for the exit code.
        ending: Ending,
    },
}

/// The way in which messages reach a client.
#[derive(Clone, Debug)]
pub enum ClientStreams {
    /// Over one stream, the common one, which has a connection as long as the client exists.
    One,
    /// Over one stream for each frame with requests, and a common one. A request of these streams is answered on its
    /// own stream.
    Many {
        /// The `initialize` request of a client that has completed its handshake with an earlier process. It is made
        /// again for the client, and its answer is dropped.
        resumed: Option<Message>,
    },
}

/// A message for a stream.
#[derive(Clone, Debug)]
pub struct StreamMessage {
    /// The message; none if the stream is over because its last open request was cancelled.
    pub message: Option<Spliced>,
    /// Every request of the stream has ended, and no message follows: the stream is over. Never set for the common
    /// stream.
    pub is_last: bool,
}

/// The extent of a configuration change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Policies only: the server keeps running.
    Policies,
    /// The command, the URL or their settings too: the server is replaced as soon as no call is in flight.
    Transport,
}

/// The overall result of an engine's upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Each was ready once, or was never needed.
    Ready,
    /// One never was.
    NeverReady,
    /// One requires a login and was never ready.
    NeedsLogin,
}

/// The signals that end a child, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A request to exit.
    Term,
    /// The forced end.
    Kill,
}

/// One HTTP request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method: GET, POST or DELETE.
    pub verb: Verb,
    /// The target, if it is not the upstream's own URL: the endpoint of a legacy SSE server, as the server named it.
    /// The shell resolves it against the URL and refuses another origin ([`ExchangeEnd::Forbidden`]).
    pub target: Option<String>,
    /// Headers that depend on the message and the session; the shell adds its own (Host, Accept, credentials).
    pub headers: Vec<(Cow<'static, str>, Arc<str>)>,
    /// The message, for POST.
    pub body: Option<Spliced>,
}

/// The three HTTP methods of Streamable HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Opens or resumes a stream.
    Get,
    /// Sends a message.
    Post,
    /// Ends a session.
    Delete,
}

/// The connections that an exchange may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Any open one: the message can be sent again if the connection is dead.
    Any,
    /// Only a new one, or one idle so briefly that a keep-alive race is impossible.
    Fresh,
}

/// The parts of a response head that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The kind of the body.
    pub content: Content,
    /// The session that the server assigned.
    pub session: Option<String>,
    /// `Retry-After` or the reset of a rate limit, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// The request for another credential, in `WWW-Authenticate`.
    pub challenge: Option<Challenge>,
}

/// A server's request for another credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A valid one.
    Credential,
    /// One with more permissions (`insufficient_scope`).
    Scope,
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

/// The end of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub enum ExchangeEnd {
    /// The response is complete.
    Complete,
    /// No connection could be made.
    NoConnection(ConnectError),
    /// The connection was lost (reset, end of file, timeout of the transport).
    Cut(CutReason),
    /// The peer proved that it did not process the request (REFUSED_STREAM, a GOAWAY below our stream).
    Refused,
    /// The engine aborted it.
    Aborted,
    /// A limit was exceeded (head, body or event too large).
    TooLarge,
    /// Sending to this target is not allowed: another origin, a forbidden address, an untrusted certificate. A quick
    /// retry is pointless.
    Forbidden(RefusalReason),
}

/// The part of a request that a peer can have received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Not one byte.
    Nothing,
    /// A part: it cannot have been processed.
    Partial,
    /// Possibly all of it.
    Whole,
}

impl Written {
    /// The name in logs and machine-readable facts.
    pub fn word(self) -> &'static str {
        match self {
            Written::Nothing => "nothing",
            Written::Partial => "partial",
            Written::Whole => "whole",
        }
    }
}
