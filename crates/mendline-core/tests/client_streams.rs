//! A client with many streams: each message on the stream of the request to which it belongs.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use bytes::Bytes;
use mendline_core::config::{Catalogue, Startup};
use mendline_core::{ClientId, ClientStreams, Input, Output, StreamId, StreamMessage, UpstreamConfig, defaults};
use mendline_wire::{Limits, Line, Message, Received};
use serde_json::{Value, json};
use stage::{NOTES, Stage, call};

const CLIENT: ClientId = ClientId(9);
const RESULT: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"notes","version":"1"}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn initialize(id: u32) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "agent", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params }).to_string()
}

/// Creates a stage with one client over many streams.
fn opened(resumed: Option<Message>) -> Stage {
    let mut stage = Stage::with(|config: &mut UpstreamConfig| {
        config.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    });
    stage.accept_dial();
    stage.input(Input::ClientOpened { client: CLIENT, upstream: NOTES, streams: ClientStreams::Many { resumed } });
    stage.input(Input::ClientLost { client: stage::CLIENT });
    stage
}

/// Creates a stage whose client has made its handshake on stream 1.
fn initialized() -> Stage {
    let mut stage = opened(None);
    send(&mut stage, 1, &initialize(1));
    stage.server_answers(RESULT);
    assert_eq!(pull(&mut stage, 1).unwrap().0["id"], 1);
    send(&mut stage, 0, INITIALIZED);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    ready(&mut stage);
    stage
}

fn send(stage: &mut Stage, stream: u32, text: &str) {
    let received = Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default());
    stage.input(Input::FromClient { client: CLIENT, stream: StreamId(stream), received });
}

/// Returns the next message of a stream, and whether it is the last.
fn pull(stage: &mut Stage, stream: u32) -> Option<(Value, bool)> {
    let StreamMessage { message, is_last } = stage.engine.poll_stream(CLIENT, StreamId(stream), stage.now)?;
    let value = message.map_or(Value::Null, |message| serde_json::from_slice(&message.to_bytes()).unwrap());
    Some((value, is_last))
}

/// Returns the streams that were announced since the last call.
fn ready(stage: &mut Stage) -> Vec<u32> {
    stage.collect();
    let announced = stage.asked.iter().filter_map(|output| match output {
        Output::StreamReady { client: CLIENT, stream } => Some(stream.0),
        _ => None,
    });
    let announced = announced.collect();
    stage.asked.clear();
    announced
}

#[test]
fn each_answer_is_written_to_the_stream_of_its_request() {
    let mut stage = initialized();
    send(&mut stage, 2, &call("1", "one"));
    send(&mut stage, 3, &call("1", "two"));
    let (one, two) = (stage.server_reads().unwrap(), stage.server_reads().unwrap());
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": two["id"], "result": "of two" }).to_string());
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": one["id"], "result": "of one" }).to_string());
    assert_eq!(ready(&mut stage), [3, 2]);
    for (stream, result) in [(2, "of one"), (3, "of two")] {
        let (answer, is_last) = pull(&mut stage, stream).unwrap();
        assert_eq!((&answer["id"], &answer["result"], is_last), (&json!(1), &json!(result), true));
        assert!(pull(&mut stage, stream).is_none(), "the stream is over");
    }
    assert_eq!(stage.engine.load().for_clients, 0);
}

#[test]
fn progress_is_written_to_the_stream_of_its_request_before_the_answer() {
    let mut stage = initialized();
    let params = json!({ "name": "one", "_meta": { "progressToken": "t" } });
    send(&mut stage, 2, &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }).to_string());
    let sent = stage.server_reads().unwrap();
    let params = json!({ "progressToken": sent["params"]["_meta"]["progressToken"], "progress": 1 });
    stage.server_sends(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string());
    assert_eq!(ready(&mut stage), [2]);
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": {} }).to_string());
    assert_eq!(ready(&mut stage), [0u32; 0], "announced once until it is found empty");
    let (progress, is_last) = pull(&mut stage, 2).unwrap();
    assert_eq!((&progress["params"]["progressToken"], is_last), (&json!("t"), false));
    assert!(pull(&mut stage, 2).unwrap().1);
}

#[test]
fn batch_ends_its_stream_with_its_last_answer() {
    let mut stage = initialized();
    send(&mut stage, 2, &format!("[{},{},17]", call("1", "one"), call("2", "two")));
    let invalid = pull(&mut stage, 2).unwrap();
    assert_eq!((&invalid.0["error"]["code"], invalid.1), (&json!(-32600), false));
    stage.server_answers("1");
    assert!(!pull(&mut stage, 2).unwrap().1);
    stage.server_answers("2");
    assert!(pull(&mut stage, 2).unwrap().1);
}

