//! The engine under test: the engine itself, or a copy with a planted defect.
//!
//! The copy is compiled from the same source under another path, so its types differ from those of the engine. This
//! trait takes the inputs of the engine and returns plain values. One macro (`adapter`) implements it for both, so that
//! the two cannot diverge.

mod adapter;

use std::time::Duration;

use mendline_core::port::{Challenge, ExchangeId, Signal};
use mendline_core::{ClientId, Config, Input, LinkId, Moment, Port, StreamId};
use mendline_wire::Spliced;

use crate::exchange::Request;

/// An engine under test.
pub trait Machine {
    /// Passes an input.
    fn handle(&mut self, input: Input, now: Moment);
    /// Reports that the requested wake-up time has come.
    fn handle_timeout(&mut self, now: Moment);
    /// Returns the next output.
    fn poll_output(&mut self) -> Option<EngineOutput>;
    /// Returns the next message to write.
    fn poll_write(&mut self, port: Port, now: Moment) -> Option<Spliced>;
    /// Returns the next message for a stream of a client that has many.
    fn poll_stream(&mut self, client: ClientId, stream: StreamId, now: Moment) -> Option<Option<Spliced>>;
    /// Returns whether it accepts input from this port.
    fn may_read(&self, port: Port) -> bool;
    /// Returns the requested wake-up time.
    fn poll_timeout(&mut self) -> Option<Moment>;
    /// Returns the number of items that it reports to hold.
    fn load(&self) -> Load;
    /// Returns the state of an upstream.
    fn upstream_state(&self, upstream: usize) -> UpstreamState;
}

/// An output of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineOutput {
    /// Spawns a child.
    Spawn(LinkId),
    /// Closes the stdin of a child.
    CloseStdin(LinkId),
    /// Sends a signal to a child.
    Signal(LinkId, Signal),
    /// Starts an HTTP exchange with this upstream.
    Exchange(ExchangeId, usize, Request),
    /// Aborts an exchange.
    Abort(ExchangeId),
    /// Stores the catalogue of this upstream.
    StoreCatalogue(usize, Vec<u8>),
    /// Uses the new transport of this upstream from now on.
    Renew(usize),
    /// Renew the credential of this server; the one with this number was refused.
    RenewCredential(usize, u32, Challenge),
    /// Has messages for a stream of a client.
    StreamReady(ClientId, StreamId),
    /// Has removed this upstream.
    UpstreamRemoved(usize),
    /// Emits an event.
    Event(EngineEvent),
    /// Is finished.
    Finished,
}

/// An event of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineEvent {
    /// The upstream of the event.
    pub upstream: Option<usize>,
    /// The text of the event.
    pub text: String,
    /// The kind of the event, for checkers.
    pub kind: EventKind,
    /// The stable name of its reason, if it has one.
    pub reason: Option<&'static str>,
}

/// The kinds of events that checkers use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A link changed its state.
    Moved(&'static str, &'static str),
    /// A message was dropped, for this reason.
    Dropped(&'static str),
    /// A call was accepted; with the tool that it calls.
    Accepted(u64, Option<String>),
    /// An attempt of this call was passed to the shell.
    Sent(u64),
    /// A call was rejected.
    Rejected,
    /// The server answered this call with a result.
    Answered(u64),
    /// The server answered this call with an error.
    AnsweredWithError(u64),
    /// This call ended in another way.
    Ended(u64),
    /// The breaker of the server or of a tool opened, for this duration.
    Opened(Option<String>, Duration),
    /// A breaker is half open.
    HalfOpened(Option<String>),
    /// This call is sent again. True if this is an incident of the call alone.
    Retried(u64, bool),
    /// This call was sent and waits again: for its place, or for a decision about it.
    Held(u64),
    /// This call was reported as silent.
    Silent(u64),
    /// An incident that can affect several calls: a verdict about the server.
    Verdict,
    /// The operator isolated the upstream.
    Isolated,
    /// The operator ended the isolation.
    Resumed,
    /// A breaker closed.
    Closed(Option<String>),
    /// The client is reported as lost.
    ClientLost,
    /// `initialize` was answered from the catalogue.
    InitializeFromCatalogue,
    /// Anything else.
    Other,
}

/// The state of an upstream, by its events and by the engine itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// The state of its link.
    pub link: &'static str,
    /// Open calls.
    pub open: u64,
    /// Open calls that are sent.
    pub out: u64,
    /// Open calls that were reported as silent.
    pub silent: u64,
    /// Dropped messages.
    pub dropped: u64,
    /// The state of its breaker.
    pub breaker: &'static str,
    /// Whether neither a breaker nor a pause holds calls back.
    pub flows: bool,
    /// The state of its credential.
    pub credential: &'static str,
    /// The state of its credential, by the engine.
    pub own_credential: &'static str,
    /// The state of its breaker, by the engine.
    pub own_breaker: &'static str,
    /// The state of its link, by the engine.
    pub own_link: &'static str,
    /// Open calls, by the engine, replayed handshakes included.
    pub own_open: u64,
    /// Calls that are sent, by the engine.
    pub own_out: u64,
    /// Calls that were reported as silent, by the engine.
    pub own_silent: u64,
}

/// Number of items that an engine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests of clients.
    pub requests: usize,
    /// Requests of servers.
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

/// The engine that a world runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// The engine itself.
    Engine,
    /// The copy with this planted defect; 0 is none.
    Planted(u32),
}

/// Creates an engine of this kind.
pub fn build(engine_kind: EngineKind, config: &Config, seed: u64) -> Box<dyn Machine> {
    match engine_kind {
        EngineKind::Engine => Box::new(adapter::engine::Adapter::new(config, seed)),
        EngineKind::Planted(defect) => {
            crate::plant::set(defect);
            Box::new(adapter::copy::Adapter::new(config, seed))
        }
    }
}
