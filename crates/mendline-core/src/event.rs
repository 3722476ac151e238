//! What happened, in the past tense.
//!
//! One stream of these feeds status, logs, metrics and traces, so they cannot disagree. An event is a fact with its
//! figures; what it means to a person is written once, in `Display`. Events on the way of every healthy call carry no
//! strings, so that telling them costs next to nothing.

use std::fmt;
use std::time::Duration;

use mendline_wire::Method;

use crate::config::RateLimit;
use crate::evidence::Outcome;
use crate::port::{Change, ClientId, LinkId, UpstreamId};
use crate::words::Cause;

/// How loud an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who follow single calls.
    Debug,
    /// For those who follow the day.
    Info,
    /// Something was lost or mended that should not have broken.
    Warn,
    /// Something needs a person.
    Error,
}

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
    NoWay,
    /// Progress that would fall below what the client has seen, or that belongs to nothing.
    StaleProgress,
    /// A client's answer to a request that is over.
    StaleReply,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
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
    ClientSpokeNonsense {
        client: ClientId,
        what: String,
    },

    DialFailed {
        upstream: UpstreamId,
        why: String,
    },
    LinkMoved {
        upstream: UpstreamId,
        from: LinkState,
        to: LinkState,
        why: String,
        /// What carries it from now on, when it has come up.
        over: Option<Over>,
    },
    /// Somebody wants a new connection.
    ReconnectAsked {
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
    LeftAlone {
        upstream: UpstreamId,
        why: String,
    },
    Reconfigured {
        upstream: UpstreamId,
        change: Change,
        /// What holds from now on.
        rate_limit: Option<RateLimit>,
        place: String,
    },
    Renewed {
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
        why: String,
    },
    /// It lets nobody in without a login, and no call was there to be told so.
    LoginWanted {
        upstream: UpstreamId,
        why: String,
    },
    NoiseSkipped {
        upstream: UpstreamId,
        text: String,
    },
    /// We ask the server something ourselves.
    ErrandSent {
        upstream: UpstreamId,
        method: Method,
    },
    /// Something that we asked the server ourselves got no answer that helps.
    ErrandFailed {
        upstream: UpstreamId,
        method: Method,
        why: String,
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
    /// The server took too long to answer the greeting, so it was answered in its stead.
    CallAnsweredEarly {
        upstream: UpstreamId,
        call: u64,
        was_out: bool,
        took: Duration,
    },
    /// A greeting that was answered before is answered by the server itself, for the first time.
    GreetedInBackground {
        upstream: UpstreamId,
        link: LinkId,
    },
    /// The server says something else than the client was told.
    ToldOtherwise {
        upstream: UpstreamId,
        what: String,
    },
    AnswerMislabelled {
        upstream: UpstreamId,
    },
    ToolLeftOut {
        upstream: UpstreamId,
        tool: String,
        why: String,
    },

    CallAccepted {
        upstream: UpstreamId,
        call: u64,
        method: Method,
    },
    CallSent {
        upstream: UpstreamId,
        call: u64,
        attempt: u32,
        /// What the server knows this attempt by. Every attempt has a number of its own, the first that of its call.
        number: u64,
    },
    CallRetried {
        upstream: UpstreamId,
        call: u64,
        attempt: u32,
        outcome: Outcome,
    },
    /// It did not get there and waits as if it had never been sent.
    CallCameBack {
        upstream: UpstreamId,
        call: u64,
    },
    CallAnswered {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        attempts: u32,
        error: bool,
        took: Duration,
    },
    CallFailed {
        upstream: UpstreamId,
        call: u64,
        method: Method,
        attempts: u32,
        was_out: bool,
        cause: Cause,
        outcome: Outcome,
        took: Duration,
        why: String,
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
    CallTurnedAway {
        upstream: UpstreamId,
        method: Method,
        cause: Cause,
    },

    /// Calls to a server, or to one of its tools, are held back from now on.
    BreakerOpened {
        upstream: UpstreamId,
        tool: Option<String>,
        open_for: Duration,
        why: String,
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

    AskForwarded {
        client: ClientId,
        link: LinkId,
        method: Method,
    },
    AskAnswered {
        client: ClientId,
        link: LinkId,
    },
    AskWithdrawn {
        client: ClientId,
        link: LinkId,
    },
    AskDeclined {
        upstream: UpstreamId,
        why: &'static str,
    },

    IdMended {
        upstream: UpstreamId,
        call: u64,
    },
    MessageDropped {
        upstream: UpstreamId,
        method: Method,
        why: Dropped,
    },

    Shaken {
        why: &'static str,
    },
    Stopping {
        running: usize,
    },
    Stopped,
}

impl Event {
    /// How loud it is.
    pub fn level(&self) -> Level {
        match self {
            Event::DialFailed { .. } | Event::LoginWanted { .. } | Event::LinkMoved { to: LinkState::Parked, .. } => {
                Level::Error
            }
            Event::LinkMoved { to: LinkState::Waiting, .. } => Level::Warn,
            Event::LinkMoved { .. }
            | Event::DialPlanned { .. }
            | Event::CallAccepted { .. }
            | Event::CallSent { .. }
            | Event::CallCameBack { .. }
            | Event::ErrandSent { .. }
            | Event::CallAnswered { .. }
            | Event::AnsweredFromCatalogue { .. }
            | Event::CallCancelled { .. }
            | Event::CallAbandoned { .. }
            | Event::RateLimited { .. }
            | Event::AskForwarded { .. }
            | Event::AskAnswered { .. }
            | Event::ClientOpened { .. }
            | Event::ClientNamed { .. }
            | Event::ClientEnded { .. } => Level::Debug,
            Event::MessageDropped { why: Dropped::Late | Dropped::StaleProgress | Dropped::StaleReply, .. } => {
                Level::Debug
            }
            Event::ClientSpokeNonsense { .. }
            | Event::ClientLost { .. }
            | Event::NoiseSkipped { .. }
            | Event::AnswerMislabelled { .. }
            | Event::ToldOtherwise { .. }
            | Event::ToolLeftOut { .. }
            | Event::SessionReplayFailed { .. }
            | Event::ErrandFailed { .. }
            | Event::LeftAlone { .. }
            | Event::CallRetried { .. }
            | Event::CallFailed { .. }
            | Event::CallTurnedAway { .. }
            | Event::BreakerOpened { .. }
            | Event::Isolated { .. }
            | Event::Paused { .. }
            | Event::AskWithdrawn { .. }
            | Event::AskDeclined { .. }
            | Event::IdMended { .. }
            | Event::MessageDropped { .. } => Level::Warn,
            Event::UpstreamReady { .. }
            | Event::SessionReplayed { .. }
            | Event::GreetedInBackground { .. }
            | Event::CallAnsweredEarly { .. }
            | Event::ListChanged { .. }
            | Event::BreakerHalfOpened { .. }
            | Event::BreakerClosed { .. }
            | Event::Resumed { .. }
            | Event::PauseEnded { .. }
            | Event::ReconnectAsked { .. }
            | Event::Reconfigured { .. }
            | Event::Renewed { .. }
            | Event::Shaken { .. }
            | Event::Stopping { .. }
            | Event::Stopped => Level::Info,
        }
    }

    /// Which upstream it is about.
    pub fn upstream(&self) -> Option<UpstreamId> {
        match self {
            Event::LinkMoved { upstream, .. }
            | Event::DialFailed { upstream, .. }
            | Event::DialPlanned { upstream, .. }
            | Event::LoginWanted { upstream, .. }
            | Event::ReconnectAsked { upstream }
            | Event::ClientOpened { upstream, .. }
            | Event::ClientNamed { upstream, .. }
            | Event::UpstreamReady { upstream, .. }
            | Event::SessionReplayed { upstream, .. }
            | Event::SessionReplayFailed { upstream, .. }
            | Event::NoiseSkipped { upstream, .. }
            | Event::LeftAlone { upstream, .. }
            | Event::Reconfigured { upstream, .. }
            | Event::Renewed { upstream }
            | Event::ErrandSent { upstream, .. }
            | Event::ErrandFailed { upstream, .. }
            | Event::ListChanged { upstream, .. }
            | Event::AnsweredFromCatalogue { upstream, .. }
            | Event::CallAnsweredEarly { upstream, .. }
            | Event::GreetedInBackground { upstream, .. }
            | Event::ToldOtherwise { upstream, .. }
            | Event::AnswerMislabelled { upstream }
            | Event::ToolLeftOut { upstream, .. }
            | Event::CallAccepted { upstream, .. }
            | Event::CallSent { upstream, .. }
            | Event::CallCameBack { upstream, .. }
            | Event::CallRetried { upstream, .. }
            | Event::CallAnswered { upstream, .. }
            | Event::CallFailed { upstream, .. }
            | Event::CallCancelled { upstream, .. }
            | Event::CallAbandoned { upstream, .. }
            | Event::CallTurnedAway { upstream, .. }
            | Event::BreakerOpened { upstream, .. }
            | Event::BreakerHalfOpened { upstream, .. }
            | Event::BreakerClosed { upstream, .. }
            | Event::Isolated { upstream }
            | Event::Resumed { upstream }
            | Event::Paused { upstream, .. }
            | Event::PauseEnded { upstream }
            | Event::RateLimited { upstream, .. }
            | Event::AskDeclined { upstream, .. }
            | Event::IdMended { upstream, .. }
            | Event::MessageDropped { upstream, .. } => Some(*upstream),
            Event::AskForwarded { link, .. } | Event::AskAnswered { link, .. } | Event::AskWithdrawn { link, .. } => {
                Some(link.upstream)
            }
            Event::ClientEnded { .. }
            | Event::ClientLost { .. }
            | Event::ClientSpokeNonsense { .. }
            | Event::Shaken { .. }
            | Event::Stopping { .. }
            | Event::Stopped => None,
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |method: &Method| method.name().unwrap_or("call");
        match self {
            Event::ClientOpened { .. } => write!(f, "client connected"),
            Event::ClientNamed { name, version, .. } => write!(f, "client is {name} {version}"),
            Event::ClientEnded { .. } => write!(f, "client will send no more"),
            Event::ClientLost { .. } => write!(f, "client no longer reads"),
            Event::ClientSpokeNonsense { what, .. } => write!(f, "client sent something that is not a message: {what}"),
            Event::DialFailed { why, .. } => write!(f, "could not be started: {why}"),
            Event::LinkMoved { from, to, why, .. } if why.is_empty() => write!(f, "{from} → {to}"),
            Event::LinkMoved { from, to, why, .. } => write!(f, "{from} → {to}: {why}"),
            Event::DialPlanned { attempt, most: Some(most), wait, .. } => {
                write!(f, "next attempt ({attempt} of {most}) in {}", Short(*wait))
            }
            Event::DialPlanned { attempt, wait, .. } => write!(f, "next attempt ({attempt}) in {}", Short(*wait)),
            Event::ReconnectAsked { .. } => write!(f, "a new connection is made: asked for by hand"),
            Event::LoginWanted { why, .. } => write!(f, "needs a login: {why}"),
            Event::LeftAlone { why, .. } => write!(f, "lost, and dialed again only when it is called: {why}"),
            Event::UpstreamReady { after, .. } => write!(f, "ready after {}", Short(*after)),
            Event::SessionReplayed { .. } => write!(f, "session replayed: initialize, initialized"),
            Event::SessionReplayFailed { why, .. } => write!(f, "session could not be replayed: {why}"),
            Event::NoiseSkipped { text, .. } => write!(f, "skipped what is not protocol: {text}"),
            Event::ErrandSent { method: Method::Initialize, .. } => write!(f, "greeting replayed"),
            Event::ErrandSent { method, .. } => write!(f, "{} sent, on our own behalf", name(method)),
            Event::ErrandFailed { method, why, .. } => write!(f, "{} of our own failed: {why}", name(method)),
            Event::ListChanged { method, .. } => write!(f, "{} reads differently after the gap", name(method)),
            Event::AnsweredFromCatalogue { method, stale, .. } => {
                let how = if *stale {
                    "answered from the catalogue"
                } else {
                    "answered from the catalogue, which still holds"
                };
                write!(f, "{} {how}", name(method))
            }
            Event::CallAnsweredEarly { call, took, .. } => {
                write!(f, "call {call} (initialize) answered in the server's stead after {}", Short(*took))
            }
            Event::GreetedInBackground { .. } => write!(f, "greeted, after the client was: initialize, initialized"),
            Event::ToldOtherwise { what, .. } => {
                write!(f, "the server's greeting differs from what the client was told: {what}")
            }
            Event::AnswerMislabelled { .. } => {
                write!(f, "its answers are JSON but their Content-Type is not; taken all the same, and not said again")
            }
            Event::ToolLeftOut { tool, why, .. } => write!(f, "left the tool {tool:?} out of the list: {why}"),
            Event::CallAccepted { call, method, .. } => write!(f, "call {call} accepted ({})", name(method)),
            Event::CallSent { call, attempt, .. } => write!(f, "call {call} sent, attempt {attempt}"),
            Event::CallCameBack { call, .. } => write!(f, "call {call} did not get there, and waits"),
            Event::CallRetried { call, attempt, outcome, .. } => {
                write!(f, "call {call} goes out again as attempt {attempt} (the one before: {})", outcome.word())
            }
            Event::CallAnswered { call, method, attempts, error, took, .. } => {
                let what = if *error { "answered with an error" } else { "answered" };
                write!(f, "call {call} ({}) {what} after {}, attempts: {attempts}", name(method), Short(*took))
            }
            Event::CallFailed { call, method, attempts, cause, outcome, took, why, .. } => write!(
                f,
                "call {call} ({}) failed after {}: {} (outcome {}, attempts: {attempts}): {why}",
                name(method),
                Short(*took),
                cause.word(),
                outcome.word()
            ),
            Event::CallCancelled { call, sent, .. } => {
                write!(f, "call {call} cancelled by the client{}", if *sent { "" } else { " before it was sent" })
            }
            Event::CallAbandoned { call, .. } => write!(f, "call {call} is of no use to anyone any more"),
            Event::CallTurnedAway { method, cause, .. } => write!(f, "{} turned away: {}", name(method), cause.word()),
            Event::BreakerOpened { tool, open_for, why, .. } => {
                write!(f, "breaker{} opened for {}: {why}", OfTool(tool), Short(*open_for))
            }
            Event::BreakerHalfOpened { tool, .. } => {
                write!(f, "breaker{} half open: one call tries", OfTool(tool))
            }
            Event::BreakerClosed { tool, .. } => write!(f, "breaker{} closed: calls flow again", OfTool(tool)),
            Event::Isolated { .. } => write!(f, "isolated by hand: nothing is sent to it"),
            Event::Resumed { .. } => write!(f, "resumed by hand"),
            Event::Paused { wait, hint, .. } if wait == hint => {
                write!(f, "paused for {}, as the server asks", Short(*wait))
            }
            Event::Paused { wait, hint, .. } => {
                write!(f, "paused for {}, of the {} that the server asks for", Short(*wait), Short(*hint))
            }
            Event::PauseEnded { .. } => write!(f, "the pause is over"),
            Event::RateLimited { call, wait, .. } => write!(f, "call {call} waits {} for its turn", Short(*wait)),
            Event::AskForwarded { method, .. } => write!(f, "the server asks the client ({})", name(method)),
            Event::AskAnswered { .. } => write!(f, "the client answered the server"),
            Event::AskWithdrawn { .. } => write!(f, "a question to the client was withdrawn"),
            Event::AskDeclined { why, .. } => write!(f, "a question of the server was declined: {why}"),
            Event::IdMended { call, .. } => {
                write!(f, "the server changed the type of an id; matched to call {call} all the same")
            }
            Event::MessageDropped { method, why, .. } => {
                let what = method.name().unwrap_or("response");
                match why {
                    Dropped::Late => write!(f, "dropped a {what} that came late"),
                    Dropped::Unknown => write!(f, "dropped a {what} to something never asked"),
                    Dropped::Nameless => write!(f, "dropped an error that names no request"),
                    Dropped::NoWay => write!(f, "dropped {what}: no way to deliver it"),
                    Dropped::StaleProgress => write!(f, "dropped progress that was out of date"),
                    Dropped::StaleReply => write!(f, "dropped an answer of the client to a question that is over"),
                }
            }
            Event::Reconfigured { change: Change::Policies, .. } => {
                write!(f, "reconfigured: new policies hold for calls that come from now on")
            }
            Event::Reconfigured { change: Change::Way, .. } => {
                write!(f, "reconfigured: the server is replaced as soon as no call is with it")
            }
            Event::Renewed { .. } => write!(f, "the server is replaced: its configuration has changed"),
            Event::Shaken { why } => write!(f, "{why}: every server is looked after"),
            Event::Stopping { running: 0 } => write!(f, "stopping"),
            Event::Stopping { running } => write!(f, "stopping once {running} running calls are answered"),
            Event::Stopped => write!(f, "stopped"),
        }
    }
}

/// Whose breaker it is, if it is not the server's.
struct OfTool<'a>(&'a Option<String>);

impl fmt::Display for OfTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tool) => write!(f, " of the tool {tool:?}"),
            None => Ok(()),
        }
    }
}

/// A duration as a person says it.
pub(crate) struct Short(pub(crate) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => write!(f, "{} µs", self.0.as_micros()),
            1..1_000 => write!(f, "{millis} ms"),
            1_000..10_000 => write!(f, "{}.{} s", millis / 1000, millis / 100 % 10),
            10_000..120_000 => write!(f, "{} s", millis / 1000),
            _ => write!(f, "{} min", millis / 60_000),
        }
    }
}
