//! What comes back of an exchange: a connection, a head, events, a body, and the messages in them.
//!
//! Messages are handed to [`crate::upstream::inbound`], where those of children go too. What is peculiar to HTTP is seen here
//! first: a status that says more than the error in its body, a session that is named or lost, an event that was heard before.

use std::time::Duration;

use mendline_wire::{Id, Kind, Message, Method, Received, ReceivedEvent, WireError, code, meta};

use crate::config::Dialect;
use crate::defaults;
use crate::event::{Dropped, Event, Over};
use crate::port::{Content, ExchangeId, Head};
use crate::slab::Key;
use crate::turn::Turn;
use crate::upstream::Upstream;
use crate::upstream::call::Owner;
use crate::upstream::internal::InternalRequest;
use crate::upstream::exchange::{Complaint, Purpose, first_words};

impl Upstream {
    pub fn handle_reached(&mut self, id: ExchangeId, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        exchange.reached = true;
        if http.dialect != Dialect::Sse {
            self.path_found(turn);
        }
        self.keep_moving(turn);
    }

    fn path_found(&mut self, turn: &mut Turn<'_>) {
        if self.link.handle_reached(Over::Http, turn) {
            match self.session.reinitialize() {
                // The pathfinder may be the handshake itself; then its answer opens the session.
                Some(handshake) if !self.session_initializes() => self.replay(handshake, turn),
                Some(_) => {}
                None => {
                    self.link.note_open(turn.now);
                    self.restore(turn);
                    self.promote(turn);
                    self.open_notices(turn);
                    // The session outlived the gap; what was said into it did not.
                    self.gap |= self.session.is_initialized() && self.shelves.age();
                    if !self.session.was_initialized() {
                        self.close_gap(turn);
                    }
                    self.announce(turn);
                }
            }
        }
    }

    fn session_initializes(&self) -> bool {
        self.runs(InternalRequest::Handshake)
    }

    pub fn handle_head(&mut self, id: ExchangeId, head: Head, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let is_sse = http.dialect == Dialect::Sse;
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        // An answer over a connection that was made long ago says nothing about whether another could be made now.
        let is_news = !std::mem::replace(&mut exchange.reached, true);
        exchange.status = Some(head.status);
        exchange.content = head.content;
        // A server names the session with its first response; one that resumes it may keep silent about it.
        exchange.session = head.session.or(exchange.session.take());
        exchange.retry_after = head.retry_after_ms.map(Duration::from_millis);
        let busy = exchange.retry_after.filter(|_| matches!(head.status, 429 | 503));
        let purpose = exchange.purpose;
        if let (Purpose::Call(key), Some(session)) = (purpose, &exchange.session)
            && let Some(call) = self.calls.get_mut(key)
        {
            call.stream.session = Some(session.clone());
            if call.method() == Method::Initialize && (200..300).contains(&head.status) {
                // What the server asks before it has answered the handshake is answered in this session already.
                http.early_session = Some(session.as_str().into());
            }
        }
        if let Some(hint) = busy {
            self.pause(hint, turn);
        }
        if is_news && !is_sse {
            self.path_found(turn);
        }
        if purpose == Purpose::Note {
            self.note_taken(id, head.status, turn);
        }
        self.keep_moving(turn);
    }

    pub fn handle_event(&mut self, id: ExchangeId, event: ReceivedEvent, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        let purpose = exchange.purpose;
        let retry = event
            .retry
            .map(|millis| Duration::from_millis(millis).clamp(defaults::RESUME_WAIT_MIN, defaults::RESUME_WAIT_MAX));
        let ReceivedEvent { id: event_id, endpoint, received, .. } = event;
        exchange.spoke |= received.is_some();
        match purpose {
            Purpose::Call(key) => {
                if let Some(call) = self.calls.get_mut(key)
                    && !call.stream.note(event_id, retry, received.is_some())
                {
                    // What only names an event again has nothing to be dropped.
                    if received.is_some() {
                        self.drop_message(Method::None, Dropped::Late, turn);
                    }
                    return;
                }
            }
            Purpose::Notices => {
                if !http.notices.stream.note(event_id, retry, received.is_some()) {
                    if received.is_some() {
                        self.drop_message(Method::None, Dropped::Late, turn);
                    }
                    return;
                }
            }
            Purpose::Trunk if endpoint.is_some() => {
                http.endpoint = endpoint;
                self.trunk_ready(turn);
                return self.keep_moving(turn);
            }
            Purpose::Trunk => {}
            Purpose::Note | Purpose::Goodbye | Purpose::Dropped => return,
        }
        if let Some(received) = received {
            self.handle_http_received(id, received, turn);
        }
        self.keep_moving(turn);
    }

    pub fn handle_body(&mut self, id: ExchangeId, received: Received, turn: &mut Turn<'_>) {
        self.handle_http_received(id, received, turn);
        self.keep_moving(turn);
    }

