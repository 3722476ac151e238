//! Silent calls.
//!
//! A connection can swallow a request: no answer comes, and no error either. No call ends for silence before its
//! deadline, but after a while it is reported, and a repeatable call over HTTP is sent once more, if the server answers
//! a ping on a fresh connection. The first answer wins, and the other attempt is cancelled. An unanswered ping decides
//! nothing: a single-threaded server that runs the call cannot answer it.
//!
//! Each byte of its response begins the time again: the head, an event, a comment, a part of the body. A call that runs
//! for long is not silent either: the limit is twice the longest answer of its tool so far.

mod pings;

use mendline_wire::{Id, Method, Spliced};

pub use self::pings::Silence;
use super::Upstream;
use super::call::{Call, FirstTry, Owner, State};
use super::exchange::Purpose;
use super::http::params;
use super::internal::InternalRequest;
use super::keepalive::ping;
use super::retry_budget::Incident;
use crate::cx::Cx;
use crate::event::Event;
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::rule::Rule;
use crate::reason::Reason;
use crate::request::Op;
use crate::slab::Key;
use crate::words;

impl Upstream {
    /// Reports a silent call, and tests whether it can be sent once more.
    pub(super) fn call_is_silent(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.is_silent = true;
        let (name, method, tool) = (call.name, call.method(), call.tool.clone());
        let silent_for = cx.now.since(call.attempt_started.max(call.last_byte));
        cx.emit(Event::CallSilent { upstream: self.id, call: name, method, tool, silent_for });
        self.arm(key, cx);
        if self.may_be_repeated(key) {
            self.ping_for_silence(cx);
        }
    }

    /// Records that a byte of the response to a call arrived.
    pub(super) fn note_byte(&mut self, purpose: Purpose, cx: &mut Cx<'_>) {
        if let Purpose::Call(key) = purpose {
            self.end_silence(key, cx);
        }
    }

    /// Handles a byte that the server sent about a call: the time until it is silent begins again.
    pub(super) fn end_silence(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.last_byte = cx.now;
        if !std::mem::take(&mut call.is_silent) {
            return;
        }
        if matches!(call.state, State::Sent(_)) {
            cx.emit(Event::SilenceEnded { upstream: self.id, call: call.name, tool: call.tool.clone() });
        }
        self.disarm(key, cx);
        self.arm(key, cx);
    }

