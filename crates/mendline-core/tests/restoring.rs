//! Restoring the state of the last session in a new one, and calls meanwhile.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::port::{Content, ExchangeEnd};
use mendline_core::{LinkState, defaults};
use serde_json::{Value, json};
use stage::http::{complete_handshake, initialized_with_keep_alive};
use stage::initialized::{initialized, request, restart};
use stage::{NOTES, Stage, call, http};

fn answer(stage: &mut Stage, request: &Value) {
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string());
}

#[test]
fn restore_requests_are_limited_in_flight() {
    let mut stage = initialized();
    for at in 0..defaults::RESTORES * 2 {
        request(&mut stage, "resources/subscribe", &json!({ "uri": format!("file:///{at}") }), "{}");
    }
    restart(&mut stage);
    let restored: Vec<Value> = std::iter::from_fn(|| stage.server_reads()).collect();
    assert_eq!(restored.len(), defaults::RESTORES);
    answer(&mut stage, &restored[0]);
    assert_eq!(std::iter::from_fn(|| stage.server_reads()).count(), 1, "one more for each that it took in");
}

#[test]
fn calls_do_not_wait_for_restore() {
    let mut stage = initialized();
    request(&mut stage, "logging/setLevel", &json!({ "level": "info" }), "{}");
    restart(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "logging/setLevel");
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(stage.server_reads().expect("calls do not wait for it")["method"], "tools/call");
}

#[test]
fn new_choice_waits_for_pending_restore() {
    let mut stage = initialized();
    request(&mut stage, "logging/setLevel", &json!({ "level": "info" }), "{}");
    restart(&mut stage);
    let old = stage.server_reads().unwrap();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":8,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    assert_eq!(stage.server_reads(), None, "the old value must not arrive last");
    answer(&mut stage, &old);
    assert_eq!(stage.server_answers("{}")["params"]["level"], "debug");
    assert_eq!(stage.client_reads().unwrap()["id"], 8);
}

#[test]
fn interrupted_restore_is_repeated_after_reconnect() {
    let mut stage = initialized_with_keep_alive();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}"#);
    let subscribed = stage.next_sent();
    stage.answer(&subscribed, "{}");
    stage.client_reads().unwrap();
    stage.client_sends(&http::call(2, "create_note"));
    stage.client_sends(&http::call(3, "create_note"));
    let (slow, lost) = (stage.next_sent(), stage.next_sent());
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    let restored = stage.seen.iter().position(|seen| seen.method() == "resources/subscribe").unwrap();
    let restored = stage.seen.remove(restored).unwrap();
    stage.next_sent();
    stage.seen.push_front(restored);
    stage.refuse_connection();
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
    stage.answer(&slow, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "an answer comes over a line that was made before");
    assert!(stage.seen.is_empty(), "that is no reason to try what cannot be done");
    stage.advance(Duration::from_secs(1));
    let found = stage.next_sent();
    assert_eq!(found.method(), "ping");
    assert!(stage.seen.iter().any(|seen| seen.method() == "resources/subscribe"), "now it is restored");
}
