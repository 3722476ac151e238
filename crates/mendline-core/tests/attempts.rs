//! Attempts of calls: their number, their pauses, and the failure after the last one.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::port::SpawnError;
use mendline_core::{Input, LinkState, UpstreamConfig, defaults};
use serde_json::Value;
use stage::initialized::initialized;
use stage::{Stage, call};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#;

fn failure(answer: &Value) -> &Value {
    let error = &answer["error"]["data"];
    if error.is_null() { &answer["result"]["_meta"]["dev.mendline/failure"] } else { error }
}

fn count(stage: &Stage, words: &str) -> usize {
    stage.log.iter().filter(|line| line.contains(words)).count()
}

/// Starts the next child.
fn next_child(stage: &mut Stage) {
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
}

/// Creates a stage whose calls have a deadline of three seconds.
fn with_short_deadline(change: impl FnOnce(&mut UpstreamConfig)) -> Stage {
    Stage::with(|notes| {
        notes.timeouts.call = Duration::from_secs(3);
        change(notes);
    })
}

/// Returns the failure text of a call that was not sent within three seconds.
fn why_unsent(stage: &mut Stage) -> String {
    stage.advance(Duration::from_secs(3));
    let answer = stage.client_reads().expect("its time is over");
    assert_eq!((&failure(&answer)["cause"], &failure(&answer)["outcome"]), (&"timed_out".into(), &"not_sent".into()));
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn attempt_that_cannot_have_arrived_is_not_counted() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    for _ in 0..3 {
        stage.server_reads().unwrap();
        stage.die(stage.written - 2);
        next_child(&mut stage);
    }
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!((count(&stage, "attempt 1 started"), count(&stage, "retrying")), (4, 0));
    assert_eq!(count(&stage, "answered after"), 1);
}

#[test]
fn read_is_sent_three_times_and_then_unknown() {
    let mut stage = Stage::up();
    stage.client_sends(LIST);
    for attempt in 1..=3 {
        assert_eq!(stage.client_reads(), None, "attempt {attempt}");
        stage.server_reads().unwrap();
        stage.die(stage.written);
        if attempt < 3 {
            next_child(&mut stage);
            assert_eq!(count(&stage, &format!("retrying (attempt {} of 3)", attempt + 1)), 1, "{:?}", stage.log);
        }
    }
    let answer = stage.client_reads().expect("the attempts are used up");
    let reported = failure(&answer);
    assert_eq!(
        (&reported["cause"], &reported["outcome"], &reported["attempts"]),
        (&"outcome_unknown".into(), &"unknown".into(), &3.into())
    );
}

#[test]
fn unreadable_answer_is_reported_as_such() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#));
    let answer = stage.client_reads().unwrap();
    assert!(answer.to_string().contains("its answer is not JSON-RPC"), "{answer}");
}

#[test]
fn call_that_waits_in_vain_gets_cause_and_retry_time() {
    let mut stage = initialized();
    stage.die(stage.written);
    stage.client_sends(&call("1", "create_note"));
    let end = stage.now + defaults::RECOVERY;
    while stage.now < end {
        stage.advance(Duration::from_millis(100));
        if let Some(link) = stage.spawned.take() {
            let why =
                SpawnError::Exhausted { command: "notes-server".to_owned(), error: "no process to be had".to_owned() };
            stage.input(Input::SpawnFailed { link, why });
        }
    }
    let answer = stage.client_reads().expect("it has waited long enough");
    let reported = failure(&answer);
    assert_eq!((&reported["cause"], &reported["outcome"]), (&"unavailable".into(), &"not_sent".into()));
    assert!(reported["retryAfterMs"].as_u64().is_some_and(|millis| (1_000..=5_000).contains(&millis)), "{answer}");
    assert!(answer.to_string().contains("no process to be had"), "{answer}");
}

