//! Errors of making and of keeping a connection.

use std::fmt;
use std::time::Duration;

use super::TlsError;
use crate::event::Short;

/// The reason why no connection could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// No URL is configured for this server.
    NotConfigured,
    /// The name could not be looked up.
    NameLookup {
        /// The host in the URL.
        host: String,
        /// The resolver's text.
        error: String,
    },
    /// The name server did not answer in time.
    NameLookupTimedOut {
        /// The host in the URL.
        host: String,
        /// The time that it had.
        after: Duration,
    },
    /// The name has no address.
    NoAddress {
        /// The host in the URL.
        host: String,
    },
    /// Nothing listens there.
    Refused {
        /// Host and port, with the address in parentheses if it differs.
        target: String,
    },
    /// No route leads there.
    Unreachable {
        /// Host and port, with the address in parentheses if it differs.
        target: String,
        /// The operating system's text.
        error: String,
    },
    /// Nothing answered in time.
    TimedOut {
        /// Host and port.
        target: String,
        /// The time that it had, or nothing if the operating system gave up.
        after: Option<Duration>,
    },
    /// Any other error of the operating system.
    Other {
        /// Host and port.
        target: String,
        /// The operating system's text.
        error: String,
    },
    /// A proxy made no tunnel.
    Proxy {
        /// Host and port of the proxy.
        proxy: String,
        /// What went wrong.
        error: ProxyError,
    },
    /// The TLS handshake failed.
    Tls {
        /// Host and port of the server.
        server: String,
        /// What went wrong.
        error: TlsError,
    },
    /// The TLS handshake did not end in time.
    TlsTimedOut {
        /// Host and port of the server.
        server: String,
        /// The time that it had.
        after: Duration,
    },
    /// The HTTP/2 handshake did not end in time.
    Http2TimedOut {
        /// Host and port.
        target: String,
        /// The time that it had.
        after: Duration,
    },
    /// The connection ended before it could be used.
    Broken {
        /// Host and port.
        target: String,
        /// The text of the error.
        error: String,
    },
    /// The name leads to an address that nothing is sent to.
    AddressNotAllowed {
        /// Which name, which address, and why not.
        problem: String,
    },
}

/// The reason why a proxy made no tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// It wants other credentials (407).
    Credentials,
    /// It does not allow a tunnel to this target (403).
    Forbidden {
        /// Host and port of the server.
        target: String,
    },
    /// It answered with another status.
    Status {
        /// Host and port of the server.
        target: String,
        /// The status.
        status: u16,
    },
    /// Its answer is not HTTP.
    NotHttp,
    /// Its answer is too long.
    TooLong,
    /// It closed the connection without an answer.
    Closed,
    /// The connection to it broke.
    Broken {
        /// The operating system's text.
        error: String,
    },
    /// It made no tunnel in time.
    TimedOut {
        /// The time that it had.
        after: Duration,
    },
}

impl ConnectError {
    /// Returns whether another attempt fails the same way until a person changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            ConnectError::Tls { error, .. } => error.is_permanent(),
            ConnectError::Proxy { error, .. } => {
                matches!(error, ProxyError::Credentials | ProxyError::Forbidden { .. })
            }
            ConnectError::AddressNotAllowed { .. } => true,
            _ => false,
        }
    }

    /// Returns the stable name for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            ConnectError::NotConfigured => "not_configured",
            ConnectError::NameLookup { .. } | ConnectError::NoAddress { .. } => "name_lookup",
            ConnectError::NameLookupTimedOut { .. } => "name_lookup_timed_out",
            ConnectError::Refused { .. } => "connection_refused",
            ConnectError::Unreachable { .. } => "host_unreachable",
            ConnectError::TimedOut { .. } => "connect_timed_out",
            ConnectError::Other { .. } => "connect_failed",
            ConnectError::Proxy { .. } => "proxy",
            ConnectError::Tls { error, .. } => error.name(),
            ConnectError::TlsTimedOut { .. } => "tls_timed_out",
            ConnectError::Http2TimedOut { .. } => "http2_timed_out",
            ConnectError::Broken { .. } => "connection_broken",
            ConnectError::AddressNotAllowed { .. } => "address_not_allowed",
        }
    }

    /// Passes every text that comes from outside to `each`.
    pub fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            ConnectError::NotConfigured => {}
            ConnectError::NameLookup { host: text, error }
            | ConnectError::Unreachable { target: text, error }
            | ConnectError::Other { target: text, error }
            | ConnectError::Broken { target: text, error } => {
                each(text);
                each(error);
            }
            ConnectError::NameLookupTimedOut { host: text, .. }
            | ConnectError::NoAddress { host: text }
            | ConnectError::Refused { target: text }
            | ConnectError::TimedOut { target: text, .. }
            | ConnectError::TlsTimedOut { server: text, .. }
            | ConnectError::Http2TimedOut { target: text, .. }
            | ConnectError::AddressNotAllowed { problem: text } => each(text),
            ConnectError::Tls { server, error } => {
                each(server);
                error.texts(each);
            }
            ConnectError::Proxy { proxy, error } => {
                each(proxy);
                if let ProxyError::Forbidden { target: text }
                | ProxyError::Status { target: text, .. }
                | ProxyError::Broken { error: text } = error
                {
                    each(text);
                }
            }
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NotConfigured => f.write_str("no address is configured for this server"),
            ConnectError::NameLookup { host, error } => {
                write!(f, "the name {host} could not be looked up ({error})")
            }
            ConnectError::NameLookupTimedOut { host, after } => {
                write!(f, "the name {host} could not be looked up within {}; is the name server there?", Short(*after))
            }
            ConnectError::NoAddress { host } => write!(f, "the name {host} has no address"),
            ConnectError::Refused { target } => write!(f, "nothing listens on {target} (connection refused)"),
            ConnectError::Unreachable { target, error } => write!(f, "there is no route to {target} ({error})"),
            ConnectError::TimedOut { target, after: Some(after) } => {
                write!(f, "{target} did not answer within {}", Short(*after))
            }
            ConnectError::TimedOut { target, after: None } => write!(f, "{target} does not answer (timed out)"),
            ConnectError::Other { target, error } => write!(f, "no connection to {target} ({error})"),
            ConnectError::Proxy { proxy, error } => write!(f, "the proxy {proxy} {error}"),
            ConnectError::Tls { server, error } => write!(f, "{}", error.with(server)),
            ConnectError::TlsTimedOut { server, after } => {
                write!(f, "{server} did not finish the TLS handshake within {}", Short(*after))
            }
            ConnectError::Http2TimedOut { target, after } => {
                write!(f, "{target} did not finish the HTTP/2 handshake within {}", Short(*after))
            }
            ConnectError::Broken { target, error } => write!(f, "{target} broke off ({error})"),
            ConnectError::AddressNotAllowed { problem } => f.write_str(problem),
        }
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Credentials => f.write_str("wants other credentials (407)"),
            ProxyError::Forbidden { target } => write!(f, "does not allow a tunnel to {target} (403)"),
            ProxyError::Status { target, status } => write!(f, "made no tunnel to {target} ({status})"),
            ProxyError::NotHttp => f.write_str("does not answer in HTTP"),
            ProxyError::TooLong => f.write_str("answered at too great length"),
            ProxyError::Closed => f.write_str("closed the connection instead of answering"),
            ProxyError::Broken { error } => write!(f, "broke off: {error}"),
            ProxyError::TimedOut { after } => write!(f, "made no tunnel within {}", Short(*after)),
        }
    }
}

