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

use super::{Phase, Upstream, bounded};
use crate::config::UpstreamConfig;
use crate::cx::Cx;
use crate::event::{Event, Replacement};
use crate::port::{Change, Output};

impl Upstream {
    /// Applies a new configuration.
    pub fn reconfigure(&mut self, config: UpstreamConfig, change: Change, cx: &mut Cx<'_>) {
        let mut config = bounded(config);
        config.name.clone_from(&self.config.name);
        if !self.link.is_kind_of(config.transport) {
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
        if replacement == Some(Replacement::WhenIdle) && !self.is_closing() {
            self.phase = Phase::ReplaceDue;
        }
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
        let needs_login = self.availability.needs_login() && !self.has_sse_stream();
        let is_login = needs_login && self.config.place == config.place && !self.is_closing();
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
        !self.is_closing() && self.calls.in_flight() == 0 && !self.link.is_starting()
    }

    fn replace(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Serving;
        cx.emit(Event::ServerReplaced { upstream: self.id });
        self.leave_origin(cx);
        self.lists.reset_cache();
        cx.output(Output::ReplaceTransport { upstream: self.id });
        self.link.reset(cx);
        self.availability.reset(cx);
        self.gate.end_admission();
    }
}
