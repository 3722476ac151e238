//! Clients that come, call and never send DELETE: processes, sessions and memory stay bounded.

use serde_json::json;

use super::gateway::{Gateway, eventually};
use super::{call, request};

/// The limit of sessions of the gateway under test.
const SESSIONS: usize = 16;

/// The number of clients; `cargo xtask soak --gateway` sets it.
fn clients() -> usize {
    std::env::var("MENDLINE_GATEWAY_CLIENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(96)
}

/// Opens a session and makes a call. Every second client has a process of its own.
fn come_and_call(gateway: &Gateway, number: usize) {
    let capabilities = if number.is_multiple_of(2) { json!({}) } else { json!({ "roots": {} }) };
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" },
    });
    let opened = gateway.post(&[], &request(1, "initialize", &params));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let answer = gateway.post(&[("Mcp-Session-Id", &session)], &call(2, "lookup", &json!({ "key": "a" }))).json();
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "client {number}: {answer}");
}

#[test]
fn clients_that_never_leave_take_bounded_processes_and_memory() {
    let limit = format!(r#""access": {{ "limits": {{ "sessions": {SESSIONS} }} }}"#);
    let gateway = Gateway::configured(&limit, "", &[]);
    let clients = clients();
    let (mut most_processes, mut memory) = (0, Vec::new());
    for number in 0..clients {
        come_and_call(&gateway, number);
        most_processes = most_processes.max(gateway.children().len());
        memory.push(gateway.resident_kib());
    }
    // The process that equal clients share, one for each other session, and those that are just ending.
    assert!(most_processes <= SESSIONS + 4, "{most_processes} processes for {SESSIONS} sessions");
    eventually("ended processes are gone", || gateway.children().len() <= SESSIONS / 2 + 2);
    let (early, late) = (memory[clients / 3], memory[clients - 1]);
    assert!(late <= early + early / 5 + 2048, "{early} KiB after a third of the clients, {late} KiB after all");
    println!("{clients} clients: at most {most_processes} processes, {early} KiB after a third, {late} KiB after all");
}
