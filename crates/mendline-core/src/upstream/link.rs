//! The link to a server: a child process, or exchanges over HTTP.
//!
//! Both are dialed and supervised alike ([`supervisor`]): dial, wait, park. They differ in what a dial does, in what ends
//! them, and in what their loss means for calls. Those differences are answered here and in the two kinds ([`child`], and
//! [`HttpLink`] in `upstream/http`): no other part asks for the transport.

mod child;
mod stderr;
mod supervisor;

use std::time::Duration;

pub use self::child::ChildLink;
pub use self::supervisor::{Dialer, Supervisor};
use super::http::HttpLink;
use crate::config::{Reconnect, Transport, UpstreamConfig};
use crate::cx::Cx;
use crate::event::{LinkState, Over};
use crate::moment::Moment;
use crate::port::{LinkId, UpstreamId};
use crate::reason::{ConnectivityChange, LossReason, Reason, RefusalReason};
use crate::request::ClientRequest;
use crate::upstream_table::Numbers;

/// The side that ended a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Mendline: the end says nothing about the server.
    Us,
    /// The server: it broke off, and Mendline only cleans up.
    Server,
}

/// The link of one upstream.
#[derive(Debug)]
pub enum Link {
    /// A process that Mendline starts; its stdin and stdout carry the messages.
    Child(Box<ChildLink>),
    /// Exchanges over HTTP.
    Http(Box<HttpLink>),
}

impl Link {
    pub fn new(upstream: UpstreamId, config: &UpstreamConfig) -> Self {
        match config.transport {
            Transport::Child => Link::Child(Box::new(ChildLink::new(upstream, config.reconnect.clone()))),
            Transport::Http(dialect) => {
                let supervisor = Supervisor::new(upstream, config.reconnect.clone(), Dialer::Exchanges);
                Link::Http(Box::new(HttpLink::new(supervisor, dialect, config.credential)))
            }
        }
    }

    fn supervisor(&self) -> &Supervisor {
        match self {
            Link::Child(child) => child.supervisor(),
            Link::Http(http) => http.supervisor(),
        }
    }

    fn supervisor_mut(&mut self) -> &mut Supervisor {
        match self {
            Link::Child(child) => child.supervisor_mut(),
            Link::Http(http) => http.supervisor_mut(),
        }
    }

    /// The exchanges of a server over HTTP, for the modules that handle them.
    pub(super) fn http(&self) -> Option<&HttpLink> {
        match self {
            Link::Child(_) => None,
            Link::Http(http) => Some(http),
        }
    }

    /// The exchanges of a server over HTTP, mutable.
    pub(super) fn http_mut(&mut self) -> Option<&mut HttpLink> {
        match self {
            Link::Child(_) => None,
            Link::Http(http) => Some(http),
        }
    }

    // ---- the state ----

    pub fn state(&self) -> LinkState {
        self.supervisor().state()
    }

    pub fn is_up(&self) -> bool {
        self.supervisor().is_up()
    }

    pub fn is_parked(&self) -> bool {
        self.supervisor().is_parked()
    }

    /// The link that inputs may be about now.
    pub fn current(&self) -> Option<LinkId> {
        match self {
            Link::Child(child) => child.current(),
            // Exchanges are independent: all their inputs are handled.
            Link::Http(http) => Some(http.supervisor().id()),
        }
    }

    /// Lost, and not dialed again until a call or the operator requests it.
    pub fn waits_for_request(&self) -> bool {
        self.supervisor().waits_for_request()
    }

    /// The redials of this incident so far, and their limit before it is parked.
    pub fn redials(&self) -> Option<(u32, Option<u32>)> {
        self.supervisor().redials()
    }

    /// The time until the next dial, or until a call can wake it.
    pub fn retry_after(&self, now: Moment) -> Duration {
        self.supervisor().retry_after(now)
    }

