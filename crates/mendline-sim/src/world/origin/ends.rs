//! The ends of streams, sessions and of the HTTP server itself.

use mendline_core::port::{ExchangeId, Verb};
use mendline_core::reason::CutReason;

use crate::exchange::Phase;
use crate::site::HttpServerKind;
use crate::world::World;

impl World {
    /// Detaches an exchange; the server may notice it.
    pub(in crate::world) fn detach(&mut self, upstream: usize, exchange: ExchangeId, noticed: bool) {
        let kind = self.hosts[upstream].site.as_ref().map(|site| site.kind);
        for (number, stream) in self.origins[upstream].detach(exchange) {
            let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) else { continue };
            match kind {
                // In the modern era, closing the stream cancels the request.
                Some(HttpServerKind::Modern) if noticed => conversation.server.forget(stream),
                // Running jobs continue; their answers are lost.
                Some(HttpServerKind::Sse) => {
                    conversation.known = false;
                    let actions = conversation.server.stop_asking();
                    self.perform_in(upstream, number, actions);
                }
                _ => {}
            }
        }
    }

    /// Invalidates all sessions. Running jobs continue.
    pub fn forget_sessions(&mut self, upstream: usize) {
        let numbers: Vec<u32> = self.origins[upstream].conversations.keys().copied().collect();
        for number in numbers {
            let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) else { continue };
            if conversation.session.is_some() && std::mem::replace(&mut conversation.known, false) {
                let actions = conversation.server.stop_asking();
                self.perform_in(upstream, number, actions);
            }
        }
    }

    /// Restarts the server: all state and all connections are lost.
    pub fn restart(&mut self, upstream: usize) {
        self.origins[upstream].conversations.clear();
        self.origins[upstream].in_transit.clear();
        for exchange in self.connected(upstream) {
            self.cut(exchange, CutReason::Reset);
        }
    }

    /// Cuts all waiting GET streams, including SSE streams.
    pub fn cut_long_streams(&mut self, upstream: usize) {
        for id in self.connected(upstream) {
            let waits = self.exchanges.get(&id).is_some_and(|it| it.verb == Verb::Get && it.phase == Phase::Sent);
            if waits {
                self.cut(id, CutReason::Reset);
            }
        }
    }

    /// Releases held answers at the end of a fault.
    pub(in crate::world) fn release_conversations(&mut self, upstream: usize) {
        let numbers: Vec<u32> = self.origins[upstream].conversations.keys().copied().collect();
        for number in numbers {
            let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) else { continue };
            let actions = conversation.server.release_held();
            self.perform_in(upstream, number, actions);
        }
    }
}
