//! Idle links: when they are pinged, and the effect of missed pings.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{Dialect, KeepAlive};
use mendline_core::{Input, LinkState, UpstreamConfig, defaults};
use serde_json::Value;
use stage::http;
use stage::initialized::{initialized, initialized_with, is_killed_by_shutdown_sequence};
use stage::{NOTES, Stage, call};

#[test]
fn idle_link_is_pinged_and_two_misses_end_child() {
    let mut stage = initialized();
    stage.advance(defaults::KEEP_ALIVE);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.advance(defaults::KEEP_ALIVE_TIMEOUT);
    assert_eq!(stage.state(), LinkState::Up, "one lost packet is not an outage");
    stage.advance(defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.advance(defaults::KEEP_ALIVE_TIMEOUT);
    assert_eq!(stage.state(), LinkState::Draining);
    assert!(is_killed_by_shutdown_sequence(&mut stage));
}

#[test]
fn server_answering_pings_is_kept() {
    let mut stage = initialized();
    for _ in 0..100 {
        stage.advance(defaults::KEEP_ALIVE);
        assert_eq!(stage.server_answers("{}")["method"], "ping");
        assert_eq!(stage.client_reads(), None, "the client does not see it");
    }
    assert_eq!((stage.state(), stage.dials), (LinkState::Up, 1));
}

#[test]
fn error_to_ping_counts_as_answer() {
    let mut stage = initialized();
    for _ in 0..3 {
        stage.advance(defaults::KEEP_ALIVE);
        let id = stage.server_reads().unwrap()["id"].clone();
        stage.server_sends(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no ping here"}}}}"#
        ));
    }
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn busy_child_is_pinged_only_after_timed_out_call() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "slow"));
    stage.server_reads().unwrap();
    stage.advance(defaults::CALL - Duration::from_millis(1));
    assert_eq!(stage.server_reads(), None, "a single-threaded server would miss it");
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.client_reads().unwrap()["result"]["_meta"]["dev.mendline/failure"]["cause"], "timed_out");
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/cancelled");
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.advance(defaults::KEEP_ALIVE_TIMEOUT * 2 + defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.state(), LinkState::Draining, "a frozen child is replaced");
}

#[test]
fn r12_child_is_replaced_after_silent_deadline_although_next_call_runs() {
    let mut stage = initialized_with(|notes| notes.limits.in_flight = 1);
    stage.client_sends(&call("1", "slow"));
    stage.server_reads().unwrap();
    stage.advance(defaults::CALL / 2);
    stage.advance(defaults::CALL / 2 - defaults::RECOVERY / 2);
    stage.client_sends(&call("2", "create_note"));
    stage.advance(defaults::RECOVERY / 2);
    let reported: Vec<Value> = std::iter::from_fn(|| stage.server_reads()).map(|it| it["method"].clone()).collect();
    assert_eq!(reported, ["notifications/cancelled", "ping", "tools/call"], "nothing came since the first was sent");
    stage.advance(defaults::KEEP_ALIVE_TIMEOUT * 2 + defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.state(), LinkState::Draining, "a frozen child is replaced");
}

/// No input comes between the request and the time at which the child takes it.
#[test]
fn silence_of_call_begins_when_child_takes_it() {
    let mut stage = Stage::up();
    stage.client_sends(&call("7", "create_note"));
    stage.advance(defaults::SILENCE / 2);
    stage.server_reads().unwrap();
    stage.advance(defaults::SILENCE - Duration::from_millis(1));
    assert_eq!(stage.engine.silent_calls(NOTES), 0);
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.engine.silent_calls(NOTES), 1);
}

#[test]
fn r12_silent_call_of_child_is_in_status_until_its_deadline() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "slow"));
    stage.server_reads().unwrap();
    stage.advance(defaults::SILENCE - Duration::from_millis(1));
    assert_eq!(stage.engine.silent_calls(NOTES), 0);
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.engine.silent_calls(NOTES), 1);
    assert_eq!(stage.server_reads(), None, "a busy child is not pinged");
    stage.advance(defaults::CALL - defaults::SILENCE);
    assert_eq!(stage.engine.silent_calls(NOTES), 0);
}

