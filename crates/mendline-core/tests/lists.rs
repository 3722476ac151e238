//! Stable lists: a client is notified of changes only, and once.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::{Port, defaults};
use serde_json::{Value, json};
use stage::initialized::{initialize, initialized, initialized_with, request, restart};
use stage::{CLIENT, Stage};

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}"#;
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"x":1}}"#;
const ONE: &str = r#"{"name":"one","inputSchema":{"type":"object","properties":{"a":{},"b":{}}}}"#;
const ONE_AGAIN: &str = r#"{"inputSchema": {"properties":{"b":{},"a":{}},"type":"object"}, "name":"\u006fne"}"#;
const TWO: &str = r#"{"name":"two"}"#;
const THREE: &str = r#"{"name":"three"}"#;

fn tools(entries: &[&str]) -> String {
    format!(r#"{{"tools":[{}]}}"#, entries.join(","))
}

/// A stage whose client has read these tools.
fn with_tools(entries: &[&str]) -> Stage {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &tools(entries));
    stage
}

/// The result of the client's `tools/list` as bytes; `live` is what the server answers if it is asked.
fn list(stage: &mut Stage, live: &str) -> (String, bool) {
    stage.client_sends(LIST);
    let cached = stage.engine.poll_write(Port::Client(CLIENT), stage.now);
    let is_live = cached.is_none();
    if is_live {
        stage.server_answers(live);
    }
    let answer = cached.or_else(|| stage.engine.poll_write(Port::Client(CLIENT), stage.now));
    let text = answer.expect("an answer").to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let result = text.strip_prefix(r#"{"jsonrpc":"2.0","id":7,"result":"#).and_then(|text| text.strip_suffix('}'));
    (result.expect(&text).to_owned(), is_live)
}

fn methods_read_by_server(stage: &mut Stage) -> Vec<Value> {
    std::iter::from_fn(|| stage.server_reads()).map(|message| message["method"].clone()).collect()
}

fn hidden(stage: &Stage) -> usize {
    stage.log.iter().filter(|line| line.contains("the client keeps its tools/list")).count()
}

// ---- reports of the server ----

#[test]
fn reports_of_change_are_collected_and_passed_on_once() {
    let mut stage = with_tools(&[ONE]);
    for _ in 0..30 {
        stage.server_sends(CHANGED);
        stage.advance(Duration::from_millis(20));
    }
    assert_eq!((stage.client_reads(), stage.server_reads()), (None, None), "more may follow");
    stage.advance(defaults::LIST_CHANGES);
    assert_eq!(stage.server_answers(&tools(&[ONE, TWO]))["method"], "tools/list");
    assert_eq!(stage.client_reads(), Some(serde_json::from_str(CHANGED).unwrap()), "as the server sent it");
    stage.advance(Duration::from_secs(20));
    assert_eq!(stage.client_reads(), None);
    assert_eq!(hidden(&stage), 0);
}

#[test]
fn endless_reports_are_collected_for_three_seconds() {
    let mut stage = with_tools(&[ONE]);
    let mut waited = Duration::ZERO;
    while stage.server_reads().is_none() {
        stage.server_sends(CHANGED);
        stage.advance(Duration::from_millis(100));
        waited += Duration::from_millis(100);
        assert!(waited <= defaults::LIST_CHANGES_MOST);
    }
    assert_eq!(waited, defaults::LIST_CHANGES_MOST);
}

#[test]
fn report_without_change_is_hidden_and_the_next_waits() {
    let mut stage = with_tools(&[ONE, TWO]);
    for round in 1..=3 {
        stage.server_sends(CHANGED);
        stage.advance(defaults::LIST_CHANGES);
        if round > 1 {
            assert_eq!(stage.server_reads(), None, "a server that reports without end is not asked without end");
            stage.advance(defaults::LIST_CHANGES_PAUSE);
        }
        assert_eq!(stage.server_answers(&tools(&[TWO, ONE_AGAIN]))["method"], "tools/list");
        assert_eq!(stage.client_reads(), None, "the order is no change");
        assert_eq!(hidden(&stage), round);
    }
}

#[test]
fn client_that_reads_after_report_needs_no_notification() {
    let mut stage = with_tools(&[ONE]);
    stage.server_sends(CHANGED);
    stage.advance(Duration::from_millis(1));
    let new = tools(&[ONE, TWO]);
    assert_eq!(list(&mut stage, &new), (new, true), "a live server is asked");
    stage.advance(Duration::from_secs(20));
    assert_eq!((stage.server_reads(), stage.client_reads()), (None, None));
}

#[test]
fn report_during_read_of_client_is_compared() {
    let mut stage = with_tools(&[ONE]);
    stage.client_sends(LIST);
    let asked = stage.server_reads().unwrap();
    stage.advance(Duration::from_millis(1));
    stage.server_sends(CHANGED);
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, asked["id"], tools(&[ONE])));
    stage.client_reads().unwrap();
    stage.advance(defaults::LIST_CHANGES);
    assert_eq!(stage.server_answers(&tools(&[ONE, TWO]))["method"], "tools/list", "the answer may be older");
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn change_that_was_passed_on_is_not_repeated() {
    let mut stage = with_tools(&[ONE]);
    for (round, entries) in [&[ONE, TWO][..], &[ONE, TWO], &[ONE, TWO, THREE]].into_iter().enumerate() {
        stage.server_sends(CHANGED);
        stage.advance(defaults::LIST_CHANGES_PAUSE);
        assert_eq!(stage.server_answers(&tools(entries))["method"], "tools/list");
        assert_eq!(stage.client_reads().is_some(), round != 1, "round {round}");
    }
}

