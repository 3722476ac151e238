//! I16: the status that the events yield agrees with the engine and with the world.
//!
//! Three sources are compared: the state that the engine reports, the state that its events yield, and the processes. A
//! link that is up or draining has a child; one that is idle, waiting or parked has none. Over HTTP there is no
//! process; there, a link that is up must have been reached.

use std::collections::BTreeSet;

use mendline_core::config::Transport;
use mendline_core::{Config, LinkId, Moment};

use super::Check;
use crate::fact::{Fact, Report};
use crate::machine::EventKind;
use crate::oracle::Oracle;

/// The children and link states.
pub(super) struct OneTruth {
    children: Vec<BTreeSet<LinkId>>,
    links: Vec<&'static str>,
    is_child: Vec<bool>,
    /// An exchange had a result since the link was last down.
    reached: Vec<bool>,
}

impl OneTruth {
    pub(super) fn new(config: &Config) -> OneTruth {
        let upstreams = config.upstreams.len();
        OneTruth {
            children: vec![BTreeSet::new(); upstreams],
            links: vec!["Idle"; upstreams],
            is_child: config.upstreams.iter().map(|upstream| upstream.transport == Transport::Child).collect(),
            reached: vec![false; upstreams],
        }
    }
}

impl Check for OneTruth {
    fn name(&self) -> &'static str {
        "I16 one truth"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Started(link) => {
                self.children[usize::from(link.upstream.0)].insert(*link);
            }
            Fact::Exited(link) => {
                self.children[usize::from(link.upstream.0)].remove(link);
            }
            Fact::Reported { upstream, report: Report::Reached | Report::Head(_) | Report::Event(_), .. } => {
                self.reached[*upstream] = true;
            }
            Fact::Emitted(event) => {
                if let (Some(upstream), EventKind::Moved(from, to)) = (event.upstream, &event.kind) {
                    if self.links[upstream] != *from {
                        return Err(format!(
                            "upstream {upstream} is reported to leave {from} but was {}",
                            self.links[upstream]
                        ));
                    }
                    self.links[upstream] = to;
                    if matches!(*to, "Waiting" | "Parked" | "Idle") {
                        self.reached[upstream] = false;
                    }
                }
            }
            Fact::UpstreamState { upstream, state } => {
                if state.link != state.own_link {
                    return Err(format!(
                        "upstream {upstream}: the events say {}, the engine {}",
                        state.link, state.own_link
                    ));
                }
                if state.breaker != state.own_breaker {
                    return Err(format!(
                        "upstream {upstream}: by the events the breaker is {}, by the engine {}",
                        state.breaker, state.own_breaker
                    ));
                }
                if state.credential != state.own_credential {
                    return Err(format!(
                        "upstream {upstream}: by the events the credential is {}, by the engine {}",
                        state.credential, state.own_credential
                    ));
                }
                if state.own_open != state.open {
                    return Err(format!(
                        "upstream {upstream}: by the events {} calls are open, by the engine {}",
                        state.open, state.own_open
                    ));
                }
                if state.own_out != state.out {
                    return Err(format!(
                        "upstream {upstream}: by the events {} calls are out, by the engine {}",
                        state.out, state.own_out
                    ));
                }
                if state.own_silent != state.silent {
                    return Err(format!(
                        "upstream {upstream}: by the events {} calls are silent, by the engine {}",
                        state.silent, state.own_silent
                    ));
                }
                if !self.is_child[*upstream] {
                    return match state.link {
                        "Up" if !self.reached[*upstream] => {
                            Err(format!("upstream {upstream} is Up but was never reached"))
                        }
                        "Draining" => Err(format!("upstream {upstream} is Draining but has no child")),
                        _ => Ok(()),
                    };
                }
                let running = !self.children[*upstream].is_empty();
                let is_running_by_events = matches!(state.link, "Up" | "Draining");
                if running != is_running_by_events {
                    return Err(format!(
                        "upstream {upstream} is {} and has {} child",
                        state.link,
                        if running { "a" } else { "no" }
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
