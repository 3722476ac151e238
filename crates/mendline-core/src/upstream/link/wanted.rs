//! Requests to dial or to hold the link.
//!
//! Calls wake it, the operator reconnects or isolates it, the server requests a pause, the configuration changes, the
//! machine resumes: each of these brings the next dial forward or delays it. [`Link::earliest_dial`] alone enforces the
//! dial limit; only the operator may exceed it.

use std::time::Duration;

use super::{Health, Incident, Link};
use crate::config::{Reconnect, Transport};
use crate::cx::Cx;
use crate::defaults;
use crate::event::LinkState;
use crate::moment::Moment;
use crate::reason::{ConnectivityChange, LossReason};

impl Link {
    /// Dials if it was never dialed.
    pub fn open(&mut self, cx: &mut Cx<'_>) {
        if self.state != LinkState::Idle || self.stopped || self.held {
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
    pub fn wake(&mut self, cx: &mut Cx<'_>) {
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

    /// Stops dialing until it is released. A running child may keep running.
    pub fn hold(&mut self, cx: &mut Cx<'_>) {
        self.held = true;
        let is_http = self.transport != Transport::Child;
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) || (is_http && self.state == LinkState::Dialing)
        {
            self.go_idle_because(LossReason::Isolated, cx);
        }
    }

    pub fn release(&mut self) {
        self.held = false;
    }

    /// Delays the next dial until the end of the server's pause.
    pub fn postpone_until(&mut self, until: Moment, cx: &mut Cx<'_>) {
        self.not_before = self.not_before.max(until);
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) && self.wakes_at < until {
            self.sleep_until(until, cx);
        }
    }

    /// Brings the next dial forward to this time: what failed before has changed.
    pub fn hasten(&mut self, at: Moment, cx: &mut Cx<'_>) {
        self.not_before = at;
        let at = self.earliest_dial(at);
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) && at < self.wakes_at {
            self.sleep_until(at, cx);
        }
    }

    /// Dials now, without the backoff, for the operator.
    pub fn reconnect(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            LinkState::Idle | LinkState::Waiting | LinkState::Parked if !self.stopped => {
                self.dial(Some(LossReason::Requested), cx);
            }
            _ => {}
        }
    }

    /// Applies a new policy. A link that waits for a request, and would not under the new policy, is dialed.
    pub fn reconfigure(&mut self, policy: Reconnect, cx: &mut Cx<'_>) {
        let was_waiting_for_request = self.waits_for_request();
        self.policy = policy;
        if was_waiting_for_request && !self.waits_for_request() && !self.stopped && !self.held {
            self.move_to(LinkState::Waiting, Some(LossReason::ConfigurationChanged.into()), cx);
            self.sleep_until(self.earliest_dial(cx.now), cx);
        }
    }

    /// Resets the link for a new target: old failures do not count, and waiting ends. A link that is up is dialed again
    /// automatically; a child has to be ended first.
    pub fn reset(&mut self, cx: &mut Cx<'_>) {
        self.incident = None;
        self.health = Health::default();
        self.exits.clear();
        self.not_before = Moment::ZERO;
        match self.state {
            _ if self.stopped => {}
            LinkState::Waiting | LinkState::Parked => {
                if self.is_parked() {
                    self.move_to(LinkState::Waiting, Some(LossReason::ConfigurationChanged.into()), cx);
                }
                self.sleep_until(self.earliest_dial(cx.now), cx);
            }
            LinkState::Up | LinkState::Dialing if self.transport != Transport::Child => {
                self.go_idle_because(LossReason::ConfigurationChanged, cx);
                self.open(cx);
            }
            LinkState::Up => self.renewing = true,
            LinkState::Dialing | LinkState::Draining | LinkState::Idle => {}
        }
    }

    /// Dials soon, with jitter, after a resume or a network change. Failures before it do not count.
    pub fn dial_soon(&mut self, change: ConnectivityChange, cx: &mut Cx<'_>) {
        if !matches!(self.state, LinkState::Waiting | LinkState::Parked) || self.stopped {
            return;
        }
        self.incident = Some(Incident { since: cx.now, redials: 0, parked: false });
        let soon = self.earliest_dial(cx.now + cx.rng.between(Duration::ZERO, defaults::STAGGER));
        if soon < self.wakes_at {
            if self.is_parked() {
                self.move_to(LinkState::Waiting, Some(LossReason::Connectivity(change).into()), cx);
            }
            self.sleep_until(soon, cx);
        }
    }
}
