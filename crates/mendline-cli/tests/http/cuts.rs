//! Broken connections, and the outcome of the calls on them.

use mendline_faults::toxic::{LimitData, Partition, Toxic};
use mendline_faults::{Direction, Ending, Rule, Settings};
use serde_json::{Value, json};

use crate::client::{SOON, eventually, failure};
use crate::site::{Site, initialized, json_answers, never_answered, through_a_proxy};
use crate::sockets::{cut_all, sockets};

const CUTS: [&str; 3] = ["t13_reset_before_headers", "t14_reset_mid_body", "t15_eof_without_response"];

#[test]
fn t13_t14_t15_read_with_cut_response_is_resent() {
    for fault in CUTS {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new(fault).tool("lookup").nth(1));
        let result = client.result("a", "lookup", &json!({ "key": "k" }));
        assert_eq!(result["content"][0]["text"], "k is 42", "{fault}: {result}");
        assert_eq!(site.executions("k"), 2, "{fault}");
    }
}

#[test]
fn t13_t14_t15_unsafe_call_with_cut_response_is_unknown() {
    for fault in CUTS {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new(fault).tool("create_note").nth(1));
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(failure(&result)["outcome"], "unknown", "{fault}: {result}");
        let next = client.result("b", "create_note", &json!({ "key": "l" }));
        assert_eq!(next["content"][0]["text"], "wrote l", "{fault}: {next}");
        assert_eq!((site.executions("k"), site.executions("l")), (1, 1), "{fault}");
    }
}

#[test]
fn t13_unsafe_call_that_never_ran_is_still_unknown() {
    for fault in ["t13_reset_before_headers", "t15_eof_without_response"] {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new(fault).tool("create_note").nth(1).before());
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(failure(&result)["outcome"], "unknown", "{fault}: {result}");
        assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (0, 1), "{fault}");
    }
}

#[test]
fn t11_reset_of_idle_connection_does_not_affect_unsafe_call() {
    for ending in [Ending::Reset, Ending::Fin] {
        let site = Site::start(Settings { sessions: false, ..json_answers() });
        let mut client = site.client(&[]);
        for round in 0..3 {
            site.until("a connection rests", |counts| counts.open_connections > 0);
            cut_all(&site, ending);
            let key = format!("k{round}");
            let result = client.result(&key, "create_note", &json!({ "key": key }));
            assert_eq!(result["content"][0]["text"], format!("wrote {key}"), "{ending:?}: {result}");
            assert_eq!(site.executions(&key), 1, "{ending:?}");
        }
    }
}

#[test]
fn t12_unsafe_call_cut_while_sending_is_resent() {
    for ending in [Ending::Reset, Ending::Fin] {
        let site = Site::start(json_answers());
        let (proxy, mut client) = through_a_proxy(&site, &["--log-level", "debug"]);
        site.until("the GET stream is open", |counts| counts.gets == 1);
        // The server side reads nothing, and the request exceeds all buffers on the path, so a part of it cannot have
        // been sent.
        let partition = proxy.add(Direction::Up, Toxic::Partition(Partition {}));
        client.call("a", "create_note", &json!({ "key": "k", "padding": "x".repeat(12 << 20) }));
        // The call may use a new connection, which the proxy must have accepted before the cut.
        let port = proxy.address().port();
        eventually("the request is being sent", SOON, || {
            let mut there = sockets();
            there.retain(|socket| socket.local_port == port && (socket.is_established || socket.is_closed_by_peer));
            let has_come = there.iter().any(|socket| socket.is_established && socket.unread > 0);
            has_come && proxy.counts().open == there.len() as u64
        });
        proxy.cut(ending);
        // After a FIN the proxy would read the rest of the request, so the test waits for the cut first.
        eventually("the cut is noticed", SOON, || client.log().contains("ended (not_sent)"));
        proxy.remove(partition);
        let result = client.answer("a")["result"].clone();
        assert_eq!(result["content"][0]["text"], "wrote k", "{ending:?}: {result}");
        assert_eq!(site.executions("k"), 1, "{ending:?}");
    }
}

