//! I4: attempts per call do not exceed the limit at its arrival, and retries stay a small part of the traffic.
//!
//! An attempt is a request that a pipe or a connection accepted completely. Requests that Mendline repeats as part of a
//! handshake are not attempts. Per upstream the sum may not exceed 1.1 × the calls, plus 10, plus one per six seconds.
//!
//! A server that loses a session rejects every call in it. That is one event, however many calls it affects: the first
//! call that is sent again counts, and the others count only if something else rejected them too. They were never
//! processed, and none is sent a third time for that reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{Config, Moment};
use mendline_wire::headers;

use super::Check;
use crate::exchange::Request;
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle};

#[derive(Clone, Default)]
struct Traffic {
    calls: u64,
    attempts: u64,
}

/// Counters per upstream.
pub(super) struct BoundedAttempts {
    traffic: Vec<Traffic>,
    /// The session of each exchange, by its header or target.
    named: BTreeMap<ExchangeId, String>,
    /// The session in which each request was last sent.
    sent_in: BTreeMap<Key, String>,
    /// The lost sessions that are counted.
    counted: BTreeSet<String>,
    /// The requests that were sent again without being counted, at most once each.
    excused: BTreeSet<Key>,
}

impl BoundedAttempts {
    pub(super) fn new(config: &Config) -> BoundedAttempts {
        BoundedAttempts {
            traffic: vec![Traffic::default(); config.upstreams.len()],
            named: BTreeMap::new(),
            sent_in: BTreeMap::new(),
            counted: BTreeSet::new(),
            excused: BTreeSet::new(),
        }
    }

    /// Returns whether this attempt follows from a lost session and is not the first such attempt.
    fn is_excused(&mut self, by: Via, key: Key, oracle: &Oracle) -> bool {
        let Via::Exchange(_, exchange) = by else { return false };
        let Some(session) = self.named.remove(&exchange) else { return false };
        let before = self.sent_in.insert(key, session.clone());
        let record = oracle.of(key);
        // All other copies were rejected, and the last one used another session.
        let Some(lost) = before.filter(|lost| *lost != session && record.refused + 1 == record.whole) else {
            return false;
        };
        !self.counted.insert(lost) && self.excused.insert(key)
    }
}

impl Check for BoundedAttempts {
    fn name(&self) -> &'static str {
        "I4 bounded attempts"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        if let Fact::Requested(EngineOutput::Exchange(exchange, upstream, request)) = fact {
            self.named.extend(session_of(request).map(|session| (*exchange, format!("{upstream} {session}"))));
        }
        let Fact::Accepted { by, key } = fact else { return Ok(()) };
        let record = oracle.of(*key);
        if record.is_replayed_state() || oracle.may_be_read_again(*key) {
            return Ok(());
        }
        let limit = record.terms.map_or(0, |terms| terms.attempts);
        if record.whole > limit {
            return Err(format!(
                "{} ({}) was sent {} times, {limit} are allowed",
                record.id, record.what, record.whole
            ));
        }
        let is_excused = self.is_excused(*by, *key, oracle);
        let traffic = &mut self.traffic[record.upstream];
        traffic.attempts += u64::from(!is_excused);
        traffic.calls += u64::from(record.whole == 1);
        let grown = now.since(Moment::ZERO).as_secs() / Duration::from_secs(6).as_secs();
        let allowed = traffic.calls + traffic.calls / 10 + 11 + grown;
        if traffic.attempts > allowed {
            return Err(format!("{} attempts for {} calls, {allowed} are allowed", traffic.attempts, traffic.calls));
        }
        Ok(())
    }
}

/// Returns the session of a request: its header, or the endpoint of an SSE stream.
fn session_of(request: &Request) -> Option<&str> {
    request.header(headers::SESSION_ID).or(request.target.as_deref())
}
