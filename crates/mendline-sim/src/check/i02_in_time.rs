//! I2: every request is answered by its deadline, one tick later at most, and none is said to be out of time before that.
//!
//! The deadline is the oracle's own arithmetic (arrival or last progress plus `timeouts.call`, `timeouts.total` in all), so a
//! deadline that the engine computes wrongly is seen as well as one that it forgets. Time in which the client itself does not
//! read is not counted: the world says `Overdue` only when there was nothing left for it to read. A subscription that listens
//! has no deadline. A request that cannot get out over HTTP has a shorter one: `timeouts.recovery`. Each request has the
//! times that were configured when it came, whatever is configured later.

use mendline_core::Moment;
use mendline_wire::Method;

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Oracle, Record, Verdict};

/// Keeps nothing.
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
            "{} ({}) is not answered {:?} after it came",
            record.id,
            record.what,
            now - record.arrived.unwrap_or(now)
        ))
    }
}

/// What is read later was answered earlier, so a client that reads too early was answered too early.
fn early(record: &Record, now: Moment) -> Result<(), String> {
    match record.due_at_first() {
        Some(due) if now < due && !record.twin => {
            Err(format!("{} ({}) is said to be out of time {:?} before it is", record.id, record.what, due - now))
        }
        _ => Ok(()),
    }
}
