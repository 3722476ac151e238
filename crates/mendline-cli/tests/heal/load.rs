//! Overload, slow servers and large messages.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, failure, kill};
use crate::site::{Site, event_answers};
use crate::support::Bridge;
use crate::{answer_within, next_answer};

/// The deadline for many calls on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Reads this number of answers.
fn answers(client: &mut Client, count: usize) -> Vec<Value> {
    (0..count).map(|_| next_answer(client, LONG)).collect()
}

fn ids(answers: &[Value]) -> Vec<usize> {
    let mut ids: Vec<usize> = answers.iter().map(|answer| answer["id"].as_str().unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn l81_burst_of_thousand_calls_is_answered_completely() {
    let mut bridge = Bridge::around(&[]);
    for number in 0..1000 {
        let tool = if number % 2 == 0 { "lookup" } else { "create_note" };
        bridge.call(&number.to_string(), tool, &json!({ "key": format!("k{number}"), "delayMs": 20 }));
    }
    let answers = answers(&mut bridge, 1000);
    assert_eq!(ids(&answers), (0..1000).collect::<Vec<_>>());
    assert!(answers.iter().all(|answer| answer["result"]["isError"] == false));
    let ledger = bridge.ledger();
    assert_eq!(ledger.matches("executed ").count(), 1000);
}

#[test]
fn l82_calls_beyond_queue_limit_are_rejected_at_once() {
    const PLACES: usize = 256 + 1024;
    let mut bridge = Bridge::around(&[]);
    // No slot becomes free before the server continues.
    kill(bridge.server(), Signal::STOP);
    for number in 0..PLACES + 20 {
        bridge.call(&number.to_string(), "create_note", &json!({ "key": format!("k{number}") }));
    }
    let mut rejected = answers(&mut bridge, 20);
    bridge.call("1300", "create_note", &json!({ "key": "one more" }));
    rejected.extend(answers(&mut bridge, 1));
    for answer in &rejected {
        assert_eq!(failure(&answer["result"])["cause"], "overloaded", "{answer}");
        assert_eq!(failure(&answer["result"])["outcome"], "not_sent", "{answer}");
    }
    assert_eq!(ids(&rejected), (PLACES..=PLACES + 20).collect::<Vec<_>>());
    kill(bridge.server(), Signal::CONT);
    let rest = answers(&mut bridge, PLACES);
    assert_eq!(rest.iter().filter(|answer| answer["result"]["isError"] == false).count(), PLACES);
    assert_eq!(bridge.ledger().matches("executed ").count(), PLACES);
}

#[test]
fn l84_ten_times_slower_server_is_awaited() {
    let mut bridge = Bridge::around(&[]);
    for number in 0..300 {
        bridge.call(&number.to_string(), "create_note", &json!({ "key": format!("k{number}"), "delayMs": 500 }));
    }
    let answers = answers(&mut bridge, 300);
    assert_eq!(ids(&answers), (0..300).collect::<Vec<_>>());
    assert!(answers.iter().all(|answer| answer["result"]["isError"] == false));
    assert_eq!((bridge.noted("start").len(), bridge.ledger().matches("executed ").count()), (1, 300));
}

#[test]
fn l85_messages_below_limit_pass_both_ways_and_free_memory() {
    let mut bridge = Bridge::around(&[]);
    let text = "y".repeat((16 << 20) - 200);
    for number in 0..4 {
        let id = number.to_string();
        bridge.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"demo/echo","params":{{"text":"{text}"}}}}"#));
        let answer = answer_within(&mut bridge, &id, LONG);
        assert!(answer["result"]["text"] == text.as_str(), "it came back as it went");
    }
    let peak = peak_kib(bridge.process.id());
    println!("{peak} KiB at the most");
    assert!(peak < 200 << 10, "{peak} KiB for four messages of 16 MiB, one after the other");
}

#[test]
fn l85_message_over_limit_is_rejected_and_next_one_passes() {
    let mut bridge = Bridge::around(&[]);
    let text = "y".repeat(17 << 20);
    bridge.send(&format!(r#"{{"jsonrpc":"2.0","id":"a","method":"demo/echo","params":{{"text":"{text}"}}}}"#));
    bridge.call("b", "lookup", &json!({ "key": "k" }));
    assert_eq!(answer_within(&mut bridge, "b", LONG)["result"]["content"][0]["text"], "k is 42");

    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    let huge = client.result("a", "big", &json!({ "key": "k", "bytes": 17 << 20 }));
    assert!(huge["content"][0]["text"].as_str().unwrap().contains("larger than the limit"), "{huge}");
    assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42");
    assert_eq!(site.executions("k"), 1);
}

fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.unwrap()
}
