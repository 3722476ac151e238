//! Establishes a connection: dial, proxy tunnel, TLS, and the HTTP/2 handshake.
//!
//! One deadline covers all steps. The error names the step that exceeded it, because "no answer" and "no end of the TLS
//! handshake" point to different machines.

use mendline_core::reason::{ConnectError, ProxyError};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connection::{Connection, HttpConnection};
use super::dial::{Dialed, HostPort};
use super::h1::{Http1, Keep};
use super::keepalive::Http2Keepalive;
use super::proxy::tunnel;
use super::target::{Protocol, Target};
use super::tls::{TlsContext, server_name, tls_error};
use super::write_tracker::{TrackedIo, WriteTracker};

/// The flow-control window of one HTTP/2 stream.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The flow-control window of an HTTP/2 connection: streams that are not read must not stop the others.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// The factor by which an HTTP/2 response head may exceed the limit before the library refuses it without a reason.
/// Heads between the two limits are refused here, with a reason.
const HEAD_SLACK: usize = 4;
/// The assumed stream limit of a peer until it announces its own.
const FIRST_STREAMS: usize = 16;

/// Returns the host and port to dial for this target: the proxy or the server.
pub(super) fn first_hop(target: &Target) -> HostPort {
    match &target.proxy {
        Some(proxy) => HostPort { host: proxy.host.clone(), port: proxy.port },
        None => HostPort { host: target.location.origin.host.clone(), port: target.location.origin.port },
    }
}

/// Establishes a connection on the stream that `dial` returns. `keep` says which headers of responses over HTTP/1 are
/// read.
pub(super) async fn connect<Io>(
    dial: impl Future<Output = Result<Dialed<Io>, ConnectError>>,
    target: Arc<Target>,
    tls: Arc<TlsContext>,
    keep: Keep,
) -> Result<Connection<Io>, ConnectError>
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let deadline = Instant::now() + target.connect_timeout;
    let after = target.connect_timeout;
    let peer = first_hop(&target);
    let timed_out = |_| ConnectError::TimedOut { target: peer.to_string(), after: Some(after) };
    let Dialed { io, looks_open } = timeout_at(deadline, dial).await.map_err(timed_out)??;
    let tracker = WriteTracker::new();
    let mut io = TrackedIo::new(io, Arc::clone(&tracker));
    let origin = &target.location.origin;
    let (stream, http2) = if origin.secure {
        if let Some(proxy) = &target.proxy {
            let made = timeout_at(deadline, tunnel(&mut io, proxy, origin)).await;
            let made = made.unwrap_or(Err(ProxyError::TimedOut { after }));
            made.map_err(|error| ConnectError::Proxy { proxy: peer.to_string(), error })?;
        }
        let handshake = timeout_at(deadline, tls_handshake(io, &target, &tls)).await;
        let timed_out = |_| ConnectError::TlsTimedOut { server: origin.host_and_port(), after };
        let stream = handshake.map_err(timed_out)??;
        tracker.set_encrypted();
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2") || target.protocol == Protocol::Http2;
        (MaybeTlsStream::Tls(Box::new(stream)), http2)
    } else {
        (MaybeTlsStream::Plain(io), target.protocol == Protocol::Http2)
    };
    let broke =
        |error: &dyn std::fmt::Display| ConnectError::Broken { target: peer.to_string(), error: error.to_string() };
    let http = if http2 {
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(FIRST_STREAMS)
            .max_header_list_size(u32::try_from(target.head_bytes.saturating_mul(HEAD_SLACK)).unwrap_or(u32::MAX))
            .enable_push(false);
        let handshake = timeout_at(deadline, builder.handshake(stream)).await;
        let timed_out = |_| ConnectError::Http2TimedOut { target: peer.to_string(), after };
        let handshake = handshake.map_err(timed_out)?;
        let (sender, mut driver) = handshake.map_err(|error| broke(&error))?;
        let keepalive = driver.ping_pong().map(|ping| Http2Keepalive::new(ping, Arc::clone(&tracker)));
        HttpConnection::Http2 { sender, driver: Box::new(driver), keepalive }
    } else {
        HttpConnection::Http1(Box::new(Http1::new(stream, Arc::clone(&tracker), target.head_bytes, keep)))
    };
    Ok(Connection::new(http, tracker, looks_open))
}

async fn tls_handshake<Io>(io: Io, target: &Target, tls: &TlsContext) -> Result<TlsStream<Io>, ConnectError>
where
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let origin = &target.location.origin;
    let failed = |error| ConnectError::Tls { server: origin.host_and_port(), error };
    let config = tls.config().map_err(failed)?;
    let name = server_name(&origin.host).map_err(failed)?;
    TlsConnector::from(config).connect(name, io).await.map_err(|error| failed(tls_error(&error)))
}

/// A tracked stream, with or without TLS.
pub(super) enum MaybeTlsStream<Io> {
    Plain(TrackedIo<Io>),
    Tls(Box<TlsStream<TrackedIo<Io>>>),
}

/// Runs the same expression on both kinds of stream.
macro_rules! on_stream {
    ($stream:expr, $io:ident => $act:expr) => {
        match $stream {
            MaybeTlsStream::Plain($io) => $act,
            MaybeTlsStream::Tls($io) => $act,
        }
    };
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncRead for MaybeTlsStream<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_stream!(&mut *self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MaybeTlsStream<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(&mut *self, io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(&mut *self, io => Pin::new(io).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        on_stream!(self, io => io.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(&mut *self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(&mut *self, io => Pin::new(io).poll_shutdown(cx))
    }
}
