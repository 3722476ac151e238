//! The response of an exchange: connection, head, events, body, and the messages in them.
//!
//! Messages go to [`crate::upstream::inbound`], like those of children. This module handles what is specific to HTTP:
//! the status, the session, and replayed events.

use std::time::Duration;

use mendline_wire::{Id, Kind, Message, Method, Received, ReceivedEvent, WireError, code};

use crate::config::Dialect;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Dropped, Event, LinkState, Over};
use crate::port::{Content, ExchangeId, Head};
use crate::request::Op;
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::Owner;
use crate::upstream::exchange::{ErrorBody, Purpose, first_words};
use crate::upstream::inbound::number_of_other_type;
use crate::upstream::internal::InternalRequest;
use crate::upstream::link::Link;
use crate::upstream::probing::proves_availability;

/// What becomes of an error that answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorBodyUse {
    /// It is handled.
    Taken,
    /// It is the answer, but it may be the refusal of every request.
    Doubted,
    Answer,
}

impl Upstream {
    pub fn handle_reached(&mut self, id: ExchangeId, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        exchange.reached = true;
        // The end of an unused session begins no new one.
        let is_unused = exchange.purpose == Purpose::CloseSession && http.supervisor.state() == LinkState::Idle;
        if http.dialect != Dialect::Sse && !is_unused {
            self.handle_reachable(cx);
        }
    }

    pub(in crate::upstream) fn handle_reachable(&mut self, cx: &mut Cx<'_>) {
        // A connection does not prove that a server is back that accepted connections while it was away or needed a login.
        let over = if self.has_sse_stream() { Over::Sse } else { Over::Http };
        if !self.availability.needs_proof() && self.link.handle_reached(over, cx) {
            match self.session.reinitialize() {
                // The probe may be the handshake itself; then its answer opens the session.
                Some(handshake) if !self.session_initializes() => self.replay(handshake, cx),
                Some(_) => {}
                None => {
                    self.link.note_open(cx.now);
                    self.restore(cx);
                    self.open_notices(cx);
                    // The session survived the outage; notifications during it are lost.
                    if self.session.is_initialized() {
                        self.lists.note_outage();
                    }
                    if !self.session.was_initialized() {
                        self.lists.set_may_read();
                    }
                }
            }
        }
    }

    fn session_initializes(&self) -> bool {
        self.runs(InternalRequest::Handshake)
    }

    pub fn handle_head(&mut self, id: ExchangeId, head: Head, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let is_sse = http.dialect == Dialect::Sse;
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        // An answer over an old connection does not prove that the server is reachable now.
        let is_new = !std::mem::replace(&mut exchange.reached, true);
        exchange.status = Some(head.status);
        exchange.content = head.content;
        // A server names the session in its first response; a resumed one may omit it.
        exchange.session = head.session.or(exchange.session.take());
        exchange.retry_after = head.retry_after_ms.map(Duration::from_millis);
        exchange.challenge = head.challenge;
        let pause_hint = exchange.retry_after.filter(|_| matches!(head.status, 429 | 503));
        let is_unavailable = head.status == 503;
        let purpose = exchange.purpose;
        if let (Purpose::Call(key), Some(session)) = (purpose, &exchange.session)
            && let Some(call) = self.calls.get_mut(key)
        {
            call.stream.session = Some(session.clone());
            if call.request.op == Op::Initialize && (200..300).contains(&head.status) {
                http.session.note_early(session);
            }
        }
        if let (Purpose::Call(key), 200..300) = (purpose, head.status)
            && self.calls.get_mut(key).is_some_and(|call| call.challenged.take().is_some())
        {
            http.credential.note_accepted();
        }
        self.note_byte(purpose, cx);
        if let Some(hint) = pause_hint {
            self.pause(hint, is_unavailable, cx);
        }
        if is_new && !is_sse {
            self.handle_reachable(cx);
        }
        if let (Purpose::Notices, Link::Http(http)) = (purpose, &mut self.link) {
            http.note_get(id, cx.now);
        }
        if purpose == Purpose::OneWay {
            self.note_accepted(id, head.status, cx);
        }
    }

