//! Changes of the configuration while calls run.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{AutoReconnect, Breaker, KeepAlive, RateLimit, Reconnect, ToolPolicy};
use mendline_core::port::{Change, SpawnError};
use mendline_core::{Input, LinkState, Output, UpstreamConfig};
use serde_json::Value;
use stage::initialized::{initialized, request};
use stage::{NOTES, Stage, call};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Applies another configuration.
fn edit(stage: &mut Stage, change: Change, edited: impl FnOnce(&mut UpstreamConfig)) {
    let mut config = UpstreamConfig::child("notes", "notes-server");
    edited(&mut config);
    stage.input(Input::Reconfigure { upstream: NOTES, config: Box::new(config), change });
}

fn replacements(stage: &Stage) -> usize {
    stage.asked.iter().filter(|output| matches!(output, Output::ReplaceTransport { .. })).count()
}

fn cause(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.mendline/failure"]["cause"].as_str().unwrap_or("none")
}

#[test]
fn running_call_keeps_old_deadline_and_next_call_gets_new() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    edit(&mut stage, Change::Policies, |config| config.timeouts.call = seconds(2));
    stage.client_sends(&call("2", "create_note"));
    stage.server_reads().unwrap();
    stage.advance(seconds(3));
    let answer = stage.client_reads().expect("the second call's time is over");
    assert_eq!((answer["id"].as_i64(), cause(&answer)), (Some(2), "timed_out"));
    assert_eq!(stage.client_reads(), None, "the first has more");
    stage.advance(seconds(298));
    let answer = stage.client_reads().expect("and that is over, too");
    assert_eq!((answer["id"].as_i64(), cause(&answer)), (Some(1), "timed_out"));
}

#[test]
fn running_call_keeps_policy_through_two_reloads() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    for _ in 0..2 {
        edit(&mut stage, Change::Policies, |config| config.timeouts.call = seconds(1));
    }
    stage.advance(seconds(200));
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn policy_change_restarts_nothing() {
    let mut stage = Stage::up();
    edit(&mut stage, Change::Policies, |config| config.retry.attempts = 1);
    assert_eq!((stage.state(), replacements(&stage)), (LinkState::Up, 0));
}

/// Returns what the log says about the last change of the configuration.
fn reported(stage: &Stage) -> String {
    stage.log.iter().rfind(|line| line.contains("reconfigured: ")).unwrap().clone()
}

#[test]
fn log_says_whether_server_is_replaced_at_once() {
    let mut stage = Stage::up();
    edit(&mut stage, Change::Policies, |_| {});
    assert!(reported(&stage).ends_with("new policies apply to new calls"), "{}", reported(&stage));
    stage.client_sends(&call("1", "create_note"));
    let first = stage.server_reads().unwrap();
    edit(&mut stage, Change::Transport, |_| {});
    assert!(reported(&stage).ends_with("replaced when no call is in flight"), "{}", reported(&stage));
    assert_eq!(replacements(&stage), 0);
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, first["id"]));
    assert_eq!(replacements(&stage), 1);

    let mut stage = Stage::up();
    edit(&mut stage, Change::Transport, |_| {});
    assert!(reported(&stage).ends_with("the server is replaced at once"), "{}", reported(&stage));
    assert_eq!(replacements(&stage), 1);
}

#[test]
fn waiting_call_does_not_delay_replacement_at_once() {
    let slow = RateLimit { burst: 1, per_second: 0.1 };
    let mut stage = Stage::with(|notes| notes.rate_limit = Some(slow));
    stage.accept_dial();
    stage.client_sends(&call("1", "create_note"));
    stage.server_answers("{}");
    stage.client_reads().unwrap();
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.server_reads(), None, "the rate limit holds it");
    // Without the limit the call could be sent, but not to the old server.
    edit(&mut stage, Change::Transport, |_| {});
    assert!(reported(&stage).ends_with("the server is replaced at once"), "{}", reported(&stage));
    assert_eq!((replacements(&stage), stage.server_reads()), (1, None));
}

