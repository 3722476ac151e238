//! Choices for programs: `retry.statuses`, `failures`, and limits and breakers of single tools.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{Breaker, Dialect, FailureForm, OnError, RateLimit, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::{Moment, UpstreamConfig, defaults};
use serde_json::{Value, json};
use stage::http::{SentRequest, Stage as HttpStage, call as http_call, modern, outcome};
use stage::{Stage, call};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the facts of a failed call.
fn facts(answer: &Value) -> &Value {
    match &answer["error"]["data"] {
        Value::Null => &answer["result"]["_meta"]["dev.mendline/failure"],
        facts => facts,
    }
}

fn cause(answer: &Value) -> &str {
    facts(answer)["cause"].as_str().unwrap_or("none")
}

// ---- retry.statuses ----

fn with_statuses(statuses: &[(u16, OnError)]) -> HttpStage {
    let read = ToolPolicy { effect: Some(Effect::Read), ..ToolPolicy::default() };
    let change = |notes: &mut UpstreamConfig| {
        (notes.keep_alive, notes.breaker) = (None, None);
        notes.retry.statuses = statuses.iter().copied().collect();
        notes.tools = [("look".to_owned(), read)].into();
    };
    let mut stage = HttpStage::with(Dialect::Auto, change).initialize_session();
    stage.use_session();
    stage
}

fn is_call(seen: &SentRequest) -> bool {
    seen.method() == "tools/call"
}

/// Calls a tool; every attempt gets this status, and everything else is answered. Returns the sends and the answer.
fn call_under(stage: &mut HttpStage, tool: &str, status: u16) -> (u32, Moment, Value) {
    stage.client_sends(&http_call(1, tool));
    let mut sent = 0;
    let read = stage.run(30 * SECOND, |stage, seen| match is_call(seen) {
        true => {
            sent += 1;
            stage.page(seen, status);
        }
        false => stage.serve(seen),
    });
    let [(at, answer)] = &read[..] else { panic!("{tool} {status}: one answer, not {read:?}") };
    (sent, *at, answer.clone())
}

#[test]
fn status_without_rule_keeps_its_default() {
    for (tool, status, expected) in [
        ("look", 502, (3, "unknown")),
        ("create_note", 502, (1, "unknown")),
        ("look", 404, (1, "refused")),
        ("create_note", 403, (1, "refused")),
    ] {
        let mut stage = with_statuses(&[(500, OnError::Never), (599, OnError::Always)]);
        let (sent, _, answer) = call_under(&mut stage, tool, status);
        assert_eq!((sent, outcome(&answer)), expected, "{tool} {status}");
    }
}

#[test]
fn status_with_rule_never_is_answered_at_once() {
    for (tool, status, word) in
        [("look", 502, "unknown"), ("create_note", 502, "unknown"), ("look", 403, "refused"), ("look", 404, "refused")]
    {
        let mut stage = with_statuses(&[(502, OnError::Never), (403, OnError::Never), (404, OnError::Never)]);
        let begin = stage.now;
        let (sent, at, answer) = call_under(&mut stage, tool, status);
        assert_eq!((sent, outcome(&answer)), (1, word), "{tool} {status}: {answer}");
        assert!(at.since(begin) < defaults::PROBE_DELAY, "{tool} {status}: {:?}", at.since(begin));
    }
}

#[test]
fn status_with_rule_reads_repeats_only_repeatable_calls() {
    for (tool, status, expected) in [
        ("look", 502, (3, "unknown")),
        ("create_note", 502, (1, "unknown")),
        ("look", 403, (3, "refused")),
        ("create_note", 403, (1, "refused")),
        ("look", 404, (3, "refused")),
    ] {
        let mut stage = with_statuses(&[(502, OnError::Reads), (403, OnError::Reads), (404, OnError::Reads)]);
        let (sent, _, answer) = call_under(&mut stage, tool, status);
        assert_eq!((sent, outcome(&answer)), expected, "{tool} {status}: {answer}");
    }
}

#[test]
fn status_with_rule_always_proves_that_nothing_ran() {
    for status in [502, 403, 404, 302] {
        let mut stage = with_statuses(&[(status, OnError::Always)]);
        let (sent, _, answer) = call_under(&mut stage, "create_note", status);
        assert_eq!((sent, outcome(&answer)), (3, "refused"), "{status}: {answer}");
        assert_eq!(facts(&answer)["retryable"], true, "{status}: {answer}");
    }
}

