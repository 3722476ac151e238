//! One turn of the engine: what every machine may use while it handles one thing.

use std::collections::VecDeque;
use std::time::Duration;

use crate::dispatch::{ClientEvent, Dispatch, UpstreamCommand};
use crate::event::Event;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::port::{ClientId, Output, UpstreamId};
use crate::quote::Quote;
use crate::rng::SeededRng;
use crate::slab::Key;
use crate::timers::{TimerId, Timers};

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A call's deadline, or the end of its patience.
    Call(UpstreamId, Key),
    /// The next step of a link: a dial, a probe, the next step of the shutdown sequence.
    Link(UpstreamId),
    /// A line has been silent for long.
    KeepAlive(UpstreamId),
    /// The stream for notices may be opened again.
    Notices(UpstreamId),
    /// A server had time enough for its part of the handshake: to name an endpoint, or to take `initialized`.
    Handshake(UpstreamId),
    /// A server had time enough to take a notification or an answer.
    OneWay(UpstreamId),
    /// Posts whose SSE stream is gone had time enough to end by themselves.
    Orphans(UpstreamId),
    /// A server had time enough for the end of the session.
    Close(UpstreamId),
    /// A pause is over, or the next call's turn has come.
    Gate(UpstreamId),
    /// What is known of a server should be kept.
    Cache(UpstreamId),
    /// The drain is over.
    Drain,
}

/// Borrowed for the length of one turn.
pub struct Cx<'a> {
    pub now: Moment,
    pub timers: &'a mut Timers<Alarm>,
    pub ledger: &'a mut Ledger,
    pub rng: &'a mut SeededRng,
    pub outputs: &'a mut VecDeque<Output>,
    pub dispatch: &'a mut Dispatch,
    /// Quotes text of a peer.
    pub quote: &'a dyn Quote,
}

impl Cx<'_> {
    /// Asks something of the shell.
    pub fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Says that something happened.
    pub fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Arms a timer.
    pub fn wake_in(&mut self, delay: Duration, alarm: Alarm) -> Option<TimerId> {
        self.timers.arm(self.now + delay, alarm)
    }

    /// Disarms a timer and forgets it.
    pub fn disarm(&mut self, timer: &mut Option<TimerId>) {
        if let Some(timer) = timer.take() {
            self.timers.disarm(timer);
        }
    }

    pub fn send_to_client(&mut self, client: ClientId, event: ClientEvent) {
        self.dispatch.to_client.push_back((client, event));
    }

    pub fn send_to_upstream(&mut self, upstream: UpstreamId, event: UpstreamCommand) {
        self.dispatch.to_upstream.push_back((upstream, event));
    }
}
