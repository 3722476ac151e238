//! Sessions over HTTP: the handshake, the loss of a session, and the calls that depended on it.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Change, Content, ExchangeEnd, Reuse, Verb};
use mendline_core::{Event, Input, LinkState, UpstreamConfig, defaults};
use stage::http::{INITIALIZE, SentRequest, Stage, call, complete_handshake, initialized_with_keep_alive, outcome};
use stage::{CLIENT, NOTES};

#[test]
fn call_has_session_id_and_negotiated_version() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    assert_eq!((seen.header("mcp-session-id"), seen.header("mcp-protocol-version")), (Some("s1"), Some("2025-11-25")));
    assert_eq!(seen.reuse, Reuse::Fresh, "an unsafe call does not use an idle connection");
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn no_message_overtakes_initialized() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let note = stage.next_sent();
    assert!(stage.seen.is_empty());
    stage.status(note.id, 202, Content::Empty, None);
    assert!(stage.seen.iter().any(|seen| seen.ask.verb == Verb::Post && seen.method() == "tools/list"));
}

#[test]
fn lost_session_is_reinitialized_once_and_calls_are_resent() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    for _ in 0..2 {
        let at = stage.seen.iter().position(|seen| seen.method() == "tools/call").unwrap();
        let seen = stage.seen.remove(at).unwrap();
        stage.status(seen.id, 404, Content::Json, None);
        stage.body(seen.id, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#);
        stage.end(seen.id, ExchangeEnd::Complete);
    }
    stage.confirm_loss_with(404, -32001, "Session not found");
    stage.answer_initialize("s2");
    let note = stage.next_sent();
    assert_eq!((note.method().as_str(), note.header("mcp-session-id")), ("notifications/initialized", Some("s2")));
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    let mut answered = Vec::new();
    while let Some(seen) = stage.seen.pop_front() {
        if seen.ask.verb == Verb::Post {
            assert_eq!(seen.header("mcp-session-id"), Some("s2"));
            stage.answer(&seen, "{}");
            answered.push(stage.client_reads().unwrap()["id"].as_u64().unwrap());
        }
    }
    assert_eq!(answered, [1, 2]);
}

#[test]
fn r04_lost_session_is_charged_once_and_never_refused() {
    let read = r#"{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"file:///a"}}"#;
    let mut stage = Stage::initialized();
    for loss in 1..=3 * defaults::BUDGET_BUCKET {
        // Each answer earns a tenth of a retry, so the later losses hit fewer calls.
        let calls = if loss == 1 { 50 } else { 2 };
        (0..calls).for_each(|id| stage.client_sends(&call(loss * 100 + id, "create_note")));
        let burst: Vec<SentRequest> = stage.seen.drain(..).collect();
        for seen in &burst {
            stage.status(seen.id, 404, Content::Empty, None);
            stage.end(seen.id, ExchangeEnd::Complete);
        }
        stage.confirm_loss(404);
        stage.answer_initialize("s2");
        let note = stage.next_sent();
        stage.status(note.id, 202, Content::Empty, None);
        stage.end(note.id, ExchangeEnd::Complete);
        stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
        assert_eq!(stage.seen.len(), calls as usize, "each goes out once more after loss {loss}");
        while let Some(seen) = stage.seen.pop_front() {
            stage.refuse(&seen, 200, -32602, "no");
            assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32602);
        }
        assert!(stage.client_reads().is_none() && stage.seen.is_empty());
        if loss == 1 {
            // One loss was charged, not fifty calls: the budget is left for others.
            stage.client_sends(read);
            let failed = stage.next_sent();
            stage.page(&failed, 500);
            stage.answer_probe();
            stage.next_request();
            let again = stage.next_sent();
            stage.answer(&again, "{}");
            assert_eq!(stage.client_reads().unwrap()["id"], 9);
        }
        stage.use_session();
    }
    // The budget is used up, which is reported; the losses were not refused for it.
    stage.client_sends(read);
    let mut attempts = 0;
    let answer = loop {
        stage.next_request();
        let failed = stage.next_sent();
        stage.page(&failed, 500);
        attempts += 1;
        stage.answer_probe();
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
    };
    assert!(attempts < defaults::ATTEMPTS, "{attempts} attempts");
    assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
    assert!(stage.events.iter().any(|event| matches!(event, Event::RetryRefused { .. })), "{:?}", stage.log);
}

