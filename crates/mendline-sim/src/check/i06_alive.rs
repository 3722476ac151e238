//! I6: every link recovers.
//!
//! While a link waits, is parked or is draining, a wake-up must be scheduled. After the last fault, every client that
//! still calls is served again within its bound; the world reports `StillDown` when that time has passed.
//!
//! After a suspend or a network change, every waiting link is dialed at once. A link that was dialed often in the last
//! minute keeps its pace, and one whose server asked for a pause keeps the pause.

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
    /// The links that must be dialed, and until when.
    due_by: BTreeMap<usize, Moment>,
    /// The ends of the pauses that servers asked for.
    paused_until: BTreeMap<usize, Moment>,
}

impl Alive {
    pub(super) fn new(upstreams: usize) -> Alive {
        Alive {
            links: vec!["Idle"; upstreams],
            dials: vec![VecDeque::new(); upstreams],
            due_by: BTreeMap::new(),
            paused_until: BTreeMap::new(),
        }
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
                    // One more than the burst may already be on its way.
                    let paced = recent.back().filter(|_| recent.len() + 1 >= defaults::DIAL_BURST);
                    let soon =
                        paced.map_or(now, |last| now.max(*last + defaults::DIAL_PACE + defaults::DIAL_PACE_SPREAD));
                    let soon = self.paused_until.get(&upstream).map_or(soon, |until| soon.max(*until));
                    if recent.len() + 1 < defaults::DIALS_PER_MINUTE {
                        self.due_by.entry(upstream).or_insert(soon + STAGGER);
                    }
                }
                Ok(())
            }
            Fact::RetryAfter { upstream, wait } => {
                self.paused_until.insert(*upstream, now + *wait);
                Ok(())
            }
            Fact::Stopped | Fact::Closing => {
                self.due_by.clear();
                Ok(())
            }
            Fact::Settled { .. } if self.due_by.values().any(|due| now > *due) => {
                Err("the network changed, but a waiting link was not dialed".into())
            }
            Fact::Emitted(event) => {
                if let (Some(upstream), EventKind::Moved(_, to)) = (event.upstream, &event.kind) {
                    self.links[upstream] = to;
                    // The change from parked to waiting is only the first step.
                    if *to != "Waiting" {
                        self.due_by.remove(&upstream);
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