#[test]
fn unsafe_call_with_rule_always_waits_for_server_that_is_away() {
    let mut stage = with_statuses(&[(502, OnError::Always)]);
    stage.client_sends(&http_call(1, "create_note"));
    let mut received = 0;
    let during = stage.run(10 * SECOND, |stage, seen| {
        received += u32::from(is_call(seen));
        stage.page(seen, 502);
    });
    assert_eq!((during.len(), received), (0, 1), "{during:?}");
    let after = stage.run(5 * SECOND, HttpStage::serve);
    assert_eq!(after.iter().find(|(_, answer)| answer["id"] == 1).unwrap().1["result"], json!({}));
}

#[test]
fn overloaded_call_with_rule_never_is_answered_and_others_wait() {
    for (status, expected) in [(429, ("rate_limited", "refused")), (503, ("outcome_unknown", "unknown"))] {
        let mut stage = with_statuses(&[(status, OnError::Never)]);
        stage.client_sends(&http_call(1, "look"));
        let seen = stage.next_sent();
        stage.answer_overloaded(&seen, status, Some(2));
        let answer = stage.client_reads().expect("at once");
        assert_eq!((cause(&answer), outcome(&answer)), expected, "{answer}");
        stage.client_sends(&http_call(2, "create_note"));
        assert!(stage.seen.is_empty(), "{status}: the pause holds for all");
        let read = stage.run(5 * SECOND, HttpStage::serve);
        assert_eq!(read.iter().find(|(_, answer)| answer["id"] == 2).unwrap().1["result"], json!({}), "{status}");
    }
}

#[test]
fn unsafe_call_with_rule_always_is_resent_after_503_with_hint() {
    let mut stage = with_statuses(&[(503, OnError::Always)]);
    stage.client_sends(&http_call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 503, Some(2));
    assert_eq!(stage.client_reads(), None, "it did not run");
    let read = stage.run(5 * SECOND, HttpStage::serve);
    assert_eq!(read.iter().find(|(_, answer)| answer["id"] == 1).unwrap().1["result"], json!({}));
}

#[test]
fn rule_for_a_status_leaves_handshakes_alone() {
    let mut stage = HttpStage::with(Dialect::Auto, |notes| notes.retry.statuses = [(502, OnError::Never)].into());
    stage.client_sends(stage::http::INITIALIZE);
    let early = stage.run(SECOND, |stage, seen| stage.page(seen, 502));
    assert_eq!(early, [], "the handshake waits");
}

// ---- failures ----

#[test]
fn failed_tool_call_is_an_error_if_configured() {
    let mut stage = HttpStage::with(Dialect::Auto, |notes| notes.failures = FailureForm::Error).initialize_session();
    stage.client_sends(&http_call(1, "create_note"));
    let seen = stage.next_sent();
    stage.page(&seen, 502);
    let answer = stage.client_reads().expect("at once");
    assert_eq!((&answer["error"]["code"], cause(&answer)), (&json!(-31002), "outcome_unknown"), "{answer}");
    assert_eq!((&facts(&answer)["outcome"], &answer["result"]), (&json!("unknown"), &Value::Null));
    assert!(answer["error"]["message"].as_str().unwrap().contains("Check whether it took effect"), "{answer}");
}

#[test]
fn rejected_tool_call_is_an_error_if_configured() {
    for form in [FailureForm::Error, FailureForm::Result] {
        let mut stage = Stage::with(|notes| {
            (notes.failures, notes.rate_limit) = (form, Some(RateLimit { burst: 1, per_second: 0.001 }));
        });
        stage.accept_dial();
        stage.client_sends(&call("1", "create_note"));
        stage.client_sends(&call("2", "create_note"));
        let rejected = stage.client_reads().expect("at once");
        assert_eq!(rejected["error"]["code"] == -31005, form == FailureForm::Error, "{rejected}");
        assert_eq!(rejected["result"]["isError"] == true, form == FailureForm::Result, "{rejected}");
    }
}

