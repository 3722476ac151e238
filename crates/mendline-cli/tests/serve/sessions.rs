//! Sessions: opened, used without an id, re-attached after a restart, bound to their owner.

use serde_json::json;

use super::gateway::{Gateway, eventually};
use super::{call, initialize, request};

#[test]
fn client_initializes_lists_and_calls() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..]), ("MCP-Protocol-Version", "2025-11-25")];
    let list = gateway.post(&headers, &request(2, "tools/list", &json!({}))).json();
    assert!(list["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "lookup"), "{list}");
    let answer = gateway.post(&headers, &call(3, "lookup", &json!({ "key": "a" }))).json();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(3), &json!("a is 42")), "{answer}");
}

#[test]
fn session_survives_a_killed_gateway() {
    let mut gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    for round in 0..3 {
        gateway.kill_and_restart();
        let answer = gateway.post(&[("Mcp-Session-Id", &session)], &call(round, "lookup", &json!({ "key": "a" })));
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, Some(&session[..])));
        assert_eq!(answer.json()["id"], round);
    }
}

#[test]
fn requests_at_the_same_time_reopen_one_session() {
    let mut gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    gateway.kill_and_restart();
    std::thread::scope(|scope| {
        for id in 0..8 {
            let (gateway, session) = (&gateway, &session);
            scope.spawn(move || {
                let answer = gateway.post(&[("Mcp-Session-Id", session)], &call(id, "lookup", &json!({ "key": "a" })));
                assert_eq!((answer.status, answer.json()["id"].clone()), (200, json!(id)));
            });
        }
    });
}

#[test]
fn request_without_session_is_served() {
    let gateway = Gateway::start(&[]);
    for id in 0..2 {
        let answer = gateway.post(&[], &call(id, "lookup", &json!({ "key": "a" }))).json();
        assert!(answer["result"]["content"].is_array(), "{answer}");
    }
    let answer = gateway.post(&[("Mcp-Session-Id", "not-one-of-ours")], &call(7, "lookup", &json!({}))).json();
    assert!(answer["result"]["content"].is_array(), "{answer}");
}

#[test]
fn request_with_unknown_revision_is_refused() {
    let gateway = Gateway::start(&[]);
    let answer = gateway.post(&[("MCP-Protocol-Version", "1999-01-01")], &call(1, "lookup", &json!({})));
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("2025-11-25"));
}

#[test]
fn session_with_long_parameters_survives_a_killed_gateway() {
    let mut gateway = Gateway::start(&[]);
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "experimental": { "x": "x".repeat(8_000) } },
        "clientInfo": { "name": "test", "version": "1" },
    });
    let opened = gateway.post(&[], &request(1, "initialize", &params));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    gateway.kill_and_restart();
    let answer = gateway.post(&[("Mcp-Session-Id", &session)], &call(2, "lookup", &json!({ "key": "a" }))).json();
    assert!(answer["result"]["content"].is_array(), "{answer}");
}

#[test]
fn deleted_session_ends() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-06-18");
    assert_eq!(gateway.send("DELETE", "/mcp/demo", &[("Mcp-Session-Id", &session)], "").status, 204);
    let late = gateway.post(&[("Mcp-Session-Id", &session)], &call(2, "lookup", &json!({ "key": "a" })));
    assert_eq!(late.status, 404, "an ended session is not opened again");
    assert_eq!(gateway.send("DELETE", "/mcp/demo", &[("Mcp-Session-Id", "forged")], "").status, 404);
    assert_eq!(gateway.send("DELETE", "/mcp/demo", &[], "").status, 405);
}

#[test]
fn unknown_server_and_path_are_named() {
    let gateway = Gateway::start(&[]);
    let answer = gateway.send("POST", "/mcp/other", &[], &initialize("2025-11-25"));
    assert_eq!(answer.status, 404);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("/mcp/demo"));
    assert_eq!(gateway.send("GET", "/nothing", &[], "").status, 404);
    assert_eq!(gateway.send("PUT", "/mcp/demo", &[], "").status, 405);
    let only = gateway.send("POST", "/mcp", &[], &initialize("2025-11-25")).json();
    assert_eq!(only["result"]["serverInfo"]["name"], "demo-server", "the only server is at /mcp too");
}

