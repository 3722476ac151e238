//! An upstream over HTTP: what becomes an exchange, and what an exchange's facts mean.
//!
//! # How calls travel
//!
//! Streamable HTTP makes one POST per message; its answer comes back on the same exchange, as JSON or at the end of a stream
//! of events. A stream that breaks off after it has named an event is *resumed* by a GET, never sent again. Legacy SSE has one
//! long GET, the *trunk*, over which everything comes back; POSTs only go out. Which of the two a server speaks is found out
//! with the first call: a server that answers 400, 404 or 405 without a word of JSON-RPC is tried with the trunk.
//!
//! # When the link is up
//!
//! There is no wire to watch. While the upstream is not up, one exchange at a time goes out, the pathfinder; that a
//! connection carries it proves that the upstream can be reached. That an exchange is cut says nothing about the others.
//!
//! # The rest
//!
//! What a session is, how it is lost and made again is in [`session`]; streams of events are resumed in [`stream`]; [`trunk`]
//! is legacy SSE; [`notices`] is the GET for what a server says unasked.

mod notices;
mod session;
mod stream;
mod trunk;

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_wire::{Id, Kind, Message, Method, Received, Spliced, SseEvent, WireError, code, headers, meta};

use self::notices::Notices;
pub use self::stream::Stream;
use super::Upstream;
use super::call::{Owner, State, Way};
use super::exchange::{Circumstances, Complaint, Exchange, Purpose, Verdict, judge};
use super::link::Wish;
use super::outbox::Out;
use crate::config::Dialect;
use crate::defaults;
use crate::event::{Dropped, Event, LinkState};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::policy::backoff;
use crate::port::{Ask, Content, EndHow, ExchangeId, Head, Output, Reuse, UpstreamId, Verb, Written};
use crate::slab::Key;
use crate::timers::TimerId;
use crate::turn::{Alarm, Turn};
use crate::words::Cause;

/// The HTTP side of an upstream.
#[derive(Debug)]
pub struct Http {
    upstream: UpstreamId,
    dialect: Dialect,
    /// What the server said to a dialect that it does not speak, while the other is tried.
    refused: Option<String>,
    exchanges: BTreeMap<ExchangeId, Exchange>,
    made: u64,
    session: Option<String>,
    version: Option<String>,
    /// Counts the sessions that were lost.
    life: u32,
    /// `initialized` is on its way; a server may refuse what overtakes it.
    held_by: Option<ExchangeId>,
    held_until: Option<TimerId>,
    notices: Notices,
    /// Where a legacy SSE server wants its POSTs.
    endpoint: Option<String>,
    goodbye: Option<TimerId>,
}

impl Http {
    pub fn new(upstream: UpstreamId, dialect: Dialect) -> Self {
        Http {
            upstream,
            dialect,
            refused: None,
            exchanges: BTreeMap::new(),
            made: 0,
            session: None,
            version: None,
            life: 0,
            held_by: None,
            held_until: None,
            notices: Notices::default(),
            endpoint: None,
            goodbye: None,
        }
    }

    /// Exchanges under way.
    pub fn open(&self) -> usize {
        self.exchanges.len()
    }

