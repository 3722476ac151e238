//! Breakers, pauses, rate limits and isolation.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{Breaker, Dialect, OnError, OpenFor, RateLimit, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::port::{Content, ExchangeEnd};
use mendline_core::{Event, Input, LinkState, UpstreamConfig, defaults};
use serde_json::Value;
use stage::http::{self, Stage as HttpStage};
use stage::{NOTES, Stage, call};

const SECOND: Duration = Duration::from_secs(1);
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

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

fn wait(answer: &Value) -> Duration {
    Duration::from_millis(facts(answer)["retryAfterMs"].as_u64().expect("the retry time"))
}

fn answer_of(stage: &mut HttpStage) -> Value {
    stage.client_reads().expect("an answer at once")
}

/// Creates an initialized stage over HTTP with other policies.
fn http_stage(change: impl FnOnce(&mut UpstreamConfig)) -> HttpStage {
    let quiet = |notes: &mut UpstreamConfig| {
        notes.keep_alive = None;
        change(notes);
    };
    HttpStage::with(Dialect::Auto, quiet).initialize_session()
}

/// Answers this request with a status and no body.
fn answer_status(stage: &mut HttpStage, seen: &http::SentRequest, status: u16) {
    stage.status(seen.id, status, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
}

/// Waits for the probe that follows a failed call, and answers it: the server is available.
fn answer_probe(stage: &mut HttpStage) {
    stage.next_request();
    let probe = stage.next_sent();
    assert_eq!(probe.method(), "ping");
    stage.answer(&probe, "{}");
}

/// Makes a call that an available server answers with this status and no body.
fn call_with_status(stage: &mut HttpStage, id: u32, status: u16) -> Value {
    stage.client_sends(&http::call(id, "create_note"));
    let seen = stage.next_sent();
    answer_status(stage, &seen, status);
    let answer = answer_of(stage);
    answer_probe(stage);
    answer
}

/// Creates a stage whose tool `create_note` has failed five times in a row, while the server answers its probes.
fn breaker_open() -> HttpStage {
    let mut stage = http_stage(|_| {});
    for id in 1..=5 {
        assert_eq!(cause(&call_with_status(&mut stage, id, 502)), "outcome_unknown");
    }
    stage
}

fn succeeds(stage: &mut HttpStage, id: u32) {
    stage.client_sends(&http::call(id, "create_note"));
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    assert_eq!(answer_of(stage)["id"], id);
}

fn is_rejected_by_breaker(stage: &mut HttpStage, id: u32) -> Value {
    stage.client_sends(&http::call(id, "create_note"));
    assert!(stage.seen.is_empty(), "nothing is sent");
    let answer = answer_of(stage);
    assert_eq!((cause(&answer), &facts(&answer)["outcome"]), ("breaker_open", &"not_sent".into()));
    answer
}

#[test]
fn r06_tool_breaker_opens_after_five_failed_calls_and_reports_wait() {
    let mut stage = breaker_open();
    let opened = r#"breaker of the tool "create_note" opened for"#;
    assert!(stage.log.iter().any(|line| line.contains(opened) && line.contains("5 calls in a row")), "{:?}", stage.log);
    let rejected = is_rejected_by_breaker(&mut stage, 6);
    let text = rejected["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("held back") && text.contains("Try again in"), "{text}");
    assert!(wait(&rejected) > 3 * SECOND && wait(&rejected) <= 6 * SECOND, "{rejected}");
    stage.advance(wait(&rejected));
    stage.client_sends(&http::call(7, "create_note"));
    assert_eq!(stage.seen.len(), 1, "at that time it is tried");
}

#[test]
fn r06_failing_tool_holds_back_no_other_tool() {
    let mut stage = breaker_open();
    is_rejected_by_breaker(&mut stage, 6);
    for id in 7..=30 {
        stage.client_sends(&http::call(id, "search"));
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        assert_eq!(answer_of(&mut stage)["result"], serde_json::json!({}));
    }
    let server = |line: &&String| line.starts_with("breaker opened");
    assert_eq!(stage.log.iter().find(server), None, "the breaker of the server is the operator's");
}

#[test]
fn r06_breaker_counts_calls_instead_of_attempts() {
    let read = ToolPolicy { effect: Some(Effect::Read), ..ToolPolicy::default() };
    let mut stage = http_stage(|notes| notes.tools = [("create_note".to_owned(), read)].into());
    for id in 1..=5 {
        stage.client_sends(&http::call(id, "create_note"));
        for attempt in 1..=3 {
            assert_eq!(stage.client_reads(), None, "call {id}, attempt {attempt}");
            stage.next_request();
            let seen = stage.next_sent();
            assert_eq!(seen.method(), "tools/call", "call {id}, attempt {attempt}");
            answer_status(&mut stage, &seen, 500);
            if attempt == 3 {
                let answer = answer_of(&mut stage);
                assert_eq!((cause(&answer), &facts(&answer)["attempts"]), ("outcome_unknown", &3.into()));
            }
            answer_probe(&mut stage);
        }
        assert_eq!(stage.log.iter().any(|line| line.contains("opened for")), id == 5, "after call {id}");
        stage.advance(defaults::BUDGET_REGROWTH * 2);
    }
    let opened = stage.log.iter().find(|line| line.contains("opened for")).unwrap();
    assert!(opened.ends_with("5 calls in a row have failed"), "{opened}");
}

#[test]
fn r05_outage_does_not_open_breaker() {
    let mut stage = http_stage(|_| {});
    for id in 1..=10 {
        stage.client_sends(&http::call(id, "create_note"));
        let seen = stage.next_sent();
        answer_status(&mut stage, &seen, 502);
        assert_eq!(cause(&answer_of(&mut stage)), "outcome_unknown");
        stage.next_request();
        let probe = stage.next_sent();
        assert_eq!(probe.method(), "ping");
        answer_status(&mut stage, &probe, 502);
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting), "the server is away");
        answer_probe(&mut stage);
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    }
    assert!(!stage.log.iter().any(|line| line.contains("breaker")), "{:?}", stage.log);
}

