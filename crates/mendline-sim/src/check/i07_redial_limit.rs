//! I7 with a configured limit: the number of redials is exact, and zero means none.
//!
//! Without automatic reconnects, every dial has a reason: the first client, a call since the last loss, or the
//! operator. With a number, the link is parked once an incident has used it up and has lasted as long as the configured
//! delays. The incident of this check is a lower bound of the incident of the engine: a link that was up for ten seconds
//! ends it, and so do an answered call and a change of connectivity.

use std::time::Duration;

use mendline_core::{Config, Moment, defaults};
use mendline_wire::Method;

use super::{Check, is_answer};
use crate::fact::Fact;
use crate::machine::{EngineOutput, EventKind};
use crate::oracle::{Oracle, Record};

struct Choice {
    /// Maximum number of redials; `None` without a limit.
    most: Option<u32>,
    /// The shortest time of an incident before the link may be parked.
    patience: Duration,
    /// Start of the incident.
    began: Option<Moment>,
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

    fn end_incident(&mut self) {
        (self.redials, self.began) = (0, None);
    }

    fn lose(&mut self, to: &str, now: Moment) -> Result<(), String> {
        if std::mem::take(&mut self.renewed) {
            // A new configuration replaced the link; that is not a loss.
            self.up_since = None;
            return Ok(());
        }
        if self.up_since.take().is_some_and(|since| now - since >= defaults::PROVEN) {
            self.end_incident();
        }
        let began = *self.began.get_or_insert(now);
        (self.is_down, self.requested) = (true, false);
        match self.most {
            Some(most) if to == "Waiting" && self.redials >= most && now - began >= self.patience => {
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
            let most = (policy.attempts < u32::MAX).then_some(policy.attempts);
            let patience = policy.patience;
            Choice {
                most,
                patience,
                began: None,
                requested: true,
                is_down: false,
                redials: 0,
                up_since: None,
                renewed: false,
            }
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
                it.end_incident();
                (it.requested, it.is_down, it.renewed) = (true, false, it.up_since.is_some());
            }
            Fact::ConnectivityChanged(_) => self.upstreams.iter_mut().for_each(Choice::end_incident),
            Fact::Stopped | Fact::Closing => self.stopping = true,
            Fact::Emitted(event) => {
                let Some(upstream) = event.upstream else { return Ok(()) };
                let it = &mut self.upstreams[upstream];
                if is_answer(event) {
                    it.end_incident();
                }
                let EventKind::Moved(from, to) = &event.kind else { return Ok(()) };
                match (*from, *to) {
                    // The detection of the dialect is part of the same dial.
                    ("Up", "Dialing" | "Draining") => {}
                    (_, "Dialing") => {
                        // The handshake of a client may have waited for that of another one.
                        let is_waiting =
                            |record: &Record| record.upstream == upstream && record.method == Method::Initialize;
                        it.requested |= oracle.unanswered().any(|(_, record)| is_waiting(record) && record.whole == 0);
                        return it.dial();
                    }
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
