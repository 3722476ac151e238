//! Calls that run during a change of the configuration: each keeps the policy under which it started.
//!
//! Every test covers both directions: a call under a generous policy keeps it, and a call under a strict policy gets no
//! more. Calls after the change have the new policy.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::config::{Dialect, OnError, Reconnect, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::port::{Change, Content, ExchangeEnd, Written};
use mendline_core::{Input, UpstreamConfig};
use serde_json::Value;
use stage::{NOTES, Stage, call, http};

const HOUR: Duration = Duration::from_secs(3_600);
const MOMENT: Duration = Duration::from_millis(1);
/// Longer than any usual pause between two attempts, and shorter than any deadline.
const PAUSE: Duration = Duration::from_secs(20);

type Edit = fn(&mut UpstreamConfig);

fn policies(config: UpstreamConfig) -> Input {
    Input::Reconfigure { upstream: NOTES, config: Box::new(config), change: Change::Policies }
}

/// Starts a call of a child under one policy and then applies another.
fn edited(before: Edit, after: Edit, request: &str) -> (Stage, Value) {
    let mut stage = Stage::with(before);
    stage.accept_dial();
    stage.client_sends(request);
    let sent = stage.server_reads().expect("the call goes out");
    let mut config = UpstreamConfig::child("notes", "notes-server");
    after(&mut config);
    stage.input(policies(config));
    (stage, sent)
}

fn edited_http(before: Edit, after: Edit, request: &str) -> (http::Stage, http::SentRequest) {
    let mut stage = http::Stage::with(Dialect::Auto, |notes| {
        notes.keep_alive = None;
        before(notes);
    })
    .initialize_session();
    stage.client_sends(request);
    let sent = stage.next_sent();
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    config.keep_alive = None;
    after(&mut config);
    stage.input(policies(config));
    (stage, sent)
}

fn fails_http(stage: &mut http::Stage, sent: &http::SentRequest) {
    stage.status(sent.id, 500, Content::Empty, None);
    stage.end(sent.id, ExchangeEnd::Complete);
}

/// Answers the probe that follows a failed call: the server is available.
fn answer_probe(stage: &mut http::Stage) {
    stage.next_request();
    let probe = stage.next_sent();
    assert_eq!(probe.method(), "ping");
    stage.answer(&probe, "{}");
}

fn fails(stage: &mut Stage, request: &Value, code: i64) {
    let id = &request["id"];
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#));
}

/// Returns the next message to the child within this time.
fn reads_soon(stage: &mut Stage, within: Duration) -> Option<Value> {
    stage.advance(within);
    stage.server_reads()
}

fn read(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":{{"uri":"a:b"}}}}"#)
}

fn once(config: &mut UpstreamConfig) {
    config.retry.attempts = 1;
}

fn thrice(config: &mut UpstreamConfig) {
    config.retry.attempts = 3;
}

fn at_once(config: &mut UpstreamConfig) {
    (config.retry.initial, config.retry.cap) = (Duration::ZERO, Duration::ZERO);
}

fn in_an_hour(config: &mut UpstreamConfig) {
    (config.retry.initial, config.retry.cap) = (HOUR, HOUR);
}

#[test]
fn running_call_keeps_attempt_limit_after_error() {
    // A configured code has all attempts.
    let thrice: Edit = |config| {
        (config.retry.attempts, config.retry.codes) = (3, BTreeMap::from([(-32603, OnError::Reads)]));
    };
    let once: Edit = |config| {
        (config.retry.attempts, config.retry.codes) = (1, BTreeMap::from([(-32603, OnError::Reads)]));
    };
    let (mut stage, mut sent) = edited(thrice, once, &read(1));
    for attempt in 2..=3 {
        fails(&mut stage, &sent, -32603);
        sent = reads_soon(&mut stage, PAUSE).unwrap_or_else(|| panic!("attempt {attempt} of three"));
    }
    fails(&mut stage, &sent, -32603);
    assert_eq!(stage.client_reads().expect("three are enough")["error"]["code"], -32603);

    let (mut stage, sent) = edited(once, thrice, &read(1));
    fails(&mut stage, &sent, -32603);
    assert_eq!(stage.client_reads().expect("one was all it had")["error"]["code"], -32603);
    stage.client_sends(&read(2));
    let sent = stage.server_reads().unwrap();
    fails(&mut stage, &sent, -32603);
    assert_eq!(stage.client_reads(), None, "the next one has more");
    assert!(reads_soon(&mut stage, PAUSE).is_some());
}