#[test]
fn half_open_breaker_closes_after_second_answer() {
    let mut stage = breaker_open();
    stage.advance(6 * SECOND);
    stage.client_sends(&http::call(7, "create_note"));
    let trial = stage.next_sent();
    let rejected = is_rejected_by_breaker(&mut stage, 8);
    assert!(wait(&rejected) <= SECOND, "{rejected}");
    stage.answer(&trial, "{}");
    answer_of(&mut stage);
    stage.client_sends(&http::call(9, "create_note"));
    let second = stage.next_sent();
    is_rejected_by_breaker(&mut stage, 10);
    stage.answer(&second, "{}");
    answer_of(&mut stage);
    let closed = r#"breaker of the tool "create_note" closed"#;
    assert!(stage.log.iter().any(|line| line == closed), "{:?}", stage.log);
    for id in 11..14 {
        stage.client_sends(&http::call(id, "create_note"));
    }
    assert_eq!(stage.seen.len(), 3);
}

#[test]
fn failed_trial_keeps_breaker_open_longer() {
    let mut stage = breaker_open();
    stage.advance(6 * SECOND);
    call_with_status(&mut stage, 7, 500);
    let rejected = is_rejected_by_breaker(&mut stage, 8);
    assert!(facts(&rejected)["detail"].as_str().unwrap().contains("the call that tried it has failed"), "{rejected}");
    assert!(wait(&rejected) >= 8 * SECOND && wait(&rejected) <= 12 * SECOND, "{rejected}");
}

#[test]
fn cancelled_trial_decides_nothing_and_next_call_tries() {
    let mut stage = breaker_open();
    stage.advance(6 * SECOND);
    stage.client_sends(&http::call(7, "create_note"));
    stage.next_sent();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    stage.seen.clear();
    stage.client_sends(&http::call(8, "create_note"));
    assert_eq!(stage.seen.len(), 1);
}

