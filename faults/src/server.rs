//! The faulty MCP server.
//!
//! It listens on real sockets on loopback, with or without TLS, over HTTP/1.1 and HTTP/2. [`ServerState`] holds its
//! sessions, streams and tools. A second listener is the foreign origin: redirects and endpoints that leave the
//! server's origin lead there, and the oracle counts what arrives.

pub(crate) mod admitted;
pub(crate) mod connection;
pub(crate) mod elsewhere;
pub(crate) mod http_sse;
pub(crate) mod jsonrpc;
pub(crate) mod legacy;
pub(crate) mod methods;
pub(crate) mod modern;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod sse;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod tools;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub use request::HttpRequest;
pub use socket::Ending;

use crate::oracle::Oracle;
use crate::outage::{Outage, Timeline};
use crate::plan::{Rule, UnknownFault};
use crate::port::Port;
use crate::settings::Settings;
use crate::task::Task;
use crate::{AuthorizationServer, Identity};
use connection::Connection;
use reply::{Answer, Outgoing, Reply};
use socket::{ConnectionHandle, Socket};
use state::ServerState;

/// The longest request that is read completely.
const LONGEST_REQUEST: usize = 64 << 20;

/// A faulty MCP server. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    state: Arc<ServerState>,
    address: SocketAddr,
    is_secure: bool,
    _tasks: [Task; 2],
}

impl Server {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(settings: Settings) -> std::io::Result<Server> {
        Server::start_on((Ipv4Addr::LOCALHOST, 0).into(), settings).await
    }

    /// Starts on this address.
    pub async fn start_on(address: SocketAddr, settings: Settings) -> std::io::Result<Server> {
        Server::start_as(address, settings, None).await
    }

    /// Starts on a free port of 127.0.0.1 with TLS.
    pub async fn start_secure(settings: Settings, identity: Identity) -> std::io::Result<Server> {
        Server::start_as((Ipv4Addr::LOCALHOST, 0).into(), settings, Some(identity)).await
    }

    async fn start_as(address: SocketAddr, settings: Settings, identity: Option<Identity>) -> std::io::Result<Server> {
        let oracle = Arc::new(Oracle::new());
        let other_origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(ServerState::new(settings, other_origin.local_addr()?, Arc::clone(&oracle)));
        let is_secure = identity.is_some();
        let accepting = Task::spawn(accept(Port::Listening(listener), address, identity, Arc::clone(&state)));
        let tasks = [accepting, Task::spawn(elsewhere::accept(other_origin, oracle))];
        Ok(Server { state, address, is_secure, _tasks: tasks })
    }