#[test]
fn modern_failure_is_an_error_if_configured() {
    let mut stage = HttpStage::with(Dialect::Auto, |notes| notes.failures = FailureForm::Error);
    stage.client_sends(&modern(1, "tools/call", r#""name":"create_note","#));
    let read = stage.run(60 * SECOND, |stage, seen| stage.page(seen, 502));
    let answer = &read.iter().find(|(_, answer)| answer["id"] == 1).expect("an answer").1;
    assert_eq!(answer["error"]["code"], -31002, "{answer}");
}

#[test]
fn error_of_server_is_passed_on_in_both_forms() {
    for form in [FailureForm::Error, FailureForm::Result] {
        let mut stage = Stage::with(|notes| notes.failures = form);
        stage.accept_dial();
        stage.client_sends(&call("1", "create_note"));
        stage.server_answers(r#"{"isError":true,"content":[]}"#);
        assert_eq!(stage.client_reads().unwrap()["result"], json!({ "isError": true, "content": [] }));
    }
}

// ---- limits of single tools ----

fn with_tool(policy: ToolPolicy) -> Stage {
    let mut stage = Stage::with(|notes| notes.tools = [("slow".to_owned(), policy)].into());
    stage.accept_dial();
    stage
}

/// The tools that the server has received since, by name.
fn received(stage: &mut Stage) -> Vec<String> {
    let calls = std::iter::from_fn(|| stage.server_reads());
    calls.filter_map(|seen| seen["params"]["name"].as_str().map(str::to_owned)).collect()
}

#[test]
fn tool_at_its_limit_waits_and_holds_back_no_other() {
    let mut stage = with_tool(ToolPolicy { in_flight: Some(2), ..ToolPolicy::default() });
    for id in 1..=5 {
        stage.client_sends(&call(&id.to_string(), "slow"));
    }
    let first = [stage.server_reads().unwrap(), stage.server_reads().unwrap()];
    assert_eq!(stage.server_reads(), None, "two of five");
    for id in 6..=8 {
        stage.client_sends(&call(&id.to_string(), "quick"));
    }
    assert_eq!(received(&mut stage), ["quick"; 3], "they do not wait behind the slow ones");
    for done in first {
        let id = &done["id"];
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        assert_eq!(received(&mut stage), ["slow"], "a place for the next");
    }
}

#[test]
fn full_queue_of_one_tool_holds_back_no_other() {
    let mut stage = Stage::with(|notes| {
        let slow = ToolPolicy { in_flight: Some(1), ..ToolPolicy::default() };
        (notes.tools, notes.limits.waiting) = ([("slow".to_owned(), slow)].into(), 3);
    });
    stage.accept_dial();
    for id in 1..=5 {
        stage.client_sends(&call(&id.to_string(), "slow"));
    }
    let rejected = stage.client_reads().expect("the queue of the server is full");
    assert_eq!((&rejected["id"], cause(&rejected)), (&json!(5), "overloaded"));
    assert_eq!(received(&mut stage), ["slow"]);
    stage.client_sends(&call("6", "quick"));
    assert_eq!((received(&mut stage), stage.client_reads()), (vec!["quick".to_owned()], None));
}

#[test]
fn waiting_calls_of_one_tool_are_limited() {
    let mut stage = with_tool(ToolPolicy { in_flight: Some(1), waiting: Some(2), ..ToolPolicy::default() });
    for id in 1..=4 {
        stage.client_sends(&call(&id.to_string(), "slow"));
    }
    let rejected = stage.client_reads().expect("the fourth");
    assert_eq!((&rejected["id"], cause(&rejected)), (&json!(4), "overloaded"));
    assert!(facts(&rejected)["detail"].as_str().unwrap().contains("2 calls of this tool"), "{rejected}");
    stage.client_sends(&call("5", "quick"));
    assert_eq!(received(&mut stage), ["slow", "quick"]);
}

#[test]
fn calls_of_one_tool_that_wait_for_retry_are_limited() {
    let effect = Some(Effect::Read);
    let mut stage = with_tool(ToolPolicy { effect, in_flight: Some(1), waiting: Some(1), ..ToolPolicy::default() });
    for id in ["1", "2"] {
        stage.client_sends(&call(id, "slow"));
        let seen = stage.server_reads().expect("a place is free");
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, seen["id"]));
        assert_eq!(stage.client_reads(), None, "it waits for its next attempt");
    }
    stage.client_sends(&call("3", "slow"));
    let rejected = stage.client_reads().expect("the limits of both are reached");
    assert_eq!((&rejected["id"], cause(&rejected)), (&json!(3), "overloaded"));
}

#[test]
fn waiting_calls_of_one_tool_are_limited_while_server_is_away() {
    let mut stage = with_tool(ToolPolicy { waiting: Some(2), ..ToolPolicy::default() });
    stage.die(stage.written);
    for id in ["1", "2", "3"] {
        stage.client_sends(&call(id, "slow"));
    }
    stage.client_sends(&call("4", "create_note"));
    let answer = stage.client_reads().expect("it cannot wait");
    assert_eq!((&answer["id"], cause(&answer)), (&json!(3), "overloaded"));
    assert_eq!(stage.client_reads(), None, "the others wait");
}

#[test]
fn rate_limit_of_tool_paces_it_alone() {
    let rate_limit = Some(RateLimit { burst: 2, per_second: 1.0 });
    let mut stage = with_tool(ToolPolicy { rate_limit, ..ToolPolicy::default() });
    for id in 1..=5 {
        stage.client_sends(&call(&id.to_string(), "slow"));
        stage.client_sends(&call(&(10 + id).to_string(), "quick"));
    }
    let seen = received(&mut stage);
    assert_eq!(seen.iter().filter(|tool| *tool == "slow").count(), 2, "the burst");
    assert_eq!(seen.iter().filter(|tool| *tool == "quick").count(), 5);
    for _ in 0..3 {
        stage.advance(Duration::from_millis(900));
        assert!(received(&mut stage).is_empty());
        stage.advance(Duration::from_millis(100));
        assert_eq!(received(&mut stage), ["slow"]);
    }
}

#[test]
fn call_beyond_rate_of_its_tool_is_rejected_at_once() {
    let rate_limit = Some(RateLimit { burst: 1, per_second: 0.01 });
    let mut stage = with_tool(ToolPolicy { rate_limit, ..ToolPolicy::default() });
    stage.client_sends(&call("1", "slow"));
    stage.client_sends(&call("2", "slow"));
    let rejected = stage.client_reads().expect("at once");
    assert_eq!((&rejected["id"], cause(&rejected)), (&json!(2), "rate_limited"));
    assert_eq!(facts(&rejected)["retryAfterMs"], 100_000, "{rejected}");
    assert!(facts(&rejected)["detail"].as_str().unwrap().contains("limit of this tool"), "{rejected}");
    stage.client_sends(&call("3", "quick"));
    assert_eq!(received(&mut stage), ["slow", "quick"]);
}

#[test]
fn call_that_gets_no_place_of_its_tool_fails_in_time() {
    let mut stage = with_tool(ToolPolicy { in_flight: Some(1), ..ToolPolicy::default() });
    stage.client_sends(&call("1", "slow"));
    stage.client_sends(&call("2", "slow"));
    stage.advance(defaults::RECOVERY);
    let answer = stage.client_reads().expect("its wait is over");
    assert_eq!((&answer["id"], cause(&answer)), (&json!(2), "overloaded"));
}

#[test]
fn limits_of_tool_hold_over_http_before_first_answer() {
    let slow = ToolPolicy { in_flight: Some(1), ..ToolPolicy::default() };
    let mut stage = HttpStage::with(Dialect::Auto, |notes| {
        (notes.tools, notes.keep_alive) = ([("slow".to_owned(), slow)].into(), None);
    })
    .initialize_session();
    for id in 1..=3 {
        stage.client_sends(&http_call(id, "slow"));
    }
    stage.client_sends(&http_call(4, "quick"));
    let names: Vec<_> = stage.seen.iter().map(|seen| seen.json()["params"]["name"].clone()).collect();
    assert_eq!(names, ["slow", "quick"]);
    let read = stage.run(5 * SECOND, HttpStage::serve);
    assert_eq!(read.len(), 4, "{read:?}");
}

#[test]
fn tool_has_its_own_breaker_numbers() {
    let usual = Breaker::default();
    let breaker = Some(Some(Breaker { failures: 2, count_tool_errors: true, ..usual }));
    let mut stage = with_tool(ToolPolicy { breaker, ..ToolPolicy::default() });
    for (tool, sent) in [("slow", 2), ("quick", 8)] {
        let mut answered = 0;
        for id in 1..=8 {
            stage.client_sends(&call(&id.to_string(), tool));
            if let Some(seen) = stage.server_reads() {
                let id = &seen["id"];
                stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"isError":true}}}}"#));
                answered += 1;
            }
            stage.client_reads().expect("an answer");
        }
        assert_eq!(answered, sent, "{tool}");
    }
}

#[test]
fn overload_answered_by_rule_pauses_the_next_calls() {
    let mut stage = with_statuses(&[(429, OnError::Never)]);
    stage.client_sends(&http_call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 429, None);
    assert_eq!(stage.client_reads().expect("at once")["id"], 1);
    stage.client_sends(&http_call(2, "create_note"));
    assert!(stage.seen.is_empty(), "the server is paused");
}
