//! The schedule of admitted calls: pause, rate limit, and fairness between clients.
//!
//! A pause applies to all calls. Calls that cannot wait for its end fail at once, with the server's hint. One timer
//! fires at the end of the pause, or at the next slot of the rate limit.

use std::sync::Arc;
use std::time::Duration;

use super::Upstream;
use super::call::{Call, State};
use super::calls::cause_of;
use super::retry_budget::Incident;
use crate::cx::Cx;
use crate::defaults;
use crate::event::Event;
use crate::evidence::{Evidence, Outcome};
use crate::moment::Moment;
use crate::policy::queue;
use crate::policy::tool_limits::Counts;
use crate::port::ClientId;
use crate::reason::Reason;
use crate::slab::Key;
use crate::words::Cause;

impl Upstream {
    /// Starts or extends the pause that the server requests.
    pub(super) fn pause(&mut self, hint: Duration, is_unavailable: bool, cx: &mut Cx<'_>) {
        self.begin_pause(hint, true, is_unavailable, cx);
    }

    fn begin_pause(&mut self, hint: Duration, is_hinted: bool, is_unavailable: bool, cx: &mut Cx<'_>) {
        let hint = hint.max(defaults::PAUSE_MIN);
        let Some(wait) = self.gate.begin_pause(hint, is_hinted, is_unavailable, cx.now) else { return };
        self.link.postpone_until(self.gate.paused_until(), cx);
        cx.emit(Event::Paused { upstream: self.id, wait, hint: is_hinted.then_some(hint) });
        self.fail_late(cx);
        self.watch_gate(cx);
    }

    /// Starts the pause of a server that is overloaded and names no time: it doubles with each refusal.
    pub(super) fn pause_without_hint(&mut self, cx: &mut Cx<'_>) {
        if self.gate.is_paused(cx.now) {
            return;
        }
        let wait = self.gate.next_pause(cx.rng);
        self.begin_pause(wait, false, false, cx);
    }

    /// Handles a call that an overloaded server refused. It waits for the end of the pause, without spending an
    /// attempt.
    pub(super) fn call_overloaded(
        &mut self,
        key: Key,
        evidence: Evidence,
        why: Reason,
        is_hinted: bool,
        cx: &mut Cx<'_>,
    ) {
        if !is_hinted {
            self.pause_without_hint(cx);
        }
        self.end_attempt(key, evidence, &why, cx);
        if let Some(call) = self.calls.get_mut(key) {
            call.uncounted += 1;
        }
        self.resend(key, evidence, cx.now, why, Incident::Free, cx);
        self.shorten_grace(cx);
        self.watch_gate(cx);
    }

    /// Answers a call that an overloaded server refused, because of a configured rule. The pause holds for others.
    pub(super) fn overloaded_call_answered(
        &mut self,
        key: Key,
        evidence: Evidence,
        why: Reason,
        is_hinted: bool,
        cx: &mut Cx<'_>,
    ) {
        if !is_hinted {
            self.pause_without_hint(cx);
        }
        self.end_attempt(key, evidence, &why, cx);
        self.fail(key, cause_of(evidence), evidence.outcome(), why, cx);
        self.watch_gate(cx);
    }

    /// Fails every waiting call whose time ends before the pause.
    fn fail_late(&mut self, cx: &mut Cx<'_>) {
        for key in self.calls.waiting_keys() {
            if self.calls.get(key).is_some_and(|call| self.is_too_late(call)) {
                self.fail(key, Cause::RateLimited, Outcome::NotSent, self.gate.reason(cx.now).into(), cx);
            }
        }
    }

    /// Returns whether the time of this waiting call ends before the pause.
    pub(super) fn is_too_late(&self, call: &Call) -> bool {
        call.waits_until(&self.config).is_some_and(|end| end < self.gate.paused_until())
    }

    /// The reason why a call does not wait for a retry, if it does not. The outcome of a sent attempt takes precedence;
    /// for an unsent one the obstacle is reported.
    pub(super) fn reason_not_to_wait(&self, key: Key, lost: Evidence, now: Moment) -> Option<(Cause, Option<Reason>)> {
        let call = self.calls.get(key)?;
        let is_unsent = lost.outcome() == Outcome::NotSent;
        if let Some(hold) = self.gate.blocking_breaker(&call.request, Some(call.name), now) {
            Some(if is_unsent { (Cause::BreakerOpen, Some(hold.reason().into())) } else { (cause_of(lost), None) })
        } else if self.is_too_late(call) {
            Some(if is_unsent {
                (Cause::RateLimited, Some(self.gate.reason(now).into()))
            } else {
                (cause_of(lost), None)
            })
        } else {
            None
        }
    }

