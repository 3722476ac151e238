//! What happened, in the past tense.
//!
//! One stream of these feeds status, logs, metrics and traces, so they cannot disagree. An event is a fact with its
//! figures. What it means to a person is written once, in `event/words.rs`; how loud it is, in `event/level.rs`. Events on
//! the way of every healthy call carry no strings, so that telling them costs next to nothing.

mod level;
mod name;
mod tool;
mod words;

use std::time::Duration;

use mendline_wire::Method;

use crate::config::RateLimit;
use crate::evidence::Outcome;
use crate::port::{Change, ClientId, LinkId, UpstreamId};
use crate::reason::{ConnectivityChange, Reason, RefusalReason, SpawnError};
use crate::words::Cause;

pub use level::Level;
pub use tool::{ToolName, ToolNames, TraceParent};
pub(crate) use words::Short;

/// Where a link stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkState {
    /// Never asked for.
    #[default]
    Idle,
    /// Being started.
    Dialing,
    /// Running.
    Up,
    /// Being ended by us.
    Draining,
    /// Lost; the next dial is scheduled.
    Waiting,
    /// Given up for now: slow probes, and use wakes it.
    Parked,
}

/// What carries a link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// The pipes of a child process with this id.
    Child(u32),
    /// Streamable HTTP.
    Http,
    /// The older HTTP with SSE.
    Sse,
}

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// An answer to a call that was answered, cancelled or sent again before.
    Late,
    /// An answer to something that was never asked.
    Unknown,
    /// An error that names no request.
    Nameless,
    /// A notification for which there was no way: the link is down or its queue full.
    Undeliverable,
    /// Progress that would fall below what the client has seen, or that belongs to nothing.
    StaleProgress,
    /// A client's answer to a request that is over.
    StaleReply,
}

/// The answer of an upstream to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// A result.
    Ok,
    /// A result with `isError`: the tool failed.
    ToolError,
    /// A JSON-RPC error with this code.
    Error(i64),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants' names and their Display say it; fields are named for what they hold")]
pub enum Event {
    ClientOpened {
        client: ClientId,
        upstream: UpstreamId,
    },
    /// It said who it is.
    ClientNamed {
        client: ClientId,
        upstream: UpstreamId,
        name: String,
        version: String,
    },
    ClientEnded {
        client: ClientId,
    },
    ClientLost {
        client: ClientId,
    },
    ClientMessageInvalid {
        client: ClientId,
        what: String,
    },

    DialFailed {
        upstream: UpstreamId,
        why: SpawnError,
        /// It failed the same way within the last hour.
        repeated: bool,
    },
    LinkStateChanged {
        upstream: UpstreamId,
        from: LinkState,
        to: LinkState,
        why: Option<Reason>,
        /// What carries it from now on, when it has come up.
        over: Option<Over>,
        /// It is parked again after a probe, which was reported within the last hour.
        repeated: bool,
    },
    /// Somebody wants a new connection.
    ReconnectRequested {
        upstream: UpstreamId,
    },
    /// It will be dialed after this wait, unless something happens before.
    DialPlanned {
        upstream: UpstreamId,
        /// Since it was lost, counted from 1.
        attempt: u32,
        /// After how many it is parked, if that is known: those that have patience may go on for longer.
        most: Option<u32>,
        wait: Duration,
    },
    ReconnectDisabled {
        upstream: UpstreamId,
        why: Reason,
    },
    Reconfigured {
        upstream: UpstreamId,
        change: Change,
        /// What holds from now on.
        rate_limit: Option<RateLimit>,
        place: String,
    },
    ServerReplaced {
        upstream: UpstreamId,
    },
    UpstreamReady {
        upstream: UpstreamId,
        link: LinkId,
        after: Duration,
    },
    SessionReplayed {
        upstream: UpstreamId,
        link: LinkId,
    },
    SessionReplayFailed {
        upstream: UpstreamId,
        link: LinkId,
        why: Reason,
    },
    /// It lets nobody in without a login, and no call was there to be told so.
    LoginRequired {
        upstream: UpstreamId,
        why: Reason,
    },
    OutputSkipped {
        upstream: UpstreamId,
        text: String,
    },
    /// We ask the server something ourselves.
    InternalRequestSent {
        upstream: UpstreamId,
        method: Method,
    },
    /// Something that we asked the server ourselves got no answer that helps.
    InternalRequestFailed {
        upstream: UpstreamId,
        method: Method,
        why: Reason,
    },
    /// A list reads differently after a gap.
    ListChanged {
        upstream: UpstreamId,
        method: Method,
    },
    /// A request was answered with what the server said before; `stale` if nobody knows whether it still holds.
    AnsweredFromCatalogue {
        upstream: UpstreamId,
        method: Method,
        stale: bool,
    },
    /// The server took too long to answer the handshake, so it was answered in its stead.
    ProvisionalAnswer {
        upstream: UpstreamId,
        call: u64,
        was_out: bool,
        took: Duration,
    },
    /// A handshake that was answered before is answered by the server itself, for the first time.
    HandshakeCompleted {
        upstream: UpstreamId,
        link: LinkId,
    },
    /// The server says something else than the client was told.
    HandshakeDiffers {
        upstream: UpstreamId,
        /// The members of the result that differ.
        members: Vec<&'static str>,
    },
    ContentTypeMismatch {
        upstream: UpstreamId,
    },
    ToolRemoved {
        upstream: UpstreamId,
        tool: String,
        /// What is wrong with it.
        problem: String,
    },

