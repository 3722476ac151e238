//! Changes of the configuration file while the gateway runs.

use serde_json::json;

use super::call;
use super::gateway::{Gateway, eventually};

fn is_served(gateway: &Gateway, name: &str) -> bool {
    gateway.send("GET", &format!("/readyz/{name}"), &[], "").status == 200
}

fn look_up(gateway: &Gateway, name: &str, session: &str) {
    let answer = gateway.send(
        "POST",
        &format!("/mcp/{name}"),
        &[("Mcp-Session-Id", session)],
        &call(2, "lookup", &json!({ "key": "a" })),
    );
    let answer = answer.json();
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
}

#[test]
fn added_server_is_served_and_sessions_of_others_stay() {
    let gateway = Gateway::with_servers(&json!({ "demo": {} }));
    let session = gateway.initialize("2025-11-25");
    look_up(&gateway, "demo", &session);
    let children = gateway.children();
    gateway.write_servers(&json!({ "demo": {}, "second": {}, "third": {} }));
    eventually("the servers are added", || is_served(&gateway, "second") && is_served(&gateway, "third"));
    look_up(&gateway, "second", "none");
    look_up(&gateway, "third", "none");
    look_up(&gateway, "demo", &session);
    assert!(gateway.children().contains(&children[0]), "the first process runs on");
}

#[test]
fn removed_server_ends_with_its_process() {
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "second": {} }));
    let session = gateway.initialize("2025-11-25");
    look_up(&gateway, "demo", &session);
    look_up(&gateway, "second", "none");
    gateway.write_servers(&json!({ "demo": {} }));
    eventually("the server is removed", || !is_served(&gateway, "second") && gateway.children().len() == 1);
    look_up(&gateway, "demo", &session);
    let answer = gateway.send("POST", "/mcp/second", &[], &call(3, "lookup", &json!({})));
    assert_eq!(answer.status, 404);
    gateway.write_servers(&json!({ "demo": {}, "second": {} }));
    eventually("the server is back", || is_served(&gateway, "second"));
    look_up(&gateway, "second", "none");
}

#[test]
fn running_call_of_removed_server_is_answered() {
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "second": {} }));
    let slow = call(2, "lookup", &json!({ "key": "a", "delayMs": 4_000 }));
    let mut answer = gateway.send("POST", "/mcp/second", &[], &slow);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    gateway.write_servers(&json!({ "demo": {} }));
    eventually("the server is removed", || !is_served(&gateway, "second"));
    assert_eq!(answer.message()["result"]["content"][0]["text"], "a is 42");
}

#[test]
fn changed_command_replaces_the_process() {
    let gateway = Gateway::with_servers(&json!({ "demo": {} }));
    let session = gateway.initialize("2025-11-25");
    look_up(&gateway, "demo", &session);
    let children = gateway.children();
    gateway.write_servers(&json!({ "demo": { "env": { "ANOTHER": "value" } } }));
    eventually("the process is replaced", || gateway.children().first().is_some_and(|it| *it != children[0]));
    look_up(&gateway, "demo", &session);
}

#[test]
fn file_with_mistake_changes_nothing() {
    let gateway = Gateway::with_servers(&json!({ "demo": {} }));
    let session = gateway.initialize("2025-11-25");
    gateway.write_servers(&json!({ "second": {}, "demo": { "idel": "1s" } }));
    gateway.wait_for_log("the old configuration stays");
    assert!(is_served(&gateway, "demo") && !is_served(&gateway, "second"));
    look_up(&gateway, "demo", &session);
    gateway.write_text("{ half");
    gateway.wait_for_log("the old configuration stays");
    look_up(&gateway, "demo", &session);
}

#[test]
fn sighup_reads_the_file_again() {
    let gateway = Gateway::with_servers(&json!({ "demo": {} }));
    gateway.write_text("{ half");
    gateway.wait_for_log("the old configuration stays");
    gateway.signal(rustix::process::Signal::HUP);
    gateway.wait_for_log("the old configuration stays");
    assert!(is_served(&gateway, "demo"));
}
