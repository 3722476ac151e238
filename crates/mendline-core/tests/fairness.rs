//! Several clients of one server: the order of their calls, and the limits of the queue.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::RateLimit;
use mendline_core::{ClientId, ClientStreams, Input, UpstreamConfig};
use serde_json::Value;
use stage::{CLIENT, NOTES, Stage, call};

const OTHER: ClientId = ClientId(1);
const THIRD: ClientId = ClientId(2);
const SECOND: Duration = Duration::from_secs(1);

/// Creates a stage with a running child and three clients.
fn shared(change: impl FnOnce(&mut UpstreamConfig)) -> Stage {
    let mut stage = Stage::with(change);
    stage.accept_dial();
    for client in [OTHER, THIRD] {
        stage.input(Input::ClientOpened { client, upstream: NOTES, streams: ClientStreams::One });
    }
    stage
}

/// One slot, and a queue of four.
fn one_slot(config: &mut UpstreamConfig) {
    (config.limits.in_flight, config.limits.waiting) = (1, 4);
}

fn sends(stage: &mut Stage, client: ClientId, text: &str) {
    stage.sends(client, text);
}

/// Calls tools whose names contain the client and the id.
fn calls(stage: &mut Stage, client: ClientId, ids: impl IntoIterator<Item = u32>) {
    for id in ids {
        sends(stage, client, &call(&id.to_string(), &format!("{}-{id}", client.0)));
    }
}

fn reads(stage: &mut Stage, client: ClientId) -> Option<Value> {
    stage.reads(client)
}

fn cause(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.mendline/failure"]["cause"].as_str().unwrap_or("none")
}

/// Returns the calls of a client that were rejected, each with its cause.
fn rejections(stage: &mut Stage, client: ClientId) -> Vec<(u64, String)> {
    let answers = std::iter::from_fn(|| reads(stage, client));
    answers.map(|answer| (answer["id"].as_u64().unwrap(), cause(&answer).to_owned())).collect()
}

fn served(stage: &mut Stage) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(request) = stage.server_reads() {
        order.push(request["params"]["name"].as_str().unwrap().to_owned());
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
    }
    order
}

#[test]
fn waiting_clients_are_served_round_robin() {
    let mut stage = shared(|notes| notes.limits.in_flight = 1);
    calls(&mut stage, CLIENT, 1..=4);
    calls(&mut stage, OTHER, 1..=2);
    assert_eq!(served(&mut stage), ["0-1", "1-1", "0-2", "1-2", "0-3", "0-4"]);
    assert!(reads(&mut stage, OTHER).is_some());
}

#[test]
fn full_queue_evicts_newest_call_of_busiest_client() {
    let mut stage = shared(one_slot);
    calls(&mut stage, CLIENT, 1..=6);
    assert_eq!(rejections(&mut stage, CLIENT), [(6, "overloaded".to_owned())], "one is out and four wait");
    calls(&mut stage, OTHER, 1..=3);
    let rejected = rejections(&mut stage, CLIENT);
    assert_eq!(rejected, [(5, "overloaded".to_owned()), (4, "overloaded".to_owned())], "the newest calls are evicted");
    let rejected = rejections(&mut stage, OTHER);
    assert_eq!(rejected, [(3, "overloaded".to_owned())], "until both have as much");
    calls(&mut stage, THIRD, [1]);
    assert_eq!(rejections(&mut stage, THIRD), [], "a client without calls gets a slot");
    assert_eq!(rejections(&mut stage, OTHER), [(2, "overloaded".to_owned())], "at one of those who have most");
    assert_eq!(served(&mut stage), ["0-1", "1-1", "2-1", "0-2", "0-3"]);
}

