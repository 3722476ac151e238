//! One client's session: its requests, each answered exactly once.
//!
//! A [`Request`] exists from the moment it is read until its answer is queued, so a second answer is impossible. Ids
//! and progress tokens of the client are kept as they were written; the upstream sees only numbers of ours. A cancelled
//! request, or one of a client that is gone, has no `Request`; messages that still arrive for it are dropped and
//! counted.

use std::borrow::Cow;

use mendline_wire::{Fault, Id, Kind, Message, Method, Patch, Received, Span, Spliced, WireError, code, meta};

use super::server_requests::ServerRequests;
use super::streams::{Keep, Layout, Streams};
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::{ClientEvent, NoticeAbout, UpstreamCommand};
use crate::event::{Dropped, Event};
use crate::own_tools::{Addition, OwnTools};
use crate::policy::tool_filter::ToolFilter;
use crate::port::{ClientId, ClientStreams, LinkId, StreamId, StreamMessage, UpstreamId};
use crate::reason::RefusalReason;
use crate::request::{ClientRequest, Op};
use crate::slab::{Key, Slab};
use crate::words;

/// A request that waits for its answer.
#[derive(Debug)]
struct Request {
    id: Id,
    method: Method,
    stream: StreamId,
    kind: RequestKind,
    token: Option<Patch>,
}

/// The kinds of requests that end in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Call,
    /// A subscription: it has no end of its own.
    Listen,
    /// The handshake of a client that made it with an earlier process. Its answer is dropped.
    ResumedHandshake,
}

/// One client's session.
#[derive(Debug)]
pub struct ClientSession {
    client: ClientId,
    upstream: UpstreamId,
    requests: Slab<Request>,
    server_requests: ServerRequests,
    streams: Streams,
    listening: usize,
    /// The first request was searched for the client's name.
    is_identified: bool,
    /// The client will send no more.
    ended: bool,
    /// Mendline's own tool and resource, if the client gets them.
    own_tools: Option<OwnTools>,
    /// The tools of the server that the client may use.
    tool_filter: ToolFilter,
}

impl ClientSession {
    pub fn new(client: ClientId, upstream: UpstreamId, streams: &ClientStreams) -> Self {
        let layout = match streams {
            ClientStreams::One => Layout::One,
            ClientStreams::Many { .. } => Layout::Many,
        };
        ClientSession {
            client,
            upstream,
            requests: Slab::default(),
            server_requests: ServerRequests::default(),
            streams: Streams::new(client, layout),
            listening: 0,
            is_identified: false,
            ended: false,
            own_tools: None,
            tool_filter: ToolFilter::default(),
        }
    }

    /// Adds Mendline's own tool and resource to its lists.
    pub fn with_own_tools(mut self, is_wanted: bool) -> Self {
        self.own_tools = is_wanted.then(OwnTools::default);
        self
    }

    /// Sets the tools of the server that the client may use.
    pub fn set_tool_filter(&mut self, filter: ToolFilter) {
        self.tool_filter = filter;
    }

    /// The upstream of its requests.
    pub fn upstream(&self) -> UpstreamId {
        self.upstream
    }

