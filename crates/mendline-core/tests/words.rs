//! Every text that a model can read from Mendline, in `words.txt` beside this file.
//!
//! A change of a text must change `words.txt` too. The failing test prints the new content.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

use std::fmt::Write as _;
use std::time::Duration;

use mendline_core::evidence::Outcome;
use mendline_core::words::{Cause, Failure};
use mendline_wire::{Id, Method};

/// Cause, outcome, retryable, attempts, retry time, and detail.
type Case = (Cause, Outcome, bool, u32, Option<u64>, &'static str);

/// The cases of the upstream.
const CASES: &[Case] = &[
    (Cause::Unavailable, Outcome::NotSent, true, 0, Some(2), "nothing listens there"),
    (Cause::Unavailable, Outcome::Refused, true, 3, Some(5), "the server refused the stream"),
    (Cause::Unavailable, Outcome::Unknown, true, 2, Some(2), "the server was killed by signal 9"),
    (Cause::OutcomeUnknown, Outcome::Unknown, false, 1, None, "the server was killed by signal 9"),
    (Cause::OutcomeUnknown, Outcome::Unknown, true, 3, None, "its answer could not be read"),
    (Cause::TimedOut, Outcome::Unknown, false, 1, None, "no answer after 5 min"),
    (Cause::TimedOut, Outcome::Unknown, true, 1, None, "no answer after 5 min"),
    (Cause::TimedOut, Outcome::NotSent, true, 0, None, "it could not be sent for 45 s: nothing listens there"),
    (Cause::Overloaded, Outcome::NotSent, true, 0, Some(1), "1024 are waiting, which is the limit"),
    (Cause::RateLimited, Outcome::Refused, true, 1, Some(60), "the server answered HTTP 429"),
    (Cause::RateLimited, Outcome::NotSent, true, 0, Some(3600), "the server asked for a pause of another 60 min"),
    (Cause::RateLimited, Outcome::NotSent, true, 0, Some(50), "the configured limit is one call in 10 s, 5 at once"),
    (Cause::BreakerOpen, Outcome::NotSent, true, 0, Some(5), "5 calls in a row have failed"),
    (Cause::BreakerOpen, Outcome::NotSent, true, 0, Some(9), "6 of the last 10 calls have failed, of this tool only"),
    (Cause::BreakerOpen, Outcome::NotSent, true, 0, None, "it was isolated by hand"),
    (Cause::Parked, Outcome::NotSent, true, 0, Some(10), "the server ended with exit code 1; its last words: no token"),
    (Cause::Parked, Outcome::NotSent, false, 0, None, "`no-such-server` was not found"),
    (Cause::NeedsLogin, Outcome::Refused, false, 1, None, "the server answered HTTP 401"),
    (Cause::NeedsLogin, Outcome::NotSent, false, 0, None, "the server answered HTTP 401"),
    (Cause::OutcomeUnknown, Outcome::Unknown, false, 1, None, "the server answered HTTP 503: Service Unavailable"),
    (
        Cause::CannotBridge,
        Outcome::Answered,
        false,
        1,
        None,
        "its answer of 17000000 bytes is over the limit for one message",
    ),
    (Cause::CannotBridge, Outcome::Unknown, false, 1, None, "its answer is larger than the limit for one message"),
    (Cause::Refused, Outcome::Refused, false, 1, None, "the server answered HTTP 403: Blocked by the firewall"),
];

#[test]
fn every_failure_text_is_in_words_txt() {
    let mut page = String::new();
    for (cause, outcome, retryable, attempts, retry_after, detail) in CASES {
        let failure = Failure {
            call: Some(65_537),
            cause: *cause,
            outcome: *outcome,
            retryable: *retryable,
            attempts: *attempts,
            retry_after: retry_after.map(Duration::from_secs),
            upstream: "notes".into(),
            what: "create_note".into(),
            detail: (*detail).into(),
            needs_person: *cause == Cause::NeedsLogin || detail.contains("was not found"),
            modern: false,
        };
        let _ = writeln!(page, "{} {} ({})", cause.code(), cause.word(), outcome.word());
        let _ = writeln!(page, "  {}", failure.text());
        let error = failure.response(&Id::number(7), Method::ToolsList);
        let error: serde_json::Value = serde_json::from_slice(&error).unwrap();
        let _ = writeln!(page, "  {}\n", error["error"]["data"]);
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
        assert!(CASES.iter().any(|(it, ..)| *it == cause), "{cause:?}");
    }
}
