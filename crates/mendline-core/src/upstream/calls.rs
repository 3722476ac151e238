//! The life of a call: queueing, sending, retries and failures.
//!
//! Two functions are central:
//! - [`Upstream::settle`] turns the evidence of a lost attempt into a retry or a failure. Calls are sent again nowhere
//!   else.
//! - [`Upstream::take`] is the only way to remove a call; its caller answers the call, or knows that no answer is
//!   needed.

use mendline_wire::Spliced;

use super::call::{AwaitedHints, Call, Owner, SentOver, State};
use super::outbox::Out;
use super::retry_budget::Incident;
use super::{Phase, Upstream};
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::ClientEvent;
use crate::event::{Event, LinkState};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::moment::Moment;
use crate::policy::retry::{self, Loss, RetryDecision};
use crate::policy::rule::{FailureFacts, Rule};
use crate::port::LinkId;
use crate::reason::{LossReason, Reason, RefusalReason};
use crate::slab::Key;
use crate::words::{Cause, Failure};

impl Upstream {
    /// Returns whether calls may be sent.
    pub(super) fn is_open(&self) -> bool {
        self.link.is_up() && self.session.is_open() && !self.awaits_credential()
    }

    /// Returns whether it is a client's call, not an internal request.
    pub(super) fn is_clients(&self, key: Key) -> bool {
        self.calls.get(key).is_some_and(|call| matches!(call.owner, Owner::Client { .. }))
    }

    /// Returns whether a slot for one more call is free on a link that is up.
    pub(super) fn has_slot(&self) -> bool {
        self.is_open() && self.calls.in_flight() < self.config.limits.in_flight
    }

    /// Sends waiting calls while slots are free.
    pub(super) fn promote(&mut self, cx: &mut Cx<'_>) {
        // Nothing waits on the usual path.
        if !self.calls.any_waits() {
            return;
        }
        if self.clients.are_several() && self.calls.waiting_count() > 1 && self.has_slot() {
            self.order_by_client();
        }
        // While few calls are admitted, a call without time for its answer gives its place to one that has it.
        // Otherwise each call would be sent at the end of its time, and none would be answered.
        if self.gate.is_gradual() {
            self.promote_with_time(Some(cx.now + defaults::TIME_FOR_ANSWER), cx);
        }
        self.promote_with_time(None, cx);
    }

    /// Sends waiting calls while slots are free, if their deadline is not before `least`.
    fn promote_with_time(&mut self, least: Option<Moment>, cx: &mut Cx<'_>) {
        let mut index = 0;
        let mut counts = self.counts_by_tool();
        while let Some(key) = self.calls.waiting_at(index) {
            let has_slot = self.has_slot();
            if !has_slot && (self.calls.subscriptions() == 0 || !self.is_open()) {
                return;
            }
            if !self.gate.is_open(cx.now) {
                return self.watch_gate(cx);
            }
            let call = self.calls.get(key);
            let is_time = match call.map(|call| (call.state, call.is_undecided())) {
                Some((_, true)) => false,
                Some((State::Waiting { not_before, .. }, _)) => not_before <= cx.now,
                _ => true,
            };
            let may_go = has_slot || call.is_some_and(Call::is_subscription);
            let is_held = call.is_some_and(|call| {
                self.waits_for_another(call.client(), &call.request) || self.is_held_for_credential(call)
            });
            // A tool at its limit does not hold back the calls of others.
            let is_admitted = call.is_none_or(|call| self.is_admitted_by_tool(call, &counts, cx.now));
            let has_time = call.is_none_or(|call| call.has_time(least, &self.config));
            if is_time && may_go && !is_held && is_admitted && has_time {
                if let Some(tool) = call.and_then(|call| call.limited_tool.clone()) {
                    *counts.entry(tool).or_default() += 1;
                }
                self.start_call(key, cx);
            } else {
                index += 1;
            }
        }
        if let Some(at) = self.next_slot_of_tools(cx.now) {
            self.watch_gate_at(at, cx);
        }
    }

    /// Starts a waiting call: takes its slot of the rate limit and queues it.
    pub(super) fn start_call(&mut self, key: Key, cx: &mut Cx<'_>) {
        let call = self.calls.get(key);
        self.gate.take_slots(call.and_then(|call| call.limited_tool.as_ref()), cx.now);
        self.gate.note_started(call.and_then(Call::client), cx.now);
        self.enqueue(key);
    }

    pub(super) fn enqueue(&mut self, key: Key) {
        if self.calls.queue(key) {
            self.outbox.push_call(key);
        }
    }

