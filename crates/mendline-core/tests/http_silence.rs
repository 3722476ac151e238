//! Silent calls over HTTP, and the lookup of hints.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{Dialect, RateLimit, Timeouts, ToolPolicy};
use mendline_core::event::Event;
use mendline_core::policy::effect::Effect;
use mendline_core::port::{Content, ExchangeEnd, Reuse};
use mendline_core::reason::CutReason;
use mendline_core::status::Status;
use mendline_core::{Input, UpstreamConfig, defaults};
use stage::http::{NOTES, SentRequest, Stage, call, modern, outcome};

const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:1"}}"#;
const LOOK: &str = r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"make"}]}"#;

/// A read that a connection has swallowed, and the ping that follows.
fn silent_read() -> (Stage, SentRequest, SentRequest) {
    let mut stage = Stage::initialized();
    stage.client_sends(READ);
    let first = stage.next_sent();
    assert_eq!(first.method(), "resources/read");
    stage.advance(defaults::SILENCE - Duration::from_millis(1));
    assert!(stage.seen.is_empty(), "it may still be answered");
    stage.advance(Duration::from_millis(1));
    let ping = stage.next_sent();
    assert_eq!((ping.method().as_str(), ping.reuse), ("ping", Reuse::Fresh));
    (stage, first, ping)
}

