//! Tests of the control port.

use std::net::SocketAddr;
use std::sync::Arc;

use mendline_faults::{Control, Era, Proxy, Server, Settings, Subject};
use serde_json::{Value, json};

use crate::client::{Client, Connection, End, Reply};

/// Sends a request to a control port.
pub async fn send(address: SocketAddr, verb: &str, path: &str, input: &Value) -> (u16, Value) {
    let body = if input.is_null() { String::new() } else { input.to_string() };
    let request =
        format!("{verb} /_faults/{path} HTTP/1.1\r\nHost: control\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut connection = Connection::dial(address).await;
    let reply: Reply = connection.send_request(&request).await.unwrap();
    let reply = connection.rest(reply).await;
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

#[tokio::test]
async fn server_is_changed_over_the_control_port() {
    let server = Arc::new(Server::start(Settings::default()).await.unwrap());
    let control = Control::start(Subject::Server(Arc::clone(&server))).await.unwrap();
    let at = control.address();
    assert_eq!(control.url(), format!("http://{at}/_faults/"));
    let client = Client::legacy(server.address()).await;
    let rule = json!({ "fault": "h26_500", "when": { "nth": 1 }, "timing": "before", "tool": "lookup" });
    assert_eq!(send(at, "POST", "rules", &rule).await, (200, json!({})));
    assert_eq!(send(at, "GET", "rules", &Value::Null).await.1, json!([rule]));
    assert_eq!(client.call("lookup", "k").await.status, 500);
    assert_eq!(client.call("lookup", "k").await.status, 200);
    let (_, counts) = send(at, "GET", "counts", &Value::Null).await;
    assert_eq!((&counts["executions"]["k"], &counts["struck"]["h26_500"]), (&json!(1), &json!(1)));
    let (_, seen) = send(at, "GET", "seen", &Value::Null).await;
    assert_eq!((&seen[1]["fault"], &seen[1]["method"]), (&json!("h26_500"), &json!("tools/call")));
    assert_eq!(send(at, "DELETE", "counts", &Value::Null).await.0, 200);
    assert_eq!(server.oracle().counts().posts, 0);
    assert_eq!(send(at, "DELETE", "rules", &Value::Null).await.0, 200);
    assert_eq!(server.rules().len(), 0);
    let page = json!({ "page": { "status": 503, "retryAfter": 3 } });
    assert_eq!(send(at, "POST", "outage", &page).await.0, 200);
    let reply = client.call("lookup", "k").await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("3")));
    assert_eq!(send(at, "DELETE", "outage", &Value::Null).await.0, 200);
    assert_eq!(client.call("lookup", "k").await.status, 200);
    assert_eq!(send(at, "POST", "notify", &json!({ "method": "notifications/x" })).await.1, json!({ "clients": 1 }));
    assert_eq!(send(at, "POST", "request", &json!({ "what": "roots" })).await.1, json!({ "clients": 1 }));
    assert_eq!(send(at, "POST", "settings", &json!({ "era": "modern" })).await.0, 200);
    assert_eq!(server.settings().era, Era::Modern);
    assert_eq!(send(at, "GET", "settings", &Value::Null).await.1["era"], "modern");
    assert_eq!(send(at, "POST", "forget", &Value::Null).await.0, 200);
    assert_eq!(server.oracle().counts().open_sessions, 0);
    assert_eq!(send(at, "POST", "end-listens", &Value::Null).await.0, 200);
    let mut connection = Connection::dial(server.address()).await;
    let reply = connection.send_request(&client.get(None)).await.unwrap();
    connection.rest(reply).await;
    assert_eq!(send(at, "POST", "cut", &json!({ "ending": "reset" })).await.0, 200);
    assert_eq!(connection.end().await, End::Reset);
    let (_, faults) = send(at, "GET", "faults", &Value::Null).await;
    assert_eq!(faults.as_array().unwrap().len(), mendline_faults::fault::ALL.len());
}

#[tokio::test]
async fn proxy_is_changed_over_the_control_port() {
    let server = Server::start(Settings::default()).await.unwrap();
    let proxy = Arc::new(Proxy::start(server.address()).await.unwrap());
    let control = Control::start(Subject::Proxy(Arc::clone(&proxy))).await.unwrap();
    let at = control.address();
    let (status, added) =
        send(at, "POST", "toxics", &json!({ "toxic": "latency", "ms": 5, "direction": "down" })).await;
    assert_eq!(status, 200);
    let number = &added["number"];
    let listed = json!([[number, "down", { "toxic": "latency", "ms": 5 }]]);
    assert_eq!(send(at, "GET", "toxics", &Value::Null).await.1, listed);
    assert_eq!(send(at, "DELETE", &format!("toxics/{number}"), &Value::Null).await.0, 200);
    assert_eq!(send(at, "DELETE", &format!("toxics/{number}"), &Value::Null).await.0, 404);
    send(at, "POST", "toxics", &json!({ "toxic": "refuse" })).await;
    assert_eq!(proxy.toxics().len(), 1);
    assert_eq!(send(at, "DELETE", "toxics", &Value::Null).await.0, 200);
    assert_eq!(proxy.toxics().len(), 0);
    assert_eq!(send(at, "GET", "counts", &Value::Null).await.1["accepted"], 0);
    assert_eq!(send(at, "POST", "cut", &json!({ "ending": "fin" })).await.0, 200);
    let (_, toxics) = send(at, "GET", "faults", &Value::Null).await;
    assert_eq!(toxics.as_array().unwrap().len(), mendline_faults::toxic::ALL.len());
}

#[tokio::test]
async fn invalid_control_requests_are_refused_with_an_error() {
    let server = Arc::new(Server::start(Settings::default()).await.unwrap());
    let control = Control::start(Subject::Server(server)).await.unwrap();
    let at = control.address();
    for (verb, path, input, status) in [
        ("POST", "rules", json!({ "fault": "kindness" }), 400),
        ("POST", "rules", json!({ "fault": "h26_500", "wen": 1 }), 400),
        ("POST", "settings", json!({ "era": "bronze" }), 400),
        ("POST", "cut", json!({}), 400),
        ("POST", "outage", json!("kindness"), 400),
        ("GET", "nothing", Value::Null, 404),
        ("POST", "toxics", json!({}), 404),
    ] {
        let (actual, error) = send(at, verb, path, &input).await;
        assert_eq!(actual, status, "{path}: {error}");
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()));
    }
}
