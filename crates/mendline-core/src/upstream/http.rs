//! An upstream over HTTP: its exchanges and their meaning.
//!
//! # Transports
//!
//! Streamable HTTP makes one POST per message; the answer comes in its response, as JSON or at the end of an event
//! stream. A stream that breaks after it has named an event is *resumed* by a GET, never sent again. Legacy SSE has one
//! long GET, the *SSE stream*, which carries all answers; POSTs only send. The transport is detected with the first
//! call: after 400, 404 or 405 without JSON-RPC the SSE stream is tried. [`detection`] tries it after the handshake too,
//! until another request was answered.
//!
//! # The state of the link
//!
//! HTTP has no permanent connection. While the upstream is not up, one exchange at a time is sent, the probe; a
//! connection that carries it proves that the upstream is reachable. A broken exchange says nothing about the others.
//!
//! # Modules
//!
//! [`received`] handles responses, [`ends`] exchanges that ended without their answer. [`session`] handles sessions and
//! handshakes, [`session_id`] knows the current one, [`session_loss`] confirms the loss of a session. [`stream`] resumes event streams, [`sse_stream`] is
//! legacy SSE, [`notices`] is the GET for messages of the server. [`one_way`] sends notifications and answers,
//! [`params`] maps arguments to headers.

mod detection;
mod ends;
mod notices;
mod one_way;
pub(super) mod params;
mod received;
mod session;
mod session_id;
mod session_loss;
mod sse_stream;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use mendline_wire::headers;

use self::detection::Detection;
pub(super) use self::detection::{LookFor, denies_transport};
use self::notices::Notices;
use self::one_way::FreeSlots;
use self::params::Params;
use self::session_id::SessionId;
pub use self::session_loss::Refusal;
use self::session_loss::Suspicion;
pub use self::stream::Stream;
use super::Upstream;
use super::call::{Call, Owner, SentOver, State};
use super::credential::Credential;
use super::exchange::{Exchange, OneWay, Purpose};
use super::internal::InternalRequest;
use super::link::{Link, Supervisor};
use super::outbox::Out;
use crate::config::{CredentialKind, Dialect};
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::LinkState;
use crate::port::{Challenge, ExchangeId, HttpRequest, Output, Reuse, UpstreamId, Verb};
use crate::reason::Reason;
use crate::request::Op;
use crate::slab::Key;
use crate::timers::TimerId;

/// The link to a server over HTTP.
#[derive(Debug)]
pub struct HttpLink {
    supervisor: Supervisor,
    upstream: UpstreamId,
    /// The configured and the detected transport.
    configured: Dialect,
    dialect: Dialect,
    /// The refusal of one transport, while the other is tried.
    refused: Option<Reason>,
    detection: Detection,
    /// In boxes: a tree that is emptied and refilled with every call should have small nodes.
    exchanges: BTreeMap<ExchangeId, Box<Exchange>>,
    made: u64,
    session: SessionId,
    /// A modern request was answered with success.
    supports_modern: bool,
    /// A wrong Content-Type was reported.
    content_type_reported: bool,
    /// The current session is reported lost, and a ping is in flight to confirm it.
    suspicion: Option<Suspicion>,
    /// `initialized` is in flight; a server may refuse requests that overtake it.
    pending_initialized: Option<ExchangeId>,
    handshake_timer: Option<TimerId>,
    /// The timer of the oldest notification or answer in flight.
    one_way_timer: Option<TimerId>,
    notices: Notices,
    /// Arguments of tools that are repeated as headers.
    params: Params,
    /// The endpoint of a legacy SSE server.
    endpoint: Option<String>,
    pub(super) credential: Credential,
    /// Notifications and answers that were refused for their credential.
    pub(super) refused_one_way: Vec<OneWay>,
    /// The challenge for which the SSE stream was requested again.
    sse_challenged: Option<Challenge>,
    /// The timer for POSTs whose SSE stream is gone.
    orphans_timer: Option<TimerId>,
    /// The progress of closing, with its timer.
    close_state: CloseState,
    close_session: Option<TimerId>,
}

/// The progress of closing the connection to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CloseState {
    /// Open.
    #[default]
    Not,
    /// Notifications are still in flight.
    Flushing,
    /// Only the end of the session is in flight.
    ClosingSession,
}

impl HttpLink {
    pub fn new(supervisor: Supervisor, dialect: Dialect, credential: CredentialKind) -> Self {
        let upstream = supervisor.id().upstream;
        HttpLink {
            supervisor,
            upstream,
            configured: dialect,
            dialect,
            refused: None,
            detection: Detection::default(),
            exchanges: BTreeMap::new(),
            made: 0,
            session: SessionId::default(),
            supports_modern: false,
            content_type_reported: false,
            suspicion: None,
            pending_initialized: None,
            handshake_timer: None,
            one_way_timer: None,
            notices: Notices::default(),
            params: Params::default(),
            endpoint: None,
            credential: Credential::new(upstream, credential),
            refused_one_way: Vec::new(),
            sse_challenged: None,
            orphans_timer: None,
            close_state: CloseState::default(),
            close_session: None,
        }
    }

