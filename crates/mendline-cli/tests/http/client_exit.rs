//! Clients that exit during a call, and what the server receives, by era.

use mendline_faults::Answers;
use rustix::process::Signal;
use serde_json::json;

use crate::client::{Client, SOON};
use crate::site::{Site, discovered, event_answers, json_answers, modern, with_modern_meta};

/// A delay longer than any deadline.
const NEVER: u64 = 600_000;

/// Sends SIGTERM twice, so that Mendline skips the drain and exits at once.
fn leave_at_once(client: &mut Client) {
    client.stdin = None;
    client.signal(Signal::TERM);
    client.signal(Signal::TERM);
}

#[test]
fn c86_i18_client_exit_closes_modern_calls() {
    for answers in [Answers::Json, Answers::Events] {
        let site = Site::start(modern(answers));
        let mut client = discovered(&site, &[]);
        let arguments = json!({ "key": "k", "delayMs": NEVER });
        client.request("a", "tools/call", &with_modern_meta(json!({ "name": "create_note", "arguments": arguments })));
        site.until("the call runs", |counts| counts.executions_of("k") == 1);
        leave_at_once(&mut client);
        site.until("the stream is closed", |counts| counts.closed_mid_call == 1 && counts.cancellations == 1);
        client.exit_code(SOON);
        assert_eq!((site.executions("k"), site.counts().messages_of("notifications/cancelled")), (1, 0));
    }
}

#[test]
fn c86_i18_client_exit_does_not_cancel_legacy_calls() {
    for settings in [json_answers(), event_answers()] {
        let site = Site::start(settings);
        let mut client = site.client(&[]);
        client.call("a", "create_note", &json!({ "key": "k", "delayMs": NEVER }));
        site.until("the call runs", |counts| counts.executions_of("k") == 1);
        leave_at_once(&mut client);
        client.exit_code(SOON);
        site.until("no client is connected", |counts| counts.open_connections == 0);
        let counts = site.counts();
        assert_eq!((counts.executions_of("k"), counts.messages_of("notifications/cancelled")), (1, 0));
    }
}

#[test]
fn c86_client_exit_waits_for_running_calls() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "create_note", &json!({ "key": "k", "delayMs": 300 }));
    client.stdin = None;
    let rest = client.rest();
    assert!(rest.len() == 1 && rest[0].contains("wrote k"), "{rest:?}");
    assert_eq!(client.exit_code(SOON), Some(0));
    assert_eq!((site.executions("k"), site.counts().sessions_deleted), (1, 1));
}

#[test]
fn c87_killed_mendline_leaves_legacy_call_running_and_cancels_modern() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "create_note", &json!({ "key": "k", "delayMs": NEVER }));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    client.signal(Signal::KILL);
    site.until("no client is connected", |counts| counts.open_connections == 0);
    assert_eq!((site.counts().cancellations, site.counts().messages_of("notifications/cancelled")), (0, 0));

    let site = Site::start(modern(Answers::Events));
    let mut client = discovered(&site, &[]);
    let arguments = json!({ "key": "k", "delayMs": NEVER });
    client.request("a", "tools/call", &with_modern_meta(json!({ "name": "create_note", "arguments": arguments })));
    site.until("the call runs", |counts| counts.executions_of("k") == 1);
    client.signal(Signal::KILL);
    site.until("it is cancelled", |counts| counts.cancellations == 1);
}
