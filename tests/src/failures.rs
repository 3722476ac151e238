//! Every failure that Mendline can answer with, for the official clients to read.
//!
//! Provoking each failure with real processes would take minutes and miss some. So the table is made from the types:
//! each cause, each outcome, each advice to a model. The program `failures` serves them over stdio, and a client
//! requests them by number.

use std::time::Duration;

use mendline_core::config::{CredentialKind, FailureForm};
use mendline_core::evidence::Outcome;
use mendline_core::reason::{Exit, LossReason, Reason};
use mendline_core::words::{Cause, Failure};
use mendline_wire::{Id, Method};

/// The tool that fails, and one that declares structured content and fails.
pub const TOOLS: [&str; 2] = ["fail", "fail_structured"];

/// The prefix of the resource that fails; the number of the failure follows.
pub const RESOURCE: &str = "failure:///";

/// Returns the reasons, one of them with text from outside.
fn reasons() -> [Reason; 2] {
    let body = "<p class=\"x\">\u{fc}ber\\last\u{1f980}\u{2028}\u{0}\ttoo {\"result\":{}}</p>";
    [
        LossReason::Exited(Exit::Signal(9)).into(),
        Reason::Status { status: 503, body: Some(body.to_owned()), not_json: false },
    ]
}

/// Returns all failures. The era of the request decides the form of a result.
pub fn all(modern: bool) -> Vec<Failure> {
    let mut failures = Vec::new();
    for cause in std::iter::successors(next_cause(None), |cause| next_cause(Some(*cause))) {
        for outcome in std::iter::successors(next_outcome(None), |outcome| next_outcome(Some(*outcome))) {
            for (retryable, retry_after, needs_person) in
                [(false, None, false), (true, None, false), (true, Some(2), false), (false, None, true)]
            {
                for why in reasons() {
                    failures.push(Failure {
                        call: Some(7),
                        cause,
                        outcome,
                        retryable,
                        attempts: u32::from(outcome != Outcome::NotSent),
                        retry_after: retry_after.map(Duration::from_secs),
                        upstream: "notes".into(),
                        what: "create_note".into(),
                        why,
                        needs_person,
                        credential: CredentialKind::Fixed,
                        modern,
                        form: FailureForm::Result,
                    });
                }
            }
        }
    }
    failures
}

/// Returns a failure as the client gets it.
pub fn response(failure: &Failure, id: &Id, method: Method) -> Vec<u8> {
    failure.response(id, method).to_vec()
}

/// Returns the next cause. A new cause does not compile until it is added here.
fn next_cause(cause: Option<Cause>) -> Option<Cause> {
    match cause {
        None => Some(Cause::Unavailable),
        Some(Cause::Unavailable) => Some(Cause::OutcomeUnknown),
        Some(Cause::OutcomeUnknown) => Some(Cause::TimedOut),
        Some(Cause::TimedOut) => Some(Cause::Overloaded),
        Some(Cause::Overloaded) => Some(Cause::RateLimited),
        Some(Cause::RateLimited) => Some(Cause::BreakerOpen),
        Some(Cause::BreakerOpen) => Some(Cause::Parked),
        Some(Cause::Parked) => Some(Cause::NeedsLogin),
        Some(Cause::NeedsLogin) => Some(Cause::CannotBridge),
        Some(Cause::CannotBridge) => Some(Cause::Refused),
        Some(Cause::Refused) => Some(Cause::OtherEra),
        Some(Cause::OtherEra) => None,
    }
}

/// Returns the next outcome, likewise.
fn next_outcome(outcome: Option<Outcome>) -> Option<Outcome> {
    match outcome {
        None => Some(Outcome::NotSent),
        Some(Outcome::NotSent) => Some(Outcome::Refused),
        Some(Outcome::Refused) => Some(Outcome::Unknown),
        Some(Outcome::Unknown) => Some(Outcome::Answered),
        Some(Outcome::Answered) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn w03_table_has_every_cause_with_every_outcome() {
        let all = all(true);
        assert_eq!(all.len(), 11 * 4 * 4 * 2);
        assert!(all.iter().all(|failure| failure.modern));
        let mut pairs: Vec<_> = all.iter().map(|failure| (failure.cause, failure.outcome)).collect();
        pairs.dedup();
        assert_eq!(pairs.len(), 11 * 4);
    }
}
