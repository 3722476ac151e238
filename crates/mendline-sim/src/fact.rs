//! The facts that the world reports to its checkers.
//!
//! Facts are reported in the order in which they happen, after the oracle has recorded them. A checker keeps what it
//! needs; it never looks into the engine.

use std::fmt;
use std::time::Duration;

use mendline_core::port::{ExchangeId, Signal};
use mendline_core::{ClientId, LinkId, Moment};
use mendline_wire::Message;

use crate::client::ExpectedState;
use crate::machine::{EngineEvent, EngineOutput, Load, UpstreamState};
use crate::oracle::{Key, Verdict};
use crate::server::SessionState;

/// The position of a message among all messages of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// The child, by its dial.
    pub dial: u32,
    /// The number of the message.
    pub line: u32,
}

/// The carrier of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// A child.
    Child(LinkId),
    /// An HTTP exchange with this upstream.
    Exchange(usize, ExchangeId),
    /// A conversation of the HTTP server of this upstream.
    Conversation(usize, u32),
}

impl Via {
    /// Returns the index of the upstream.
    pub fn upstream(self) -> usize {
        match self {
            Via::Child(link) => usize::from(link.upstream.0),
            Via::Exchange(upstream, _) | Via::Conversation(upstream, _) => upstream,
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Child(link) => write!(f, "child {}.{}", link.upstream.0, link.dial),
            Via::Exchange(upstream, exchange) => write!(f, "exchange {upstream}.{}", exchange.0 & 0xffff_ffff_ffff),
            Via::Conversation(upstream, conversation) => write!(f, "conversation {upstream}.{conversation}"),
        }
    }
}

/// A report of the shell about an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It is connected.
    Reached,
    /// The head of the response, with this status.
    Head(u16),
    /// Bytes that are neither an event nor a body.
    Bytes,
    /// One event; true if it carried a message.
    Event(bool),
    /// The body.
    Body,
    /// The end.
    End,
}

