//! Commands of clients: calls, cancellations, answers to server requests, notifications, and the end of a client.
//!
//! [`Upstream::accept`] accepts or rejects a call, in the order that `policy/mod.rs` shows. An accepted call is always
//! answered.

use std::sync::Arc;
use std::time::Duration;

use mendline_wire::{Message, Method, Patch, Spliced};

use super::Upstream;
use super::call::{Call, Owner, State};
use super::clients::empty_result;
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::{ClientEvent, UpstreamCommand};
use crate::event::{Dropped, Event, TraceParent};
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::own_tools;
use crate::policy::tool_filter::ToolFilter;
use crate::port::{ClientId, RequestRefusal};
use crate::reason::{Reason, RefusalReason};
use crate::request::{ClientRequest, Op};
use crate::slab::Key;
use crate::status::UpstreamStatus;
use crate::words::{self, Cause, Failure};

impl Upstream {
    pub fn handle_command(&mut self, command: UpstreamCommand, cx: &mut Cx<'_>) {
        match command {
            UpstreamCommand::Open { client, is_resumed } => {
                self.clients.open(client, is_resumed);
                self.note_used();
                self.link.handle_client(cx);
            }
            UpstreamCommand::Call { client, request, call } => self.accept(client, request, call, cx),
            // The engine answers it, because it has the status.
            UpstreamCommand::OwnStatus { .. } => {}
            UpstreamCommand::Cancel { client, request, message } => self.cancel(client, request, &message, cx),
            UpstreamCommand::Reply { link, id, message } => {
                match message.id_span().map(|at| Spliced::new(message.text().clone(), [(at, Patch::from(id))])) {
                    Some(reply) if self.link.is_up() && self.link.current() == Some(link) => {
                        self.send_message(Method::None, reply, cx);
                    }
                    _ => self.drop_message(Method::None, Dropped::StaleReply, cx),
                }
            }
            UpstreamCommand::Decline { link, id, why } => {
                cx.emit(Event::ServerRequestDeclined { upstream: self.id, why: why.clone() });
                if self.link.is_up() && self.link.current() == Some(link) {
                    let text = words::error_response(&id, Cause::Unavailable.code(), &why.to_string());
                    self.send_message(Method::None, Spliced::whole(text), cx);
                }
            }
            UpstreamCommand::Progress { link, token, at, message } => {
                if self.link.is_up() && self.link.current() == Some(link) {
                    let text = Spliced::new(message.text().clone(), [(at, Patch::from(token.as_slice()))]);
                    self.send_message(Method::Progress, text, cx);
                } else {
                    self.drop_message(Method::Progress, Dropped::StaleProgress, cx);
                }
            }
            UpstreamCommand::Initialized { client, message } => self.handle_initialized(client, &message, cx),
            UpstreamCommand::Notice { message } => {
                let method = message.method();
                if self.link.is_up() && self.session.is_open() {
                    self.send_message(method, Spliced::whole(message.text().clone()), cx);
                } else {
                    self.drop_message(method, Dropped::Undeliverable, cx);
                }
            }
            UpstreamCommand::Close { client } => self.abandon(client, cx),
        }
    }

    /// Answers a request about Mendline's own tool or resource, unless the server has a tool of that name.
    pub fn answer_own_status(
        &mut self,
        client: ClientId,
        request: Key,
        call: ClientRequest,
        status: &UpstreamStatus,
        cx: &mut Cx<'_>,
    ) {
        let is_of_server = call.op == Op::CallTool && self.lists.cached_tools().any(own_tools::has_tool);
        let answer = own_tools::answer(&call, &own_tools::describe(&self.config, status));
        match answer.filter(|_| !is_of_server) {
            Some(message) => {
                cx.emit(Event::OwnStatusAnswered { upstream: self.id, client, method: call.method() });
                cx.send_to_client(client, ClientEvent::Answer { request, message });
            }
            None => self.accept(client, request, call, cx),
        }
    }

    /// Returns whether clients get Mendline's own tool and resource.
    pub fn has_own_tools(&self) -> bool {
        self.config.own_tools
    }

    /// The tools that clients may use.
    pub fn tool_filter(&self) -> &ToolFilter {
        &self.config.tool_filter
    }