#[test]
fn running_call_keeps_attempt_limit_after_child_death() {
    for (before, after, is_sent_again) in [(thrice as Edit, once as Edit, true), (once, thrice, false)] {
        let (mut stage, _) = edited(before, after, &read(1));
        stage.die(stage.written);
        stage.next_dial();
        stage.accept_dial();
        assert_eq!(stage.server_reads().is_some(), is_sent_again);
        assert_eq!(stage.client_reads().is_some(), !is_sent_again);
    }
}

#[test]
fn running_call_keeps_its_backoff() {
    let (mut stage, sent) = edited(at_once, in_an_hour, &read(1));
    fails(&mut stage, &sent, -32603);
    assert!(reads_soon(&mut stage, MOMENT).is_some(), "at once, as it was");

    let (mut stage, sent) = edited(in_an_hour, at_once, &read(1));
    fails(&mut stage, &sent, -32603);
    assert_eq!(reads_soon(&mut stage, MOMENT), None, "it has to wait, as it had");
    stage.client_sends(&read(2));
    let sent = stage.server_reads().expect("another one does not wait for it");
    fails(&mut stage, &sent, -32603);
    assert!(reads_soon(&mut stage, MOMENT).is_some(), "and goes again at once, as was edited");
}

#[test]
fn running_call_keeps_backoff_after_unreadable_answer() {
    for (before, after, is_quick) in [(at_once as Edit, in_an_hour as Edit, true), (in_an_hour, at_once, false)] {
        let (mut stage, sent) = edited(before, after, &read(1));
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, sent["id"]));
        assert_eq!(reads_soon(&mut stage, MOMENT).is_some(), is_quick);
    }
}

#[test]
fn backoff_after_unreadable_answer_grows() {
    let doubling: Edit = |config| {
        (config.retry.initial, config.retry.cap, config.retry.attempts) = (MOMENT, HOUR, 18);
        config.breaker = None;
        config.timeouts.call = 10 * HOUR;
        config.timeouts.total = 10 * HOUR;
        config.timeouts.recovery = 10 * HOUR;
    };
    let (mut stage, mut sent) = edited(doubling, doubling, &read(1));
    let mut waits = Vec::new();
    for _ in 2..10 {
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, sent["id"]));
        let from = stage.now;
        sent = loop {
            stage.advance(MOMENT);
            if let Some(sent) = stage.server_reads() {
                break sent;
            }
        };
        waits.push(stage.now.since(from));
    }
    assert!(waits.iter().max() > Some(&(8 * MOMENT)), "jitter within a longer time: {waits:?}");
}

#[test]
fn running_call_keeps_error_code_policy() {
    let always: Edit = |config| config.retry.codes = BTreeMap::from([(-32050, OnError::Always)]);
    let never: Edit = |_| {};
    let (mut stage, sent) = edited(always, never, &call("1", "create_note"));
    fails(&mut stage, &sent, -32050);
    assert!(reads_soon(&mut stage, PAUSE).is_some(), "its caller got a failure that says it did not run");
    let (mut stage, sent) = edited(never, always, &call("1", "create_note"));
    fails(&mut stage, &sent, -32050);
    assert_eq!(stage.client_reads().expect("it is the server's answer")["error"]["code"], -32050);
}

#[test]
fn running_call_keeps_its_effect() {
    let harmless: Edit = |config| {
        config.tools =
            [("sync".into(), ToolPolicy { effect: Some(Effect::Idempotent), ..ToolPolicy::default() })].into();
    };
    let harmful: Edit = |config| config.trust_hints = false;
    for (before, after, is_sent_again) in [(harmless, harmful, true), (harmful, harmless, false)] {
        let (mut stage, _) = edited(before, after, &call("1", "sync"));
        stage.die(stage.written);
        stage.next_dial();
        stage.accept_dial();
        assert_eq!(stage.server_reads().is_some(), is_sent_again);
    }
}

