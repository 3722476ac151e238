//! I6: never dead for good.
//!
//! While a link waits, is parked or is being ended, a wake-up must be scheduled, or nothing would ever happen to it again.
//! And when the last fault has healed, every client that still calls is served again within its bound; the world says
//! `StillDown` when that time has passed.
//!
//! When the machine woke up or the network has changed, whatever waits is tried at once, unless it was tried often of late.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mendline_core::{Moment, defaults};

use super::Check;
use crate::fact::Fact;
use crate::machine::EventKind;
use crate::oracle::Oracle;

/// All are tried within this time.
const STAGGER: Duration = defaults::STAGGER;

/// Remembers where each link stands.
pub(super) struct Alive {
    links: Vec<&'static str>,
    dials: Vec<VecDeque<Moment>>,
    /// Since when which link has known that it is to be tried.
    due_since: BTreeMap<usize, Moment>,
}

/// Links that were dialed this often within a minute may take their time.
const OFTEN: usize = 8;

impl Alive {
    pub(super) fn new(upstreams: usize) -> Alive {
        Alive { links: vec!["Idle"; upstreams], dials: vec![VecDeque::new(); upstreams], due_since: BTreeMap::new() }
    }
}

impl Check for Alive {
    fn name(&self) -> &'static str {
        "I6 alive"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::ConnectivityChanged(_) => {
                let waits = |state: &&'static str| matches!(*state, "Waiting" | "Parked");
                for (upstream, _) in self.links.iter().enumerate().filter(|(_, state)| waits(state)) {
                    let recent = &mut self.dials[upstream];
                    recent.retain(|dial| now - *dial < Duration::from_secs(60));
                    if recent.len() < OFTEN {
                        self.due_since.entry(upstream).or_insert(now);
                    }
                }
                Ok(())
            }
            Fact::Stopped | Fact::Closing => {
                self.due_since.clear();
                Ok(())
            }
            Fact::Settled { .. } if self.due_since.values().any(|since| now - *since > STAGGER) => {
                Err("the network has changed, and a link that waits was not tried".into())
            }
            Fact::Emitted(event) => {
                if let (Some(upstream), EventKind::Moved(_, to)) = (event.upstream, &event.kind) {
                    self.links[upstream] = to;
                    // That it waits instead of being parked is only the first step.
                    if *to != "Waiting" {
                        self.due_since.remove(&upstream);
                    }
                    if *to == "Dialing" {
                        self.dials[upstream].push_back(now);
                    }
                }
                Ok(())
            }
            Fact::Settled { wake: None, .. } => {
                match self.links.iter().position(|state| matches!(*state, "Waiting" | "Parked" | "Draining")) {
                    Some(upstream) => {
                        Err(format!("upstream {upstream} is {} and no wake-up is scheduled", self.links[upstream]))
                    }
                    None => Ok(()),
                }
            }
            Fact::StillDown(client) => {
                Err(format!("client {} is not served again although everything has healed", client.0))
            }
            _ => Ok(()),
        }
    }
}