    /// Hands the next message for this link to the shell.
    pub fn pull(&mut self, link: LinkId, cx: &mut Cx<'_>) -> Option<Spliced> {
        if self.link.current() != Some(link) {
            return None;
        }
        if !self.link.is_up() {
            return self.pull_while_draining(cx);
        }
        loop {
            match self.outbox.pop(cx.ledger)? {
                Out::Text(text, _) => {
                    self.outbox.hand_over(text.len());
                    return Some(text);
                }
                Out::Call(key) => {
                    let Some(call) = self.calls.get_mut(key) else { continue };
                    let text = call.spliced(key);
                    call.state = State::Sent(SentOver::Stdio(self.outbox.hand_over(text.len())));
                    call.attempts += 1;
                    call.attempt_started = cx.now;
                    call.is_given_up = false;
                    call.silence_limit = self.silence.limit(call.tool.as_ref());
                    call.is_silent = false;
                    call.is_out = true;
                    self.gate.note_sent(call.name, cx.now);
                    cx.emit(call.sent(self.id, key));
                    if call.attempt_deadline(&self.config).is_some() || call.is_sent_late(cx.now) {
                        self.arm(key, cx);
                    }
                    return Some(text);
                }
            }
        }
    }

    /// Returns the next message for a child that is being ended: notifications that were queued before, such as
    /// cancellations. Calls are not sent any more. Its stdin is closed when the outbox is empty; the shutdown sequence
    /// bounds the time.
    fn pull_while_draining(&mut self, cx: &mut Cx<'_>) -> Option<Spliced> {
        if self.link.state() != LinkState::Draining {
            return None;
        }
        let text = self.outbox.pop_text(cx.ledger)?;
        self.outbox.hand_over(text.len());
        Some(text)
    }

    /// Decides about a call whose attempt is lost. Calls are sent again nowhere else.
    pub(super) fn settle(&mut self, key: Key, evidence: Evidence, not_before: Moment, cx: &mut Cx<'_>) {
        let why = self.link_reason(evidence.reply);
        self.settle_for(key, evidence, not_before, why, cx);
    }

    /// Settles a call whose link is lost: all its calls are one incident.
    pub(super) fn settle_with_link(&mut self, key: Key, evidence: Evidence, cx: &mut Cx<'_>) {
        let why = self.link_reason(evidence.reply);
        if !self.is_clients(key) {
            return self.internal_lost(key, why, cx);
        }
        self.end_attempt(key, evidence, &why, cx);
        let is_first_handshake = self.calls.get(key).is_some_and(|call| call.grace.is_some());
        let incident = if is_first_handshake { Incident::Free } else { self.retries.last_link_lost() };
        if let Some(call) = self.calls.get_mut(key).filter(|_| is_first_handshake) {
            call.uncounted = call.attempts;
        }
        // An outage is not the failure of a tool.
        self.resend(key, evidence, cx.now, why, incident, cx);
    }

    /// Sends a call again, or counts it as a failed call of its tool.
    pub(super) fn resend_or_count(
        &mut self,
        key: Key,
        evidence: Evidence,
        not_before: Moment,
        why: Reason,
        incident: Incident,
        cx: &mut Cx<'_>,
    ) {
        let failed = self.failed_call(key, evidence, cx.now);
        let goes_on = self.resend(key, evidence, not_before, why, incident, cx);
        if let Some(failed) = failed.filter(|_| !goes_on) {
            self.note_failed_call(&failed, cx);
        }
    }

    /// Settles a call as [`Upstream::settle`] does, for this reason.
    pub(super) fn settle_for(
        &mut self,
        key: Key,
        evidence: Evidence,
        not_before: Moment,
        why: Reason,
        cx: &mut Cx<'_>,
    ) {
        if !self.is_clients(key) {
            return self.internal_lost(key, why, cx);
        }
        self.end_attempt(key, evidence, &why, cx);
        let lost_in = self.calls.get_mut(key).and_then(|call| call.lost_in.take());
        let incident = lost_in.map_or(Incident::Own, Incident::Session);
        self.resend_or_count(key, evidence, not_before, why, incident, cx);
    }

