//! The modern era over HTTP: no session, headers that repeat the message, and calls that end with their exchange.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::{Dialect, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::port::{Content, ExchangeEnd};
use mendline_core::{ListCache, Port, UpstreamConfig, defaults};
use serde_json::Value;
use stage::CLIENT;
use stage::http::{INITIALIZE, SentRequest, Stage, modern};

fn query(id: u32) -> String {
    let arguments = r#"{"region":"Zürich","limit":5.0,"deep":{"dry":true},"none":null}"#;
    modern(id, "tools/call", &format!(r#""name":"query","arguments":{arguments},"#))
}

const QUERY: &str = r#"{"name":"query","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"},"none":{"type":"string","x-mcp-header":"None"},"deep":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}}}}}"#;

fn params_of(seen: &SentRequest) -> Vec<(String, String)> {
    let is_param = |name: &str| name.to_ascii_lowercase().starts_with("mcp-param-");
    let params = seen.ask.headers.iter().filter(|(name, _)| is_param(name));
    params.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn query_params() -> Vec<(String, String)> {
    [("Region", "=?base64?WsO8cmljaA==?="), ("Limit", "5"), ("Dry", "true")]
        .map(|(name, value)| (format!("Mcp-Param-{name}"), value.to_owned()))
        .to_vec()
}

fn refuse_headers(stage: &mut Stage, seen: &SentRequest, id: &Value) {
    stage.status(seen.id, 400, Content::Json, None);
    stage.body(
        seen.id,
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"Header mismatch"}}}}"#),
    );
    stage.end(seen.id, ExchangeEnd::Complete);
}

