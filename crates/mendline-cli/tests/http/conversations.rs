//! Healthy servers: complete conversations over every transport and in every era.

use mendline_faults::{Answers, Rule, Settings};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually};
use crate::site::{Site, discovered, event_answers, initialized, json_answers, modern, run, with_modern_meta};

/// Makes two calls and expects answers.
fn works(client: &mut Client) {
    assert_eq!(client.result("read", "lookup", &json!({ "key": "r" }))["content"][0]["text"], "r is 42");
    assert_eq!(client.result("write", "create_note", &json!({ "key": "w" }))["content"][0]["text"], "wrote w");
}

/// Closes the client and expects a clean exit.
fn leave(mut client: Client) {
    client.stdin = None;
    assert_eq!(client.rest(), Vec::<String>::new());
    assert_eq!(client.exit_code(SOON), Some(0));
}

#[test]
fn legacy_session_is_initialized_once_and_deleted_at_exit() {
    for settings in [json_answers(), event_answers()] {
        let site = Site::start(settings);
        let mut client = site.client(&[]);
        works(&mut client);
        site.until("the GET stream is open", |counts| counts.gets == 1);
        leave(client);
        let counts = site.counts();
        assert_eq!((counts.sessions_opened, counts.sessions_deleted, counts.deletes), (1, 1, 1));
        assert_eq!((counts.refusals, counts.messages_of("initialize"), counts.executions_of("w")), (0, 1, 1));
        for seen in site.oracle().seen().iter().skip(1) {
            assert!(seen.session.is_some(), "{seen:?}");
            assert_eq!(seen.revision.as_deref(), Some("2025-11-25"), "{seen:?}");
        }
    }
}

#[test]
fn legacy_server_without_sessions_gets_no_session_header() {
    for settings in [json_answers(), event_answers()] {
        let site = Site::start(Settings { sessions: false, ..settings });
        let mut client = site.client(&[]);
        works(&mut client);
        leave(client);
        let counts = site.counts();
        assert_eq!((counts.sessions_opened, counts.deletes, counts.executions_of("w")), (0, 0, 1));
        assert!(site.oracle().seen().iter().all(|seen| seen.session.is_none()));
    }
}

#[test]
fn sse_server_is_detected() {
    let site = Site::start(json_answers());
    let mut client = initialized(&site.sse_url(), &[]);
    works(&mut client);
    leave(client);
    let counts = site.counts();
    assert_eq!((counts.gets, counts.messages_of("tools/call"), counts.executions_of("w")), (1, 2, 1));
}

#[test]
fn r27_sse_url_that_answers_the_handshake_is_used_over_sse() {
    for value in [json!(null), json!(404), json!(405), json!(400)] {
        let site = Site::start(json_answers());
        site.add_fault(Rule::new("only_handshake_at_sse_url").value(value.clone()));
        let mut client = initialized(&site.sse_url(), &[]);
        client.request("list", "tools/list", &json!({}));
        let listed = client.answer("list");
        assert!(listed["result"]["tools"].is_array(), "{value}: {listed}");
        works(&mut client);
        // The SSE stream is lost: the next one is opened without a POST at its URL.
        let posts = || site.oracle().seen().iter().filter(|seen| seen.path == "/sse" && seen.verb == "POST").count();
        let (before, opened) = (posts(), site.counts().sessions_opened);
        site.forget_sessions();
        site.until("the next stream is open", |counts| counts.sessions_opened > opened);
        let result = client.result("z", "create_note", &json!({ "key": "z" }));
        assert_eq!(result["content"][0]["text"], "wrote z", "{value}: {result}");
        assert_eq!((posts(), site.executions("w"), site.executions("z")), (before, 1, 1), "{value}");
        leave(client);
    }
}

#[test]
fn r27_refused_unsafe_call_at_sse_url_runs_once() {
    let site = Site::start(json_answers());
    site.add_fault(Rule::new("only_handshake_at_sse_url").value(404));
    let mut client = initialized(&site.sse_url(), &[]);
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
    leave(client);
}

#[test]
fn configured_sse_transport_tries_no_other() {
    let site = Site::start(json_answers());
    let mut client = initialized(&site.sse_url(), &["--transport", "sse"]);
    works(&mut client);
    leave(client);
    let seen = site.oracle().seen();
    assert_eq!((seen[0].verb.as_str(), seen[0].path.as_str()), ("GET", "/sse"));
    assert!(seen[1..].iter().all(|seen| seen.verb == "POST" && seen.path == "/messages"), "{seen:?}");
}

#[test]
fn streamable_http_only_does_not_fall_back_to_sse() {
    let site = Site::start(json_answers());
    let mut client = run(&site.sse_url(), &["--transport", "http"], &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let result = client.answer("init")["result"].clone();
    assert!(result["instructions"].as_str().unwrap().contains("HTTP 405"), "{result}");
    assert_eq!(site.counts().gets, 0);
}

#[test]
fn server_request_reaches_client_and_response_returns() {
    let streamable = Site::start(event_answers());
    let oldest = Site::start(event_answers());
    for (site, url) in [(&streamable, streamable.url()), (&oldest, oldest.sse_url())] {
        let mut client = initialized(&url, &[]);
        client.call("a", "ask", &json!({ "key": "k", "what": "roots" }));
        let question: Value = serde_json::from_str(&client.line()).unwrap();
        assert_eq!(question["method"], "roots/list");
        let roots = json!({ "roots": [{ "uri": "file:///tmp/x" }] });
        client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": roots }).to_string());
        let text = client.answer("a")["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["result"], roots);
        assert_eq!((site.counts().server_requests, site.counts().server_requests_answered), (1, 1));
    }
}

#[test]
fn unsolicited_notifications_arrive_over_get_stream() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    site.notify("notifications/prompts/list_changed", &json!({ "hint": 7 }));
    let notice: Value = serde_json::from_str(&client.line()).unwrap();
    assert_eq!(notice["method"], "notifications/prompts/list_changed");
    assert_eq!(notice["params"]["hint"], 7);
    site.send_request("roots");
    let question: Value = serde_json::from_str(&client.line()).unwrap();
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } }).to_string());
    site.until("the answer arrives", |counts| counts.server_requests_answered == 1);
}

