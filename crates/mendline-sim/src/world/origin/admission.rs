//! Which requests the HTTP server admits: by session, by version, by headers.

use bytes::Bytes;
use mendline_core::port::{Content, ExchangeEnd};
use mendline_wire::{Kind, Message, Method, headers};

use super::{VERSION, head};
use crate::exchange::{Part, PendingRequest};
use crate::network_faults::SessionLostReply;
use crate::server::{Era, Server, stateless::Stateless};
use crate::site::{Conversation, HttpServerKind, Site};
use crate::world::World;

impl World {
    /// Replies to a POST without a target, or to a conversation that is over.
    pub(super) fn reply_misdirected(&mut self, pending: &PendingRequest) {
        let has_no_target = pending.request.target.is_none();
        if let Some(exchange) = pending.exchange.and_then(|id| self.exchanges.get_mut(&id)) {
            (exchange.refuses, exchange.reports_session_lost) = (true, !has_no_target);
        }
        self.answer_status(pending.exchange, if has_no_target { 405 } else { 404 });
    }

    pub(super) fn receive_in_session(&mut self, upstream: usize, pending: PendingRequest, site: &Site) {
        let session = pending.request.header(headers::SESSION_ID).map(str::to_owned);
        let is_initialize = pending.message.as_ref().is_some_and(|message| message.method() == Method::Initialize);
        if is_initialize {
            let conversation = self.origins[upstream].next_conversation();
            if session.is_some() {
                self.record_violation(upstream, conversation, "received initialize with a session id");
            }
            let replayed = pending.key.is_some_and(|key| self.oracle.of(key).answers > 0);
            // A ping that was refused allows a handshake as a probe.
            let is_probe = std::mem::take(&mut self.origins[upstream].refused_ping);
            if replayed && !is_probe && self.origins[upstream].has_live_session() {
                self.record_violation(
                    upstream,
                    conversation,
                    "received a repeated initialize although the last session is valid",
                );
            }
            let server = self.fresh_server(upstream, conversation, HttpServerKind::Stateful);
            let name = format!("session-{upstream}-{conversation}");
            self.origins[upstream].conversations.insert(conversation, Conversation::new(server, Some(name)));
            return self.deliver(upstream, conversation, pending, site);
        }
        let Some(session) = session else {
            self.record_violation(upstream, 0, "received a message without a session id");
            return self.answer_status(pending.exchange, 400);
        };
        match self.origins[upstream].of_session(&session) {
            Some(conversation) => {
                self.check_version(upstream, conversation, &pending);
                self.deliver(upstream, conversation, pending, site);
            }
            None => self.reply_session_lost(upstream, &pending, site.session_lost_reply()),
        }
    }

