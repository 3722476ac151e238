//! I4: at most three attempts per call, and retries stay a small part of the traffic.
//!
//! An attempt is a request that a pipe accepted whole; what was not sent costs none. Requests that Mendline repeats as part
//! of a greeting are not attempts. Per upstream the sum may not exceed 1.1 × the calls, plus 10, plus one per six seconds.

use std::time::Duration;

use mendline_core::{Config, Moment};

use super::Check;
use crate::fact::Fact;
use crate::oracle::Oracle;

#[derive(Clone, Default)]
struct Traffic {
    calls: u64,
    attempts: u64,
}

/// Counts per upstream.
pub(super) struct BoundedAttempts {
    limit: Vec<u32>,
    traffic: Vec<Traffic>,
}

impl BoundedAttempts {
    pub(super) fn new(config: &Config) -> BoundedAttempts {
        let limit: Vec<u32> = config.upstreams.iter().map(|upstream| upstream.attempts).collect();
        BoundedAttempts { traffic: vec![Traffic::default(); limit.len()], limit }
    }
}

impl Check for BoundedAttempts {
    fn name(&self) -> &'static str {
        "I4 bounded attempts"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        let Fact::Accepted { key, .. } = fact else { return Ok(()) };
        let record = oracle.of(*key);
        if record.is_replayed_state() {
            return Ok(());
        }
        let limit = self.limit[record.upstream];
        if record.whole > limit {
            return Err(format!(
                "{} ({}) was sent {} times, {limit} are allowed",
                record.id, record.what, record.whole
            ));
        }
        let traffic = &mut self.traffic[record.upstream];
        traffic.attempts += 1;
        traffic.calls += u64::from(record.whole == 1);
        let grown = now.since(Moment::ZERO).as_secs() / Duration::from_secs(6).as_secs();
        let allowed = traffic.calls + traffic.calls / 10 + 11 + grown;
        if traffic.attempts > allowed {
            return Err(format!("{} attempts for {} calls, {allowed} are allowed", traffic.attempts, traffic.calls));
        }
        Ok(())
    }
}