#[test]
fn t12_fully_written_unsafe_call_cut_in_network_is_unknown() {
    for ending in [Ending::Reset, Ending::Fin] {
        let site = Site::start(json_answers());
        let (proxy, mut client) = through_a_proxy(&site, &[]);
        let toxic = proxy.add(Direction::Up, Toxic::LimitData(LimitData { bytes: 200, ending }));
        // The request is short, so the kernel accepts it completely. Mendline cannot know what happened behind it.
        let result = client.result("a", "create_note", &json!({ "key": "k" }));
        assert_eq!(failure(&result)["outcome"], "unknown", "{ending:?}: {result}");
        proxy.remove(toxic);
        let next = client.result("b", "create_note", &json!({ "key": "l" }));
        assert_eq!(next["content"][0]["text"], "wrote l", "{ending:?}: {next}");
        assert_eq!((site.executions("k"), site.executions("l")), (0, 1), "{ending:?}");
    }
}

#[test]
fn t22_cut_response_repeats_read_and_leaves_unsafe_call_unknown() {
    for ending in [Ending::Reset, Ending::Fin] {
        let site = Site::start(json_answers());
        let (proxy, mut client) = through_a_proxy(&site, &[]);
        let toxic = proxy.add(Direction::Down, Toxic::LimitData(LimitData { bytes: 30, ending }));
        let result = client.result("a", "create_note", &json!({ "key": "w" }));
        assert_eq!(failure(&result)["outcome"], "unknown", "{ending:?}: {result}");
        // The probes are cut, too: the server counts as away, and the read waits for it.
        client.call("b", "lookup", &json!({ "key": "r" }));
        eventually("the probe was cut", SOON, || client.log().contains("away: calls wait"));
        proxy.remove(toxic);
        assert_eq!(client.answer("b")["result"]["content"][0]["text"], "r is 42", "{ending:?}");
        assert_eq!(site.executions("w"), 1, "{ending:?}");
    }
}

#[test]
fn cut_sse_stream_repeats_read_and_leaves_unsafe_call_unknown() {
    let site = Site::start(json_answers());
    let mut client = initialized(&site.sse_url(), &["--transport", "sse"]);
    site.add_fault(never_answered("lookup", 1));
    client.call("a", "create_note", &json!({ "key": "w", "delayMs": 600_000 }));
    client.call("b", "lookup", &json!({ "key": "r" }));
    site.until("both run", |counts| counts.executions_of("w") == 1 && counts.executions_of("r") == 1);
    site.cut(Ending::Reset);
    let result = client.answer("a")["result"].clone();
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!(client.answer("b")["result"]["content"][0]["text"], "r is 42");
    assert_eq!((site.executions("w"), site.executions("r"), site.counts().sessions_opened), (1, 2, 2));
}

#[test]
fn i1_all_connections_reset_answers_each_call_once() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(never_answered("lookup", 8));
    site.add_fault(never_answered("create_note", 8));
    for number in 0..16 {
        let tool = if number % 2 == 0 { "lookup" } else { "create_note" };
        client.call(&number.to_string(), tool, &json!({ "key": format!("k{number}") }));
    }
    site.until("all of them run", |counts| counts.executions.len() == 16);
    site.cut(Ending::Reset);
    let mut answered = [0; 16];
    for _ in 0..16 {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        let number: usize = answer["id"].as_str().unwrap().parse().unwrap();
        answered[number] += 1;
        if number.is_multiple_of(2) {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            assert_eq!(site.executions(&format!("k{number}")), 2);
        } else {
            assert_eq!(failure(&answer["result"])["outcome"], "unknown");
            assert_eq!(site.executions(&format!("k{number}")), 1);
        }
    }
    assert_eq!(answered, [1; 16]);
    client.stdin = None;
    assert_eq!(client.rest(), Vec::<String>::new());
}
