//! The HTTP server: admits or rejects requests, and sends what its conversations write.
//!
//! The kinds of servers differ in what they admit: a session, an SSE stream, or any request. [`crate::server`] handles
//! a message as it does for a child. A server that receives what Mendline must never send (a missing session id,
//! headers that do not match the body) answers as real servers do and records a violation.

mod admission;
mod ends;

use std::time::Duration;

use bytes::Bytes;
use mendline_core::evidence::proves_refusal;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId, Head, Verb};
use mendline_core::reason::CutReason;
use mendline_wire::{Kind, Message, Method, code, headers};

use super::World;
use crate::clock::Due;
use crate::exchange::{Part, PendingRequest, Request};
use crate::fact::{Fact, Via};
use crate::network_faults::{Cut, InjectedResponse, Rejection};
use crate::server::{Action, ReplyStream};
use crate::site::{Form, HttpServerKind, Site, Stream};

/// The protocol version of the clients.
const VERSION: &str = "2025-11-25";
/// The interval at which a busy server looks for requests.
const BUSY_POLL: Duration = Duration::from_millis(100);

impl World {
    /// Processes a complete request at the server, or at a proxy in front of it.
    pub(super) fn request_arrives(&mut self, upstream: usize, number: u32) {
        if self.hosts[upstream].faults.ignores_stdin {
            // The server is busy and reads the request later.
            return self.clock.after(BUSY_POLL, Due::RequestArrives(upstream, number));
        }
        let Some(mut pending) = self.origins[upstream].in_transit.remove(&number) else { return };
        let Some(site) = self.hosts[upstream].site.clone() else { return };
        // An aborted exchange receives no response.
        pending.exchange = pending.exchange.filter(|id| self.exchanges.get(id).is_some_and(|it| !it.is_closed()));
        if let (Some(chance), Some(exchange)) = (site.faults.refuses_streams, pending.exchange)
            && self.rng.percent(chance)
        {
            return self.refuse(exchange);
        }
        if let (Some((Cut::Response | Cut::Eof, chance)), Some(exchange)) = (site.faults.cut, pending.exchange)
            && self.rng.percent(chance)
        {
            let eof = matches!(site.faults.cut, Some((Cut::Eof, _)));
            let reason = if eof { CutReason::ClosedWithoutAnswer } else { CutReason::Reset };
            // The server may have read the request before the connection broke.
            if eof || self.rng.percent(60) {
                pending.exchange = None;
                self.origin_receives(upstream, pending, &site);
            }
            return self.cut(exchange, reason);
        }
        let is_request = pending.message.as_ref().is_some_and(|message| message.kind() == Kind::Request);
        if let (Some((injected, chance)), Verb::Post) = (site.faults.injected, pending.request.verb)
            && injected.applies_to(site.kind, is_request)
            && site.faults.injected_tool.is_none_or(|tool| is_call_of(pending.message.as_ref(), tool))
            && self.rng.percent(chance)
        {
            let exchange = pending.exchange;
            let is_ping = pending.message.as_ref().is_some_and(|message| message.method() == Method::Ping);
            let is_refusal = matches!(injected, InjectedResponse::Status(400 | 404, _));
            self.origins[upstream].refused_ping |= is_ping && is_refusal;
            let is_harmless = matches!(injected, InjectedResponse::Status(it, _) if site.harmless.contains(&it));
            if let Some(it) = exchange.and_then(|id| self.exchanges.get_mut(&id)) {
                it.harmless = is_harmless && injected.may_hide_execution();
            }
            if injected.may_hide_execution() && self.rng.percent(40) && !is_harmless {
                pending.exchange = None;
                self.origin_receives(upstream, pending, &site);
            }
            return self.send_injected(exchange, injected);
        }
        self.origin_receives(upstream, pending, &site);
    }

    /// Refuses all requests in transit, as GOAWAY does.
    pub fn send_goaway(&mut self, upstream: usize) {
        for pending in std::mem::take(&mut self.origins[upstream].in_transit).into_values() {
            if let Some(exchange) = pending.exchange {
                self.refuse(exchange);
            }
        }
    }