    /// Records that its upstream was removed: later requests are refused.
    pub fn lose_upstream(&mut self) {
        self.upstream = UpstreamId::NONE;
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

    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns the next message for a client with one stream.
    pub fn pull(&mut self, cx: &mut Cx<'_>) -> Option<Spliced> {
        self.streams.pull_common(cx)
    }

    /// Returns the next message for one stream.
    pub fn pull_stream(&mut self, stream: StreamId, cx: &mut Cx<'_>) -> Option<StreamMessage> {
        self.streams.pull(stream, cx)
    }

    /// Makes the handshake of a client that has completed it with an earlier process.
    pub fn resume(&mut self, initialize: Message, cx: &mut Cx<'_>) {
        let call = ClientRequest::new(initialize);
        self.identify(&call, cx);
        self.begin(call, Id::from_raw(b"null"), StreamId::COMMON, RequestKind::ResumedHandshake, cx);
    }

    pub fn handle_received(&mut self, stream: StreamId, received: Received, cx: &mut Cx<'_>) {
        match received {
            Received::Message(message) => self.handle_message(stream, message, cx),
            Received::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.handle_message(stream, message, cx),
                        Err(error) => self.refuse(stream, &error, cx),
                    }
                }
            }
            Received::Broken { error, .. } => self.refuse(stream, &error, cx),
            Received::TooLong { length, id, .. } => {
                let what = format!("a message of {length} bytes is longer than the limit");
                self.refuse_with(stream, id, code::INVALID_REQUEST, &what, cx);
            }
        }
    }

    /// Handles a stream that has a connection, for the first time or again.
    pub fn handle_attached(&mut self, stream: StreamId, cx: &mut Cx<'_>) {
        self.streams.attach(stream, cx);
    }

    /// Handles the loss of a stream's connection. Its requests go on.
    pub fn handle_detached(&mut self, stream: StreamId) {
        self.streams.detach(stream);
    }

    /// Handles the end of a stream before its last answer: cancels its requests.
    pub fn handle_closed(&mut self, stream: StreamId, cx: &mut Cx<'_>) {
        let of_stream = |(key, request): (Key, &Request)| (request.stream == stream).then_some(key);
        let requests: Vec<Key> = self.requests.iter().filter_map(of_stream).collect();
        for key in requests {
            let Some(request) = self.forget(key) else { continue };
            let notification = words::cancelled(&request.id, "the client closed the stream of this request");
            if let Ok(message) = Message::parse(notification) {
                cx.send_to_upstream(
                    self.upstream,
                    UpstreamCommand::Cancel { client: self.client, request: key, message },
                );
            }
        }
        self.streams.close(stream, cx);
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
        // A client over HTTP that leaves is an ordinary event: its session has ended or expired.
        cx.emit(match self.streams.are_many() {
            true => Event::ClientEnded { client: self.client },
            false => Event::ClientLost { client: self.client },
        });
        self.server_requests.decline_all(cx);
        self.streams.clear(cx);
        cx.send_to_upstream(self.upstream, UpstreamCommand::Close { client: self.client });
    }

    pub fn handle_event(&mut self, event: ClientEvent, cx: &mut Cx<'_>) {
        match event {
            ClientEvent::Answer { request, message } => self.answer(request, message, cx),
            ClientEvent::Fail { request, failure } => {
                if let Some(request) = self.forget(request) {
                    let answer = Spliced::whole(failure.response(&request.id, request.method));
                    self.end(&request, answer, cx);
                }
            }
            ClientEvent::Ended { request, at, message } => {
                if let Some(request) = self.forget(request) {
                    let end = Spliced::new(message.text().clone(), [(at, Patch::from(request.id.clone()))]);
                    self.end(&request, end, cx);
                }
            }
            ClientEvent::Progress { request, at, message } => {
                let found = self.requests.get(request).and_then(|it| Some((it.stream, it.token.clone()?)));
                match found {
                    Some((stream, token)) => {
                        self.notify(stream, Method::Progress, Spliced::new(message.text().clone(), [(at, token)]), cx);
                    }
                    None => self.drop_message(Method::Progress, Dropped::StaleProgress, cx),
                }
            }
            ClientEvent::Reconnecting { request, progress, words } => {
                let found = self.requests.get(request).and_then(|it| Some((it.stream, it.token.clone()?)));
                if let Some((stream, token)) = found {
                    let notice = Spliced::whole(words::progress(token.as_bytes(), progress, &words));
                    self.notify(stream, Method::Progress, notice, cx);
                }
            }
            ClientEvent::ServerRequest { link, cause, message } => self.ask(link, cause, &message, cx),
            ClientEvent::Withdraw { link, at, message, is_only } => {
                match self.server_requests.withdraw(self.client, link, at, &message, cx) {
                    Some((stream, notification)) => self.notify(stream, Method::Cancelled, notification, cx),
                    None if is_only => self.drop_message(Method::Cancelled, Dropped::StaleReply, cx),
                    None => {}
                }
            }
            ClientEvent::LinkGone { link } => {
                for (stream, notification) in self.server_requests.withdraw_all(self.client, link, cx) {
                    self.notify(stream, Method::Cancelled, notification, cx);
                }
            }
            ClientEvent::Notice { message, about } => self.handle_notice(&message, about, cx),
        }
    }

    fn handle_notice(&mut self, message: &Message, about: NoticeAbout, cx: &mut Cx<'_>) {
        let whole = || Spliced::whole(message.text().clone());
        match about {
            NoticeAbout::Session => self.notify(StreamId::COMMON, message.method(), whole(), cx),
            NoticeAbout::Request(request) => {
                let stream = self.requests.get(request).map_or(StreamId::COMMON, |request| request.stream);
                self.notify(stream, message.method(), whole(), cx);
            }
            NoticeAbout::Subscription(request, at) => {
                match self.requests.get(request).map(|request| (request.stream, Patch::from(request.id.clone()))) {
                    Some((stream, id)) => {
                        self.notify(stream, message.method(), Spliced::new(message.text().clone(), [(at, id)]), cx);
                    }
                    None => self.drop_message(message.method(), Dropped::Late, cx),
                }
            }
        }
    }

    fn handle_message(&mut self, stream: StreamId, message: Message, cx: &mut Cx<'_>) {
        match (message.kind(), message.method()) {
            (Kind::Request, _) => self.handle_request(stream, message, cx),
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

    fn handle_request(&mut self, stream: StreamId, message: Message, cx: &mut Cx<'_>) {
        let Some(id) = message.id().map(Id::from_raw) else { return };
        let call = ClientRequest::new(message);
        self.identify(&call, cx);
        let kind = if call.op == Op::Listen { RequestKind::Listen } else { RequestKind::Call };
        self.begin(call, id, stream, kind, cx);
    }

    fn begin(&mut self, call: ClientRequest, id: Id, stream: StreamId, kind: RequestKind, cx: &mut Cx<'_>) {
        if let Some(tool) = self.denied_tool(&call) {
            return self.refuse_tool(&tool, &id, stream, cx);
        }
        let token = call.message.progress_token().map(|at| Patch::from(call.message.slice(at)));
        match self.requests.insert(Request { id: id.clone(), method: call.method(), stream, kind, token }) {
            Some(request) => {
                self.listening += usize::from(kind == RequestKind::Listen);
                self.streams.begin_request(stream);
                let client = self.client;
                let command = match &mut self.own_tools {
                    Some(own) if own.is_own(&call) => UpstreamCommand::OwnStatus { client, request, call },
                    own => {
                        own.iter_mut().for_each(|own| own.note_request(&call));
                        UpstreamCommand::Call { client, request, call }
                    }
                };
                cx.send_to_upstream(self.upstream, command);
            }
            // The limits on calls reject requests long before this; it is the last defence.
            None => {
                let code = words::Cause::Overloaded.code();
                self.refuse_with(stream, Some(id), code, "too many requests are open", cx);
            }
        }
    }

    /// Returns the tool of a call that the configuration denies. Mendline's own tool is never denied.
    fn denied_tool(&self, call: &ClientRequest) -> Option<String> {
        if call.op != Op::CallTool || self.tool_filter.allows_all() {
            return None;
        }
        let is_own = self.own_tools.as_ref().is_some_and(|own| own.is_own(call));
        let tool = call.tool().unwrap_or_default();
        (!is_own && !self.tool_filter.allows(&tool)).then(|| tool.into_owned())
    }

    /// Answers the call of a denied tool as that of an unknown one.
    fn refuse_tool(&mut self, tool: &str, id: &Id, stream: StreamId, cx: &mut Cx<'_>) {
        let tool = cx.quote.quote(tool.as_bytes(), defaults::TOOL_NAME);
        let text = words::error_response(id, code::INVALID_PARAMS, &words::denied_tool(&tool));
        cx.emit(Event::ToolDenied { upstream: self.upstream, client: self.client, tool });
        self.streams.begin_request(stream);
        self.push(stream, Spliced::whole(text), cx);
        self.streams.end_request(stream, cx);
    }

    /// Passes a request of the server to the client, or declines it.
    fn ask(&mut self, link: LinkId, cause: Option<Key>, message: &Message, cx: &mut Cx<'_>) {
        let cause = cause.and_then(|key| self.requests.get(key)).map(|request| request.stream);
        match self.streams.for_server_request(cause).filter(|_| !self.ended) {
            Some(stream) => {
                if let Some(question) = self.server_requests.open(self.client, link, stream, message, cx) {
                    self.push(stream, question, cx);
                }
            }
            None => {
                let why = if self.ended { RefusalReason::ClientGone } else { RefusalReason::NoStream };
                if let Some(id) = message.id().map(Id::from_raw) {
                    cx.send_to_upstream(link.upstream, UpstreamCommand::Decline { link, id, why });
                }
            }
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
                if let Some(forgotten) = self.forget(request) {
                    self.streams.end_request(forgotten.stream, cx);
                }
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
        if request.kind == RequestKind::ResumedHandshake {
            let initialized = words::initialized();
            let message = Message::parse(initialized);
            if let Ok(message) = message {
                cx.send_to_upstream(self.upstream, UpstreamCommand::Initialized { client: self.client, message });
            }
            return;
        }
        let message = match request.method {
            Method::ToolsList => self.tool_filter.without_denied(&message).unwrap_or(message),
            _ => message,
        };
        let (message, added) = self.with_own_entries(request.method, message, cx);
        let Some(at) = message.id_span() else { return };
        let is_listen = request.kind == RequestKind::Listen;
        let subscription: Option<Span> = if is_listen { meta::subscription_id(&message) } else { None };
        let id = Patch::from(request.id.clone());
        let answer = match subscription {
            Some(named) => Spliced::new(message.into_text(), [(at, id.clone()), (named, id)]),
            None => Spliced::new(message.into_text(), added.into_iter().chain([(at, id)])),
        };
        self.end(&request, answer, cx);
    }

    /// Adds Mendline's own entries to an answer.
    fn with_own_entries(
        &mut self,
        method: Method,
        answer: Message,
        cx: &mut Cx<'_>,
    ) -> (Message, Option<(Span, Patch)>) {
        let Some(own) = &mut self.own_tools else { return (answer, None) };
        match own.addition(method, &answer) {
            Addition::None => (answer, None),
            Addition::Insert(at, patch) => (answer, Some((at, patch))),
            Addition::Instead(list) => (list, None),
            Addition::Taken => {
                cx.emit(Event::OwnNameTaken { upstream: self.upstream, method });
                (answer, None)
            }
        }
    }

    fn forget(&mut self, request: Key) -> Option<Request> {
        let request = self.requests.remove(request)?;
        self.listening -= usize::from(request.kind == RequestKind::Listen);
        Some(request)
    }

    /// Queues the last message of a request.
    fn end(&mut self, request: &Request, last: Spliced, cx: &mut Cx<'_>) {
        if request.kind != RequestKind::ResumedHandshake {
            self.push(request.stream, last, cx);
        }
        self.streams.end_request(request.stream, cx);
    }

    fn refuse(&mut self, stream: StreamId, error: &WireError, cx: &mut Cx<'_>) {
        let is_syntax = matches!(error.fault, Fault::NotJson | Fault::NotUtf8 | Fault::Truncated);
        let code = if is_syntax { code::PARSE_ERROR } else { code::INVALID_REQUEST };
        self.refuse_with(stream, error.id.clone(), code, &error.to_string(), cx);
    }

    fn refuse_with(&mut self, stream: StreamId, id: Option<Id>, code: i64, what: &str, cx: &mut Cx<'_>) {
        cx.emit(Event::ClientMessageInvalid { client: self.client, what: what.to_owned() });
        let id = id.unwrap_or_else(|| Id::from_raw(b"null"));
        self.streams.begin_request(stream);
        self.push(stream, Spliced::whole(words::error_response(&id, code, what)), cx);
        self.streams.end_request(stream, cx);
    }

    /// Queues an answer, or a request of the server.
    fn push(&mut self, stream: StreamId, message: Spliced, cx: &mut Cx<'_>) {
        // It is kept, unless no client can read it any more.
        if let Err(why) = self.streams.push(stream, message, Keep::Always, cx) {
            self.drop_message(Method::None, why.into(), cx);
        }
    }

    /// Queues a notification.
    fn notify(&mut self, stream: StreamId, method: Method, message: Spliced, cx: &mut Cx<'_>) {
        if let Err(why) = self.streams.push(stream, message, Keep::WhileThereIsRoom, cx) {
            self.drop_message(method, why.into(), cx);
        }
    }

    fn drop_message(&self, method: Method, why: Dropped, cx: &mut Cx<'_>) {
        cx.emit(Event::MessageDropped { upstream: self.upstream, method, why });
    }
}
