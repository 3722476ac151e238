//! I2: every request is answered by its deadline, one tick later at most.
//!
//! The deadline is the oracle's own arithmetic (arrival or last progress plus `timeouts.call`, `timeouts.total` in all), so a
//! deadline that the engine computes wrongly is seen as well as one that it forgets. Time in which the client itself does not
//! read is not counted: the world says `Overdue` only when there was nothing left for it to read. A subscription that listens
//! has no deadline. A request that cannot get out over HTTP has a shorter one: `timeouts.recovery`.

use mendline_core::Moment;
use mendline_wire::Method;

use super::Check;
use crate::fact::Fact;
use crate::oracle::Oracle;

/// Keeps nothing.
pub(super) struct InTime;

impl Check for InTime {
    fn name(&self) -> &'static str {
        "I2 in time"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        let Fact::Overdue(key) = fact else { return Ok(()) };
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