    /// Replies to a request with an unknown session.
    pub(in crate::world) fn reply_session_lost(
        &mut self,
        upstream: usize,
        pending: &PendingRequest,
        session_lost_reply: SessionLostReply,
    ) {
        let exchange = pending.exchange;
        if let Some(it) = exchange.and_then(|id| self.exchanges.get_mut(&id)) {
            (it.refuses, it.reports_session_lost) = (true, true);
        }
        let request = pending.message.as_ref().filter(|message| message.kind() == Kind::Request);
        let id = request.and_then(Message::id).map_or("null".into(), |raw| String::from_utf8_lossy(raw).into_owned());
        let (status, id, code, text) = match session_lost_reply {
            SessionLostReply::InBody if request.is_some() => (200, id.as_str(), -32600, "Session not found"),
            SessionLostReply::BadRequest => (400, "null", -32000, "Bad Request: no valid session id"),
            SessionLostReply::NotFound | SessionLostReply::InBody => (404, "null", -32001, "Session not found"),
        };
        // Some servers explain a 404 and some do not; each does the same for all requests of one session. A 400 always
        // has a body: without one it does not name a session.
        let name = pending.request.header(headers::SESSION_ID).unwrap_or_default();
        let explains = status != 404 || name.bytes().map(u32::from).sum::<u32>() % 3 > 0;
        let content = if explains { Content::Json } else { Content::Empty };
        self.send_back(exchange, Part::Head(head(status, content)));
        if explains {
            let error = format!(r#"{{"code":{code},"message":"{text}"}}"#);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            // If it is repeated for one call, it is the answer of the server.
            self.record_reply(upstream, pending.key, Bytes::from(error));
            self.send_back(exchange, Part::Body(Bytes::from(body)));
        }
        self.send_back(exchange, Part::End(ExchangeEnd::Complete));
    }

    pub(in crate::world) fn check_version(&mut self, upstream: usize, conversation: u32, pending: &PendingRequest) {
        let is_initialize = pending.message.as_ref().is_some_and(|message| message.method() == Method::Initialize);
        let sent = pending.request.header(headers::PROTOCOL_VERSION);
        // A client that resumes the answer to `initialize` does not know the negotiated version yet.
        let resumes_initialize = sent.is_none() && pending.request.header(headers::LAST_EVENT_ID).is_some();
        if sent != Some(VERSION) && !is_initialize && !resumes_initialize {
            self.record_violation(
                upstream,
                conversation,
                &format!("received a request with the protocol version {sent:?}"),
            );
        }
    }

    pub(super) fn check_modern_headers(&mut self, upstream: usize, conversation: u32, pending: &PendingRequest) {
        let Some(message) = &pending.message else { return };
        let mut wrong = Vec::new();
        for (name, value) in headers::derive(message) {
            if pending.request.header(name) != Some(value.as_str()) {
                wrong.push(name);
            }
        }
        if pending.request.header(headers::SESSION_ID).is_some() {
            wrong.push(headers::SESSION_ID);
        }
        if !wrong.is_empty() {
            self.record_violation(
                upstream,
                conversation,
                &format!("received headers that do not match the body: {wrong:?}"),
            );
        }
    }

    /// Returns whether a call has the parameter header of its tool. A wrong header is a violation.
    pub(super) fn has_the_params(&mut self, upstream: usize, conversation: u32, pending: &PendingRequest) -> bool {
        let Some(message) = pending.message.as_ref().filter(|message| message.method() == Method::ToolsCall) else {
            return true;
        };
        let text =
            message.get_str(&["arguments", "text"]).filter(|_| message.get(&["name"]) == Some(b"\"create_note\""));
        let sent = pending.request.header("mcp-param-text");
        let wanted = text.as_deref().map(headers::encode_value);
        if sent.is_some() && sent != wanted.as_deref() {
            self.record_violation(
                upstream,
                conversation,
                &format!("received a header that does not match its argument: {sent:?}"),
            );
        }
        sent == wanted.as_deref()
    }

    pub(super) fn refuse_headers(&mut self, upstream: usize, pending: &PendingRequest) {
        if let Some(it) = pending.exchange.and_then(|id| self.exchanges.get_mut(&id)) {
            it.refuses = true;
        }
        let id = pending.message.as_ref().and_then(Message::id).unwrap_or(b"null");
        let error = r#"{"code":-32020,"message":"Header mismatch: Mcp-Param-Text"}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, String::from_utf8_lossy(id));
        // If it is repeated for one call, it is the answer of the server.
        self.record_reply(upstream, pending.key, Bytes::from(error));
        self.send_back(pending.exchange, Part::Head(head(400, Content::Json)));
        self.send_back(pending.exchange, Part::Body(Bytes::from(body)));
        self.send_back(pending.exchange, Part::End(ExchangeEnd::Complete));
    }

    pub(super) fn only_conversation(&mut self, upstream: usize, kind: HttpServerKind) -> u32 {
        if let Some(conversation) = self.origins[upstream].conversations.keys().next_back() {
            return *conversation;
        }
        let conversation = self.origins[upstream].next_conversation();
        let server = self.fresh_server(upstream, conversation, kind);
        self.origins[upstream].conversations.insert(conversation, Conversation::new(server, None));
        conversation
    }

    pub(in crate::world) fn fresh_server(
        &mut self,
        upstream: usize,
        conversation: u32,
        kind: HttpServerKind,
    ) -> Server {
        let host = &self.hosts[upstream];
        let (profile, rng) = (host.profile.clone(), host.rng.fork(1_000 + u64::from(conversation)));
        let server = match kind {
            HttpServerKind::Stateless => Server::with_rules(Box::new(Stateless), conversation, profile, rng),
            HttpServerKind::Modern => Server::new(Era::Modern, conversation, profile, rng),
            HttpServerKind::Stateful | HttpServerKind::Sse => Server::new(Era::Legacy, conversation, profile, rng),
        };
        server.over_http()
    }
}
