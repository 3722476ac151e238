//! Tests of the server without faults.

use mendline_faults::{Answers, Era, Server, Settings};
use serde_json::{Value, json};

use crate::client::{Client, Connection, End, TIMEOUT, call, initialize, request};

async fn server(settings: Settings) -> Server {
    Server::start(settings).await.unwrap()
}

fn json_answers() -> Settings {
    Settings { answers: Answers::Json, ..Settings::default() }
}

#[tokio::test]
async fn legacy_client_gets_json_or_events_in_a_session() {
    let server = server(Settings::default()).await;
    let client = Client::legacy(server.address()).await;
    assert!(client.session.is_some());
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(client.send(&ready).await.status, 202);
    let as_events = client.call("lookup", "a").await;
    assert_eq!((as_events.tool_text().as_str(), as_events.end), ("a is 42", End::Whole));
    let events = as_events.events();
    assert_eq!(events[0].data.as_deref(), Some(&b""[..]), "primed");
    assert!(events.iter().all(|event| event.id.is_some()), "{events:?}");
    let as_json = client.send(&call(8, "create_note", &json!({ "key": "b", "answer": "json" }))).await;
    assert_eq!(as_json.header("content-type"), Some("application/json"));
    assert_eq!((as_json.tool_text(), as_json.answer()["id"].clone()), ("wrote b".to_owned(), json!(8)));
    let counts = server.oracle().counts();
    assert_eq!((counts.executions_of("a"), counts.executions_of("b")), (1, 1));
    assert_eq!((counts.sessions_opened, counts.connections, counts.posts, counts.refusals), (1, 4, 4, 0));
    assert_eq!(counts.messages_of("tools/call"), 2);
    assert!(counts.bytes_in > 500 && counts.bytes_out > 500);
    assert_eq!(server.oracle().seen()[2].session, client.session);
}

#[tokio::test]
async fn session_is_required_checked_and_deleted() {
    let server = server(json_answers()).await;
    let mut client = Client::legacy(server.address()).await;
    let stranger = Client { session: None, ..client.clone() };
    assert_eq!(stranger.call("lookup", "a").await.status, 400);
    let forger = Client { session: Some("made-up".to_owned()), ..client.clone() };
    assert_eq!(forger.call("lookup", "a").await.status, 404);
    assert_eq!(client.exchange(&client.delete()).await.status, 200);
    assert_eq!(client.call("lookup", "a").await.status, 404);
    client = Client::legacy(server.address()).await;
    server.forget_sessions();
    assert_eq!(client.call("lookup", "a").await.status, 404);
    let counts = server.oracle().counts();
    assert_eq!((counts.sessions_deleted, counts.refusals, counts.executions_of("a")), (1, 4, 0));
}

#[tokio::test]
async fn broken_stream_is_resumed_after_the_last_event() {
    let server = server(Settings::default()).await;
    let client = Client::legacy(server.address()).await;
    let mut connection = Connection::dial(server.address()).await;
    let slow = call(7, "slow", &json!({ "key": "s", "steps": 3, "stepMs": 20 }));
    let mut reply = connection.send_request(&client.post(&slow)).await.unwrap();
    let seen = connection.events(&mut reply, 2).await;
    drop(connection);
    let last = String::from_utf8(seen.last().unwrap().id.clone().unwrap().to_vec()).unwrap();
    let resumed = client.resume(&last).await;
    let progress = |message: &Value| message["params"]["progress"].as_u64();
    let messages = resumed.messages();
    assert_eq!(messages.iter().filter_map(progress).collect::<Vec<_>>(), [2, 3], "after {last}");
    assert_eq!(resumed.tool_text(), "s is done");
    let counts = server.oracle().counts();
    assert_eq!((counts.executions_of("s"), counts.resumes, counts.cancellations), (1, 1, 0));
    assert_eq!(client.resume("nonsense.9").await.status, 400);
}

