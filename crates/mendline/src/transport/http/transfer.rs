//! The transfer of one exchange over HTTP/1 or HTTP/2: request upload, response and response body.
//!
//! An exchange over HTTP/1 has a connection for itself, which does all of this (`h1`).
//!
//! HTTP/2 uses `h2` directly, so that the upload is under our control and it is known how much of it the peer's window has
//! let through. A stream whose last frame was never handed over cannot have been processed. The same
//! holds for a stream whose connection is gone and had accepted fewer bytes than its frames need.

use mendline_core::reason::CutReason;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf as _;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use mendline_core::port::Written;
use tokio::io::{AsyncRead, AsyncWrite};

use super::h1::{Data, Http1, ReadBuffer};
use super::request::Segments;
use super::tls::late_alert;
use super::write_tracker::WriteTracker;

/// The most bytes of a body that are handed to an HTTP/2 stream at a time.
const UPLOAD_STEP: usize = 16 * 1024;

/// The length of an HTTP/2 frame header.
const FRAME_HEAD: u64 = 9;

/// The failure of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection returned the request without sending it.
    Returned,
    /// The peer reports that it did not process the request.
    Refused,
    /// The response head exceeds the limit.
    HeadTooLarge,
    /// The connection broke, or the response is not HTTP.
    Cut(CutReason),
}

/// The connection that an exchange over HTTP/1 has for itself, and the buffer for a poll.
pub(super) type OwnConnection<'a, Io> = (&'a mut Http1<Io>, &'a mut ReadBuffer);

/// A pending response.
pub(super) enum ResponseFuture {
    /// The connection waits for it.
    Http1,
    Http2(h2::client::ResponseFuture),
}

/// The head of a response, and its body.
pub(super) struct Answer {
    pub(super) parts: Parts,
    /// The announced length of the body.
    pub(super) length: Option<u64>,
    /// No body follows.
    pub(super) is_empty: bool,
    pub(super) body: ResponseBody,
}

impl ResponseFuture {
    /// Polls for the head. An exchange over HTTP/1 has its own connection.
    pub(super) fn poll<Io: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        own: Option<OwnConnection<'_, Io>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, Failure>> {
        Poll::Ready(match (self, own) {
            (ResponseFuture::Http1, Some((http1, buffer))) => ready!(http1.poll_head(cx, buffer)).map(|head| Answer {
                parts: head.parts,
                length: head.length,
                is_empty: http1.is_over(),
                body: ResponseBody::Http1,
            }),
            (ResponseFuture::Http1, None) => Err(Failure::Cut(CutReason::Broken)),
            (ResponseFuture::Http2(future), _) => match ready!(Pin::new(future).poll(cx)) {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
                    let length = length.and_then(|length| length.trim().parse().ok());
                    Ok(Answer { parts, length, is_empty: body.is_end_stream(), body: ResponseBody::Http2(body) })
                }
                Err(error) => Err(http2_failure(&error)),
            },
        })
    }
}

/// Before the response has begun, a refusal by the peer is proof: by RFC 9113, a refused stream, and one beyond the
/// last that a GOAWAY names, was not processed. Our own resets prove nothing.
fn http2_failure(error: &h2::Error) -> Failure {
    if error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM)) {
        return Failure::Refused;
    }
    Failure::Cut(http2_reason(error))
}

pub(super) fn http2_reason(error: &h2::Error) -> CutReason {
    match (error.reason(), error.get_io()) {
        (Some(reason), _) if error.is_remote() => CutReason::StreamReset { code: reason.description().to_owned() },
        (Some(reason), _) => CutReason::Http2 { code: reason.description().to_owned() },
        (None, Some(io)) => io_reason(io),
        (None, None) => CutReason::Other { error: error.to_string() },
    }
}

pub(super) fn io_reason(error: &std::io::Error) -> CutReason {
    match error.kind() {
        std::io::ErrorKind::ConnectionReset => CutReason::Reset,
        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::UnexpectedEof => CutReason::Closed,
        std::io::ErrorKind::TimedOut => CutReason::TimedOut,
        _ => {
            let inner = error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static));
            CutReason::Other { error: tls_text(inner).unwrap_or_else(|| error.to_string()) }
        }
    }
}

