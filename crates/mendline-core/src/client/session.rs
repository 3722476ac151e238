//! One client's session: its requests, each answered exactly once.
//!
//! A [`Request`] exists from the moment it is read until its answer is queued, so a second answer is impossible. Ids
//! and progress tokens of the client are kept as they were written; the upstream sees only numbers of ours. A cancelled
//! request, or one of a client that is gone, has no `Request`; messages that still arrive for it are dropped and
//! counted.

use std::borrow::Cow;

use mendline_wire::{Fault, Id, Kind, Message, Method, Patch, Received, Span, Spliced, WireError, code, meta};

use super::outbox::Outbox;
use super::server_requests::ServerRequests;
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::{ClientEvent, UpstreamCommand};
use crate::event::{Dropped, Event};
use crate::port::{ClientId, UpstreamId};
use crate::reason::RefusalReason;
use crate::request::{ClientRequest, Op};
use crate::slab::{Key, Slab};
use crate::words;

/// A request that waits for its answer.
#[derive(Debug)]
struct Request {
    id: Id,
    method: Method,
    is_listen: bool,
    token: Option<Patch>,
}

/// One client's session.
#[derive(Debug)]
pub struct ClientSession {
    client: ClientId,
    upstream: UpstreamId,
    requests: Slab<Request>,
    server_requests: ServerRequests,
    outbox: Outbox,
    listening: usize,
    /// The first request was searched for the client's name.
    is_identified: bool,
    /// The client will send no more.
    ended: bool,
}

impl ClientSession {
    pub fn new(client: ClientId, upstream: UpstreamId) -> Self {
        ClientSession {
            client,
            upstream,
            requests: Slab::default(),
            server_requests: ServerRequests::default(),
            outbox: Outbox::default(),
            listening: 0,
            is_identified: false,
            ended: false,
        }
    }

    /// Requests that end by themselves, which excludes subscriptions.
    pub fn running(&self) -> usize {
        self.requests.len() - self.listening
    }

    /// Requests without an answer, subscriptions included.
    pub fn open(&self) -> usize {
        self.requests.len()
    }