#[tokio::test]
async fn get_stream_carries_notifications_and_server_requests() {
    let server = server(Settings::default()).await;
    let client = Client::legacy(server.address()).await;
    let mut connection = Connection::dial(server.address()).await;
    let mut reply = connection.send_request(&client.get(None)).await.unwrap();
    assert_eq!(server.notify("notifications/tools/list_changed", &json!({})), 1);
    assert_eq!(server.send_request("roots"), 1);
    let events = connection.events(&mut reply, 3).await;
    let data = |at: usize| serde_json::from_slice::<Value>(events[at].data.as_ref().unwrap()).unwrap();
    assert_eq!(data(1)["method"], "notifications/tools/list_changed");
    assert_eq!(data(2)["method"], "roots/list");
    let answer = json!({ "jsonrpc": "2.0", "id": data(2)["id"], "result": { "roots": [] } });
    assert_eq!(client.send(&answer).await.status, 202);
    let counts = server.oracle().until(TIMEOUT, |counts| counts.server_requests_answered == 1).await.unwrap();
    assert_eq!((counts.server_requests, counts.messages_of("response")), (1, 1));
    let mut newer = Connection::dial(server.address()).await;
    let mut newer_got = newer.send_request(&client.get(None)).await.unwrap();
    assert_eq!(connection.rest(reply).await.end, End::Whole, "the newest GET replaces it");
    server.notify("notifications/prompts/list_changed", &json!({}));
    let events = newer.events(&mut newer_got, 2).await;
    assert!(events[1].data.as_ref().unwrap().windows(7).any(|text| text == b"prompts"), "nothing is repeated");
}

#[tokio::test]
async fn tool_requests_input_from_the_client() {
    let server = server(Settings::default()).await;
    let client = Client::legacy(server.address()).await;
    let mut connection = Connection::dial(server.address()).await;
    let mut reply = connection
        .send_request(&client.post(&call(7, "ask", &json!({ "key": "q", "what": "sampling" }))))
        .await
        .unwrap();
    let events = connection.events(&mut reply, 2).await;
    let question: Value = serde_json::from_slice(events[1].data.as_ref().unwrap()).unwrap();
    assert_eq!(question["method"], "sampling/createMessage");
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "model": "tiny" } })).await;
    assert!(connection.rest(reply).await.tool_text().contains("tiny"));
    let modern = Client::modern(server.address());
    let first = modern.call("ask", "q").await;
    assert_eq!(first.answer()["result"]["resultType"], "input_required");
    let mut again = call(8, "ask", &json!({ "key": "q" }));
    again["params"]["inputResponses"] = json!({ "it": { "roots": [] } });
    again["params"]["requestState"] = first.answer()["result"]["requestState"].clone();
    assert!(modern.send(&again).await.tool_text().contains("roots"));
}

#[tokio::test]
async fn sessionless_server_has_no_id_and_no_get_stream() {
    let server = server(Settings { sessions: false, ..json_answers() }).await;
    let client = Client::legacy(server.address()).await;
    assert_eq!(client.session, None);
    assert_eq!(client.call("lookup", "a").await.tool_text(), "a is 42");
    assert_eq!(client.exchange(&client.get(None)).await.status, 405);
    assert_eq!(client.exchange(&client.delete()).await.status, 405);
}

