//! Options for reconnecting and retrying, with a real child.

use std::fs;
use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Bridge, SOON, Setup, eventually, failure, is_gone, kill};

/// Longer than the shutdown sequence EOF, TERM, KILL.
const SHUTDOWN: Duration = Duration::from_secs(30);

fn bridge_with(options: &[&str], faults: &[&str]) -> Bridge {
    let mut bridge = Bridge::start(Setup { options, faults, ..Setup::default() });
    bridge.initialize();
    bridge
}

#[test]
fn failing_server_is_parked_after_configured_retries() {
    let options = &["--max-retries", "2", "--initial-retry-delay", "20ms"];
    let mut bridge = Bridge::start(Setup { options, faults: &["exit-at-once"], ..Setup::default() });
    eventually("it is parked", SOON, || bridge.log().contains("→ Parked"));
    assert_eq!(bridge.noted("start").len(), 3, "the first start and two retries: {}", bridge.log());
    bridge.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    assert_eq!(bridge.answer("init")["error"]["data"]["cause"], "parked");
    assert_eq!(bridge.noted("start").len(), 3, "a call does not wake it so soon");
}

#[test]
fn no_reconnect_dials_lost_server_once_with_next_call() {
    for options in [&["--log-level", "debug", "--no-reconnect"][..], &["--log-level", "debug", "--max-retries", "0"]] {
        let mut bridge = bridge_with(options, &[]);
        kill(bridge.server(), Signal::KILL);
        eventually("it is left alone", SOON, || bridge.log().contains("Up → Idle"));
        assert_eq!(bridge.noted("start").len(), 1);
        let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{options:?}: {result}");
        assert_eq!(bridge.noted("start").len(), 2);
    }
}

#[test]
fn no_reconnect_call_without_server_dials_once_and_fails() {
    let setup =
        Setup { options: &["--log-level", "debug", "--no-reconnect"], faults: &["exit-at-once"], ..Setup::default() };
    let mut bridge = Bridge::start(setup);
    eventually("the first start is over", SOON, || bridge.log().contains("→ Idle"));
    bridge.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = bridge.answer("init")["error"].clone();
    assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
    assert_eq!(bridge.noted("start").len(), 2, "{}", bridge.log());
}

#[test]
fn reconnect_is_shown_as_progress_on_request() {
    let mut bridge = bridge_with(&["--tell-client", "--initial-retry-delay", "300ms"], &["die-after=1"]);
    let params = json!({ "name": "lookup", "arguments": { "key": "k" }, "_meta": { "progressToken": "mine" } });
    bridge.request("a", "tools/call", &params);
    let notification: Value = serde_json::from_str(&bridge.line()).unwrap();
    assert_eq!(
        (notification["method"].as_str(), &notification["params"]["progressToken"]),
        (Some("notifications/progress"), &json!("mine"))
    );
    let words = notification["params"]["message"].as_str().unwrap();
    assert!(words.starts_with("reconnecting to ") && words.ends_with("attempt 1 of 10"), "{words}");
    assert_eq!(bridge.answer("a")["result"]["content"][0]["text"], "k is 42");
}

#[test]
fn reconnect_is_not_shown_without_request() {
    let mut bridge = bridge_with(&["--initial-retry-delay", "300ms"], &["die-after=1"]);
    let params = json!({ "name": "lookup", "arguments": { "key": "k" }, "_meta": { "progressToken": "mine" } });
    bridge.request("a", "tools/call", &params);
    let first: Value = serde_json::from_str(&bridge.line()).unwrap();
    assert_eq!(first["result"]["content"][0]["text"], "k is 42", "{first}");
}

#[test]
fn tool_configured_as_idempotent_is_resent() {
    let mut bridge = bridge_with(&["--effect", "create_note=idempotent"], &["die-after=1"]);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(bridge.executions("create_note", "k"), 2);
}

#[test]
fn tool_configured_as_unsafe_is_never_resent() {
    let mut bridge = bridge_with(&["--effect", "lookup=unsafe"], &["die-after=1"]);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown");
    assert_eq!(bridge.executions("lookup", "k"), 1);
}

#[test]
fn untrusted_hints_are_ignored() {
    let mut bridge = bridge_with(&["--no-trust-hints", "--effect", "big=read"], &["die-after=1", "die-after=2"]);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown");
    let result = bridge.result("b", "big", &json!({ "key": "b", "bytes": 3 }));
    assert_eq!(result["content"][0]["text"], "xxx", "the configured effect still applies: {result}");
    assert_eq!((bridge.executions("lookup", "k"), bridge.executions("big", "b")), (1, 2));
}

#[test]
fn max_attempts_of_one_sends_once() {
    let mut bridge = bridge_with(&["--max-attempts", "1"], &["die-after=1"]);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown");
    assert_eq!(bridge.executions("lookup", "k"), 1);
}

#[test]
fn p57_child_that_froze_while_idle_is_replaced() {
    let mut bridge = bridge_with(&["--keep-alive", "1s", "--keep-alive-timeout", "500ms"], &[]);
    let frozen = bridge.server();
    kill(frozen, Signal::STOP);
    // A busy machine may let the next child look frozen too. The call then reaches a later one.
    eventually("the next one starts", SHUTDOWN, || bridge.server() != frozen);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k");
    eventually("the frozen one is gone", SOON, || is_gone(frozen));
    eventually("the log reports it", SOON, || bridge.log().contains("did not answer 2 pings"));
}

#[test]
fn child_exceeding_handshake_timeout_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    fs::write(&gate, "").unwrap();
    let bridge = bridge_with(&["--handshake-timeout", "300ms"], &[&format!("wait-for={}", gate.display())]);
    // The next child never answers its handshake.
    fs::remove_file(&gate).unwrap();
    kill(bridge.server(), Signal::KILL);
    eventually("it is given up", SOON, || bridge.log().contains("did not answer the handshake in time"));
}

#[test]
fn l82_calls_beyond_configured_limits_are_rejected_at_once() {
    let mut bridge = bridge_with(&["--max-in-flight", "1", "--max-waiting", "1"], &[]);
    let call = |id: &str| {
        let params = json!({ "name": "lookup", "arguments": { "key": id, "delayMs": 500 } });
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    };
    // One write, so that the third call arrives before the first ends.
    let calls = ["runs", "waits", "refused"].map(call).concat();
    bridge.stdin.as_mut().unwrap().write_all(calls.as_bytes()).unwrap();
    let first: Value = serde_json::from_str(&bridge.line()).unwrap();
    assert_eq!(first["id"], "refused", "{first}");
    assert_eq!(failure(&first["result"])["cause"], "overloaded", "{first}");
    for id in ["runs", "waits"] {
        assert_eq!(bridge.answer(id)["result"]["content"][0]["text"], format!("{id} is 42"));
    }
    assert_eq!(bridge.executions("lookup", "refused"), 0);
}
