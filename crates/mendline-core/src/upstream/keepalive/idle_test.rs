//! The times of the tests of one connection.

use std::time::Duration;

use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::moment::Moment;
use crate::port::UpstreamId;
use crate::timers::TimerId;

/// The keep-alive state of a link.
#[derive(Debug)]
pub struct KeepAlive {
    upstream: UpstreamId,
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

/// The meaning of a ping without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Another message arrived meanwhile.
    Refuted,
    /// Another test follows.
    Tested,
    /// The connection is dead.
    Dead,
}

impl KeepAlive {
    pub fn new(upstream: UpstreamId) -> Self {
        KeepAlive {
            upstream,
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

    /// Returns whether a call reached its deadline, and nothing came since it was sent.
    pub fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Records an answered ping.
    pub fn note_answer(&mut self) {
        self.misses = 0;
    }

    /// Arms the timer, unless it is armed.
    pub fn watch(&mut self, interval: Duration, cx: &mut Cx<'_>) {
        if self.timer.is_none() {
            self.plan(self.last_received + interval, cx);
        }
    }

    /// Disarms the timer.
    pub fn unwatch(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
    }

    /// Plans a test for this time.
    pub fn plan(&mut self, at: Moment, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        self.timer = cx.timers.arm(at, Alarm::KeepAlive(self.upstream));
    }

    /// Requests a test. Returns whether it is due now; otherwise it is planned.
    pub fn request_test(&mut self, cx: &mut Cx<'_>) -> bool {
        match self.tested.map(|tested| tested + defaults::KEEP_ALIVE_PAUSE) {
            Some(soon) if soon > cx.now => {
                self.suspected = true;
                self.plan(soon, cx);
                false
            }
            _ => true,
        }
    }

    /// Records that its timer has fired.
    pub fn note_timer(&mut self) {
        self.timer = None;
    }

    /// Decides about a test whose time has come. Returns its time if it is not due yet.
    pub fn postponed_to(&mut self, interval: Duration, may_test: bool, now: Moment) -> Option<Moment> {
        let suspected = std::mem::take(&mut self.suspected);
        if !may_test {
            return Some(now + interval);
        }
        let wanted_at = if suspected { now } else { self.last_received + interval };
        // It may have been tested for another reason meanwhile.
        let due = self.tested.map_or(wanted_at, |tested| wanted_at.max(tested + defaults::KEEP_ALIVE_PAUSE));
        self.suspected = suspected && due > now;
        Some(due).filter(|due| *due > now)
    }

    /// Records a ping that is sent.
    pub fn note_test(&mut self, now: Moment) {
        self.tested = Some(now);
    }

    /// Handles a ping without an answer within this time.
    pub fn handle_miss(&mut self, timeout: Duration, cx: &mut Cx<'_>) -> Miss {
        if cx.now.since(self.last_received) < timeout {
            return Miss::Refuted;
        }
        self.misses += 1;
        if self.misses < defaults::KEEP_ALIVE_MISSES {
            self.suspected = true;
            self.plan(cx.now + defaults::KEEP_ALIVE_PAUSE, cx);
            return Miss::Tested;
        }
        self.misses = 0;
        Miss::Dead
    }
}
