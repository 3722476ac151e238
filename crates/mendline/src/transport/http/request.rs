//! An outgoing request.
//!
//! The body stays in the segments that the message was spliced from; both versions of HTTP write them without a copy.
//! The head consists of the headers of this module (host, accepted types, user agent), the configured headers, those of
//! the credential and those of the message, in this order: a later header replaces an earlier one of the same name.

use mendline_core::reason::RefusalReason;
use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::Buf;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use mendline_core::port::{HttpRequest, Verb};
use mendline_wire::Spliced;

use crate::credential::CredentialHeaders;

use super::h1::{encode_head, finish_head};
use super::origin::Location;
use super::target::Target;

pub(super) const USER_AGENT: &str = concat!("mendline/", env!("CARGO_PKG_VERSION"));
const MESSAGE_OR_EVENTS: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
pub(super) const IDENTITY: &str = "identity";

/// The most parsed headers that are cached.
const MAX_PARSED: usize = 16;

/// The head of a request, as the connection takes it.
pub(super) enum Head<'a> {
    /// The bytes, in a buffer that is used again.
    Http1(&'a mut Vec<u8>),
    Http2(Box<Request<()>>),
}

/// Builds the heads of requests to one target. Successive heads are similar, so their common parts are cached: the
/// request target, the headers of the last message, and parsed headers.
#[derive(Default)]
pub(super) struct Heads {
    request_target: Option<RequestTarget>,
    last: Option<LastMessage>,
    parsed: Vec<(HeaderName, HeaderValue)>,
    /// The bytes of the last head over HTTP/1.
    buffer: Vec<u8>,
}

/// The headers of the last message, as requested and as sent. The next message of a session usually has the same ones,
/// and a copy is much cheaper than hashing each name again.
struct LastMessage {
    requested: Vec<(Cow<'static, str>, Arc<str>)>,
    /// The number of the credential; 0 means none.
    credential: u32,
    length: usize,
    headers: HeaderMap,
    /// The head over HTTP/1, up to `Content-Length`.
    encoded: Vec<u8>,
}

impl LastMessage {
    /// Returns whether a message with the credential of this number has the same headers, apart from its length.
    fn is_like(&self, request: &HttpRequest, credential: u32) -> bool {
        self.credential == credential && self.requested == request.headers
    }
}

/// The target of a request and the parts of the head that depend on it.
struct RequestTarget {
    location: Location,
    version: Version,
    uri: Uri,
    host: HeaderValue,
}

impl Heads {
    /// Builds the head of a request for a connection of this version.
    pub(super) fn for_connection(
        &mut self,
        target: &Target,
        location: &Location,
        request: &HttpRequest,
        version: Version,
        credential: Option<&CredentialHeaders>,
    ) -> Result<Head<'_>, RefusalReason> {
        if version == Version::HTTP_2 {
            return self.head(target, location, request, version, credential).map(|head| Head::Http2(Box::new(head)));
        }
        let is_here = |known: &&RequestTarget| known.version == version && known.location == *location;
        let message = request.body.as_ref().filter(|_| request.verb == Verb::Post);
        let number = credential.map_or(0, |credential| credential.number);
        self.buffer.clear();
        if let (Some(body), Some(last), Some(_)) = (message, &self.last, self.request_target.as_ref().filter(is_here))
            && last.is_like(request, number)
        {
            self.buffer.extend_from_slice(&last.encoded);
            finish_head(Some(body.len()), &mut self.buffer);
            return Ok(Head::Http1(&mut self.buffer));
        }
        let head = self.head(target, location, request, version, credential)?;
        encode_head(&head, &mut self.buffer);
        if let Some(last) = self.last.as_mut().filter(|_| message.is_some()) {
            last.encoded.clone_from(&self.buffer);
        }
        finish_head(content_length(request), &mut self.buffer);
        Ok(Head::Http1(&mut self.buffer))
    }

