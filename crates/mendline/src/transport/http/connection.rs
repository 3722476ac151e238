//! One connection: its HTTP version, its exchanges and its idle limit.
//!
//! It is polled here and not spawned. So a dropped connection writes nothing more, and its write tracker is final. An
//! exchange on HTTP/1 has its connection for itself and polls it (`h1`); the pool polls idle connections and those of
//! HTTP/2.

use mendline_core::reason::CutReason;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use h2::client::SendRequest;
use http::Version;
use mendline_core::port::Reuse;
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::connect::MaybeTlsStream;
use super::dial::LooksOpen;
use super::h1::{Http1, ReadBuffer};
use super::keepalive::Http2Keepalive;
use super::request::{Head, Segments};
use super::transfer::{Evidence, ResponseFuture, Upload, http2_reason};
use super::write_tracker::WriteTracker;

/// The idle limit of an HTTP/1 connection if the server does not announce one: many servers close after five seconds.
const IDLE_HTTP1: Duration = Duration::from_secs(4);
/// The idle limit of an HTTP/2 connection: proxies close after a minute, and a GOAWAY makes that harmless.
const IDLE_HTTP2: Duration = Duration::from_secs(50);
/// The longest idle limit, whatever the server announces.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// The time for which a connection that was never used is as good as new.
const NEW: Duration = Duration::from_secs(1);

/// The HTTP connection of either version.
pub(super) enum HttpConnection<Io: AsyncRead + AsyncWrite + Unpin> {
    Http1(Box<Http1<Io>>),
    Http2 {
        sender: SendRequest<Segments>,
        driver: Box<h2::client::Connection<MaybeTlsStream<Io>, Segments>>,
        keepalive: Option<Http2Keepalive>,
    },
}

/// The required freshness of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// As the exchange requires.
    By(Reuse),
    /// Never used: a used one was just found dead.
    Unused,
}

/// A connection of the pool.
pub(super) struct Connection<Io: AsyncRead + AsyncWrite + Unpin> {
    http: HttpConnection<Io>,
    tracker: Arc<WriteTracker>,
    looks_open: Option<LooksOpen>,
    /// The number of current exchanges.
    exchanges: usize,
    used: bool,
    /// The connection takes no new exchange: the peer sent a GOAWAY.
    closing: bool,
    idle_since: Instant,
    idle_limit: Duration,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<Io> {
    pub(super) fn new(
        http: HttpConnection<Io>,
        tracker: Arc<WriteTracker>,
        looks_open: Option<LooksOpen>,
    ) -> Connection<Io> {
        let idle_limit = match http {
            HttpConnection::Http1(_) => IDLE_HTTP1,
            HttpConnection::Http2 { .. } => IDLE_HTTP2,
        };
        Connection {
            http,
            tracker,
            looks_open,
            exchanges: 0,
            used: false,
            closing: false,
            idle_since: Instant::now(),
            idle_limit,
        }
    }

    pub(super) fn version(&self) -> Version {
        match self.http {
            HttpConnection::Http1(_) => Version::HTTP_11,
            HttpConnection::Http2 { .. } => Version::HTTP_2,
        }
    }

    /// Returns whether it has carried an exchange before.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Returns whether it carries no exchange.
    pub(super) fn is_idle(&self) -> bool {
        self.exchanges == 0
    }

    /// Returns the time when its idle limit ends; `None` while it carries an exchange.
    pub(super) fn idle_deadline(&self) -> Option<Instant> {
        self.is_idle().then(|| self.idle_since + self.idle_limit)
    }

    /// Reads and writes; of HTTP/1, only a connection that carries no exchange: the exchange polls the others. Ready with
    /// the reason when the connection has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuffer) -> Poll<CutReason> {
        match &mut self.http {
            HttpConnection::Http1(_) if self.exchanges > 0 => {}
            HttpConnection::Http1(http1) => return http1.poll_idle(cx, buffer),
            HttpConnection::Http2 { driver, keepalive, sender } => {
                if let Poll::Ready(ended) = Pin::new(driver).poll(cx) {
                    return Poll::Ready(ended.err().map_or(CutReason::Closed, |error| http2_reason(&error)));
                }
                if let Some(Poll::Ready(reason)) = keepalive.as_mut().map(|keepalive| keepalive.poll(cx)) {
                    return Poll::Ready(reason);
                }
                // Only an error matters, not readiness: after a GOAWAY no new stream is possible.
                self.closing |= matches!(sender.poll_ready(cx), Poll::Ready(Err(_)));
            }
        }
        Poll::Pending
    }

    /// Returns the connection of HTTP/1, whose exchange polls it.
    pub(super) fn http1(&mut self) -> Option<&mut Http1<Io>> {
        match &mut self.http {
            HttpConnection::Http1(http1) => Some(http1),
            HttpConnection::Http2 { .. } => None,
        }
    }

    /// Returns whether it must read the rest of an unwanted body before it can be used again.
    pub(super) fn has_leftover(&self) -> bool {
        matches!(&self.http, HttpConnection::Http1(http1) if http1.has_leftover())
    }

