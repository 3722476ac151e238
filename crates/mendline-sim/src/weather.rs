//! What the way to an HTTP server is like, and how the server's HTTP side behaves.
//!
//! [`Temper`](crate::temper::Temper) is about what a server does with a message once it has it; this is about everything
//! before and after: connections, proxies, sessions, streams. Every HTTP fault turns one or two of these knobs; when it is
//! over, the weather is fair again.

use mendline_core::evidence::proves_refusal;
use mendline_core::port::EndHow;

use crate::site::Tongue;

/// What an attempt to connect meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Road {
    /// A listener.
    #[default]
    Open,
    /// A machine on which nobody listens.
    Refused,
    /// Nothing at all, until the shell's patience is over.
    BlackHole,
    /// A name that nobody knows.
    NoName,
    /// A name that nobody says anything about.
    NoResolver,
    /// No way to the machine.
    Unreachable,
    /// A listener that never finishes what it begins with.
    TlsStall,
    /// A listener, but only behind the second address that is tried.
    Slow,
    /// A place that nothing may be sent to, and why.
    Forbidden(&'static str),
}

impl Road {
    /// What the shell says of it, once it has found out; nothing if it leads there.
    pub fn ends(self) -> Option<EndHow> {
        let words = match self {
            Road::Open | Road::Slow => return None,
            Road::Forbidden(words) => return Some(EndHow::Forbidden(words.into())),
            Road::Refused => "connection refused",
            Road::BlackHole => "no connection within 5 s",
            Road::NoName => "there is no such host",
            Road::NoResolver => "its name could not be looked up within 5 s",
            Road::Unreachable => "no route to host",
            Road::TlsStall => "no TLS within 5 s",
        };
        Some(EndHow::NoConnection(words.into()))
    }
}

/// Why a server of the modern era, or one without sessions, does not even look at what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwelcome {
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
pub enum Stand {
    /// A bare status, with the seconds of `Retry-After`.
    Status(u16, Option<u64>),
    /// A page for people, with status 200.
    Html,
}

impl Stand {
    /// Whether a client can tell it from the server. To a notification, and over a trunk to anything, a success says no
    /// more than that the message was taken; one that was not is another fault.
    pub fn strikes(self, tongue: Tongue, is_request: bool) -> bool {
        let is_told_apart = tongue != Tongue::Trunk || matches!(self, Stand::Status(300.., _));
        // Some servers answer every notification with an odd status, and work; only these say that it was not accepted.
        let refuses_notes = matches!(self, Stand::Status(429 | 500.., _));
        (is_request && is_told_apart) || refuses_notes
    }

    /// Whether the server may have been told before it was spoken for.
    pub fn may_hide_a_run(self) -> bool {
        !matches!(self, Stand::Status(status, _) if proves_refusal(status))
    }
}

/// How a server says that it does not know a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Farewell {
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
pub struct Weather {
    /// What an attempt to connect meets.
    pub road: Road,
    /// Where exchanges are cut, and how many of a hundred.
    pub cut: Option<(Cut, u64)>,
    /// Bytes go out and nothing comes back; of a hundred requests, so many arrive all the same.
    pub silent: Option<u64>,
    /// Of a hundred requests, so many are refused without being looked at.
    pub refuses: Option<u64>,
    /// What is answered instead of looking into a request, to how many of a hundred.
    pub unwelcome: Option<(Unwelcome, u64)>,
    /// A connection carries so many bytes of a response and breaks.
    pub carries: Option<u64>,
    /// What is longer than this is too long for the shell.
    pub too_large: Option<u64>,
    /// Events are written as oddly as the format allows.
    pub odd_frames: bool,
    /// Messages are spread over several lines.
    pub pretty: bool,
    /// Who resumes a stream gets all of it again.
    pub replays_all: bool,
    /// What answers POSTs in place of the server, and how many of a hundred.
    pub stand: Option<(Stand, u64)>,
    /// How a lost session is put.
    pub farewell: Farewell,
    /// GET is not allowed.
    pub no_get: bool,
    /// A trunk is opened and says nothing.
    pub mute: bool,
    /// What `retry` says in every event.
    pub retry: Option<u64>,
    /// Streams are never resumed.
    pub resumes_nothing: bool,
    /// Every stream is primed and closed, whatever is to be said over it.
    pub primes_for_ever: bool,
    /// Every response that can be is closed after its priming event, to be asked for again.
    pub polls: bool,
    /// A modern server refuses calls without the headers that its tools ask for.
    pub insists_on_params: bool,
}
