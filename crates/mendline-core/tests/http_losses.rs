//! Reports of a lost session, and errors that only look like one.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId, Verb};
use mendline_core::{Input, defaults};
use stage::http::{
    INITIALIZE, SentRequest, Stage, call, complete_handshake, endpoint, initialized_with_keep_alive,
    initialized_without_session, outcome, over_sse,
};

/// Refuses a call with an error that has its id, or none.
fn refuse(stage: &mut Stage, seen: &SentRequest, status: u16, code: i64, words: &str, named: bool) {
    let id = if named { seen.json()["id"].to_string() } else { "null".into() };
    stage.status(seen.id, status, Content::Json, None);
    stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{words}"}}}}"#));
    stage.end(seen.id, ExchangeEnd::Complete);
}

/// Opens the next SSE stream, answers the handshake over it, and returns the call that follows.
fn next_sse(stage: &mut Stage) -> (ExchangeId, SentRequest) {
    stage.advance(Duration::from_secs(1));
    let sse = stage.next_sent().id;
    endpoint(stage, sse, "/messages?s=2");
    let handshake = stage.next_sent();
    assert_eq!((handshake.method().as_str(), handshake.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
    stage.status(handshake.id, 202, Content::Empty, None);
    stage.end(handshake.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, handshake.json()["id"]));
    complete_handshake(stage);
    stage.advance(Duration::from_secs(1));
    (sse, stage.next_sent())
}

/// Refusals of a call: status, code, text, whether the error has its id, and whether it reports a lost session.
const REFUSALS: &[(u16, i64, &str, bool, bool)] = &[
    (200, -32000, "Session not found", true, true),
    (200, -32000, "Server not initialized", true, true),
    (200, -32001, "session expired", true, true),
    (200, -32600, "no valid session", true, true),
    (200, -32602, "no such session", true, true),
    (200, -32000, "boom", true, false),
    (200, -32603, "the session broke", true, false),
    (200, 17, "Session not found", true, false),
    (400, -32602, "bad session", true, true),
    (400, -32000, "Bad Request: Server not initialized", false, true),
    (400, -32000, "boom", false, false),
    (400, -32602, "Invalid request parameters", false, false),
    (400, -32602, "bad arguments", true, false),
    (403, -32000, "not in this session", true, false),
    (403, -32000, "forbidden", true, false),
    (404, -32001, "Session not found", false, true),
    (404, -32601, "nothing here", true, false),
];

#[test]
fn r15_r16_error_text_reports_session_as_lost() {
    for (status, code, words, named, lost) in REFUSALS {
        let what = format!("HTTP {status}, {code} {words:?}, named: {named}");
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        refuse(&mut stage, &seen, *status, *code, words, *named);
        if *lost {
            assert_eq!(stage.client_reads(), None, "{what}");
            let ping = stage.next_sent();
            assert_eq!((ping.method().as_str(), ping.header("mcp-session-id")), ("ping", Some("s1")), "{what}");
            refuse(&mut stage, &ping, *status, *code, words, *named);
            stage.answer_initialize("s2");
            complete_handshake(&mut stage);
            let again = stage.next_sent();
            assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("tools/call", Some("s2")), "{what}");
        } else {
            let answer = stage.client_reads().expect(&what);
            assert_eq!((&answer["id"], &answer["error"]["message"]), (&1.into(), &(*words).into()), "{what}");
            assert!(stage.seen.is_empty(), "{what}");
        }
    }
}

#[test]
fn r15_r16_error_in_live_session_is_answer_of_call() {
    for (status, code, words, named, lost) in REFUSALS.iter().filter(|(.., lost)| *lost) {
        let what = format!("HTTP {status}, {code} {words:?}, named: {named}, lost: {lost}");
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        refuse(&mut stage, &seen, *status, *code, words, *named);
        let ping = stage.next_sent();
        stage.answer(&ping, "{}");
        let answer = stage.client_reads().expect(&what);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&1.into(), &(*code).into()), "{what}");
        assert!(stage.seen.is_empty(), "{what}: neither a handshake nor a second attempt");
        stage.client_sends(&call(2, "create_note"));
        assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s1"), "{what}");
    }
}

/// Refuses a call in `s1` with this status and no body, and returns the ping that follows.
fn refused_without_body(stage: &mut Stage, request: &str, status: u16) -> SentRequest {
    stage.client_sends(request);
    let seen = stage.next_sent();
    stage.status(seen.id, status, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    let ping = stage.next_sent();
    assert_eq!(ping.method(), "ping");
    ping
}

#[test]
fn r15_bare_404_in_live_session_is_refused() {
    let mut stage = Stage::initialized();
    let ping = refused_without_body(&mut stage, &call(1, "create_note"), 404);
    stage.answer(&ping, "{}");
    let answer = stage.client_reads().expect("an answer");
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "refused");
    assert_eq!(outcome(&answer), "refused");
    assert!(stage.seen.is_empty());
}

