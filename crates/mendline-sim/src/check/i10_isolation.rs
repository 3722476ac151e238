//! I10: faults at one upstream do not affect another.
//!
//! Some upstreams have no faults. Each of their requests is answered by the server itself until the engine is told to
//! stop.

use std::collections::BTreeSet;

use mendline_core::Moment;

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Oracle, Verdict};

/// The upstreams without faults.
#[derive(Default)]
pub(super) struct Isolation {
    without_faults: BTreeSet<usize>,
    stopping: bool,
}

impl Check for Isolation {
    fn name(&self) -> &'static str {
        "I10 isolation"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::WithoutFaults(upstream) => {
                self.without_faults.insert(*upstream);
            }
            Fact::Stopped | Fact::Closing | Fact::ClientLeft(_) => self.stopping = true,
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } => {
                let record = oracle.of(*key);
                if !self.stopping && self.without_faults.contains(&record.upstream) {
                    return Err(format!(
                        "{} ({}) at upstream {}, which has no faults, was answered {}",
                        record.id, record.what, record.upstream, failure.cause
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
