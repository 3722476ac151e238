//! Unusual responses over HTTP, and server requests with their responses.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::{CutReason, RefusalReason};
use std::time::Duration;

use mendline_core::config::{Dialect, Startup};
use mendline_core::port::{Content, ExchangeEnd, Reuse, Verb, Written};
use mendline_core::{ClientId, ClientStreams, Input, StreamId};
use mendline_wire::{Limits, Line, Received};
use stage::NOTES;
use stage::http::{
    INITIALIZE, SentRequest, Stage, call, complete_handshake, initialized_without_session, modern, outcome, over_sse,
};

/// Creates a stage with a server request whose response is in flight.
fn with_response_in_flight() -> (Stage, SentRequest) {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let asks = stage.next_sent();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]));
    let reply = stage.next_sent();
    (stage, reply)
}

#[test]
fn status_202_and_html_page_leave_call_unknown() {
    for (status, content) in [(202, Content::Empty), (200, Content::Other)] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        stage.status(seen.id, status, content, None);
        if content == Content::Other {
            stage.body(seen.id, "<html>");
        }
        stage.end(seen.id, ExchangeEnd::Complete);
        assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn server_request_of_lost_session_is_not_answered_in_next() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    let (asks, lost) = (stage.next_sent(), stage.next_sent());
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    assert!(stage.client_reads().is_none(), "no call could be answered");
}

#[test]
fn server_requests_survive_new_connection_of_same_session() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let asks = stage.next_sent();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    stage.refuse_connection();
    stage.answer_probe();
    let looks = stage.next_sent();
    assert_eq!(looks.method(), "tools/list");
    stage.answer(&looks, r#"{"tools":[]}"#);
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]));
    let reply = stage.next_sent();
    assert_eq!((reply.json()["id"].as_str(), reply.header("mcp-session-id")), (Some("q"), Some("s1")));
}

#[test]
fn undelivered_response_to_server_is_sent_three_times() {
    let (mut stage, first) = with_response_in_flight();
    stage.end(first.id, ExchangeEnd::Cut(CutReason::Reset));
    let second = stage.next_sent();
    assert_eq!((second.json(), second.header("mcp-session-id")), (first.json(), Some("s1")));
    stage.end(second.id, ExchangeEnd::Cut(CutReason::Reset));
    let third = stage.next_sent();
    stage.end(third.id, ExchangeEnd::Cut(CutReason::Reset));
    assert!(stage.seen.is_empty(), "a bounded number of times");
}

#[test]
fn accepted_or_obsolete_response_is_not_resent() {
    let (mut stage, reply) = with_response_in_flight();
    stage.status(reply.id, 202, Content::Empty, None);
    stage.end(reply.id, ExchangeEnd::Cut(CutReason::Reset));
    assert!(stage.seen.is_empty());

    let (mut stage, reply) = with_response_in_flight();
    stage.client_sends(&call(2, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    stage.seen.clear();
    stage.end(reply.id, ExchangeEnd::Cut(CutReason::Reset));
    assert!(stage.seen.is_empty());
}

#[test]
fn notification_is_resent_only_if_it_cannot_have_arrived() {
    for (written, again) in [(Written::Partial, 1), (Written::Whole, 0)] {
        let mut stage = Stage::initialized();
        stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        let note = stage.next_sent();
        stage.input(Input::End { exchange: note.id, how: ExchangeEnd::Cut(CutReason::Reset), written });
        assert_eq!(stage.seen.len(), again, "{written:?}");
    }
}

#[test]
fn truncated_answer_is_unknown_because_of_cut() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Json, None);
    stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "unknown" && text.contains("the connection was reset"), "{text}");
}

#[test]
fn server_requests_are_cancelled_at_shutdown() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let asks = stage.next_sent();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    stage.client_reads().unwrap();
    stage.input(Input::Stop);
    stage.input(Input::Stop);
    assert_eq!(stage.engine.load().server_requests, 0);
}

