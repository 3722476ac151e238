//! Up at once: what is answered while the server is not there.
//!
//! A client asks for the tools once, in its first second; many servers need ten to start. So a handshake and the lists are
//! answered from the [catalogue](super::catalogue) while the server starts in the background, and what turns out to read
//! differently becomes a `list_changed` as it does after any gap ([`super::resync`]).
//!
//! # The handshake
//!
//! - The catalogue knows what the server says to such a handshake: that is answered at once. The handshake itself still goes to
//!   the server, as the client wrote it and once, as an internal request of ours.
//! - It does not: the server has [`defaults::GRACE`] to answer for itself, since only it knows its capabilities and its
//!   instructions. Then it is answered in its stead, with what is safe: lists that may change, under the name that it is
//!   configured by, in the revision that the client asked for.
//! - A revision that nobody here knows, or a catalogue that proves nothing about the one that is asked for, waits.
//!
//! What the client was told stays told. When the server says something else later, that is said in the log, and nothing is
//! translated: calls pass as they are.
//!
//! # The lists
//!
//! While the server is not ready, a list that is in the catalogue is answered from there; one that is not waits for
//! [`defaults::LISTS`] at most when the server has just been started. When it is ready, lists are the server's business,
//! unless it said itself for how long the last one holds. A modern client is told how long what it gets may be taken for true,
//! which is not at all if nobody could ask.

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Kind, Message, Method, code, meta};
use serde_json::json;

use super::Upstream;
use super::call::{Call, Owner, State};
use super::catalogue::{is_known_legacy, with_ttl};
use super::internal::InternalRequest;
use super::resync::ListKind;
use crate::config::Startup;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::dispatch::ClientEvent;
use crate::event::Event;
use crate::list_cache::{CacheKey, ListCache, error_code};
use crate::port::{ClientId, Output};
use crate::slab::Key;

impl Upstream {
    /// What was kept of it from an earlier time.
    pub fn handle_cached(&mut self, cached: ListCache, cx: &mut Cx<'_>) {
        if !self.config.catalogue.cache {
            return;
        }
        self.catalogue.load(cached, cx.now);
        if self.config.trust_hints {
            for tools in self.catalogue.tools() {
                self.tools.learn(tools, false);
            }
        }
        self.learn_cached_params();
    }

    /// Answers a request without the server, if that can be done.
    pub(super) fn answer_early(&mut self, client: ClientId, request: Key, message: &Message, cx: &mut Cx<'_>) -> bool {
        if message.method() == Method::Initialize {
            self.answer_initialize_from_cache(client, request, message, cx)
        } else {
            self.answer_from_cache(client, request, message, cx)
        }
    }

    /// Is this the first handshake, and one that need not wait for the server?
    pub(super) fn may_initialize_early(&self, message: &Message) -> bool {
        let is_initialized =
            self.session.was_initialized() || self.calls.iter().any(|(_, it)| it.method() == Method::Initialize);
        message.method() == Method::Initialize
            && self.config.catalogue.startup == Startup::AtOnce
            && !is_initialized
            && message.get_str(&["protocolVersion"]).is_some_and(|version| is_known_legacy(&version))
    }

    fn answer_initialize_from_cache(
        &mut self,
        client: ClientId,
        request: Key,
        message: &Message,
        cx: &mut Cx<'_>,
    ) -> bool {
        if !self.config.catalogue.cache || !self.may_initialize_early(message) {
            return false;
        }
        let requested = message.get_str(&["protocolVersion"]).unwrap_or_default();
        let Some(answer) = self.catalogue.handshake(&requested).cloned() else { return false };
        cx.emit(Event::AnsweredFromCatalogue { upstream: self.id, method: Method::Initialize, stale: true });
        self.send_provisional_handshake(client, request, answer, cx);
        self.initialize_in_background(message.clone(), cx);
        true
    }

