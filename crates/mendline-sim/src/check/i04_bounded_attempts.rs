//! I4: no more attempts per call than were allowed when it came, and retries stay a small part of the traffic.
//!
//! An attempt is a request that a pipe accepted whole; what was not sent costs none. Requests that Mendline repeats as part
//! of a greeting are not attempts. Per upstream the sum may not exceed 1.1 × the calls, plus 10, plus one per six seconds.
//!
//! A server that forgets a session refuses everything that was said in it. That is one event, however many calls it
//! meets: the first of them that goes out again counts, and the others do so only if they were refused by something else
//! too. They were never worked on, and none goes out a third time for that reason.

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

/// Counts per upstream.
pub(super) struct BoundedAttempts {
    traffic: Vec<Traffic>,
    /// The session that each exchange names, by its header or by its target.
    named: BTreeMap<ExchangeId, String>,
    /// The session in which each request was last sent.
    sent_in: BTreeMap<Key, String>,
    /// The sessions whose loss has been counted.
    counted: BTreeSet<String>,
    /// The requests that went out again without being counted: for each that may happen once.
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

    /// Whether this attempt is one of many that one lost session brought about, and not the first of them.
    fn is_excused(&mut self, by: Via, key: Key, oracle: &Oracle) -> bool {
        let Via::Exchange(_, exchange) = by else { return false };
        let Some(session) = self.named.remove(&exchange) else { return false };
        let before = self.sent_in.insert(key, session.clone());
        let record = oracle.of(key);
        // All copies but this one were turned away, and the last one in another session than this.
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

/// The session that a request belongs to: a header names it, or the endpoint of a trunk.
fn session_of(request: &Request) -> Option<&str> {
    request.header(headers::SESSION_ID).or(request.target.as_deref())
}
