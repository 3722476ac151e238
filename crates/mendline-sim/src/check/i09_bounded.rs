//! I9: every queue is bounded, and all are empty after a drain.
//!
//! The engine reports its load (`Engine::load`); the limits come from the configuration and the defaults. Worlds that
//! fill a queue and count the answers would detect a wrong report.

use std::collections::BTreeMap;

use mendline_core::port::ExchangeId;
use mendline_core::{Config, Moment, defaults};
use mendline_wire::{Kind, Message, Method};

use super::Check;
use crate::exchange::Request;
use crate::fact::{Fact, Report, Via};
use crate::machine::{EngineOutput, Load};
use crate::oracle::Oracle;

/// Additional items per upstream: subscriptions, which have their own limit, and internal requests.
const OWN: usize = defaults::SUBSCRIPTION_STREAMS + defaults::INTERNAL_REQUESTS;

/// The limits and the last load.
pub(super) struct Bounded {
    calls: usize,
    bytes: usize,
    upstreams: usize,
    last: Load,
    finished: bool,
    /// Requests that restore session state, by the id of the server.
    restores: BTreeMap<(usize, Vec<u8>), Via>,
    /// Posted messages that are not calls; true for a cancellation.
    notes: BTreeMap<ExchangeId, (usize, bool)>,
}

/// Returns whether a request carries a notification or an answer, and whether that is a cancellation.
/// `notifications/initialized` is part of the handshake.
fn is_note(request: &Request) -> Option<bool> {
    let message = Message::parse(request.body.clone()?).ok()?;
    let is_note = message.kind() != Kind::Request && message.method() != Method::Initialized;
    is_note.then_some(message.method() == Method::Cancelled)
}

fn is_restore(method: Method) -> bool {
    matches!(method, Method::LoggingSetLevel | Method::ResourcesSubscribe)
}

impl Bounded {
    pub(super) fn new(config: &Config) -> Bounded {
        let places =
            |upstream: &mendline_core::UpstreamConfig| upstream.limits.in_flight + upstream.limits.waiting + OWN;
        Bounded {
            calls: config.upstreams.iter().map(places).sum(),
            bytes: config.ledger_bytes,
            upstreams: config.upstreams.len(),
            last: Load::default(),
            finished: false,
            restores: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }
}

impl Check for Bounded {
    fn name(&self) -> &'static str {
        "I9 bounded"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::Exchange(id, upstream, request)) => {
                if let Some(is_cancellation) = is_note(request) {
                    let kind = (*upstream, is_cancellation);
                    self.notes.insert(*id, kind);
                    let posted = self.notes.values().filter(|other| **other == kind).count();
                    if posted > defaults::ONE_WAY_IN_FLIGHT {
                        return Err(format!("{posted} notifications or answers are posted at once"));
                    }
                }
            }
            Fact::Requested(EngineOutput::Abort(id)) => _ = self.notes.remove(id),
            // A request that was answered before is sent by Mendline itself.
            Fact::HandedOut { by, message, key: Some(key) }
                if is_restore(message.method()) && oracle.of(*key).answers > 0 =>
            {
                self.restores.insert((by.upstream(), message.id().unwrap_or_default().to_vec()), *by);
                let under_way = self.restores.keys().filter(|(upstream, _)| *upstream == by.upstream()).count();
                if under_way > defaults::RESTORES {
                    return Err(format!("{under_way} requests restore one session at once, which exceeds the limit"));
                }
            }
            Fact::Received { by, message: Some(message) } => {
                let id = String::from_utf8_lossy(message.id().unwrap_or_default()).trim_matches('"').to_owned();
                self.restores.remove(&(by.upstream(), id.into_bytes()));
            }
            Fact::Exited(link) => self.restores.retain(|_, by| *by != Via::Child(*link)),
            // Over HTTP, a restore ends with its exchange or is aborted for the next session.
            Fact::Reported { upstream, exchange, report: Report::End } => {
                self.notes.remove(exchange);
                self.restores.retain(|(it, _), _| it != upstream);
            }
            Fact::Received { by: Via::Exchange(upstream, _), .. } => {
                self.restores.retain(|(it, _), _| it != upstream);
            }
            Fact::Requested(EngineOutput::Finished) => self.finished = true,
            Fact::Settled { load, .. } => {
                self.last = *load;
                let limits = [
                    ("calls", load.calls, self.calls),
                    ("requests", load.requests, self.calls - defaults::INTERNAL_REQUESTS * self.upstreams),
                    ("server requests", load.asks, defaults::SERVER_REQUESTS * self.upstreams),
                    // A child is not read beyond the soft limit; accepted calls may still be answered.
                    (
                        "messages for clients",
                        load.for_clients,
                        defaults::CLIENT_QUEUE_HARD * self.upstreams + self.calls,
                    ),
                    ("messages for links", load.for_links, defaults::LINK_QUEUE * self.upstreams + self.calls),
                    ("bytes", load.bytes, self.bytes),
                    ("timers", load.timers, self.calls + 6 * self.upstreams + 2),
                ];
                for (what, held, limit) in limits {
                    if held > limit {
                        return Err(format!("{held} {what} are held, the limit is {limit}"));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A finished engine holds nothing, except messages of clients that disconnected.
    fn end(&mut self, _: Moment, oracle: &Oracle) -> Result<(), String> {
        if oracle.readers.values().any(|reader| reader.gone) {
            (self.last.for_clients, self.last.bytes) = (0, 0);
        }
        if self.finished && self.last != Load::default() {
            return Err(format!("finished, and still holds {:?}", self.last));
        }
        Ok(())
    }
}