#[test]
fn any_message_proves_child_alive() {
    let mut stage = initialized();
    let mut silence = defaults::KEEP_ALIVE;
    for _ in 0..5 {
        stage.advance(silence);
        assert_eq!(stage.server_reads().unwrap()["method"], "ping");
        stage.advance(defaults::KEEP_ALIVE_TIMEOUT / 2);
        silence = defaults::KEEP_ALIVE - defaults::KEEP_ALIVE_TIMEOUT / 2;
        stage.server_sends(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}"#,
        );
        stage.client_reads().unwrap();
        stage.advance(defaults::KEEP_ALIVE_TIMEOUT / 2);
    }
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn modern_and_uninitialized_links_are_not_pinged() {
    let mut stage = Stage::up();
    stage.advance(Duration::from_secs(600));
    assert_eq!(stage.server_reads(), None);
    stage.client_sends(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    stage.server_answers(r#"{"tools":[]}"#);
    stage.advance(Duration::from_secs(600));
    assert_eq!(stage.server_reads(), None);
    let mut off = initialized_with(|notes| notes.keep_alive = None);
    off.advance(Duration::from_secs(600));
    assert_eq!(off.server_reads(), None, "no ping without keep-alive");
}

#[test]
fn answer_resets_missed_pings() {
    let mut stage = initialized();
    for _ in 0..3 {
        stage.advance(defaults::KEEP_ALIVE);
        assert_eq!(stage.server_reads().unwrap()["method"], "ping");
        stage.advance(defaults::KEEP_ALIVE_TIMEOUT + defaults::KEEP_ALIVE_PAUSE);
        assert_eq!(stage.state(), LinkState::Up, "one lost packet now and then is not an outage");
        assert_eq!(stage.server_answers("{}")["method"], "ping");
    }
}

#[test]
fn suspicion_pings_link_at_once_unless_just_pinged() {
    let mut stage = initialized();
    stage.advance(defaults::KEEP_ALIVE);
    for pause in [defaults::KEEP_ALIVE_PAUSE, defaults::KEEP_ALIVE_TIMEOUT] {
        assert_eq!(stage.server_answers("{}")["method"], "ping");
        stage.advance(pause);
        stage.input(Input::SystemResumed);
    }
    assert_eq!(stage.server_answers("{}")["method"], "ping");
    stage.advance(defaults::KEEP_ALIVE_PAUSE / 2);
    stage.input(Input::SystemResumed);
    assert_eq!(stage.server_reads(), None, "not twice in a second");
    stage.advance(defaults::KEEP_ALIVE_PAUSE / 2);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
}

#[test]
fn no_ping_without_link_or_keep_alive() {
    let mut off = initialized_with(|notes| notes.keep_alive = None);
    let mut new = Stage::up();
    for stage in [&mut off, &mut new] {
        stage.input(Input::SystemResumed);
        assert_eq!(stage.server_reads(), None);
    }
    // A read in backoff keeps a stage alive that is shutting down.
    let mut stopping = initialized_with(|notes| notes.retry.initial = Duration::from_secs(5));
    stopping.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    let id = stopping.server_reads().unwrap()["id"].clone();
    stopping.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"locked"}}}}"#));
    stopping.input(Input::Stop);
    stopping.input(Input::SystemResumed);
    assert_eq!((stopping.state(), stopping.server_reads()), (LinkState::Up, None));
}

#[test]
fn message_before_ping_is_not_its_answer() {
    let mut stage = initialized();
    stage.advance(defaults::KEEP_ALIVE / 2);
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#);
    stage.input(Input::SystemResumed);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.advance(defaults::KEEP_ALIVE_TIMEOUT + defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.server_reads().expect("the first one was missed")["method"], "ping");
    stage.advance(defaults::KEEP_ALIVE_TIMEOUT);
    assert_eq!(stage.state(), LinkState::Draining);
}

#[test]
fn link_pinged_for_other_reason_is_not_pinged_again_soon() {
    let mut stage = initialized_with(|notes| {
        notes.keep_alive = Some(KeepAlive { interval: Duration::from_secs(1), timeout: Duration::from_millis(500) });
    });
    stage.advance(Duration::from_millis(300));
    stage.input(Input::SystemResumed);
    let ping = stage.server_reads().expect("whether it is still there");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"resu"#, ping["id"]));
    stage.advance(Duration::from_millis(900));
    assert_eq!(stage.server_reads(), None, "its own time has come, but it was tested just now");
    stage.advance(Duration::from_millis(200));
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
}

#[test]
fn busy_server_is_not_tested_after_a_network_change() {
    let mut stage = http::initialized_with_keep_alive();
    stage.client_sends(&http::call(1, "create_note"));
    stage.next_sent();
    stage.input(Input::NetworkChanged);
    stage.advance(Duration::from_secs(1));
    assert!(!stage.seen.iter().any(|seen| seen.ask.body.is_some() && seen.method() == "ping"));
}

#[test]
fn overdue_call_over_http_does_not_test_a_busy_server() {
    let change = |notes: &mut UpstreamConfig| notes.timeouts.call = Duration::from_secs(5);
    let mut stage = http::Stage::with(Dialect::Auto, change).initialize_session();
    for id in 1..=2 {
        stage.client_sends(&http::call(id, "create_note"));
        stage.next_sent();
        stage.advance(Duration::from_secs(3));
    }
    assert_eq!(stage.client_reads().expect("its time is over")["id"], 1);
    stage.input(Input::NetworkChanged);
    stage.advance(Duration::from_secs(1));
    assert!(!stage.seen.iter().any(|seen| seen.ask.body.is_some() && seen.method() == "ping"));
}

#[test]
fn postponed_test_is_made_once() {
    let mut stage = initialized();
    for _ in 0..2 {
        stage.input(Input::NetworkChanged);
        stage.advance(Duration::from_millis(100));
    }
    let mut pings = 0;
    for _ in 0..200 {
        while let Some(request) = stage.server_reads() {
            pings += 1;
            stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
        }
        stage.advance(Duration::from_millis(100));
    }
    assert_eq!(pings, 2);
}
