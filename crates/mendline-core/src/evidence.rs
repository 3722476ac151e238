//! The outcome of a call, judged from evidence.
//!
//! A call may be sent again only if the peer cannot have acted on it. Shells report what they saw: how much was
//! written, and what came back. One total function turns this into an [`Outcome`]; no other code decides it. Uncertain
//! evidence gives *unknown*, never *not sent*.

use crate::port::Written;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The peer cannot have the whole request.
    NotSent,
    /// The peer says that it did not process it.
    Refused,
    /// It may have run, and no answer came.
    Unknown,
    /// It was answered.
    Answered,
}

impl Outcome {
    /// The name of the outcome in messages and machine-readable facts.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::NotSent => "not_sent",
            Outcome::Refused => "refused",
            Outcome::Unknown => "unknown",
            Outcome::Answered => "answered",
        }
    }
}

/// The reply of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: a cut, silence, the end of the child, a deadline.
    None,
    /// A JSON-RPC response to this call, result or error.
    Response,
    /// A response that cannot be read or exceeds our limit.
    Unreadable,
    /// Proof by the transport that the request was not processed (REFUSED_STREAM, a GOAWAY below our stream).
    RefusedByTransport,
    /// The session that the request named is gone: a legacy 404, or a 400 or in-body error to a session that worked
    /// before.
    SessionGone,
    /// A modern header did not match, or the version is not supported (400 with -32020 or -32022).
    HeadersRefused,
    /// A bare HTTP status without a JSON-RPC body.
    Status(u16),
    /// Such a status, of which the configuration states that the server did nothing.
    Unprocessed(u16),
}

impl Reply {
    /// The name of the reply in logs and machine-readable facts.
    pub fn word(self) -> &'static str {
        match self {
            Reply::None => "none",
            Reply::Response => "response",
            Reply::Unreadable => "unreadable",
            Reply::RefusedByTransport => "refused_by_transport",
            Reply::SessionGone => "session_gone",
            Reply::HeadersRefused => "headers_refused",
            Reply::Status(_) | Reply::Unprocessed(_) => "status",
        }
    }

    /// The HTTP status of the reply, if it is only a status.
    pub fn status(self) -> Option<u16> {
        match self {
            Reply::Status(status) | Reply::Unprocessed(status) => Some(status),
            _ => None,
        }
    }
}

/// The evidence of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The part of the request that the peer can have received.
    pub written: Written,
    /// The reply.
    pub reply: Reply,
}

impl Evidence {
    /// Nothing was handed to the transport at all.
    pub const UNSENT: Evidence = Evidence { written: Written::Nothing, reply: Reply::None };
    /// All of it was handed over, and nothing came back.
    pub const SILENCE: Evidence = Evidence { written: Written::Whole, reply: Reply::None };

    /// Judges the evidence.
    pub fn outcome(self) -> Outcome {
        match (self.reply, self.written) {
            (Reply::Response, _) => Outcome::Answered,
            (Reply::RefusedByTransport | Reply::SessionGone | Reply::HeadersRefused | Reply::Unprocessed(_), _) => {
                Outcome::Refused
            }
            (Reply::Status(status), _) if proves_refusal(status) => Outcome::Refused,
            // A body that the peer cannot have received whole was not processed, whatever its early reply.
            (Reply::None | Reply::Unreadable | Reply::Status(500..), Written::Nothing | Written::Partial) => {
                Outcome::NotSent
            }
            (Reply::None | Reply::Unreadable | Reply::Status(500..), Written::Whole) => Outcome::Unknown,
            // Any other status without a JSON-RPC response: the server received the request and may have run it.
            (Reply::Status(_), Written::Whole) => Outcome::Unknown,
            (Reply::Status(_), Written::Nothing | Written::Partial) => Outcome::NotSent,
        }
    }
}

/// Returns whether this status, without a JSON-RPC response, proves that the server did not process the request. Such a
/// status is about the credential, the URL, the method, the headers, the size or the rate, which are checked before
/// processing, or it redirects the same request. Any other status may come from code behind the tool.
pub fn proves_refusal(status: u16) -> bool {
    matches!(status, 307 | 308 | 401 | 403..=406 | 411 | 413..=415 | 421 | 425 | 426 | 429 | 431)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_evidence_table_has_its_outcome() {
        use Written::{Nothing, Partial, Whole};
        let rows = [
            // not_sent: the peer cannot have the whole request.
            ("DNS, connect or TLS failed", Nothing, Reply::None, Outcome::NotSent),
            ("a pooled connection found dead before the write", Nothing, Reply::None, Outcome::NotSent),
            ("the body was cut short of its length", Partial, Reply::None, Outcome::NotSent),
            ("a line short of its end", Partial, Reply::None, Outcome::NotSent),
            ("an early 500 to half a body", Partial, Reply::Status(500), Outcome::NotSent),
            // refused: the peer says that it did not process it.
            ("HTTP/2 REFUSED_STREAM or GOAWAY below our stream", Whole, Reply::RefusedByTransport, Outcome::Refused),
            ("legacy 404 with a session id", Whole, Reply::SessionGone, Outcome::Refused),
            ("401", Whole, Reply::Status(401), Outcome::Refused),
            ("429", Whole, Reply::Status(429), Outcome::Refused),
            ("400 with HeaderMismatch", Whole, Reply::HeadersRefused, Outcome::Refused),
            ("a status with the rule always", Whole, Reply::Unprocessed(502), Outcome::Refused),
            // unknown: bytes were written, no answer came.
            ("reset or end mid-stream, silence, a dead child", Whole, Reply::None, Outcome::Unknown),
            ("5xx without a JSON-RPC body", Whole, Reply::Status(502), Outcome::Unknown),
            ("an answer that cannot be read", Whole, Reply::Unreadable, Outcome::Unknown),
            ("202 to a request", Whole, Reply::Status(202), Outcome::Unknown),
            ("a redirect that is not followed", Whole, Reply::Status(302), Outcome::Unknown),
            ("a bare 400", Whole, Reply::Status(400), Outcome::Unknown),
            ("408", Whole, Reply::Status(408), Outcome::Unknown),
            // answered.
            ("a JSON-RPC response", Whole, Reply::Response, Outcome::Answered),
        ];
        for (what, written, reply, outcome) in rows {
            assert_eq!(Evidence { written, reply }.outcome(), outcome, "{what}");
        }
    }

    #[test]
    fn t01_only_listed_statuses_prove_refusal_and_none_proves_a_run() {
        let listed = [307, 308, 401, 403, 404, 405, 406, 411, 413, 414, 415, 421, 425, 426, 429, 431];
        for status in 100..600 {
            let expected = if listed.contains(&status) { Outcome::Refused } else { Outcome::Unknown };
            let evidence = Evidence { written: Written::Whole, reply: Reply::Status(status) };
            assert_eq!(evidence.outcome(), expected, "HTTP {status}");
        }
    }

    #[test]
    fn fully_written_call_is_never_not_sent() {
        let replies = [Reply::None, Reply::Unreadable, Reply::SessionGone, Reply::RefusedByTransport]
            .into_iter()
            .chain((100..600).map(Reply::Status));
        for reply in replies {
            assert_ne!(Evidence { written: Written::Whole, reply }.outcome(), Outcome::NotSent, "{reply:?}");
        }
    }
}
