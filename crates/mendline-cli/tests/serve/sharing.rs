//! Clients of one server that share a process or not, and processes that end when no client uses them.

use serde_json::{Value, json};

use super::gateway::{Gateway, eventually};
use super::{call, request};

/// Opens a session with these capabilities. Returns its id.
fn open(gateway: &Gateway, capabilities: &Value) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" },
    });
    let answer = gateway.post(&[], &request(1, "initialize", &params));
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(gateway.post(&[("Mcp-Session-Id", &session)], initialized).status, 202);
    session
}

fn look_up(gateway: &Gateway, session: &str) {
    let answer = gateway.post(&[("Mcp-Session-Id", session)], &call(2, "lookup", &json!({ "key": "a" }))).json();
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
}

fn delete(gateway: &Gateway, session: &str) {
    assert_eq!(gateway.send("DELETE", "/mcp/demo", &[("Mcp-Session-Id", session)], "").status, 204);
}

/// The number of processes besides the first.
fn further(gateway: &Gateway) -> u64 {
    gateway.server_status("demo")["sessions"].as_u64().unwrap()
}

fn process(gateway: &Gateway) -> Value {
    gateway.server_status("demo")["facts"]["process"].clone()
}

#[test]
fn equal_clients_share_one_process() {
    let gateway = Gateway::start(&[]);
    let sessions = [open(&gateway, &json!({})), open(&gateway, &json!({}))];
    sessions.iter().for_each(|session| look_up(&gateway, session));
    assert_eq!(further(&gateway), 0);
}

#[test]
fn clients_with_roots_have_a_process_each_until_they_leave() {
    let gateway = Gateway::start(&[]);
    let sessions = [0; 3].map(|_| open(&gateway, &json!({ "roots": {} })));
    sessions.iter().for_each(|session| look_up(&gateway, session));
    assert_eq!((further(&gateway), gateway.children().len()), (2, 3));
    sessions.iter().for_each(|session| delete(&gateway, session));
    eventually("all processes end", || gateway.children().is_empty() && further(&gateway) == 0);
    assert_eq!(process(&gateway), "idle");
    look_up(&gateway, &open(&gateway, &json!({})));
}

#[test]
fn configured_server_has_a_process_for_each_client() {
    let gateway = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" } }));
    let sessions = [0; 2].map(|_| open(&gateway, &json!({})));
    sessions.iter().for_each(|session| look_up(&gateway, session));
    assert_eq!((further(&gateway), gateway.children().len()), (1, 2));
    delete(&gateway, &sessions[1]);
    eventually("its process ends", || gateway.children().len() == 1);
    look_up(&gateway, &sessions[0]);
}

#[test]
fn killed_process_of_one_client_does_not_disturb_the_other() {
    let gateway = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" } }));
    let sessions = [0; 2].map(|_| open(&gateway, &json!({})));
    sessions.iter().for_each(|session| look_up(&gateway, session));
    let children = gateway.children();
    rustix::process::kill_process(children[1], rustix::process::Signal::KILL).unwrap();
    sessions.iter().for_each(|session| look_up(&gateway, session));
    assert!(gateway.children().contains(&children[0]));
}

#[test]
fn unused_process_ends_and_starts_on_use() {
    let gateway = Gateway::with_servers(&json!({ "demo": { "idle": "1s" } }));
    let session = open(&gateway, &json!({}));
    look_up(&gateway, &session);
    eventually("its process ends", || gateway.children().is_empty());
    assert_eq!((process(&gateway), &gateway.server_status("demo")["state"]["kind"]), (json!("idle"), &json!("idle")));
    assert_eq!(gateway.send("GET", "/readyz/demo", &[], "").status, 200, "the next request starts it");
    look_up(&gateway, &session);
    assert_eq!(gateway.children().len(), 1);
}

#[test]
fn clients_of_url_have_a_session_each_until_they_leave() {
    let server = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" } }));
    let url = format!("http://{}/mcp/demo", server.address);
    let gateway = Gateway::with_servers(&json!({ "demo": { "url": url } }));
    let sessions = [0; 3].map(|_| open(&gateway, &json!({})));
    sessions.iter().for_each(|session| look_up(&gateway, session));
    assert_eq!((server.children().len(), further(&gateway)), (3, 2));
    delete(&gateway, &sessions[0]);
    delete(&gateway, &sessions[1]);
    eventually("their sessions end", || server.children().len() == 1 && further(&gateway) == 1);
    look_up(&gateway, &sessions[2]);
    let next = open(&gateway, &json!({}));
    look_up(&gateway, &next);
    assert_eq!((server.children().len(), further(&gateway)), (2, 1), "the first upstream is used again");
}

#[test]
fn clients_of_url_share_a_session_if_configured() {
    let server = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" } }));
    let url = format!("http://{}/mcp/demo", server.address);
    let gateway = Gateway::with_servers(&json!({ "demo": { "url": url, "sharing": "shared" } }));
    let sessions = [0; 3].map(|_| open(&gateway, &json!({})));
    sessions.iter().for_each(|session| look_up(&gateway, session));
    assert_eq!((server.children().len(), further(&gateway)), (1, 0), "configured to share");
}
