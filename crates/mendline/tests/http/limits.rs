//! Limits of the transport: an exchange beyond a limit ends with an error.

use std::time::Duration;

use mendline::transport::http::Target;
use mendline_core::{Input, defaults};
use mendline_wire::{Limits, Received};

use super::stage::{
    MemoryDialer, PING, PONG, Server, Servers, Stage, events, get, json, line, memory_dialer, post, target,
};

fn small() -> Target {
    target("http://x.test/").limits(Limits { message_bytes: 1000, ..Limits::default() }).head_bytes(8192)
}

async fn answered(answer: String) -> Vec<String> {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(small(), dial);
    stage.begin(if answer.contains("event-stream") { get() } else { post(PING) });
    let serve = async {
        let mut server = servers.next().await;
        server.answer(&answer).await;
        server.is_closed().await
    };
    let (mut facts, closed) =
        tokio::join!(stage.facts(1), async { tokio::time::timeout(Duration::from_secs(60), serve).await });
    facts.retain(|fact| !fact.starts_with("body"));
    facts.push(if closed == Ok(true) { "closed" } else { "open" }.to_owned());
    facts
}

fn message(length: usize) -> String {
    let frame = r#"{"jsonrpc":"2.0","id":1,"result":""}"#.len();
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(length - frame))
}