    /// The session and the version as headers, as far as the greeting has settled them.
    fn session_headers(&self, greets: bool) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if !greets {
            headers.extend(self.session.clone().map(|session| (headers::SESSION_ID, session)));
            headers.extend(self.version.clone().map(|version| (headers::PROTOCOL_VERSION, version)));
        }
        headers
    }

    fn begin(&mut self, mut exchange: Exchange, ask: Ask, reuse: Reuse, turn: &mut Turn<'_>) -> ExchangeId {
        self.made += 1;
        exchange.life = self.life;
        let id = ExchangeId::new(self.upstream, self.made);
        exchange.session_named =
            ask.headers.iter().find(|(name, _)| *name == headers::SESSION_ID).map(|(_, session)| session.clone());
        self.exchanges.insert(id, exchange);
        turn.ask(Output::Exchange { exchange: id, upstream: self.upstream, ask, reuse });
        id
    }

    /// Gives an exchange up; its end is awaited and means nothing.
    fn abort(&mut self, id: ExchangeId, turn: &mut Turn<'_>) {
        if let Some(exchange) = self.exchanges.get_mut(&id)
            && exchange.purpose != Purpose::Dropped
        {
            exchange.purpose = Purpose::Dropped;
            turn.ask(Output::Abort { exchange: id });
        }
    }

    fn abort_where(&mut self, is_meant: impl Fn(&Purpose) -> bool, turn: &mut Turn<'_>) {
        let meant: Vec<ExchangeId> =
            self.exchanges.iter().filter(|(_, it)| is_meant(&it.purpose)).map(|(id, _)| *id).collect();
        for id in meant {
            self.abort(id, turn);
        }
    }

    /// `initialized` is no longer waited for.
    fn release(&mut self, turn: &mut Turn<'_>) {
        self.held_by = None;
        turn.disarm(&mut self.held_until);
    }

    fn trunk(&self) -> Option<ExchangeId> {
        self.exchanges.iter().find(|(_, it)| it.purpose == Purpose::Trunk).map(|(id, _)| *id)
    }

    /// Does a call look for a connection already? One that has had its connection for long finds nothing out.
    fn is_looking(&self) -> bool {
        self.exchanges.values().any(|it| matches!(it.purpose, Purpose::Call(_)) && !it.reached)
    }
}

impl Upstream {
    /// Does what the state of things allows: finds a path while there is none, sends what waits once there is.
    pub(super) fn keep_moving(&mut self, turn: &mut Turn<'_>) {
        if self.http.is_some() {
            self.find_path(turn);
            self.promote(turn);
            self.pump(turn);
        }
    }

    /// While the upstream is not up, exactly one exchange looks whether it can be reached.
    fn find_path(&mut self, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        if self.link.state() != LinkState::Dialing {
            return;
        }
        if http.dialect == Dialect::Sse {
            if http.trunk().is_none() {
                let ask = Ask { verb: Verb::Get, target: None, headers: Vec::new(), body: None };
                http.begin(Exchange::new(Purpose::Trunk), ask, Reuse::Fresh, turn);
                http.release(turn);
                http.held_until = turn.wake_in(self.config.timeouts.handshake, Alarm::Greeting(self.id));
            }
            return;
        }
        if http.is_looking() || self.outbox.len() > 0 {
            return;
        }
        if let Some(greeting) = self.session.greet_again() {
            return self.replay(greeting, turn);
        }
        match self.waiting.pop_front() {
            Some(key) => self.enqueue(key),
            // Nobody wants anything: the next call will look.
            None => self.link.rest(turn),
        }
    }

    /// Makes exchanges of everything that is queued.
    fn pump(&mut self, turn: &mut Turn<'_>) {
        loop {
            let Some(http) = &self.http else { return };
            if http.held_by.is_some() || (http.dialect == Dialect::Sse && http.endpoint.is_none()) {
                return;
            }
            match self.outbox.pop(turn.ledger) {
                Some(Out::Call(key)) => self.post_call(key, turn),
                Some(Out::Text(text, method)) => self.post_note(text, method, turn),
                None => return,
            }
        }
    }

    fn post_call(&mut self, key: Key, turn: &mut Turn<'_>) {
        let (Some(http), Some(call)) = (&mut self.http, self.calls.get_mut(key)) else { return };
        let headers = if meta::is_modern(&call.message) {
            headers::derive(&call.message)
        } else {
            http.session_headers(call.method() == Method::Initialize)
        };
        call.state = State::Sent(Way::Exchange);
        call.attempts += 1;
        turn.tell(Event::CallSent { upstream: self.id, call: call.name, attempt: call.attempts });
        let reuse = if call.effect.is_repeatable() { Reuse::Any } else { Reuse::Fresh };
        let body = Some(call.spliced(key));
        let ask = Ask { verb: Verb::Post, target: http.endpoint.clone(), headers, body };
        http.begin(Exchange::new(Purpose::Call(key)), ask, reuse, turn);
    }

