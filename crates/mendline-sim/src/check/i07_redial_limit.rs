//! I7 with a configured limit: the number of redials is exact, and zero means none.
//!
//! Without automatic reconnects, every dial has a reason: the first client, a call since the last loss, or the
//! operator. With a configured number, the link is parked once an incident has used it up. The incident of this check
//! is a lower bound of the incident of the engine: a link that was up for ten seconds ends it, and so does a change of
//! connectivity.

use mendline_core::{Config, Moment, defaults};

use super::Check;
use crate::fact::Fact;
use crate::machine::{EngineOutput, EventKind};
use crate::oracle::Oracle;

struct Choice {
    /// Maximum number of redials; `None` if not configured.
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
            return Err("it was dialed without a request".into());
        }
        Ok(())
    }

    fn lose(&mut self, to: &str, now: Moment) -> Result<(), String> {
        if std::mem::take(&mut self.renewed) {
            // A new configuration replaced the link; that is not a loss.
            self.up_since = None;
            return Ok(());
        }
        if self.up_since.take().is_some_and(|since| now - since >= defaults::PROVEN) {
            self.redials = 0;
        }
        (self.is_down, self.requested) = (true, false);
        match self.most {
            Some(most) if to == "Waiting" && self.redials >= most => {
                Err(format!("it will be dialed again after {} redials, but the limit is {most}", self.redials))
            }
            _ => Ok(()),
        }
    }
}

/// The limits of each upstream.
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
            Fact::ManualAction(upstream) | Fact::ClientConnected(upstream) => {
                self.upstreams[*upstream].requested = true;
            }
            Fact::Requested(EngineOutput::Renew(upstream)) => {
                // The new configuration leads to another server.
                let it = &mut self.upstreams[*upstream];
                (it.requested, it.redials, it.is_down, it.renewed) = (true, 0, false, it.up_since.is_some());
            }
            Fact::ConnectivityChanged(_) => self.upstreams.iter_mut().for_each(|it| it.redials = 0),
            Fact::Stopped | Fact::Closing => self.stopping = true,
            Fact::Emitted(event) => {
                let (Some(upstream), EventKind::Moved(from, to)) = (event.upstream, &event.kind) else { return Ok(()) };
                let it = &mut self.upstreams[upstream];
                match (*from, *to) {
                    // The detection of the dialect is part of the same dial.
                    ("Up", "Dialing" | "Draining") => {}
                    (_, "Dialing") => return it.dial(),
                    ("Dialing", "Up") => it.up_since = Some(now),
                    (_, "Up") => {
                        it.redials += u32::from(it.is_down);
                        it.up_since = Some(now);
                    }
                    // Over HTTP the last call may have ended; that is not a loss.
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
