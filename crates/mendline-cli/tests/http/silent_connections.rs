//! Connections that fall silent and say nothing about it.
//!
//! Whether a silent server works or has vanished can be asked only of its kernel, or over HTTP/2 of itself. So these stories
//! take as long as the questions do: fifteen seconds of silence before the first probe of TCP, five more for each of the
//! next, thirty before a PING and ten for its answer. They run side by side and are worth their half minute, because nothing
//! else shows that a real kernel does as it was told.

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

/// A call runs at the server, and from then on no packet comes through.
fn falls_silent(site: &Site, proxy: &Proxy, client: &mut Client, tool: &str, direction: Direction) -> Instant {
    client.call(tool, tool, &json!({ "key": tool, "delayMs": 600_000 }));
    site.until("the call runs", |counts| counts.executions_of(tool) == 1);
    unplug(proxy, direction);
    Instant::now()
}

/// From here on no packet comes through on any connection there is.
fn unplug(proxy: &Proxy, direction: Direction) -> u64 {
    // What the proxy's kernel still waits to hear about it would send again and again, which is a sign of life.
    let port = proxy.address().port();
    eventually("all that was sent has been acknowledged", SOON, || {
        !sockets().iter().any(|socket| socket.local_port == port && socket.unacknowledged > 0)
    });
    let there = proxy.counts().open;
    let toxic = proxy.add(direction, Toxic::Unplugged(Unplugged {}));
    eventually("all are unplugged", SOON, || proxy.counts().unplugged >= there);
    toxic
}

/// What an unsafe call is told, and that the next one runs.
fn is_told_and_goes_on(site: &Site, mut client: Client, since: Instant) -> Duration {
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
    let since = falls_silent(&site, &proxy, &mut client, "create_note", Direction::Both);
    is_told_and_goes_on(&site, client, since)
}

fn t16_over_http2() -> Duration {
    let trusted = TrustedAuthority::new();
    let site = Site::start_secure(json_answers(), trusted.good());
    let proxy = site.proxy();
    let mut client = trusted.initialized(&format!("https://{}/mcp", proxy.address()), &[]);
    let since = falls_silent(&site, &proxy, &mut client, "create_note", Direction::Both);
    is_told_and_goes_on(&site, client, since)
}

/// A read is not told anything: it is sent again.
fn t16_a_read() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = falls_silent(&site, &proxy, &mut client, "lookup", Direction::Both);
    eventually("the read is sent again", FOUND, || site.executions("lookup") == 2);
    since.elapsed()
}

/// The stream for notices is as deaf as any other, and nobody waits for it.
fn t16_the_stream_for_notices() -> Duration {
    let site = Site::start(event_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    site.until("the stream for notices is open", |counts| counts.gets == 1);
    unplug(&proxy, Direction::Both);
    let since = Instant::now();
    eventually("another one is opened", FOUND, || site.counts().gets >= 2);
    site.notify("notifications/tools/list_changed", &json!({}));
    let notice: Value = serde_json::from_str(&client.line()).unwrap();
    assert_eq!(notice["method"], "notifications/tools/list_changed");
    since.elapsed()
}

/// What we send is lost, what is sent to us would arrive.
fn t17_one_way() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = falls_silent(&site, &proxy, &mut client, "create_note", Direction::Up);
    is_told_and_goes_on(&site, client, since)
}

/// Nothing passes on any connection, old or new, until it is healed.
fn t18_two_way() -> Duration {
    let site = Site::start(json_answers());
    let (proxy, mut client) = through_a_proxy(&site, &[]);
    let since = falls_silent(&site, &proxy, &mut client, "create_note", Direction::Both);
    let partition = proxy.add(Direction::Both, Toxic::Partition(Partition {}));
    let result = client.answer_within("create_note", FOUND)["result"].clone();
    let took = since.elapsed();
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    client.call("next", "lookup", &json!({ "key": "l" }));
    proxy.remove(partition);
    assert_eq!(client.answer("next")["result"]["content"][0]["text"], "l is 42");
    took
}

/// What happens, and how long it took until it was found.
type Case = fn() -> Duration;

#[test]
fn t16_t17_t18_silent_connection_is_detected_within_bound() {
    let cases: [(&str, Case); 6] = [
        ("an unsafe call over HTTP/1.1", t16_over_http1),
        ("an unsafe call over HTTP/2", t16_over_http2),
        ("a read", t16_a_read),
        ("the stream for notices", t16_the_stream_for_notices),
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
    site.until("the stream for notices is open", |counts| counts.gets == 1);
    // The answer comes at once, and nothing is passed on until the plug is out.
    let hold = proxy.add(Direction::Down, Toxic::Partition(Partition {}));
    client.call("a", "create_note", &json!({ "key": "k" }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    eventually("the answer is held up", SOON, || site.counts().bytes_out > proxy.counts().down.written);
    let toxic = unplug(&proxy, Direction::Both);
    proxy.remove(hold);
    // What is dialed meanwhile is sound, and is not held up by what is not.
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
