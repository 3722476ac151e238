//! Events: facts in the past tense.
//!
//! Status, logs, metrics and traces all read this one stream, so they cannot disagree. An event is a fact with its
//! figures. Its text for people is in `event/words.rs`, its level in `event/level.rs`. Its stable
//! name is in `event/name.rs`. Events of every healthy call share the name of their tool and carry no other text, so
//! emitting them is cheap.

mod call;
mod level;
mod name;
mod state;
mod tool;
mod upstream;
mod words;

use std::time::Duration;

use mendline_wire::Method;

use crate::config::RateLimit;
use crate::evidence::{Evidence, Outcome};
use crate::policy::rule::Rule;
use crate::port::{Challenge, ClientId, LinkId, UpstreamId};
use crate::reason::{ConnectivityChange, CredentialError, Reason, RefusalReason, SpawnError};
use crate::words::Cause;

pub use crate::upstream::Condition;
pub use level::Level;
pub use state::{CredentialState, LinkState};
pub use tool::{ToolName, ToolNames, TraceParent};
pub(crate) use words::{Short, Wait};

/// The transport of a link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// The pipes of a child process with this id.
    Child(u32),
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of revision 2024-11-05.
    Sse,
}

/// The reason why the client is not notified of a changed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenChange {
    /// The server reported a change, but the list is the same.
    NoDifference,
    /// Entries were missing for a short time.
    EntriesCameBack,
    /// Only the order of entries or of their members is different.
    OrderOnly,
}

/// The replacement of a server whose target has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replacement {
    /// It happens now: no call is in flight, or the server needs a login and the change may be another credential.
    AtOnce,
    /// It happens as soon as no call is in flight.
    WhenIdle,
}

/// The reason why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// An answer to a call that was answered, cancelled or sent again before.
    Late,
    /// An answer to an unknown request.
    Unknown,
    /// An error that names no request.
    WithoutId,
    /// A notification that cannot be delivered: the link is down or its queue is full.
    Undeliverable,
    /// Progress below the client's last, or without a request.
    StaleProgress,
    /// A client's answer to a request that is over.
    StaleReply,
    /// A notification for a client whose stream has no connection and holds as many as it may.
    NoStream,
    /// A notification for a client that does not read its stream.
    NotRead,
}

impl Dropped {
    /// Returns the stable name for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Late => "late",
            Dropped::Unknown => "unknown_request",
            Dropped::WithoutId => "without_id",
            Dropped::Undeliverable => "undeliverable",
            Dropped::StaleProgress => "stale_progress",
            Dropped::StaleReply => "stale_reply",
            Dropped::NoStream => "no_stream",
            Dropped::NotRead => "not_read",
        }
    }
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

