//! I6: every link recovers.
//!
//! While a link waits, is parked or is draining, a wake-up must be scheduled. After the last fault, every client that
//! still calls is served again within its bound; the world reports `StillDown` when that time has passed.
//!
//! After a suspend or a network change, every waiting link is dialed at once, unless it was dialed often in the last
//! minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mendline_core::{Moment, defaults};

use super::Check;
use crate::fact::Fact;
use crate::machine::EventKind;
use crate::oracle::Oracle;

/// All waiting links are dialed within this time.
const STAGGER: Duration = defaults::STAGGER;

/// The state of each link.
pub(super) struct Alive {
    links: Vec<&'static str>,
    dials: Vec<VecDeque<Moment>>,
    /// The links that must be dialed, and since when.
    due_since: BTreeMap<usize, Moment>,
}

/// Links with this many dials within a minute may wait.
const OFTEN: usize = 5;

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
                Err("the network changed, but a waiting link was not dialed".into())
            }
            Fact::Emitted(event) => {
                if let (Some(upstream), EventKind::Moved(_, to)) = (event.upstream, &event.kind) {
                    self.links[upstream] = to;
                    // The change from parked to waiting is only the first step.
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
                Err(format!("client {} is not served again although all faults are over", client.0))
            }
            _ => Ok(()),
        }
    }
}
