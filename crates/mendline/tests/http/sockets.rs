//! The transport over loopback sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mendline::transport::http::{ProxyRules, TcpDial};
use mendline_core::port::Reuse;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;

use super::stage::{PING, PONG, Server, Stage, json, post, target};

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    (listener, place)
}

async fn accept(listener: &TcpListener) -> Server<TcpStream> {
    Server(listener.accept().await.unwrap().0)
}

/// Makes the next close send a reset.
fn will_reset(server: &Server<TcpStream>) {
    rustix::net::sockopt::set_socket_linger(&server.0, Some(std::time::Duration::ZERO)).unwrap();
}

#[tokio::test]
async fn message_is_sent_and_answer_returned() {
    let (listener, place) = listener().await;
    let mut stage = Stage::new(target(&format!("http://{place}/mcp")), TcpDial);
    let serve = async {
        let mut server = accept(&listener).await;
        for _ in 0..3 {
            server.answer(json(PONG)).await;
        }
    };
    let ask = async {
        for _ in 0..3 {
            let facts = stage.exchange(post(PING)).await;
            assert!(facts.last().unwrap().ends_with("end Complete Whole"), "{facts:?}");
        }
    };
    tokio::join!(ask, serve);
}

#[tokio::test]
async fn refused_connection_is_reported_with_reason() {
    // Bound without a listener, so that no other process gets the port.
    let kept = TcpSocket::new_v4().unwrap();
    kept.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let place = kept.local_addr().unwrap();
    let mut stage = Stage::new(target(&format!("http://{place}/")), TcpDial);
    let words = format!("nothing listens on {place} (connection refused)");
    assert_eq!(stage.exchange(post(PING)).await, [format!("end NoConnection({words:?}) Nothing")]);
}

#[tokio::test]
async fn connection_closed_while_idle_is_replaced_silently() {
    for reset in [false, true] {
        let (listener, place) = listener().await;
        let mut stage = Stage::new(target(&format!("http://{place}/")), TcpDial);
        stage.begin(post(PING));
        let serve = async {
            let mut server = accept(&listener).await;
            server.answer(json(PONG)).await;
            server
        };
        let (facts, first) = tokio::join!(stage.facts(1), serve);
        assert_eq!(facts.last().unwrap(), "end Complete Whole");
        if reset {
            will_reset(&first);
        }
        // The transport is not polled between the close and the next request, so only the kernel knows of the close.
        drop(first);
        stage.begin(post(PING));
        let serve = async { accept(&listener).await.answer(json(PONG)).await };
        let (facts, _) = tokio::join!(stage.facts(1), serve);
        assert_eq!(facts.last().unwrap(), "2: end Complete Whole", "reset: {reset}");
    }
}

#[tokio::test]
async fn reset_during_request_is_partly_written() {
    let (listener, place) = listener().await;
    let mut stage = Stage::new(target(&format!("http://{place}/")), TcpDial);
    stage.begin(post(format!("\"{}\"", "x".repeat(64 << 20))));
    let serve = async {
        let mut server = accept(&listener).await;
        server.0.read_u8().await.unwrap();
        will_reset(&server);
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "end Cut(\"the connection was reset\") Partial"]);
}

#[tokio::test]
async fn reset_after_request_is_fully_written() {
    let (listener, place) = listener().await;
    let mut stage = Stage::new(target(&format!("http://{place}/")), TcpDial);
    stage.begin(post(PING));
    let serve = async {
        let mut server = accept(&listener).await;
        server.request().await;
        will_reset(&server);
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "end Cut(\"the connection was reset\") Whole"]);
}

#[tokio::test]
async fn plain_request_through_proxy_has_absolute_url() {
    let (listener, place) = listener().await;
    let rules = ProxyRules::from_variables([("http_proxy", format!("http://me:pw@{place}"))]).unwrap();
    let mut stage = Stage::new(target("http://far.test:81/mcp").proxies(&rules), TcpDial);
    stage.begin(post(PING));
    let (facts, request) = tokio::join!(stage.facts(1), async { accept(&listener).await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "end Complete Whole");
    assert!(request.starts_with("POST http://far.test:81/mcp HTTP/1.1\r\nhost: far.test:81\r\n"), "{request}");
    assert!(request.contains("\r\nproxy-authorization: Basic bWU6cHc=\r\n"), "{request}");
}

#[tokio::test]
async fn any_answering_address_of_name_is_used() {
    let (listener, place) = listener().await;
    let (_, port) = place.rsplit_once(':').unwrap();
    let mut stage = Stage::new(target(&format!("http://localhost:{port}/")), TcpDial);
    stage.begin(post(PING));
    let (facts, request) = tokio::join!(stage.facts(1), async { accept(&listener).await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "end Complete Whole");
    assert!(request.contains(&format!("\r\nhost: localhost:{port}\r\n")), "{request}");
}

/// A server whose keep-alive ends in every pause of its client, and is seen by the client only with its next request.
#[derive(Default)]
struct ShortKeepAlive {
    pauses: AtomicUsize,
    /// Requests that met the end of a connection.
    lost: AtomicUsize,
}

impl ShortKeepAlive {
    async fn serve(&self, stream: TcpStream) {
        let mut server = Server(stream);
        let mut answered = None;
        // The client closes the connection in the end; each round waits for a request.
        for _ in 0..100 {
            if !server.0.peek(&mut [0]).await.is_ok_and(|count| count > 0) {
                return;
            }
            server.request().await;
            let pauses = self.pauses.load(Ordering::SeqCst);
            if answered.is_some_and(|before| before < pauses) {
                self.lost.fetch_add(1, Ordering::SeqCst);
                return;
            }
            server.write(json(PONG)).await;
            answered = Some(pauses);
        }
    }
}

#[tokio::test]
async fn r24_only_first_unsafe_call_meets_short_keep_alive() {
    let (listener, place) = listener().await;
    let keep_alive = Arc::new(ShortKeepAlive::default());
    let server = Arc::clone(&keep_alive);
    tokio::spawn(async move {
        for _ in 0..100 {
            let (stream, _) = listener.accept().await.unwrap();
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.serve(stream).await });
        }
    });
    let mut stage = Stage::new(target(&format!("http://{place}/")), TcpDial);
    let mut longest = Duration::from_millis(20);
    let mut cut = 0;
    for _ in 0..10 {
        // No pause is shorter than the one before, however slow the machine is.
        let start = Instant::now();
        stage.during(tokio::time::sleep(longest)).await;
        keep_alive.pauses.fetch_add(1, Ordering::SeqCst);
        stage.begin_with(post(PING), Reuse::Fresh);
        longest = longest.max(start.elapsed());
        let facts = stage.facts(1).await;
        cut += usize::from(!facts.last().unwrap().ends_with("end Complete Whole"));
    }
    assert_eq!(cut, keep_alive.lost.load(Ordering::SeqCst));
    // On a machine so slow that a pause takes a second, no call meets it.
    assert!(cut <= 1, "{cut} calls were lost");
}
