//! Servers that exit, send invalid output or stop answering.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Bridge, SOON, Setup, Stderr, eventually, failure, kill, zombies_of};

#[test]
fn p53_server_killed_while_idle_is_replaced_before_next_call() {
    let mut bridge = Bridge::around(&[]);
    kill(bridge.server(), Signal::KILL);
    eventually("the next one starts by itself", SOON, || bridge.noted("start").len() == 2);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k");
    assert_eq!(bridge.executions("create_note", "k"), 1);
}

#[test]
fn p54_read_is_resent_to_new_server() {
    let mut bridge = Bridge::around(&["die-after=1"]);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42");
    assert_eq!(bridge.executions("lookup", "k"), 2);
}

#[test]
fn p54_unsafe_call_with_lost_answer_is_not_resent() {
    let mut bridge = Bridge::around(&["die-after=1"]);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown");
    assert_eq!(failure(&result)["cause"], "outcome_unknown");
    let next = bridge.result("b", "create_note", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "wrote l");
    assert_eq!(bridge.executions("create_note", "k"), 1);
}

#[test]
fn p54_unsafe_call_that_never_ran_is_still_unknown() {
    let mut bridge = Bridge::around(&["die-before=1"]);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown");
    assert_eq!(bridge.executions("create_note", "k"), 0);
}

#[test]
fn p54_unsafe_call_unread_in_pipe_goes_to_next_server() {
    let setup = Setup { options: &["--log-level", "debug"], faults: &["stop-reading=1"], ..Setup::default() };
    let mut bridge = Bridge::start(setup);
    bridge.initialize();
    bridge.call("a", "create_note", &json!({ "key": "read" }));
    eventually("the first call runs", SOON, || bridge.executions("create_note", "read") == 1);
    bridge.call("b", "create_note", &json!({ "key": "unread" }));
    eventually("both are in the pipe", SOON, || bridge.log().matches("attempt 1 started").count() == 4);
    kill(bridge.server(), Signal::KILL);
    assert_eq!(failure(&bridge.answer("a")["result"])["outcome"], "unknown");
    assert_eq!(bridge.answer("b")["result"]["content"][0]["text"], "wrote unread");
    assert_eq!(bridge.executions("create_note", "read"), 1);
    assert_eq!(bridge.executions("create_note", "unread"), 1);
}

#[test]
fn server_death_answers_each_call_in_flight_once() {
    let mut bridge = Bridge::around(&[]);
    for number in 0..20 {
        let tool = if number % 2 == 0 { "lookup" } else { "create_note" };
        // A read is repeated and may be answered before. A write ends with its server.
        let delay = if number % 2 == 0 { 300 } else { 600_000 };
        bridge.call(&number.to_string(), tool, &json!({ "key": format!("k{number}"), "delayMs": delay }));
    }
    eventually("all of them run", SOON, || bridge.ledger().matches("executed ").count() == 20);
    kill(bridge.server(), Signal::KILL);
    let mut answered = vec![0; 20];
    for _ in 0..20 {
        let answer: Value = serde_json::from_str(&bridge.line()).unwrap();
        let number: usize = answer["id"].as_str().unwrap().parse().unwrap();
        answered[number] += 1;
        if number.is_multiple_of(2) {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
        } else {
            assert_eq!(failure(&answer["result"])["outcome"], "unknown");
            assert_eq!(bridge.executions("create_note", &format!("k{number}")), 1);
        }
    }
    assert_eq!(answered, vec![1; 20]);
}

#[test]
fn s48_noise_on_stdout_is_logged_and_not_forwarded() {
    let mut bridge = Bridge::around(&["noise"]);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42");
    eventually("the noise is in the log", SOON, || bridge.log().contains("waiting for requests"));
}

#[test]
fn s49_partial_line_before_eof_is_not_an_answer() {
    let mut bridge = Bridge::around(&["partial-line=1"]);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42");
    assert_eq!(bridge.noted("start").len(), 2);
}

#[test]
fn s50_stderr_flood_blocks_nothing() {
    let setup = Setup { faults: &["stderr-flood=5000"], stderr: Stderr::Ignored, ..Setup::default() };
    let mut bridge = Bridge::start(setup);
    bridge.initialize();
    for number in 0..5 {
        let result = bridge.result(&number.to_string(), "lookup", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "k is 42");
    }
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON), Some(0));
}

