//! A server as it is configured: where it lives and how it is spoken to.

use std::time::{Duration, SystemTime};

use http::header::{self, HeaderName, HeaderValue};
use mendline_core::Secret;
use mendline_wire::Limits;

use super::origin::{Location, Origin, UrlFault};
use super::proxy::{Proxy, ProxyRules};
use super::tls::TlsOptions;

/// How long name, connection, proxy and TLS may take together: what is alive answers in less, and a call waits.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest head of a response. Real ones have a few hundred bytes; cookies and policies can make kilobytes.
const HEAD_BYTES: usize = 64 * 1024;

/// Which HTTP to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Over TLS whichever of the two the server prefers, without it HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only, without asking ("prior knowledge").
    Http2,
}

/// One upstream that is reached over HTTP.
pub struct Target {
    pub(super) location: Location,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) protocol: Protocol,
    pub(super) connect_timeout: Duration,
    pub(super) limits: Limits,
    pub(super) head_bytes: usize,
    pub(super) tls: TlsOptions,
    pub(super) proxy: Option<Proxy>,
    pub(super) wall_clock: fn() -> SystemTime,
}

/// Why a header cannot be sent. Never shows its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderFault {
    /// Its name, as it was given.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl std::fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the header {:?} {}", self.name, self.why)
    }
}

impl std::error::Error for HeaderFault {}

impl Target {
    /// The server at this URL, with everything else at its default.
    pub fn parse(url: &str) -> Result<Target, UrlFault> {
        Ok(Target {
            location: Location::parse(url)?,
            headers: Vec::new(),
            protocol: Protocol::default(),
            connect_timeout: CONNECT,
            limits: Limits::default(),
            head_bytes: HEAD_BYTES,
            tls: TlsOptions::default(),
            proxy: None,
            wall_clock: SystemTime::now,
        })
    }

    /// Where it lives.
    pub fn origin(&self) -> &Origin {
        &self.location.origin
    }

    /// Sends this header with every request to this server and nowhere else. It replaces one of ours with that name;
    /// the headers by which HTTP finds the end of a message cannot be replaced.
    pub fn header(mut self, name: &str, value: &Secret) -> Result<Target, HeaderFault> {
        let fault = |why| HeaderFault { name: name.to_owned(), why };
        let known: HeaderName = name.parse().map_err(|_| fault("has a name that HTTP does not allow"))?;
        if [
            header::CONTENT_LENGTH,
            header::TRANSFER_ENCODING,
            header::CONNECTION,
            header::UPGRADE,
            header::EXPECT,
            header::TE,
        ]
        .contains(&known)
        {
            return Err(fault("is part of how messages are framed and cannot be set"));
        }
        let mut value =
            HeaderValue::from_str(value.expose()).map_err(|_| fault("has a value that HTTP does not allow"))?;
        value.set_sensitive(true);
        self.headers.push((known, value));
        Ok(self)
    }

    /// Which HTTP to speak.
    pub fn protocol(mut self, protocol: Protocol) -> Target {
        self.protocol = protocol;
        self
    }

    /// How long making a connection may take, from the name to the end of the TLS handshake.
    pub fn connect_timeout(mut self, timeout: Duration) -> Target {
        self.connect_timeout = timeout;
        self
    }

    /// How much a response may hold: `message_bytes` bounds a body and each event of a stream.
    pub fn limits(mut self, limits: Limits) -> Target {
        self.limits = limits;
        self
    }

    /// How long the head of a response may be.
    pub fn head_bytes(mut self, bytes: usize) -> Target {
        self.head_bytes = bytes;
        self
    }

    /// Whom to trust.
    pub fn tls(mut self, options: TlsOptions) -> Target {
        self.tls = options;
        self
    }

    /// Reaches the server through a proxy if these rules say so.
    pub fn proxies(mut self, rules: &ProxyRules) -> Target {
        self.proxy = rules.proxy_for(&self.location.origin).cloned();
        self
    }

    /// The clock that `Retry-After` dates are compared with, when a response has no date of its own.
    pub fn wall_clock(mut self, clock: fn() -> SystemTime) -> Target {
        self.wall_clock = clock;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, value: &str) -> &'static str {
        let target = Target::parse("http://x.test/").unwrap();
        let fault = target.header(name, &Secret::new(value)).err().unwrap();
        assert!(!fault.to_string().contains("hunter2"), "{fault}");
        fault.why
    }

    #[test]
    fn headers_that_would_break_a_message_are_refused_without_showing_them() {
        assert_eq!(refusal("Transfer-Encoding", "hunter2"), "is part of how messages are framed and cannot be set");
        assert_eq!(refusal("a b", "hunter2"), "has a name that HTTP does not allow");
        assert_eq!(refusal("Authorization", "hunter2\r\nx: y"), "has a value that HTTP does not allow");
    }
}
