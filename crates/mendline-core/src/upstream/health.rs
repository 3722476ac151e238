//! The health of a server and its tools, judged from attempts.
//!
//! An attempt that reached a ready server is a sign of its health: it was answered, its answer is a failure, or the
//! connection broke under it. Unsent attempts are handled by the link, an overloaded server by the pause, and errors of
//! the client do not count. Every transition of a breaker is emitted here, and calls that it blocks are failed at once.

use super::Upstream;
use super::call::{Call, Owner, State};
use super::gate::bypasses_breakers;
use crate::cx::Cx;
use crate::event::Event;
use crate::evidence::{Evidence, Outcome, Reply};
use crate::policy::breaker::{Admission, Sign, Transition};
use crate::slab::Key;

/// The health of the called tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Unhealthy,
}

impl Upstream {
    /// Makes an accepted call the trial of a breaker that needs one.
    pub(super) fn begin_trials(&mut self, key: Key, cx: &mut Cx<'_>) {
        if self.gate.all_closed() {
            return;
        }
        let Some(call) = self.calls.get(key) else { return };
        if bypasses_breakers(&call.message) {
            return;
        }
        let (message, name) = (call.message.clone(), call.name);
        if self.gate.breaker.admits(cx.now) == Admission::Trial {
            let transition = self.gate.breaker.begin_trial(name);
            self.emit_transition(None, transition, cx);
        }
        if self.gate.tools.of(&message).is_some_and(|tool| tool.admits(cx.now) == Admission::Trial)
            && let Some((tool, transition)) = self.gate.tools.begin_trial(&message, name)
        {
            self.emit_transition(Some(tool), Some(transition), cx);
        }
    }

    /// Records a lost attempt. It counts if it reached a ready server that is not overloaded.
    pub(super) fn note_loss(&mut self, key: Key, evidence: Evidence, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key).filter(|call| counts(call)) else { return };
        let sign = match (evidence.outcome(), evidence.reply) {
            (Outcome::Unknown, Reply::None) => Sign::Broke(call.attempt_started),
            (Outcome::Unknown, _) => Sign::Failed(call.attempt_started),
            _ => return,
        };
        let transition = self.gate.breaker.note(call.name, sign, cx.now, cx.rng);
        self.emit_transition(None, transition, cx);
    }

    /// Records an answered attempt: the server is healthy. The answer decides about its tool.
    pub(super) fn note_health(&mut self, key: Key, tool: Option<Health>, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key).filter(|call| counts(call)) else { return };
        let (name, attempt_started) = (call.name, call.attempt_started);
        if let Some(transition) = self.gate.breaker.note(name, Sign::Healthy, cx.now, cx.rng) {
            self.emit_transition(None, Some(transition), cx);
        }
        match tool {
            Some(Health::Healthy) if self.gate.tools.is_empty() => {}
            Some(Health::Healthy) => self.note_tool(key, Sign::Healthy, cx),
            Some(Health::Unhealthy) => self.note_tool(key, Sign::Failed(attempt_started), cx),
            None => {}
        }
    }

    /// Records a call without an answer in time: a failure of its tool only.
    pub(super) fn note_silence(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Some(call) = self.calls.get(key).filter(|call| counts(call)) {
            self.note_tool(key, Sign::Failed(call.attempt_started), cx);
        }
    }

    fn note_tool(&mut self, key: Key, sign: Sign, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key) else { return };
        if let Some((tool, transition)) = self.gate.tools.note(&call.message, call.name, sign, cx.now, cx.rng) {
            self.emit_transition(Some(tool), Some(transition), cx);
        }
    }

    fn emit_transition(&mut self, tool: Option<String>, transition: Option<Transition>, cx: &mut Cx<'_>) {
        let upstream = self.id;
        match transition {
            Some(Transition::Opened(open_for)) => {
                let breaker = tool.as_deref().and_then(|tool| self.gate.tools.named(tool));
                let why = breaker.unwrap_or(&self.gate.breaker).reason(false);
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
fn counts(call: &Call) -> bool {
    matches!(call.owner, Owner::Client { .. })
        && matches!(call.state, State::Sent(_))
        && !bypasses_breakers(&call.message)
}
