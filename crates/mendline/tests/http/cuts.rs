//! Cuts of a connection at any byte in either direction, and the reported end of the exchange.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use super::stage::{BreakingDialer, CAPACITY, PING, PONG, Stage, events, get, json, memory_dialer, post, target};

/// Returns the length of the request of these tests, head and body.
async fn request_length() -> usize {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let (_, request) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(PONG)).await });
    request.len()
}

#[tokio::test(start_paused = true)]
async fn request_cut_at_any_byte_is_reported_correctly() {
    let length = request_length().await;
    for accepted in 0..=length {
        let (dial, mut servers) = BreakingDialer::new(&[accepted]);
        let mut stage = Stage::new(target("http://x.test/"), dial);
        stage.begin(post(PING));
        let serve = async {
            let mut server = servers.next().await;
            if accepted == length {
                server.request().await;
            } else {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        let (facts, ()) = tokio::join!(stage.facts(1), serve);
        let (how, written) = match accepted {
            0 => ("the connection was reset", "Nothing"),
            all if all == length => ("the server closed the connection without an answer", "Whole"),
            _ => ("the connection was reset", "Partial"),
        };
        assert_eq!(
            facts,
            ["reached".to_owned(), format!("end Cut({how:?}) {written}")],
            "{accepted} of {length} bytes"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn answer_cut_at_any_byte_never_yields_partial_body() {
    let text = json(PONG);
    let head = text.find("\r\n\r\n").unwrap() + 4;
    for sent in 0..text.len() {
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(target("http://x.test/"), dial);
        stage.begin(post(PING));
        let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(&text[..sent]).await });
        assert_eq!(facts.len(), if sent < head { 2 } else { 3 }, "{sent}: {facts:?}");
        let end = facts.last().unwrap();
        assert!(end.starts_with("end Cut(") && end.ends_with(" Whole"), "{sent}: {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn stream_cut_at_any_byte_delivers_complete_events() {
    let text = events(&["data: one\n\n", "data: two\n\n"]);
    for sent in 0..text.len() {
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(target("http://x.test/"), dial);
        stage.begin(get());
        let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(&text[..sent]).await });
        let whole = |event: &str| text.find(event).is_some_and(|at| sent >= at + event.len());
        let mut expected = vec!["reached"];
        expected.extend((sent >= text.find("\r\n\r\n").unwrap() + 4).then_some("head 200 Events"));
        expected.extend(whole("data: one\n\n").then_some("event data=one"));
        expected.extend(whole("data: two\n\n").then_some("event data=two"));
        assert_eq!(facts[..facts.len() - 1], expected, "{sent}");
        let end = facts.last().unwrap();
        assert!(end.starts_with("end Cut(") && end.ends_with(" Whole"), "{sent}: {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn non_http_response_is_cut_with_reason() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let (facts, _) =
        tokio::join!(stage.facts(1), async { servers.next().await.answer("SSH-2.0-OpenSSH\r\n\r\n").await });
    assert!(facts[1].starts_with("end Cut(\"the answer is not HTTP ("), "{facts:?}");
    assert!(facts[1].ends_with("Whole"), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn early_answer_is_accepted_and_connection_not_reused() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(format!("\"{}\"", "x".repeat(10 * CAPACITY))));
    let serve = async {
        let mut server = servers.next().await;
        server.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await;
        server
    };
    let (facts, _first) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "head 413 Empty", "end Complete Partial"]);
    stage.begin(post(PING));
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(PONG)).await });
    assert_eq!(facts.last().unwrap(), "2: end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn answer_received_before_reset_is_kept() {
    // The server reads a little, answers, and closes the connection while the request is being written.
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post("\"x\"".repeat(CAPACITY)));
    let serve = async {
        let mut server = servers.next().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        server.write(json(PONG).replace("200 OK", "400 No")).await;
        server.0.shutdown().await.unwrap();
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "head 400 Json", &format!("body {PONG}"), "end Complete Partial"]);
}

#[tokio::test(start_paused = true)]
async fn dead_reused_connection_is_replaced_once() {
    let length = request_length().await;
    for (limits, expected, dials) in [
        (vec![length], vec!["2: reached", "2: head 200 Json", "2: end Complete Whole"], 2),
        (vec![length, 0], vec!["2: reached", "2: end Cut(\"the connection was reset\") Nothing"], 2),
        (vec![length + 1], vec!["2: reached", "2: end Cut(\"the connection was reset\") Partial"], 1),
    ] {
        let (dial, mut servers) = BreakingDialer::new(&limits);
        let dialed = dial.dials.clone();
        let mut stage = Stage::new(target("http://x.test/"), dial);
        stage.begin(post(PING));
        let serve = async {
            let mut server = servers.next().await;
            server.answer(json(PONG)).await;
            server
        };
        let (facts, _first) = tokio::join!(stage.facts(1), serve);
        assert_eq!(facts.last().unwrap(), "end Complete Whole");

        stage.begin(post(PING));
        let serve = async {
            if limits == [length] {
                servers.next().await.answer(json(PONG)).await;
            }
        };
        let (mut facts, ()) = tokio::join!(stage.facts(1), serve);
        facts.retain(|fact| !fact.contains("body"));
        assert_eq!(facts, expected, "{limits:?} of {length}");
        assert_eq!(dialed.load(Ordering::Relaxed), dials, "{limits:?} of {length}");
    }
}

#[tokio::test(start_paused = true)]
async fn accept_and_close_is_dialed_once_per_exchange() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let (facts, ()) = tokio::join!(stage.facts(1), async { drop(servers.next().await) });
    let end = facts.last().unwrap();
    assert!(end.starts_with("end Cut(\"the server closed the connection") && !end.ends_with("Partial"), "{facts:?}");
    assert_eq!(servers.unseen(), 0, "it was dialed again");
}
