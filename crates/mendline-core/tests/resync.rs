//! Resynchronisation after an outage, and children that lost their own connection.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::{LinkState, defaults};
use serde_json::{Value, json};
use stage::initialized::{initialize, initialized, initialized_with, request, restart};
use stage::{Stage, call};

// ---- resynchronisation ----

#[test]
fn log_level_and_subscriptions_are_restored_on_new_server() {
    let mut stage = initialized();
    request(&mut stage, "logging/setLevel", &json!({ "level": "debug" }), "{}");
    request(&mut stage, "logging/setLevel", &json!({ "level": "warning" }), "{}");
    request(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    request(&mut stage, "resources/subscribe", &json!({ "uri": "file:///b" }), "{}");
    request(&mut stage, "resources/unsubscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    let level = stage.server_answers("{}");
    assert_eq!((&level["method"], &level["params"]["level"]), (&json!("logging/setLevel"), &json!("warning")));
    let subscription = stage.server_answers("{}");
    assert_eq!(
        (&subscription["method"], &subscription["params"]["uri"]),
        (&json!("resources/subscribe"), &json!("file:///b"))
    );
    assert_eq!(stage.server_reads(), None, "no other state is restored");
    let updated = stage.client_reads().unwrap();
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("file:///b")),
        "what happened to it meanwhile is unknown"
    );
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn lost_restore_of_log_level_keeps_newer_level() {
    let mut stage = initialized_with(|notes| notes.keep_alive = None);
    request(&mut stage, "logging/setLevel", &json!({ "level": "debug" }), "{}");
    request(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    // The server answers neither of the two.
    while stage.server_reads().is_some() {}
    stage.advance(defaults::CALL);
    while stage.server_reads().is_some() {}
    request(&mut stage, "logging/setLevel", &json!({ "level": "error" }), "{}");
    let message = stage.server_answers("{}");
    assert_eq!((&message["method"], &message["params"]["uri"]), (&json!("resources/subscribe"), &json!("file:///a")));
    assert_eq!(stage.server_reads(), None, "the server has the latest choice of the client");
}

#[test]
fn restored_subscriptions_are_limited() {
    let mut stage = initialized();
    for at in 0..=defaults::SUBSCRIPTIONS {
        request(&mut stage, "resources/subscribe", &json!({ "uri": format!("file:///{at}") }), "{}");
    }
    restart(&mut stage);
    let mut restored = 0;
    while let Some(message) = stage.server_reads() {
        assert_eq!(message["method"], "resources/subscribe");
        stage.server_sends(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} }).to_string());
        restored += 1;
    }
    assert_eq!(restored, defaults::SUBSCRIPTIONS);
}

#[test]
fn refused_subscription_restore_is_given_up() {
    let mut stage = initialized();
    request(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32002,"message":"gone"}}}}"#));
    assert_eq!(stage.client_reads(), None);
    restart(&mut stage);
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn failed_restore_is_repeated_when_server_answers() {
    let mut stage = initialized_with(|notes| notes.keep_alive = None);
    request(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "resources/subscribe");
    stage.advance(defaults::HANDSHAKE);
    assert_eq!(stage.server_reads(), None, "not again and again");
    request(&mut stage, "tools/call", &json!({ "name": "create_note" }), "{}");
    let again = stage.server_answers("{}");
    assert_eq!((&again["method"], &again["params"]["uri"]), (&json!("resources/subscribe"), &json!("file:///a")));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/resources/updated");
    stage.advance(defaults::HANDSHAKE);
    assert_eq!(stage.server_reads(), None, "now it is restored");
}

#[test]
fn restore_does_not_override_new_choice_of_client() {
    let mut stage = initialized();
    request(&mut stage, "logging/setLevel", &json!({ "level": "info" }), "{}");
    stage.die(stage.written);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":8,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    stage.server_answers("{}");
    stage.server_reads().unwrap();
    let old = stage.server_reads().unwrap();
    assert_eq!(old["params"]["level"], "info");
    assert_eq!(stage.server_reads(), None, "the new one waits for the old one");
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": old["id"], "result": {} }).to_string());
    assert_eq!(stage.server_answers("{}")["params"]["level"], "debug");
    assert_eq!(stage.client_reads().unwrap()["id"], 8);
}

#[test]
fn list_that_could_not_be_compared_is_read_again() {
    let mut stage = initialized_with(|notes| notes.keep_alive = None);
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE}]}}"#));
    restart(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/list");
    stage.advance(defaults::HANDSHAKE);
    request(&mut stage, "tools/call", &json!({ "name": "create_note" }), "{}");
    assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{ONE},{TWO}]}}"#))["method"], "tools/list");
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

