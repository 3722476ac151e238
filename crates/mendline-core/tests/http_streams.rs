//! Event streams: resumption of responses, and the GET stream.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::{CutReason, RefusalReason};
use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, Verb};
use mendline_core::{Event, Moment, defaults};
use stage::http::{INITIALIZE, SentRequest, Stage, call, complete_handshake, outcome};

/// Starts and cuts the response to an unsafe call, so that it will be resumed.
fn with_cut_response(stage: &mut Stage) -> SentRequest {
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, ExchangeEnd::Complete);
    seen
}

#[test]
fn cut_response_is_resumed_and_not_resent() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, ExchangeEnd::Complete);
    assert!(stage.seen.is_empty(), "not before its time");
    stage.advance(defaults::RESUME_WAIT);
    let resumed = stage.next_sent();
    assert_eq!((resumed.ask.verb, resumed.header("last-event-id")), (Verb::Get, Some("e1")));
    assert_eq!(resumed.header("mcp-session-id"), Some("s1"));
    stage.status(resumed.id, 200, Content::Events, None);
    let id = &seen.json()["id"];
    stage.event(resumed.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    stage.end(resumed.id, ExchangeEnd::Complete);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.advance(Duration::from_secs(60));
    assert!(stage.seen.is_empty(), "no request after the answer");
}

#[test]
fn always_closing_stream_is_resumed_ten_times_and_reported() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, ExchangeEnd::Complete);
    let mut resumed = 0;
    let answer = loop {
        stage.advance(defaults::RESUME_WAIT);
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        let get = stage.next_sent();
        assert_eq!(get.ask.verb, Verb::Get);
        resumed += 1;
        stage.status(get.id, 200, Content::Events, None);
        stage.event(get.id, Some(&format!("p{resumed}")), "");
        stage.end(get.id, ExchangeEnd::Complete);
    };
    assert_eq!((resumed, outcome(&answer)), (defaults::RESUME_ATTEMPTS, "unknown"));
    stage.advance(Duration::from_secs(300));
    assert!(stage.seen.is_empty(), "and nothing after it");
    stage.client_sends(&call(2, "create_note"));
    let next = stage.next_sent();
    stage.answer(&next, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "later calls work");
}

