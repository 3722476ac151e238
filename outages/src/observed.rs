//! The facts of one cell: what the client sent and got, and what the server really did.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Initialize,
    List,
    Read,
    Unsafe,
}

impl Kind {
    /// Returns the first letters of the ids of this kind.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Kind::Initialize => "initialize-",
            Kind::List => "list-",
            Kind::Read => "read-",
            Kind::Unsafe => "unsafe-",
        }
    }
}

/// A request and its answers. Times are counted from the beginning of the cell.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) sent: Duration,
    /// True if it was in flight when the outage began.
    pub(crate) in_flight: bool,
    pub(crate) answers: Vec<Answer>,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) at: Duration,
    pub(crate) result: AnswerResult,
    /// The SHA-256 of the bytes of a result.
    pub(crate) digest: Option<String>,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnswerResult {
    /// A result of the server. For a handshake: the name of the server and the instructions.
    Success { server: Option<String>, instructions: Option<String> },
    /// A failure, of Mendline or of the server.
    Failure { code: Option<i64>, outcome: Option<String>, attempts: Option<u64>, text: String },
}

impl Answer {
    /// Reads an answer that arrived in this line at this time.
    pub(crate) fn read(line: &str, message: &Value, at: Duration) -> Answer {
        let bytes = serde_json::from_str::<BTreeMap<String, &RawValue>>(line).unwrap_or_default();
        let digest = bytes.get("result").map(|result| sha256(result.get()));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let error = &message["error"];
        let result = &message["result"];
        let failure = if error.is_object() {
            Some((error["code"].as_i64(), &error["data"], text(&error["message"])))
        } else if result["isError"] == Value::Bool(true) {
            let facts = &result["_meta"]["dev.mendline/failure"];
            Some((facts["code"].as_i64(), facts, text(&result["content"][0]["text"])))
        } else if result.is_object() {
            None
        } else {
            Some((None, &Value::Null, Some(format!("not an answer: {message}"))))
        };
        let result = match failure {
            Some((code, facts, message)) => AnswerResult::Failure {
                code,
                outcome: text(&facts["outcome"]),
                attempts: facts["attempts"].as_u64(),
                text: message.unwrap_or_default(),
            },
            None => AnswerResult::Success {
                server: text(&result["serverInfo"]["name"]),
                instructions: text(&result["instructions"]),
            },
        };
        Answer { at, result, digest }
    }

    pub(crate) fn is_success(&self) -> bool {
        matches!(self.result, AnswerResult::Success { .. })
    }

    /// Returns the outcome of a failure.
    pub(crate) fn outcome(&self) -> Option<&str> {
        match &self.result {
            AnswerResult::Failure { outcome, .. } => outcome.as_deref(),
            AnswerResult::Success { .. } => None,
        }
    }

    /// Returns whether a failure says that the retry budget ended its attempts.
    pub(crate) fn names_retry_budget(&self) -> bool {
        matches!(&self.result, AnswerResult::Failure { text, .. } if text.contains("the retry budget is spent"))
    }

    /// Returns the attempts that a failure reports.
    pub(crate) fn attempts(&self) -> Option<u64> {
        match self.result {
            AnswerResult::Failure { attempts, .. } => attempts,
            AnswerResult::Success { .. } => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            AnswerResult::Success { .. } => write!(f, "success at {:.2} s", self.at.as_secs_f64()),
            AnswerResult::Failure { outcome, attempts, text, .. } => {
                let outcome = outcome.as_deref().unwrap_or("none");
                write!(f, "failure at {:.2} s (outcome {outcome}", self.at.as_secs_f64())?;
                if let Some(attempts) = attempts {
                    write!(f, ", attempts {attempts}")?;
                }
                write!(f, "): {}", text.chars().take(200).collect::<String>())
            }
        }
    }
}

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request that arrived at the server.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Duration,
    /// The JSON-RPC method, or the HTTP method if there is none.
    pub(crate) what: String,
    /// The key of a call.
    pub(crate) key: Option<String>,
    /// True if the outage met it.
    pub(crate) met_outage: bool,
}

/// All facts of one cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The start of the client.
    pub(crate) start: Duration,
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
    pub(crate) calls: Vec<Call>,
    /// Ids of answers that no request had.
    pub(crate) strays: Vec<String>,
    pub(crate) executions: BTreeMap<String, u64>,
    pub(crate) arrivals: Vec<Arrival>,
    /// Dials of the server, or starts of the command. `None` if they could not be counted.
    pub(crate) dials: Option<Vec<Duration>>,
    /// Requests that followed a redirect to another origin.
    pub(crate) elsewhere: usize,
    pub(crate) exit_code: Option<i32>,
    /// Notifications that a list has changed.
    pub(crate) list_changes: usize,
    /// A read that is slower than every timeout of a balancer.
    pub(crate) stays_slow: Option<String>,
}

impl Observed {
    /// Returns how often a call ran.
    pub(crate) fn runs(&self, key: &str) -> u64 {
        self.executions.get(key).copied().unwrap_or(0)
    }

    /// Returns the SHA-256 of each list that the client got.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &str> {
        let lists = self.calls.iter().filter(|call| call.kind == Kind::List);
        lists.flat_map(|call| &call.answers).filter(|answer| answer.is_success()).filter_map(|it| it.digest.as_deref())
    }

    /// Returns the arrivals of a call.
    pub(crate) fn arrivals_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Arrival> {
        self.arrivals.iter().filter(move |arrival| arrival.key.as_deref() == Some(key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failure_is_read_from_error_and_from_tool_result() {
        let facts = json!({ "outcome": "unknown", "attempts": 3 });
        let error = json!({ "id": "a", "error": { "code": -31002, "message": "m", "data": facts } });
        let read = |message: &Value| Answer::read(&message.to_string(), message, Duration::ZERO);
        let answer = read(&error);
        assert_eq!((answer.outcome(), answer.attempts(), answer.is_success()), (Some("unknown"), Some(3), false));
        let content = json!([{ "type": "text", "text": "m" }]);
        let result = json!({ "isError": true, "content": content, "_meta": { "dev.mendline/failure": facts } });
        assert_eq!(read(&json!({ "id": "a", "result": result })).outcome(), Some("unknown"));
        assert!(!read(&json!({ "id": "a" })).is_success(), "no result, no success");
        assert!(read(&json!({ "id": "a", "result": {} })).is_success());
    }

    #[test]
    fn digest_is_that_of_the_bytes_of_the_result() {
        let digest = |line: &str| Answer::read(line, &Value::Null, Duration::ZERO).digest.unwrap();
        let [first, other] = [r#"{"id":1,"result":{"a":1,"b":2}}"#, r#"{"result":{"a":1,"b":2},"id":2}"#].map(digest);
        assert_eq!(first, other);
        assert_ne!(first, digest(r#"{"id":1,"result":{"b":2,"a":1}}"#), "the order counts");
        assert_eq!(first, "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777");
    }
}
