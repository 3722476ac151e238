//! TCP connections.
//!
//! A name often has several addresses, and some of them may not work: some networks announce IPv6 and drop its packets.
//! So the addresses of both families alternate. The next attempt starts [`STAGGER`] after the last one or as soon as
//! that one fails, and the first connection wins (RFC 8305, "happy eyeballs"). The caller sets the timeout and drops
//! the dial when it ends. Only a name lookup that takes too long is reported here, because the caller cannot tell it
//! from a silent server.
//!
//! The module `addresses` decides which addresses of a name may be dialed.
//!
//! Every connection detects a dead peer: keepalive probes find one that is silent, the user timeout one that
//! acknowledges nothing. TLS, proxies and HTTP are in other modules.

use mendline_core::reason::ConnectError;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::addresses::{LOOKED_UP, is_literal};
use crate::os::tcp::{self, DeadPeer};

/// The time before the next address is tried as well.
const STAGGER: Duration = Duration::from_millis(250);
/// A silent peer is found after 30 seconds, and so is one that acknowledges nothing. Probes follow faster after the
/// first one.
const DEAD_PEER: DeadPeer = DeadPeer {
    idle: Duration::from_secs(15),
    interval: Duration::from_secs(5),
    probes: 3,
    unacknowledged: Duration::from_secs(30),
};

/// A dialer. [`TcpDial`] makes real connections; tests use streams in memory.
pub trait Dial {
    /// The stream of a connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Dials a peer. The caller drops the future when the timeout, counted from now, ends, unless the future returns an
    /// error before.
    fn dial(
        &self,
        peer: &HostPort,
        timeout: Duration,
    ) -> impl Future<Output = Result<Dialed<Self::Io>, ConnectError>> + Send + 'static;
}

/// The host and port of a server or of the proxy in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// An established connection.
pub struct Dialed<Io> {
    /// The stream.
    pub io: Io,
    /// Checks without reading whether the connection still looks open; `None` if there is no way to check.
    pub looks_open: Option<LooksOpen>,
}

/// A check of a connection that is owned elsewhere: false once its peer has closed it.
pub type LooksOpen = Box<dyn Fn() -> bool + Send>;

/// A dialer for TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDial;

impl Dial for TcpDial {
    type Io = Tcp;

    fn dial(
        &self,
        peer: &HostPort,
        timeout: Duration,
    ) -> impl Future<Output = Result<Dialed<Tcp>, ConnectError>> + Send + 'static {
        let peer = peer.clone();
        // Counted from now and not from the first poll, as the caller does.
        let deadline = Instant::now() + timeout;
        async move {
            let addresses =
                timeout_at(deadline, look_up(&peer)).await.map_err(|_| lookup_timed_out(&peer, timeout))??;
            connect_to(&peer, addresses).await
        }
    }
}

/// Connects to the first of these addresses of a peer that answers.
pub(super) async fn connect_to(peer: &HostPort, addresses: Vec<SocketAddr>) -> Result<Dialed<Tcp>, ConnectError> {
    let stream = race(interleave_families(addresses), TcpStream::connect)
        .await
        .map_err(|(address, error)| connect_error(peer, address, &error))?;
    set_socket_options(&stream);
    let stream = Arc::new(Mutex::new(stream));
    let watched = Arc::downgrade(&stream);
    Ok(Dialed { io: Tcp(stream), looks_open: Some(Box::new(move || looks_open(&watched))) })
}

pub(super) async fn look_up(peer: &HostPort) -> Result<Vec<SocketAddr>, ConnectError> {
    if let Ok(address) = peer.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, peer.port)]);
    }
    let found = tokio::net::lookup_host((peer.host.as_str(), peer.port)).await;
    let addresses: Vec<SocketAddr> = found
        .map_err(|error| ConnectError::NameLookup { host: peer.host.clone(), error: error.to_string() })?
        .collect();
    if addresses.is_empty() {
        return Err(ConnectError::NoAddress { host: peer.host.clone() });
    }
    if is_literal(&peer.host) {
        return Ok(addresses);
    }
    LOOKED_UP.admit(&peer.host, addresses).map_err(|why| ConnectError::AddressNotAllowed { problem: why.to_string() })
}

