//! Requests to dial or to hold the link.
//!
//! Calls wake it, the operator reconnects or isolates it, the server requests a pause, the configuration changes, the
//! machine resumes: each of these brings the next dial forward or delays it. [`Supervisor::earliest_dial`] alone enforces the
//! dial limit; only the operator may exceed it.

use std::time::Duration;

use super::{Incident, Permission, Supervisor};
use crate::config::Reconnect;
use crate::cx::Cx;
use crate::defaults;
use crate::event::LinkState;
use crate::moment::Moment;
use crate::reason::{ConnectivityChange, LossReason};

impl Supervisor {
    /// Dials if it was never dialed.
    pub(in crate::upstream::link) fn open(&mut self, cx: &mut Cx<'_>) {
        if self.state != LinkState::Idle || !self.may_dial() {
            return;
        }
        let earliest = self.earliest_dial(cx.now);
        if earliest > cx.now {
            self.move_to(LinkState::Waiting, Some(LossReason::DialLimit.into()), cx);
            self.sleep_until(earliest, cx);
        } else {
            self.dial(None, cx);
        }
    }

    /// Wakes a parked or waiting link for a call.
    pub(in crate::upstream::link) fn wake(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            LinkState::Idle => self.open(cx),
            LinkState::Parked if cx.now >= self.earliest_dial(self.dialed + defaults::PARKED_COOL_DOWN) => {
                self.dial(Some(LossReason::WokenByCall), cx);
            }
            LinkState::Waiting if self.wakes_at.since(cx.now) > self.policy.cap_called => {
                let delay = cx.rng.between(self.policy.cap_called / 2, self.policy.cap_called);
                let at = self.earliest_dial(cx.now + delay).min(self.wakes_at);
                self.sleep_until(at, cx);
            }
            _ => {}
        }
    }

    /// Returns to idle: the next request dials. What failed before does not count then.
    pub(in crate::upstream::link) fn stop_unused(&mut self, cx: &mut Cx<'_>) {
        if self.state != LinkState::Idle {
            self.go_idle_because(LossReason::Unused, cx);
        }
        self.forget_failures(cx);
    }

    /// Stops dialing until it is released.
    pub(in crate::upstream::link) fn hold(&mut self, is_being_probed: bool, cx: &mut Cx<'_>) {
        if !self.is_stopped() {
            self.permission = Permission::Held;
        }
        self.stop_waiting(is_being_probed, LossReason::Isolated, cx);
    }

    pub(in crate::upstream::link) fn release(&mut self) {
        if self.permission == Permission::Held {
            self.permission = Permission::Granted;
        }
    }

    /// Delays the next dial until the end of the server's pause.
    pub(in crate::upstream::link) fn postpone_until(&mut self, until: Moment, cx: &mut Cx<'_>) {
        self.not_before = self.not_before.max(until);
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) && self.wakes_at < until {
            self.sleep_until(until, cx);
        }
    }

    /// Brings the next dial forward to this time: what failed before has changed.
    pub(in crate::upstream::link) fn hasten(&mut self, at: Moment, cx: &mut Cx<'_>) {
        self.not_before = at;
        let at = self.earliest_dial(at);
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) && at < self.wakes_at {
            self.sleep_until(at, cx);
        }
    }

    /// Dials now, without the backoff, for the operator.
    pub(in crate::upstream::link) fn reconnect(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            LinkState::Idle | LinkState::Waiting | LinkState::Parked if !self.is_stopped() => {
                self.dial(Some(LossReason::Requested), cx);
            }
            _ => {}
        }
    }

    /// Applies a new policy. A link that waits for a request, and would not under the new policy, is dialed.
    pub(in crate::upstream::link) fn reconfigure(&mut self, policy: Reconnect, cx: &mut Cx<'_>) {
        let was_waiting_for_request = self.waits_for_request();
        self.policy = policy;
        if was_waiting_for_request && !self.waits_for_request() && self.may_dial() {
            self.dial_next(LossReason::ConfigurationChanged, cx);
        }
    }

    /// Dials soon, with jitter, after a resume or a network change. Failures before it do not count.
    pub(in crate::upstream::link) fn dial_soon(&mut self, change: ConnectivityChange, cx: &mut Cx<'_>) {
        if !matches!(self.state, LinkState::Waiting | LinkState::Parked) || self.is_stopped() {
            return;
        }
        self.incident = Some(Incident::new(cx.now));
        let soon = self.earliest_dial(cx.now + cx.rng.between(Duration::ZERO, defaults::STAGGER));
        if soon < self.wakes_at {
            if self.is_parked() {
                self.move_to(LinkState::Waiting, Some(LossReason::Connectivity(change).into()), cx);
            }
            self.sleep_until(soon, cx);
        }
    }
}
