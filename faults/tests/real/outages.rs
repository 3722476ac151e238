//! Tests of every form of outage: on new connections, on idle ones and on calls in flight, and after its end.

use std::io::ErrorKind;
use std::time::Duration;

use mendline_faults::{Answers, Authority, Certificate, Ending, Outage, Server, Settings};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::{Client, Connection, End, TIMEOUT, call};

/// Long enough for bytes to pass on loopback, short enough to wait for their absence.
const A_WHILE: Duration = Duration::from_millis(100);

fn page(status: u16) -> Outage {
    Outage::Page { status, retry_after: None }
}

async fn start(answers: Answers) -> (Server, Client) {
    let server = Server::start(Settings { answers, ..Settings::default() }).await.unwrap();
    let client = Client::legacy(server.address()).await;
    (server, client)
}

/// Sends a call that is not answered by itself, and waits until it is at the server.
async fn in_flight(server: &Server, client: &Client, key: &str) -> Connection {
    let mut connection = Connection::dial(server.address()).await;
    let arguments = json!({ "key": key, "delayMs": 600_000 });
    connection.write(client.post(&call(7, "create_note", &arguments)).as_bytes()).await;
    let deadline = Instant::now() + TIMEOUT;
    while !server.timeline().requests.iter().any(|arrival| arrival.key.as_deref() == Some(key)) {
        assert!(Instant::now() < deadline, "the call did not arrive");
        tokio::task::yield_now().await;
    }
    connection
}

