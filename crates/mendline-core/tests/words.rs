//! Every text that a model can read from Mendline, in `words.txt` beside this file.
//!
//! A change of a text must change `words.txt` too. The failing test prints the new content.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]
#![allow(clippy::disallowed_methods, reason = "a test may write its own record")]

use std::fmt::Write as _;
use std::time::Duration;

use mendline_core::config::{CredentialKind, FailureForm};
use mendline_core::evidence::Outcome;
use mendline_core::reason::{ConnectError, CredentialError, Exit, LossReason, Reason, RefusalReason, SpawnError};
use mendline_core::words::{Cause, Failure};
use mendline_wire::{Id, Method};

/// Cause, outcome, retryable, attempts, retry time, and reason.
type Case = (Cause, Outcome, bool, u32, Option<u64>, Reason);

/// Returns the cases of the upstream.
fn cases() -> Vec<Case> {
    vec![
        (Cause::Unavailable, Outcome::NotSent, true, 0, Some(2), refused()),
        (Cause::Unavailable, Outcome::Refused, true, 3, Some(5), Reason::StreamRefused),
        (Cause::Unavailable, Outcome::Unknown, true, 2, Some(2), LossReason::Exited(Exit::Signal(9)).into()),
        (Cause::OutcomeUnknown, Outcome::Unknown, false, 1, None, LossReason::Exited(Exit::Signal(9)).into()),
        (Cause::OutcomeUnknown, Outcome::Unknown, true, 3, None, Reason::Unreadable { body: None }),
        (Cause::OutcomeUnknown, Outcome::Unknown, true, 1, None, not_retried()),
        (Cause::TimedOut, Outcome::Unknown, false, 1, None, Reason::TimedOut { after: Some(Duration::from_secs(300)) }),
        (Cause::TimedOut, Outcome::Unknown, true, 1, None, Reason::TimedOut { after: Some(Duration::from_secs(300)) }),
        (
            Cause::TimedOut,
            Outcome::NotSent,
            true,
            0,
            None,
            Reason::Unsent { after: Duration::from_secs(45), why: Box::new(refused()) },
        ),
        (Cause::Overloaded, Outcome::NotSent, true, 0, Some(1), RefusalReason::QueueFull { limit: 1024 }.into()),
        (Cause::RateLimited, Outcome::Refused, true, 1, Some(60), status(429, None)),
        (
            Cause::RateLimited,
            Outcome::NotSent,
            true,
            0,
            Some(3600),
            RefusalReason::Paused { wait: Duration::from_secs(3600) }.into(),
        ),
        (
            Cause::RateLimited,
            Outcome::NotSent,
            true,
            0,
            Some(50),
            RefusalReason::RateLimit { burst: 5, per_second: 0.1, of_tool: false }.into(),
        ),
        (
            Cause::BreakerOpen,
            Outcome::NotSent,
            true,
            0,
            Some(5),
            RefusalReason::BreakerFailures { calls: 5, of_tool: true }.into(),
        ),
        (
            Cause::BreakerOpen,
            Outcome::Unknown,
            true,
            1,
            Some(5),
            RefusalReason::BreakerFailures { calls: 5, of_tool: true }.into(),
        ),
        (
            Cause::BreakerOpen,
            Outcome::NotSent,
            true,
            0,
            Some(9),
            RefusalReason::BreakerRate { failed: 6, calls: 10, of_tool: true }.into(),
        ),
        (Cause::BreakerOpen, Outcome::NotSent, true, 0, None, RefusalReason::Isolated.into()),
        (Cause::Parked, Outcome::NotSent, true, 0, Some(10), crashed()),
        (
            Cause::Parked,
            Outcome::NotSent,
            false,
            0,
            None,
            SpawnError::NotFound { command: "no-such-server".to_owned() }.into(),
        ),
        (Cause::NeedsLogin, Outcome::Refused, false, 1, None, status(401, None)),
        (Cause::NeedsLogin, Outcome::NotSent, false, 0, None, status(401, None)),
        (Cause::NeedsLogin, Outcome::Refused, false, 1, None, CredentialError::NoLogin.into()),
        (Cause::NeedsLogin, Outcome::NotSent, false, 0, None, CredentialError::LoginEnded.into()),
        (
            Cause::NeedsLogin,
            Outcome::Refused,
            false,
            1,
            None,
            CredentialError::Scope { scopes: "notes:write".into() }.into(),
        ),
        (Cause::NeedsLogin, Outcome::Refused, false, 1, None, variable_missing()),
        (Cause::Unavailable, Outcome::Refused, true, 1, Some(1), token_endpoint_down()),
        (Cause::Unavailable, Outcome::NotSent, true, 0, Some(1), RefusalReason::CredentialRenewal.into()),
        (Cause::OutcomeUnknown, Outcome::Unknown, false, 1, None, status(503, Some("Service Unavailable"))),
        (Cause::CannotBridge, Outcome::Answered, false, 1, None, Reason::TooLarge { length: Some(17_000_000) }),
        (Cause::CannotBridge, Outcome::Unknown, false, 1, None, Reason::TooLarge { length: None }),
        (Cause::Refused, Outcome::Refused, false, 1, None, status(403, Some("Blocked by the firewall"))),
    ]
}