    /// Returns whether it can carry several exchanges at once.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.http, HttpConnection::Http2 { .. })
    }

    /// Returns whether it meets the required freshness. `safe_idle` is the idle time after which a used connection may
    /// be about to be closed.
    pub(super) fn is_fresh(&self, freshness: Freshness, safe_idle: Duration, now: Instant) -> bool {
        if self.is_idle() && now >= self.idle_since + self.idle_limit {
            return false;
        }
        let since_alive = now.saturating_duration_since(self.last_alive());
        match freshness {
            Freshness::Unused => !self.used && since_alive < NEW,
            Freshness::By(Reuse::Fresh) => since_alive < if self.used { safe_idle } else { NEW },
            Freshness::By(Reuse::Any) => true,
        }
    }

    /// Returns whether neither it nor a connection of HTTP/1 that has been idle for longer is fresh, used or not.
    pub(super) fn is_stale(&self, safe_idle: Duration, now: Instant) -> bool {
        !self.is_shared() && now.saturating_duration_since(self.idle_since) >= safe_idle.max(NEW)
    }

    /// Returns how long it has been idle since its last exchange; `None` if it carries an exchange, has never carried
    /// one, or if the server has announced that it closes it.
    pub(super) fn idle_time(&self, now: Instant) -> Option<Duration> {
        let can_tell = self.used && self.is_idle() && !self.idle_limit.is_zero() && !self.has_leftover();
        can_tell.then(|| now.saturating_duration_since(self.last_alive()))
    }

    fn last_alive(&self) -> Instant {
        match &self.http {
            HttpConnection::Http1(_) => self.idle_since,
            HttpConnection::Http2 { .. } => self.idle_since.max(self.tracker.last_read()),
        }
    }

    /// Returns whether it can take another exchange.
    pub(super) fn has_room(&self) -> bool {
        match &self.http {
            HttpConnection::Http1(http1) => self.exchanges == 0 && http1.is_ready(),
            HttpConnection::Http2 { sender, .. } => !self.closing && self.exchanges < sender.current_max_send_streams(),
        }
    }

    /// Checks the socket itself: false once the peer has closed it.
    pub(super) fn looks_open(&self) -> bool {
        self.looks_open.as_ref().is_none_or(|looks_open| looks_open())
    }

    /// Sends a request. Returns `None` if the connection no longer takes it; then nothing was written.
    pub(super) fn send(
        &mut self,
        head: Head<'_>,
        body: Option<&Spliced>,
        buffer: &mut ReadBuffer,
        cx: &mut Context<'_>,
    ) -> Option<(ResponseFuture, Option<Upload>, Evidence)> {
        let sent = match (&mut self.http, head) {
            (HttpConnection::Http1(http1), Head::Http1(head)) => {
                if http1.begin(head, body, buffer, cx) {
                    cx.waker().wake_by_ref();
                }
                (ResponseFuture::Http1, None, Evidence::Http1(Arc::clone(&self.tracker)))
            }
            (HttpConnection::Http2 { sender, .. }, Head::Http2(head)) => {
                let body = body.filter(|body| !body.is_empty());
                let before = self.tracker.accepted();
                let Ok((response, stream)) = sender.send_request(*head, body.is_none()) else {
                    self.closing = true;
                    return None;
                };
                let length = body.map_or(0, |body| body.len() as u64);
                let upload = body.map(|body| Upload::new(stream, Segments::whole(body.clone())));
                let evidence = Evidence::http2(Arc::clone(&self.tracker), before, length);
                (ResponseFuture::Http2(response), upload, evidence)
            }
            // The head is made for the version of the connection.
            _ => return None,
        };
        self.exchanges += 1;
        self.used = true;
        Some(sent)
    }

    /// Ends a completed exchange. The rest of its body is read if it is short enough.
    pub(super) fn release(&mut self, now: Instant) {
        self.exchanges -= 1;
        self.idle_since = now;
        if let HttpConnection::Http1(http1) = &mut self.http {
            http1.drop_body();
            self.idle_limit = http1.idle_limit().unwrap_or(IDLE_HTTP1).min(MAX_IDLE);
        }
    }

    /// Ends an exchange that was given up. HTTP/2 resets its stream. Returns whether the connection can be used again,
    /// which HTTP/1 cannot.
    pub(super) fn give_up(&mut self) -> bool {
        self.exchanges -= 1;
        self.idle_since = Instant::now();
        matches!(self.http, HttpConnection::Http2 { .. })
    }

    /// Closes the connection properly as far as possible without waiting.
    pub(super) fn close(self) {
        let mut cx = Context::from_waker(Waker::noop());
        match self.http {
            HttpConnection::Http1(http1) => http1.close(&mut cx),
            HttpConnection::Http2 { sender, mut driver, .. } => {
                drop(sender);
                let _ = Pin::new(&mut driver).poll(&mut cx);
            }
        }
    }
}
