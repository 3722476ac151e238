//! The sessions of an upstream over HTTP: handshake, loss and re-initialization.
//!
//! A session outlives connections. [`super::session_loss`] confirms its loss. A handshake is complete when the server
//! has accepted `initialized`; until then nothing else is sent. If it is unknown whether `initialized` arrived, the
//! whole handshake is repeated.

use std::sync::Arc;

use mendline_wire::{Message, Method, headers};

use super::{LookFor, Refusal};
use crate::config::{Dialect, Transport};
use crate::cx::Cx;
use crate::dispatch::ClientEvent;
use crate::event::{Dropped, Event};
use crate::evidence::Outcome;
use crate::port::{ExchangeId, HttpRequest, Reuse, Verb};
use crate::reason::{HandshakeError, Reason};
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::{Owner, State};
use crate::upstream::exchange::{Exchange, Purpose, Verdict};
use crate::upstream::link::Link;
use crate::upstream::outbox::Out;
use crate::words::Cause;

impl Upstream {
    /// The session in the response head of this exchange.
    pub(in crate::upstream) fn session_in(&self, id: ExchangeId) -> Option<Arc<str>> {
        self.link.http()?.exchanges.get(&id)?.session.as_deref().map(Into::into)
    }

    /// Returns whether this is the id of the current session.
    pub(in crate::upstream) fn is_session(&self, id: Option<&Arc<str>>) -> bool {
        self.link.http().is_some_and(|http| http.session.id() == id)
    }

    /// Uses the session of a handshake that was answered like this.
    pub(in crate::upstream) fn use_session(&mut self, session: Option<Arc<str>>, answer: &Message) {
        if let Link::Http(http) = &mut self.link {
            http.session.adopt(session, answer);
        }
    }