    /// Emits that a call waits for the rate limit.
    pub(super) fn emit_rate_limited(&self, call: u64, tool: Option<&Arc<str>>, cx: &mut Cx<'_>) {
        let limits = self.gate.tool_limits();
        let ahead = |tool: &Arc<str>| self.waiting_of(tool).saturating_sub(1);
        let at = tool.map_or(cx.now, |tool| limits.slot_after(tool, ahead(tool), cx.now));
        if at > cx.now {
            let wait = at.since(cx.now);
            return cx.emit(Event::RateLimited { upstream: self.id, call, wait });
        }
        if self.gate.has_rate_limit() && !self.gate.is_open(cx.now) {
            let wait = self.gate.opens_at(self.calls.waiting_count().saturating_sub(1), cx.now).since(cx.now);
            cx.emit(Event::RateLimited { upstream: self.id, call, wait });
        }
    }

    /// The calls of a tool with limits that are sent or queued.
    pub(super) fn in_flight_of(&self, tool: &Arc<str>) -> usize {
        let is_out = |call: &Call| !matches!(call.state, State::Waiting { .. });
        self.calls.iter().filter(|(_, call)| call.limited_tool.as_ref() == Some(tool) && is_out(call)).count()
    }

    /// The waiting calls of a tool with limits.
    pub(super) fn waiting_of(&self, tool: &Arc<str>) -> usize {
        self.calls.waiting().filter(|(_, call)| call.limited_tool.as_ref() == Some(tool)).count()
    }

    /// The calls in flight of all tools with limits.
    pub(super) fn counts_by_tool(&self) -> Counts {
        let mut counts = Counts::new();
        if !self.gate.tool_limits().is_empty() {
            for (_, call) in self.calls.iter().filter(|(_, call)| !matches!(call.state, State::Waiting { .. })) {
                if let Some(tool) = &call.limited_tool {
                    *counts.entry(Arc::clone(tool)).or_default() += 1;
                }
            }
        }
        counts
    }

    /// Returns whether the limits of its tool admit this call now.
    pub(super) fn is_admitted_by_tool(&self, call: &Call, counts: &Counts, now: Moment) -> bool {
        let Some(tool) = &call.limited_tool else { return true };
        self.gate.tool_limits().admits(tool, counts.get(tool).copied().unwrap_or_default(), now)
    }

    /// The next time at which the rate of a tool admits one of the waiting calls.
    pub(super) fn next_slot_of_tools(&self, now: Moment) -> Option<Moment> {
        let limits = self.gate.tool_limits();
        if limits.is_empty() {
            return None;
        }
        let tools = self.calls.waiting().filter_map(|(_, call)| call.limited_tool.as_ref());
        tools.map(|tool| limits.slot_after(tool, 0, now)).filter(|at| *at > now).min()
    }

    /// The number of waiting calls before the next one of this client.
    pub(super) fn ahead_of(&self, client: ClientId) -> usize {
        if !self.clients.are_several() {
            return self.calls.waiting_count();
        }
        let newcomer = (client, None);
        let waiting = self.calls.waiting().filter_map(|(key, call)| Some((call.client()?, Some(key))));
        let order = self.gate.rotation().order(waiting.chain([newcomer]));
        order.iter().position(Option::is_none).unwrap_or(order.len())
    }

    /// The waiting call to evict for one of this client. A call that was sent before, or a confirmed subscription, is
    /// never evicted.
    pub(super) fn call_to_evict(&self, client: ClientId) -> Option<Key> {
        if !self.clients.are_several() {
            return None;
        }
        let waits = |(key, call): (Key, &Call)| {
            let is_new = call.worst_outcome == Outcome::NotSent && !call.confirmed;
            Some((call.client()?, Some(key).filter(|_| is_new)))
        };
        queue::evict_for(self.calls.waiting().filter_map(waits), client)
    }

    /// Orders the waiting calls of several clients fairly.
    pub(super) fn order_by_client(&mut self) {
        let waiting = self.calls.waiting().filter_map(|(key, call)| Some((call.client()?, key)));
        let order = self.gate.rotation().order(waiting);
        self.calls.order(order);
    }

    /// Arms the timer for the end of the pause or the next slot.
    pub(super) fn watch_gate(&mut self, cx: &mut Cx<'_>) {
        self.watch_gate_at(self.gate.opens_at(0, cx.now), cx);
    }

    /// Arms the timer of the gate for this time, unless it fires before.
    pub(super) fn watch_gate_at(&mut self, at: Moment, cx: &mut Cx<'_>) {
        self.gate.watch_at(at, self.id, cx);
    }

    pub fn handle_gate_timer(&mut self, cx: &mut Cx<'_>) {
        self.gate.note_timer();
        if self.gate.take_ended_pause(cx.now) {
            cx.emit(Event::PauseEnded { upstream: self.id });
        }
        if self.gate.is_pause_reported() {
            self.watch_gate(cx);
        }
        if !self.gate.is_paused(cx.now)
            && self.link.is_up()
            && let Some(handshake) = self.session.reinitialize()
        {
            self.replay(handshake, cx);
        }
    }
}
