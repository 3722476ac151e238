//! One connection: what it speaks, whom it carries, how long it may rest.
//!
//! Its driver (the future that reads and writes) is polled here and not spawned: so a connection that is dropped has
//! written its last byte, and what its tracker shows from then on is the truth.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use h2::client::SendRequest;
use http::{Request, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mendline_core::port::Reuse;
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::transfer::{ResponseFuture, Evidence, ResponseBody, Upload};
use super::connect::Line;
use super::dial::LooksOpen;
use super::write_tracker::{WriteTracker, Http1Io};
use super::keepalive::Http2Keepalive;
use super::request::{Outgoing, Segments};

/// How long an HTTP/1 connection rests when the server does not say: many close after five seconds.
const REST_HTTP1: Duration = Duration::from_secs(4);
/// How long an HTTP/2 connection rests: proxies close after a minute, and a farewell (GOAWAY) makes that harmless.
const REST_HTTP2: Duration = Duration::from_secs(50);
/// No server's word makes a connection rest longer than this.
const REST_MOST: Duration = Duration::from_secs(60);
/// A connection that was alive so briefly ago is not about to be closed for idleness.
const JUST_NOW: Duration = Duration::from_secs(1);
/// How much of a body that nobody wants is read to keep its connection.
const LEFTOVER_MOST: usize = 64 * 1024;

/// The two HTTPs.
pub(super) enum Speech<Io: AsyncRead + AsyncWrite + Unpin> {
    Http1 {
        sender: http1::SendRequest<Outgoing>,
        driver: Box<http1::Connection<TokioIo<Http1Io<Line<Io>>>, Outgoing>>,
    },
    Http2 {
        sender: SendRequest<Segments>,
        driver: Box<h2::client::Connection<Line<Io>, Segments>>,
        keepalive: Option<Http2Keepalive>,
    },
}

/// How fresh a connection must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// As the exchange wants it.
    By(Reuse),
    /// Never used before: another one has just been found dead.
    Unused,
}

