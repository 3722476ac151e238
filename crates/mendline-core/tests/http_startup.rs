//! Handshakes that are answered before the HTTP server is reached.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, Verb};
use mendline_core::{ListCache, UpstreamConfig, defaults};
use stage::http::{INITIALIZE, Stage, call, outcome};

const TOOLS: &str = r#"{"tools":[{"name":"look"}]}"#;

/// Returns the cache of a server after a handshake and a tool list.
fn cached() -> ListCache {
    let mut stage = Stage::initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let seen = stage.next_sent();
    stage.answer(&seen, TOOLS);
    stage.advance(defaults::CACHE_AFTER);
    stage.saved.unwrap()
}

/// Creates a stage whose handshake was answered from the cache.
fn initialized_from_cache() -> Stage {
    let mut notes = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    notes.keep_alive = None;
    let mut stage = Stage::with_cache(notes, Some(cached()));
    stage.client_sends(INITIALIZE);
    assert_eq!(stage.client_reads().unwrap()["result"]["protocolVersion"], "2025-11-25");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert_eq!(stage.client_reads().unwrap()["result"]["tools"][0]["name"], "look");
    stage
}

#[test]
fn absent_http_server_is_initialized_later_and_lists_compared() {
    let mut stage = initialized_from_cache();
    for _ in 0..3 {
        assert_eq!(stage.seen.len(), 1, "one probe, which is the handshake");
        stage.refuse_connection();
        stage.advance(Duration::from_secs(2));
    }
    stage.answer_initialize("s1");
    let note = stage.next_sent();
    assert_eq!((note.method().as_str(), note.header("mcp-session-id")), ("notifications/initialized", Some("s1")));
    stage.status(note.id, 202, Content::Empty, None);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
    let looked = stage.next_sent();
    assert_eq!(looked.method(), "tools/list");
    stage.answer(&looked, r#"{"tools":[{"name":"look"},{"name":"new"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn pending_http_handshake_is_answered_provisionally_and_not_resent() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.refuse_connection();
    stage.next_request();
    let handshake = stage.next_sent();
    stage.advance(defaults::GRACE_AFTER_FAILURE);
    assert_eq!(stage.client_reads().unwrap()["result"]["serverInfo"]["name"], "notes");
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.advance(defaults::HANDSHAKE_HTTP - defaults::GRACE_AFTER_FAILURE - Duration::from_millis(1));
    assert!(stage.seen.is_empty() && stage.aborted.is_empty(), "it has its whole timeout");
    stage.status(handshake.id, 200, Content::Json, Some("s1"));
    let id = &handshake.json()["id"];
    stage.body(handshake.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-06-18"}}}}"#));
    stage.end(handshake.id, ExchangeEnd::Complete);
    let note = stage.next_sent();
    assert_eq!(note.method(), "notifications/initialized");
    assert_eq!(note.header("mcp-protocol-version"), Some("2025-06-18"), "the server gets its own protocol version");
}

#[test]
fn missing_login_is_reported_to_calls_after_provisional_answer() {
    let mut stage = initialized_from_cache();
    stage.client_sends(&call(2, "create_note"));
    let handshake = stage.next_sent();
    stage.status(handshake.id, 401, Content::Empty, None);
    stage.end(handshake.id, ExchangeEnd::Complete);
    let message = stage.client_reads().expect("at once");
    assert_eq!(message["result"]["_meta"]["dev.mendline/failure"]["cause"], "needs_login");
    assert_eq!(outcome(&message), "not_sent");
}

#[test]
fn cached_modern_list_triggers_internal_request_to_server() {
    let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(modern);
    let seen = stage.next_sent();
    stage.answer(&seen, r#"{"tools":[{"name":"look"}],"ttlMs":0,"cacheScope":"public"}"#);
    stage.advance(defaults::CACHE_AFTER);
    let notes = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    let mut stage = Stage::with_cache(notes, stage.saved);
    stage.client_sends(modern);
    assert_eq!(stage.client_reads().unwrap()["result"]["tools"][0]["name"], "look");
    stage.refuse_connection();
    stage.advance(Duration::from_secs(2));
    let looked = stage.next_sent();
    assert_eq!((looked.method().as_str(), looked.header("mcp-method")), ("tools/list", Some("tools/list")));
    stage.answer(&looked, r#"{"tools":[{"name":"look"},{"name":"new"}],"ttlMs":0,"cacheScope":"public"}"#);
    assert!(stage.log.iter().any(|line| line == "tools/list changed; the client is notified"), "{:?}", stage.log);
}