#[test]
fn unanswered_handshake_is_repeated_until_answered() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 404, Content::Json, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    for _ in 0..3 {
        let handshake = stage.next_sent();
        assert_eq!(handshake.method(), "initialize");
        stage.end(handshake.id, ExchangeEnd::Cut(CutReason::Reset));
        assert!(stage.seen.is_empty(), "not without a pause");
        stage.advance(Duration::from_secs(2));
    }
    stage.answer_initialize("s2");
    let note = stage.next_sent();
    stage.status(note.id, 202, Content::Empty, None);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
    let again = stage.next_sent();
    stage.answer(&again, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn repeated_handshake_is_resumed_by_get() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 404, Content::Json, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let handshake = stage.next_sent();
    stage.status(handshake.id, 200, Content::Events, Some("s2"));
    stage.event(handshake.id, Some("e1"), "");
    stage.end(handshake.id, ExchangeEnd::Complete);
    stage.advance(defaults::RESUME_WAIT);
    let fetched = stage.next_sent();
    assert_eq!((fetched.ask.verb, fetched.header("last-event-id")), (Verb::Get, Some("e1")));
    stage.status(fetched.id, 200, Content::Events, None);
    let result = r#""result":{"protocolVersion":"2025-11-25"}"#;
    let id = &handshake.json()["id"];
    stage.event(fetched.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    stage.end(fetched.id, ExchangeEnd::Complete);
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s2"), "the call goes out again");
}

#[test]
fn second_session_error_is_answer_of_call() {
    for status in [200, 400, 404] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let refuse = |stage: &mut Stage| {
            let seen = stage.next_sent();
            let error = r#"{"code":-32001,"message":"Session expired"}"#;
            stage.status(seen.id, status, Content::Json, None);
            stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, seen.json()["id"]));
            stage.end(seen.id, ExchangeEnd::Complete);
        };
        refuse(&mut stage);
        assert_eq!(stage.client_reads(), None, "HTTP {status}: the session is re-initialized");
        stage.confirm_loss_with(status, -32001, "Session expired");
        stage.answer_initialize("s2");
        complete_handshake(&mut stage);
        stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
        refuse(&mut stage);
        assert_eq!(stage.client_reads().unwrap()["error"]["message"], "Session expired", "HTTP {status}");
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn second_session_refusal_is_answer_of_call() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let refuse = |stage: &mut Stage| {
        let seen = stage.next_sent();
        stage.status(seen.id, 404, Content::Json, None);
        stage.end(seen.id, ExchangeEnd::Complete);
    };
    refuse(&mut stage);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    let note = stage.next_sent();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
    refuse(&mut stage);
    stage.answer_probe();
    let answer = stage.client_reads().expect("answered, not looped");
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(outcome(&answer), "refused");
    assert!(stage.seen.is_empty());
}

#[test]
fn session_is_deleted_at_shutdown() {
    let mut stage = Stage::initialized();
    stage.input(Input::ClientEnded { client: CLIENT });
    let delete = stage.next_sent();
    assert_eq!((delete.ask.verb, delete.header("mcp-session-id")), (Verb::Delete, Some("s1")));
    assert!(!stage.finished);
    stage.advance(defaults::CLOSE_SESSION);
    assert!(stage.finished, "a server that does not accept it does not delay the exit");
}

#[test]
fn last_notification_is_delivered_before_session_delete() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.next_sent();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    stage.input(Input::ClientEnded { client: CLIENT });
    let restored = stage.next_sent();
    assert_eq!((restored.method(), restored.header("mcp-session-id")), ("notifications/cancelled".into(), Some("s1")));
    assert!(stage.seen.is_empty(), "no notification after the session is deleted");
    stage.end(post.id, ExchangeEnd::Aborted);
    stage.status(restored.id, 202, Content::Other, None);
    stage.end(restored.id, ExchangeEnd::Complete);
    let delete = stage.next_sent();
    assert_eq!(delete.ask.verb, Verb::Delete);
    stage.end(delete.id, ExchangeEnd::Complete);
    assert!(stage.finished);
}

