//! Messages of a server: answers, progress, requests, notifications and noise.
//!
//! Answers are matched by our numbers. A late, unknown or retyped id is recognised here, so an answer never ends
//! another call. Text that is not protocol is skipped and logged, and harms at most the call that it names.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use mendline_wire::{Id, Kind, Message, Method, Patch, Received, Spliced, code, meta};

use super::Upstream;
use super::call::{Call, Owner, SentOver, State};
use super::health::Health;
use super::internal::InternalRequest;
use super::link::EndedBy;
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::{ClientEvent, NoticeAbout};
use crate::event::{Answered, Dropped, Event};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::list_cache::error_code;
use crate::policy::backoff;
use crate::policy::retry::{self, Loss, RetryDecision};
use crate::policy::rule::Rule;
use crate::port::{LinkId, Written};
use crate::reason::{HandshakeError, LossReason, Reason};
use crate::request::{ListKind, Op};
use crate::slab::Key;
use crate::words::{self, Cause};

impl Upstream {
    pub fn handle_received(&mut self, link: LinkId, received: Received, cx: &mut Cx<'_>) {
        if self.link.current() != Some(link) {
            return;
        }
        match received {
            Received::Message(message) => self.handle_message(link, None, message, cx),
            Received::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.handle_message(link, None, message, cx),
                        Err(error) => self.handle_unreadable(error.id.clone(), &error.to_string(), cx),
                    }
                }
            }
            Received::Broken { error, text } => {
                let id = if error.method_seen { None } else { error.id.clone() };
                let what = format!("{} ({error})", cx.quote.quote(&text, defaults::QUOTED));
                self.handle_unreadable(id, &what, cx);
            }
            Received::TooLong { length, id, .. } => self.handle_too_long(length, id, cx),
        }
    }

    /// Handles a message of the server. Over HTTP it may come in the response to this call.
    pub(super) fn handle_message(&mut self, link: LinkId, call: Option<Key>, message: Message, cx: &mut Cx<'_>) {
        self.keep_alive.note_received(cx.now);
        match (message.kind(), message.method()) {
            (Kind::Result | Kind::Error, _) => self.handle_response(message, cx),
            (Kind::Request, _) => self.route_server_request(link, call, message, cx),
            (Kind::Notification, Method::Progress) => self.handle_progress(message, cx),
            (Kind::Notification, Method::Cancelled) => self.handle_cancelled(link, message, cx),
            (Kind::Notification, method) => {
                if method == Method::ToolsListChanged {
                    self.tools_changed(cx);
                }
                match method {
                    Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged => {
                        self.list_change_reported(message, cx);
                    }
                    Method::MessageNotice => self.handle_log_message(call, message, cx),
                    _ => self.handle_notice(message, cx),
                }
            }
        }
    }

    /// Handles an answer. Calls succeed nowhere else.
    fn handle_response(&mut self, message: Message, cx: &mut Cx<'_>) {
        let Some((key, attempt)) = self.find_answered(&message, cx) else { return };
        self.cancel_slower_attempt(key, attempt, cx);
        self.note_answer(key, &message, cx);
        let is_error = message.kind() == Kind::Error;
        if self.dead_connection_answers > 0 && self.retries_dead_connection(key, cx) {
            return self.replace_dead_bridge(cx);
        }
        if is_error && self.retries_error(key, &message, cx) {
            return;
        }
        if self.dead_connection_answers == 0 {
            let health = self.health_of_tool(key, &message);
            self.note_health(key, health, cx);
        }
        let Some(call) = self.take(key, cx) else { return };
        match call.owner {
            Owner::Us(internal) => self.internal_answered(internal, &call.request, &message, cx),
            Owner::Client { client, request } => {
                self.retries.earn();
                self.gate.note_answer(self.config.limits.in_flight);
                self.note_credential_answered();
                let message = without_our_facts(&message).unwrap_or(message);
                let message = match call.request.op {
                    Op::List(_) => self.list_for_client(&call, message, cx),
                    _ => message,
                };
                let is_error = message.kind() == Kind::Error;
                self.silence.note_answer(call.tool.as_ref(), cx.now.since(call.attempt_started));
                if !is_error {
                    self.learn(&call, &message, cx);
                } else if call.request.op == Op::Discover {
                    self.cache(&call.request, &message, cx);
                }
                cx.emit(Event::CallAnswered {
                    upstream: self.id,
                    call: call.name,
                    method: call.method(),
                    tool: call.tool.clone(),
                    attempts: call.attempts,
                    result: answered(&call, &message),
                    took: cx.now.since(call.arrived),
                    attempt_took: cx.now.since(call.attempt_started),
                });
                if call.request.op == Op::Initialize && !is_error {
                    self.complete_resumed_handshake(client, cx);
                }
                cx.send_to_client(client, ClientEvent::Answer { request, message });
            }
        }
        if self.session.has_to_restore() {
            self.restore(cx);
        }
        self.lists.set_may_read();
        self.watch(cx);
        self.replace_dead_bridge(cx);
    }

    /// Ends a bridge that only answers that its own connection is dead.
    fn replace_dead_bridge(&mut self, cx: &mut Cx<'_>) {
        if self.dead_connection_answers >= defaults::DEAD_CONNECTION_ANSWERS {
            self.dead_connection_answers = 0;
            self.drain_link(LossReason::DeadBridge.into(), EndedBy::Us, cx);
        }
    }

    /// Sends a repeatable call again that a bridge answered with its dead connection: until the bridge is replaced, and
    /// to the next one.
    fn retries_dead_connection(&mut self, key: Key, cx: &mut Cx<'_>) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        let is_retried = matches!(call.owner, Owner::Client { .. })
            && call.effect.is_repeatable()
            && call.policy(&self.config).retry.attempts > 1
            && call.uncounted < defaults::DEAD_CONNECTION_ANSWERS;
        if !is_retried {
            return false;
        }
        let pause = backoff::retry(&call.policy(&self.config).retry, call.uncounted + 2, cx.rng);
        call.uncounted += 1;
        let why = Reason::from(LossReason::DeadBridge);
        self.end_attempt(key, Evidence::SILENCE, &why, cx);
        self.resend(key, Evidence::SILENCE, cx.now + pause, why, self.retries.last_link_lost(), cx)
    }

    /// Records an answer. An answer that only reports a dead connection comes from a bridge without its server: it is
    /// no sign of health, and after a few of these the child is replaced. Over HTTP nothing could be replaced.
    fn note_answer(&mut self, key: Key, answer: &Message, cx: &mut Cx<'_>) {
        let is_served = self
            .calls
            .get(key)
            .is_some_and(|call| matches!(call.owner, Owner::Client { .. }) && call.request.op != Op::Initialize);
        if self.link.can_be_restarted() && reports_dead_connection(answer) {
            self.dead_connection_answers += 1;
            self.link.note_unhealthy();
        } else {
            self.dead_connection_answers = 0;
            self.link.note_answer(is_served, cx);
        }
    }

    /// The health of the tool that gave this answer. Errors of the client say nothing about it.
    fn health_of_tool(&self, key: Key, answer: &Message) -> Option<Health> {
        let is_counted =
            || self.calls.get(key).is_some_and(|call| self.gate.tool_breakers().counts_tool_errors(&call.request));
        match answer.kind() {
            Kind::Error => (error_code(answer) == Some(code::INTERNAL_ERROR)).then_some(Health::Unhealthy),
            _ if is_counted() && is_tool_error(answer) => Some(Health::Unhealthy),
            _ => Some(Health::Healthy),
        }
    }

    /// Retries some errors, for example an internal error of a read. It costs an attempt and budget.
    fn retries_error(&mut self, key: Key, answer: &Message, cx: &mut Cx<'_>) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        let code = error_code(answer).unwrap_or_default();
        let policy = &call.policy(&self.config).retry;
        let may_repeat = matches!(call.owner, Owner::Client { .. })
            && retry::decide(Loss::Error(code), call.effect, policy) == RetryDecision::Charged
            && call.counted() < retry::attempts_after(code, policy)
            && !self.is_blocked(call, cx.now)
            && self.retries.try_spend(cx.now);
        let Some(call) = self.calls.get_mut(key).filter(|_| may_repeat) else { return false };
        let policy = &call.policy(&self.config).retry;
        let not_before = cx.now + backoff::retry(policy, call.attempts + 1, cx.rng);
        // It may have run: the next attempt cannot undo that.
        call.worst_outcome = call.worst_outcome.max(retry::outcome_of_error(code, policy));
        let was_out = std::mem::take(&mut call.is_out);
        let (name, attempt) = (call.name, call.attempts + 1);
        self.gate.note_waits(name);
        let policy = &call.policy(&self.config).retry;
        let (method, tool, most) = (call.method(), call.tool.clone(), policy.attempts);
        let rule = if policy.codes.contains_key(&code) { Rule::ConfiguredCode } else { Rule::InternalError };
        let (upstream, outcome, why) = (self.id, Outcome::Answered, Reason::ErrorCode { code });
        cx.emit(Event::AttemptEnded {
            upstream,
            call: name,
            tool: tool.clone(),
            attempt: attempt - 1,
            outcome,
            evidence: Evidence { written: Written::Whole, reply: Reply::Response },
            why: why.clone(),
        });
        cx.emit(Event::CallRetried { upstream, call: name, method, tool, attempt, most, outcome, rule, why, was_out });
        if let Some(key) = self.calls.rename(key) {
            self.calls.wait(key, cx.now, not_before);
            self.disarm(key, cx);
            self.arm(key, cx);
        }
        // Its slot is free until then; without a backoff it is sent now.
        true
    }

    fn find_answered(&mut self, message: &Message, cx: &mut Cx<'_>) -> Option<(Key, Key)> {
        let id = message.id().unwrap_or(b"null");
        let number = Id::number_in(id).map(|number| (number, false));
        let Some((number, is_retyped)) = number.or_else(|| number_of_other_type(id).map(|number| (number, true)))
        else {
            let why = if id == b"null" { Dropped::WithoutId } else { Dropped::Unknown };
            self.drop_message(Method::None, why, cx);
            return None;
        };
        let answered = Key::from_number(number);
        let key = self.key_of_repeated(answered).unwrap_or(answered);
        match self.calls.get(key) {
            // The first attempt was faster than the second one could be sent.
            Some(call) if key != answered && call.state == State::Queued => {
                self.outbox.remove(key);
                if let Some(call) = self.calls.get_mut(key) {
                    call.state = State::Sent(SentOver::Exchange);
                }
                Some((key, answered))
            }
            // An answer to a call that was not sent is unknown.
            Some(call) if matches!(call.state, State::Sent(_)) => {
                if is_retyped {
                    cx.emit(Event::IdTypeRepaired { upstream: self.id, call: call.name });
                }
                Some((key, answered))
            }
            _ => {
                let why = if self.calls.was_issued(key) { Dropped::Late } else { Dropped::Unknown };
                self.drop_message(Method::None, why, cx);
                None
            }
        }
    }

    /// Learns from an answer: lists, handshake, log level, subscriptions.
    fn learn(&mut self, call: &Call, answer: &Message, cx: &mut Cx<'_>) {
        match call.request.op {
            Op::Initialize => {
                self.lists.note_own_handshake();
                self.session.note_ready();
                self.cache_handshake(&call.request, answer, cx);
                self.session.learn_handshake(call.client(), call.request.clone(), answer.clone());
            }
            Op::CallTool => {}
            op => {
                if op == Op::List(ListKind::Tools) && self.config.trust_hints {
                    self.tools.learn(answer, call.request.message.find(&["cursor"]).is_none());
                    self.note_hints(cx);
                }
                let are_several = self.clients.are_several();
                let changed = self.lists.learn(&call.request, answer, call.attempt_started, are_several);
                if let (Some(kind), Some(reader)) = (changed, call.client()) {
                    self.notify_others(reader, kind, cx);
                }
                self.cache(&call.request, answer, cx);
                self.session.learn(&call.request);
                if let Some(client) = call.client() {
                    self.clients.learn(client, &call.request);
                    self.keep_choices(Some(client), &call.request, cx);
                }
                self.supersede(&call.request);
            }
        }
    }

    fn handle_progress(&mut self, message: Message, cx: &mut Cx<'_>) {
        let value = message.get(&["progress"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse::<f64>().ok());
        let found = message.progress_token().and_then(|at| {
            let key = Key::from_number(Id::from_raw(message.slice(at)).as_u64()?);
            Some((at, key))
        });
        if let Some((_, key)) = found {
            self.end_silence(key, cx);
        }
        if let Some((at, key)) = found
            && let Some(call) = self.calls.get_mut(key)
            && let Owner::Client { client, request } = call.owner
            && call.note_progress(value, cx.now)
        {
            return cx.send_to_client(client, ClientEvent::Progress { request, at, message });
        }
        self.drop_message(Method::Progress, Dropped::StaleProgress, cx);
    }

    /// Handles a cancellation by the server: of its own request, or of a client's subscription.
    fn handle_cancelled(&mut self, link: LinkId, message: Message, cx: &mut Cx<'_>) {
        let Some(at) = message.find(&["requestId"]) else {
            return self.drop_message(Method::Cancelled, Dropped::Unknown, cx);
        };
        let key = Id::from_raw(message.slice(at)).as_u64().map(Key::from_number);
        let listens = |call: &Call| call.request.op == Op::Listen && matches!(call.state, State::Sent(_));
        if let Some(key) = key.filter(|key| self.calls.get(*key).is_some_and(listens)) {
            if let Some(call) = self.take(key, cx)
                && let Owner::Client { client, request } = call.owner
            {
                cx.emit(Event::CallCancelled { upstream: self.id, call: call.name, sent: true, was_out: call.is_out });
                cx.send_to_client(client, ClientEvent::Ended { request, at, message });
            }
            return;
        }
        if self.clients.is_empty() {
            return self.drop_message(Method::Cancelled, Dropped::Undeliverable, cx);
        }
        self.withdraw_server_request(link, at, &message, cx);
    }

    /// Passes a log message on. One that came with the response to a call belongs to that call: its client gets it, on
    /// the stream of the call, if it wants messages of this level.
    fn handle_log_message(&mut self, call: Option<Key>, message: Message, cx: &mut Cx<'_>) {
        let owner = call.and_then(|key| self.calls.get(key)).map(|call| call.owner);
        match owner {
            Some(Owner::Client { client, request }) if self.clients.recipients(&message).contains(&client) => {
                cx.send_to_client(client, ClientEvent::Notice { message, about: NoticeAbout::Request(request) });
            }
            _ => self.handle_notice(message, cx),
        }
    }

    pub(super) fn handle_notice(&mut self, message: Message, cx: &mut Cx<'_>) {
        if let Some(at) = meta::subscription_id(&message) {
            let key = Id::from_raw(message.slice(at)).as_u64().map(Key::from_number);
            let mut is_confirmed = None;
            if let Some(key) = key.filter(|_| message.method() == Method::SubscriptionsAcknowledged)
                && let Some(call) = self.calls.get_mut(key)
            {
                // A confirmed subscription starts with fresh attempts.
                call.attempts = call.attempts.min(1);
                if std::mem::replace(&mut call.confirmed, true) {
                    return self.notify_reopened(key, cx);
                }
                is_confirmed = Some(key);
            }
            match key.and_then(|key| self.calls.get(key)).map(|call| call.owner) {
                Some(Owner::Client { client, request }) => {
                    cx.send_to_client(
                        client,
                        ClientEvent::Notice { message, about: NoticeAbout::Subscription(request, at) },
                    );
                }
                _ => self.drop_message(message.method(), Dropped::Late, cx),
            }
            if let Some(key) = is_confirmed {
                self.notify_new_listener(key, cx);
            }
            return;
        }
        self.notify(&message, cx);
    }

    /// Handles a line that is no message. If it names a call, that call's answer is unreadable.
    pub(super) fn handle_unreadable(&mut self, id: Option<Id>, what: &str, cx: &mut Cx<'_>) {
        cx.emit(Event::OutputSkipped { upstream: self.id, text: what.to_owned() });
        let Some((key, call)) = self.find_named(id).and_then(|key| Some((key, self.calls.get(key)?))) else { return };
        let is_initialize = call.request.op == Op::Initialize;
        let not_before = cx.now + backoff::retry(&call.policy(&self.config).retry, call.attempts + 1, cx.rng);
        self.settle(key, Evidence { written: Written::Whole, reply: Reply::Unreadable }, not_before, cx);
        if is_initialize {
            // The negotiated version is unknown, and a server must not be initialized twice: the child is replaced.
            self.session.lose();
            self.drain_link(HandshakeError::Unreadable.into(), EndedBy::Us, cx);
        }
    }

    fn handle_too_long(&mut self, length: u64, id: Option<Id>, cx: &mut Cx<'_>) {
        let text = format!("a line of {length} bytes, which is over the limit");
        cx.emit(Event::OutputSkipped { upstream: self.id, text });
        if let Some(key) = self.find_named(id) {
            let why = Reason::TooLarge { length: usize::try_from(length).ok() };
            let owner = self.calls.get(key).map(|call| call.owner);
            if owner == Some(Owner::Us(InternalRequest::Handshake)) {
                self.session.lose();
                self.drain_link(HandshakeError::TooLarge.into(), EndedBy::Us, cx);
            }
            self.fail(key, Cause::CannotBridge, Outcome::Answered, why, cx);
            if let Some(Owner::Us(InternalRequest::List(kind))) = owner {
                self.page_unreadable(kind, cx);
            }
        }
    }

    pub(super) fn find_named(&self, id: Option<Id>) -> Option<Key> {
        let key = Key::from_number(id?.as_u64()?);
        matches!(self.calls.get(key)?.state, State::Sent(_)).then_some(key)
    }
}

