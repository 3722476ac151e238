//! The answers of the gateway to HTTP requests.
//!
//! A POST with requests opens a stream in the engine. If its answer comes within [`JSON_WITHIN`] and is the only
//! message, the response is JSON; else it becomes a stream of events, which carries comments while nothing happens. A
//! client that loses such a stream resumes it with GET and the id of its last event.

mod opening;
mod sse;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode, Version};
use http_body::Body;
use mendline_core::{Input, StreamId, words};
use mendline_wire::{Id, Limits, Method, Received, code, headers};

use super::access::{Access, Connection, Denied, Peer, SharedAccess};
use super::access_log::Principal;
use super::admission::{Admission, admit, requests};
use super::authorize::{Asked, Authorized, authorize};
use super::body::{EventBody, EventIds};
use super::ended_sessions::EndedSessions;
use super::event_id::EventId;
use super::forward_headers::ForwardedValues;
use super::hub::Hub;
use super::operation::{MayUse, Operation};
use super::param_headers::ParamHeaders;
use super::posted_body::{self, BodyLimits};
use super::principal::{Permit, Principals};
use super::progress::{OpenResponses, WaitingResponses, WatchedBody};
use super::reader::{OnLoss, StreamReader};
use super::request::{Accepts, Posted, PostedKind, Route, is_json};
use super::response::{
    Answer, add_cors, broken, denied, empty, events, is_error, json, json_error, method_not_allowed, modern_status,
    refused_post, single_message, text, unknown_session, with_session, without_answer,
};
use super::server_pool::{GatewayServer, ServerPool};
use super::session_id::Sealer;
use super::sessions::{ForeignKey, Session, Sessions};
use super::stream_queue::Next;
use crate::control::SharedStatus;
use crate::observe::redact::Redactor;

/// The time within which an answer is sent as JSON.
const JSON_WITHIN: Duration = Duration::from_secs(2);

/// The revision of clients that resume streams before any message came.
const PRIMED_SINCE: &str = "2025-11-25";

/// Whether a request lists tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsList {
    Yes,
    No,
}

/// The gateway, as its connections see it.
pub struct Gateway {
    hub: Hub,
    servers: Arc<ServerPool>,
    access: Arc<SharedAccess>,
    principals: Principals,
    sealer: Sealer,
    limits: Limits,
    sessions: Mutex<Sessions>,
    operation: Operation,
    redactor: Redactor,
    ended: Mutex<EndedSessions>,
    params: Mutex<ParamHeaders>,
    /// The number of this process in event ids.
    process: u32,
    open_responses: OpenResponses,
}

impl Gateway {
    /// Creates a gateway for these servers.
    pub fn new(hub: Hub, servers: Arc<ServerPool>, access: Access, sealer: Sealer, limits: Limits) -> Gateway {
        let process = (sealer.number() & 0xffff_ffff) as u32;
        Gateway {
            hub,
            servers,
            access: Arc::new(SharedAccess::new(access)),
            principals: Principals::new(),
            sealer,
            limits,
            sessions: Mutex::default(),
            operation: Operation::default(),
            redactor: Redactor::default(),
            ended: Mutex::default(),
            params: Mutex::default(),
            process,
            open_responses: OpenResponses::default(),
        }
    }

    /// Sets the status of the servers, for the pages of the operator.
    pub fn with_status(mut self, status: SharedStatus) -> Gateway {
        self.operation.set_status(status);
        self
    }

    /// Sets the redactor of the logs, which learns the headers of clients that are passed on.
    pub fn with_redactor(mut self, redactor: Redactor) -> Gateway {
        self.redactor = redactor;
        self
    }

    /// Refuses new requests from now on: the process stops.
    pub fn drain(&self) {
        self.operation.drain();
    }

    /// Ends all streams, after the engine has stopped. Returns whether a connection still has to write the rest.
    pub fn end_streams(&self) -> bool {
        self.hub.end_streams();
        self.lock().any_reader() || self.open_responses.count() > 0
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<WatchedBody>
    where
        B: Body<Data = Bytes>,
    {
        let origin = request.headers().get(http::header::ORIGIN).cloned();
        // A response of HTTP/1 that is not taken blocks its connection, which is noticed there.
        let is_http2 = request.version() == Version::HTTP_2;
        let waiting = request.extensions().get::<WaitingResponses>().filter(|_| is_http2).cloned();
        let asked = request.headers().get(http::header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let mut answer = self.route(request).await.unwrap_or_else(|refused| *refused);
        if let Some(origin) =
            origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.access().allows_origin(origin)))
        {
            add_cors(answer.headers_mut(), origin, asked.as_ref(), &self.servers.forwarded_names());
        }
        answer.map(|body| WatchedBody::new(body, &self.open_responses, waiting))
    }

