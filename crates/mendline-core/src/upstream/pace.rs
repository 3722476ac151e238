//! When a call goes that may go: after the pause that its server asked for, in its turn, one client after the other.
//!
//! A pause holds for everybody. Those who could not wait for its end are answered at once, with the server's own hint; the
//! others wait. One timer looks after it all: it goes off when the pause is over, or when the next call's turn has come.

use std::time::Duration;

use super::Upstream;
use super::call::{Call, Owner};
use super::calls::cause_of;
use crate::cx::{Alarm, Cx};
use crate::event::Event;
use crate::evidence::{Evidence, Outcome};
use crate::moment::Moment;
use crate::policy::queue;
use crate::port::ClientId;
use crate::reason::Reason;
use crate::slab::Key;
use crate::words::Cause;

impl Upstream {
    /// The server asks to be left alone for a while.
    pub(super) fn pause(&mut self, hint: Duration, cx: &mut Cx<'_>) {
        let Some(wait) = self.gate.pause.extend(hint, cx.now) else { return };
        self.gate.is_paused = true;
        self.link.postpone_until(self.gate.pause.until(), cx);
        cx.emit(Event::Paused { upstream: self.id, wait, hint });
        self.answer_late(cx);
        self.watch_gate(cx);
    }

    /// Answers every waiting call whose time is over before the pause is.
    fn answer_late(&mut self, cx: &mut Cx<'_>) {
        for key in self.waiting.clone() {
            if self.calls.get(key).is_some_and(|call| self.is_too_late(call)) {
                self.fail(key, Cause::RateLimited, Outcome::NotSent, self.gate.reason(cx.now).into(), cx);
            }
        }
    }

    /// Is the time of this call, which waits, over before the pause is?
    pub(super) fn is_too_late(&self, call: &Call) -> bool {
        call.waits_until(&self.config).is_some_and(|end| end < self.gate.pause.until())
    }

    /// Why a call whose attempt was lost does not wait for the next, if it does not. What became of the attempt says more
    /// than what is in the way of the next one; only if nothing became of it, that is said.
    pub(super) fn gives_up_waiting(&self, key: Key, lost: Evidence, now: Moment) -> Option<(Cause, Option<Reason>)> {
        let call = self.calls.get(key)?;
        let is_unsent = lost.outcome() == Outcome::NotSent;
        if let Some(hold) = self.gate.holds(&call.message, Some(call.name), now) {
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

    /// A call goes out: its turn is used up.
    pub(super) fn start_call(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Some(limit) = &mut self.gate.limit {
            limit.try_take(cx.now);
        }
        if let Some(client) = self.client_of(key) {
            self.gate.rotation.note(client);
        }
        self.enqueue(key);
    }

    /// Whose call it is, if it is not an internal request of ours.
    fn client_of(&self, key: Key) -> Option<ClientId> {
        match self.calls.get(key)?.owner {
            Owner::Client { client, .. } => Some(client),
            Owner::Us(_) => None,
        }
    }

    /// A call has to wait for its turn.
    pub(super) fn emit_rate_limited(&self, call: u64, cx: &mut Cx<'_>) {
        if self.gate.limit.is_some() && !self.gate.is_open(cx.now) {
            let wait = self.gate.opens_at(self.waiting.len().saturating_sub(1), cx.now).since(cx.now);
            cx.emit(Event::RateLimited { upstream: self.id, call, wait });
        }
    }

    /// How many of those who wait go before the next call of this client.
    pub(super) fn ahead_of(&self, client: ClientId) -> usize {
        if self.clients.len() <= 1 {
            return self.waiting.len();
        }
        let newcomer = (client, None);
        let waiting = self.waiting.iter().filter_map(|key| Some((self.client_of(*key)?, Some(*key))));
        let order = self.gate.rotation.order(waiting.chain([newcomer]));
        order.iter().position(Option::is_none).unwrap_or(order.len())
    }

    /// The waiting call that gives way to one of this client, for want of room. One that has been out before, or that its
    /// client relies on, never does.
    pub(super) fn call_to_evict(&self, client: ClientId) -> Option<Key> {
        if self.clients.len() <= 1 {
            return None;
        }
        let waits = |key: &Key| {
            let is_new =
                self.calls.get(*key).is_some_and(|call| call.worst_outcome == Outcome::NotSent && !call.confirmed);
            Some((self.client_of(*key)?, Some(*key).filter(|_| is_new)))
        };
        queue::evict_for(self.waiting.iter().filter_map(waits), client)
    }

    /// Several clients wait: they take turns.
    pub(super) fn order_by_client(&mut self) {
        let waiting = self.waiting.iter().filter_map(|key| Some((self.client_of(*key)?, *key)));
        self.waiting = self.gate.rotation.order(waiting).into();
    }

    /// Sees to it that somebody looks when the pause is over, or when the next call's turn has come.
    pub(super) fn watch_gate(&mut self, cx: &mut Cx<'_>) {
        let at = self.gate.opens_at(0, cx.now);
        if self.gate.timer.is_some_and(|(_, armed)| armed <= at && armed > cx.now) {
            return;
        }
        if let Some((timer, _)) = self.gate.timer.take() {
            cx.timers.disarm(timer);
        }
        self.gate.timer = cx.timers.arm(at, Alarm::Gate(self.id)).map(|timer| (timer, at));
    }

    pub fn handle_gate_timer(&mut self, cx: &mut Cx<'_>) {
        self.gate.timer = None;
        if !self.gate.pause.holds(cx.now) && std::mem::take(&mut self.gate.is_paused) {
            cx.emit(Event::PauseEnded { upstream: self.id });
        }
        if self.gate.is_paused {
            self.watch_gate(cx);
        }
        self.promote(cx);
        self.advance_http(cx);
    }
}