fn lookup_timed_out(peer: &HostPort, timeout: Duration) -> ConnectError {
    ConnectError::NameLookupTimedOut { host: peer.host.clone(), after: timeout }
}

/// Alternates the address families, beginning with the one that the resolver put first.
pub(super) fn interleave_families(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv6) else {
        return addresses;
    };
    let (preferred, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first);
    let mut other = other.into_iter();
    let mut interleaved = Vec::new();
    for address in preferred {
        interleaved.push(address);
        interleaved.extend(other.next());
    }
    interleaved.extend(other);
    interleaved
}

/// Races connection attempts; the first connection wins and the others are dropped. If all fail, returns the first
/// failure: its address is the one that the resolver prefers.
pub(super) async fn race<S, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<S, (Option<SocketAddr>, io::Error)>
where
    F: Future<Output = io::Result<S>>,
{
    let mut waiting = addresses.into_iter();
    let mut running: Vec<(SocketAddr, Pin<Box<F>>)> = Vec::new();
    let mut failure = None;
    let mut next = Box::pin(sleep_until(Instant::now()));
    poll_fn(|cx| {
        loop {
            let mut failed = false;
            let mut at = 0;
            while at < running.len() {
                match running[at].1.as_mut().poll(cx) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                    Poll::Ready(Err(error)) => {
                        let (address, _) = running.remove(at);
                        failure.get_or_insert((Some(address), error));
                        failed = true;
                    }
                    Poll::Pending => at += 1,
                }
            }
            let due = failed || running.is_empty() || next.as_mut().poll(cx).is_ready();
            match due.then(|| waiting.next()).flatten() {
                Some(address) => {
                    running.push((address, Box::pin(connect(address))));
                    next.as_mut().reset(Instant::now() + STAGGER);
                }
                None if running.is_empty() => {
                    let nothing = || (None, io::ErrorKind::AddrNotAvailable.into());
                    return Poll::Ready(Err(failure.take().unwrap_or_else(nothing)));
                }
                None => return Poll::Pending,
            }
        }
    })
    .await
}

pub(super) fn connect_error(peer: &HostPort, address: Option<SocketAddr>, error: &io::Error) -> ConnectError {
    let address = address.map_or_else(String::new, |address| address.to_string());
    let name = peer.to_string();
    let target = if address.is_empty() || address == name { name } else { format!("{name} ({address})") };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused { target },
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            ConnectError::Unreachable { target, error: error.to_string() }
        }
        io::ErrorKind::TimedOut => ConnectError::TimedOut { target, after: None },
        _ => ConnectError::Other { target, error: error.to_string() },
    }
}

/// Sets the options of a new connection.
fn set_socket_options(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    tcp::detect_dead_peer(stream, &DEAD_PEER);
}

fn looks_open(stream: &Weak<Mutex<TcpStream>>) -> bool {
    stream.upgrade().is_some_and(|stream| tcp::looks_open(&locked(&stream)))
}

/// A TCP connection that can be checked while its owner reads and writes it. The lock is never contended. It is needed
/// because only tokio's own `poll_read`, which takes the stream by `&mut`, treats a short read as the last one and
/// saves a system call.
pub struct Tcp(Arc<Mutex<TcpStream>>);

