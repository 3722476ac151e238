//! Messages from the server: responses, errors, progress, log messages and requests.

use std::borrow::Cow;
use std::time::Duration;

use mendline::observe::redact::Redactor;
use mendline_wire::code;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::cli::{NEEDS_LOGIN, NEGATIVE, NOT_SENT, OUTCOME_UNKNOWN};

/// The reason why a request has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestError {
    /// An error response, from the server or from Mendline.
    Error {
        code: i64,
        message: String,
        /// The facts about the failure, if the error is Mendline's.
        failure: Option<Failure>,
    },
    /// The response is not what the method requires.
    InvalidResponse(String),
    /// No response within this time.
    Timeout(Duration),
    /// The server was unavailable, for this reason.
    Unavailable(String),
    /// The driver has ended.
    Closed,
}

/// The facts of a failure that Mendline reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) cause: String,
    pub(crate) outcome: String,
    pub(crate) detail: String,
}

impl Failure {
    /// Reads `error.data` or `_meta["dev.mendline/failure"]`.
    pub(crate) fn of(facts: &Value) -> Option<Failure> {
        let text = |name: &str| facts[name].as_str().map(str::to_owned);
        Some(Failure { cause: text("cause")?, outcome: text("outcome")?, detail: text("detail").unwrap_or_default() })
    }

    /// Returns the exit code of the failure.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.cause.as_str(), self.outcome.as_str()) {
            ("needs_login", _) => NEEDS_LOGIN,
            (_, "unknown") => OUTCOME_UNKNOWN,
            (_, "not_sent" | "refused") => NOT_SENT,
            _ => NEGATIVE,
        }
    }
}

impl RequestError {
    /// Returns whether the server itself reported the error.
    pub(crate) fn is_from_server(&self) -> bool {
        matches!(self, RequestError::Error { failure: None, .. })
    }

    /// Converts the error of a request that only precedes a call: the call itself was not sent.
    pub(crate) fn before_a_call(self) -> RequestError {
        match &self {
            RequestError::Error { failure: Some(failure), .. } if failure.exit_code() == OUTCOME_UNKNOWN => {
                RequestError::Unavailable(self.words())
            }
            _ => self,
        }
    }

    /// Returns the exit code of the error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            RequestError::Error { failure: Some(failure), .. } => failure.exit_code(),
            RequestError::Error { .. } | RequestError::InvalidResponse(_) => NEGATIVE,
            RequestError::Timeout(_) | RequestError::Unavailable(_) | RequestError::Closed => NOT_SENT,
        }
    }

    /// Removes secrets from the server's message.
    pub(super) fn redacted(self, redactor: &Redactor) -> RequestError {
        match self {
            RequestError::Error { code, message, failure } => {
                RequestError::Error { code, message: redacted(&message, redactor), failure }
            }
            other => other,
        }
    }

    /// Returns a message for a person.
    pub(crate) fn words(&self) -> String {
        match self {
            RequestError::Error { message, failure: Some(failure), .. } if failure.detail.is_empty() => message.clone(),
            RequestError::Error { failure: Some(failure), .. } => failure.detail.clone(),
            RequestError::Error { code, message, .. } => format!("{message} (error {code})"),
            RequestError::InvalidResponse(words) | RequestError::Unavailable(words) => words.clone(),
            RequestError::Timeout(time) => format!("no answer within {}", humantime::format_duration(*time)),
            RequestError::Closed => "the connection ended".to_owned(),
        }
    }
}

/// A message from the server beside the response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Notification {
    Progress(Progress),
    /// A log message of the server.
    Log {
        level: String,
        text: String,
    },
    /// A request of the server with this method, which was declined.
    RequestDeclined(String),
}

/// Progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

impl Progress {
    pub(super) fn redacted(mut self, redactor: &Redactor) -> Progress {
        self.message = self.message.map(|message| redacted(&message, redactor));
        self
    }
}

/// Removes secrets from text of a server.
pub(super) fn redacted(text: &str, redactor: &Redactor) -> String {
    String::from_utf8_lossy(&redactor.redact(text.as_bytes())).into_owned()
}

/// An incoming message.
pub(super) enum Incoming {
    Result { to: u64, result: Box<RawValue> },
    Error { to: u64, trouble: RequestError },
    Request { id: Box<RawValue>, method: String },
    Progress(Progress),
    Log { level: String, text: String },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

/// Parses a line, if it is a message that this client handles.
pub(super) fn parse(line: &str) -> Option<Incoming> {
    let envelope: Envelope<'_> = serde_json::from_str(line).ok()?;
    let to = || envelope.id.and_then(|id| id.get().parse().ok());
    match (envelope.method, envelope.id) {
        (Some(method), Some(id)) => Some(Incoming::Request { id: id.to_owned(), method: method.into_owned() }),
        (Some(method), None) => {
            let params: Value = serde_json::from_str(envelope.params?.get()).ok()?;
            notice(&method, &params)
        }
        (None, _) => match (envelope.result, envelope.error) {
            (Some(result), _) => Some(Incoming::Result { to: to()?, result: result.to_owned() }),
            (None, Some(error)) => Some(Incoming::Error { to: to()?, trouble: trouble(&error) }),
            (None, None) => None,
        },
    }
}

fn notice(method: &str, params: &Value) -> Option<Incoming> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match method {
        "notifications/progress" => {
            let (done, total, message) =
                (params["progress"].as_f64()?, params["total"].as_f64(), text(&params["message"]));
            Some(Incoming::Progress(Progress { done, total, message }))
        }
        "notifications/message" => {
            let data = &params["data"];
            let said = text(data).or_else(|| text(&data["message"])).unwrap_or_else(|| data.to_string());
            Some(Incoming::Log { level: text(&params["level"]).unwrap_or_else(|| "info".to_owned()), text: said })
        }
        _ => None,
    }
}

