//! I17: the removal of an upstream is clean: its calls are answered or end within the drain, its children are reaped, its
//! exchanges are over, and nothing follows until it is added again.

use std::collections::{BTreeMap, BTreeSet};

use mendline_core::port::ExchangeId;
use mendline_core::{LinkId, Moment};

use super::Check;
use super::i17_clean_end::BOUND;
use crate::fact::{Fact, Report};
use crate::machine::EngineOutput;
use crate::oracle::Oracle;

/// Living children and open exchanges, and the removals that were requested.
#[derive(Default)]
pub(super) struct CleanRemoval {
    children: BTreeSet<LinkId>,
    exchanges: BTreeMap<ExchangeId, usize>,
    requested: BTreeMap<usize, Moment>,
    removed: BTreeSet<usize>,
}

impl CleanRemoval {
    /// Checks an upstream that the engine removes.
    fn remove(&mut self, upstream: usize) -> Result<(), String> {
        if self.requested.remove(&upstream).is_none() {
            return Err(format!("upstream {upstream} was removed, which was not requested"));
        }
        if let Some(child) = self.children.iter().find(|link| usize::from(link.upstream.0) == upstream) {
            return Err(format!("upstream {upstream} was removed although child {} is not reaped", child.dial));
        }
        if let Some((exchange, _)) = self.exchanges.iter().find(|(_, its)| **its == upstream) {
            return Err(format!("upstream {upstream} was removed although exchange {} is not over", exchange.0));
        }
        self.removed.insert(upstream);
        Ok(())
    }

    fn expect_present(&self, upstream: usize) -> Result<(), String> {
        match self.removed.contains(&upstream) {
            true => Err(format!("the engine uses upstream {upstream}, which it has removed")),
            false => Ok(()),
        }
    }
}

impl Check for CleanRemoval {
    fn name(&self) -> &'static str {
        "I17 clean removal"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::UpstreamAdded(upstream) => _ = self.removed.remove(upstream),
            Fact::RemovalRequested(upstream) => _ = self.requested.entry(*upstream).or_insert(now),
            Fact::Requested(EngineOutput::Spawn(link)) => {
                self.children.insert(*link);
                return self.expect_present(usize::from(link.upstream.0));
            }
            Fact::NotStarted(link) | Fact::Exited(link) => _ = self.children.remove(link),
            Fact::Requested(EngineOutput::Exchange(exchange, upstream, _)) => {
                self.exchanges.insert(*exchange, *upstream);
                return self.expect_present(*upstream);
            }
            Fact::Reported { exchange, report: Report::End, .. } => _ = self.exchanges.remove(exchange),
            Fact::Requested(EngineOutput::UpstreamRemoved(upstream)) => return self.remove(*upstream),
            // From now on the end of the engine bounds everything.
            Fact::Stopped | Fact::Closing => self.requested.values_mut().for_each(|since| *since = now),
            Fact::UpstreamState { upstream, state } if self.removed.contains(upstream) && state.own_open > 0 => {
                return Err(format!("upstream {upstream} was removed and has {} calls", state.own_open));
            }
            Fact::Requested(EngineOutput::Finished) => self.requested.clear(),
            _ => {}
        }
        match self.requested.iter().find(|(_, since)| now - **since > BOUND) {
            Some((upstream, since)) => {
                Err(format!("upstream {upstream} is not removed {:?} after the request", now - *since))
            }
            None => Ok(()),
        }
    }
}