#[test]
fn report_about_unread_list_is_passed_on_at_once() {
    let mut stage = initialized();
    stage.server_sends(CHANGED);
    assert_eq!(stage.client_reads(), Some(serde_json::from_str(CHANGED).unwrap()));
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn both_resource_lists_are_compared_after_one_report() {
    for (second, told) in [(r#"{"resourceTemplates":[]}"#, 0), (r#"{"resourceTemplates":[{"uriTemplate":"a"}]}"#, 1)] {
        let mut stage = initialized();
        request(&mut stage, "resources/list", &json!({}), r#"{"resources":[]}"#);
        request(&mut stage, "resources/templates/list", &json!({}), r#"{"resourceTemplates":[]}"#);
        stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#);
        stage.advance(defaults::LIST_CHANGES);
        assert_eq!(stage.server_answers(r#"{"resources":[]}"#)["method"], "resources/list");
        assert_eq!(stage.server_answers(second)["method"], "resources/templates/list");
        assert_eq!(std::iter::from_fn(|| stage.client_reads()).count(), told, "{second}");
    }
}

#[test]
fn unreadable_list_after_report_is_passed_on() {
    let mut stage = with_tools(&[ONE]);
    stage.server_sends(CHANGED);
    stage.advance(defaults::LIST_CHANGES);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"?"}}}}"#));
    assert_eq!(stage.client_reads(), Some(serde_json::from_str(CHANGED).unwrap()));
}

// ---- entries that are missing for a moment ----

#[test]
fn tools_that_come_back_after_restart_were_never_away() {
    let mut stage = with_tools(&[ONE, TWO]);
    let before = tools(&[ONE, TWO]);
    restart(&mut stage);
    for partial in [tools(&[]), tools(&[TWO])] {
        assert_eq!(list(&mut stage, &partial).0, before, "the client keeps its list meanwhile");
        assert_eq!(stage.server_answers(&partial)["method"], "tools/list");
        assert_eq!((stage.server_reads(), stage.client_reads()), (None, None));
        stage.advance(defaults::LIST_RECHECK);
    }
    stage.server_answers(&tools(&[TWO, ONE]));
    assert_eq!(stage.client_reads(), None);
    assert_eq!(hidden(&stage), 1);
    assert_eq!(list(&mut stage, &before), (before, true), "now the server is asked again");
}

#[test]
fn list_in_flight_at_the_loss_is_answered_from_the_cache() {
    let mut stage = with_tools(&[ONE, TWO]);
    stage.client_sends(LIST);
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/list");
    stage.die(stage.written);
    let answer = stage.client_reads().expect("at once");
    assert_eq!(answer["result"], serde_json::from_str::<Value>(&tools(&[ONE, TWO])).unwrap());
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    assert_eq!(methods_read_by_server(&mut stage), ["notifications/initialized", "tools/list"], "only to compare");
}

#[test]
fn tools_missing_for_long_are_announced_once() {
    let mut stage = with_tools(&[ONE, TWO]);
    restart(&mut stage);
    let mut reads = 0;
    while stage.client_reads().is_none() {
        reads += 1;
        assert_eq!(stage.server_answers(&tools(&[ONE]))["method"], "tools/list");
        stage.advance(defaults::LIST_RECHECK);
        assert!(reads < 10, "{:?}", stage.log);
    }
    assert_eq!(reads, 6, "for five seconds, one a second");
    assert_eq!(methods_read_by_server(&mut stage), Vec::<Value>::new());
    let now = tools(&[ONE]);
    assert_eq!(list(&mut stage, &now), (now, true));
}

#[test]
fn added_tool_is_announced_at_once_after_restart() {
    let mut stage = with_tools(&[ONE]);
    restart(&mut stage);
    stage.server_answers(&tools(&[ONE, TWO]));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn partial_list_after_restart_is_not_cached() {
    let mut stage = with_tools(&[ONE, TWO]);
    restart(&mut stage);
    stage.server_answers(&tools(&[ONE]));
    stage.die(stage.written);
    let before = tools(&[ONE, TWO]);
    assert_eq!(list(&mut stage, ""), (before, false));
}

#[test]
fn list_is_live_again_when_comparison_is_not_answered() {
    let mut stage = initialized_with(|notes| notes.keep_alive = None);
    request(&mut stage, "tools/list", &json!({}), &tools(&[ONE]));
    restart(&mut stage);
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/list");
    assert_eq!(list(&mut stage, "").0, tools(&[ONE]));
    stage.advance(defaults::HANDSHAKE);
    let now = tools(&[TWO]);
    assert_eq!(list(&mut stage, &now), (now, true));
}

#[test]
fn list_with_missing_tools_is_read_again_after_lost_comparison() {
    let mut stage = initialized_with(|notes| notes.keep_alive = None);
    request(&mut stage, "tools/list", &json!({}), &tools(&[ONE]));
    restart(&mut stage);
    stage.server_answers(&tools(&[]));
    stage.advance(defaults::LIST_RECHECK);
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/list", "which is not answered");
    stage.advance(defaults::HANDSHAKE);
    stage.advance(defaults::LIST_RECHECK);
    assert_eq!(stage.server_answers(&tools(&[]))["method"], "tools/list");
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

// ---- the order of entries ----

#[test]
fn list_of_same_entries_keeps_first_bytes() {
    for cache in [true, false] {
        let mut stage = initialized_with(|notes| notes.catalogue.cache = cache);
        let first = format!(r#"{{"tools": [{ONE}, {TWO} ],"_meta":{{"at":1}}}}"#);
        request(&mut stage, "tools/list", &json!({}), &first);
        let other = format!(r#"{{"_meta":{{"at":2}},"tools":[{TWO},{ONE_AGAIN}]}}"#);
        let expected = format!(r#"{{"_meta":{{"at":2}},"tools":[{ONE}, {TWO} ]}}"#);
        assert_eq!(list(&mut stage, &other).0, expected);
        assert_eq!(list(&mut stage, &first).0, first, "not even logged");
        assert_eq!(hidden(&stage), 1);
    }
}

#[test]
fn order_is_kept_over_restart_of_server_and_mendline() {
    let mut stage = with_tools(&[ONE, TWO]);
    restart(&mut stage);
    stage.server_answers(&tools(&[TWO, ONE]));
    assert_eq!(list(&mut stage, &tools(&[TWO, ONE])).0, tools(&[ONE, TWO]));
    stage.advance(defaults::CACHE_AFTER + defaults::CACHE_PAUSE);
    let saved = stage.saved.take();
    let mut stage = Stage::with_cache(saved, |_| {});
    stage.accept_dial();
    initialize(&mut stage);
    assert_eq!(list(&mut stage, &tools(&[TWO, ONE])).0, tools(&[ONE, TWO]));
}

#[test]
fn other_entries_are_passed_on_as_they_are() {
    let mut stage = with_tools(&[ONE, TWO]);
    for entries in [&[TWO, ONE, THREE][..], &[TWO, THREE, ONE, THREE], &[TWO], &[]] {
        let now = tools(entries);
        assert_eq!(list(&mut stage, &now), (now, true));
    }
}

#[test]
fn pages_keep_the_order_of_the_server() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), &format!(r#"{{"tools":[{ONE},{TWO}],"nextCursor":"2"}}"#));
    let now = format!(r#"{{"tools":[{TWO},{ONE}],"nextCursor":"2"}}"#);
    assert_eq!(list(&mut stage, &now).0, now);
}

// ---- the modern era ----

fn modern(id: u32, method: &str, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}{params}}}}}"#
    )
}

fn acknowledge(stage: &mut Stage) -> Value {
    let listen = stage.server_reads().unwrap();
    assert_eq!(listen["method"], "subscriptions/listen");
    stage.server_sends(
        &json!({
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": listen["id"] } },
        })
        .to_string(),
    );
    listen["id"].clone()
}

/// A stage with a modern client that has read these tools and has two subscriptions to their changes.
fn subscribed(entries: &[&str]) -> Stage {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "tools/list", ""));
    stage.server_answers(&tools(entries));
    for id in [2, 3] {
        stage.client_sends(&modern(id, "subscriptions/listen", r#","notifications":{"toolsListChanged":true}"#));
        acknowledge(&mut stage);
    }
    while stage.client_reads().is_some() {}
    stage
}

#[test]
fn reopened_subscription_announces_changed_list_only() {
    for (entries, told) in [(&[TWO, ONE][..], vec![]), (&[ONE, TWO, THREE], vec![json!(2), json!(3)])] {
        let mut stage = subscribed(&[ONE, TWO]);
        stage.die(stage.written);
        stage.advance(Duration::from_secs(2));
        stage.accept_dial();
        (0..2).for_each(|_| drop(acknowledge(&mut stage)));
        assert_eq!(stage.server_answers(&tools(entries))["method"], "tools/list");
        let ids = std::iter::from_fn(|| stage.client_reads())
            .map(|notice| notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
        assert_eq!(ids.collect::<Vec<_>>(), told);
    }
}

#[test]
fn report_to_each_subscription_is_passed_on_once() {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "tools/list", ""));
    stage.server_answers(&tools(&[ONE]));
    let mut ids = Vec::new();
    for id in [2, 3] {
        stage.client_sends(&modern(id, "subscriptions/listen", r#","notifications":{"toolsListChanged":true}"#));
        ids.push(acknowledge(&mut stage));
    }
    while stage.client_reads().is_some() {}
    for id in ids.iter().chain(&ids) {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
        let notice =
            json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
        stage.server_sends(&notice.to_string());
    }
    stage.advance(defaults::LIST_CHANGES);
    let asked = stage.server_answers(&tools(&[ONE, TWO]));
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let ids = std::iter::from_fn(|| stage.client_reads())
        .map(|notice| notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
    assert_eq!(ids.collect::<Vec<_>>(), [json!(2), json!(3)]);
}

// ---- Mendline's own tool ----

const STATUS_CALL: &str = r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"mendline_status"}}"#;

/// A stage whose client has Mendline's own tools.
fn with_own_tools() -> Stage {
    initialized_with(|config| config.own_tools = true)
}

fn status_text(stage: &mut Stage) -> String {
    stage.client_sends(STATUS_CALL);
    let answer = stage.client_reads().expect("an answer of Mendline");
    assert_eq!(answer["id"], json!(8));
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn own_tool_is_at_the_end_of_a_stable_list() {
    let mut stage = with_own_tools();
    let (first, _) = list(&mut stage, &tools(&[ONE, TWO]));
    assert!(first.starts_with(&tools(&[ONE, TWO])[..tools(&[ONE, TWO]).len() - 2]), "{first}");
    assert!(first.contains(r#",{"name":"mendline_status""#), "{first}");
    let (second, _) = list(&mut stage, &tools(&[ONE, TWO]));
    assert_eq!(first, second);
    let saved = stage.saved.take().map(|saved| String::from_utf8_lossy(&saved.write()).into_owned());
    assert!(!saved.unwrap_or_default().contains("mendline_status"), "the cache has the server's tools only");
}

#[test]
fn own_tool_answers_without_the_server() {
    let mut stage = with_own_tools();
    list(&mut stage, &tools(&[ONE]));
    assert!(status_text(&mut stage).contains("available"));
    assert_eq!(methods_read_by_server(&mut stage), Vec::<Value>::new());
    stage.die(0);
    let text = status_text(&mut stage);
    assert!(text.contains("not available; Mendline is reconnecting") && text.contains("signal 9"), "{text}");
}

#[test]
fn own_tool_gives_way_to_a_tool_of_the_server() {
    let mut stage = with_own_tools();
    let theirs = r#"{"name":"mendline_status","title":"theirs"}"#;
    let (text, _) = list(&mut stage, &tools(&[ONE, theirs]));
    assert_eq!(text, tools(&[ONE, theirs]));
    assert!(stage.log.iter().any(|line| line.contains("Mendline's is left out")), "{:?}", stage.log);
    stage.client_sends(STATUS_CALL);
    assert_eq!(methods_read_by_server(&mut stage), ["tools/call"]);
}

#[test]
fn lists_have_no_own_tool_by_default() {
    let mut stage = initialized();
    assert_eq!(list(&mut stage, &tools(&[ONE])).0, tools(&[ONE]));
    stage.client_sends(STATUS_CALL);
    assert_eq!(methods_read_by_server(&mut stage), ["tools/call"]);
}

#[test]
fn list_that_the_server_does_not_have_stays_an_error() {
    let mut stage = initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32601);
}

#[test]
fn change_that_the_client_has_read_is_not_reported() {
    let mut stage = with_tools(&[ONE]);
    stage.server_sends(CHANGED);
    stage.advance(Duration::from_millis(1));
    request(&mut stage, "tools/list", &json!({}), &tools(&[ONE, TWO]));
    stage.advance(defaults::LIST_CHANGES_MOST);
    assert_eq!((stage.server_reads(), stage.client_reads()), (None, None));
}

#[test]
fn list_failing_after_the_start_is_not_reported_as_changed() {
    let mut stage = initialized_with(|notes| notes.timeouts.call = Duration::from_secs(2));
    stage.client_sends(LIST);
    stage.server_reads().unwrap();
    stage.advance(Duration::from_secs(3));
    assert!(stage.client_reads().expect("its time is over")["error"].is_object());
    stage.client_sends(r#"{"jsonrpc":"2.0","id":8,"method":"resources/list"}"#);
    let mut answers = Vec::new();
    for _ in 0..100 {
        while let Some(request) = stage.server_reads() {
            assert_ne!(request["method"], "tools/list", "the client has not read it");
            if !request["id"].is_null() {
                stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
            }
        }
        answers.extend(std::iter::from_fn(|| stage.client_reads()));
        stage.advance(Duration::from_millis(100));
    }
    assert_eq!(answers.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [8]);
}
