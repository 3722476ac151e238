//! Tests of the proxy without toxics and of its counts.

use mendline_faults::{Answers, Ending, Proxy, Server, Settings};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::client::{Client, Connection, End, TIMEOUT, call};

#[tokio::test]
async fn exchange_passes_unchanged_and_is_counted() {
    let server = Server::start(Settings { answers: Answers::Json, ..Settings::default() }).await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let client = Client::modern(proxy.address());
    let big = client.send(&call(7, "big", &json!({ "key": "b", "bytes": 2_000_000 }))).await;
    assert_eq!((big.tool_text().len(), big.end), (2_000_000, End::Whole));
    let counts = proxy.until(TIMEOUT, |counts| counts.open == 0).await.unwrap();
    let seen = server.oracle().counts();
    assert_eq!((counts.accepted, counts.dialed, counts.cut), (1, 1, 0));
    assert_eq!((counts.up.written, counts.down.read), (seen.bytes_in, seen.bytes_out));
    assert_eq!((counts.up.lost, counts.down.lost), (0, 0));
}

#[tokio::test]
async fn fin_and_reset_reach_the_other_side() {
    let server = Server::start(Settings::default()).await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let mut connection = Connection::dial(proxy.address()).await;
    proxy.until(TIMEOUT, |counts| counts.dialed == 1).await.unwrap();
    server.oracle().until(TIMEOUT, |counts| counts.open_connections == 1).await.unwrap();
    connection.shutdown().await;
    assert_eq!(connection.end().await, End::Fin, "the server closes after its client");
    proxy.until(TIMEOUT, |counts| counts.open == 0).await.unwrap();
    let mut connection = Connection::dial(proxy.address()).await;
    server.oracle().until(TIMEOUT, |counts| counts.open_connections == 1).await.unwrap();
    server.cut(Ending::Reset);
    assert_eq!(connection.end().await, End::Reset);
}

#[tokio::test]
async fn client_is_reset_when_the_upstream_refuses() {
    // Bound without a listener, so that no other process takes the port.
    let kept = TcpSocket::new_v4().unwrap();
    kept.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let proxy = Proxy::start(kept.local_addr().unwrap()).await.unwrap();
    let mut connection = Connection::dial(proxy.address()).await;
    assert_eq!(connection.end().await, End::Reset);
    assert_eq!(proxy.counts().dial_failures, 1);
}

#[tokio::test]
async fn cut_ends_all_connections_by_fin_or_reset() {
    let server = Server::start(Settings::default()).await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    for (ending, end, number) in [(Ending::Fin, End::Fin, 1), (Ending::Reset, End::Reset, 2)] {
        let mut connection = Connection::dial(proxy.address()).await;
        proxy.until(TIMEOUT, |counts| counts.dialed == number).await.unwrap();
        proxy.cut(ending);
        assert_eq!(connection.end().await, end);
        drop(connection);
        proxy.until(TIMEOUT, |counts| counts.open == 0 && counts.cut == number).await.unwrap();
    }
}
