//! I20: a breaker holds back what it must, and nothing else.
//!
//! While it is open nothing goes out; while it is half open one call does, until it is over or has taken longer than the
//! breaker stayed open, and when enough of them were answered it closes. It opens only after as many failures as were chosen, which being busy is not; and a call is held back
//! only by the breaker of its own server or of its own tool. While an upstream is taken out by hand nothing goes there at
//! all, and nobody dials it. (That breakers close again is I6: after the healing everybody is served.)
//!
//! A failure here is less than what the engine takes for one: a request that got no answer, whatever became of it.

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
    /// At least so many failures before it may open.
    least: u32,
    state: State,
    failures: u32,
    open_for: Duration,
    /// So many answered calls close it, and so many were.
    enough: u32,
    answered: u32,
    /// The calls that were sent while it was half open and are not over, and when.
    trials: BTreeMap<u64, Moment>,
    passing: BTreeSet<u64>,
    was_open: bool,
    tools_open: BTreeSet<String>,
}

/// What breakers have said of themselves, and what they were told.
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
            EventKind::Ended(call) => self.end(*call),
            EventKind::Sent(call) => return self.send(*call, now),
            EventKind::Opened(None, open_for) => {
                if self.state == State::Closed && self.failures < self.least {
                    return Err(format!(
                        "the breaker opened after {} failures, {} are chosen",
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
                return Err("it was taken out by hand, and it is dialed".into());
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
            State::Isolated => Err(format!("call {call} was sent to an upstream that was taken out by hand")),
            _ if self.passing.contains(&call) => Ok(()),
            State::Open => Err(format!("call {call} was sent although the breaker is open")),
            State::HalfOpen if self.answered >= self.enough => {
                Err(format!("{} calls were answered, and the breaker is still half open", self.answered))
            }
            State::HalfOpen => {
                let open_for = self.open_for;
                let other = self.trials.iter().find(|(other, began)| **other != call && now - **began < open_for);
                if let Some((other, _)) = other {
                    return Err(format!("call {call} was sent while call {other} tries whether the server is well"));
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
                if !it.was_open && !it.tools_open.contains(record.what) {
                    return Err(format!("{} ({}) was held back, and not by its own breaker", record.id, record.what));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
