//! Reachability of a server over HTTP: probes, waiting calls, and pings of an idle link.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, Verb, Written};
use mendline_core::{Input, LinkState, Moment, UpstreamConfig, defaults};
use stage::NOTES;
use stage::http::{SentRequest, Stage, call, complete_handshake, initialized_with_keep_alive, outcome};

const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#;

#[test]
fn calls_wait_while_one_exchange_probes() {
    let mut stage = Stage::new(Dialect::Auto);
    for id in 1..=5 {
        stage.client_sends(&call(id, "create_note"));
    }
    for _ in 0..4 {
        assert_eq!(stage.seen.len(), 1, "one probe");
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
        stage.advance(Duration::from_secs(2));
    }
    let first = stage.next_sent();
    assert_eq!((stage.engine.link_state(NOTES), stage.seen.len()), (Some(LinkState::Dialing), 0), "a connection alone");
    stage.answer(&first, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    assert_eq!(stage.seen.len(), 4, "once it is answered, the others follow");
}

#[test]
fn probes_back_off_after_long_health() {
    let mut stage = Stage::initialized();
    stage.advance(Duration::from_secs(60));
    stage.client_sends(&call(1, "create_note"));
    let began = stage.now;
    for _ in 0..8 {
        stage.refuse_connection();
        stage.next_request();
    }
    assert!(stage.now.since(began) > Duration::from_secs(3), "eight dials took {:?}", stage.now.since(began));
}

#[test]
fn partly_written_request_is_resent_with_backoff_and_limit() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let began = stage.now;
    let mut sent = 0;
    let answer = loop {
        while let Some(seen) = stage.seen.pop_front() {
            sent += 1;
            stage.input(Input::Reached { exchange: seen.id });
            let how = ExchangeEnd::Cut(CutReason::Reset);
            stage.input(Input::End { exchange: seen.id, how, written: Written::Partial });
        }
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        stage.advance(Duration::from_millis(50));
    };
    assert_eq!(outcome(&answer), "not_sent");
    assert!(
        answer["result"]["content"][0]["text"].as_str().unwrap().contains("(the connection was reset)"),
        "{answer}"
    );
    assert!((5..=30).contains(&sent), "{sent} requests");
    let waited = stage.now.since(began);
    assert!(waited <= defaults::RECOVERY + Duration::from_millis(50), "{waited:?}");
}

#[test]
fn call_in_backoff_delays_no_other() {
    let mut stage = Stage::initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    let failed = stage.next_sent();
    stage.status(failed.id, 500, Content::Empty, None);
    stage.end(failed.id, ExchangeEnd::Complete);
    for (id, what) in [(2, "before the verdict"), (3, "during the backoff")] {
        stage.client_sends(&call(id, "create_note"));
        let next = stage.next_sent();
        assert_eq!(next.method(), "tools/call", "{what}");
        stage.answer(&next, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], id, "{what}");
    }
    stage.next_request();
    assert_eq!(stage.next_sent().method(), "resources/list");
}

#[test]
fn call_without_connection_is_not_sent() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.seen.pop_front().expect("a request that gets no connection");
    stage.advance(defaults::CALL);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "not_sent");
}

