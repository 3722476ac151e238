//! The course of one call, as a running process reports it for `mendline explain`.
//!
//! The members of a step have the names of the members in log lines ([`crate::observe::files`]), so that the same report
//! can be made from a log of a process that is gone. All texts are redacted and escaped.

use mendline_core::event::Answered;
use mendline_core::policy::rule::Rule;
use mendline_core::reason::Reason;
use mendline_core::story::{Step, Story};
use mendline_core::{Event, Outcome};
use serde::{Deserialize, Serialize};

use super::snapshot::ClientInfo;

/// The course of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
    /// The process that handled it.
    pub pid: u32,
    /// The name of the server.
    pub server: String,
    /// The program that started the process or sent the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientInfo>,
    /// The number of the call; a rejected request has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// Its method.
    pub method: String,
    /// The tool that it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The time of its arrival, in microseconds since 1970.
    pub accepted_at: u64,
    /// An attempt was lost, or the call failed or was rejected.
    pub troubled: bool,
    /// What happened after its arrival, but for the end.
    pub steps: Vec<CallStep>,
    /// The number of steps that were beyond the limit.
    #[serde(default)]
    pub omitted: u32,
    /// The end of the call, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<CallStep>,
    /// The last lines of the server's stderr.
    #[serde(default)]
    pub stderr: Vec<StderrLine>,
}

/// A line of a server's stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StderrLine {
    /// Its time, in microseconds since 1970.
    pub at: u64,
    /// The line.
    pub text: String,
}

/// An event of a call or of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallStep {
    /// Its time, in microseconds since 1970.
    pub at: u64,
    /// The stable name of the event.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// The number of the attempt, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The number or the limit of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `not_sent`, `refused`, `unknown` or `answered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The part of the request that the server can have received: `nothing`, `partial` or `whole`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// What came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The stable name of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The stable name of the rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The cause of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The kind of the answer: `ok`, `tool_error` or `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The JSON-RPC error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// The time since the arrival of the call, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The time of the last attempt alone: the server's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_ms: Option<u64>,
    /// Whether the server can have received a call that was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<bool>,
}

/// A call that a process knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownCall {
    /// The name of its server.
    pub server: String,
    /// Its number.
    pub call: Option<u64>,
    /// Its tool, else its method.
    pub what: String,
    /// The time of its last event, in microseconds since 1970.
    pub at: u64,
    /// An attempt was lost, or the call failed or was rejected.
    pub troubled: bool,
}

/// The answer about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAnswer {
    /// The call, if the process knows it.
    pub report: Option<Box<CallReport>>,
    /// The calls that the process knows, the newest first.
    pub known: Vec<KnownCall>,
}

impl CallReport {
    /// Makes the report of a story. `shown` redacts and escapes a text.
    pub(crate) fn of(story: &Story, shown: &dyn Fn(&str) -> String) -> CallReport {
        CallReport {
            call: story.call,
            method: story.method.name().unwrap_or("request").to_owned(),
            tool: story.tool.as_ref().map(|tool| shown(tool.as_str())),
            accepted_at: story.accepted_at,
            troubled: story.is_troubled(),
            steps: story.steps.iter().map(|step| CallStep::of(step, shown)).collect(),
            omitted: story.omitted,
            end: story.end.as_ref().map(|step| CallStep::of(step, shown)),
            ..CallReport::default()
        }
    }

    /// Returns its tool, else its method.
    pub fn what(&self) -> &str {
        self.tool.as_deref().unwrap_or(&self.method)
    }

    /// Returns the time of its last event.
    pub fn last_at(&self) -> u64 {
        let last = self.end.as_ref().or(self.steps.last());
        last.map_or(self.accepted_at, |step| step.at.max(self.accepted_at))
    }
}

impl CallStep {
    fn of(step: &Step, shown: &dyn Fn(&str) -> String) -> CallStep {
        let event = &step.event;
        let base = CallStep {
            at: step.at,
            kind: event.name().to_owned(),
            text: shown(&event.to_string()),
            ..CallStep::default()
        };
        let word = |word: &str| Some(word.to_owned());
        match event {
            Event::AttemptStarted { attempt, .. } => CallStep { attempt: Some(*attempt), ..base },
            Event::AttemptEnded { attempt, outcome, evidence, why, .. } => CallStep {
                attempt: Some(*attempt),
                outcome: word(outcome.word()),
                written: word(evidence.written.word()),
                reply: word(evidence.reply.word()),
                ..base.because(why)
            },
            Event::CallRetried { attempt, most, outcome, rule, why, .. } => CallStep {
                attempt: Some(*attempt),
                attempts: Some(*most),
                outcome: word(outcome.word()),
                rule: word(rule.name()),
                ..base.because(why)
            },
            Event::CallFailed { attempts, cause, outcome, rule, took, why, .. } => CallStep {
                attempts: Some(*attempts),
                cause: word(cause.word()),
                code: Some(cause.code()),
                outcome: word(outcome.word()),
                rule: word(rule.name()),
                took_ms: Some(took.as_millis() as u64),
                ..base.because(why)
            },
            Event::CallRejected { cause, why, .. } => CallStep {
                cause: word(cause.word()),
                code: Some(cause.code()),
                outcome: word(Outcome::NotSent.word()),
                rule: word(Rule::of_rejection(*cause, why).name()),
                ..base.because(why)
            },
            Event::CallAnswered { attempts, result, took, attempt_took, .. } => CallStep {
                attempts: Some(*attempts),
                result: word(match result {
                    Answered::Ok => "ok",
                    Answered::ToolError => "tool_error",
                    Answered::Error(_) => "error",
                }),
                code: match result {
                    Answered::Error(code) => Some(*code),
                    _ => None,
                },
                took_ms: Some(took.as_millis() as u64),
                attempt_ms: Some(attempt_took.as_millis() as u64),
                ..base
            },
            Event::CallCancelled { sent, .. } => CallStep { sent: Some(*sent), ..base },
            Event::CallAbandoned { was_out, .. } => CallStep { sent: Some(*was_out), ..base },
            Event::VerdictAwaited { why, .. }
            | Event::HintsAwaited { why, .. }
            | Event::ServerSuspected { why, .. }
            | Event::LoginRequired { why, .. }
            | Event::SessionReplayFailed { why, .. }
            | Event::LinkStateChanged { why: Some(why), .. } => base.because(why),
            _ => base,
        }
    }

    fn because(self, why: &Reason) -> CallStep {
        CallStep { reason: Some(why.name().to_owned()), status: why.status(), ..self }
    }
}
