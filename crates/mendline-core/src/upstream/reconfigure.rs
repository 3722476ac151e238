//! What becomes of a server when somebody edits its configuration.
//!
//! Two things can change, and they change differently. *Policies* hold for calls that come from now on; a call that runs
//! keeps what it came under ([`Call::policy`](super::call::Call::policy)), because whoever made it counts on that: its times,
//! its attempts and the pauses between them, which errors are worth another, how often a broken response is asked for again;
//! what it does to the world was settled when it came. What holds for the server and not for one call is the new one for
//! everybody: its breakers and limits, its keep-alive, when it is dialed. The *way* to the server, its command
//! or its URL and what goes with them, cannot change under a call: so the server is replaced at the first moment in which no
//! call is with it, and until then everything goes on as before. No call is held back for that, and none is given up. A server
//! that is not there, and may not be there because of what was just mended in the file, is dialed at once.
//!
//! A name stays: logs, errors and whoever reads them know the server by it. So does the kind of a server: a command that
//! becomes a URL is another server.

use std::sync::Arc;

use super::call::State;
use super::link::EndedBy;
use super::{Upstream, bounded};
use crate::config::{Transport, UpstreamConfig};
use crate::cx::Cx;
use crate::event::{Event, LinkState};
use crate::port::{Change, Output};
use crate::reason::LossReason;
use crate::slab::Key;

impl Upstream {
    /// Another configuration holds from now on.
    pub fn reconfigure(&mut self, config: UpstreamConfig, change: Change, cx: &mut Cx<'_>) {
        let mut config = bounded(config);
        config.name.clone_from(&self.config.name);
        if (config.transport == Transport::Child) != (self.config.transport == Transport::Child) {
            config.transport = self.config.transport;
        }
        let (rate_limit, place) = (config.rate_limit, config.place.clone());
        cx.emit(Event::Reconfigured { upstream: self.id, change, rate_limit, place });
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
        self.replace_due |= change == Change::Transport;
        // There may be more places than before.
        self.promote(cx);
        self.advance_http(cx);
    }

    /// Replaces a server whose way has changed, if no call is with it now.
    pub fn replace_when_idle(&mut self, cx: &mut Cx<'_>) {
        if !self.replace_due || self.closing || self.in_flight() > 0 {
            return;
        }
        // A child that is being started is waited for: it is told to end when it is there.
        if self.http.is_none() && self.link.state() == LinkState::Dialing {
            return;
        }
        self.replace_due = false;
        cx.emit(Event::ServerReplaced { upstream: self.id });
        if self.http.is_some() {
            self.leave_origin(cx);
        }
        self.catalogue.reset();
        cx.output(Output::Renew { upstream: self.id });
        self.link.reset(cx);
        if self.http.is_none() {
            self.drain_link(LossReason::ConfigurationChanged.into(), EndedBy::Us, cx);
        }
        self.advance_http(cx);
    }

    /// Gives up what hangs on the old origin: its session, its streams, and what was found out about it. What only listens
    /// listens again at the new one.
    fn leave_origin(&mut self, cx: &mut Cx<'_>) {
        let listens = |key: &Key| {
            let call = self.calls.get(*key);
            call.is_some_and(|call| call.listens() && matches!(call.state, State::Sent(_)))
        };
        let listening: Vec<Key> = self.calls.keys_by_age().into_iter().filter(listens).collect();
        self.drop_sse_stream(cx);
        self.forget_session(cx);
        for key in listening {
            self.drop_exchange(key, cx);
            self.disarm(key, cx);
            // A new name, as for everything that is sent again.
            if let Some(key) = self.calls.rename(key) {
                self.put_back(key, cx);
            }
        }
        self.sort_waiting();
        if let (Some(http), Transport::Http(dialect)) = (&mut self.http, self.config.transport) {
            http.reset(dialect);
        }
    }
}
