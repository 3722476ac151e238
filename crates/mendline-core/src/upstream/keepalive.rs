//! Keep-alive: tests of idle connections.
//!
//! A connection can be half open: a laptop slept, a proxy dropped it, a process froze. A connection that is silent for
//! the interval gets a `ping`; two misses in a row without any other message end the link. One timer is enough: a
//! received message only sets a timestamp, and the timer checks it.
//!
//! While a call is in flight the connection is not idle and no ping is sent: a single-threaded server that runs the
//! call would miss it, and the call has its own deadline. When that deadline passes in silence, the connection is
//! tested at once, that of a child even while other calls are in flight. The modern era has no `ping`; nothing is sent there.

use bytes::Bytes;
use mendline_wire::Message;

use super::Upstream;
use super::call::{Call, Owner, State};
use super::internal::InternalRequest;
use super::link::EndedBy;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::moment::Moment;
use crate::reason::{LossReason, Reason};
use crate::request::ClientRequest;
use crate::timers::TimerId;

/// The keep-alive state of a link.
#[derive(Debug)]
pub struct KeepAlive {
    timer: Option<TimerId>,
    last_received: Moment,
    /// The time of the last test.
    tested: Option<Moment>,
    /// A test was requested too soon after the last one.
    suspected: bool,
    misses: u32,
    /// A call reached its deadline, and nothing came since it was sent: the other calls may be lost, too.
    is_overdue: bool,
}

impl KeepAlive {
    pub fn new() -> Self {
        KeepAlive {
            timer: None,
            last_received: Moment::ZERO,
            tested: None,
            suspected: false,
            misses: 0,
            is_overdue: false,
        }
    }

    /// Records a received message.
    pub fn note_received(&mut self, now: Moment) {
        self.last_received = now;
        self.is_overdue = false;
    }

    /// Records a call that reached its deadline and was sent at this time.
    pub fn note_deadline(&mut self, sent: Moment) {
        self.is_overdue |= self.last_received <= sent;
    }

    /// Records an answered ping.
    pub fn note_answer(&mut self) {
        self.misses = 0;
    }
}

impl Upstream {
    /// Arms the timer, if the connection can be tested.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>) {
        if let (None, true, Some(policy)) =
            (self.keep_alive.timer, self.session.is_initialized(), self.config.keep_alive)
        {
            self.keep_alive.timer =
                cx.timers.arm(self.keep_alive.last_received + policy.interval, Alarm::KeepAlive(self.id));
        }
    }

    /// Rearms the timer for a new policy.
    pub(super) fn restart_watch(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.keep_alive.timer);
        self.watch(cx);
    }

    /// Tests a suspected connection now, or soon if it was tested just before.
    pub(super) fn probe(&mut self, cx: &mut Cx<'_>) {
        if !self.can_be_tested() || self.is_busy() || self.gate.is_paused(cx.now) {
            return;
        }
        match self.keep_alive.tested.map(|tested| tested + defaults::KEEP_ALIVE_PAUSE) {
            Some(soon) if soon > cx.now => {
                self.keep_alive.suspected = true;
                cx.disarm(&mut self.keep_alive.timer);
                self.keep_alive.timer = cx.timers.arm(soon, Alarm::KeepAlive(self.id));
            }
            _ => self.ping(cx),
        }
    }

    fn can_be_tested(&self) -> bool {
        let waits_for_request = self.closing || self.gate.is_isolated();
        self.config.keep_alive.is_some() && self.link.is_up() && self.session.is_initialized() && !waits_for_request
    }

    /// Returns whether the server may be too busy to answer a ping.
    fn is_busy(&self) -> bool {
        let is_overdue = self.keep_alive.is_overdue && self.http.is_none();
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
        self.keep_alive.timer = None;
        let Some(policy) = self.config.keep_alive else { return };
        if !self.can_be_tested() {
            // The first answer on the next link arms the timer again.
            return;
        }
        let suspected = std::mem::take(&mut self.keep_alive.suspected);
        let wanted_at = if suspected { cx.now } else { self.keep_alive.last_received + policy.interval };
        // It may have been tested for another reason meanwhile.
        let due = self.keep_alive.tested.map_or(wanted_at, |tested| wanted_at.max(tested + defaults::KEEP_ALIVE_PAUSE));
        let next = if self.is_busy() || self.gate.is_paused(cx.now) {
            cx.now + policy.interval
        } else if due > cx.now {
            self.keep_alive.suspected = suspected;
            due
        } else {
            self.ping(cx);
            cx.now + policy.interval
        };
        self.keep_alive.timer = cx.timers.arm(next, Alarm::KeepAlive(self.id));
    }

    /// Sends a ping, unless one is in flight.
    pub(super) fn ping(&mut self, cx: &mut Cx<'_>) {
        if let (Some(ping), false) = (ping(), self.runs(InternalRequest::Ping)) {
            self.keep_alive.tested = Some(cx.now);
            self.send_internal(InternalRequest::Ping, ping, cx);
        }
    }

    /// Handles a ping without an answer: late or lost.
    pub(super) fn ping_missed(&mut self, cx: &mut Cx<'_>) {
        let Some(policy) = self.config.keep_alive else { return };
        if !self.link.is_up() || cx.now.since(self.keep_alive.last_received) < policy.timeout {
            // The link is down already, or another message arrived meanwhile.
            return;
        }
        self.keep_alive.misses += 1;
        if self.keep_alive.misses < defaults::KEEP_ALIVE_MISSES {
            self.keep_alive.suspected = true;
            cx.disarm(&mut self.keep_alive.timer);
            self.keep_alive.timer = cx.wake_in(defaults::KEEP_ALIVE_PAUSE, Alarm::KeepAlive(self.id));
            return;
        }
        self.keep_alive.misses = 0;
        let why = Reason::from(LossReason::Unresponsive { pings: defaults::KEEP_ALIVE_MISSES });
        if self.http.is_some() && !self.has_sse_stream() {
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