/// A server's answer without the facts that only Mendline may state about a call.
fn without_our_facts(answer: &Message) -> Option<Message> {
    match answer.kind() {
        Kind::Error if error_code(answer).is_some_and(|code| words::CODES.contains(&code)) => {
            let data = answer.find(&["data"])?;
            Message::parse(Spliced::new(answer.text().clone(), [(data, Patch::from(&b"null"[..]))]).to_bytes()).ok()
        }
        _ => meta::without_failure(answer),
    }
}

/// Returns whether this answer comes from a bridge that has lost its server.
fn reports_dead_connection(answer: &Message) -> bool {
    const SIGNS: [&str; 9] = [
        "closed",
        "not connected",
        "disconnected",
        "timed out",
        "timeout",
        "fetch failed",
        "connection to the remote",
        "error posting to endpoint",
        "econnrefused",
    ];
    if answer.kind() != Kind::Error || !matches!(error_code(answer), Some(-32001 | -32000)) {
        return false;
    }
    let words = answer.get_str(&["message"]).unwrap_or_default().to_ascii_lowercase();
    SIGNS.iter().any(|sign| words.contains(sign))
}

/// One of our numbers that came back as a string or with a fraction of zero.
pub(super) fn number_of_other_type(id: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(id).ok()?;
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => Id::number_in(text.as_bytes()),
        None => {
            let value: f64 = text.parse().ok()?;
            let exact = value.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&value);
            exact.then_some(value as u64)
        }
    }
}
/// Finds results that may have `isError`: a search is cheaper than a look at the members of a large result.
static IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"isError"));

/// Returns whether an answer is a result, a tool error or a JSON-RPC error.
fn answered(call: &Call, answer: &Message) -> Answered {
    if answer.kind() == Kind::Error {
        return Answered::Error(error_code(answer).unwrap_or_default());
    }
    if call.request.op == Op::CallTool && is_tool_error(answer) { Answered::ToolError } else { Answered::Ok }
}

/// Returns whether a result says that its tool failed.
fn is_tool_error(answer: &Message) -> bool {
    // A cheap search first: few results have the member.
    IS_ERROR.find(answer.text()).is_some() && answer.get(&["isError"]) == Some(b"true")
}
