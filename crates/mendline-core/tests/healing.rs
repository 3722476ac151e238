//! Stories about what is mended: idle lines, gaps, frozen and half-dead children, and what people may choose about it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stage;

use std::time::Duration;

use mendline_core::config::{AutoReconnect, Reconnect, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::port::{Signal, SpawnFailure, SpawnFailureKind};
use mendline_core::{Input, LinkState, Output, defaults};
use serde_json::{Value, json};
use stage::{Stage, call};

const GREETING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Lets the client greet its server.
fn greet(stage: &mut Stage) {
    stage.client_says(GREETING);
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.client_reads().unwrap();
    stage.client_says(INITIALIZED);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
}

fn greeted() -> Stage {
    let mut stage = Stage::up();
    greet(&mut stage);
    stage
}

fn greeted_with(change: impl FnOnce(&mut mendline_core::UpstreamConfig)) -> Stage {
    let mut stage = Stage::with(change);
    stage.accept_dial();
    greet(&mut stage);
    stage
}

/// The client asks, the server answers, the client reads.
fn ask(stage: &mut Stage, method: &str, params: &Value, result: &str) {
    stage.client_says(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string());
    assert_eq!(stage.server_answers(result)["method"], method);
    assert_eq!(stage.client_reads().unwrap()["id"], 7);
}

/// The child dies and the next one is greeted by us.
fn restart(stage: &mut Stage) {
    stage.die(stage.written);
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    assert_eq!(stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#)["method"], "initialize");
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
}

fn ended_by_the_ladder(stage: &mut Stage) -> bool {
    stage.pass(defaults::LADDER_STEP * 2);
    stage.asked.iter().any(|asked| matches!(asked, Output::Signal { signal: Signal::Kill, .. }))
}

// ---- idle lines ----

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

// ---- gaps ----

#[test]
fn a_new_server_is_told_the_log_level_and_the_subscriptions_of_the_old_one() {
    let mut stage = greeted();
    ask(&mut stage, "logging/setLevel", &json!({ "level": "debug" }), "{}");
    ask(&mut stage, "logging/setLevel", &json!({ "level": "warning" }), "{}");
    ask(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    ask(&mut stage, "resources/subscribe", &json!({ "uri": "file:///b" }), "{}");
    ask(&mut stage, "resources/unsubscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    let level = stage.server_answers("{}");
    assert_eq!((&level["method"], &level["params"]["level"]), (&json!("logging/setLevel"), &json!("warning")));
    let subscription = stage.server_answers("{}");
    assert_eq!(
        (&subscription["method"], &subscription["params"]["uri"]),
        (&json!("resources/subscribe"), &json!("file:///b"))
    );
    assert_eq!(stage.server_reads(), None, "nothing else is told");
    let updated = stage.client_reads().unwrap();
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("file:///b")),
        "what happened to it meanwhile is unknown"
    );
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn a_log_level_that_got_lost_on_its_way_to_a_new_server_does_not_undo_a_newer_one() {
    let mut stage = greeted_with(|notes| notes.keep_alive = None);
    ask(&mut stage, "logging/setLevel", &json!({ "level": "debug" }), "{}");
    ask(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    // It answers neither of the two.
    while stage.server_reads().is_some() {}
    stage.pass(defaults::CALL);
    while stage.server_reads().is_some() {}
    ask(&mut stage, "logging/setLevel", &json!({ "level": "error" }), "{}");
    let told = stage.server_answers("{}");
    assert_eq!((&told["method"], &told["params"]["uri"]), (&json!("resources/subscribe"), &json!("file:///a")));
    assert_eq!(stage.server_reads(), None, "what the client chose last is what the server knows");
}

#[test]
fn so_many_subscriptions_are_restored_and_no_more() {
    let mut stage = greeted();
    for at in 0..=defaults::SUBSCRIPTIONS {
        ask(&mut stage, "resources/subscribe", &json!({ "uri": format!("file:///{at}") }), "{}");
    }
    restart(&mut stage);
    let mut restored = 0;
    while let Some(told) = stage.server_reads() {
        assert_eq!(told["method"], "resources/subscribe");
        stage.server_says(&json!({ "jsonrpc": "2.0", "id": told["id"], "result": {} }).to_string());
        restored += 1;
    }
    assert_eq!(restored, defaults::SUBSCRIPTIONS);
}

#[test]
fn a_subscription_that_the_new_server_refuses_is_not_tried_for_ever() {
    let mut stage = greeted();
    ask(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32002,"message":"gone"}}}}"#));
    assert_eq!(stage.client_reads(), None);
    restart(&mut stage);
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn what_a_new_server_did_not_take_in_is_told_again_when_it_answers() {
    let mut stage = greeted_with(|notes| notes.keep_alive = None);
    ask(&mut stage, "resources/subscribe", &json!({ "uri": "file:///a" }), "{}");
    restart(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "resources/subscribe");
    stage.pass(defaults::HANDSHAKE);
    assert_eq!(stage.server_reads(), None, "not again and again");
    ask(&mut stage, "tools/call", &json!({ "name": "create_note" }), "{}");
    let again = stage.server_answers("{}");
    assert_eq!((&again["method"], &again["params"]["uri"]), (&json!("resources/subscribe"), &json!("file:///a")));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/resources/updated");
    stage.pass(defaults::HANDSHAKE);
    assert_eq!(stage.server_reads(), None, "and now it knows");
}

#[test]
fn what_a_client_chooses_anew_is_not_undone_by_what_it_chose_before() {
    let mut stage = greeted();
    ask(&mut stage, "logging/setLevel", &json!({ "level": "info" }), "{}");
    stage.die(stage.written);
    stage.client_says(r#"{"jsonrpc":"2.0","id":8,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    stage.server_answers("{}");
    stage.server_reads().unwrap();
    let old = stage.server_reads().unwrap();
    assert_eq!(old["params"]["level"], "info");
    assert_eq!(stage.server_reads(), None, "the new one waits for the old one");
    stage.server_says(&json!({ "jsonrpc": "2.0", "id": old["id"], "result": {} }).to_string());
    assert_eq!(stage.server_answers("{}")["params"]["level"], "debug");
    assert_eq!(stage.client_reads().unwrap()["id"], 8);
}

#[test]
fn a_list_that_could_not_be_compared_is_looked_at_again() {
    let mut stage = greeted_with(|notes| notes.keep_alive = None);
    ask(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE}]}}"#));
    restart(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/list");
    stage.pass(defaults::HANDSHAKE);
    ask(&mut stage, "tools/call", &json!({ "name": "create_note" }), "{}");
    assert_eq!(stage.server_answers(r#"{"tools":[]}"#)["method"], "tools/list");
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

const ONE: &str = r#"{"name":"one"}"#;
const TWO: &str = r#"{"name":"two","description":"…"}"#;

#[test]
fn a_list_that_reads_differently_after_a_gap_has_changed_and_one_that_does_not_has_not() {
    let mut stage = greeted();
    ask(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE},{TWO}]}}"#));
    ask(&mut stage, "prompts/list", &json!({}), r#"{"prompts":[{"name":"p"}]}"#);
    restart(&mut stage);
    assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{TWO},{ONE}]}}"#))["method"], "tools/list");
    assert_eq!(stage.server_answers(r#"{"prompts":[]}"#)["method"], "prompts/list");
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/prompts/list_changed");
    assert_eq!(stage.client_reads(), None, "the order of entries is no difference");
    assert_eq!(stage.server_reads(), None, "what was never read is not read again");
}

#[test]
fn as_many_pages_are_compared_as_the_client_has_read() {
    let mut stage = greeted();
    ask(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE}],"nextCursor":"2"}}"#));
    ask(&mut stage, "tools/list", &json!({ "cursor": "2" }), &format!(r#"{{"tools":[{TWO}]}}"#));
    restart(&mut stage);
    stage.server_answers(&format!(r#"{{"tools":[{ONE}],"nextCursor":"x"}}"#));
    assert_eq!(stage.server_answers(&format!(r#"{{"tools":[{TWO}]}}"#))["params"]["cursor"], "x");
    assert_eq!(stage.client_reads(), None);
    restart(&mut stage);
    stage.server_answers(&format!(r#"{{"tools":[{ONE}],"nextCursor":"x"}}"#));
    stage.server_answers(r#"{"tools":[]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_list_that_can_no_longer_be_read_has_changed() {
    let mut stage = greeted();
    ask(&mut stage, "resources/templates/list", &json!({}), r#"{"resourceTemplates":[]}"#);
    restart(&mut stage);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/resources/list_changed");
}

#[test]
fn calls_that_waited_go_out_before_lists_are_compared() {
    let mut stage = greeted();
    ask(&mut stage, "tools/list", &json!({}), r#"{"tools":[]}"#);
    stage.die(stage.written);
    stage.client_says(&call("1", "create_note"));
    stage.pass(Duration::from_secs(1));
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
    stage.server_says(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    ));
}

#[test]
fn a_modern_subscription_is_opened_again_and_the_gap_is_shown() {
    let mut stage = Stage::up();
    stage.client_says(LISTEN);
    acknowledge(&mut stage);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/subscriptions/acknowledged");
    for _ in 0..8 {
        stage.die(stage.written);
        stage.pass(Duration::from_secs(40));
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
        assert_eq!(
            stage.client_reads(),
            None,
            "it was confirmed to the client once, and only what it asked for is shown"
        );
        stage.pass(Duration::from_secs(60));
    }
}

// ---- errors that pass, and children that are dead inside ----

fn server_fails(stage: &mut Stage, code: i64, words: &str) -> Value {
    let asked = stage.server_reads().expect("a request");
    let error = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": code, "message": words } });
    stage.server_says(&error.to_string());
    asked
}

#[test]
fn an_internal_error_to_a_read_is_asked_once_more_and_then_passed_on() {
    let mut stage = greeted();
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    for attempt in 1..=3 {
        assert_eq!(stage.client_reads(), None, "attempt {attempt}");
        server_fails(&mut stage, -32603, "database is locked");
        stage.pass(defaults::RETRY_CAP);
    }
    assert_eq!(stage.client_reads().unwrap()["error"], json!({ "code": -32603, "message": "database is locked" }));
    stage.client_says(&call("2", "create_note"));
    server_fails(&mut stage, -32603, "database is locked");
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "what may not run twice is not asked twice");
    stage.client_says(r#"{"jsonrpc":"2.0","id":3,"method":"resources/list"}"#);
    server_fails(&mut stage, -32602, "bad cursor");
    assert_eq!(stage.client_reads().unwrap()["id"], 3, "other errors are answers");
}

#[test]
fn a_read_that_was_answered_with_an_internal_error_is_not_said_to_have_been_unsent() {
    let mut stage = greeted();
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    server_fails(&mut stage, -32603, "database is locked");
    stage.die(stage.written);
    stage.pass(defaults::RECOVERY);
    assert_eq!(stage.client_reads().unwrap()["error"]["data"]["outcome"], "unknown");
}

#[test]
fn a_child_that_only_says_that_its_own_connection_is_gone_is_replaced() {
    let mut stage = greeted();
    stage.pass(defaults::PROVEN);
    for id in 1..=3 {
        assert_eq!(stage.state(), LinkState::Up);
        stage.client_says(&call(&id.to_string(), "create_note"));
        server_fails(&mut stage, -32000, "Connection closed");
        assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32000, "its answers are passed on");
    }
    assert_eq!(stage.state(), LinkState::Draining);
}

#[test]
fn other_answers_in_between_show_that_a_child_is_alive() {
    let mut stage = greeted();
    for _ in 0..5 {
        for (code, words) in [(-32000, "Connection closed"), (-32001, "Request timed out"), (-32000, "bad argument")] {
            stage.client_says(&call("1", "create_note"));
            server_fails(&mut stage, code, words);
            stage.client_reads().unwrap();
        }
    }
    assert_eq!(stage.state(), LinkState::Up);
}

// ---- what people may choose ----

#[test]
fn without_reconnecting_the_next_call_dials_once_and_is_answered_either_way() {
    let off = AutoReconnect { enabled: Some(false), ..AutoReconnect::default() };
    let mut stage = greeted_with(|notes| notes.reconnect = off.into());
    stage.die(stage.written);
    stage.pass(Duration::from_secs(600));
    assert_eq!((stage.dials, stage.state()), (1, LinkState::Idle), "not by itself");
    stage.client_says(&call("1", "create_note"));
    assert_eq!(stage.dials, 2);
    stage.accept_dial();
    stage.die(0);
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["outcome"], "not_sent");
    stage.pass(Duration::from_secs(600));
    assert_eq!(stage.dials, 2);
    stage.client_says(&call("2", "create_note"));
    stage.accept_dial();
    stage.server_answers("{}");
    stage.server_reads();
    assert_eq!(stage.server_answers("{}")["method"], "tools/call");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn a_number_of_retries_that_someone_chose_is_meant_exactly() {
    let three = AutoReconnect { max_retries: Some(Some(3)), ..AutoReconnect::default() };
    let mut stage = greeted_with(|notes| notes.reconnect = three.into());
    stage.pass(defaults::PROVEN);
    stage.die(stage.written);
    for _ in 0..3 {
        assert_eq!(stage.state(), LinkState::Waiting);
        stage.pass(Duration::from_secs(2));
        stage.accept_dial();
        stage.die(0);
    }
    assert_eq!(stage.state(), LinkState::Parked);
}

#[test]
fn a_server_that_worked_for_a_while_has_all_its_retries_again_and_one_that_did_not_has_not() {
    let two = || AutoReconnect { max_retries: Some(Some(2)), ..AutoReconnect::default() };
    let mut lasting = greeted_with(|notes| notes.reconnect = two().into());
    for _ in 0..10 {
        lasting.pass(defaults::CRASH_LOOP_WINDOW);
        restart(&mut lasting);
    }
    assert_eq!(lasting.state(), LinkState::Up);

    let mut fleeting = greeted_with(|notes| notes.reconnect = two().into());
    restart(&mut fleeting);
    restart(&mut fleeting);
    fleeting.die(fleeting.written);
    assert_eq!(fleeting.state(), LinkState::Parked, "an answer alone proves nothing");
}

#[test]
fn hints_of_a_server_that_is_not_trusted_count_for_nothing() {
    for (trusted, outcome) in [(true, None), (false, Some("unknown"))] {
        let mut stage = greeted_with(|notes| notes.trust_hints = trusted);
        let tools = r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}}]}"#;
        ask(&mut stage, "tools/list", &json!({}), tools);
        stage.client_says(&call("1", "look"));
        stage.server_reads().unwrap();
        stage.die(stage.written);
        let said = stage.client_reads().map(|it| it["result"]["_meta"]["dev.mendline/failure"]["outcome"].clone());
        assert_eq!(said.as_ref().and_then(Value::as_str), outcome, "trusted: {trusted}");
    }
}

#[test]
fn a_call_that_waits_for_its_server_a_second_time_may_wait_as_long_as_the_first() {
    let mut stage = greeted();
    stage.pass(defaults::PROVEN);
    stage.die(stage.written);
    stage.client_says(&call("1", "create_note"));
    let fails = |stage: &mut Stage, time: Duration| {
        let end = stage.now + time;
        while stage.now < end {
            stage.pass(Duration::from_millis(100));
            if let Some(link) = stage.spawned.take() {
                let why = SpawnFailure { kind: SpawnFailureKind::Exhausted, text: "no process to be had".into() };
                stage.tell(Input::SpawnFailed { link, why });
            }
        }
    };
    fails(&mut stage, defaults::RECOVERY / 2);
    while stage.spawned.is_none() {
        stage.pass(Duration::from_millis(100));
    }
    stage.accept_dial();
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.server_reads().unwrap();
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/call");
    stage.die(stage.written - 2);
    fails(&mut stage, defaults::RECOVERY - Duration::from_secs(1));
    assert_eq!(stage.client_reads(), None);
    fails(&mut stage, Duration::from_secs(2));
    assert_eq!(stage.client_reads().unwrap()["result"]["_meta"]["dev.mendline/failure"]["outcome"], "not_sent");
}

#[test]
fn a_quick_policy_that_has_used_up_its_burst_goes_on_at_a_steady_pace() {
    let quick = AutoReconnect {
        initial_retry_delay: Some(Duration::from_millis(50)),
        backoff_multiplier: Some(1.0),
        max_retries: Some(None),
        ..AutoReconnect::default()
    };
    let mut stage = greeted_with(|notes| notes.reconnect = quick.into());
    stage.die(stage.written);
    let (mut last, mut longest) = (stage.now, Duration::ZERO);
    while stage.now.since(last) < Duration::from_secs(30) && stage.dials < 100 {
        stage.pass(Duration::from_millis(10));
        if let Some(link) = stage.spawned.take() {
            longest = longest.max(stage.now.since(last));
            last = stage.now;
            let why = SpawnFailure { kind: SpawnFailureKind::Exhausted, text: "no process to be had".into() };
            stage.tell(Input::SpawnFailed { link, why });
        }
    }
    assert_eq!(stage.dials, 100);
    assert!(longest < Duration::from_secs(5), "nothing was tried for {longest:?}");
}

#[test]
fn a_person_can_say_what_a_tool_does() {
    let mut stage = greeted_with(|notes| {
        notes.tools = [("sync".into(), ToolPolicy { effect: Some(Effect::Idempotent), timeout: None })].into();
    });
    stage.client_says(&call("1", "sync"));
    stage.server_reads().unwrap();
    restart(&mut stage);
    assert_eq!(stage.server_answers("{}")["params"]["name"], "sync", "it may run twice");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn a_client_that_wants_to_hear_of_it_hears_of_it() {
    let loud = AutoReconnect { silent: Some(false), ..AutoReconnect::default() };
    let mut stage = greeted_with(|notes| notes.reconnect = loud.into());
    ask(&mut stage, "logging/setLevel", &json!({ "level": "info" }), "{}");
    stage.die(stage.written);
    let lost = stage.client_reads().unwrap();
    assert_eq!((&lost["method"], &lost["params"]["level"]), (&json!("notifications/message"), &json!("warning")));
    stage.client_says(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}"#,
    );
    let mut seen = 0.0;
    for attempt in 2..=4 {
        stage.pass(Duration::from_secs(1));
        stage.accept_dial();
        stage.die(0);
        let told = stage.client_reads().unwrap();
        assert_eq!(
            (&told["method"], &told["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("t"))
        );
        assert_eq!(told["params"]["message"], format!("reconnecting to \"notes\", attempt {attempt} of 10"));
        let progress = told["params"]["progress"].as_f64().unwrap();
        assert!(progress > seen, "progress never falls");
        seen = progress;
        assert_eq!(stage.client_reads(), None);
    }
    stage.pass(Duration::from_secs(2));
    stage.accept_dial();
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["params"]["data"], "the server \"notes\" is back");
    stage.server_reads();
    stage.server_answers("{}");
    let id = stage.server_reads().unwrap()["id"].clone();
    for (value, shown) in [(0, false), (1, true)] {
        stage.server_says(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{value}}}}}"#
        ));
        assert_eq!(stage.client_reads().is_some(), shown, "the server's own progress goes on from there");
    }
}

#[test]
fn retries_without_an_end_are_counted_without_one() {
    let endless = AutoReconnect { silent: Some(false), max_retries: Some(None), ..AutoReconnect::default() };
    let mut stage = greeted_with(|notes| notes.reconnect = endless.into());
    stage.die(stage.written);
    stage.client_says(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}"#,
    );
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    stage.die(0);
    let told = std::iter::from_fn(|| stage.client_reads()).find(|it| it["method"] == "notifications/progress");
    assert_eq!(told.unwrap()["params"]["message"], "reconnecting to \"notes\", attempt 2");
}