/// A fact.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// The engine received a request.
    Arrived(Key),
    /// The engine sent a message to a child or in an exchange.
    HandedOut {
        /// The carrier.
        by: Via,
        /// The message.
        message: &'a Message,
        /// The client request in it, if there is one.
        key: Option<Key>,
    },
    /// The stdin of a child or a connection accepted all of a request.
    Accepted {
        /// The carrier.
        by: Via,
        /// The request.
        key: Key,
    },
    /// A server read a request.
    Read {
        /// The carrier.
        by: Via,
        /// The request.
        key: Key,
        /// The message as received.
        message: &'a Message,
    },
    /// A server executed a request.
    Ran {
        /// The carrier.
        by: Via,
        /// The request.
        key: Key,
    },
    /// A child wrote a notification for its client, or the engine received one of an HTTP server.
    NoticeWritten {
        /// The carrier.
        by: Via,
        /// Its stamp.
        stamp: Stamp,
        /// It reports a changed list, so it may be passed on later or not at all.
        is_list_change: bool,
    },
    /// A server received a message that violates the protocol.
    ServerViolation {
        /// The carrier.
        by: Via,
        /// The violation, as a sentence.
        text: &'a str,
    },
    /// A client read an answer to one of its requests.
    Answered {
        /// The request.
        key: Key,
        /// The answer.
        verdict: &'a Verdict,
        /// Its stamp, if a server wrote it.
        stamp: Option<Stamp>,
    },
    /// A client read an answer to no open request.
    Surplus {
        /// The client.
        client: ClientId,
        /// The message.
        message: &'a Message,
    },
    /// A client read progress.
    Progressed {
        /// The client.
        client: ClientId,
        /// The request of the token, if there is one.
        named: Option<Key>,
        /// The request that the server meant.
        meant: Option<Key>,
        /// The progress value.
        value: f64,
        /// Its stamp.
        stamp: Option<Stamp>,
    },
    /// A client read another notification.
    NotificationRead {
        /// The client.
        client: ClientId,
        /// The notification.
        message: &'a Message,
        /// Its stamp, if a server wrote it.
        stamp: Option<Stamp>,
    },
    /// A client read a request of the server.
    ServerRequestRead {
        /// The client.
        client: ClientId,
        /// Its stamp.
        stamp: Option<Stamp>,
    },
    /// A client received a message that violates the protocol.
    ClientViolation {
        /// The client.
        client: ClientId,
        /// The violation, as a sentence.
        text: &'a str,
    },
    /// A client connected to this upstream.
    ClientConnected(usize),
    /// A client disconnected.
    ClientLeft(ClientId),
    /// The engine produced an output.
    Requested(&'a EngineOutput),
    /// The plan has no fault for this upstream.
    WithoutFaults(usize),
    /// The operator reconnected this upstream, or ended its isolation.
    ManualAction(usize),
    /// The operator isolated this upstream.
    Isolated(usize),
    /// The engine received `Retry-After` of this upstream.
    RetryAfter {
        /// The upstream.
        upstream: usize,
        /// The delay.
        wait: Duration,
    },
    /// A child started.
    Started(LinkId),
    /// A child could not be started.
    NotStarted(LinkId),
    /// A child was stopped (SIGSTOP).
    Frozen(LinkId),
    /// A stopped child continues.
    Continued(LinkId),
    /// The next server of this upstream has another edition of its lists.
    NewEdition(usize),
    /// The engine was told that the machine was suspended or that the network changed. Its clock advanced by this
    /// duration.
    ConnectivityChanged(Duration),
    /// The engine received something from a server; `None` if it was not a message.
    Received {
        /// The carrier.
        by: Via,
        /// The message.
        message: Option<&'a Message>,
    },
    /// All faults are over and calls are answered again: the state that a client relies on, and the state of its
    /// server.
    StateCompared {
        /// The client.
        client: ClientId,
        /// The state that the client relies on.
        expected: &'a ExpectedState,
        /// The state that the other clients of the server rely on, or relied on before they left.
        others: &'a [ExpectedState],
        /// The session state of its server, if it keeps any.
        state: Option<&'a SessionState>,
        /// The edition of the lists of that server.
        edition: u32,
        /// An open subscription of the client that no server serves.
        unserved: Option<Key>,
    },
    /// A child received a signal or the end of its stdin.
    Signalled(LinkId, Option<Signal>),
    /// A child died.
    Died(LinkId),
    /// A child is dead and the engine knows it.
    Exited(LinkId),
    /// The shell reported on an exchange.
    Reported {
        /// The upstream.
        upstream: usize,
        /// The subject.
        exchange: ExchangeId,
        /// The message.
        report: Report,
    },
    /// The engine resumes the response to a request.
    ResponseResumed {
        /// The exchange.
        by: Via,
        /// The request.
        key: Key,
    },
    /// The engine received a message of an HTTP server.
    Delivered {
        /// The upstream.
        upstream: usize,
        /// Its stamp in that conversation.
        stamp: Stamp,
    },
    /// The engine emitted an event.
    Emitted(&'a EngineEvent),
    /// One step is complete; every queue is settled.
    Settled {
        /// The requested wake-up time of the engine.
        wake: Option<Moment>,
        /// The number of items that it reports to hold.
        load: Load,
    },
    /// The state of an upstream.
    UpstreamState {
        /// The subject.
        upstream: usize,
        /// Its state.
        state: &'a UpstreamState,
    },
    /// The shell uses this credential for an upstream from now on.
    CredentialChanged(usize, u32),
    /// The source of an upstream has no newer credential.
    CredentialFailed {
        /// The upstream.
        upstream: usize,
        /// The shell tries again.
        can_pass: bool,
    },
    /// All faults are over.
    Healed,
    /// The first call of a client after the faults succeeded.
    Recovered(ClientId),
    /// The first call of a client after the faults did not succeed in time.
    StillDown(ClientId),
    /// A request passed its deadline although its client was ready to read.
    Overdue(Key),
    /// The engine was told to stop.
    Stopped,
    /// All clients close their outputs; open calls may finish.
    Closing,
    /// The world ended before the engine finished.
    NeverFinished,
    /// The engine broke the contract of `port.rs` in a way that the shell detects.
    ContractBroken(&'a str),
}