    /// Resets the state for another target.
    pub fn reset(&mut self, dialect: Dialect, credential: CredentialKind) {
        (self.configured, self.dialect, self.refused) = (dialect, dialect, None);
        self.detection = Detection::default();
        (self.supports_modern, self.content_type_reported) = (false, false);
        (self.params, self.endpoint) = (Params::default(), None);
        self.session.forget_pings();
        self.credential.reset(credential);
        (self.refused_one_way, self.sse_challenged) = (Vec::new(), None);
    }

    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    pub fn supervisor_mut(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }

    /// Returns whether the transport is legacy SSE.
    pub fn is_sse(&self) -> bool {
        self.dialect == Dialect::Sse
    }

    /// Returns whether the transport is legacy SSE with an open SSE stream.
    pub fn has_sse_stream(&self) -> bool {
        self.is_sse() && self.sse_stream().is_some()
    }

    /// The number of exchanges begun so far.
    pub fn begun(&self) -> u64 {
        self.made
    }

    /// Continues the numbers of exchanges after this one.
    pub fn continue_exchanges(&mut self, last: u64) {
        self.made = last;
    }

    /// Returns whether the server has assigned a session.
    pub(super) fn has_session(&self) -> bool {
        self.session.id().is_some()
    }

    /// Returns whether the server refuses pings in live sessions.
    pub fn refuses_pings(&self) -> bool {
        self.session.refuses_pings()
    }

    /// The open exchanges.
    fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.values().map(|exchange| &**exchange)
    }

    /// The number of open exchanges.
    pub fn open(&self) -> usize {
        self.exchanges.len()
    }

    /// The headers for the session and the version, after the handshake.
    pub(super) fn session_headers(&self, is_initialize: bool) -> Vec<(Cow<'static, str>, Arc<str>)> {
        if is_initialize { Vec::new() } else { self.session.headers() }
    }

    pub(super) fn begin(
        &mut self,
        mut exchange: Exchange,
        request: HttpRequest,
        reuse: Reuse,
        cx: &mut Cx<'_>,
    ) -> ExchangeId {
        self.made += 1;
        exchange.session_number = self.session.number();
        exchange.credential = self.credential.number();
        let id = ExchangeId::new(self.upstream, self.made);
        exchange.session_named =
            request.headers.iter().find(|(name, _)| *name == headers::SESSION_ID).map(|(_, session)| session.clone());
        self.exchanges.insert(id, Box::new(exchange));
        cx.output(Output::Exchange { exchange: id, upstream: self.upstream, request: Box::new(request), reuse });
        id
    }

    /// Aborts an exchange; its end is awaited and ignored.
    fn abort(&mut self, id: ExchangeId, cx: &mut Cx<'_>) {
        if let Some(exchange) = self.exchanges.get_mut(&id)
            && exchange.purpose != Purpose::Dropped
        {
            exchange.purpose = Purpose::Dropped;
            cx.output(Output::Abort { exchange: id });
        }
    }

    fn abort_where(&mut self, matches: impl Fn(&Purpose) -> bool, cx: &mut Cx<'_>) {
        let matching: Vec<ExchangeId> =
            self.exchanges.iter().filter(|(_, it)| matches(&it.purpose)).map(|(id, _)| *id).collect();
        for id in matching {
            self.abort(id, cx);
        }
    }

    /// Stops waiting for `initialized`.
    fn release(&mut self, cx: &mut Cx<'_>) {
        self.pending_initialized = None;
        cx.disarm(&mut self.handshake_timer);
    }

    /// Returns whether this is the POST of a call whose SSE stream is gone.
    fn is_orphan(&self, exchange: &Exchange) -> bool {
        let posts = matches!(exchange.purpose, Purpose::Call(_));
        posts && self.dialect == Dialect::Sse && exchange.session_number != self.session.number()
    }

    fn sse_stream(&self) -> Option<ExchangeId> {
        self.exchanges.iter().find(|(_, it)| it.purpose == Purpose::SseStream).map(|(id, _)| *id)
    }

    /// Returns whether a probe is in flight. An exchange that has a connection is not a probe.
    fn is_probing(&self) -> bool {
        self.exchanges.values().any(|it| matches!(it.purpose, Purpose::Call(_)) && !it.reached)
    }
}

