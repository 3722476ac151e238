//! A request as it goes out.
//!
//! The body stays in the pieces that the message was spliced from; both HTTPs write them as they lie. The head is put
//! together here from what the shell knows (host, what we accept, who we are), what the operator configured, and what
//! follows from the message, in this order: a later one replaces an earlier one of the same name.

use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use mendline_core::port::{Ask, Verb};
use mendline_wire::Spliced;

use super::origin::Location;
use super::target::Target;

const USER_AGENT: &str = concat!("mendline/", env!("CARGO_PKG_VERSION"));
const MESSAGE_OR_EVENTS: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// The head of a request, without its body. `Err` says which header cannot be sent, never its value.
pub(super) fn head(target: &Target, location: &Location, ask: &Ask, version: Version) -> Result<Request<()>, String> {
    let mut request = Request::new(());
    *request.method_mut() = match ask.verb {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Delete => Method::DELETE,
    };
    *request.version_mut() = version;
    *request.uri_mut() = uri(target, location, version)?;
    let headers = request.headers_mut();
    if version != Version::HTTP_2 {
        let host =
            HeaderValue::try_from(location.origin.host_header()).map_err(|_| "its host cannot be sent".to_owned())?;
        headers.insert(header::HOST, host);
        if let Some(authorization) = proxy_authorization(target) {
            headers.insert(header::PROXY_AUTHORIZATION, authorization);
        }
    }
    let accept = if ask.verb == Verb::Get { EVENTS } else { MESSAGE_OR_EVENTS };
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    if let Some(body) = &ask.body {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    } else if ask.verb == Verb::Post {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    }
    configured(headers, &target.headers);
    for (name, value) in &ask.headers {
        let cannot = || format!("the header {name} holds what HTTP does not allow");
        let known: HeaderName = name.parse().map_err(|_| cannot())?;
        headers.insert(known, HeaderValue::from_str(value).map_err(|_| cannot())?);
    }
    Ok(request)
}

/// A configured header replaces ours; of several configured ones with one name all are sent.
fn configured(headers: &mut HeaderMap, configured: &[(HeaderName, HeaderValue)]) {
    for (name, _) in configured {
        headers.remove(name);
    }
    for (name, value) in configured {
        headers.append(name, value.clone());
    }
}

/// Only a proxy that reads our requests is told who we are; one that makes a tunnel has been told already.
fn proxy_authorization(target: &Target) -> Option<HeaderValue> {
    let proxy = target.proxy.as_ref().filter(|_| !target.location.origin.secure)?;
    proxy.authorization.clone()
}

fn uri(target: &Target, location: &Location, version: Version) -> Result<Uri, String> {
    let whole = version == Version::HTTP_2 || (target.proxy.is_some() && !location.origin.secure);
    let text = if whole { format!("{}{}", location.origin, location.path) } else { location.path.clone() };
    text.parse().map_err(|_| "its URL cannot be sent".to_owned())
}

/// Part of a spliced text, as a buffer that is written where it lies.
pub(super) struct Segments {
    text: Spliced,
    at: usize,
    end: usize,
}

impl Segments {
    pub(super) fn whole(text: Spliced) -> Segments {
        let end = text.len();
        Segments { text, at: 0, end }
    }

    /// The first `count` bytes of what is left; the rest stays here.
    pub(super) fn take_first(&mut self, count: usize) -> Segments {
        let end = self.end.min(self.at + count);
        let first = Segments { text: self.text.clone(), at: self.at, end };
        self.at = end;
        first
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.text.segments().filter_map(move |segment| {
            let from = self.at.clamp(start, start + segment.len()) - start;
            let to = self.end.clamp(start, start + segment.len()) - start;
            start += segment.len();
            (from < to).then(|| &segment[from..to])
        })
    }
}

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.end - self.at
    }

    fn chunk(&self) -> &[u8] {
        self.pieces().next().unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slot, piece) in into.iter_mut().zip(self.pieces()) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "advanced beyond the end");
        self.at += count;
    }
}

