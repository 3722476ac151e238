//! Servers that violate the protocol, send too much, or change after a restart.

use std::time::{Duration, Instant};

use mendline_faults::{Answers, Ending, Rule, Settings};
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, failure};
use crate::site::{Site, event_answers, json_answers, modern, run};
use crate::sockets::cut_all;

/// Returns the `_meta` of every modern request.
fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "roots": {} },
    })
}

fn modern_call(client: &mut Client, id: &str, tool: &str, arguments: &Value, more: &Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": arguments, "_meta": modern_meta() });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.request(id, "tools/call", &params);
    client.answer(id)
}

#[test]
fn m66_response_with_id_as_string_is_accepted() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("m66_id_type_changed"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn m67_notification_storm_delays_no_answer_and_loses_none() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("m67_notification_storm").value(5000).first(1));
    client.call("storm", "lookup", &json!({ "key": "k" }));
    client.call("beside", "create_note", &json!({ "key": "l" }));
    let (mut notices, mut answers) = (0, Vec::new());
    while answers.len() < 2 {
        let message: Value = serde_json::from_str(&client.line()).unwrap();
        match message["id"].as_str() {
            Some(id) => answers.push((id.to_owned(), message["result"]["content"][0]["text"].clone())),
            None => notices += 1,
        }
    }
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(answers, [("beside".to_owned(), json!("wrote l")), ("storm".to_owned(), json!("k is 42"))]);
    assert_eq!(notices, 5000, "a client that reads gets all of them");
}

#[test]
fn m68_endless_progress_is_forwarded_until_client_cancels() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--call-timeout", "5s"]);
    site.add_fault(Rule::new("m68_progress_forever").first(1));
    let params = json!({ "name": "slow", "arguments": { "key": "k" }, "_meta": { "progressToken": "mine" } });
    let begun = Instant::now();
    client.request("a", "tools/call", &params);
    let mut last = 0;
    // Progress extends the deadline of five seconds.
    while begun.elapsed() < Duration::from_secs(6) {
        let message: Value = serde_json::from_str(&client.line()).unwrap();
        if message["method"] != "notifications/progress" {
            assert_eq!(message["method"], "notifications/message", "{message}");
            continue;
        }
        assert_eq!(message["params"]["progressToken"], "mine", "{message}");
        let step = message["params"]["progress"].as_u64().unwrap();
        assert!(step > last, "progress grows: {step} after {last}");
        last = step;
    }
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
    site.until("the server gets the cancellation", |counts| {
        counts.cancellations == 1 || counts.messages_of("notifications/cancelled") == 1
    });
    let next = client.result("b", "lookup", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "l is 42", "{next}");
}

#[test]
fn m68_unrequested_endless_progress_does_not_extend_call() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--tool-timeout", "create_note=2s"]);
    site.add_fault(Rule::new("m68_progress_forever").first(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!((&failure(&result)["cause"], &failure(&result)["outcome"]), (&json!("timed_out"), &json!("unknown")));
    site.until("it ran once", |counts| counts.executions_of("k") == 1);
}

#[test]
fn m69_era_change_after_restart_is_reported_and_recovers() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("m69_era_flip").first(1));
    client.call("a", "create_note", &json!({ "key": "k" }));
    let first = client.answer("a");
    assert!(
        first["error"]["message"].is_string() || first["result"]["isError"] == true,
        "the answer names the era: {first}"
    );
    let handshakes = site.counts().messages_of("initialize");
    assert!(handshakes <= 4, "the server is not initialized in a loop: {handshakes}");
    assert_eq!(site.executions("k"), 0, "nothing ran: {first}");
    site.change_settings(Settings { era: mendline_faults::Era::Both, ..site.settings() });
    eventually("it is found again", 2 * SOON, || {
        let answer = client.result("again", "lookup", &json!({ "key": "l" }));
        answer["content"][0]["text"] == "l is 42"
    });
}