    pub fn handle_response_bytes(&mut self, id: ExchangeId, cx: &mut Cx<'_>) {
        if let Some(exchange) = self.link.http().and_then(|http| http.exchanges.get(&id)) {
            self.note_byte(exchange.purpose, cx);
        }
    }

    pub fn handle_event(&mut self, id: ExchangeId, event: ReceivedEvent, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        let purpose = exchange.purpose;
        let retry = event
            .retry
            .map(|millis| Duration::from_millis(millis).clamp(defaults::RESUME_WAIT_MIN, defaults::RESUME_WAIT_MAX));
        let ReceivedEvent { id: event_id, endpoint, received, .. } = event;
        exchange.has_message |= received.is_some();
        match purpose {
            Purpose::Call(key) => {
                self.end_silence(key, cx);
                if let Some(call) = self.calls.get_mut(key)
                    && !call.stream.note(event_id, retry, received.is_some())
                {
                    // A repeated event id without a message is not dropped.
                    if received.is_some() {
                        self.drop_message(Method::None, Dropped::Late, cx);
                    }
                    return;
                }
            }
            Purpose::Notices if endpoint.is_some() => return http.note_offered_sse(),
            Purpose::Notices => {
                if !http.notices.stream.note(event_id, retry, received.is_some()) {
                    if received.is_some() {
                        self.drop_message(Method::None, Dropped::Late, cx);
                    }
                    return;
                }
            }
            Purpose::SseStream if endpoint.is_some() => {
                http.endpoint = endpoint;
                self.sse_stream_ready(cx);
                return;
            }
            Purpose::SseStream => {}
            Purpose::Look => {
                match endpoint {
                    Some(endpoint) => self.sse_found(id, endpoint, cx),
                    // The endpoint is the first event of an SSE stream.
                    None if received.is_some() => self.look_failed(true, cx),
                    None => {}
                }
                return;
            }
            Purpose::OneWay | Purpose::CloseSession | Purpose::Dropped => return,
        }
        if let Some(received) = received {
            self.handle_http_received(id, received, cx);
        }
    }

    pub fn handle_body(&mut self, id: ExchangeId, received: Received, cx: &mut Cx<'_>) {
        self.handle_http_received(id, received, cx);
    }