#[test]
fn waiting_call_keeps_its_policy() {
    let mut stage = Stage::with(once);
    stage.client_sends(&read(1));
    stage.input(policies(UpstreamConfig::child("notes", "notes-server")));
    stage.accept_dial();
    let sent = stage.server_reads().unwrap();
    fails(&mut stage, &sent, -32603);
    assert!(stage.client_reads().is_some(), "one attempt was all it had");
}

#[test]
fn running_http_call_keeps_attempt_limit() {
    let (mut stage, mut sent) = edited_http(thrice, once, &read(1));
    for attempt in 2..=3 {
        fails_http(&mut stage, &sent);
        answer_probe(&mut stage);
        assert_eq!(stage.client_reads(), None, "attempt {attempt} of three is to come");
        stage.next_request();
        sent = stage.next_sent();
        assert_eq!(sent.method(), "resources/read");
    }
    fails_http(&mut stage, &sent);
    assert!(stage.client_reads().is_some());

    let (mut stage, sent) = edited_http(once, thrice, &read(1));
    fails_http(&mut stage, &sent);
    assert!(stage.client_reads().is_some(), "one was all it had");
}

#[test]
fn running_http_call_keeps_backoff() {
    for (before, after, is_quick) in [(at_once as Edit, in_an_hour as Edit, true), (in_an_hour, at_once, false)] {
        let (mut stage, sent) = edited_http(before, after, &read(1));
        fails_http(&mut stage, &sent);
        answer_probe(&mut stage);
        stage.advance(MOMENT);
        assert_eq!(!stage.seen.is_empty(), is_quick, "failed, and the server is available");

        let request = http::modern(1, "resources/read", r#""uri":"a:b","#);
        let (mut stage, sent) = edited_http(before, after, &request);
        let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"header mismatch"}}"#;
        stage.status(sent.id, 400, Content::Json, None);
        stage.body(sent.id, refused);
        stage.end(sent.id, ExchangeEnd::Complete);
        stage.advance(MOMENT);
        assert_eq!(!stage.seen.is_empty(), is_quick, "refused for its headers");
    }
}

#[test]
fn partly_written_http_call_keeps_backoff() {
    let usual: Edit = |_| {};
    let slow: Edit = |config| {
        config.reconnect =
            Reconnect { first: None, initial: HOUR, cap_idle: HOUR, cap_called: HOUR, ..Reconnect::default() };
    };
    for (before, after, is_quick) in [(usual, slow, true), (slow, usual, false)] {
        let (mut stage, sent) = edited_http(before, after, &http::call(1, "create_note"));
        let how = ExchangeEnd::Cut(CutReason::Reset);
        stage.input(Input::End { exchange: sent.id, how, written: Written::Partial });
        answer_probe(&mut stage);
        stage.advance(PAUSE);
        assert_eq!(!stage.seen.is_empty(), is_quick);
    }
}

#[test]
fn running_http_call_keeps_resumption_limit() {
    let resumes: Edit = |config| config.resume_attempts = 2;
    let never: Edit = |config| config.resume_attempts = 0;
    for (before, after, is_resumed) in [(resumes, never, true), (never, resumes, false)] {
        let (mut stage, sent) = edited_http(before, after, &http::call(1, "create_note"));
        stage.status(sent.id, 200, Content::Events, None);
        stage.event(sent.id, Some("7"), r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
        stage.end(sent.id, ExchangeEnd::Cut(CutReason::Reset));
        stage.advance(PAUSE);
        let asked = stage.seen.iter().any(|seen| seen.header("last-event-id") == Some("7"));
        assert_eq!(asked, is_resumed);
    }
}

#[test]
fn http_notification_keeps_attempt_limit() {
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    for (before, after, is_repeated) in [(thrice as Edit, once as Edit, true), (once, thrice, false)] {
        let (mut stage, sent) = edited_http(before, after, notice);
        let how = ExchangeEnd::Cut(CutReason::Reset);
        stage.input(Input::End { exchange: sent.id, how, written: Written::Partial });
        assert_eq!(!stage.seen.is_empty(), is_repeated);
    }
}
