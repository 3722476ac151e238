//! Upstreams that are added, removed and stopped while the engine runs.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::port::Verb;
use mendline_core::{ClientId, ClientStreams, Input, LinkState, Output, Port, UpstreamConfig, UpstreamId, defaults};
use serde_json::Value;
use stage::initialized::{INITIALIZE, initialized};
use stage::{CLIENT, NOTES, Stage, call, http};

const SECOND: UpstreamId = UpstreamId(5);
const OTHER: ClientId = ClientId(1);

fn add(stage: &mut Stage) {
    let config = Box::new(UpstreamConfig::child("notes", "notes-server"));
    stage.input(Input::AddUpstream { upstream: SECOND, config, like: Some(NOTES) });
    stage.input(Input::ClientOpened { client: OTHER, upstream: SECOND, streams: ClientStreams::One });
    stage.accept_dial();
}

/// A stage with a second upstream, whose child is the one that the stage plays.
fn with_second() -> Stage {
    let mut stage = initialized();
    stage.spawned = None;
    add(&mut stage);
    stage
}

fn is_removed(stage: &Stage) -> bool {
    stage.asked.iter().any(|output| matches!(output, Output::UpstreamRemoved { upstream: SECOND }))
}

fn answer(stage: &mut Stage, client: ClientId) -> Value {
    stage.reads(client).expect("an answer")
}

#[test]
fn added_upstream_has_its_own_process() {
    let mut stage = with_second();
    assert_eq!(stage.spawned.unwrap().upstream, SECOND);
    stage.sends(OTHER, INITIALIZE);
    assert_eq!(stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#)["method"], "initialize");
    assert_eq!(answer(&mut stage, OTHER)["id"], 0);
    assert_eq!(stage.reads(CLIENT), None);
}

#[test]
fn call_numbers_are_unique_across_upstreams() {
    let mut stage = with_second();
    stage.client_sends(&call("7", "create_note"));
    stage.sends(OTHER, &call("7", "create_note"));
    let accepted: Vec<&String> = stage.log.iter().filter(|line| line.contains("create_note: accepted")).collect();
    assert!(accepted.len() == 2 && accepted[0] != accepted[1], "{accepted:?}");
}

#[test]
fn reconnect_of_all_replaces_the_process_of_each_upstream() {
    let mut stage = with_second();
    stage.sends(OTHER, INITIALIZE);
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.input(Input::ReconnectAll);
    for upstream in [NOTES, SECOND] {
        let is_closed = |output: &Output| matches!(output, Output::CloseStdin { link } if link.upstream == upstream);
        assert!(stage.asked.iter().any(is_closed), "{upstream:?}");
    }
}

#[test]
fn removed_upstream_releases_everything() {
    let mut stage = initialized();
    stage.spawned = None;
    let before = stage.engine.load();
    add(&mut stage);
    stage.sends(OTHER, INITIALIZE);
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.input(Input::ClientLost { client: OTHER });
    stage.input(Input::RemoveUpstream { upstream: SECOND });
    assert!(stage.asked.iter().any(|output| matches!(output, Output::CloseStdin { link } if link.upstream == SECOND)));
    assert!(!is_removed(&stage), "its process is not reaped yet");
    stage.die(stage.written);
    assert!(is_removed(&stage));
    assert_eq!((stage.engine.link_state(SECOND), stage.engine.load()), (None, before));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
}

#[test]
fn running_call_of_removed_upstream_is_answered() {
    let mut stage = with_second();
    stage.sends(OTHER, &call("7", "create_note"));
    let request = stage.server_reads().unwrap();
    stage.input(Input::RemoveUpstream { upstream: SECOND });
    stage.sends(OTHER, &call("8", "create_note"));
    assert_eq!(answer(&mut stage, OTHER)["id"], 8, "a new call is refused");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"x":1}}}}"#, request["id"]));
    assert_eq!(answer(&mut stage, OTHER)["result"]["x"], 1);
    stage.die(stage.written);
    assert!(is_removed(&stage));
}

#[test]
fn endless_call_of_removed_upstream_fails_after_drain() {
    let mut stage = with_second();
    stage.sends(OTHER, &call("7", "create_note"));
    stage.server_reads().unwrap();
    stage.input(Input::RemoveUpstream { upstream: SECOND });
    stage.advance(defaults::DRAIN);
    let failure = &answer(&mut stage, OTHER)["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!(failure["outcome"], "unknown");
    stage.die(stage.written);
    assert!(is_removed(&stage));
}

#[test]
fn request_to_removed_upstream_is_refused() {
    let mut stage = with_second();
    stage.input(Input::RemoveUpstream { upstream: SECOND });
    stage.die(stage.written);
    assert!(is_removed(&stage));
    let config = Box::new(UpstreamConfig::child("other", "other-server"));
    stage.input(Input::AddUpstream { upstream: SECOND, config, like: None });
    stage.sends(OTHER, &call("7", "create_note"));
    let text = answer(&mut stage, OTHER)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("removed from the configuration"), "not passed to the new upstream: {text}");
    assert_eq!(stage.spawned, None);
}

#[test]
fn dials_of_reused_number_are_new() {
    let mut stage = with_second();
    let first = stage.spawned.unwrap();
    stage.input(Input::ClientLost { client: OTHER });
    stage.input(Input::RemoveUpstream { upstream: SECOND });
    stage.die(stage.written);
    add(&mut stage);
    assert!(stage.spawned.unwrap().dial > first.dial);
}

