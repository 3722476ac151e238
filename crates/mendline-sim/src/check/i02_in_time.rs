//! I2: every request is answered by its deadline, within the tolerance, and none times out before it.
//!
//! The oracle computes the deadline itself (arrival or last progress plus `timeouts.call`, at most `timeouts.total`),
//! so that a wrong deadline of the engine is detected as well as a missing one. Time during which the client does not
//! read does not count: the world reports `Overdue` only when the client has nothing left to read. A subscription has
//! no deadline. A request that cannot be sent over HTTP has a shorter one: `timeouts.recovery`. Each request has the
//! timeouts that were configured when it arrived.

use mendline_core::Moment;
use mendline_wire::Method;

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Oracle, Record, Verdict};

/// Has no state.
pub(super) struct InTime;

impl Check for InTime {
    fn name(&self) -> &'static str {
        "I2 in time"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        let key = match fact {
            Fact::Overdue(key) => key,
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } if failure.cause == "timed_out" => {
                return early(oracle.of(*key), now);
            }
            _ => return Ok(()),
        };
        let record = oracle.of(*key);
        if record.method == Method::SubscriptionsListen || record.twin {
            return Ok(());
        }
        Err(format!(
            "{} ({}) is not answered {:?} after its arrival",
            record.id,
            record.what,
            now - record.arrived.unwrap_or(now)
        ))
    }
}

/// Checks that a request did not time out early. The client reads after the engine answers, so an early read proves an
/// early answer.
fn early(record: &Record, now: Moment) -> Result<(), String> {
    match record.due_at_first() {
        Some(due) if now < due && !record.twin => {
            Err(format!("{} ({}) timed out {:?} before its deadline", record.id, record.what, due - now))
        }
        _ => Ok(()),
    }
}
