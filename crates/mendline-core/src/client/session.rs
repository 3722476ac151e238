//! One client's conversation: its requests, each answered once, here and nowhere else.
//!
//! A request becomes a [`Request`] the moment it is read and stops being one the moment its answer is queued; there is no
//! third state, so there is no second answer. Ids and progress tokens are the client's own and are kept as they were
//! written: the upstream sees numbers of ours, the client never does. What the client left behind (cancelled, or gone) has
//! no `Request` any more, and whatever still arrives for it is dropped and counted.

use std::borrow::Cow;

use mendline_wire::{Fault, Id, Kind, Message, Method, Patch, Received, Span, Spliced, WireError, code, meta};

use super::asks::Asks;
use super::outbox::Outbox;
use crate::defaults;
use crate::event::{Dropped, Event};
use crate::dispatch::{ClientEvent, UpstreamCommand};
use crate::port::{ClientId, UpstreamId};
use crate::slab::{Key, Slab};
use crate::turn::Turn;
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
    asks: Asks,
    outbox: Outbox,
    listening: usize,
    /// It had its chance to say who it is.
    is_introduced: bool,
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
            asks: Asks::default(),
            outbox: Outbox::default(),
            listening: 0,
            is_introduced: false,
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
    pub fn asks(&self) -> usize {
        self.asks.len()
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

    pub fn pull(&mut self, turn: &mut Turn<'_>) -> Option<Spliced> {
        self.outbox.pop(turn.ledger)
    }

    pub fn handle_received(&mut self, received: Received, turn: &mut Turn<'_>) {
        match received {
            Received::Message(message) => self.handle_message(message, turn),
            Received::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.handle_message(message, turn),
                        Err(error) => self.refuse(&error, turn),
                    }
                }
            }
            Received::Broken { error, .. } => self.refuse(&error, turn),
            Received::TooLong { length, id, .. } => {
                let what = format!("a message of {length} bytes is longer than the limit");
                self.refuse_with(id, code::INVALID_REQUEST, &what, turn);
            }
        }
    }

    /// It will send no more. What it asked for is still answered; what it was asked, it cannot answer.
    pub fn handle_ended(&mut self, turn: &mut Turn<'_>) {
        if !self.ended {
            self.ended = true;
            turn.tell(Event::ClientEnded { client: self.client });
            self.asks.decline_all(turn);
        }
    }

    /// It can no longer be written to: nothing it asked for is of use any more.
    pub fn handle_lost(&mut self, turn: &mut Turn<'_>) {
        if self.lost {
            return;
        }
        self.lost = true;
        turn.tell(Event::ClientLost { client: self.client });
        for key in self.requests.keys_by_age() {
            self.forget(key);
        }
        self.asks.decline_all(turn);
        self.outbox.clear(turn.ledger);
        turn.send_to_upstream(self.upstream, UpstreamCommand::Close { client: self.client });
    }

    pub fn handle_event(&mut self, event: ClientEvent, turn: &mut Turn<'_>) {
        match event {
            ClientEvent::Answer { request, message } => self.answer(request, message, turn),
            ClientEvent::Fail { request, failure } => {
                if let Some(request) = self.forget(request) {
                    self.push(Spliced::whole(failure.response(&request.id, request.method)), turn);
                }
            }
            ClientEvent::Ended { request, at, message } => {
                if let Some(request) = self.forget(request) {
                    self.push(Spliced::new(message.text().clone(), [(at, Patch::from(request.id))]), turn);
                }
            }
            ClientEvent::Progress { request, at, message } => {
                let token = self.requests.get(request).and_then(|request| request.token.clone());
                match token {
                    Some(token) => self.push(Spliced::new(message.text().clone(), [(at, token)]), turn),
                    None => self.drop_message(Method::Progress, Dropped::StaleProgress, turn),
                }
            }
            ClientEvent::Reconnecting { request, progress, words } => {
                if let Some(token) = self.requests.get(request).and_then(|request| request.token.clone()) {
                    self.push(Spliced::whole(words::progress(token.as_bytes(), progress, &words)), turn);
                }
            }
            ClientEvent::Ask { link, message } => {
                if self.has_ended() {
                    if let Some(id) = message.id().map(Id::from_raw) {
                        turn.send_to_upstream(link.upstream, UpstreamCommand::Decline { link, id, why: "the client has gone" });
                    }
                } else if let Some(question) = self.asks.open(self.client, link, &message, turn) {
                    self.push(question, turn);
                }
            }
            ClientEvent::Withdraw { link, at, message } => match self.asks.withdraw(self.client, link, at, &message, turn)
            {
                Some(told) => self.push(told, turn),
                None => self.drop_message(Method::Cancelled, Dropped::StaleReply, turn),
            },
            ClientEvent::LinkGone { link } => {
                for told in self.asks.withdraw_all(self.client, link, turn) {
                    self.push(told, turn);
                }
            }
            ClientEvent::Notice { message, subscription: None } => self.push(Spliced::whole(message.text().clone()), turn),
            ClientEvent::Notice { message, subscription: Some((request, at)) } => {
                match self.requests.get(request).map(|request| Patch::from(request.id.clone())) {
                    Some(id) => self.push(Spliced::new(message.text().clone(), [(at, id)]), turn),
                    None => self.drop_message(message.method(), Dropped::Late, turn),
                }
            }
        }
    }

    fn handle_message(&mut self, message: Message, turn: &mut Turn<'_>) {
        match (message.kind(), message.method()) {
            (Kind::Request, _) => self.handle_request(message, turn),
            (Kind::Notification, Method::Cancelled) => self.handle_cancelled(message, turn),
            (Kind::Notification, Method::Progress) => {
                if let Err(why) = self.asks.progress(message, turn) {
                    self.drop_message(Method::Progress, why, turn);
                }
            }
            (Kind::Notification, _) => turn.send_to_upstream(self.upstream, UpstreamCommand::Notice { message }),
            (Kind::Result | Kind::Error, _) => {
                if let Err(why) = self.asks.answer(self.client, message, turn) {
                    self.drop_message(Asks::DROPPED_METHOD, why, turn);
                }
            }
        }
    }

    fn handle_request(&mut self, message: Message, turn: &mut Turn<'_>) {
        let Some(id) = message.id().map(Id::from_raw) else { return };
        let method = message.method();
        self.listen_for_a_name(&message, turn);
        let token = message.progress_token().map(|at| Patch::from(message.slice(at)));
        match self.requests.insert(Request { id: id.clone(), method, token }) {
            Some(request) => {
                self.listening += usize::from(method == Method::SubscriptionsListen);
                turn.send_to_upstream(self.upstream, UpstreamCommand::Call { client: self.client, request, message });
            }
            // The limits on calls turn requests away long before tens of thousands are open; this is the wall behind them.
            None => self.refuse_with(Some(id), words::Cause::Overloaded.code(), "too many requests are open", turn),
        }
    }

    /// Whoever speaks says who he is: in the handshake, or with every request where there is none.
    fn listen_for_a_name(&mut self, message: &Message, turn: &mut Turn<'_>) {
        if self.is_introduced || message.method() == Method::Ping {
            return;
        }
        // Who has not said it by now never does; looking again would cost every request.
        self.is_introduced = true;
        let member = |name: &str| match message.method() {
            Method::Initialize => message.get_str(&["clientInfo", name]),
            _ => message.get_str(&["_meta", meta::CLIENT_INFO, name]),
        };
        let short = |text: Cow<'_, str>| turn.quote.quote(text.as_bytes(), defaults::CLIENT_NAME);
        if let Some(name) = member("name") {
            let (name, version) = (short(name), member("version").map(short).unwrap_or_default());
            turn.tell(Event::ClientNamed { client: self.client, upstream: self.upstream, name, version });
        }
    }

    fn handle_cancelled(&mut self, message: Message, turn: &mut Turn<'_>) {
        let raw = message.get(&["requestId"]);
        // An id in use twice is the client's own doing; the request that it made last is the one that it means.
        let found =
            self.requests.iter().filter(|(_, request)| Some(request.id.as_bytes()) == raw).map(|(key, _)| key).max();
        match found {
            Some(request) => {
                self.forget(request);
                turn.send_to_upstream(self.upstream, UpstreamCommand::Cancel { client: self.client, request, message });
            }
            None => self.drop_message(Method::Cancelled, Dropped::Late, turn),
        }
    }

    /// The one place where an upstream's answer becomes the client's.
    fn answer(&mut self, request: Key, message: Message, turn: &mut Turn<'_>) {
        let Some(request) = self.forget(request) else {
            return self.drop_message(Method::None, Dropped::Late, turn);
        };
        let Some(at) = message.id_span() else { return };
        let subscription: Option<Span> =
            if request.method == Method::SubscriptionsListen { meta::subscription_id(&message) } else { None };
        let id = Patch::from(request.id);
        let answer = match subscription {
            Some(named) => Spliced::new(message.into_text(), [(at, id.clone()), (named, id)]),
            None => Spliced::new(message.into_text(), [(at, id)]),
        };
        self.push(answer, turn);
    }

    fn forget(&mut self, request: Key) -> Option<Request> {
        let request = self.requests.remove(request)?;
        self.listening -= usize::from(request.method == Method::SubscriptionsListen);
        Some(request)
    }

    fn refuse(&mut self, error: &WireError, turn: &mut Turn<'_>) {
        let is_syntax = matches!(error.fault, Fault::NotJson | Fault::NotUtf8 | Fault::Truncated);
        let code = if is_syntax { code::PARSE_ERROR } else { code::INVALID_REQUEST };
        self.refuse_with(error.id.clone(), code, &error.to_string(), turn);
    }

    fn refuse_with(&mut self, id: Option<Id>, code: i64, what: &str, turn: &mut Turn<'_>) {
        turn.tell(Event::ClientSpokeNonsense { client: self.client, what: what.to_owned() });
        let id = id.unwrap_or_else(|| Id::from_raw(b"null"));
        self.push(Spliced::whole(words::error_response(&id, code, what)), turn);
    }

    fn push(&mut self, message: Spliced, turn: &mut Turn<'_>) {
        if !self.lost {
            self.outbox.push(message, turn.ledger);
        }
    }

    fn drop_message(&self, method: Method, why: Dropped, turn: &mut Turn<'_>) {
        turn.tell(Event::MessageDropped { upstream: self.upstream, method, why });
    }
}