    CallAccepted {
        upstream: UpstreamId,
        call: u64,
        client: ClientId,
        method: Method,
        /// The tool that it calls.
        tool: Option<ToolName>,
        /// The trace that it belongs to.
        trace: Option<TraceParent>,
    },
    /// An attempt was handed to the shell.
    AttemptStarted {
        upstream: UpstreamId,
        call: u64,
        attempt: u32,
        /// What the server knows this attempt by. Every attempt has a number of its own, the first that of its call.
        number: u64,
    },
    /// An attempt ended without the answer to its call.
    AttemptEnded {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
        attempt: u32,
        outcome: Outcome,
        why: Reason,
    },
    /// The call is sent again.
    CallRetried {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        tool: Option<ToolName>,
        /// The number of the next attempt.
        attempt: u32,
        /// The limit of attempts.
        most: u32,
        /// The outcome of the attempt before.
        outcome: Outcome,
        why: Reason,
    },
    /// The call is not sent again, because the retry budget of its server is spent.
    RetryRefused {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
    },
    /// A response that broke off is requested again from its last event on.
    ResponseResumed {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
        /// The number of resumptions without an event in between.
        resumption: u32,
        /// The limit of these.
        most: u32,
    },
    /// It did not get there and waits as if it had never been sent.
    CallReturned {
        upstream: UpstreamId,
        call: u64,
    },
    CallAnswered {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        tool: Option<ToolName>,
        attempts: u32,
        result: Answered,
        /// Since it arrived.
        took: Duration,
        /// Since its last attempt started: without waiting and without earlier attempts.
        attempt_took: Duration,
    },
    CallFailed {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        tool: Option<ToolName>,
        attempts: u32,
        was_out: bool,
        cause: Cause,
        outcome: Outcome,
        took: Duration,
        why: Reason,
    },
    CallCancelled {
        upstream: UpstreamId,
        call: u64,
        /// Whether the server can have seen it.
        sent: bool,
        was_out: bool,
    },
    CallAbandoned {
        upstream: UpstreamId,
        call: u64,
        was_out: bool,
    },
    CallRejected {
        upstream: UpstreamId,
        client: ClientId,
        method: Method,
        tool: Option<ToolName>,
        cause: Cause,
        why: Reason,
    },

    /// Calls to a server, or to one of its tools, are held back from now on.
    BreakerOpened {
        upstream: UpstreamId,
        tool: Option<String>,
        open_for: Duration,
        why: RefusalReason,
    },
    /// One call finds out whether they may flow again.
    BreakerHalfOpened {
        upstream: UpstreamId,
        tool: Option<String>,
    },
    BreakerClosed {
        upstream: UpstreamId,
        tool: Option<String>,
    },
    Isolated {
        upstream: UpstreamId,
    },
    Resumed {
        upstream: UpstreamId,
    },
    /// The server asked to be left alone for `hint`, and is for `wait`.
    Paused {
        upstream: UpstreamId,
        wait: Duration,
        hint: Duration,
    },
    PauseEnded {
        upstream: UpstreamId,
    },
    /// A call waits because of the rate limit.
    RateLimited {
        upstream: UpstreamId,
        call: u64,
        wait: Duration,
    },

