//! Streams of events: long answers, progress, resumption, and what is lost with a killed gateway.

use serde_json::json;

use super::gateway::{Gateway, Response};
use super::{call, request};

/// A time after which an answer is a stream.
const LONG: u32 = 2_500;

#[test]
fn late_answer_becomes_a_stream() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    let mut answer = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a", "delayMs": LONG })));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let first = answer.event().unwrap();
    assert_eq!((&first.data[..], first.id.is_some()), ("", true), "an id to resume after");
    let last = answer.event().unwrap();
    assert_eq!(last.name.as_deref(), Some("message"));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&last.data).unwrap()["id"], 2);
    assert!(answer.event().is_none(), "the stream ends with its answer");
}

#[test]
fn client_of_older_revision_gets_no_empty_event() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-06-18");
    let headers = [("Mcp-Session-Id", &session[..])];
    let mut answer = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a", "delayMs": LONG })));
    assert!(!answer.event().unwrap().data.is_empty());
}

#[test]
fn i8_progress_is_in_order_before_the_answer() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-06-18");
    let params = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": "mine" } });
    let mut answer = gateway.post(&[("Mcp-Session-Id", &session)], &request(2, "tools/call", &params));
    let mut progress = 0.0;
    loop {
        let message = answer.message();
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "mine");
            let step = message["params"]["progress"].as_f64().unwrap();
            assert!(step > progress, "{step} after {progress}");
            progress = step;
        } else {
            assert_eq!(message["id"], 2);
            break;
        }
    }
    assert!(progress > 0.0);
}

#[test]
fn c90_lost_stream_is_resumed_after_its_last_event() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    let mut answer = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a", "delayMs": LONG + 1_000 })));
    let id = answer.event().unwrap().id.unwrap();
    drop(answer);
    let resume = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", &id[..]), ("Accept", "text/event-stream")];
    let mut resumed = gateway.send("GET", "/mcp/demo", &resume, "");
    assert_eq!(resumed.message()["id"], 2);
    drop(resumed);
    let mut again = gateway.send("GET", "/mcp/demo", &resume, "");
    assert_eq!(again.message()["id"], 2, "an answer whose end was lost is repeated");
}

#[test]
fn call_that_ran_in_a_killed_gateway_is_answered_when_its_stream_is_resumed() {
    let mut gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    let mut answer = gateway.post(&headers, &call(2, "create_note", &json!({ "key": "a", "delayMs": 60_000 })));
    let id = answer.event().unwrap().id.unwrap();
    gateway.kill_and_restart();
    let resume = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", &id[..]), ("Accept", "text/event-stream")];
    let mut resumed = gateway.send("GET", "/mcp/demo", &resume, "");
    let message = resumed.message();
    assert_eq!((&message["id"], &message["error"]["data"]["outcome"]), (&json!(2), &json!("unknown")), "{message}");
    assert!(resumed.event().is_none(), "the stream is over");
}

#[test]
fn client_that_accepts_only_json_waits_for_its_answer() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..]), ("Accept", "application/json")];
    let answer = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a", "delayMs": LONG }))).json();
    assert_eq!(answer["id"], 2);
}

#[test]
fn get_opens_the_common_stream() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..]), ("Accept", "text/event-stream")];
    let mut stream = gateway.send("GET", "/mcp/demo", &headers, "");
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
    assert!(stream.event().unwrap().id.is_some());
    let mut second = gateway.send("GET", "/mcp/demo", &headers, "");
    assert!(second.event().is_some());
    assert!(stream.event().is_none(), "a new connection replaces the last");
    let json = [("Mcp-Session-Id", &session[..]), ("Accept", "application/json")];
    assert_eq!(gateway.send("GET", "/mcp/demo", &json, "").status, 406);
    assert_eq!(gateway.send("GET", "/mcp/demo", &[("Accept", "text/event-stream")], "").status, 405);
}

#[test]
fn calls_of_one_session_run_at_the_same_time() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-06-18");
    let headers = [("Mcp-Session-Id", &session[..])];
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let mut answer = gateway.post(&headers, &call(1, "lookup", &json!({ "key": "a", "delayMs": LONG })));
            answer.message()["id"].clone()
        });
        let quick = gateway.post(&headers, &call(1, "lookup", &json!({ "key": "b" }))).json();
        assert_eq!(quick["id"], 1);
        assert!(!slow.is_finished());
        assert_eq!(slow.join().unwrap(), 1);
    });
}

/// Makes a call with an answer of 3 MiB. Returns the id of the first event, and the rest of the response.
fn call_big(gateway: &Gateway, session: &str, id: u32) -> (String, Response) {
    let headers = [("Mcp-Session-Id", session), ("Accept", "text/event-stream")];
    let mut answer = gateway.post(&headers, &call(id, "big", &json!({ "key": "a", "bytes": 3 << 20 })));
    (answer.event().unwrap().id.unwrap(), answer)
}

#[test]
fn long_answer_whose_transfer_was_cut_is_repeated() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let (id, answer) = call_big(&gateway, &session, 2);
    drop(answer);
    let resume = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", &id[..]), ("Accept", "text/event-stream")];
    let message = gateway.send("GET", "/mcp/demo", &resume, "").message();
    assert_eq!(message["result"]["content"][0]["text"].as_str().unwrap().len(), 3 << 20);
}

#[test]
fn oldest_kept_answer_is_dropped_and_its_client_is_told() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let ids = [2, 3, 4].map(|id| {
        let (first, mut answer) = call_big(&gateway, &session, id);
        while answer.event().is_some() {}
        first
    });
    let resume = |id: &str| {
        let headers = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", id), ("Accept", "text/event-stream")];
        gateway.send("GET", "/mcp/demo", &headers, "").message()
    };
    let dropped = resume(&ids[0]);
    assert_eq!((&dropped["id"], &dropped["error"]["data"]["outcome"]), (&json!(2), &json!("answered")), "{dropped}");
    assert!(resume(&ids[2])["result"]["content"].is_array(), "the newest is kept");
}
