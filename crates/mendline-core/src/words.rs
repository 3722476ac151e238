//! The texts of failed calls for models.
//!
//! One table. A model needs three facts about a failure: what happened, whether the call ran, and what to do next. A
//! failed `tools/call` is a *result* with `isError: true`, because that reaches the model; any other method gets a
//! JSON-RPC error with a code of ours, outside the range that the specification reserves. Programs read the same facts
//! in `_meta["dev.mendline/failure"]` or `error.data`. An upstream's own answers do not pass through here.

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Id, Method, code, meta};
use serde_json::{Value, json};

use crate::config::{CredentialKind, FailureForm};
use crate::event::Wait;
use crate::evidence::Outcome;
use crate::reason::Reason;

/// The key of our facts in `_meta`.
pub const FAILURE_KEY: &str = meta::FAILURE;

/// The error codes of Mendline. `data` of an error with such a code holds our facts, never a server's.
pub const CODES: std::ops::RangeInclusive<i64> = -31010..=-31001;

/// The cause of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The upstream is not up.
    Unavailable,
    /// It was sent, and whether it ran is unknown.
    OutcomeUnknown,
    /// Its deadline passed.
    TimedOut,
    /// Too many calls wait.
    Overloaded,
    /// The rate limit of the upstream, or ours, is reached.
    RateLimited,
    /// A breaker is open.
    BreakerOpen,
    /// The upstream is parked.
    Parked,
    /// A person has to log in.
    NeedsLogin,
    /// The server's reply cannot be passed on: no transport in common, or an unreadable response.
    CannotBridge,
    /// The server rejected the request and did not process it.
    Refused,
    /// The server supports only revisions before 2026-07-28. A client that probes the era with `server/discover`
    /// expects the reply of such a server over stdio, *method not found*, and then initializes with `initialize`. So
    /// this is the one cause with a code that is not ours.
    OtherEra,
}

impl Cause {
    /// The JSON-RPC error code.
    pub fn code(self) -> i64 {
        match self {
            Cause::Unavailable => -31001,
            Cause::OutcomeUnknown => -31002,
            Cause::TimedOut => -31003,
            Cause::Overloaded => -31004,
            Cause::RateLimited => -31005,
            Cause::BreakerOpen => -31006,
            Cause::Parked => -31007,
            Cause::NeedsLogin => -31008,
            Cause::CannotBridge => -31009,
            Cause::Refused => -31010,
            Cause::OtherEra => code::METHOD_NOT_FOUND,
        }
    }

    /// The name of the cause in machine-readable facts.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Unavailable => "unavailable",
            Cause::OutcomeUnknown => "outcome_unknown",
            Cause::TimedOut => "timed_out",
            Cause::Overloaded => "overloaded",
            Cause::RateLimited => "rate_limited",
            Cause::BreakerOpen => "breaker_open",
            Cause::Parked => "parked",
            Cause::NeedsLogin => "needs_login",
            Cause::CannotBridge => "cannot_bridge",
            Cause::Refused => "refused",
            Cause::OtherEra => "other_era",
        }
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Its number in events and logs, if it was accepted.
    pub call: Option<u64>,
    /// The cause.
    pub cause: Cause,
    /// The outcome.
    pub outcome: Outcome,
    /// Whether calling again is safe.
    pub retryable: bool,
    /// The number of attempts.
    pub attempts: u32,
    /// The time after which a retry makes sense.
    pub retry_after: Option<Duration>,
    /// The name of the upstream.
    pub upstream: String,
    /// The tool's name, else the method.
    pub what: String,
    /// The reason.
    pub why: Reason,
    /// Only a person can remove the cause: a missing command, a certificate, a login.
    pub needs_person: bool,
    /// The origin of the server's credential.
    pub credential: CredentialKind,
    /// The request was of the modern era, whose results name their type.
    pub modern: bool,
    /// The form of the answer to `tools/call`.
    pub form: FailureForm,
}

