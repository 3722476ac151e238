//! Redirects: those within the origin are followed, others are refused.

use mendline_faults::Rule;
use serde_json::json;

use crate::client::{Client, failure};
use crate::site::{Site, initialized, json_answers, run};

#[test]
fn h38_redirect_within_origin_is_followed_and_runs_once() {
    for status in [307, 308] {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new("h38_redirect_same_origin").value(status));
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{status}: {result}");
        assert_eq!(site.executions("k"), 1);
        assert!(site.oracle().seen().iter().any(|seen| seen.path == "/moved/mcp"));
    }
}

#[test]
fn h38_redirect_from_post_to_get_is_not_followed() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("h38_redirect_same_origin").value(302));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert!(failure(&result)["detail"].as_str().unwrap().contains("302"), "{result}");
    assert_eq!(site.executions("k"), 0);
    assert!(site.oracle().seen().iter().all(|seen| seen.path == "/mcp"));
}

#[test]
fn h39_i13_redirect_to_other_origin_is_refused_and_sends_nothing() {
    for status in [301, 302, 303, 307, 308] {
        let site = Site::start(json_answers());
        let mut client = initialized(&site.url(), &["--header", "Authorization: Bearer secret-of-the-origin"]);
        site.add_fault(Rule::new("h39_redirect_elsewhere").value(status));
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["isError"], true, "{status}: {result}");
        // 307 and 308 prove that the request was not processed. The other statuses prove nothing.
        let expected = if status >= 307 { "refused" } else { "unknown" };
        assert_eq!(failure(&result)["outcome"], expected, "{status}: {result}");
        assert_eq!((site.executions("k"), site.counts().elsewhere), (0, vec![]), "{status}");
        site.clear();
        assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42", "{status}");
    }
}

#[test]
fn i13_endpoint_at_other_origin_is_refused_and_sends_nothing() {
    let site = Site::start(json_answers());
    site.add_fault(Rule::new("endpoint_elsewhere"));
    let options = ["--call-timeout", "2s", "--header", "Authorization: Bearer secret-of-the-origin"];
    let mut client: Client = run(&site.sse_url(), &options, &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = client.answer("init")["error"].clone();
    // The POST that detects the transport was refused.
    assert_eq!(error["data"]["outcome"], "refused", "{error}");
    assert!(error["message"].as_str().unwrap().contains("where nothing may be sent"), "{error}");
    let counts = site.counts();
    assert_eq!(counts.elsewhere, vec![]);
    assert!(counts.gets <= 5, "{counts:?}");
}
