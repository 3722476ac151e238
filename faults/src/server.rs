//! The MCP server that breaks on purpose.
//!
//! Real sockets on loopback, with TLS or without, HTTP/1.1 and HTTP/2 by hyper, and behind them the [`state`](state::ServerState) with its sessions,
//! streams and tools. A second origin stands beside it, to which nothing belongs: redirects and endpoints that lead astray
//! lead there, and the oracle knows what followed.

pub(crate) mod admitted;
pub(crate) mod request;
pub(crate) mod sse;
pub(crate) mod elsewhere;
pub(crate) mod legacy;
pub(crate) mod connection;
pub(crate) mod methods;
pub(crate) mod modern;
pub(crate) mod http_sse;
pub(crate) mod reply;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tools;
pub(crate) mod jsonrpc;

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

use crate::Identity;
use crate::oracle::Oracle;
use crate::plan::{Rule, UnknownFault};
use crate::settings::Settings;
use crate::task::Task;
use connection::Connection;
use reply::{Answer, Outgoing, Reply};
use state::ServerState;
use socket::{ConnectionHandle, Socket};

/// A request longer than this is not read to its end.
const LONGEST_REQUEST: usize = 64 << 20;

/// An MCP server that breaks on purpose. It stops when it is dropped.
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

    /// Starts on a free port of 127.0.0.1, behind TLS.
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
        let accepting = Task::spawn(accept(listener, identity, Arc::clone(&state)));
        let tasks = [accepting, Task::spawn(elsewhere::accept(other_origin, oracle))];
        Ok(Server { state, address, is_secure, _tasks: tasks })
    }

    /// Writes every execution to the end of this file too, for those who want to know them after we were killed.
    pub fn keep_ledger(&self, path: &Path) -> std::io::Result<()> {
        self.state.oracle.keep_ledger(path)
    }

    /// Where it listens.
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

    /// The origin where nothing belongs.
    pub fn elsewhere(&self) -> SocketAddr {
        self.state.elsewhere
    }

    /// What it has counted.
    pub fn oracle(&self) -> &Oracle {
        &self.state.oracle
    }

    /// Breaks by this rule from now on, after the rules that are already there.
    pub fn add(&self, rule: Rule) -> Result<(), UnknownFault> {
        self.state.plan.add(rule)
    }

    /// Breaks by no rule any more. What a fault has begun goes on.
    pub fn clear(&self) {
        self.state.plan.clear();
    }

    /// The rules there are.
    pub fn rules(&self) -> Vec<Rule> {
        self.state.plan.list()
    }

    /// What kind of server it is.
    pub fn settings(&self) -> Settings {
        self.state.settings()
    }

    /// Becomes another kind of server. Sessions and open streams stay as they are.
    pub fn change_settings(&self, settings: Settings) {
        self.state.change_settings(settings);
    }

    /// Tells every client something that it did not ask for: on GET streams, on HTTP+SSE streams and on subscriptions that
    /// want it. Says how many clients there were.
    pub fn notify(&self, method: &str, params: &Value) -> usize {
        self.state.notify(method, params)
    }

    /// Asks every client with a session: `roots`, `sampling` or `elicitation`. Says how many clients there were.
    pub fn send_request(&self, what: &str) -> usize {
        let (method, params) = tools::server_request(what);
        self.state.send_request(method, &params)
    }

    /// Forgets all sessions, streams and subscriptions, as after a restart.
    pub fn forget_sessions(&self) {
        self.state.forget_sessions();
    }

    /// Ends all subscriptions in the proper way.
    pub fn end_listens(&self) {
        self.state.end_listens();
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

async fn accept(listener: TcpListener, identity: Option<Identity>, state: Arc<ServerState>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // An error here is about one connection that has gone again, or about descriptors that others will free.
                let Ok((stream, _)) = accepted else {
                    tokio::task::yield_now().await;
                    continue;
                };
                number += 1;
                connections.spawn(serve(stream, identity.clone(), ConnectionHandle::new(number), Arc::clone(&state)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, identity: Option<Identity>, handle: ConnectionHandle, state: Arc<ServerState>) {
    // Faults are about single bytes; the kernel shall not collect them.
    let _ = stream.set_nodelay(true);
    state.oracle.record(|counts| counts.handshakes += u64::from(identity.is_some()));
    let Ok(connection) = Connection::open(stream, identity.as_ref()).await else {
        state.oracle.record(|counts| counts.handshakes_failed += 1);
        return;
    };
    state.register(&handle);
    let socket = Socket::new(connection, handle.clone(), Arc::clone(&state.oracle));
    let service = service_fn(move |request| answer(Arc::clone(&state), handle.clone(), request));
    // How a connection ends is the client's business or a fault's; both are counted elsewhere.
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
        // Whoever cut the connection said that this request was not processed, so it must not be.
        return std::future::pending().await;
    }
    match state.answer(HttpRequest::new(&parts, text, handle.clone(), sequence)).await {
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
    // The end of the connection ends this as well.
    std::future::pending().await
}

pub(crate) async fn read(mut body: Incoming) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let mut text = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
        if text.len() > LONGEST_REQUEST {
            return Err(format!("a request longer than {LONGEST_REQUEST} bytes").into());
        }
    }
    Ok(text.freeze())
}