    /// The server did not answer the client's handshake for as long as it may: it is answered in its stead.
    pub(super) fn answer_provisionally(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.grace = None;
        let Owner::Client { client, request } = call.owner else { return };
        if self.session.was_initialized() {
            return;
        }
        let handshake = call.message.clone();
        let Some(answer) = provisional_answer(&handshake, &self.config.name) else { return };
        let took = cx.now.since(call.arrived);
        let was_out = std::mem::take(&mut call.is_out);
        cx.emit(Event::ProvisionalAnswer { upstream: self.id, call: call.name, was_out, took });
        if matches!(call.state, State::Sent(_)) {
            // It is on its way, and must not be sent twice: only that its answer is ours from now on.
            call.owner = Owner::Us(InternalRequest::Handshake);
            call.is_first_handshake = true;
            self.internal_requests += 1;
            self.session.adopt(handshake);
            self.disarm(key, cx);
            self.arm(key, cx);
        } else {
            drop(self.take(key, cx));
            self.initialize_in_background(handshake, cx);
        }
        self.send_provisional_handshake(client, request, answer, cx);
    }

    fn send_provisional_handshake(&mut self, client: ClientId, request: Key, answer: Message, cx: &mut Cx<'_>) {
        self.catalogue.learn_version(&answer);
        self.lists.clear();
        self.provisional_handshake = Some(answer.clone());
        cx.send_to_client(client, ClientEvent::Answer { request, message: answer });
    }

    /// Initializes the server as the client did, who does not wait for it.
    fn initialize_in_background(&mut self, handshake: Message, cx: &mut Cx<'_>) {
        self.session.keep(handshake);
        if !self.link.is_up() {
            self.link.wake(cx);
        } else if let Some(handshake) = self.session.reinitialize() {
            self.replay(handshake, cx);
        }
    }

    /// The server answered the handshake for the first time: what the client was told in its stead is held against that.
    pub(super) fn compare_handshake(&mut self, answer: &Message, cx: &mut Cx<'_>) {
        let Some(provisional) = &self.provisional_handshake else { return };
        let differs = |member: &&str| provisional.get(&[member]) != answer.get(&[member]);
        let members = ["protocolVersion", "capabilities", "serverInfo", "instructions"];
        let members: Vec<_> = members.into_iter().filter(differs).collect();
        if !members.is_empty() {
            cx.emit(Event::HandshakeDiffers { upstream: self.id, members });
        }
    }

    /// Is the server there for requests of this era? Without a handshake nobody knows before its first answer.
    fn is_ready(&self, modern: bool) -> bool {
        self.is_open() && (!modern || self.link.has_answered())
    }

    fn answer_from_cache(&mut self, client: ClientId, request: Key, message: &Message, cx: &mut Cx<'_>) -> bool {
        let Some(key) = self.catalogue.key(message).filter(|_| self.config.catalogue.cache) else { return false };
        let (method, modern) = (message.method(), meta::is_modern(message));
        let (kind, is_ready) = (ListKind::of(method), self.is_ready(modern));
        let continued = kind.zip(key.cursor.as_deref()).and_then(|(kind, cursor)| self.lists.rest(kind, cursor));
        let page = self.catalogue.find(&key);
        let left = page.map(|page| page.holds_for(cx.now)).unwrap_or_default();
        let holds = modern && is_ready && !left.is_zero() && continued.is_none();
        // Who has begun to read the old list reads it to its end, whoever is there by then.
        let Some(answer) = continued.or(page.filter(|_| !is_ready || holds).map(|page| &page.answer)) else { return false };
        let answer = match (modern, holds) {
            (false, _) => answer.clone(),
            (true, true) => with_ttl(answer, left),
            (true, false) => with_ttl(answer, Duration::ZERO),
        };
        cx.emit(Event::AnsweredFromCatalogue { upstream: self.id, method, stale: !holds });
        if let (Some(kind), false) = (kind, holds) {
            self.lists.learn_from_cache(kind, message, &answer);
            if key.cursor.is_none() {
                self.lists.hold_rest(kind, self.catalogue.rest(&key).unwrap_or_default());
            }
            self.resync_due = true;
        }
        cx.send_to_client(client, ClientEvent::Answer { request, message: answer });
        self.link.wake(cx);
        if self.is_open() {
            self.resync_lists(cx);
        }
        true
    }

