//! Slow networks: calls take longer and do not fail before the deadline.

use std::time::{Duration, Instant};

use mendline_faults::toxic::{Bandwidth, Latency, Slicer, SlowClose, Toxic};
use mendline_faults::{Direction, Ending};
use serde_json::json;

use crate::client::{SOON, eventually};
use crate::site::{Site, event_answers, initialized, json_answers, through_a_proxy};

/// A deadline for calls that are slow by design.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn t19_five_seconds_of_latency_only_delay_call() {
    let site = Site::start(event_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    proxy.add(Direction::Both, Toxic::Latency(Latency { ms: 2_500 }));
    let begin = Instant::now();
    client.call("a", "create_note", &json!({ "key": "k" }));
    let result = client.answer_within("a", PATIENCE)["result"].clone();
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert!(begin.elapsed() >= Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(site.counts().messages_of("tools/call"), 1);
}

#[test]
fn t21_single_bytes_in_both_directions_change_nothing() {
    for settings in [json_answers(), event_answers()] {
        let site = Site::start(settings);
        let proxy = site.proxy();
        proxy.add(Direction::Both, Toxic::Slicer(Slicer { bytes: 1, gap_ms: 0 }));
        let mut client = initialized(&format!("http://{}/mcp", proxy.address()), &[]);
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
        assert_eq!((site.executions("k"), site.counts().refusals), (1, 0));
    }
}

#[test]
fn t20_bandwidth_of_thousand_bytes_per_second_suffices() {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    proxy.add(Direction::Both, Toxic::Bandwidth(Bandwidth { bytes_per_second: 1_000 }));
    let begin = Instant::now();
    client.call("a", "big", &json!({ "key": "k", "bytes": 3_000 }));
    let result = client.answer_within("a", PATIENCE)["result"].clone();
    assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), 3_000);
    assert!(begin.elapsed() >= Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (1, 1));
}

#[test]
fn t23_delayed_close_is_not_taken_for_open_connection() {
    for ending in [Ending::Fin, Ending::Reset] {
        let site = Site::start(json_answers());
        let (proxy, mut client) = through_a_proxy(&site, &[]);
        site.until("the GET stream is open", |counts| counts.gets == 1);
        proxy.add(Direction::Both, Toxic::SlowClose(SlowClose { ms: 400 }));
        // The server has closed all connections. The client side does not know it yet.
        site.cut(ending);
        site.until("no connection is left", |counts| counts.open_connections == 0);
        for number in 0..8 {
            let key = format!("{ending:?}{number}");
            let result = client.result(&key, "lookup", &json!({ "key": key }));
            assert_eq!(result["content"][0]["text"], format!("{key} is 42"), "{result}");
        }
        client.stdin = None;
        assert_eq!(client.rest(), Vec::<String>::new());
        assert_eq!(client.exit_code(SOON), Some(0));
        eventually("all ends have arrived", SOON, || proxy.counts().open == 0);
    }
}