impl Failure {
    /// The text for a model.
    pub fn text(&self) -> String {
        let Failure { what, upstream, why: detail, .. } = self;
        let not_sent = if self.attempts == 0 { "not sent" } else { "not sent again" };
        let happened = match self.cause {
            Cause::Unavailable if detail.is_about_credential() => {
                format!("{what} failed: there is no valid credential for the server {upstream:?} yet ({detail}).")
            }
            Cause::Unavailable if self.outcome == Outcome::Refused => {
                format!("{what} failed: the server {upstream:?} did not accept it ({detail}).")
            }
            Cause::Unavailable => format!("{what} failed: the server {upstream:?} could not be reached ({detail})."),
            Cause::OutcomeUnknown => {
                format!("{what} was sent to the server {upstream:?}, but got no result ({detail}).")
            }
            Cause::TimedOut => format!("{what} got no answer from the server {upstream:?} in time ({detail})."),
            Cause::Overloaded => {
                format!("{what} was not sent: too many calls to the server {upstream:?} are waiting ({detail}).")
            }
            Cause::RateLimited => {
                format!("{what} was {not_sent}: the rate of calls to the server {upstream:?} is limited ({detail}).")
            }
            Cause::BreakerOpen => {
                format!("{what} was {not_sent}: calls to the server {upstream:?} are held back ({detail}).")
            }
            Cause::Parked if self.needs_person => {
                format!("{what} was not sent: the server {upstream:?} cannot be used ({detail}).")
            }
            Cause::Parked => format!(
                "{what} was not sent: the server {upstream:?} keeps failing and is tried only now and then ({detail})."
            ),
            Cause::NeedsLogin if self.outcome == Outcome::NotSent => {
                format!("{what} was not sent: the server {upstream:?} needs a login ({detail}).")
            }
            Cause::NeedsLogin => format!("{what} was refused: the server {upstream:?} needs a login ({detail})."),
            Cause::CannotBridge => {
                format!("{what} cannot be completed through this connection to the server {upstream:?} ({detail}).")
            }
            Cause::Refused => format!("{what} was refused by the server {upstream:?} ({detail})."),
            Cause::OtherEra => {
                format!("{what} is not known to the server {upstream:?}, which needs `initialize` first ({detail}).")
            }
        };
        let ran = match self.outcome {
            Outcome::NotSent => "It did not run.",
            Outcome::Refused => "The server did not run it.",
            Outcome::Unknown if self.retryable => "It may have run, but running it again does no harm.",
            Outcome::Unknown => "It may or may not have run.",
            Outcome::Answered => "The server answered it, so it may have run.",
        };
        format!("{happened} {ran} {}", self.next_step())
    }

    fn next_step(&self) -> String {
        let is_uncertain = !self.retryable && self.outcome == Outcome::Unknown;
        let check = if is_uncertain { "Check whether it took effect before you call it again. " } else { "" };
        match self.retry_after {
            _ if self.cause == Cause::NeedsLogin => {
                format!("{check}Retrying will not help. {}", ask_for_login(&self.upstream, self.credential))
            }
            _ if self.needs_person => {
                format!("{check}Retrying will not help. Ask the user to run `mendline doctor {}`.", self.upstream)
            }
            None if self.retryable && self.cause == Cause::BreakerOpen => {
                "Ask the user to resume it, then call it again.".to_owned()
            }
            Some(wait) if self.retryable => format!("Try again in {}.", Wait(wait)),
            None if self.retryable => "You can try again.".to_owned(),
            _ if is_uncertain => check.trim_end().to_owned(),
            _ => "Calling it again the same way will not help.".to_owned(),
        }
    }

    fn facts(&self) -> Value {
        json!({
            "cause": self.cause.word(),
            "outcome": self.outcome.word(),
            "retryable": self.retryable,
            "attempts": self.attempts,
            "retryAfterMs": self.retry_after.map(whole_millis),
            "upstream": self.upstream,
            "call": self.call,
            "reason": self.why.name(),
            "detail": self.why.to_string(),
        })
    }

    /// The whole response for the request with this id.
    pub fn response(&self, id: &Id, method: Method) -> Bytes {
        let text = self.text();
        if method == Method::ToolsCall && self.form == FailureForm::Result {
            let mut result = json!({
                "content": [{ "type": "text", "text": text }],
                "isError": true,
                "_meta": { FAILURE_KEY: self.facts() },
            });
            if self.modern {
                result["resultType"] = json!("complete");
            }
            respond(id, "result", &result)
        } else {
            respond(id, "error", &json!({ "code": self.cause.code(), "message": text, "data": self.facts() }))
        }
    }
}

/// A wait in milliseconds, rounded up, so that a retry after it is not too early.
fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A JSON-RPC error response of Mendline that is not about an upstream, for example for a malformed request.
pub fn error_response(id: &Id, code: i64, message: &str) -> Bytes {
    respond(id, "error", &json!({ "code": code, "message": message }))
}

