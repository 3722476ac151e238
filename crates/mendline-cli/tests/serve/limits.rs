//! Limits: of principals, connections and bodies. What is above them is answered, and harms no other client.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::gateway::{Gateway, SOON, eventually};
use super::{call, initialize, request};

const ANN: (&str, &str) = ("Authorization", "Bearer ann-0123456789abcdef");
const BOB: (&str, &str) = ("Authorization", "Bearer bob-0123456789abcdef");

fn two_tokens(of_ann: &str) -> String {
    format!(
        r#""access": {{ "tokens": [
            {{ "name": "ann", "token": "ann-0123456789abcdef", {of_ann} }},
            {{ "name": "bob", "token": "bob-0123456789abcdef" }}
        ] }}"#
    )
}

/// Returns everything that a connection receives until its end.
fn rest(mut connection: TcpStream) -> String {
    connection.set_read_timeout(Some(SOON)).unwrap();
    let mut text = Vec::new();
    let _ = connection.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn l81_client_above_its_rate_is_answered_at_once_and_others_are_served() {
    let gateway = Gateway::configured(&two_tokens(r#""rateLimit": { "perSecond": 0.01, "burst": 2 }"#), "", &[]);
    let lookup = call(1, "lookup", &json!({ "key": "x" }));
    for _ in 0..2 {
        assert_eq!(gateway.post(&[ANN], &lookup).json()["result"]["isError"], false);
    }
    let limited = gateway.post(&[ANN], &lookup);
    let wait: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=100).contains(&wait), "{wait}");
    let failure = limited.json()["result"]["_meta"]["dev.mendline/failure"].clone();
    assert_eq!((&failure["cause"], &failure["outcome"]), (&json!("rate_limited"), &json!("not_sent")), "{failure}");
    let other = gateway.post(&[ANN], &request(2, "tools/list", &json!({}))).json();
    assert_eq!(other["error"]["code"], -31005, "{other}");
    assert_eq!(gateway.post(&[BOB], &lookup).json()["result"]["isError"], false);
}

#[test]
fn l82_requests_in_flight_are_limited_per_principal() {
    let gateway = Gateway::configured(&two_tokens(r#""inFlight": 1"#), "", &[]);
    let slow = call(1, "slow", &json!({ "key": "x", "steps": 600, "stepMs": 100 }));
    let mut running = gateway.post(&[ANN], &slow);
    let lookup = call(2, "lookup", &json!({ "key": "x" }));
    let rejected = gateway.post(&[ANN], &lookup).json();
    let cause = &rejected["result"]["_meta"]["dev.mendline/failure"]["cause"];
    assert_eq!(cause, "overloaded", "{rejected}");
    assert_eq!(gateway.post(&[BOB], &lookup).json()["result"]["isError"], false);
    // The answer of the cancelled call makes room.
    let session = running.header("mcp-session-id").map(str::to_owned);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let mut headers = vec![ANN];
    headers.extend(session.as_deref().map(|id| ("Mcp-Session-Id", id)));
    assert_eq!(gateway.post(&headers, cancel).status, 202);
    while running.event().is_some() {}
    let end = Instant::now() + SOON;
    while gateway.post(&[ANN], &lookup).json()["result"]["isError"] != false {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn answer_to_a_lost_connection_frees_its_place() {
    let gateway = Gateway::configured(&two_tokens(r#""inFlight": 1"#), "", &[]);
    let opened = gateway.post(&[ANN], &initialize("2025-11-25"));
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let headers = [ANN, ("Mcp-Session-Id", &session[..])];
    let lookup = call(2, "lookup", &json!({ "key": "x" }));
    let is_served = || gateway.post(&headers, &lookup).json()["result"]["isError"] == false;
    // The client gives up, and the call ends later.
    drop(gateway.post(&headers, &call(3, "lookup", &json!({ "key": "x", "delayMs": 8_000 }))));
    assert!(!is_served());
    eventually("the answer frees the place", is_served);
    // The client gives up, and cancels the call.
    drop(gateway.post(&headers, &call(4, "slow", &json!({ "key": "x", "steps": 600, "stepMs": 1_000 }))));
    assert!(!is_served());
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#;
    assert_eq!(gateway.post(&headers, cancel).status, 202);
    eventually("the cancellation frees the place", is_served);
}

#[test]
fn connection_above_the_limit_is_answered_with_503() {
    let gateway = Gateway::configured(r#""access": { "limits": { "connections": 4 } }"#, "", &[]);
    let held: Vec<_> = (0..4).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    let end = Instant::now() + SOON;
    loop {
        let refused = rest(TcpStream::connect(gateway.address).unwrap());
        if refused.starts_with("HTTP/1.1 503 ") {
            assert!(refused.contains("Retry-After: 1\r\n") && refused.ends_with("try again later\n"), "{refused}");
            break;
        }
        assert!(Instant::now() < end, "{refused}");
    }
    drop(held);
    loop {
        let connection = TcpStream::connect(gateway.address).unwrap();
        (&connection).write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        if rest(connection).starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(Instant::now() < end, "connections that end make room");
    }
}

#[test]
fn l85_oversized_body_is_refused_before_it_is_sent() {
    let gateway = Gateway::configured("", r#", "limits": { "messageBytes": 2048 }"#, &[]);
    let mut connection = TcpStream::connect(gateway.address).unwrap();
    let head = "POST /mcp/demo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: \
                application/json, text/event-stream\r\nContent-Length: 99999999999\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    let answer = rest(connection);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn truncated_body_runs_nothing() {
    let gateway = Gateway::start(&[]);
    let body = call(1, "create_note", &json!({ "key": "x" }));
    let mut connection = TcpStream::connect(gateway.address).unwrap();
    let head = format!(
        "POST /mcp/demo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nContent-Length: {}\r\n\r\n",
        body.len() + 1
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(body.as_bytes()).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let answer = rest(connection);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(gateway.post(&[], &body).json()["result"]["isError"], false, "the gateway goes on");
}

#[test]
fn too_many_or_too_long_headers_are_refused() {
    let gateway = Gateway::start(&[]);
    for extra in ["X-Padding: 1\r\n".repeat(300), format!("X-Padding: {}\r\n", "x".repeat(256 * 1024))] {
        let mut connection = TcpStream::connect(gateway.address).unwrap();
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n");
        let _ = connection.write_all(head.as_bytes());
        let answer = rest(connection);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(gateway.send("GET", "/healthz", &[], "").status, 200);
}

#[test]
fn session_that_was_idle_for_longest_goes_and_its_id_opens_it_again() {
    let gateway = Gateway::configured(r#""access": { "limits": { "sessions": 2 } }"#, "", &[]);
    let ids: Vec<String> = (0..5)
        .map(|_| gateway.post(&[], &initialize("2025-11-25")).header("mcp-session-id").unwrap().to_owned())
        .collect();
    for id in &ids {
        let answer = gateway.post(&[("Mcp-Session-Id", id)], &call(7, "lookup", &json!({ "key": "x" })));
        assert_eq!(answer.json()["result"]["isError"], false);
    }
}

#[test]
fn session_above_the_limit_is_refused_while_all_are_in_use() {
    let gateway = Gateway::configured(r#""access": { "limits": { "sessions": 2 } }"#, "", &[]);
    let mut streams: Vec<_> = (0..2)
        .map(|_| {
            let session = gateway.initialize("2025-11-25");
            let headers = [("Mcp-Session-Id", &session[..]), ("Accept", "text/event-stream")];
            gateway.send("GET", "/mcp/demo", &headers, "")
        })
        .collect();
    let refused = gateway.post(&[], &initialize("2025-11-25"));
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    assert_eq!(refused.json()["error"]["code"], -31004);
    streams.pop();
    eventually("a lost stream makes room", || gateway.post(&[], &initialize("2025-11-25")).status == 200);
}
