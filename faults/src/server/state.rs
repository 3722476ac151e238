//! The state of the server and the routing of requests.
//!
//! `/mcp` serves Streamable HTTP, `/sse` and `/messages` serve HTTP+SSE, and `/moved/mcp` is the target of a redirect.
//! A request is first matched against the rules: if one of them injects a fault, the fault answers; otherwise the
//! server answers by the rules of the era.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use http::{Method as Verb, StatusCode};
use mendline_wire::meta;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::admitted::{Admitted, Protocol};
use super::reply::Reply;
use super::request::HttpRequest;
use super::session::Session;
use super::socket::{ConnectionHandle, Ending};
use super::stream::Stream;
use super::{http_sse, jsonrpc, legacy, modern};
use crate::authorization::protection::{self, Decision, Protection};
use crate::fault::FaultContext;
use crate::oracle::Oracle;
use crate::outage::{Outage, OutageState};
use crate::plan::Plan;
use crate::settings::Settings;

/// A reply that the protocol's own checks require. Boxed, because it is rare and large.
pub(crate) type Refused = Box<Reply>;

/// The state of the server.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) plan: Plan,
    pub(crate) outages: OutageState,
    /// The address of the foreign origin.
    pub(crate) elsewhere: SocketAddr,
    settings: RwLock<Settings>,
    protection: RwLock<Option<Protection>>,
    sessions: Mutex<HashMap<String, (Protocol, Arc<Session>)>>,
    shared_session: Arc<Session>,
    listens: Mutex<Vec<Listen>>,
    handles: Mutex<Vec<ConnectionHandle>>,
    names: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

/// An open `subscriptions/listen`.
#[derive(Debug)]
struct Listen {
    id: Bytes,
    filter: Value,
    stream: Arc<Stream>,
}

impl ServerState {
    pub(crate) fn new(settings: Settings, elsewhere: SocketAddr, oracle: Arc<Oracle>) -> ServerState {
        ServerState {
            oracle,
            plan: Plan::default(),
            outages: OutageState::new(),
            elsewhere,
            settings: RwLock::new(settings),
            protection: RwLock::default(),
            sessions: Mutex::default(),
            shared_session: Arc::new(Session::new(String::new(), Stream::new("s0".to_owned()))),
            listens: Mutex::default(),
            handles: Mutex::default(),
            names: AtomicU64::new(0),
            tasks: Mutex::default(),
        }
    }

    /// Answers a request if its token is valid, or if the server demands none.
    pub(crate) async fn answer(self: &Arc<Self>, request: HttpRequest) -> Reply {
        let protection = self.protection.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(protection) = protection else { return self.answer_admitted(request).await };
        match protection.check(&request).await {
            Decision::Admitted(None) => self.answer_admitted(request).await,
            Decision::Admitted(Some(expires)) => protection::end_at(self.answer_admitted(request).await, expires),
            Decision::Answered(reply) => {
                self.oracle.arrived(&request, None);
                reply
            }
        }
    }

    /// Demands tokens.
    pub(crate) fn protect(&self, protection: Protection) {
        *self.protection.write().unwrap_or_else(PoisonError::into_inner) = Some(protection);
    }

    /// Answers a request, with a fault if a rule injects one.
    async fn answer_admitted(self: &Arc<Self>, request: HttpRequest) -> Reply {
        let injected = self.plan.select(&request);
        self.oracle.arrived(&request, injected.as_ref().map(|injected| injected.fault.name));
        match injected {
            Some(injected) => {
                let context = FaultContext::new(Arc::clone(self), request, &injected);
                (injected.fault.answer)(context).await.unwrap_or_else(|refused| *refused)
            }
            None => self.serve(request).await,
        }
    }

