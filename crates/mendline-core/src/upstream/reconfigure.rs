//! Changes of a server's configuration.
//!
//! *Policies* apply to calls that arrive from now on. An accepted call keeps its own
//! ([`Call::policy`](super::call::Call::policy)): its timeouts, its attempts and backoff, its retry rules, its
//! resumptions and its effect. Policies of the server apply at once: breakers and limits, keep-alive, reconnecting. The
//! *target* of the server, its command or its URL with their settings, cannot change during a call. So the server is
//! replaced as soon as no call is in flight; until then nothing changes, and no call is delayed or failed for it. A
//! server that is down is dialed at once, because the change may repair it. So is a server at the same URL that needs a
//! login, because the change may be another credential; its calls in flight are read to their end.
//!
//! The name stays: logs and errors identify the server by it. The kind of transport stays too: a command that becomes a
//! URL is another server.

use std::sync::Arc;

use super::call::State;
use super::link::EndedBy;
use super::{Upstream, bounded};
use crate::config::{Transport, UpstreamConfig};
use crate::cx::Cx;
use crate::event::{Event, LinkState, Replacement};
use crate::evidence::Outcome;
use crate::port::{Change, Output};
use crate::reason::LossReason;
use crate::slab::Key;

impl Upstream {
    /// Applies a new configuration.
    pub fn reconfigure(&mut self, config: UpstreamConfig, change: Change, cx: &mut Cx<'_>) {
        let mut config = bounded(config);
        config.name.clone_from(&self.config.name);
        if (config.transport == Transport::Child) != (self.config.transport == Transport::Child) {
            config.transport = self.config.transport;
        }
        let replacement = self.replacement(&config, change);
        let (rate_limit, place) = (config.rate_limit, config.place.clone());
        cx.emit(Event::Reconfigured { upstream: self.id, replacement, rate_limit, place });
        self.tools.reconfigure(&config.tools, config.trust_hints);
        self.link.reconfigure(config.reconnect.clone(), cx);
        self.gate.reconfigure(&self.config, &config);
        let is_watched_alike = self.config.keep_alive == config.keep_alive;
        let old = Arc::new(std::mem::replace(&mut self.config, config));
        for key in self.calls.keys_by_age() {
            if let Some(call) = self.calls.get_mut(key) {
                call.keep(&old);
            }
        }
        if !is_watched_alike {
            self.restart_watch(cx);
        }
        self.replace_due |= replacement == Some(Replacement::WhenIdle);
        if replacement == Some(Replacement::AtOnce) {
            self.replace(cx);
        }
        // There may be more slots than before.
    }

    /// Decides when a change of the configuration replaces the server.
    fn replacement(&self, config: &UpstreamConfig, change: Change) -> Option<Replacement> {
        if change == Change::Policies {
            return None;
        }
        // The stream of a 2024-11-05 server carries the answers to its calls.
        let needs_login = self.http.is_some() && self.availability.needs_login() && !self.has_sse_stream();
        let is_login = needs_login && self.config.place == config.place && !self.closing;
        Some(if is_login || self.can_be_replaced() { Replacement::AtOnce } else { Replacement::WhenIdle })
    }

    /// Replaces a server whose target has changed, if no call is in flight.
    pub fn replace_when_idle(&mut self, cx: &mut Cx<'_>) {
        if self.can_be_replaced() {
            self.replace(cx);
        }
    }

    /// Returns whether no call is in flight. A child that is being started is ended once it runs.
    fn can_be_replaced(&self) -> bool {
        let is_starting = self.http.is_none() && self.link.state() == LinkState::Dialing;
        !self.closing && self.calls.in_flight() == 0 && !is_starting
    }

    fn replace(&mut self, cx: &mut Cx<'_>) {
        self.replace_due = false;
        cx.emit(Event::ServerReplaced { upstream: self.id });
        if self.http.is_some() {
            self.leave_origin(cx);
        }
        self.lists.reset_cache();
        cx.output(Output::ReplaceTransport { upstream: self.id });
        self.link.reset(cx);
        self.availability.reset(cx);
        self.gate.end_admission();
        if self.http.is_none() {
            self.drain_link(LossReason::ConfigurationChanged.into(), EndedBy::Us, cx);
        }
    }

    /// Drops the state of the old origin: its session, its streams and its detected properties. Subscriptions are
    /// opened again at the new one.
    fn leave_origin(&mut self, cx: &mut Cx<'_>) {
        let is_open_subscription = |key: &Key| {
            let call = self.calls.get(*key);
            call.is_some_and(|call| call.is_subscription() && matches!(call.state, State::Sent(_)))
        };
        let open_subscriptions: Vec<Key> = self.calls.keys_by_age().into_iter().filter(is_open_subscription).collect();
        self.drop_sse_stream(cx);
        self.forget_session(cx);
        self.drop_probes(cx);
        for key in open_subscriptions {
            self.drop_exchange(key, cx);
            self.disarm(key, cx);
            if let Some(call) = self.calls.get_mut(key) {
                call.worst_outcome = call.worst_outcome.max(Outcome::Unknown);
            }
            // A new key, as for every call that is sent again.
            if let Some(key) = self.calls.rename(key) {
                self.requeue(key, cx);
            }
        }
        if let (Some(http), Transport::Http(dialect)) = (&mut self.http, self.config.transport) {
            http.drop_look(cx);
            http.reset(dialect, self.config.credential);
        }
    }
}
