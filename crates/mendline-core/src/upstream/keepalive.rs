//! Keep-alive: tests of idle connections.
//!
//! A connection can be half open: a laptop slept, a proxy dropped it, a process froze. A connection that is silent for
//! the interval gets a `ping`; two misses in a row without any other message end the link. One timer is enough: a
//! received message only sets a timestamp, and the timer checks it.
//!
//! While a call is in flight the connection is not idle and no ping is sent: a single-threaded server that runs the
//! call would miss it, and the call has its own deadline. When that deadline passes in silence, the connection is
//! tested at once, that of a child even while other calls are in flight. The modern era has no `ping`; nothing is sent there.

mod idle_test;

use bytes::Bytes;
use mendline_wire::Message;

pub use self::idle_test::KeepAlive;
use self::idle_test::Miss;
use super::Upstream;
use super::call::{Call, Owner, State};
use super::internal::InternalRequest;
use super::link::EndedBy;
use crate::cx::Cx;
use crate::defaults;
use crate::reason::{LossReason, Reason};
use crate::request::ClientRequest;

impl Upstream {
    /// Arms the timer, if the connection can be tested.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>) {
        if let (true, Some(policy)) = (self.session.is_initialized(), self.config.keep_alive) {
            self.keep_alive.watch(policy.interval, cx);
        }
    }

    /// Rearms the timer for a new policy.
    pub(super) fn restart_watch(&mut self, cx: &mut Cx<'_>) {
        self.keep_alive.unwatch(cx);
        self.watch(cx);
    }

    /// Tests a suspected connection now, or soon if it was tested just before.
    pub(super) fn probe(&mut self, cx: &mut Cx<'_>) {
        if !self.can_be_tested() || self.is_busy() || self.gate.is_paused(cx.now) {
            return;
        }
        if self.keep_alive.request_test(cx) {
            self.ping(cx);
        }
    }

    fn can_be_tested(&self) -> bool {
        let waits_for_request = self.is_closing() || self.gate.is_isolated();
        self.config.keep_alive.is_some() && self.link.is_up() && self.session.is_initialized() && !waits_for_request
    }

    /// Returns whether the server may be too busy to answer a ping.
    fn is_busy(&self) -> bool {
        let is_overdue = self.keep_alive.is_overdue() && self.link.is_one_pipe();
        self.has_calls_in_flight() && !is_overdue
    }

    fn has_calls_in_flight(&self) -> bool {
        // A ping in the queue of a link that is up is sent before later messages.
        let is_out =
            |call: &Call| matches!((call.owner, call.state), (Owner::Client { .. }, State::Queued | State::Sent(_)));
        self.calls.iter().any(|(_, call)| is_out(call))
    }

    /// Handles the timer: tests a silent or suspected connection.
    pub fn handle_keep_alive(&mut self, cx: &mut Cx<'_>) {
        self.keep_alive.note_timer();
        let Some(policy) = self.config.keep_alive else { return };
        if !self.can_be_tested() {
            // The first answer on the next link arms the timer again.
            return;
        }
        let may_test = !self.is_busy() && !self.gate.is_paused(cx.now);
        let next = self.keep_alive.postponed_to(policy.interval, may_test, cx.now);
        if next.is_none() {
            self.ping(cx);
        }
        self.keep_alive.plan(next.unwrap_or(cx.now + policy.interval), cx);
    }

    /// Sends a ping, unless one is in flight.
    pub(super) fn ping(&mut self, cx: &mut Cx<'_>) {
        if let (Some(ping), false) = (ping(), self.runs(InternalRequest::Ping)) {
            self.keep_alive.note_test(cx.now);
            self.send_internal(InternalRequest::Ping, ping, cx);
        }
    }

    /// Handles a ping without an answer: late or lost.
    pub(super) fn ping_missed(&mut self, cx: &mut Cx<'_>) {
        let Some(policy) = self.config.keep_alive else { return };
        // The link may be down already.
        if !self.link.is_up() || self.keep_alive.handle_miss(policy.timeout, cx) != Miss::Dead {
            return;
        }
        let why = Reason::from(LossReason::Unresponsive { pings: defaults::KEEP_ALIVE_MISSES });
        if self.link.outlives_connections() {
            // A session over HTTP does not depend on one connection.
            return self.unreachable(why, false, cx);
        }
        self.session.lose();
        self.drain_link(why, EndedBy::Us, cx);
    }
}

/// A ping of Mendline.
pub(super) fn ping() -> Option<ClientRequest> {
    const PING: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    Message::parse(Bytes::from_static(PING)).ok().map(ClientRequest::new)
}
