//! The timers of calls: deadlines, attempts that take too long, and backoffs.

use super::Upstream;
use super::call::{Call, Owner, PendingVerdict, State};
use super::link::EndedBy;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::evidence::{Evidence, Outcome};
use crate::moment::Moment;
use crate::policy::backoff;
use crate::reason::{CredentialError, HandshakeError, Reason, RefusalReason};
use crate::request::Op;
use crate::slab::Key;
use crate::words::{self, Cause};
use mendline_wire::{Id, Method, Spliced};

impl Upstream {
    /// Handles the timer of a call.
    pub fn handle_time(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.timer = None;
        let is_over = |at: Option<Moment>| at.is_some_and(|at| cx.now >= at);
        if call.is_held_internal() && self.awaits_credential() {
            return self.restart_time(key, cx);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_late = is_over(call.deadline(&self.config)) || is_over(call.patience(&self.config));
        if is_late && call.grace.is_some() {
            self.answer_provisionally(key, cx);
        } else if is_over(call.deadline(&self.config)) {
            self.expire(key, cx);
        } else if is_over(call.patience(&self.config)) {
            let last_failure = call.last_failure.take();
            let (cause, why) = match (last_failure, self.credential_wait()) {
                (_, Some(why)) => (Cause::Unavailable, why),
                _ if self.is_login_pending() => (Cause::NeedsLogin, CredentialError::LoginPending.into()),
                _ if !self.link.is_up() || !self.session.is_open() => (Cause::Unavailable, self.link.failure_reason()),
                (Some(why), None) => (Cause::Unavailable, why),
                (None, None) if !self.gate.is_open(cx.now) => (Cause::RateLimited, self.gate.reason(cx.now).into()),
                (None, None) => match self.rate_of_tool(key, cx.now) {
                    Some(why) => (Cause::RateLimited, why.into()),
                    None => (Cause::Overloaded, RefusalReason::NoSlot.into()),
                },
            };
            self.fail(key, cause, Outcome::NotSent, why, cx);
        } else if is_over(call.grace) {
            self.answer_provisionally(key, cx);
        } else if is_over(call.attempt_deadline(&self.config)) {
            self.attempt_expired(key, cx);
        } else if is_over(call.silent_at()) {
            self.call_is_silent(key, cx);
        } else {
            let is_clients = matches!(call.owner, Owner::Client { .. }) && call.request.op != Op::Initialize;
            let is_held = self.link.http().is_some_and(|http| http.credential.is_awaited());
            if is_over(call.stream.resume_at) && (is_held || (is_clients && self.availability.is_away())) {
                // Nothing is resumed while the server is away or its credential is renewed.
                call.stream.resume_at = Some(cx.now + defaults::RESUME_WAIT);
            } else if is_over(call.stream.resume_at) {
                self.resume(key, cx);
            }
            self.arm(key, cx);
        }
    }

    /// The rate limit of its tool, if this call waits for that.
    fn rate_of_tool(&self, key: Key, now: Moment) -> Option<RefusalReason> {
        let tool = self.calls.get(key)?.limited_tool.as_ref()?;
        let limits = self.gate.tool_limits();
        limits.rate_reason(tool).filter(|_| limits.slot_after(tool, 0, now) > now)
    }

    pub(super) fn expire(&mut self, key: Key, cx: &mut Cx<'_>) {
        self.revert_unreached(key);
        let Some(call) = self.calls.get(key) else { return };
        if let Owner::Us(internal) = call.owner {
            return self.internal_expired(key, internal, cx);
        }
        if let Some(answer) = self.take_refused_answer(key) {
            return self.pass_on(answer, cx);
        }
        let Some(call) = self.calls.get(key) else { return };
        let after = cx.now.since(call.arrived);
        let (outcome, why) = match call.state {
            State::Sent(_) => (Evidence::SILENCE.outcome(), Reason::TimedOut { after: Some(after) }),
            State::Waiting { .. } | State::Queued => {
                let why = Box::new(self.why_unsent(call));
                (Evidence::UNSENT.outcome(), Reason::Unsent { after, why })
            }
        };
        let (was_sent, sent) = (matches!(call.state, State::Sent(_)), call.attempt_started);
        if was_sent && call.request.op != Op::Initialize {
            self.cancel_upstream(key, "deadline passed", cx);
        }
        if was_sent {
            self.keep_alive.note_deadline(sent);
            self.note_silence(key, cx);
        }
        self.drop_exchange(key, cx);
        self.fail(key, Cause::TimedOut, outcome, why, cx);
        if was_sent {
            // The server was silent for a whole call timeout: the connection is tested.
            self.probe(cx);
        }
    }

    /// Gives up the current attempt of a call: a handshake, or a call with a configured limit. Over HTTP a new connection
    /// follows, for a handshake with a child a new process.
    fn attempt_expired(&mut self, key: Key, cx: &mut Cx<'_>) {
        let is_unreached = self.is_unreached(key);
        let Some(call) = self.calls.get(key) else { return };
        let is_handshake = call.request.op == Op::Initialize;
        let after = cx.now.since(call.attempt_started);
        let why = if is_handshake { HandshakeError::TimedOut.into() } else { Reason::TimedOut { after: Some(after) } };
        if self.link.can_be_restarted() && is_handshake {
            self.session.lose();
            // The exit of the child settles the call; its deadline and its grace can come before.
            if let Some(call) = self.calls.get_mut(key) {
                call.is_given_up = true;
            }
            self.drain_link(why, EndedBy::Us, cx);
            self.shorten_grace(cx);
            return self.arm(key, cx);
        }
        if !is_handshake && !is_unreached {
            self.cancel_upstream(key, "the limit of an attempt passed", cx);
            self.note_silence(key, cx);
        }
        self.drop_exchange(key, cx);
        if is_handshake && self.calls.get(key).is_some_and(|call| call.grace.is_some()) {
            let evidence = if is_unreached { Evidence::UNSENT } else { Evidence::SILENCE };
            let pending = PendingVerdict { evidence, why, is_refusal: false, is_final: false };
            return self.call_failed(key, pending, cx);
        }
        let Some(call) = self.calls.get(key) else { return };
        let pause = backoff::retry(&call.policy(&self.config).retry, call.attempts + 1, cx.rng);
        let evidence = if is_unreached { Evidence::UNSENT } else { Evidence::SILENCE };
        self.settle_for(key, evidence, cx.now + pause, why.clone(), cx);
        if is_handshake {
            self.drain_link(why, EndedBy::Us, cx);
        }
    }

    /// Returns why a call has not been sent yet.
    fn why_unsent(&self, call: &Call) -> Reason {
        let is_open = self.is_open();
        match &call.last_failure {
            _ if self.awaits_credential() => self.credential_wait().unwrap_or(RefusalReason::CredentialRenewal.into()),
            last_failure => match (self.link.closed_reason().filter(|_| !is_open), last_failure) {
                (Some(why), _) => why,
                (None, Some(why)) => why.clone(),
                (None, None) if !is_open || call.state == State::Queued => self.link.queued_reason(),
                (None, None) => RefusalReason::NoSlot.into(),
            },
        }
    }

    /// Cancels a call on the server, by the rules of its era: over HTTP a modern call is cancelled by aborting its
    /// exchange.
    pub(super) fn cancel_upstream(&mut self, key: Key, reason: &str, cx: &mut Cx<'_>) {
        let is_aborted = self.calls.get(key).is_some_and(|call| self.link.cancels_by_abort(&call.request));
        if self.link.is_up() && self.session.is_open() && !is_aborted {
            let text = Spliced::whole(words::cancelled(&Id::number(key.number()), reason));
            self.outbox.push_text(text, Method::Cancelled, cx.ledger);
        }
    }

    pub(super) fn arm(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(due) = call.due(&self.config, cx.now) else { return };
        // A timer that fires early costs one check; one that fires late breaks a deadline.
        match call.timer {
            Some((_, at)) if at <= due => {}
            earlier => {
                if let Some((timer, _)) = earlier {
                    cx.timers.disarm(timer);
                }
                call.timer = cx.timers.arm(due, Alarm::Call(self.id, key)).map(|timer| (timer, due));
            }
        }
    }

    pub(super) fn disarm(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Some((timer, _)) = self.calls.get_mut(key).and_then(|call| call.timer.take()) {
            cx.timers.disarm(timer);
        }
    }
}