/// Dials until the result is the wanted one.
async fn until_dialing(server: &Server, wanted: Result<(), ErrorKind>) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let dialed = timeout(TIMEOUT, TcpStream::connect(server.address())).await.unwrap();
        let ended = dialed.map(drop).map_err(|error| error.kind());
        if ended == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{ended:?} instead of {wanted:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn refused_outage_ends_connections_and_refuses_dials() {
    let (server, client) = start(Answers::Json).await;
    let mut open = in_flight(&server, &client, "k").await;
    server.begin_outage(Outage::Refused);
    assert_eq!(open.end().await, End::Fin);
    until_dialing(&server, Err(ErrorKind::ConnectionRefused)).await;
    server.end_outage();
    until_dialing(&server, Ok(())).await;
    assert_eq!(client.call("create_note", "later").await.tool_text(), "wrote later");
}

#[tokio::test]
async fn cut_outage_ends_open_and_new_connections() {
    for (ending, end) in [(Ending::Fin, End::Fin), (Ending::Reset, End::Reset)] {
        let (server, client) = start(Answers::Json).await;
        let mut open = in_flight(&server, &client, "k").await;
        server.begin_outage(Outage::Cut(ending));
        assert_eq!(open.end().await, end);
        assert_eq!(Connection::dial(server.address()).await.end().await, end);
        server.end_outage();
        assert_eq!(client.call("create_note", "later").await.tool_text(), "wrote later");
    }
}

#[tokio::test]
async fn cut_after_request_runs_the_tool_without_answer() {
    for (ending, end) in [(Ending::Fin, End::Fin), (Ending::Reset, End::Reset)] {
        let (server, client) = start(Answers::Json).await;
        let mut open = in_flight(&server, &client, "k").await;
        server.begin_outage(Outage::CutAfterRequest(ending));
        assert_eq!(open.end().await, end);
        let reply = client.call("create_note", "met").await;
        assert_eq!((reply.status, reply.end), (0, end));
        server.oracle().until(TIMEOUT, |counts| counts.executions_of("met") == 1).await.unwrap();
    }
}

#[tokio::test]
async fn silence_lasts_for_open_connections_after_its_end() {
    let (server, client) = start(Answers::Json).await;
    let mut open = in_flight(&server, &client, "k").await;
    server.begin_outage(Outage::Silence);
    let mut swallowed = Connection::dial(server.address()).await;
    swallowed.write(client.post(&call(7, "create_note", &json!({ "key": "met" }))).as_bytes()).await;
    assert!(open.is_silent(A_WHILE).await && swallowed.is_silent(A_WHILE).await);
    server.end_outage();
    assert_eq!(client.call("create_note", "later").await.tool_text(), "wrote later");
    assert!(open.is_silent(A_WHILE).await && swallowed.is_silent(A_WHILE).await);
    assert_eq!(server.oracle().counts().executions_of("met"), 0);
}

#[tokio::test]
async fn tls_alert_answers_the_client_hello() {
    let authority = Authority::new("A test authority").unwrap();
    let identity = authority.issue(Certificate { host: "127.0.0.1", until: 2200 }).unwrap();
    let server = Server::start_secure(Settings::default(), identity).await.unwrap();
    server.begin_outage(Outage::TlsAlert);
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(&[22, 3, 1, 0, 4, 1, 0, 0, 0]).await.unwrap();
    let mut bytes = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    assert_eq!(bytes, [21, 3, 3, 0, 2, 2, 80], "a fatal alert, then a FIN");
    assert_eq!(server.timeline().connections.len(), 1);
}

#[tokio::test]
async fn page_answers_every_request_and_call_in_flight() {
    for (status, runs) in [(200, 0), (307, 0), (404, 0), (429, 0), (500, 1), (502, 0), (503, 0), (504, 1)] {
        let (server, client) = start(Answers::Json).await;
        let mut open = in_flight(&server, &client, "k").await;
        server.begin_outage(page(status));
        assert_eq!(open.head().await.unwrap().status, status);
        let reply = client.call("create_note", "met").await;
        assert_eq!((reply.status, reply.header("content-type")), (status, Some("text/html")), "{}", reply.text());
        assert_eq!(client.exchange(&client.get(None)).await.status, status);
        let location = format!("http://{}/login", server.elsewhere());
        assert_eq!(reply.header("location"), (status == 307).then_some(location.as_str()));
        if runs > 0 {
            server.oracle().until(TIMEOUT, |counts| counts.executions_of("met") == runs).await.unwrap();
        }
        server.end_outage();
        assert_eq!(client.call("create_note", "later").await.tool_text(), "wrote later");
        assert_eq!(server.oracle().counts().executions_of("met"), runs, "{status}");
    }
}

#[tokio::test]
async fn page_has_retry_after_and_cuts_begun_streams() {
    let (server, client) = start(Answers::Events).await;
    let mut stream = Connection::dial(server.address()).await;
    let head = stream.send_request(&client.get(None)).await.unwrap();
    assert_eq!(head.status, 200);
    server.begin_outage(Outage::Page { status: 503, retry_after: Some(3) });
    assert_eq!(stream.rest(head).await.end, End::Fin);
    assert_eq!(client.call("lookup", "met").await.header("retry-after"), Some("3"));
}

#[tokio::test]
async fn held_call_is_refused_without_running() {
    let (server, client) = start(Answers::Json).await;
    server.hold_calls(true);
    let mut open = in_flight(&server, &client, "k").await;
    server.hold_calls(false);
    server.begin_outage(page(429));
    assert_eq!(open.head().await.unwrap().status, 429);
    assert_eq!(server.oracle().counts().executions_of("k"), 0);
}

#[tokio::test]
async fn timeline_marks_requests_that_met_the_outage() {
    let (server, client) = start(Answers::Json).await;
    client.call("lookup", "before").await;
    server.begin_outage(page(502));
    client.call("lookup", "met").await;
    server.end_outage();
    client.call("lookup", "after").await;
    let timeline = server.timeline();
    let met: Vec<_> = timeline.requests.iter().map(|it| (it.key.as_deref(), it.met_outage)).collect();
    assert_eq!(met, [(None, false), (Some("before"), false), (Some("met"), true), (Some("after"), false)]);
    assert_eq!(timeline.connections.len(), 4);
    assert!(timeline.connections.is_sorted());
}
