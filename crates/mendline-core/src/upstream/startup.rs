//! Answers while the server is not ready.
//!
//! A client lists the tools once, in its first second; many servers need ten to start. So the handshake and the lists
//! are answered from the [catalogue](super::list_sync) while the server starts in the background. Differences become a
//! `list_changed`, as after any outage ([`super::resync`]).
//!
//! # The handshake
//!
//! - With a matching handshake in the catalogue, it is answered at once. The client's handshake is still sent to the
//!   server, once, as an internal request.
//! - Otherwise the server has [`defaults::GRACE`] to answer, since only it knows its capabilities and instructions.
//!   Then Mendline gives a provisional answer with safe values: changing lists, the configured name, the requested
//!   revision.
//! - A handshake with an unknown revision waits for the server.
//!
//! The client's handshake result is not corrected later. If the server's differs, the difference is logged; calls pass
//! unchanged.
//!
//! # The lists
//!
//! While the server is not ready, a cached list is answered from the catalogue; another one waits like every call. When
//! the server is ready, it answers lists itself, unless the cached one is still fresh. A modern client receives the remaining time to live, which is zero while the server is not ready.

use bytes::Bytes;
use mendline_wire::{Id, Message, Method, code};
use serde_json::json;

use super::Upstream;
use super::call::{Call, Owner, State};
use super::internal::InternalRequest;
use super::list_sync::{Readiness, is_known_legacy};
use crate::config::Startup;
use crate::cx::Cx;
use crate::dispatch::ClientEvent;
use crate::event::{Event, HiddenChange};
use crate::list_cache::ListCache;
use crate::moment::Moment;
use crate::port::{ClientId, Output};
use crate::reason::Reason;
use crate::request::{ClientRequest, Op};
use crate::slab::Key;
use crate::words;

impl Upstream {
    /// Loads the saved cache.
    pub fn handle_cached(&mut self, cached: ListCache, cx: &mut Cx<'_>) {
        if !self.config.catalogue.cache {
            return;
        }
        if let Some(start) = cached.slowest_start {
            self.link.note_start(start);
        }
        self.lists.load(cached, cx.now);
        if self.config.trust_hints {
            for tools in self.lists.cached_tools() {
                self.tools.learn(tools, false);
            }
        }
        self.learn_cached_params();
    }

    /// The cached lists, for another upstream of the same server.
    pub fn list_cache(&self, now: Moment) -> ListCache {
        let mut lists = self.lists.to_cache(now);
        lists.slowest_start = self.link.slowest_start();
        lists
    }

    /// Answers a request from the cache, if possible.
    pub(super) fn answer_early(
        &mut self,
        client: ClientId,
        request: Key,
        asked: &ClientRequest,
        cx: &mut Cx<'_>,
    ) -> bool {
        if asked.op == Op::Initialize {
            self.answer_initialize_from_cache(client, request, asked, cx)
        } else {
            let is_answered = self.answer_from_cache(client, request, asked, cx);
            if is_answered {
                self.link.wake(cx);
            }
            is_answered
        }
    }

    /// Returns whether this is the first handshake, and may be answered before the server does.
    pub(super) fn may_initialize_early(&self, handshake: &ClientRequest) -> bool {
        let is_initialized =
            self.session.was_initialized() || self.calls.iter().any(|(_, it)| it.request.op == Op::Initialize);
        handshake.op == Op::Initialize
            && self.config.catalogue.startup == Startup::Immediate
            && !is_initialized
            && handshake.message.get_str(&["protocolVersion"]).is_some_and(|version| is_known_legacy(&version))
    }

    fn answer_initialize_from_cache(
        &mut self,
        client: ClientId,
        request: Key,
        handshake: &ClientRequest,
        cx: &mut Cx<'_>,
    ) -> bool {
        if !self.config.catalogue.cache || !self.may_initialize_early(handshake) {
            return false;
        }
        let requested = handshake.message.get_str(&["protocolVersion"]).unwrap_or_default();
        let Some(answer) = self.lists.cached_handshake(&requested) else { return false };
        cx.emit(Event::AnsweredFromCatalogue { upstream: self.id, method: Method::Initialize, stale: true });
        self.send_provisional_handshake(client, request, answer.clone(), cx);
        self.initialize_in_background(client, handshake.clone(), answer, cx);
        true
    }