    /// Answers a request without a fault.
    pub(crate) async fn serve(self: &Arc<Self>, request: HttpRequest) -> Reply {
        let reply = match (request.path.as_str(), &request.verb) {
            ("/mcp" | "/moved/mcp" | http_sse::PATH, &Verb::POST) => match self.admit(request) {
                Ok(admitted) => Ok(admitted.perform(self).await),
                Err(refused) => Err(refused),
            },
            ("/mcp" | "/moved/mcp", &Verb::GET) => legacy::get(self, &request),
            ("/mcp" | "/moved/mcp", &Verb::DELETE) => legacy::delete(self, &request),
            ("/sse", &Verb::GET) => Ok(http_sse::open(self, "")),
            ("/mcp" | "/moved/mcp" | "/sse" | http_sse::PATH, _) => Ok(Reply::empty(StatusCode::METHOD_NOT_ALLOWED)),
            _ => Ok(Reply::empty(StatusCode::NOT_FOUND)),
        };
        reply.unwrap_or_else(|refused| *refused)
    }

    /// Checks and accepts a posted message by the rules of its era.
    pub(crate) fn admit(&self, request: HttpRequest) -> Result<Arc<Admitted>, Refused> {
        if !request.lists("content-type", "application/json") {
            let message = "Unsupported Media Type: Content-Type must be application/json";
            return Err(self.refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, &request, -32000, message));
        }
        let era = self.settings().era;
        match request.path.as_str() {
            _ if request.message.is_none() => Err(legacy::refuse_unreadable(self, &request)),
            http_sse::PATH => http_sse::admit(self, request),
            _ if request.is_modern() && era.is_modern() => modern::admit(self, request),
            _ if request.is_modern() => Err(legacy::refuse_modern(self, &request)),
            _ if era.is_legacy() => legacy::admit(self, request),
            _ => Err(modern::refuse_legacy(self, &request)),
        }
    }

    /// Refuses a request with a JSON-RPC error.
    pub(crate) fn refuse(&self, status: StatusCode, request: &HttpRequest, code: i64, message: &str) -> Refused {
        self.refuse_with(status, jsonrpc::error(&request.id(), code, message))
    }

    /// Refuses a request with this body.
    pub(crate) fn refuse_with(&self, status: StatusCode, text: Bytes) -> Refused {
        self.oracle.record(|counts| counts.refusals += 1);
        Box::new(Reply::json(status, text))
    }

    /// Returns the current settings.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the settings.
    pub(crate) fn change_settings(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Spawns a task that ends with the server at the latest.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// Aborts all spawned tasks.
    pub(crate) fn stop(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Returns a new unique name.
    pub(crate) fn next_name(&self, kind: &str) -> String {
        format!("{kind}{}", self.names.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns the session that clients without a session share.
    pub(crate) fn shared_session(&self) -> Arc<Session> {
        Arc::clone(&self.shared_session)
    }

    pub(crate) fn open_session(&self, protocol: Protocol) -> Arc<Session> {
        let session = Arc::new(Session::new(self.next_name("session-"), Stream::new(self.next_name("s"))));
        self.sessions().insert(session.id().to_owned(), (protocol, Arc::clone(&session)));
        self.oracle.record(|counts| {
            counts.sessions_opened += 1;
            counts.open_sessions += 1;
        });
        session
    }

    pub(crate) fn find_session(&self, id: &str, protocol: Protocol) -> Option<Arc<Session>> {
        let sessions = self.sessions();
        sessions.get(id).filter(|(kind, _)| *kind == protocol).map(|(_, session)| Arc::clone(session))
    }

    /// Drops a session.
    pub(crate) fn forget_session(&self, id: &str) {
        if let Some((_, session)) = self.sessions().remove(id) {
            session.stream.end();
            self.oracle.record(|counts| counts.open_sessions -= 1);
        }
    }

    /// Drops all sessions, streams and subscriptions, as after a restart.
    pub(crate) fn forget_sessions(&self) {
        for (_, (_, session)) in self.sessions().drain() {
            session.stream.end();
            self.oracle.record(|counts| counts.open_sessions -= 1);
        }
        for listen in self.listens().drain(..) {
            listen.stream.end();
        }
    }

    /// Opens a subscription.
    pub(crate) fn listen(&self, admitted: &Admitted, stream: &Arc<Stream>) {
        let id = admitted.request.id();
        let filter = admitted.request.params()["notifications"].clone();
        let listen = Listen { id, filter, stream: Arc::clone(stream) };
        let acknowledged = json!({ "notifications": listen.filter });
        listen.push("notifications/subscriptions/acknowledged", acknowledged);
        self.listens().push(listen);
        self.oracle.record(|counts| counts.listens_opened += 1);
    }

    /// Removes a subscription.
    pub(crate) fn stop_listening(&self, id: &Bytes) {
        self.listens().retain(|listen| listen.id != *id);
    }

    /// Ends all subscriptions with a result.
    pub(crate) fn end_listens(&self) {
        for listen in self.listens().drain(..) {
            let result = json!({ "resultType": "complete", "_meta": { meta::SUBSCRIPTION_ID: listen.id_value() } });
            listen.stream.push(jsonrpc::result(&listen.id, &result));
            listen.stream.end();
        }
    }

    /// Sends a notification to every client. Returns the number of clients.
    pub(crate) fn notify(&self, method: &str, params: &Value) -> usize {
        let sessions = self.sessions();
        for (_, session) in sessions.values() {
            session.stream.push(jsonrpc::notification(method, params));
        }
        let listens = self.listens();
        let listening = listens.iter().filter(|listen| listen.is_interested_in(method, params));
        sessions.len() + listening.map(|listen| listen.push(method, params.clone())).count()
    }

    /// Sends a request to every client with a session. Returns the number of clients.
    pub(crate) fn send_request(&self, method: &str, params: &Value) -> usize {
        let sessions = self.sessions();
        for (_, session) in sessions.values() {
            let id = self.next_name("ask");
            // The answer is only counted.
            drop(session.expect_answer(format!("{id:?}").into()));
            session.stream.push(jsonrpc::request(&id, method, params));
            self.oracle.record(|counts| counts.server_requests += 1);
        }
        sessions.len()
    }

    /// Registers a new connection.
    pub(crate) fn register(&self, handle: &ConnectionHandle) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.retain(|handle| !handle.is_abandoned());
        handles.push(handle.clone());
    }

    /// Ends all connections.
    pub(crate) fn cut(&self, ending: Ending) {
        for handle in self.handles.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            handle.end(ending);
        }
    }

    /// Begins an outage, on open connections too.
    pub(crate) fn begin_outage(&self, outage: Outage) {
        self.outages.set(Some(outage));
        match outage {
            Outage::Refused | Outage::TlsAlert => self.cut(Ending::Fin),
            Outage::Cut(ending) => self.cut(ending),
            // Exchanges without a head are answered by the outage, those with a head can only be cut.
            Outage::CutAfterRequest(ending) => self.cut_streaming(ending),
            Outage::Page { .. } => self.cut_streaming(Ending::Fin),
            Outage::Silence => {
                self.handles.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(ConnectionHandle::silence);
            }
        }
    }

    fn cut_streaming(&self, ending: Ending) {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.iter().filter(|handle| handle.is_streaming()).for_each(|handle| handle.end(ending));
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, (Protocol, Arc<Session>)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listens(&self) -> MutexGuard<'_, Vec<Listen>> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listen {
    /// Pushes a notification that is marked with this subscription.
    fn push(&self, method: &str, mut params: Value) {
        if !params.is_object() {
            params = json!({});
        }
        params["_meta"][meta::SUBSCRIPTION_ID] = self.id_value();
        self.stream.push(jsonrpc::notification(method, &params));
    }

    fn id_value(&self) -> Value {
        serde_json::from_slice(&self.id).unwrap_or_default()
    }

    fn is_interested_in(&self, method: &str, params: &Value) -> bool {
        let is_set = |what: &str| self.filter[what] == Value::Bool(true);
        match method {
            "notifications/tools/list_changed" => is_set("toolsListChanged"),
            "notifications/prompts/list_changed" => is_set("promptsListChanged"),
            "notifications/resources/list_changed" => is_set("resourcesListChanged"),
            "notifications/resources/updated" => {
                self.filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(&params["uri"]))
            }
            _ => false,
        }
    }
}
