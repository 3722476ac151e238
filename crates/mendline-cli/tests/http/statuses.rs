//! HTTP statuses, HTML pages and invalid JSON in place of answers.
//!
//! A read that may have failed is repeated. An unsafe call is repeated only if the server proves that it did not run.

use std::time::{Duration, Instant};

use mendline_faults::Rule;
use serde_json::json;

use crate::client::failure;
use crate::site::{Site, json_answers};

/// Applies the fault to the first attempt of a read, which must be repeated.
fn assert_read_is_resent(rule: Rule) {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    let fault = rule.fault.clone();
    site.add_fault(rule.tool("lookup").nth(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42", "{fault}: {result}");
    let counts = site.counts();
    assert_eq!((counts.struck_by(&fault), counts.messages_of("tools/call")), (1, 2), "{fault}");
}

/// Applies the fault to an unsafe call, whose outcome must be unknown; `ran` is the count of the server.
fn assert_unsafe_call_is_unknown(rule: Rule, ran: u64) {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    let fault = rule.fault.clone();
    site.add_fault(rule.tool("create_note").nth(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{fault}: {result}");
    assert_eq!(failure(&result)["retryable"], false, "{fault}: {result}");
    assert_eq!(site.executions("k"), ran, "{fault}");
    let next = client.result("b", "create_note", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "wrote l", "{fault}: {next}");
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call")), (ran, 2), "{fault}");
}

#[test]
fn h26_h27_h29_read_after_server_error_is_resent() {
    for fault in ["h26_500", "h27_502", "h29_504"] {
        assert_read_is_resent(Rule::new(fault));
    }
}

#[test]
fn h26_h27_h29_unsafe_call_after_server_error_is_unknown() {
    for fault in ["h26_500", "h27_502", "h29_504"] {
        assert_unsafe_call_is_unknown(Rule::new(fault), 1);
        assert_unsafe_call_is_unknown(Rule::new(fault).before(), 0);
    }
}

#[test]
fn h26_persistent_server_error_is_tried_three_times() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("h26_500").tool("lookup"));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!((&failure(&result)["outcome"], &failure(&result)["attempts"]), (&json!("unknown"), &json!(3)));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("HTTP 500"), "{result}");
    assert_eq!(site.counts().messages_of("tools/call"), 3);
}

#[test]
fn h28_retry_after_of_503_is_kept() {
    let begin = Instant::now();
    assert_read_is_resent(Rule::new("h28_503_retry_after").value(1));
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_unsafe_call_is_unknown(Rule::new("h28_503_retry_after"), 1);
}

#[test]
fn r20_rate_limit_headers_name_the_pause() {
    for value in [json!({ "quota": 2 }), json!({ "unix": 2 })] {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new("h30_429_retry_after").tool("create_note").nth(1).value(value.clone()));
        let begin = Instant::now();
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{value}: {result}");
        // A Unix time has whole seconds; a 429 without a hint would have been sent again after half a second.
        assert!(begin.elapsed() >= Duration::from_millis(1_900), "{value}: {:?}", begin.elapsed());
        assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (1, 2), "{value}");
    }
}

#[test]
fn h30_rate_limited_unsafe_call_is_resent_after_retry_after() {
    for (value, least) in [(json!(1), 1_000), (json!({ "date": 2 }), 900)] {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new("h30_429_retry_after").tool("create_note").nth(1).value(value));
        let begin = Instant::now();
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
        assert!(begin.elapsed() >= Duration::from_millis(least), "{:?}", begin.elapsed());
        assert_eq!((site.executions("k"), site.counts().struck_by("h30_429_retry_after")), (1, 1));
    }
}

#[test]
fn h31_429_without_retry_after_is_retried() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("h31_429_bare").tool("create_note").nth(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!((site.executions("k"), site.counts().struck_by("h31_429_bare")), (1, 1));
}

#[test]
fn h31_always_overloaded_server_ends_in_refused() {
    let site = Site::start(json_answers());
    let mut client = site.client(&["--recovery-timeout", "4s"]);
    site.add_fault(Rule::new("h31_429_bare").tool("create_note"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "refused", "{result}");
    assert_eq!(failure(&result)["retryable"], true, "{result}");
    // Pauses of at least 250, 500 and 1,000 ms, and then of 2 s and more.
    let sent = site.counts().messages_of("tools/call");
    assert!(site.executions("k") == 0 && (3..=5).contains(&sent), "{sent}");
}

#[test]
fn h37_html_page_is_not_accepted_as_answer() {
    assert_read_is_resent(Rule::new("h37_html_instead_of_json"));
    assert_unsafe_call_is_unknown(Rule::new("h37_html_instead_of_json"), 1);
}

#[test]
fn truncated_json_is_not_accepted_as_answer() {
    assert_read_is_resent(Rule::new("truncated_json"));
    assert_unsafe_call_is_unknown(Rule::new("truncated_json"), 1);
}

#[test]
fn json_with_wrong_content_type_is_accepted_and_not_resent() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("wrong_content_type").tool("create_note"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (1, 1));
}

#[test]
fn m65_invalid_json_is_not_accepted_as_answer() {
    assert_read_is_resent(Rule::new("m65_malformed_json"));
    assert_unsafe_call_is_unknown(Rule::new("m65_malformed_json"), 1);
}

#[test]
fn h41_202_to_request_ends_call_with_error() {
    assert_read_is_resent(Rule::new("h41_202_but_no_answer"));
    assert_unsafe_call_is_unknown(Rule::new("h41_202_but_no_answer"), 1);
}

#[test]
fn h40_server_without_get_stream_is_asked_once() {
    let site = Site::start(json_answers());
    site.add_fault(Rule::new("h40_405_on_get"));
    let mut client = site.client(&[]);
    site.until("it is asked", |counts| counts.gets == 1);
    let result = client.result("a", "lookup", &json!({ "key": "k", "delayMs": 1_500 }));
    assert_eq!(result["content"][0]["text"], "k is 42");
    assert_eq!(site.counts().gets, 1, "a fallback is quiet");
}

#[test]
fn m62_m63_unsolicited_responses_do_not_reach_client() {
    for fault in ["m62_unknown_id", "m63_duplicate_response"] {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new(fault).tool("create_note"));
        for (id, tool, key) in [("a", "create_note", "k"), ("b", "lookup", "l")] {
            client.call(id, tool, &json!({ "key": key }));
            let line = client.line();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["id"], id, "{fault}: {line}");
        }
        client.stdin = None;
        assert_eq!(client.rest(), Vec::<String>::new(), "{fault}");
        assert_eq!(site.executions("k"), 1, "{fault}");
    }
}
