//! Accepts connections and serves HTTP/1.1 and HTTP/2 on them.
//!
//! The number of connections is limited. One above the limit is answered with 503 at once, so that its client knows why
//! and when to try again. What one connection may cost is in [`super::paced_io`] and in the limits of hyper below.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use mendline_core::defaults;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::{Connection, Peer};
use super::access_log::{AccessLog, logged};
use super::gateway::Gateway;
use super::paced_io::{Pace, PacedIo};
use super::progress::WaitingResponses;
use super::tls::ServerTls;
use crate::os::descriptors;
use crate::os::files::user_id;
use crate::os::peer_user::PeerUsers;

/// The interval in which idle sessions are looked for.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(30);

/// Connections above the limit that are being told so. More are closed without an answer.
const REFUSALS: usize = 64;

/// The time that a refused client has to read the answer.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Descriptors for everything else: servers, log files, the control socket.
const OTHER_DESCRIPTORS: usize = 256;

/// Few places are free when fewer than this part of them are.
const FEW: usize = 4;

/// The part of the time that a connection has then.
const HURRY: u32 = 10;

const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Content-Type: text/plain; charset=utf-8\r\nContent-Length: 54\r\n\r\n\
the gateway has too many connections; try again later\n";

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// The time for a TLS handshake.
    pub handshake: Duration,
    /// The time for the head of a request, and between two requests.
    pub head: Duration,
    /// The pace of a client that reads.
    pub pace: Pace,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            handshake: defaults::GATEWAY_HANDSHAKE,
            head: defaults::GATEWAY_HEAD,
            pace: Pace { stall: defaults::GATEWAY_STALL, bytes: defaults::GATEWAY_STALL_BYTES },
        }
    }
}

impl ConnectionLimits {
    /// Returns the limits of a new connection. When few places are free, it has less time for its requests: a client
    /// with many silent connections must not keep others out for long.
    fn with_free(self, free: usize, most: usize) -> ConnectionLimits {
        if free.saturating_mul(FEW) >= most {
            return self;
        }
        ConnectionLimits { handshake: self.handshake / HURRY, head: self.head / HURRY, ..self }
    }
}

/// A listening address.
pub struct Listener {
    listener: TcpListener,
    limits: ConnectionLimits,
    tls: Option<ServerTls>,
    log: Option<AccessLog>,
}

impl Listener {
    /// Binds an address.
    pub async fn bind(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener::new(TcpListener::bind(address).await?))
    }

    /// Replaces the limits.
    pub fn with_limits(mut self, limits: ConnectionLimits) -> Listener {
        self.limits = limits;
        self
    }

    /// Accepts only connections with TLS.
    pub fn with_tls(mut self, tls: Option<ServerTls>) -> Listener {
        self.tls = tls;
        self
    }

    /// Writes a line for each request.
    pub fn with_log(mut self, log: Option<AccessLog>) -> Listener {
        self.log = log;
        self
    }

    /// Uses a socket that listens already and does not block.
    pub fn from_socket(socket: std::net::TcpListener) -> io::Result<Listener> {
        Ok(Listener::new(TcpListener::from_std(socket)?))
    }

    fn new(listener: TcpListener) -> Listener {
        Listener { listener, limits: ConnectionLimits::default(), tls: None, log: None }
    }

    /// The bound address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections until the task is dropped.
    pub async fn serve(self, gateway: Arc<Gateway>) {
        let mut places = Places::default();
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        let users = Mutex::new(PeerUsers::new());
        let mut expire = tokio::time::interval(EXPIRE_INTERVAL);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = expire.tick() => {
                    gateway.expire();
                    continue;
                }
            };
            let Ok((connection, address)) = accepted else {
                // Out of file descriptors: connections end in the meantime.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let access = gateway.access();
            let most = places.most(access.connections);
            let Some(place) = places.take(most) else {
                // A client of TLS does not understand the answer.
                if self.tls.is_none()
                    && let Ok(permit) = Arc::clone(&refusals).try_acquire_owned()
                {
                    tokio::spawn(refuse(connection, permit));
                }
                continue;
            };
            let peer = if access.asks_for_user() { peer(&connection, address, &users) } else { Peer::Unknown };
            let from = Connection { peer, address: Some(address.ip().to_canonical()), is_tls: self.tls.is_some() };
            let limits = self.limits.with_free(most.saturating_sub(places.open()), most);
            let served = Served { from, limits, gateway: Arc::clone(&gateway), log: self.log.clone() };
            tokio::spawn(open(connection, self.tls.clone(), served, place));
        }
    }
}

