//! An upstream over HTTP: what becomes an exchange, and what an exchange's facts mean.
//!
//! # How calls travel
//!
//! Streamable HTTP makes one POST per message; its answer comes back on the same exchange, as JSON or at the end of a stream
//! of events. A stream that breaks off after it has named an event is *resumed* by a GET, never sent again. Legacy SSE has one
//! long GET, the *SSE stream*, over which everything comes back; POSTs only go out. Which of the two a server speaks is found out
//! with the first call: a server that answers 400, 404 or 405 without a word of JSON-RPC is tried with the SSE stream.
//!
//! # When the link is up
//!
//! There is no wire to watch. While the upstream is not up, one exchange at a time goes out, the probe; that a
//! connection carries it proves that the upstream can be reached. That an exchange is cut says nothing about the others.
//!
//! # The rest
//!
//! What comes back of an exchange is in [`heard`], what becomes of one that ended without its answer in [`ends`]. What a session is, how it is lost and made again is in [`session`]; streams of events are resumed in [`stream`]; [`sse_stream`]
//! is legacy SSE; whether a session is lost is found out in [`session_loss`]; [`notes`] is what goes out besides calls;
//! [`notices`] is the GET for what a server says unasked; [`params`] is which arguments become headers.

mod ends;
mod notices;
mod one_way;
mod params;
mod received;
mod session;
mod session_loss;
mod sse_stream;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use mendline_wire::{Method, headers, meta};

use self::notices::Notices;
use self::params::Params;
pub use self::session_loss::Refusal;
use self::session_loss::{RefusedPings, Suspicion};
pub use self::stream::Stream;
use super::Upstream;
use super::call::{SentOver, State};
use super::exchange::{Exchange, OneWay, Purpose};
use super::outbox::Out;
use crate::config::Dialect;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::LinkState;
use crate::port::{ExchangeId, HttpRequest, Output, Reuse, UpstreamId, Verb};
use crate::reason::Reason;
use crate::slab::Key;
use crate::timers::TimerId;

/// The HTTP side of an upstream.
#[derive(Debug)]
pub struct Http {
    upstream: UpstreamId,
    /// What was configured, and what is spoken as far as is known.
    configured: Dialect,
    dialect: Dialect,
    /// What the server said to a dialect that it does not speak, while the other is tried.
    refused: Option<Reason>,
    /// In boxes, because a tree that is emptied and filled again with every call had better have small nodes.
    exchanges: BTreeMap<ExchangeId, Box<Exchange>>,
    made: u64,
    session: Option<Arc<str>>,
    /// The session that the head of a handshake's response named, until the handshake is answered.
    early_session: Option<Arc<str>>,
    version: Option<Arc<str>>,
    /// A modern request has been answered well.
    speaks_modern: bool,
    /// It has been said that its answers are not labelled as what they are.
    content_type_reported: bool,
    /// Counts the sessions that were lost.
    session_number: u32,
    /// The session that was confirmed to be lost last, by the same count.
    lost_session: Option<u32>,
    /// The current session has answered something beside its handshake.
    has_answered: bool,
    /// The current session is said to be lost, and a ping finds out.
    suspicion: Option<Suspicion>,
    refused_pings: RefusedPings,
    /// The one whose loss the budget for retries has paid for.
    paid_for: Option<u32>,
    /// `initialized` is on its way; a server may refuse what overtakes it.
    held_by: Option<ExchangeId>,
    held_until: Option<TimerId>,
    /// When the next note has had time enough to be taken.
    one_way_timer: Option<TimerId>,
    notices: Notices,
    /// Which arguments of which tools are repeated as headers.
    params: Params,
    /// Where a legacy SSE server wants its POSTs.
    endpoint: Option<String>,
    /// When posts whose SSE stream is gone are no longer waited for.
    orphans_timer: Option<TimerId>,
    /// How far we are with leaving, and until when that may take.
    close_state: CloseState,
    close_session: Option<TimerId>,
}

/// How far we are with leaving a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CloseState {
    /// We stay.
    #[default]
    Not,
    /// What was said last is still on its way.
    Flushing,
    /// Nothing is said any more but session close.
    ClosingSession,
}

impl Http {
    pub fn new(upstream: UpstreamId, dialect: Dialect) -> Self {
        Http {
            upstream,
            configured: dialect,
            dialect,
            refused: None,
            exchanges: BTreeMap::new(),
            made: 0,
            session: None,
            early_session: None,
            version: None,
            speaks_modern: false,
            content_type_reported: false,
            session_number: 0,
            lost_session: None,
            has_answered: false,
            suspicion: None,
            refused_pings: RefusedPings::default(),
            paid_for: None,
            held_by: None,
            held_until: None,
            one_way_timer: None,
            notices: Notices::default(),
            params: Params::default(),
            endpoint: None,
            orphans_timer: None,
            close_state: CloseState::default(),
            close_session: None,
        }
    }