fn variable_missing() -> Reason {
    CredentialError::VariableMissing { name: "NOTES_TOKEN".to_owned() }.into()
}

fn token_endpoint_down() -> Reason {
    CredentialError::Unavailable { why: "the token endpoint answered HTTP 503".to_owned() }.into()
}

/// The origin of the credential in a case.
fn kind_of(why: &Reason) -> CredentialKind {
    match why {
        Reason::Credential(CredentialError::VariableMissing { .. }) => CredentialKind::Source,
        Reason::Credential(_) => CredentialKind::Login,
        _ => CredentialKind::Fixed,
    }
}

fn refused() -> Reason {
    ConnectError::Refused { target: "127.0.0.1:8080".to_owned() }.into()
}

fn status(status: u16, body: Option<&str>) -> Reason {
    Reason::Status { status, body: body.map(str::to_owned), not_json: false }
}

fn not_retried() -> Reason {
    Reason::NotRetried(Box::new(status(503, None)))
}

fn crashed() -> Reason {
    let why = Box::new(LossReason::Exited(Exit::Code(1)).into());
    Reason::WithStderr { why, stderr: "Error: no token".to_owned() }
}

#[test]
fn every_failure_text_is_in_words_txt() {
    let mut page = String::new();
    for (cause, outcome, retryable, attempts, retry_after, detail) in cases() {
        let failure = Failure {
            call: Some(7),
            cause,
            outcome,
            retryable,
            attempts,
            retry_after: retry_after.map(Duration::from_secs),
            upstream: "notes".into(),
            what: "create_note".into(),
            credential: kind_of(&detail),
            needs_person: cause == Cause::NeedsLogin || matches!(detail, Reason::Spawn(_)),
            why: detail,
            modern: false,
            form: FailureForm::Result,
        };
        let _ = writeln!(page, "{} {} ({})", cause.code(), cause.word(), outcome.word());
        let _ = writeln!(page, "  {}", failure.text());
        let error = failure.response(&Id::number(7), Method::ToolsList);
        let error: serde_json::Value = serde_json::from_slice(&error).unwrap();
        let _ = writeln!(page, "  {}\n", error["error"]["data"]);
    }
    if std::env::var_os("MENDLINE_RECORD").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/words.txt"), &page).unwrap();
        return;
    }
    assert_eq!(page, include_str!("words.txt"), "the page should be:\n{page}");
}

#[test]
fn every_cause_has_failure_text() {
    for cause in [
        Cause::Unavailable,
        Cause::OutcomeUnknown,
        Cause::TimedOut,
        Cause::Overloaded,
        Cause::RateLimited,
        Cause::BreakerOpen,
        Cause::Parked,
        Cause::NeedsLogin,
        Cause::CannotBridge,
        Cause::Refused,
    ] {
        assert!(cases().iter().any(|(it, ..)| *it == cause), "{cause:?}");
    }
}
