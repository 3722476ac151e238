//! I20: a breaker rejects exactly the calls that it must.
//!
//! While the breaker of a tool is open, no call of it is sent. While it is half open, one call is sent at a time, until
//! it ends or takes longer than the breaker was open; after enough answers the breaker closes. It opens only after the
//! configured number of failures, and an overloaded server is not a failure. A call is rejected only by the breaker of
//! its tool or by the operator. An isolated upstream receives no call and is not dialed. (I6 checks that breakers close
//! again.)
//!
//! A failure of this check is any request without an answer and any answer that can be a failure, so that its count is
//! an upper bound of that of the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::config::Breaker;
use mendline_core::port::ExchangeId;
use mendline_core::{Config, Moment};
use mendline_wire::Kind;

use super::Check;
use crate::fact::{Fact, Report, Via};
use crate::machine::EventKind;
use crate::oracle::{Oracle, Verdict};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open,
    HalfOpen,
}

/// A call that is written later than it was decided began, for the engine, at the time of the input before.
const TOLERANCE: Duration = Duration::from_millis(100);

/// The breaker of one tool.
#[derive(Default)]
struct Tool {
    state: State,
    open_for: Duration,
    /// The failures of the upstream when it was last closed.
    failures_before: u32,
    /// Answered trials.
    answered: u32,
    /// Calls that were sent while it was half open, with their start.
    trials: BTreeMap<u64, Moment>,
    was_open: bool,
}

struct Upstream {
    policy: Option<Breaker>,
    /// The policies of tools that have their own.
    tool_policies: BTreeMap<String, Option<Breaker>>,
    /// Results can be failures.
    counts_results: bool,
    failures: u32,
    tools: BTreeMap<String, Tool>,
    /// The tools of open calls.
    calls: BTreeMap<u64, String>,
    is_isolated: bool,
    was_isolated: bool,
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
            policy: it.breaker,
            tool_policies: it.tools.iter().filter_map(|(tool, it)| Some((tool.clone(), it.breaker?))).collect(),
            counts_results: {
                let own = it.tools.values().filter_map(|tool| tool.breaker.flatten());
                own.chain(it.breaker).any(|policy| policy.count_tool_errors)
            },
            failures: 0,
            tools: BTreeMap::new(),
            calls: BTreeMap::new(),
            is_isolated: false,
            was_isolated: false,
        };
        BreakerRules { upstreams: config.upstreams.iter().map(upstream).collect(), asked: BTreeMap::new() }
    }
}

/// Minimum number of failures before a breaker may open.
fn least(policy: Option<Breaker>) -> u32 {
    policy.map_or(u32::MAX, |policy| {
        let share = f64::from(policy.window_calls) * (1.0 - policy.success_rate);
        policy.failures.min(share.ceil() as u32)
    })
}

impl Upstream {
    fn policy(&self, tool: &str) -> Option<Breaker> {
        self.tool_policies.get(tool).copied().unwrap_or(self.policy)
    }

    fn observe(&mut self, what: &EventKind, now: Moment) -> Result<(), String> {
        match what {
            EventKind::Accepted(call, Some(tool)) => {
                self.calls.insert(*call, tool.clone());
            }
            EventKind::Answered(call) => {
                self.failures += u32::from(self.counts_results);
                if let Some(tool) = self.tool_of(*call) {
                    // A trial that takes longer is replaced, perhaps by a call that is not sent yet.
                    let in_time = tool.trials.get(call).is_some_and(|began| now - *began < tool.open_for);
                    tool.answered += u32::from(tool.trials.len() == 1 && in_time);
                }
                self.end(*call);
            }
            EventKind::Ended(call) | EventKind::AnsweredWithError(call) => {
                self.failures += 1;
                self.end(*call);
            }
            EventKind::Sent(call) => return self.send(*call, now),
            EventKind::Opened(Some(tool), open_for) => {
                let (failures, least) = (self.failures, least(self.policy(tool)));
                let it = self.tools.entry(tool.clone()).or_default();
                // The call that opens it ends right after.
                let failures = failures - it.failures_before + 1;
                if it.state == State::Closed && failures < least {
                    return Err(format!("the breaker of {tool} opened after {failures} failures of at least {least}"));
                }
                (it.state, it.open_for, it.was_open) = (State::Open, *open_for, true);
                it.trials.clear();
            }
            EventKind::HalfOpened(Some(tool)) => {
                let it = self.tools.entry(tool.clone()).or_default();
                (it.state, it.answered) = (State::HalfOpen, 0);
            }
            EventKind::Closed(Some(tool)) => {
                let failures = self.failures;
                let it = self.tools.entry(tool.clone()).or_default();
                (it.state, it.failures_before) = (State::Closed, failures);
            }
            EventKind::Opened(None, _) => return Err("the breaker of the whole server opened by itself".into()),
            EventKind::Resumed => self.is_isolated = false,
            EventKind::Isolated => (self.is_isolated, self.was_isolated) = (true, true),
            EventKind::Moved(from, "Dialing") if self.is_isolated && *from != "Up" => {
                return Err("it is isolated, but was dialed".into());
            }
            _ => {}
        }
        Ok(())
    }

    fn tool_of(&mut self, call: u64) -> Option<&mut Tool> {
        self.tools.get_mut(self.calls.get(&call)?)
    }

    fn end(&mut self, call: u64) {
        if let Some(tool) = self.tool_of(call) {
            tool.trials.remove(&call);
        }
        self.calls.remove(&call);
    }

    fn send(&mut self, call: u64, now: Moment) -> Result<(), String> {
        let is_isolated = self.is_isolated;
        // The number of answered calls that close it.
        let policy = self.calls.get(&call).and_then(|tool| self.policy(tool));
        let enough = policy.map_or(1, |policy| policy.successes);
        if is_isolated && self.calls.contains_key(&call) {
            return Err(format!("call {call} was sent to an isolated upstream"));
        }
        let Some(tool) = self.tool_of(call) else { return Ok(()) };
        match tool.state {
            State::Open => Err(format!("call {call} was sent while the breaker of its tool is open")),
            State::HalfOpen if tool.answered >= enough => {
                Err(format!("{} calls were answered, but the breaker is still half open", tool.answered))
            }
            State::HalfOpen => {
                let open_for = tool.open_for;
                let is_running = |began: Moment| now - began + TOLERANCE < open_for;
                let other = tool.trials.iter().find(|(other, began)| **other != call && is_running(**began));
                if let Some((other, _)) = other {
                    return Err(format!("call {call} was sent while call {other} is the trial of a half-open breaker"));
                }
                tool.trials.insert(call, now);
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
                let was_open = it.tools.get(record.what).is_some_and(|tool| tool.was_open);
                if !record.twin && !it.was_isolated && !was_open {
                    return Err(format!("{} ({}) was rejected, but not by its own breaker", record.id, record.what));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