#[test]
fn r15_bare_400_is_unknown_and_starts_no_handshake() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 400, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    assert_eq!(outcome(&stage.client_reads().expect("an answer")), "unknown");
    assert!(stage.seen.is_empty());
}

#[test]
fn r15_unanswered_ping_leaves_unsafe_call_unknown_and_repeats_read() {
    let ends: [fn(&mut Stage, &SentRequest); 4] = [
        |stage, ping| {
            // A broken connection loses the first ping, and a second one follows.
            stage.end(ping.id, ExchangeEnd::Cut(CutReason::Reset));
            let again = stage.next_sent();
            assert_eq!(again.method(), "ping");
            stage.end(again.id, ExchangeEnd::Cut(CutReason::Reset));
        },
        |stage, ping| {
            stage.status(ping.id, 503, Content::Empty, None);
            stage.end(ping.id, ExchangeEnd::Complete);
        },
        |stage, ping| {
            stage.status(ping.id, 400, Content::Empty, None);
            stage.end(ping.id, ExchangeEnd::Complete);
        },
        |stage, _| stage.advance(defaults::KEEP_ALIVE_TIMEOUT),
    ];
    for (index, end) in ends.into_iter().enumerate() {
        let mut stage = Stage::initialized();
        let ping = refused_without_body(&mut stage, &call(1, "create_note"), 404);
        end(&mut stage, &ping);
        assert_eq!(outcome(&stage.client_reads().expect("an answer")), "unknown", "end {index}");
        stage.advance(Duration::from_secs(5));
        assert!(stage.seen.iter().all(|seen| seen.method() != "tools/call"), "end {index}: it is not sent again");

        let mut stage = Stage::initialized();
        let ping = refused_without_body(&mut stage, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, 404);
        end(&mut stage, &ping);
        assert_eq!(stage.client_reads(), None, "end {index}");
        stage.next_request();
        let again = stage.next_sent();
        assert_eq!(
            (again.method().as_str(), again.header("mcp-session-id")),
            ("tools/list", Some("s1")),
            "end {index}"
        );
    }
}

#[test]
fn r15_ping_refused_by_live_session_confirms_nothing() {
    let mut stage = initialized_with_keep_alive();
    stage.advance(defaults::KEEP_ALIVE);
    stage.confirm_loss(404);
    stage.use_session();
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    for _ in 0..2 {
        let seen = stage.next_sent();
        stage.status(seen.id, 404, Content::Empty, None);
        stage.end(seen.id, ExchangeEnd::Complete);
    }
    assert_eq!(outcome(&stage.client_reads().expect("an answer")), "unknown");
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    stage.next_request();
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("tools/list", Some("s2")));
}

#[test]
fn r15_one_ping_serves_all_refused_calls() {
    let mut stage = Stage::initialized();
    (1..=8).for_each(|id| stage.client_sends(&call(id, "create_note")));
    let calls: Vec<SentRequest> = stage.seen.drain(..).collect();
    for seen in &calls {
        stage.status(seen.id, 404, Content::Empty, None);
        stage.end(seen.id, ExchangeEnd::Complete);
    }
    assert_eq!(stage.seen.len(), 1, "one ping");
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    assert_eq!(stage.seen.iter().filter(|seen| seen.method() == "tools/call").count(), 8);
}

#[test]
fn r15_session_answering_only_handshake_is_retried_with_backoff() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let mut handshakes = 0;
    let mut failed = 0;
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for step in 0..2_000 {
        while let Some(seen) = stage.seen.pop_front() {
            stage.input(Input::Reached { exchange: seen.id });
            let is_handshake = seen.ask.verb == Verb::Post && seen.method() == "initialize";
            if is_handshake {
                handshakes += 1;
                stage.status(seen.id, 200, Content::Json, Some("s"));
                let id = &seen.json()["id"];
                let result = r#"{"protocolVersion":"2025-11-25"}"#;
                stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
            } else if seen.ask.verb == Verb::Post && seen.method() == "notifications/initialized" {
                stage.status(seen.id, 202, Content::Empty, None);
            } else {
                stage.status(seen.id, 404, Content::Empty, None);
            }
            stage.end(seen.id, ExchangeEnd::Complete);
        }
        if step % 20 == 0 {
            stage.client_sends(&call(step, "create_note"));
        }
        while let Some(answer) = stage.client_reads() {
            failed += u32::from(answer["result"]["isError"] == true);
        }
        stage.advance(Duration::from_millis(100));
    }
    // The server loses every session at once for 200 s.
    assert!(failed >= 90, "each call is answered: {failed}");
    assert!(handshakes <= 6 + 200 / 2, "the backoff holds: {handshakes}");
}

