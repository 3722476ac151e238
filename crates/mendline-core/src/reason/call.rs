//! Reasons why an attempt or a call failed.

use std::fmt;
use std::time::Duration;

use super::{ConnectError, CredentialError, CutReason, HandshakeError, LossReason, RefusalReason, SpawnError};
use crate::event::Short;

/// The reason why an attempt, a call or a link failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The child process could not be started.
    Spawn(SpawnError),
    /// No connection could be made.
    Connect(ConnectError),
    /// The connection was lost.
    Cut(CutReason),
    /// There is no valid credential.
    Credential(CredentialError),
    /// Mendline did not send it.
    Refusal(RefusalReason),
    /// The link was lost.
    Loss(LossReason),
    /// The handshake failed.
    Handshake(HandshakeError),
    /// The server answered with this HTTP status and without an answer to the call.
    Status {
        /// The status.
        status: u16,
        /// The first words of the body, redacted.
        body: Option<String>,
        /// The body is neither JSON nor a stream of events.
        not_json: bool,
    },
    /// The server answered the request for an event stream with this status.
    SseStatus {
        /// The status.
        status: u16,
    },
    /// The server answered with an error that names no call.
    ErrorBody {
        /// The text of the error, redacted.
        message: String,
    },
    /// The server answered with an error.
    Error,
    /// The server answered with this JSON-RPC error code.
    ErrorCode {
        /// The code.
        code: i64,
    },
    /// The response broke off.
    ResponseBroken,
    /// The connection ended.
    ConnectionEnded,
    /// The response ended without an answer.
    NoAnswer,
    /// The event stream ended before the answer came.
    StreamEnded,
    /// The server refused the HTTP/2 stream.
    StreamRefused,
    /// The answer is not JSON-RPC.
    Unreadable {
        /// Its first words, redacted.
        body: Option<String>,
    },
    /// The answer is over the limit for one message.
    TooLarge {
        /// Its length, if that is known.
        length: Option<usize>,
    },
    /// No answer came in this time.
    TimedOut {
        /// The time since the request arrived, or nothing if its own limit passed.
        after: Option<Duration>,
    },
    /// The call could not be sent in this time.
    Unsent {
        /// The time since the request arrived.
        after: Duration,
        /// What was in the way.
        why: Box<Reason>,
    },
    /// The server reported a lost session, and a ping did not confirm it.
    LossUnconfirmed(Box<Reason>),
    /// The call was not sent again, because the retry budget is spent.
    NotRetried(Box<Reason>),
    /// Both ways to reach the server failed.
    Both(Box<Reason>, Box<Reason>),
    /// The reason, and the line of the server's stderr that explains it.
    WithStderr {
        /// The reason.
        why: Box<Reason>,
        /// The line, redacted.
        stderr: String,
    },
}

impl Reason {
    /// Returns whether a valid credential is missing.
    pub fn is_about_credential(&self) -> bool {
        matches!(self, Reason::Credential(_) | Reason::Refusal(RefusalReason::CredentialRenewal))
    }

