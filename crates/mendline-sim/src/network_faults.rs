//! What the way to an HTTP server is like, and how the server's HTTP side behaves.
//!
//! [`Temper`](crate::temper::Temper) is about what a server does with a message once it has it; this is about everything
//! before and after: connections, proxies, sessions, streams. Every HTTP fault turns one or two of these knobs; when it is
//! over, the weather is fair again.

use mendline_core::evidence::proves_refusal;
use mendline_core::port::EndHow;

use crate::site::HttpServerKind;

/// What an attempt to connect meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectResult {
    /// A listener.
    #[default]
    Connects,
    /// A machine on which nobody listens.
    Refused,
    /// Nothing at all, until the shell's patience is over.
    BlackHole,
    /// A name that nobody knows.
    NameNotFound,
    /// A name that nobody says anything about.
    ResolverTimeout,
    /// No way to the machine.
    Unreachable,
    /// A listener that never finishes what it begins with.
    TlsStall,
    /// A listener, but only behind the second address that is tried.
    Slow,
    /// A place that nothing may be sent to, and why.
    Forbidden(&'static str),
}

impl ConnectResult {
    /// What the shell says of it, once it has found out; nothing if it leads there.
    pub fn failure(self) -> Option<EndHow> {
        let text = match self {
            ConnectResult::Connects | ConnectResult::Slow => return None,
            ConnectResult::Forbidden(text) => return Some(EndHow::Forbidden(text.into())),
            ConnectResult::Refused => "connection refused",
            ConnectResult::BlackHole => "no connection within 5 s",
            ConnectResult::NameNotFound => "there is no such host",
            ConnectResult::ResolverTimeout => "its name could not be looked up within 5 s",
            ConnectResult::Unreachable => "no route to host",
            ConnectResult::TlsStall => "no TLS within 5 s",
        };
        Some(EndHow::NoConnection(text.into()))
    }
}

/// Why a server of the modern era, or one without sessions, does not even look at what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It knows no such method.
    NoSuchMethod,
    /// The headers do not fit the body, it says.
    HeaderMismatch,
}

/// Where an exchange is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Within the request.
    Request,
    /// After the request, before the first byte of the response.
    Response,
    /// There too, but by a peer that closes the connection in good order.
    Eof,
    /// Within the response, after its head.
    Body,
}

/// What answers in place of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedResponse {
    /// A bare status, with the seconds of `Retry-After`.
    Status(u16, Option<u64>),
    /// A page for people, with status 200.
    Html,
}

impl InjectedResponse {
    /// Whether a client can tell it from the server. To a notification, and over a trunk to anything, a success says no
    /// more than that the message was taken; one that was not is another fault.
    pub fn applies_to(self, kind: HttpServerKind, is_request: bool) -> bool {
        let is_told_apart = kind != HttpServerKind::Sse || matches!(self, InjectedResponse::Status(300.., _));
        // Some servers answer every notification with an odd status, and work; only these say that it was not accepted.
        let refuses_notes = matches!(self, InjectedResponse::Status(429 | 500.., _));
        (is_request && is_told_apart) || refuses_notes
    }

    /// Whether the server may have been told before it was spoken for.
    pub fn may_hide_execution(self) -> bool {
        !matches!(self, InjectedResponse::Status(status, _) if proves_refusal(status))
    }
}

/// How a server says that it does not know a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionLostReply {
    /// As the specification wants it.
    #[default]
    NotFound,
    /// With 400.
    BadRequest,
    /// With 200 and an error in the body.
    InBody,
}

/// The knobs.
#[derive(Clone, Debug, Default)]
pub struct NetworkFaults {
    /// What an attempt to connect meets.
    pub connect: ConnectResult,
    /// Where exchanges are cut, and how many of a hundred.
    pub cut: Option<(Cut, u64)>,
    /// Bytes go out and nothing comes back; of a hundred requests, so many arrive all the same.
    pub silent: Option<u64>,
    /// Of a hundred requests, so many are refused without being looked at.
    pub refuses_streams: Option<u64>,
    /// What is answered instead of looking into a request, to how many of a hundred.
    pub rejection: Option<(Rejection, u64)>,
    /// A connection carries so many bytes of a response and breaks.
    pub response_limit: Option<u64>,
    /// What is longer than this is too long for the shell.
    pub message_limit: Option<u64>,
    /// Events are written as oddly as the format allows.
    pub odd_frames: bool,
    /// Messages are spread over several lines.
    pub pretty: bool,
    /// Who resumes a stream gets all of it again.
    pub replays_all: bool,
    /// What answers POSTs in place of the server, and how many of a hundred.
    pub injected: Option<(InjectedResponse, u64)>,
    /// How a lost session is put.
    pub session_lost_reply: SessionLostReply,
    /// GET is not allowed.
    pub no_get: bool,
    /// A trunk is opened and says nothing.
    pub omits_endpoint: bool,
    /// What `retry` says in every event.
    pub retry: Option<u64>,
    /// Streams are never resumed.
    pub resumes_nothing: bool,
    /// Every stream is primed and closed, whatever is to be said over it.
    pub primes_forever: bool,
    /// Every response that can be is closed after its priming event, to be asked for again.
    pub polls: bool,
    /// A modern server refuses calls without the headers that its tools ask for.
    pub requires_param_headers: bool,
}
