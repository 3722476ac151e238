//! I6 for stopped children: an idle child that does not respond is detected and replaced.
//!
//! Within its keep-alive interval the child is pinged twice and then ended. This applies only to an initialized child
//! that has answered and has no open call: calls have their own deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mendline_core::{Config, LinkId, Moment, defaults};
use mendline_wire::{Kind, Method};

use super::Check;
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle};

/// The stopped children, and since when.
pub(super) struct AliveFrozen {
    bound: Vec<Option<Duration>>,
    /// Children that are initialized and have answered.
    known: BTreeSet<LinkId>,
    out: BTreeMap<LinkId, BTreeSet<Key>>,
    frozen: BTreeMap<LinkId, Moment>,
    /// Isolated upstreams; these are not checked.
    taken_out: BTreeSet<usize>,
}

impl AliveFrozen {
    pub(super) fn new(config: &Config) -> AliveFrozen {
        let bound = |it: mendline_core::config::KeepAlive| {
            it.interval + 2 * it.timeout + defaults::KEEP_ALIVE_PAUSE + Duration::from_millis(100)
        };
        AliveFrozen {
            bound: config.upstreams.iter().map(|upstream| upstream.keep_alive.map(bound)).collect(),
            known: BTreeSet::new(),
            out: BTreeMap::new(),
            frozen: BTreeMap::new(),
            taken_out: BTreeSet::new(),
        }
    }
}

impl Check for AliveFrozen {
    fn name(&self) -> &'static str {
        "I6 alive"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::HandedOut { by: Via::Child(link), message, key } => {
                if message.method() == Method::Initialized {
                    self.known.insert(*link);
                }
                if let Some(key) = key {
                    self.frozen.remove(link);
                    self.out.entry(*link).or_default().insert(*key);
                }
            }
            Fact::Received { by: Via::Child(link), message: Some(message) } if self.frozen.contains_key(link) => {
                // Its last messages were still in transit.
                if matches!(message.kind(), Kind::Result | Kind::Error | Kind::Notification | Kind::Request) {
                    self.frozen.insert(*link, now);
                }
            }
            Fact::Frozen(link) => {
                let is_open = |key: &Key| oracle.of(*key).is_open();
                let busy = self.out.get(link).is_some_and(|keys| keys.iter().any(is_open));
                let watched = self.bound[usize::from(link.upstream.0)].is_some();
                if watched && !busy && self.known.contains(link) {
                    self.frozen.insert(*link, now);
                }
            }
            Fact::Continued(link) | Fact::Died(link) | Fact::Requested(EngineOutput::CloseStdin(link)) => {
                self.frozen.remove(link);
            }
            Fact::Isolated(upstream) => {
                self.taken_out.insert(*upstream);
            }
            Fact::ManualAction(upstream) if self.taken_out.remove(upstream) => {
                let theirs = self.frozen.iter_mut().filter(|(link, _)| usize::from(link.upstream.0) == *upstream);
                theirs.for_each(|(_, since)| *since = now);
            }
            Fact::Stopped | Fact::Closing | Fact::ClientLeft(_) => self.frozen.clear(),
            Fact::Settled { .. } => {
                let is_late = |(link, since): (&LinkId, &Moment)| {
                    let upstream = usize::from(link.upstream.0);
                    let is_late = self.bound[upstream].is_some_and(|bound| now - *since > bound);
                    is_late && !self.taken_out.contains(&upstream)
                };
                if let Some((link, since)) = self.frozen.iter().find(|(link, since)| is_late((*link, *since))) {
                    return Err(format!(
                        "{} was stopped for {:?} and is not replaced",
                        Via::Child(*link),
                        now - *since
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