#[test]
fn hanging_exchange_does_not_block_probe() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let hangs = stage.next_sent();
    stage.client_sends(&call(2, "create_note"));
    stage.refuse_connection();
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
    stage.status(hangs.id, 200, Content::Events, None);
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting), "an old connection proves nothing");
    stage.answer_probe();
    let waited = stage.next_sent();
    stage.answer(&waited, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn lists_are_not_compared_without_connection() {
    let mut stage = initialized_with_keep_alive();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = stage.next_sent();
    stage.answer(&list, r#"{"tools":[]}"#);
    stage.client_reads().unwrap();
    stage.client_sends(&call(2, "create_note"));
    let old = stage.next_sent();
    stage.client_sends(&call(3, "create_note"));
    stage.refuse_connection();
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
    stage.answer(&old, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    assert!(stage.seen.is_empty(), "one exchange probes, and its time has not come");
}

#[test]
fn lost_idle_server_is_probed_and_found() {
    let mut stage = initialized_with_keep_alive();
    stage.advance(defaults::KEEP_ALIVE);
    for _ in 0..5 {
        assert_eq!(stage.seen.len(), 1, "one at a time");
        assert_eq!(stage.seen[0].method(), "ping");
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
        stage.next_request();
    }
    assert!(stage.now.since(Moment::ZERO) < Duration::from_secs(60));
    let found = stage.next_sent();
    assert_eq!((found.method().as_str(), found.header("mcp-session-id")), ("ping", Some("s1")));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Dialing), "a connection alone proves nothing");
    stage.answer(&found, "{}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    assert_eq!(stage.client_reads(), None, "the client does not see it");
}

#[test]
fn r14_refused_ping_on_idle_session_starts_no_handshake() {
    for status in [400, 404, 405, 500] {
        let mut stage = initialized_with_keep_alive();
        for _ in 0..5 {
            stage.advance(defaults::KEEP_ALIVE);
            let ping = stage.next_sent();
            assert_eq!(ping.method(), "ping");
            stage.status(ping.id, status, Content::Empty, None);
            stage.end(ping.id, ExchangeEnd::Complete);
            assert!(stage.seen.is_empty(), "HTTP {status}: no handshake");
        }
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        assert_eq!(seen.header("mcp-session-id"), Some("s1"), "HTTP {status}: the session stays");
        stage.answer(&seen, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], 1);
    }
}

#[test]
fn r14_session_lost_while_idle_is_replaced_with_next_call() {
    let mut stage = initialized_with_keep_alive();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}"#);
    let level = stage.next_sent();
    stage.answer(&level, "{}");
    stage.client_reads().unwrap();
    stage.advance(defaults::KEEP_ALIVE);
    stage.confirm_loss(404);
    stage.client_sends(&call(2, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    let level = stage.seen.iter().find(|seen| seen.method() == "logging/setLevel").expect("the level is restored");
    assert_eq!((level.header("mcp-session-id"), &level.json()["params"]["level"]), (Some("s2"), &"error".into()));
    assert!(stage.seen.iter().any(|seen| seen.method() == "tools/call"), "and the call is sent again");
}

#[test]
fn lost_pings_cost_connection_but_not_session() {
    let mut stage = initialized_with_keep_alive();
    stage.advance(defaults::KEEP_ALIVE);
    for _ in 0..defaults::KEEP_ALIVE_MISSES {
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
        let ping = stage.next_sent();
        stage.end(ping.id, ExchangeEnd::Cut(CutReason::Reset));
        stage.advance(defaults::KEEP_ALIVE_PAUSE);
    }
    let looks = stage.next_sent();
    assert_eq!((looks.method().as_str(), looks.header("mcp-session-id")), ("ping", Some("s1")), "the server is probed");
    stage.answer(&looks, "{}");
    stage.client_sends(&call(1, "create_note"));
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s1"));
}

#[test]
fn any_status_to_ping_proves_server_alive() {
    let mut stage = initialized_with_keep_alive();
    for _ in 0..5 {
        stage.advance(defaults::KEEP_ALIVE);
        let ping = stage.next_sent();
        stage.status(ping.id, 500, Content::Other, None);
        stage.end(ping.id, ExchangeEnd::Complete);
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    }
}

#[test]
fn lists_are_compared_when_session_survives_outage() {
    let mut stage = initialized_with_keep_alive();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = stage.next_sent();
    stage.answer(&list, r#"{"tools":[{"name":"one"}]}"#);
    stage.client_reads().unwrap();
    stage.client_sends(&call(2, "create_note"));
    stage.refuse_connection();
    stage.answer_probe();
    let mut sent: Vec<_> = (0..2).map(|_| stage.next_sent()).collect();
    sent.sort_by_key(|seen| seen.method());
    let [waited, again] = &sent[..] else { panic!("two requests") };
    assert_eq!((waited.method().as_str(), again.method().as_str()), ("tools/call", "tools/list"));
    stage.answer(waited, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    stage.answer(again, r#"{"tools":[{"name":"one"},{"name":"two"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn timeout_before_sending_reports_what_blocked_call() {
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    config.timeouts.call = Duration::from_secs(3);
    let mut stage = Stage::of(config.clone());
    stage.client_sends(&call(1, "create_note"));
    let answer = loop {
        while !stage.seen.is_empty() {
            stage.refuse_connection();
        }
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        stage.advance(Duration::from_millis(100));
    };
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!((outcome(&answer), text.contains("nothing listens on notes.test:443")), ("not_sent", true), "{text}");

    let mut stage = Stage::of(config);
    stage.client_sends(&call(1, "create_note"));
    stage.advance(Duration::from_secs(3));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "not_sent" && text.contains("no connection has been made yet"), "{text}");
    assert!(stage.log.iter().any(|line| line.contains("no connection has been made yet")), "the log has it too");

    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    (config.limits.in_flight, config.keep_alive) = (1, None);
    config.timeouts.call = Duration::from_secs(3);
    let mut stage = Stage::of(config).initialize_session();
    let params = r#"{"name":"slow","_meta":{"progressToken":"t"}}"#;
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#));
    let slow = stage.next_sent();
    stage.status(slow.id, 200, Content::Events, None);
    stage.client_sends(&call(2, "create_note"));
    stage.advance(Duration::from_secs(2));
    let progress = format!(r#"{{"progressToken":{},"progress":1}}"#, slow.json()["params"]["_meta"]["progressToken"]);
    let notice = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#);
    stage.event(slow.id, None, &notice);
    assert_eq!(stage.client_reads().unwrap()["params"]["progressToken"], "t", "the first one goes on");
    stage.advance(Duration::from_secs(1));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "not_sent" && text.contains("no place became free in time"), "{text}");
}

/// Creates a stage whose server is suspect, and returns its probe. A read waits for the verdict.
fn suspected(mut stage: Stage) -> (Stage, SentRequest) {
    stage.client_sends(READ);
    let failed = stage.next_sent();
    stage.end(failed.id, ExchangeEnd::Cut(CutReason::Reset));
    let probe = stage.next_probe();
    assert_eq!((probe.method().as_str(), probe.header("mcp-session-id")), ("ping", Some("s1")));
    (stage, probe)
}

#[test]
fn r01_silent_probe_makes_server_away() {
    let (mut stage, probe) = suspected(Stage::initialized());
    stage.advance(defaults::PROBE - Duration::from_millis(1));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up), "it may be slow");
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
    assert_eq!((stage.client_reads(), &stage.aborted), (None, &vec![probe.id]));
}

#[test]
fn r01_silent_probe_does_not_make_busy_server_away() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(9, "slow"));
    let slow = stage.next_sent();
    let (mut stage, _) = suspected(stage);
    stage.advance(defaults::PROBE);
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up), "it runs another call");
    stage.next_request();
    let again = stage.next_sent();
    assert_eq!(again.method(), "resources/read");
    stage.answer(&slow, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 9);
}

