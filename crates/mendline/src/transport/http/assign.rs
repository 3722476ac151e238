//! Assigns connections to exchanges, and dials the connections that are missing.
//!
//! An exchange waits until the pool has a connection that is fresh enough for it. Exchanges are served in the order of
//! their beginning. For those that remain, as many connections are dialed as can be used, within the limit.

use mendline_core::reason::RefusalReason;
use std::sync::Arc;

use http::Version;
use mendline_core::port::{ExchangeEnd, ExchangeId, Reuse, Written};
use mendline_core::{Input, defaults};
use tokio::time::Instant;

use super::connect::{connect, first_hop};
use super::connection::Freshness;
use super::dials::Dialing;
use super::exchange::{Assignment, Stage};
use super::h1::Keep;
use super::pool::ConnectionId;
use super::transfer::ResponseFuture;
use super::{Dial, Http, Key, Protocol};

/// Returns how many connections may be busy when so many calls may be in flight: one for each call, for each
/// subscription, and for requests that are not calls.
pub(super) fn connections(calls: usize) -> usize {
    calls.saturating_add(defaults::SUBSCRIPTION_STREAMS + defaults::CONNECTIONS_BESIDE_CALLS)
}

impl<D: Dial> Http<D> {
    /// Assigns connections to waiting exchanges, and dials as many new connections as are needed.
    pub(super) fn assign(&mut self) {
        if self.authorization.is_awaited() {
            return;
        }
        // If there is no connection for one exchange, there is none for others that require the same, and if any
        // connection would do, there is none at all. So many exchanges that wait for dials cost little.
        let mut exhausted: Option<Freshness> = None;
        let mut index = 0;
        while exhausted != Some(Freshness::By(Reuse::Any))
            && self.pool.has_candidates()
            && let Some(id) = self.waiting.get(index).copied()
        {
            let freshness = self.exchanges.get(&id).map(|exchange| exchange.freshness());
            match freshness {
                Some(freshness) if exhausted == Some(freshness) || !self.assign_one(id, freshness) => {
                    exhausted = Some(freshness);
                    index += 1;
                }
                _ => _ = self.waiting.remove(index),
            }
        }
        // If one connection can carry all exchanges, or might, one dial is enough.
        let shared = match self.version {
            Some(version) => version == Version::HTTP_2,
            None => self.target.location.origin.secure || self.target.protocol == Protocol::Http2,
        };
        let wanted = if shared { self.waiting.len().min(1) } else { self.waiting.len() };
        // The limit keeps a server, or a proxy in front of it, from being flooded with connections.
        let wanted = wanted.min(self.connections.saturating_sub(self.pool.busy()));
        // An exchange that waited may have got a connection of another one meanwhile. If its dial were dropped, the pool
        // could not grow to the number of calls in flight, and every call would begin a dial in vain.
        let may_keep = !shared && (wanted > 0 || !self.dials.is_empty());
        let kept = if may_keep { self.pool.missing(self.waiting.len()) } else { 0 };
        let (target, tls, ready_queue, dial) = (&self.target, &self.tls, &self.ready_queue, &self.dial);
        self.dials.set_wanted(wanted, kept, |id| {
            let dialed = dial.dial(&first_hop(target), target.connect_timeout);
            let dialing: Dialing<D::Io> = Box::pin(connect(dialed, Arc::clone(target), Arc::clone(tls), Keep::Needed));
            (dialing, ready_queue.ready_waker(Key::Dial(id)))
        });
    }

    /// Returns whether the exchange no longer waits.
    fn assign_one(&mut self, id: ExchangeId, freshness: Freshness) -> bool {
        let now = self.now();
        #[cfg(test)]
        {
            self.searches += 1;
        }
        while let Some(connection) = self.pool.choose(freshness, now) {
            if self.send(id, connection, now) {
                return true;
            }
        }
        false
    }

    /// Sends an exchange on a connection. Returns false if the connection did not take it.
    fn send(&mut self, id: ExchangeId, connection: ConnectionId, now: Instant) -> bool {
        let (Some(exchange), Some(chosen)) = (self.exchanges.get_mut(&id), self.pool.get(connection)) else {
            return true;
        };
        let reused = chosen.is_used();
        exchange.sent_after_idle = chosen.idle_time(now).map(|idle| (now, idle));
        let credential = self.authorization.headers();
        let (location, request, version) = (&exchange.location, &exchange.request, chosen.version());
        let head = match self.heads.for_connection(&self.target, location, request, version, credential) {
            Ok(head) => head,
            Err(why) => {
                self.exchanges.remove(&id);
                self.end(id, ExchangeEnd::Forbidden(why), Written::Nothing);
                return true;
            }
        };
        let sent = self.pool.send(connection, id, head, exchange.request.body.as_ref(), now);
        let Some((response, upload, evidence)) = sent else {
            return false;
        };
        let assignment = Assignment::new(connection, reused, evidence, upload);
        if matches!(response, ResponseFuture::Http2(_)) {
            exchange.waker.wake_by_ref();
        }
        exchange.stage = Stage::Sent { assignment, response };
        if !std::mem::replace(&mut exchange.reached, true) {
            self.facts.push(Input::Reached { exchange: id });
        }
        true
    }

    pub(super) fn poll_dial(&mut self, id: ConnectionId) {
        let Some(made) = self.dials.poll(id) else {
            return;
        };
        self.needs_assignment = true;
        let how = match made {
            Ok(connection) => {
                self.version = Some(connection.version());
                self.pool.add(id, connection, self.ready_queue.observed_waker(Key::Connection(id)));
                return;
            }
            Err(error) if error.is_permanent() => ExchangeEnd::Forbidden(RefusalReason::Connect(error)),
            Err(error) => ExchangeEnd::NoConnection(error),
        };
        // While other dials run, only the first waiting exchange fails; otherwise all fail.
        let failed = if self.dials.is_empty() { self.waiting.len() } else { self.waiting.len().min(1) };
        for exchange in self.waiting.drain(..failed).collect::<Vec<_>>() {
            self.exchanges.remove(&exchange);
            self.end(exchange, how.clone(), Written::Nothing);
        }
    }
}
