//! Parsers of bytes from other machines, for the fuzz targets only.
//!
//! Not part of the interface of this crate: it changes with the parsers.

use mendline_core::reason::{ConnectError, CutReason, RefusalReason};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::certificate::Certificate;
use super::connect::MaybeTlsStream;
use super::h1::{Http1, Keep, ReadBuffer};
use super::origin::{Location, Origin, UrlFault};
use super::proxy::{ProxyRules, tunnel};
use super::redirect;
use super::transfer::Failure;
use super::write_tracker::{TrackedIo, WriteTracker};

/// An origin, and the path with the query.
pub type UrlParts = (Origin, String);

/// Reads a certificate in DER form.
pub fn certificate(der: &[u8]) -> Option<Certificate> {
    Certificate::read(der)
}

/// Reads the URL of a server.
pub fn url(url: &str) -> Result<UrlParts, UrlFault> {
    Location::parse(url).map(|location| (location.origin, location.path))
}

/// Resolves a reference that was found at a URL.
pub fn resolve(base: &str, reference: &str) -> Result<UrlParts, UrlFault> {
    Location::parse(base)?.resolve(reference).map(|location| (location.origin, location.path))
}

/// Follows a redirect with this status from a URL, or returns the reason why not.
pub fn follow(base: &str, status: u16, to: &str) -> Option<Result<UrlParts, RefusalReason>> {
    let (from, status) = (Location::parse(base).ok()?, StatusCode::from_u16(status).ok()?);
    let followed = redirect::follow(status, &from, to, 0);
    Some(followed.map(|location| (location.origin, location.path)))
}

/// Requests a tunnel from a proxy that sends this response. Returns the result, and how much of the response was read.
pub fn proxy_answer(answer: &[u8]) -> (Result<(), ConnectError>, usize) {
    let rules = ProxyRules::from_variables([("https_proxy", "http://me:s3cret@proxy.test:3128")]);
    let origin = Location::parse("https://server.test/mcp").map(|location| location.origin);
    let (Ok(rules), Ok(origin)) = (rules, origin) else { return (Err(ConnectError::NotConfigured), 0) };
    let Some(proxy) = rules.proxy_for(&origin) else { return (Err(ConnectError::NotConfigured), 0) };
    let mut io = tokio::io::join(answer, tokio::io::sink());
    let made = {
        let tunnel = pin!(tunnel(&mut io, proxy, &origin));
        // Both sides are always ready.
        match tunnel.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(made) => made,
            Poll::Pending => return (Err(ConnectError::NotConfigured), 0),
        }
    };
    let proxy = "proxy.test:3128".to_owned();
    (made.map_err(|error| ConnectError::Proxy { proxy, error }), answer.len() - io.into_inner().0.len())
}

/// All that is known about one response over HTTP/1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFacts {
    /// The status, once the head was read.
    pub status: Option<u16>,
    /// The headers of the head, in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The data of the body.
    pub body: Vec<u8>,
    /// The end.
    pub end: ResponseEnd,
    /// Whether another request can be sent on the connection.
    pub is_reusable: bool,
}

/// The end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    /// The response is complete.
    Complete,
    /// The head is too large.
    TooLarge,
    /// The response is lost.
    Cut(CutReason),
    /// The rest has not arrived.
    Waiting,
}

/// Reads a response that arrives in these pieces. `closes` tells whether the server closes the connection after them;
/// `head_limit` bounds the head.
pub fn response(pieces: &[&[u8]], closes: bool, head_limit: usize) -> ResponseFacts {
    let tracker = WriteTracker::new();
    let pieces = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).collect();
    let io = TrackedIo::new(ScriptedIo { pieces, closes, is_asked: false }, Arc::clone(&tracker));
    let mut http1 = Http1::new(MaybeTlsStream::Plain(io), tracker, head_limit, Keep::All);
    let (mut buffer, mut cx) = (ReadBuffer::new(), Context::from_waker(Waker::noop()));
    http1.begin(&mut b"GET / HTTP/1.1\r\n\r\n".to_vec(), None, &mut buffer, &mut cx);
    let mut facts = ResponseFacts {
        status: None,
        headers: Vec::new(),
        body: Vec::new(),
        end: ResponseEnd::Waiting,
        is_reusable: false,
    };
    match http1.poll_head(&mut cx, &mut buffer) {
        Poll::Pending => return facts,
        Poll::Ready(Ok(head)) => {
            facts.status = Some(head.parts.status.as_u16());
            let headers = head.parts.headers.iter();
            facts.headers = headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        }
        Poll::Ready(Err(failure)) => {
            facts.end = match failure {
                Failure::HeadTooLarge => ResponseEnd::TooLarge,
                Failure::Cut(reason) => ResponseEnd::Cut(reason),
                Failure::Returned | Failure::Refused => ResponseEnd::Cut(CutReason::ClosedAtOnce),
            };
            return facts;
        }
    }
    loop {
        match http1.poll_data(&mut cx, &mut buffer) {
            Poll::Pending => return facts,
            Poll::Ready(Some(Ok(data))) => facts.body.extend_from_slice(data.bytes()),
            Poll::Ready(Some(Err(reason))) => {
                facts.end = ResponseEnd::Cut(reason);
                return facts;
            }
            Poll::Ready(None) => break,
        }
    }
    facts.end = ResponseEnd::Complete;
    facts.is_reusable = http1.is_ready() && http1.poll_idle(&mut cx, &mut buffer).is_pending();
    facts
}

/// A stream that delivers these pieces once it was written to.
struct ScriptedIo {
    pieces: VecDeque<Vec<u8>>,
    closes: bool,
    is_asked: bool,
}

impl AsyncRead for ScriptedIo {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_asked {
            return Poll::Pending;
        }
        let Some(mut piece) = self.pieces.pop_front() else {
            return if self.closes { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let rest = piece.split_off(piece.len().min(buf.remaining()));
        buf.put_slice(&piece);
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ScriptedIo {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
