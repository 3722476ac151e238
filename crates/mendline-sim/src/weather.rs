//! What the way to an HTTP server is like, and how the server's HTTP side behaves.
//!
//! [`Temper`](crate::temper::Temper) is about what a server does with a message once it has it; this is about everything
//! before and after: connections, proxies, sessions, streams. Every HTTP fault turns one or two of these knobs; when it is
//! over, the weather is fair again.

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
        (tongue != Tongue::Trunk && is_request) || matches!(self, Stand::Status(300.., _))
    }

    /// Whether the server may have been told before it was spoken for.
    pub fn may_hide_a_run(self) -> bool {
        !matches!(self, Stand::Status(429, _))
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
    /// Bytes go out and nothing comes back.
    pub silent: bool,
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
}