    /// Removes the sessions that no client has used for long. Their ids open them again.
    pub fn expire(&self) {
        let idle = self.lock().take_idle(Instant::now());
        idle.iter().for_each(|session| self.close(session));
    }

    /// Ends processes that no client has used for long, and the sessions of servers that are removed.
    pub fn stop_idle(&self) {
        let uses = self.lock().uses(|at| self.servers.moment(at));
        self.servers.stop_idle(&uses);
        for upstream in self.servers.take_removed() {
            let ended = self.lock().take_leaving(upstream);
            ended.iter().for_each(|session| self.close(session));
        }
    }

    /// Removes a server. Its running calls are answered before its sessions end.
    pub fn remove_server(&self, name: &str) {
        self.lock().note_leaving(name);
        self.servers.remove(name);
    }

    /// The rules of access.
    pub fn access(&self) -> Arc<Access> {
        self.access.get()
    }

    /// Replaces the rules of access. The sessions of principals that are gone end at once.
    pub fn set_access(&self, access: Access) {
        self.access.set(access);
        let access = self.access();
        self.hub.set_tools(|principal| access.tools_of(principal).cloned());
        let ended = self.lock().take_unknown(|principal| access.knows(principal));
        ended.iter().for_each(|session| self.close(session));
    }

    /// The number of sessions.
    pub fn sessions(&self) -> usize {
        self.lock().len()
    }

    async fn route<B: Body<Data = Bytes>>(&self, request: Request<B>) -> Result<Answer, Box<Answer>> {
        let path = request.uri().path().to_owned();
        let route = Route::of(&path);
        if route == Route::Health {
            return Ok(text(StatusCode::OK, "ok\n"));
        }
        let from = request.extensions().get().copied().unwrap_or(Connection::from(Peer::Unknown));
        let asked = Asked { method: request.method(), uri: request.uri(), headers: request.headers(), from };
        let principal = match authorize(&self.access(), asked).await? {
            Authorized::Principal(principal) => principal,
            Authorized::Anyone(answer) => return Ok(answer),
        };
        let answer = self.serve(request, &path, route, Arc::clone(&principal)).await;
        let mut answer = answer.unwrap_or_else(|refused| *refused);
        if !self.access().knows(&principal) {
            // The token was removed meanwhile.
            return Err(Box::new(denied(&Denied::Token)));
        }
        answer.extensions_mut().insert(Principal(principal));
        Ok(answer)
    }

