//! I7 by choice: a number of redials that somebody chose is meant exactly, and none at all means none.
//!
//! Where nothing is dialed by itself, every dial has a reason: the first client, a call since the last loss, or a person.
//! Where a number was chosen, an incident that has used it up is parked. What counts as an incident here is a lower bound of
//! what the engine does: a link that was up for ten seconds ends it, proven or not, and so does news of the network.

use mendline_core::{Config, Moment, defaults};

use super::Check;
use crate::fact::Fact;
use crate::machine::{EngineOutput, EventKind};
use crate::oracle::Oracle;

struct Choice {
    /// How many redials; none if nobody chose.
    most: Option<u32>,
    requested: bool,
    is_down: bool,
    redials: u32,
    up_since: Option<Moment>,
    renewed: bool,
}

impl Choice {
    fn dial(&mut self) -> Result<(), String> {
        self.redials += u32::from(self.is_down);
        if self.most == Some(0) && !self.requested {
            return Err("it was dialed although nobody asked for it".into());
        }
        Ok(())
    }

    fn lose(&mut self, to: &str, now: Moment) -> Result<(), String> {
        if std::mem::take(&mut self.renewed) {
            // Somebody wanted it to be reached another way: that is no loss.
            self.up_since = None;
            return Ok(());
        }
        if self.up_since.take().is_some_and(|since| now - since >= defaults::PROVEN) {
            self.redials = 0;
        }
        (self.is_down, self.requested) = (true, false);
        match self.most {
            Some(most) if to == "Waiting" && self.redials >= most => {
                Err(format!("it is to be dialed again after {} redials, and {most} were chosen", self.redials))
            }
            _ => Ok(()),
        }
    }
}

/// What was chosen for each upstream.
pub(super) struct RedialLimit {
    upstreams: Vec<Choice>,
    stopping: bool,
}

impl RedialLimit {
    pub(super) fn new(config: &Config) -> RedialLimit {
        let choice = |upstream: &mendline_core::UpstreamConfig| {
            let policy = &upstream.reconnect;
            let is_exact = policy.attempts == 0 || (policy.patience.is_zero() && policy.attempts < u32::MAX);
            let most = is_exact.then_some(policy.attempts);
            Choice { most, requested: true, is_down: false, redials: 0, up_since: None, renewed: false }
        };
        RedialLimit { upstreams: config.upstreams.iter().map(choice).collect(), stopping: false }
    }
}

impl Check for RedialLimit {
    fn name(&self) -> &'static str {
        "I7 dial rate"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Arrived(key) => self.upstreams[oracle.of(*key).upstream].requested = true,
            Fact::ManualAction(upstream) | Fact::ClientConnected(upstream) => self.upstreams[*upstream].requested = true,
            Fact::Requested(EngineOutput::Renew(upstream)) => {
                // What is dialed now is another server, of which nothing is known.
                let it = &mut self.upstreams[*upstream];
                (it.requested, it.redials, it.is_down, it.renewed) = (true, 0, false, it.up_since.is_some());
            }
            Fact::ConnectivityChanged(_) => self.upstreams.iter_mut().for_each(|it| it.redials = 0),
            Fact::Stopped | Fact::Closing => self.stopping = true,
            Fact::Emitted(event) => {
                let (Some(upstream), EventKind::Moved(from, to)) = (event.upstream, &event.kind) else { return Ok(()) };
                let it = &mut self.upstreams[upstream];
                match (*from, *to) {
                    // Finding out what a server speaks is part of the same dial.
                    ("Up", "Dialing" | "Draining") => {}
                    (_, "Dialing") => return it.dial(),
                    ("Dialing", "Up") => it.up_since = Some(now),
                    (_, "Up") => {
                        it.redials += u32::from(it.is_down);
                        it.up_since = Some(now);
                    }
                    // Over HTTP nobody may want anything any more; that is no loss.
                    ("Dialing", "Idle") if it.most != Some(0) => {}
                    ("Up" | "Dialing" | "Draining", "Waiting" | "Parked" | "Idle") if !self.stopping => {
                        return it.lose(to, now);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}
