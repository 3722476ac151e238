//! I6 for stopped children: an idle child that does not respond is detected and replaced.
//!
//! Within its keep-alive interval the child is pinged twice and then ended. This applies only to an initialized child
//! that has answered and has no open call: calls have their own deadlines. Once a call has reached its deadline, and
//! nothing came since it was sent, the child is pinged at once, although other calls are in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mendline_core::{Config, LinkId, Moment, defaults};
use mendline_wire::{Kind, Method};

use super::Check;
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::{Key, Oracle, Verdict};

/// The stopped children, and since when.
pub(super) struct AliveFrozen {
    bound: Vec<Option<Duration>>,
    /// Children that are initialized and have answered.
    known: BTreeSet<LinkId>,
    out: BTreeMap<LinkId, BTreeSet<Key>>,
    frozen: BTreeMap<LinkId, Moment>,
    /// All stopped children.
    stopped: BTreeSet<LinkId>,
    /// The times at which calls were handed to a child, and of its last message.
    handed_out: BTreeMap<Key, (LinkId, Moment)>,
    received: BTreeMap<LinkId, Moment>,
    /// Stopped children whose call has reached its deadline, and since when.
    overdue: BTreeMap<LinkId, Moment>,
    /// The time for two pings.
    two_pings: Vec<Option<Duration>>,
    /// Isolated upstreams; these are not checked.
    taken_out: BTreeSet<usize>,
}

impl AliveFrozen {
    pub(super) fn new(config: &Config) -> AliveFrozen {
        let two_pings = |it: mendline_core::config::KeepAlive| {
            2 * it.timeout + 2 * defaults::KEEP_ALIVE_PAUSE + Duration::from_millis(100)
        };
        let bound = |it: mendline_core::config::KeepAlive| {
            it.interval + 2 * it.timeout + defaults::KEEP_ALIVE_PAUSE + Duration::from_millis(100)
        };
        AliveFrozen {
            bound: config.upstreams.iter().map(|upstream| upstream.keep_alive.map(bound)).collect(),
            known: BTreeSet::new(),
            out: BTreeMap::new(),
            frozen: BTreeMap::new(),
            stopped: BTreeSet::new(),
            handed_out: BTreeMap::new(),
            received: BTreeMap::new(),
            overdue: BTreeMap::new(),
            two_pings: config.upstreams.iter().map(|upstream| upstream.keep_alive.map(two_pings)).collect(),
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
                    self.handed_out.insert(*key, (*link, now));
                    self.frozen.remove(link);
                    self.out.entry(*link).or_default().insert(*key);
                }
            }
            Fact::Received { by: Via::Child(link), message } => {
                self.received.insert(*link, now);
                self.overdue.remove(link);
                let Some(message) = message.filter(|_| self.frozen.contains_key(link)) else { return Ok(()) };
                // Its last messages were still in transit.
                if matches!(message.kind(), Kind::Result | Kind::Error | Kind::Notification | Kind::Request) {
                    self.frozen.insert(*link, now);
                }
            }
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } if failure.cause == "timed_out" => {
                let Some((link, sent)) = self.handed_out.get(key) else { return Ok(()) };
                let is_silent = self.received.get(link).is_none_or(|received| received < sent);
                let is_watched = self.two_pings[usize::from(link.upstream.0)].is_some() && self.known.contains(link);
                if is_silent && is_watched && self.stopped.contains(link) {
                    self.overdue.entry(*link).or_insert(now);
                }
            }
            Fact::Frozen(link) => {
                self.stopped.insert(*link);
                let is_open = |key: &Key| oracle.of(*key).is_open();
                let busy = self.out.get(link).is_some_and(|keys| keys.iter().any(is_open));
                let watched = self.bound[usize::from(link.upstream.0)].is_some();
                if watched && !busy && self.known.contains(link) {
                    self.frozen.insert(*link, now);
                }
            }
            Fact::Continued(link) | Fact::Died(link) | Fact::Requested(EngineOutput::CloseStdin(link)) => {
                self.frozen.remove(link);
                self.stopped.remove(link);
                self.overdue.remove(link);
            }
            Fact::Isolated(upstream) => {
                self.taken_out.insert(*upstream);
            }
            Fact::ManualAction(upstream) if self.taken_out.remove(upstream) => {
                let theirs = self.frozen.iter_mut().filter(|(link, _)| usize::from(link.upstream.0) == *upstream);
                theirs.for_each(|(_, since)| *since = now);
                self.overdue.retain(|link, _| usize::from(link.upstream.0) != *upstream);
            }
            Fact::Stopped | Fact::Closing | Fact::ClientLeft(_) => {
                self.frozen.clear();
                self.stopped.clear();
                self.overdue.clear();
            }
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
                let is_late = |(link, since): &(&LinkId, &Moment)| {
                    let upstream = usize::from(link.upstream.0);
                    let is_late = self.two_pings[upstream].is_some_and(|bound| now - **since > bound);
                    is_late && !self.taken_out.contains(&upstream)
                };
                if let Some((link, since)) = self.overdue.iter().find(is_late) {
                    let time = now - *since;
                    return Err(format!(
                        "a call of {} timed out {time:?} ago, but it is not replaced",
                        Via::Child(*link)
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