#[test]
fn server_without_session_cannot_lose_it() {
    let (mut stage, _notices) = initialized_without_session();
    stage.use_session();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen, 404, -32000, "Session not found", true);
    assert_eq!(stage.client_reads().expect("an answer")["error"]["message"], "Session not found");
    for status in [400, 404] {
        stage.client_sends(&call(2, "create_note"));
        let seen = stage.next_sent();
        stage.status(seen.id, status, Content::Empty, None);
        stage.end(seen.id, ExchangeEnd::Complete);
        let at_once = stage.client_reads();
        assert_eq!(at_once.is_none(), status == 404, "HTTP {status}: a refused call waits for the verdict");
        stage.answer_probe();
        let answer = at_once.or_else(|| stage.client_reads()).expect("an answer");
        let expected = if status == 404 { "refused" } else { "outcome_unknown" };
        assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], expected, "HTTP {status}");
    }
    assert!(stage.seen.is_empty());
}

#[test]
fn post_to_lost_sse_session_is_resent_over_next_stream() {
    for named in [false, true] {
        let (mut stage, sse) = over_sse();
        stage.client_sends(&call(1, "create_note"));
        let post = stage.next_sent();
        if named {
            refuse(&mut stage, &post, 404, -32001, "Session not found", true);
        } else {
            stage.status(post.id, 404, Content::Empty, None);
            stage.end(post.id, ExchangeEnd::Complete);
        }
        assert_eq!(stage.client_reads(), None);
        match named {
            true => stage.confirm_loss_with(404, -32001, "Session not found"),
            false => stage.confirm_loss(404),
        }
        assert_eq!((stage.client_reads(), &stage.aborted), (None, &vec![sse]), "named: {named}");
        let (_, again) = next_sse(&mut stage);
        assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("tools/call", Some("/messages?s=2")));
    }
}

#[test]
fn handshake_refused_at_sse_endpoint_is_repeated_and_completed() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_sends(INITIALIZE);
    let sse = stage.next_sent().id;
    endpoint(&mut stage, sse, "/messages?s=1");
    let post = stage.next_sent();
    stage.status(post.id, 404, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    assert_eq!((stage.client_reads(), stage.seen.len()), (None, 0), "it waits for the backoff");
    stage.next_request();
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(again.id, 202, Content::Empty, None);
    stage.end(again.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, again.json()["id"]));
    assert_eq!(stage.client_reads().expect("the server's own answer")["result"], serde_json::json!({}));
}

#[test]
fn handshake_is_resent_over_next_sse_stream() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_sends(INITIALIZE);
    let sse = stage.next_sent().id;
    endpoint(&mut stage, sse, "/messages?s=1");
    let post = stage.next_sent();
    stage.end(sse, ExchangeEnd::Complete);
    stage.status(post.id, 404, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    assert_eq!(stage.client_reads(), None);
    stage.advance(Duration::from_secs(1));
    let sse = stage.next_sent().id;
    endpoint(&mut stage, sse, "/messages?s=2");
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
}

#[test]
fn late_session_loss_does_not_close_next_sse_stream() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.next_sent();
    stage.end(sse, ExchangeEnd::Complete);
    stage.advance(Duration::from_millis(300));
    let next = stage.next_sent().id;
    stage.status(post.id, 404, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    assert_eq!(stage.client_reads(), None, "it goes out again");
    assert!(!stage.aborted.contains(&next), "the next SSE stream has another session");
}

#[test]
fn loss_of_sse_stream_is_charged_once() {
    const BURST: u32 = 2 * defaults::BUDGET_BUCKET;
    let (mut stage, sse) = over_sse();
    (0..BURST).for_each(|id| stage.client_sends(&call(id, "create_note")));
    let posts: Vec<SentRequest> = (0..BURST).map(|_| stage.next_sent()).collect();
    stage.end(sse, ExchangeEnd::Complete);
    for post in posts {
        stage.status(post.id, 404, Content::Empty, None);
        stage.end(post.id, ExchangeEnd::Complete);
    }
    assert_eq!(stage.client_reads(), None, "all of them go out again");
    next_sse(&mut stage);
    assert_eq!(stage.seen.len() as u32, BURST - 1);
}

#[test]
fn error_in_a_body_answers_read_without_confirmation() {
    let mut stage = Stage::initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    let seen = stage.next_sent();
    stage.refuse(&seen, 200, -32001, "Session not found");
    assert_eq!(stage.next_sent().method(), "ping");
    stage.advance(Duration::from_secs(60));
    assert_eq!(stage.client_reads().expect("the ping is not answered")["error"]["code"], -32001);
}
