//! I7: dials are limited.
//!
//! Each upstream has one dial at a time: no second child is spawned before the first has failed or ended. There are at
//! most 36 dials per minute. Each redial of an incident waits longer than the one before, until the link is proven
//! healthy; a started child alone proves nothing. The incident of this check is a lower bound of the incident of the
//! engine: a child that lived for ten seconds or answered a request ends it, and so does a manual reconnect or a change of connectivity. The
//! delays are those of the configuration.

use std::collections::VecDeque;
use std::time::Duration;

use mendline_core::config::Reconnect;
use mendline_core::{Config, LinkId, Moment, defaults};

use super::{Check, is_answer};
use crate::fact::Fact;
use crate::machine::EngineOutput;
use crate::oracle::Oracle;

const PER_MINUTE: usize = defaults::DIALS_PER_MINUTE;

#[derive(Default)]
struct Dials {
    recent: VecDeque<Moment>,
    open: Option<LinkId>,
    began: Moment,
    lost: Option<Moment>,
    /// Consecutive dials whose child ended early.
    short_lived: u32,
    /// The current child has answered a request of a client.
    served: bool,
    /// The current child is being replaced because of a new configuration.
    renewed: bool,
}

impl Dials {
    fn over(&mut self, now: Moment) {
        self.open = None;
        if std::mem::take(&mut self.renewed) {
            (self.lost, self.short_lived) = (None, 0);
            return;
        }
        self.lost = Some(now);
        let lived = now - self.began;
        let is_proven = std::mem::take(&mut self.served) || lived >= defaults::PROVEN;
        self.short_lived = if is_proven { 0 } else { self.short_lived + 1 };
    }
}

/// Returns the minimum delay of a redial after this many early ends: half of the backoff delay, without its jitter.
pub(super) fn least_wait(policy: &Reconnect, short_lived: u32) -> Duration {
    let steps = short_lived.checked_sub(if policy.first.is_some() { 2 } else { 1 });
    match steps {
        // Without automatic reconnects, a call dials at once.
        _ if !policy.is_by_itself() => Duration::ZERO,
        None => Duration::ZERO,
        Some(steps) => {
            let delay = policy.initial.as_secs_f64() * policy.multiplier.powi(steps.min(10) as i32);
            Duration::from_secs_f64(delay).min(policy.cap_called).min(policy.cap_idle) / 2
        }
    }
}

/// The last dials of each upstream.
pub(super) struct DialRate {
    upstreams: Vec<Dials>,
    policies: Vec<Reconnect>,
    /// Total suspended time.
    slept: Duration,
}

impl DialRate {
    pub(super) fn new(config: &Config) -> DialRate {
        let policies: Vec<Reconnect> = config.upstreams.iter().map(|upstream| upstream.reconnect.clone()).collect();
        let upstreams = std::iter::repeat_with(Dials::default).take(policies.len()).collect();
        DialRate { upstreams, policies, slept: Duration::ZERO }
    }
}

impl Check for DialRate {
    fn name(&self) -> &'static str {
        "I7 dial rate"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Requested(EngineOutput::Spawn(link)) => {
                let Some(dials) = self.upstreams.get_mut(usize::from(link.upstream.0)) else { return Ok(()) };
                if let Some(open) = dials.open {
                    return Err(format!("dial {} began before dial {} ended", link.dial, open.dial));
                }
                let least = least_wait(&self.policies[usize::from(link.upstream.0)], dials.short_lived);
                let waited = dials.lost.map(|lost| now - lost);
                // A call may dial a parked link ten seconds after its last dial.
                let may_wake = now - dials.began >= defaults::PARKED_COOL_DOWN;
                if waited.is_some_and(|waited| waited < least) && !may_wake {
                    return Err(format!(
                        "dial {} came {waited:?} after {} early ends; the minimum is {least:?}",
                        link.dial, dials.short_lived
                    ));
                }
                (dials.open, dials.began) = (Some(*link), now);
                let later = now + self.slept;
                dials.recent.push_back(later);
                while dials.recent.front().is_some_and(|first| later - *first >= Duration::from_secs(60)) {
                    dials.recent.pop_front();
                }
                if dials.recent.len() > PER_MINUTE {
                    return Err(format!("{} dials within a minute", dials.recent.len()));
                }
            }
            Fact::Emitted(event) if is_answer(event) => {
                if let Some(dials) = event.upstream.and_then(|upstream| self.upstreams.get_mut(upstream)) {
                    dials.served = true;
                }
            }
            Fact::ManualAction(upstream) => {
                if let Some(dials) = self.upstreams.get_mut(*upstream) {
                    (dials.lost, dials.short_lived) = (None, 0);
                }
            }
            Fact::Requested(EngineOutput::Renew(upstream)) => {
                if let Some(dials) = self.upstreams.get_mut(*upstream) {
                    (dials.lost, dials.short_lived, dials.renewed) = (None, 0, dials.open.is_some());
                }
            }
            Fact::ConnectivityChanged(later) => {
                // A network change alone has no suspended time.
                self.slept += *later;
                for dials in &mut self.upstreams {
                    (dials.lost, dials.short_lived) = (None, 0);
                }
            }
            Fact::NotStarted(link) | Fact::Exited(link) => {
                if let Some(dials) = self.upstreams.get_mut(usize::from(link.upstream.0)) {
                    dials.over(now);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
