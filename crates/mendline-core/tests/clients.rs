//! The client side of the engine: queues, limits and the exit of clients.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::port::Ending;
use mendline_core::{ClientId, ClientStreams, Input, Output, Port, defaults};
use serde_json::Value;
use stage::initialized::initialized;
use stage::{CLIENT, NOTES, Stage, call};

const OTHER: ClientId = ClientId(1);

fn modern(id: u32, method: &str) -> String {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"slow",{meta}}}}}"#)
}

fn cancel(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn other_sends(stage: &mut Stage, text: &str) {
    stage.sends(OTHER, text);
}

fn other_reads(stage: &mut Stage) -> Option<Value> {
    stage.reads(OTHER)
}

fn is_closed(stage: &Stage) -> bool {
    stage.asked.iter().any(|asked| matches!(asked, Output::CloseStdin { .. }))
}

/// Returns a notification of this number of bytes.
fn notification(length: usize) -> String {
    let empty = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":""}}"#;
    empty.replace(r#""data":"""#, &format!(r#""data":"{}""#, "x".repeat(length - empty.len())))
}

#[test]
fn server_requests_beyond_client_limit_are_declined() {
    let mut stage = Stage::up();
    for id in 0..defaults::SERVER_REQUESTS {
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#));
        assert_eq!(stage.server_reads(), None, "{id} questions are not too many");
    }
    assert_eq!(stage.engine.load().server_requests, defaults::SERVER_REQUESTS);
    stage.server_sends(r#"{"jsonrpc":"2.0","id":"more","method":"roots/list"}"#);
    let declined = stage.server_reads().expect("the wait is bounded");
    assert_eq!(declined["id"], "more");
    assert_eq!(std::iter::from_fn(|| stage.client_reads()).count(), defaults::SERVER_REQUESTS);
}

#[test]
fn messages_read_by_client_free_its_limit() {
    let mut stage = Stage::up();
    let line = Port::Link(stage.spawned.unwrap());
    for _ in 0..3 {
        stage.server_sends(&notification(1_000));
        stage.client_reads().unwrap();
        stage.server_sends(&notification(defaults::CLIENT_QUEUE_SOFT_BYTES - 1));
        assert!(stage.engine.may_read(line), "one byte more would be too much");
        stage.server_sends(&notification(1_000));
        assert!(!stage.engine.may_read(line));
        stage.client_reads().unwrap();
        stage.client_reads().unwrap();
        assert!(stage.engine.may_read(line));
    }
}

#[test]
fn endless_subscription_does_not_delay_shutdown() {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "subscriptions/listen"));
    stage.server_reads().unwrap();
    stage.input(Input::ClientEnded { client: CLIENT });
    assert!(is_closed(&stage));
}

#[test]
fn shutdown_waits_for_call_after_ended_subscription() {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "subscriptions/listen"));
    stage.server_reads().unwrap();
    stage.client_sends(&cancel(1));
    assert_eq!(stage.server_reads().expect("the client is notified")["method"], "notifications/cancelled");
    stage.client_sends(&call("2", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.input(Input::ClientEnded { client: CLIENT });
    assert!(!is_closed(&stage), "it works");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert!(is_closed(&stage));
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn last_message_of_client_reaches_child_before_eof() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.client_sends(&cancel(1));
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    // The client has read nothing since.
    stage.input(Input::ClientEnded { client: CLIENT });
    assert!(is_closed(&stage));
    let message = stage.server_reads().expect("the driver closes it when the queue is empty");
    assert_eq!((&message["method"], &message["params"]["requestId"]), (&Value::from("notifications/cancelled"), &id));
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/roots/list_changed");
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn call_cancelled_before_sending_is_not_sent() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "create_note"));
    stage.client_sends(&cancel(1));
    stage.input(Input::ClientEnded { client: CLIENT });
    assert!(is_closed(&stage));
    assert_eq!(stage.server_reads(), None, "neither the call nor that it is cancelled");
}

