//! Options for reconnecting and retrying, and suspends and network changes of the machine.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{AutoReconnect, Reconnect, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::port::SpawnError;
use mendline_core::{Input, LinkState, defaults};
use serde_json::{Value, json};
use stage::initialized::{initialize, initialized, initialized_with, request, restart};
use stage::{Stage, call};

// ---- options ----

#[test]
fn no_reconnect_next_call_dials_once_and_is_answered() {
    let off = AutoReconnect { enabled: Some(false), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = off.into());
    stage.die(stage.written);
    stage.advance(Duration::from_secs(600));
    assert_eq!((stage.dials, stage.state()), (1, LinkState::Idle), "not by itself");
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(stage.dials, 2);
    stage.accept_dial();
    stage.die(0);
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["outcome"], "not_sent");
    stage.advance(Duration::from_secs(600));
    assert_eq!(stage.dials, 2);
    stage.client_sends(&call("2", "create_note"));
    stage.accept_dial();
    stage.server_answers("{}");
    stage.server_reads();
    assert_eq!(stage.server_answers("{}")["method"], "tools/call");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn configured_retries_are_exact() {
    let three = AutoReconnect { max_retries: Some(Some(3)), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = three.into());
    stage.advance(defaults::PROVEN);
    stage.die(stage.written);
    for _ in 0..3 {
        assert_eq!(stage.state(), LinkState::Waiting);
        stage.advance(Duration::from_secs(2));
        stage.accept_dial();
        stage.die(0);
    }
    assert_eq!(stage.state(), LinkState::Parked);
}

#[test]
fn r09_configured_retries_hold_for_exiting_command() {
    for retries in [Some(7), Some(12), None] {
        let options = AutoReconnect {
            max_retries: Some(retries),
            initial_retry_delay: Some(Duration::from_secs(1)),
            backoff_multiplier: Some(1.0),
            ..AutoReconnect::default()
        };
        let mut stage = initialized_with(|notes| notes.reconnect = options.into());
        stage.die(stage.written);
        let mut redials = 0;
        while stage.state() == LinkState::Waiting && redials < 50 {
            stage.next_dial();
            redials += 1;
            stage.accept_dial();
            stage.die(0);
        }
        assert_eq!(redials, retries.unwrap_or(50), "configured: {retries:?}");
    }
}

#[test]
fn r09_waiting_calls_do_not_use_up_retries_early() {
    let three = AutoReconnect {
        max_retries: Some(Some(3)),
        initial_retry_delay: Some(Duration::from_secs(10)),
        backoff_multiplier: Some(2.0),
        ..AutoReconnect::default()
    };
    let mut stage = initialized_with(|notes| notes.reconnect = three.into());
    stage.die(stage.written);
    stage.client_sends(&call("1", "create_note"));
    let began = stage.now;
    while stage.state() != LinkState::Parked {
        stage.next_dial();
        stage.accept_dial();
        stage.die(0);
    }
    assert!(stage.dials > 4, "a waiting call is served by more dials: {}", stage.dials);
    // The delays are 10, 20 and 30 s, of which half is jitter.
    let age = stage.now.since(began);
    assert!((Duration::from_secs(30)..=Duration::from_secs(60)).contains(&age), "parked after {age:?}");
    assert_eq!(stage.client_reads().unwrap()["result"]["_meta"]["dev.mendline/failure"]["cause"], "parked");
}

#[test]
fn retries_are_restored_by_answers_and_uptime_not_by_handshakes() {
    let two = || AutoReconnect { max_retries: Some(Some(2)), ..AutoReconnect::default() };
    let mut lasting = initialized_with(|notes| notes.reconnect = two().into());
    for _ in 0..10 {
        lasting.advance(defaults::KEEP_ALIVE);
        assert_eq!(lasting.server_answers("{}")["method"], "ping");
        restart(&mut lasting);
    }
    assert_eq!(lasting.state(), LinkState::Up);

    let mut serving = initialized_with(|notes| notes.reconnect = two().into());
    // More restarts than retries, and not yet a crash loop.
    for _ in 1..defaults::CRASH_LOOP_EXITS {
        serving.advance(defaults::DIAL_PACE + defaults::DIAL_PACE_SPREAD);
        restart(&mut serving);
        request(&mut serving, "tools/call", &json!({ "name": "create_note" }), "{}");
    }
    serving.die(serving.written);
    assert_eq!(serving.state(), LinkState::Waiting, "an answer to the client's request proves health");

    let mut fleeting = initialized_with(|notes| notes.reconnect = two().into());
    let lost = fleeting.now;
    restart(&mut fleeting);
    restart(&mut fleeting);
    fleeting.advance(Duration::from_secs(5) - fleeting.now.since(lost));
    fleeting.die(fleeting.written);
    assert_eq!(fleeting.state(), LinkState::Parked, "an answered handshake alone proves nothing");
}

