//! Options for reconnecting and retrying, with a server at a URL.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use mendline_faults::toxic::{Refuse, Toxic};
use mendline_faults::{Direction, Rule};
use serde_json::json;

use crate::client::{SOON, eventually, failure};
use crate::site::{Site, event_answers, initialized, json_answers};

#[test]
fn call_waits_for_lost_server_up_to_recovery_timeout() {
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    let mut client = initialized(&format!("http://{}/mcp", proxy.address()), &["--recovery-timeout", "600ms"]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    proxy.add(Direction::Both, Toxic::Refuse(Refuse {}));
    eventually("the port is closed", SOON, || TcpStream::connect(proxy.address()).is_err());
    proxy.cut(mendline_faults::Ending::Reset);
    eventually("no connection is left", SOON, || proxy.counts().open == 0);
    let begin = Instant::now();
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "not_sent", "{result}");
    // The default recovery timeout is 45 s.
    assert!(begin.elapsed() >= Duration::from_millis(600), "{:?}", begin.elapsed());
    assert_eq!(site.executions("k"), 0);
}

#[test]
fn s52_always_closed_stream_is_resumed_up_to_configured_limit() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--resume-attempts", "2"]);
    site.add_fault(Rule::new("s52_prime_then_close_for_ever").value(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!((site.counts().resumes, site.executions("k")), (2, 1));
}