#[test]
fn r12_silent_read_is_sent_once_more_and_first_answer_wins() {
    for first_wins in [false, true] {
        let (mut stage, first, ping) = silent_read();
        stage.answer(&ping, "{}");
        let second = stage.next_sent();
        assert_eq!((second.method().as_str(), second.reuse), ("resources/read", Reuse::Fresh));
        assert_ne!(first.json()["id"], second.json()["id"]);
        let (faster, slower) = if first_wins { (first, second) } else { (second, first) };
        stage.answer(&faster, r#"{"contents":[]}"#);
        assert_eq!(stage.client_reads().unwrap()["id"], 1, "first wins: {first_wins}");
        let cancelled = stage.next_sent();
        assert_eq!(cancelled.method(), "notifications/cancelled");
        assert_eq!(cancelled.json()["params"]["requestId"], slower.json()["id"]);
        assert_eq!(stage.client_reads(), None);
        stage.advance(Duration::from_secs(120));
        assert!(!stage.seen.iter().any(|seen| seen.method() == "resources/read"), "only once more");
    }
}

#[test]
fn r12_silent_read_without_answered_ping_stays_alone() {
    let (mut stage, first, ping) = silent_read();
    stage.advance(defaults::PROBE);
    let mut pings = 1;
    for _ in 0..60 {
        stage.advance(Duration::from_secs(1));
        while let Some(seen) = stage.seen.pop_front() {
            assert_eq!(seen.method(), "ping", "a busy server gets no double work");
            pings += 1;
        }
    }
    assert!((3..=8).contains(&pings), "{pings} pings in a minute");
    let _ = ping;
    stage.answer(&first, r#"{"contents":[]}"#);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn r12_silent_reads_of_one_incident_are_all_sent_once_more() {
    const READS: usize = 64;
    let mut stage = Stage::initialized();
    for id in 1..=READS {
        stage.client_sends(&READ.replace(r#""id":1"#, &format!(r#""id":{id}"#)));
        // They become silent one after the other, as those of an agent do.
        stage.advance(Duration::from_millis(100));
    }
    assert_eq!(std::mem::take(&mut stage.seen).len(), READS);
    let mut again = 0;
    for _ in 0..400 {
        stage.advance(Duration::from_millis(100));
        while let Some(seen) = stage.seen.pop_front() {
            again += usize::from(seen.method() == "resources/read");
            stage.answer(&seen, "{}");
        }
    }
    assert_eq!(again, READS, "one incident is charged once");
    assert_eq!(std::iter::from_fn(|| stage.client_reads()).count(), READS);
}

#[test]
fn r12_read_is_sent_once_more_if_its_response_is_silent_after_the_head_or_an_event() {
    for has_event in [false, true] {
        let mut stage = Stage::initialized();
        stage.client_sends(READ);
        let first = stage.next_sent();
        stage.advance(Duration::from_secs(20));
        stage.status(first.id, 200, Content::Events, None);
        if has_event {
            stage.event(first.id, Some("1"), r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
            stage.client_reads();
        }
        stage.advance(defaults::SILENCE - Duration::from_millis(1));
        assert!(stage.seen.is_empty(), "the time begins again with each byte");
        stage.advance(Duration::from_millis(1));
        let ping = stage.next_sent();
        assert_eq!(ping.method(), "ping");
        stage.answer(&ping, "{}");
        let second = stage.next_sent();
        assert_eq!(second.method(), "resources/read");
        stage.answer(&second, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], 1);
        assert!(stage.aborted.contains(&first.id));
    }
}

/// The clock includes the time in which Mendline was stopped. The response may have come meanwhile, or its connection
/// may be lost.
#[test]
fn x96_read_is_resent_after_suspend_only_if_its_response_is_lost() {
    for is_lost in [false, true] {
        let mut stage = Stage::initialized();
        stage.client_sends(READ);
        let first = stage.next_sent();
        stage.status(first.id, 200, Content::Events, None);
        stage.advance(Duration::from_secs(2));
        stage.now = stage.now + Duration::from_secs(90);
        stage.input(Input::SystemResumed);
        stage.advance(Duration::ZERO);
        let ping = stage.next_sent();
        assert_eq!((ping.method().as_str(), ping.reuse), ("ping", Reuse::Fresh), "the server is tested first");
        assert!(stage.seen.is_empty(), "nothing is resent yet");
        if !is_lost {
            stage.answer(&first, r#"{"contents":[]}"#);
            assert_eq!(stage.client_reads().unwrap()["id"], 1, "it was waiting in the socket");
        }
        stage.answer(&ping, "{}");
        stage.advance(Duration::from_millis(1));
        let again = stage.seen.iter().filter(|seen| seen.method() == "resources/read").count();
        assert_eq!(again, usize::from(is_lost), "lost: {is_lost}");
    }
}

#[test]
fn r12_slow_read_with_comments_is_not_silent_until_its_deadline() {
    let mut stage = Stage::initialized();
    stage.client_sends(READ);
    let first = stage.next_sent();
    stage.status(first.id, 200, Content::Events, None);
    let call = Timeouts::default().call;
    for _ in 0..call.as_secs() / 25 - 1 {
        stage.advance(Duration::from_secs(25));
        stage.input(Input::ResponseBytes { exchange: first.id });
    }
    assert!(stage.seen.is_empty() && silent(&stage).is_empty(), "a comment is no answer, and no silence");
    assert_eq!(stage.client_reads(), None);
    stage.advance(Duration::from_secs(26));
    assert_eq!(stage.client_reads().unwrap()["error"]["data"]["outcome"], "unknown", "comments move no deadline");
}

#[test]
fn r12_byte_ends_silence_of_unsafe_call() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.advance(defaults::SILENCE);
    assert_eq!(silent(&stage).len(), 1);
    stage.status(seen.id, 200, Content::Events, None);
    assert!(silent(&stage).is_empty());
    stage.advance(defaults::SILENCE);
    assert_eq!(silent(&stage).len(), 1, "it is reported again");
    stage.input(Input::ResponseBytes { exchange: seen.id });
    assert!(silent(&stage).is_empty());
}

#[test]
fn r12_silent_unsafe_call_is_only_reported() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.next_sent();
    stage.advance(Duration::from_secs(120));
    assert!(stage.seen.iter().all(|seen| seen.method() != "tools/call" && seen.method() != "ping"));
    assert_eq!(stage.client_reads(), None, "it runs until its deadline");
}

/// Returns the numbers of the silent calls in the status.
fn silent(stage: &Stage) -> Vec<u64> {
    let mut status = Status::default();
    stage.events.iter().for_each(|event| status.apply(event));
    let numbers: Vec<u64> = status.upstreams[&NOTES].silent.keys().copied().collect();
    assert_eq!(stage.engine.silent_calls(NOTES), numbers.len());
    numbers
}

#[test]
fn r12_silent_unsafe_call_is_in_status_until_it_is_answered() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.advance(defaults::SILENCE - Duration::from_millis(1));
    assert!(silent(&stage).is_empty());
    stage.advance(Duration::from_millis(1));
    assert_eq!(silent(&stage).len(), 1);
    let reports = stage.events.iter().filter(|event| matches!(event, Event::CallSilent { .. })).count();
    assert_eq!(reports, 1, "one warning");
    stage.answer(&seen, "{}");
    assert!(silent(&stage).is_empty());
}

#[test]
fn r12_progress_ends_silence_until_next_report() {
    let mut stage = Stage::initialized();
    let params = r#"{"name":"slow","_meta":{"progressToken":"t"}}"#;
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#));
    let slow = stage.next_sent();
    stage.advance(defaults::SILENCE);
    assert_eq!(silent(&stage).len(), 1);
    stage.status(slow.id, 200, Content::Events, None);
    let progress = format!(r#"{{"progressToken":{},"progress":1}}"#, slow.json()["params"]["_meta"]["progressToken"]);
    let notice = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#);
    stage.event(slow.id, None, &notice);
    assert!(silent(&stage).is_empty());
    stage.advance(defaults::SILENCE - Duration::from_millis(1));
    assert!(silent(&stage).is_empty());
    stage.advance(Duration::from_millis(1));
    assert_eq!(silent(&stage).len(), 1);
}

#[test]
fn r12_next_attempt_of_silent_call_is_not_silent() {
    let (mut stage, first, ping) = silent_read();
    assert_eq!(silent(&stage).len(), 1);
    stage.end(first.id, ExchangeEnd::Cut(CutReason::Reset));
    assert!(silent(&stage).is_empty());
    stage.advance(defaults::PROBE_DELAY);
    stage.answer_probe();
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.next_sent().method(), "resources/read");
    // The answer to the ping for the first attempt comes late.
    stage.answer(&ping, "{}");
    assert!(stage.seen.is_empty(), "the second attempt has its own time");
    stage.advance(defaults::SILENCE);
    assert_eq!(silent(&stage).len(), 1);
    assert_eq!(stage.next_sent().method(), "ping");
}

#[test]
fn r12_repeated_read_without_answer_is_reported_again() {
    let (mut stage, _, ping) = silent_read();
    stage.answer(&ping, "{}");
    assert_eq!(stage.next_sent().method(), "resources/read");
    assert!(silent(&stage).is_empty());
    stage.advance(defaults::SILENCE);
    assert_eq!(silent(&stage).len(), 1);
    assert!(stage.seen.is_empty(), "it is sent once more only");
}

#[test]
fn r12_silent_read_is_repeated_within_rate_of_its_tool() {
    let rate_limit = Some(RateLimit { burst: 1, per_second: 1.0 / 45.0 });
    let look = ToolPolicy { effect: Some(Effect::Read), rate_limit, ..ToolPolicy::default() };
    let change = |notes: &mut UpstreamConfig| {
        (notes.keep_alive, notes.tools) = (None, [("look".to_owned(), look)].into());
    };
    let mut stage = Stage::with(Dialect::Auto, change).initialize_session();
    stage.client_sends(&call(1, "look"));
    let (begin, mut calls) = (stage.now, Vec::new());
    stage.run(Duration::from_secs(60), |stage, seen| match seen.method().as_str() {
        "tools/call" => calls.push(stage.now.since(begin)),
        _ => stage.serve(seen),
    });
    let [first, second] = calls[..] else { panic!("it is sent once more: {calls:?}") };
    assert!(first < Duration::from_secs(1) && second >= Duration::from_secs(45), "{calls:?}");
}

#[test]
fn r12_slow_tool_is_not_silent_before_twice_its_longest_answer() {
    let mut stage = Stage::initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}"#);
    let list = stage.next_sent();
    stage.answer(&list, LOOK);
    stage.client_reads().unwrap();
    stage.client_sends(&call(1, "look"));
    let slow = stage.next_sent();
    stage.advance(Duration::from_secs(25));
    stage.answer(&slow, "{}");
    stage.client_reads().unwrap();
    stage.client_sends(&call(2, "look"));
    stage.next_sent();
    stage.advance(Duration::from_secs(49));
    assert!(stage.seen.is_empty());
    stage.advance(Duration::from_secs(2));
    assert_eq!(stage.next_sent().method(), "ping");
}

/// Calls a tool whose hints are not known, and cuts the connection. The server answers the probe.
fn cut_without_hints(tool: &str) -> Stage {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, tool));
    let seen = stage.next_sent();
    stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset));
    assert_eq!(stage.client_reads(), None, "nothing is decided");
    stage.advance(defaults::PROBE_DELAY);
    let probe = stage.next_sent();
    assert_eq!(probe.method(), "ping");
    stage.answer(&probe, "{}");
    stage
}