    /// Returns the stable name for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::Spawn(error) => error.name(),
            Reason::Connect(error) => error.name(),
            Reason::Cut(reason) => reason.name(),
            Reason::Credential(error) => error.name(),
            Reason::Refusal(reason) => reason.name(),
            Reason::Loss(reason) => reason.name(),
            Reason::Handshake(error) => error.name(),
            Reason::Status { .. } | Reason::SseStatus { .. } => "http_status",
            Reason::ErrorBody { .. } | Reason::ErrorCode { .. } | Reason::Error => "error_answer",
            Reason::ResponseBroken | Reason::NoAnswer | Reason::StreamEnded => "response_broken",
            Reason::ConnectionEnded => "connection_closed",
            Reason::StreamRefused => "stream_refused",
            Reason::Unreadable { .. } => "unreadable",
            Reason::TooLarge { .. } => "too_large",
            Reason::TimedOut { .. } => "timed_out",
            Reason::Unsent { .. } => "unsent",
            Reason::LossUnconfirmed(_) => "session_loss_unconfirmed",
            Reason::NotRetried(_) => "retry_budget_spent",
            Reason::Both(_, second) => second.name(),
            Reason::WithStderr { why, .. } => why.name(),
        }
    }

    /// Returns the HTTP status, if one is the reason.
    pub fn status(&self) -> Option<u16> {
        match self {
            Reason::Status { status, .. } | Reason::SseStatus { status } => Some(*status),
            Reason::LossUnconfirmed(why) | Reason::NotRetried(why) | Reason::WithStderr { why, .. } => why.status(),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Spawn(error) => error.fmt(f),
            Reason::Connect(error) => error.fmt(f),
            Reason::Cut(reason) => reason.fmt(f),
            Reason::Credential(error) => error.fmt(f),
            Reason::Refusal(reason) => reason.fmt(f),
            Reason::Loss(reason) => reason.fmt(f),
            Reason::Handshake(error) => error.fmt(f),
            Reason::Status { status, body: Some(body), .. } => write!(f, "the server answered HTTP {status}: {body}"),
            Reason::Status { status, body: None, not_json: true } => {
                write!(f, "the server answered HTTP {status} with something that is not JSON")
            }
            Reason::Status { status, .. } => write!(f, "the server answered HTTP {status}"),
            Reason::SseStatus { status } => {
                write!(f, "the server answered HTTP {status} to the request for an event stream")
            }
            Reason::ErrorBody { message } => write!(f, "the server answered: {message}"),
            Reason::ErrorCode { code } => write!(f, "the server answered with error {code}"),
            Reason::Error => f.write_str("the server answered with an error"),
            Reason::ResponseBroken => f.write_str("the response broke off"),
            Reason::ConnectionEnded => f.write_str("the connection ended"),
            Reason::NoAnswer => f.write_str("the response ended without an answer"),
            Reason::StreamEnded => f.write_str("the event stream ended before the answer came"),
            Reason::StreamRefused => f.write_str("the server refused the stream"),
            Reason::Unreadable { body: Some(body) } => write!(f, "its answer is not JSON-RPC: {body}"),
            Reason::Unreadable { body: None } => f.write_str("its answer is not JSON-RPC"),
            Reason::TooLarge { length: Some(length) } => {
                write!(f, "its answer of {length} bytes is over the limit for one message")
            }
            Reason::TooLarge { length: None } => f.write_str("its answer is larger than the limit for one message"),
            Reason::TimedOut { after: Some(after) } => write!(f, "no answer after {}", Short(*after)),
            Reason::TimedOut { after: None } => f.write_str("no answer in time"),
            Reason::Unsent { after, why } => write!(f, "it could not be sent for {}: {why}", Short(*after)),
            Reason::LossUnconfirmed(why) => {
                write!(f, "{why}; a ping did not show whether the session is lost")
            }
            Reason::NotRetried(why) => write!(f, "{why}; it was not sent again, because the retry budget is spent"),
            Reason::Both(first, second) => write!(f, "{first}, and {second}"),
            Reason::WithStderr { why, stderr } => write!(f, "{why}; stderr: {stderr}"),
        }
    }
}

impl From<LossReason> for Reason {
    fn from(reason: LossReason) -> Reason {
        Reason::Loss(reason)
    }
}

impl From<HandshakeError> for Reason {
    fn from(error: HandshakeError) -> Reason {
        Reason::Handshake(error)
    }
}

impl From<RefusalReason> for Reason {
    fn from(reason: RefusalReason) -> Reason {
        match reason {
            RefusalReason::Connect(error) => Reason::Connect(error),
            reason => Reason::Refusal(reason),
        }
    }
}

impl From<ConnectError> for Reason {
    fn from(error: ConnectError) -> Reason {
        Reason::Connect(error)
    }
}

impl From<CredentialError> for Reason {
    fn from(error: CredentialError) -> Reason {
        Reason::Credential(error)
    }
}

impl From<CutReason> for Reason {
    fn from(reason: CutReason) -> Reason {
        Reason::Cut(reason)
    }
}

impl From<SpawnError> for Reason {
    fn from(error: SpawnError) -> Reason {
        Reason::Spawn(error)
    }
}