#[test]
fn health_is_reported_and_end_is_clean() {
    let mut gateway = Gateway::start(&[]);
    assert_eq!(gateway.send("GET", "/healthz", &[], "").text(), "ok\n");
    assert_eq!(gateway.send("GET", "/readyz", &[], "").status, 200);
    assert_eq!(gateway.send("GET", "/readyz/other", &[], "").status, 404);
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn c89_sessions_with_the_same_ids_get_their_own_answers() {
    let gateway = Gateway::start(&[]);
    let sessions = ["a", "b", "c"].map(|key| (key, gateway.initialize("2025-11-25")));
    std::thread::scope(|scope| {
        for (key, session) in &sessions {
            let gateway = &gateway;
            scope.spawn(move || {
                let arguments = json!({ "key": key, "delayMs": 300 });
                let answer = gateway.post(&[("Mcp-Session-Id", session)], &call(1, "lookup", &arguments)).json();
                assert_eq!(answer["result"]["content"][0]["text"], format!("{key} is 42"), "{answer}");
            });
        }
    });
}

const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;

#[test]
fn client_with_foreign_id_gets_a_session_of_its_own() {
    let gateway = Gateway::start(&[]);
    let session = |foreign: &str| {
        let answer = gateway.post(&[("Mcp-Session-Id", foreign)], &call(1, "lookup", &json!({ "key": "a" })));
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    let (first, other) = (session("foreign-a"), session("foreign-b"));
    assert_ne!(first, other);
    assert_eq!(session("foreign-a"), first, "a client that ignores its id keeps its session");
    let mut slow =
        gateway.post(&[("Mcp-Session-Id", "foreign-a")], &call(5, "lookup", &json!({ "key": "a", "delayMs": 4_000 })));
    assert_eq!(gateway.post(&[("Mcp-Session-Id", "foreign-b")], CANCEL).status, 202);
    assert_eq!(slow.message()["result"]["content"][0]["text"], "a is 42", "the other client cancelled nothing");
    let accept = ("Accept", "text/event-stream");
    let mut streams =
        ["foreign-a", "foreign-b"].map(|id| gateway.send("GET", "/mcp/demo", &[("Mcp-Session-Id", id), accept], ""));
    streams.iter_mut().for_each(|stream| assert_eq!(stream.status, 200));
    assert_eq!(streams[0].header("mcp-session-id"), Some(&first[..]));
    assert_eq!(streams[1].header("mcp-session-id"), Some(&other[..]));
}

#[test]
fn clients_without_id_do_not_cancel_for_each_other() {
    let gateway = Gateway::start(&[]);
    let mut slow = gateway.post(&[], &call(5, "lookup", &json!({ "key": "a", "delayMs": 4_000 })));
    assert!(slow.header("mcp-session-id").is_some(), "the client is told its id");
    assert_eq!(gateway.post(&[], CANCEL).status, 202);
    assert_eq!(slow.message()["result"]["content"][0]["text"], "a is 42");
}

#[test]
fn cancelled_request_is_answered_with_its_id() {
    let gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..]), ("Accept", "application/json")];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let answer = gateway.post(&headers, &call(5, "lookup", &json!({ "key": "a", "delayMs": 60_000 })));
            (answer.status, answer.json())
        });
        eventually("the cancelled request ends", || {
            assert_eq!(gateway.post(&[("Mcp-Session-Id", &session)], CANCEL).status, 202);
            waiting.is_finished()
        });
        let (status, answer) = waiting.join().unwrap();
        assert_eq!((status, &answer["id"], &answer["error"]["code"]), (200, &json!(5), &json!(-31002)), "{answer}");
    });
}
