//! How things stand, folded from what happened.
//!
//! Nothing in here is asked of a machine: `status` is the fold of the events and of nothing else, so what a person is shown
//! and what was logged cannot disagree. The simulation checks that the fold agrees with the machines.

use std::collections::BTreeMap;

use crate::event::{Event, LinkState};
use crate::evidence::Outcome;
use crate::policy::breaker::Standing;
use crate::port::UpstreamId;

/// How all upstreams stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Each upstream that anything happened to.
    pub upstreams: BTreeMap<UpstreamId, UpstreamStatus>,
}

/// How one upstream stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// Its link.
    pub link: LinkState,
    /// Its breaker.
    pub breaker: Standing,
    /// The tools whose breakers are not closed.
    pub tools: BTreeMap<String, Standing>,
    /// It asked to be left alone, and still is.
    pub paused: bool,
    /// Why it is not up, or why it last was not.
    pub last_trouble: Option<String>,
    /// Calls accepted and neither answered nor cancelled.
    pub open: u64,
    /// Calls that the upstream answered.
    pub answered: u64,
    /// Requests that were answered before the server was there.
    pub early: u64,
    /// Calls that we answered with a failure.
    pub failed: u64,
    /// Of those, how many have an unknown outcome.
    pub unknown: u64,
    /// Attempts beyond the first.
    pub retried: u64,
    /// Calls that the client took back, or left behind.
    pub cancelled: u64,
    /// Calls turned away without being accepted.
    pub turned_away: u64,
    /// Calls that waited because of the rate limit.
    pub slowed: u64,
    /// Messages dropped.
    pub dropped: u64,
}

impl Default for UpstreamStatus {
    fn default() -> Self {
        UpstreamStatus {
            link: LinkState::Idle,
            breaker: Standing::Closed,
            tools: BTreeMap::new(),
            paused: false,
            last_trouble: None,
            open: 0,
            answered: 0,
            early: 0,
            failed: 0,
            unknown: 0,
            retried: 0,
            cancelled: 0,
            turned_away: 0,
            slowed: 0,
            dropped: 0,
        }
    }
}

impl UpstreamStatus {
    fn stand(&mut self, tool: &Option<String>, standing: Standing) {
        match tool {
            None => self.breaker = standing,
            Some(tool) if standing == Standing::Closed => drop(self.tools.remove(tool)),
            Some(tool) => drop(self.tools.insert(tool.clone(), standing)),
        }
    }
}

impl Status {
    /// Takes one event in.
    pub fn apply(&mut self, event: &Event) {
        let Some(upstream) = event.upstream() else { return };
        let it = self.upstreams.entry(upstream).or_default();
        match event {
            Event::LinkMoved { to, why, .. } => {
                it.link = *to;
                if matches!(to, LinkState::Waiting | LinkState::Parked) {
                    it.last_trouble = Some(why.clone());
                }
            }
            Event::CallAccepted { .. } => it.open += 1,
            Event::CallAnswered { .. } => {
                it.open -= 1;
                it.answered += 1;
            }
            Event::AnsweredFromCatalogue { .. } => it.early += 1,
            Event::CallAnsweredEarly { .. } => {
                it.open -= 1;
                it.early += 1;
            }
            Event::CallFailed { outcome, .. } => {
                it.open -= 1;
                it.failed += 1;
                it.unknown += u64::from(*outcome == Outcome::Unknown);
            }
            Event::CallCancelled { .. } | Event::CallAbandoned { .. } => {
                it.open -= 1;
                it.cancelled += 1;
            }
            Event::CallRetried { .. } => it.retried += 1,
            Event::CallTurnedAway { .. } => it.turned_away += 1,
            Event::MessageDropped { .. } => it.dropped += 1,
            Event::BreakerOpened { tool, .. } => it.stand(tool, Standing::Open),
            Event::BreakerHalfOpened { tool, .. } => it.stand(tool, Standing::HalfOpen),
            Event::BreakerClosed { tool, .. } => it.stand(tool, Standing::Closed),
            Event::Isolated { .. } => it.breaker = Standing::Isolated,
            Event::Resumed { .. } => it.breaker = Standing::Closed,
            Event::Paused { .. } => it.paused = true,
            Event::PauseEnded { .. } => it.paused = false,
            Event::RateLimited { .. } => it.slowed += 1,
            _ => {}
        }
    }
}