/// The places of open connections. Their number can be changed while the gateway runs.
#[derive(Default)]
struct Places {
    open: Arc<AtomicUsize>,
    /// The configured number, and the one that the system allows.
    allowed: Option<(usize, usize)>,
}

/// The place of an open connection. Dropping it makes room for another.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    /// Returns the number of places. It can be less than the configured one, because each connection has a descriptor.
    fn most(&mut self, configured: usize) -> usize {
        match self.allowed {
            Some((last, most)) if last == configured => most,
            _ => {
                let descriptors = descriptors::raise_limit(configured + OTHER_DESCRIPTORS);
                let most = configured.min(descriptors.saturating_sub(OTHER_DESCRIPTORS)).max(1);
                self.allowed = Some((configured, most));
                most
            }
        }
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Takes a place, if one is free. Only the task of the listener takes places.
    fn take(&self, most: usize) -> Option<Place> {
        if self.open() >= most {
            return None;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Place(Arc::clone(&self.open)))
    }
}

/// Returns the user at the other end of a connection.
fn peer(connection: &TcpStream, address: SocketAddr, users: &Mutex<PeerUsers>) -> Peer {
    let Ok(local) = connection.local_addr() else { return Peer::Unknown };
    let user = users.lock().unwrap_or_else(PoisonError::into_inner).user_of(address, local);
    match user {
        Some(uid) if uid == user_id() || uid == 0 => Peer::Own,
        Some(uid) => Peer::Other(uid),
        None => Peer::Unknown,
    }
}

/// What a connection is served with.
struct Served {
    from: Connection,
    limits: ConnectionLimits,
    gateway: Arc<Gateway>,
    log: Option<AccessLog>,
}

/// Makes the TLS handshake, if there is one, and serves the connection.
async fn open(connection: TcpStream, tls: Option<ServerTls>, served: Served, place: Place) {
    let _ = connection.set_nodelay(true);
    match tls {
        None => serve(connection, served).await,
        Some(tls) => {
            if let Some(connection) = tls.accept(connection, served.limits.handshake).await {
                serve(connection, served).await;
            }
        }
    }
    drop(place);
}

async fn serve<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(connection: T, served: Served) {
    let Served { from, limits, gateway, log } = served;
    let waiting = WaitingResponses::default();
    let connection = PacedIo::new(connection, limits.head, limits.pace).watching(waiting.clone());
    let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        let gateway = Arc::clone(&gateway);
        request.extensions_mut().insert(from);
        request.extensions_mut().insert(waiting.clone());
        let entry = log.as_ref().map(|log| {
            let client = gateway.access().client_address(request.headers(), from.address);
            log.begin(&request, client)
        });
        async move { Ok::<_, Infallible>(logged(gateway.answer(request).await, entry)) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let http1 = &mut builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(limits.head);
    http1.max_buf_size(defaults::GATEWAY_HEAD_BYTES).max_headers(defaults::GATEWAY_HEADERS);
    let http2 = &mut builder.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(defaults::GATEWAY_H2_STREAMS);
    http2.max_header_list_size(defaults::GATEWAY_HEAD_BYTES as u32);
    http2.keep_alive_interval(limits.head).keep_alive_timeout(limits.head);
    // A client that breaks its connection is an ordinary event.
    let _ = builder.serve_connection(TokioIo::new(connection), service).await;
}

/// Answers a connection above the limit.
async fn refuse(mut connection: TcpStream, permit: OwnedSemaphorePermit) {
    let answer = async {
        connection.write_all(REFUSAL).await?;
        connection.shutdown().await?;
        // Unread bytes would make the system discard the answer.
        let mut rest = [0; 4096];
        while connection.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(REFUSAL_TIME, answer).await;
    drop(permit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_has_less_time_when_few_places_are_free() {
        let limits = ConnectionLimits::default();
        assert_eq!(limits.with_free(25, 100).head, limits.head);
        assert_eq!(limits.with_free(24, 100).head, limits.head / HURRY);
        assert_eq!(limits.with_free(0, 1).head, limits.head / HURRY);
    }

    #[test]
    fn refusal_has_the_length_that_it_names() {
        let text = std::str::from_utf8(REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    }
}