#[test]
fn silence_is_the_default() {
    let mut stage = greeted();
    ask(&mut stage, "logging/setLevel", &json!({ "level": "debug" }), "{}");
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":"t"}}}"#);
    stage.server_reads().unwrap();
    restart(&mut stage);
    assert_eq!(stage.client_reads(), None);
}

// ---- a laptop's day ----

#[test]
fn after_a_sleep_what_is_lost_is_tried_at_once_and_what_is_there_is_tested() {
    let mut stage = Stage::with(|notes| {
        notes.reconnect = Reconnect { attempts: 2, patience: Duration::ZERO, ..Reconnect::default() };
    });
    stage.accept_dial();
    greet(&mut stage);
    stage.tell(Input::Woke);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.die(stage.written);
    for _ in 0..2 {
        stage.pass(Duration::from_secs(1));
        stage.accept_dial();
        stage.die(0);
    }
    assert_eq!(stage.state(), LinkState::Parked);
    let dials = stage.dials;
    stage.tell(Input::NetworkChanged);
    stage.pass(defaults::STAGGER);
    assert_eq!(stage.dials, dials + 1, "the backoff is forgotten");
    stage.accept_dial();
    stage.die(0);
    assert_eq!(stage.state(), LinkState::Waiting, "and the count begins anew");
}

#[test]
fn a_network_that_changes_all_the_time_is_tested_once_in_a_second() {
    let mut stage = greeted();
    let mut pings = 0;
    for _ in 0..40 {
        stage.tell(Input::NetworkChanged);
        while let Some(ping) = stage.server_reads() {
            assert_eq!(ping["method"], "ping");
            stage.server_says(&json!({ "jsonrpc": "2.0", "id": ping["id"], "result": {} }).to_string());
            pings += 1;
        }
        stage.pass(Duration::from_millis(100));
    }
    assert!((4..=5).contains(&pings), "{pings} within four seconds");
    stage.pass(defaults::KEEP_ALIVE_PAUSE);
    assert_eq!(stage.server_answers("{}")["method"], "ping", "the last change is not forgotten");
}

#[test]
fn a_network_that_changes_all_the_time_is_no_reason_for_a_storm() {
    let mut stage = greeted();
    stage.die(stage.written);
    for _ in 0..600 {
        stage.tell(Input::NetworkChanged);
        stage.pass(Duration::from_millis(100));
        if stage.spawned.is_some() {
            stage.accept_dial();
            stage.die(0);
        }
    }
    assert!(stage.dials <= 31, "{} dials in a minute", stage.dials);
}