#[test]
fn unreadable_event_with_call_id_ends_that_call() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, None, "a line of log");
    assert!(stage.client_reads().is_none(), "noise affects no call");
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, seen.json()["id"]));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert_eq!(stage.aborted, [seen.id]);
}

#[test]
fn missing_login_is_reported() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 401, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    let answer = stage.client_reads().unwrap();
    let failure = &answer["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!((&failure["cause"], &failure["outcome"]), (&"needs_login".into(), &"refused".into()), "{answer}");
}

#[test]
fn answer_with_wrong_content_type_is_accepted_and_reported_once() {
    let mut stage = Stage::initialized();
    for id in 1..=3 {
        stage.client_sends(&call(id, "create_note"));
        let seen = stage.next_sent();
        stage.status(seen.id, 200, Content::Other, None);
        stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, seen.json()["id"]));
        stage.end(seen.id, ExchangeEnd::Complete);
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
    assert_eq!(stage.log.iter().filter(|line| line.contains("Content-Type")).count(), 1);
}

#[test]
fn every_invalid_answer_is_reported_and_not_looped() {
    type Play = fn(&mut Stage, &SentRequest);
    let plays: [(&str, &str, Play); 5] = [
        ("not JSON-RPC", "HTML", |stage, seen| {
            stage.status(seen.id, 200, Content::Other, None);
            stage.body(seen.id, "<!doctype html>");
            stage.end(seen.id, ExchangeEnd::Complete);
        }),
        ("not JSON-RPC", "truncated JSON", |stage, seen| {
            stage.status(seen.id, 200, Content::Json, None);
            stage.body(seen.id, r#"{"jsonrpc":"2.0","id":1,"res"#);
            stage.end(seen.id, ExchangeEnd::Complete);
        }),
        ("HTTP 202", "202 to a request", |stage, seen| {
            stage.status(seen.id, 202, Content::Empty, None);
            stage.end(seen.id, ExchangeEnd::Complete);
        }),
        ("larger than the limit", "an event over the limit", |stage, seen| {
            stage.status(seen.id, 200, Content::Events, None);
            stage.end(seen.id, ExchangeEnd::TooLarge);
        }),
        ("where nothing may be sent", "a redirect elsewhere", |stage, seen| {
            stage.status(seen.id, 307, Content::Empty, None);
            stage.end(
                seen.id,
                ExchangeEnd::Forbidden(RefusalReason::Endpoint {
                    from: "https://notes.test".to_owned(),
                    to: Some("https://other.test".to_owned()),
                }),
            );
        }),
    ];
    for (words, what, play) in plays {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        play(&mut stage, &seen);
        let at_once = stage.client_reads();
        assert_eq!(
            at_once.is_none(),
            what == "a redirect elsewhere",
            "{what}: only a refused call waits for the verdict"
        );
        if what != "an event over the limit" {
            stage.answer_probe();
        }
        let answer = at_once.or_else(|| stage.client_reads()).expect(what);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(words), "{what}: {text}");
        assert!(stage.log.iter().any(|line| line.contains("failed after") && line.contains(words)), "{what}");
        stage.advance(Duration::from_secs(120));
        assert!(stage.seen.is_empty(), "{what}");
    }
}

#[test]
fn correct_content_type_and_html_page_are_not_reported() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    stage.client_sends(&call(2, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Other, None);
    stage.body(seen.id, "<html>");
    stage.end(seen.id, ExchangeEnd::Complete);
    assert!(!stage.log.iter().any(|line| line.contains("Content-Type")), "{:?}", stage.log);
}

#[test]
fn unreadable_body_is_judged_when_exchange_ends() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Json, None);
    stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, seen.json()["id"]));
    assert_eq!((stage.client_reads(), stage.aborted.len()), (None, 0), "it is not over yet");
    stage.end(seen.id, ExchangeEnd::Complete);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
}

