//! The context of one input: everything that the state machines may use while they handle it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::dial_pace::DialPaces;
use crate::dispatch::{ClientEvent, Dispatch, UpstreamCommand};
use crate::event::Event;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::port::{ClientId, Output, UpstreamId};
use crate::quote::Quote;
use crate::rng::SeededRng;
use crate::slab::Key;
use crate::timers::{TimerId, Timers};

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A call's deadline, or the end of its wait.
    Call(UpstreamId, Key),
    /// The next step of a link: a dial, a probe, the next step of the shutdown sequence.
    Link(UpstreamId),
    /// A connection has been silent for long.
    KeepAlive(UpstreamId),
    /// The stream for notifications may be reopened.
    Notices(UpstreamId),
    /// The server did not finish the handshake in time: it named no endpoint, or did not accept `initialized`.
    Handshake(UpstreamId),
    /// The server did not answer the GET that looks for its SSE stream in time.
    Look(UpstreamId),
    /// The server did not accept a notification or an answer in time.
    OneWay(UpstreamId),
    /// POSTs whose SSE stream is gone did not end in time.
    Orphans(UpstreamId),
    /// The server did not end the session in time.
    Close(UpstreamId),
    /// A pause is over, or the rate limit admits the next call.
    Gate(UpstreamId),
    /// The next probe of a suspect server, or of one that needs a login.
    Availability(UpstreamId),
    /// The tools of this upstream have changed, and their hints are not known.
    Hints(UpstreamId),
    /// The time to read lists again.
    Lists(UpstreamId),
    /// A call of this upstream is silent, and its ping was not answered.
    Silence(UpstreamId),
    /// The catalogue is to be saved.
    Cache(UpstreamId),
    /// The time for the running calls of an upstream that is being removed is over.
    Remove(UpstreamId),
    /// The drain is over.
    Drain,
}

impl Alarm {
    /// The upstream that it is for.
    pub fn upstream(self) -> Option<UpstreamId> {
        match self {
            Alarm::Call(upstream, _)
            | Alarm::Link(upstream)
            | Alarm::KeepAlive(upstream)
            | Alarm::Notices(upstream)
            | Alarm::Handshake(upstream)
            | Alarm::Look(upstream)
            | Alarm::OneWay(upstream)
            | Alarm::Orphans(upstream)
            | Alarm::Close(upstream)
            | Alarm::Gate(upstream)
            | Alarm::Availability(upstream)
            | Alarm::Hints(upstream)
            | Alarm::Lists(upstream)
            | Alarm::Silence(upstream)
            | Alarm::Cache(upstream)
            | Alarm::Remove(upstream) => Some(upstream),
            Alarm::Drain => None,
        }
    }
}

/// The context of one input.
pub struct Cx<'a> {
    pub now: Moment,
    pub timers: &'a mut Timers<Alarm>,
    pub ledger: &'a mut Ledger,
    pub rng: &'a mut SeededRng,
    pub outputs: &'a mut VecDeque<Output>,
    pub dispatch: &'a mut Dispatch,
    pub dial_paces: &'a mut DialPaces,
    /// The number of accepted calls of all upstreams, which numbers the last one.
    pub accepted: &'a mut u64,
    /// Quotes text of a peer.
    pub quote: &'a dyn Quote,
}

impl Cx<'_> {
    /// Queues an output for the shell.
    pub fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Emits an event.
    pub fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Arms a timer.
    pub fn wake_in(&mut self, delay: Duration, alarm: Alarm) -> Option<TimerId> {
        self.timers.arm(self.now + delay, alarm)
    }

    /// Disarms a timer and clears its id.
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