fn trouble(error: &Value) -> RequestError {
    RequestError::Error {
        code: error["code"].as_i64().unwrap_or(code::INTERNAL_ERROR),
        message: error["message"].as_str().unwrap_or("an error without a message").to_owned(),
        failure: Failure::of(&error["data"]),
    }
}

/// Returns the response that declines a request of the server. It never gives consent.
pub(super) fn decline_request(id: &RawValue, method: &str) -> String {
    let answer = match refusal(method) {
        Some(result) => format!(r#""result":{result}"#),
        None => {
            let message = format!("{method} is not supported: this client is a command line");
            format!(r#""error":{}"#, json!({ "code": code::METHOD_NOT_FOUND, "message": message }))
        }
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#)
}

/// Returns the result that declines a method, if the method has one.
fn refusal(method: &str) -> Option<Value> {
    match method {
        "ping" => Some(json!({})),
        "elicitation/create" => Some(json!({ "action": "decline" })),
        "roots/list" => Some(json!({ "roots": [] })),
        _ => None,
    }
}

/// Input that a modern server requires before it answers.
pub(super) struct InputRequests {
    asked: Vec<(String, String)>,
    pub(super) state: Option<Value>,
}

/// Returns the input requests of a result, if it is not complete.
pub(super) fn input_requests(result: &RawValue) -> Option<InputRequests> {
    // Results may be large, so only one with this word is parsed.
    if !result.get().contains("input_required") {
        return None;
    }
    let said: Value = serde_json::from_str(result.get()).ok()?;
    (said["resultType"] == "input_required").then(|| {
        let asked = said["inputRequests"].as_object().into_iter().flatten();
        let asked =
            asked.map(|(key, it)| (key.clone(), it["method"].as_str().unwrap_or_default().to_owned())).collect();
        InputRequests { asked, state: said.get("requestState").cloned() }
    })
}

impl InputRequests {
    /// Declines all requests, or returns an error if one cannot be declined.
    pub(super) fn declined(&self) -> Result<Map<String, Value>, RequestError> {
        let decline = |(key, method): &(String, String)| match refusal(method) {
            Some(result) => Ok((key.clone(), result)),
            None => {
                let words = format!("it requires {method}, which a command line cannot provide");
                Err(RequestError::InvalidResponse(words))
            }
        };
        self.asked.iter().map(decline).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> RequestError {
        match parse(text) {
            Some(Incoming::Error { trouble, .. }) => trouble,
            _ => panic!("no error: {text}"),
        }
    }

    #[test]
    fn mendline_failures_and_server_errors_have_different_exit_codes() {
        for (cause, outcome, code) in [
            ("needs_login", "refused", 6),
            ("outcome_unknown", "unknown", 4),
            ("timed_out", "unknown", 4),
            ("unavailable", "not_sent", 5),
            ("rate_limited", "refused", 5),
        ] {
            let data = json!({ "cause": cause, "outcome": outcome, "detail": "why" });
            let line = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -31001, "message": "m", "data": data } });
            let trouble = error(&line.to_string());
            assert_eq!((trouble.exit_code(), trouble.words()), (code, "why".to_owned()), "{cause}");
        }
        let lost = json!({ "cause": "timed_out", "outcome": "unknown", "detail": "why" });
        let lost = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -31003, "message": "m", "data": lost } });
        assert_eq!(error(&lost.to_string()).before_a_call().exit_code(), 5, "a lost handshake is no call");
        let plain = error(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no tool x"}}"#);
        assert_eq!((plain.exit_code(), plain.words()), (1, "no tool x (error -32602)".to_owned()));
        assert!(plain.is_from_server());
    }

    #[test]
    fn server_requests_are_declined_without_consent() {
        let id = RawValue::from_string("\"q-1\"".to_owned()).unwrap();
        assert_eq!(
            decline_request(&id, "elicitation/create"),
            r#"{"jsonrpc":"2.0","id":"q-1","result":{"action":"decline"}}"#
        );
        assert!(decline_request(&id, "sampling/createMessage").contains("-32601"));
        assert!(decline_request(&id, "ping").ends_with(r#""result":{}}"#));
    }

    #[test]
    fn input_requests_are_declined_or_rejected() {
        let wants = |method: &str| {
            let text = json!({ "resultType": "input_required", "inputRequests": { "k": { "method": method } } });
            input_requests(&RawValue::from_string(text.to_string()).unwrap()).unwrap().declined()
        };
        assert_eq!(wants("elicitation/create").unwrap()["k"], json!({ "action": "decline" }));
        assert!(wants("sampling/createMessage").unwrap_err().words().contains("sampling/createMessage"));
        let answer = RawValue::from_string(r#"{"content":[{"text":"input_required"}]}"#.to_owned()).unwrap();
        assert!(input_requests(&answer).is_none(), "a text that only says the word is an answer");
    }

    #[test]
    fn meaningless_lines_are_ignored() {
        for line in ["", "{}", "[]", r#"{"method":"notifications/progress"}"#, r#"{"id":"x","result":{}}"#] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
