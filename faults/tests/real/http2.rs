//! Tests of the server over HTTP/2 and of the two faults that exist only there.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mendline_faults::{Answers, Authority, Certificate, Rule, Server, Settings};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::client::{MODERN, TIMEOUT, call};

/// A body in one piece.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

async fn dial(address: SocketAddr) -> SendRequest<Whole> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn call_tool(sender: &mut SendRequest<Whole>, key: &str) -> Result<Response<Incoming>, hyper::Error> {
    let mut message = call(7, "create_note", &json!({ "key": key }));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let request = Request::post("http://localhost/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "tools/call")
        .header("mcp-name", "create_note")
        .body(Whole(Some(message.to_string().into())))
        .unwrap();
    timeout(TIMEOUT, sender.send_request(request)).await.unwrap()
}

async fn body(response: Response<Incoming>) -> Value {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        text.extend(frame.unwrap().into_data().unwrap());
    }
    serde_json::from_slice(&text).unwrap()
}

fn reason(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

async fn start_server(rule: Option<Rule>) -> Server {
    let server = Server::start(Settings { answers: Answers::Json, ..Settings::default() }).await.unwrap();
    rule.into_iter().for_each(|rule| server.add(rule).unwrap());
    server
}

/// Connects over TLS and HTTP/2 and trusts one authority.
async fn dial_securely(server: &Server, authority: &Authority) -> std::io::Result<SendRequest<Whole>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(server.address()).await?;
    let name = ServerName::from(server.address().ip());
    let secure = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(secure)).await.unwrap();
    tokio::spawn(connection);
    Ok(sender)
}

#[tokio::test]
async fn secure_server_injects_faults_and_counts_failed_handshakes() {
    let authority = Authority::new("ours").unwrap();
    let certificate = Certificate { host: "127.0.0.1", until: 2200 };
    let server = Server::start_secure(Settings::default(), authority.issue(certificate).unwrap()).await.unwrap();
    server.add(Rule::new("h32_h2_goaway").nth(2)).unwrap();
    let mut sender = dial_securely(&server, &authority).await.unwrap();
    assert_eq!(call_tool(&mut sender, "a").await.unwrap().status(), StatusCode::OK);
    let error = call_tool(&mut sender, "b").await.unwrap_err();
    assert!(reason(&error).unwrap().is_go_away(), "{error:?}");
    let counts = server.oracle().counts();
    assert_eq!((counts.executions_of("a"), counts.executions_of("b")), (1, 0));

    let bytes = server.oracle().counts().bytes_in;
    assert!(dial_securely(&server, &Authority::new("theirs").unwrap()).await.is_err());
    let counts = server.oracle().until(TIMEOUT, |counts| counts.handshakes_failed == 1).await.unwrap();
    assert_eq!((counts.handshakes, counts.connections, counts.bytes_in), (2, 1, bytes));
}

#[tokio::test]
async fn calls_share_one_connection() {
    let server = start_server(None).await;
    let mut sender = dial(server.address()).await;
    for key in ["a", "b"] {
        let response = call_tool(&mut sender, key).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(body(response).await["result"]["content"][0]["text"], format!("wrote {key}"));
    }
    assert_eq!(server.oracle().counts().connections, 1);
}

#[tokio::test]
async fn refused_stream_keeps_the_connection() {
    let server = start_server(Some(Rule::new("h33_h2_refused_stream").nth(2))).await;
    let mut sender = dial(server.address()).await;
    assert_eq!(call_tool(&mut sender, "a").await.unwrap().status(), StatusCode::OK);
    let error = call_tool(&mut sender, "b").await.unwrap_err();
    let reason = reason(&error).unwrap();
    assert_eq!((reason.reason(), reason.is_remote()), (Some(h2::Reason::REFUSED_STREAM), true));
    assert_eq!(call_tool(&mut sender, "c").await.unwrap().status(), StatusCode::OK);
    let counts = server.oracle().counts();
    assert_eq!((counts.executions_of("b"), counts.executions_of("c"), counts.connections), (0, 1, 1));
}

#[tokio::test]
async fn goaway_leaves_the_request_unprocessed() {
    let server = start_server(Some(Rule::new("h32_h2_goaway").nth(2))).await;
    let mut sender = dial(server.address()).await;
    assert_eq!(call_tool(&mut sender, "a").await.unwrap().status(), StatusCode::OK);
    let error = call_tool(&mut sender, "b").await.unwrap_err();
    let reason = reason(&error).unwrap();
    assert!(reason.is_go_away() && reason.is_remote(), "{reason:?}");
    assert_eq!(reason.reason(), Some(h2::Reason::NO_ERROR));
    assert_eq!(server.oracle().counts().executions_of("b"), 0);
    let mut second = dial(server.address()).await;
    assert_eq!(call_tool(&mut second, "b").await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn reset_ends_the_whole_connection() {
    let server = start_server(Some(Rule::new("t13_reset_before_headers").nth(1))).await;
    let mut sender = dial(server.address()).await;
    let error = call_tool(&mut sender, "a").await.unwrap_err();
    let broken: Option<&std::io::Error> = error.source().and_then(|source| source.downcast_ref());
    assert_eq!(broken.map(std::io::Error::kind), Some(std::io::ErrorKind::ConnectionReset), "{error:?}");
    assert_eq!(server.oracle().counts().executions_of("a"), 1);
}

#[tokio::test]
async fn body_is_cut_in_the_middle() {
    let server = start_server(Some(Rule::new("t14_reset_mid_body"))).await;
    let mut sender = dial(server.address()).await;
    let response = call_tool(&mut sender, "a").await.unwrap();
    let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let mut body = response.into_body();
    let mut seen = 0;
    let broken = loop {
        match timeout(TIMEOUT, std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await.unwrap() {
            Some(Ok(frame)) => seen += frame.into_data().unwrap().len(),
            Some(Err(error)) => break error,
            None => panic!("the body was complete"),
        }
    };
    assert_eq!(seen, length / 2, "{broken}");
}
