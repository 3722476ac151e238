//! Replies of the server, including faulty ones.
//!
//! A reply is a status, headers and a body that may be sent in pieces and may end in a cut. Some replies end the
//! connection without a response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::socket::{ConnectionHandle, Ending};

/// The number of pieces that may wait for a slow reader.
const WAITING: usize = 64;

/// The reply to a request.
pub(crate) enum Reply {
    /// An HTTP response.
    Answer(Answer),
    /// The connection ends without a response.
    Cut(Ending),
    /// The connection ends after these bytes, which are not part of a response of hyper.
    FinalBytes(Bytes),
    /// The stream is refused in HTTP/2; in HTTP/1.1 the connection ends.
    RefusedStream,
}

/// An HTTP response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
}

/// The body of a response.
pub(crate) enum Content {
    Whole(Bytes),
    Pieces(mpsc::Receiver<Piece>),
}

/// A piece of a body.
pub(crate) enum Piece {
    Bytes(Bytes),
    /// The connection ends once everything before this is written.
    Cut(Ending),
}

/// The sender of the pieces of a body. It is closed when the client has left.
pub(crate) type Pieces = mpsc::Sender<Piece>;

impl Reply {
    /// A response without a body.
    pub(crate) fn empty(status: StatusCode) -> Reply {
        Reply::whole(status, None, Bytes::new())
    }

    /// A JSON body.
    pub(crate) fn json(status: StatusCode, text: Bytes) -> Reply {
        Reply::whole(status, Some("application/json"), text)
    }

    /// A body of any media type.
    pub(crate) fn whole(status: StatusCode, kind: Option<&'static str>, text: Bytes) -> Reply {
        let mut headers = HeaderMap::new();
        headers.extend(kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))));
        Reply::Answer(Answer { status, headers, content: Content::Whole(text) })
    }

    /// An event stream and the sender of its pieces.
    pub(crate) fn events() -> (Reply, Pieces) {
        let (reply, pieces) = Reply::pieces("text/event-stream");
        (reply.with(CACHE_CONTROL, "no-cache"), pieces)
    }

    /// A body in pieces.
    pub(crate) fn pieces(kind: &'static str) -> (Reply, Pieces) {
        let (pieces, taken) = mpsc::channel(WAITING);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        (Reply::Answer(Answer { status: StatusCode::OK, headers, content: Content::Pieces(taken) }), pieces)
    }

    /// Adds a header. A value that is invalid in a header is ignored.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Reply {
        if let (Reply::Answer(answer), Ok(value)) = (&mut self, HeaderValue::from_str(value)) {
            answer.headers.insert(name, value);
        }
        self
    }
}

/// A body for hyper.
pub(crate) struct Outgoing {
    content: Content,
    handle: ConnectionHandle,
    is_cut: bool,
}

impl Outgoing {
    pub(crate) fn new(content: Content, handle: ConnectionHandle) -> Outgoing {
        if matches!(content, Content::Pieces(_)) {
            handle.count_streaming(true);
        }
        Outgoing { content, handle, is_cut: false }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if matches!(self.content, Content::Pieces(_)) {
            self.handle.count_streaming(false);
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_cut {
            return Poll::Pending;
        }
        match &mut self.content {
            Content::Whole(text) if text.is_empty() => Poll::Ready(None),
            Content::Whole(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Content::Pieces(pieces) => match std::task::ready!(pieces.poll_recv(cx)) {
                Some(Piece::Bytes(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                // The end of the connection wakes hyper, so no waker is needed here.
                Some(Piece::Cut(ending)) => {
                    self.is_cut = true;
                    self.handle.end_when_flushed(ending);
                    Poll::Pending
                }
                None => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(text) if text.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(text) => SizeHint::with_exact(text.len() as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