#[test]
fn unreadable_frame_is_answered_on_its_stream() {
    let mut stage = initialized();
    send(&mut stage, 2, r#"{"jsonrpc":"2.0","id":1,"method":"#);
    let (answer, is_last) = pull(&mut stage, 2).unwrap();
    assert_eq!((&answer["error"]["code"], is_last), (&json!(-32700), true));
}

#[test]
fn cancelled_request_ends_its_stream_without_a_message() {
    let mut stage = initialized();
    send(&mut stage, 2, &call("1", "one"));
    stage.server_reads().unwrap();
    send(&mut stage, 0, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/cancelled");
    assert_eq!(ready(&mut stage), [2]);
    assert_eq!(pull(&mut stage, 2), Some((Value::Null, true)));
}

#[test]
fn closed_stream_cancels_its_requests_only() {
    let mut stage = initialized();
    send(&mut stage, 2, &call("1", "one"));
    send(&mut stage, 3, &call("1", "two"));
    let (one, two) = (stage.server_reads().unwrap(), stage.server_reads().unwrap());
    stage.input(Input::StreamClosed { client: CLIENT, stream: StreamId(2) });
    let cancelled = stage.server_reads().unwrap();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &one["id"])
    );
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": one["id"], "result": {} }).to_string());
    assert_eq!(pull(&mut stage, 2), None);
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": two["id"], "result": {} }).to_string());
    assert!(pull(&mut stage, 3).unwrap().1);
}

#[test]
fn detached_stream_keeps_its_answer_until_it_is_attached() {
    let mut stage = initialized();
    send(&mut stage, 2, &call("1", "one"));
    stage.input(Input::StreamDetached { client: CLIENT, stream: StreamId(2) });
    stage.server_answers("{}");
    ready(&mut stage);
    stage.input(Input::StreamAttached { client: CLIENT, stream: StreamId(2) });
    assert_eq!(ready(&mut stage), [2]);
    assert!(pull(&mut stage, 2).unwrap().1);
}

#[test]
fn common_stream_without_connection_drops_notifications_beyond_its_limit() {
    let mut stage = initialized();
    let log =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "error", "data": "x" } });
    for _ in 0..defaults::DETACHED_QUEUE + 10 {
        stage.server_sends(&log.to_string());
    }
    assert_eq!(stage.engine.load().for_clients, defaults::DETACHED_QUEUE);
    assert!(stage.log.iter().any(|line| line.contains("without an open stream")), "{:?}", stage.log.last());
    assert!(stage.engine.may_read(mendline_core::Port::Link(stage.spawned.unwrap())), "the server is not slowed down");
    stage.input(Input::StreamAttached { client: CLIENT, stream: StreamId::COMMON });
    let mut read = 0;
    while pull(&mut stage, 0).is_some() {
        read += 1;
    }
    assert_eq!(read, defaults::DETACHED_QUEUE);
}

#[test]
fn detached_request_stream_drops_notifications_and_slows_nothing() {
    let mut stage = initialized();
    let params = json!({ "name": "one", "_meta": { "progressToken": "t" } });
    send(&mut stage, 2, &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }).to_string());
    let sent = stage.server_reads().unwrap();
    stage.input(Input::StreamDetached { client: CLIENT, stream: StreamId(2) });
    for progress in 0..defaults::CLIENT_QUEUE_SOFT {
        let params = json!({ "progressToken": sent["params"]["_meta"]["progressToken"], "progress": progress });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        stage.server_sends(&progress.to_string());
    }
    assert_eq!(stage.engine.load().for_clients, defaults::DETACHED_QUEUE);
    assert!(stage.engine.may_read(mendline_core::Port::Link(stage.spawned.unwrap())));
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": {} }).to_string());
    assert_eq!(stage.engine.load().for_clients, defaults::DETACHED_QUEUE + 1, "the answer is kept");
}

#[test]
fn attached_stream_keeps_notifications_beyond_the_detached_limit() {
    let mut stage = initialized();
    stage.input(Input::StreamAttached { client: CLIENT, stream: StreamId::COMMON });
    assert_eq!(ready(&mut stage), [0u32; 0], "nothing waits");
    let log =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "error", "data": "x" } });
    for _ in 0..defaults::DETACHED_QUEUE + 10 {
        stage.server_sends(&log.to_string());
    }
    assert_eq!(stage.engine.load().for_clients, defaults::DETACHED_QUEUE + 10);
}

#[test]
fn stream_that_is_not_read_drops_notifications_and_keeps_answers() {
    let mut stage = initialized();
    let params = json!({ "name": "one", "_meta": { "progressToken": "t" } });
    send(&mut stage, 2, &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }).to_string());
    let sent = stage.server_reads().unwrap();
    for progress in 0..defaults::NOTIFICATION_QUEUE + 10 {
        let params = json!({ "progressToken": sent["params"]["_meta"]["progressToken"], "progress": progress });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        stage.server_sends(&progress.to_string());
    }
    assert_eq!(stage.engine.load().for_clients, defaults::NOTIFICATION_QUEUE);
    assert!(stage.log.iter().any(|line| line.contains("that does not read")), "{:?}", stage.log.last());
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": {} }).to_string());
    assert_eq!(stage.engine.load().for_clients, defaults::NOTIFICATION_QUEUE + 1, "the answer is kept");
}

