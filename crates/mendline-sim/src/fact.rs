//! What the world tells its checkers.
//!
//! Facts are told in the order in which they happen, after the oracle has noted them. A checker keeps whatever it needs of
//! them; it never looks into the engine.

use std::fmt;
use std::time::Duration;

use mendline_core::port::{ExchangeId, Signal};
use mendline_core::{ClientId, LinkId, Moment};
use mendline_wire::Message;

use crate::client::ExpectedState;
use crate::machine::{EngineOutput, EngineEvent, Load, UpstreamState};
use crate::oracle::{Key, Verdict};
use crate::server::SessionState;

/// The place of a message among all that one child wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Which child of its upstream, in the order of dials.
    pub dial: u32,
    /// Which of its messages.
    pub line: u32,
}

/// By whom, or by what, a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// A child.
    Child(LinkId),
    /// An HTTP exchange with this upstream.
    Exchange(usize, ExchangeId),
    /// A conversation of the HTTP server that is this upstream.
    Conversation(usize, u32),
}

impl Via {
    /// Which upstream that is, by its place in the configuration.
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

/// What the shell said of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A connection carries it.
    Reached,
    /// The head of its response, with this status.
    Head(u16),
    /// One event; whether it carried a message.
    Event(bool),
    /// The body.
    Body,
    /// The end.
    End,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// The engine was given a request.
    Arrived(Key),
    /// The engine handed out a message for a child, or in an exchange.
    HandedOut {
        /// By whom, or by what.
        by: Via,
        /// The message.
        message: &'a Message,
        /// The request in it, if it is a client's.
        key: Option<Key>,
    },
    /// A child's stdin, or the cable of an exchange, accepted all of a request.
    Accepted {
        /// By whom, or by what.
        by: Via,
        /// Which request.
        key: Key,
    },
    /// A server read a request.
    Read {
        /// By whom, or by what.
        by: Via,
        /// Which request.
        key: Key,
        /// As it came there.
        message: &'a Message,
    },
    /// A server did what a request asks for.
    Ran {
        /// By whom, or by what.
        by: Via,
        /// Which request.
        key: Key,
    },
    /// A child wrote a notification that is meant for its client, or one of an HTTP server reached the engine.
    NoticeWritten {
        /// By whom, or by what.
        by: Via,
        /// Its place.
        stamp: Stamp,
    },
    /// A server found something wrong with what it was sent.
    ServerViolation {
        /// By whom, or by what.
        by: Via,
        /// What is wrong, as a sentence.
        text: &'a str,
    },
    /// A client read an answer to one of its requests.
    Answered {
        /// Which request.
        key: Key,
        /// What it says.
        verdict: &'a Verdict,
        /// Its place, if a server wrote it.
        stamp: Option<Stamp>,
    },
    /// A client read an answer that it is not waiting for.
    Surplus {
        /// Which client.
        client: ClientId,
        /// The message.
        message: &'a Message,
    },
    /// A client read progress.
    Progressed {
        /// Which client.
        client: ClientId,
        /// The request that the token names, if there is one.
        named: Option<Key>,
        /// The request that the server meant.
        meant: Option<Key>,
        /// How far it is said to be.
        value: f64,
        /// Its place.
        stamp: Option<Stamp>,
    },
    /// A client read another notification.
    NotificationRead {
        /// Which client.
        client: ClientId,
        /// The notification.
        message: &'a Message,
        /// Its place, if a server wrote it.
        stamp: Option<Stamp>,
    },
    /// A client was asked something.
    ServerRequestRead {
        /// Which client.
        client: ClientId,
        /// Its place.
        stamp: Option<Stamp>,
    },
    /// A client found something wrong with what it was sent.
    ClientViolation {
        /// Which client.
        client: ClientId,
        /// What is wrong, as a sentence.
        text: &'a str,
    },
    /// A client came to this upstream.
    ClientConnected(usize),
    /// A client reads no more.
    ClientLeft(ClientId),
    /// The engine asked for something.
    Requested(&'a EngineOutput),
    /// The plan has no fault for this upstream.
    Unharmed(usize),
    /// Somebody asked for a new connection to this upstream by hand.
    ManualAction(usize),
    /// Somebody took this upstream out by hand.
    Isolated(usize),
    /// The engine was told that this upstream wants to be left alone for so long.
    RetryAfter {
        /// Which upstream.
        upstream: usize,
        /// How long.
        wait: Duration,
    },
    /// A child runs.
    Started(LinkId),
    /// A child could not be started.
    NotStarted(LinkId),
    /// A child was stopped: it is there, and does nothing.
    Frozen(LinkId),
    /// A child that was stopped goes on.
    Continued(LinkId),
    /// What is started in the place of this upstream from now on has other lists.
    NewEdition(usize),
    /// The engine was told that the machine slept, or that the network has changed; its clock is later by this.
    ConnectivityChanged(Duration),
    /// The engine was given something that a server said; none if it was no message.
    Received {
        /// By whom, or by what.
        by: Via,
        /// What.
        message: Option<&'a Message>,
    },
    /// Everything has healed and calls are answered again: what a client relies on, and what its server knows of it.
    StateCompared {
        /// Which client.
        client: ClientId,
        /// What it relies on.
        expected: &'a ExpectedState,
        /// What its server has been told, if it is one that keeps such things.
        state: Option<&'a SessionState>,
        /// Which lists that server has.
        edition: u32,
        /// A subscription of the client's that is open and that no server serves.
        unserved: Option<Key>,
    },
    /// A child got a signal or the end of its stdin.
    Signalled(LinkId, Option<Signal>),
    /// A child died.
    Died(LinkId),
    /// A child is dead and the engine knows.
    Exited(LinkId),
    /// The shell told the engine something of an exchange.
    Reported {
        /// Which upstream's.
        upstream: usize,
        /// Which.
        exchange: ExchangeId,
        /// What.
        report: Report,
    },
    /// The engine asks again for the response to a request.
    ResponseResumed {
        /// Over which exchange.
        by: Via,
        /// Which request.
        key: Key,
    },
    /// The engine was given a message of an HTTP server.
    Delivered {
        /// Which upstream's.
        upstream: usize,
        /// Its place among what that conversation wrote.
        stamp: Stamp,
    },
    /// The engine said that something happened.
    Emitted(&'a EngineEvent),
    /// One step is over: every queue is carried as far as it goes.
    Settled {
        /// When the engine wants to be woken.
        wake: Option<Moment>,
        /// How much it says that it holds.
        load: Load,
    },
    /// How an upstream stands by the fold of the events.
    UpstreamState {
        /// Which.
        upstream: usize,
        /// How.
        state: &'a UpstreamState,
    },
    /// All faults are over.
    Healed,
    /// A client's first call after the healing went well.
    Recovered(ClientId),
    /// A client's first call after the healing did not go well in time.
    StillDown(ClientId),
    /// A request passed the moment by which it had to be answered, although its client was ready to read.
    Overdue(Key),
    /// The engine was told to stop.
    Stopped,
    /// All clients are closing their ends: what runs may finish, then it is over.
    Closing,
    /// The world ended without the engine saying that it is finished.
    NeverFinished,
    /// The rules of `port.rs`, or plain sense, were broken in a way that the shell itself notices.
    ContractBroken(&'a str),
}
