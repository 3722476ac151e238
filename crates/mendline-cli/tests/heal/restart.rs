//! A server that returns from a restart without its sessions.

use std::net::TcpStream;

use mendline_faults::toxic::{Refuse, Toxic};
use mendline_faults::{Direction, Ending};
use serde_json::json;

use crate::client::{SOON, eventually};
use crate::next_answer;
use crate::site::{Site, initialized, json_answers};

/// More calls than the retry budget allows. They wait for the same server, so the budget must not reject them.
const CALLS: usize = 24;

#[test]
fn h34_waiting_calls_run_when_server_returns_without_sessions() {
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    let mut client = initialized(&format!("http://{}/mcp", proxy.address()), &[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    let away = proxy.add(Direction::Both, Toxic::Refuse(Refuse {}));
    eventually("the port is closed", SOON, || TcpStream::connect(proxy.address()).is_err());
    proxy.cut(Ending::Reset);
    eventually("no connection is left", SOON, || proxy.counts().open == 0);
    site.forget_sessions();
    for number in 0..CALLS {
        client.call(&number.to_string(), "create_note", &json!({ "key": format!("k{number}") }));
    }
    eventually("it is known to be away", SOON, || client.log().contains("Waiting"));
    proxy.remove(away);
    let mut failed = Vec::new();
    for _ in 0..CALLS {
        let answer = next_answer(&mut client, 4 * SOON);
        let key = format!("k{}", answer["id"].as_str().unwrap());
        if answer["result"]["isError"] != false {
            assert_eq!(site.executions(&key), 0, "{answer}");
            failed.push(answer);
        } else {
            assert_eq!(site.executions(&key), 1);
        }
    }
    assert!(failed.is_empty(), "{} of {CALLS} were turned away: {}", failed.len(), failed[0]);
}