#[test]
fn notifications_since_the_loss_are_limited_even_if_they_are_taken() {
    let mut stage = initialized();
    let params = json!({ "name": "one", "_meta": { "progressToken": "t" } });
    send(&mut stage, 2, &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }).to_string());
    let sent = stage.server_reads().unwrap();
    stage.input(Input::StreamDetached { client: CLIENT, stream: StreamId(2) });
    let mut taken = 0;
    for progress in 0..defaults::DETACHED_QUEUE + 10 {
        let params = json!({ "progressToken": sent["params"]["_meta"]["progressToken"], "progress": progress });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        stage.server_sends(&progress.to_string());
        taken += usize::from(pull(&mut stage, 2).is_some());
    }
    assert_eq!(taken, defaults::DETACHED_QUEUE);
}

#[test]
fn closed_stream_frees_its_messages() {
    let mut stage = initialized();
    send(&mut stage, 2, &format!("[{},17]", call("1", "one")));
    assert_eq!(stage.engine.load().for_clients, 1);
    stage.input(Input::StreamClosed { client: CLIENT, stream: StreamId(2) });
    assert_eq!(stage.engine.load().for_clients, 0);
}

/// Sends a request of the server and returns its id.
fn elicit(stage: &mut Stage) -> Value {
    let params = json!({ "message": "which?", "requestedSchema": { "type": "object", "properties": {} } });
    let request = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params });
    stage.server_sends(&request.to_string());
    json!("q")
}

#[test]
fn server_request_is_written_to_the_stream_of_the_call_that_caused_it() {
    let mut stage = initialized();
    send(&mut stage, 2, &call("1", "one"));
    let sent = stage.server_reads().unwrap();
    let id = elicit(&mut stage);
    let (question, is_last) = pull(&mut stage, 2).unwrap();
    assert_eq!((&question["method"], is_last), (&json!("elicitation/create"), false));
    send(
        &mut stage,
        0,
        &json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } }).to_string(),
    );
    assert_eq!(stage.server_reads().unwrap()["id"], id);
    stage.server_sends(&json!({ "jsonrpc": "2.0", "id": sent["id"], "result": {} }).to_string());
    assert!(pull(&mut stage, 2).unwrap().1);
}

#[test]
fn server_request_of_no_call_uses_an_open_stream_or_is_declined() {
    let mut stage = initialized();
    elicit(&mut stage);
    let declined = stage.server_reads().unwrap();
    assert!(declined["error"].is_object(), "{declined}");
    stage.input(Input::StreamAttached { client: CLIENT, stream: StreamId::COMMON });
    elicit(&mut stage);
    assert_eq!(pull(&mut stage, 0).unwrap().0["method"], "elicitation/create");
}

#[test]
fn server_request_of_call_on_common_stream_is_written_there() {
    let mut stage = initialized();
    send(&mut stage, 0, &call("1", "one"));
    stage.server_reads().unwrap();
    elicit(&mut stage);
    assert_eq!(pull(&mut stage, 0).unwrap().0["method"], "elicitation/create");
}

#[test]
fn server_request_of_no_call_skips_detached_streams() {
    let mut stage = initialized();
    for (stream, id) in [(2, "1"), (3, "2")] {
        send(&mut stage, stream, &call(id, "one"));
        stage.server_reads().unwrap();
    }
    stage.input(Input::StreamDetached { client: CLIENT, stream: StreamId(2) });
    elicit(&mut stage);
    assert_eq!(pull(&mut stage, 2), None);
    assert_eq!(pull(&mut stage, 3).unwrap().0["method"], "elicitation/create");
}

#[test]
fn resumed_client_calls_without_a_handshake_of_its_own() {
    let message = Message::parse(Bytes::from(initialize(1))).unwrap();
    let mut stage = opened(Some(message));
    send(&mut stage, 1, &call("4", "one"));
    let handshake = stage.server_answers(RESULT);
    assert_eq!(
        (&handshake["method"], &handshake["params"]["clientInfo"]["name"]),
        (&json!("initialize"), &json!("agent"))
    );
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    assert_eq!(stage.server_answers("{}")["params"]["name"], "one");
    let (answer, is_last) = pull(&mut stage, 1).unwrap();
    assert_eq!((&answer["id"], is_last), (&json!(4), true));
    assert_eq!(pull(&mut stage, 0), None, "the client did not ask for the handshake");
}
