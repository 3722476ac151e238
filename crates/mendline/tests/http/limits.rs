//! Everything has a limit, and crossing it is an ordinary end.

use mendline::transport::http::Target;
use mendline_wire::Limits;

use super::stage::{PING, Stage, cables, events, get, json, post, target};

fn small() -> Target {
    target("http://x.test/").limits(Limits { message_bytes: 1000, ..Limits::default() }).head_bytes(8192)
}

async fn answered(answer: String) -> Vec<String> {
    let (dial, mut servers) = cables();
    let mut stage = Stage::new(small(), dial);
    stage.begin(if answer.contains("event-stream") { get() } else { post(PING) });
    let serve = async {
        let mut server = servers.next().await;
        server.answer(&answer).await;
        server.is_closed().await
    };
    let (mut facts, closed) =
        tokio::join!(stage.facts(1), async { tokio::time::timeout(std::time::Duration::from_secs(60), serve).await });
    facts.retain(|fact| !fact.starts_with("body"));
    facts.push(if closed == Ok(true) { "closed" } else { "open" }.to_owned());
    facts
}

fn message(length: usize) -> String {
    let frame = r#"{"jsonrpc":"2.0","id":1,"result":""}"#.len();
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(length - frame))
}

#[tokio::test(start_paused = true)]
async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
    assert_eq!(answered(json(&message(1000))).await[..3], ["reached", "head 200 Json", "end Complete Whole"]);
    assert_eq!(answered(json(&message(1001))).await, ["reached", "head 200 Json", "end TooLarge Whole", "closed"]);
    let chunked = |length| events(&[&message(length)]).replace("text/event-stream", "application/json");
    assert_eq!(answered(chunked(1000)).await[..3], ["reached", "head 200 Json", "end Complete Whole"]);
    assert_eq!(answered(chunked(1001)).await, ["reached", "head 200 Json", "end TooLarge Whole", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_beyond_the_limit_ends_its_stream() {
    let long = format!("data: {}\n\n", "x".repeat(1000));
    let facts = answered(events(&["data: 1\n\n", &long, "data: 3\n\n"])).await;
    assert_eq!(facts, ["reached", "head 200 Events", "event data=1", "end TooLarge Whole", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn many_events_may_be_longer_than_the_limit_together() {
    let events = events(&["data: 0123456789\n\n"; 200]);
    let facts = answered(events).await;
    assert_eq!(facts.len(), 204);
    assert_eq!(facts[202], "end Complete Whole");
}

#[tokio::test(start_paused = true)]
async fn a_head_beyond_the_limit_is_not_read() {
    let head = |bytes: usize| format!("HTTP/1.1 204 No Content\r\nX-Long: {}\r\n\r\n", "x".repeat(bytes));
    assert_eq!(answered(head(8000)).await[..3], ["reached", "head 204 Empty", "end Complete Whole"]);
    assert_eq!(answered(head(8200)).await[..2], ["reached", "end TooLarge Whole"]);
}