#[test]
fn hints_of_untrusted_server_are_ignored() {
    for (trusted, outcome) in [(true, None), (false, Some("unknown"))] {
        let mut stage = initialized_with(|notes| notes.trust_hints = trusted);
        let tools = r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}}]}"#;
        request(&mut stage, "tools/list", &json!({}), tools);
        stage.client_sends(&call("1", "look"));
        stage.server_reads().unwrap();
        stage.die(stage.written);
        let reported = stage.client_reads().map(|it| it["result"]["_meta"]["dev.mendline/failure"]["outcome"].clone());
        assert_eq!(reported.as_ref().and_then(Value::as_str), outcome, "trusted: {trusted}");
    }
}

#[test]
fn all_waits_for_server_share_recovery_timeout() {
    let mut stage = initialized();
    stage.advance(defaults::PROVEN);
    stage.die(stage.written);
    stage.client_sends(&call("1", "create_note"));
    let began = stage.now;
    let fails = |stage: &mut Stage, time: Duration| {
        let end = stage.now + time;
        while stage.now < end {
            stage.advance(Duration::from_millis(100));
            if let Some(link) = stage.spawned.take() {
                let why = SpawnError::Exhausted {
                    command: "notes-server".to_owned(),
                    error: "no process to be had".to_owned(),
                };
                stage.input(Input::SpawnFailed { link, why });
            }
        }
    };
    fails(&mut stage, defaults::RECOVERY / 2);
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.server_reads().unwrap();
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/call");
    stage.die(stage.written - 2);
    // The call was with the server for no time, so both waits end together.
    let moment = Duration::from_millis(100);
    let rest = defaults::RECOVERY - stage.now.since(began);
    fails(&mut stage, rest - 2 * moment);
    assert_eq!(stage.client_reads(), None);
    fails(&mut stage, 2 * moment);
    assert_eq!(stage.client_reads().unwrap()["result"]["_meta"]["dev.mendline/failure"]["outcome"], "not_sent");
}

#[test]
fn fast_backoff_continues_at_steady_rate_after_burst() {
    let quick = AutoReconnect {
        initial_retry_delay: Some(Duration::from_millis(50)),
        backoff_multiplier: Some(1.0),
        max_retries: Some(None),
        ..AutoReconnect::default()
    };
    let mut stage = initialized_with(|notes| notes.reconnect = quick.into());
    stage.die(stage.written);
    let (mut last, mut longest) = (stage.now, Duration::ZERO);
    while stage.now.since(last) < Duration::from_secs(30) && stage.dials < 100 {
        stage.advance(Duration::from_millis(10));
        if let Some(link) = stage.spawned.take() {
            longest = longest.max(stage.now.since(last));
            last = stage.now;
            let why =
                SpawnError::Exhausted { command: "notes-server".to_owned(), error: "no process to be had".to_owned() };
            stage.input(Input::SpawnFailed { link, why });
        }
    }
    assert_eq!(stage.dials, 100);
    assert!(longest < Duration::from_secs(5), "nothing was tried for {longest:?}");
}

