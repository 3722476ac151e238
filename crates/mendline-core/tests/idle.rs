//! Stories about idle lines: when a line is tested, and what a test that fails costs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stage;

use std::time::Duration;

use mendline_core::config::KeepAlive;
use mendline_core::{Input, LinkState, defaults};
use serde_json::Value;
use stage::greeted::{ended_by_the_ladder, greeted, greeted_with};
use stage::{Stage, call};

#[test]
fn a_silent_line_is_tested_and_two_pings_without_an_answer_end_the_child() {
    let mut stage = greeted();
    stage.pass(defaults::KEEP_ALIVE);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.pass(defaults::KEEP_ALIVE_TIMEOUT);
    assert_eq!(stage.state(), LinkState::Up, "one lost packet is not an outage");
    stage.pass(defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.pass(defaults::KEEP_ALIVE_TIMEOUT);
    assert_eq!(stage.state(), LinkState::Draining);
    assert!(ended_by_the_ladder(&mut stage));
}

#[test]
fn a_server_that_answers_its_pings_is_left_alone_for_ever() {
    let mut stage = greeted();
    for _ in 0..100 {
        stage.pass(defaults::KEEP_ALIVE);
        assert_eq!(stage.server_answers("{}")["method"], "ping");
        assert_eq!(stage.client_reads(), None, "the client never hears of it");
    }
    assert_eq!((stage.state(), stage.dials), (LinkState::Up, 1));
}

#[test]
fn an_error_to_a_ping_is_an_answer_too() {
    let mut stage = greeted();
    for _ in 0..3 {
        stage.pass(defaults::KEEP_ALIVE);
        let id = stage.server_reads().unwrap()["id"].clone();
        stage.server_says(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no ping here"}}}}"#
        ));
    }
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn a_busy_child_is_not_tested_and_after_a_call_that_timed_out_it_is_tested_at_once() {
    let mut stage = greeted();
    stage.client_says(&call("1", "slow"));
    stage.server_reads().unwrap();
    stage.pass(defaults::CALL - Duration::from_millis(1));
    assert_eq!(stage.server_reads(), None, "a single-threaded server would miss it");
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.client_reads().unwrap()["result"]["_meta"]["dev.mendline/failure"]["cause"], "timed_out");
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/cancelled");
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.pass(defaults::KEEP_ALIVE_TIMEOUT * 2 + defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.state(), LinkState::Draining, "a frozen child is replaced");
}

#[test]
fn a_line_is_not_tested_when_the_end_of_one_call_lets_the_next_one_out() {
    let mut stage = greeted_with(|notes| notes.limits.in_flight = 1);
    stage.client_says(&call("1", "slow"));
    stage.server_reads().unwrap();
    stage.pass(defaults::CALL / 2);
    stage.pass(defaults::CALL / 2 - defaults::RECOVERY / 2);
    stage.client_says(&call("2", "create_note"));
    stage.pass(defaults::RECOVERY / 2);
    let said: Vec<Value> = std::iter::from_fn(|| stage.server_reads()).map(|it| it["method"].clone()).collect();
    assert_eq!(said, ["notifications/cancelled", "tools/call"], "it is busy with the next one");
}

