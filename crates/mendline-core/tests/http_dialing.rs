//! The link over HTTP: when it is up, which exchange probes, and how often.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::{AutoReconnect, Dialect};
use mendline_core::port::{Content, ExchangeEnd, Verb};
use mendline_core::{Event, Input, LinkId, LinkState, UpstreamConfig, defaults};
use stage::NOTES;
use stage::http::{INITIALIZE, Stage, call, complete_handshake, initialized_with_keep_alive, over_sse};

const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#;

fn cancel(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn state(stage: &Stage) -> Option<LinkState> {
    stage.engine.link_state(NOTES)
}

#[test]
fn response_head_proves_connection_without_connect_event() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    let first = stage.seen.pop_front().unwrap();
    assert!(stage.seen.is_empty(), "one call probes");
    stage.status(first.id, 200, Content::Json, None);
    assert_eq!((state(&stage), stage.seen.len()), (Some(LinkState::Up), 1));
}

#[test]
fn handshake_without_connection_in_time_is_failed_dial() {
    let mut stage = Stage::with(Dialect::Streamable, |notes| notes.timeouts.handshake = Duration::from_secs(5));
    stage.client_sends(INITIALIZE);
    let handshake = stage.seen.pop_front().unwrap();
    assert_eq!((handshake.method().as_str(), state(&stage)), ("initialize", Some(LinkState::Dialing)));
    stage.advance(Duration::from_secs(5));
    assert_eq!((state(&stage), stage.seen.len()), (Some(LinkState::Waiting), 0), "the next dial keeps the backoff");
}

#[test]
fn sse_head_proves_nothing_before_endpoint_event() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_sends(INITIALIZE);
    let sse = stage.seen.pop_front().unwrap();
    stage.status(sse.id, 200, Content::Events, None);
    assert_eq!((state(&stage), stage.seen.len()), (Some(LinkState::Dialing), 0));
}

#[test]
fn no_probe_without_pending_calls() {
    let mut new = Stage::new(Dialect::Auto);
    let mut tested = Stage::with(Dialect::Auto, |_| {});
    for stage in [&mut new, &mut tested] {
        stage.client_sends(&call(1, "create_note"));
        stage.seen.pop_front().expect("the link probes");
        stage.client_sends(&cancel(1));
        assert_eq!((state(stage), stage.seen.len()), (Some(LinkState::Idle), 0));
    }
}

#[test]
fn away_server_with_session_is_probed_without_pending_calls() {
    // This holds without keep-alive, too: the end of the outage is found before the next call.
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.refuse_connection();
    stage.client_sends(&cancel(1));
    let probe = stage.next_probe();
    assert_eq!((state(&stage), probe.header("mcp-session-id")), (Some(LinkState::Dialing), Some("s1")));
    stage.answer(&probe, "{}");
    assert_eq!(state(&stage), Some(LinkState::Up));
    stage.advance(Duration::from_secs(120));
    assert!(stage.seen.is_empty(), "an available server is not probed");
}

#[test]
fn probe_limit_waits_without_reporting_loss() {
    let loud = AutoReconnect { silent: Some(false), ..AutoReconnect::default() };
    let mut stage = Stage::with(Dialect::Auto, |notes| notes.reconnect = loud.into());
    for id in 0..defaults::DIAL_BURST as u32 {
        stage.client_sends(&call(id, "create_note"));
        stage.seen.pop_front().expect("the link probes");
        stage.client_sends(&cancel(id));
    }
    let params = r#"{"name":"slow","_meta":{"progressToken":"t"}}"#;
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{params}}}"#));
    assert_eq!((state(&stage), stage.seen.len()), (Some(LinkState::Waiting), 0));
    let waited = stage.next_request();
    assert!(
        (defaults::DIAL_PACE - Duration::from_millis(1)..=defaults::DIAL_PACE + defaults::DIAL_PACE_SPREAD)
            .contains(&waited),
        "{waited:?}"
    );
    assert_eq!(stage.client_reads(), None, "the link was never up, so no reconnect is reported");
}

#[test]
fn dial_burst_resets_after_one_minute() {
    let look = |stage: &mut Stage| {
        stage.client_sends(&call(1, "create_note"));
        stage.seen.pop_front().expect("the link probes");
        stage.client_sends(&cancel(1));
    };
    let mut stage = Stage::new(Dialect::Auto);
    look(&mut stage);
    stage.advance(Duration::from_secs(59));
    (1..defaults::DIAL_BURST).for_each(|_| look(&mut stage));
    stage.advance(Duration::from_secs(1));
    look(&mut stage);
}

#[test]
fn first_call_waiting_for_initialized_probes_alone() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let note = stage.next_sent();
    stage.client_sends(&call(1, "create_note"));
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.client_sends(&call(2, "create_note"));
    stage.advance(Duration::from_secs(1));
    assert_eq!(state(&stage), Some(LinkState::Dialing));
    stage.status(note.id, 202, Content::Empty, None);
    assert_eq!(stage.seen.len(), 1, "the first probes, the second waits");
}

