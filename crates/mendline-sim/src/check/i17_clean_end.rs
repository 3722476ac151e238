//! I17: shutdown is clean: everything is answered within the drain, every child is reaped, every exchange is over, and
//! nothing follows.
//!
//! The bound is the drain, the steps of the shutdown sequence, and one second. If the clients only closed their
//! outputs, open calls may finish first, bounded by their deadlines; the world reports `NeverFinished` when that time
//! has passed.

use std::collections::BTreeSet;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{LinkId, Moment, defaults};

use super::Check;
use crate::fact::{Fact, Report};
use crate::machine::EngineOutput;
use crate::oracle::Oracle;

/// The bound of a shutdown.
pub const BOUND: Duration = Duration::from_secs(defaults::DRAIN.as_secs() + 2 * defaults::SHUTDOWN_STEP.as_secs() + 1);

/// Living children, open exchanges and the start of the shutdown.
#[derive(Default)]
pub(super) struct CleanEnd {
    children: BTreeSet<LinkId>,
    exchanges: BTreeSet<ExchangeId>,
    stopped: Option<Moment>,
    finished: bool,
}

impl Check for CleanEnd {
    fn name(&self) -> &'static str {
        "I17 clean end"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::Spawn(link)) => {
                self.children.insert(*link);
            }
            Fact::NotStarted(link) | Fact::Exited(link) => {
                self.children.remove(link);
            }
            Fact::Requested(EngineOutput::Exchange(exchange, ..)) => {
                self.exchanges.insert(*exchange);
            }
            Fact::Reported { exchange, report: Report::End, .. } => {
                self.exchanges.remove(exchange);
            }
            Fact::Stopped => {
                self.stopped.get_or_insert(now);
            }
            Fact::Requested(EngineOutput::Finished) => {
                if let Some(child) = self.children.first() {
                    return Err(format!("finished although child {}.{} is not reaped", child.upstream.0, child.dial));
                }
                if let Some(exchange) = self.exchanges.first() {
                    return Err(format!("finished although exchange {} is not over", exchange.0));
                }
                self.finished = true;
            }
            Fact::Settled { wake: Some(_), .. } if self.finished => {
                return Err("finished, but requests a wake-up".into());
            }
            Fact::NeverFinished => return Err("the engine was told to stop and does not finish".into()),
            _ => {}
        }
        if self.finished && matches!(fact, Fact::Requested(act) if **act != EngineOutput::Finished) {
            return Err("the engine produced an output after it finished".into());
        }
        match self.stopped {
            Some(stopped) if !self.finished && now - stopped > BOUND => {
                Err(format!("the engine has not finished {:?} after it was told to stop", now - stopped))
            }
            _ => Ok(()),
        }
    }
}