#[test]
fn modern_call_is_cancelled_by_aborting_exchange() {
    let mut stage = Stage::new(Dialect::Streamable);
    stage.client_sends(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    let seen = stage.next_sent();
    assert_eq!((seen.header("mcp-method"), seen.header("mcp-name")), (Some("tools/call"), Some("slow")));
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(stage.aborted, [seen.id]);
    assert!(stage.seen.is_empty(), "no notification");
}

#[test]
fn marked_arguments_are_sent_as_headers() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "tools/list", ""));
    let list = stage.next_sent();
    stage.answer(&list, &format!(r#"{{"tools":[{QUERY}]}}"#));
    assert_eq!(stage.client_reads().unwrap()["result"]["tools"][0]["name"], "query");
    stage.client_sends(&query(2));
    let call = stage.next_sent();
    assert_eq!(params_of(&call), query_params());
    assert_eq!(call.header("mcp-name"), Some("query"));
    stage.answer(&call, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    stage.client_sends(&modern(3, "prompts/get", r#""name":"query","arguments":{"region":"Bern"},"#));
    assert_eq!(params_of(&stage.next_sent()), [], "a prompt of the same name is no tool");
}

#[test]
fn tool_with_invalid_marks_is_removed_from_list() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "tools/list", ""));
    let list = stage.next_sent();
    let bad = QUERY.replace("\"query\"", "\"bad\"").replace("\"integer\"", "\"number\"");
    let odd = r#"{ "name" : "plain\u0020", "inputSchema" : {"maximum":1.50E+1} }"#;
    let tools = |list: &str| format!(r#"{{"tools":[{list}],"z":1.0}}"#);
    stage.answer(&list, &tools(&format!("{bad},{odd}, {bad} ,{QUERY} , {bad}")));
    let text = stage.engine.poll_write(Port::Client(CLIENT), stage.now).unwrap().to_bytes();
    let left = tools(&format!("{odd} ,{QUERY}"));
    assert_eq!(String::from_utf8_lossy(&text), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{left}}}"#));
    assert_eq!(stage.log.iter().filter(|line| line.contains("removed the tool \"bad\" from")).count(), 3);

    let mut legacy = Stage::initialized();
    legacy.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = legacy.next_sent();
    legacy.answer(&list, &tools(&bad));
    assert_eq!(legacy.client_reads().unwrap()["result"]["tools"][0]["name"], "bad", "marks are of the modern era");
}

#[test]
fn header_refusal_is_resent_after_listing_tools() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&query(1));
    stage.client_sends(&query(2));
    for _ in 0..2 {
        let call = stage.next_sent();
        assert_eq!(params_of(&call), [], "the tool was not listed");
        refuse_headers(&mut stage, &call, &call.json()["id"]);
    }
    let first_page = stage.next_sent();
    assert!(stage.seen.is_empty(), "one lookup for both, and nothing before it");
    assert_eq!(first_page.method(), "tools/list");
    let reported = first_page.json();
    assert_eq!(reported["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "c");
    assert_eq!(reported["params"]["_meta"].get("progressToken"), None, "that belongs to the call");
    assert_eq!(first_page.header("mcp-method"), Some("tools/list"));
    stage.answer(&first_page, r#"{"tools":[],"nextCursor":"p\"2"}"#);
    let second_page = stage.next_sent();
    assert_eq!(second_page.json()["params"]["cursor"], "p\"2");
    stage.answer(&second_page, &format!(r#"{{"tools":[{QUERY}]}}"#));
    assert!(stage.client_reads().is_none(), "no client requested these lists");
    for id in [1, 2] {
        let again = stage.next_sent();
        assert_eq!(params_of(&again), query_params());
        stage.answer(&again, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
}

#[test]
fn second_header_refusal_is_answer() {
    for named in [true, false] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(&query(1));
        let id_of = |seen: &SentRequest| if named { seen.json()["id"].clone() } else { Value::Null };
        let call = stage.next_sent();
        refuse_headers(&mut stage, &call, &id_of(&call));
        let list = stage.next_sent();
        stage.answer(&list, r#"{"tools":[]}"#);
        let again = stage.next_sent();
        refuse_headers(&mut stage, &again, &id_of(&again));
        let answer = stage.client_reads().expect("answered, not looped");
        assert_eq!(answer["id"], 1);
        assert!(answer["error"]["message"].as_str().unwrap().contains("Header mismatch"), "{answer}");
        stage.advance(Duration::from_secs(60));
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn unanswered_tool_list_holds_refused_call_only_briefly() {
    for how in ["silence", "a cut", "another error"] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(&query(1));
        let call = stage.next_sent();
        refuse_headers(&mut stage, &call, &call.json()["id"]);
        let list = stage.next_sent();
        match how {
            "a cut" => stage.end(list.id, ExchangeEnd::Cut(CutReason::Reset)),
            "another error" => {
                stage.status(list.id, 500, Content::Other, None);
                stage.end(list.id, ExchangeEnd::Complete);
            }
            _ => {}
        }
        stage.advance(defaults::LOOKUP);
        let again = stage.next_sent();
        assert_eq!(again.method(), "tools/call", "after {how}");
        stage.answer(&again, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], 1);
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn end_of_subscription_has_client_id() {
    const NAMED: &str = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":77}}"#;
    for (method, named) in [("subscriptions/listen", 5), ("resources/list", 77)] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(&modern(5, method, ""));
        let seen = stage.next_sent();
        stage.answer(&seen, NAMED);
        let answer = stage.client_reads().unwrap();
        assert_eq!(answer["id"], 5);
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], named, "{method}");
    }
}

#[test]
fn legacy_refusal_of_modern_request_makes_client_initialize() {
    let reported =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    for (status, body) in [(400, Some(reported)), (400, None), (404, None), (405, None), (406, Some(reported))] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(&modern(7, "server/discover", ""));
        let seen = stage.next_sent();
        stage.status(seen.id, status, if body.is_some() { Content::Json } else { Content::Other }, None);
        body.into_iter().for_each(|body| stage.body(seen.id, body));
        stage.end(seen.id, ExchangeEnd::Complete);
        let answer = stage.client_reads().expect("an answer to fall back from");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&7.into(), &(-32601).into()), "{status} {body:?}");
        assert_eq!(answer["error"]["data"]["cause"], "other_era");
        // A bare 400 does not say that the server did nothing.
        let outcome = if (status, body) == (400, None) { "unknown" } else { "refused" };
        assert_eq!(answer["error"]["data"]["outcome"], outcome, "{status} {body:?}");
        assert!(stage.seen.is_empty(), "and no other dialect is tried for it");
        stage.advance(defaults::CACHE_AFTER);
        assert_eq!(stage.saved.as_ref().map(ListCache::len), Some(1), "the next start need not ask");
        stage.client_sends(INITIALIZE);
        stage.answer_initialize("s1");
        assert_eq!(stage.client_reads().unwrap()["id"], 0);
    }
}

#[test]
fn refusal_by_modern_server_is_not_legacy() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "tools/list", ""));
    let seen = stage.next_sent();
    stage.answer(&seen, r#"{"tools":[]}"#);
    stage.client_reads().unwrap();
    stage.client_sends(&modern(2, "prompts/list", ""));
    let seen = stage.next_sent();
    stage.status(seen.id, 405, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    let probe = stage.next_probe();
    assert_eq!((probe.method().as_str(), probe.header("mcp-method")), ("server/discover", Some("server/discover")));
    stage.answer(&probe, "{}");
    assert_eq!(stage.client_reads().unwrap()["error"]["data"]["cause"], "refused");
}

#[test]
fn subscriptions_have_their_own_limit() {
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    (config.limits.in_flight, config.limits.waiting) = (2, 2);
    let mut stage = Stage::of(config);
    stage.client_sends(&modern(0, "tools/list", ""));
    let first = stage.next_sent();
    stage.answer(&first, "{}");
    stage.client_reads().unwrap();
    let listens = defaults::SUBSCRIPTION_STREAMS as u32;
    for id in 0..listens {
        stage.client_sends(&modern(1_000 + id, "subscriptions/listen", ""));
        assert_eq!(stage.next_sent().method(), "subscriptions/listen");
    }
    stage.client_sends(&modern(2_000, "subscriptions/listen", ""));
    assert_eq!(stage.client_reads().expect("one too many")["error"]["data"]["cause"], "overloaded");
    for id in 1..=4 {
        stage.client_sends(&query(id));
    }
    let (first, _second) = (stage.next_sent(), stage.next_sent());
    assert!(stage.seen.is_empty(), "two slots, and two wait");
    stage.client_sends(&query(5));
    assert_eq!(stage.client_reads().unwrap()["id"], 5, "no slot and a full queue");
    stage.answer(&first, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.next_sent().method(), "tools/call");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1000}}"#;
    stage.client_sends(cancel);
    stage.client_sends(&modern(3_000, "subscriptions/listen", ""));
    assert_eq!(stage.next_sent().method(), "subscriptions/listen", "it waits behind no call");
    assert!(stage.seen.is_empty());
}

