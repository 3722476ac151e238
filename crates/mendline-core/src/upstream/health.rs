//! The health of tools, judged from calls.
//!
//! A call to a server that is available is a sign of the health of its tool: it was answered, its answer is a failure, or
//! no answer came. An outage is the business of [`super::availability`], overload that of the pause, and errors of the
//! client do not count. Calls are counted, not attempts. Every transition of a breaker is emitted here, and calls that it
//! blocks are failed at once.

use super::Upstream;
use super::call::{Call, Owner, State};
use super::gate::bypasses_breakers;
use crate::cx::Cx;
use crate::event::Event;
use crate::evidence::{Evidence, Outcome, Reply};
use crate::moment::Moment;
use crate::policy::breaker::{Admission, Sign, Transition};
use crate::request::ClientRequest;
use crate::slab::Key;

/// The health of the called tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Unhealthy,
}

/// A call that failed without an answer.
#[derive(Debug)]
pub struct FailedCall {
    request: ClientRequest,
    name: u64,
    sign: Sign,
    /// It was the trial of the tool's breaker.
    was_trial: bool,
}

impl Upstream {
    /// Makes an accepted call the trial of a breaker that needs one.
    pub(super) fn begin_trials(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key) else { return };
        if bypasses_breakers(&call.request) {
            return;
        }
        let (request, name) = (call.request.clone(), call.name);
        if let Some(transition) = self.gate.begin_trial(name, cx.now) {
            self.emit_transition(None, Some(transition), cx);
        }
        if self.gate.tool_breakers().of(&request).is_some_and(|tool| tool.admits(cx.now) == Admission::Trial)
            && let Some((tool, transition)) = self.gate.tool_breakers_mut().begin_trial(&request, name)
        {
            self.emit_transition(Some(tool), Some(transition), cx);
        }
    }

    /// Records a call that failed for its tool's sake: an available server did not answer it. A connection that broke
    /// under several calls counts once.
    pub(super) fn note_failed_call(&mut self, failed: &FailedCall, cx: &mut Cx<'_>) {
        let FailedCall { request, name, sign, was_trial } = failed;
        let tools = self.gate.tool_breakers_mut();
        let noted = match was_trial {
            true => tools.note_trial(request, *sign, cx.now, cx.rng),
            false => tools.note(request, *name, *sign, cx.now, cx.rng),
        };
        if let Some((tool, transition)) = noted {
            self.emit_transition(Some(tool), Some(transition), cx);
        }
    }

    /// The failure of a client's call with this evidence, for the breaker of its tool.
    pub(super) fn failed_call(&self, key: Key, evidence: Evidence, now: Moment) -> Option<FailedCall> {
        let call = self.calls.get(key).filter(|call| is_counted(call))?;
        let sign = match (evidence.outcome(), evidence.reply) {
            (Outcome::Unknown, Reply::None) => Sign::Broke(call.attempt_started, now),
            (Outcome::Unknown, _) => Sign::Failed(call.attempt_started, now),
            _ => return None,
        };
        let was_trial =
            self.gate.tool_breakers().of(&call.request).is_some_and(|breaker| breaker.is_tried_by(call.name));
        Some(FailedCall { request: call.request.clone(), name: call.name, sign, was_trial })
    }

    /// Records an answered call: the answer decides about its tool.
    pub(super) fn note_health(&mut self, key: Key, tool: Option<Health>, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key).filter(|call| counts(call)) else { return };
        let attempt_started = call.attempt_started;
        match tool {
            Some(Health::Healthy) if self.gate.tool_breakers().is_empty() => {}
            Some(Health::Healthy) => self.note_tool(key, Sign::Healthy, cx),
            Some(Health::Unhealthy) => self.note_tool(key, Sign::Failed(attempt_started, cx.now), cx),
            None => {}
        }
    }

    /// Records a call without an answer in time.
    pub(super) fn note_silence(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Some(call) = self.calls.get(key).filter(|call| counts(call)) {
            self.note_tool(key, Sign::Failed(call.attempt_started, cx.now), cx);
        }
    }

    fn note_tool(&mut self, key: Key, sign: Sign, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key) else { return };
        if let Some((tool, transition)) =
            self.gate.tool_breakers_mut().note(&call.request, call.name, sign, cx.now, cx.rng)
        {
            self.emit_transition(Some(tool), Some(transition), cx);
        }
    }

    fn emit_transition(&mut self, tool: Option<String>, transition: Option<Transition>, cx: &mut Cx<'_>) {
        let upstream = self.id;
        match transition {
            Some(Transition::Opened(open_for)) => {
                let breaker = tool.as_deref().and_then(|tool| self.gate.tool_breakers().named(tool));
                let why = breaker.unwrap_or(self.gate.breaker()).reason(false);
                cx.emit(Event::BreakerOpened { upstream, tool, open_for, why });
                self.fail_blocked(cx);
            }
            Some(Transition::HalfOpened) => cx.emit(Event::BreakerHalfOpened { upstream, tool }),
            Some(Transition::Closed) => cx.emit(Event::BreakerClosed { upstream, tool }),
            None => {}
        }
    }
}

/// Returns whether the result of a call is a sign of the server's health.
fn is_counted(call: &Call) -> bool {
    matches!(call.owner, Owner::Client { .. }) && !bypasses_breakers(&call.request)
}

fn counts(call: &Call) -> bool {
    is_counted(call) && matches!(call.state, State::Sent(_))
}