/// Returns the words for an alert of TLS, if one is the cause.
fn tls_text(cause: Option<&(dyn std::error::Error + 'static)>) -> Option<String> {
    cause?.downcast_ref().and_then(late_alert)
}

/// A response body that is being read.
pub(super) enum ResponseBody {
    /// The connection reads it.
    Http1,
    Http2(RecvStream),
}

impl ResponseBody {
    /// Returns the next bytes, `None` at the proper end, and the reason of a loss otherwise.
    pub(super) fn poll_data<'a, Io: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        own: Option<(&mut Http1<Io>, &'a mut ReadBuffer)>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Data<'a>, CutReason>>> {
        match (self, own) {
            (ResponseBody::Http1, Some((http1, buffer))) => http1.poll_data(cx, buffer),
            (ResponseBody::Http1, None) => Poll::Ready(Some(Err(CutReason::Broken))),
            (ResponseBody::Http2(body), _) => match ready!(body.poll_data(cx)) {
                Some(Ok(data)) => {
                    // The reader has taken the data, so the peer may send as much again.
                    let _ = body.flow_control().release_capacity(data.len());
                    Poll::Ready(Some(Ok(Data::Owned(data))))
                }
                Some(Err(error)) => Poll::Ready(Some(Err(http2_reason(&error)))),
                None => Poll::Ready(None),
            },
        }
    }
}

/// The unsent rest of a request body for an HTTP/2 stream.
pub(super) struct Upload {
    stream: SendStream<Segments>,
    rest: Segments,
}

impl Upload {
    pub(super) fn new(stream: SendStream<Segments>, body: Segments) -> Upload {
        Upload { stream, rest: body }
    }

    /// Hands over as much as the peer's window allows. Ready with `true` when all is handed over, and with `false` when
    /// the peer takes no more; then the response tells why.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if !self.rest.has_remaining() {
                return Poll::Ready(true);
            }
            self.stream.reserve_capacity(self.rest.remaining().min(UPLOAD_STEP));
            let Some(Ok(room)) = ready!(self.stream.poll_capacity(cx)) else {
                return Poll::Ready(false);
            };
            if room == 0 {
                continue;
            }
            let piece = self.rest.take_first(room);
            let last = !self.rest.has_remaining();
            if self.stream.send_data(piece, last).is_err() {
                return Poll::Ready(false);
            }
        }
    }
}

/// Evidence of how much of a request was sent.
pub(super) enum Evidence {
    Http1(Arc<WriteTracker>),
    Http2 {
        tracker: Arc<WriteTracker>,
        /// The bytes that the connection had sent before this exchange.
        before: u64,
        /// The least number of bytes that its frames need.
        least: u64,
        /// Whether the last frame of the request was handed over.
        handed_over: bool,
    },
}

impl Evidence {
    /// Creates the evidence of an HTTP/2 exchange that begins now, with a body of this many bytes.
    pub(super) fn http2(tracker: Arc<WriteTracker>, before: u64, body: u64) -> Evidence {
        // One frame for the head, whose fields may be compressed to almost nothing, and at least one for a body.
        let least = FRAME_HEAD + if body == 0 { 0 } else { FRAME_HEAD + body };
        Evidence::Http2 { tracker, before, least, handed_over: body == 0 }
    }

    /// Returns how much of the request the peer can have. `over` means that the connection is gone, so that buffered
    /// bytes cannot be sent later.
    pub(super) fn written(&self, over: bool) -> Written {
        match self {
            Evidence::Http1(tracker) => tracker.written(),
            Evidence::Http2 { tracker, before, .. } if over && tracker.accepted() == *before => Written::Nothing,
            Evidence::Http2 { handed_over: false, .. } => Written::Partial,
            // Too few bytes were sent to contain the whole request.
            Evidence::Http2 { tracker, before, least, .. } if over && !tracker.can_hold(*before, *least) => {
                Written::Partial
            }
            Evidence::Http2 { .. } => Written::Whole,
        }
    }
}
