//! I20: a breaker rejects exactly the calls that it must.
//!
//! While a breaker is open, no call is sent. While it is half open, one call is sent at a time, until it ends or takes
//! longer than the breaker was open; after enough answers the breaker closes. It opens only after the configured number
//! of failures, and an overloaded server is not a failure. A call is rejected only by the breaker of its server or of
//! its tool. An isolated upstream receives no call and is not dialed. (I6 checks that breakers close again.)
//!
//! A failure of this check is any request without an answer, which includes every failure of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mendline_core::port::ExchangeId;
use mendline_core::{Config, Moment};
use mendline_wire::Kind;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EventKind;
use crate::oracle::{Oracle, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open,
    HalfOpen,
    Isolated,
}

struct Upstream {
    /// Minimum number of failures before it may open.
    least: u32,
    state: State,
    failures: u32,
    open_for: Duration,
    /// Number of answered calls that close it, and the current count.
    enough: u32,
    answered: u32,
    /// Calls that were sent while it was half open, with their start.
    trials: BTreeMap<u64, Moment>,
    passing: BTreeSet<u64>,
    was_open: bool,
    tools_open: BTreeSet<String>,
}

/// The state of the breakers.
pub(super) struct BreakerRules {
    upstreams: Vec<Upstream>,
    /// Exchanges that carry a request: the status, and whether it was answered.
    asked: BTreeMap<ExchangeId, (Option<u16>, bool)>,
}

impl BreakerRules {
    pub(super) fn new(config: &Config) -> BreakerRules {
        let upstream = |it: &mendline_core::UpstreamConfig| Upstream {
            least: it.breaker.map_or(u32::MAX, |policy| {
                let share = f64::from(policy.window_calls) * (1.0 - policy.success_rate);
                policy.failures.min(share.ceil() as u32)
            }),
            state: State::Closed,
            failures: 0,
            open_for: Duration::ZERO,
            enough: it.breaker.map_or(1, |policy| policy.successes),
            answered: 0,
            trials: BTreeMap::new(),
            passing: BTreeSet::new(),
            was_open: false,
            tools_open: BTreeSet::new(),
        };
        BreakerRules { upstreams: config.upstreams.iter().map(upstream).collect(), asked: BTreeMap::new() }
    }
}

impl Upstream {
    fn observe(&mut self, what: &EventKind, now: Moment) -> Result<(), String> {
        match what {
            EventKind::Accepted(call, true) => {
                self.passing.insert(*call);
            }
            EventKind::Answered(call) => {
                self.answered += u32::from(self.trials.len() == 1 && self.trials.contains_key(call));
                self.end(*call);
            }
            EventKind::Ended(call) | EventKind::AnsweredWithError(call) => self.end(*call),
            EventKind::Sent(call) => return self.send(*call, now),
            EventKind::Opened(None, open_for) => {
                if self.state == State::Closed && self.failures < self.least {
                    return Err(format!(
                        "the breaker opened after {} failures; the minimum is {}",
                        self.failures, self.least
                    ));
                }
                (self.state, self.open_for, self.failures, self.was_open) = (State::Open, *open_for, 0, true);
                self.trials.clear();
            }
            EventKind::HalfOpened(None) => (self.state, self.answered) = (State::HalfOpen, 0),
            EventKind::Closed(None) | EventKind::Resumed => (self.state, self.failures) = (State::Closed, 0),
            EventKind::Isolated => (self.state, self.was_open) = (State::Isolated, true),
            EventKind::Opened(Some(tool), _) => {
                self.tools_open.insert(tool.clone());
            }
            EventKind::Moved(from, "Dialing") if self.state == State::Isolated && *from != "Up" => {
                return Err("it is isolated, but was dialed".into());
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, call: u64) {
        self.passing.remove(&call);
        self.trials.remove(&call);
    }

    fn send(&mut self, call: u64, now: Moment) -> Result<(), String> {
        match self.state {
            State::Isolated => Err(format!("call {call} was sent to an isolated upstream")),
            _ if self.passing.contains(&call) => Ok(()),
            State::Open => Err(format!("call {call} was sent while the breaker is open")),
            State::HalfOpen if self.answered >= self.enough => {
                Err(format!("{} calls were answered, but the breaker is still half open", self.answered))
            }
            State::HalfOpen => {
                let open_for = self.open_for;
                let other = self.trials.iter().find(|(other, began)| **other != call && now - **began < open_for);
                if let Some((other, _)) = other {
                    return Err(format!("call {call} was sent while call {other} is the trial of a half-open breaker"));
                }
                self.trials.insert(call, now);
                Ok(())
            }
            State::Closed => Ok(()),
        }
    }
}

impl Check for BreakerRules {
    fn name(&self) -> &'static str {
        "I20 breaker"
    }

    fn see(&mut self, fact: &Fact<'_>, now: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Emitted(event) => {
                if let Some(upstream) = event.upstream {
                    return self.upstreams[upstream].observe(&event.kind, now);
                }
            }
            Fact::HandedOut { by: Via::Exchange(_, exchange), key: Some(_), .. } => {
                self.asked.insert(*exchange, (None, false));
            }
            Fact::Received { by: Via::Exchange(upstream, exchange), message } => match message {
                Some(message) if matches!(message.kind(), Kind::Result | Kind::Error) => {
                    self.asked.entry(*exchange).and_modify(|(_, answered)| *answered = true);
                }
                Some(_) => {}
                None => self.upstreams[*upstream].failures += 1,
            },
            Fact::Received { by, message: None } => self.upstreams[by.upstream()].failures += 1,
            Fact::Reported { exchange, report: Report::Head(status), .. } => {
                self.asked.entry(*exchange).and_modify(|(seen, _)| *seen = Some(*status));
            }
            Fact::Reported { upstream, exchange, report: Report::End } => {
                if let Some((status, false)) = self.asked.remove(exchange)
                    && status != Some(429)
                {
                    self.upstreams[*upstream].failures += 1;
                }
            }
            Fact::Exited(link) => self.upstreams[usize::from(link.upstream.0)].failures += 1,
            Fact::Answered { key, verdict: Verdict::Failed(failure), .. } if failure.cause == "breaker_open" => {
                let record = oracle.of(*key);
                let it = &self.upstreams[record.upstream];
                if !record.twin && !it.was_open && !it.tools_open.contains(record.what) {
                    return Err(format!("{} ({}) was rejected, but not by its own breaker", record.id, record.what));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