    /// Returns whether a silent call may be sent once more.
    fn may_be_repeated(&self, key: Key) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        self.link.has_other_connections()
            && call.is_silent
            && call.first_try.is_none()
            && matches!((call.owner, call.state), (Owner::Client { .. }, State::Sent(_)))
            && call.effect.is_repeatable()
            && call.request.op != Op::Initialize
            && call.counted() < call.policy(&self.config).retry.attempts
    }

    fn ping_for_silence(&mut self, cx: &mut Cx<'_>) {
        let is_busy = self.runs(InternalRequest::Silence) || self.silence.is_planned();
        let silent: Vec<Key> = self.calls.keys_by_age().into_iter().filter(|key| self.may_be_repeated(*key)).collect();
        let Some(call) = silent.first().and_then(|key| self.calls.get(*key)) else { return };
        if is_busy || self.is_closing() {
            return;
        }
        let is_modern = call.request.is_modern();
        let refuses_pings = self.link.refuses_pings();
        let request = match (is_modern, refuses_pings) {
            (true, _) => params::with_meta_of(&call.request, "server/discover", None),
            (false, true) => params::in_session("tools/list", None),
            (false, false) => ping(),
        };
        match request {
            Some(request) if self.is_open() && !self.gate.is_paused(cx.now) => {
                self.send_internal(InternalRequest::Silence, request, cx);
            }
            _ => self.ping_again_later(cx),
        }
    }

    /// Handles a ping without an answer: it decides nothing.
    pub(super) fn ping_again_later(&mut self, cx: &mut Cx<'_>) {
        self.silence.plan_ping(self.id, cx);
    }

    /// Handles the timer of the next ping.
    pub fn handle_silence_timer(&mut self, cx: &mut Cx<'_>) {
        self.silence.note_timer();
        self.ping_for_silence(cx);
    }

    /// The server answers on a fresh connection: the silent calls are sent once more.
    pub(super) fn repeat_silent_calls(&mut self, cx: &mut Cx<'_>) {
        self.silence.note_pong();
        for key in self.calls.keys_by_age() {
            if !self.may_be_repeated(key) {
                continue;
            }
            if !self.may_send_now(key, cx.now) {
                self.ping_again_later(cx);
            } else if self.silence.charge(cx.now, || self.retries.charge(Incident::Own, cx.now)) {
                self.repeat_silent_call(key, cx);
            }
        }
    }

    /// Returns whether neither a pause nor a rate limit nor a breaker holds another attempt of this call back.
    fn may_send_now(&self, key: Key, now: Moment) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        let tool = call.limited_tool.as_ref();
        let has_slot = tool.is_none_or(|tool| self.gate.tool_limits().slot_after(tool, 0, now) <= now);
        has_slot && self.gate.is_open(now) && !self.is_blocked(call, now)
    }

    fn repeat_silent_call(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let after = cx.now.since(call.attempt_started);
        call.worst_outcome = call.worst_outcome.max(Outcome::Unknown);
        let was_out = std::mem::take(&mut call.is_out);
        let most = call.policy(&self.config).retry.attempts + call.uncounted;
        cx.emit(Event::CallRetried {
            upstream: self.id,
            call: call.name,
            method: call.method(),
            tool: call.tool.clone(),
            attempt: call.attempts + 1,
            most,
            outcome: Outcome::Unknown,
            rule: Rule::MayRepeat,
            why: Reason::TimedOut { after: Some(after) },
            was_out,
        });
        call.first_try = Some(FirstTry(key));
        call.stream.restart();
        call.is_silent = false;
        call.state = State::Queued;
        self.gate.take_slots(call.limited_tool.as_ref(), cx.now);
        // The first attempt keeps its key, so that its answer is found.
        let Some(key) = self.calls.rename(key) else { return };
        self.outbox.push_call(key);
        self.disarm(key, cx);
        self.arm(key, cx);
    }

    /// The current key of a call whose first attempt has this one.
    pub(super) fn key_of_repeated(&self, first: Key) -> Option<Key> {
        // A repeated call has another key: most calls are found without a search.
        if self.calls.get(first).is_some() {
            return None;
        }
        let is_its = |call: &Call| call.first_try.is_some_and(|FirstTry(key)| key == first);
        self.calls.iter().find(|(_, call)| is_its(call)).map(|(key, _)| key)
    }

    /// Ends the attempt of a repeated call that was slower.
    pub(super) fn cancel_slower_attempt(&mut self, key: Key, answered: Key, cx: &mut Cx<'_>) {
        let first = self.calls.get_mut(key).and_then(|call| call.first_try.take());
        if let Some(FirstTry(first)) = first {
            let slower = if answered == first { key } else { first };
            self.cancel_attempt(key, slower, cx);
        }
    }

    /// Ends the first attempt of a repeated call that is over.
    pub(super) fn cancel_first_attempt(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Some(FirstTry(first)) = self.calls.get_mut(key).and_then(|call| call.first_try.take()) {
            self.cancel_attempt(key, first, cx);
        }
    }

    fn cancel_attempt(&mut self, key: Key, attempt: Key, cx: &mut Cx<'_>) {
        let is_modern = self.calls.get(key).is_some_and(|call| call.request.is_modern());
        if self.is_open() && !is_modern && !self.is_closing() {
            let text = words::cancelled(&Id::number(attempt.number()), "another attempt was answered");
            self.outbox.push_text(Spliced::whole(text), Method::Cancelled, cx.ledger);
        }
        self.drop_exchange(attempt, cx);
    }
}