#[tokio::test]
async fn client_settings_belong_to_the_session() {
    let server = server(json_answers()).await;
    let client = Client::legacy(server.address()).await;
    client.send(&request(2, "logging/setLevel", &json!({ "level": "debug" }))).await;
    client.send(&request(3, "resources/subscribe", &json!({ "uri": "memo://one" }))).await;
    let state = client.send(&request(4, "faults/state", &json!({}))).await.answer();
    assert_eq!(state["result"]["level"], "debug");
    assert_eq!(state["result"]["subscriptions"], json!(["memo://one"]));
    let other = Client::legacy(server.address()).await;
    let state = other.send(&request(4, "faults/state", &json!({}))).await.answer();
    assert_eq!((&state["result"]["level"], &state["result"]["subscriptions"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn modern_headers_must_match_the_body() {
    let server = server(json_answers()).await;
    let client = Client::modern(server.address());
    let answered = client.call("lookup", "a").await;
    assert_eq!((answered.tool_text().as_str(), answered.header("mcp-session-id")), ("a is 42", None));
    assert_eq!(answered.answer()["result"]["resultType"], "complete");
    let discovered = client.send(&request(2, "server/discover", &json!({}))).await.answer();
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    let good = client.post(&call(7, "lookup", &json!({ "key": "a" })));
    for (what, from, to, status, code) in [
        ("another revision in the header", "Version: 2026-07-28", "Version: 2027-01-01", 400, -32020),
        ("no method header", "Mcp-Method: tools/call\r\n", "", 400, -32020),
        ("another method in the header", "Method: tools/call", "Method: tools/list", 400, -32020),
        ("another tool in the header", "Mcp-Name: lookup", "Mcp-Name: big", 400, -32020),
        ("another name, well encoded", "Mcp-Name: lookup", "Mcp-Name: =?base64?YmlnZw==?=", 400, -32020),
        ("another revision in both", "2026-07-28", "2031-01-01", 400, -32022),
        ("no capabilities", "clientCapabilities", "clientIncapability", 400, -32602),
        ("no such method", "tools/call", "tools/gone", 404, -32601),
        ("a method of the other era", "tools/call", "initialize", 404, -32601),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{what}");
        // Only some methods have the name header.
        let bad = if code == -32601 { bad.replace("Mcp-Name: lookup\r\n", "") } else { bad };
        let (head, body) = bad.split_once("\r\n\r\n").unwrap();
        let length = format!("Content-Length: {}", good.split_once("\r\n\r\n").unwrap().1.len());
        let bad = format!("{}\r\n\r\n{body}", head.replace(&length, &format!("Content-Length: {}", body.len())));
        let reply = client.exchange(&bad).await;
        assert_eq!(
            (reply.status, reply.answer()["error"]["code"].as_i64()),
            (status, Some(code)),
            "{what}: {}",
            reply.text()
        );
    }
    let encoded = good.replace("Mcp-Name: lookup", "Mcp-Name: =?base64?bG9va3Vw?=");
    assert_eq!(client.exchange(&encoded).await.status, 200);
    assert_eq!(
        client.exchange(&client.get(None)).await.status,
        400,
        "a GET without a session, since legacy is served too"
    );
    assert_eq!(server.oracle().counts().executions_of("a"), 2);
}

#[tokio::test]
async fn server_of_one_era_refuses_the_other() {
    let modern_only = server(Settings { era: Era::Modern, ..json_answers() }).await;
    let legacy = Client { is_modern: false, ..Client::modern(modern_only.address()) };
    let reply = legacy.send(&initialize()).await;
    assert_eq!((reply.status, reply.answer()["error"]["code"].as_i64()), (400, Some(-32022)));
    assert_eq!(legacy.exchange(&legacy.get(None)).await.status, 405);
    assert_eq!(legacy.exchange(&legacy.delete()).await.status, 405);
    let legacy_only = server(Settings { era: Era::Legacy, ..json_answers() }).await;
    let reply = Client::modern(legacy_only.address()).send(&request(1, "server/discover", &json!({}))).await;
    assert_eq!((reply.status, reply.answer()["error"]["code"].as_i64()), (400, Some(-32000)));
}

#[tokio::test]
async fn subscription_is_acknowledged_marked_and_ended() {
    let server = server(json_answers()).await;
    let client = Client::modern(server.address());
    let mut connection = Connection::dial(server.address()).await;
    let listen = request(5, "subscriptions/listen", &json!({ "notifications": { "toolsListChanged": true } }));
    let mut reply = connection.send_request(&client.post(&listen)).await.unwrap();
    connection.events(&mut reply, 1).await;
    assert_eq!(server.notify("notifications/prompts/list_changed", &json!({})), 0, "not subscribed");
    assert_eq!(server.notify("notifications/tools/list_changed", &json!({})), 1);
    server.end_listens();
    let reply = connection.rest(reply).await;
    let messages = reply.messages();
    let methods: Vec<&str> = messages.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]);
    assert_eq!(messages[1]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
    assert_eq!((messages.len(), &messages[2]["id"]), (3, &json!(5)), "the subscription ends with a result");
    let mut connection = Connection::dial(server.address()).await;
    connection.send_request(&client.post(&listen)).await.unwrap();
    drop(connection);
    let counts = server.oracle().until(TIMEOUT, |counts| counts.listens_closed == 1).await.unwrap();
    assert_eq!((counts.listens_opened, counts.cancellations), (2, 0));
}

#[tokio::test]
async fn closed_response_cancels_only_in_the_modern_era() {
    let server = server(Settings::default()).await;
    for answer in ["json", "events"] {
        let modern = Client::modern(server.address());
        let slow = call(7, "create_note", &json!({ "key": answer, "delayMs": 60_000, "answer": answer }));
        let mut connection = Connection::dial(server.address()).await;
        connection.write(modern.post(&slow).as_bytes()).await;
        server.oracle().until(TIMEOUT, |counts| counts.executions_of(answer) == 1).await.unwrap();
        drop(connection);
        let before = if answer == "json" { 1 } else { 2 };
        let counts = server.oracle().until(TIMEOUT, |counts| counts.cancellations == before).await.unwrap();
        assert_eq!(counts.closed_mid_call, before);
    }
    let legacy = Client::legacy(server.address()).await;
    for (answer, id, gone) in [("json", 8, 3), ("events", 9, 4)] {
        let key = format!("legacy {answer}");
        let slow = call(id, "create_note", &json!({ "key": key, "delayMs": 60_000, "answer": answer }));
        let mut connection = Connection::dial(server.address()).await;
        connection.write(legacy.post(&slow).as_bytes()).await;
        server.oracle().until(TIMEOUT, |counts| counts.executions_of(&key) == 1).await.unwrap();
        drop(connection);
        let counts = server.oracle().until(TIMEOUT, |counts| counts.closed_mid_call == gone).await.unwrap();
        assert_eq!(counts.cancellations, 2, "a closed response does not cancel");
    }
    legacy.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 8 } })).await;
    server.oracle().until(TIMEOUT, |counts| counts.cancellations == 3).await.unwrap();
}