#[test]
fn r18_hints_are_looked_up_before_a_lost_call_is_decided() {
    for (tool, is_resent) in [("look", true), ("make", false)] {
        let mut stage = cut_without_hints(tool);
        let list = stage.next_sent();
        assert_eq!(list.method(), "tools/list");
        stage.answer(&list, LOOK);
        stage.advance(Duration::from_secs(1));
        if is_resent {
            let again = stage.next_sent();
            assert_eq!(again.method(), "tools/call");
            stage.answer(&again, "{}");
            assert_eq!(stage.client_reads().unwrap()["id"], 1);
        } else {
            assert!(stage.seen.is_empty());
            assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
        }
    }
}

#[test]
fn r18_call_without_readable_list_is_unsafe() {
    let mut stage = cut_without_hints("look");
    let list = stage.next_sent();
    stage.status(list.id, 200, Content::Json, None);
    stage.advance(defaults::LOOKUP);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
}

#[test]
fn r18_all_pages_are_read() {
    let mut stage = cut_without_hints("look");
    let list = stage.next_sent();
    stage.answer(&list, r#"{"tools":[{"name":"make"}],"nextCursor":"2"}"#);
    let list = stage.next_sent();
    assert_eq!(list.json()["params"]["cursor"], "2");
    stage.answer(&list, LOOK);
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.next_sent().method(), "tools/call");
}

