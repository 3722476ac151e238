//! The circuit breaker of a server or a tool.
//!
//! The link knows whether an upstream is *down*. The breaker knows whether one that is up is *unhealthy*: it counts
//! only attempts that reached the server. An overloaded server (429) is handled by the pause; errors of the client do
//! not count.
//!
//! # Opening
//!
//! Several failures in a row open it, which is quick at MCP's low rates. So does a window with a low success rate,
//! which detects a server that fails every other call.
//!
//! Calls that are in flight together fail together: a server that is killed during eight calls has failed once. So a
//! failure extends the row only if its attempt started after the last failure was seen. In the window an answer that is
//! a failure always counts; a connection that broke under many calls counts once.
//!
//! # Recovery
//!
//! After the open time, the next call is a *trial*: one call is admitted, the others are still rejected. They do not
//! wait for the trial, because its duration is unknown. A failed trial opens the breaker again for twice the time; a
//! few answered trials in a row close it. A trial without a result about the server (cancelled, or never sent) is
//! dropped, and one that takes longer than the open time no longer blocks the next.
//!
//! An operator can isolate an upstream; it stays *isolated* until an operator resumes it.

use std::time::Duration;

use super::window::Window;
use crate::config::{self, OpenFor};
use crate::defaults;
use crate::moment::Moment;
use crate::reason::RefusalReason;
use crate::rng::SeededRng;

/// The state of a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// Calls are admitted.
    #[default]
    Closed,
    /// Calls are rejected.
    Open,
    /// One trial call is admitted.
    HalfOpen,
    /// Calls are rejected by the operator.
    Isolated,
}

impl BreakerState {
    /// Returns the stable name for metrics.
    pub fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
            BreakerState::Isolated => "isolated",
        }
    }
}

/// The result of an attempt that reached the server, as a sign of its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It was answered.
    Healthy,
    /// It failed; the attempt started and ended at these times.
    Failed(Moment, Moment),
    /// The connection broke under this and all other attempts in flight; this one started and ended at these times.
    Broke(Moment, Moment),
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may be sent.
    Allowed,
    /// It may be sent as the trial.
    Trial,
    /// It is rejected; a retry makes sense after this time.
    Blocked(Option<Duration>),
}

/// The cause that opened a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenedBy {
    /// This many failures in a row.
    Row(u32),
    /// The failure rate in the window.
    Rate { failed: u32, calls: u32 },
    /// A failed trial.
    Trial,
}

/// A transition between states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Calls are rejected for this time.
    Opened(Duration),
    /// One trial call is admitted.
    HalfOpened,
    /// Calls are admitted again.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Moment },
    HalfOpen { trial: Option<Trial>, answered: u32 },
    Isolated,
}

/// The trial call, and the time after which another may follow; `None` while it waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    call: u64,
    patience: Option<Moment>,
}

impl Trial {
    fn holds_others_back(&self, now: Moment) -> bool {
        self.patience.is_none_or(|patience| patience > now)
    }
}

