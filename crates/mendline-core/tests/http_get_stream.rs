//! The GET stream for unsolicited messages: when it is opened, and its event ids.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::LinkState;
use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, Verb};
use stage::NOTES;
use stage::http::{INITIALIZE, SentRequest, Stage, call, initialized_without_session};

const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Creates an initialized stage with an open GET stream.
fn with_get_stream() -> (Stage, SentRequest) {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    let get_stream = stage.send_initialized();
    stage.status(get_stream.id, 200, Content::Events, None);
    (stage, get_stream)
}

fn gets(stage: &Stage) -> usize {
    stage.seen.iter().filter(|seen| seen.ask.verb == Verb::Get).count()
}

#[test]
fn get_stream_with_events_is_reopened_soon() {
    let (mut stage, mut get_stream) = with_get_stream();
    for round in 0..5 {
        stage.event(get_stream.id, None, NOTIFICATION);
        stage.client_reads().unwrap();
        stage.end(get_stream.id, ExchangeEnd::Complete);
        stage.advance(Duration::from_millis(500));
        assert_eq!(gets(&stage), 1, "round {round}");
        stage.seen.retain(|seen| seen.ask.verb == Verb::Get);
        get_stream = stage.next_sent();
        stage.status(get_stream.id, 200, Content::Events, None);
    }
}

#[test]
fn get_stream_is_not_opened_without_connection() {
    let (mut stage, get_stream) = with_get_stream();
    stage.end(get_stream.id, ExchangeEnd::Cut(CutReason::Reset));
    stage.client_sends(&call(1, "create_note"));
    for _ in 0..30 {
        if !stage.seen.is_empty() {
            assert_eq!(gets(&stage), 0, "another exchange probes");
            stage.refuse_connection();
        }
        assert_ne!(stage.engine.link_state(NOTES), Some(LinkState::Up));
        stage.advance(Duration::from_millis(100));
    }
    let probe = stage.next_probe();
    assert_eq!(gets(&stage), 0, "a connection alone proves nothing");
    stage.answer(&probe, "{}");
    assert_eq!(gets(&stage), 1, "now it is");
}

#[test]
fn server_without_session_or_get_stream_is_asked_once() {
    let (mut stage, get_stream) = initialized_without_session();
    stage.status(get_stream.id, 404, Content::Empty, None);
    stage.end(get_stream.id, ExchangeEnd::Complete);
    stage.client_sends(&call(1, "create_note"));
    stage.refuse_connection();
    stage.answer_probe();
    let found = stage.next_sent();
    assert_eq!(found.method(), "tools/call");
    stage.answer(&found, "{}");
    stage.advance(Duration::from_secs(60));
    assert_eq!(gets(&stage), 0);
}

#[test]
fn get_stream_ends_with_session_and_reopens_in_next() {
    let (mut stage, get_stream) = with_get_stream();
    stage.use_session();
    stage.event(get_stream.id, Some("e1"), NOTIFICATION);
    stage.client_sends(&call(1, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    assert_eq!(stage.aborted, [get_stream.id]);
    stage.answer_initialize("s2");
    let note = stage.next_sent();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    let next = stage.seen.iter().find(|seen| seen.ask.verb == Verb::Get).expect("a stream for the new session");
    assert_eq!((next.header("mcp-session-id"), next.header("last-event-id")), (Some("s2"), None));
}

#[test]
fn thousand_event_ids_are_kept_against_duplicates() {
    let (mut stage, get_stream) = with_get_stream();
    for at in 0..1_000 {
        stage.event(get_stream.id, Some(&format!("e{at}")), NOTIFICATION);
        stage.client_reads().expect("a notification");
    }
    stage.end(get_stream.id, ExchangeEnd::Cut(CutReason::Reset));
    stage.advance(Duration::from_secs(1));
    let resumed = stage.next_sent();
    assert_eq!(resumed.header("last-event-id"), Some("e999"));
    stage.status(resumed.id, 200, Content::Events, None);
    stage.event(resumed.id, Some("e0"), NOTIFICATION);
    assert_eq!(stage.client_reads(), None, "the oldest one, too");
    stage.event(resumed.id, Some("e1000"), NOTIFICATION);
    stage.client_reads().expect("a new one");
}

#[test]
fn only_refused_notifications_are_reported_as_lost() {
    for (status, dropped) in [(202, 0), (200, 0), (404, 1), (500, 1)] {
        let (mut stage, _notices) = initialized_without_session();
        stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        let note = stage.next_sent();
        stage.status(note.id, status, Content::Empty, None);
        stage.end(note.id, ExchangeEnd::Complete);
        let reported = stage.log.iter().filter(|line| line.contains("it cannot be delivered")).count();
        assert_eq!(reported, dropped, "HTTP {status}: {:?}", stage.log);
    }
}

#[test]
fn get_stream_refused_in_a_live_session_is_not_reopened() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    let get_stream = stage.send_initialized();
    stage.status(get_stream.id, 404, Content::Empty, None);
    stage.end(get_stream.id, ExchangeEnd::Complete);
    let ping = stage.next_sent();
    assert_eq!(ping.method(), "ping");
    stage.answer(&ping, "{}");
    stage.advance(Duration::from_secs(60));
    assert_eq!(gets(&stage), 0);
}