impl Upstream {
    /// Starts the only probe of an upstream over HTTP that is not up.
    pub(super) fn start_probe(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        if http.supervisor.state() != LinkState::Dialing || http.credential.is_awaited() {
            return;
        }
        if http.dialect == Dialect::Sse {
            if http.sse_stream().is_none() {
                let request = HttpRequest { verb: Verb::Get, target: None, headers: Vec::new(), body: None };
                http.begin(Exchange::new(Purpose::SseStream), request, Reuse::Fresh, cx);
                http.release(cx);
                http.handshake_timer = cx.wake_in(self.config.timeouts.handshake, Alarm::Handshake(self.id));
                return;
            }
            if http.endpoint.is_none() || !self.availability.is_away() {
                return;
            }
            // The stream is open, but POSTs failed: a ping shows whether they work again.
        }
        let slots = if self.availability.is_away() { FreeSlots::NONE } else { http.free_slots() };
        let Link::Http(http) = &self.link else { return };
        if http.is_probing()
            || self.handshake_in_flight()
            || self.probe_in_flight()
            || http.looks_for_sse()
            || self.outbox.any(|out| slots.has_room_for(out))
        {
            return;
        }
        if let Some(handshake) = self.session.reinitialize() {
            return self.replay(handshake, cx);
        }
        if self.probe_for_link(cx) {
            return;
        }
        if self.calls.any_waits() && !self.gate.is_open(cx.now) {
            return self.watch_gate(cx);
        }
        self.probe_with_call(cx);
    }

    /// Sends the first waiting call as the probe, if it may be sent now.
    fn probe_with_call(&mut self, cx: &mut Cx<'_>) {
        let counts = self.counts_by_tool();
        let is_admitted = |call: &Call| self.is_admitted_by_tool(call, &counts, cx.now);
        // A call that waits for a verdict or for hints is not to be sent again yet, perhaps never.
        let is_decided = |call: &Call| !call.is_undecided() && !self.is_held_for_credential(call);
        let first = self.calls.waiting().find(|(_, call)| is_decided(call) && is_admitted(call)).map(|(key, _)| key);
        if self.calls.any_waits() && !self.calls.waiting().any(|(_, call)| is_decided(call)) {
            // None of them can be the probe.
            self.note_away(cx);
            if !self.probe_for_link(cx) {
                self.link.go_idle(cx);
            }
            return;
        }
        if first.is_none() && self.calls.any_waits() {
            // All wait for the limits of their tools: for a slot, or for the end of a call in flight.
            return self.next_slot_of_tools(cx.now).into_iter().for_each(|at| self.watch_gate_at(at, cx));
        }
        match first {
            Some(key) => self.start_call(key, cx),
            // Nothing waits. A session may have changes, so a ping is sent; otherwise the next call is the probe.
            None if self.session.is_initialized() && self.config.keep_alive.is_some() => self.ping(cx),
            None if !self.session.was_initialized() && self.read_old_list(cx) => {}
            None => self.link.go_idle(cx),
        }
    }

    /// Returns whether a handshake is in flight: it is the probe.
    fn handshake_in_flight(&self) -> bool {
        self.calls
            .iter()
            .any(|(_, call)| call.request.op == Op::Initialize && matches!(call.state, State::Queued | State::Sent(_)))
    }