#[test]
fn exact_open_time_is_kept_and_breaker_can_be_disabled() {
    let exactly = |notes: &mut UpstreamConfig| {
        let open_for = OpenFor::Exactly(60 * SECOND);
        notes.breaker = Some(Breaker { failures: 2, open_for, ..Breaker::default() });
    };
    let mut stage = http_stage(exactly);
    call_with_status(&mut stage, 1, 502);
    call_with_status(&mut stage, 2, 502);
    assert_eq!(wait(&is_rejected_by_breaker(&mut stage, 3)), 60 * SECOND);

    let mut stage = http_stage(|notes| notes.breaker = None);
    for id in 1..=30 {
        assert_eq!(cause(&call_with_status(&mut stage, id, 502)), "outcome_unknown");
    }
}

#[test]
fn overload_and_client_errors_do_not_open_breaker() {
    let mut stage = http_stage(|_| {});
    for id in 1..=20 {
        stage.client_sends(&http::call(id, "create_note"));
        for _ in 0..5 {
            stage.next_request();
            let seen = stage.next_sent();
            stage.answer_overloaded(&seen, 429, None);
            assert_eq!(stage.client_reads(), None, "it waits for the end of the overload");
        }
        stage.next_request();
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        assert_eq!(answer_of(&mut stage)["id"], id);
        stage.client_sends(&http::call(100 + id, "create_note"));
        let seen = stage.next_sent();
        stage.status(seen.id, 200, Content::Json, None);
        let id = &seen.json()["id"];
        stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no"}}}}"#));
        stage.end(seen.id, ExchangeEnd::Complete);
        assert_eq!(answer_of(&mut stage)["error"]["code"], -32602);
    }
    assert!(!stage.log.iter().any(|line| line.contains("breaker")), "{:?}", stage.log);
}

#[test]
fn unsent_calls_do_not_count_for_breaker() {
    let mut stage = http_stage(|_| {});
    for id in 1..=10 {
        stage.client_sends(&http::call(id, "create_note"));
        while stage.client_reads().is_none() {
            if !stage.seen.is_empty() {
                stage.refuse_connection();
            }
            stage.advance(SECOND);
        }
    }
    assert!(!stage.log.iter().any(|line| line.contains("breaker")), "{:?}", stage.log);
}

#[test]
fn child_death_under_many_calls_counts_once() {
    let mut stage = Stage::up();
    for id in 1..=20 {
        stage.client_sends(&call(&id.to_string(), "create_note"));
        stage.server_reads().unwrap();
    }
    stage.advance(Duration::from_millis(1));
    stage.die(stage.written);
    while stage.client_reads().is_some() {}
    stage.advance(SECOND);
    stage.accept_dial();
    stage.client_sends(&call("21", "create_note"));
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 21);
    assert!(!stage.log.iter().any(|line| line.contains("breaker")), "{:?}", stage.log);
}

#[test]
fn child_killed_by_every_call_opens_no_breaker() {
    let mut stage = Stage::with(|notes| notes.reconnect.attempts = 1_000);
    stage.accept_dial();
    for id in 1..=5 {
        stage.client_sends(&call(&id.to_string(), "create_note"));
        stage.server_reads().unwrap();
        stage.die(stage.written);
        assert_eq!(cause(&stage.client_reads().unwrap()), "outcome_unknown");
        // Slow enough not to count as a crash loop.
        stage.advance(16 * SECOND);
        if stage.spawned.is_some() && id < 5 {
            stage.accept_dial();
        }
    }
    assert!(!stage.log.iter().any(|line| line.contains("breaker")), "an outage is not its business: {:?}", stage.log);
}

