//! Reasons why a request has no response.

use std::fmt;
use std::time::Duration;

use mendline_core::reason::{CutReason, Reason};

use crate::transport::http::UrlFault;

/// The reason why a request has no response. Its text names hosts and never a path, a query or a secret.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FetchError {
    /// A rule of this client forbids the request.
    Refused(FetchRefusal),
    /// No byte of the request was sent.
    NotSent(Reason),
    /// The request was sent, at least in part, and the connection ended before the end of the response.
    NoAnswer(CutReason),
    /// The response is too large.
    TooLarge {
        /// The most bytes of a body.
        limit: usize,
    },
    /// The request did not end in time.
    TimedOut {
        /// The limit.
        after: Duration,
        /// Whether any byte of the request was sent.
        sent: bool,
    },
}

/// The rule that forbids a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchRefusal {
    /// The URL cannot be used.
    Url(UrlFault),
    /// HTTP does not allow this header.
    Header {
        /// Its name.
        name: String,
    },
    /// The request would leave this machine unencrypted.
    NotEncrypted {
        /// The origin of the URL.
        origin: String,
    },
    /// The host leads to an address that nothing is sent to.
    Address {
        /// The host, the address and the reason.
        problem: String,
    },
    /// A redirect is not followed.
    Redirect {
        /// The origin that redirects.
        from: String,
        /// The status.
        status: u16,
        /// The reason, with the origin of the target.
        problem: String,
        /// Whether the request had a body, which was sent.
        sent: bool,
    },
}

impl FetchError {
    /// Returns whether the server can have received the request, or a part of it.
    pub fn is_sent(&self) -> bool {
        match self {
            FetchError::Refused(FetchRefusal::Redirect { sent, .. }) | FetchError::TimedOut { sent, .. } => *sent,
            FetchError::Refused(_) | FetchError::NotSent(_) => false,
            FetchError::NoAnswer(_) | FetchError::TooLarge { .. } => true,
        }
    }
}

impl From<FetchRefusal> for FetchError {
    fn from(refusal: FetchRefusal) -> FetchError {
        FetchError::Refused(refusal)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Refused(refusal) => refusal.fmt(f),
            FetchError::NotSent(why) => why.fmt(f),
            FetchError::NoAnswer(why) => why.fmt(f),
            FetchError::TooLarge { limit } => write!(f, "the response is longer than {limit} bytes"),
            FetchError::TimedOut { after, .. } => {
                write!(f, "no whole response within {}", humantime::format_duration(*after))
            }
        }
    }
}

impl std::error::Error for FetchError {}

impl fmt::Display for FetchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchRefusal::Url(fault) => fault.fmt(f),
            FetchRefusal::Header { name } => write!(f, "the header {name} holds what HTTP does not allow"),
            FetchRefusal::NotEncrypted { origin } => {
                write!(f, "{origin} is not encrypted; nothing is sent there, use https")
            }
            FetchRefusal::Address { problem } => f.write_str(problem),
            FetchRefusal::Redirect { from, status, problem, .. } => {
                write!(f, "{from} redirects ({status}) {problem}")
            }
        }
    }
}

impl std::error::Error for FetchRefusal {}