    /// Records the end of an attempt without an answer.
    pub(super) fn end_attempt(&mut self, key: Key, evidence: Evidence, why: &Reason, cx: &mut Cx<'_>) {
        self.cancel_first_attempt(key, cx);
        let Some(call) = self.calls.get_mut(key) else { return };
        let outcome = evidence.outcome();
        call.worst_outcome = call.worst_outcome.max(outcome);
        if call.is_out {
            let (name, tool, attempt, why) = (call.name, call.tool.clone(), call.attempts, why.clone());
            cx.emit(Event::AttemptEnded { upstream: self.id, call: name, tool, attempt, outcome, evidence, why });
        }
        if outcome == Outcome::NotSent {
            // It cannot have run, so it is no attempt.
            call.attempts = call.attempts.saturating_sub(1);
            call.unsent += 1;
        }
    }

    /// Sends a call again after a lost attempt, or fails it: by its outcome, its effect, its attempts and the budget.
    /// Returns whether the call goes on.
    pub(super) fn resend(
        &mut self,
        key: Key,
        evidence: Evidence,
        not_before: Moment,
        why: Reason,
        incident: Incident,
        cx: &mut Cx<'_>,
    ) -> bool {
        let outcome = evidence.outcome();
        if self.waits_for_hints(key, outcome) {
            self.hold_for_hints(key, AwaitedHints { evidence, not_before, why, incident }, cx);
            return true;
        }
        let Some(call) = self.calls.get_mut(key) else { return false };
        let policy = &call.policy(&self.config).retry;
        let decision = retry::decide(Loss::Unanswered(outcome), call.effect, policy);
        if decision == RetryDecision::Never || (decision == RetryDecision::Charged && call.counted() >= policy.attempts)
        {
            self.fail(key, cause_of(evidence), outcome, why, cx);
            return false;
        }
        // Over HTTP each attempt of a call may have to connect; all these waits count as one.
        let trying = call.waited_since.filter(|_| self.link.connects_for_calls() && outcome == Outcome::NotSent);
        let since = trying.unwrap_or_else(|| call.waiting_since(cx.now));
        call.state = State::Waiting { since, not_before };
        if let Some((cause, in_the_way)) = self.reason_not_to_wait(key, evidence, cx.now) {
            self.fail(key, cause, outcome, in_the_way.unwrap_or(why), cx);
            return false;
        }
        if decision != RetryDecision::Free && !self.retries.charge(incident, cx.now) {
            self.refuse_retry(key, evidence, why, cx);
            return false;
        }
        let Some(call) = self.calls.get_mut(key) else { return false };
        call.stream.restart();
        self.gate.note_waits(call.name);
        let policy = &call.policy(&self.config).retry;
        let (method, tool, most) = (call.method(), call.tool.clone(), policy.attempts + call.uncounted);
        let has_status_rule = policy.has_status_rule(&why);
        // The detection of the transport is no failure, and the next request no second attempt.
        let is_detection = why == Reason::Loss(LossReason::TryingSse);
        call.last_failure = Some(why.clone()).filter(|_| !is_detection);
        let (name, attempt) = (call.name, call.attempts + 1);
        if outcome == Outcome::NotSent || is_detection {
            call.emit_return(self.id, cx);
        } else {
            let was_out = std::mem::take(&mut call.is_out);
            let (upstream, rule) = (self.id, Rule::of_retry(evidence, has_status_rule));
            cx.emit(Event::CallRetried {
                upstream,
                call: name,
                method,
                tool,
                attempt,
                most,
                outcome,
                rule,
                why,
                was_out,
            });
        }
        // A new key, so that a late answer to the lost attempt is not taken for that of the next one.
        let Some(key) = self.calls.rename(key) else { return false };
        self.calls.wait(key, since, not_before);
        self.disarm(key, cx);
        self.arm(key, cx);
        true
    }

    /// Fails a call whose retry the budget does not allow.
    fn refuse_retry(&mut self, key: Key, evidence: Evidence, why: Reason, cx: &mut Cx<'_>) {
        if let Some(call) = self.calls.get(key) {
            cx.emit(Event::RetryRefused { upstream: self.id, call: call.name, tool: call.tool.clone() });
        }
        self.fail(key, cause_of(evidence), evidence.outcome(), Reason::NotRetried(Box::new(why)), cx);
    }

    pub(super) fn link_reason(&self, reply: Reply) -> Reason {
        match reply {
            Reply::Unreadable => Reason::Unreadable { body: None },
            _ => self.link.failure_reason(),
        }
    }

    /// Removes a call with its slot, its timer and its bytes. The caller answers it.
    pub(super) fn take(&mut self, key: Key, cx: &mut Cx<'_>) -> Option<Call> {
        self.disarm(key, cx);
        self.cancel_first_attempt(key, cx);
        let call = self.calls.remove(key)?;
        self.gate.note_ended(call.name);
        cx.ledger.release(call.request.message.text().len());
        if call.state == State::Queued {
            self.outbox.remove(key);
        }
        Some(call)
    }