#[test]
fn configured_effect_of_tool_is_used() {
    let mut stage = initialized_with(|notes| {
        notes.tools =
            [("sync".into(), ToolPolicy { effect: Some(Effect::Idempotent), ..ToolPolicy::default() })].into();
    });
    stage.client_sends(&call("1", "sync"));
    stage.server_reads().unwrap();
    restart(&mut stage);
    assert_eq!(stage.server_answers("{}")["params"]["name"], "sync", "it may run twice");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn reconnect_is_announced_to_client_on_request() {
    let loud = AutoReconnect { silent: Some(false), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = loud.into());
    request(&mut stage, "logging/setLevel", &json!({ "level": "info" }), "{}");
    stage.die(stage.written);
    let lost = stage.client_reads().unwrap();
    assert_eq!((&lost["method"], &lost["params"]["level"]), (&json!("notifications/message"), &json!("warning")));
    stage.client_sends(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}"#,
    );
    let mut seen = 0.0;
    for attempt in 2..=4 {
        stage.advance(Duration::from_secs(1));
        stage.accept_dial();
        stage.die(0);
        let message = stage.client_reads().unwrap();
        assert_eq!(
            (&message["method"], &message["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("t"))
        );
        assert_eq!(message["params"]["message"], format!("reconnecting to \"notes\", attempt {attempt} of 10"));
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > seen, "progress never falls");
        seen = progress;
        assert_eq!(stage.client_reads(), None);
    }
    stage.advance(Duration::from_secs(2));
    stage.accept_dial();
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["params"]["data"], "the server \"notes\" is back");
    stage.server_reads();
    stage.server_answers("{}");
    let id = stage.server_reads().unwrap()["id"].clone();
    for (value, shown) in [(0, false), (1, true)] {
        stage.server_sends(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{value}}}}}"#
        ));
        assert_eq!(stage.client_reads().is_some(), shown, "the server's own progress goes on from there");
    }
}

#[test]
fn unlimited_retries_are_counted_without_limit() {
    let endless = AutoReconnect { silent: Some(false), max_retries: Some(None), ..AutoReconnect::default() };
    let mut stage = initialized_with(|notes| notes.reconnect = endless.into());
    stage.die(stage.written);
    stage.client_sends(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}"#,
    );
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    stage.die(0);
    let message = std::iter::from_fn(|| stage.client_reads()).find(|it| it["method"] == "notifications/progress");
    assert_eq!(message.unwrap()["params"]["message"], "reconnecting to \"notes\", attempt 2");
}

#[test]
fn reconnect_is_not_announced_by_default() {
    let mut stage = initialized();
    request(&mut stage, "logging/setLevel", &json!({ "level": "debug" }), "{}");
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":"t"}}}"#);
    stage.server_reads().unwrap();
    restart(&mut stage);
    assert_eq!(stage.client_reads(), None);
}

// ---- suspends and network changes ----

#[test]
fn after_suspend_lost_links_dial_and_live_links_ping() {
    let mut stage = Stage::with(|notes| {
        notes.reconnect = Reconnect { attempts: 2, patience: Duration::ZERO, ..Reconnect::default() };
    });
    stage.accept_dial();
    initialize(&mut stage);
    stage.input(Input::SystemResumed);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.die(stage.written);
    for _ in 0..2 {
        stage.advance(Duration::from_secs(1));
        stage.accept_dial();
        stage.die(0);
    }
    assert_eq!(stage.state(), LinkState::Parked);
    let dials = stage.dials;
    stage.input(Input::NetworkChanged);
    stage.advance(defaults::STAGGER);
    assert_eq!(stage.dials, dials + 1, "the backoff is forgotten");
    stage.accept_dial();
    stage.die(0);
    assert_eq!(stage.state(), LinkState::Waiting, "the count restarts");
}

#[test]
fn network_changes_ping_at_most_once_per_second() {
    let mut stage = initialized();
    let mut pings = 0;
    for _ in 0..40 {
        stage.input(Input::NetworkChanged);
        while let Some(ping) = stage.server_reads() {
            assert_eq!(ping["method"], "ping");
            stage.server_sends(&json!({ "jsonrpc": "2.0", "id": ping["id"], "result": {} }).to_string());
            pings += 1;
        }
        stage.advance(Duration::from_millis(100));
    }
    assert!((4..=5).contains(&pings), "{pings} within four seconds");
    stage.advance(defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.server_answers("{}")["method"], "ping", "the last change is not forgotten");
}

#[test]
fn network_changes_cause_no_dial_storm() {
    let mut stage = initialized();
    stage.die(stage.written);
    for _ in 0..600 {
        stage.input(Input::NetworkChanged);
        stage.advance(Duration::from_millis(100));
        if stage.spawned.is_some() {
            stage.accept_dial();
            stage.die(0);
        }
    }
    assert!(stage.dials as usize <= defaults::DIALS_PER_MINUTE, "{} dials in a minute", stage.dials);
}