    /// Answers the client's handshake provisionally after the grace time.
    pub(super) fn answer_provisionally(&mut self, key: Key, cx: &mut Cx<'_>) {
        let problem = self.problem(cx.now);
        let Some(call) = self.calls.get_mut(key) else { return };
        call.grace = None;
        let Owner::Client { client, request } = call.owner else { return };
        if self.session.was_initialized() {
            return;
        }
        let handshake = call.request.clone();
        let problem = problem.map_or_else(|| "it has not answered yet".to_owned(), |why| why.to_string());
        let instructions = match self.availability.wants_login() {
            true => words::login_missing(&self.config.name, &problem, self.credential_kind()),
            false => words::not_started(&self.config.name, &problem),
        };
        let Some(answer) = provisional_answer(&handshake.message, &self.config.name, &instructions) else { return };
        let Some(call) = self.calls.get_mut(key) else { return };
        let took = cx.now.since(call.arrived);
        let was_out = std::mem::take(&mut call.is_out);
        let method = Method::Initialize;
        cx.emit(Event::ProvisionalAnswer { upstream: self.id, call: call.name, method, was_out, took });
        if matches!(call.state, State::Sent(_)) {
            // It is in flight and must not be sent twice: it becomes an internal request.
            call.is_repeated = false;
            self.calls.make_internal(key, InternalRequest::Handshake);
            self.session.adopt(client, handshake, answer.clone());
            self.disarm(key, cx);
            self.arm(key, cx);
        } else {
            drop(self.take(key, cx));
            if self.config.reconnect.is_by_itself() || !self.link.has_failed() {
                self.initialize_in_background(client, handshake, answer.clone(), cx);
            } else {
                // The next call dials it.
                self.session.keep(client, handshake, answer.clone());
            }
        }
        self.send_provisional_handshake(client, request, answer, cx);
    }

    /// Answers the waiting lists from the cache: the server is away, and the next one may not have all entries at once.
    pub(super) fn answer_waiting_lists(&mut self, cx: &mut Cx<'_>) {
        for key in self.calls.waiting_keys() {
            self.answer_pending_from_cache(key, cx);
        }
    }

    /// Answers a waiting list from the cache, because the server is away.
    pub(super) fn answer_pending_from_cache(&mut self, key: Key, cx: &mut Cx<'_>) -> bool {
        let Some(call) = self.calls.get(key).filter(|call| call.request.op.list().is_some()) else { return false };
        let Owner::Client { client, request } = call.owner else { return false };
        let asked = call.request.clone();
        if !self.answer_from_cache(client, request, &asked, cx) {
            return false;
        }
        if let Some(call) = self.take(key, cx) {
            let (took, was_out) = (cx.now.since(call.arrived), call.is_out);
            let method = call.method();
            cx.emit(Event::ProvisionalAnswer { upstream: self.id, call: call.name, method, was_out, took });
        }
        true
    }

    fn send_provisional_handshake(&mut self, client: ClientId, request: Key, answer: Message, cx: &mut Cx<'_>) {
        self.lists.note_provisional_handshake(&answer);
        cx.send_to_client(client, ClientEvent::Answer { request, message: answer });
    }

    /// Initializes the server with the client's handshake, whose answer the client has already.
    fn initialize_in_background(
        &mut self,
        client: ClientId,
        handshake: ClientRequest,
        answer: Message,
        cx: &mut Cx<'_>,
    ) {
        self.session.keep(client, handshake, answer);
        if !self.link.is_up() {
            self.link.wake(cx);
        } else if self.gate.is_paused(cx.now) {
            // The handshake keeps the pause, too.
            self.watch_gate(cx);
        } else if let Some(handshake) = self.session.reinitialize() {
            self.replay(handshake, cx);
        }
    }

    /// Compares the server's first handshake with the one that the client received.
    pub(super) fn compare_handshake(&mut self, answer: &Message, cx: &mut Cx<'_>) {
        let members = self.lists.differing_members(answer);
        if !members.is_empty() {
            cx.emit(Event::HandshakeDiffers { upstream: self.id, members });
        }
    }

    /// Returns whether the server is ready for requests of this era. Without a handshake only an answer shows it.
    fn is_ready(&self, modern: bool) -> bool {
        self.is_open() && (!modern || self.link.has_answered())
    }