    fn handle_http_received(&mut self, id: ExchangeId, received: Received, turn: &mut Turn<'_>) {
        let Some(exchange) = self.http.as_mut().and_then(|http| http.exchanges.get_mut(&id)) else { return };
        let purpose = exchange.purpose;
        let refused = exchange.status.is_some_and(|status| status >= 400);
        let exchange_is_page = exchange.content != Content::Events;
        let is_mislabelled = exchange.content == Content::Other && matches!(received, Received::Message(_));
        if let Received::TooLong { .. } = received {
            exchange.unreadable = true;
        }
        if let Some(http) = &mut self.http
            && is_mislabelled
            && !std::mem::replace(&mut http.told_of_label, true)
        {
            turn.tell(Event::AnswerMislabelled { upstream: self.id });
        }
        match received {
            Received::Message(message) => self.handle_http_message(id, purpose, refused, message, turn),
            Received::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.handle_http_message(id, purpose, refused, message, turn),
                        Err(error) => self.handle_http_noise(id, &error, turn),
                    }
                }
            }
            Received::Broken { error, text } => {
                if exchange_is_page {
                    let page = first_words(&text, turn.quote);
                    if let Some(exchange) = self.http.as_mut().and_then(|http| http.exchanges.get_mut(&id)) {
                        exchange.page = page;
                    }
                }
                self.handle_http_noise(id, &error, turn);
            }
            Received::TooLong { .. } => {}
        }
    }

    /// Something that is no message. A body is judged with its exchange; an event may be one of many, so whom it names counts.
    fn handle_http_noise(&mut self, id: ExchangeId, error: &WireError, turn: &mut Turn<'_>) {
        let Some(exchange) = self.http.as_mut().and_then(|http| http.exchanges.get_mut(&id)) else { return };
        exchange.unreadable = true;
        if exchange.status.is_some_and(|status| status >= 400) {
            // What a server writes onto the page of a refusal is for people, not noise in a conversation.
            return;
        }
        let named = error.id.clone().filter(|_| exchange.content == Content::Events && !error.method_seen);
        if let Some(key) = self.find_named(named.clone()) {
            self.drop_exchange(key, turn);
        }
        self.handle_unreadable(named, &error.to_string(), turn);
    }

    fn handle_http_message(
        &mut self,
        id: ExchangeId,
        purpose: Purpose,
        refused: bool,
        message: Message,
        turn: &mut Turn<'_>,
    ) {
        let call = self.call_answered_by(purpose, &message);
        if let Some((key, Owner::Us(InternalRequest::Confirm))) = call {
            return self.confirmation_answered(id, key, &message, turn);
        }
        if let (Kind::Error, true, Purpose::Notices) = (message.kind(), refused, purpose)
            && let Some(exchange) = self.http.as_mut().and_then(|http| http.exchanges.get_mut(&id))
        {
            exchange.complaint = Some(Complaint::of(message, false, turn.quote));
            return;
        }
        if let (Kind::Error, Some((key, _))) = (message.kind(), call) {
            let named = message.id().and_then(|raw| Id::from_raw(raw).as_u64()) == Some(key.number());
            let again = self.calls.get(key).is_some_and(|call| call.refused_once);
            let complaint = Complaint::of(message.clone(), again, turn.quote);
            if self.says_session_lost(id, key, &complaint) {
                return self.refused_for_session(id, key, &complaint, turn);
            }
            // Said once it is a refusal, after which the call goes out again; said twice it is the server's answer.
            let headers_refused = refused && complaint.code == code::HEADER_MISMATCH && !complaint.again;
            if headers_refused && let Some(call) = self.calls.get_mut(key) {
                call.refused_once = true;
            }
            if headers_refused || (refused && !named) {
                if let Some(exchange) = self.http.as_mut().and_then(|http| http.exchanges.get_mut(&id)) {
                    exchange.complaint = Some(complaint);
                }
                return;
            }
        }
        if let (Purpose::Call(key), Kind::Result) = (purpose, message.kind())
            && let Some(call) = self.calls.get(key)
        {
            if call.method() == Method::Initialize {
                self.learn_session(id, &message);
            } else if let Some(http) = &mut self.http {
                http.speaks_modern = http.speaks_modern || meta::is_modern(&call.message);
            }
        }
        let message = self.learn_params(message, turn);
        let Some(http) = &self.http else { return };
        let is_stale = http.exchanges.get(&id).is_none_or(|exchange| exchange.life != http.life);
        let is_handshake = call.is_some_and(|(key, _)| self.is_handshake(key));
        if let (Some(http), true, false, false) = (&mut self.http, call.is_some(), is_stale, is_handshake) {
            http.note_session_answer();
        }
        if is_stale && message.kind() == Kind::Request {
            // Whoever asks in a session that is over would not know our answer.
            return self.drop_message(message.method(), Dropped::NoWay, turn);
        }
        let Some(link) = self.link.current() else { return };
        let confirmed = match purpose {
            Purpose::Call(key) if is_stale && message.kind() == Kind::Result => self.state_in(key),
            _ => None,
        };
        self.handle_message(link, message, turn);
        if let Some(confirmed) = confirmed {
            self.tell_again(confirmed, turn);
        }
    }

    /// The call that a response belongs to, and who made it: that of the exchange, or the one that it names where one
    /// stream carries the responses of all.
    fn call_answered_by(&self, purpose: Purpose, message: &Message) -> Option<(Key, Owner)> {
        if !matches!(message.kind(), Kind::Result | Kind::Error) {
            return None;
        }
        let key = match purpose {
            Purpose::Call(key) => key,
            Purpose::Trunk => Key::from_number(Id::from_raw(message.id()?).as_u64()?),
            _ => return None,
        };
        self.calls.get(key).map(|call| (key, call.owner))
    }

    fn is_handshake(&self, key: Key) -> bool {
        self.calls.get(key).is_some_and(|call| call.method() == Method::Initialize)
    }
}
