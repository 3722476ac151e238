//! I3: an unsafe request does not run twice.

use mendline_core::Moment;

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Effect, Oracle};

/// Has no state: the oracle counts executions.
pub(super) struct NoSecondEffect;

impl Check for NoSecondEffect {
    fn name(&self) -> &'static str {
        "I3 no second effect"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        let (Fact::Ran { key, .. } | Fact::Read { key, .. } | Fact::Accepted { key, .. }) = fact else { return Ok(()) };
        let record = oracle.of(*key);
        if record.effect != Effect::Unsafe {
            return Ok(());
        }
        // A second complete copy that was not rejected counts as a second execution.
        if record.runs > 1 || record.possibly_run() > 1 + record.harmless {
            return Err(format!(
                "{} ({}) ran {} times and was sent {} times",
                record.id, record.what, record.runs, record.whole
            ));
        }
        Ok(())
    }
}
