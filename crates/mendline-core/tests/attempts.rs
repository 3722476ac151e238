//! Attempts of calls: their number, their pauses, and the failure after the last one.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::OnError;
use mendline_core::port::SpawnError;
use mendline_core::{Input, LinkState, UpstreamConfig, defaults};
use serde_json::Value;
use stage::initialized::{initialized, initialized_with};
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
    let mut stage = initialized_with(|notes| notes.timeouts.handshake_again = defaults::CALL);
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
    let mut stage = Stage::with(|notes| {
        notes.retry.initial = Duration::from_secs(1);
        // A configured code has all attempts.
        notes.retry.codes = [(-32603, OnError::Reads)].into();
    });
    stage.accept_dial();
    let mut pauses = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        stage.client_sends(LIST);
        for pauses in &mut pauses {
            let id = stage.server_reads().unwrap()["id"].clone();
            stage.server_sends(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"locked"}}}}"#
            ));
            let began = stage.now;
            while stage.engine.load().for_links == 0 {
                stage.advance(Duration::from_millis(10));
                assert!(stage.now.since(began) <= Duration::from_secs(3), "never for long");
            }
            pauses.push(stage.now.since(began).as_millis());
        }
        stage.server_answers("{}");
        stage.client_reads().unwrap();
        stage.advance(defaults::BUDGET_REGROWTH * 2);
    }
    let [second, third] = &pauses;
    assert!(second.iter().all(|pause| (500..=1_010).contains(pause)), "half of it is jitter: {second:?}");
    assert!(third.iter().all(|pause| (1_000..=2_010).contains(pause)), "twice as long: {third:?}");
    assert!(third.iter().any(|pause| *pause > 1_200), "{third:?}");
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

#[test]
fn r12_attempt_timeout_holds_for_commands() {
    let mut stage = Stage::with(|notes| notes.timeouts.attempt = Some(Duration::from_secs(5)));
    stage.accept_dial();
    stage.client_sends(LIST);
    assert_eq!(stage.server_reads().unwrap()["method"], "resources/list");
    stage.advance(Duration::from_secs(5));
    assert_eq!(stage.server_reads().expect("the attempt is given up")["method"], "notifications/cancelled");
    stage.advance(defaults::RETRY_CAP);
    assert_eq!(stage.server_answers("{}")["method"], "resources/list");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn attempt_timeout_does_not_end_a_subscription() {
    let mut stage = Stage::with(|notes| notes.timeouts.attempt = Some(Duration::from_secs(5)));
    stage.accept_dial();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{{meta}}}}}"#));
    assert_eq!(stage.server_reads().unwrap()["method"], "subscriptions/listen");
    stage.advance(Duration::from_secs(60));
    assert_eq!((stage.server_reads(), stage.client_reads()), (None, None));
}

#[test]
fn attempt_ended_by_an_error_is_logged_by_its_number() {
    let mut stage = Stage::up();
    stage.client_sends(LIST);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#));
    assert_eq!((count(&stage, "attempt 1 ended"), count(&stage, "attempt 2 of")), (1, 1), "{:?}", stage.log);
}

#[test]
fn missing_command_is_reported_as_final() {
    let mut stage = Stage::new();
    let link = stage.spawned.take().unwrap();
    let why = SpawnError::NotFound { command: "notes-server".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
    stage.client_sends(&call("1", "create_note"));
    let answer = stage.client_reads().expect("only a person can help");
    assert_eq!((&failure(&answer)["retryable"], &failure(&answer)["outcome"]), (&false.into(), &"not_sent".into()));
}

// ---- the retry budget ----

#[test]
fn retries_of_errors_are_charged_to_the_budget() {
    const READS: u32 = 40;
    let mut stage = Stage::up();
    let mut sent = 0;
    for id in 0..READS {
        stage.client_sends(&LIST.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
        while stage.client_reads().is_none() {
            if let Some(request) = stage.server_reads() {
                sent += 1;
                let error = r#"{"code":-32603,"message":"no"}"#;
                stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, request["id"]));
            } else {
                stage.advance(Duration::from_millis(10));
            }
        }
    }
    assert!((READS..READS * 2).contains(&sent), "{sent} of {READS} reads");
}

#[test]
fn r04_all_reads_of_dead_child_are_resent_for_one_charge() {
    let mut stage = Stage::up();
    for round in 1..=3 {
        for id in 0..64 {
            stage.client_sends(&LIST.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
            stage.server_reads().unwrap();
        }
        stage.die(stage.written);
        assert_eq!(stage.client_reads(), None, "round {round}: every read waits");
        stage.next_dial();
        stage.accept_dial();
        for _ in 0..64 {
            stage.server_answers("{}");
            assert!(stage.client_reads().unwrap()["result"].is_object(), "round {round}");
        }
    }
}

#[test]
fn r04_refusal_by_retry_budget_is_reported() {
    let mut stage = Stage::up();
    let mut incidents = 0;
    let refused = loop {
        stage.client_sends(LIST);
        stage.server_reads().unwrap();
        stage.die(stage.written);
        incidents += 1;
        assert!(incidents <= 30, "the budget is bounded");
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        stage.next_dial();
        stage.accept_dial();
        stage.server_answers("{}");
        assert_eq!(stage.client_reads().unwrap()["id"], 1);
    };
    assert!(incidents > defaults::BUDGET_BUCKET, "after {incidents} incidents");
    let reported = failure(&refused);
    assert_eq!((&reported["reason"], &reported["attempts"]), (&"retry_budget_spent".into(), &1.into()));
    let words = "it was not sent again, because the retry budget is spent";
    assert!(refused["error"]["message"].as_str().unwrap().contains(words), "{refused}");
    assert_eq!(count(&stage, "not retried: the retry budget is spent"), 1, "{:?}", stage.log);
}