    /// Makes exchanges of the queued messages, within their limits.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>) {
        while !self.outbox.is_empty() {
            let Link::Http(http) = &self.link else { return };
            if http.credential.is_awaited() {
                return self.requeue_unsent(cx);
            }
            if http.pending_initialized.is_some() || (http.dialect == Dialect::Sse && http.endpoint.is_none()) {
                return;
            }
            if self.gate.is_paused(cx.now) && self.outbox.first_call().is_some_and(|key| self.keeps_pause(key)) {
                return self.watch_gate(cx);
            }
            // A call needs no slot, so the exchanges are counted only for other messages. These wait for a server that
            // is away.
            let has_slots = !self.outbox.begins_with_call() && !self.availability.is_away();
            let slots = if has_slots { http.free_slots() } else { FreeSlots::NONE };
            match self.outbox.pop_where(|out| slots.has_room_for(out), cx.ledger) {
                // A call that waited for `initialized` waits for the end of the pause now.
                Some(Out::Call(key)) if self.gate.is_paused(cx.now) && self.is_clients(key) => {
                    self.requeue(key, cx);
                }
                Some(Out::Call(key)) => self.post_call(key, cx),
                Some(Out::Text(text, method)) => {
                    let most = self.config.retry.attempts;
                    self.post_one_way(OneWay { text, method, lost: 0, most, challenged: None, until: cx.now }, cx);
                }
                None => return,
            }
        }
    }

    /// Lets the queued calls of clients wait in the queue, where their wait has a limit.
    fn requeue_unsent(&mut self, cx: &mut Cx<'_>) {
        let is_clients = |out: &Out| matches!(out, Out::Call(key) if self.calls.get(*key).is_some_and(|call| call.client().is_some()));
        let mut unsent = Vec::new();
        while let Some(Out::Call(key)) = self.outbox.pop_where(is_clients, cx.ledger) {
            unsent.push(key);
        }
        for key in unsent {
            self.requeue(key, cx);
        }
    }

    fn post_call(&mut self, key: Key, cx: &mut Cx<'_>) {
        let (Link::Http(http), Some(call)) = (&mut self.link, self.calls.get_mut(key)) else { return };
        if call.request.op == Op::Initialize {
            http.session.begin();
        }
        let headers = if call.request.is_modern() {
            let derived =
                headers::derive(&call.request.message).into_iter().map(|(name, value)| (name.into(), value.into()));
            derived.chain(http.params.headers(&call.request)).collect()
        } else {
            http.session_headers(call.request.op == Op::Initialize)
        };
        call.state = State::Sent(SentOver::Exchange);
        call.attempts += 1;
        call.attempt_started = cx.now;
        call.silence_limit = self.silence.limit(call.tool.as_ref());
        call.is_silent = false;
        call.begun = http.made + 1;
        call.is_out = true;
        self.gate.note_sent(call.name, cx.now);
        cx.emit(call.sent(self.id, key));
        let is_probe = matches!(
            call.owner,
            Owner::Us(
                InternalRequest::Probe
                    | InternalRequest::ProbeHandshake
                    | InternalRequest::Handshake
                    | InternalRequest::Silence
            )
        );
        let is_picky = !call.effect.is_repeatable() || call.sent_afresh || is_probe || call.first_try.is_some();
        let reuse = if is_picky { Reuse::Fresh } else { Reuse::Any };
        let body = Some(call.spliced(key));
        let request = HttpRequest { verb: Verb::Post, target: http.endpoint.clone(), headers, body };
        let has_deadline = call.attempt_deadline(&self.config).is_some() || call.is_sent_late(cx.now);
        http.begin(Exchange::new(Purpose::Call(key)), request, reuse, cx);
        if has_deadline {
            self.arm(key, cx);
        }
    }

    /// Drops the exchange of a call that is over. In the modern era aborting it cancels the call; in the legacy era a
    /// notification has cancelled it.
    pub(super) fn drop_exchange(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            http.abort_where(|purpose| *purpose == Purpose::Call(key), cx);
        }
    }

    /// Reverts a sent call that has no connection yet: the server cannot have received it. It is queued again, and the
    /// attempt does not count.
    pub(super) fn revert_unreached(&mut self, key: Key) {
        let is_unreached = self.is_unreached(key);
        if let Some(call) = self.calls.get_mut(key).filter(|_| is_unreached) {
            call.attempts -= 1;
            call.state = State::Queued;
        }
    }

    /// Returns whether a sent call has no connection yet.
    pub(super) fn is_unreached(&self, key: Key) -> bool {
        let Link::Http(http) = &self.link else { return false };
        let carries = |exchange: &&Exchange| exchange.purpose == Purpose::Call(key);
        let is_unreached = |exchange: &Exchange| !exchange.reached && !exchange.resumes;
        http.exchanges.values().map(|exchange| &**exchange).find(carries).is_some_and(is_unreached)
    }

    /// Closes the HTTP side. Notifications in flight, such as cancellations, may finish first, within a time limit;
    /// then the SSE stream and the session are closed.
    pub(super) fn close_http(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        http.release(cx);
        http.drop_look(cx);
        cx.disarm(&mut http.orphans_timer);
        cx.disarm(&mut http.one_way_timer);
        self.end_notices(cx);
        self.withdraw_server_requests(cx);
        let Link::Http(http) = &mut self.link else { return };
        http.abort_where(|purpose| !matches!(purpose, Purpose::OneWay | Purpose::SseStream), cx);
        http.close_state = CloseState::Flushing;
        self.close_session(cx);
        let Link::Http(http) = &mut self.link else { return };
        if http.open() > 0 {
            http.close_session = cx.wake_in(defaults::CLOSE_SESSION, Alarm::Close(self.id));
        }
    }

    /// Aborts the remaining exchanges and ends the session, once the notifications are sent.
    fn close_session(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let has_pending = || http.exchanges.values().any(|it| it.purpose == Purpose::OneWay);
        if http.close_state != CloseState::Flushing || has_pending() {
            return;
        }
        http.close_state = CloseState::ClosingSession;
        http.abort_where(|_| true, cx);
        if http.session.id().is_some() {
            let headers = http.session_headers(false);
            let request = HttpRequest { verb: Verb::Delete, target: None, headers, body: None };
            http.begin(Exchange::new(Purpose::CloseSession), request, Reuse::Any, cx);
        }
    }

    /// Aborts everything: the server did not accept the last messages in time.
    pub fn handle_close_timer(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            http.close_state = CloseState::ClosingSession;
            http.abort_where(|_| true, cx);
        }
    }
}