/// The reason why a connection was lost, or a response could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutReason {
    /// The server closed the connection.
    Closed,
    /// The server closed the connection without an answer.
    ClosedWithoutAnswer,
    /// The server closed the connection as soon as it was made.
    ClosedAtOnce,
    /// The connection was reset.
    Reset,
    /// The connection broke for a reason that is not known.
    Broken,
    /// The server acknowledges nothing any more.
    TimedOut,
    /// The server did not answer an HTTP/2 ping.
    NoPong {
        /// The time that it had.
        after: Duration,
    },
    /// The server reset the HTTP/2 stream.
    StreamReset {
        /// The meaning of its error code.
        code: String,
    },
    /// The server broke the rules of HTTP/2.
    Http2 {
        /// The meaning of the error code.
        code: String,
    },
    /// The answer is not HTTP.
    NotHttp {
        /// The text of the error.
        error: String,
    },
    /// The server sent more than was asked for.
    TooMuchData,
    /// The body has a content coding that was not asked for.
    ContentCoding {
        /// Its name.
        name: String,
    },
    /// The compressed body ends too early or cannot be read.
    Compression {
        /// What is wrong with it.
        problem: String,
    },
    /// Unfinished bodies hold all the memory there is for them, and this one was the largest.
    Memory,
    /// Any other error.
    Other {
        /// The text of the error.
        error: String,
    },
}

impl CutReason {
    /// Returns the stable name for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            CutReason::Closed | CutReason::ClosedWithoutAnswer | CutReason::ClosedAtOnce => "connection_closed",
            CutReason::Reset => "connection_reset",
            CutReason::Broken | CutReason::Other { .. } => "connection_broken",
            CutReason::TimedOut => "connection_timed_out",
            CutReason::NoPong { .. } => "http2_ping_timed_out",
            CutReason::StreamReset { .. } => "http2_stream_reset",
            CutReason::Http2 { .. } => "http2_protocol",
            CutReason::NotHttp { .. } => "not_http",
            CutReason::TooMuchData => "too_much_data",
            CutReason::ContentCoding { .. } => "content_coding",
            CutReason::Compression { .. } => "compression",
            CutReason::Memory => "memory_budget",
        }
    }

    /// Passes every text that comes from outside to `each`.
    pub fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        if let CutReason::StreamReset { code: text }
        | CutReason::Http2 { code: text }
        | CutReason::NotHttp { error: text }
        | CutReason::ContentCoding { name: text }
        | CutReason::Compression { problem: text }
        | CutReason::Other { error: text } = self
        {
            each(text);
        }
    }
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CutReason::Closed => f.write_str("the server closed the connection"),
            CutReason::ClosedWithoutAnswer => f.write_str("the server closed the connection without an answer"),
            CutReason::ClosedAtOnce => f.write_str("the server closed the connection at once"),
            CutReason::Reset => f.write_str("the connection was reset"),
            CutReason::Broken => f.write_str("the connection broke"),
            CutReason::TimedOut => f.write_str("the server acknowledges nothing any more (timed out)"),
            CutReason::NoPong { after } => {
                write!(f, "the server did not answer a ping within {} seconds", after.as_secs())
            }
            CutReason::StreamReset { code } => write!(f, "the server reset the stream ({code})"),
            CutReason::Http2 { code } => write!(f, "the server broke the rules of HTTP/2 ({code})"),
            CutReason::NotHttp { error } => write!(f, "the answer is not HTTP ({error})"),
            CutReason::TooMuchData => f.write_str("the server sent more than was asked for"),
            CutReason::ContentCoding { name } => write!(
                f,
                "the server answered with the content coding {name:?}, which was not asked for and cannot be read"
            ),
            CutReason::Compression { problem } => f.write_str(problem),
            CutReason::Memory => f.write_str(
                "the answers that are being received together hold all the memory there is for them; \
                 this one was the largest and was given up",
            ),
            CutReason::Other { error } => f.write_str(error),
        }
    }
}