fn locked(stream: &Mutex<TcpStream>) -> MutexGuard<'_, TcpStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for Tcp {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(&self.0)).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(&self.0)).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(tcp::end_writing(&locked(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::fd::AsFd as _;

    use rustix::net::sockopt;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const SIX: &str = "[2001:db8::6]:1";
    const FOUR: &str = "192.0.2.4:1";
    const TIMEOUT: Duration = Duration::from_secs(5);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Races addresses that connect or refuse (`false`) after some milliseconds, or never answer.
    async fn race_result(
        addresses: Vec<SocketAddr>,
        answer: impl Fn(SocketAddr) -> Option<(u64, bool)>,
    ) -> (String, u128, Vec<u128>) {
        let start = Instant::now();
        let starts = RefCell::new(Vec::new());
        let outcome = race(addresses, |address| {
            starts.borrow_mut().push(start.elapsed().as_millis());
            let answer = answer(address);
            async move {
                match answer {
                    Some((after, good)) => {
                        tokio::time::sleep(Duration::from_millis(after)).await;
                        if good { Ok(address) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
                    }
                    None => std::future::pending().await,
                }
            }
        })
        .await;
        let result = match outcome {
            Ok(address) => address.to_string(),
            Err((address, error)) => format!("{address:?} {:?}", error.kind()),
        };
        (result, start.elapsed().as_millis(), starts.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn silent_address_delays_next_one_by_stagger() {
        let (winner, took, _) =
            race_result(addresses(&[SIX, FOUR]), |address| address.is_ipv4().then_some((10, true))).await;
        assert_eq!((&*winner, took), (FOUR, 260));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_address_starts_next_one_at_once() {
        let (winner, took, _) = race_result(addresses(&[SIX, FOUR]), |address| Some((10, address.is_ipv4()))).await;
        assert_eq!((&*winner, took), (FOUR, 20));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_first_address_can_win() {
        let answer = |address: SocketAddr| Some(if address.is_ipv6() { (300, true) } else { (100, true) });
        let (winner, took, starts) = race_result(addresses(&[SIX, FOUR]), answer).await;
        assert_eq!((&*winner, took, starts), (SIX, 300, vec![0, 250]));
    }

    #[tokio::test(start_paused = true)]
    async fn first_failure_is_reported_when_all_fail() {
        let (result, took, _) = race_result(addresses(&[SIX, FOUR]), |_| Some((10, false))).await;
        assert_eq!((&*result, took), ("Some([2001:db8::6]:1) ConnectionRefused", 20));
        let (result, _, _) = race_result(Vec::new(), |_| None).await;
        assert_eq!(result, "None AddrNotAvailable");
    }

    #[test]
    fn address_families_alternate() {
        let six = |n: u8| format!("[2001:db8::{n}]:1");
        let four = |n: u8| format!("192.0.2.{n}:1");
        let given = [six(1), six(2), six(3), four(1), four(2)];
        let expected = [six(1), four(1), six(2), four(2), six(3)];
        let parse = |texts: &[String]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        assert_eq!(interleave_families(parse(&given)), parse(&expected));
    }

    #[tokio::test]
    async fn refused_connection_and_failed_lookup_are_reported() {
        // Bound and never listened on, so that no other process gets the port.
        let kept = TcpSocket::new_v4().unwrap();
        kept.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = kept.local_addr().unwrap();
        let peer = HostPort { host: "127.0.0.1".into(), port: address.port() };
        let error = TcpDial.dial(&peer, TIMEOUT).await.err().unwrap();
        assert_eq!(error.to_string(), format!("nothing listens on {address} (connection refused)"));
        // An invalid name, so that no name server is asked.
        let name = "x".repeat(64);
        let peer = HostPort { host: name.as_str().into(), port: 1 };
        let error = TcpDial.dial(&peer, TIMEOUT).await.err().unwrap();
        assert!(error.to_string().starts_with(&format!("the name {name} could not be looked up (")), "{error:?}");
    }

    #[tokio::test]
    async fn connection_looks_open_until_peer_closes_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = HostPort { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let dialed = TcpDial.dial(&peer, TIMEOUT).await.ok().unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let looks_open = dialed.looks_open.unwrap();
        assert!(looks_open());
        assert_eq!(sockopt::tcp_user_timeout(locked(&dialed.io.0).as_fd()).unwrap(), 30_000);
        assert_eq!(sockopt::tcp_keepidle(locked(&dialed.io.0).as_fd()).unwrap(), DEAD_PEER.idle);
        drop(peer);
        let mut io = dialed.io;
        assert_eq!(io.read(&mut [0]).await.unwrap(), 0, "the end is here");
        assert!(!looks_open());
        drop(io);
        assert!(!looks_open());
    }
}
