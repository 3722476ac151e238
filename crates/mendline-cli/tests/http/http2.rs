//! HTTP/2, where a server can prove that it has not processed a request.

use mendline_faults::{Answers, Ending, Rule};
use serde_json::json;

use crate::client::{Client, failure};
use crate::secure::TrustedAuthority;
use crate::site::{Site, json_answers, modern, never_answered, with_modern_meta};

fn at_a_secure_site() -> (Site, Client) {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(json_answers(), trusted.good());
    let client = trusted.initialized(&site.url(), &[]);
    (site, client)
}

const REFUSALS: [&str; 2] = ["h32_h2_goaway", "h33_h2_refused_stream"];

#[test]
fn h32_h33_unprocessed_unsafe_call_is_resent_and_runs_once() {
    for fault in REFUSALS {
        let (site, mut client) = at_a_secure_site();
        site.add_fault(Rule::new(fault).tool("create_note").nth(1));
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{fault}: {result}");
        let counts = site.counts();
        assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call")), (1, 2), "{fault}");
        assert_eq!((counts.struck_by(fault), counts.sessions_opened), (1, 1), "{fault}");
    }
}

#[test]
fn h32_goaway_makes_accepted_calls_unknown_and_resends_others() {
    let (site, mut client) = at_a_secure_site();
    client.call("early", "create_note", &json!({ "key": "early", "delayMs": 60_000 }));
    site.until("the first call runs", |counts| counts.executions_of("early") == 1);
    site.add_fault(Rule::new("h32_h2_goaway").tool("create_note").nth(1));
    client.call("late", "create_note", &json!({ "key": "late" }));
    let mut results = [("early", json!(null)), ("late", json!(null))];
    for _ in 0..2 {
        let answer: serde_json::Value = serde_json::from_str(&client.line()).unwrap();
        let slot = results.iter_mut().find(|(id, _)| answer["id"] == *id).unwrap();
        slot.1 = answer["result"].clone();
    }
    assert_eq!(failure(&results[0].1)["outcome"], "unknown", "{}", results[0].1);
    assert_eq!(results[1].1["content"][0]["text"], "wrote late", "{}", results[1].1);
    assert_eq!((site.executions("early"), site.executions("late")), (1, 1));
}

#[test]
fn h33_server_refusing_every_stream_ends_in_refused() {
    let (site, mut client) = at_a_secure_site();
    site.add_fault(Rule::new("h33_h2_refused_stream").tool("create_note"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "refused", "{result}");
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (0, 2));
    site.clear();
    let next = client.result("b", "create_note", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "wrote l", "{next}");
}

#[test]
fn t13_reset_under_many_streams_repeats_reads_only() {
    let (site, mut client) = at_a_secure_site();
    site.add_fault(never_answered("lookup", 3));
    site.add_fault(never_answered("create_note", 3));
    for number in 0..6 {
        let tool = if number % 2 == 0 { "lookup" } else { "create_note" };
        client.call(&number.to_string(), tool, &json!({ "key": format!("k{number}") }));
    }
    site.until("all of them run", |counts| counts.executions.len() == 6);
    site.cut(Ending::Reset);
    for _ in 0..6 {
        let answer: serde_json::Value = serde_json::from_str(&client.line()).unwrap();
        let number: usize = answer["id"].as_str().unwrap().parse().unwrap();
        if number.is_multiple_of(2) {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            assert_eq!(site.executions(&format!("k{number}")), 2);
        } else {
            assert_eq!(failure(&answer["result"])["outcome"], "unknown", "{answer}");
            assert_eq!(site.executions(&format!("k{number}")), 1);
        }
    }
}

#[test]
fn i18_modern_cancellation_resets_only_its_stream() {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(modern(Answers::Events), trusted.good());
    let mut client = trusted.run(&site.url(), &[]);
    client.request("list", "tools/list", &with_modern_meta(json!({})));
    assert!(client.answer("list")["result"]["tools"].is_array());
    for (id, delay) in [("a", 60_000), ("b", 400)] {
        let arguments = json!({ "key": id, "delayMs": delay });
        client.request(id, "tools/call", &with_modern_meta(json!({ "name": "create_note", "arguments": arguments })));
    }
    site.until("both run", |counts| counts.executions.len() == 2);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
    site.until("the server has seen it", |counts| counts.cancellations == 1 && counts.closed_mid_call == 1);
    assert_eq!(client.answer("b")["result"]["content"][0]["text"], "wrote b");
    assert_eq!(site.counts().connections, 1);
}