#[test]
fn waiting_calls_fail_when_breaker_opens() {
    let mut stage = http_stage(|notes| notes.limits.in_flight = 1);
    for id in 1..=4 {
        call_with_status(&mut stage, id, 502);
    }
    for id in 5..=7 {
        stage.client_sends(&http::call(id, "create_note"));
    }
    let fifth = stage.next_sent();
    assert!(stage.seen.is_empty(), "there is one slot");
    answer_status(&mut stage, &fifth, 502);
    let answer = answer_of(&mut stage);
    assert_eq!((&answer["id"], cause(&answer)), (&5.into(), "outcome_unknown"));
    let sixth = stage.next_sent();
    assert!(stage.seen.is_empty(), "a suspect server gets its calls, one at a time");
    answer_probe(&mut stage);
    let rejected = answer_of(&mut stage);
    assert_eq!((&rejected["id"], cause(&rejected)), (&7.into(), "breaker_open"));
    assert_eq!((stage.client_reads(), stage.seen.len()), (None, 0), "the call in flight stays");
    stage.answer(&sixth, "{}");
    assert_eq!(answer_of(&mut stage)["id"], 6);
}

#[test]
fn read_is_not_resent_while_breaker_is_open() {
    let mut stage = http_stage(|notes| {
        let read = ToolPolicy { effect: Some(Effect::Read), ..ToolPolicy::default() };
        notes.tools = [("look".to_owned(), read)].into();
        notes.breaker = Some(Breaker { failures: 2, ..Breaker::default() });
        notes.retry.attempts = 2;
    });
    let fail = |stage: &mut HttpStage| {
        stage.next_request();
        let seen = stage.next_sent();
        assert_eq!(seen.method(), "tools/call");
        answer_status(stage, &seen, 500);
    };
    stage.client_sends(&http::call(1, "look"));
    fail(&mut stage);
    answer_probe(&mut stage);
    fail(&mut stage);
    assert_eq!(answer_of(&mut stage)["id"], 1, "its attempts are used up");
    answer_probe(&mut stage);
    stage.client_sends(&http::call(2, "look"));
    fail(&mut stage);
    answer_probe(&mut stage);
    stage.advance(Duration::from_millis(200));
    stage.client_sends(&http::call(3, "look"));
    fail(&mut stage);
    fail(&mut stage);
    assert_eq!(answer_of(&mut stage)["id"], 2, "the second call has failed");
    answer_probe(&mut stage);
    let answer = answer_of(&mut stage);
    let reported = facts(&answer);
    assert_eq!((&answer["id"], &reported["outcome"], &reported["attempts"]), (&3.into(), &"unknown".into(), &1.into()));
    assert!(wait(&answer) > 3 * SECOND, "the retry time is reported: {answer}");
    stage.advance(3 * SECOND);
    assert!(stage.seen.is_empty());
}

#[test]
fn ping_passes_open_breaker_without_closing_it() {
    let mut stage = breaker_open();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":50,"method":"ping"}"#);
    let ping = stage.next_sent();
    stage.answer(&ping, "{}");
    assert_eq!(answer_of(&mut stage)["id"], 50);
    is_rejected_by_breaker(&mut stage, 51);
}

// ---- single tools ----

/// Answers one call of the child with this error.
fn server_answers_error(stage: &mut Stage, code: i64) {
    let request = stage.server_reads().expect("a request");
    let id = &request["id"];
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#));
}

