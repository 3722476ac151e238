//! Dials of a child: when and how often they happen, and what is reported.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{AutoReconnect, Reconnect};
use mendline_core::port::{Pipe, SpawnError};
use mendline_core::{Input, LinkState, Moment, Output, UpstreamConfig, defaults};
use serde_json::{Value, json};
use stage::initialized::{initialized, initialized_with, request, restart};
use stage::{NOTES, Stage, call};

fn fail_spawn(stage: &mut Stage) {
    let link = stage.spawned.take().expect("a dial");
    let why = SpawnError::Exhausted { command: "notes-server".to_owned(), error: "no process to be had".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
}

/// Creates a stage whose child fails to start for this number of dials, with the next dial many seconds away.
fn with_failed_dials(dials: u32) -> Stage {
    with_failed_dials_and(dials, |_| {})
}

fn with_failed_dials_and(dials: u32, change: impl FnOnce(&mut UpstreamConfig)) -> Stage {
    let mut stage = Stage::with(change);
    // The dials soon after the start of a client are as frequent as for a waiting call.
    stage.advance(defaults::CLIENT_START);
    for _ in 1..dials {
        fail_spawn(&mut stage);
        stage.next_dial();
    }
    fail_spawn(&mut stage);
    stage
}

#[test]
fn server_is_dialed_often_while_a_client_starts() {
    let mut stage = Stage::new();
    while stage.now + defaults::RECONNECT_CAP_CALLED < Moment::ZERO + defaults::CLIENT_START {
        fail_spawn(&mut stage);
        let pause = stage.next_dial();
        assert!(pause <= defaults::RECONNECT_CAP_CALLED + Duration::from_millis(1), "{pause:?}");
    }
}

#[test]
fn redial_delay_doubles() {
    let mut stage = Stage::new();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        fail_spawn(&mut stage);
        pauses.push(stage.next_dial().as_millis());
    }
    for (pause, least) in pauses.iter().zip([0, 100, 200, 400, 800, 1_600]) {
        assert!((least..=least.max(100) * 2 + 1).contains(pause), "{pauses:?}");
    }
}

#[test]
fn server_with_waiting_call_is_dialed_sooner() {
    for by_exit in [false, true] {
        let lost = |waited_for: bool| {
            let mut stage = with_failed_dials(7);
            stage.next_dial();
            if waited_for {
                stage.client_sends(&call("1", "create_note"));
            }
            if by_exit {
                stage.accept_dial();
                stage.die(0);
            } else {
                fail_spawn(&mut stage);
            }
            stage.next_dial()
        };
        assert!(lost(true) <= Duration::from_millis(2_401), "by exit: {by_exit}");
        assert!(lost(false) > Duration::from_secs(6), "by exit: {by_exit}");
    }
}

#[test]
fn waiting_calls_bring_distant_dial_forward_once() {
    let dialed_after = |calls: u32| {
        let mut stage = with_failed_dials(9);
        for id in 0..calls {
            stage.client_sends(&call(&id.to_string(), "create_note"));
        }
        stage.next_dial()
    };
    assert!(dialed_after(0) > Duration::from_secs(12));
    let cap = defaults::RECONNECT_CAP_CALLED;
    assert!((cap / 2..=cap + Duration::from_millis(1)).contains(&dialed_after(1)), "{:?}", dialed_after(1));
    assert_eq!(dialed_after(100), dialed_after(1));
}

#[test]
fn imminent_dial_is_not_brought_forward() {
    let due = |stage: &Stage| stage.engine.poll_timeout().expect("a dial to come").since(stage.now);
    let wait = due(&with_failed_dials(9));
    let mut stage = with_failed_dials_and(9, |notes| notes.reconnect.cap_called = wait);
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(due(&stage), wait);
}

#[test]
fn long_stable_server_is_redialed_quickly() {
    let mut stage = initialized();
    for _ in 0..defaults::DIAL_BURST + 2 {
        stage.advance(defaults::CRASH_LOOP_WINDOW + defaults::PROVEN);
        restart(&mut stage);
    }
    stage.advance(defaults::CRASH_LOOP_WINDOW + defaults::PROVEN);
    stage.die(stage.written);
    assert!(stage.next_dial() <= Duration::from_millis(201));
    fail_spawn(&mut stage);
    assert!(stage.next_dial() <= Duration::from_millis(201), "old dials do not count");
}

