//! Shutdown: by EOF, by signal, by SIGKILL, or by the exit of the client.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Bridge, SOON, Setup, children_of, eventually, is_gone, kill};

/// The longest time that any process may outlive Mendline.
const FIVE_SECONDS: Duration = Duration::from_secs(5);

/// The time that running calls have during shutdown.
const DRAIN: Duration = Duration::from_secs(10);

#[test]
fn eof_on_stdin_ends_mendline_cleanly() {
    let mut bridge = Bridge::around(&[]);
    let server = bridge.server();
    let children = children_of(bridge.process.id());
    assert!(children.len() >= 2, "a server and a guard: {children:?}");
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON), Some(0));
    assert!(is_gone(server));
    // The guard exits when it sees that Mendline is gone.
    eventually("the guard is gone", SOON, || children.iter().all(|child| is_gone(*child)));
    assert_eq!(bridge.noted("eof"), [server]);
}

#[test]
fn calls_in_flight_at_eof_are_answered() {
    let mut bridge = Bridge::around(&[]);
    bridge.call("a", "lookup", &json!({ "key": "k", "delayMs": 200 }));
    bridge.stdin = None;
    let rest = bridge.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains("k is 42"));
    assert_eq!(bridge.exit_code(SOON), Some(0));
}

/// Sends messages and closes stdin at once.
fn send_and_close(bridge: &mut Bridge, messages: &[Value]) {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    // One write, so that no part is read before the rest.
    bridge.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
}

fn cancelled(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

#[test]
fn cancellation_just_before_eof_reaches_server() {
    let mut bridge = Bridge::around(&[]);
    bridge.call("a", "create_note", &json!({ "key": "k", "delayMs": 60_000 }));
    eventually("the call runs", SOON, || bridge.executions("create_note", "k") == 1);
    send_and_close(&mut bridge, &[cancelled("a")]);
    assert_eq!(bridge.rest(), Vec::<String>::new(), "no answer is awaited");
    assert_eq!(bridge.exit_code(SOON), Some(0));
    let server = bridge.server();
    let seen = bridge.ledger().lines().last().map(str::to_owned);
    assert_eq!((bridge.noted("cancelled"), seen), (vec![server], Some(format!("eof {server}"))));
}

#[test]
fn call_and_cancellation_before_eof_arrive_both_or_neither() {
    for _ in 0..5 {
        let mut bridge = Bridge::around(&[]);
        let params = json!({ "name": "create_note", "arguments": { "key": "k", "delayMs": 60_000 } });
        let call = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params });
        send_and_close(&mut bridge, &[call, cancelled("a")]);
        assert_eq!(bridge.rest(), Vec::<String>::new());
        assert_eq!(bridge.exit_code(SOON), Some(0));
        assert_eq!(bridge.noted("cancelled").len(), bridge.executions("create_note", "k"), "{}", bridge.ledger());
    }
}

#[test]
fn x92_sigterm_lets_running_calls_finish() {
    let mut bridge = Bridge::around(&[]);
    bridge.call("a", "create_note", &json!({ "key": "k", "delayMs": 300 }));
    eventually("the call runs", SOON, || bridge.executions("create_note", "k") == 1);
    bridge.signal(Signal::TERM);
    let rest = bridge.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains("wrote k"));
    assert_eq!(bridge.exit_code(SOON), Some(0));
    assert!(is_gone(bridge.server()));
}