#[test]
fn server_blocking_last_notification_does_not_delay_shutdown() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.next_sent();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    stage.input(Input::ClientEnded { client: CLIENT });
    stage.next_sent();
    stage.advance(defaults::CLOSE_SESSION);
    assert!(stage.finished && stage.seen.is_empty(), "no DELETE either");
}

#[test]
fn session_lost_during_probe_is_replaced_and_calls_resent_once() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let first = stage.next_sent();
    stage.client_sends(&call(2, "create_note"));
    stage.refuse_connection();
    stage.advance(Duration::from_secs(2));
    assert_eq!((stage.engine.link_state(NOTES), stage.seen.len()), (Some(LinkState::Dialing), 1));
    stage.status(first.id, 404, Content::Empty, None);
    stage.end(first.id, ExchangeEnd::Complete);
    // The server has restarted: it knows only the sessions that it creates now.
    let (mut made, mut open, mut served) = (1, Vec::new(), 0);
    let read = stage.run(Duration::from_secs(5), |stage, seen| {
        let session = seen.header("mcp-session-id").map(str::to_owned);
        if seen.ask.verb == Verb::Post && seen.method() == "initialize" {
            made += 1;
            let name = format!("s{made}");
            stage.status(seen.id, 200, Content::Json, Some(&name));
            let result = r#"{"protocolVersion":"2025-11-25"}"#;
            let id = &seen.json()["id"];
            stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
            stage.end(seen.id, ExchangeEnd::Complete);
            open.push(name);
        } else if !session.as_ref().is_some_and(|session| open.contains(session)) {
            stage.status(seen.id, 404, Content::Empty, None);
            stage.end(seen.id, ExchangeEnd::Complete);
        } else {
            open.retain(|open| seen.ask.verb != Verb::Delete || Some(open) != session.as_ref());
            served += u32::from(seen.ask.verb == Verb::Post && seen.method() == "tools/call");
            stage.serve(seen);
        }
    });
    let mut answered: Vec<_> = read.iter().map(|(_, message)| message["id"].as_u64()).collect();
    answered.sort_unstable();
    assert_eq!((answered, served), (vec![Some(1), Some(2)], 2), "{read:?}");
    assert!(made <= 3 && open.len() == 1, "{made} sessions made, open: {open:?}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
}

#[test]
fn late_refusal_of_old_session_keeps_new_one() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    let (first, late) = (stage.next_sent(), stage.next_sent());
    stage.status(first.id, 404, Content::Empty, None);
    stage.end(first.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("tools/call", Some("s2")));
    stage.status(late.id, 404, Content::Empty, None);
    stage.end(late.id, ExchangeEnd::Complete);
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("tools/call", Some("s2")), "and at once");
    assert!(stage.seen.is_empty(), "one handshake");
}

#[test]
fn calls_waiting_for_initialized_wait_for_next_session() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    stage.client_sends(&call(2, "create_note"));
    let note = stage.next_sent();
    assert!(stage.seen.is_empty(), "both calls wait");
    stage.status(note.id, 404, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    stage.next_request();
    stage.answer_initialize("s3");
    complete_handshake(&mut stage);
    for _ in 0..2 {
        assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s3"));
    }
}

#[test]
fn undelivered_initialized_repeats_handshake() {
    for refusal in [Some(429), Some(503), None] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(INITIALIZE);
        stage.answer_initialize("s1");
        stage.client_reads().unwrap();
        stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        stage.client_sends(&call(1, "create_note"));
        let note = stage.next_sent();
        match refusal {
            Some(status) => stage.status(note.id, status, Content::Empty, None),
            // No response arrives: the handshake timeout applies.
            None => stage.advance(defaults::HANDSHAKE_HTTP),
        }
        assert!(stage.seen.is_empty(), "no message is sent after an incomplete handshake");
        stage.advance(Duration::from_secs(1));
        stage.answer_initialize("s2");
        complete_handshake(&mut stage);
        assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s2"), "{refusal:?}");
    }
}