    /// It is at another place now, of which nothing is known.
    pub fn reset(&mut self, dialect: Dialect) {
        (self.configured, self.dialect, self.refused) = (dialect, dialect, None);
        (self.speaks_modern, self.content_type_reported) = (false, false);
        (self.params, self.endpoint) = (Params::default(), None);
        self.refused_pings = RefusedPings::default();
    }

    /// Exchanges under way.
    pub fn open(&self) -> usize {
        self.exchanges.len()
    }

    /// The session and the version as headers, as far as the handshake has settled them.
    fn session_headers(&self, is_initialize: bool) -> Vec<(Cow<'static, str>, Arc<str>)> {
        let mut headers = Vec::new();
        if !is_initialize {
            headers.reserve(2);
            let session = self.session.clone().or_else(|| self.early_session.clone());
            headers.extend(session.map(|session| (headers::SESSION_ID.into(), session)));
            headers.extend(self.version.clone().map(|version| (headers::PROTOCOL_VERSION.into(), version)));
        }
        headers
    }

    fn begin(&mut self, mut exchange: Exchange, request: HttpRequest, reuse: Reuse, cx: &mut Cx<'_>) -> ExchangeId {
        self.made += 1;
        exchange.session_number = self.session_number;
        let id = ExchangeId::new(self.upstream, self.made);
        exchange.session_named =
            request.headers.iter().find(|(name, _)| *name == headers::SESSION_ID).map(|(_, session)| session.clone());
        self.exchanges.insert(id, Box::new(exchange));
        cx.output(Output::Exchange { exchange: id, upstream: self.upstream, request: Box::new(request), reuse });
        id
    }

    /// Gives an exchange up; its end is awaited and means nothing.
    fn abort(&mut self, id: ExchangeId, cx: &mut Cx<'_>) {
        if let Some(exchange) = self.exchanges.get_mut(&id)
            && exchange.purpose != Purpose::Dropped
        {
            exchange.purpose = Purpose::Dropped;
            cx.output(Output::Abort { exchange: id });
        }
    }

    fn abort_where(&mut self, is_meant: impl Fn(&Purpose) -> bool, cx: &mut Cx<'_>) {
        let meant: Vec<ExchangeId> =
            self.exchanges.iter().filter(|(_, it)| is_meant(&it.purpose)).map(|(id, _)| *id).collect();
        for id in meant {
            self.abort(id, cx);
        }
    }

    /// `initialized` is no longer waited for.
    fn release(&mut self, cx: &mut Cx<'_>) {
        self.held_by = None;
        cx.disarm(&mut self.held_until);
    }

    /// Is this the POST of a call whose SSE stream is gone?
    fn is_orphan(&self, exchange: &Exchange) -> bool {
        let posts = matches!(exchange.purpose, Purpose::Call(_));
        posts && self.dialect == Dialect::Sse && exchange.session_number != self.session_number
    }

    fn sse_stream(&self) -> Option<ExchangeId> {
        self.exchanges.iter().find(|(_, it)| it.purpose == Purpose::SseStream).map(|(id, _)| *id)
    }

    /// Does a call look for a connection already? One that has had its connection for long finds nothing out.
    fn is_probing(&self) -> bool {
        self.exchanges.values().any(|it| matches!(it.purpose, Purpose::Call(_)) && !it.reached)
    }
}

impl Upstream {
    /// Does what the state of things allows: finds a path while there is none, sends what waits once there is.
    pub(super) fn advance_http(&mut self, cx: &mut Cx<'_>) {
        if self.http.is_some() {
            self.start_probe(cx);
            self.promote(cx);
            self.pump(cx);
        }
    }

    /// While the upstream is not up, exactly one exchange looks whether it can be reached.
    fn start_probe(&mut self, cx: &mut Cx<'_>) {
        let Some(http) = &mut self.http else { return };
        if self.link.state() != LinkState::Dialing {
            return;
        }
        if http.dialect == Dialect::Sse {
            if http.sse_stream().is_none() {
                let request = HttpRequest { verb: Verb::Get, target: None, headers: Vec::new(), body: None };
                http.begin(Exchange::new(Purpose::SseStream), request, Reuse::Fresh, cx);
                http.release(cx);
                http.held_until = cx.wake_in(self.config.timeouts.handshake, Alarm::Handshake(self.id));
            }
            return;
        }
        let slots = http.free_slots();
        if http.is_probing() || self.outbox.any(|out| slots.has_room_for(out)) {
            return;
        }
        if let Some(handshake) = self.session.reinitialize() {
            return self.replay(handshake, cx);
        }
        if !self.waiting.is_empty() && !self.gate.is_open(cx.now) {
            return self.watch_gate(cx);
        }
        match self.waiting.pop_front() {
            Some(key) => self.start_call(key, cx),
            // Nobody wants anything. In a session there may be news, so it is looked for; else the next call will look.
            None if self.session.is_initialized() && self.config.keep_alive.is_some() => self.ping(cx),
            None if !self.session.was_initialized() && self.read_old_list(cx) => {}
            None => self.link.go_idle(cx),
        }
    }

