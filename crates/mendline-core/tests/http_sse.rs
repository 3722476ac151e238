//! The 2024-11-05 transport: its detection, and its one long SSE stream.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, Verb, Written};
use mendline_core::{Input, LinkState, defaults};
use stage::NOTES;
use stage::http::{INITIALIZE, Stage, call, complete_handshake, endpoint, outcome, over_sse};

#[test]
fn sse_only_server_is_detected_and_answers_over_stream() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let post = stage.next_sent();
    stage.status(post.id, 405, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    let sse = stage.next_sent();
    assert_eq!((sse.ask.verb, sse.ask.target.as_deref()), (Verb::Get, None));
    endpoint(&mut stage, sse.id, "/messages?s=1");
    let post = stage.next_sent();
    assert_eq!((post.method().as_str(), post.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    let id = &post.json()["id"];
    stage.event(sse.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 0);

    stage.client_sends(&call(1, "create_note"));
    let post = stage.next_sent();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    stage.end(sse.id, ExchangeEnd::Complete);
    assert_eq!(outcome(&stage.client_reads().expect("the answer would have come over the SSE stream")), "unknown");
}

#[test]
fn server_without_known_transport_is_reported_and_not_looped() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    for status in [404, 404] {
        let seen = stage.next_sent();
        stage.status(seen.id, status, Content::Other, None);
        stage.end(seen.id, ExchangeEnd::Complete);
    }
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["error"]["code"], -31009, "{answer}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Parked));
    stage.advance(Duration::from_secs(300));
    assert!(stage.seen.is_empty());
    stage.client_sends(INITIALIZE);
    assert_eq!(stage.next_sent().ask.verb, Verb::Post, "the next call may try both again");
}

#[test]
fn manual_reconnect_replaces_sse_stream() {
    let (mut stage, sse) = over_sse();
    stage.input(Input::Reconnect { upstream: NOTES });
    assert_eq!(stage.aborted, [sse]);
    stage.advance(Duration::from_secs(1));
    let next = stage.next_sent();
    assert_eq!((next.ask.verb, next.ask.target), (Verb::Get, None));
    endpoint(&mut stage, next.id, "/messages?s=2");
    let handshake = stage.next_sent();
    assert_eq!((handshake.method().as_str(), handshake.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
}

#[test]
fn post_without_connection_is_retried_and_sse_stream_stays() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    for _ in 0..3 {
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
        assert!(stage.seen.is_empty(), "not without a pause");
        stage.advance(Duration::from_secs(1));
    }
    let post = stage.next_sent();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn sse_stream_with_possible_handshake_is_not_initialized_twice() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_sends(INITIALIZE);
    let sse = stage.next_sent().id;
    endpoint(&mut stage, sse, "/messages?s=1");
    let post = stage.next_sent();
    stage.end(post.id, ExchangeEnd::Cut(CutReason::Reset));
    assert_eq!(stage.aborted, [sse]);
    stage.advance(Duration::from_secs(1));
    let next = stage.next_sent().id;
    endpoint(&mut stage, next, "/messages?s=2");
    assert_eq!(stage.next_sent().ask.target.as_deref(), Some("/messages?s=2"));
}

#[test]
fn cut_sse_stream_does_not_exclude_transport() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let post = stage.next_sent();
    stage.status(post.id, 405, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    let sse = stage.next_sent();
    stage.end(sse.id, ExchangeEnd::Cut(CutReason::Reset));
    assert!(stage.client_reads().is_none(), "the call waits");
    stage.advance(Duration::from_secs(1));
    let begun = stage.next_sent();
    stage.status(begun.id, 200, Content::Events, None);
    stage.end(begun.id, ExchangeEnd::Cut(CutReason::Reset));
    assert!(stage.client_reads().is_none(), "a stream that began proves the contrary");
    stage.advance(Duration::from_secs(1));
    let again = stage.next_sent().id;
    endpoint(&mut stage, again, "/messages?s=1");
    assert_eq!(stage.next_sent().method(), "initialize");
}

#[test]
fn post_under_lost_sse_stream_counts_as_sent_if_connected() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    stage.next_sent();
    stage.seen.pop_front().expect("the second, without a connection");
    stage.end(sse, ExchangeEnd::Cut(CutReason::Reset));
    stage.advance(defaults::ORPHAN);
    let answer = stage.client_reads().expect("the outcome of the first is unknown");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "unknown"));
    assert!(stage.client_reads().is_none(), "the second waits for the next SSE stream");
}

#[test]
fn forbidden_post_fails_its_call_and_keeps_sse_stream() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.seen.pop_front().expect("a post");
    let how = ExchangeEnd::Forbidden(stage::expired_certificate());
    stage.input(Input::End { exchange: post.id, how, written: Written::Nothing });
    let answer = stage.client_reads().expect("answered at once");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "not_sent"));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up), "the SSE stream is open");
    stage.client_sends(&call(2, "create_note"));
    let post = stage.next_sent();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn post_with_unknown_end_keeps_sse_stream() {
    let (mut stage, _) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.next_sent();
    stage.end(post.id, ExchangeEnd::Cut(CutReason::Reset));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    stage.client_sends(&call(2, "create_note"));
    assert_eq!(stage.next_sent().ask.target.as_deref(), Some("/messages?s=1"));
}

