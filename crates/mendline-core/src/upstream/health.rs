//! What attempts show about the health of a server and of its tools.
//!
//! An attempt that reached a ready server says something: it was answered, or what came back is a failure, or the line broke
//! under it. What never arrived is the link's business, that the server is busy is the pause's, and what a client did wrong
//! is the client's. Every step of a breaker is told here, and answers those at once whom it holds back from now on.

use super::Upstream;
use super::call::{Call, Owner, State};
use super::gate::passes;
use crate::cx::Cx;
use crate::event::Event;
use crate::evidence::{Evidence, Outcome, Reply};
use crate::policy::breaker::{Admission, Transition, Sign};
use crate::slab::Key;

/// How the tool is that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Unhealthy,
}

impl Upstream {
    /// A call has been taken on. If a breaker is to be tried, it is by this one.
    pub(super) fn begin_trials(&mut self, key: Key, cx: &mut Cx<'_>) {
        if self.gate.is_quiet() {
            return;
        }
        let Some(call) = self.calls.get(key) else { return };
        if passes(&call.message) {
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

    /// An attempt was lost. If it reached a ready server, that says something about its health; that the server is busy
    /// does not.
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

    /// An attempt was answered, which says that the server is well. How its tool is depends on the answer.
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

    /// No answer came in time: that is its tool's failure, and says nothing about the others.
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
                self.answer_held(cx);
            }
            Some(Transition::HalfOpened) => cx.emit(Event::BreakerHalfOpened { upstream, tool }),
            Some(Transition::Closed) => cx.emit(Event::BreakerClosed { upstream, tool }),
            None => {}
        }
    }
}

/// Is it a call whose fate says something about the server?
fn counts(call: &Call) -> bool {
    matches!(call.owner, Owner::Client { .. }) && matches!(call.state, State::Sent(_)) && !passes(&call.message)
}
