//! One exchange on the wire: the upload, the answer, and the body that follows it, the same for both HTTPs.
//!
//! HTTP/2 is spoken through `h2` itself and not through hyper: so the upload is ours, and how much of it the peer's
//! window has let through is known. A stream whose last frame was never handed over cannot have been processed, nor one
//! whose connection is gone and had not accepted as many bytes since as its frames need.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use h2::{Reason, RecvStream, SendStream};
use http::response::Parts;
use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use mendline_core::port::Written;

use super::write_tracker::WriteTracker;
use super::request::{Outgoing, Segments};

/// How much of a body is handed to an HTTP/2 stream at a time.
const UPLOAD_STEP: usize = 16 * 1024;

/// The head of a frame of HTTP/2.
const FRAME_HEAD: u64 = 9;

/// How an exchange came to a bad end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection gave the request back untouched.
    Returned,
    /// The peer says that it did not process the request.
    Refused,
    /// The head is longer than we take.
    HeadTooLarge,
    /// The connection broke, or what came is not HTTP.
    Cut(String),
}

type Http1Response = Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>> + Send>>;

/// An answer that is waited for.
pub(super) enum ResponseFuture {
    Http1(Http1Response),
    Http2(h2::client::ResponseFuture),
}

impl ResponseFuture {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Parts, ResponseBody), Failure>> {
        Poll::Ready(match self {
            ResponseFuture::Http1(answer) => match ready!(answer.as_mut().poll(cx)) {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    Ok((parts, ResponseBody::Http1(body)))
                }
                Err(error) if error.message().is_some() => Err(Failure::Returned),
                Err(error) => Err(http1_failure(error.error())),
            },
            ResponseFuture::Http2(answer) => match ready!(Pin::new(answer).poll(cx)) {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    Ok((parts, ResponseBody::Http2(body)))
                }
                Err(error) => Err(http2_failure(&error)),
            },
        })
    }
}

fn http1_failure(error: &hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        return Failure::HeadTooLarge;
    }
    if error.is_incomplete_message() {
        return Failure::Cut("the server closed the connection without an answer".to_owned());
    }
    if error.is_parse() {
        return Failure::Cut(format!("the answer is not HTTP ({error})"));
    }
    Failure::Cut(innermost(error))
}

/// Before the response has begun, a refusal of the peer is a proof: RFC 9113 promises that a refused stream, and one
/// beyond the last that a GOAWAY names, was not processed. Our own resets prove nothing.
fn http2_failure(error: &h2::Error) -> Failure {
    if error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM)) {
        return Failure::Refused;
    }
    Failure::Cut(http2_words(error))
}

fn http2_words(error: &h2::Error) -> String {
    match (error.reason(), error.get_io()) {
        (Some(reason), _) if error.is_remote() => format!("the server reset the stream ({})", reason.description()),
        (Some(reason), _) => format!("the server broke the rules of HTTP/2 ({})", reason.description()),
        (None, Some(io)) => io_words(io),
        (None, None) => error.to_string(),
    }
}

/// The words of the cause that all others only wrap.
fn innermost(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.downcast_ref().map_or_else(|| cause.to_string(), io_words)
}

fn io_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::UnexpectedEof => {
            "the server closed the connection".to_owned()
        }
        std::io::ErrorKind::TimedOut => "the server acknowledges nothing any more (timed out)".to_owned(),
        _ => error.to_string(),
    }
}

/// A response body that is read.
pub(super) enum ResponseBody {
    Http1(Incoming),
    Http2(RecvStream),
}

impl ResponseBody {
    /// Whether it is known that nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        match self {
            ResponseBody::Http1(body) => body.is_end_stream(),
            ResponseBody::Http2(body) => body.is_end_stream(),
        }
    }

    /// The next bytes, none at the proper end, words at any other.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        match self {
            ResponseBody::Http1(body) => loop {
                match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Poll::Ready(Some(Ok(data)));
                        }
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(body_words(&error)))),
                    None => return Poll::Ready(None),
                }
            },
            ResponseBody::Http2(body) => match ready!(body.poll_data(cx)) {
                Some(Ok(data)) => {
                    // What was taken is the reader's; the peer may send as much again.
                    let _ = body.flow_control().release_capacity(data.len());
                    Poll::Ready(Some(Ok(data)))
                }
                Some(Err(error)) => Poll::Ready(Some(Err(http2_words(&error)))),
                None => Poll::Ready(None),
            },
        }
    }
}

fn body_words(error: &hyper::Error) -> String {
    let words = innermost(error);
    // hyper says "connection error" when the connection failed for a reason that it gave to nobody.
    if words == "connection error" { "the connection broke".to_owned() } else { words }
}

/// The rest of a request body on its way into an HTTP/2 stream.
pub(super) struct Upload {
    stream: SendStream<Segments>,
    rest: Segments,
}

impl Upload {
    pub(super) fn new(stream: SendStream<Segments>, body: Segments) -> Upload {
        Upload { stream, rest: body }
    }

    /// Hands over what the peer's window takes. Ready when all of it is handed over (`true`), or when the peer wants no
    /// more of it, which the answer will explain.
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

/// What is known of how much of a request has left.
pub(super) enum Evidence {
    Http1(Arc<WriteTracker>),
    Http2 {
        tracker: Arc<WriteTracker>,
        /// What the connection had sent before this exchange.
        before: u64,
        /// The least number of bytes that its frames need.
        least: u64,
        /// Whether the last frame of the request was handed over.
        handed_over: bool,
    },
}

impl Evidence {
    /// Of an exchange over HTTP/2 with a body of this many bytes, which begins now.
    pub(super) fn http2(tracker: Arc<WriteTracker>, before: u64, body: u64) -> Evidence {
        // One frame for the head, whose fields may be compressed to next to nothing, and at least one for a body.
        let least = FRAME_HEAD + if body == 0 { 0 } else { FRAME_HEAD + body };
        Evidence::Http2 { tracker, before, least, handed_over: body == 0 }
    }

    /// What the peer can have. `over` when the connection is gone, so that nothing that still lies in a buffer of ours
    /// can leave later.
    pub(super) fn written(&self, over: bool) -> Written {
        match self {
            Evidence::Http1(tracker) => tracker.written(),
            Evidence::Http2 { tracker, before, .. } if over && tracker.accepted() == *before => Written::Nothing,
            Evidence::Http2 { handed_over: false, .. } => Written::Partly,
            // Whatever else went out among it: all of it cannot have.
            Evidence::Http2 { tracker, before, least, .. } if over && !tracker.can_hold(*before, *least) => Written::Partly,
            Evidence::Http2 { .. } => Written::Whole,
        }
    }
}
