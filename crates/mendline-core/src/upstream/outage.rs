//! Outages and the calls that they hit: which of them wait for the verdict, and what becomes of them.
//!
//! [`super::availability`] has the condition of the server; this module applies its verdicts to calls, to the link and
//! to the gate.

use super::Upstream;
use super::availability::{Chance, Condition, LostCall, Sign};
use super::call::{PendingVerdict, State};
use super::calls::cause_of;
use super::retry_budget::Incident;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Event, LinkState};
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::backoff;
use crate::policy::retry::{self, Loss, RetryDecision};
use crate::reason::Reason;
use crate::slab::Key;
use crate::words::Cause;

impl Upstream {
    /// Handles a call of a client whose exchange ended without a response. It waits for the verdict, unless the verdict
    /// cannot change its answer.
    pub(super) fn call_failed(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let outcome = pending.evidence.outcome();
        let lacks_hints = self.waits_for_hints(key, outcome);
        let Some(lost) = self.lost_call(key, &pending, lacks_hints) else { return };
        let Some(call) = self.calls.get(key) else { return };
        let (is_first_handshake, request) = (call.grace.is_some(), call.request.clone());
        let is_dialing = self.link.state() == LinkState::Dialing;
        // A call of a client without a handshake is its own probe.
        let is_probe = self.availability.is_probe(lost.begun, is_dialing);
        let is_answered = self.availability.is_answered_now(&lost, is_dialing);
        // A refused call and the first handshake are counted off with the verdict.
        let is_counted_off = is_probe && !pending.is_refusal && !is_first_handshake && outcome != Outcome::NotSent;
        if let Some(call) = self.calls.get_mut(key).filter(|_| is_counted_off) {
            call.uncounted += 1;
        }
        self.end_attempt(key, pending.evidence, &pending.why, cx);
        self.availability.keep_probe_of(&request);
        let why = pending.why.clone();
        self.availability.note_failure(self.link.begun(), &why);
        if is_first_handshake {
            // The handshake is its own probe; it waits, and is answered provisionally at the end of its grace.
            self.hold_for_verdict(key, pending, cx);
            return self.away(why, cx);
        }
        if is_answered {
            self.availability.keep_failed(self.failed_call(key, pending.evidence, cx.now));
            self.fail(key, cause_of(pending.evidence), outcome, pending.why, cx);
        } else {
            self.hold_for_verdict(key, pending, cx);
        }
        if is_probe {
            self.away(why, cx);
        } else if self.is_probed_by_link() {
            self.resolve(Condition::Away, cx);
        } else {
            self.suspect(Sign::Failed, why, cx);
        }
    }

    /// The facts about a lost call that decide whether it waits for the verdict.
    fn lost_call(&self, key: Key, pending: &PendingVerdict, lacks_hints: bool) -> Option<LostCall> {
        let outcome = pending.evidence.outcome();
        let call = self.calls.get(key)?;
        let policy = &call.policy(&self.config).retry;
        let chance = match retry::decide(Loss::Unanswered(outcome), call.effect, policy) {
            RetryDecision::Never if !lacks_hints => Chance::None,
            RetryDecision::Charged if call.counted() >= policy.attempts => Chance::Spent,
            _ => Chance::Open,
        };
        Some(LostCall { begun: call.begun, chance, is_refusal: pending.is_refusal, is_final: pending.is_final })
    }

    /// Returns whether the link probes the server: it is away already.
    pub(super) fn is_probed_by_link(&self) -> bool {
        !self.link.is_up()
    }

    fn hold_for_verdict(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let since = call.waiting_since(cx.now);
        let (name, tool, why) = (call.name, call.tool.clone(), pending.why.clone());
        let was_out = std::mem::take(&mut call.is_out);
        cx.emit(Event::VerdictAwaited { upstream: self.id, call: name, tool, why, was_out });
        call.stream.restart();
        call.pending = Some(Box::new(pending));
        self.gate.note_waits(call.name);
        // A new key, so that a late answer to the lost attempt is not taken for that of the next one.
        let Some(key) = self.calls.rename(key) else { return };
        self.calls.wait(key, since, cx.now);
        self.disarm(key, cx);
        self.arm(key, cx);
    }

    /// Handles the failure of a call with this sign: a probe decides.
    pub(super) fn suspect(&mut self, sign: Sign, why: Reason, cx: &mut Cx<'_>) {
        self.availability.handle_failed_call(sign, why, cx);
        self.schedule_probe(cx);
    }

    /// Handles a JSON-RPC response over HTTP. It is the verdict if the request was sent after the last failure.
    pub(super) fn note_response(&mut self, call: Key, cx: &mut Cx<'_>) {
        if self.calls.get(call).is_some_and(|call| self.availability.is_decided_by(call.begun)) {
            self.came_back(cx);
        }
    }