#[tokio::test(start_paused = true)]
async fn body_up_to_limit_is_accepted() {
    assert_eq!(answered(json(&message(1000))).await[..3], ["reached", "head 200 Json", "end Complete Whole"]);
    assert_eq!(answered(json(&message(1001))).await, ["reached", "head 200 Json", "end TooLarge Whole", "closed"]);
    let chunked = |length| events(&[&message(length)]).replace("text/event-stream", "application/json");
    assert_eq!(answered(chunked(1000)).await[..3], ["reached", "head 200 Json", "end Complete Whole"]);
    assert_eq!(answered(chunked(1001)).await, ["reached", "head 200 Json", "end TooLarge Whole", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn event_over_limit_ends_stream() {
    let long = format!("data: {}\n\n", "x".repeat(1000));
    let facts = answered(events(&["data: 1\n\n", &long, "data: 3\n\n"])).await;
    assert_eq!(facts, ["reached", "head 200 Events", "event data=1", "end TooLarge Whole", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn event_limit_is_per_event() {
    let events = events(&["data: 0123456789\n\n"; 200]);
    let facts = answered(events).await;
    assert_eq!(facts.len(), 204);
    assert_eq!(facts[202], "end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn response_head_over_limit_is_rejected() {
    let head = |bytes: usize| format!("HTTP/1.1 204 No Content\r\nX-Long: {}\r\n\r\n", "x".repeat(bytes));
    assert_eq!(answered(head(8000)).await[..3], ["reached", "head 204 Empty", "end Complete Whole"]);
    assert_eq!(answered(head(8200)).await[..2], ["reached", "end TooLarge Whole"]);
}

#[tokio::test(start_paused = true)]
async fn w02_event_up_to_configured_limit_is_accepted() {
    // More than the default limit.
    let long = message(17 << 20);
    let (dial, mut servers) = memory_dialer();
    let limits = Limits { message_bytes: 32 << 20, ..Limits::default() };
    let mut stage = Stage::new(target("http://x.test/").limits(limits), dial);
    stage.begin(get());
    let text = events(&[&format!("data: {long}\n\n")]);
    let serve = async {
        let mut server = servers.next().await;
        server.answer(&text).await;
        server
    };
    let read = async {
        loop {
            if let Input::StreamEvent { event, .. } = stage.next().await {
                return event.received;
            }
        }
    };
    let (received, _server) = tokio::join!(read, serve);
    assert!(matches!(received, Some(Received::Message(message)) if message.text() == &long));
}

/// Runs the transport beside another future. Returns its facts.
async fn facts_while<T>(stage: &mut Stage<MemoryDialer>, other: impl Future<Output = T>) -> (Vec<String>, T) {
    let mut facts = Vec::new();
    tokio::pin!(other);
    loop {
        tokio::select! {
            done = &mut other => return (facts, done),
            fact = stage.next() => facts.push(line(&fact)),
        }
    }
}

/// Starts an exchange with this number of bytes of an unfinished body, and returns its server.
async fn unfinished(stage: &mut Stage<MemoryDialer>, servers: &mut Servers, bytes: usize) -> Server {
    stage.begin(post(PING));
    let length = bytes + REST.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    let serve = async {
        let mut server = servers.next().await;
        server.answer(format!("{head}{}", " ".repeat(bytes))).await;
        // Lets the transport read all that it may.
        tokio::time::sleep(Duration::from_millis(10)).await;
        server
    };
    facts_while(stage, serve).await.1
}

/// The last bytes of a body of spaces: not a message, but a complete body.
const REST: &str = "        ";

/// Creates a stage with a limit of 4,000 bytes for each answer and 10,000 for all.
fn tight() -> (Stage<MemoryDialer>, Servers) {
    let (dial, servers) = memory_dialer();
    let limits = Limits { message_bytes: 4_000, ..Limits::default() };
    let mut stage = Stage::new(target("http://x.test/").limits(limits), dial);
    stage.http.limit_buffers(10_000);
    (stage, servers)
}

#[tokio::test(start_paused = true)]
async fn s05_unfinished_bodies_stay_within_memory_budget() {
    let (mut stage, mut servers) = tight();
    let mut far = Vec::new();
    for _ in 0..8 {
        far.push(unfinished(&mut stage, &mut servers, 3_000).await);
        assert!(stage.http.buffered() <= 10_000, "{}", stage.http.buffered());
    }
    assert!(stage.http.buffered() >= 6_000, "{}", stage.http.buffered());
    // The oldest body continues, and each body that ends lets others be read.
    for server in &mut far {
        server.write(REST).await;
    }
    let facts = stage.facts(8).await;
    assert_eq!(facts.iter().filter(|fact| fact.ends_with("end Complete Whole")).count(), 8, "{facts:?}");
    assert_eq!(stage.http.buffered(), 0);
}

#[tokio::test(start_paused = true)]
async fn s05_largest_unfinished_body_is_aborted() {
    let (mut stage, mut servers) = tight();
    let mut far = Vec::new();
    for bytes in [2_900, 3_900] {
        far.push(unfinished(&mut stage, &mut servers, bytes).await);
    }
    // This body is short and complete, but cannot be read before memory is free.
    stage.begin(post(PING));
    let serve = async { servers.next().await.answer(json(PONG)).await };
    let (mut facts, _) = facts_while(&mut stage, serve).await;
    let rest = tokio::time::timeout(Duration::from_secs(60), stage.facts(2)).await;
    facts.extend(rest.expect("memory is freed"));
    facts.retain(|fact| !fact.ends_with("reached") && !fact.contains("head"));
    assert_eq!(facts.len(), 3, "{facts:?}");
    assert!(facts[0].starts_with("2: end Cut(") && facts[0].contains("the largest"), "{facts:?}");
    assert_eq!(facts[1..], [format!("3: body {PONG}"), "3: end Complete Whole".to_owned()]);
    assert_eq!(stage.http.buffered(), 2_900);
}

#[tokio::test(start_paused = true)]
async fn s04_busy_connections_are_limited() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target("http://x.test/"), dial);
    stage.http.limit_calls(2);
    let most = 2 + defaults::SUBSCRIPTION_STREAMS + defaults::CONNECTIONS_BESIDE_CALLS;
    for _ in 0..most + 50 {
        stage.begin(post(PING));
    }
    let minute = tokio::time::sleep(Duration::from_secs(60));
    let (facts, ()) = facts_while(&mut stage, minute).await;
    assert_eq!((facts.len(), servers.unseen()), (most, most), "as many as may be, and no more");
    // A free connection carries the next exchange.
    let mut first = servers.next().await;
    let (facts, _) = tokio::join!(stage.facts(1), first.answer(json(PONG)));
    assert_eq!(facts.last().unwrap(), "end Complete Whole");
    assert_eq!(line(&stage.next().await), format!("{}: reached", most + 1));
}