#[test]
fn evicted_call_is_reported_as_not_sent() {
    let mut stage = shared(one_slot);
    calls(&mut stage, CLIENT, 1..=5);
    calls(&mut stage, OTHER, [1]);
    let rejected = reads(&mut stage, CLIENT).unwrap();
    let facts = &rejected["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!(
        (&facts["outcome"], &facts["attempts"], &facts["retryable"]),
        (&"not_sent".into(), &0.into(), &true.into())
    );
    let text = rejected["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("other clients"), "{text}");
    assert_eq!(stage.engine.open_calls(NOTES), 5, "no more are held than before");
}

#[test]
fn call_sent_before_is_not_evicted() {
    let mut stage = shared(|notes| {
        one_slot(notes);
        (notes.retry.initial, notes.retry.cap) = (3_600 * SECOND, 3_600 * SECOND);
    });
    for id in 1..=5 {
        sends(&mut stage, CLIENT, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"prompts/list"}}"#));
    }
    for _ in 1..=4 {
        let sent = stage.server_reads().unwrap();
        let id = &sent["id"];
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#));
    }
    calls(&mut stage, OTHER, [1]);
    assert_eq!(rejections(&mut stage, OTHER), [(1, "overloaded".to_owned())], "their effect is unknown");
    assert_eq!(rejections(&mut stage, CLIENT), []);
}

#[test]
fn estimated_wait_counts_own_turn_only() {
    let mut stage = shared(|notes| notes.rate_limit = Some(RateLimit { burst: 1, per_second: 0.1 }));
    calls(&mut stage, CLIENT, 1..=6);
    assert_eq!(rejections(&mut stage, CLIENT), [(6, "rate_limited".to_owned())], "it would run in fifty seconds");
    calls(&mut stage, OTHER, [1]);
    assert_eq!(rejections(&mut stage, OTHER), [], "this one's is the next");
    assert_eq!(served(&mut stage), ["0-1"]);
    stage.advance(10 * SECOND);
    assert_eq!(served(&mut stage), ["1-1"]);
}

#[test]
fn overtaken_call_reports_rate_limit_at_timeout() {
    let mut stage = shared(|notes| {
        notes.rate_limit = Some(RateLimit { burst: 1, per_second: 0.1 });
        notes.timeouts.recovery = 45 * SECOND;
    });
    calls(&mut stage, CLIENT, 1..=5);
    calls(&mut stage, OTHER, [1]);
    for expected in ["0-1", "1-1", "0-2", "0-3", "0-4"] {
        assert_eq!(served(&mut stage), [expected]);
        stage.advance(9 * SECOND);
        assert_eq!(served(&mut stage), [""; 0], "not before its slot");
        stage.advance(SECOND);
    }
    let late = std::iter::from_fn(|| reads(&mut stage, CLIENT)).find(|answer| answer["id"] == 5).unwrap();
    assert_eq!(cause(&late), "rate_limited");
    let words = late["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("the configured limit is one call in 10 s"), "{words}");
    assert_eq!(served(&mut stage), [""; 0], "the client has left");
}

#[test]
fn calls_in_backoff_do_not_block_free_slot() {
    let mut stage = shared(|notes| {
        one_slot(notes);
        (notes.retry.initial, notes.retry.cap) = (3_600 * SECOND, 3_600 * SECOND);
    });
    for id in 1..=4 {
        sends(&mut stage, CLIENT, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"prompts/list"}}"#));
        let sent = stage.server_reads().unwrap();
        let id = &sent["id"];
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#));
    }
    calls(&mut stage, CLIENT, [5]);
    assert_eq!(rejections(&mut stage, CLIENT), [], "the queue is full, and it need not queue");
    assert_eq!(stage.server_reads().unwrap()["params"]["name"], "0-5");
    calls(&mut stage, CLIENT, [6]);
    assert_eq!(rejections(&mut stage, CLIENT), [(6, "overloaded".to_owned())], "this one would have to");
}

#[test]
fn number_of_calls_in_backoff_is_limited() {
    let mut stage = shared(|notes| {
        one_slot(notes);
        (notes.retry.initial, notes.retry.cap) = (3_600 * SECOND, 3_600 * SECOND);
    });
    for id in 1..=9 {
        sends(&mut stage, CLIENT, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"prompts/list"}}"#));
        let Some(sent) = stage.server_reads() else { break };
        let id = &sent["id"];
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#));
    }
    assert_eq!(stage.engine.open_calls(NOTES), 5, "as many as there are places, and room to wait");
}
