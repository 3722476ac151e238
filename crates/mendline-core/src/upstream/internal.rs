//! Internal requests: requests that Mendline makes itself.
//!
//! An internal request is a call with a key, a deadline and a place in the queue. It belongs to its link and is never
//! sent again; the next link has its own. There are:
//! - the *handshake*: the client's own, replayed on every new link before anything else;
//! - *restore* requests: the log level and the subscriptions of the last session;
//! - *lists*, read again to find changes (see [`super::resync`]);
//! - the *ping* that tests an idle connection (see [`super::keepalive`]), and the one that confirms the loss of a
//!   session.

use mendline_wire::{Kind, Message};

use super::Upstream;
use super::call::{Call, Owner};
use super::exchange::{Exchange, Verdict};
use super::http::Refusal;
use super::link::EndedBy;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Event, LinkState};
use crate::reason::{HandshakeError, Reason};
use crate::request::{ClientRequest, ListKind, Op};
use crate::slab::Key;

/// The purpose of an internal request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalRequest {
    /// The client's own handshake, replayed.
    Handshake,
    /// The log level or a subscription, for a new session.
    Restore,
    /// A page of a list.
    List(ListKind),
    /// A page of the tools, to learn which arguments a modern server requires as headers.
    Lookup,
    /// A page of the tools, to learn the hints of a tool whose call is lost.
    Hints,
    /// A ping that tests the connection.
    Ping,
    /// A ping that confirms the loss of a session.
    Confirm,
    /// A ping on a fresh connection, for a call that is silent.
    Silence,
    /// A request that shows whether the server is available.
    Probe,
    /// A handshake that shows the same; its session is used only if the current one is lost.
    ProbeHandshake,
}

impl InternalRequest {
    /// Returns whether it shows the availability of the server.
    pub(super) fn is_probe(self) -> bool {
        matches!(self, InternalRequest::Probe | InternalRequest::ProbeHandshake)
    }
}

impl Upstream {
    /// Queues an internal request for the link that is up or being probed.
    pub(super) fn send_internal(&mut self, internal: InternalRequest, request: ClientRequest, cx: &mut Cx<'_>) {
        let effect = self.tools.effect_of(&request);
        cx.ledger.charge(request.message.text().len());
        let mut call = Call::new(Owner::Us(internal), request, effect, cx.now);
        let has_started = self.session.was_ever_ready() || self.link.slowest_start().is_some();
        call.is_repeated = has_started && self.link.starts_within(self.config.timeouts.handshake_again);
        let Some(key) = self.calls.add_internal(call) else { return };
        self.enqueue(key);
        self.arm(key, cx);
    }

    /// Returns whether an internal request of this kind is in flight.
    pub(super) fn runs(&self, internal: InternalRequest) -> bool {
        self.calls.iter().any(|(_, call)| call.owner == Owner::Us(internal))
    }

    /// Returns whether this is an internal request that waits for the end of the server's pause.
    pub(super) fn keeps_pause(&self, key: Key) -> bool {
        let owner = self.calls.get(key).map(|call| call.owner);
        matches!(
            owner,
            Some(Owner::Us(
                InternalRequest::Restore | InternalRequest::List(_) | InternalRequest::Lookup | InternalRequest::Hints
            ))
        )
    }

    /// Handles the answer.
    pub(super) fn internal_answered(
        &mut self,
        internal: InternalRequest,
        request: &ClientRequest,
        answer: &Message,
        cx: &mut Cx<'_>,
    ) {
        match internal {
            InternalRequest::Handshake => self.finish_replay(request, answer, cx),
            InternalRequest::Restore => self.restored(request, answer, cx),
            InternalRequest::List(kind) => self.page_read(kind, request, answer, cx),
            InternalRequest::Lookup => self.lookup_answered(request, answer, cx),
            InternalRequest::Hints => self.hints_answered(request, answer, cx),
            InternalRequest::Silence => self.repeat_silent_calls(cx),
            InternalRequest::Ping => self.keep_alive.note_answer(),
            // Its response was handled with its status.
            InternalRequest::Confirm => {}
            // Any response is the verdict.
            InternalRequest::Probe | InternalRequest::ProbeHandshake => {}
        }
    }

    /// Handles an internal request without an answer on a link that may be up.
    pub(super) fn internal_lost(&mut self, key: Key, why: Reason, cx: &mut Cx<'_>) {
        let Some(Call { owner: Owner::Us(internal), request, .. }) = self.take(key, cx) else { return };
        match internal {
            // A handshake belongs to its link; the next link gets its own.
            InternalRequest::Handshake => {}
            // The calls that wait for it have a short timeout.
            InternalRequest::Lookup => {}
            InternalRequest::Hints => self.hints_unreadable(cx),
            InternalRequest::Silence => self.ping_again_later(cx),
            InternalRequest::Restore => {
                cx.emit(Event::InternalRequestFailed { upstream: self.id, method: request.method(), why });
                self.session.note_restore_lost(request);
            }
            InternalRequest::List(kind) => {
                cx.emit(Event::InternalRequestFailed { upstream: self.id, method: request.method(), why });
                self.page_lost(kind, cx);
            }
            InternalRequest::Ping => self.ping_missed(cx),
            InternalRequest::Confirm => self.confirmation_lost(cx),
            // The end of the link is the verdict.
            InternalRequest::Probe | InternalRequest::ProbeHandshake => {}
        }
    }

