//! I16: status is the fold of the events, and agrees with the machine and with the world.
//!
//! Three tellings of one story: what the engine says of itself, what its events add up to, and what processes there are.
//! A link that is said to be up has a living or dying child; one that is said to be idle, waiting or parked has none. Over
//! HTTP there is no process to compare with; there, a link that is said to be up must have been reached.

use std::collections::BTreeSet;

use mendline_core::config::Transport;
use mendline_core::{Config, LinkId, Moment};

use super::Check;
use crate::fact::{Fact, Report};
use crate::machine::EventKind;
use crate::oracle::Oracle;

/// Which children there are.
pub(super) struct OneTruth {
    children: Vec<BTreeSet<LinkId>>,
    links: Vec<&'static str>,
    is_child: Vec<bool>,
    /// Something came of an exchange since the link was last down.
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
                            "upstream {upstream} is said to leave {from} and was {}",
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
                if !self.is_child[*upstream] {
                    return match state.link {
                        "Up" if !self.reached[*upstream] => {
                            Err(format!("upstream {upstream} is Up and nothing has reached it"))
                        }
                        "Draining" => Err(format!("upstream {upstream} is Draining and has no child to end")),
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
