//! Connections that fall silent.
//!
//! Only TCP keep-alive or an HTTP/2 PING can tell a slow server from one that is gone. So these tests take as long as
//! the timers do: fifteen seconds before the first TCP probe and five for each further one; thirty before a PING and
//! ten for its answer. They run concurrently. Only they show that a real kernel applies the configured timers.

use std::thread;
use std::time::{Duration, Instant};

use mendline_faults::toxic::{HalfOpen, Partition, Toxic, Unplugged};
use mendline_faults::{Direction, Proxy};
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, failure};
use crate::secure::TrustedAuthority;
use crate::site::{Site, event_answers, json_answers, through_a_proxy};
use crate::sockets::sockets;

/// Forty-five seconds, and two probes of five more.
const FOUND: Duration = Duration::from_secs(55);

/// Starts a call and drops all packets once it runs at the server.
fn call_then_silence(site: &Site, proxy: &Proxy, client: &mut Client, tool: &str, direction: Direction) -> Instant {
    client.call(tool, tool, &json!({ "key": tool, "delayMs": 600_000 }));
    site.until("the call runs", |counts| counts.executions_of(tool) == 1);
    drop_packets(proxy, direction);
    Instant::now()
}

/// Drops all packets of all current connections.
fn drop_packets(proxy: &Proxy, direction: Direction) -> u64 {
    // The kernel of the proxy would retransmit unacknowledged data, which is a sign of life.
    let port = proxy.address().port();
    eventually("all that was sent has been acknowledged", SOON, || {
        !sockets().iter().any(|socket| socket.local_port == port && socket.unacknowledged > 0)
    });
    let there = proxy.counts().open;
    let toxic = proxy.add(direction, Toxic::Unplugged(Unplugged {}));
    eventually("all packets are dropped", SOON, || proxy.counts().unplugged >= there);
    toxic
}

/// Expects an unknown outcome, and that the next call runs.
fn assert_unknown_and_next_call_runs(site: &Site, mut client: Client, since: Instant) -> Duration {
    let result = client.answer_within("create_note", FOUND)["result"].clone();
    let took = since.elapsed();
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!(failure(&result)["cause"], "outcome_unknown", "{result}");
    assert_eq!(site.executions("create_note"), 1);
    let next = client.result("next", "create_note", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "wrote l", "{next}");
    assert_eq!(site.executions("l"), 1);
    took
}

fn t16_over_http1() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = call_then_silence(&site, &proxy, &mut client, "create_note", Direction::Both);
    assert_unknown_and_next_call_runs(&site, client, since)
}

fn t16_over_http2() -> Duration {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(json_answers(), trusted.good());
    let proxy = site.proxy();
    let mut client = trusted.initialized(&format!("https://{}/mcp", proxy.address()), &[]);
    let since = call_then_silence(&site, &proxy, &mut client, "create_note", Direction::Both);
    assert_unknown_and_next_call_runs(&site, client, since)
}

/// A read is repeated without a failure.
fn t16_a_read() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = call_then_silence(&site, &proxy, &mut client, "lookup", Direction::Both);
    eventually("the read is sent again", FOUND, || site.executions("lookup") == 2);
    since.elapsed()
}

/// The GET stream falls silent while no call waits.
fn t16_get_stream() -> Duration {
    let site = Site::start(event_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    drop_packets(&proxy, Direction::Both);
    let since = Instant::now();
    eventually("another one is opened", FOUND, || site.counts().gets >= 2);
    site.notify("notifications/prompts/list_changed", &json!({}));
    let notice: Value = serde_json::from_str(&client.line()).unwrap();
    assert_eq!(notice["method"], "notifications/prompts/list_changed");
    since.elapsed()
}

/// Packets from Mendline are lost; packets to Mendline would arrive.
fn t17_one_way() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = call_then_silence(&site, &proxy, &mut client, "create_note", Direction::Up);
    assert_unknown_and_next_call_runs(&site, client, since)
}

/// No packet passes on any connection, old or new, until the partition ends.
fn t18_two_way() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = call_then_silence(&site, &proxy, &mut client, "create_note", Direction::Both);
    let partition = proxy.add(Direction::Both, Toxic::Partition(Partition {}));
    let result = client.answer_within("create_note", FOUND)["result"].clone();
    let took = since.elapsed();
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    client.call("next", "lookup", &json!({ "key": "l" }));
    proxy.remove(partition);
    assert_eq!(client.answer("next")["result"]["content"][0]["text"], "l is 42");
    took
}

/// A test case that returns the time until detection.
type Case = fn() -> Duration;

#[test]
fn t16_t17_t18_silent_connection_is_detected_within_bound() {
    let cases: [(&str, Case); 6] = [
        ("an unsafe call over HTTP/1.1", t16_over_http1),
        ("an unsafe call over HTTP/2", t16_over_http2),
        ("a read", t16_a_read),
        ("the GET stream", t16_get_stream),
        ("one way", t17_one_way),
        ("both ways", t18_two_way),
    ];
    let threads = cases.map(|(name, case)| (name, thread::Builder::new().name(name.into()).spawn(case).unwrap()));
    for (name, case) in threads {
        let took = case.join().unwrap_or_else(|_| panic!("{name}"));
        println!("{name}: found after {took:?}");
        assert!(took < FOUND, "{name}: {took:?}");
    }
}

#[test]
fn t18_short_partition_only_delays_call() {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    // The answer is held back until the partition ends.
    let hold = proxy.add(Direction::Down, Toxic::Partition(Partition {}));
    client.call("a", "create_note", &json!({ "key": "k" }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    eventually("the answer is held up", SOON, || site.counts().bytes_out > proxy.counts().down.written);
    let toxic = drop_packets(&proxy, Direction::Both);
    proxy.remove(hold);
    // New connections work and do not wait for the silent one.
    let other = client.result("b", "lookup", &json!({ "key": "l" }));
    assert_eq!(other["content"][0]["text"], "l is 42", "{other}");
    proxy.remove(toxic);
    let result = client.answer("a")["result"].clone();
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn t16_silent_connection_times_out_and_next_call_reconnects() {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &["--tool-timeout", "lookup=1500ms"]);
    client.call("a", "lookup", &json!({ "key": "k", "delayMs": 60_000 }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    proxy.add(Direction::Both, Toxic::HalfOpen(HalfOpen {}));
    let result = client.answer("a")["result"].clone();
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    let next = client.result("b", "create_note", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "wrote l", "{next}");
    assert_eq!(site.executions("l"), 1);
}
