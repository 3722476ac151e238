//! An authorization server, and the protection of the MCP server by it.
//!
//! [`AuthorizationServer`] has everything that a client of MCP uses: metadata, registration, the authorization endpoint
//! with or without a consent page, tokens with PKCE and rotation, client credentials, the device flow, revocation and
//! userinfo. [`Server::protect`](crate::Server::protect) lets an MCP server demand its tokens. Settings choose the
//! differences between providers, and [`TokenFault`] the faults of the token endpoint. It is only for tests: consent is
//! given without a password, and signatures are not verified.

mod authorize;
mod counts;
mod device;
mod fault;
mod form;
mod grants;
mod metadata;
pub(crate) mod protection;
mod register;
mod settings;
mod state;
mod token;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub use counts::{AuthorizationCounts, AuthorizationRequest};
pub use fault::TokenFault;
pub use settings::{
    AuthorizationSettings, Consent, Iss, Metadata, MetadataFault, Redirects, Refresh, ResourceMetadata, ResourceRule,
};

use crate::oracle::Oracle;
use crate::server::connection::Connection;
use crate::server::read;
use crate::server::reply::{Answer, Outgoing, Reply};
use crate::server::socket::{ConnectionHandle, Socket};
use crate::task::Task;
use crate::{HttpRequest, Identity};
use protection::Protection;
use state::AuthorizationState;

/// An authorization server. It stops when it is dropped.
#[derive(Debug)]
pub struct AuthorizationServer {
    state: Arc<AuthorizationState>,
    address: SocketAddr,
    _accepting: Task,
}

impl AuthorizationServer {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(settings: AuthorizationSettings) -> std::io::Result<AuthorizationServer> {
        AuthorizationServer::start_on((Ipv4Addr::LOCALHOST, 0).into(), settings, None).await
    }

    /// Starts on this address, with TLS if there is an identity.
    pub async fn start_on(
        address: SocketAddr,
        settings: AuthorizationSettings,
        identity: Option<Identity>,
    ) -> std::io::Result<AuthorizationServer> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let scheme = if identity.is_some() { "https" } else { "http" };
        let state = Arc::new(AuthorizationState::new(settings, format!("{scheme}://{address}")));
        let accepting = Task::spawn(accept(listener, identity, Arc::clone(&state)));
        Ok(AuthorizationServer { state, address, _accepting: accepting })
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the issuer.
    pub fn issuer(&self) -> String {
        self.state.issuer(&self.state.settings())
    }

    /// Returns the current counts.
    pub fn counts(&self) -> AuthorizationCounts {
        self.state.counters.counts()
    }

    /// Returns the last requests in order, at most ten thousand.
    pub fn seen(&self) -> Vec<AuthorizationRequest> {
        self.state.counters.seen()
    }

    /// Resets the counts.
    pub fn reset_counts(&self) {
        self.state.counters.reset();
    }

    /// Waits until the counts meet the condition. Returns the counts: `Ok` when they do, `Err` at the timeout.
    pub async fn until(
        &self,
        timeout: Duration,
        condition: impl Fn(&AuthorizationCounts) -> bool,
    ) -> Result<AuthorizationCounts, AuthorizationCounts> {
        self.state.counters.until(timeout, condition).await
    }

    /// Returns the current settings.
    pub fn settings(&self) -> AuthorizationSettings {
        self.state.settings()
    }

    /// Changes the settings. Issued tokens keep their lifetime.
    pub fn change_settings(&self, settings: AuthorizationSettings) {
        self.state.change_settings(settings);
    }

    /// Lets the next requests to the token endpoint meet this fault, after those of earlier calls.
    pub fn fail_token(&self, fault: TokenFault, times: u64) {
        self.state.grants().faults.push_back((fault, times));
    }

    /// Removes all faults of the token endpoint.
    pub fn clear_faults(&self) {
        self.state.grants().faults.clear();
    }

    /// Makes all access tokens invalid. Refresh tokens stay valid.
    pub fn expire_access_tokens(&self) {
        self.state.grants().expire_access();
    }

    /// Revokes all logins: access tokens and refresh tokens.
    pub fn revoke_all(&self) {
        self.state.grants().revoke_all();
    }

    /// Forgets all clients that registered themselves.
    pub fn forget_clients(&self) {
        self.state.grants().clients.clear();
    }

    /// Sets the protected resource and returns its protection.
    pub(crate) fn protection(&self, resource: String) -> Protection {
        *self.state.resource.write().unwrap_or_else(PoisonError::into_inner) = Some(resource.clone());
        Protection::new(Arc::clone(&self.state), resource)
    }
}

async fn accept(listener: TcpListener, identity: Option<Identity>, state: Arc<AuthorizationState>) {
    let oracle = Arc::new(Oracle::new());
    // The connections end when this task is dropped.
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                // The error concerns one connection that has gone, or descriptors that other code will free.
                let Ok((stream, _)) = accepted else {
                    tokio::task::yield_now().await;
                    continue;
                };
                number += 1;
                let handle = ConnectionHandle::new(number);
                connections.spawn(serve(stream, identity.clone(), handle, Arc::clone(&state), Arc::clone(&oracle)));
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    identity: Option<Identity>,
    handle: ConnectionHandle,
    state: Arc<AuthorizationState>,
    oracle: Arc<Oracle>,
) {
    let Ok(connection) = Connection::open(stream, identity.as_ref()).await else { return };
    let socket = Socket::new(connection, handle.clone(), oracle);
    let service = service_fn(move |request| answer(Arc::clone(&state), handle.clone(), request));
    // The result of the connection does not matter.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

async fn answer(
    state: Arc<AuthorizationState>,
    handle: ConnectionHandle,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Box<dyn Error + Send + Sync>> {
    let sequence = handle.count_request();
    let (parts, body) = request.into_parts();
    let text = read(body).await?;
    let request = HttpRequest::new(&parts, text, handle.clone(), sequence);
    match state.answer(&request).await {
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