    /// Rejects a request by its head, if the fault applies.
    fn rejects(&mut self, upstream: usize, pending: &PendingRequest, site: &Site) -> bool {
        let (Some((why, chance)), Some(message)) = (site.faults.rejection, &pending.message) else { return false };
        let applies = match why {
            Rejection::NoSuchMethod => message.method() == Method::Other,
            Rejection::HeaderMismatch => site.kind == HttpServerKind::Modern,
        };
        if message.kind() != Kind::Request || !applies || !self.rng.percent(chance) {
            return false;
        }
        let (status, code, text) = match why {
            Rejection::NoSuchMethod => (404, -32601, "method not found"),
            Rejection::HeaderMismatch => (400, code::HEADER_MISMATCH, "headers and body differ"),
        };
        if let (Rejection::HeaderMismatch, Some(it)) =
            (why, pending.exchange.and_then(|id| self.exchanges.get_mut(&id)))
        {
            it.refuses = true;
        }
        let id = String::from_utf8_lossy(message.id().unwrap_or_default());
        let error = format!(r#"{{"code":{code},"message":"{text}"}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        // If it is repeated for one call, it is the answer of the server.
        self.record_reply(upstream, pending.key, Bytes::from(error));
        self.send_back(pending.exchange, Part::Head(head(status, Content::Json)));
        self.send_back(pending.exchange, Part::Body(Bytes::from(body)));
        self.send_back(pending.exchange, Part::End(ExchangeEnd::Complete));
        true
    }

    /// Sends an injected response.
    fn send_injected(&mut self, exchange: Option<ExchangeId>, injected: InjectedResponse) {
        match injected {
            InjectedResponse::Status(status, wait) => {
                if let Some(it) = exchange.and_then(|id| self.exchanges.get_mut(&id)) {
                    it.refuses |= proves_refusal(status);
                    it.overloaded |= status == 503 && wait.is_some();
                }
                let retry_after_ms = wait.map(|seconds| seconds * 1_000);
                let head = Head { retry_after_ms, ..head(status, Content::Empty) };
                self.send_back(exchange, Part::Head(head));
            }
            InjectedResponse::Html => {
                self.send_back(exchange, Part::Head(head(200, Content::Other)));
                let page = Bytes::from_static(b"<!doctype html><title>Welcome</title>");
                self.send_back(exchange, Part::Body(page));
            }
        }
        self.send_back(exchange, Part::End(ExchangeEnd::Complete));
    }

    fn origin_receives(&mut self, upstream: usize, pending: PendingRequest, site: &Site) {
        if self.refuses_credential(upstream, &pending) {
            return;
        }
        match (site.kind, pending.request.verb) {
            (HttpServerKind::Sse, Verb::Get) => self.open_sse_stream(upstream, &pending, site),
            (HttpServerKind::Sse, Verb::Post) => match self.of_target(upstream, &pending.request) {
                Some(conversation) => self.deliver(upstream, conversation, pending, site),
                None => self.reply_misdirected(&pending),
            },
            (HttpServerKind::Stateful, Verb::Post) => self.receive_in_session(upstream, pending, site),
            (HttpServerKind::Stateful, Verb::Get) => self.receive_get(upstream, &pending, site),
            (HttpServerKind::Stateful, Verb::Delete) => {
                let conversation =
                    pending.request.header(headers::SESSION_ID).and_then(|it| self.origins[upstream].of_session(it));
                if let Some(conversation) =
                    conversation.and_then(|conversation| self.origins[upstream].conversations.get_mut(&conversation))
                {
                    conversation.known = false;
                }
                self.answer_status(pending.exchange, if conversation.is_some() { 200 } else { 404 });
            }
            (HttpServerKind::Stateless | HttpServerKind::Modern, Verb::Post) => {
                if self.rejects(upstream, &pending, site) {
                    return;
                }
                let conversation = self.only_conversation(upstream, site.kind);
                if site.kind == HttpServerKind::Modern {
                    // The stream was closed before the request was read: that is a cancellation.
                    if pending.exchange.is_none() && self.rng.percent(50) {
                        return;
                    }
                    self.check_modern_headers(upstream, conversation, &pending);
                    if !self.has_the_params(upstream, conversation, &pending) && site.faults.requires_param_headers {
                        return self.refuse_headers(upstream, &pending);
                    }
                } else {
                    self.check_version(upstream, conversation, &pending);
                }
                self.deliver(upstream, conversation, pending, site);
            }
            (HttpServerKind::Stateless | HttpServerKind::Modern | HttpServerKind::Sse, Verb::Get | Verb::Delete) => {
                if site.kind == HttpServerKind::Modern {
                    self.record_violation(
                        upstream,
                        0,
                        &format!("received a {:?}, which does not exist in its era", pending.request.verb),
                    );
                }
                self.answer_status(pending.exchange, 405);
            }
        }
    }

    fn deliver(&mut self, upstream: usize, number: u32, pending: PendingRequest, site: &Site) {
        let PendingRequest { exchange, message: Some(message), key, .. } = pending else {
            self.record_violation(upstream, number, "received a POST without a message");
            return self.answer_status(pending.exchange, 400);
        };
        if let Some(key) = key {
            self.record(&Fact::Read { by: Via::Conversation(upstream, number), key, message: &message });
        }
        let faults = self.hosts[upstream].faults.clone();
        let is_request = message.kind() == Kind::Request;
        let form = self.form_of(upstream, site, &message);
        let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) else { return };
        conversation.used |= is_request && message.method() != Method::Initialize;
        let over_sse_stream = site.kind == HttpServerKind::Sse;
        let reply_to = if is_request && !over_sse_stream {
            let session = conversation.session.clone().filter(|_| message.method() == Method::Initialize);
            let stream = conversation.open(Stream { session, key, ..Stream::new(form, exchange) });
            ReplyStream { stream, allows_interim: form != Form::Json }
        } else {
            ReplyStream::PIPE
        };
        if is_request && !over_sse_stream {
            if form != Form::Json {
                self.begin_stream(upstream, number, reply_to.stream, message.method(), site);
            }
        } else {
            self.answer_status(exchange, 202);
        }
        let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) else { return };
        let actions = conversation.server.receive(&message, key, reply_to, &faults);
        self.perform_in(upstream, number, actions);
    }

    pub(super) fn conversation_continues(&mut self, upstream: usize, number: u32, job: u32) {
        let faults = self.hosts[upstream].faults.clone();
        let Some(conversation) = self.origins[upstream].conversations.get_mut(&number) else { return };
        let actions = conversation.server.continue_job(job, &faults);
        self.perform_in(upstream, number, actions);
    }

    /// Executes the actions of a conversation.
    pub fn perform_in(&mut self, upstream: usize, number: u32, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Write(stream, line) => self.write_to_stream(upstream, number, stream, line, false),
                Action::Request(stream, line) => {
                    let stream = self.notice_stream_or(upstream, number, stream, 30);
                    self.write_to_stream(upstream, number, stream, line, false);
                }
                Action::Notify(stream, line, _) => {
                    let stream = self.notice_stream_or(upstream, number, stream, 70);
                    self.write_to_stream(upstream, number, stream, line, false);
                }
                Action::Answer(stream, line, key, body) => {
                    self.record_reply(upstream, key, body);
                    self.write_to_stream(upstream, number, stream, line, true);
                }
                // A malformed event may be repeated over the same stream.
                Action::WriteMalformed(stream, line) => {
                    let ends = self.form(upstream, number, stream) == Some(Form::Json);
                    self.write_to_stream(upstream, number, stream, line, ends);
                }
                Action::Run(key) => self.record_run(Via::Conversation(upstream, number), key),
                Action::Continue(job, wait) => {
                    self.clock.after(wait, Due::ConversationContinues(upstream, number, job));
                }
                Action::Violation(text) => self.record_violation(upstream, number, &text),
            }
        }
    }

    /// Returns the conversation of a POST target, while its SSE stream is open.
    fn of_target(&self, upstream: usize, request: &Request) -> Option<u32> {
        let number = request.target.as_deref()?.strip_prefix("/messages?s=")?.parse().ok()?;
        self.origins[upstream].conversations.get(&number).filter(|conversation| conversation.known).map(|_| number)
    }

    pub(super) fn answer_status(&mut self, exchange: Option<ExchangeId>, status: u16) {
        self.send_back(exchange, Part::Head(head(status, Content::Empty)));
        self.send_back(exchange, Part::End(ExchangeEnd::Complete));
    }

    fn record_violation(&mut self, upstream: usize, conversation: u32, text: &str) {
        self.record(&Fact::ServerViolation { by: Via::Conversation(upstream, conversation), text });
    }
}

/// Returns whether a request calls this tool.
fn is_call_of(message: Option<&Message>, tool: &str) -> bool {
    message.is_some_and(|message| {
        message.method() == Method::ToolsCall && message.get_str(&["name"]).as_deref() == Some(tool)
    })
}

pub(super) fn head(status: u16, content: Content) -> Head {
    Head { status, content, session: None, retry_after_ms: None, challenge: None }
}
