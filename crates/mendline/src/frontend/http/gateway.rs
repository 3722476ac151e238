//! The answers of the gateway to HTTP requests.
//!
//! A POST with requests opens a stream in the engine. If its answer comes within [`JSON_WITHIN`] and is the only
//! message, the response is JSON; else it becomes a stream of events, which carries comments while nothing happens. A
//! client that loses such a stream resumes it with GET and the id of its last event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method as Verb, Request, StatusCode};
use http_body::Body;
use mendline_core::sharing::ShareKey;
use mendline_core::{ClientStreams, Input, StreamId, UpstreamId};
use mendline_wire::{Id, Limits, Message, Method, Received, code, headers};

use super::access::{Access, Connection, Denied, Peer, SharedAccess};
use super::access_log::Principal;
use super::admission::admit;
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
use super::reader::{OnLoss, StreamReader};
use super::request::{Accepts, DEFAULT_REVISION, Posted, PostedKind, Route, is_json, legacy_revision};
use super::response::{
    Answer, add_cors, broken, denied, empty, events, is_error, json, json_error, method_not_allowed, modern_status,
    no_room, refused_post, single_message, text, unknown_session, with_session,
};
use super::server_pool::{GatewayServer, ServerPool};
use super::session_id::{Sealer, Ticket};
use super::sessions::{ImplicitKey, Session, Sessions};
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
        self.lock().any_reader()
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes>,
    {
        let origin = request.headers().get(http::header::ORIGIN).cloned();
        let asked = request.headers().get(http::header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let mut answer = self.route(request).await.unwrap_or_else(|refused| *refused);
        if let Some(origin) =
            origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.access().allows_origin(origin)))
        {
            add_cors(answer.headers_mut(), origin, asked.as_ref(), &self.servers.forwarded_names());
        }
        answer
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
        if let (Route::Mcp(_) | Route::Sse(_) | Route::SseMessage(_), Some(refusal)) =
            (&route, self.operation.refusal())
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
                self.open_sse(path, &server, principal)
            }
            Route::SseMessage(name) if request.method() == Verb::POST => {
                self.server(name, &principal, request.headers())?;
                self.post_sse(request, &principal).await
            }
            Route::Sse(_) => Ok(method_not_allowed("GET")),
            Route::SseMessage(_) => Ok(method_not_allowed("POST")),
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
        let permit = admit(&self.access(), &self.principals, &principal, &server.name, &received)?;
        let posted = Posted::new(received, &parts.headers).map_err(|refused| Box::new(refused_post(&refused)))?;
        let Posted { received, kind } = posted;
        match kind {
            PostedKind::Broken => Ok(broken(&received)),
            PostedKind::Initialize => {
                let session = self.open_session(server, principal, &received)?;
                let answer = self.call(&session, (received, permit), None, accepts, OnLoss::Detach).await;
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
                let session = self.session(&parts.headers, server, principal)?;
                session.touch();
                let (client, stream) = (session.client, StreamId::COMMON);
                self.hub.input(Input::FromClient { client, stream, received });
                Ok(with_session(empty(StatusCode::ACCEPTED), &session))
            }
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
                let is_modern = on_loss == OnLoss::Close;
                let status = if is_modern { modern_status(&event.text) } else { StatusCode::OK };
                with_session(json(status, event.text), session)
            }
            Some(Next::Over | Next::Replaced) => {
                reader.finish();
                with_session(empty(StatusCode::ACCEPTED), session)
            }
            first if accepts.events => {
                let ids = match on_loss {
                    OnLoss::Close => EventIds::None,
                    OnLoss::Detach => EventIds::Of { process: self.process, stream, request: id },
                };
                let is_primed = *session.revision >= *PRIMED_SINCE;
                let body = EventBody::new(reader, ids, is_primed, first);
                with_session(events(body), session)
            }
            first => with_session(self.only_json(reader, first).await, session),
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
    async fn only_json(&self, mut reader: StreamReader, first: Option<Next>) -> Answer {
        let mut next = first;
        loop {
            match next {
                Some(Next::Event(event, true)) => {
                    reader.finish();
                    return json(StatusCode::OK, event.text);
                }
                Some(Next::Over | Next::Replaced) => {
                    reader.finish();
                    return empty(StatusCode::ACCEPTED);
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
                let position = last.filter(|last| last.process == self.process).map(|last| last.position);
                let reader = self.attach_common(&session, position);
                let ids = EventIds::Of { process: self.process, stream: StreamId::COMMON, request: None };
                Ok(with_session(events(EventBody::new(reader, ids, is_primed, None)), &session))
            }
        }
    }

    /// Resumes the stream of a request.
    fn resume(&self, session: &Arc<Session>, last: EventId) -> Answer {
        let EventId { process, stream, position, request } = last;
        let queue = if process == self.process { self.hub.stream(session.client, stream) } else { None };
        if let Some(queue) = queue {
            let reader = StreamReader::attach(&self.hub, session, stream, queue, Some(position), OnLoss::Detach);
            self.hub.input(Input::StreamAttached { client: session.client, stream });
            let ids = EventIds::Of { process, stream, request };
            return with_session(events(EventBody::new(reader, ids, false, None)), session);
        }
        // The stream was lost with an earlier process, or is too old. The client waits for the answer to its request.
        let queue = super::stream_queue::SharedQueue::default();
        if let Some(id) = request {
            let failure = mendline_core::words::lost_answer(&Id::from_raw(&id));
            queue.push(Some(failure), false);
        }
        queue.push(None, true);
        let reader = StreamReader::attach(&self.hub, session, session.new_stream(), queue, None, OnLoss::Detach);
        with_session(events(EventBody::new(reader, EventIds::None, false, None)), session)
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

    // ---- HTTP+SSE of 2024-11-05 ----

    fn open_sse(&self, path: &str, server: &GatewayServer, principal: Arc<str>) -> Result<Answer, Box<Answer>> {
        let session = self.new_session(server, principal, &Bytes::new(), "2024-11-05".to_owned(), None)?;
        let reader = self.attach_common(&session, None);
        let id = session.id.clone().ok_or_else(|| Box::new(unknown_session()))?;
        let target = format!("{}/message?sessionId={id}", path.trim_end_matches('/'));
        Ok(events(EventBody::new(reader, EventIds::None, false, None).with_endpoint(target)))
    }

    async fn post_sse<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        principal: &str,
    ) -> Result<Answer, Box<Answer>> {
        let query = request.uri().query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")).unwrap_or_default().to_owned();
        let session = self.lock().get(&id).filter(|session| *session.principal == *principal);
        let Some(session) = session else { return Err(Box::new(unknown_session())) };
        let (parts, body) = request.into_parts();
        let posted = posted_body::read(&parts.headers, body, BodyLimits::up_to(self.limits.message_bytes)).await?;
        let received = Received::from_text(posted, &self.limits);
        // Answers on the common stream have no stream of their own, so only the rate counts.
        drop(admit(&self.access(), &self.principals, &session.principal, &session.server, &received)?);
        if let Received::Broken { .. } | Received::TooLong { .. } = received {
            return Ok(broken(&received));
        }
        session.touch();
        self.hub.input(Input::FromClient { client: session.client, stream: StreamId::COMMON, received });
        Ok(text(StatusCode::ACCEPTED, "Accepted"))
    }

    // ---- sessions ----

    /// Returns the session of a request: the one that its id names, that of an earlier process, or one without an id.
    fn session(
        &self,
        headers: &HeaderMap,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let Some(id) = header(headers, headers::SESSION_ID) else {
            return self.session_without_id(headers, server, principal);
        };
        let known = self.lock().get(id);
        if let Some(session) = known {
            let is_owner = session.principal == principal && session.server == server.name;
            return if is_owner && self.adopt_headers(&session, server) {
                Ok(session)
            } else {
                Err(Box::new(unknown_session()))
            };
        }
        match self.sealer.open(id) {
            Some(ticket) if self.lock_ended().contains(ticket.number) => Err(Box::new(unknown_session())),
            Some(ticket) if *ticket.principal == *principal && *ticket.server == *server.name => {
                let revision = revision_of(&ticket.params).unwrap_or_else(|| DEFAULT_REVISION.to_owned());
                self.new_session(server, principal, &ticket.params, revision, Some(id.to_owned()))
            }
            Some(_) => Err(Box::new(unknown_session())),
            // Not an id of this gateway: its key was replaced, or the client has mixed up two servers.
            None => self.session_without_id(headers, server, principal),
        }
    }

    /// Returns whether a session may be used with the headers of this request. Other values than before replace those
    /// of a session that shares its upstream with no other.
    fn adopt_headers(&self, session: &Session, server: &GatewayServer) -> bool {
        if self.hub.has_request_headers(session.upstream, &server.forwarded) {
            return true;
        }
        let is_alone = self.lock().count_of(session.upstream) == 1;
        if is_alone {
            self.set_headers(session.upstream, server);
        }
        is_alone
    }

    fn set_headers(&self, upstream: UpstreamId, server: &GatewayServer) {
        if !server.forwarded.is_empty() {
            self.redactor.learn_renewed(&server.forwarded.secrets());
        }
        self.hub.set_request_headers(upstream, &server.forwarded);
    }

    fn session_without_id(
        &self,
        headers: &HeaderMap,
        server: &GatewayServer,
        principal: Arc<str>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let revision = legacy_revision(headers).map_err(|refused| Box::new(refused_post(&refused)))?.to_owned();
        let shared = server.forwarded.share_name(&principal);
        let key = ImplicitKey { principal: Arc::clone(&shared), server: Arc::clone(&server.name), revision };
        // The table stays locked, so that requests at the same time get one session.
        let mut sessions = self.lock();
        if let Some(session) = sessions.implicit(&key) {
            return Ok(session);
        }
        let params = default_params(&key.revision);
        let (resumed, share) = (initialize_request(&params), ShareKey::of_handshake(&shared, &params));
        let session = self.open_client(server, principal, key.revision.clone(), None, resumed, share)?;
        sessions.insert_implicit(key, &session);
        Ok(session)
    }

    fn modern_session(&self, server: &GatewayServer, principal: Arc<str>) -> Result<Arc<Session>, Box<Answer>> {
        let revision = "modern".to_owned();
        let shared = server.forwarded.share_name(&principal);
        let key = ImplicitKey { principal: Arc::clone(&shared), server: Arc::clone(&server.name), revision };
        let mut sessions = self.lock();
        if let Some(session) = sessions.implicit(&key) {
            return Ok(session);
        }
        let share = ShareKey::Modern { principal: shared };
        let session = self.open_client(server, principal, key.revision.clone(), None, None, share)?;
        sessions.insert_implicit(key, &session);
        Ok(session)
    }

    /// Opens the session of an `initialize` request.
    fn open_session(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
        received: &Received,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let params = match received {
            Received::Message(message) => Bytes::copy_from_slice(message.body().unwrap_or_default()),
            _ => Bytes::new(),
        };
        let revision = revision_of(&params).unwrap_or_else(|| DEFAULT_REVISION.to_owned());
        let shared = server.forwarded.share_name(&principal);
        let (number, share) = (self.sealer.number(), ShareKey::of_handshake(&shared, &params));
        let ticket = Ticket { principal: principal.to_string(), server: server.name.to_string(), number, params };
        let id = self.sealer.seal(&ticket);
        let session = self.open_client(server, principal, revision, id, None, share)?;
        self.keep(self.lock(), &session);
        Ok(session)
    }

    /// Opens a session with an id: a new one, or that of an earlier process.
    fn new_session(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
        params: &Bytes,
        revision: String,
        id: Option<String>,
    ) -> Result<Arc<Session>, Box<Answer>> {
        // Parameters that were too long for an id are not known any more.
        let params_of = |params: &Bytes| if params.is_empty() { default_params(&revision) } else { params.to_vec() };
        let resumed = id.as_ref().and_then(|_| initialize_request(&params_of(params)));
        let id = id.or_else(|| {
            let number = self.sealer.number();
            let (principal, server) = (principal.to_string(), server.name.to_string());
            self.sealer.seal(&Ticket { principal, server, number, params: params.clone() })
        });
        let share = ShareKey::of_handshake(&server.forwarded.share_name(&principal), params);
        // Requests that come at the same time after a restart get one session.
        let sessions = self.lock();
        if let Some(session) = id.as_deref().and_then(|id| sessions.get(id)) {
            return Ok(session);
        }
        let session = self.open_client(server, principal, revision, id, resumed, share)?;
        self.keep(sessions, &session);
        Ok(session)
    }

    fn open_client(
        &self,
        server: &GatewayServer,
        principal: Arc<str>,
        revision: String,
        id: Option<String>,
        resumed: Option<Message>,
        share: ShareKey,
    ) -> Result<Arc<Session>, Box<Answer>> {
        let upstream = self.servers.place(server, share).map_err(|full| Box::new(no_room(full)))?;
        self.set_headers(upstream, server);
        let client = self.hub.new_client();
        self.hub.add_client(client, Arc::clone(&principal), self.access().tools_of(&principal));
        self.hub.open_stream(client, StreamId::COMMON);
        let streams = ClientStreams::Many { resumed };
        self.hub.input(Input::ClientOpened { client, upstream, streams });
        Ok(Arc::new(Session::new((client, upstream), id, principal, Arc::clone(&server.name), revision)))
    }

    fn attach_common(&self, session: &Arc<Session>, after: Option<u32>) -> StreamReader {
        let (client, stream) = (session.client, StreamId::COMMON);
        let queue = self.hub.stream(client, stream).unwrap_or_else(|| self.hub.open_stream(client, stream));
        let reader = StreamReader::attach(&self.hub, session, stream, queue, after, OnLoss::Detach);
        self.hub.input(Input::StreamAttached { client, stream });
        reader
    }

    /// Keeps a new session. One that was idle for long makes room, if its principal has too many.
    fn keep(&self, mut sessions: MutexGuard<'_, Sessions>, session: &Arc<Session>) {
        sessions.insert(session);
        let surplus = sessions.take_surplus(session, self.access().sessions);
        drop(sessions);
        for session in surplus {
            self.close(&session);
        }
    }

    fn close(&self, session: &Session) {
        self.hub.input(Input::ClientLost { client: session.client });
        self.hub.remove_client(session.client);
        self.servers.leave(session.upstream);
    }

    fn lock_params(&self) -> MutexGuard<'_, ParamHeaders> {
        self.params.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_ended(&self) -> MutexGuard<'_, EndedSessions> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns the `initialize` parameters for a client whose own are not known.
fn default_params(revision: &str) -> Vec<u8> {
    let params = serde_json::json!({
        "protocolVersion": revision, "capabilities": {},
        "clientInfo": { "name": "mendline", "version": env!("CARGO_PKG_VERSION") },
    });
    params.to_string().into_bytes()
}

/// Returns the `initialize` request with these parameters.
fn initialize_request(params: &[u8]) -> Option<Message> {
    let mut text = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":"#.to_vec();
    text.extend_from_slice(params);
    text.push(b'}');
    Message::parse(Bytes::from(text)).ok()
}

/// Returns the revision that a client asked for.
fn revision_of(params: &[u8]) -> Option<String> {
    let params: serde_json::Value = serde_json::from_slice(params).ok()?;
    params.get("protocolVersion")?.as_str().map(str::to_owned)
}