const ONE: &str = r#"{"name":"one"}"#;
const TWO: &str = r#"{"name":"two","description":"…"}"#;

#[test]
fn only_changed_list_is_announced_after_reconnect() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE},{TWO}]}}"#));
    request(&mut stage, "prompts/list", &json!({}), r#"{"prompts":[{"name":"p"}]}"#);
    restart(&mut stage);
    assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{TWO},{ONE}]}}"#))["method"], "tools/list");
    assert_eq!(stage.server_answers(r#"{"prompts":[{"name":"p"},{"name":"q"}]}"#)["method"], "prompts/list");
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/prompts/list_changed");
    assert_eq!(stage.client_reads(), None, "the order of entries is no difference");
    assert_eq!(stage.server_reads(), None, "what was never read is not read again");
}

#[test]
fn only_pages_read_by_client_are_compared() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE}],"nextCursor":"2"}}"#));
    request(&mut stage, "tools/list", &json!({ "cursor": "2" }), &format!(r#"{{"tools":[{TWO}]}}"#));
    restart(&mut stage);
    stage.server_answers(&format!(r#"{{"tools":[{ONE}],"nextCursor":"x"}}"#));
    assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{TWO}]}}"#))["params"]["cursor"], "x");
    assert_eq!(stage.client_reads(), None);
    restart(&mut stage);
    stage.server_answers(&format!(r#"{{"tools":[{ONE}],"nextCursor":"x"}}"#));
    stage.server_answers(r#"{"tools":[{"name":"two"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn list_is_compared_with_latest_read() {
    let mut stage = initialized();
    for _ in 0..2 {
        request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE}]}}"#));
    }
    restart(&mut stage);
    assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{ONE}]}}"#))["method"], "tools/list");
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn unread_pages_are_not_compared() {
    let mut stage = initialized();
    let page = format!(r#"{{"tools":[{ONE}],"nextCursor":"2"}}"#);
    request(&mut stage, "tools/list", &json!({}), &page);
    restart(&mut stage);
    assert_eq!(stage.server_answers(&page)["method"], "tools/list");
    assert_eq!((stage.server_reads(), stage.client_reads()), (None, None));
}

#[test]
fn list_of_earlier_session_is_not_compared() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE}]}}"#));
    initialize(&mut stage);
    restart(&mut stage);
    assert_eq!(stage.server_reads(), None);
}

/// Loses a call of the tool `look` with its child, and returns true if the call was sent again.
fn is_resent(stage: &mut Stage) -> bool {
    stage.client_sends(&call("1", "look"));
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/call");
    stage.die(stage.written);
    stage.client_reads().is_none()
}

const LOOK: &str = r#"{"name":"look","annotations":{"readOnlyHint":true}}"#;
const LOOK_UNSAFE: &str = r#"{"name":"look"}"#;

#[test]
fn compared_list_updates_tool_hints() {
    for (trusted, before, after, repeated) in
        [(true, LOOK_UNSAFE, LOOK, true), (true, LOOK, LOOK_UNSAFE, false), (false, LOOK_UNSAFE, LOOK, false)]
    {
        let mut stage = initialized_with(|notes| notes.trust_hints = trusted);
        request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{before}]}}"#));
        restart(&mut stage);
        assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{after}]}}"#))["method"], "tools/list");
        assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
        assert_eq!(is_resent(&mut stage), repeated, "trusted: {trusted}, now {after}");
    }
}

#[test]
fn second_page_keeps_hints_of_first() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{LOOK}],"nextCursor":"2"}}"#));
    request(&mut stage, "tools/list", &json!({ "cursor": "2" }), &format!(r#"{{"tools":[{ONE}]}}"#));
    restart(&mut stage);
    stage.server_answers(&format!(r#"{{"tools":[{LOOK}],"nextCursor":"2"}}"#));
    stage.server_answers(&format!(r#"{{"tools":[{ONE}]}}"#));
    assert!(is_resent(&mut stage));
}

#[test]
fn r18_hints_are_valid_until_list_changed() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{LOOK}]}}"#));
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#);
    stage.client_reads().unwrap();
    assert!(is_resent(&mut stage));
}

#[test]
fn r18_changed_hints_of_lost_call_are_listed_before_decision() {
    for (tools, repeated) in [(LOOK, true), (LOOK_UNSAFE, false)] {
        let mut stage = initialized();
        request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{LOOK}]}}"#));
        stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert!(is_resent(&mut stage), "nothing is decided yet");
        stage.next_dial();
        stage.accept_dial();
        stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
        assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
        let list = stage.server_answers(&format!(r#"{{"tools":[{tools}]}}"#));
        assert_eq!(list["method"], "tools/list");
        stage.advance(Duration::from_secs(1));
        let sent = std::iter::from_fn(|| stage.server_reads()).any(|it| it["method"] == "tools/call");
        assert_eq!(sent, repeated, "{tools}");
        let answer = std::iter::from_fn(|| stage.client_reads()).find(|answer| answer["id"] == 1);
        assert_eq!(answer.is_none(), repeated, "{answer:?}");
    }
}

