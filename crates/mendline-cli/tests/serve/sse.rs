//! Clients of 2024-11-05: one stream, and an endpoint for messages.

use serde_json::json;

use super::call;
use super::gateway::Gateway;

#[test]
fn client_of_2024_11_05_initializes_and_calls() {
    let gateway = Gateway::start(&[]);
    let mut stream = gateway.send("GET", "/sse/demo", &[("Accept", "text/event-stream")], "");
    let endpoint = stream.event().unwrap();
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let post = |text: &str| assert_eq!(gateway.send("POST", &endpoint.data, &[], text).status, 202, "{text}");
    post(&super::initialize("2024-11-05"));
    assert_eq!(stream.message()["result"]["serverInfo"]["name"], "demo-server");
    post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for id in 2..5 {
        post(&call(id, "lookup", &json!({ "key": "a" })));
        assert_eq!(stream.message()["id"], id);
    }
    let forged = endpoint.data.replace("sessionId=", "sessionId=x");
    assert_eq!(gateway.send("POST", &forged, &[], &call(9, "lookup", &json!({}))).status, 404);
}

const EVENTS: (&str, &str) = ("Accept", "text/event-stream");

#[test]
fn client_that_connects_again_goes_on_with_its_session() {
    let mut gateway = Gateway::start(&[]);
    let mut stream = gateway.send("GET", "/sse/demo", &[EVENTS], "");
    let endpoint = stream.event().unwrap();
    let id = endpoint.id.unwrap();
    assert_eq!(gateway.send("POST", &endpoint.data, &[], &super::initialize("2024-11-05")).status, 202);
    assert_eq!(stream.message()["id"], 1);
    drop(stream);
    for round in 2..4 {
        // The answer to a message that came before the stream is kept.
        assert_eq!(
            gateway.send("POST", &endpoint.data, &[], &call(round, "lookup", &json!({ "key": "a" }))).status,
            202
        );
        let mut stream = gateway.send("GET", "/sse/demo", &[EVENTS, ("Last-Event-ID", &id)], "");
        assert_eq!(stream.event().unwrap().data, endpoint.data, "the same session");
        assert_eq!(stream.message()["id"], round);
        gateway.kill_and_restart();
    }
}

#[test]
fn client_that_makes_no_handshake_on_its_new_stream_is_served() {
    let gateway = Gateway::start(&[]);
    let mut stream = gateway.send("GET", "/sse/demo", &[EVENTS, ("Last-Event-ID", "of another gateway")], "");
    let endpoint = stream.event().unwrap();
    assert_eq!(gateway.send("POST", &endpoint.data, &[], &call(7, "lookup", &json!({ "key": "a" }))).status, 202);
    let answer = stream.message();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("a is 42")), "{answer}");
}