/// The reason why the call of a tool is refused that the configuration denies.
pub fn denied_tool(tool: &str) -> String {
    format!("The tool {tool:?} was not called: it is not allowed here. It did not run. Calling it again will not help.")
}

/// The answer to a request whose stream was lost when the gateway ended.
pub fn lost_answer(id: &Id) -> Bytes {
    let text = "The gateway was restarted or has closed the session of this request, and the answer is lost. Whether it ran is \
                unknown. A request that only reads can be made again; check the result of any other before that.";
    let facts = json!({ "outcome": "unknown", "retryable": false });
    respond(id, "error", &json!({ "code": Cause::OutcomeUnknown.code(), "message": text, "data": facts }))
}

/// The answer to a request that was cancelled, or whose session has ended, before it was answered.
pub fn ended_without_answer(id: &Id) -> Bytes {
    let text = "This request was cancelled or its session has ended before it was answered. Whether it ran is unknown. A \
                request that only reads can be made again; check the result of any other before that.";
    let facts = json!({ "outcome": "unknown", "retryable": false });
    respond(id, "error", &json!({ "code": Cause::OutcomeUnknown.code(), "message": text, "data": facts }))
}

/// The answer to a request whose answer was dropped, because its client did not read it for too long.
pub fn dropped_answer(id: &Id) -> Bytes {
    let text = "The server has answered this request, or the client has cancelled it. The gateway kept the answer for \
                as long as it had room, and has dropped it. A request that only reads can be made again; check the \
                result of any other before that.";
    let facts = json!({ "outcome": "answered", "retryable": false });
    respond(id, "error", &json!({ "code": Cause::OutcomeUnknown.code(), "message": text, "data": facts }))
}

