//! Reads the head of a response.
//!
//! `httparse` finds the status and the headers; this module decides what they mean for the connection: how the body ends
//! and how long the connection may be idle afterwards. Most responses have headers that Mendline does not read, so only
//! the others are kept, unless the caller needs all of them.

use std::mem::MaybeUninit;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Response, StatusCode, Version};
use httparse::{Header, ParserConfig, Status};
use memchr::memchr_iter;

use super::Fault;
use super::body::Framing;

/// The most headers of a response.
const MAX_HEADERS: usize = 100;

/// The first bytes of every response.
const START: &[u8] = b"HTTP/1.";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The time by which a connection is closed before the idle timeout of its server: a request that meets the close is
/// lost.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// The content types of MCP, which need no copy.
const KNOWN_TYPES: [&str; 2] = ["application/json", "text/event-stream"];

/// The headers that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport::http) enum Keep {
    /// Those of a success that the transport reads. Of other responses, all.
    Needed,
    /// All.
    All,
}

/// The head of a final response.
#[derive(Debug)]
pub(in crate::transport::http) struct ResponseHead {
    pub(in crate::transport::http) parts: Parts,
    /// The announced length of the body.
    pub(in crate::transport::http) length: Option<u64>,
    pub(super) framing: Framing,
    pub(super) persistence: Persistence,
}

/// What a response says about the connection after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Persistence {
    /// The connection ends with this response.
    pub(super) closes: bool,
    /// The idle timeout of the server, if it names one.
    pub(super) idle_timeout: Option<Duration>,
}

impl Persistence {
    /// Returns how long the connection may be idle: `None` if the server does not say, zero if it closes.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        if self.closes { Some(Duration::ZERO) } else { Some(self.idle_timeout?.saturating_sub(IDLE_MARGIN)) }
    }
}

/// The result of parsing the first bytes of a response.
pub(super) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// An interim response (1xx) of so many bytes. Another response follows.
    Interim(usize),
    /// A head of so many bytes.
    Final(usize, Box<ResponseHead>),
}

/// The reason why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// It exceeds a limit.
    TooLarge,
    /// It breaks a rule of HTTP.
    Fault(Fault),
}

impl From<Fault> for HeadError {
    fn from(fault: Fault) -> HeadError {
        HeadError::Fault(fault)
    }
}

/// Parses the first bytes of a response. The first `searched` of them were parsed before, without a result.
pub(super) fn parse(bytes: &[u8], searched: usize, limit: usize, keep: Keep) -> Result<Parsed, HeadError> {
    // Some servers send an empty line before a response.
    let start = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let beginning = &bytes[start..bytes.len().min(start + START.len())];
    if !START.starts_with(beginning) {
        return Err(Fault::NotHttp1.into());
    }
    // A head is parsed only when it is complete, so that one in many pieces is not parsed once for each piece.
    let is_complete = find_end(bytes, searched.max(start)).is_some_and(|end| end <= limit);
    if !is_complete {
        return if bytes.len() < limit { Ok(Parsed::Incomplete) } else { Err(HeadError::TooLarge) };
    }
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let status = ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
    let length = match status {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(Parsed::Incomplete),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Err(error) => return Err(fault_of(error).into()),
    };
    let code = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(Fault::StatusLine)?;
    // 101 is final: nothing else was asked for, so HTTP ends here.
    if code.is_informational() && code != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Parsed::Interim(length));
    }
    let version = if response.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let head = head_of(code, version, response.headers, keep)?;
    Ok(Parsed::Final(length, Box::new(head)))
}

/// Returns the position after the first empty line that ends after `searched`.
fn find_end(bytes: &[u8], searched: usize) -> Option<usize> {
    // The empty line may begin in the part that was searched before.
    let from = searched.saturating_sub(2);
    memchr_iter(b'\n', &bytes[from..]).map(|at| from + at).find_map(|at| match bytes.get(at + 1..) {
        Some([b'\n', ..]) => Some(at + 2),
        Some([b'\r', b'\n', ..]) => Some(at + 3),
        _ => None,
    })
}

fn fault_of(error: httparse::Error) -> Fault {
    match error {
        httparse::Error::HeaderName => Fault::HeaderName,
        httparse::Error::HeaderValue => Fault::HeaderValue,
        httparse::Error::NewLine => Fault::LineEnd,
        httparse::Error::Version => Fault::Version,
        _ => Fault::StatusLine,
    }
}

