//! Who wants the link, and who wants it left alone.
//!
//! Calls wake it, people ask for it or take it out, the server asks for a pause, the configuration changes, the machine wakes
//! up: each of these brings the next dial nearer or puts it off. How many there may be in a minute is decided in one place
//! ([`Link::earliest_dial`]), and only a person is not held to it.

use std::time::Duration;

use super::{Health, Incident, Link};
use crate::config::{Reconnect, Transport};
use crate::cx::Cx;
use crate::defaults;
use crate::event::LinkState;
use crate::moment::Moment;
use crate::reason::{ConnectivityChange, LossReason};

impl Link {
    /// Someone wants it: dial if it was never dialed.
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

    /// A call waits for it: wake what is parked, hurry what waits.
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

    /// It is not dialed until it is released. A child that runs may go on running.
    pub fn hold(&mut self, cx: &mut Cx<'_>) {
        self.held = true;
        let is_http = self.transport != Transport::Child;
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) || (is_http && self.state == LinkState::Dialing)
        {
            self.rest_because(LossReason::Isolated, cx);
        }
    }

    pub fn release(&mut self) {
        self.held = false;
    }

    /// The server wants to be left alone until then: the next dial is not before.
    pub fn postpone_until(&mut self, until: Moment, cx: &mut Cx<'_>) {
        self.not_before = self.not_before.max(until);
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) && self.wakes_at < until {
            self.sleep_until(until, cx);
        }
    }

    /// Someone asked for a new connection manually, and there is none: forget the waiting, dial now.
    pub fn reconnect(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            LinkState::Idle | LinkState::Waiting | LinkState::Parked if !self.stopped => {
                self.dial(Some(LossReason::Requested), cx);
            }
            _ => {}
        }
    }

    /// Another policy holds from now on. Who was left alone under the old one and would not be under the new one is dialed.
    pub fn reconfigure(&mut self, policy: Reconnect, cx: &mut Cx<'_>) {
        let was_waiting_for_request = self.waits_for_request();
        self.policy = policy;
        if was_waiting_for_request && !self.waits_for_request() && !self.stopped && !self.held {
            self.move_to(LinkState::Waiting, Some(LossReason::ConfigurationChanged.into()), cx);
            self.sleep_until(self.earliest_dial(cx.now), cx);
        }
    }

    /// The way to the server is another one: what was learned about the old one is worth nothing, and what waits for it waits
    /// no longer. Whoever edits the way to a server that is up wants it to be up: it is dialed again without being asked for. A
    /// child that is up has to be ended for that.
    pub fn reset(&mut self, cx: &mut Cx<'_>) {
        self.incident = None;
        self.health = Health::default();
        self.exits.clear();
        match self.state {
            _ if self.stopped => {}
            LinkState::Waiting | LinkState::Parked => {
                if self.is_parked() {
                    self.move_to(LinkState::Waiting, Some(LossReason::ConfigurationChanged.into()), cx);
                }
                self.sleep_until(self.earliest_dial(cx.now), cx);
            }
            LinkState::Up | LinkState::Dialing if self.transport != Transport::Child => {
                self.rest_because(LossReason::ConfigurationChanged, cx);
                self.open(cx);
            }
            LinkState::Up => self.renewing = true,
            LinkState::Dialing | LinkState::Draining | LinkState::Idle => {}
        }
    }

    /// The machine woke up, or the network changed: what was learned about the way there is worth nothing any more. What
    /// is lost is tried soon, as if it had been lost just now; how soon is chance, so that not all are tried at once.
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
