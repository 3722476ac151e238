//! Loss and return of the network, in a network namespace.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, SOON, eventually};
use crate::namespace::{inside, ip};
use crate::site::{Site, json_answers};

fn loopback(direction: &str) {
    ip(&["link", "set", "lo", direction]);
}

/// Returns how often the log reports a change of the network.
fn changes(client: &Client) -> usize {
    client.log().matches("the network has changed: all servers").count()
}

#[test]
fn x96b_call_waiting_for_network_runs_when_it_returns() {
    inside("network::x96b_call_waiting_for_network_runs_when_it_returns", the_network_goes_and_comes_back);
}

fn the_network_goes_and_comes_back() {
    let site = Site::start(json_answers());
    // An interface that is down drops packets, so every dial lasts until the connect timeout.
    let mut client = site.client(&["--connect-timeout", "300ms"]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    // The interface was up before Mendline started, so the first change that it sees is the loss.
    assert_eq!(changes(&client), 0, "{}", client.log());
    loopback("down");
    eventually("it is noticed", SOON, || changes(&client) == 1);
    client.call("a", "lookup", &json!({ "key": "k" }));
    // The backoff now takes seconds, and the next change of the network may be reported again.
    let tries = |client: &Client| client.log().matches("Dialing → Waiting").count();
    eventually("a dial has failed", Duration::from_secs(30), || tries(&client) >= 6);
    loopback("up");
    let begin = Instant::now();
    assert_eq!(client.answer("a")["result"]["content"][0]["text"], "k is 42");
    assert!(begin.elapsed() < Duration::from_millis(2500), "{:?}; {}", begin.elapsed(), client.log());
    eventually("both changes are logged", SOON, || changes(&client) >= 2);
    assert_eq!((changes(&client), site.executions("k")), (2, 1), "{}", client.log());
}
