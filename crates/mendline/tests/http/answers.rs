//! Responses in every form that a server may send.

use std::time::Duration;

use mendline_core::port::{ExchangeId, HttpRequest, Verb};
use mendline_core::{Input, Secret};
use tokio::time::{Instant, timeout};

use super::stage::{EVENTS_HEAD, PING, PONG, Stage, events, get, json, line, memory_dialer, post, target};

#[tokio::test(start_paused = true)]
async fn message_is_sent_and_answer_returned() {
    let (dial, mut servers) = memory_dialer();
    let target = target("http://x.test:81/mcp").header("Authorization", &Secret::new("Bearer t")).unwrap();
    let mut stage = Stage::new(target, dial);
    let mut ask = post(PING);
    ask.headers.push(("mcp-protocol-version".into(), "2025-11-25".into()));
    stage.begin(ask);
    let serve = async {
        let answer = json(PONG).replace("\r\n\r\n", "\r\nMcp-Session-Id: s1\r\n\r\n");
        servers.next().await.answer(answer).await
    };
    let (facts, request) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "head 200 Json session=s1", &format!("body {PONG}"), "end Complete Whole"]);
    let expected = format!(
        "POST /mcp HTTP/1.1\r\nhost: x.test:81\r\naccept: application/json, text/event-stream\r\n\
         accept-encoding: identity\r\nuser-agent: mendline/{}\r\n\
         content-type: application/json\r\nauthorization: Bearer t\r\n\
         mcp-protocol-version: 2025-11-25\r\ncontent-length: {}\r\n\r\n{PING}",
        env!("CARGO_PKG_VERSION"),
        PING.len()
    );
    assert_eq!(request, expected);
}

#[tokio::test(start_paused = true)]
async fn events_are_equal_for_any_split_of_stream() {
    let text =
        events(&["id: 1\ndata:\n\n", ": hello\r\n\r\n", "event: message\r\ndata: {\"a\":", "1}\r\n\r\ndata: b\n\n"]);
    let expected =
        ["reached", "head 200 Events", "event id=1", "event data={\"a\":1}", "event data=b", "end Complete Whole"];
    for split in 0..=text.len() {
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(target("http://x.test/"), dial);
        stage.begin(get());
        let serve = async {
            let mut server = servers.next().await;
            server.request().await;
            server.write(&text[..split]).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            server.write(&text[split..]).await;
            server
        };
        let (facts, _server) = tokio::join!(stage.facts(1), serve);
        assert_eq!(facts, expected, "split at {split}");
    }
}

#[tokio::test(start_paused = true)]
async fn r12_bytes_between_events_are_reported_once_a_second() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(get());
    let serve = async {
        let mut server = servers.next().await;
        server.request().await;
        server.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
        // Comments, the parts of an event, and a comment long after it.
        for piece in [": 1\n", ": 2\n\n", ": 3\n", ": 4\n", "data: a", "\n\n"] {
            tokio::time::sleep(Duration::from_millis(400)).await;
            server.write(piece).await;
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        server.write(":\n").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let facts = async {
        let began = tokio::time::Instant::now();
        let mut facts = Vec::new();
        loop {
            let fact = stage.next().await;
            facts.push((began.elapsed().as_millis(), line(&fact)));
            if matches!(fact, Input::End { .. }) {
                return facts;
            }
        }
    };
    let (facts, ()) = tokio::join!(facts, serve);
    let facts: Vec<_> = facts.iter().map(|(at, fact)| (*at, fact.as_str())).collect();
    assert_eq!(facts[..2].iter().map(|(_, fact)| *fact).collect::<Vec<_>>(), ["reached", "head 200 Events"]);
    assert_eq!(
        facts[2..],
        [(400, "bytes"), (1600, "bytes"), (2400, "event data=a"), (22_400, "bytes"), (23_400, "end Complete Whole")]
    );
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_answer_is_reported() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    let whole = |status: &str, headers: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    for (answer, expected) in [
        (
            whole("404 Not Found", "Content-Type: application/json\r\n", error),
            vec!["head 404 Json", &format!("body {error}")],
        ),
        (whole("502 Bad Gateway", "Content-Type: text/html\r\n", "<h1>"), vec!["head 502 Other", "broken <h1>"]),
        (whole("200 OK", "Content-Type: application/json\r\n", "{\"a\":"), vec!["head 200 Json", "broken {\"a\":"]),
        (whole("503 Busy", "Retry-After: 7\r\n", ""), vec!["head 503 Empty retry-after=7000ms"]),
        (whole("202 Accepted", "Content-Type: text/plain\r\n", "Accepted"), vec!["head 202 Empty"]),
        (whole("200 OK", "Content-Type: application/json\r\n", ""), vec!["head 200 Empty"]),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), vec!["head 204 Empty"]),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .to_owned(),
            vec!["head 200 Json"],
        ),
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_owned(), vec!["head 204 Empty"]),
    ] {
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(target("http://x.test/"), dial);
        stage.begin(post(PING));
        let serve = async {
            let mut server = servers.next().await;
            server.answer(&answer).await;
            server
        };
        let (facts, _server) = tokio::join!(stage.facts(1), serve);
        let expected: Vec<_> = ["reached"].into_iter().chain(expected).chain(["end Complete Whole"]).collect();
        assert_eq!(facts, expected, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn chunked_body_is_one_message() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{}"}}}}"#, "x".repeat(200_000));
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json(&long)).await });
    assert_eq!(facts[2], format!("body {long}"));
    assert_eq!(facts[3], "end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn body_ended_by_close_is_complete() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.begin(post(PING));
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{PONG}");
    let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(answer).await });
    assert_eq!(facts, ["reached", "head 200 Json", &format!("body {PONG}"), "end Complete Whole"]);
}

