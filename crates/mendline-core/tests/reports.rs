//! The reports of the engine: its questions to an upstream, and events that name a client or a call.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::policy::breaker::BreakerState;
use mendline_core::port::SpawnError;
use mendline_core::{Input, LinkState, defaults};
use stage::initialized::initialized;
use stage::{NOTES, Stage, call};

fn count(stage: &Stage, words: &str) -> usize {
    stage.log.iter().filter(|line| line.contains(words)).count()
}

#[test]
fn isolated_server_is_reported_until_it_is_resumed() {
    let mut stage = Stage::up();
    assert_eq!(stage.engine.breaker(NOTES), Some(BreakerState::Closed));
    stage.input(Input::Isolate { upstream: NOTES });
    assert_eq!(stage.engine.breaker(NOTES), Some(BreakerState::Isolated));
    stage.input(Input::Resume { upstream: NOTES });
    assert_eq!(stage.engine.breaker(NOTES), Some(BreakerState::Closed));
}

#[test]
fn limit_of_calls_leaves_keys_for_internal_requests() {
    let stage = Stage::with(|notes| notes.limits.in_flight = usize::MAX);
    let all = 1 << 15;
    let reserved = defaults::SUBSCRIPTION_STREAMS + defaults::INTERNAL_REQUESTS;
    assert_eq!(stage.engine.in_flight_limit(NOTES), all - reserved);
}

#[test]
fn client_is_named_by_its_handshake() {
    let mut stage = Stage::up();
    stage.client_sends(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"desktop","version":"1.2"}}}"#,
    );
    assert_eq!(count(&stage, "client is desktop 1.2"), 1, "{:?}", stage.log);
}

#[test]
fn call_that_was_never_sent_is_not_reported_as_returned() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "create_note"));
    stage.die(stage.written);
    assert_eq!(count(&stage, "not sent, waiting"), 0, "{:?}", stage.log);
}

#[test]
fn answer_after_the_deadline_is_dropped_as_late() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.advance(defaults::CALL);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!((count(&stage, "dropped a late"), count(&stage, "to an unknown request")), (1, 0), "{:?}", stage.log);
}

#[test]
fn notification_before_the_handshake_is_dropped() {
    let mut stage = initialized();
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    assert_eq!(stage.server_reads(), None, "nothing overtakes the handshake");
}

#[test]
fn call_to_parked_server_is_rejected_and_not_accepted() {
    let mut stage = Stage::new();
    let link = stage.spawned.take().unwrap();
    let why = SpawnError::NotFound { command: "notes-server".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
    assert_eq!(stage.state(), LinkState::Parked);
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(count(&stage, ": accepted"), 0, "{:?}", stage.log);
}