/// The body of an HTTP/1 request: all of it in one frame, or nothing.
pub(super) struct Outgoing(Option<Segments>);

impl Outgoing {
    pub(super) fn new(body: Option<&Spliced>) -> Outgoing {
        Outgoing(body.filter(|body| !body.is_empty()).cloned().map(Segments::whole))
    }
}

impl Body for Outgoing {
    type Data = Segments;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Segments>, Infallible>>> {
        Poll::Ready(self.0.take().map(|body| Ok(Frame::data(body))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |body| body.remaining() as u64))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mendline_wire::{Patch, Span};

    use super::*;

    fn spliced() -> Spliced {
        let span = |start, end| Span { start, end };
        let edits = [(span(6, 8), Patch::number(12345)), (span(9, 9), Patch::from(&b"+"[..]))];
        Spliced::new(Bytes::from_static(b"{\"id\":77,\"a\":1}"), edits)
    }

    #[test]
    fn segments_read_the_same_however_they_are_taken() {
        let expected = spliced().to_bytes();
        for first in 0..=expected.len() {
            let mut rest = Segments::whole(spliced());
            let mut taken = rest.take_first(first);
            assert_eq!(taken.remaining() + rest.remaining(), expected.len());
            let mut all = taken.copy_to_bytes(taken.remaining()).to_vec();
            let mut slices = [IoSlice::new(&[]); 8];
            let count = rest.chunks_vectored(&mut slices);
            slices[..count].iter().for_each(|slice| all.extend_from_slice(slice));
            assert_eq!(all, expected);
        }
    }

    fn ask(verb: Verb, headers: Vec<(&'static str, String)>) -> Ask {
        let body = (verb == Verb::Post).then(spliced);
        Ask { verb, target: None, headers, body }
    }

    fn shown(request: &Request<()>) -> Vec<String> {
        let header = |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut lines: Vec<_> = request.headers().iter().map(header).collect();
        lines.sort();
        lines.insert(0, format!("{} {}", request.method(), request.uri()));
        lines
    }

    #[test]
    fn a_later_source_of_headers_replaces_an_earlier_one() {
        let target = Target::parse("http://x.test:81/mcp?a").unwrap();
        let target = target.header("User-Agent", &mendline_core::Secret::new("mine")).unwrap();
        let target = target.header("X-Two", &mendline_core::Secret::new("1")).unwrap();
        let target = target.header("x-two", &mendline_core::Secret::new("2")).unwrap();
        let ask = ask(Verb::Post, vec![("mcp-session-id", "s".into())]);
        let request = head(&target, &target.location, &ask, Version::HTTP_11).unwrap();
        let expected = [
            "POST /mcp?a",
            "accept: application/json, text/event-stream",
            "content-length: 19",
            "content-type: application/json",
            "host: x.test:81",
            "mcp-session-id: s",
            "user-agent: mine",
            "x-two: 1",
            "x-two: 2",
        ];
        assert_eq!(shown(&request), expected);
    }

    #[test]
    fn http_2_names_the_whole_url_and_no_host() {
        let target = Target::parse("https://x.test/mcp").unwrap();
        let request = head(&target, &target.location, &ask(Verb::Get, Vec::new()), Version::HTTP_2).unwrap();
        assert_eq!(shown(&request)[..2], ["GET https://x.test/mcp", "accept: text/event-stream"]);
        assert!(!request.headers().contains_key("host"));
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named_without_its_value() {
        let target = Target::parse("http://x.test/").unwrap();
        let ask = ask(Verb::Get, vec![("mcp-session-id", "hunter2\n".into())]);
        let words = head(&target, &target.location, &ask, Version::HTTP_11).unwrap_err();
        assert_eq!(words, "the header mcp-session-id holds what HTTP does not allow");
    }
}
