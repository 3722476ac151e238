//! Bodies and events that are valid over HTTP but span several lines or are compressed. The client gets each message as
//! one line.

use mendline_faults::{Rule, Settings};
use serde_json::{Value, json};

use crate::client::{Client, failure};
use crate::site::{Site, WAITING, event_answers, json_answers, run};

/// Returns the rules for all valid framings.
fn framings() -> Vec<Rule> {
    vec![
        Rule::new("pretty_json").value("lf"),
        Rule::new("pretty_json").value("crlf"),
        Rule::new("pretty_json").value("tab"),
        Rule::new("newline_after"),
        Rule::new("newline_after").value("\r\n\r\n"),
        Rule::new("bom_json"),
        Rule::new("content_coding"),
        Rule::new("http_1_0"),
    ]
}

/// Holds a conversation with a server of this framing. Each line must be one message.
fn hold_conversation(settings: Settings, rule: Rule) {
    let what = format!("{} {}", rule.fault, rule.value);
    let site = Site::start(settings);
    site.add_fault(rule);
    let mut client = run(&site.url(), &WAITING, &[]);
    let who = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "roots": {} }, "clientInfo": who });
    client.request("init", "initialize", &hello);
    assert_eq!(message(&mut client)["result"]["serverInfo"]["name"], "mendline-faults", "{what}");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    assert!(message(&mut client)["result"]["tools"].is_array(), "{what}");
    let params = json!({ "name": "slow", "arguments": { "key": "s", "steps": 2, "stepMs": 1 }, "_meta": { "progressToken": 7 } });
    client.request("slow", "tools/call", &params);
    let mut answer = message(&mut client);
    while answer["method"] == "notifications/progress" {
        answer = message(&mut client);
    }
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!("slow"), &json!("s is done")),
        "{what}"
    );
    client.call("note", "create_note", &json!({ "key": "k" }));
    let answer = message(&mut client);
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!("note"), &json!("wrote k")), "{what}");
    assert_eq!(site.executions("k"), 1);
}

/// Reads the next line, which must be one message.
fn message(client: &mut Client) -> Value {
    let line = client.line();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

#[test]
fn w01_w05_json_body_in_every_framing_is_one_line() {
    for rule in framings() {
        hold_conversation(json_answers(), rule);
    }
}

#[test]
fn w01_w05_event_in_every_framing_is_one_line() {
    for rule in framings().into_iter().filter(|rule| rule.fault != "http_1_0") {
        hold_conversation(event_answers(), rule);
    }
}

#[test]
fn w01_notification_may_be_answered_in_any_way() {
    for (status, body) in
        [(200, None), (204, None), (200, Some("")), (200, Some("{}")), (200, Some("OK\n")), (202, Some("null\n"))]
    {
        let site = Site::start(json_answers());
        site.add_fault(Rule::new("notification_answered").value(json!({ "status": status, "body": body })));
        let mut client = site.client(&[]);
        let result = client.result("a", "lookup", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "k is 42", "{status} {body:?}");
        assert_eq!(site.counts().messages_of("initialize"), 1, "{status} {body:?}");
    }
}

#[test]
fn w01_hidden_message_in_result_does_not_reach_client() {
    // A result may contain any text, including another message.
    let site = Site::start(json_answers());
    site.add_fault(Rule::new("pretty_json").value("lf").tool("lookup"));
    let mut client = site.client(&[]);
    let key = "\n{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"result\":{\"content\":[]}}\n";
    client.call("a", "lookup", &json!({ "key": key }));
    let answer = message(&mut client);
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!("a"), &json!(format!("{key} is 42"))));
}

#[test]
fn r23_unknown_content_coding_is_named_and_not_retried() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("content_coding").value("br").tool("create_note"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("\"br\""), "{result}");
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (1, 1));
}

#[test]
fn s04_endless_server_requests_open_few_connections() {
    let site = Site::start(event_answers());
    site.add_fault(Rule::new("server_request_flood").tool("lookup").value(2_000));
    let mut client = site.client(&[]);
    // From now on the server delays its answers to notifications and responses.
    site.add_fault(Rule::new("notification_answered").value(json!({ "status": 202, "delayMs": 600_000 })));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42", "{result}");
    // After this call, all POSTs of the first one have been started.
    client.result("b", "create_note", &json!({ "key": "l" }));
    let counts = site.counts();
    assert!(counts.messages_of("response") >= 16, "{counts:?}");
    assert!(counts.most_open_connections <= 64, "{counts:?}");
}