#[test]
fn invalid_server_request_with_call_id_is_not_its_answer() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    let id = &seen.json()["id"];
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list","params":{{"#));
    assert_eq!((stage.client_reads(), stage.aborted.len()), (None, 0));
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

/// Returns the facts of a failure by Mendline.
fn facts(answer: &serde_json::Value) -> &serde_json::Value {
    &answer["result"]["_meta"]["dev.mendline/failure"]
}

#[test]
fn t01_status_without_response_never_reports_call_as_run() {
    let refused = [307, 308, 403, 404, 405, 406, 411, 413, 414, 415, 425, 426, 431];
    for status in (300..600).filter(|status| ![401, 421, 429, 503].contains(status)) {
        let (mut stage, get_stream) = initialized_without_session();
        stage.status(get_stream.id, 405, Content::Empty, None);
        stage.end(get_stream.id, ExchangeEnd::Complete);
        stage.use_session();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        stage.status(seen.id, status, Content::Other, None);
        stage.body(seen.id, "<html><title>Blocked by the firewall</title><body>no</body></html>");
        stage.end(seen.id, ExchangeEnd::Complete);
        let is_refused = refused.contains(&status);
        let at_once = stage.client_reads();
        assert_eq!(at_once.is_none(), is_refused, "HTTP {status}: a refused call waits for the verdict");
        stage.answer_probe();
        let answer = at_once.or_else(|| stage.client_reads()).expect("an answer");
        let expected = if is_refused { ("refused", "refused") } else { ("outcome_unknown", "unknown") };
        let reported = (facts(&answer)["cause"].as_str().unwrap(), facts(&answer)["outcome"].as_str().unwrap());
        assert_eq!(reported, expected, "HTTP {status}");
        assert_eq!(facts(&answer)["retryable"], false, "HTTP {status}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!("HTTP {status}: Blocked by the firewall")), "{text}");
        assert!(!text.contains("ran it"), "{text}");
        stage.advance(Duration::from_secs(60));
        assert!(stage.seen.is_empty(), "HTTP {status}: it is not sent again");
    }
}

#[test]
fn t01_misdirected_request_is_resent_once_on_fresh_connection() {
    let mut stage = Stage::initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let first = stage.next_sent();
    assert_eq!(first.reuse, Reuse::Any);
    stage.status(first.id, 421, Content::Empty, None);
    stage.end(first.id, ExchangeEnd::Complete);
    stage.next_request();
    let second = stage.next_sent();
    assert_eq!(second.reuse, Reuse::Fresh);
    stage.status(second.id, 421, Content::Empty, None);
    stage.end(second.id, ExchangeEnd::Complete);
    stage.answer_probe();
    let answer = stage.client_reads().expect("an answer");
    assert_eq!(answer["error"]["code"], -31010, "{answer}");
}

#[test]
fn t02_ended_sse_stream_is_not_explained_by_post_status() {
    let (mut stage, stream) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.next_sent();
    stage.end(stream, ExchangeEnd::Complete);
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    let answer = stage.client_reads().expect("an answer");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("event stream") && !text.contains("202"), "{text}");
}

#[test]
fn t01_refusal_by_both_transports_keeps_worst_outcome() {
    for (status, outcome) in [(400, "unknown"), (404, "refused"), (405, "refused")] {
        let mut stage = Stage::with(Dialect::Auto, |notes| notes.catalogue.startup = Startup::Wait);
        stage.client_sends(INITIALIZE);
        let handshake = stage.next_sent();
        stage.status(handshake.id, status, Content::Empty, None);
        stage.end(handshake.id, ExchangeEnd::Complete);
        let get = stage.next_sent();
        assert_eq!(get.ask.verb, Verb::Get, "{status}");
        stage.status(get.id, 400, Content::Empty, None);
        stage.end(get.id, ExchangeEnd::Complete);
        let data = &stage.client_reads().expect("an answer")["error"]["data"];
        assert_eq!((&data["cause"], &data["outcome"]), (&"cannot_bridge".into(), &outcome.into()), "{status}");
        assert_eq!(data["attempts"], 1, "{status}: the server has received it");
    }
}

