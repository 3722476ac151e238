//! The contract of `port.rs`, checked for the engine.
//!
//! Dials increase, and no output names a child that has ended. Violations that the shell detects itself (invalid
//! messages, endless wake-ups) are reported here too.

use std::collections::BTreeSet;

use mendline_core::{LinkId, Moment};

use super::Check;
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::Oracle;

/// The known and the ended links.
pub(super) struct PortContract {
    dials: Vec<u32>,
    over: BTreeSet<LinkId>,
}

impl PortContract {
    pub(super) fn new(upstreams: usize) -> PortContract {
        PortContract { dials: vec![0; upstreams], over: BTreeSet::new() }
    }

    fn alive(&self, link: LinkId, what: &str) -> Result<(), String> {
        let known =
            self.dials.get(usize::from(link.upstream.0)).is_some_and(|last| link.dial <= *last && link.dial > 0);
        if known && !self.over.contains(&link) {
            return Ok(());
        }
        Err(format!("{what} for child {}.{}, which has ended or never existed", link.upstream.0, link.dial))
    }
}

impl Check for PortContract {
    fn name(&self) -> &'static str {
        "port contract"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::Spawn(link)) => {
                let Some(last) = self.dials.get_mut(usize::from(link.upstream.0)) else {
                    return Err(format!("a dial of upstream {}, which is not configured", link.upstream.0));
                };
                if link.dial != *last + 1 {
                    return Err(format!("dial {} of upstream {} came after dial {last}", link.dial, link.upstream.0));
                }
                *last = link.dial;
                Ok(())
            }
            Fact::Requested(EngineOutput::CloseStdin(link)) => self.alive(*link, "a closed stdin"),
            Fact::Requested(EngineOutput::Signal(link, _)) => self.alive(*link, "a signal"),
            Fact::HandedOut { by: Via::Child(link), .. } => self.alive(*link, "a message"),
            Fact::NotStarted(link) | Fact::Exited(link) => {
                self.over.insert(*link);
                Ok(())
            }
            Fact::ContractBroken(text) => Err((*text).to_owned()),
            _ => Ok(()),
        }
    }
}