#[test]
fn automatic_dials_stay_within_limit_per_minute() {
    let mut stage = Stage::new();
    let first = stage.now;
    for _ in 1..defaults::DIALS_PER_MINUTE {
        fail_spawn(&mut stage);
        stage.input(Input::Reconnect { upstream: NOTES });
    }
    assert_eq!(stage.dials as usize, defaults::DIALS_PER_MINUTE, "a manual reconnect does not wait");
    fail_spawn(&mut stage);
    stage.next_dial();
    assert!(stage.now >= first + Duration::from_secs(60), "after {:?}", stage.now.since(first));
}

/// Creates a stage whose child exited three times and is parked now.
fn parked() -> Stage {
    let two = Reconnect { attempts: 2, patience: Duration::ZERO, ..Reconnect::default() };
    let mut stage = Stage::with(|notes| notes.reconnect = two);
    for _ in 0..2 {
        stage.accept_dial();
        stage.die(0);
        assert_eq!(stage.state(), LinkState::Waiting);
        stage.next_dial();
    }
    stage.accept_dial();
    stage.die(0);
    assert_eq!(stage.state(), LinkState::Parked);
    stage
}

#[test]
fn r10_call_waits_for_the_dial_that_it_triggers() {
    let mut stage = parked();
    stage.advance(defaults::PARKED_COOL_DOWN);
    stage.client_sends(&call("1", "create_note"));
    assert_eq!((stage.state(), stage.client_reads()), (LinkState::Dialing, None));
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.client_reads(), None, "a later call waits, too");
    stage.accept_dial();
    for id in 1..=2 {
        stage.server_answers("{}");
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn r10_call_is_answered_when_the_triggered_dial_fails() {
    let mut stage = parked();
    stage.advance(defaults::PARKED_COOL_DOWN);
    stage.client_sends(&call("1", "create_note"));
    fail_spawn(&mut stage);
    assert_eq!(stage.state(), LinkState::Parked);
    let answer = stage.client_reads().expect("an answer at once");
    let reported = &answer["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!((&reported["cause"], &reported["outcome"]), (&json!("parked"), &json!("not_sent")));
}

#[test]
fn parked_server_reports_when_call_may_dial() {
    let mut stage = parked();
    stage.client_sends(&call("1", "create_note"));
    let answer = stage.client_reads().expect("an answer at once");
    let reported = &answer["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!(reported["cause"], "parked");
    let after = reported["retryAfterMs"].as_u64().unwrap();
    assert!((9_990..=10_000).contains(&after), "{after} ms");
    stage.advance(Duration::from_secs(10));
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.state(), LinkState::Dialing, "as announced");
}

#[test]
fn manual_reconnect_does_not_dial_during_shutdown() {
    let mut stage = Stage::up();
    stage.die(0);
    stage.input(Input::Stop);
    assert!(matches!(stage.asked.last(), Some(Output::Finished { .. })), "{:?}", stage.asked);
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.advance(Duration::from_secs(600));
    assert_eq!(stage.dials, 1);
}

#[test]
fn suspend_while_up_resets_no_retries() {
    let two = AutoReconnect { max_retries: Some(Some(2)), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = two.into());
    let (lost, two_delays) = (stage.now, Duration::from_secs(5));
    restart(&mut stage);
    stage.input(Input::SystemResumed);
    restart(&mut stage);
    stage.input(Input::SystemResumed);
    stage.advance(two_delays - stage.now.since(lost));
    stage.die(stage.written);
    assert_eq!(stage.state(), LinkState::Parked);
}

#[test]
fn child_ended_by_mendline_is_reported_with_reason() {
    let last_move = |stage: &Stage| stage.log.iter().rfind(|line| line.contains('→')).unwrap().clone();
    let mut stage = Stage::up();
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.die(0);
    assert!(last_move(&stage).ends_with(": requested by the operator"), "{}", last_move(&stage));

    let mut stage = Stage::up();
    let link = stage.spawned.unwrap();
    stage.input(Input::LinkBroken { link, pipe: Pipe::Stdout });
    stage.advance(defaults::SHUTDOWN_STEP);
    stage.die(0);
    assert!(last_move(&stage).ends_with(": the server closed its stdout"), "{}", last_move(&stage));
}

// ---- log messages to clients ----

fn with_log_level(level: &str, retries: u32) -> Stage {
    let policy = AutoReconnect { silent: Some(false), max_retries: Some(Some(retries)), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = policy.into());
    request(&mut stage, "logging/setLevel", &json!({ "level": level }), "{}");
    stage
}

fn log_messages(stage: &mut Stage) -> Vec<Value> {
    std::iter::from_fn(|| stage.client_reads()).map(|it| it["params"]["level"].clone()).collect()
}

#[test]
fn t10_client_without_log_level_is_told_of_loss_and_return() {
    let loud = AutoReconnect { silent: Some(false), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = loud.into());
    stage.die(stage.written);
    let lost = stage.client_reads().expect("the loss is reported");
    assert_eq!((&lost["method"], &lost["params"]["level"]), (&json!("notifications/message"), &json!("warning")));
    assert!(lost["params"]["data"].as_str().unwrap().starts_with("lost the server \"notes\" ("), "{lost}");
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    let back = stage.client_reads().expect("its end is reported");
    let (level, words) = (&back["params"]["level"], &back["params"]["data"]);
    assert_eq!((level, words), (&json!("warning"), &json!("the server \"notes\" is back")));
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn t10_modern_client_gets_no_log_message_about_loss() {
    let loud = AutoReconnect { silent: Some(false), ..AutoReconnect::default() };
    let mut stage = Stage::with(|notes| notes.reconnect = loud.into());
    stage.accept_dial();
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let list = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    stage.client_sends(&list(1));
    stage.server_answers(r#"{"tools":[]}"#);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.die(stage.written);
    stage.client_sends(&list(2));
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(r#"{"tools":[]}"#);
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "nothing was sent before");
}

#[test]
fn client_gets_log_messages_from_its_level_up() {
    for (level, expected) in
        [("info", vec!["warning", "error", "error"]), ("error", vec!["error", "error"]), ("critical", vec![])]
    {
        let mut stage = with_log_level(level, 1);
        stage.die(stage.written);
        stage.next_dial();
        stage.accept_dial();
        stage.advance(defaults::MAX_RETRIES_DELAY);
        stage.die(0);
        assert_eq!(stage.state(), LinkState::Parked);
        for _ in 0..3 {
            stage.advance(defaults::PARKED_PROBE);
            stage.accept_dial();
            stage.die(0);
            assert_eq!(stage.state(), LinkState::Parked, "it is reported only once");
        }
        stage.advance(defaults::PARKED_PROBE);
        stage.accept_dial();
        stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
        assert_eq!(log_messages(&mut stage), expected, "{level}");
    }
}

#[test]
fn parked_server_is_reported_with_reason() {
    let mut stage = with_log_level("error", 1);
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    stage.advance(defaults::MAX_RETRIES_DELAY);
    stage.die(0);
    let reported = stage.client_reads().expect("the client is notified");
    let words = reported["params"]["data"].as_str().unwrap();
    assert!(words.contains("\"notes\" keeps failing (the server was killed by signal 9)"), "{words}");
}

#[test]
fn t08_parked_server_is_reported_once_an_hour() {
    let mut stage = Stage::with(|notes| {
        notes.reconnect = AutoReconnect { max_retries: Some(Some(1)), ..AutoReconnect::default() }.into();
    });
    let begin = stage.now;
    while stage.now.since(begin) < Duration::from_secs(3 * 3600) {
        fail_spawn(&mut stage);
        while stage.spawned.is_none() {
            stage.advance(Duration::from_secs(1));
        }
    }
    assert_eq!(stage.state(), LinkState::Dialing);
    // The failed dials before it is parked, and once an hour that it still is.
    assert!((4..=9).contains(&stage.errors), "{} errors in three hours", stage.errors);
}

/// Waits for the next dial, and returns the time until it, rounded up to seconds.
fn seconds_to_next_dial(stage: &mut Stage) -> Duration {
    let began = stage.now;
    while stage.spawned.is_none() {
        stage.advance(Duration::from_secs(1));
    }
    stage.now.since(began)
}

#[test]
fn server_without_waiting_call_is_dialed_every_forty_seconds() {
    let endless = Reconnect { attempts: u32::MAX, ..Reconnect::default() };
    let mut stage = Stage::with(|notes| notes.reconnect = endless);
    let begin = stage.now;
    let mut longest = Duration::ZERO;
    while stage.now.since(begin) < Duration::from_secs(1800) {
        fail_spawn(&mut stage);
        longest = longest.max(seconds_to_next_dial(&mut stage));
    }
    assert!(longest <= Duration::from_secs(40), "{longest:?}");
    assert!(longest > Duration::from_secs(20), "{longest:?}: the delays have reached their limit");
}

#[test]
fn parked_server_is_dialed_every_minute_without_a_call() {
    let mut stage = parked();
    for _ in 0..20 {
        let wait = seconds_to_next_dial(&mut stage);
        assert!(wait <= Duration::from_secs(60), "{wait:?}");
        fail_spawn(&mut stage);
        assert_eq!(stage.state(), LinkState::Parked);
    }
}