    /// Appends every execution to this file, for tests that kill the process.
    pub fn keep_ledger(&self, path: &Path) -> std::io::Result<()> {
        self.state.oracle.keep_ledger(path)
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of Streamable HTTP.
    pub fn url(&self) -> String {
        format!("{}://{}/mcp", self.scheme(), self.address)
    }

    /// The URL of HTTP+SSE.
    pub fn sse_url(&self) -> String {
        format!("{}://{}/sse", self.scheme(), self.address)
    }

    fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// The address of the foreign origin.
    pub fn elsewhere(&self) -> SocketAddr {
        self.state.elsewhere
    }

    /// The counts of the server.
    pub fn oracle(&self) -> &Oracle {
        &self.state.oracle
    }

    /// Adds a rule after the existing ones.
    pub fn add(&self, rule: Rule) -> Result<(), UnknownFault> {
        self.state.plan.add(rule)
    }

    /// Removes all rules. Faults that have started continue.
    pub fn clear(&self) {
        self.state.plan.clear();
    }

    /// Returns all rules.
    pub fn rules(&self) -> Vec<Rule> {
        self.state.plan.list()
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Settings {
        self.state.settings()
    }

    /// Changes the settings. Sessions and open streams stay as they are.
    pub fn change_settings(&self, settings: Settings) {
        self.state.change_settings(settings);
    }

    /// Sends a notification to every client: on GET streams, HTTP+SSE streams and matching subscriptions. Returns the
    /// number of clients.
    pub fn notify(&self, method: &str, params: &Value) -> usize {
        self.state.notify(method, params)
    }

    /// Sends a request to every client with a session: `roots`, `sampling` or `elicitation`. Returns the number of
    /// clients.
    pub fn send_request(&self, what: &str) -> usize {
        let (method, params) = tools::server_request(what);
        self.state.send_request(method, &params)
    }

    /// Drops all sessions, streams and subscriptions, as after a restart.
    pub fn forget_sessions(&self) {
        self.state.forget_sessions();
    }

    /// Ends all subscriptions with a result.
    pub fn end_listens(&self) {
        self.state.end_listens();
    }

    /// Demands tokens of this authorization server from now on.
    pub fn protect(&self, authorization: &AuthorizationServer) {
        self.state.protect(authorization.protection(self.url()));
    }

    /// Begins an outage of the whole server, which replaces a present one.
    pub fn begin_outage(&self, outage: Outage) {
        self.state.begin_outage(outage);
    }

    /// Ends the outage. Connections that it has silenced stay silent.
    pub fn end_outage(&self) {
        self.state.outages.set(None);
    }

    /// Lets calls wait for the next outage instead of running, so that they are in flight and have no effect.
    pub fn hold_calls(&self, holds: bool) {
        self.state.outages.hold_calls(holds);
    }

    /// Returns the times of all connections and requests.
    pub fn timeline(&self) -> Timeline {
        self.state.outages.timeline()
    }

    /// Ends all connections.
    pub fn cut(&self, ending: Ending) {
        self.state.cut(ending);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop();
    }
}

async fn accept(mut port: Port, address: SocketAddr, identity: Option<Identity>, state: Arc<ServerState>) {
    // The connections end when this task is dropped.
    let mut connections = JoinSet::new();
    let mut outage = state.outages.watch();
    let mut number = 0;
    loop {
        let now = *outage.borrow_and_update();
        port = port.switched(now == Some(Outage::Refused), address);
        tokio::select! {
            biased;
            // The sender is in the state, which this task holds.
            _ = outage.changed() => {}
            Some(_) = connections.join_next() => {}
            accepted = port.accept() => {
                // The error concerns one connection that has gone, or descriptors that other code will free.
                let Ok(stream) = accepted else {
                    tokio::task::yield_now().await;
                    continue;
                };
                number += 1;
                state.outages.accepted();
                let (identity, handle) = (identity.clone(), ConnectionHandle::new(number));
                connections.spawn(serve(stream, now, identity, handle, Arc::clone(&state)));
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    outage: Option<Outage>,
    identity: Option<Identity>,
    handle: ConnectionHandle,
    state: Arc<ServerState>,
) {
    let Some(stream) = Outage::meet(outage, stream).await else { return };
    // Faults cut at single bytes, so the kernel must not coalesce them.
    let _ = stream.set_nodelay(true);
    state.oracle.record(|counts| counts.handshakes += u64::from(identity.is_some()));
    let Ok(connection) = Connection::open(stream, identity.as_ref()).await else {
        state.oracle.record(|counts| counts.handshakes_failed += 1);
        return;
    };
    state.register(&handle);
    let socket = Socket::new(connection, handle.clone(), Arc::clone(&state.oracle));
    let service = service_fn(move |request| answer(Arc::clone(&state), handle.clone(), request));
    // The result does not matter: faults and closed responses are counted where they happen.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

async fn answer(
    state: Arc<ServerState>,
    handle: ConnectionHandle,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Box<dyn Error + Send + Sync>> {
    let sequence = handle.count_request();
    let (parts, body) = request.into_parts();
    let text = match read(body).await {
        Ok(text) => text,
        Err(error) => {
            state.oracle.record(|counts| counts.cut_requests += 1);
            return Err(error);
        }
    };
    if handle.is_ending() {
        // The fault that ends this connection has declared this request unprocessed, so it must not run.
        return std::future::pending().await;
    }
    let request = HttpRequest::new(&parts, text, handle.clone(), sequence);
    match state.outages.answer(&state, request).await {
        Reply::Answer(Answer { status, headers, content }) => {
            let mut response = Response::new(Outgoing::new(content, handle));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            return Ok(response);
        }
        Reply::Cut(ending) => handle.end(ending),
        Reply::FinalBytes(bytes) => handle.write_and_end(bytes),
        Reply::RefusedStream => return Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into()),
    }
    // This task ends with the connection.
    std::future::pending().await
}

pub(crate) async fn read(mut body: Incoming) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let mut text = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
        if text.len() > LONGEST_REQUEST {
            return Err(format!("the request is longer than {LONGEST_REQUEST} bytes").into());
        }
    }
    Ok(text.freeze())
}