#[tokio::test]
async fn http_sse_answers_on_its_stream() {
    let server = server(Settings::default()).await;
    let mut client = Client { path: "/sse".to_owned(), is_modern: false, ..Client::modern(server.address()) };
    assert_eq!(client.send(&initialize()).await.status, 405, "there is no POST at /sse");
    let mut stream = Connection::dial(server.address()).await;
    let mut reply = stream.send_request(&client.get(None)).await.unwrap();
    let first = stream.events(&mut reply, 1).await.remove(0);
    assert_eq!(first.event.as_deref(), Some(&b"endpoint"[..]));
    client.path = String::from_utf8(first.data.unwrap().to_vec()).unwrap();
    assert_eq!(client.send(&initialize()).await.status, 202);
    let accepted = client.send(&call(7, "slow", &json!({ "key": "old", "steps": 1, "stepMs": 1 }))).await;
    assert_eq!((accepted.status, accepted.text().as_str()), (202, "Accepted"));
    let events = stream.events(&mut reply, 4).await;
    let data = |at: usize| serde_json::from_slice::<Value>(events[at].data.as_ref().unwrap()).unwrap();
    assert!(events.iter().all(|event| event.id.is_none()));
    assert_eq!(
        (&data(1)["id"], &data(2)["method"], &data(3)["id"]),
        (&json!(1), &json!("notifications/progress"), &json!(7))
    );
    drop(stream);
    server.oracle().until(TIMEOUT, |counts| counts.open_sessions == 0).await.unwrap();
    assert_eq!(client.call("lookup", "late").await.status, 404, "without its stream the session is gone");
}

#[tokio::test]
async fn incomplete_request_is_counted_and_does_not_run() {
    let server = server(Settings::default()).await;
    let client = Client::modern(server.address());
    let request = client.post(&call(7, "create_note", &json!({ "key": "cut" })));
    let mut connection = Connection::dial(server.address()).await;
    connection.write(&request.as_bytes()[..request.len() - 1]).await;
    connection.shutdown().await;
    let counts = server.oracle().until(TIMEOUT, |counts| counts.cut_requests == 1).await.unwrap();
    assert_eq!((counts.executions_of("cut"), counts.posts), (0, 0));
}

#[tokio::test]
async fn invalid_messages_are_refused() {
    let server = server(Settings::default()).await;
    let client = Client::legacy(server.address()).await;
    let reply = client.exchange(&client.post_text("", "{\"jsonrpc\":")).await;
    assert_eq!((reply.status, reply.answer()["error"]["code"].as_i64()), (400, Some(-32700)));
    let plain = client.post(&initialize()).replace("application/json\r\n", "text/plain\r\n");
    assert_eq!(client.exchange(&plain).await.status, 415);
    let picky = client.post(&initialize()).replace("application/json, ", "");
    assert_eq!(client.exchange(&picky).await.status, 406);
    let old = client.post_text("MCP-Protocol-Version: 1999-01-01\r\n", &call(7, "lookup", &json!({})).to_string());
    assert_eq!(client.exchange(&old).await.status, 400);
    assert_eq!(client.send(&call(7, "nothing", &json!({}))).await.answer()["error"]["code"], -32602);
    assert_eq!(client.send(&request(7, "no/such", &json!({}))).await.answer()["error"]["code"], -32601);
    let lost = Client { path: "/nowhere".to_owned(), ..client };
    assert_eq!(lost.call("lookup", "a").await.status, 404);
}

#[tokio::test]
async fn connections_are_reused_and_can_be_cut() {
    let server = server(json_answers()).await;
    let client = Client::modern(server.address());
    let mut connection = Connection::dial(server.address()).await;
    for key in ["a", "b"] {
        let reply = connection.send_request(&client.post(&call(7, "lookup", &json!({ "key": key })))).await.unwrap();
        assert_eq!(connection.rest(reply).await.tool_text(), format!("{key} is 42"));
    }
    assert_eq!(server.oracle().counts().connections, 1);
    server.cut(mendline_faults::Ending::Reset);
    assert_eq!(connection.end().await, End::Reset);
    let big = client.send(&call(7, "big", &json!({ "key": "big", "bytes": 3_000_000 }))).await;
    assert_eq!(big.tool_text().len(), 3_000_000);
    server.oracle().until(TIMEOUT, |counts| counts.open_connections == 0).await.unwrap();
}