#[test]
fn configured_retries_hold_at_pace_of_configured_delays() {
    // Without configured delays two redials take 2 s and 3 s, half of which is jitter.
    let least = Duration::from_millis(2_500);
    let two = AutoReconnect { max_retries: Some(Some(2)), ..AutoReconnect::default() };
    let change = |notes: &mut UpstreamConfig| (notes.reconnect, notes.keep_alive) = (two.into(), None);
    let mut stage = Stage::with(Dialect::Auto, change).initialize_session();
    stage.client_sends(&call(1, "create_note"));
    stage.refuse_connection();
    let began = stage.now;
    let mut redials = 0;
    while redials < 2 || stage.now.since(began) < least {
        assert_eq!((state(&stage), stage.client_reads()), (Some(LinkState::Waiting), None), "after {redials} redials");
        stage.next_request();
        // Reached, and lost again before any response: this proves nothing.
        let found = stage.next_sent();
        stage.end(found.id, ExchangeEnd::Cut(CutReason::Reset));
        redials += 1;
    }
    assert_eq!(state(&stage), Some(LinkState::Parked), "after {redials} redials");
    let answer = stage.client_reads().expect("the call waits no longer");
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "parked");
}

#[test]
fn no_reconnect_read_is_retried_after_503() {
    let off = AutoReconnect { enabled: Some(false), ..AutoReconnect::default() };
    let change = |notes: &mut UpstreamConfig| (notes.reconnect, notes.keep_alive) = (off.into(), None);
    let mut stage = Stage::with(Dialect::Auto, change).initialize_session();
    for is_lost in [false, true] {
        if is_lost {
            stage.client_sends(&call(7, "create_note"));
            stage.refuse_connection();
            let answer = stage.client_reads().expect("no automatic dial");
            assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "unavailable");
        }
        stage.client_sends(READ);
        if is_lost {
            // The call dials once.
            stage.answer_probe();
        }
        let seen = stage.next_sent();
        assert_eq!(seen.method(), "resources/read");
        stage.answer_overloaded(&seen, 503, None);
        assert_eq!(stage.client_reads(), None, "it was lost before: {is_lost}; the read is tried again");
        stage.answer_probe();
        assert!(stage.next_request() >= defaults::RETRY_INITIAL / 2, "it was lost before: {is_lost}");
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], 1);
    }
}

#[test]
fn failed_probing_read_without_handshake_waits_for_backoff() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(READ);
    for round in 0..8 {
        stage.refuse_connection();
        stage.next_request();
        // Without a handshake the call itself is the only possible probe.
        let seen = stage.next_sent();
        assert_eq!(seen.method(), "resources/read", "round {round}");
        stage.answer_overloaded(&seen, 502, None);
        assert_eq!((stage.client_reads(), stage.seen.len()), (None, 0), "round {round}: it is not resent at once");
        stage.next_request();
    }
    let found = stage.next_sent();
    stage.answer(&found, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn shutdown_during_probe_only_deletes_session() {
    let mut stage = initialized_with_keep_alive();
    stage.client_sends(&call(1, "create_note"));
    stage.refuse_connection();
    stage.next_request();
    stage.seen.clear();
    assert_eq!(state(&stage), Some(LinkState::Dialing));
    stage.input(Input::Stop);
    stage.input(Input::Stop);
    let reported: Vec<Verb> = stage.seen.iter().map(|seen| seen.ask.verb).collect();
    assert_eq!(reported, [Verb::Delete]);
    stage.advance(defaults::CLOSE_SESSION);
    assert!(stage.finished);
}

#[test]
fn http_server_with_waiting_call_is_dialed_sooner() {
    let after_losses = |stage: &mut Stage| {
        for _ in 0..7 {
            stage.refuse_connection();
            stage.next_request();
        }
        stage.refuse_connection();
        stage.next_request()
    };
    let mut idle = initialized_with_keep_alive();
    // Soon after the start of the client it would be dialed as if a call waited.
    for _ in 0..5 {
        idle.next_request();
        let ping = idle.next_sent();
        idle.answer(&ping, "{}");
    }
    idle.next_request();
    assert!(after_losses(&mut idle) > Duration::from_secs(6));
    let mut called = initialized_with_keep_alive();
    called.client_sends(&call(1, "create_note"));
    assert!(after_losses(&mut called) <= Duration::from_millis(5_001));
    let (mut sse, id) = over_sse();
    sse.end(id, ExchangeEnd::Cut(CutReason::Reset));
    sse.client_sends(&call(1, "create_note"));
    sse.next_request();
    assert!(after_losses(&mut sse) <= Duration::from_millis(5_001));
}

#[test]
fn each_session_has_its_own_id() {
    let ask = |stage: &mut Stage, id: u32| {
        stage.client_sends(&call(id, "create_note"));
        let asks = stage.next_sent();
        stage.status(asks.id, 200, Content::Events, None);
        stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
        stage.client_reads().expect("a server request");
        let mut links = stage.events.iter().filter_map(|event| match event {
            Event::ServerRequestForwarded { link, .. } => Some(*link),
            _ => None,
        });
        links.next_back().unwrap()
    };
    let mut stage = Stage::initialized();
    assert_eq!(ask(&mut stage, 1), LinkId { upstream: NOTES, dial: 1 });
    stage.client_sends(&call(2, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.client_reads().expect("the server request is cancelled");
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    stage.next_sent();
    assert_eq!(ask(&mut stage, 3), LinkId { upstream: NOTES, dial: 2 });
}