#[test]
fn breaker_opens_for_hanging_tool_only() {
    let slow = ToolPolicy { timeout: Some(2 * SECOND), ..ToolPolicy::default() };
    let mut stage = Stage::with(|notes| notes.tools = [("search".to_owned(), slow)].into());
    stage.accept_dial();
    for id in 1..=5 {
        stage.client_sends(&call(&id.to_string(), "search"));
        stage.server_reads().unwrap();
        stage.advance(2 * SECOND);
        assert_eq!(cause(&stage.client_reads().expect("in its own time")), "timed_out");
        assert_eq!(stage.server_reads().unwrap()["method"], "notifications/cancelled");
    }
    stage.client_sends(&call("6", "search"));
    let rejected = stage.client_reads().expect("at once");
    assert_eq!(cause(&rejected), "breaker_open");
    assert!(facts(&rejected)["detail"].as_str().unwrap().contains("of this tool only"), "{rejected}");
    stage.client_sends(&call("7", "create_note"));
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["result"], serde_json::json!({}));
    stage.advance(wait(&rejected));
    for id in ["8", "9"] {
        stage.client_sends(&call(id, "search"));
        stage.server_answers("{}");
        stage.client_reads().unwrap();
    }
    assert!(stage.log.iter().any(|line| line.contains(r#"breaker of the tool "search" closed"#)), "{:?}", stage.log);
}

#[test]
fn only_internal_errors_count_against_tool() {
    for (code, counts) in [(-32603, true), (-32602, false), (-32601, false), (-32001, false)] {
        let mut stage = Stage::up();
        for id in 1..=12 {
            stage.client_sends(&call(&id.to_string(), "search"));
            if counts && id > 5 {
                assert_eq!(cause(&stage.client_reads().unwrap()), "breaker_open");
            } else {
                server_answers_error(&mut stage, code);
                assert_eq!(stage.client_reads().unwrap()["error"]["code"], code, "it is passed on");
            }
        }
    }
}

#[test]
fn is_error_result_counts_only_if_configured() {
    for count_tool_errors in [false, true] {
        let policy = Breaker { count_tool_errors, ..Breaker::default() };
        let mut stage = Stage::with(|notes| notes.breaker = Some(policy));
        stage.accept_dial();
        for id in 1..=5 {
            stage.client_sends(&call(&id.to_string(), "search"));
            stage.server_answers(r#"{"isError":true,"content":[]}"#);
            stage.client_reads().unwrap();
        }
        stage.client_sends(&call("6", "search"));
        assert_eq!(stage.server_reads().is_none(), count_tool_errors);
    }
}

#[test]
fn timeout_of_tool_applies_to_it_alone() {
    let quick = ToolPolicy { timeout: Some(SECOND), ..ToolPolicy::default() };
    let mut stage = Stage::with(|notes| notes.tools = [("quick".to_owned(), quick)].into());
    stage.accept_dial();
    stage.client_sends(&call("1", "quick"));
    stage.client_sends(&call("2", "create_note"));
    stage.advance(SECOND);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.advance(defaults::CALL - 2 * SECOND);
    assert_eq!(stage.client_reads(), None);
    stage.advance(SECOND);
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn configured_error_codes_decide_about_retry() {
    let codes = [(-32603, OnError::Never), (-32050, OnError::Always)];
    let mut stage = Stage::with(|notes| notes.retry.codes = codes.into());
    stage.accept_dial();
    stage.client_sends(LIST);
    server_answers_error(&mut stage, -32603);
    assert_eq!(stage.client_reads().expect("the answer")["error"]["code"], -32603);
    stage.client_sends(&call("2", "create_note"));
    server_answers_error(&mut stage, -32050);
    assert_eq!(stage.client_reads(), None, "it is asked once more, unsafe as it is");
    stage.advance(SECOND);
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

// ---- pauses ----

#[test]
fn pause_named_by_server_holds_for_all_calls() {
    let mut stage = http_stage(|_| {});
    stage.client_sends(&http::call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 429, Some(10));
    for id in 2..=4 {
        stage.client_sends(&http::call(id, "create_note"));
    }
    stage.advance(10 * SECOND - Duration::from_millis(1));
    assert!(stage.seen.is_empty(), "no request during the pause");
    assert_eq!(stage.client_reads(), None, "every call waits");
    stage.advance(Duration::from_millis(1));
    for (id, more) in [(1, 2), (2, 1), (3, 0), (4, 0)] {
        let others = stage.seen.len() - 1;
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        assert_eq!(answer_of(&mut stage)["id"], id, "in the order of their arrival");
        assert_eq!(stage.seen.len() - others, more, "each answer admits twice as many calls");
    }
    assert!(stage.log.iter().any(|line| line == "paused for 10 s, as the server requested"), "{:?}", stage.log);
    assert!(stage.log.iter().any(|line| line == "the pause is over"), "{:?}", stage.log);
}

#[test]
fn retry_after_of_one_hour_blocks_no_call() {
    let mut stage = http_stage(|_| {});
    stage.client_sends(&http::call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 429, Some(3_600));
    let rejected = answer_of(&mut stage);
    assert_eq!((cause(&rejected), &facts(&rejected)["outcome"]), ("rate_limited", &"refused".into()));
    assert_eq!(wait(&rejected), 3_600 * SECOND);
    stage.client_sends(&http::call(2, "create_note"));
    let rejected = answer_of(&mut stage);
    assert_eq!((cause(&rejected), &facts(&rejected)["outcome"]), ("rate_limited", &"not_sent".into()));
    assert_eq!(wait(&rejected), 3_600 * SECOND, "the server's own hint");
    stage.advance(defaults::PAUSE_CAP);
    succeeds(&mut stage, 3);
}

#[test]
fn pause_beyond_deadline_fails_call_at_once() {
    let mut stage = http_stage(|notes| {
        notes.limits.in_flight = 1;
        notes.tools = [("quick".to_owned(), ToolPolicy { timeout: Some(5 * SECOND), ..ToolPolicy::default() })].into();
    });
    stage.client_sends(&http::call(1, "create_note"));
    stage.client_sends(&http::call(2, "quick"));
    stage.client_sends(&http::call(3, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 429, Some(8));
    let rejected = answer_of(&mut stage);
    assert_eq!((&rejected["id"], cause(&rejected), wait(&rejected)), (&2.into(), "rate_limited", 8 * SECOND));
    assert_eq!(stage.client_reads(), None, "the others have time");
}

#[test]
fn retry_after_of_503_is_awaited_without_opening_breaker() {
    let mut stage = http_stage(|_| {});
    for round in 0..8 {
        stage.client_sends(LIST);
        let seen = stage.next_sent();
        stage.answer_overloaded(&seen, 503, Some(2));
        stage.advance(Duration::from_millis(1_999));
        assert!(stage.seen.is_empty(), "round {round}");
        stage.advance(Duration::from_millis(1));
        assert_eq!(stage.seen.len(), 1, "no call meets another 503");
        answer_probe(&mut stage);
        let again = stage.next_sent();
        assert_eq!(again.method(), "tools/list");
        stage.answer(&again, r#"{"tools":[]}"#);
        assert_eq!(answer_of(&mut stage)["id"], 1);
        stage.client_sends(&http::call(2, "create_note"));
        let seen = stage.next_sent();
        stage.answer_overloaded(&seen, 503, Some(1));
        let rejected = answer_of(&mut stage);
        assert_eq!((cause(&rejected), &facts(&rejected)["retryable"]), ("outcome_unknown", &false.into()));
        stage.advance(2 * SECOND);
    }
    assert!(!stage.log.iter().any(|line| line.contains("breaker")), "{:?}", stage.log);
}

#[test]
fn r20_bare_429_pauses_all_calls_for_growing_time() {
    let mut stage = http_stage(|_| {});
    stage.client_sends(&http::call(1, "create_note"));
    let mut seen = stage.next_sent();
    stage.client_sends(&http::call(2, "search"));
    let second = stage.next_sent();
    stage.answer(&second, "{}");
    assert_eq!(answer_of(&mut stage)["id"], 2, "before the pause");
    for (least, most) in [(250, 500), (500, 1_000), (1_000, 2_000), (1_200, 2_400), (1_200, 2_400)] {
        stage.answer_overloaded(&seen, 429, None);
        stage.client_sends(&http::call(3, "search"));
        stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#);
        assert!(stage.seen.is_empty(), "no call is sent during the pause");
        let pause = stage.next_request().as_millis();
        assert!((least..=most + 1).contains(&pause), "{pause} ms, not {least} to {most}");
        seen = stage.next_sent();
        assert_eq!(seen.json()["params"]["name"], "create_note");
        assert!(stage.seen.is_empty(), "one call goes first");
    }
    stage.answer(&seen, "{}");
    assert_eq!(answer_of(&mut stage)["id"], 1, "no refusal costs an attempt");
}

#[test]
fn r20_retry_after_of_zero_is_raised_to_floor() {
    for status in [429, 503] {
        let mut stage = http_stage(|_| {});
        stage.client_sends(LIST);
        let seen = stage.next_sent();
        stage.answer_overloaded(&seen, status, Some(0));
        let pause = stage.next_request();
        assert!((defaults::PAUSE_MIN..2 * defaults::PAUSE_MIN).contains(&pause), "HTTP {status}: {pause:?}");
    }
}

#[test]
fn handshake_is_repeated_after_pause() {
    let mut stage = http_stage(|_| {});
    stage.client_sends(&http::call(1, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let handshake = stage.next_sent();
    assert_eq!(handshake.method(), "initialize");
    stage.answer_overloaded(&handshake, 503, Some(20));
    stage.advance(20 * SECOND - Duration::from_millis(1));
    assert!(stage.seen.is_empty(), "not before");
    stage.advance(6 * SECOND);
    assert_eq!(stage.next_sent().method(), "initialize");
}

// ---- the rate limit ----

fn limited(burst: u32, per_second: f64) -> Stage {
    let mut stage = Stage::with(|notes| notes.rate_limit = Some(RateLimit { burst, per_second }));
    stage.accept_dial();
    stage
}

fn count_server_reads(stage: &mut Stage) -> usize {
    std::iter::from_fn(|| stage.server_reads()).count()
}

#[test]
fn burst_is_sent_at_once_and_rest_at_rate() {
    let mut stage = limited(3, 2.0);
    for id in 1..=7 {
        stage.client_sends(&call(&id.to_string(), "create_note"));
    }
    assert_eq!(count_server_reads(&mut stage), 3);
    for _ in 0..4 {
        stage.advance(Duration::from_millis(499));
        assert_eq!(count_server_reads(&mut stage), 0);
        stage.advance(Duration::from_millis(1));
        assert_eq!(count_server_reads(&mut stage), 1);
    }
    assert!(stage.log.iter().any(|line| line.contains("waits 500 ms for the rate limit")), "{:?}", stage.log);
}

#[test]
fn rate_limit_beyond_deadline_fails_call_with_retry_time() {
    let mut stage = limited(1, 0.1);
    for id in 1..=6 {
        stage.client_sends(&call(&id.to_string(), "create_note"));
    }
    let rejected = stage.client_reads().expect("an answer at once");
    assert_eq!((&rejected["id"], cause(&rejected), wait(&rejected)), (&6.into(), "rate_limited", 50 * SECOND));
    assert_eq!(stage.client_reads(), None, "the others wait");
    stage.advance(40 * SECOND);
    assert_eq!(count_server_reads(&mut stage), 5);
}

#[test]
fn retries_use_rate_limit_and_internal_requests_do_not() {
    let mut stage = limited(2, 0.5);
    stage.client_sends(LIST);
    server_answers_error(&mut stage, -32603);
    stage.advance(SECOND);
    assert_eq!(count_server_reads(&mut stage), 1, "the second attempt is the second of the burst");
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(count_server_reads(&mut stage), 0);
    stage.advance(2 * SECOND);
    assert_eq!(count_server_reads(&mut stage), 1);

    let mut stage = limited(1, 0.5);
    stage.client_sends(http::INITIALIZE);
    stage.server_answers("{}");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.die(stage.written);
    stage.advance(SECOND);
    stage.accept_dial();
    assert_eq!(stage.server_reads().unwrap()["method"], "initialize", "a handshake does not wait");
}

// ---- isolation ----

#[test]
fn isolated_server_is_not_called_or_dialed_until_resumed() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    let running = stage.server_reads().unwrap();
    stage.input(Input::Isolate { upstream: NOTES });
    stage.client_sends(&call("2", "create_note"));
    let rejected = stage.client_reads().expect("at once");
    assert_eq!((cause(&rejected), &facts(&rejected)["retryAfterMs"]), ("breaker_open", &Value::Null));
    let text = rejected["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("isolated by the operator") && text.contains("Ask the user"), "{text}");
    stage.client_sends(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert_eq!(cause(&stage.client_reads().unwrap()), "breaker_open", "nothing at all goes there");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, running["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 1, "what was out may finish");

    stage.die(stage.written);
    assert_eq!(stage.state(), LinkState::Idle);
    let dials = stage.dials;
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.input(Input::NetworkChanged);
    stage.advance(600 * SECOND);
    assert_eq!(stage.dials, dials, "no dial while isolated");

    stage.input(Input::Resume { upstream: NOTES });
    stage.accept_dial();
    stage.client_sends(&call("4", "create_note"));
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 4);
}

#[test]
fn isolation_ends_wait_for_server() {
    let mut stage = Stage::up();
    stage.die(0);
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(stage.state(), LinkState::Waiting);
    stage.input(Input::Isolate { upstream: NOTES });
    assert_eq!(cause(&stage.client_reads().expect("at once")), "breaker_open");
    assert_eq!(stage.state(), LinkState::Idle);
    stage.advance(600 * SECOND);
    assert_eq!(stage.dials, 1);
    stage.input(Input::Resume { upstream: NOTES });
    assert_eq!(stage.dials, 2);
}

#[test]
fn isolation_over_http_blocks_requests_until_resumed() {
    let mut stage = http_stage(|_| {});
    stage.input(Input::Isolate { upstream: NOTES });
    is_rejected_by_breaker(&mut stage, 1);
    stage.advance(600 * SECOND);
    assert!(stage.seen.is_empty());
    stage.input(Input::Resume { upstream: NOTES });
    succeeds(&mut stage, 2);
}

#[test]
fn result_is_a_tool_error_only_if_it_says_so() {
    for (is_error, logged) in [(false, 0), (true, 1)] {
        let mut stage = Stage::up();
        stage.client_sends(&call("1", "create_note"));
        stage.server_answers(&format!(r#"{{"content":[],"isError":{is_error}}}"#));
        assert_eq!(stage.log.iter().filter(|line| line.contains("with a tool error")).count(), logged);
    }
}

#[test]
fn end_of_extended_pause_is_reported_without_a_waiting_call() {
    let mut stage = http_stage(|_| {});
    let calls = [1, 2].map(|id| {
        stage.client_sends(&http::call(id, "create_note"));
        stage.next_sent()
    });
    for (seen, seconds) in calls.iter().zip([5, 20]) {
        stage.answer_overloaded(seen, 429, Some(seconds));
    }
    for id in 1..=2 {
        let params = format!(r#"{{"requestId":{id}}}"#);
        stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
    }
    stage.advance(30 * SECOND);
    assert!(stage.events.iter().any(|event| matches!(event, Event::PauseEnded { .. })), "{:?}", stage.log);
}

#[test]
fn call_beyond_pause_names_overload_and_not_the_rate_limit() {
    let mut stage = http_stage(|notes| {
        notes.rate_limit = Some(RateLimit { burst: 100, per_second: 100.0 });
        notes.timeouts.call = Duration::from_millis(200);
    });
    stage.client_sends(&http::call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 429, None);
    answer_of(&mut stage);
    stage.client_sends(&http::call(2, "create_note"));
    let answer = answer_of(&mut stage);
    assert_eq!((cause(&answer), &facts(&answer)["reason"]), ("rate_limited", &"overloaded".into()), "{answer}");
}

#[test]
fn trial_without_answer_admits_next_one_after_the_open_time() {
    let mut stage = breaker_open();
    let rejected = is_rejected_by_breaker(&mut stage, 20);
    stage.advance(wait(&rejected));
    stage.client_sends(&http::call(21, "create_note"));
    assert_eq!(stage.next_sent().method(), "tools/call", "the trial");
    is_rejected_by_breaker(&mut stage, 22);
    stage.advance(120 * SECOND);
    stage.client_sends(&http::call(23, "create_note"));
    assert_eq!(stage.next_sent().method(), "tools/call", "the next trial");
}

#[test]
fn call_whose_slot_comes_at_its_deadline_waits() {
    let mut stage = Stage::with(|notes| {
        notes.rate_limit = Some(RateLimit { burst: 1, per_second: 0.1 });
        notes.timeouts.call = 10 * SECOND;
    });
    stage.accept_dial();
    for id in 1..=2 {
        stage.client_sends(&call(&id.to_string(), "create_note"));
    }
    assert_eq!(stage.client_reads(), None);
}