#[test]
fn repeated_handshake_with_unknown_transport_causes_no_storm() {
    let mut stage = Stage::new(Dialect::Auto);
    let mut requests = 0;
    for _ in 0..200 {
        stage.client_sends(INITIALIZE);
        for _ in 0..2 {
            let Some(seen) = stage.seen.pop_front() else { continue };
            requests += 1;
            stage.input(Input::Reached { exchange: seen.id });
            stage.status(seen.id, 404, Content::Other, None);
            stage.end(seen.id, ExchangeEnd::Complete);
        }
        stage.advance(Duration::from_millis(100));
    }
    assert!(requests <= 6, "{requests} requests within twenty seconds");
}

#[test]
fn sse_stream_without_endpoint_times_out_and_is_replaced() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_sends(INITIALIZE);
    let mute = stage.next_sent();
    stage.status(mute.id, 200, Content::Events, None);
    stage.advance(defaults::HANDSHAKE_HTTP);
    assert_eq!(stage.aborted, [mute.id]);
    stage.advance(Duration::from_secs(1));
    let next = stage.next_sent().id;
    endpoint(&mut stage, next, "/messages?s=1");
    assert_eq!(stage.next_sent().method(), "initialize");
}

#[test]
fn transport_change_after_restart_is_detected() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let handshake = stage.next_sent();
    assert_eq!(handshake.method(), "initialize");
    stage.status(handshake.id, 405, Content::Empty, None);
    stage.end(handshake.id, ExchangeEnd::Complete);
    let sse = stage.next_sent();
    assert_eq!(sse.ask.verb, Verb::Get);
    endpoint(&mut stage, sse.id, "/messages?s=1");
    let handshake = stage.next_sent();
    assert_eq!((handshake.method().as_str(), handshake.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(handshake.id, 202, Content::Empty, None);
    stage.end(handshake.id, ExchangeEnd::Complete);
    stage.event(sse.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, handshake.json()["id"]));
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().method(), "tools/call");
    stage.end(sse.id, ExchangeEnd::Complete);
    stage.client_sends(&call(2, "create_note"));
    stage.advance(Duration::from_secs(1));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    let sse = stage.next_sent();
    assert_eq!(sse.ask.verb, Verb::Get);
    stage.status(sse.id, 405, Content::Empty, None);
    stage.end(sse.id, ExchangeEnd::Complete);
    stage.advance(Duration::from_secs(1));
    stage.answer_initialize("s3");
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s3"));
}

#[test]
fn proxy_404_for_known_server_is_retried() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    // The call and the ping, then the handshake and the SSE stream, twice.
    for _ in 0..6 {
        stage.next_request();
        let seen = stage.next_sent();
        stage.status(seen.id, 404, Content::Other, None);
        stage.end(seen.id, ExchangeEnd::Complete);
    }
    assert_eq!(stage.client_reads(), None, "the call waits");
    stage.next_request();
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().method(), "tools/call");
}

#[test]
fn post_after_ended_sse_stream_is_judged_by_its_end() {
    let cut = || ExchangeEnd::Cut(CutReason::Reset);
    for (status, how, written, after) in [
        (None, cut(), Written::Partial, "not_sent"),
        (None, cut(), Written::Nothing, "not_sent"),
        (Some(404), ExchangeEnd::Complete, Written::Whole, "refused"),
        (None, cut(), Written::Whole, "unknown"),
        (Some(202), ExchangeEnd::Complete, Written::Whole, "unknown"),
    ] {
        let (mut stage, sse) = over_sse();
        stage.client_sends(&call(1, "create_note"));
        let post = stage.next_sent();
        stage.end(sse, ExchangeEnd::Complete);
        assert!(stage.client_reads().is_none(), "the end of its exchange decides");
        if let Some(status) = status {
            stage.status(post.id, status, Content::Empty, None);
        }
        stage.input(Input::End { exchange: post.id, how: how.clone(), written });
        if after == "unknown" {
            assert_eq!(outcome(&stage.client_reads().expect("answered at once")), "unknown", "{status:?} {how:?}");
            continue;
        }
        assert!(stage.client_reads().is_none(), "{status:?} {how:?} {written:?}: it goes out again");
        stage.advance(Duration::from_secs(1));
        let sse = stage.next_sent().id;
        endpoint(&mut stage, sse, "/messages?s=2");
        let handshake = stage.next_sent();
        assert_eq!(handshake.method(), "initialize");
        stage.status(handshake.id, 202, Content::Empty, None);
        stage.end(handshake.id, ExchangeEnd::Complete);
        stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, handshake.json()["id"]));
        complete_handshake(&mut stage);
        stage.advance(Duration::from_secs(1));
        let again = stage.next_sent();
        assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("tools/call", Some("/messages?s=2")));
    }
}

#[test]
fn silent_post_after_ended_sse_stream_is_unknown_soon() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.next_sent();
    stage.end(sse, ExchangeEnd::Complete);
    stage.advance(defaults::ORPHAN - Duration::from_millis(1));
    assert!(stage.client_reads().is_none());
    stage.advance(Duration::from_millis(1));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert!(stage.aborted.contains(&post.id));
}

#[test]
fn unhealthy_sse_server_is_asked_for_stream_again() {
    let (mut stage, sse) = over_sse();
    stage.end(sse, ExchangeEnd::Complete);
    stage.client_sends(&call(1, "create_note"));
    for _ in 0..3 {
        stage.next_request();
        let next = stage.next_sent();
        assert_eq!(next.ask.verb, Verb::Get, "503 does not reveal the transport");
        stage.status(next.id, 503, Content::Empty, None);
        stage.end(next.id, ExchangeEnd::Complete);
    }
}

#[test]
fn posts_of_sse_stream_are_aborted_with_it() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let note = stage.next_sent();
    stage.end(sse, ExchangeEnd::Complete);
    assert_eq!(stage.aborted, [note.id]);
}