    fn handle_http_received(&mut self, id: ExchangeId, received: Received, cx: &mut Cx<'_>) {
        let Some(exchange) = self.link.http_mut().and_then(|http| http.exchanges.get_mut(&id)) else { return };
        let purpose = exchange.purpose;
        if purpose == Purpose::Look {
            // Only the endpoint of an event stream counts.
            return;
        }
        let refused = exchange.status.is_some_and(|status| status >= 400);
        let exchange_is_page = exchange.content != Content::Events;
        let is_mislabelled = exchange.content == Content::Other && matches!(received, Received::Message(_));
        if let Received::TooLong { .. } = received {
            exchange.unreadable = true;
        }
        if let Link::Http(http) = &mut self.link
            && is_mislabelled
            && !std::mem::replace(&mut http.content_type_reported, true)
        {
            cx.emit(Event::ContentTypeMismatch { upstream: self.id });
        }
        match received {
            Received::Message(message) => self.handle_http_message(id, purpose, refused, message, cx),
            Received::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.handle_http_message(id, purpose, refused, message, cx),
                        Err(error) => self.handle_http_noise(id, &error, cx),
                    }
                }
            }
            Received::Broken { error, text } => {
                if exchange_is_page {
                    let page = first_words(&text, cx.quote);
                    if let Some(exchange) = self.link.http_mut().and_then(|http| http.exchanges.get_mut(&id)) {
                        exchange.page = page;
                    }
                }
                self.handle_http_noise(id, &error, cx);
            }
            Received::TooLong { .. } => {}
        }
    }

    /// Handles text that is no message. A body is judged with its exchange; an event harms only the call that it names.
    fn handle_http_noise(&mut self, id: ExchangeId, error: &WireError, cx: &mut Cx<'_>) {
        let Some(exchange) = self.link.http_mut().and_then(|http| http.exchanges.get_mut(&id)) else { return };
        exchange.unreadable = true;
        if exchange.status.is_some_and(|status| status >= 400) {
            // The body of a refusal is a page for people, not noise.
            return;
        }
        let named = error.id.clone().filter(|_| exchange.content == Content::Events && !error.method_seen);
        if let Some(key) = self.find_named(named.clone()) {
            self.drop_exchange(key, cx);
        }
        self.handle_unreadable(named, &error.to_string(), cx);
    }

    fn handle_http_message(
        &mut self,
        id: ExchangeId,
        purpose: Purpose,
        refused: bool,
        message: Message,
        cx: &mut Cx<'_>,
    ) {
        if message.kind() == Kind::Error && self.keeps_for_credential(id, purpose, &message, cx) {
            return;
        }
        let call = self.call_answered_by(purpose, &message);
        match call {
            Some((key, Owner::Us(InternalRequest::Confirm))) => {
                return self.confirmation_answered(id, key, &message, cx);
            }
            Some((key, Owner::Us(InternalRequest::ProbeHandshake))) => {
                if let Link::Http(http) = &mut self.link {
                    http.leave(id, cx);
                }
                return self.probe_handshake_answered(id, key, message, cx);
            }
            _ => {}
        }
        let is_probe = matches!(call, Some((_, Owner::Us(InternalRequest::Probe))));
        if message.kind() == Kind::Error && refused && self.keeps_for_end(id, purpose, is_probe, &message, cx) {
            return;
        }
        let mut is_doubted = false;
        if let (Kind::Error, Some((key, _))) = (message.kind(), call) {
            match self.handle_error_body(id, key, refused, &message, cx) {
                ErrorBodyUse::Taken => return,
                ErrorBodyUse::Doubted => is_doubted = true,
                ErrorBodyUse::Answer => {}
            }
        }
        if let (Purpose::Call(key), Kind::Result) = (purpose, message.kind()) {
            self.learn_from_result(id, key, &message);
        }
        let message = self.learn_params(message, cx);
        self.pass_message(id, purpose, call.map(|(key, _)| key), is_doubted, message, cx);
    }

    /// Keeps an error in the body of a refused credential that can be renewed: it is no answer. Returns whether it does.
    fn keeps_for_credential(&mut self, id: ExchangeId, purpose: Purpose, message: &Message, cx: &Cx<'_>) -> bool {
        let is_renewable = self.credential_kind().is_renewable();
        let Some(exchange) = self.link.http_mut().and_then(|http| http.exchanges.get_mut(&id)) else { return false };
        let is_kept = is_renewable && matches!(purpose, Purpose::Call(_)) && exchange.is_refused_for_credential();
        if is_kept {
            exchange.error_body = Some(ErrorBody::of(message.clone(), false, cx.quote));
        }
        is_kept
    }

    /// Keeps an error in the body of a refusal until the exchange ends, if its end decides. Returns whether it does.
    fn keeps_for_end(
        &mut self,
        id: ExchangeId,
        purpose: Purpose,
        is_probe: bool,
        message: &Message,
        cx: &Cx<'_>,
    ) -> bool {
        let Some(exchange) = self.link.http_mut().and_then(|http| http.exchanges.get_mut(&id)) else { return false };
        // For a probe the session or the method is unknown.
        let is_kept = purpose == Purpose::Notices || (is_probe && matches!(exchange.status, Some(400 | 404)));
        if is_kept {
            exchange.error_body = Some(ErrorBody::of(message.clone(), false, cx.quote));
        }
        is_kept
    }

    /// Handles an error that answers a call: it may report a lost session, another transport or refused headers.
    fn handle_error_body(
        &mut self,
        id: ExchangeId,
        key: Key,
        refused: bool,
        message: &Message,
        cx: &mut Cx<'_>,
    ) -> ErrorBodyUse {
        let named = message.id().and_then(|raw| Id::from_raw(raw).as_u64()) == Some(key.number());
        let refused_before = self.calls.get(key).is_some_and(|call| call.refused_once);
        let error_body = ErrorBody::of(message.clone(), refused_before, cx.quote);
        if self.reports_session_lost(id, key, &error_body) {
            self.refused_for_session(id, key, &error_body, cx);
            return ErrorBodyUse::Taken;
        }
        let is_doubted = self.doubts_transport(id, key, &error_body, named, cx.now);
        if is_doubted && self.doubt_error(id, key, &error_body, cx) {
            return ErrorBodyUse::Taken;
        }
        // The first such error is a refusal, and the call is sent again; the second is the server's answer.
        let headers_refused = refused && error_body.code == code::HEADER_MISMATCH && !error_body.refused_before;
        if headers_refused && let Some(call) = self.calls.get_mut(key) {
            call.refused_once = true;
        }
        if headers_refused || (refused && !named) {
            if let Some(exchange) = self.link.http_mut().and_then(|http| http.exchanges.get_mut(&id)) {
                exchange.error_body = Some(error_body);
            }
            return ErrorBodyUse::Taken;
        }
        if is_doubted { ErrorBodyUse::Doubted } else { ErrorBodyUse::Answer }
    }

    /// Learns the session from a handshake, and the era from any other result.
    fn learn_from_result(&mut self, id: ExchangeId, key: Key, message: &Message) {
        let Some(call) = self.calls.get(key) else { return };
        if call.request.op == Op::Initialize {
            self.learn_session(id, message);
        } else if let Link::Http(http) = &mut self.link {
            http.supports_modern = http.supports_modern || call.request.is_modern();
        }
    }

    /// Passes a message on to where messages of every transport are handled.
    fn pass_message(
        &mut self,
        id: ExchangeId,
        purpose: Purpose,
        call: Option<Key>,
        is_doubted: bool,
        message: Message,
        cx: &mut Cx<'_>,
    ) {
        let Link::Http(http) = &self.link else { return };
        let is_stale = http.exchanges.get(&id).is_none_or(|exchange| exchange.session_number != http.session.number());
        let is_handshake = call.is_some_and(|key| self.is_handshake(key));
        let is_other = is_stale || is_handshake || is_doubted;
        if let (Link::Http(http), true, false) = (&mut self.link, call.is_some(), is_other) {
            http.note_session_answer();
        }
        if is_stale && message.kind() == Kind::Request {
            // A request in an ended session cannot be answered.
            return self.drop_message(message.method(), Dropped::Undeliverable, cx);
        }
        let Some(link) = self.link.current() else { return };
        let confirmed = match purpose {
            Purpose::Call(key) if is_stale && message.kind() == Kind::Result => self.state_in(key),
            _ => None,
        };
        if let Some(key) = call
            && self.calls.get(key).is_some_and(|call| proves_availability(call, &message))
        {
            self.note_response(key, cx);
        }
        let carried =
            if let Purpose::Call(key) = purpose { Some(self.key_of_repeated(key).unwrap_or(key)) } else { None };
        self.handle_message(link, carried, message, cx);
        if let Some(confirmed) = confirmed {
            self.restore_again(confirmed, cx);
        }
    }

    /// The call of a response, and its owner: that of the exchange, or on an SSE stream the one that the response
    /// names.
    fn call_answered_by(&self, purpose: Purpose, message: &Message) -> Option<(Key, Owner)> {
        if !matches!(message.kind(), Kind::Result | Kind::Error) {
            return None;
        }
        let key = match purpose {
            Purpose::Call(key) => self.key_of_repeated(key).unwrap_or(key),
            Purpose::SseStream => {
                let id = message.id()?;
                Key::from_number(Id::number_in(id).or_else(|| number_of_other_type(id))?)
            }
            _ => return None,
        };
        self.calls.get(key).map(|call| (key, call.owner))
    }

    pub(in crate::upstream) fn is_handshake(&self, key: Key) -> bool {
        self.calls.get(key).is_some_and(|call| call.request.op == Op::Initialize)
    }
}