    ServerRequestForwarded {
        client: ClientId,
        link: LinkId,
        method: Method,
    },
    ServerRequestAnswered {
        client: ClientId,
        link: LinkId,
    },
    ServerRequestWithdrawn {
        client: ClientId,
        link: LinkId,
    },
    ServerRequestDeclined {
        upstream: UpstreamId,
        why: RefusalReason,
    },

    IdTypeRepaired {
        upstream: UpstreamId,
        call: u64,
    },
    MessageDropped {
        upstream: UpstreamId,
        method: Method,
        why: Dropped,
    },

    ConnectivityChanged {
        change: ConnectivityChange,
    },
    Stopping {
        running: usize,
    },
    Stopped,
}

impl Event {
    /// Which upstream it is about.
    pub fn upstream(&self) -> Option<UpstreamId> {
        match self {
            Event::LinkStateChanged { upstream, .. }
            | Event::DialFailed { upstream, .. }
            | Event::DialPlanned { upstream, .. }
            | Event::LoginRequired { upstream, .. }
            | Event::ReconnectRequested { upstream }
            | Event::ClientOpened { upstream, .. }
            | Event::ClientNamed { upstream, .. }
            | Event::UpstreamReady { upstream, .. }
            | Event::SessionReplayed { upstream, .. }
            | Event::SessionReplayFailed { upstream, .. }
            | Event::OutputSkipped { upstream, .. }
            | Event::ReconnectDisabled { upstream, .. }
            | Event::Reconfigured { upstream, .. }
            | Event::ServerReplaced { upstream }
            | Event::InternalRequestSent { upstream, .. }
            | Event::InternalRequestFailed { upstream, .. }
            | Event::ListChanged { upstream, .. }
            | Event::AnsweredFromCatalogue { upstream, .. }
            | Event::ProvisionalAnswer { upstream, .. }
            | Event::HandshakeCompleted { upstream, .. }
            | Event::HandshakeDiffers { upstream, .. }
            | Event::ContentTypeMismatch { upstream }
            | Event::ToolRemoved { upstream, .. }
            | Event::CallAccepted { upstream, .. }
            | Event::AttemptStarted { upstream, .. }
            | Event::AttemptEnded { upstream, .. }
            | Event::RetryRefused { upstream, .. }
            | Event::ResponseResumed { upstream, .. }
            | Event::CallReturned { upstream, .. }
            | Event::CallRetried { upstream, .. }
            | Event::CallAnswered { upstream, .. }
            | Event::CallFailed { upstream, .. }
            | Event::CallCancelled { upstream, .. }
            | Event::CallAbandoned { upstream, .. }
            | Event::CallRejected { upstream, .. }
            | Event::BreakerOpened { upstream, .. }
            | Event::BreakerHalfOpened { upstream, .. }
            | Event::BreakerClosed { upstream, .. }
            | Event::Isolated { upstream }
            | Event::Resumed { upstream }
            | Event::Paused { upstream, .. }
            | Event::PauseEnded { upstream }
            | Event::RateLimited { upstream, .. }
            | Event::ServerRequestDeclined { upstream, .. }
            | Event::IdTypeRepaired { upstream, .. }
            | Event::MessageDropped { upstream, .. } => Some(*upstream),
            Event::ServerRequestForwarded { link, .. }
            | Event::ServerRequestAnswered { link, .. }
            | Event::ServerRequestWithdrawn { link, .. } => Some(link.upstream),
            Event::ClientEnded { .. }
            | Event::ClientLost { .. }
            | Event::ClientMessageInvalid { .. }
            | Event::ConnectivityChanged { .. }
            | Event::Stopping { .. }
            | Event::Stopped => None,
        }
    }
}
