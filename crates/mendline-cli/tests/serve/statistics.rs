//! `mendline stats` counts what a gateway recovers, by the name of the server.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::gateway::{Gateway, MENDLINE, eventually};
use super::{call, initialize};

/// Opens a session with a server. Returns its id.
fn open(gateway: &Gateway, server: &str) -> String {
    let path = format!("/mcp/{server}");
    let answer = gateway.send("POST", &path, &[], &initialize("2025-11-25"));
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(gateway.send("POST", &path, &[("Mcp-Session-Id", &session)], initialized).status, 202);
    look_up(gateway, server, &session);
    session
}

fn look_up(gateway: &Gateway, server: &str, session: &str) {
    let body = call(2, "lookup", &json!({ "key": "a" }));
    let answer = gateway.send("POST", &format!("/mcp/{server}"), &[("Mcp-Session-Id", session)], &body).json();
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
}

/// Kills a process, and waits until another one runs in its place.
fn kill(gateway: &Gateway, child: Pid) {
    let count = gateway.children().len();
    kill_process(child, Signal::KILL).unwrap();
    eventually("the server is restarted", || {
        let children = gateway.children();
        children.len() == count && !children.contains(&child)
    });
}

/// Ends the gateway, and returns the counts of a server.
fn counts(gateway: &mut Gateway, server: &str) -> Value {
    assert_eq!(gateway.terminate(), Some(0));
    let mut command = Command::new(MENDLINE);
    let output = command.args(["stats", server, "--json"]).envs(gateway.environment()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["servers"][0]["name"], server);
    all["servers"][0].clone()
}

#[test]
fn restart_behind_the_gateway_is_counted() {
    let mut gateway = Gateway::with_servers(&json!({ "demo": {} }));
    let session = open(&gateway, "demo");
    kill(&gateway, gateway.children()[0]);
    look_up(&gateway, "demo", &session);
    let counts = counts(&mut gateway, "demo");
    assert_eq!((&counts["restarts"], &counts["failed"]), (&json!(1), &json!(0)), "{counts}");
    assert!(counts["awayMs"].as_u64().unwrap() > 0, "{counts}");
}

#[test]
fn server_added_by_reload_is_counted() {
    let mut gateway = Gateway::with_servers(&json!({ "demo": {} }));
    gateway.write_servers(&json!({ "demo": {}, "second": {} }));
    eventually("the server is added", || gateway.send("GET", "/readyz/second", &[], "").status == 200);
    let session = open(&gateway, "second");
    kill(&gateway, gateway.children()[0]);
    look_up(&gateway, "second", &session);
    let counts = counts(&mut gateway, "second");
    assert_eq!(counts["restarts"], json!(1), "{counts}");
}

#[test]
fn process_of_a_single_client_counts_for_its_server() {
    let mut gateway = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" } }));
    let sessions = [open(&gateway, "demo"), open(&gateway, "demo")];
    let children = gateway.children();
    assert_eq!(children.len(), 2);
    children.into_iter().for_each(|child| kill(&gateway, child));
    sessions.iter().for_each(|session| look_up(&gateway, "demo", session));
    let counts = counts(&mut gateway, "demo");
    assert_eq!(counts["restarts"], json!(2), "{counts}");
}