#[test]
fn unreadable_list_is_announced_as_changed() {
    let mut stage = initialized();
    request(&mut stage, "resources/templates/list", &json!({}), r#"{"resourceTemplates":[]}"#);
    restart(&mut stage);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/resources/list_changed");
}

#[test]
fn waiting_calls_are_sent_before_lists_are_compared() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), r#"{"tools":[]}"#);
    stage.die(stage.written);
    stage.client_sends(&call("1", "create_note"));
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    stage.server_answers("{}");
    let order: Vec<Value> = std::iter::from_fn(|| stage.server_reads()).map(|it| it["method"].clone()).collect();
    assert_eq!(order, ["notifications/initialized", "tools/call", "tools/list"]);
}

const LISTEN: &str = r#"{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["file:///a"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;

fn acknowledge(stage: &mut Stage) {
    let listen = stage.server_reads().unwrap();
    assert_eq!(listen["method"], "subscriptions/listen");
    let id = &listen["id"];
    stage.server_sends(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    ));
}

#[test]
fn modern_subscription_is_reopened_with_change_notifications() {
    let mut stage = Stage::up();
    stage.client_sends(LISTEN);
    acknowledge(&mut stage);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/subscriptions/acknowledged");
    for _ in 0..8 {
        stage.die(stage.written);
        stage.advance(Duration::from_secs(40));
        stage.accept_dial();
        acknowledge(&mut stage);
        let tools = stage.client_reads().unwrap();
        assert_eq!(tools["method"], "notifications/tools/list_changed");
        assert_eq!(tools["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "L");
        let resource = stage.client_reads().unwrap();
        assert_eq!(
            (&resource["method"], &resource["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("file:///a"))
        );
        assert_eq!(stage.client_reads(), None, "one acknowledgement, and only the subscribed notifications");
        stage.advance(Duration::from_secs(60));
    }
}

// ---- transient errors, and children that lost their own connection ----

fn server_fails(stage: &mut Stage, code: i64, words: &str) -> Value {
    let asked = stage.server_reads().expect("a request");
    let error = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": code, "message": words } });
    stage.server_sends(&error.to_string());
    asked
}

#[test]
fn r06_internal_error_to_read_is_retried_once() {
    let mut stage = initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    for attempt in 1..=2 {
        assert_eq!(stage.client_reads(), None, "attempt {attempt}");
        server_fails(&mut stage, -32603, "database is locked");
        stage.advance(defaults::RETRY_CAP);
    }
    assert_eq!(stage.client_reads().unwrap()["error"], json!({ "code": -32603, "message": "database is locked" }));
    stage.client_sends(&call("2", "create_note"));
    server_fails(&mut stage, -32603, "database is locked");
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "what may not run twice is not asked twice");
    stage.client_sends(r#"{"jsonrpc":"2.0","id":3,"method":"resources/list"}"#);
    server_fails(&mut stage, -32602, "bad cursor");
    assert_eq!(stage.client_reads().unwrap()["id"], 3, "other errors are answers");
}

#[test]
fn read_after_internal_error_is_not_reported_as_unsent() {
    let mut stage = initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    server_fails(&mut stage, -32603, "database is locked");
    stage.die(stage.written);
    stage.advance(defaults::RECOVERY);
    assert_eq!(stage.client_reads().unwrap()["error"]["data"]["outcome"], "unknown");
}

#[test]
fn child_reporting_only_lost_connection_is_replaced() {
    let mut stage = initialized();
    stage.advance(defaults::PROVEN);
    for id in 1..=3 {
        assert_eq!(stage.state(), LinkState::Up);
        stage.client_sends(&call(&id.to_string(), "create_note"));
        server_fails(&mut stage, -32000, "Connection closed");
        assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32000, "its answers are passed on");
    }
    assert_eq!(stage.state(), LinkState::Draining);
}

#[test]
fn other_answers_prove_child_alive() {
    let mut stage = initialized();
    for _ in 0..5 {
        for (code, words) in [(-32000, "Connection closed"), (-32001, "Request timed out"), (-32000, "bad argument")] {
            stage.client_sends(&call("1", "create_note"));
            server_fails(&mut stage, code, words);
            stage.client_reads().unwrap();
        }
    }
    assert_eq!(stage.state(), LinkState::Up);
}
