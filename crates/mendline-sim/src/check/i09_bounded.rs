//! I9: every queue has an end, and all are empty after a drain.
//!
//! The engine says how much it holds (`Engine::load`); the limits are those of the configuration and of the defaults. A
//! number that it reports wrongly would be caught by the worlds that fill a queue on purpose and count the answers.

use mendline_core::{Config, Moment, defaults};

use super::Check;
use crate::fact::Fact;
use crate::machine::{Act, Load};
use crate::oracle::Oracle;

/// The limits, and what was seen last.
pub(super) struct Bounded {
    calls: usize,
    bytes: usize,
    upstreams: usize,
    last: Load,
    finished: bool,
}

impl Bounded {
    pub(super) fn new(config: &Config) -> Bounded {
        let places = |upstream: &mendline_core::UpstreamConfig| upstream.limits.in_flight + upstream.limits.waiting + 1;
        Bounded {
            calls: config.upstreams.iter().map(places).sum(),
            bytes: config.ledger_bytes,
            upstreams: config.upstreams.len(),
            last: Load::default(),
            finished: false,
        }
    }
}

impl Check for Bounded {
    fn name(&self) -> &'static str {
        "I9 bounded"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Wanted(Act::Finished) => self.finished = true,
            Fact::Settled { load, .. } => {
                self.last = *load;
                let limits = [
                    ("calls", load.calls, self.calls),
                    ("requests", load.requests, self.calls),
                    ("questions", load.asks, defaults::ASKS * self.upstreams),
                    // A child is stopped at the soft limit; what was already accepted may still be answered.
                    (
                        "messages for clients",
                        load.for_clients,
                        defaults::CLIENT_QUEUE_HARD * self.upstreams + self.calls,
                    ),
                    ("messages for links", load.for_links, defaults::LINK_QUEUE * self.upstreams + self.calls),
                    ("bytes", load.bytes, self.bytes),
                    ("timers", load.timers, self.calls + 4 * self.upstreams + 2),
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

    /// Finished means that nothing is owed any more; what is left for the clients is theirs to take, and taken by now, unless
    /// one of them went away without taking it.
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
