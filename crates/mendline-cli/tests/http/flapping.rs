//! Networks that come and go, and connections that stall one after another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mendline_faults::toxic::{Flap, Partition, Toxic};
use mendline_faults::{Direction, Ending};
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, failure};
use crate::site::{Site, initialized, json_answers, through_a_proxy};

/// Returns the answers to this number of calls by id. Each must come once.
fn answers(client: &mut Client, count: usize, within: Duration) -> BTreeMap<String, Value> {
    let deadline = Instant::now() + within;
    let mut answers = BTreeMap::new();
    while answers.len() < count {
        let line = client.line_within(deadline.saturating_duration_since(Instant::now()));
        let answer: Value = serde_json::from_str(&line).unwrap();
        let id = answer["id"].as_str().unwrap().to_owned();
        assert!(answers.insert(id, answer["result"].clone()).is_none(), "answered twice: {line}");
    }
    answers
}

/// Returns how often the log reports a dial.
fn refusals(client: &Client) -> usize {
    client.log().matches("refused").count()
}

#[test]
fn t24_flapping_network_loses_no_answer_and_bounds_dials() {
    let site = Site::start(json_answers());
    // With fast backoff the dials find every second up-phase. After six dials in a minute they are 2.0 to 2.4 s apart, so
    // that they meet both phases.
    let (proxy, mut client) = through_a_proxy(&site, &["--max-retry-delay", "400ms", "--max-retries", "-1"]);
    let begin = Instant::now();
    proxy.add(Direction::Both, Toxic::Flap(Flap { down_ms: 1_000, up_ms: 1_000 }));
    let mut sent = 0;
    let mut results = BTreeMap::new();
    while begin.elapsed() < Duration::from_secs(6) {
        for tool in ["lookup", "create_note"] {
            client.call(&format!("{tool}{sent}"), tool, &json!({ "key": format!("{tool}{sent}"), "delayMs": 100 }));
        }
        sent += 1;
        results.extend(answers(&mut client, 2, 4 * SOON));
    }
    proxy.clear();
    for (id, result) in &results {
        if id.starts_with("lookup") {
            assert_eq!(result["content"][0]["text"], format!("{id} is 42"), "{result}");
        } else if result["isError"] == true {
            assert_eq!(failure(result)["outcome"], "unknown", "what was not sent waits: {result}");
            assert!(site.executions(id) <= 1, "{id}");
        } else {
            assert_eq!(site.executions(id), 1, "{id}");
        }
    }
    let result = client.result("after", "create_note", &json!({ "key": "after" }));
    assert_eq!(result["content"][0]["text"], "wrote after", "{result}");
    // I7: thirty dials a minute. This backoff alone would dial three times a second.
    assert!(refusals(&client) <= 30 && begin.elapsed() < Duration::from_secs(60), "{}", client.log());
    assert_eq!(results.len(), 2 * sent);
}

#[test]
fn t25_connections_stalling_in_turn_lose_nothing() {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    // No answer passes before all connections stall.
    let hold = proxy.add(Direction::Down, Toxic::Partition(Partition {}));
    for number in 0..6 {
        let tool = if number % 2 == 0 { "lookup" } else { "create_note" };
        client.call(&number.to_string(), tool, &json!({ "key": format!("k{number}") }));
    }
    site.until("all of them run", |counts| counts.executions.len() == 6);
    let connections = proxy.connections();
    assert!(connections.len() >= 6, "each call has its own connection: {connections:?}");
    for connection in &connections {
        assert!(proxy.clog(*connection));
    }
    proxy.remove(hold);
    eventually("the answers are held up", SOON, || site.counts().bytes_out > proxy.counts().down.written);
    // New calls use new connections and do not wait.
    let result = client.result("meanwhile", "create_note", &json!({ "key": "meanwhile" }));
    assert_eq!(result["content"][0]["text"], "wrote meanwhile", "{result}");
    for at in [3, 0, 5, 1, 4, 2] {
        proxy.unclog(connections[at]);
    }
    for connection in &connections[6..] {
        proxy.unclog(*connection);
    }
    for (id, result) in answers(&mut client, 6, SOON) {
        assert_eq!(result["isError"], false, "{id}: {result}");
        assert_eq!(site.executions(&format!("k{id}")), 1);
    }
    assert_eq!(site.counts().messages_of("tools/call"), 7);
}

/// The streams of R13 live for six seconds, in five minutes. Here each is cut once it has carried an answer, which is as
/// often as dials are allowed.
#[test]
fn r13_cut_sse_streams_refuse_no_call() {
    const CUTS: usize = 20;
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    let mut client = initialized(&format!("http://{}/sse", proxy.address()), &[]);
    for cut in 0..CUTS {
        let result = client.result(&format!("k{cut}"), "lookup", &json!({ "key": format!("k{cut}") }));
        assert_eq!(result["content"][0]["text"], format!("k{cut} is 42"), "{result}");
        proxy.cut(if cut % 2 == 0 { Ending::Fin } else { Ending::Reset });
    }
    let log = client.log();
    assert!(!log.contains("Parked"), "{log}");
    assert!(site.counts().gets >= CUTS as u64, "every cut ended a stream");
}