    /// Answers a request of a principal.
    async fn serve<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        path: &str,
        route: Route<'_>,
        principal: Arc<str>,
    ) -> Result<Answer, Box<Answer>> {
        // A POST may carry a response or a cancellation that a running call waits for.
        let is_post = request.method() == Verb::POST;
        if let (Route::Mcp(_) | Route::Sse(_), Some(refusal)) = (&route, self.operation.refusal().filter(|_| !is_post))
        {
            return Ok(refusal);
        }
        match route {
            Route::Mcp(name) => {
                let server = self.server(name, &principal, request.headers())?;
                match *request.method() {
                    Verb::POST => self.post(request, &server, principal).await,
                    Verb::GET => self.get(request.headers(), &server, &principal),
                    Verb::DELETE => self.delete(request.headers(), &principal),
                    _ => Ok(method_not_allowed("GET, POST, DELETE")),
                }
            }
            Route::Sse(name) if request.method() == Verb::GET => {
                let server = self.server(name, &principal, request.headers())?;
                self.open_sse(path, request.headers(), &server, principal)
            }
            Route::SseMessage(name) if request.method() == Verb::POST => {
                let server = self.server(name, &principal, request.headers())?;
                self.post_sse(request, &server, principal).await
            }
            Route::Sse(_) => Ok(method_not_allowed("GET")),
            Route::SseMessage(_) => Ok(method_not_allowed("POST")),
            Route::Ready(_) | Route::ApiStatus | Route::ApiEvents | Route::Metrics
                if !matches!(*request.method(), Verb::GET | Verb::HEAD) =>
            {
                Ok(method_not_allowed("GET"))
            }
            Route::Ready(None) => Ok(self.operation.ready()),
            Route::Ready(Some(name)) => self
                .server(Some(name), &principal, request.headers())
                .map(|server| self.operation.ready_server(&server.name)),
            Route::ApiStatus => Ok(self.operation.status(&self.may_use(principal))),
            Route::ApiEvents => Ok(self.operation.events(self.may_use(principal))),
            Route::Metrics => Ok(self.operation.metrics(&self.may_use(principal))),
            Route::Health | Route::Unknown => Err(Box::new(self.unknown_path(path))),
        }
    }

    /// Returns the server of a path; without a name, the only one.
    fn server(&self, name: Option<&str>, principal: &str, headers: &HeaderMap) -> Result<GatewayServer, Box<Answer>> {
        let Some(mut server) = self.servers.find(name) else {
            let names: Vec<_> = self.servers.names().iter().map(|name| format!("/mcp/{name}")).collect();
            let why = match name {
                Some(name) => format!("there is no server {name:?}; the servers are {}", names.join(", ")),
                None => format!("there are several servers: use one of {}", names.join(", ")),
            };
            return Err(Box::new(json_error(StatusCode::NOT_FOUND, code::INVALID_REQUEST, &why, None)));
        };
        if !self.access().may_use(principal, &server.name) {
            return Err(Box::new(denied(&Denied::Server)));
        }
        let rules = self.servers.forward_headers(&server);
        server.forwarded = ForwardedValues::of(&rules, headers, principal);
        Ok(server)
    }

    /// Returns whether a principal may know of a server.
    fn may_use(&self, principal: Arc<str>) -> MayUse {
        let access = Arc::clone(&self.access);
        Arc::new(move |server: &str| {
            let access = access.get();
            access.knows(&principal) && access.may_use(&principal, server)
        })
    }

    fn unknown_path(&self, path: &str) -> Answer {
        let why = format!("there is nothing at {path}; MCP is at /mcp/SERVER");
        json_error(StatusCode::NOT_FOUND, code::INVALID_REQUEST, &why, None)
    }

    // ---- Streamable HTTP ----

    async fn post<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Answer, Box<Answer>> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let why = "the Content-Type must be application/json";
            return Ok(json_error(StatusCode::UNSUPPORTED_MEDIA_TYPE, code::INVALID_REQUEST, why, None));
        }
        let accepts = Accepts::of(&parts.headers);
        if !accepts.json && !accepts.events {
            let why = "Accept must name application/json and text/event-stream";
            return Ok(json_error(StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST, why, None));
        }
        let text = posted_body::read(&parts.headers, body, BodyLimits::up_to(self.limits.message_bytes)).await?;
        let received = Received::from_text(text, &self.limits);
        self.refuse_while_draining(&received)?;
        let access = self.access();
        let permit = admit(&self.admission(&access, server), &principal, &received)?;
        let posted = Posted::new(received, &parts.headers).map_err(|refused| Box::new(refused_post(&refused)))?;
        let Posted { received, kind } = posted;
        match kind {
            PostedKind::Broken => Ok(broken(&received)),
            PostedKind::Initialize => {
                let session = self.open_session(server, principal, &received)?;
                let id = request_id(&received);
                let answer = self.call(&session, (received, permit), id, accepts, OnLoss::Detach).await;
                Ok(self.without_failed_session(answer, &session))
            }
            PostedKind::Modern(id) => {
                let is_list = self.check_params(server, &received, &parts.headers)?;
                let session = self.modern_session(server, principal)?;
                let answer = self.call(&session, (received, permit), Some(id), accepts, OnLoss::Close).await;
                if is_list == IsList::Yes
                    && let Some(list) = single_message(answer.body())
                {
                    self.lock_params().learn(&server.name, &list);
                }
                Ok(answer)
            }
            PostedKind::Requests(id) => {
                let session = self.session(&parts.headers, server, principal)?;
                Ok(self.call(&session, (received, permit), id, accepts, OnLoss::Detach).await)
            }
            PostedKind::OneWay => {
                // Without a session there is nothing that such a message could concern.
                let Some(session) = self.session_of_header(&parts.headers, server, &principal)? else {
                    return Ok(empty(StatusCode::ACCEPTED));
                };
                session.touch();
                let (client, stream) = (session.client, StreamId::COMMON);
                self.hub.input(Input::FromClient { client, stream, received });
                Ok(with_session(empty(StatusCode::ACCEPTED), &session))
            }
        }
    }

    fn admission<'a>(&'a self, access: &'a Access, server: &'a GatewayServer) -> Admission<'a> {
        Admission { access, principals: &self.principals, hub: &self.hub, server }
    }

    /// Refuses a frame with requests while the gateway stops.
    fn refuse_while_draining(&self, received: &Received) -> Result<(), Box<Answer>> {
        match self.operation.refusal().filter(|_| requests(received).next().is_some()) {
            Some(refusal) => Err(Box::new(refusal)),
            None => Ok(()),
        }
    }

    /// Returns the session that a request names, if there is one.
    fn session_of_header(
        &self,
        headers: &HeaderMap,
        server: &GatewayServer,
        principal: &Arc<str>,
    ) -> Result<Option<Arc<Session>>, Box<Answer>> {
        let Some(id) = header(headers, headers::SESSION_ID) else { return Ok(None) };
        let foreign = ForeignKey::new(principal, &server.name, id);
        match self.session_of_id(id, server, principal)? {
            Some(session) => Ok(Some(session)),
            None => Ok(self.lock().of_foreign(&foreign)),
        }
    }

    /// Refuses a modern call whose `Mcp-Param-*` headers do not repeat its arguments. Returns whether the request lists
    /// tools.
    fn check_params(
        &self,
        server: &GatewayServer,
        received: &Received,
        headers: &HeaderMap,
    ) -> Result<IsList, Box<Answer>> {
        let Received::Message(message) = received else { return Ok(IsList::No) };
        match message.method() {
            Method::ToolsList => Ok(IsList::Yes),
            Method::ToolsCall => {
                let params = self.lock_params();
                let Some(name) = params.mismatch(&server.name, message, headers) else { return Ok(IsList::No) };
                let why = format!("the header {name} does not match the body");
                Err(Box::new(json_error(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, &why, message.id())))
            }
            _ => Ok(IsList::No),
        }
    }

    /// Passes a frame with requests to the engine and answers with what comes back.
    async fn call(
        &self,
        session: &Arc<Session>,
        (received, permit): (Received, Option<Permit>),
        id: Option<Vec<u8>>,
        accepts: Accepts,
        on_loss: OnLoss,
    ) -> Answer {
        let stream = session.new_stream();
        let queue = self.hub.open_stream(session.client, stream);
        queue.hold(permit);
        let mut reader = StreamReader::attach(&self.hub, session, stream, queue, None, on_loss);
        self.hub.input(Input::FromClient { client: session.client, stream, received });
        let first = tokio::time::timeout(JSON_WITHIN, reader.next()).await.ok();
        match first {
            Some(Next::Event(event, true)) if accepts.json => {
                reader.finish();
                with_session(json(status_of(&event.text, on_loss), event.text), session)
            }
            Some(Next::Over | Next::Replaced) => {
                reader.finish();
                with_session(without_answer(id.as_deref()), session)
            }
            first if accepts.events => {
                let ids = match on_loss {
                    OnLoss::Close => EventIds::None,
                    OnLoss::Detach => EventIds::Of { process: self.number_of(session), stream, request: id },
                };
                let is_primed = *session.revision >= *PRIMED_SINCE;
                let body = EventBody::new(reader, ids, is_primed, first);
                with_session(events(body), session)
            }
            first => with_session(self.only_json(reader, first, id, on_loss).await, session),
        }
    }

    /// Ends the session of a handshake that the server refused: the client has no use for its id.
    fn without_failed_session(&self, mut answer: Answer, session: &Session) -> Answer {
        if is_error(answer.body()) {
            answer.headers_mut().remove(headers::SESSION_ID);
            if let Some(id) = &session.id {
                self.lock().remove(id);
            }
            self.close(session);
        }
        answer
    }

    /// Waits for the last message, for a client that does not accept events.
    async fn only_json(
        &self,
        mut reader: StreamReader,
        first: Option<Next>,
        id: Option<Vec<u8>>,
        on_loss: OnLoss,
    ) -> Answer {
        let mut next = first;
        loop {
            match next {
                Some(Next::Event(event, true)) => {
                    reader.finish();
                    return json(status_of(&event.text, on_loss), event.text);
                }
                Some(Next::Over | Next::Replaced) => {
                    reader.finish();
                    return without_answer(id.as_deref());
                }
                Some(Next::Event(..)) | None => next = Some(reader.next().await),
            }
        }
    }

    fn get(&self, headers: &HeaderMap, server: &GatewayServer, principal: &Arc<str>) -> Result<Answer, Box<Answer>> {
        if !Accepts::of(headers).events {
            let why = "Accept must name text/event-stream";
            return Ok(json_error(StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST, why, None));
        }
        if header(headers, headers::SESSION_ID).is_none() {
            return Ok(method_not_allowed("POST"));
        }
        let session = self.session(headers, server, Arc::clone(principal))?;
        let last = header(headers, headers::LAST_EVENT_ID).and_then(EventId::read);
        let is_primed = *session.revision >= *PRIMED_SINCE;
        match last {
            Some(last) if last.stream != StreamId::COMMON => Ok(self.resume(&session, last)),
            last => {
                let process = self.number_of(&session);
                let position = last.filter(|last| last.process == process).map(|last| last.position);
                let reader = self.attach_common(&session, position);
                let ids = EventIds::Of { process, stream: StreamId::COMMON, request: None };
                Ok(with_session(events(EventBody::new(reader, ids, is_primed, None)), &session))
            }
        }
    }

    /// Resumes the stream of a request.
    fn resume(&self, session: &Arc<Session>, last: EventId) -> Answer {
        let EventId { process, stream, position, request } = last;
        let is_of_session = process == self.number_of(session);
        if let Some(queue) = self.hub.stream(session.client, stream).filter(|_| is_of_session) {
            let reader = StreamReader::attach(&self.hub, session, stream, queue, Some(position), OnLoss::Detach);
            self.hub.input(Input::StreamAttached { client: session.client, stream });
            let ids = EventIds::Of { process, stream, request };
            return with_session(events(EventBody::new(reader, ids, false, None)), session);
        }
        // The stream was lost with an earlier process, or there was no room for it. The client waits for the answer to
        // its request.
        let queue = super::stream_queue::SharedQueue::default();
        let (lost, stream) = (Arc::clone(&queue), session.new_stream());
        let reader = StreamReader::attach(&self.hub, session, stream, queue, None, OnLoss::Close);
        let answer = if is_of_session { words::dropped_answer } else { words::lost_answer };
        lost.push(request.map(|id| answer(&Id::from_raw(&id))), true);
        with_session(events(EventBody::new(reader, EventIds::None, false, None)), session)
    }

    /// The number of a session in event ids. A session that is opened again has other streams, and another number.
    fn number_of(&self, session: &Session) -> u32 {
        self.process.wrapping_add(session.client.0)
    }

    fn delete(&self, headers: &HeaderMap, principal: &str) -> Result<Answer, Box<Answer>> {
        let Some(id) = header(headers, headers::SESSION_ID) else { return Ok(method_not_allowed("POST")) };
        let ticket = self.sealer.open(id).filter(|ticket| *ticket.principal == *principal);
        let Some(ticket) = ticket else { return Err(Box::new(unknown_session())) };
        self.lock_ended().insert(ticket.number);
        let removed = self.lock().remove(id);
        if let Some(session) = removed {
            self.close(&session);
        }
        Ok(empty(StatusCode::NO_CONTENT))
    }

    fn lock_params(&self) -> MutexGuard<'_, ParamHeaders> {
        self.params.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the status of an answer. In the modern era it says the same as the code.
fn status_of(text: &Bytes, on_loss: OnLoss) -> StatusCode {
    match on_loss {
        OnLoss::Close => modern_status(text),
        OnLoss::Detach => StatusCode::OK,
    }
}

/// Returns the id of a request.
fn request_id(received: &Received) -> Option<Vec<u8>> {
    match received {
        Received::Message(message) => message.id().map(<[u8]>::to_vec),
        _ => None,
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