    /// A list cannot be had, and the server was never there: the client has seen nothing of it, and hears when there is
    /// something to see.
    pub(super) fn list_missed(&mut self, call: &Call) {
        if let Some(kind) =
            ListKind::of(call.method()).filter(|_| !self.ever_answered && !meta::is_modern(&call.message))
        {
            self.lists.miss(kind);
        }
    }

    /// What the client was told may be wrong about which lists there are. One that does not exist is empty.
    pub(super) fn empty_list(&self, call: &Call, answer: &Message) -> Option<Message> {
        let is_unknown = answer.kind() == Kind::Error && error_code(answer) == Some(code::METHOD_NOT_FOUND);
        let kind = ListKind::of(call.method()).filter(|_| is_unknown && !meta::is_modern(&call.message))?;
        self.provisional_handshake.as_ref()?;
        let text = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"{}":[]}}}}"#, kind.member());
        Message::parse(Bytes::from(text)).ok()
    }

    // ---- keeping it ----

    /// The server answered this.
    pub(super) fn cache(&mut self, request: &Message, answer: &Message, cx: &mut Cx<'_>) {
        if let Some(key) = self.catalogue.key(request).filter(|_| self.config.catalogue.cache) {
            self.catalogue.learn(key, answer, cx.now);
            self.save_soon(cx);
        }
    }

    pub(super) fn cache_handshake(&mut self, handshake: &Message, answer: &Message, cx: &mut Cx<'_>) {
        // What the client was told is what its lists are about.
        if self.provisional_handshake.is_none() {
            self.catalogue.learn_version(answer);
        }
        if let Some(version) = handshake.get_str(&["protocolVersion"]).filter(|_| self.config.catalogue.cache) {
            let key = CacheKey { version: version.into_owned(), method: Method::Initialize, cursor: None };
            self.catalogue.learn(key, answer, cx.now);
            self.save_soon(cx);
        }
    }

    /// The server refuses a handshake that it took once: what it said then is no longer true.
    pub(super) fn forget_handshakes(&mut self, cx: &mut Cx<'_>) {
        self.catalogue.forget_handshakes();
        self.save_soon(cx);
    }

    fn save_soon(&mut self, cx: &mut Cx<'_>) {
        if self.catalogue.unsaved && self.catalogue.timer.is_none() {
            let soon = cx.now + defaults::CACHE_AFTER;
            let at = self.catalogue.saved_at.map_or(soon, |saved_at| soon.max(saved_at + defaults::CACHE_PAUSE));
            self.catalogue.timer = cx.timers.arm(at, Alarm::Cache(self.id));
        }
    }

    /// There was time enough for what else is read at the beginning.
    pub fn handle_cache_timer(&mut self, cx: &mut Cx<'_>) {
        self.catalogue.timer = None;
        self.save_now(cx);
    }

    /// Asks for the catalogue to be kept, if there is anything new in it.
    pub(super) fn save_now(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.catalogue.timer);
        if std::mem::take(&mut self.catalogue.unsaved) {
            self.catalogue.saved_at = Some(cx.now);
            cx.output(Output::Cache { upstream: self.id, what: self.catalogue.to_cache(cx.now) });
        }
    }
}

/// An answer to a handshake in a server's stead: only what holds whatever the server turns out to be.
fn provisional_answer(handshake: &Message, name: &str) -> Option<Message> {
    let changes = || json!({ "listChanged": true });
    let answer = json!({
        "jsonrpc": "2.0",
        "id": 0,
        "result": {
            "protocolVersion": handshake.get_str(&["protocolVersion"])?,
            "capabilities": { "tools": changes(), "prompts": changes(), "resources": changes() },
            "serverInfo": { "name": name, "version": "unknown" },
        },
    });
    Message::parse(Bytes::from(answer.to_string())).ok()
}
