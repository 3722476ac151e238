//! Suspension and manual reconnect of Mendline with a server at a URL.

use rustix::process::Signal;
use serde_json::json;

use crate::client::{SOON, eventually};
use crate::site::{Site, json_answers};

#[test]
fn x96_server_is_pinged_over_fresh_connection_after_suspend() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    let before = site.counts();
    assert!(before.open_connections >= 2, "one carries the stream, at least one rests: {before:?}");
    client.signal(Signal::STOP);
    client.signal(Signal::CONT);
    site.until("it is asked", |counts| counts.messages_of("ping") == 1);
    assert_eq!(site.counts().connections, before.connections + 1, "idle connections are not reused");
    // The log is written by another thread.
    let count = || client.log().matches("all servers are tested or redialed").count();
    eventually("the log reports it", SOON, || count() > 0);
    assert_eq!(count(), 1, "{}", client.log());
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!((site.executions("k"), site.counts().sessions_opened), (1, 1));
}

#[test]
fn manual_reconnect_uses_new_connection() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    client.signal(Signal::USR1);
    eventually("the reconnect is logged", SOON, || client.log().contains("requested manually"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
}
