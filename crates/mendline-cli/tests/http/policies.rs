//! Breakers and rate limits with failing and overloaded servers.

use std::thread::sleep;
use std::time::{Duration, Instant};

use mendline_faults::Rule;
use serde_json::{Value, json};

use crate::client::{SOON, eventually, failure};
use crate::site::{Site, json_answers};

fn wait(result: &Value) -> Duration {
    Duration::from_millis(failure(result)["retryAfterMs"].as_u64().expect("the retry time"))
}

#[test]
fn i20_breaker_opens_for_failing_tool_and_closes_when_healthy() {
    let site = Site::start(json_answers());
    let mut client = site.client(&["--breaker-reset", "5s"]);
    site.add_fault(Rule::new("h27_502").tool("create_note").first(5).before());
    for round in 0..5 {
        let result = client.result(&format!("a{round}"), "create_note", &json!({ "key": "k" }));
        assert_eq!(failure(&result)["cause"], "outcome_unknown", "{result}");
    }
    eventually("a probe shows that the tool fails, not the server", SOON, || {
        client.log().contains(r#"breaker of the tool "create_note" opened"#)
    });
    let rejected = client.result("b", "create_note", &json!({ "key": "k" }));
    assert_eq!(
        (&failure(&rejected)["cause"], &failure(&rejected)["outcome"]),
        (&json!("breaker_open"), &json!("not_sent"))
    );
    assert!(wait(&rejected) <= Duration::from_secs(5), "{rejected}");
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (0, 5), "nothing was sent");
    sleep(wait(&rejected));
    for id in ["c", "d", "e"] {
        let result = client.result(id, "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{id}: {result}");
    }
    eventually("the log reports it", SOON, || client.log().contains(r#"breaker of the tool "create_note" closed"#));
    assert_eq!(site.executions("k"), 3);
}

#[test]
fn i20_breaker_opens_for_hanging_tool_only() {
    let site = Site::start(json_answers());
    let breaker = ["--breaker-threshold", "2", "--breaker-reset", "1m"];
    let mut client = site.client(&[&breaker[..], &["--tool-timeout", "lookup=1s"]].concat());
    for id in ["a", "b"] {
        let begin = Instant::now();
        let result = client.result(id, "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
        assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
        assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    }
    let rejected = client.result("c", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&rejected)["cause"], "breaker_open", "{rejected}");
    assert!(failure(&rejected)["detail"].as_str().unwrap().contains("of this tool only"), "{rejected}");
    let result = client.result("d", "create_note", &json!({ "key": "l" }));
    assert_eq!(result["content"][0]["text"], "wrote l", "{result}");
    eventually("the log reports it", SOON, || client.log().contains(r#"breaker of the tool "lookup" opened"#));
}

#[test]
fn i21_h30_pause_named_to_one_call_holds_for_all() {
    for value in [json!(2), json!({ "date": 3 })] {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new("h30_429_retry_after").tool("create_note").nth(1).value(value));
        let begin = Instant::now();
        client.call("a", "create_note", &json!({ "key": "a" }));
        eventually("the pause is known", SOON, || client.log().contains("paused for"));
        for id in ["b", "c", "d"] {
            client.call(id, "create_note", &json!({ "key": id }));
        }
        for _ in 0..4 {
            let answer: Value = serde_json::from_str(&client.line()).unwrap();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            // An HTTP date has whole seconds, so a pause of three may be little more than two.
            assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
        }
        let counts = site.counts();
        assert_eq!((counts.struck_by("h30_429_retry_after"), counts.messages_of("tools/call")), (1, 5));
        assert!(!client.log().contains("breaker"), "overload is not a failure");
    }
}

#[test]
fn i21_h28_h30_retry_after_of_one_hour_blocks_no_call() {
    for (fault, outcome) in [("h30_429_retry_after", "refused"), ("h28_503_retry_after", "unknown")] {
        for value in [json!(3_600), json!({ "date": 3_600 })] {
            let site = Site::start(json_answers());
            let mut client = site.client(&[]);
            site.add_fault(Rule::new(fault).tool("create_note").nth(1).value(value));
            let result = client.result("a", "create_note", &json!({ "key": "k" }));
            assert_eq!(failure(&result)["outcome"], outcome, "{fault}: {result}");
            let rejected = client.result("b", "lookup", &json!({ "key": "k" }));
            assert_eq!(failure(&rejected)["cause"], "rate_limited", "{fault}: {rejected}");
            for rejected in [result, rejected] {
                assert!(wait(&rejected) > Duration::from_secs(3_500), "{fault}: {rejected}");
                assert!(wait(&rejected) <= Duration::from_secs(3_600), "{fault}: {rejected}");
            }
            assert_eq!(site.counts().messages_of("tools/call"), 1, "{fault}");
        }
    }
}

#[test]
fn failures_and_statuses_are_chosen_by_policy() {
    let site = Site::start(json_answers());
    let policies = ["--policy", "failures=error", "--policy", "retry.statuses.502=never"];
    let mut client = site.client(&[&policies[..], &["--policy", "retry.statuses.504=always"]].concat());
    site.add_fault(Rule::new("h27_502").tool("lookup"));
    client.call("a", "lookup", &json!({ "key": "k" }));
    let answer: Value = serde_json::from_str(&client.line()).unwrap();
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["data"]["attempts"]), (&json!(-31002), &json!(1)), "{answer}");
    assert_eq!(site.counts().messages_of("tools/call"), 1, "a read is not sent again");
    site.add_fault(Rule::new("h29_504").tool("create_note").nth(1).before());
    let result = client.result("b", "create_note", &json!({ "key": "l" }));
    assert_eq!(result["content"][0]["text"], "wrote l", "{result}");
    assert_eq!((site.executions("l"), site.counts().messages_of("tools/call")), (1, 3), "an unsafe call is");
}

#[test]
fn tool_at_its_limit_delays_no_other_tool() {
    let site = Site::start(json_answers());
    let mut client = site.client(&["--policy", "tools.lookup.limits.inFlight=1"]);
    for id in ["a", "b", "c"] {
        client.call(id, "lookup", &json!({ "key": id, "delayMs": 1_000 }));
    }
    let result = client.result("d", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.counts().messages_of("tools/call"), 2, "one slow call, and the other tool");
    let begin = Instant::now();
    for _ in 0..3 {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    assert!(begin.elapsed() >= Duration::from_secs(2), "one after the other: {:?}", begin.elapsed());
}