/// Answers with one page of tools that names a next page.
fn page(stage: &mut Stage, list: &SentRequest, next: u32) {
    assert_eq!(list.method(), "tools/list");
    stage.answer(list, &format!(r#"{{"tools":[],"nextCursor":"{next}"}}"#));
}

#[test]
fn other_lists_do_not_change_tool_hints() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "tools/list", ""));
    let list = stage.next_sent();
    stage.answer(&list, &format!(r#"{{"tools":[{QUERY}]}}"#));
    stage.client_sends(&modern(2, "prompts/list", ""));
    let list = stage.next_sent();
    stage.answer(&list, r#"{"prompts":[]}"#);
    stage.client_sends(&query(3));
    assert_eq!(params_of(&stage.next_sent()), query_params());
}

#[test]
fn tools_are_not_listed_for_refused_non_tool_request() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "prompts/get", r#""name":"query","#));
    let seen = stage.next_sent();
    refuse_headers(&mut stage, &seen, &seen.json()["id"]);
    stage.advance(defaults::RETRY_INITIAL);
    let again = stage.next_sent();
    assert_eq!(again.method(), "prompts/get");
    assert!(stage.seen.is_empty());
}

#[test]
fn endless_tool_list_is_read_up_to_page_limit() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&query(1));
    let call = stage.next_sent();
    refuse_headers(&mut stage, &call, &call.json()["id"]);
    for next in 1..=defaults::LOOKUP_PAGES {
        let list = stage.next_sent();
        page(&mut stage, &list, next);
    }
    assert_eq!(stage.next_sent().method(), "tools/call", "with what was learnt until then");
    assert!(stage.seen.is_empty());
}

#[test]
fn refused_call_waits_for_all_tool_pages() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&query(1));
    let call = stage.next_sent();
    refuse_headers(&mut stage, &call, &call.json()["id"]);
    for next in 1..=3 {
        let list = stage.next_sent();
        stage.advance(defaults::LOOKUP - Duration::from_secs(1));
        assert!(stage.seen.is_empty(), "page {next} is in flight");
        page(&mut stage, &list, next);
    }
    let last = stage.next_sent();
    stage.answer(&last, &format!(r#"{{"tools":[{QUERY}]}}"#));
    assert_eq!(params_of(&stage.next_sent()), query_params());
}

#[test]
fn tool_list_of_other_call_does_not_resend_early() {
    let mut stage = Stage::with(Dialect::Auto, |notes| {
        notes.tools = [("query".into(), ToolPolicy { effect: Some(Effect::Read), ..ToolPolicy::default() })].into();
        (notes.retry.initial, notes.retry.cap) = (Duration::from_secs(3_600), Duration::from_secs(3_600));
    });
    stage.client_sends(&query(1));
    let call = stage.next_sent();
    refuse_headers(&mut stage, &call, &call.json()["id"]);
    let list = stage.next_sent();
    stage.answer(&list, r#"{"tools":[]}"#);
    let again = stage.next_sent();
    stage.answer_overloaded(&again, 503, None);
    stage.client_sends(&query(2));
    let call = stage.next_sent();
    refuse_headers(&mut stage, &call, &call.json()["id"]);
    let list = stage.next_sent();
    stage.answer(&list, r#"{"tools":[]}"#);
    let other = stage.next_sent();
    stage.answer(&other, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    assert!(stage.seen.is_empty(), "the first one has its own time to try again");
}
