//! The sessions of an upstream over HTTP: how they are learnt, how they are lost, and how they are made again.
//!
//! A session outlives connections. Whether it is lost is found out in [`super::session_loss`]. A handshake is complete only when the server has taken `initialized`; until then nothing else goes out,
//! and when nobody knows whether it arrived, the handshake is made again from its beginning.

use mendline_wire::{Message, Method};

use super::{Http, Refusal};
use crate::config::Dialect;
use crate::cx::Cx;
use crate::dispatch::ClientEvent;
use crate::event::{Dropped, Event};
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::budget::Budget;
use crate::port::ExchangeId;
use crate::reason::{HandshakeError, Reason};
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::{Owner, State};
use crate::upstream::exchange::Verdict;
use crate::upstream::outbox::Out;
use crate::words::Cause;

impl Http {
    /// However many calls a lost session refuses, its loss is one event and is paid for once. Each of them goes out at most
    /// once more for that reason, so this is no way around the budget.
    pub(in crate::upstream) fn pays_for_loss(&mut self, session_number: u32, budget: &mut Budget, now: Moment) -> bool {
        if self.paid_for != Some(session_number) && budget.try_spend(now) {
            self.paid_for = Some(session_number);
        }
        self.paid_for == Some(session_number)
    }
}

impl Upstream {
    /// The server took a notification, or refused it.
    pub(super) fn note_taken(&mut self, id: ExchangeId, status: u16, cx: &mut Cx<'_>) {
        let Some(http) = &mut self.http else { return };
        let Some(exchange) = http.exchanges.get(&id) else { return };
        let (session_number, named) = (exchange.session_number, exchange.session_named.is_some());
        let held = http.held_by == Some(id);
        // A session that is not known when its handshake is completed was never made.
        if held && (status == 429 || status >= 500 || (status == 404 && named)) {
            let why = HandshakeError::InitializedRejected { status: Some(status) };
            return self.handshake_incomplete(why.into(), cx);
        }
        if held {
            http.release(cx);
        }
        match status {
            404 if named => self.session_reported_lost(session_number, Refusal::bare(status), None, cx),
            200..300 if held => {
                http.notices.wanted = http.dialect != Dialect::Sse;
                self.open_notices(cx);
            }
            200..300 => {}
            _ => self.drop_message(Method::None, Dropped::Undeliverable, cx),
        }
    }

    pub(super) fn learn_session(&mut self, id: ExchangeId, answer: &Message) {
        let Some(http) = &mut self.http else { return };
        http.session = http.exchanges.get(&id).and_then(|exchange| exchange.session.as_deref()).map(Into::into);
        (http.early_session, http.has_answered) = (None, false);
        let version = answer.get_str(&["protocolVersion"]);
        // Revisions before 2025-06-18 know no such header.
        http.version = version.filter(|version| version.as_ref() >= "2025-06-18").map(Into::into);
    }

    /// The handshake that was replayed got no answer. Without it nothing can go out, so the upstream counts as lost.
    pub(in crate::upstream) fn handshake_failed(&mut self, key: Key, verdict: Verdict, cx: &mut Cx<'_>) {
        let Some(link) = self.link.current() else { return };
        drop(self.take(key, cx));
        self.session.lose();
        let permanent = matches!(verdict, Verdict::Forbidden(_));
        let is_other_dialect = matches!(verdict, Verdict::OtherDialect(_));
        let cause = match &verdict {
            Verdict::NeedsLogin(_) => Some(Cause::NeedsLogin),
            Verdict::OtherEra(_) => Some(Cause::OtherEra),
            Verdict::Refused(_) => Some(Cause::Refused),
            Verdict::Final(_) | Verdict::Answered => Some(Cause::CannotBridge),
            _ => None,
        };
        let why = verdict.reason();
        cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why: why.clone() });
        if let (true, Some(http)) = (is_other_dialect, &mut self.http) {
            http.dialect = Dialect::Sse;
            http.refused = Some(why);
            return self.link.return_to_dialing(cx);
        }
        self.drop_sse_stream(cx);
        if let (Some(cause), false) = (cause, self.is_initialized_once) {
            // Had the client waited for this handshake, it would have been told so. Whoever waits now is.
            if cause == Cause::NeedsLogin {
                self.wants_login = true;
                cx.emit(Event::LoginRequired { upstream: self.id, why: why.clone() });
            }
            for key in std::mem::take(&mut self.waiting) {
                self.fail(key, cause, Outcome::NotSent, why.clone(), cx);
            }
        }
        self.unreachable(why, permanent, cx);
    }

    /// Nobody knows whether `initialized` arrived, and a server may refuse whatever comes without it: the handshake is made
    /// again from its beginning.
    pub(super) fn handshake_incomplete(&mut self, why: Reason, cx: &mut Cx<'_>) {
        self.forget_session(cx);
        if let Some(link) = self.link.current() {
            cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why: why.clone() });
        }
        self.drop_sse_stream(cx);
        self.unreachable(why, false, cx);
    }

    /// The server had time enough to take `initialized`, or to name the endpoint of its SSE stream.
    pub fn handle_handshake_timer(&mut self, cx: &mut Cx<'_>) {
        let Some(http) = &mut self.http else { return };
        http.held_until = None;
        if let Some(id) = http.held_by {
            http.abort(id, cx);
            self.handshake_incomplete(HandshakeError::InitializedTimedOut.into(), cx);
        } else if let (Some(sse_stream), None) = (http.sse_stream(), &http.endpoint) {
            http.abort(sse_stream, cx);
            self.unreachable(HandshakeError::NoEndpoint.into(), false, cx);
        }
        self.advance_http(cx);
    }

    /// Everything that hangs on a session is gone: its name, its streams, the questions asked in it, and what was about to
    /// be said in it. Calls that had not left go back to waiting for the next one.
    pub(in crate::upstream) fn forget_session(&mut self, cx: &mut Cx<'_>) {
        self.give_up_suspicion(cx);
        let Some(http) = &mut self.http else { return };
        (http.session, http.early_session, http.has_answered) = (None, None, false);
        http.version = None;
        http.session_number += 1;
        http.release(cx);
        self.give_up_one_way(cx);
        self.end_notices(cx);
        self.session.lose();
        self.withdraw_questions(cx);
        self.link.renew();
        while let Some(out) = self.outbox.pop(cx.ledger) {
            match out {
                Out::Call(key) => self.put_back(key, cx),
                // `initialized` is part of the handshake that will be replayed.
                Out::Text(_, Method::Initialized) => {}
                Out::Text(_, method) => self.drop_message(method, Dropped::Undeliverable, cx),
            }
        }
        self.sort_waiting();
    }

    /// Nobody waits any more for the answers to what was asked in this session.
    pub(super) fn withdraw_questions(&self, cx: &mut Cx<'_>) {
        if let Some(link) = self.link.current() {
            for client in self.clients.clone() {
                cx.send_to_client(client, ClientEvent::LinkGone { link });
            }
        }
    }

    /// A call that has not left waits again; one of our own belongs to its session.
    pub(in crate::upstream) fn put_back(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if matches!(call.owner, Owner::Us(_)) {
            drop(self.take(key, cx));
            return;
        }
        let since = call.waited_since.unwrap_or(cx.now);
        call.state = State::Waiting { since, not_before: cx.now };
        call.emit_return(self.id, cx);
        self.waiting.push_back(key);
        self.arm(key, cx);
    }
}