    /// Builds the head of a request, without its body. The error names a header that cannot be sent, never its value.
    pub(super) fn head(
        &mut self,
        target: &Target,
        location: &Location,
        request: &HttpRequest,
        version: Version,
        credential: Option<&CredentialHeaders>,
    ) -> Result<Request<()>, RefusalReason> {
        let mut head = Request::new(());
        *head.method_mut() = match request.verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Delete => Method::DELETE,
        };
        *head.version_mut() = version;
        *head.uri_mut() = self.request_target(target, location, version)?.uri.clone();
        *head.headers_mut() = match &request.body {
            Some(body) if request.verb == Verb::Post => {
                self.headers_of_message(target, location, request, body.len(), version, credential)?
            }
            body => self.headers(target, location, request, body.as_ref().map(Spliced::len), version, credential)?,
        };
        Ok(head)
    }

    /// Returns the headers of a message, which usually differ from the last ones only in the length of the body.
    fn headers_of_message(
        &mut self,
        target: &Target,
        location: &Location,
        request: &HttpRequest,
        length: usize,
        version: Version,
        credential: Option<&CredentialHeaders>,
    ) -> Result<HeaderMap, RefusalReason> {
        let number = credential.map_or(0, |credential| credential.number);
        if let Some(last) = self.last.as_mut().filter(|last| last.is_like(request, number)) {
            if last.length != length {
                last.length = length;
                last.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
            return Ok(last.headers.clone());
        }
        let headers = self.headers(target, location, request, Some(length), version, credential)?;
        let requested = request.headers.clone();
        let encoded = Vec::new();
        self.last = Some(LastMessage { requested, credential: number, length, headers: headers.clone(), encoded });
        Ok(headers)
    }

    fn headers(
        &mut self,
        target: &Target,
        location: &Location,
        request: &HttpRequest,
        length: Option<usize>,
        version: Version,
        credential: Option<&CredentialHeaders>,
    ) -> Result<HeaderMap, RefusalReason> {
        let mut headers = HeaderMap::new();
        if version != Version::HTTP_2 {
            headers.insert(header::HOST, self.request_target(target, location, version)?.host.clone());
            if let Some(authorization) = proxy_authorization(target) {
                headers.insert(header::PROXY_AUTHORIZATION, authorization);
            }
        }
        let accept = if request.verb == Verb::Get { EVENTS } else { MESSAGE_OR_EVENTS };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        // Without this header a server may use any coding.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(IDENTITY));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if length.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        if let Some(length) = content_length(request) {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        configured(&mut headers, &target.headers);
        // Requests go to the origin of the target only. A credential must not leave it even if that rule is broken.
        if let Some(credential) = credential.filter(|_| location.origin == target.location.origin) {
            configured(&mut headers, &credential.headers);
        }
        for (name, value) in &request.headers {
            let parsed = self.parse(name, value).ok_or_else(|| RefusalReason::Header { name: name.to_string() });
            let (name, value) = parsed?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    fn request_target(
        &mut self,
        target: &Target,
        location: &Location,
        version: Version,
    ) -> Result<&RequestTarget, RefusalReason> {
        let known = self.request_target.take().filter(|known| known.version == version && known.location == *location);
        let request_target = match known {
            Some(request_target) => request_target,
            None => {
                self.last = None;
                RequestTarget {
                    location: location.clone(),
                    version,
                    uri: uri(target, location, version)?,
                    host: HeaderValue::try_from(location.origin.host_header()).map_err(|_| RefusalReason::Host)?,
                }
            }
        };
        Ok(self.request_target.insert(request_target))
    }

    /// Parses a header; `None` if HTTP does not allow it.
    fn parse(&mut self, name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
        let Some(last) = self.parsed.iter_mut().find(|(known, _)| known.as_str().eq_ignore_ascii_case(name)) else {
            let new = (HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?);
            if self.parsed.len() < MAX_PARSED {
                self.parsed.push(new.clone());
            }
            return Some(new);
        };
        if last.1.as_bytes() != value.as_bytes() {
            last.1 = HeaderValue::from_str(value).ok()?;
        }
        Some(last.clone())
    }
}

/// Returns the length of the body that a request announces. A message without a body announces that, too.
fn content_length(request: &HttpRequest) -> Option<usize> {
    let without = (request.verb == Verb::Post).then_some(0);
    request.body.as_ref().map(Spliced::len).or(without)
}

/// Adds configured headers, which replace those of this module. All configured ones with the same name are sent.
fn configured(headers: &mut HeaderMap, configured: &[(HeaderName, HeaderValue)]) {
    for (name, _) in configured {
        headers.remove(name);
    }
    for (name, value) in configured {
        headers.append(name, value.clone());
    }
}

/// Returns the proxy credentials if the proxy reads the request; a tunnel gets them with `CONNECT`.
pub(super) fn proxy_authorization(target: &Target) -> Option<HeaderValue> {
    let proxy = target.proxy.as_ref().filter(|_| !target.location.origin.secure)?;
    proxy.authorization.clone()
}

pub(super) fn uri(target: &Target, location: &Location, version: Version) -> Result<Uri, RefusalReason> {
    let whole = version == Version::HTTP_2 || (target.proxy.is_some() && !location.origin.secure);
    let text = if whole { format!("{}{}", location.origin, location.path) } else { location.path.clone() };
    text.parse().map_err(|_| RefusalReason::Url)
}

/// A part of a spliced text, as a buffer that is written without a copy.
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

    /// Takes the first `count` bytes; the rest stays here.
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
    fn segments_give_the_same_bytes_at_every_split() {
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

    fn request(verb: Verb, headers: Vec<(&'static str, String)>) -> HttpRequest {
        let body = (verb == Verb::Post).then(spliced);
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        HttpRequest { verb, target: None, headers, body }
    }

    fn longer(request: HttpRequest) -> HttpRequest {
        HttpRequest { body: Some(Spliced::whole(bytes::Bytes::from_static(&[b' '; 1000]))), ..request }
    }

    fn shown(request: &Request<()>) -> Vec<String> {
        let header = |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut lines: Vec<_> = request.headers().iter().map(header).collect();
        lines.sort();
        lines.insert(0, format!("{} {}", request.method(), request.uri()));
        lines
    }

    #[test]
    fn later_header_source_replaces_earlier_one() {
        let target = Target::parse("http://x.test:81/mcp?a").unwrap();
        let target = target.header("User-Agent", &mendline_core::Secret::new("mine")).unwrap();
        let target = target.header("X-Two", &mendline_core::Secret::new("1")).unwrap();
        let target = target.header("x-two", &mendline_core::Secret::new("2")).unwrap();
        let request = request(Verb::Post, vec![("mcp-session-id", "s".into())]);
        let request = Heads::default().head(&target, &target.location, &request, Version::HTTP_11, None).unwrap();
        let expected = [
            "POST /mcp?a",
            "accept-encoding: identity",
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
    fn p02_head_of_next_message_is_not_encoded_again() {
        let target = Target::parse("http://x.test/mcp").unwrap();
        let first = request(Verb::Post, vec![("mcp-session-id", "s".into())]);
        let mut heads = Heads::default();
        let mut head = |request: &HttpRequest, mark: bool| {
            let head = heads.for_connection(&target, &target.location, request, Version::HTTP_11, None).unwrap();
            let Head::Http1(bytes) = head else { panic!("it is a head over HTTP/1") };
            let text = String::from_utf8(bytes.clone()).unwrap();
            if mark {
                heads.last.as_mut().unwrap().encoded.extend_from_slice(b"x-mark: 1\r\n");
            }
            text
        };
        assert!(head(&first, true).ends_with("mcp-session-id: s\r\ncontent-length: 19\r\n\r\n"));
        let next = head(&longer(first), false);
        assert!(next.ends_with("mcp-session-id: s\r\nx-mark: 1\r\ncontent-length: 1000\r\n\r\n"), "{next}");
        let other = request(Verb::Post, vec![("mcp-session-id", "t".into())]);
        assert!(head(&other, false).ends_with("mcp-session-id: t\r\ncontent-length: 19\r\n\r\n"), "other headers");
        let stream = head(&request(Verb::Get, Vec::new()), false);
        assert!(stream.starts_with("GET /mcp HTTP/1.1\r\n") && !stream.contains("content-length"), "{stream}");
    }

    #[test]
    fn http2_request_has_full_url_and_no_host_header() {
        let target = Target::parse("https://x.test/mcp").unwrap();
        let request = request(Verb::Get, Vec::new());
        let request = Heads::default().head(&target, &target.location, &request, Version::HTTP_2, None).unwrap();
        assert_eq!(
            shown(&request)[..3],
            ["GET https://x.test/mcp", "accept-encoding: identity", "accept: text/event-stream"]
        );
        assert!(!request.headers().contains_key("host"));
    }

    #[test]
    fn invalid_header_is_named_without_its_value() {
        let target = Target::parse("http://x.test/").unwrap();
        let request = request(Verb::Get, vec![("mcp-session-id", "hunter2\n".into())]);
        let words = Heads::default().head(&target, &target.location, &request, Version::HTTP_11, None).unwrap_err();
        assert_eq!(words.to_string(), "the header mcp-session-id holds what HTTP does not allow");
    }

    #[test]
    fn credential_replaces_configured_header_until_it_changes() {
        let target = Target::parse("http://x.test/mcp").unwrap();
        let target = target.header("Authorization", &mendline_core::Secret::new("configured")).unwrap();
        let credential = |number, value: &'static str| CredentialHeaders {
            number,
            headers: vec![(header::AUTHORIZATION, HeaderValue::from_static(value))],
        };
        let (one, two) = (credential(1, "Bearer one"), credential(2, "Bearer two"));
        let mut heads = Heads::default();
        let mut sent = |location: &Location, credential: Option<&CredentialHeaders>| {
            let post = request(Verb::Post, vec![("mcp-session-id", "s".into())]);
            let head = heads.head(&target, location, &post, Version::HTTP_11, credential).unwrap();
            let values = head.headers().get_all(header::AUTHORIZATION).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let home = target.location.clone();
        assert_eq!(sent(&home, None), ["configured"]);
        assert_eq!(sent(&home, Some(&one)), ["Bearer one"]);
        assert_eq!(sent(&home, Some(&one)), ["Bearer one"]);
        assert_eq!(sent(&home, Some(&two)), ["Bearer two"]);
        assert_eq!(sent(&home, None), ["configured"]);
        let elsewhere = Location::parse("http://y.test/mcp").unwrap();
        assert!(!sent(&elsewhere, Some(&two)).contains(&"Bearer two".to_owned()));
    }

    #[test]
    fn cached_parts_do_not_change_the_next_head() {
        let target = Target::parse("http://x.test/mcp").unwrap();
        let elsewhere = target.location.resolve("/other?x").unwrap();
        let mut heads = Heads::default();
        let requests = [
            (&target.location, Version::HTTP_11, request(Verb::Post, vec![("mcp-session-id", "one".into())])),
            (&target.location, Version::HTTP_11, request(Verb::Post, vec![("mcp-session-id", "two".into())])),
            (&target.location, Version::HTTP_11, request(Verb::Get, vec![("mcp-session-id", "two".into())])),
            (&target.location, Version::HTTP_11, longer(request(Verb::Post, vec![("mcp-session-id", "two".into())]))),
            (&elsewhere, Version::HTTP_11, request(Verb::Post, vec![("mcp-session-id", "two".into())])),
            (&elsewhere, Version::HTTP_2, request(Verb::Post, vec![("mcp-session-id", "two".into())])),
            (
                &elsewhere,
                Version::HTTP_11,
                request(Verb::Get, vec![("Mcp-Session-Id", "two".into()), ("x-a", "b".into())]),
            ),
            (&elsewhere, Version::HTTP_2, request(Verb::Delete, Vec::new())),
            (&target.location, Version::HTTP_11, request(Verb::Post, vec![("mcp-session-id", "one".into())])),
        ];
        for (location, version, request) in requests {
            let made = heads.head(&target, location, &request, version, None).unwrap();
            let alone = Heads::default().head(&target, location, &request, version, None).unwrap();
            assert_eq!(shown(&made), shown(&alone));
        }
        assert_eq!(heads.parsed.len(), 2, "each name is cached once, in any case");
    }
}
