//! I3: what must not run twice does not.

use mendline_core::Moment;

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Effect, Oracle};

/// Keeps nothing: the oracle counts runs.
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
        // A second whole copy in a pipe is a second effect that only luck prevents; one that was turned away is none.
        if record.runs > 1 || record.possibly_run() > 1 {
            return Err(format!(
                "{} ({}) ran {} times and was sent {} times",
                record.id, record.what, record.runs, record.whole
            ));
        }
        Ok(())
    }
}
