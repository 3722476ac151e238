//! Is anybody there? Tests a line that has been silent for long.
//!
//! Half of a connection can vanish without a word: a laptop slept, a proxy forgot, a process froze. A line on which nothing
//! was heard for the interval gets a `ping`; two in a row without an answer, and without anything else heard, are the end of
//! the link. One timer does it all: what is heard only moves a mark, and the timer looks at the mark when it goes off.
//!
//! While a call is on its way the line is not idle and no ping is sent: a single-threaded server that is busy with the call
//! would miss it, and the call has a deadline of its own. When that deadline passes in silence, the line is tested at once.
//! In the modern era there is no `ping`; nothing is sent there.

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
use crate::timers::TimerId;

/// What has been heard, and what was missed.
#[derive(Debug)]
pub struct KeepAlive {
    timer: Option<TimerId>,
    last_received: Moment,
    /// When it was tested last.
    tested: Option<Moment>,
    /// There was a reason to test it again, too soon after the last test.
    suspected: bool,
    misses: u32,
}

impl KeepAlive {
    pub fn new() -> Self {
        KeepAlive { timer: None, last_received: Moment::ZERO, tested: None, suspected: false, misses: 0 }
    }

    /// Something was heard.
    pub fn note_received(&mut self, now: Moment) {
        self.last_received = now;
    }

    /// The ping was answered.
    pub fn note_answer(&mut self) {
        self.misses = 0;
    }
}

impl Upstream {
    /// Sees to it that the line is watched, once there is one that can be tested.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>) {
        if let (None, true, Some(policy)) =
            (self.keep_alive.timer, self.session.is_initialized(), self.config.keep_alive)
        {
            self.keep_alive.timer = cx.timers.arm(self.keep_alive.last_received + policy.interval, Alarm::KeepAlive(self.id));
        }
    }

    /// Another policy holds: the line is watched by it from now on.
    pub(super) fn restart_watch(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.keep_alive.timer);
        self.watch(cx);
    }

    /// There is reason to doubt the line: it is tested now, or soon if it was tested just now.
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

    fn is_busy(&self) -> bool {
        // What is queued for a line that is up goes out before anything that is queued after it.
        let is_out =
            |call: &Call| matches!((call.owner, call.state), (Owner::Client { .. }, State::Queued | State::Sent(_)));
        self.calls.iter().any(|(_, call)| is_out(call))
    }

    /// The line has been silent for long, or there was a reason to look.
    pub fn handle_keep_alive(&mut self, cx: &mut Cx<'_>) {
        self.keep_alive.timer = None;
        let Some(policy) = self.config.keep_alive else { return };
        if !self.can_be_tested() {
            // The next answer on the next link starts the watch again.
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
        self.advance_http(cx);
    }

    /// Sends a ping, unless one is on its way.
    pub(super) fn ping(&mut self, cx: &mut Cx<'_>) {
        if let (Some(ping), false) = (ping(), self.runs(InternalRequest::Ping)) {
            self.keep_alive.tested = Some(cx.now);
            self.send_internal(InternalRequest::Ping, ping, cx);
        }
    }

    /// A ping was not answered: in time, or because it was lost on the way.
    pub(super) fn ping_missed(&mut self, cx: &mut Cx<'_>) {
        let Some(policy) = self.config.keep_alive else { return };
        if !self.link.is_up() || cx.now.since(self.keep_alive.last_received) < policy.timeout {
            // It is known to be gone, or it spoke of something else meanwhile: it is there.
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
            // A session over HTTP is not bound to a line that may be broken.
            return self.unreachable(why, false, cx);
        }
        self.session.lose();
        self.drain_link(why, EndedBy::Us, cx);
    }
}

/// A ping of our own.
pub(super) fn ping() -> Option<Message> {
    const PING: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    Message::parse(Bytes::from_static(PING)).ok()
}
