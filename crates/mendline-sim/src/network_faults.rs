//! Faults of the network and of the HTTP side of a server.
//!
//! [`ServerFaults`](crate::server_faults::ServerFaults) controls what a server does with a message. These settings
//! control everything before and after that: connections, proxies, sessions, streams. An HTTP fault changes one or two
//! of them; when it ends, all return to their defaults.

use mendline_core::evidence::proves_refusal;
use mendline_core::port::ExchangeEnd;
use mendline_core::reason::{ConnectError, RefusalReason, TlsError};
use std::time::Duration;

use crate::site::HttpServerKind;

/// The result of every attempt to connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectResult {
    /// The connection is established.
    #[default]
    Connects,
    /// No process listens on the port.
    Refused,
    /// No reply until the connect timeout of the shell.
    BlackHole,
    /// The host name does not exist.
    NameNotFound,
    /// The DNS resolver does not reply.
    ResolverTimeout,
    /// There is no route to the host.
    Unreachable,
    /// The TLS handshake never completes.
    TlsStall,
    /// Only the second address of the host accepts connections.
    Slow,
    /// The target is forbidden, for this reason.
    Forbidden(&'static str),
}

impl ConnectResult {
    /// Returns the error that the shell reports, or `None` if the connection is established.
    pub fn failure(self) -> Option<ExchangeEnd> {
        const AFTER: Duration = Duration::from_secs(5);
        let host = || "notes.test".to_owned();
        let target = || "notes.test:443".to_owned();
        Some(ExchangeEnd::NoConnection(match self {
            ConnectResult::Connects | ConnectResult::Slow => return None,
            ConnectResult::Forbidden(problem) => {
                let error = TlsError::Untrusted { problem: problem.to_owned() };
                let error = ConnectError::Tls { server: target(), error };
                return Some(ExchangeEnd::Forbidden(RefusalReason::Connect(error)));
            }
            ConnectResult::Refused => ConnectError::Refused { target: target() },
            ConnectResult::BlackHole => ConnectError::TimedOut { target: target(), after: Some(AFTER) },
            ConnectResult::NameNotFound => ConnectError::NoAddress { host: host() },
            ConnectResult::ResolverTimeout => ConnectError::NameLookupTimedOut { host: host(), after: AFTER },
            ConnectResult::Unreachable => {
                ConnectError::Unreachable { target: target(), error: "no route to host".to_owned() }
            }
            ConnectResult::TlsStall => ConnectError::TlsTimedOut { server: target(), after: AFTER },
        }))
    }
}

/// The reason for which a modern or stateless server rejects a request without processing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The method is unknown.
    NoSuchMethod,
    /// The headers do not match the body.
    HeaderMismatch,
}

/// The point at which an exchange is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// While the request is being written.
    Request,
    /// After the request, before the first byte of the response.
    Response,
    /// At the same point, by an orderly close of the connection.
    Eof,
    /// Within the response body.
    Body,
}

/// A response that is injected in place of the response of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedResponse {
    /// A status without a body, with `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// An HTML page with status 200.
    Html,
}

impl InjectedResponse {
    /// Returns whether the client can distinguish it from a response of the server. For a notification, and for any
    /// message over an SSE stream, a success status only means that the message was accepted; a message that was not
    /// accepted is a different fault.
    pub fn applies_to(self, kind: HttpServerKind, is_request: bool) -> bool {
        let is_told_apart = kind != HttpServerKind::Sse || matches!(self, InjectedResponse::Status(300.., _));
        // Some servers that work answer every notification with an unusual status. Only these statuses mean that it was
        // not accepted.
        let refuses_notes = matches!(self, InjectedResponse::Status(429 | 500.., _));
        (is_request && is_told_apart) || refuses_notes
    }

    /// Returns whether the server may have executed the request before the response was injected.
    pub fn may_hide_execution(self) -> bool {
        !matches!(self, InjectedResponse::Status(status, _) if proves_refusal(status))
    }
}

/// The reply to a request that names an unknown session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionLostReply {
    /// 404, as specified.
    #[default]
    NotFound,
    /// 400.
    BadRequest,
    /// 200 with an error in the body.
    InBody,
}

/// The settings.
#[derive(Clone, Debug, Default)]
pub struct NetworkFaults {
    /// The result of every attempt to connect.
    pub connect: ConnectResult,
    /// The point at which exchanges are cut, and the percentage of exchanges.
    pub cut: Option<(Cut, u64)>,
    /// The connection is silent: nothing comes back. The value is the percentage of requests that still arrive.
    pub silent: Option<u64>,
    /// The connection of the next JSON-RPC request is silent for good, and nothing detects it.
    pub swallows_next: bool,
    /// The connection of the next response with events is silent after its head, and nothing detects it.
    pub stalls_next_response: bool,
    /// Percentage of requests that are refused without being processed.
    pub refuses_streams: Option<u64>,
    /// The rejection of requests, and the percentage of requests.
    pub rejection: Option<(Rejection, u64)>,
    /// Number of response bytes after which a connection breaks.
    pub response_limit: Option<u64>,
    /// Longest message that the shell accepts.
    pub message_limit: Option<u64>,
    /// Events use unusual but valid framing.
    pub odd_frames: bool,
    /// Messages are spread over several lines.
    pub pretty: bool,
    /// A resumed stream is replayed from its beginning.
    pub replays_all: bool,
    /// The response that is injected for POSTs, and the percentage of POSTs.
    pub injected: Option<(InjectedResponse, u64)>,
    /// The injected response is for calls of this tool only.
    pub injected_tool: Option<&'static str>,
    /// The reply for a lost session, if it is not the usual one of the server.
    pub session_lost_reply: Option<SessionLostReply>,
    /// GET is answered with 405.
    pub no_get: bool,
    /// An SSE stream opens without an `endpoint` event.
    pub omits_endpoint: bool,
    /// The `retry` field of every event.
    pub retry: Option<u64>,
    /// Requests to resume a stream are refused.
    pub resumes_nothing: bool,
    /// Every stream is closed after its priming event.
    pub primes_forever: bool,
    /// Every resumable response is closed after its priming event.
    pub polls: bool,
    /// A modern server refuses calls that lack the parameter headers of the tool.
    pub requires_param_headers: bool,
}