#[test]
fn r14_refused_probe_keeps_session_that_answers() {
    let (mut stage, probe) = suspected(Stage::initialized());
    stage.status(probe.id, 404, Content::Empty, None);
    stage.end(probe.id, ExchangeEnd::Complete);
    stage.answer_initialize("s2");
    let ping = stage.next_probe();
    assert_eq!(ping.header("mcp-session-id"), Some("s1"), "the old session decides");
    stage.answer(&ping, "{}");
    let closed = stage.next_sent();
    assert_eq!((closed.ask.verb, closed.header("mcp-session-id")), (Verb::Delete, Some("s2")));
    stage.next_request();
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("resources/read", Some("s1")));
}

#[test]
fn r14_refused_probe_replaces_lost_session() {
    let (mut stage, probe) = suspected(Stage::initialized());
    stage.status(probe.id, 404, Content::Empty, None);
    stage.end(probe.id, ExchangeEnd::Complete);
    stage.answer_initialize("s2");
    stage.refuse_probe(404);
    complete_handshake(&mut stage);
    stage.next_request();
    let again = stage.next_sent();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("resources/read", Some("s2")));
    stage.answer(&again, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn session_of_probe_is_used_if_old_one_is_found_lost() {
    for was_used in [false, true] {
        let mut stage = Stage::initialized();
        if was_used {
            stage.use_session();
        }
        stage.client_sends(&call(1, "create_note"));
        let cut = stage.next_sent();
        stage.end(cut.id, ExchangeEnd::Cut(CutReason::Reset));
        assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
        // While the probe finds the session unknown and begins another one, a call reports that it is lost.
        let probe = stage.next_probe();
        stage.client_sends(&call(2, "create_note"));
        let refused = stage.next_sent();
        for seen in [probe, refused] {
            stage.status(seen.id, 404, Content::Empty, None);
            stage.end(seen.id, ExchangeEnd::Complete);
        }
        let at = stage.seen.iter().position(|seen| seen.method() == "initialize").expect("the second probe");
        let handshake = stage.seen.remove(at).unwrap();
        stage.input(Input::Reached { exchange: handshake.id });
        stage.confirm_loss(404);
        stage.status(handshake.id, 200, Content::Json, Some("s2"));
        let result = r#"{"protocolVersion":"2025-11-25"}"#;
        let id = &handshake.json()["id"];
        stage.body(handshake.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        stage.end(handshake.id, ExchangeEnd::Complete);
        let read = stage.run(Duration::from_secs(1), |stage, seen| {
            let is_post = seen.ask.verb == Verb::Post;
            let is_in_session = is_post && seen.method() != "initialize";
            assert!(!is_in_session || seen.header("MCP-Protocol-Version").is_some(), "{}", seen.method());
            stage.serve(seen);
        });
        let [(_, answer)] = &read[..] else { panic!("one answer, not {read:?}") };
        assert_eq!((&answer["id"], &answer["result"]), (&2.into(), &serde_json::json!({})));
    }
}
