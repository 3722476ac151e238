//! Servers that cannot be reached: for a while, from the start, or at all.

use std::net::TcpStream;

use mendline_faults::toxic::{BlackHole, Refuse, Toxic};
use mendline_faults::{Direction, Ending, Proxy};
use serde_json::json;

use crate::client::{SOON, eventually, failure};
use crate::site::{Site, WAITING, initialized, json_answers, run};

/// Closes the port of the proxy.
pub(crate) fn close(proxy: &Proxy) {
    proxy.add(Direction::Both, Toxic::Refuse(Refuse {}));
    eventually("the port is closed", SOON, || TcpStream::connect(proxy.address()).is_err());
}

#[test]
fn n05_call_waits_for_server_that_starts_later() {
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    close(&proxy);
    let mut client = run(&format!("http://{}/mcp", proxy.address()), &WAITING, &[]);
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    client.request("init", "initialize", &hello);
    eventually("it was refused", SOON, || client.log().contains("refused"));
    proxy.clear();
    assert_eq!(client.answer("init")["result"]["serverInfo"]["name"], "mendline-faults");
    assert_eq!(site.counts().messages_of("initialize"), 1);
}

#[test]
fn restarted_server_is_reinitialized_and_waiting_call_runs_once() {
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    let mut client = initialized(&format!("http://{}/mcp", proxy.address()), &[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    close(&proxy);
    site.forget_sessions();
    proxy.cut(Ending::Reset);
    eventually("no connection is left", SOON, || proxy.counts().open == 0);
    client.call("a", "create_note", &json!({ "key": "k" }));
    eventually("it is found to be down", SOON, || client.log().contains("refused"));
    proxy.clear();
    let result = client.answer("a")["result"].clone();
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!((site.executions("k"), site.counts().sessions_opened), (1, 2));
}

#[test]
fn n05_missing_server_is_reported_as_not_sent() {
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    close(&proxy);
    let mut client =
        run(&format!("http://{}/mcp", proxy.address()), &["--call-timeout", "1s", "--startup", "wait"], &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = client.answer("init")["error"].clone();
    assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
    assert!(error["message"].as_str().unwrap().contains("It did not run."), "{error}");
    client.stdin = None;
    assert_eq!(client.exit_code(SOON), Some(1));
    eventually("the log has it too", SOON, || client.log().contains("refused"));
}

#[test]
fn n10_only_reachable_address_of_host_is_used() {
    let site = Site::start(json_answers());
    // The name has an address of each family on machines with both. The server listens on one of them.
    let mut client = initialized(&format!("http://localhost:{}/mcp", site.address().port()), &[]);
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
}

#[test]
fn n06_unanswered_connection_times_out_and_next_call_reconnects() {
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    let mut client = initialized(&format!("http://{}/mcp", proxy.address()), &["--tool-timeout", "create_note=1500ms"]);
    let toxic = proxy.add(Direction::Both, Toxic::BlackHole(BlackHole {}));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    // The proxy has read the request, so the server may have received it.
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    proxy.remove(toxic);
    let next = client.result("b", "lookup", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "l is 42", "{next}");
    assert_eq!((site.executions("k"), site.executions("l")), (0, 1));
}
