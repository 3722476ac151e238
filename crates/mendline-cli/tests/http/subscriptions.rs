//! `subscriptions/listen`: a request whose answer comes when the subscription ends.

use std::time::{Duration, Instant};

use mendline_faults::{Answers, Ending};
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually};
use crate::site::{Site, discovered, modern, with_modern_meta};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Starts a client with a subscription to changes of the tools.
fn listening(site: &Site, options: &[&str]) -> Client {
    let mut client = discovered(site, options);
    client.request(
        "l",
        "subscriptions/listen",
        &with_modern_meta(json!({ "notifications": { "promptsListChanged": true } })),
    );
    assert_eq!(next_notification(&mut client)["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(site.counts().listens_opened, 1);
    client
}

/// Returns the next message, which must have the subscription id of the client.
fn next_notification(client: &mut Client) -> Value {
    let message: Value = serde_json::from_str(&client.line()).unwrap();
    assert_eq!(message["params"]["_meta"][SUBSCRIPTION], "l", "{message}");
    message
}

#[test]
fn subscription_outlives_call_deadline_and_ends_with_server_answer() {
    let site = Site::start(modern(Answers::Events));
    let mut client = listening(&site, &["--call-timeout", "3s", "--tool-timeout", "create_note=1m"]);
    let begin = Instant::now();
    let mut number = 0;
    while begin.elapsed() < Duration::from_secs(4) {
        site.notify("notifications/prompts/list_changed", &json!({ "number": number }));
        assert_eq!(next_notification(&mut client)["params"]["number"], number);
        number += 1;
        // A concurrent call has its own deadline and its own stream.
        let arguments = json!({ "key": format!("k{number}"), "delayMs": 100 });
        client.request("c", "tools/call", &with_modern_meta(json!({ "name": "create_note", "arguments": arguments })));
        let answer = client.answer("c");
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    site.end_listens();
    let answer = client.answer("l");
    assert_eq!(answer["result"]["_meta"][SUBSCRIPTION], "l", "{answer}");
    assert_eq!((site.counts().listens_opened, site.counts().messages_of("subscriptions/listen")), (1, 1));
}

#[test]
fn silent_subscription_is_kept() {
    let site = Site::start(modern(Answers::Events));
    let mut client = listening(&site, &["--call-timeout", "3s", "--tool-timeout", "create_note=1200ms"]);
    // The calls time out meanwhile. Three of them take longer than any other deadline.
    for number in 0..3 {
        let id = format!("c{number}");
        let arguments = json!({ "key": id, "delayMs": 60_000 });
        client.request(&id, "tools/call", &with_modern_meta(json!({ "name": "create_note", "arguments": arguments })));
        assert_eq!(client.answer(&id)["result"]["isError"], true);
    }
    site.notify("notifications/prompts/list_changed", &json!({}));
    assert_eq!(next_notification(&mut client)["method"], "notifications/prompts/list_changed");
    assert_eq!((site.counts().listens_opened, site.counts().listens_closed), (1, 0));
}

#[test]
fn cancelled_subscription_is_closed_at_server() {
    let site = Site::start(modern(Answers::Events));
    let mut client = listening(&site, &[]);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}"#);
    site.until("the server has seen it", |counts| counts.listens_closed == 1);
    assert_eq!(site.counts().messages_of("notifications/cancelled"), 0);
}

#[test]
fn c86_client_exit_closes_subscription_without_waiting() {
    let site = Site::start(modern(Answers::Events));
    let mut client = listening(&site, &[]);
    let begin = Instant::now();
    client.stdin = None;
    assert_eq!(client.exit_code(SOON), Some(0));
    // Running calls would delay the exit by up to ten seconds.
    assert!(begin.elapsed() < Duration::from_secs(8), "it waited for a subscription: {:?}", begin.elapsed());
    site.until("the server has seen it", |counts| counts.listens_closed == 1);
}

#[test]
fn cut_subscription_is_reopened_under_same_id() {
    let site = Site::start(modern(Answers::Events));
    let mut client = listening(&site, &[]);
    site.cut(Ending::Reset);
    eventually("it is opened again", SOON, || site.counts().listens_opened == 2);
    let gap = next_notification(&mut client);
    assert_eq!(gap["method"], "notifications/prompts/list_changed", "the possible gap is announced: {gap}");
    site.notify("notifications/prompts/list_changed", &json!({ "after": true }));
    let change = next_notification(&mut client);
    assert_eq!((&change["method"], &change["params"]["after"]), (&gap["method"], &json!(true)), "{change}");
}