#[test]
fn call_waiting_for_handshake_does_not_report_full_queue() {
    let mut stage = initialized();
    stage.die(stage.written);
    next_child(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
    stage.client_sends(&call("1", "create_note"));
    stage.advance(defaults::RECOVERY);
    assert_eq!(stage.state(), LinkState::Up);
    let answer = stage.client_reads().expect("it has waited long enough");
    assert_eq!(failure(&answer)["cause"], "unavailable");
    assert!(answer.to_string().contains("killed by signal 9"), "{answer}");
}

#[test]
fn unsent_call_reports_what_blocked_it() {
    let mut stage = with_short_deadline(|_| {});
    stage.client_sends(&call("1", "create_note"));
    let reported = why_unsent(&mut stage);
    assert!(reported.contains("it has not started yet"), "{reported}");

    let mut stage = with_short_deadline(|_| {});
    stage.accept_dial();
    stage.die(0);
    stage.client_sends(&call("1", "create_note"));
    let reported = why_unsent(&mut stage);
    assert!(reported.contains("killed by signal 9"), "{reported}");

    let mut stage = with_short_deadline(|_| {});
    stage.accept_dial();
    stage.client_sends(&call("1", "create_note"));
    let reported = why_unsent(&mut stage);
    assert!(reported.contains("the server does not read what is sent to it"), "{reported}");
}

#[test]
fn pause_before_third_attempt_doubles() {
    let mut stage = Stage::with(|notes| notes.retry.initial = Duration::from_secs(1));
    stage.accept_dial();
    let mut longest = [Duration::ZERO; 2];
    for _ in 0..20 {
        stage.client_sends(LIST);
        for pause in &mut longest {
            let id = stage.server_reads().unwrap()["id"].clone();
            stage.server_sends(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"locked"}}}}"#
            ));
            let began = stage.now;
            while stage.engine.load().for_links == 0 {
                stage.advance(Duration::from_millis(10));
                assert!(stage.now.since(began) <= Duration::from_secs(3), "never for long");
            }
            *pause = stage.now.since(began).max(*pause);
        }
        stage.server_answers("{}");
        stage.client_reads().unwrap();
        stage.advance(defaults::BUDGET_REGROWTH * 2);
    }
    assert!(longest[0] <= Duration::from_secs(1), "{longest:?}");
    assert!((Duration::from_millis(1_200)..=Duration::from_secs(2)).contains(&longest[1]), "{longest:?}");
    assert_eq!(count(&stage, "retrying (attempt 2 of 3): the server answered with error"), 20);
    assert_eq!(count(&stage, "retrying (attempt 3 of 3): the server answered with error"), 20);
}

#[test]
fn confirmed_subscription_is_reopened_after_any_outage() {
    let mut stage = Stage::up();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{{meta}}}}}"#));
    let id = stage.server_reads().unwrap()["id"].clone();
    let acknowledged = "notifications/subscriptions/acknowledged";
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","method":"{acknowledged}","params":{{{meta}}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["method"], acknowledged);
    stage.die(stage.written);
    // The next child takes long to start.
    stage.advance(defaults::RECOVERY * 2);
    assert_eq!((stage.state(), stage.client_reads()), (LinkState::Dialing, None), "the client relies on it");
    stage.accept_dial();
    assert_eq!(stage.server_reads().unwrap()["method"], "subscriptions/listen");
}

#[test]
fn slot_of_call_in_backoff_is_used_by_others() {
    let hour = Duration::from_secs(3_600);
    let mut stage = Stage::with(|notes| {
        notes.limits.in_flight = 1;
        (notes.retry.initial, notes.retry.cap) = (hour, hour);
    });
    stage.accept_dial();
    stage.client_sends(LIST);
    stage.client_sends(&call("2", "create_note"));
    let first = stage.server_reads().unwrap();
    assert_eq!(stage.server_reads(), None, "there is one slot");
    let id = &first["id"];
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#));
    assert_eq!(stage.client_reads(), None, "it is asked once more");
    assert_eq!(stage.server_reads().expect("and the other goes first")["params"]["name"], "create_note");
}