#[test]
fn server_is_replaced_after_its_calls_end() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    edit(&mut stage, Change::Transport, |_| {});
    stage.client_sends(&call("2", "create_note"));
    let second = stage.server_reads().expect("it is used as long as it is there");
    assert_eq!((stage.state(), replacements(&stage)), (LinkState::Up, 0));
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, second["id"]));
    assert_eq!((stage.state(), replacements(&stage)), (LinkState::Up, 0), "one is still out");
    stage.server_sends(r#"{"jsonrpc":"2.0","id":65536,"result":{}}"#);
    assert_eq!((stage.state(), replacements(&stage)), (LinkState::Draining, 1));
    for id in [2, 1] {
        let answer = stage.client_reads().unwrap();
        assert!(answer["id"] == id && answer.get("result").is_some(), "{answer}");
    }
    stage.client_sends(&call("3", "create_note"));
    stage.die(stage.written);
    stage.advance(seconds(1));
    stage.accept_dial();
    assert_eq!(stage.server_reads().expect("it waited for the new one")["params"]["name"], "create_note");
    assert_eq!(stage.dials, 2);
    assert_eq!(replacements(&stage), 1, "once is enough");
}

#[test]
fn parked_server_is_dialed_when_command_changes() {
    let mut stage = Stage::new();
    let link = stage.spawned.take().unwrap();
    let why = SpawnError::NotFound { command: "notes-server".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
    assert_eq!(stage.state(), LinkState::Parked);
    edit(&mut stage, Change::Transport, |_| {});
    assert_eq!(replacements(&stage), 1);
    stage.advance(Duration::from_millis(1));
    assert!(stage.spawned.is_some(), "it is dialed at once");
}

#[test]
fn starting_child_is_replaced_once_started() {
    let mut stage = Stage::new();
    edit(&mut stage, Change::Transport, |_| {});
    assert_eq!((stage.state(), replacements(&stage)), (LinkState::Dialing, 0));
    stage.accept_dial();
    assert_eq!((stage.state(), replacements(&stage)), (LinkState::Draining, 1));
}

#[test]
fn enabling_reconnect_dials_lost_server() {
    let off = Reconnect::from(AutoReconnect { enabled: Some(false), ..AutoReconnect::default() });
    let mut stage = Stage::with(|config| config.reconnect = off);
    stage.accept_dial();
    stage.die(0);
    assert_eq!(stage.state(), LinkState::Idle);
    stage.advance(seconds(100));
    assert_eq!(stage.spawned, None);
    edit(&mut stage, Change::Policies, |_| {});
    stage.advance(Duration::from_millis(1));
    assert!(stage.spawned.is_some());
}

#[test]
fn shorter_keep_alive_applies_to_current_link() {
    let mut stage = Stage::up();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#);
    stage.server_answers(
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#,
    );
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.server_reads().unwrap();
    edit(&mut stage, Change::Policies, |config| {
        config.keep_alive = Some(KeepAlive { interval: seconds(2), timeout: seconds(1) });
    });
    stage.advance(Duration::from_millis(2500));
    assert_eq!(stage.server_reads().expect("a ping")["method"], "ping");
    edit(&mut stage, Change::Policies, |config| config.keep_alive = None);
    stage.advance(seconds(100));
    assert_eq!(stage.server_reads(), None, "no ping is sent");
}

#[test]
fn raised_in_flight_limit_is_used_at_once() {
    let mut stage = Stage::with(|config| config.limits.in_flight = 1);
    stage.accept_dial();
    stage.client_sends(&call("1", "create_note"));
    stage.client_sends(&call("2", "create_note"));
    stage.server_reads().unwrap();
    assert_eq!(stage.server_reads(), None);
    edit(&mut stage, Change::Policies, |_| {});
    assert!(stage.server_reads().is_some());
}

#[test]
fn replaced_server_is_dialed_even_without_reconnect() {
    let off = Reconnect::from(AutoReconnect { enabled: Some(false), ..AutoReconnect::default() });
    let mut stage = Stage::with(|config| config.reconnect = off.clone());
    stage.accept_dial();
    edit(&mut stage, Change::Transport, |config| config.reconnect = off);
    assert_eq!(stage.state(), LinkState::Draining);
    stage.client_sends(&call("1", "create_note"));
    stage.die(stage.written);
    stage.advance(Duration::from_millis(1));
    assert!(stage.spawned.is_some(), "a new command is dialed");
    stage.accept_dial();
    assert!(stage.server_reads().is_some(), "and the call that came meanwhile is not lost");
}

#[test]
fn target_change_does_not_dial_isolated_server() {
    let mut stage = Stage::up();
    let dials = stage.dials;
    stage.input(Input::Isolate { upstream: NOTES });
    edit(&mut stage, Change::Transport, |_| {});
    stage.die(stage.written);
    stage.advance(seconds(60));
    assert_eq!((stage.state(), stage.dials), (LinkState::Idle, dials));
    stage.input(Input::Resume { upstream: NOTES });
    stage.advance(seconds(1));
    assert_eq!(stage.dials, dials + 1, "and is when it is brought back");
}

#[test]
fn reload_changes_breakers_limits_and_tool_timeouts() {
    let mut stage = Stage::up();
    edit(&mut stage, Change::Policies, |config| {
        config.rate_limit = Some(RateLimit { burst: 1, per_second: 0.01 });
        config.tools = [("look".into(), ToolPolicy { timeout: Some(seconds(2)), ..ToolPolicy::default() })].into();
        config.breaker = Some(Breaker { failures: 1, ..Breaker::default() });
    });
    stage.client_sends(&call("1", "look"));
    stage.server_reads().unwrap();
    stage.advance(seconds(3));
    assert_eq!(cause(&stage.client_reads().unwrap()), "timed_out", "the tool has two seconds now");
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/cancelled");
    stage.client_sends(&call("2", "look"));
    assert_eq!(cause(&stage.client_reads().unwrap()), "breaker_open", "one failure is enough now");
    stage.client_sends(&call("3", "create_note"));
    assert_eq!(cause(&stage.client_reads().unwrap()), "rate_limited", "the next slot comes too late");
    edit(&mut stage, Change::Policies, |config| config.breaker = None);
    for (id, tool) in [("4", "look"), ("5", "create_note")] {
        stage.client_sends(&call(id, tool));
        assert_eq!(stage.server_answers("{}")["params"]["name"], tool);
    }
}

#[test]
fn raised_rate_limit_applies_to_waiting_calls() {
    let mut stage = Stage::with(|config| config.rate_limit = Some(RateLimit { burst: 1, per_second: 0.1 }));
    stage.accept_dial();
    for id in ["1", "2", "3"] {
        stage.client_sends(&call(id, "look"));
    }
    assert_eq!(stage.server_answers("{}")["params"]["name"], "look");
    assert_eq!(stage.server_reads(), None, "the next slot is in ten seconds");
    edit(&mut stage, Change::Policies, |config| config.rate_limit = Some(RateLimit { burst: 1, per_second: 1.0 }));
    assert_eq!(stage.server_answers("{}")["params"]["name"], "look", "the new limit starts with a slot");
    stage.advance(seconds(1));
    assert_eq!(stage.server_answers("{}")["params"]["name"], "look", "and the next is a second later");
}

#[test]
fn lists_of_old_server_are_not_answered_for_new_one() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &serde_json::json!({}), r#"{"tools":[{"name":"old"}]}"#);
    edit(&mut stage, Change::Transport, |_| {});
    stage.client_sends(r#"{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{}}"#);
    assert_eq!(stage.client_reads(), None, "the new server is asked");
}
