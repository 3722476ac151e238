//! I6: never dead for good.
//!
//! While a link waits, is parked or is being ended, a wake-up must be scheduled, or nothing would ever happen to it again.
//! And when the last fault has healed, every client that still calls is served again within its bound; the world says
//! `StillDown` when that time has passed.

use mendline_core::Moment;

use super::Check;
use crate::fact::Fact;
use crate::machine::What;
use crate::oracle::Oracle;

/// Remembers where each link stands.
pub(super) struct Alive {
    links: Vec<&'static str>,
}

impl Alive {
    pub(super) fn new(upstreams: usize) -> Alive {
        Alive { links: vec!["Idle"; upstreams] }
    }
}

impl Check for Alive {
    fn name(&self) -> &'static str {
        "I6 alive"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Happened(heard) => {
                if let (Some(upstream), What::Moved(_, to)) = (heard.upstream, &heard.what) {
                    self.links[upstream] = to;
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