/// A connection of the pool.
pub(super) struct Connection<Io: AsyncRead + AsyncWrite + Unpin> {
    speech: Speech<Io>,
    tracker: Arc<WriteTracker>,
    looks_open: Option<LooksOpen>,
    /// Exchanges that it carries now.
    carried: usize,
    used: bool,
    /// It takes no new exchange: the peer has said goodbye, or something unread is left on it.
    closing: bool,
    /// What is left of a body that nobody wants, and how much of it has been read.
    leftover: Option<(Incoming, usize)>,
    resting_since: Instant,
    rest: Duration,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<Io> {
    pub(super) fn new(speech: Speech<Io>, tracker: Arc<WriteTracker>, looks_open: Option<LooksOpen>) -> Connection<Io> {
        let rest = match speech {
            Speech::Http1 { .. } => REST_HTTP1,
            Speech::Http2 { .. } => REST_HTTP2,
        };
        Connection {
            speech,
            tracker,
            looks_open,
            carried: 0,
            used: false,
            closing: false,
            leftover: None,
            resting_since: Instant::now(),
            rest,
        }
    }

    pub(super) fn version(&self) -> Version {
        match self.speech {
            Speech::Http1 { .. } => Version::HTTP_11,
            Speech::Http2 { .. } => Version::HTTP_2,
        }
    }

    /// Whether an exchange that it takes now comes after others.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Whether it carries nothing now.
    pub(super) fn rests(&self) -> bool {
        self.carried == 0
    }

    /// When it has rested for long enough; `None` while it carries something.
    pub(super) fn retires(&self) -> Option<Instant> {
        self.rests().then(|| self.resting_since + self.rest)
    }

    /// Reads and writes. Ready when the connection is over, with words.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        match &mut self.speech {
            Speech::Http1 { driver, .. } => {
                if Pin::new(driver).poll(cx).is_ready() {
                    return Poll::Ready("the server closed the connection".to_owned());
                }
            }
            Speech::Http2 { driver, keepalive, sender } => {
                if let Poll::Ready(ended) = Pin::new(driver).poll(cx) {
                    return Poll::Ready(
                        ended.err().map_or("the server closed the connection".to_owned(), |error| error.to_string()),
                    );
                }
                if let Some(Poll::Ready(words)) = keepalive.as_mut().map(|keepalive| keepalive.poll(cx)) {
                    return Poll::Ready(words);
                }
                // Not the readiness counts but the error: after a GOAWAY no new stream is possible.
                self.closing |= matches!(sender.poll_ready(cx), Poll::Ready(Err(_)));
            }
        }
        self.drain(cx)
    }

    /// Reads on what nobody wants, so that the connection can be used again.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        while let Some((body, read)) = self.leftover.take() {
            let mut body = ResponseBody::Http1(body);
            match body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) if read + data.len() <= LEFTOVER_MOST => {
                    if let ResponseBody::Http1(body) = body {
                        self.leftover = Some((body, read + data.len()));
                    }
                }
                Poll::Ready(None) => {}
                Poll::Ready(_) => return Poll::Ready("the server sent more than anybody wants".to_owned()),
                Poll::Pending => {
                    if let ResponseBody::Http1(body) = body {
                        self.leftover = Some((body, read));
                    }
                    break;
                }
            }
        }
        Poll::Pending
    }

    /// Whether several exchanges may be on it at once.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.speech, Speech::Http2 { .. })
    }

    /// Whether it is fresh enough for an exchange that wants it so.
    pub(super) fn is_fresh(&self, freshness: Freshness, now: Instant) -> bool {
        if self.rests() && now >= self.resting_since + self.rest {
            return false;
        }
        let last_alive = match &self.speech {
            Speech::Http1 { .. } => self.resting_since,
            Speech::Http2 { .. } => self.resting_since.max(self.tracker.last_read()),
        };
        let just_now = now < last_alive + JUST_NOW;
        match freshness {
            Freshness::Unused => !self.used && just_now,
            Freshness::By(Reuse::Fresh) => just_now,
            Freshness::By(Reuse::Any) => true,
        }
    }

    /// Whether it can take one more exchange.
    pub(super) fn has_room(&self) -> bool {
        if self.closing || self.leftover.is_some() {
            return false;
        }
        match &self.speech {
            Speech::Http1 { sender, .. } => self.carried == 0 && (!self.used || sender.is_ready()),
            Speech::Http2 { sender, .. } => self.carried < sender.current_max_send_streams(),
        }
    }

    /// Looks at the socket itself: false once the peer has closed it.
    pub(super) fn looks_open(&self) -> bool {
        self.looks_open.as_ref().is_none_or(|looks_open| looks_open())
    }

    /// Sends a request. `None` if the connection takes it no more; then nothing of it was written.
    pub(super) fn send(
        &mut self,
        head: Request<()>,
        body: Option<&Spliced>,
    ) -> Option<(ResponseFuture, Option<Upload>, Evidence)> {
        let sent = match &mut self.speech {
            Speech::Http1 { sender, .. } => {
                self.tracker.begin(body.map_or(0, |body| body.len() as u64));
                let answer = sender.try_send_request(head.map(|()| Outgoing::new(body)));
                (ResponseFuture::Http1(Box::pin(answer)), None, Evidence::Http1(Arc::clone(&self.tracker)))
            }
            Speech::Http2 { sender, .. } => {
                let body = body.filter(|body| !body.is_empty());
                let before = self.tracker.accepted();
                let Ok((answer, stream)) = sender.send_request(head, body.is_none()) else {
                    self.closing = true;
                    return None;
                };
                let length = body.map_or(0, |body| body.len() as u64);
                let upload = body.map(|body| Upload::new(stream, Segments::whole(body.clone())));
                let evidence = Evidence::http2(Arc::clone(&self.tracker), before, length);
                (ResponseFuture::Http2(answer), upload, evidence)
            }
        };
        self.carried += 1;
        self.used = true;
        Some(sent)
    }

    /// An exchange has come to its proper end here. What is left of its body is read on, if that is worth it.
    pub(super) fn release(&mut self, rest: Option<Duration>, leftover: ResponseBody) {
        self.carried -= 1;
        self.resting_since = Instant::now();
        if let ResponseBody::Http1(body) = leftover {
            self.rest = rest.unwrap_or(REST_HTTP1).min(REST_MOST);
            self.leftover = (!body.is_end_stream()).then_some((body, 0));
        }
    }

    /// An exchange was given up. HTTP/2 resets its stream; HTTP/1 has no way to go on, and the answer is whether it
    /// can.
    pub(super) fn give_up(&mut self) -> bool {
        self.carried -= 1;
        self.resting_since = Instant::now();
        matches!(self.speech, Speech::Http2 { .. })
    }

    /// Says goodbye as far as that is possible without waiting.
    pub(super) fn retire(self) {
        let mut cx = Context::from_waker(Waker::noop());
        match self.speech {
            Speech::Http1 { sender, mut driver } => {
                drop(sender);
                let _ = Pin::new(&mut driver).poll(&mut cx);
            }
            Speech::Http2 { sender, mut driver, .. } => {
                drop(sender);
                let _ = Pin::new(&mut driver).poll(&mut cx);
            }
        }
    }
}