    fn post_note(&mut self, text: Spliced, method: Method, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let headers = http.session_headers(false);
        let ask = Ask { verb: Verb::Post, target: http.endpoint.clone(), headers, body: Some(text) };
        let id = http.begin(Exchange::new(Purpose::Note), ask, Reuse::Any, turn);
        if method == Method::Initialized {
            http.held_by = Some(id);
            turn.disarm(&mut http.held_until);
            http.held_until = turn.wake_in(self.config.timeouts.handshake, Alarm::Greeting(self.id));
        }
    }

    /// Nobody waits for this call any more. In the modern era giving the exchange up is how it is cancelled; in the legacy
    /// era the server was told by a notification, and the exchange is only in the way.
    pub(super) fn drop_exchange(&mut self, key: Key, turn: &mut Turn<'_>) {
        if let Some(http) = &mut self.http {
            http.abort_where(|purpose| *purpose == Purpose::Call(key), turn);
        }
    }

    /// A call that was handed to the shell and has no connection yet cannot have been received. Whoever is about to end it
    /// takes it back first: it is as if it had never left the queue, and the attempt does not count.
    pub(super) fn take_back_unreached(&mut self, key: Key) {
        let (Some(http), Some(call)) = (&self.http, self.calls.get_mut(key)) else { return };
        let carries = |exchange: &&Exchange| exchange.purpose == Purpose::Call(key);
        let is_unreached = |exchange: &Exchange| !exchange.reached && !exchange.resumes;
        if http.exchanges.values().find(carries).is_some_and(is_unreached) {
            call.attempts -= 1;
            call.state = State::Queued;
        }
    }