/// An event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants' names and their Display say it; fields are named for what they hold")]
pub enum Event {
    ClientOpened {
        client: ClientId,
        upstream: UpstreamId,
    },
    /// The client named itself.
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
        /// The transport, when the link has come up.
        over: Option<Over>,
        /// It is parked again after a probe, which was reported within the last hour.
        repeated: bool,
    },
    /// The operator requested a new connection.
    ReconnectRequested {
        upstream: UpstreamId,
    },
    /// The next dial is scheduled after this wait.
    DialPlanned {
        upstream: UpstreamId,
        /// Since it was lost, counted from 1.
        attempt: u32,
        /// The number of attempts before it is parked, if it is known.
        most: Option<u32>,
        wait: Duration,
    },
    ReconnectDisabled {
        upstream: UpstreamId,
        why: Reason,
    },
    Reconfigured {
        upstream: UpstreamId,
        /// The replacement of the server, if its target has changed.
        replacement: Option<Replacement>,
        /// The new rate limit.
        rate_limit: Option<RateLimit>,
        place: String,
    },
    ServerReplaced {
        upstream: UpstreamId,
    },
    /// There is another upstream: that of an added server, or one more process or session of the server of `like`.
    UpstreamAdded {
        upstream: UpstreamId,
        name: String,
        like: Option<UpstreamId>,
    },
    UpstreamRemoved {
        upstream: UpstreamId,
    },
    /// Its process or session was ended, because it was not used. The next request starts it again.
    IdleStopped {
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
    /// The server requires a login, and no call was there to report it.
    LoginRequired {
        upstream: UpstreamId,
        why: Reason,
    },
    /// A server that needed a login accepts requests again.
    LoginAccepted {
        upstream: UpstreamId,
    },
    /// The server refused the credential with this number, and a newer one is requested.
    CredentialRenewalStarted {
        upstream: UpstreamId,
        refused: u32,
        challenge: Challenge,
    },
    /// Another credential is used from now on.
    CredentialRenewed {
        upstream: UpstreamId,
        number: u32,
    },
    /// There is no newer credential, or the server refused that, too.
    CredentialRenewalFailed {
        upstream: UpstreamId,
        why: CredentialError,
        /// The state of the credential now.
        state: CredentialState,
    },
    /// A call failed; a probe shows whether the server is available.
    ServerSuspected {
        upstream: UpstreamId,
        why: Reason,
    },
    /// The condition of the server after a failure.
    VerdictReached {
        upstream: UpstreamId,
        condition: Condition,
    },
    /// Mendline answered a request of a client, because the session that it shares with others makes it unnecessary.
    AnsweredBySession {
        upstream: UpstreamId,
        client: ClientId,
        method: Method,
    },
    /// Mendline answered a request about its own tool or resource.
    OwnStatusAnswered {
        upstream: UpstreamId,
        client: ClientId,
        method: Method,
    },
    /// The server has a tool or a resource with the name of Mendline's own one, which is therefore not in the list.
    OwnNameTaken {
        upstream: UpstreamId,
        method: Method,
    },
    /// A client called a tool that the configuration denies. The call was answered with an error.
    ToolDenied {
        upstream: UpstreamId,
        client: ClientId,
        tool: String,
    },
    /// Mendline answered a client's ping, because the server is away.
    PingAnswered {
        upstream: UpstreamId,
    },
    OutputSkipped {
        upstream: UpstreamId,
        text: String,
    },
    /// Mendline sent a request of its own.
    InternalRequestSent {
        upstream: UpstreamId,
        method: Method,
    },
    /// A request of Mendline itself failed.
    InternalRequestFailed {
        upstream: UpstreamId,
        method: Method,
        why: Reason,
    },
    /// A list changed, and the client is notified.
    ListChanged {
        upstream: UpstreamId,
        method: Method,
    },
    /// A list seemed to have changed. The client was not notified and keeps its list.
    ListChangeHidden {
        upstream: UpstreamId,
        method: Method,
        why: HiddenChange,
    },
    /// A request was answered from the cache; `stale` if the cached answer may be out of date.
    AnsweredFromCatalogue {
        upstream: UpstreamId,
        method: Method,
        stale: bool,
    },
    /// The server did not answer the handshake or a list in time, so Mendline answered it: provisionally or from the
    /// catalogue.
    ProvisionalAnswer {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        was_out: bool,
        took: Duration,
    },
    /// The server answered a handshake that was answered from the cache or provisionally before.
    HandshakeCompleted {
        upstream: UpstreamId,
        link: LinkId,
    },
    /// The server's handshake differs from the one that the client received.
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
        /// The problem.
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
        /// The number of this attempt on the wire. Every attempt has its own; the first has that of its call.
        number: u64,
    },
    /// An attempt ended without the answer to its call.
    AttemptEnded {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
        attempt: u32,
        outcome: Outcome,
        /// The part of it that was written, and the reply.
        evidence: Evidence,
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
        /// The rule that allows it.
        rule: Rule,
        why: Reason,
        was_out: bool,
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
    /// The attempt failed; the call waits for the verdict about the server.
    VerdictAwaited {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
        why: Reason,
        was_out: bool,
    },
    /// The outcome of the attempt is unknown; the call waits until the hints of its tool are known.
    HintsAwaited {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
        why: Reason,
        was_out: bool,
    },
    /// No byte came for this call for a long time.
    CallSilent {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        tool: Option<ToolName>,
        silent_for: Duration,
    },
    /// A byte about a call came that was reported as silent.
    SilenceEnded {
        upstream: UpstreamId,
        call: u64,
        tool: Option<ToolName>,
    },
    /// The attempt was not sent; the call waits.
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
        /// The rule that decided it.
        rule: Rule,
        took: Duration,
        why: Reason,
    },
    CallCancelled {
        upstream: UpstreamId,
        call: u64,
        /// Whether the server can have received it.
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

    /// A breaker opened: calls to a server or a tool are rejected.
    BreakerOpened {
        upstream: UpstreamId,
        tool: Option<String>,
        open_for: Duration,
        why: RefusalReason,
    },
    /// One trial call is admitted.
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
    /// The server is overloaded and gets a pause of `wait`; it requested one of `hint`, if it named a time.
    Paused {
        upstream: UpstreamId,
        wait: Duration,
        hint: Option<Duration>,
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