#[test]
fn resumption_in_lost_session_does_not_resend_call() {
    let mut stage = Stage::initialized();
    with_cut_response(&mut stage);
    stage.advance(defaults::RESUME_WAIT);
    let resumed = stage.next_sent();
    stage.status(resumed.id, 404, Content::Empty, None);
    stage.end(resumed.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown", "the server received it in the lost session");
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    stage.advance(Duration::from_secs(60));
    assert!(stage.seen.iter().all(|seen| seen.ask.verb == Verb::Get), "it is not sent again");
}

#[test]
fn resumption_without_connection_is_retried_and_call_stays_sent() {
    let mut stage = Stage::initialized();
    let sent = with_cut_response(&mut stage);
    stage.advance(defaults::RESUME_WAIT);
    stage.refuse_connection();
    assert!(stage.client_reads().is_none());
    for _ in 0..3 {
        stage.next_request();
        assert!(stage.seen[0].is_probe(), "nothing is resumed while the server is away");
        stage.refuse_connection();
    }
    stage.answer_probe();
    stage.advance(defaults::RESUME_WAIT);
    let resumed = stage.next_sent();
    assert_eq!((resumed.ask.verb, resumed.header("last-event-id")), (Verb::Get, Some("e1")));
    stage.status(resumed.id, 200, Content::Events, None);
    let id = &sent.json()["id"];
    stage.event(resumed.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn replayed_notification_is_forwarded_once() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let initialized = stage.next_sent();
    stage.status(initialized.id, 202, Content::Empty, None);
    stage.end(initialized.id, ExchangeEnd::Complete);
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    for (last, passed_on) in [(None, true), (Some("e1"), false)] {
        let get_stream = stage.next_sent();
        assert_eq!((get_stream.ask.verb, get_stream.header("last-event-id")), (Verb::Get, last));
        stage.status(get_stream.id, 200, Content::Events, None);
        stage.event(get_stream.id, Some("e1"), notice);
        assert_eq!(stage.client_reads().is_some(), passed_on);
        stage.end(get_stream.id, ExchangeEnd::Cut(CutReason::Reset));
        stage.advance(Duration::from_secs(5));
    }
}

#[test]
fn get_stream_that_ends_at_once_is_reopened_with_backoff() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let note = stage.next_sent();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    for pause in [1, 2, 4, 8, 15, 15, 15] {
        let get_stream = stage.next_sent();
        assert_eq!(get_stream.ask.verb, Verb::Get);
        stage.status(get_stream.id, 200, Content::Events, None);
        stage.end(get_stream.id, ExchangeEnd::Complete);
        stage.advance(Duration::from_secs(pause) - Duration::from_millis(1));
        assert!(stage.seen.is_empty(), "not within {pause} s");
        stage.advance(Duration::from_millis(1));
        assert_eq!(stage.seen.len(), 1, "after {pause} s");
    }
}

/// Ends a resumed stream with a message of the call each time, and returns the times of the resumptions.
fn resumed_with_messages(stage: &mut Stage) -> Vec<Moment> {
    let mut resumed = Vec::new();
    with_cut_response(stage);
    while stage.events.iter().all(|event| !matches!(event, Event::CallFailed { .. })) {
        stage.next_request();
        let get = stage.next_sent();
        assert_eq!(get.ask.verb, Verb::Get);
        resumed.push(stage.now);
        stage.status(get.id, 200, Content::Events, None);
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"on"}}"#;
        stage.event_with_retry(get.id, &format!("m{}", resumed.len()), log, 0);
        assert_eq!(stage.client_reads().expect("a message")["method"], "notifications/message");
        stage.end(get.id, ExchangeEnd::Complete);
        assert!(resumed.len() <= 1_000, "it does not end");
    }
    resumed
}

#[test]
fn r19_all_resumptions_of_response_are_bounded() {
    for (total, change) in [(defaults::RESUME_TOTAL, None), (5, Some(5)), (1, Some(1))] {
        let mut stage = Stage::with(Dialect::Auto, |notes| {
            notes.keep_alive = None;
            notes.resume_total = change.unwrap_or(notes.resume_total);
        });
        stage = stage.initialize_session();
        let resumed = resumed_with_messages(&mut stage);
        assert_eq!(resumed.len(), total as usize, "messages do not reset this bound");
        assert_eq!(outcome(&stage.client_reads().expect("an answer")), "unknown");
        stage.advance(Duration::from_secs(300));
        assert!(stage.seen.iter().all(|seen| seen.ask.verb == Verb::Post), "nothing is resumed after it");
    }
}

#[test]
fn r19_resumptions_are_at_least_100_ms_apart() {
    let mut stage = Stage::initialized();
    let resumed = resumed_with_messages(&mut stage);
    let least = resumed.windows(2).map(|pair| pair[1].since(pair[0])).min().unwrap();
    assert!(least >= defaults::RESUME_WAIT_MIN, "{least:?}, although the server names 0 ms");
}

#[test]
fn forbidden_resumption_is_no_refusal_of_the_call() {
    let mut stage = Stage::initialized();
    with_cut_response(&mut stage);
    stage.advance(defaults::RESUME_WAIT);
    let resumed = stage.next_sent();
    stage.status(resumed.id, 307, Content::Empty, None);
    let (from, to) = ("http://notes.example".to_owned(), Some("https://login.example".to_owned()));
    stage.end(resumed.id, ExchangeEnd::Forbidden(RefusalReason::Endpoint { from, to }));
    let read = stage.run(Duration::from_secs(300), Stage::serve);
    assert_eq!(outcome(&read[0].1), "unknown", "{read:?}");
}
