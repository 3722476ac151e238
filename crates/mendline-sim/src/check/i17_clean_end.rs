//! I17: told to stop, it ends: everything answered within the drain, every child reaped, every exchange over, nothing after.
//!
//! The time is the sum of its parts: the drain, the three rungs of the ladder, and a second for the world to die in. When it
//! was not told to stop and its clients merely closed their ends, what runs may finish first, and its deadlines bound it;
//! the world says `NeverFinished` when that time has passed.

use std::collections::BTreeSet;
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{LinkId, Moment, defaults};

use super::Check;
use crate::fact::{Fact, Report};
use crate::machine::EngineOutput;
use crate::oracle::Oracle;

/// How long an end may take.
pub const BOUND: Duration = Duration::from_secs(defaults::DRAIN.as_secs() + 2 * defaults::LADDER_STEP.as_secs() + 1);

/// Which children are alive, which exchanges are open, and when the end began.
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
                return Err("finished, and still wants to be woken".into());
            }
            Fact::NeverFinished => return Err("it was told to stop and does not end".into()),
            _ => {}
        }
        if self.finished && matches!(fact, Fact::Requested(act) if **act != EngineOutput::Finished) {
            return Err("it wants something after it said that it is finished".into());
        }
        match self.stopped {
            Some(stopped) if !self.finished && now - stopped > BOUND => {
                Err(format!("{:?} after it was told to stop it has not ended", now - stopped))
            }
            _ => Ok(()),
        }
    }
}