/// A `notifications/progress` of Mendline, under the client's token as it was written.
pub fn progress(token: &[u8], progress: f64, message: &str) -> Bytes {
    let mut text = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#.to_vec();
    text.extend_from_slice(token);
    text.extend_from_slice(
        format!(r#","progress":{},"message":{}}}}}"#, json!(progress), Value::from(message)).as_bytes(),
    );
    text.into()
}

/// Returns the instructions of a provisional handshake with a server that needs a login.
pub fn login_missing(name: &str, problem: &str, credential: CredentialKind) -> String {
    let ask = ask_for_login(name, credential);
    format!(
        "The server {name:?} needs a login: {problem}. Retrying will not help. {ask} Its tools appear when it accepts \
         requests."
    )
}

/// Returns what the user can do about a missing or refused credential.
fn ask_for_login(name: &str, credential: CredentialKind) -> String {
    match credential {
        CredentialKind::Login => format!("Ask the user to run `mendline login {name}`."),
        CredentialKind::Source => format!(
            "Ask the user to provide a valid credential in its source; `mendline doctor {name}` shows what is missing."
        ),
        CredentialKind::Fixed => format!(
            "Ask the user to log in or to provide a valid credential; `mendline doctor {name}` shows what is missing."
        ),
    }
}

/// Returns the instructions of a provisional handshake.
pub fn not_started(name: &str, problem: &str) -> String {
    format!(
        "The server {name:?} is not available yet: {problem}. Mendline goes on to connect to it; its tools appear when it \
         is available. If this lasts, ask the user to run `mendline doctor {name}`."
    )
}

/// A `notifications/cancelled` of Mendline.
pub fn cancelled(id: &Id, reason: &str) -> Bytes {
    let mut text = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#.to_vec();
    text.extend_from_slice(id.as_bytes());
    text.extend_from_slice(format!(r#","reason":{}}}}}"#, Value::from(reason)).as_bytes());
    text.into()
}

/// The `notifications/initialized` of a client whose handshake Mendline made.
pub fn initialized() -> Bytes {
    Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
}

fn respond(id: &Id, member: &str, value: &Value) -> Bytes {
    // The id keeps its bytes; a Value would round large numbers.
    let mut text = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    text.extend_from_slice(id.as_bytes());
    text.extend_from_slice(format!(r#","{member}":{value}}}"#).as_bytes());
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::{Exit, LossReason};

    fn failure(cause: Cause, outcome: Outcome, retryable: bool) -> Failure {
        Failure {
            call: Some(65_537),
            cause,
            outcome,
            retryable,
            attempts: 1,
            retry_after: None,
            upstream: "notes".into(),
            what: "create_note".into(),
            why: Reason::Loss(LossReason::Exited(Exit::Signal(9))),
            needs_person: false,
            credential: CredentialKind::Fixed,
            modern: false,
            form: FailureForm::Result,
        }
    }

    #[test]
    fn w03_only_modern_results_name_their_type() {
        for (modern, expected) in [(true, json!("complete")), (false, Value::Null)] {
            let lost = Failure { modern, ..failure(Cause::OutcomeUnknown, Outcome::Unknown, false) };
            let tool: Value = serde_json::from_slice(&lost.response(&Id::number(1), Method::ToolsCall)).unwrap();
            assert_eq!(tool["result"]["resultType"], expected);
        }
    }

    #[test]
    fn t02_failure_that_needs_a_person_is_not_retryable() {
        let missing = Failure { needs_person: true, ..failure(Cause::Parked, Outcome::NotSent, false) };
        let text = missing.text();
        assert!(text.ends_with("Retrying will not help. Ask the user to run `mendline doctor notes`."), "{text}");
        let lost = Failure { needs_person: true, ..failure(Cause::Unavailable, Outcome::Unknown, false) };
        assert!(lost.text().contains("Check whether it took effect"), "{}", lost.text());
    }

    #[test]
    fn text_says_what_happened_whether_it_ran_and_next_step() {
        let lost = failure(Cause::OutcomeUnknown, Outcome::Unknown, false);
        assert_eq!(
            lost.text(),
            "create_note was sent to the server \"notes\", but got no result (the server was killed by signal 9). \
             It may or may not have run. Check whether it took effect before you call it again."
        );
        let down =
            Failure { retry_after: Some(Duration::from_secs(10)), ..failure(Cause::Parked, Outcome::NotSent, true) };
        assert!(down.text().ends_with("It did not run. Try again in 10 s."), "{}", down.text());
    }

    #[test]
    fn failed_tool_call_is_a_result_other_methods_get_errors() {
        let lost = failure(Cause::OutcomeUnknown, Outcome::Unknown, false);
        let id = Id::from_raw(b"123456789012345678901234567890");
        let tool: Value = serde_json::from_slice(&lost.response(&id, Method::ToolsCall)).unwrap();
        assert_eq!(tool["result"]["isError"], true);
        assert_eq!(tool["result"]["_meta"][FAILURE_KEY]["outcome"], "unknown");
        assert_eq!(tool["result"]["_meta"][FAILURE_KEY]["call"], 65_537, "the number for `mendline logs --call`");
        let other = lost.response(&id, Method::ToolsList);
        assert!(other.starts_with(br#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"error":"#));
        let other: Value = serde_json::from_slice(&other).unwrap();
        assert_eq!(
            (&other["error"]["code"], &other["error"]["data"]["cause"]),
            (&json!(-31002), &json!("outcome_unknown"))
        );
    }

    #[test]
    fn failed_tool_call_is_an_error_if_configured() {
        let lost = Failure { form: FailureForm::Error, ..failure(Cause::OutcomeUnknown, Outcome::Unknown, false) };
        let answer: Value = serde_json::from_slice(&lost.response(&Id::number(7), Method::ToolsCall)).unwrap();
        assert_eq!((&answer["id"], &answer["result"]), (&json!(7), &Value::Null));
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["outcome"]),
            (&json!(-31002), &json!("unknown"))
        );
        assert_eq!(answer["error"]["message"], lost.text());
    }

    #[test]
    fn t10_times_to_wait_are_rounded_up() {
        for (micros, words) in [
            (2_996_000, "3.0 s"),
            (2_900_000, "2.9 s"),
            (999_001, "1.0 s"),
            (250_000, "250 ms"),
            (9_999_000, "10 s"),
            (59_001_000, "60 s"),
            (119_000_001, "2 min"),
            (3_600_000_001, "61 min"),
        ] {
            let retry_after = Some(Duration::from_micros(micros));
            let down = Failure { retry_after, ..failure(Cause::Parked, Outcome::NotSent, true) };
            assert!(down.text().ends_with(&format!("Try again in {words}.")), "{micros}: {}", down.text());
        }
    }

    #[test]
    fn hostile_detail_stays_inside_its_string() {
        let mut nasty = failure(Cause::Unavailable, Outcome::NotSent, true);
        nasty.why = Reason::ErrorBody { message: "\"},\"x\":\"\n\u{0}".into() };
        let response = nasty.response(&Id::number(1), Method::ToolsCall);
        assert!(!response.contains(&b'\n'));
        serde_json::from_slice::<Value>(&response).unwrap();
    }
}
