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
