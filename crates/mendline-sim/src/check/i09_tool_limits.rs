//! I9 for tools with limits of their own: calls in flight, waiting calls, and calls per time.
//!
//! A call is in flight from the event that reports it as sent until the one that reports its end or its return. That
//! is a lower bound of the count of the engine, which also counts calls in its queue. Retries are paced, too; a child
//! that does not read receives its requests later, so the rate is checked over HTTP only.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mendline_core::config::{RateLimit, ToolPolicy, Transport};
use mendline_core::{Config, Moment};

use super::Check;
use crate::fact::Fact;
use crate::machine::EventKind;
use crate::oracle::Oracle;

/// The time that a call with a slot may wait in the queue, e.g. for a handshake.
const QUEUED: Duration = Duration::from_millis(100);

/// Number of sent calls that are kept for comparison.
const MEMORY: usize = 100;

#[derive(Default)]
struct Upstream {
    tools: BTreeMap<String, ToolPolicy>,
    over_http: bool,
    /// The tools of open calls, and whether they are in flight.
    calls: BTreeMap<u64, (String, bool)>,
    sent: BTreeMap<String, VecDeque<Moment>>,
}

/// The open calls of tools with limits.
pub(super) struct ToolLimits {
    upstreams: Vec<Upstream>,
}

impl ToolLimits {
    pub(super) fn new(config: &Config) -> ToolLimits {
        let upstream = |it: &mendline_core::UpstreamConfig| Upstream {
            tools: it.tools.clone().into_iter().collect(),
            over_http: it.transport != Transport::Child,
            ..Upstream::default()
        };
        ToolLimits { upstreams: config.upstreams.iter().map(upstream).collect() }
    }
}

impl Upstream {
    fn observe(&mut self, kind: &EventKind, now: Moment) -> Result<(), String> {
        match kind {
            EventKind::Accepted(call, Some(tool)) if self.tools.contains_key(tool) => {
                self.calls.insert(*call, (tool.clone(), false));
            }
            EventKind::Sent(call) => return self.send(*call, now),
            EventKind::Retried(call, _) | EventKind::Held(call) => {
                if let Some((_, is_out)) = self.calls.get_mut(call) {
                    *is_out = false;
                }
            }
            EventKind::Answered(call) | EventKind::AnsweredWithError(call) | EventKind::Ended(call) => {
                self.calls.remove(call);
            }
            _ => {}
        }
        Ok(())
    }

    fn send(&mut self, call: u64, now: Moment) -> Result<(), String> {
        let Some((tool, is_out)) = self.calls.get_mut(&call) else { return Ok(()) };
        *is_out = true;
        let tool = tool.clone();
        let out = self.calls.values().filter(|(other, is_out)| *other == tool && *is_out).count();
        let policy = self.tools[&tool];
        if policy.in_flight.is_some_and(|limit| out > limit) {
            return Err(format!("{out} calls of {tool} are in flight, the limit is {:?}", policy.in_flight));
        }
        let Some(RateLimit { burst, per_second }) = policy.rate_limit.filter(|_| self.over_http) else { return Ok(()) };
        let sent = self.sent.entry(tool.clone()).or_default();
        sent.push_back(now);
        while sent.len() > MEMORY {
            sent.pop_front();
        }
        for (index, from) in sent.iter().enumerate() {
            let (count, time) = (sent.len() - index, now - *from + QUEUED);
            if count as f64 > f64::from(burst) + per_second * time.as_secs_f64() + 1e-3 {
                return Err(format!("{count} calls of {tool} within {time:?}; a burst of {burst} is allowed"));
            }
        }
        Ok(())
    }

    fn check_waiting(&self) -> Result<(), String> {
        for (tool, policy) in &self.tools {
            let is_waiting = |(other, is_out): &&(String, bool)| other == tool && !is_out;
            // Calls that were sent and wait for another attempt count, too, and keep their place.
            let (Some(in_flight), Some(limit)) = (policy.in_flight, policy.waiting) else { continue };
            let waiting = self.calls.values().filter(is_waiting).count();
            if waiting > limit + in_flight {
                return Err(format!("{waiting} calls of {tool} wait, the limits are {limit} and {in_flight}"));
            }
        }
        Ok(())
    }
}

impl Check for ToolLimits {
    fn name(&self) -> &'static str {
        "I9 bounded"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, _: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Emitted(event) => match event.upstream {
                Some(upstream) => self.upstreams[upstream].observe(&event.kind, now),
                None => Ok(()),
            },
            // The clock of the engine advances by this.
            Fact::ConnectivityChanged(_) => {
                self.upstreams.iter_mut().for_each(|it| it.sent.clear());
                Ok(())
            }
            Fact::Settled { .. } => self.upstreams.iter().try_for_each(Upstream::check_waiting),
            _ => Ok(()),
        }
    }
}