    /// Makes exchanges of everything that is queued, as far as there is room for it.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        while !self.outbox.is_empty() {
            let Some(http) = &self.http else { return };
            if http.held_by.is_some() || (http.dialect == Dialect::Sse && http.endpoint.is_none()) {
                return;
            }
            let slots = http.free_slots();
            match self.outbox.pop_where(|out| slots.has_room_for(out), cx.ledger) {
                // A call that waited for `initialized` in vain: now it waits for the end of the pause.
                Some(Out::Call(key)) if self.gate.is_paused(cx.now) && self.is_clients(key) => {
                    self.put_back(key, cx);
                    self.sort_waiting();
                }
                Some(Out::Call(key)) => self.post_call(key, cx),
                Some(Out::Text(text, method)) => {
                    let most = self.config.retry.attempts;
                    self.post_one_way(OneWay { text, method, lost: 0, most, until: cx.now }, cx);
                }
                None => return,
            }
        }
    }

    fn post_call(&mut self, key: Key, cx: &mut Cx<'_>) {
        let (Some(http), Some(call)) = (&mut self.http, self.calls.get_mut(key)) else { return };
        if call.method() == Method::Initialize {
            http.early_session = None;
        }
        let headers = if meta::is_modern(&call.message) {
            let derived = headers::derive(&call.message).into_iter().map(|(name, value)| (name.into(), value.into()));
            derived.chain(http.params.headers(&call.message)).collect()
        } else {
            http.session_headers(call.method() == Method::Initialize)
        };
        call.state = State::Sent(SentOver::Exchange);
        call.attempts += 1;
        call.attempt_started = cx.now;
        call.is_out = true;
        self.gate.note_sent(call.name, cx.now);
        cx.emit(call.sent(self.id, key));
        let is_picky = !call.effect.is_repeatable() || call.misdirected_once;
        let reuse = if is_picky { Reuse::Fresh } else { Reuse::Any };
        let body = Some(call.spliced(key));
        let request = HttpRequest { verb: Verb::Post, target: http.endpoint.clone(), headers, body };
        http.begin(Exchange::new(Purpose::Call(key)), request, reuse, cx);
    }

    /// Nobody waits for this call any more. In the modern era giving the exchange up is how it is cancelled; in the legacy
    /// era the server was told by a notification, and the exchange is only in the way.
    pub(super) fn drop_exchange(&mut self, key: Key, cx: &mut Cx<'_>) {
        if let Some(http) = &mut self.http {
            http.abort_where(|purpose| *purpose == Purpose::Call(key), cx);
        }
    }

    /// A call that was handed to the shell and has no connection yet cannot have been received. Whoever is about to end it
    /// takes it back first: it is as if it had never left the queue, and the attempt does not count.
    pub(super) fn revert_unreached(&mut self, key: Key) {
        let (Some(http), Some(call)) = (&self.http, self.calls.get_mut(key)) else { return };
        let carries = |exchange: &&Exchange| exchange.purpose == Purpose::Call(key);
        let is_unreached = |exchange: &Exchange| !exchange.reached && !exchange.resumes;
        let mut exchanges = http.exchanges.values().map(|exchange| &**exchange);
        if exchanges.find(carries).is_some_and(is_unreached) {
            call.attempts -= 1;
            call.state = State::Queued;
        }
    }

    /// Ends everything over HTTP, but for what was said last: that a call is cancelled, above all. A server that has been told
    /// session close, or whose SSE stream is gone, would have no use for it, so these wait for it; not for long.
    pub(super) fn close_http(&mut self, cx: &mut Cx<'_>) {
        let Some(http) = &mut self.http else { return };
        http.release(cx);
        cx.disarm(&mut http.orphans_timer);
        cx.disarm(&mut http.one_way_timer);
        self.end_notices(cx);
        self.withdraw_questions(cx);
        let Some(http) = &mut self.http else { return };
        http.abort_where(|purpose| !matches!(purpose, Purpose::OneWay | Purpose::SseStream), cx);
        http.close_state = CloseState::Flushing;
        self.close_session(cx);
        let Some(http) = &mut self.http else { return };
        if http.open() > 0 {
            http.close_session = cx.wake_in(defaults::CLOSE_SESSION, Alarm::Close(self.id));
        }
    }

    /// Gives up what is left, and ends the session, if there is one; once all that was to be said has been.
    fn close_session(&mut self, cx: &mut Cx<'_>) {
        let Some(http) = &mut self.http else { return };
        let has_pending = || http.exchanges.values().any(|it| it.purpose == Purpose::OneWay);
        if http.close_state != CloseState::Flushing || has_pending() {
            return;
        }
        http.close_state = CloseState::ClosingSession;
        http.abort_where(|_| true, cx);
        if http.session.is_some() {
            let headers = http.session_headers(false);
            let request = HttpRequest { verb: Verb::Delete, target: None, headers, body: None };
            http.begin(Exchange::new(Purpose::CloseSession), request, Reuse::Any, cx);
        }
    }

    /// A server that has not taken our stderr tail by now will not take a session close either.
    pub fn handle_close_timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(http) = &mut self.http {
            http.close_state = CloseState::ClosingSession;
            http.abort_where(|_| true, cx);
        }
    }
}