    /// Closes a session that is not used.
    pub(in crate::upstream) fn close_other_session(&mut self, session: Arc<str>, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            let headers = vec![(headers::SESSION_ID.into(), session)];
            let request = HttpRequest { verb: Verb::Delete, target: None, headers, body: None };
            http.begin(Exchange::new(Purpose::CloseSession), request, Reuse::Any, cx);
        }
    }

    /// Handles the status of a notification: accepted or refused.
    pub(super) fn note_accepted(&mut self, id: ExchangeId, status: u16, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(exchange) = http.exchanges.get(&id) else { return };
        let (session_number, named) = (exchange.session_number, exchange.session_named.is_some());
        let held = http.pending_initialized == Some(id);
        // A session that is unknown when its handshake completes was never created.
        let why = || HandshakeError::InitializedRejected { status: Some(status) }.into();
        if held && status == 404 && named && self.look_for_sse(LookFor::Initialized(why()), cx) {
            return;
        }
        let Link::Http(http) = &mut self.link else { return };
        if held && (status == 429 || status >= 500 || (status == 404 && named)) {
            return self.handshake_incomplete(why(), cx);
        }
        if held {
            http.release(cx);
        }
        let refused = http.exchanges.get(&id).filter(|exchange| exchange.is_refused_for_credential());
        if let Some(exchange) = refused.map(|exchange| (**exchange).clone())
            && self.hold_one_way(&exchange, cx)
        {
            return;
        }
        let Link::Http(http) = &mut self.link else { return };
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
        let session = self.session_in(id);
        self.use_session(session, answer);
    }

    /// Handles a replayed handshake without an answer. The upstream counts as lost.
    pub(in crate::upstream) fn handshake_failed(&mut self, key: Key, verdict: Verdict, cx: &mut Cx<'_>) {
        let Some(link) = self.link.current() else { return };
        drop(self.take(key, cx));
        self.session.lose();
        let permanent = matches!(verdict, Verdict::Forbidden(_));
        let needs_login = matches!(verdict, Verdict::NeedsLogin(_));
        let is_other_dialect = matches!(verdict, Verdict::OtherDialect(_));
        let cause = match &verdict {
            Verdict::OtherEra(_) => Some(Cause::OtherEra),
            Verdict::Refused(why) if why.status() == Some(403) => Some(Cause::Refused),
            Verdict::Final(_) | Verdict::Answered => Some(Cause::CannotBridge),
            _ => None,
        };
        let why = verdict.reason();
        cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why: why.clone() });
        if let (true, Link::Http(http)) = (is_other_dialect, &mut self.link) {
            http.dialect = Dialect::Sse;
            http.refused = Some(why);
            return http.supervisor.return_to_dialing(cx);
        }
        self.drop_sse_stream(cx);
        if needs_login {
            self.login_required(&why, cx);
        }
        if let (Some(cause), false) = (cause, self.session.was_ever_ready()) {
            // The waiting calls report it to their clients.
            for key in self.calls.take_waiting(|_| true) {
                self.fail(key, cause, Outcome::NotSent, why.clone(), cx);
            }
        }
        self.unreachable(why, permanent, cx);
    }

    /// Repeats the whole handshake, because it is unknown whether `initialized` arrived.
    pub(super) fn handshake_incomplete(&mut self, why: Reason, cx: &mut Cx<'_>) {
        self.forget_session(cx);
        if let Some(link) = self.link.current() {
            cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why: why.clone() });
        }
        self.drop_sse_stream(cx);
        self.unreachable(why, false, cx);
    }

    /// Handles a server that did not accept `initialized`, or did not name its SSE endpoint, in time.
    pub fn handle_handshake_timer(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        http.handshake_timer = None;
        if let Some(id) = http.pending_initialized {
            http.abort(id, cx);
            self.handshake_incomplete(HandshakeError::InitializedTimedOut.into(), cx);
        } else if let (Some(sse_stream), None) = (http.sse_stream(), &http.endpoint) {
            http.abort(sse_stream, cx);
            self.unreachable(HandshakeError::NoEndpoint.into(), false, cx);
        }
    }

    /// Drops the session: its id, its streams, its server requests and its queued messages. Unsent calls wait for the
    /// next session.
    pub(in crate::upstream) fn forget_session(&mut self, cx: &mut Cx<'_>) {
        self.give_up_suspicion(cx);
        let Link::Http(http) = &mut self.link else { return };
        http.session.end();
        http.release(cx);
        self.give_up_one_way(cx);
        self.drop_refused_one_way(|_| true, cx);
        self.end_notices(cx);
        self.session.lose();
        self.withdraw_server_requests(cx);
        if let Link::Http(http) = &mut self.link {
            http.supervisor.renew();
        }
        while let Some(out) = self.outbox.pop(cx.ledger) {
            match out {
                Out::Call(key) => self.requeue(key, cx),
                // `initialized` is part of the handshake, which is replayed.
                Out::Text(_, Method::Initialized) => {}
                Out::Text(_, method) => self.drop_message(method, Dropped::Undeliverable, cx),
            }
        }
    }

    /// Withdraws the server requests of this session.
    pub(super) fn withdraw_server_requests(&self, cx: &mut Cx<'_>) {
        if let Some(link) = self.link.current() {
            for client in self.clients.ids() {
                cx.send_to_client(client, ClientEvent::LinkGone { link });
            }
        }
    }

    /// Puts an unsent call back into the queue; an internal request ends with its session.
    pub(in crate::upstream) fn requeue(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if matches!(call.owner, Owner::Us(_)) {
            drop(self.take(key, cx));
            return;
        }
        let since = call.waited_since.unwrap_or(cx.now);
        call.emit_return(self.id, cx);
        self.calls.wait(key, since, cx.now);
        self.arm(key, cx);
    }

    /// Drops the state of the old origin: its session, its streams and its detected properties. Subscriptions are
    /// opened again at the new one.
    pub(in crate::upstream) fn leave_origin(&mut self, cx: &mut Cx<'_>) {
        if self.link.http().is_none() {
            return;
        }
        let is_open_subscription = |key: &Key| {
            let call = self.calls.get(*key);
            call.is_some_and(|call| call.is_subscription() && matches!(call.state, State::Sent(_)))
        };
        let open_subscriptions: Vec<Key> = self.calls.keys_by_age().into_iter().filter(is_open_subscription).collect();
        self.drop_sse_stream(cx);
        self.forget_session(cx);
        self.drop_probes(cx);
        for key in open_subscriptions {
            self.drop_exchange(key, cx);
            self.disarm(key, cx);
            if let Some(call) = self.calls.get_mut(key) {
                call.worst_outcome = call.worst_outcome.max(Outcome::Unknown);
            }
            // A new key, as for every call that is sent again.
            if let Some(key) = self.calls.rename(key) {
                self.requeue(key, cx);
            }
        }
        if let (Link::Http(http), Transport::Http(dialect)) = (&mut self.link, self.config.transport) {
            http.drop_look(cx);
            http.reset(dialect, self.config.credential);
        }
    }
}
