//! One client's conversation: its requests, each answered once, here and nowhere else.
//!
//! A request becomes a [`Request`] the moment it is read and stops being one the moment its answer is queued; there is no
//! third state, so there is no second answer. Ids and progress tokens are the client's own and are kept as they were
//! written: the upstream sees numbers of ours, the client never does. What the client left behind (cancelled, or gone) has
//! no `Request` any more, and whatever still arrives for it is dropped and counted.

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
use crate::slab::{Key, Slab};
use crate::words;

/// What the client waits for.
#[derive(Debug)]
struct Request {
    id: Id,
    method: Method,
    token: Option<Patch>,
}

/// One client's conversation.
#[derive(Debug)]
pub struct ClientSession {
    client: ClientId,
    upstream: UpstreamId,
    requests: Slab<Request>,
    server_requests: ServerRequests,
    outbox: Outbox,
    listening: usize,
    /// It had its chance to say who it is.
    is_identified: bool,
    /// It will send no more.
    ended: bool,
    /// It can no longer be written to.
    lost: bool,
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
            lost: false,
        }
    }

    /// Requests that will be answered by themselves; a subscription that listens for ever is not one.
    pub fn running(&self) -> usize {
        self.requests.len() - self.listening
    }

    /// Requests without an answer, listening ones included.
    pub fn open(&self) -> usize {
        self.requests.len()
    }

    /// Questions of servers that the client has not answered.
    pub fn server_requests(&self) -> usize {
        self.server_requests.len()
    }

    pub fn has_ended(&self) -> bool {
        self.ended || self.lost
    }

    pub fn is_lost(&self) -> bool {
        self.lost
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

    /// It will send no more. What it asked for is still answered; what it was asked, it cannot answer.
    pub fn handle_ended(&mut self, cx: &mut Cx<'_>) {
        if !self.ended {
            self.ended = true;
            cx.emit(Event::ClientEnded { client: self.client });
            self.server_requests.decline_all(cx);
        }
    }

    /// It can no longer be written to: nothing it asked for is of use any more.
    pub fn handle_lost(&mut self, cx: &mut Cx<'_>) {
        if self.lost {
            return;
        }
        self.lost = true;
        cx.emit(Event::ClientLost { client: self.client });
        for key in self.requests.keys_by_age() {
            self.forget(key);
        }
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
            ClientEvent::Withdraw { link, at, message } => {
                match self.server_requests.withdraw(self.client, link, at, &message, cx) {
                    Some(notification) => self.push(notification, cx),
                    None => self.drop_message(Method::Cancelled, Dropped::StaleReply, cx),
                }
            }
            ClientEvent::LinkGone { link } => {
                for notification in self.server_requests.withdraw_all(self.client, link, cx) {
                    self.push(notification, cx);
                }
            }
            ClientEvent::Notice { message, subscription: None } => {
                self.push(Spliced::whole(message.text().clone()), cx)
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
        let method = message.method();
        self.identify(&message, cx);
        let token = message.progress_token().map(|at| Patch::from(message.slice(at)));
        match self.requests.insert(Request { id: id.clone(), method, token }) {
            Some(request) => {
                self.listening += usize::from(method == Method::SubscriptionsListen);
                cx.send_to_upstream(self.upstream, UpstreamCommand::Call { client: self.client, request, message });
            }
            // The limits on calls turn requests away long before tens of thousands are open; this is the wall behind them.
            None => self.refuse_with(Some(id), words::Cause::Overloaded.code(), "too many requests are open", cx),
        }
    }

    /// Whoever speaks says who he is: in the handshake, or with every request where there is none.
    fn identify(&mut self, message: &Message, cx: &mut Cx<'_>) {
        if self.is_identified || message.method() == Method::Ping {
            return;
        }
        // Who has not said it by now never does; looking again would cost every request.
        self.is_identified = true;
        let member = |name: &str| match message.method() {
            Method::Initialize => message.get_str(&["clientInfo", name]),
            _ => message.get_str(&["_meta", meta::CLIENT_INFO, name]),
        };
        let short = |text: Cow<'_, str>| cx.quote.quote(text.as_bytes(), defaults::CLIENT_NAME);
        if let Some(name) = member("name") {
            let (name, version) = (short(name), member("version").map(short).unwrap_or_default());
            cx.emit(Event::ClientNamed { client: self.client, upstream: self.upstream, name, version });
        }
    }

    fn handle_cancelled(&mut self, message: Message, cx: &mut Cx<'_>) {
        let raw = message.get(&["requestId"]);
        // An id in use twice is the client's own doing; the request that it made last is the one that it means.
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

    /// The one place where an upstream's answer becomes the client's.
    fn answer(&mut self, request: Key, message: Message, cx: &mut Cx<'_>) {
        let Some(request) = self.forget(request) else {
            return self.drop_message(Method::None, Dropped::Late, cx);
        };
        let Some(at) = message.id_span() else { return };
        let subscription: Option<Span> =
            if request.method == Method::SubscriptionsListen { meta::subscription_id(&message) } else { None };
        let id = Patch::from(request.id);
        let answer = match subscription {
            Some(named) => Spliced::new(message.into_text(), [(at, id.clone()), (named, id)]),
            None => Spliced::new(message.into_text(), [(at, id)]),
        };
        self.push(answer, cx);
    }

    fn forget(&mut self, request: Key) -> Option<Request> {
        let request = self.requests.remove(request)?;
        self.listening -= usize::from(request.method == Method::SubscriptionsListen);
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
        if !self.lost {
            self.outbox.push(message, cx.ledger);
        }
    }

    fn drop_message(&self, method: Method, why: Dropped, cx: &mut Cx<'_>) {
        cx.emit(Event::MessageDropped { upstream: self.upstream, method, why });
    }
}