    /// The server answers: releases all calls.
    pub(super) fn came_back(&mut self, cx: &mut Cx<'_>) {
        self.close_probed_session(cx);
        if self.availability.take_wanted_login() {
            self.note_credential_answered();
            cx.emit(Event::LoginAccepted { upstream: self.id });
        }
        let failed = self.availability.handle_answer(cx);
        self.gate.note_probe_answer();
        for failed in failed {
            self.note_failed_call(&failed, cx);
        }
        self.resolve(Condition::Available, cx);
        if !self.link.is_up() {
            self.handle_reachable(cx);
        }
    }

    /// The server is found to use another transport: the calls that wait for the verdict are sent over it.
    pub(super) fn resolved_by_sse(&mut self, cx: &mut Cx<'_>) {
        self.close_probed_session(cx);
        self.availability.handle_other_transport(cx);
        self.resolve(Condition::Away, cx);
    }

    /// The server is away: repeatable and unsent calls wait, and the link paces the probes.
    pub(super) fn away(&mut self, why: Reason, cx: &mut Cx<'_>) {
        self.availability.begin_probe();
        self.close_probed_session(cx);
        self.unreachable(why, false, cx);
    }

    /// Records that the server is away, for a reason that needs no probe.
    pub(super) fn note_away(&mut self, cx: &mut Cx<'_>) {
        if self.link.is_probed() {
            self.availability.handle_loss(self.link.begun(), cx);
        }
        // A probe opens the gate while the server is away.
        self.gate.restart_admission();
        // An outage is not the failure of a tool.
        self.availability.forget_failed();
        self.resolve(Condition::Away, cx);
        self.answer_waiting_lists(cx);
    }

    /// Decides about the calls that wait for the verdict.
    fn resolve(&mut self, verdict: Condition, cx: &mut Cx<'_>) {
        let pending = self.calls.take_waiting(|call| call.pending.is_some());
        if pending.is_empty() {
            return;
        }
        for key in pending {
            let Some(pending) = self.calls.get_mut(key).and_then(|call| call.pending.take()) else { continue };
            match verdict {
                Condition::Available => self.failed_while_available(key, *pending, cx),
                _ => self.failed_while_away(key, *pending, cx),
            }
        }
        self.fail_blocked(cx);
    }

    /// The server answers, so the failure belongs to the call.
    fn failed_while_available(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let PendingVerdict { evidence, why, is_refusal, .. } = pending;
        let Some(call) = self.calls.get(key) else { return };
        if is_refusal {
            return self.fail(key, Cause::Refused, Outcome::Refused, why, cx);
        }
        let policy = call.policy(&self.config);
        let pause = match evidence.outcome() {
            Outcome::NotSent => backoff::unsent(&policy.reconnect, call.unsent, cx.rng),
            _ => backoff::retry(&policy.retry, call.attempts + 1, cx.rng),
        };
        let not_before = self.gate.resumes_at(cx.now) + pause;
        // It has waited for the verdict since its failure.
        let ended = match call.state {
            State::Waiting { not_before, .. } => not_before,
            _ => cx.now,
        };
        let failed = self.failed_call(key, evidence, ended);
        let incident = self.availability.incident();
        let goes_on = self.resend(key, evidence, not_before, why, incident, cx);
        if let Some(failed) = failed.filter(|_| !goes_on) {
            self.note_failed_call(&failed, cx);
        }
    }

    /// The server is away: the call waits for it without another attempt.
    pub(super) fn failed_while_away(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let PendingVerdict { evidence, why, is_refusal, .. } = pending;
        let Some(call) = self.calls.get_mut(key) else { return };
        if evidence.outcome() != Outcome::NotSent && (is_refusal || call.grace.is_some()) {
            // It was not processed, or it is the handshake, which may be repeated.
            call.uncounted += 1;
        }
        if self.answer_pending_from_cache(key, cx) {
            return;
        }
        let is_free = is_refusal || self.has_grace(key);
        let incident = if is_free { Incident::Free } else { self.availability.incident() };
        self.resend(key, evidence, cx.now, why, incident, cx);
    }

    fn has_grace(&self, key: Key) -> bool {
        self.calls.get(key).is_some_and(|call| call.grace.is_some())
    }

    /// Shortens the grace of a waiting handshake after a failure.
    pub(super) fn shorten_grace(&mut self, cx: &mut Cx<'_>) {
        let soon = cx.now + defaults::GRACE_AFTER_FAILURE;
        for key in self.calls.keys_by_age() {
            if let Some(call) = self.calls.get_mut(key).filter(|call| call.grace.is_some_and(|grace| grace > soon)) {
                call.grace = Some(soon);
                self.arm(key, cx);
            }
        }
    }

    /// The reason why the server is not available, for a provisional answer.
    pub(super) fn problem(&self, now: Moment) -> Option<Reason> {
        match self.availability.condition() {
            _ if self.gate.is_paused(now) => Some(self.gate.reason(now).into()),
            _ if self.awaits_credential() => self.credential_wait(),
            Condition::Available | Condition::Suspect if !self.link.has_failed() => None,
            Condition::NeedsLogin => self.availability.why().cloned(),
            _ => Some(self.link.failure_reason()),
        }
    }
}