#[tokio::test(start_paused = true)]
async fn stream_is_read_only_with_permission() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    let id = stage.begin(get());
    let serve = async {
        let mut server = servers.next().await;
        server.answer(events(&["data: 1\n\n", "data: 2\n\n"])).await;
        server
    };
    let head = async { (line(&stage.next().await), line(&stage.next().await)) };
    let ((reached, head), _server) = tokio::join!(head, serve);
    assert_eq!((&*reached, &*head), ("reached", "head 200 Events"));
    let denied = std::future::poll_fn(|cx| stage.http.poll_input(cx, |asked| asked != id));
    assert!(timeout(Duration::from_millis(100), denied).await.is_err(), "it was read without permission");
    assert_eq!(stage.facts(1).await, ["event data=1", "event data=2", "end Complete Whole"]);
}

#[tokio::test(start_paused = true)]
async fn event_is_read_only_after_the_one_before_was_reported() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    let id = stage.begin(get());
    let serve = async {
        let mut server = servers.next().await;
        server.answer(events(&["data: 1\n\n", "data: 2\n\n"])).await;
        server
    };
    let facts = async { [line(&stage.next().await), line(&stage.next().await), line(&stage.next().await)] };
    let (facts, _server) = tokio::join!(facts, serve);
    assert_eq!(facts, ["reached", "head 200 Events", "event data=1"]);
    let denied = std::future::poll_fn(|cx| stage.http.poll_input(cx, |asked| asked != id));
    assert!(timeout(Duration::from_millis(100), denied).await.is_err(), "it was read without permission");
    assert_eq!(stage.facts(1).await, ["event data=2", "end Complete Whole"]);
}

#[tokio::test(start_paused = true)]
async fn exchange_can_be_aborted_at_any_stage() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    let id = stage.begin(post(PING));
    stage.http.abort(id);
    assert_eq!(stage.facts(1).await, ["end Aborted Nothing"], "before it had a connection");
    assert_eq!(servers.unseen(), 0, "no dial");

    let id = stage.begin(post(PING));
    let mut server = stage.next_server(&mut servers).await;
    server.request().await;
    stage.http.abort(id);
    assert_eq!(stage.facts(1).await, ["2: end Aborted Whole"], "while it waited for the answer");
    assert!(server.is_closed().await);

    let id = stage.begin(get());
    let mut server = stage.next_server(&mut servers).await;
    server.answer(EVENTS_HEAD).await;
    assert_eq!(line(&stage.next().await), "3: head 200 Events");
    stage.http.abort(id);
    stage.http.abort(id);
    assert_eq!(stage.facts(1).await, ["3: end Aborted Whole"], "in the middle of its stream, and only once");
    assert!(server.is_closed().await);
    stage.http.abort(ExchangeId(99));
    let nothing = timeout(Duration::from_secs(60), stage.next()).await;
    assert!(nothing.is_err(), "{nothing:?} about an exchange that never was");
}

#[tokio::test(start_paused = true)]
async fn endpoint_is_resolved_against_its_own_stream() {
    let endpoint =
        |named: &str| HttpRequest { target: Some(named.to_owned()), verb: Verb::Get, headers: Vec::new(), body: None };
    for (named, path) in [("/messages?id=1", "/messages?id=1"), ("msg", "/a/msg"), ("http://x.test/m", "/m")] {
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(target("http://x.test/a/sse"), dial);
        stage.begin(endpoint(named));
        let (facts, request) = tokio::join!(stage.facts(1), async { servers.next().await.answer(json("")).await });
        assert_eq!(facts[2], "end Complete Whole");
        assert_eq!(request.lines().next(), Some(&*format!("GET {path} HTTP/1.1")));
    }
    let (dial, servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/sse"), dial);
    let facts = stage.exchange(endpoint("http://evil.test/messages?secret")).await;
    let words = "the server at http://x.test names an endpoint at http://evil.test, where nothing may be sent";
    assert_eq!(facts, [format!("end Forbidden({words:?}) Nothing")]);
    let facts = stage.exchange(endpoint("ht tp:")).await;
    assert_eq!(
        facts,
        ["2: end Forbidden(\"the server at http://x.test names an endpoint that is not a URL\") Nothing"]
    );
    assert_eq!(servers.unseen(), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_stream_is_kept() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    let start = Instant::now();
    stage.begin(get());
    let serve = async {
        let mut server = servers.next().await;
        let text = events(&["data: late\n\n"]);
        let (head, rest) = text.split_at(text.find("\r\n\r\n").unwrap() + 4);
        server.answer(head).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        server.write(rest).await;
        server
    };
    let (facts, _server) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts, ["reached", "head 200 Events", "event data=late", "end Complete Whole"]);
    assert!(start.elapsed() >= Duration::from_secs(3600));
}