#[test]
fn dropped_message_is_reported() {
    let mut stage = Stage::up();
    stage.client_sends(&cancel(77));
    stage.server_sends(r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#);
    stage.server_sends(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    for words in [
        "dropped a late notifications/cancelled",
        "dropped a response to an unknown request",
        "dropped an error that names no request",
        "dropped a client's answer to a server request that is over",
    ] {
        assert!(stage.log.iter().any(|line| line == words), "{words}: {:?}", stage.log);
    }
}

#[test]
fn delivered_message_is_not_reported_as_dropped() {
    let mut stage = Stage::up();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/roots/list_changed");
    assert!(!stage.log.iter().any(|line| line.contains("dropped")), "{:?}", stage.log);
}

#[test]
fn client_exit_cancels_only_its_modern_calls() {
    let mut stage = Stage::up();
    stage.input(Input::ClientOpened { client: OTHER, upstream: NOTES, streams: ClientStreams::One });
    stage.client_sends(&modern(1, "tools/call"));
    let stays = stage.server_reads().unwrap()["id"].clone();
    other_sends(&mut stage, &modern(1, "tools/call"));
    let cancelled = stage.server_reads().unwrap()["id"].clone();
    other_sends(&mut stage, &call("2", "create_note"));
    stage.server_reads().unwrap();
    other_sends(&mut stage, &modern(3, "tools/call"));
    // The third call is queued and was never sent, so no cancellation is sent.
    stage.input(Input::ClientLost { client: OTHER });
    let message = stage.server_reads().expect("the modern call of its own is cancelled");
    assert_eq!(
        (&message["method"], &message["params"]["requestId"]),
        (&Value::from("notifications/cancelled"), &cancelled)
    );
    assert_eq!(stage.server_reads(), None, "in the legacy era a client that leaves cancels nothing");
    assert_eq!((stage.engine.open_calls(NOTES), other_reads(&mut stage)), (1, None));
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{stays},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn counts_exclude_internal_requests_and_include_unread_messages() {
    let mut stage = initialized();
    stage.advance(defaults::KEEP_ALIVE);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.client_sends(&call("1", "create_note"));
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.engine.open_calls(NOTES), 2);
    assert_eq!((stage.engine.load().calls, stage.engine.load().for_links), (3, 2));
    stage.server_reads().unwrap();
    stage.server_reads().unwrap();
    assert_eq!(stage.engine.load().for_links, 0);
}

#[test]
fn shutdown_rejects_new_calls_and_finishes_running_ones() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.input(Input::Stop);
    stage.client_sends(&call("2", "create_note"));
    let answer = stage.client_reads().expect("rejected at once");
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "unavailable");
    assert!(answer.to_string().contains("Mendline is stopping"), "{answer}");
    assert!(!is_closed(&stage));
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.die(stage.written);
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ending: Ending::Ready })), "{:?}", stage.asked);
}

#[test]
fn modern_stdio_call_is_cancelled_by_notification() {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "tools/call"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.client_sends(&cancel(1));
    let message = stage.server_reads().expect("there is no exchange to abort");
    assert_eq!((&message["method"], &message["params"]["requestId"]), (&Value::from("notifications/cancelled"), &id));

    stage.client_sends(&modern(2, "tools/call"));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.advance(defaults::CALL);
    let message = stage.server_reads().expect("it need not go on");
    assert_eq!((&message["method"], &message["params"]["requestId"]), (&Value::from("notifications/cancelled"), &id));
}

#[test]
fn unknown_cancellation_of_server_is_dropped_and_logged() {
    let mut stage = initialized();
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}"#);
    assert_eq!(stage.client_reads(), None);
    assert!(stage.log.iter().any(|line| line.contains("a server request that is over")), "{:?}", stage.log);
}

#[test]
fn modern_client_is_named_once() {
    let mut stage = Stage::up();
    for id in 1..=2 {
        let info = r#""io.modelcontextprotocol/clientInfo":{"name":"agent","version":"1"}"#;
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let params = format!(r#"{{"name":"slow","_meta":{{{version},{info}}}}}"#);
        stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#));
    }
    assert_eq!(stage.log.iter().filter(|line| line.contains("client is agent 1")).count(), 1, "{:?}", stage.log);
}

#[test]
fn delivered_notification_is_not_logged_as_dropped() {
    let mut stage = initialized();
    stage.server_sends(&notification(200));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/message");
    assert!(!stage.log.iter().any(|line| line.contains("dropped")), "{:?}", stage.log);
}