#[test]
fn upstream_that_exists_is_not_added() {
    let mut stage = initialized();
    let config = Box::new(UpstreamConfig::child("other", "other-server"));
    stage.input(Input::AddUpstream { upstream: NOTES, config, like: None });
    stage.client_sends(&call("7", "create_note"));
    assert!(stage.server_reads().is_some());
}

#[test]
fn idle_process_ends_and_next_call_starts_it() {
    let mut stage = initialized();
    stage.input(Input::StopIdle { upstream: NOTES });
    assert_eq!(stage.state(), LinkState::Draining);
    stage.die(stage.written);
    assert_eq!(stage.state(), LinkState::Idle);
    stage.advance(Duration::from_secs(3600));
    assert_eq!((stage.spawned, stage.errors), (None, 0), "it stays idle");
    stage.client_sends(&call("7", "create_note"));
    stage.accept_dial();
    assert_eq!(stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#)["method"], "initialize");
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 7);
}

#[test]
fn call_while_idle_process_ends_starts_next_one() {
    let mut stage = initialized();
    stage.input(Input::StopIdle { upstream: NOTES });
    stage.client_sends(&call("7", "create_note"));
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.server_reads().unwrap();
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 7);
}

#[test]
fn process_with_call_is_not_idle() {
    let mut stage = initialized();
    stage.client_sends(&call("7", "create_note"));
    stage.input(Input::StopIdle { upstream: NOTES });
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn next_client_of_stopped_process_makes_its_own_handshake() {
    let mut stage = initialized_until_stopped();
    stage.input(Input::ClientLost { client: CLIENT });
    stage.input(Input::StopIdle { upstream: NOTES });
    stage.die(stage.written);
    stage.input(Input::ClientOpened { client: OTHER, upstream: NOTES, streams: ClientStreams::One });
    stage.accept_dial();
    assert_eq!(stage.server_reads(), None, "the handshake of the first client is forgotten");
    stage.sends(OTHER, r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#);
    let request = stage.server_answers(r#"{"protocolVersion":"2025-06-18"}"#);
    assert_eq!(request["params"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer(&mut stage, OTHER)["id"], 3);
}

/// A stage whose engine outlives its clients.
fn initialized_until_stopped() -> Stage {
    let mut stage = Stage::until_stopped();
    stage.accept_dial();
    stage::initialized::initialize(&mut stage);
    stage
}

#[test]
fn idle_session_is_deleted_and_made_again_on_use() {
    let mut stage = http::Stage::initialized();
    stage.input(Input::StopIdle { upstream: NOTES });
    let delete = stage.next_sent();
    assert_eq!((delete.ask.verb, delete.header("mcp-session-id")), (Verb::Delete, Some("s1")));
    stage.status(delete.id, 204, mendline_core::port::Content::Empty, None);
    stage.end(delete.id, mendline_core::port::ExchangeEnd::Complete);
    stage.advance(Duration::from_secs(3600));
    assert!(stage.seen.is_empty(), "nothing is sent to a server that is not used");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Idle));
    stage.client_sends(&call("7", "create_note"));
    let read = stage.run(Duration::from_secs(1), |stage, seen| stage.serve(seen));
    assert_eq!(read.last().unwrap().1["id"], 7, "{read:?}");
}

#[test]
fn removed_session_is_deleted() {
    let mut stage = http::Stage::initialized();
    let config =
        Box::new(UpstreamConfig::http("notes", "http://notes.example/mcp", mendline_core::config::Dialect::Auto));
    stage.input(Input::AddUpstream { upstream: SECOND, config, like: Some(NOTES) });
    stage.input(Input::RemoveUpstream { upstream: SECOND });
    assert_eq!(stage.engine.link_state(SECOND), None, "it had nothing to end");
    assert_eq!(stage.engine.poll_write(Port::Client(CLIENT), stage.now).map(drop), None);
}

/// Many processes of one server are lost at once: at most 50 of them are started in any second.
#[test]
fn lost_processes_of_one_server_are_started_in_turn() {
    let mut stage = Stage::until_stopped();
    stage.accept_dial();
    let mut links = vec![stage.spawned.take().unwrap()];
    for number in 1..=60 {
        let (upstream, client) = (UpstreamId(number), ClientId(u32::from(number)));
        let config = Box::new(UpstreamConfig::child("notes", "notes-server"));
        stage.input(Input::AddUpstream { upstream, config, like: Some(NOTES) });
        stage.input(Input::ClientOpened { client, upstream, streams: ClientStreams::One });
        stage.accept_dial();
        links.extend(stage.spawned.take());
    }
    for link in links {
        stage.input(Input::ChildExited { link, how: mendline_core::port::Exit::Signal(9), written: 0 });
    }
    let mut dials = Vec::new();
    while dials.len() < 61 {
        stage.advance(Duration::from_millis(1));
        dials.extend(stage.spawned.take().map(|_| stage.now));
        assert!(dials.len() == 61 || stage.now.since(mendline_core::Moment::ZERO) < Duration::from_secs(60));
    }
    let most = dials
        .iter()
        .map(|first| dials.iter().filter(|at| *at >= first && at.since(*first) < Duration::from_secs(1)).count());
    assert!(most.max().unwrap() <= 51, "{dials:?}");
}