#[test]
fn pages_of_hints_are_limited() {
    let mut stage = cut_without_hints("look");
    for page in 1..=defaults::LOOKUP_PAGES {
        let list = stage.next_sent();
        assert_eq!(list.method(), "tools/list", "page {page}");
        if page > 1 {
            assert_eq!(list.json()["params"], serde_json::json!({ "cursor": "next" }), "page {page}");
        }
        stage.answer(&list, r#"{"tools":[{"name":"make"}],"nextCursor":"next"}"#);
    }
    assert!(stage.seen.is_empty());
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
}

#[test]
fn silent_read_with_one_attempt_is_not_tested() {
    let change = |notes: &mut UpstreamConfig| (notes.keep_alive, notes.retry.attempts) = (None, 1);
    let mut stage = Stage::with(Dialect::Auto, change).initialize_session();
    stage.client_sends(READ);
    stage.next_sent();
    stage.advance(defaults::SILENCE * 2);
    assert!(stage.seen.is_empty());
}

#[test]
fn silent_read_is_tested_after_the_pause_of_the_server() {
    let mut stage = Stage::initialized();
    stage.client_sends(READ);
    stage.next_sent();
    stage.advance(defaults::SILENCE - Duration::from_secs(1));
    stage.client_sends(&call(2, "create_note"));
    let refused = stage.next_sent();
    stage.answer_overloaded(&refused, 429, Some(20));
    stage.advance(Duration::from_secs(15));
    assert!(stage.seen.is_empty(), "the pause holds for pings");
}

#[test]
fn slower_attempt_of_modern_read_is_only_aborted() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "resources/read", r#""uri":"note:1","#));
    let first = stage.next_sent();
    stage.advance(defaults::SILENCE);
    let ping = stage.next_sent();
    stage.answer(&ping, "{}");
    let second = stage.next_sent();
    assert_eq!(second.method(), "resources/read");
    stage.answer(&second, r#"{"contents":[]}"#);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert!(stage.aborted.contains(&first.id) && stage.seen.is_empty());
}

#[test]
fn r30_changed_tools_are_listed_unless_the_client_does() {
    for client_lists in [false, true] {
        let mut stage = Stage::initialized();
        stage.client_sends(READ);
        let read = stage.next_sent();
        stage.status(read.id, 200, Content::Events, None);
        stage.event(read.id, None, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
        if client_lists {
            stage.client_sends(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}"#);
            let list = stage.next_sent();
            stage.answer(&list, LOOK);
            stage.client_reads().unwrap();
        }
        stage.advance(defaults::HINTS_DELAY);
        let lists = stage.seen.iter().filter(|seen| seen.method() == "tools/list").count();
        assert_eq!(lists, usize::from(!client_lists));
    }
}

#[test]
fn fast_tools_leave_room_for_the_times_of_slow_ones() {
    let mut stage = Stage::initialized();
    for id in 0..defaults::TOOL_BREAKERS as u32 {
        stage.client_sends(&call(id, &format!("fast{id}")));
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        stage.client_reads().unwrap();
    }
    for id in 1..=2 {
        stage.client_sends(&call(id, "slow"));
        let slow = stage.next_sent();
        stage.advance(Duration::from_secs(if id == 1 { 25 } else { 49 }));
        assert!(silent(&stage).is_empty(), "call {id}");
        stage.answer(&slow, "{}");
        stage.client_reads().unwrap();
    }
}

#[test]
fn overload_of_an_internal_request_pauses_calls() {
    let mut stage = cut_without_hints("look");
    let list = stage.next_sent();
    stage.answer_overloaded(&list, 429, None);
    stage.client_sends(&call(2, "create_note"));
    assert!(stage.seen.is_empty(), "the server is paused");
}