#[test]
fn x92_second_sigterm_ends_at_once_and_answers_calls() {
    let mut bridge = Bridge::around(&[]);
    bridge.call("a", "create_note", &json!({ "key": "k", "delayMs": 60_000 }));
    eventually("the call runs", SOON, || bridge.executions("create_note", "k") == 1);
    let begin = Instant::now();
    bridge.signal(Signal::TERM);
    eventually("the first signal is handled", SOON, || bridge.log().contains("stopping"));
    bridge.signal(Signal::TERM);
    let rest = bridge.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains(r#""outcome":"unknown""#), "{rest:?}");
    assert!(begin.elapsed() < DRAIN, "it waited for the call: {:?}", begin.elapsed());
    bridge.exit_code(SOON);
    assert!(is_gone(bridge.server()));
}

#[test]
fn p58_server_ignoring_eof_and_term_is_killed_with_group() {
    let mut bridge = Bridge::around(&["ignore-eof", "ignore-term", "grandchild"]);
    eventually("the grandchild runs", SOON, || !bridge.noted("grandchild").is_empty());
    let (server, grandchild) = (bridge.server(), bridge.noted("grandchild")[0]);
    let begin = Instant::now();
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON + SOON), Some(0));
    assert!(begin.elapsed() >= Duration::from_secs(3), "it was not given its time: {:?}", begin.elapsed());
    assert!(is_gone(server));
    eventually("its group is gone", SOON, || is_gone(grandchild));
}

#[test]
fn p59_grandchild_holding_pipes_is_killed_with_parent() {
    let mut bridge = Bridge::around(&["grandchild"]);
    eventually("the grandchild runs", SOON, || !bridge.noted("grandchild").is_empty());
    let grandchild = bridge.noted("grandchild")[0];
    kill(bridge.server(), Signal::KILL);
    let result = bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42");
    eventually("the grandchild is gone", SOON, || is_gone(grandchild));
}

#[test]
fn x91_no_process_outlives_killed_mendline() {
    let mut bridge = Bridge::around(&["ignore-eof", "ignore-term", "grandchild"]);
    eventually("the grandchild runs", SOON, || !bridge.noted("grandchild").is_empty());
    let mut all = children_of(bridge.process.id());
    all.extend(bridge.noted("grandchild"));
    assert_eq!(all.len(), 3, "a guard, a server and its grandchild: {all:?}");
    assert!(all.iter().all(|pid| !is_gone(*pid)));
    bridge.process.kill().unwrap();
    bridge.process.wait().unwrap();
    eventually("guard, server and grandchild are gone", FIVE_SECONDS, || all.iter().all(|pid| is_gone(*pid)));
}

#[test]
fn x91_killed_guard_is_replaced_with_next_server() {
    let mut bridge = Bridge::around(&[]);
    let id = bridge.process.id();
    let first = bridge.server();
    let guard = children_of(id).into_iter().find(|pid| *pid != first).unwrap();
    kill(guard, Signal::KILL);
    // While it exits, it could still be taken for a working guard.
    eventually("the guard is gone", SOON, || is_gone(guard));
    kill(first, Signal::KILL);
    bridge.result("a", "lookup", &json!({ "key": "k" }));
    let server = bridge.server();
    eventually("there is a new guard", SOON, || {
        children_of(id).iter().any(|pid| ![server, guard, first].contains(pid) && !is_gone(*pid))
    });
}

#[test]
fn x91_killing_mendline_by_name_spares_guard() {
    let bridge = Bridge::around(&[]);
    let guards: Vec<String> = children_of(bridge.process.id())
        .into_iter()
        .filter(|pid| *pid != bridge.server())
        .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap())
        .collect();
    assert_eq!(guards, ["mdl-guard\0__guard\0"]);
}

#[test]
fn x99_closed_stdout_counts_as_client_exit() {
    let mut bridge = Bridge::around(&[]);
    let server = bridge.server();
    bridge.lines = None;
    // The reading thread closes the pipe after the next line, and the next write fails.
    for number in 0..3 {
        let params = json!({ "name": "lookup", "arguments": { "key": "k" } });
        let call = json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params });
        // Mendline may have exited already.
        let _ = bridge.stdin.as_mut().unwrap().write_all(format!("{call}\n").as_bytes());
        let ran = format!("executed lookup k {server}");
        eventually("the call runs", SOON, || bridge.ledger().matches(&ran).count() > number || is_gone(server));
        if is_gone(server) {
            break;
        }
    }
    bridge.exit_code(SOON);
    assert!(is_gone(server));
}

#[test]
fn empty_stdin_ends_mendline() {
    let mut bridge = Bridge::start(Setup { stdin: Some(Stdio::null()), ..Setup::default() });
    bridge.exit_code(SOON);
    assert_eq!(bridge.rest(), Vec::<String>::new());
}
