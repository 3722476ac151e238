//! Rate limits and tool timeouts with a real child.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bridge, Setup, failure};

fn bridge_with(options: &[&str]) -> Bridge {
    let mut bridge = Bridge::start(Setup { options, ..Setup::default() });
    bridge.initialize();
    bridge
}

#[test]
fn i21_rate_limit_holds_and_serves_every_call() {
    let mut bridge = bridge_with(&["--rate-limit", "5/s:2"]);
    let begin = Instant::now();
    let ids: Vec<String> = (0..8).map(|number| format!("call{number}")).collect();
    for id in &ids {
        bridge.call(id, "create_note", &json!({ "key": id }));
    }
    for _ in &ids {
        let answer: Value = serde_json::from_str(&bridge.line()).unwrap();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    // Two calls are sent at once, less what the handshake used. Each further call follows after 200 ms.
    assert!(begin.elapsed() >= Duration::from_millis(1_100), "{:?}", begin.elapsed());
    for id in &ids {
        assert_eq!(bridge.executions("create_note", id), 1);
    }
}

#[test]
fn i21_call_that_would_wait_too_long_is_rejected_at_once() {
    // Two for the handshake and its list, one for the first call.
    let mut bridge = bridge_with(&["--rate-limit", "1/m:3"]);
    let first = bridge.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(first["isError"], false, "{first}");
    let rejected = bridge.result("b", "create_note", &json!({ "key": "b" }));
    assert_eq!(
        (&failure(&rejected)["cause"], &failure(&rejected)["outcome"]),
        (&json!("rate_limited"), &json!("not_sent"))
    );
    let wait = failure(&rejected)["retryAfterMs"].as_u64().unwrap();
    assert!((45_000..=60_000).contains(&wait), "{rejected}");
    assert_eq!(bridge.executions("create_note", "b"), 0);
}

#[test]
fn i20_breaker_opens_for_hanging_tool_of_child_only() {
    let mut bridge = bridge_with(&["--breaker-threshold", "2", "--tool-timeout", "lookup=300ms"]);
    for id in ["a", "b"] {
        let result = bridge.result(id, "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
        assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    }
    let rejected = bridge.result("c", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&rejected)["cause"], "breaker_open", "{rejected}");
    let result = bridge.result("d", "create_note", &json!({ "key": "l" }));
    assert_eq!(result["content"][0]["text"], "wrote l", "{result}");
}