#[test]
fn progress_keeps_client_token_and_order() {
    let streamable = Site::start(event_answers());
    let oldest = Site::start(event_answers());
    for url in [streamable.url(), oldest.sse_url()] {
        let mut client = initialized(&url, &[]);
        let arguments = json!({ "key": "k", "steps": 3, "stepMs": 5 });
        let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "mine" } });
        client.request("a", "tools/call", &params);
        for step in 1..=3 {
            let progress: Value = serde_json::from_str(&client.line()).unwrap();
            assert_eq!(progress["params"]["progressToken"], "mine");
            assert_eq!(progress["params"]["progress"], step);
        }
        assert_eq!(client.answer("a")["result"]["content"][0]["text"], "k is done");
    }
}

#[test]
fn i18_legacy_cancellation_is_sent_as_notification() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
    site.until("the server has seen it", |counts| counts.cancellations == 1);
    assert_eq!(site.counts().messages_of("notifications/cancelled"), 1);
    assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42");
}

#[test]
fn modern_request_headers_match_body() {
    for answers in [Answers::Json, Answers::Events] {
        let site = Site::start(modern(answers));
        let mut client = discovered(&site, &[]);
        client.request(
            "a",
            "tools/call",
            &with_modern_meta(json!({ "name": "create_note", "arguments": { "key": "k" } })),
        );
        assert_eq!(client.answer("a")["result"]["content"][0]["text"], "wrote k");
        leave(client);
        let seen = site.oracle().seen();
        let methods: Vec<_> = seen.iter().map(|seen| seen.named_method.as_deref().unwrap_or_default()).collect();
        assert_eq!(methods, ["server/discover", "tools/list", "tools/call"]);
        assert_eq!(seen[2].named.as_deref(), Some("create_note"));
        assert!(seen.iter().all(|seen| seen.session.is_none() && seen.revision.as_deref() == Some("2026-07-28")));
        let counts = site.counts();
        assert_eq!((counts.refusals, counts.deletes, counts.executions_of("k")), (0, 0, 1));
    }
}

#[test]
fn i18_modern_cancellation_closes_response() {
    for answers in [Answers::Json, Answers::Events] {
        let site = Site::start(modern(answers));
        let mut client = discovered(&site, &[]);
        let arguments = json!({ "key": "k", "delayMs": 60_000 });
        client.request("a", "tools/call", &with_modern_meta(json!({ "name": "lookup", "arguments": arguments })));
        site.until("the call runs", |counts| counts.executions_of("k") == 1);
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
        site.until("the server has seen it", |counts| counts.cancellations == 1 && counts.closed_mid_call == 1);
        assert_eq!(site.counts().messages_of("notifications/cancelled"), 0);
    }
}

#[test]
fn h35_modern_method_not_found_is_passed_on() {
    let site = Site::start(modern(Answers::Json));
    let mut client = discovered(&site, &[]);
    client.request("a", "notes/shred", &with_modern_meta(json!({})));
    let answer = client.answer("a");
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["message"]),
        (&json!(-32601), &json!("no method notes/shred"))
    );
    assert_eq!(site.counts().messages_of("notes/shred"), 1);
}

#[test]
fn h36_header_mismatch_is_resent_and_runs_once() {
    let site = Site::start(modern(Answers::Json));
    let mut client = discovered(&site, &[]);
    site.add_fault(Rule::new("h36_400_header_mismatch").tool("create_note").nth(1));
    client.request("a", "tools/call", &with_modern_meta(json!({ "name": "create_note", "arguments": { "key": "k" } })));
    let answer = client.answer("a");
    assert_eq!(answer["result"]["content"][0]["text"], "wrote k", "{answer}");
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (1, 2));
}

#[test]
fn i11_unknown_fields_and_key_order_survive_http() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    let params = r#"{"z":1,"a":{"y":[1.50,1e3],"b":"\u00e9"},"_x":null}"#;
    client.send(&format!(r#"{{"jsonrpc":"2.0","id":123456789012345678901,"method":"faults/echo","params":{params}}}"#));
    let line = client.line();
    assert!(line.contains(r#""id":123456789012345678901"#), "{line}");
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"], serde_json::from_str::<Value>(params).unwrap());
}

#[test]
fn x92_sigterm_finishes_http_calls_and_deletes_session() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "create_note", &json!({ "key": "k", "delayMs": 300 }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    client.signal(Signal::TERM);
    let rest = client.rest();
    assert!(rest.len() == 1 && rest[0].contains("wrote k"), "{rest:?}");
    assert_eq!(client.exit_code(SOON), Some(0));
    eventually("the session was deleted", SOON, || site.counts().sessions_deleted == 1);
}