    /// Answers a call with a failure.
    pub(super) fn fail(&mut self, key: Key, cause: Cause, outcome: Outcome, why: Reason, cx: &mut Cx<'_>) {
        let Some(call) = self.take(key, cx) else { return };
        let Owner::Client { client, request } = call.owner else { return };
        self.list_missed(&call);
        self.keep_choices_of_others(&call, cx);
        let outcome = outcome.max(call.worst_outcome);
        let needs_person = self.needs_person(cause);
        let may_repeat = match outcome {
            Outcome::NotSent | Outcome::Refused => true,
            Outcome::Unknown => call.effect.is_repeatable(),
            Outcome::Answered => false,
        };
        // A call that the server rejects, or whose reply cannot be passed on, would fail again.
        let is_final = needs_person || matches!(cause, Cause::Refused | Cause::CannotBridge);
        let retryable = may_repeat && !is_final;
        let retry_after = self.retry_hint(cause, &call.request, cx.now).filter(|_| !is_final);
        let policy = &call.policy(&self.config).retry;
        let rule = Rule::of_failure(FailureFacts {
            cause,
            outcome,
            effect: call.effect,
            why: &why,
            is_spent: call.counted() >= policy.attempts,
            has_status_rule: policy.has_status_rule(&why),
        });
        cx.emit(Event::CallFailed {
            upstream: self.id,
            call: call.name,
            method: call.method(),
            tool: call.tool.clone(),
            attempts: call.attempts,
            was_out: call.is_out,
            cause,
            outcome,
            rule,
            took: cx.now.since(call.arrived),
            why: why.clone(),
        });
        let failure = Failure {
            call: Some(call.name),
            cause,
            outcome,
            retryable,
            attempts: call.attempts,
            retry_after,
            upstream: self.config.name.clone(),
            what: call.what(),
            why,
            needs_person,
            credential: self.credential_kind(),
            modern: call.request.is_modern(),
            form: call.policy(&self.config).failures,
        };
        cx.send_to_client(client, ClientEvent::Fail { request, failure: Box::new(failure) });
    }

    /// Returns whether only a person can remove this cause.
    pub(super) fn needs_person(&self, cause: Cause) -> bool {
        match cause {
            Cause::NeedsLogin => true,
            Cause::Parked | Cause::Unavailable => !self.is_closing() && self.link.has_failed_permanently(),
            _ => false,
        }
    }

    pub(super) fn give_up_if_parked(&mut self, cx: &mut Cx<'_>) {
        let cause = if self.link.is_parked() {
            Cause::Parked
        } else if self.link.waits_for_request() {
            Cause::Unavailable
        } else {
            return;
        };
        for key in self.calls.take_waiting(|_| true) {
            self.fail(key, cause, Outcome::NotSent, self.link.failure_reason().to_owned(), cx);
        }
    }

    /// Closes the upstream: open calls are answered now, and the child is ended.
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Closing;
        for key in self.calls.keys_by_age() {
            self.revert_unreached(key);
            match self.calls.get(key).map(|call| (call.state, call.owner)) {
                Some((_, Owner::Us(_))) => drop(self.take(key, cx)),
                Some((State::Sent(_), _)) => {
                    self.fail(key, Cause::OutcomeUnknown, Outcome::Unknown, RefusalReason::Stopping.into(), cx);
                }
                Some(_) => self.fail(key, Cause::Unavailable, Outcome::NotSent, RefusalReason::Stopping.into(), cx),
                None => {}
            }
        }
        self.save_now(cx);
        self.link.stop(cx);
        self.close_http(cx);
    }

    /// Closes it, unless that has happened.
    pub fn close_once(&mut self, cx: &mut Cx<'_>) {
        if !self.is_stopped() {
            self.close(cx);
        }
    }

    /// Rejects new calls from now on.
    pub fn refuse_new_calls(&mut self) {
        self.phase = Phase::Closing;
    }
}

/// The cause of a failure whose attempt was lost like this.
pub(super) fn cause_of(evidence: Evidence) -> Cause {
    match (evidence.reply, evidence.outcome()) {
        (Reply::Status(429) | Reply::Unprocessed(429), _) => Cause::RateLimited,
        (Reply::Status(_) | Reply::HeadersRefused, Outcome::Refused) => Cause::Refused,
        (_, Outcome::Refused) => Cause::Unavailable,
        _ => Cause::OutcomeUnknown,
    }
}