#[test]
fn t01_unsafe_call_is_not_sent_over_sse_after_bare_400() {
    for (status, is_sent_again) in [(400, false), (404, true), (405, true)] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(&call(1, "create_note"));
        let post = stage.next_sent();
        stage.status(post.id, status, Content::Empty, None);
        stage.end(post.id, ExchangeEnd::Complete);
        assert_eq!(stage.client_reads().is_none(), is_sent_again, "{status}: a bare 400 may hide an execution");
    }
}

#[test]
fn t02_missing_login_is_refused_and_not_retried() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 401, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    let answer = stage.client_reads().expect("an answer");
    assert_eq!((&facts(&answer)["cause"], &facts(&answer)["retryable"]), (&"needs_login".into(), &false.into()));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("was refused") && !text.contains("not sent"), "{text}");
    assert!(text.contains("Retrying will not help") && text.contains("mendline doctor notes"), "{text}");
}

#[test]
fn r22_ping_before_initialize_result_is_answered_in_session() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let handshake = stage.next_sent();
    stage.status(handshake.id, 200, Content::Events, Some("s1"));
    stage.event(handshake.id, None, r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    let ping = stage.client_reads().expect("the server's ping");
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, ping["id"]));
    let reply = stage.next_sent();
    assert_eq!((&reply.json()["id"], reply.header("mcp-session-id")), (&"p".into(), Some("s1")));
}

#[test]
fn w06_session_error_does_not_change_http_status() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.refuse(&seen, 200, -32001, "Session expired");
    let ping = stage.next_sent();
    assert_eq!(ping.method(), "ping");
    // A 404 would confirm a 404. The response was 200, so this confirms nothing.
    stage.status(ping.id, 404, Content::Empty, None);
    stage.end(ping.id, ExchangeEnd::Complete);
    assert_eq!(outcome(&stage.client_reads().expect("an answer")), "unknown");
}

#[test]
fn w04_server_cannot_forge_mendline_facts() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    let claim = r#"{"dev.mendline/failure":{"cause":"unavailable","outcome":"not_sent"},"kept":1}"#;
    stage.answer(&seen, &format!(r#"{{"content":[],"isError":true,"_meta":{claim}}}"#));
    let answer = stage.client_reads().expect("an answer");
    assert_eq!(answer["result"]["_meta"], serde_json::json!({ "kept": 1 }));
    stage.client_sends(&call(2, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Json, None);
    let error = r#"{"code":-31001,"message":"no","data":{"cause":"unavailable","outcome":"not_sent"}}"#;
    stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, seen.json()["id"]));
    let answer = stage.client_reads().expect("an answer");
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&(-31001).into(), &serde_json::Value::Null));
}

#[test]
fn log_message_in_a_response_goes_to_the_stream_of_its_request() {
    let client = ClientId(9);
    let mut stage = Stage::new(Dialect::Streamable);
    let streams = ClientStreams::Many { resumed: None };
    stage.input(Input::ClientOpened { client, upstream: NOTES, streams });
    for stream in [1, 2] {
        let text = modern(stream, "tools/call", r#""name":"read","arguments":{},"#);
        let received = Received::from_line(Line::Text(text.into()), &Limits::default());
        stage.input(Input::FromClient { client, stream: StreamId(stream), received });
    }
    let (first, second) = (stage.next_sent(), stage.next_sent());
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"half"}}"#;
    stage.status(second.id, 200, Content::Events, None);
    stage.event(second.id, None, log);
    let mut read = |stream| {
        let message = stage.engine.poll_stream(client, StreamId(stream), stage.now)?.message?;
        Some(String::from_utf8(message.to_bytes().to_vec()).unwrap())
    };
    assert_eq!((read(2).as_deref(), read(1), read(0)), (Some(log), None, None), "{:?}", first.id);
}