    /// Requests of servers that the client has not answered.
    pub fn server_requests(&self) -> usize {
        self.server_requests.len()
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub fn pull(&mut self, cx: &mut Cx<'_>) -> Option<Spliced> {
        self.outbox.pop(cx.ledger)
    }

    pub fn handle_received(&mut self, received: Received, cx: &mut Cx<'_>) {
        match received {
            Received::Message(message) => self.handle_message(message, cx),
            Received::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.handle_message(message, cx),
                        Err(error) => self.refuse(&error, cx),
                    }
                }
            }
            Received::Broken { error, .. } => self.refuse(&error, cx),
            Received::TooLong { length, id, .. } => {
                let what = format!("a message of {length} bytes is longer than the limit");
                self.refuse_with(id, code::INVALID_REQUEST, &what, cx);
            }
        }
    }

    /// Handles the end of the client's input. Its requests are still answered; requests of servers are declined.
    pub fn handle_ended(&mut self, cx: &mut Cx<'_>) {
        if !self.ended {
            self.ended = true;
            cx.emit(Event::ClientEnded { client: self.client });
            self.server_requests.decline_all(cx);
        }
    }

    /// Handles a client that can no longer be written to: its requests are abandoned. The session is over.
    pub fn handle_lost(&mut self, cx: &mut Cx<'_>) {
        cx.emit(Event::ClientLost { client: self.client });
        self.server_requests.decline_all(cx);
        self.outbox.clear(cx.ledger);
        cx.send_to_upstream(self.upstream, UpstreamCommand::Close { client: self.client });
    }

    pub fn handle_event(&mut self, event: ClientEvent, cx: &mut Cx<'_>) {
        match event {
            ClientEvent::Answer { request, message } => self.answer(request, message, cx),
            ClientEvent::Fail { request, failure } => {
                if let Some(request) = self.forget(request) {
                    self.push(Spliced::whole(failure.response(&request.id, request.method)), cx);
                }
            }
            ClientEvent::Ended { request, at, message } => {
                if let Some(request) = self.forget(request) {
                    self.push(Spliced::new(message.text().clone(), [(at, Patch::from(request.id))]), cx);
                }
            }
            ClientEvent::Progress { request, at, message } => {
                let token = self.requests.get(request).and_then(|request| request.token.clone());
                match token {
                    Some(token) => self.push(Spliced::new(message.text().clone(), [(at, token)]), cx),
                    None => self.drop_message(Method::Progress, Dropped::StaleProgress, cx),
                }
            }
            ClientEvent::Reconnecting { request, progress, words } => {
                if let Some(token) = self.requests.get(request).and_then(|request| request.token.clone()) {
                    self.push(Spliced::whole(words::progress(token.as_bytes(), progress, &words)), cx);
                }
            }
            ClientEvent::ServerRequest { link, message } => {
                if self.has_ended() {
                    if let Some(id) = message.id().map(Id::from_raw) {
                        cx.send_to_upstream(
                            link.upstream,
                            UpstreamCommand::Decline { link, id, why: RefusalReason::ClientGone },
                        );
                    }
                } else if let Some(question) = self.server_requests.open(self.client, link, &message, cx) {
                    self.push(question, cx);
                }
            }
            ClientEvent::Withdraw { link, at, message, is_only } => {
                match self.server_requests.withdraw(self.client, link, at, &message, cx) {
                    Some(notification) => self.push(notification, cx),
                    None if is_only => self.drop_message(Method::Cancelled, Dropped::StaleReply, cx),
                    None => {}
                }
            }
            ClientEvent::LinkGone { link } => {
                for notification in self.server_requests.withdraw_all(self.client, link, cx) {
                    self.push(notification, cx);
                }
            }
            ClientEvent::Notice { message, subscription: None } => {
                self.push(Spliced::whole(message.text().clone()), cx);
            }
            ClientEvent::Notice { message, subscription: Some((request, at)) } => {
                match self.requests.get(request).map(|request| Patch::from(request.id.clone())) {
                    Some(id) => self.push(Spliced::new(message.text().clone(), [(at, id)]), cx),
                    None => self.drop_message(message.method(), Dropped::Late, cx),
                }
            }
        }
    }

    fn handle_message(&mut self, message: Message, cx: &mut Cx<'_>) {
        match (message.kind(), message.method()) {
            (Kind::Request, _) => self.handle_request(message, cx),
            (Kind::Notification, Method::Cancelled) => self.handle_cancelled(message, cx),
            (Kind::Notification, Method::Progress) => {
                if let Err(why) = self.server_requests.progress(message, cx) {
                    self.drop_message(Method::Progress, why, cx);
                }
            }
            (Kind::Notification, Method::Initialized) => {
                cx.send_to_upstream(self.upstream, UpstreamCommand::Initialized { client: self.client, message });
            }
            (Kind::Notification, _) => cx.send_to_upstream(self.upstream, UpstreamCommand::Notice { message }),
            (Kind::Result | Kind::Error, _) => {
                if let Err(why) = self.server_requests.answer(self.client, message, cx) {
                    self.drop_message(ServerRequests::DROPPED_METHOD, why, cx);
                }
            }
        }
    }

    fn handle_request(&mut self, message: Message, cx: &mut Cx<'_>) {
        let Some(id) = message.id().map(Id::from_raw) else { return };
        let token = message.progress_token().map(|at| Patch::from(message.slice(at)));
        let call = ClientRequest::new(message);
        self.identify(&call, cx);
        let is_listen = call.op == Op::Listen;
        match self.requests.insert(Request { id: id.clone(), method: call.method(), is_listen, token }) {
            Some(request) => {
                self.listening += usize::from(is_listen);
                cx.send_to_upstream(self.upstream, UpstreamCommand::Call { client: self.client, request, call });
            }
            // The limits on calls reject requests long before this; it is the last defence.
            None => self.refuse_with(Some(id), words::Cause::Overloaded.code(), "too many requests are open", cx),
        }
    }

    /// Reads the client's name from its handshake, or from its first request in the modern era.
    fn identify(&mut self, request: &ClientRequest, cx: &mut Cx<'_>) {
        if self.is_identified || request.op == Op::Ping {
            return;
        }
        // Only the first request is searched: searching each would slow down every request.
        self.is_identified = true;
        let member = |name: &str| match request.op {
            Op::Initialize => request.message.get_str(&["clientInfo", name]),
            _ => request.message.get_str(&["_meta", meta::CLIENT_INFO, name]),
        };
        let short = |text: Cow<'_, str>| cx.quote.quote(text.as_bytes(), defaults::CLIENT_NAME);
        if let Some(name) = member("name") {
            let (name, version) = (short(name), member("version").map(short).unwrap_or_default());
            cx.emit(Event::ClientNamed { client: self.client, upstream: self.upstream, name, version });
        }
    }

    fn handle_cancelled(&mut self, message: Message, cx: &mut Cx<'_>) {
        let raw = message.get(&["requestId"]);
        // If the client used an id twice, it means its latest request.
        let found =
            self.requests.iter().filter(|(_, request)| Some(request.id.as_bytes()) == raw).map(|(key, _)| key).max();
        match found {
            Some(request) => {
                self.forget(request);
                cx.send_to_upstream(self.upstream, UpstreamCommand::Cancel { client: self.client, request, message });
            }
            None => self.drop_message(Method::Cancelled, Dropped::Late, cx),
        }
    }

    /// Delivers an upstream's answer to the client. No other function does.
    fn answer(&mut self, request: Key, message: Message, cx: &mut Cx<'_>) {
        let Some(request) = self.forget(request) else {
            return self.drop_message(Method::None, Dropped::Late, cx);
        };
        let Some(at) = message.id_span() else { return };
        let subscription: Option<Span> = if request.is_listen { meta::subscription_id(&message) } else { None };
        let id = Patch::from(request.id);
        let answer = match subscription {
            Some(named) => Spliced::new(message.into_text(), [(at, id.clone()), (named, id)]),
            None => Spliced::new(message.into_text(), [(at, id)]),
        };
        self.push(answer, cx);
    }

    fn forget(&mut self, request: Key) -> Option<Request> {
        let request = self.requests.remove(request)?;
        self.listening -= usize::from(request.is_listen);
        Some(request)
    }

    fn refuse(&mut self, error: &WireError, cx: &mut Cx<'_>) {
        let is_syntax = matches!(error.fault, Fault::NotJson | Fault::NotUtf8 | Fault::Truncated);
        let code = if is_syntax { code::PARSE_ERROR } else { code::INVALID_REQUEST };
        self.refuse_with(error.id.clone(), code, &error.to_string(), cx);
    }

    fn refuse_with(&mut self, id: Option<Id>, code: i64, what: &str, cx: &mut Cx<'_>) {
        cx.emit(Event::ClientMessageInvalid { client: self.client, what: what.to_owned() });
        let id = id.unwrap_or_else(|| Id::from_raw(b"null"));
        self.push(Spliced::whole(words::error_response(&id, code, what)), cx);
    }

    fn push(&mut self, message: Spliced, cx: &mut Cx<'_>) {
        self.outbox.push(message, cx.ledger);
    }

    fn drop_message(&self, method: Method, why: Dropped, cx: &mut Cx<'_>) {
        cx.emit(Event::MessageDropped { upstream: self.upstream, method, why });
    }
}
