//! Suspension and manual reconnect of Mendline with a child: the link is checked at once.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Bridge, SOON, Setup, eventually, is_gone, is_stopped, kill};

/// Stops Mendline for a while, like a suspended terminal or machine.
fn suspend(bridge: &Bridge) {
    bridge.signal(Signal::STOP);
    let id = i32::try_from(bridge.process.id()).unwrap();
    eventually("it is stopped", SOON, || is_stopped(id));
    bridge.signal(Signal::CONT);
}

#[test]
fn x96_child_is_pinged_after_suspend() {
    let mut bridge = Bridge::around(&[]);
    assert_eq!(bridge.noted("ping"), [0; 0], "it was not silent for long");
    suspend(&bridge);
    eventually("it is asked", SOON, || bridge.noted("ping") == [bridge.server()]);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k");
    // The log is written by another thread.
    let count = || bridge.log().matches("all servers are tested or redialed").count();
    eventually("the log reports it", SOON, || count() > 0);
    assert_eq!(count(), 1, "{}", bridge.log());
    assert_eq!(bridge.noted("start").len(), 1, "the child was alive and is kept");
}

#[test]
fn x96_child_that_died_during_suspend_is_replaced() {
    let mut bridge = Bridge::around(&[]);
    bridge.signal(Signal::STOP);
    let id = i32::try_from(bridge.process.id()).unwrap();
    eventually("it is stopped", SOON, || is_stopped(id));
    let server = bridge.server();
    kill(server, Signal::KILL);
    // Until it is gone it may still read, and the outcome of the call would be unknown.
    eventually("it is gone", SOON, || is_gone(server));
    bridge.call("a", "create_note", &json!({ "key": "k" }));
    bridge.signal(Signal::CONT);
    assert_eq!(bridge.answer("a")["result"]["content"][0]["text"], "wrote k");
    assert_eq!((bridge.executions("create_note", "k"), bridge.noted("start").len()), (1, 2));
}

#[test]
fn child_is_not_pinged_without_keep_alive() {
    let mut bridge = Bridge::start(Setup { options: &["--keep-alive", "off"], ..Setup::default() });
    bridge.initialize();
    suspend(&bridge);
    eventually("it was noticed", SOON, || bridge.log().contains("all servers are tested or redialed"));
    // A ping would be in the pipe before the call.
    bridge.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(bridge.noted("ping"), [0; 0]);
}

#[test]
fn manual_reconnect_replaces_child() {
    let mut bridge = Bridge::around(&[]);
    let first = bridge.server();
    bridge.signal(Signal::USR1);
    eventually("the next one starts", SOON, || bridge.noted("start").len() == 2);
    let result = bridge.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k");
    assert!(is_gone(first));
    eventually("the log reports it", SOON, || bridge.log().contains("requested manually"));
    assert_eq!(bridge.noted("eof"), [first], "it was let go in order");
}

#[test]
fn manual_reconnect_starts_server_without_automatic_reconnect() {
    let options = &["--log-level", "debug", "--no-reconnect"];
    let mut bridge = Bridge::start(Setup { options, ..Setup::default() });
    bridge.initialize();
    kill(bridge.server(), Signal::KILL);
    eventually("it is left alone", SOON, || bridge.log().contains("Up → Idle"));
    bridge.signal(Signal::USR1);
    eventually("the next one starts", SOON, || bridge.noted("start").len() == 2);
}
