//! POSTs besides calls: notifications, responses to server requests, and cancellations. Few are in flight at a time,
//! and calls do not wait for them.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::event::{Dropped, Event};
use mendline_core::port::{Content, ExchangeEnd};
use mendline_core::reason::CutReason;
use mendline_core::{Input, defaults};
use stage::http::{INITIALIZE, SentRequest, Stage, call};

/// Creates a stage with an open GET stream for server requests.
fn with_get_stream() -> (Stage, SentRequest) {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    let get_stream = stage.send_initialized();
    stage.status(get_stream.id, 200, Content::Events, None);
    (stage, get_stream)
}

/// Sends so many server requests that most have to be declined.
fn server_requests(stage: &mut Stage, over: &SentRequest, count: usize) {
    for id in 0..count {
        stage.event(over.id, None, &format!(r#"{{"jsonrpc":"2.0","id":"q{id}","method":"roots/list"}}"#));
    }
}

fn dropped(stage: &Stage) -> usize {
    stage
        .events
        .iter()
        .filter(|event| matches!(event, Event::MessageDropped { why: Dropped::Undeliverable, .. }))
        .count()
}

fn accept(stage: &mut Stage, seen: &SentRequest) {
    stage.status(seen.id, 202, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
}

#[test]
fn s04_endless_server_requests_get_sixteen_concurrent_posts() {
    let (mut stage, get_stream) = with_get_stream();
    server_requests(&mut stage, &get_stream, 20_000);
    assert_eq!(stage.seen.len(), defaults::ONE_WAY_IN_FLIGHT);
    let declined = 20_000 - defaults::SERVER_REQUESTS;
    assert_eq!(dropped(&stage), declined - defaults::ONE_WAY_IN_FLIGHT - defaults::LINK_QUEUE);
    // Waiting POSTs are sent in order, one for each that is accepted.
    let mut ids = Vec::new();
    while let Some(seen) = stage.seen.pop_front() {
        ids.push(seen.json()["id"].as_str().unwrap().to_owned());
        accept(&mut stage, &seen);
        assert!(stage.seen.len() <= defaults::ONE_WAY_IN_FLIGHT);
    }
    let expected: Vec<_> = (defaults::SERVER_REQUESTS..)
        .map(|id| format!("q{id}"))
        .take(defaults::ONE_WAY_IN_FLIGHT + defaults::LINK_QUEUE)
        .collect();
    assert_eq!(ids, expected);
}

#[test]
fn s04_unaccepted_post_times_out_and_frees_slot() {
    let (mut stage, get_stream) = with_get_stream();
    server_requests(&mut stage, &get_stream, defaults::SERVER_REQUESTS + 3 * defaults::ONE_WAY_IN_FLIGHT);
    for round in 1..=3 {
        assert_eq!(stage.seen.len(), round * defaults::ONE_WAY_IN_FLIGHT);
        assert_eq!(stage.aborted.len(), (round - 1) * defaults::ONE_WAY_IN_FLIGHT);
        stage.advance(defaults::ONE_WAY);
    }
    assert_eq!(
        (stage.aborted.len(), dropped(&stage)),
        (3 * defaults::ONE_WAY_IN_FLIGHT, 3 * defaults::ONE_WAY_IN_FLIGHT)
    );
    assert_eq!(stage.engine.load().for_links, 0);
}

#[test]
fn s04_calls_and_cancellations_do_not_wait_for_other_posts() {
    let (mut stage, get_stream) = with_get_stream();
    server_requests(&mut stage, &get_stream, 1_000);
    stage.seen.clear();
    stage.client_sends(&call(1, "create_note"));
    assert_eq!(stage.next_sent().method(), "tools/call");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(stage.next_sent().method(), "notifications/cancelled");
    assert!(stage.seen.is_empty());
}

#[test]
fn s04_cancellations_are_limited_and_none_is_dropped() {
    let (mut stage, _notices) = with_get_stream();
    let count = 3 * defaults::ONE_WAY_IN_FLIGHT;
    for id in 1..=count {
        stage.client_sends(&call(id as u32, "create_note"));
        stage.input(Input::Reached { exchange: stage.seen.back().unwrap().id });
        stage.client_sends(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }
    let mut taken = 0;
    loop {
        stage.seen.retain(|seen| seen.method() == "notifications/cancelled");
        assert!(stage.seen.len() <= defaults::ONE_WAY_IN_FLIGHT);
        let Some(seen) = stage.seen.pop_front() else { break };
        accept(&mut stage, &seen);
        taken += 1;
    }
    assert_eq!((taken, dropped(&stage)), (count, 0));
}

#[test]
fn s04_posts_of_lost_session_free_their_slots() {
    let (mut stage, get_stream) = with_get_stream();
    stage.use_session();
    server_requests(&mut stage, &get_stream, 1_000);
    assert_eq!(stage.seen.len(), defaults::ONE_WAY_IN_FLIGHT);
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.seen.pop_back().unwrap();
    assert_eq!(seen.method(), "tools/call");
    stage.seen.clear();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    // POSTs of the lost session are not sent in the next one, and the handshake does not wait for them.
    stage.answer_initialize("s2");
    let initialized = stage.next_sent();
    assert_eq!(initialized.method(), "notifications/initialized");
    accept(&mut stage, &initialized);
    assert!(stage.seen.iter().any(|seen| seen.ask.body.is_some() && seen.method() == "tools/call"));
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    assert_eq!(stage.seen.back().unwrap().method(), "notifications/roots/list_changed");
}

#[test]
fn s04_initialized_is_sent_while_every_slot_is_taken() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let handshake = stage.next_sent();
    stage.status(handshake.id, 200, Content::Events, Some("s1"));
    // A server may send requests before it answers the handshake, and accept the responses slowly.
    server_requests(&mut stage, &handshake, 1_000);
    assert_eq!(stage.seen.len(), defaults::ONE_WAY_IN_FLIGHT);
    stage.seen.clear();
    let id = &handshake.json()["id"];
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25"}}}}"#);
    stage.event(handshake.id, None, &answer);
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(stage.next_sent().method(), "notifications/initialized");
    assert!(stage.seen.is_empty());
    stage.advance(Duration::from_secs(1));
}

#[test]
fn posts_wait_while_the_server_is_away() {
    let mut stage = Stage::initialized();
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    for _ in 0..defaults::ONE_WAY_IN_FLIGHT + 2 {
        stage.client_sends(changed);
    }
    assert_eq!(std::mem::take(&mut stage.seen).len(), defaults::ONE_WAY_IN_FLIGHT);
    stage.advance(defaults::ONE_WAY - Duration::from_secs(7));
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:1"}}"#);
    let seen = stage.next_sent();
    stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset));
    // A probe without an answer: the server is away. Meanwhile the notifications in flight time out.
    stage.next_probe();
    stage.advance(defaults::PROBE);
    stage.next_probe();
    stage.advance(Duration::from_secs(3));
    let sent =
        |stage: &Stage| stage.seen.iter().filter(|seen| seen.method() == "notifications/roots/list_changed").count();
    assert_eq!((stage.aborted.len() > defaults::ONE_WAY_IN_FLIGHT, sent(&stage)), (true, 0));
    stage.answer_probe();
    assert_eq!(sent(&stage), 2, "they are sent when the server is back");
}