#[test]
fn whatever_is_heard_shows_that_somebody_is_there() {
    let mut stage = greeted();
    let mut silence = defaults::KEEP_ALIVE;
    for _ in 0..5 {
        stage.pass(silence);
        assert_eq!(stage.server_reads().unwrap()["method"], "ping");
        stage.pass(defaults::KEEP_ALIVE_TIMEOUT / 2);
        silence = defaults::KEEP_ALIVE - defaults::KEEP_ALIVE_TIMEOUT / 2;
        stage.server_says(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}"#,
        );
        stage.client_reads().unwrap();
        stage.pass(defaults::KEEP_ALIVE_TIMEOUT / 2);
    }
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn a_modern_conversation_and_one_that_has_not_begun_are_not_tested() {
    let mut stage = Stage::up();
    stage.pass(Duration::from_secs(600));
    assert_eq!(stage.server_reads(), None);
    stage.client_says(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    stage.server_answers(r#"{"tools":[]}"#);
    stage.pass(Duration::from_secs(600));
    assert_eq!(stage.server_reads(), None);
    let mut off = greeted_with(|notes| notes.keep_alive = None);
    off.pass(Duration::from_secs(600));
    assert_eq!(off.server_reads(), None, "and none where nobody wants it");
}

#[test]
fn a_miss_long_ago_is_forgotten_with_the_next_answer() {
    let mut stage = greeted();
    for _ in 0..3 {
        stage.pass(defaults::KEEP_ALIVE);
        assert_eq!(stage.server_reads().unwrap()["method"], "ping");
        stage.pass(defaults::KEEP_ALIVE_TIMEOUT + defaults::KEEP_ALIVE_PAUSE);
        assert_eq!(stage.state(), LinkState::Up, "one lost packet now and then is not an outage");
        assert_eq!(stage.server_answers("{}")["method"], "ping");
    }
}

#[test]
fn a_reason_to_doubt_the_line_is_a_reason_to_test_it_now_unless_it_was_tested_just_now() {
    let mut stage = greeted();
    stage.pass(defaults::KEEP_ALIVE);
    for pause in [defaults::KEEP_ALIVE_PAUSE, defaults::KEEP_ALIVE_TIMEOUT] {
        assert_eq!(stage.server_answers("{}")["method"], "ping");
        stage.pass(pause);
        stage.tell(Input::Woke);
    }
    assert_eq!(stage.server_answers("{}")["method"], "ping");
    stage.pass(defaults::KEEP_ALIVE_PAUSE / 2);
    stage.tell(Input::Woke);
    assert_eq!(stage.server_reads(), None, "not twice in a second");
    stage.pass(defaults::KEEP_ALIVE_PAUSE / 2);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
}

#[test]
fn there_is_no_test_where_there_is_nothing_to_test_or_nobody_wants_it() {
    let mut off = greeted_with(|notes| notes.keep_alive = None);
    let mut new = Stage::up();
    for stage in [&mut off, &mut new] {
        stage.tell(Input::Woke);
        assert_eq!(stage.server_reads(), None);
    }
    // A read that will be tried again keeps a stage that is about to end running.
    let mut stopping = greeted_with(|notes| notes.retry.initial = Duration::from_secs(5));
    stopping.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    let id = stopping.server_reads().unwrap()["id"].clone();
    stopping.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"locked"}}}}"#));
    stopping.tell(Input::Stop);
    stopping.tell(Input::Woke);
    assert_eq!((stopping.state(), stopping.server_reads()), (LinkState::Up, None));
}

#[test]
fn what_was_heard_just_before_a_test_does_not_count_as_its_answer() {
    let mut stage = greeted();
    stage.pass(defaults::KEEP_ALIVE / 2);
    stage.server_says(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#);
    stage.tell(Input::Woke);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.pass(defaults::KEEP_ALIVE_TIMEOUT + defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.server_reads().expect("the first one was missed")["method"], "ping");
    stage.pass(defaults::KEEP_ALIVE_TIMEOUT);
    assert_eq!(stage.state(), LinkState::Draining);
}

#[test]
fn a_line_that_was_tested_for_another_reason_is_not_tested_again_within_the_pause() {
    let mut stage = greeted_with(|notes| {
        notes.keep_alive = Some(KeepAlive { interval: Duration::from_secs(1), timeout: Duration::from_millis(500) });
    });
    stage.pass(Duration::from_millis(300));
    stage.tell(Input::Woke);
    let ping = stage.server_reads().expect("whether it is still there");
    stage.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"resu"#, ping["id"]));
    stage.pass(Duration::from_millis(900));
    assert_eq!(stage.server_reads(), None, "its own time has come, but it was tested just now");
    stage.pass(Duration::from_millis(200));
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
}