    /// Handles an expired internal request.
    pub(super) fn internal_expired(&mut self, key: Key, internal: InternalRequest, cx: &mut Cx<'_>) {
        self.drop_exchange(key, cx);
        if internal.is_probe() {
            drop(self.take(key, cx));
            return self.probe_expired(cx);
        }
        if internal != InternalRequest::Handshake {
            return self.internal_lost(key, Reason::TimedOut { after: None }, cx);
        }
        let (Some(link), Some(_)) = (self.link.current(), self.take(key, cx)) else { return };
        cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why: Reason::TimedOut { after: None } });
        self.session.lose();
        self.link.note_missed_handshake();
        self.drain_link(HandshakeError::TimedOut.into(), EndedBy::Us, cx);
    }

    /// Handles the end of its exchange without an answer, over HTTP.
    pub(super) fn internal_ended(
        &mut self,
        key: Key,
        internal: InternalRequest,
        verdict: Verdict,
        exchange: &Exchange,
        cx: &mut Cx<'_>,
    ) {
        if internal == InternalRequest::Handshake {
            return self.handshake_failed(key, verdict, cx);
        }
        if internal.is_probe() {
            drop(self.take(key, cx));
            return self.probe_ended(verdict, exchange, cx);
        }
        if internal == InternalRequest::Ping && exchange.status.is_some() {
            // Any answer proves that the server is there.
            self.keep_alive.note_answer();
            drop(self.take(key, cx));
            return self.ping_refused(exchange);
        }
        let is_broken = exchange.status.is_none() && matches!(verdict, Verdict::Settle(..));
        if internal == InternalRequest::Confirm && is_broken && self.is_current(exchange) && self.link.is_up() {
            drop(self.take(key, cx));
            if !self.ping_to_confirm(cx) {
                self.confirmation_lost(cx);
            }
            return;
        }
        if internal == InternalRequest::Confirm && exchange.status.is_some() {
            drop(self.take(key, cx));
            return self.confirmation_ended(exchange.session_number, Refusal::of(exchange), false, cx);
        }
        let permanent = matches!(verdict, Verdict::Forbidden(_));
        match verdict {
            Verdict::SessionReportedLost(why) => {
                self.internal_lost(key, why, cx);
                if let Some(refusal) = Refusal::of(exchange) {
                    self.session_reported_lost(exchange.session_number, refusal, None, cx);
                }
            }
            Verdict::Unreachable(why) | Verdict::Forbidden(why) => {
                self.internal_lost(key, why.clone(), cx);
                if !self.has_sse_stream() {
                    self.unreachable(why, permanent, cx);
                }
            }
            verdict => {
                let is_probe = self.availability.is_away() && self.is_dialing();
                let why = verdict.reason();
                self.internal_lost(key, why.clone(), cx);
                if is_probe {
                    self.away(why, cx);
                }
            }
        }
    }

    fn is_dialing(&self) -> bool {
        self.link.state() == LinkState::Dialing
    }

    /// Sends a new session the state of the last one, a few requests at a time.
    pub(super) fn restore(&mut self, cx: &mut Cx<'_>) {
        let under_way = self.calls.iter().filter(|(_, call)| call.owner == Owner::Us(InternalRequest::Restore)).count();
        for in_flight in under_way.. {
            if !self.session.is_initialized() || !self.link.is_up() {
                return;
            }
            let Some(request) = self.session.next_to_restore(in_flight) else { return };
            self.send_internal(InternalRequest::Restore, request, cx);
        }
    }

    /// Returns whether a request sets state in the server: the log level or a subscription.
    pub(super) fn is_state(&self, call: &ClientRequest) -> bool {
        call.op.sets_state() && self.session.was_initialized()
    }

    /// The state-setting message of this client's call, if it is one.
    pub(super) fn state_in(&self, key: Key) -> Option<ClientRequest> {
        let call = self.calls.get(key).filter(|call| matches!(call.owner, Owner::Client { .. }))?;
        Some(call.request.clone()).filter(|request| self.is_state(request))
    }

    /// Restores a state in the new session that an ended session confirmed too late.
    pub(super) fn restore_again(&mut self, confirmed: ClientRequest, cx: &mut Cx<'_>) {
        self.session.restore_also(confirmed);
        self.restore(cx);
    }

    /// Returns whether this call must wait until the state is restored: an old choice of the client must not overwrite
    /// a new one.
    pub(super) fn waits_for_restore(&self, call: &ClientRequest) -> bool {
        self.is_state(call)
            && (self.runs(InternalRequest::Restore) || self.session.is_restoring())
            && self.session.is_initialized()
    }

    /// Drops a pending restore that a new choice of the client replaces.
    pub(super) fn supersede(&mut self, call: &ClientRequest) {
        if self.is_state(call) {
            self.session.supersede(call);
        }
    }

    /// Handles the answer to a restore request.
    fn restored(&mut self, request: &ClientRequest, answer: &Message, cx: &mut Cx<'_>) {
        if answer.kind() == Kind::Error {
            let message = answer.get_str(&["message"]).unwrap_or_default();
            let why = Reason::ErrorBody { message: cx.quote.quote(message.as_bytes(), defaults::QUOTED) };
            cx.emit(Event::InternalRequestFailed { upstream: self.id, method: request.method(), why });
            self.session.forget_subscription(request);
        } else if request.op == Op::Subscribe {
            self.notify_updated(request, cx);
        } else {
            self.keep_choices(None, request, cx);
        }
        self.restore(cx);
    }
}