/// One breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    /// None: nothing is counted; it can still be isolated.
    policy: Option<config::Breaker>,
    state: State,
    /// Failures in a row, and when the last of them was seen.
    row: u32,
    failed: Option<Moment>,
    window: Window,
    /// The number of openings since it was last closed, and the last open time.
    times: u32,
    open_for: Duration,
    /// The cause that opened it.
    why: OpenedBy,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(policy: Option<config::Breaker>) -> Breaker {
        Breaker {
            policy,
            state: State::Closed,
            row: 0,
            failed: None,
            window: Window::new(policy.map_or(defaults::BREAKER_WINDOW, |policy| policy.window)),
            times: 0,
            open_for: Duration::ZERO,
            why: OpenedBy::Row(0),
        }
    }

    /// Applies a new policy. Counts are kept; without a policy the breaker closes, unless it is isolated.
    pub fn reconfigure(&mut self, policy: Option<config::Breaker>) {
        if policy.is_none() && self.state != State::Isolated {
            *self = Breaker::new(None);
        }
        self.policy = policy;
    }

    /// The state.
    pub fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
            State::Isolated => BreakerState::Isolated,
        }
    }

    /// Returns whether calls are admitted.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns whether it is closed and has counted no failure.
    pub fn is_healthy(&self, now: Moment) -> bool {
        self.is_closed() && self.row == 0 && self.window.counts(now).failures == 0
    }

    /// Returns the cause that opened it.
    pub fn reason(&self, of_tool: bool) -> RefusalReason {
        match (self.state, self.why) {
            (State::Isolated, _) => RefusalReason::Isolated,
            (_, OpenedBy::Row(calls)) => RefusalReason::BreakerFailures { calls, of_tool },
            (_, OpenedBy::Trial) => RefusalReason::BreakerTrial { of_tool },
            (_, OpenedBy::Rate { failed, calls }) => RefusalReason::BreakerRate { failed, calls, of_tool },
        }
    }

    /// Decides whether a call may be sent now.
    pub fn admits(&self, now: Moment) -> Admission {
        match self.state {
            State::Closed => Admission::Allowed,
            State::Open { until } if until <= now => Admission::Trial,
            State::Open { until } => Admission::Blocked(Some(until.since(now))),
            // The end of the trial is not known.
            State::HalfOpen { trial: Some(trial), .. } if trial.holds_others_back(now) => {
                Admission::Blocked(Some(defaults::BREAKER_TRIAL_HINT))
            }
            State::HalfOpen { .. } => Admission::Trial,
            State::Isolated => Admission::Blocked(None),
        }
    }

    /// Returns whether this call is the trial.
    pub fn is_tried_by(&self, call: u64) -> bool {
        matches!(self.state, State::HalfOpen { trial: Some(trial), .. } if trial.call == call)
    }

    /// Makes this call the trial.
    pub fn begin_trial(&mut self, call: u64) -> Option<Transition> {
        let trial = Some(Trial { call, patience: None });
        match &mut self.state {
            State::HalfOpen { trial: last, .. } => {
                *last = trial;
                None
            }
            State::Open { .. } => {
                self.state = State::HalfOpen { trial, answered: 0 };
                Some(Transition::HalfOpened)
            }
            State::Closed | State::Isolated => None,
        }
    }

    /// Records that this call is sent. If it is the trial, its time starts now.
    pub fn note_sent(&mut self, call: u64, now: Moment) {
        let patience = Some(now + self.open_for);
        self.set_patience(call, patience);
    }

    /// Records that this call waits to be sent again. If it is the trial, no other call becomes the trial meanwhile.
    pub fn note_waits(&mut self, call: u64) {
        self.set_patience(call, None);
    }

    fn set_patience(&mut self, call: u64, patience: Option<Moment>) {
        if let State::HalfOpen { trial: Some(trial), .. } = &mut self.state
            && trial.call == call
        {
            trial.patience = patience;
        }
    }

    /// Records the end of this call. If it was the trial, another may follow.
    pub fn note_ended(&mut self, call: u64) {
        if let State::HalfOpen { trial, .. } = &mut self.state
            && trial.is_some_and(|trial| trial.call == call)
        {
            *trial = None;
        }
    }

    /// Records the result of an attempt of this call.
    pub fn note(&mut self, call: u64, sign: Sign, now: Moment, rng: &mut SeededRng) -> Option<Transition> {
        let policy = self.policy?;
        match self.state {
            State::Closed => self.count(&policy, sign, now, rng),
            State::HalfOpen { .. } if self.is_tried_by(call) => self.judge_trial(&policy, sign, now, rng),
            // An attempt from before the opening proves nothing new.
            State::Open { .. } | State::HalfOpen { .. } | State::Isolated => None,
        }
    }

    /// Records the result of the trial, which has ended already.
    pub fn note_trial(&mut self, sign: Sign, now: Moment, rng: &mut SeededRng) -> Option<Transition> {
        let policy = self.policy?;
        self.judge_trial(&policy, sign, now, rng)
    }

    /// Isolates it. Returns whether the state changed.
    pub fn isolate(&mut self) -> bool {
        std::mem::replace(&mut self.state, State::Isolated) != State::Isolated
    }

    /// Resumes it with cleared counts. Returns whether the state changed.
    pub fn resume(&mut self) -> bool {
        let was_isolated = self.state == State::Isolated;
        if was_isolated {
            *self = Breaker::new(self.policy);
        }
        was_isolated
    }

    fn count(&mut self, policy: &config::Breaker, sign: Sign, now: Moment, rng: &mut SeededRng) -> Option<Transition> {
        let (began, ended, is_shared) = match sign {
            Sign::Healthy => {
                self.row = 0;
                self.window.note_success(now);
                return None;
            }
            Sign::Failed(began, ended) => (began, ended, false),
            Sign::Broke(began, ended) => (began, ended, true),
        };
        let is_new = self.failed.is_none_or(|failed| began >= failed);
        if is_new {
            self.row += 1;
            self.failed = Some(ended);
        } else if is_shared {
            return None;
        }
        self.window.note_failure(now);
        let counts = self.window.counts(now);
        if self.row >= policy.failures {
            Some(self.open(policy, OpenedBy::Row(self.row), now, rng))
        } else if counts.calls() >= policy.window_calls && counts.is_below(policy.success_rate) {
            let why = OpenedBy::Rate { failed: counts.failures, calls: counts.calls() };
            Some(self.open(policy, why, now, rng))
        } else {
            None
        }
    }

    fn judge_trial(
        &mut self,
        policy: &config::Breaker,
        sign: Sign,
        now: Moment,
        rng: &mut SeededRng,
    ) -> Option<Transition> {
        let State::HalfOpen { trial, answered } = &mut self.state else { return None };
        if sign != Sign::Healthy {
            return Some(self.open(policy, OpenedBy::Trial, now, rng));
        }
        *trial = None;
        *answered += 1;
        if *answered < policy.successes {
            return None;
        }
        *self = Breaker::new(self.policy);
        Some(Transition::Closed)
    }

    fn open(&mut self, policy: &config::Breaker, why: OpenedBy, now: Moment, rng: &mut SeededRng) -> Transition {
        self.open_for = match policy.open_for {
            OpenFor::Exactly(time) => time,
            OpenFor::Growing { first, cap } => {
                let time = first.saturating_mul(1 << self.times.min(16)).min(cap);
                rng.between(time.mul_f64(1.0 - defaults::BREAKER_JITTER), time.mul_f64(1.0 + defaults::BREAKER_JITTER))
            }
        };
        self.times += 1;
        self.state = State::Open { until: now + self.open_for };
        self.row = 0;
        self.window.clear();
        self.why = why;
        Transition::Opened(self.open_for)
    }
}

#[cfg(test)]
mod tests;