#[test]
fn late_confirmation_is_restored_in_new_session() {
    let mut stage = initialized_with_keep_alive();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}"#);
    let slow = stage.next_sent();
    stage.client_sends(&call(2, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    stage.next_sent();
    stage.answer(&slow, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    let restored = stage.next_sent();
    assert_eq!((restored.method().as_str(), restored.header("mcp-session-id")), ("resources/subscribe", Some("s2")));
}

#[test]
fn unreadable_handshake_answer_repeats_handshake_first() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let handshake = stage.next_sent();
    stage.status(handshake.id, 200, Content::Events, Some("s2"));
    stage.event(handshake.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, handshake.json()["id"]));
    stage.advance(Duration::from_secs(1));
    stage.answer_initialize("s3");
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s3"));
}

#[test]
fn resumed_handshake_keeps_session_of_first_response() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let handshake = stage.next_sent();
    stage.status(handshake.id, 200, Content::Events, Some("s1"));
    stage.event(handshake.id, Some("e1"), "");
    stage.end(handshake.id, ExchangeEnd::Cut(CutReason::Reset));
    stage.advance(defaults::RESUME_WAIT);
    let resumed = stage.next_sent();
    assert_eq!((resumed.ask.verb, resumed.header("mcp-session-id")), (Verb::Get, Some("s1")));
    stage.status(resumed.id, 200, Content::Events, None);
    let result = r#""result":{"protocolVersion":"2025-11-25"}"#;
    let id = &handshake.json()["id"];
    stage.event(resumed.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    stage.client_reads().unwrap();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s1"));
}

#[test]
fn initialized_without_connection_completes_new_handshake() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.client_sends(&call(1, "create_note"));
    stage.advance(Duration::from_secs(1));
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s2"));
}

#[test]
fn session_refused_by_get_is_not_used_for_calls() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let note = stage.next_sent();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    let get_stream = stage.next_sent();
    stage.status(get_stream.id, 404, Content::Empty, None);
    stage.end(get_stream.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let look = stage.next_sent();
    assert_eq!((look.ask.verb, look.header("mcp-session-id")), (Verb::Get, None), "it may be a legacy SSE server");
    stage.status(look.id, 405, Content::Empty, None);
    stage.end(look.id, ExchangeEnd::Complete);
    stage.client_sends(&call(1, "create_note"));
    stage.next_request();
    stage.answer_initialize("s2");
}

#[test]
fn reload_changes_the_dialect_of_a_server() {
    let mut stage = Stage::initialized();
    let mut config = UpstreamConfig::http("notes", "http://notes.example/sse", Dialect::Sse);
    config.keep_alive = None;
    stage.input(Input::Reconfigure { upstream: NOTES, config: Box::new(config), change: Change::Transport });
    stage.client_sends(&call(1, "create_note"));
    stage.advance(Duration::from_secs(5));
    let is_sse = |seen: &SentRequest| seen.ask.verb == Verb::Get && seen.header("mcp-session-id").is_none();
    assert!(stage.seen.iter().any(is_sse), "it opens the SSE stream first");
}

#[test]
fn pings_are_used_again_after_a_reload() {
    let mut stage = initialized_with_keep_alive();
    stage.advance(defaults::KEEP_ALIVE);
    stage.confirm_loss(404);
    stage.use_session();
    let config = UpstreamConfig::http("notes", "http://other.example/mcp", Dialect::Auto);
    stage.input(Input::Reconfigure { upstream: NOTES, config: Box::new(config), change: Change::Transport });
    stage.client_sends(&call(1, "create_note"));
    let read = stage.run(Duration::from_secs(5), Stage::serve);
    assert_eq!(read[0].1["id"], 1);
    stage.client_sends(&call(2, "create_note"));
    let refused = stage.next_sent();
    stage.status(refused.id, 404, Content::Empty, None);
    stage.end(refused.id, ExchangeEnd::Complete);
    assert_eq!(stage.next_sent().method(), "ping", "the new server may answer it");
}