#[test]
fn m71_answer_to_earlier_input_request_goes_to_next_server() {
    let site = Site::start(modern(Answers::Json));
    let mut client = run(&site.url(), &[], &[]);
    let asked = modern_call(&mut client, "a", "ask", &json!({ "key": "k" }), &json!({}))["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    cut_all(&site, Ending::Reset);
    site.forget_sessions();
    let more = json!({ "requestState": asked["requestState"], "inputResponses": { "it": { "roots": [] } } });
    let answer = modern_call(&mut client, "b", "ask", &json!({ "key": "k" }), &more);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("roots"), "{answer}");
    assert_eq!(site.executions("k"), 2);
}

#[test]
fn m71_continued_call_is_never_resent_even_for_reads() {
    let site = Site::start(modern(Answers::Json));
    let mut client = run(&site.url(), &[], &[]);
    client.request("list", "tools/list", &json!({ "_meta": modern_meta() }));
    client.answer("list");
    let asked = modern_call(&mut client, "a", "ask", &json!({ "key": "k" }), &json!({}))["result"].clone();
    site.add_fault(Rule::new("t13_reset_before_headers").tool("ask").first(1));
    let more = json!({ "requestState": asked["requestState"], "inputResponses": { "it": { "roots": [] } } });
    let answer = modern_call(&mut client, "b", "ask", &json!({ "key": "k" }), &more);
    assert_eq!(failure(&answer["result"])["outcome"], "unknown", "{answer}");
    assert_eq!(site.executions("k"), 2, "once to be asked, once to be answered");
}

#[test]
fn m71_request_of_lost_server_is_cancelled_at_client() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "ask", &json!({ "key": "k", "what": "roots" }));
    let question = loop {
        let message: Value = serde_json::from_str(&client.line()).unwrap();
        if message["method"] == "roots/list" {
            break message;
        }
    };
    site.forget_sessions();
    site.cut(Ending::Reset);
    // The call is a read and goes to the next session, which sends its own request. The old request is cancelled first.
    let mut withdrawn = false;
    let answer = loop {
        let message: Value = serde_json::from_str(&client.line()).unwrap();
        if message["method"] == "notifications/cancelled" {
            assert_eq!(message["params"]["requestId"], question["id"], "{message}");
            withdrawn = true;
        } else if message["method"] == "roots/list" {
            assert_ne!(message["id"], question["id"]);
            client.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": [] } }).to_string());
        } else if message["id"] == "a" {
            break message;
        }
    };
    assert!(withdrawn, "no cancellation reached the client: {answer}; log:\n{}", client.log());
    assert!(answer["result"].is_object(), "{answer}");
}

#[test]
fn m72_hanging_list_times_out_alone() {
    let site = Site::start(json_answers());
    let mut client = site.client(&["--call-timeout", "6s", "--tool-timeout", "lookup=1m"]);
    site.add_fault(Rule::new("m72_list_hangs"));
    client.request("list", "tools/list", &json!({}));
    for number in 0..5 {
        let result = client.result(&number.to_string(), "lookup", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "k is 42");
    }
    // The answer to the list has not arrived yet; no call waited for it.
    let error = client.answer_within("list", Duration::from_secs(20))["error"].clone();
    assert_eq!((&error["code"], &error["data"]["cause"]), (&json!(-31003), &json!("timed_out")), "{error}");
}

#[test]
fn m72_hanging_list_after_reconnect_delays_no_call() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("m72_list_hangs"));
    site.forget_sessions();
    site.cut(Ending::Reset);
    // A late reset may hit this connection. A read is repeated then.
    let result = client.result("read", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42", "{result}");
    for number in 0..5 {
        let key = format!("k{number}");
        let result = client.result(&key, "create_note", &json!({ "key": key }));
        assert_eq!(result["content"][0]["text"], format!("wrote {key}"), "{result}");
    }
    site.until("the list is read again to compare it", |counts| counts.struck_by("m72_list_hangs") >= 1);
    assert_eq!(site.counts().sessions_opened, 2);
}