/// The headers that decide about the body and the connection.
#[derive(Default)]
struct Framers {
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    keeps_alive: bool,
    idle_timeout: Option<Duration>,
}

impl Framers {
    /// Reads a header, if it is one of them. Returns whether it is.
    fn read(&mut self, name: &str, value: &[u8]) -> Result<bool, Fault> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-length") {
            self.read_length(value)?;
        } else if is("transfer-encoding") {
            if self.is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::TransferCoding);
            }
            self.is_chunked = true;
        } else if is("connection") {
            for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.closes |= token.eq_ignore_ascii_case(b"close");
                self.keeps_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("keep-alive") {
            self.idle_timeout = self.idle_timeout.or_else(|| idle_timeout(value));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads `Content-Length`. The same number may be there more than once.
    fn read_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        for text in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(text).ok().filter(|_| is_number).ok_or(Fault::ContentLength)?;
            let length = text.parse().map_err(|_| Fault::ContentLength)?;
            if self.length.is_some_and(|other| other != length) {
                return Err(Fault::ContentLengths);
            }
            self.length = Some(length);
        }
        Ok(())
    }

    fn framing(&self, code: StatusCode, version: Version) -> Result<Framing, Fault> {
        // These have no body, whatever their headers say.
        if code.is_informational() || matches!(code, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Framing::Length(0));
        }
        match (self.is_chunked, self.length) {
            (true, _) if version == Version::HTTP_10 => Err(Fault::OldTransferCoding),
            (true, Some(_)) => Err(Fault::TwoLengths),
            (true, None) => Ok(Framing::Chunked),
            (false, Some(length)) => Ok(Framing::Length(length)),
            (false, None) => Ok(Framing::UntilClose),
        }
    }
}

/// Returns the idle timeout in a value of `Keep-Alive`.
fn idle_timeout(value: &[u8]) -> Option<Duration> {
    let mut tokens = std::str::from_utf8(value).ok()?.split(',').map(str::trim);
    let seconds = tokens.find_map(|token| token.strip_prefix("timeout=")?.trim().parse().ok())?;
    Some(Duration::from_secs(seconds))
}

fn head_of(code: StatusCode, version: Version, headers: &[Header<'_>], keep: Keep) -> Result<ResponseHead, Fault> {
    let mut framers = Framers::default();
    let all = keep == Keep::All || !code.is_success() || headers.iter().any(|header| is_refusal(header.name));
    let mut kept = HeaderMap::new();
    for Header { name, value } in headers {
        let is_framer = framers.read(name, value)?;
        if all {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Fault::HeaderName)?;
            kept.append(name, HeaderValue::from_bytes(value).map_err(|_| Fault::HeaderValue)?);
        } else if !is_framer && let Some(name) = needed(name) {
            kept.append(name, header_value(value)?);
        }
    }
    let framing = framers.framing(code, version)?;
    let is_old = version == Version::HTTP_10 && !framers.keeps_alive;
    let persistence = Persistence {
        closes: framers.closes || is_old || framing == Framing::UntilClose || code.is_informational(),
        idle_timeout: framers.idle_timeout,
    };
    let (mut parts, ()) = Response::new(()).into_parts();
    (parts.status, parts.version, parts.headers) = (code, version, kept);
    Ok(ResponseHead { parts, length: framers.length, framing, persistence })
}

/// Returns whether a header asks for a pause or for a credential, which other headers explain.
fn is_refusal(name: &str) -> bool {
    name.eq_ignore_ascii_case("retry-after") || name.eq_ignore_ascii_case("www-authenticate")
}

/// Returns the name of a header of a success that the transport reads.
fn needed(name: &str) -> Option<HeaderName> {
    let needed = [header::CONTENT_TYPE, header::CONTENT_ENCODING, SESSION];
    needed.into_iter().find(|known| name.eq_ignore_ascii_case(known.as_str()))
}

fn header_value(value: &[u8]) -> Result<HeaderValue, Fault> {
    match KNOWN_TYPES.iter().find(|known| known.as_bytes() == value) {
        Some(known) => Ok(HeaderValue::from_static(known)),
        None => HeaderValue::from_bytes(value).map_err(|_| Fault::HeaderValue),
    }
}