    /// Handles `initialized` of a client. It is sent once in a session.
    fn handle_initialized(&mut self, client: ClientId, message: &Message, cx: &mut Cx<'_>) {
        let is_own = self.session.is_of(client) && !self.session.has_initialized();
        if self.session.was_initialized() && !is_own {
            return;
        }
        self.session.learn_initialized(message);
        if self.link.is_up() && self.session.is_open() {
            self.send_message(Method::Initialized, Spliced::whole(message.text().clone()), cx);
        } else if self.session.is_open() {
            // It is replayed with the handshake. Over HTTP the session would outlive the outage without it, so it is
            // dropped.
            self.forget_session(cx);
        }
    }

    /// Accepts or rejects a call.
    pub(super) fn accept(&mut self, client: ClientId, request: Key, asked: ClientRequest, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return self.reject(client, request, &asked, Cause::Unavailable, RefusalReason::Stopping.into(), cx);
        }
        // Only the server answers the call of a tool.
        if asked.op != Op::CallTool
            && (self.answer_by_session(client, request, &asked, cx)
                || self.answer_early(client, request, &asked, cx)
                || self.answer_ping(client, request, &asked, cx))
        {
            return;
        }
        if let Some((cause, why)) = self.refusal_of_server(client, &asked, cx) {
            return self.reject(client, request, &asked, cause, why, cx);
        }
        let limited_tool = self.gate.tool_limits().of(&asked);
        let may_go = self.may_go(client, &asked, limited_tool.as_ref(), cx.now);
        let evicted = match self.make_room(client, limited_tool.as_ref(), may_go) {
            Ok(evicted) => evicted,
            Err(why) => return self.reject(client, request, &asked, Cause::Overloaded, why.into(), cx),
        };
        let size = asked.message.text().len();
        if !cx.ledger.try_charge(size) {
            let why = RefusalReason::Memory { held: cx.ledger.held() }.into();
            return self.reject(client, request, &asked, Cause::Overloaded, why, cx);
        }
        if let Some(key) = evicted {
            let why = RefusalReason::Fairness { limit: self.calls.waiting_count() }.into();
            self.fail(key, Cause::Overloaded, Outcome::NotSent, why, cx);
        }
        let call = self.new_call(Owner::Client { client, request }, asked, limited_tool.clone(), cx.now);
        let (method, tool, trace) = (call.method(), call.tool.clone(), TraceParent::of(&call.request.message));
        let Some(key) = self.calls.accept(call, cx.accepted) else {
            cx.ledger.release(size);
            return;
        };
        let name = self.calls.get(key).map_or(0, |call| call.name);
        cx.emit(Event::CallAccepted { upstream: self.id, call: name, client, method, tool, trace });
        if !self.gate.all_closed() {
            self.begin_trials(key, cx);
        }
        if may_go && !self.calls.any_waits() {
            self.start_call(key, cx);
        } else {
            self.calls.wait(key, cx.now, cx.now);
            self.emit_rate_limited(name, limited_tool.as_ref(), cx);
            self.link.wake(cx);
        }
        self.arm(key, cx);
    }

    /// The reason why the server gets no call now, if there is one: a login, a parked link, a breaker, a limit.
    fn refusal_of_server(
        &mut self,
        client: ClientId,
        asked: &ClientRequest,
        cx: &mut Cx<'_>,
    ) -> Option<(Cause, Reason)> {
        if let Some(refusal) = self.login_rejection().filter(|_| asked.op != Op::Initialize) {
            self.link.wake(cx);
            return Some(refusal);
        }
        if self.link.is_parked() && !self.gate.is_isolated() {
            let why = self.link.failure_reason();
            self.link.wake(cx);
            // The call waits for the attempt that it has triggered.
            if self.link.is_parked() {
                return Some((Cause::Parked, why));
            }
        }
        if let Some(refusal) = self.rejection(client, asked, cx.now) {
            return Some(refusal);
        }
        let limit = self.calls.subscriptions();
        let is_too_many = asked.op == Op::Listen && limit >= defaults::SUBSCRIPTION_STREAMS;
        is_too_many.then(|| (Cause::Overloaded, RefusalReason::Subscriptions { limit }.into()))
    }

    /// Returns whether a new call may be sent at once, if no other waits.
    fn may_go(&self, client: ClientId, asked: &ClientRequest, limited_tool: Option<&Arc<str>>, now: Moment) -> bool {
        let is_free = if asked.op == Op::Listen { self.is_open() } else { self.has_slot() };
        let probes_first = self.gate.probes_first() && !self.gate.is_paused(now) && self.is_open();
        is_free
            && !self.waits_for_another(Some(client), asked)
            && self.gate.is_open(now)
            && limited_tool.is_none_or(|tool| self.has_place(tool, now))
            && !probes_first
    }

    /// Returns whether a request has to wait for another one: a handshake or a choice of another client, the handshake
    /// that Mendline makes for a resumed client, or the state that is being restored.
    pub(super) fn waits_for_another(&self, client: Option<ClientId>, request: &ClientRequest) -> bool {
        match request.op {
            Op::Initialize => client.is_some_and(|client| self.crosses_handshake(client, request)),
            op if op.sets_state() => {
                self.waits_for_restore(request) || client.is_some_and(|client| self.crosses_choice(client, request))
            }
            _ => client.is_some_and(|client| self.awaits_resumed_handshake(client)),
        }
    }

    /// Finds a place for a new call in the queues. Returns the call that leaves its place, if one must.
    fn make_room(
        &self,
        client: ClientId,
        limited_tool: Option<&Arc<str>>,
        may_go: bool,
    ) -> Result<Option<Key>, RefusalReason> {
        // A call waits for other reasons, too: the server may be away.
        if let Some(why) = limited_tool.and_then(|tool| self.full_queue_of(tool)).filter(|_| !may_go) {
            return Err(why);
        }
        let limit = self.calls.waiting_count();
        if limit < self.config.limits.waiting || (may_go && !self.is_at_capacity()) {
            return Ok(None);
        }
        self.call_to_evict(client).map(Some).ok_or(RefusalReason::QueueFull { limit })
    }

    fn new_call(&mut self, owner: Owner, asked: ClientRequest, limited_tool: Option<Arc<str>>, now: Moment) -> Call {
        // The name is searched once for all that depends on it.
        let name = asked.tool();
        let effect = self.tools.effect_of_named(&asked, name.as_deref());
        let timeout = name.as_deref().and_then(|name| self.gate.timeout_of(name));
        let tool = name.as_deref().map(|name| self.tool_names.intern(name));
        let is_early = asked.op == Op::Initialize && self.may_initialize_early(&asked);
        let grace = is_early.then(|| now + self.grace_of(&asked));
        let mut call = Call::new(owner, asked, effect, now);
        (call.timeout, call.grace, call.limited_tool, call.tool) = (timeout, grace, limited_tool, tool);
        call
    }

    /// Answers a client's ping while the server cannot: it tests the connection to Mendline.
    fn answer_ping(&mut self, client: ClientId, request: Key, asked: &ClientRequest, cx: &mut Cx<'_>) -> bool {
        let is_away = !self.link.is_up() || self.availability.is_away() || self.login_rejection().is_some();
        if asked.op != Op::Ping || !is_away || self.gate.is_isolated() {
            return false;
        }
        let Some(answer) = empty_result() else { return false };
        cx.emit(Event::PingAnswered { upstream: self.id });
        cx.send_to_client(client, ClientEvent::Answer { request, message: answer });
        self.link.wake(cx);
        true
    }

    /// The time that the server has to answer the first handshake before it is answered provisionally.
    fn grace_of(&self, handshake: &ClientRequest) -> Duration {
        let client = handshake.message.get_str(&["clientInfo", "name"]).unwrap_or_default();
        let is_impatient = client.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("codex"));
        let has_failed = self.link.has_failed();
        match (has_failed, is_impatient) {
            (true, _) => defaults::GRACE_AFTER_FAILURE,
            (false, true) => defaults::GRACE_IMPATIENT,
            (false, false) => defaults::GRACE,
        }
    }

    /// Returns whether slots and queue are full. Calls in backoff leave free slots to others, but their number is
    /// bounded.
    fn is_at_capacity(&self) -> bool {
        let limits = &self.config.limits;
        self.calls.waiting_count() + self.calls.in_flight() >= limits.waiting + limits.in_flight
    }

    fn reject(
        &mut self,
        client: ClientId,
        request: Key,
        asked: &ClientRequest,
        cause: Cause,
        why: Reason,
        cx: &mut Cx<'_>,
    ) {
        // A shutdown has no end.
        let retry_after = if self.is_closing() { None } else { self.retry_hint(cause, asked, cx.now) };
        let (upstream, tool) = (self.id, self.tool_names.of(asked));
        let rejected = why.clone();
        cx.emit(Event::CallRejected { upstream, client, method: asked.method(), tool, cause, why: rejected });
        let needs_person = self.needs_person(cause);
        let failure = Failure {
            call: None,
            cause,
            outcome: Outcome::NotSent,
            retryable: !needs_person,
            attempts: 0,
            retry_after: retry_after.filter(|_| !needs_person),
            upstream: self.config.name.clone(),
            what: asked.describe(),
            why,
            needs_person,
            credential: self.credential_kind(),
            modern: asked.is_modern(),
            form: self.config.failures,
        };
        cx.send_to_client(client, ClientEvent::Fail { request, failure: Box::new(failure) });
    }

    /// Reports a request that the shell has refused.
    pub fn note_refused(
        &mut self,
        client: ClientId,
        method: Method,
        tool: Option<&str>,
        why: RequestRefusal,
        cx: &mut Cx<'_>,
    ) {
        let upstream = self.id;
        match why {
            RequestRefusal::DeniedTool => {
                let tool = cx.quote.quote(tool.unwrap_or_default().as_bytes(), defaults::TOOL_NAME);
                cx.emit(Event::ToolDenied { upstream, client, tool });
            }
            RequestRefusal::Limit(why) => {
                let cause = match why {
                    RefusalReason::RateLimit { .. } => Cause::RateLimited,
                    _ => Cause::Overloaded,
                };
                let tool = tool.map(|tool| self.tool_names.intern(tool));
                cx.emit(Event::CallRejected { upstream, client, method, tool, cause, why: why.into() });
            }
        }
    }

    fn cancel(&mut self, client: ClientId, request: Key, notice: &Message, cx: &mut Cx<'_>) {
        let owner = Owner::Client { client, request };
        let Some((key, _)) = self.calls.iter().find(|(_, call)| call.owner == owner) else { return };
        self.revert_unreached(key);
        let Some(call) = self.take(key, cx) else { return };
        let sent = matches!(call.state, State::Sent(_));
        cx.emit(Event::CallCancelled { upstream: self.id, call: call.name, sent, was_out: call.is_out });
        let may_notify =
            sent && !self.link.cancels_by_abort(&call.request) && self.link.is_up() && self.session.is_open();
        if let (true, Some(at)) = (may_notify, notice.find(&["requestId"])) {
            let text = Spliced::new(notice.text().clone(), [(at, Patch::number(key.number()))]);
            self.outbox.push_text(text, Method::Cancelled, cx.ledger);
        }
        self.drop_exchange(key, cx);
        self.keep_choices_of_others(&call, cx);
    }

    /// Handles a client that is gone. In the modern era this cancels its calls; in the legacy era it does not.
    fn abandon(&mut self, client: ClientId, cx: &mut Cx<'_>) {
        let unsubscribed = self.clients.close(client);
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get(key) else { continue };
            if !matches!(call.owner, Owner::Client { client: owner, .. } if owner == client) {
                continue;
            }
            if matches!(call.state, State::Sent(_)) && call.request.is_modern() {
                self.cancel_upstream(key, "the client has gone", cx);
                self.drop_exchange(key, cx);
            } else if let Some(call) = self.calls.get_mut(key) {
                // Neither of its attempts is cancelled.
                call.first_try = None;
            }
            let Some(call) = self.take(key, cx) else { continue };
            cx.emit(Event::CallAbandoned { upstream: self.id, call: call.name, was_out: call.is_out });
            self.keep_choices_of_others(&call, cx);
        }
        self.end_subscriptions(unsubscribed, cx);
    }
}
