//! The configuration of a server over HTTP.

use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use mendline_core::Secret;
use mendline_wire::Limits;

use super::origin::{Location, Origin, UrlFault};
use super::proxy::{Proxy, ProxyRules};
use super::tls::TlsOptions;

/// The time for name lookup, connection, proxy and TLS together: a live server is faster, and a call waits for it.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest head of a response. Most have a few hundred bytes; cookies and policies can add kilobytes.
const HEAD_BYTES: usize = 64 * 1024;

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// With TLS the version that the server prefers, without TLS HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only, without negotiation ("prior knowledge").
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
}

/// The reason why a header cannot be sent. Never shows its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderFault {
    /// The name of the header as configured.
    pub name: String,
    /// The reason.
    pub why: &'static str,
}

impl std::fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the header {:?} {}", self.name, self.why)
    }
}

impl std::error::Error for HeaderFault {}

impl Target {
    /// Parses the URL of a server. All other settings have their defaults.
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
        })
    }

    /// Returns the origin of the server.
    pub fn origin(&self) -> &Origin {
        &self.location.origin
    }

    /// Adds a header to every request to this server. It replaces a header of Mendline with the same name. Headers that
    /// frame a message cannot be set.
    pub fn header(mut self, name: &str, value: &Secret) -> Result<Target, HeaderFault> {
        self.headers.push(header_to_send(name, value)?);
        Ok(self)
    }

    /// Sets the version of HTTP.
    pub fn protocol(mut self, protocol: Protocol) -> Target {
        self.protocol = protocol;
        self
    }

    /// Sets the timeout of a connection, from the name lookup to the end of the TLS handshake.
    pub fn connect_timeout(mut self, timeout: Duration) -> Target {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the limits of a response: `message_bytes` bounds a body and each event of a stream.
    pub fn limits(mut self, limits: Limits) -> Target {
        self.limits = limits;
        self
    }

    /// Sets the longest head of a response.
    pub fn head_bytes(mut self, bytes: usize) -> Target {
        self.head_bytes = bytes;
        self
    }

    /// Sets the trusted certificates.
    pub fn tls(mut self, options: TlsOptions) -> Target {
        self.tls = options;
        self
    }

    /// Uses the proxy that these rules give for the server, if any.
    pub fn proxies(mut self, rules: &ProxyRules) -> Target {
        self.proxy = rules.proxy_for(&self.location.origin).cloned();
        self
    }
}

/// Parses a header that is set for a server. Headers that frame a message cannot be set.
pub(crate) fn header_to_send(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), HeaderFault> {
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
    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| fault("has a value that HTTP does not allow"))?;
    value.set_sensitive(true);
    Ok((known, value))
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
    fn invalid_headers_are_refused_without_their_values() {
        assert_eq!(refusal("Transfer-Encoding", "hunter2"), "is part of how messages are framed and cannot be set");
        assert_eq!(refusal("a b", "hunter2"), "has a name that HTTP does not allow");
        assert_eq!(refusal("Authorization", "hunter2\r\nx: y"), "has a value that HTTP does not allow");
    }
}
