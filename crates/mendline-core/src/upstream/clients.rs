//! The clients of an upstream, which share its session.
//!
//! The server is initialized once, with the handshake of the first client; the others get the same answer. Each client
//! has its own log level and its own subscriptions: the server gets the most verbose level of all, and a subscription
//! ends with its last client. A notification goes to the clients that asked for it, a request of the server to the
//! client whose call caused it. A single client is served as if it were connected to the server itself.

use std::collections::BTreeSet;

use bytes::Bytes;
use mendline_wire::{Id, Message, Method, Span, Spliced};
use serde_json::json;

use super::Upstream;
use super::call::{Call, Owner, State};
use super::internal::InternalRequest;
use crate::cx::Cx;
use crate::dispatch::{ClientEvent, NoticeAbout, UpstreamCommand};
use crate::event::{Dropped, Event};
use crate::evidence::Outcome;
use crate::port::{ClientId, LinkId};
use crate::reason::RefusalReason;
use crate::request::{ClientRequest, Op};
use crate::slab::Key;

/// The levels of log messages, from the most verbose.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A level of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(usize);

impl Level {
    /// The level from which Mendline's own log messages go to a client that has set none.
    pub const WARNING: Level = Level(3);

    /// The level with this name.
    pub fn named(name: &str) -> Option<Level> {
        LEVELS.iter().position(|it| *it == name).map(Level)
    }

    fn name(self) -> &'static str {
        LEVELS[self.0]
    }

    fn of(message: &Message) -> Option<Level> {
        Level::named(&message.get_str(&["level"])?)
    }
}

/// A client, and what it has chosen.
#[derive(Debug)]
struct Client {
    id: ClientId,
    /// Mendline makes its handshake.
    is_resumed: bool,
    level: Option<Level>,
    subscriptions: BTreeSet<String>,
}

/// The clients, oldest first.
#[derive(Debug, Default)]
pub struct Clients {
    clients: Vec<Client>,
    /// The number of resumed clients.
    resumed: usize,
}

impl Clients {
    pub fn open(&mut self, id: ClientId, is_resumed: bool) {
        self.resumed += usize::from(is_resumed);
        self.clients.push(Client { id, is_resumed, level: None, subscriptions: BTreeSet::new() });
    }

    /// Returns whether Mendline makes the handshake of this client.
    fn is_resumed(&self, id: ClientId) -> bool {
        self.resumed > 0 && self.clients.iter().any(|client| client.id == id && client.is_resumed)
    }