    /// Returns whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.supervisor().is_stopped()
    }

    /// Returns whether there is a process or a connection, or one is about to be made.
    pub fn is_in_use(&self) -> bool {
        self.state() != LinkState::Idle
    }

    /// Records that other links lead to the same server.
    pub fn share_dials(&mut self, server: Option<UpstreamId>) {
        self.supervisor_mut().share_dials(server);
    }

    /// The last numbers that it used.
    pub fn numbers(&self) -> Numbers {
        Numbers { dial: self.supervisor().id().dial, exchanges: self.begun() }
    }

    /// Continues the numbers of another link.
    pub fn continue_numbers(&mut self, former: Numbers) {
        self.supervisor_mut().continue_dials(former.dial);
        if let Link::Http(http) = self {
            http.continue_exchanges(former.exchanges);
        }
    }

    /// Stopped, without a child and without an exchange.
    pub fn is_over(&self) -> bool {
        self.supervisor().is_over() && self.http().is_none_or(|http| http.open() == 0)
    }

    // ---- failures ----

    /// Returns whether anything has failed so far.
    pub fn has_failed(&self) -> bool {
        self.supervisor().failure().is_some()
    }

    /// Returns whether only a person can make it usable.
    pub fn has_failed_permanently(&self) -> bool {
        self.supervisor().has_failed_permanently()
    }

    /// Returns why it cannot be used.
    pub fn failure_reason(&self) -> Reason {
        let unused = match (self, self.state()) {
            (Link::Child(_), LinkState::Up) => LossReason::StartedNotInitialized,
            (Link::Http(_), LinkState::Up) => LossReason::ConnectedNotInitialized,
            (Link::Http(_), LinkState::Dialing) => LossReason::NotConnected,
            _ => LossReason::NotStarted,
        };
        self.supervisor().failure().cloned().unwrap_or(Reason::Loss(unused))
    }

    /// Returns why a link that is not open cannot carry a call, if that is known. A child that is not ready is always
    /// the reason; over HTTP only a failure is.
    pub fn closed_reason(&self) -> Option<Reason> {
        match self {
            Link::Child(_) => Some(self.failure_reason()),
            Link::Http(_) => self.has_failed().then(|| self.failure_reason()),
        }
    }

    /// Returns why a queued call was not sent.
    pub fn queued_reason(&self) -> Reason {
        match self {
            Link::Child(_) => RefusalReason::NotRead.into(),
            Link::Http(_) => LossReason::NotConnected.into(),
        }
    }

    // ---- properties of its kind ----

    /// Returns whether a configuration with this transport is about the same kind of link.
    pub fn is_kind_of(&self, transport: Transport) -> bool {
        matches!((self, transport), (Link::Child(_), Transport::Child) | (Link::Http(_), Transport::Http(_)))
    }

    /// Returns whether a process was started that does not run yet.
    pub fn is_starting(&self) -> bool {
        matches!(self, Link::Child(_)) && self.state() == LinkState::Dialing
    }

    /// Returns whether a request is in flight that probes a server which is not up.
    pub fn is_being_probed(&self) -> bool {
        matches!(self, Link::Http(_)) && self.state() == LinkState::Dialing
    }

    /// Returns whether a call is cancelled by the abort of its exchange, without a notification.
    pub fn cancels_by_abort(&self, request: &ClientRequest) -> bool {
        matches!(self, Link::Http(_)) && request.is_modern()
    }

    /// Returns whether each attempt of a call may have to connect first.
    pub fn connects_for_calls(&self) -> bool {
        matches!(self, Link::Http(_))
    }

    /// Returns whether all calls share one pipe: if one of them got no answer, the pipe is tested, whatever else it
    /// carries.
    pub fn is_one_pipe(&self) -> bool {
        matches!(self, Link::Child(_))
    }

    /// Returns whether a new process is the remedy: for a handshake without an answer, or a bridge that has lost its
    /// server.
    pub fn can_be_restarted(&self) -> bool {
        matches!(self, Link::Child(_))
    }

    /// Returns whether the session survives the loss of a connection.
    pub fn outlives_connections(&self) -> bool {
        self.http().is_some_and(|http| !http.has_sse_stream())
    }

    /// Returns whether a silent call can be sent once more, over another connection.
    pub fn has_other_connections(&self) -> bool {
        self.http().is_some_and(|http| !http.is_sse())
    }

    /// Returns whether probes show whether the server is available. The exit of a child needs none, and the stream of a
    /// 2024-11-05 server is its own probe while it is not open.
    pub fn is_probed(&self) -> bool {
        self.http().is_some_and(|http| !http.is_sse() || http.has_sse_stream())
    }

    /// Returns whether the server refuses pings in live sessions.
    pub fn refuses_pings(&self) -> bool {
        self.http().is_some_and(HttpLink::refuses_pings)
    }

    /// The number of exchanges begun so far.
    pub fn begun(&self) -> u64 {
        self.http().map_or(0, HttpLink::begun)
    }

    // ---- health ----

    /// Records that calls may be sent over it.
    pub fn note_open(&mut self, now: Moment) {
        self.supervisor_mut().note_open(now);
    }

    /// Records a real answer. The first one on a link makes it ready. An answer to a client's request proves its health.
    pub fn note_answer(&mut self, is_clients: bool, cx: &mut Cx<'_>) {
        self.supervisor_mut().note_answer(is_clients, cx);
    }

    /// Records an answer that proves no health.
    pub fn note_unhealthy(&mut self) {
        self.supervisor_mut().note_unhealthy();
    }

    /// Returns whether the server has given a real answer on this link.
    pub fn has_answered(&self) -> bool {
        self.supervisor().has_answered()
    }

    /// Returns whether the server has ever given an answer, on any link.
    pub fn has_ever_answered(&self) -> bool {
        self.supervisor().has_ever_answered()
    }

    /// The longest time from a start of the server to its first answer, if it has started.
    pub fn slowest_start(&self) -> Option<Duration> {
        self.supervisor().slowest_start()
    }

    /// Records the longest start of an earlier run.
    pub fn note_start(&mut self, start: Duration) {
        self.supervisor_mut().note_start(start);
    }

    /// Records a handshake without an answer in time.
    pub fn note_missed_handshake(&mut self) {
        self.supervisor_mut().note_missed_handshake();
    }

    /// Returns whether the server can be expected to answer a handshake within this time.
    pub fn starts_within(&self, limit: Duration) -> bool {
        self.supervisor().starts_within(limit)
    }

    // ---- requests to dial or to end ----

    /// Handles a client that has just started: it waits for the server, and a child is started for it. Without redials
    /// a lost child waits for a call. Over HTTP the first call connects.
    pub fn handle_client(&mut self, cx: &mut Cx<'_>) {
        self.supervisor_mut().note_client(cx.now);
        if let Link::Child(child) = self
            && !child.supervisor().waits_for_request()
        {
            child.supervisor_mut().open(cx);
        }
    }

    /// Dials if it was never dialed.
    pub fn open(&mut self, cx: &mut Cx<'_>) {
        self.supervisor_mut().open(cx);
    }

    /// Wakes a parked or waiting link for a call.
    pub fn wake(&mut self, cx: &mut Cx<'_>) {
        self.supervisor_mut().wake(cx);
    }

    /// Dials now, without the backoff, for the operator.
    pub fn reconnect(&mut self, cx: &mut Cx<'_>) {
        self.supervisor_mut().reconnect(cx);
    }

    /// Dials soon, with jitter, after a resume or a network change.
    pub fn dial_soon(&mut self, change: ConnectivityChange, cx: &mut Cx<'_>) {
        self.supervisor_mut().dial_soon(change, cx);
    }

    /// Delays the next dial until the end of the server's pause.
    pub fn postpone_until(&mut self, until: Moment, cx: &mut Cx<'_>) {
        self.supervisor_mut().postpone_until(until, cx);
    }

    /// Brings the next dial forward to this time: what failed before has changed.
    pub fn hasten(&mut self, at: Moment, cx: &mut Cx<'_>) {
        self.supervisor_mut().hasten(at, cx);
    }

    /// Stops dialing until it is released. A running child may keep running.
    pub fn hold(&mut self, cx: &mut Cx<'_>) {
        let is_being_probed = self.is_being_probed();
        self.supervisor_mut().hold(is_being_probed, cx);
    }

    /// Releases it. A child is started if clients wait for it.
    pub fn release(&mut self, has_clients: bool, cx: &mut Cx<'_>) {
        self.supervisor_mut().release();
        if let (Link::Child(child), true) = (self, has_clients) {
            child.supervisor_mut().open(cx);
        }
    }

    /// Applies a new policy.
    pub fn reconfigure(&mut self, policy: Reconnect, cx: &mut Cx<'_>) {
        self.supervisor_mut().reconfigure(policy, cx);
    }

    /// Resets the link for a new target: old failures do not count, and waiting ends. A link that is up is dialed again
    /// automatically; a child is ended first.
    pub fn reset(&mut self, cx: &mut Cx<'_>) {
        match self {
            Link::Child(child) => child.reset(cx),
            Link::Http(http) => http.supervisor_mut().restart(cx),
        }
    }

    /// Ends it: a child by the shutdown sequence.
    pub fn drain(&mut self, why: Reason, ended_by: EndedBy, cx: &mut Cx<'_>) {
        match self {
            Link::Child(child) => child.drain(why, ended_by, cx),
            Link::Http(http) => http.supervisor_mut().lose_if_up(why, cx),
        }
    }

    /// Ends what is not used: nothing is dialed until the next request.
    pub fn stop_unused(&mut self, cx: &mut Cx<'_>) {
        match self {
            Link::Child(child) => child.stop_unused(cx),
            Link::Http(http) => http.supervisor_mut().stop_unused(cx),
        }
    }

    /// No more dials; ends what runs.
    pub fn stop(&mut self, cx: &mut Cx<'_>) {
        let is_being_probed = self.is_being_probed();
        self.supervisor_mut().stop(is_being_probed, cx);
        self.drain(LossReason::Stopping.into(), EndedBy::Us, cx);
    }

    pub fn handle_timer(&mut self, cx: &mut Cx<'_>) {
        match self {
            Link::Child(child) => child.handle_timer(cx),
            Link::Http(http) => http.supervisor_mut().handle_timer(cx),
        }
    }

    // ---- findings of exchanges over HTTP ----

    /// Handles an exchange with a connection: the upstream is reachable. Returns whether this is a change.
    pub fn handle_reached(&mut self, over: Over, cx: &mut Cx<'_>) -> bool {
        self.http_mut().is_some_and(|http| http.supervisor_mut().handle_reached(over, cx))
    }

    /// Handles a failed connection. While the link is waiting, it changes nothing.
    pub fn handle_unreachable(&mut self, why: Reason, permanent: bool, called: bool, cx: &mut Cx<'_>) {
        if let Link::Http(http) = self {
            http.supervisor_mut().handle_unreachable(why, permanent, called, cx);
        }
    }

    /// Returns to idle: no call waits.
    pub fn go_idle(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = self {
            http.supervisor_mut().go_idle(cx);
        }
    }

    /// Returns to dialing: reached, but not with a supported transport yet.
    pub fn return_to_dialing(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = self {
            http.supervisor_mut().return_to_dialing(cx);
        }
    }
}
