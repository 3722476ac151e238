//! What the world drives: the engine, or a copy of it with a defect in it.
//!
//! The copy is compiled from the same text under another path, so its types are not the engine's types. This trait speaks
//! in the engine's own words for what goes in and in plain values for what comes out; one macro (`adapter`) writes the
//! adapter for either, so the two cannot drift apart.

mod adapter;

use std::time::Duration;

use mendline_core::port::{ExchangeId, Signal};
use mendline_core::{Config, Input, LinkId, Moment, Port};
use mendline_wire::Spliced;

use crate::exchange::Request;

/// A decision machine under test.
pub trait Machine {
    /// Tells it a fact.
    fn handle(&mut self, input: Input, now: Moment);
    /// Tells it that the moment that it asked for has come.
    fn handle_timeout(&mut self, now: Moment);
    /// What it wants.
    fn poll_output(&mut self) -> Option<EngineOutput>;
    /// What it wants written.
    fn poll_write(&mut self, port: Port) -> Option<Spliced>;
    /// Whether it wants to be read to.
    fn may_read(&self, port: Port) -> bool;
    /// When it wants to be woken.
    fn poll_timeout(&mut self) -> Option<Moment>;
    /// How much it says that it holds.
    fn load(&self) -> Load;
    /// How things stand by the fold of its events.
    fn upstream_state(&self, upstream: usize) -> UpstreamState;
}

/// What a machine wants of its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineOutput {
    /// A child.
    Spawn(LinkId),
    /// The end of a child's stdin.
    CloseStdin(LinkId),
    /// A signal to a child.
    Signal(LinkId, Signal),
    /// An HTTP exchange with this upstream.
    Exchange(ExchangeId, usize, Request),
    /// The end of an exchange.
    Abort(ExchangeId),
    /// Something to be kept of this upstream.
    StoreCatalogue(usize, Vec<u8>),
    /// The new way to this upstream from now on.
    Renew(usize),
    /// To be heard.
    Event(EngineEvent),
    /// To end.
    Finished,
}

/// An event as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineEvent {
    /// Which upstream it is about.
    pub upstream: Option<usize>,
    /// The sentence.
    pub text: String,
    /// What checkers need of it.
    pub kind: EventKind,
}

/// The events that checkers look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A link went from one state to another.
    Moved(&'static str, &'static str),
    /// A message was dropped, and for this reason.
    Dropped(&'static str),
    /// This call was taken on; whether breakers let it pass unseen, as they do pings and subscriptions.
    Accepted(u64, bool),
    /// An attempt at this call was handed to the shell.
    Sent(u64),
    /// A call was turned away.
    TurnedAway,
    /// A call was answered by its server, and with a result.
    Answered(u64),
    /// A call came to its end otherwise.
    Ended(u64),
    /// A breaker opened, for this long: the server's, or that of a tool.
    Opened(Option<String>, Duration),
    /// One call tries.
    HalfOpened(Option<String>),
    /// Somebody took the upstream out by hand.
    Isolated,
    /// Somebody brought it back.
    Resumed,
    /// A breaker closed.
    Closed(Option<String>),
    /// The client was said to be gone.
    ClientLost,
    /// Anything else.
    Other,
}

/// How an upstream stands by the fold of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// Its link.
    pub link: &'static str,
    /// Calls accepted and not yet over.
    pub open: u64,
    /// Of those, how many are out.
    pub out: u64,
    /// Messages that were dropped.
    pub dropped: u64,
    /// Its breaker.
    pub breaker: &'static str,
    /// Whether nothing holds calls back: no breaker, and no pause.
    pub flows: bool,
    /// Its breaker, as the machine itself sees it.
    pub own_breaker: &'static str,
    /// Its link, as the machine itself sees it.
    pub own_link: &'static str,
    /// Calls accepted and not yet over, as the machine itself counts them: greetings that it replays included.
    pub own_open: u64,
    /// Calls that are out, as the machine itself counts them.
    pub own_out: u64,
}

/// How much a machine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests of clients.
    pub requests: usize,
    /// Questions of servers.
    pub asks: usize,
    /// Messages for clients.
    pub for_clients: usize,
    /// Calls.
    pub calls: usize,
    /// Messages for links.
    pub for_links: usize,
    /// Timers.
    pub timers: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Who is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// The engine itself.
    Engine,
    /// The copy, with this defect awake; 0 is none.
    Planted(u32),
}

/// A machine of that kind.
pub fn build(engine_kind: EngineKind, config: &Config, seed: u64) -> Box<dyn Machine> {
    match engine_kind {
        EngineKind::Engine => Box::new(adapter::engine::Adapter::new(config, seed)),
        EngineKind::Planted(defect) => {
            crate::plant::set(defect);
            Box::new(adapter::copy::Adapter::new(config, seed))
        }
    }
}