    /// Removes a client. Returns the subscriptions that no other client has.
    pub fn close(&mut self, id: ClientId) -> Vec<String> {
        let Some(index) = self.clients.iter().position(|client| client.id == id) else { return Vec::new() };
        let gone = self.clients.remove(index);
        self.resumed -= usize::from(gone.is_resumed);
        gone.subscriptions.into_iter().filter(|uri| !self.any_subscribes(uri)).collect()
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<ClientId> {
        self.clients.iter().map(|client| client.id).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns whether there are several.
    pub fn are_several(&self) -> bool {
        self.clients.len() > 1
    }

    /// The only client.
    pub fn only(&self) -> Option<ClientId> {
        match self.clients.as_slice() {
            [only] => Some(only.id),
            _ => None,
        }
    }

    /// The level that a client has set.
    pub fn level_of(&self, id: ClientId) -> Option<Level> {
        self.clients.iter().find(|client| client.id == id)?.level
    }

    /// The most verbose level of all clients.
    fn most_verbose(&self) -> Option<Level> {
        self.clients.iter().filter_map(|client| client.level).min()
    }

    fn any_subscribes(&self, uri: &str) -> bool {
        self.clients.iter().any(|client| client.subscriptions.contains(uri))
    }

    /// Records a request of a client that the server has confirmed, or need not receive.
    pub fn learn(&mut self, id: ClientId, request: &ClientRequest) {
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else { return };
        match request.op {
            Op::SetLevel => client.level = Level::of(&request.message).or(client.level),
            Op::Subscribe => client.subscriptions.extend(request.uri()),
            Op::Unsubscribe => drop(request.uri().map(|uri| client.subscriptions.remove(&uri))),
            _ => {}
        }
    }

    /// Returns whether the server need not receive this request, because of the choices of the other clients.
    fn makes_unnecessary(&self, id: ClientId, request: &ClientRequest) -> bool {
        let mut others = self.clients.iter().filter(|client| client.id != id);
        match request.op {
            // A less verbose level would take messages from others.
            Op::SetLevel => Level::of(&request.message)
                .is_some_and(|level| others.any(|other| other.level.is_some_and(|other| other <= level))),
            Op::Unsubscribe => {
                let uri = request.uri().unwrap_or_default();
                others.any(|other| other.subscriptions.contains(&uri))
            }
            _ => false,
        }
    }

    /// The clients that asked for this notification.
    pub(super) fn recipients(&self, notice: &Message) -> Vec<ClientId> {
        if !self.are_several() {
            return self.ids();
        }
        let wants = |client: &&Client| match notice.method() {
            Method::MessageNotice => {
                client.level.is_none_or(|least| Level::of(notice).is_none_or(|level| level >= least))
            }
            Method::ResourcesUpdated => {
                let uri = notice.get_str(&["uri"]).unwrap_or_default();
                client.subscriptions.contains(uri.as_ref()) || !self.any_subscribes(&uri)
            }
            _ => true,
        };
        self.clients.iter().filter(wants).map(|client| client.id).collect()
    }
}

impl Upstream {
    /// The only client of this upstream.
    pub fn only_client(&self) -> Option<ClientId> {
        self.clients.only()
    }

    /// Sends a notification of the server, or one of Mendline, to the clients that asked for it.
    pub(super) fn notify(&mut self, notice: &Message, cx: &mut Cx<'_>) {
        let recipients = self.clients.recipients(notice);
        if recipients.is_empty() && !self.clients.is_empty() {
            self.drop_message(notice.method(), Dropped::Undeliverable, cx);
        }
        for client in recipients {
            cx.send_to_client(client, ClientEvent::Notice { message: notice.clone(), about: NoticeAbout::Session });
        }
    }

    /// Handles a request that the shared session makes unnecessary. Returns whether it is one.
    pub(super) fn answer_by_session(
        &mut self,
        client: ClientId,
        request: Key,
        asked: &ClientRequest,
        cx: &mut Cx<'_>,
    ) -> bool {
        match asked.op {
            Op::Initialize => self.join_session(client, request, cx),
            Op::SetLevel | Op::Unsubscribe
                if self.clients.are_several() && self.clients.makes_unnecessary(client, asked) =>
            {
                self.clients.learn(client, asked);
                if let Some(answer) = empty_result() {
                    self.send_answer_of_session(client, request, answer, asked.method(), cx);
                }
                true
            }
            _ => false,
        }
    }

    /// Answers the handshake of another client than that of the session.
    fn join_session(&mut self, client: ClientId, request: Key, cx: &mut Cx<'_>) -> bool {
        let Some(answer) = self.answer_for(client) else { return false };
        self.complete_handshake(cx);
        self.send_answer_of_session(client, request, answer, Method::Initialize, cx);
        true
    }

    /// The answer of the session to the handshake of another client.
    fn answer_for(&self, client: ClientId) -> Option<Message> {
        if self.session.was_initialized() && !self.session.is_of(client) {
            return self.session.answer();
        }
        None
    }

    /// Returns whether this is a handshake, and that of another client is in flight: it waits for the answer.
    pub(super) fn crosses_handshake(&self, client: ClientId, request: &ClientRequest) -> bool {
        let is_out = |call: &Call| call.request.op == Op::Initialize && !matches!(call.state, State::Waiting { .. });
        request.op == Op::Initialize
            && self.clients.are_several()
            && self.calls.iter().any(|(_, call)| is_out(call) && call.client().is_some_and(|other| other != client))
    }

    /// Returns whether Mendline is making the handshake of this client: its calls wait for it.
    pub(super) fn awaits_resumed_handshake(&self, client: ClientId) -> bool {
        let is_handshake = |call: &Call| call.request.op == Op::Initialize && call.client() == Some(client);
        self.clients.is_resumed(client) && self.calls.iter().any(|(_, call)| is_handshake(call))
    }

    /// Sends `initialized` for a client whose handshake Mendline made, before its calls.
    pub(super) fn complete_resumed_handshake(&mut self, client: ClientId, cx: &mut Cx<'_>) {
        if self.clients.is_resumed(client) {
            self.complete_handshake(cx);
        }
    }

    /// Sends `initialized` for the client of the session, which has not sent it yet: the next one may call at once.
    fn complete_handshake(&mut self, cx: &mut Cx<'_>) {
        if self.session.has_initialized() {
            return;
        }
        const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let Ok(message) = Message::parse(Bytes::from_static(INITIALIZED)) else { return };
        self.session.learn_initialized(&message);
        if self.link.is_up() && self.session.is_open() {
            self.send_message(Method::Initialized, Spliced::whole(message.text().clone()), cx);
        }
    }

    /// Keeps the choices of all clients after the server has confirmed that of one: requests of several clients cross.
    pub(super) fn keep_choices(&mut self, client: Option<ClientId>, confirmed: &ClientRequest, cx: &mut Cx<'_>) {
        let request = match (confirmed.op, confirmed.uri()) {
            (Op::SetLevel, _) => {
                let most = self.clients.most_verbose().filter(|most| Level::of(&confirmed.message) > Some(*most));
                most.map(|level| json!({ "method": "logging/setLevel", "params": { "level": level.name() } }))
            }
            (Op::Unsubscribe, Some(uri)) => {
                let is_requested = |call: &Call| {
                    call.request.op == Op::Subscribe
                        && call.client() != client
                        && call.request.uri().as_ref() == Some(&uri)
                };
                let is_wanted =
                    self.clients.any_subscribes(&uri) || self.calls.iter().any(|(_, call)| is_requested(call));
                is_wanted.then(|| json!({ "method": "resources/subscribe", "params": { "uri": uri } }))
            }
            _ => None,
        };
        let Some(mut request) = request else { return };
        (request["jsonrpc"], request["id"]) = (json!("2.0"), json!(0));
        let Ok(request) = Message::parse(Bytes::from(request.to_string())).map(ClientRequest::new) else { return };
        self.session.learn(&request);
        self.restore_again(request, cx);
    }

    /// Returns whether a choice of another client about the same is in flight: the server may handle them in any order,
    /// so this one waits.
    pub(super) fn crosses_choice(&self, client: ClientId, request: &ClientRequest) -> bool {
        let is_out = |call: &Call| !matches!(call.state, State::Waiting { .. }) && call.client() != Some(client);
        self.clients.are_several()
            && self.is_state(request)
            && self
                .calls
                .iter()
                .any(|(_, call)| is_out(call) && self.is_state(&call.request) && call.request.uri() == request.uri())
    }

    /// Keeps the choices of the other clients if a call ended without an answer: the server may have run it.
    pub(super) fn keep_choices_of_others(&mut self, call: &Call, cx: &mut Cx<'_>) {
        let may_have_run = matches!(call.state, State::Sent(_)) || call.worst_outcome == Outcome::Unknown;
        let has_others = self.clients.clients.iter().any(|client| Some(client.id) != call.client());
        if may_have_run && has_others {
            self.keep_choices(call.client(), &call.request, cx);
        }
    }

    fn send_answer_of_session(
        &mut self,
        client: ClientId,
        request: Key,
        message: Message,
        method: Method,
        cx: &mut Cx<'_>,
    ) {
        cx.emit(Event::AnsweredBySession { upstream: self.id, client, method });
        cx.send_to_client(client, ClientEvent::Answer { request, message });
    }

    /// Answers the handshakes that have waited for that of another client.
    pub(super) fn answer_joined(&mut self, cx: &mut Cx<'_>) {
        if !self.session.was_initialized() {
            return;
        }
        let is_joined = |call: &Call| call.request.op == Op::Initialize && call.client().is_some();
        let joined: Vec<Key> = self.calls.waiting().filter(|(_, call)| is_joined(call)).map(|(key, _)| key).collect();
        for key in joined {
            let owner = self.calls.get(key).map(|call| call.owner);
            let Some(Owner::Client { client, request }) = owner else { continue };
            if self.answer_for(client).is_none() {
                continue;
            }
            let Some(call) = self.take(key, cx) else { continue };
            let (took, was_out, method) = (cx.now.since(call.arrived), call.is_out, call.method());
            cx.emit(Event::ProvisionalAnswer { upstream: self.id, call: call.name, method, was_out, took });
            self.join_session(client, request, cx);
        }
    }

    /// Ends the subscriptions that only a gone client had.
    pub(super) fn end_subscriptions(&mut self, uris: Vec<String>, cx: &mut Cx<'_>) {
        for uri in uris {
            let request = json!({
                "jsonrpc": "2.0", "id": 0, "method": "resources/unsubscribe", "params": { "uri": uri },
            });
            let Ok(request) = Message::parse(Bytes::from(request.to_string())).map(ClientRequest::new) else {
                continue;
            };
            self.session.learn(&request);
            // A process that ends with its last client needs no requests any more.
            if !self.clients.is_empty() && self.is_open() && self.session.is_initialized() {
                self.send_internal(InternalRequest::Restore, request, cx);
            }
        }
    }

    /// Passes a request of the server to the client whose call caused it, or declines it.
    pub(super) fn route_server_request(&mut self, link: LinkId, call: Option<Key>, message: Message, cx: &mut Cx<'_>) {
        match self.cause_of_request(call) {
            Some((client, cause)) => {
                cx.send_to_client(client, ClientEvent::ServerRequest { link, cause, message });
            }
            None => {
                let why = if self.clients.is_empty() { RefusalReason::NoClient } else { RefusalReason::UnknownClient };
                if let Some(id) = message.id().map(Id::from_raw) {
                    cx.send_to_upstream(self.id, UpstreamCommand::Decline { link, id, why });
                }
            }
        }
    }

    /// The client whose call caused a request of the server, and its request: over HTTP that of the response which
    /// carries it, else the only one in flight. Of several requests of one client, none is known to be the cause.
    fn cause_of_request(&self, call: Option<Key>) -> Option<(ClientId, Option<Key>)> {
        let client_request = |call: &Call| match call.owner {
            Owner::Client { client, request } => Some((client, request)),
            _ => None,
        };
        if let Some((client, request)) = call.and_then(|key| self.calls.get(key)).and_then(client_request) {
            return Some((client, Some(request)));
        }
        let is_sent = |call: &Call| matches!(call.state, State::Sent(_));
        let mut sent = self.calls.iter().filter(|(_, call)| is_sent(call)).filter_map(|(_, call)| client_request(call));
        let Some((client, request)) = sent.next() else { return self.clients.only().map(|only| (only, None)) };
        let mut request = Some(request);
        for (other, _) in sent {
            request = None;
            if other != client {
                return self.clients.only().map(|only| (only, None));
            }
        }
        Some((client, request))
    }

    /// Passes the cancellation of a server's request to the client that has it.
    pub(super) fn withdraw_server_request(&mut self, link: LinkId, at: Span, message: &Message, cx: &mut Cx<'_>) {
        let is_only = !self.clients.are_several();
        for client in self.clients.ids() {
            cx.send_to_client(client, ClientEvent::Withdraw { link, at, message: message.clone(), is_only });
        }
    }
}

/// An answer without content; the client's own id replaces its id.
pub(super) fn empty_result() -> Option<Message> {
    const EMPTY: &[u8] = br#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
    Message::parse(Bytes::from_static(EMPTY)).ok()
}