#[test]
fn s51_server_that_stops_reading_times_out_call_only() {
    // The timeout applies to the tool only, not to the handshake.
    let options = &["--tool-timeout", "lookup=700ms"];
    let mut bridge = Bridge::start(Setup { options, faults: &["stop-reading=1"], ..Setup::default() });
    bridge.initialize();
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "timed_out");
    let detail = failure(&result)["detail"].as_str().unwrap();
    assert!(detail.starts_with("no answer after "), "only the answer was awaited: {detail}");
}

#[test]
fn m62_to_m65_stray_messages_leave_one_answer_per_request() {
    let mut bridge = Bridge::around(&["unknown-id", "answer-twice", "malformed"]);
    for number in 0..5 {
        bridge.call(&number.to_string(), "lookup", &json!({ "key": format!("k{number}") }));
    }
    bridge.stdin = None;
    let answers: Vec<Value> = bridge.rest().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<&str> = answers.iter().filter_map(|answer| answer["id"].as_str()).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer["result"]["content"][0]["text"], format!("k{number} is 42"));
    }
}

#[test]
fn live_server_with_closed_stdout_is_replaced() {
    let mut bridge = Bridge::around(&["close-stdout=1"]);
    let first = bridge.server();
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42");
    assert_ne!(bridge.server(), first);
    eventually("the first one is gone", SOON, || crate::support::is_gone(first));
}

#[test]
fn p56_slow_start_is_awaited() {
    let mut bridge = Bridge::start(Setup { faults: &["slow-start=600ms"], ..Setup::default() });
    bridge.initialize();
    assert_eq!(bridge.noted("start").len(), 1);
}

#[test]
fn p60_missing_command_is_reported_at_once() {
    let mut bridge = Bridge::start(Setup { command: Some(&["mendline-no-such-command"]), ..Setup::default() });
    bridge.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = bridge.answer("init")["error"].clone();
    assert_eq!(error["data"]["outcome"], "not_sent");
    let words = "`mendline-no-such-command` was not found; is it installed and on PATH?";
    assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON), Some(1));
    assert!(bridge.whole_log().contains(words));
}

#[test]
fn t09_crash_is_explained_by_the_line_that_names_it() {
    let crash = "echo \"Error: Cannot find module 'x'\" >&2; echo 'Node.js v20.20.2' >&2; exit 1";
    let mut bridge = Bridge::start(Setup { command: Some(&["sh", "-c", crash]), ..Setup::default() });
    bridge.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let words = "stderr: Error: Cannot find module 'x'";
    eventually("the crash is explained", SOON, || bridge.log().contains(words));
    assert!(!bridge.log().contains("stderr: Node.js"), "{}", bridge.log());
}

#[test]
fn dead_servers_are_reaped() {
    let mut bridge = Bridge::around(&[]);
    for round in 0..3 {
        kill(bridge.server(), Signal::KILL);
        bridge.result(&round.to_string(), "lookup", &json!({ "key": "k" }));
    }
    let id = bridge.process.id();
    eventually("no zombie is left", SOON, || zombies_of(id).is_empty());
}

#[test]
fn i12_secret_in_environment_appears_nowhere() {
    const CANARY: &str = "canary-5f1e77";
    let setup = Setup {
        options: &["--log-level", "debug"],
        faults: &["die-after=2", "noise"],
        environment: &[("API_TOKEN", CANARY)],
        ..Setup::default()
    };
    let mut bridge = Bridge::start(setup);
    bridge.initialize();
    for (id, tool) in [("a", "lookup"), ("b", "create_note"), ("c", "lookup")] {
        let answer = bridge.result(id, tool, &json!({ "key": id }));
        assert!(!answer.to_string().contains(CANARY));
    }
    // The server got the variable.
    let environment = std::fs::read(format!("/proc/{}/environ", bridge.server())).unwrap();
    assert!(environment.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
    bridge.stdin = None;
    assert!(bridge.rest().iter().all(|line| !line.contains(CANARY)));
    let log = bridge.whole_log();
    assert!(log.contains("DEBUG") && !log.contains(CANARY), "{log}");
}