    fn answer_from_cache(&mut self, client: ClientId, request: Key, asked: &ClientRequest, cx: &mut Cx<'_>) -> bool {
        if !self.config.catalogue.cache {
            return false;
        }
        let server =
            Readiness { is_ready: self.is_ready(asked.is_modern()), ever_answered: self.link.has_ever_answered() };
        let Some(cached) = self.lists.cached_answer(asked, server, cx.now) else { return false };
        let (method, stale) = (asked.method(), cached.is_stale);
        cx.emit(Event::AnsweredFromCatalogue { upstream: self.id, method, stale });
        cx.send_to_client(client, ClientEvent::Answer { request, message: cached.message });
        if self.is_open() {
            self.lists.set_may_read();
        }
        true
    }

    /// Records a list that failed before the server was ever ready: the client is notified when it can be read.
    pub(super) fn list_missed(&mut self, call: &Call) {
        if let Some(kind) =
            call.request.op.list().filter(|_| !self.link.has_ever_answered() && !call.request.is_modern())
        {
            self.lists.note_missed(kind);
        }
    }

    // ---- saving ----

    /// Caches an answer.
    pub(super) fn cache(&mut self, request: &ClientRequest, answer: &Message, cx: &mut Cx<'_>) {
        self.lists.cache(request, answer, cx.now);
        self.save_soon(cx);
    }

    /// The answer to a list as the client gets it: an empty list for one that was promised and does not exist, and the
    /// entries that the client knows in the order in which it read them first.
    pub(super) fn list_for_client(&mut self, call: &Call, answer: Message, cx: &mut Cx<'_>) -> Message {
        let answer = self.lists.empty_list(&call.request, &answer).unwrap_or(answer);
        match self.lists.in_first_order(&call.request, &answer) {
            Some(ordered) => {
                let (method, why) = (call.method(), HiddenChange::OrderOnly);
                cx.emit(Event::ListChangeHidden { upstream: self.id, method, why });
                ordered
            }
            None => answer,
        }
    }

    pub(super) fn cache_handshake(&mut self, handshake: &ClientRequest, answer: &Message, cx: &mut Cx<'_>) {
        self.lists.learn_handshake(handshake, answer, self.config.catalogue.cache, cx.now);
        self.save_soon(cx);
    }

    /// Removes the cached handshakes: the server refuses one that it accepted before.
    pub(super) fn forget_handshakes(&mut self, cx: &mut Cx<'_>) {
        self.lists.forget_handshakes();
        self.save_soon(cx);
    }

    /// Caches that the server does not know `server/discover`, so that the next start need not ask.
    pub(super) fn remember_refused_discover(&mut self, key: Key, why: &Reason, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key).filter(|call| call.request.op == Op::Discover) else { return };
        let request = call.request.clone();
        let answer = words::error_response(&Id::number(0), code::METHOD_NOT_FOUND, &why.to_string());
        if let Ok(answer) = Message::parse(answer) {
            self.cache(&request, &answer, cx);
        }
    }

    /// Saves the cache soon, if it has changed.
    pub(super) fn save_soon(&mut self, cx: &mut Cx<'_>) {
        if self.config.catalogue.cache {
            self.lists.save_soon(self.id, cx);
        }
    }

    /// Handles the timer that saves the catalogue.
    pub fn handle_cache_timer(&mut self, cx: &mut Cx<'_>) {
        self.lists.note_cache_timer();
        self.save_now(cx);
    }

    /// Saves the catalogue if it has changed.
    pub(super) fn save_now(&mut self, cx: &mut Cx<'_>) {
        let unsaved = self.lists.take_unsaved(cx);
        if let Some(mut what) = unsaved.filter(|_| self.config.catalogue.cache) {
            what.slowest_start = self.link.slowest_start();
            cx.output(Output::Cache { upstream: self.id, what });
        }
    }
}

/// A provisional answer to a handshake, with values that are safe for any server.
fn provisional_answer(handshake: &Message, name: &str, instructions: &str) -> Option<Message> {
    let changes = || json!({ "listChanged": true });
    let answer = json!({
        "jsonrpc": "2.0",
        "id": 0,
        "result": {
            "protocolVersion": handshake.get_str(&["protocolVersion"])?,
            "capabilities": { "tools": changes(), "prompts": changes(), "resources": changes() },
            "serverInfo": { "name": name, "version": "provisional" },
            "instructions": instructions,
        },
    });
    Message::parse(Bytes::from(answer.to_string())).ok()
}