    // ---- what the shell reports ----

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
        if self.link.handle_reached(turn) {
            match self.session.greet_again() {
                // The pathfinder may be the greeting itself; then its answer opens the session.
                Some(greeting) if !self.session_greets() => self.replay(greeting, turn),
                Some(_) => {}
                None => {
                    self.link.note_open(turn.now);
                    self.promote(turn);
                    self.open_notices(turn);
                }
            }
        }
    }

    fn session_greets(&self) -> bool {
        self.calls.iter().any(|(_, call)| call.owner == Owner::Session)
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
        let (purpose, named) = (exchange.purpose, exchange.session_named.clone());
        if let (Purpose::Call(key), Some(session)) = (purpose, &exchange.session)
            && let Some(call) = self.calls.get_mut(key)
        {
            call.stream.session = Some(session.clone());
        }
        if is_news && !is_sse {
            self.path_found(turn);
        }
        if purpose == Purpose::Note {
            self.note_taken(id, head.status, named.as_deref(), turn);
        }
        self.keep_moving(turn);
    }

    pub fn handle_event(&mut self, id: ExchangeId, event: SseEvent, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let Some(exchange) = http.exchanges.get_mut(&id) else { return };
        let purpose = exchange.purpose;
        let retry = event
            .retry
            .map(|millis| Duration::from_millis(millis).clamp(defaults::RESUME_WAIT_MIN, defaults::RESUME_WAIT_MAX));
        let data = event.data.filter(|data| !data.is_empty());
        exchange.spoke |= data.is_some();
        match purpose {
            Purpose::Call(key) => {
                if let Some(call) = self.calls.get_mut(key)
                    && !call.stream.note(event.id, retry, data.is_some())
                {
                    // What only names an event again has nothing to be dropped.
                    if data.is_some() {
                        self.drop_message(Method::None, Dropped::Late, turn);
                    }
                    return;
                }
            }
            Purpose::Notices => {
                http.notices.last_event = event.id.filter(|id| !id.is_empty()).or(http.notices.last_event.take());
                http.notices.retry = retry.or(http.notices.retry);
            }
            Purpose::Trunk if event.event.as_deref() == Some(b"endpoint") => {
                http.endpoint = data.map(|data| String::from_utf8_lossy(&data).into_owned());
                self.trunk_ready(turn);
                return self.keep_moving(turn);
            }
            Purpose::Trunk => {}
            Purpose::Note | Purpose::Goodbye | Purpose::Dropped => return,
        }
        if let Some(data) = data {
            self.handle_http_received(id, Received::from_text(data, &mendline_wire::Limits::default()), turn);
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
        let messages = match received {
            Received::Message(message) => vec![Ok(message)],
            Received::Batch(messages) => messages,
            Received::Broken { error, .. } => vec![Err(error)],
            Received::TooLong { .. } => {
                exchange.unreadable = true;
                return;
            }
        };
        for message in messages {
            match message {
                Ok(message) => self.handle_http_message(id, purpose, refused, message, turn),
                Err(error) => self.handle_http_noise(id, &error, turn),
            }
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
        if message.kind() == Kind::Error
            && let Purpose::Call(key) = purpose
        {
            let named = message.id().and_then(|raw| Id::from_raw(raw).as_u64()) == Some(key.number());
            let complaint = Complaint {
                code: message.get(&["code"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok()).unwrap_or(0),
                words: message.get_str(&["message"]).unwrap_or_default().chars().take(200).collect(),
            };
            let session_lost = self.speaks_of_a_lost_session(id, key, refused, named, &complaint);
            // Said once it is a refusal, after which the call goes out again; said twice it is the server's answer.
            let headers_refused = refused
                && complaint.code == code::HEADER_MISMATCH
                && self.calls.get_mut(key).is_some_and(|call| !std::mem::replace(&mut call.refused_once, true));
            if session_lost || headers_refused || (refused && !named) {
                if let Some(exchange) = self.http.as_mut().and_then(|http| http.exchanges.get_mut(&id)) {
                    exchange.complaint = Some(complaint);
                    if session_lost {
                        // However it said so: from here on it is what a 404 would have been.
                        exchange.status = Some(404);
                    }
                }
                return;
            }
        }
        if let Purpose::Call(key) = purpose
            && matches!(message.kind(), Kind::Result)
            && self.calls.get(key).is_some_and(|call| call.method() == Method::Initialize)
        {
            self.learn_session(id, &message);
        }
        let Some(http) = &self.http else { return };
        let is_stale = http.exchanges.get(&id).is_none_or(|exchange| exchange.life != http.life);
        if is_stale && message.kind() == Kind::Request {
            // Whoever asks in a session that is over would not know our answer.
            return self.drop_message(message.method(), Dropped::NoWay, turn);
        }
        let Some(link) = self.link.current() else { return };
        self.handle_message(link, message, turn);
    }

    pub fn handle_end(&mut self, id: ExchangeId, how: &EndHow, written: Written, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let Some(exchange) = http.exchanges.remove(&id) else { return };
        match exchange.purpose {
            Purpose::Note if http.held_by == Some(id) => {
                let words = match how {
                    EndHow::NoConnection(words) | EndHow::Cut(words) => words.clone(),
                    _ => "the server did not take `initialized`".to_owned(),
                };
                self.greeting_incomplete(words, turn);
            }
            Purpose::Call(key) => self.call_ended(key, &exchange, how, written, turn),
            Purpose::Note => self.note_ended(&exchange, how, turn),
            Purpose::Notices => self.notices_ended(&exchange, turn),
            Purpose::Trunk => self.trunk_ended(&exchange, how, turn),
            Purpose::Goodbye | Purpose::Dropped => {}
        }
        self.keep_moving(turn);
    }

    fn call_ended(&mut self, key: Key, exchange: &Exchange, how: &EndHow, written: Written, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(http) = &self.http else { return };
        let over_trunk = http.dialect == Dialect::Sse && http.trunk().is_some();
        if over_trunk && matches!((exchange.status, how), (Some(200..300), EndHow::Complete)) {
            // Taken; the answer comes over the trunk.
            return;
        }
        let resumable = !meta::is_modern(&call.message) && call.stream.tries < defaults::RESUME_ATTEMPTS;
        let around = Circumstances {
            last_event: call.stream.last_event.clone().filter(|_| resumable),
            session_worked: !call.refused_once && self.session.was_greeted(),
            undetermined: http.dialect == Dialect::Auto && !self.ever_answered,
            over_trunk,
        };
        let hinted = exchange.retry_after.unwrap_or_default();
        let unsent = call.unsent + 1;
        let verdict = judge(exchange, how, written, &around);
        if call.owner == Owner::Session {
            return self.greeting_failed(key, verdict, turn);
        }
        match verdict {
            Verdict::Settle(evidence, words) => {
                // What never gets there whole costs no attempt, so only its pauses keep it from being a storm.
                let pause = match evidence.outcome() {
                    Outcome::NotSent => backoff::redial(&self.config.reconnect, unsent, true, turn.dice),
                    _ => backoff::retry(call.attempts + 1, turn.dice),
                };
                let again = turn.now + hinted.max(pause);
                let greets = call.method() == Method::Initialize && evidence.outcome() == Outcome::Unknown;
                self.settle_saying(key, evidence, again, words, turn);
                self.sort_waiting();
                if greets && over_trunk {
                    // Nobody knows whether the server was greeted, and it must not be greeted twice.
                    self.drain_link("nobody knows whether the server was greeted", Wish::Ours, turn);
                }
                if exchange.resumes && exchange.status == Some(404) {
                    self.session_gone(exchange.session_named.as_deref(), turn);
                }
                self.promote(turn);
            }
            // The trunk stands, so it is not the upstream that is away, only a way for this one.
            Verdict::Unreachable(words) if over_trunk => {
                let again = turn.now + backoff::redial(&self.config.reconnect, unsent, true, turn.dice);
                self.settle_saying(key, Evidence::UNSENT, again, words, turn);
                self.sort_waiting();
            }
            Verdict::Unreachable(words) => {
                self.settle_saying(key, Evidence::UNSENT, turn.now, words.clone(), turn);
                self.sort_waiting();
                self.unreachable(words, false, turn);
            }
            Verdict::Forbidden(words) => {
                self.settle_saying(key, Evidence::UNSENT, turn.now, words.clone(), turn);
                self.unreachable(words, true, turn);
            }
            Verdict::SessionGone => {
                call.refused_once = true;
                let refused = Evidence { written, reply: Reply::SessionGone };
                let words = "the server has lost the session";
                self.settle_saying(key, refused, turn.now, words.into(), turn);
                self.sort_waiting();
                if over_trunk {
                    // The end of the trunk is on its way; what it was the end of is known already.
                    self.drop_trunk(turn);
                    self.unreachable(words.into(), false, turn);
                }
                self.session_gone(exchange.session_named.as_deref(), turn);
            }
            Verdict::Resume(_) => {
                call.stream.tries += 1;
                call.stream.resume_at = Some(turn.now + call.stream.retry.unwrap_or(defaults::RESUME_WAIT));
                self.arm(key, turn);
            }
            Verdict::OtherDialect(words) => self.try_other_dialect(key, words, turn),
            Verdict::NeedsLogin(words) => self.fail(key, Cause::NeedsLogin, Outcome::Refused, words, turn),
            Verdict::Final(words) => self.fail(key, Cause::CannotBridge, Outcome::Answered, words, turn),
        }
    }

    fn note_ended(&mut self, exchange: &Exchange, how: &EndHow, turn: &mut Turn<'_>) {
        if exchange.status.is_none() {
            self.drop_message(Method::None, Dropped::NoWay, turn);
            let over_trunk = self.http.as_ref().is_some_and(|http| http.trunk().is_some());
            if let (EndHow::NoConnection(words), false) = (how, over_trunk) {
                self.unreachable(words.clone(), false, turn);
            }
        }
    }

    fn unreachable(&mut self, words: String, hopeless: bool, turn: &mut Turn<'_>) {
        let called = !self.waiting.is_empty();
        self.link.handle_unreachable(words, hopeless, called, turn);
        self.give_up_if_parked(turn);
    }

    // ---- the end ----

    /// Ends everything over HTTP; a session is told goodbye.
    pub(super) fn close_http(&mut self, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        http.release(turn);
        self.end_notices(turn);
        self.withdraw_questions(turn);
        let Some(http) = &mut self.http else { return };
        http.abort_where(|_| true, turn);
        if http.session.is_some() {
            let headers = http.session_headers(false);
            let ask = Ask { verb: Verb::Delete, target: None, headers, body: None };
            http.begin(Exchange::new(Purpose::Goodbye), ask, Reuse::Any, turn);
            http.goodbye = turn.wake_in(defaults::GOODBYE, Alarm::Goodbye(self.id));
        }
    }

    pub fn handle_goodbye_timer(&mut self, turn: &mut Turn<'_>) {
        if let Some(http) = &mut self.http {
            http.abort_where(|_| true, turn);
        }
    }
}
