//! Messages to and from a child: cancellations, late messages, and matching of answers.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use bytes::Bytes;
use mendline_core::{Input, LinkState, defaults};
use mendline_wire::{Limits, Line, Received};
use serde_json::{Value, json};
use stage::initialized::{initialized, initialized_with, request, restart};
use stage::{CLIENT, NOTES, Stage, call};

const LISTEN: &str = r#"{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;

fn failure(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.mendline/failure"]
}

fn too_long(stage: &mut Stage, id: &Value) {
    let head = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"aaaa"#));
    let line = Line::TooLong { length: 1 << 30, head, tail: Bytes::from_static(br#"aaaa"}}"#) };
    let link = stage.spawned.unwrap();
    stage.input(Input::FromLink { link, received: Received::from_line(line, &Limits::default()) });
}

#[test]
fn list_grown_beyond_limit_is_announced_as_changed() {
    let mut stage = initialized();
    request(&mut stage, "tools/list", &json!({}), r#"{"tools":[{"name":"look"}]}"#);
    restart(&mut stage);
    let list = stage.server_reads().unwrap();
    assert_eq!(list["method"], "tools/list");
    too_long(&mut stage, &list["id"]);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn call_cancelled_in_queue_is_never_written() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.client_sends(&call("2", "create_note"));
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(stage.engine.load().for_links, 1);
    assert_eq!(stage.server_answers("{}")["method"], "tools/call");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn unsent_timed_out_call_is_not_cancelled_at_server() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.advance(defaults::CALL);
    assert_eq!(failure(&stage.client_reads().unwrap())["outcome"], "not_sent");
    assert_eq!(stage.server_reads(), None, "the server never received it");
}

#[test]
fn no_message_is_written_to_ending_child() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.input(Input::Reconnect { upstream: NOTES });
    assert_eq!(stage.state(), LinkState::Draining);
    assert_eq!(stage.server_reads(), None);
    stage.die(0);
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    stage.server_answers("{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1, "the next one gets it");
}

#[test]
fn queue_of_dead_child_is_not_written_to_next() {
    let mut stage = Stage::up();
    let before = stage.engine.load();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    stage.die(0);
    assert_eq!((stage.engine.load().for_links, stage.engine.load().bytes), (0, before.bytes));
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn response_to_ending_child_is_dropped_and_reported() {
    let mut stage = Stage::up();
    let server_request = |id: &str| {
        let params = format!(r#"{{"_meta":{{"progressToken":"{id}"}}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"sampling/createMessage","params":{params}}}"#)
    };
    for id in ["a", "b"] {
        stage.server_sends(&server_request(id));
    }
    let (first, second) = (stage.client_reads().unwrap(), stage.client_reads().unwrap());
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.client_sends(&json!({ "jsonrpc": "2.0", "id": first["id"], "result": {} }).to_string());
    let token = &second["params"]["_meta"]["progressToken"];
    let progress = json!({ "progressToken": token, "progress": 1 });
    stage
        .client_sends(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }).to_string());
    for words in ["dropped a client's answer to a server request that is over", "dropped outdated progress"] {
        assert_eq!(stage.log.iter().filter(|line| *line == words).count(), 1, "{words}: {:?}", stage.log);
    }
    stage.input(Input::ClientLost { client: CLIENT });
    assert_eq!(stage.engine.load().for_links, 0, "the exit of the client is not reported");
}

#[test]
fn late_event_of_ended_child_is_ignored() {
    let mut stage = Stage::up();
    let old = stage.spawned.unwrap();
    stage.die(0);
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.state(), LinkState::Dialing);
    stage.input(Input::Spawned { link: old, pid: 1 });
    assert_eq!(stage.state(), LinkState::Dialing);
}

#[test]
fn only_equivalent_forms_of_id_are_matched() {
    for disguise in ["\"N\"", "N.0"] {
        let mut stage = Stage::up();
        stage.client_sends(&call("1", "create_note"));
        let number = stage.server_reads().unwrap()["id"].to_string();
        let says = |stage: &mut Stage, id: &str| {
            stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        };
        for other in [format!("{number}.5"), format!("-{number}"), "1e300".into(), format!("\"x{number}\"")] {
            says(&mut stage, &other);
            assert_eq!(stage.client_reads(), None, "{other} is not {number}");
        }
        says(&mut stage, &disguise.replace('N', &number));
        assert_eq!(stage.client_reads().expect("a type that changed is no reason to hang")["id"], 1);
        assert!(stage.log.iter().any(|line| line.contains("changed the type of an id")), "{:?}", stage.log);
    }
}

#[test]
fn response_to_unsent_request_is_ignored() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    stage.client_sends(&call("2", "create_note"));
    // Call numbers are predictable. This is the number of the second call.
    let guess = (2 << 16) + 1;
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{guess},"result":{{}}}}"#));
    assert_eq!(stage.client_reads(), None);
    assert_eq!(stage.server_reads().unwrap()["id"], guess, "the guess was right");
}

#[test]
fn server_may_end_only_its_subscriptions() {
    let mut stage = Stage::up();
    stage.client_sends(LISTEN);
    stage.client_sends(&call("1", "create_note"));
    let listen = stage.server_reads().unwrap()["id"].clone();
    let other = stage.server_reads().unwrap()["id"].clone();
    let cancelled =
        |id: &Value| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    stage.server_sends(&cancelled(&other));
    assert_eq!((stage.client_reads(), stage.engine.open_calls(NOTES)), (None, 2), "a server cannot cancel a call");
    stage.server_sends(&cancelled(&listen));
    let ended = stage.client_reads().expect("the subscription is over");
    assert_eq!((&ended["method"], &ended["params"]["requestId"]), (&json!("notifications/cancelled"), &json!(9)));
    assert_eq!(stage.engine.open_calls(NOTES), 1);
}

#[test]
fn unsent_subscription_cannot_be_ended_by_server() {
    let mut stage = Stage::up();
    stage.client_sends(LISTEN);
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":65536}}"#);
    assert_eq!((stage.client_reads(), stage.engine.open_calls(NOTES)), (None, 1));
    assert_eq!(stage.server_reads().unwrap()["id"], 65536, "the guess was right");
}

#[test]
fn overlong_answer_ends_child_only_during_handshake() {
    let mut stage = initialized();
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    too_long(&mut stage, &id);
    assert_eq!(failure(&stage.client_reads().unwrap())["cause"], "cannot_bridge");
    assert_eq!(stage.state(), LinkState::Up);
    stage.die(stage.written);
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    let handshake = stage.server_reads().unwrap();
    assert_eq!(handshake["method"], "initialize");
    too_long(&mut stage, &handshake["id"]);
    assert_eq!(stage.state(), LinkState::Draining, "the negotiated version is unknown");
}

#[test]
fn only_certain_errors_report_dead_connection() {
    let mut stage = initialized();
    for round in 0..3 {
        stage.client_sends(&call("1", "create_note"));
        stage.server_answers(r#"{"content":[],"message":"Connection closed","code":-32000}"#);
        stage.client_reads().unwrap();
        stage.client_sends(&call("1", "create_note"));
        let id = stage.server_reads().unwrap()["id"].clone();
        let error = r#"{"code":-32042,"message":"Connection closed"}"#;
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        stage.client_reads().unwrap();
        assert_eq!(stage.state(), LinkState::Up, "round {round}");
    }
}

#[test]
fn r21_bridge_that_cannot_post_is_replaced_and_reads_resent() {
    let mut stage = initialized();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"note:1"}}"#);
    let error = r#"{"code":-32000,"message":"Error POSTing to endpoint (HTTP 404): no session"}"#;
    for answer in 0..3 {
        let id =
            stage.server_reads().unwrap_or_else(|| panic!("it is sent again after {answer} answers"))["id"].clone();
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        assert_eq!(stage.client_reads(), None, "the client does not get it");
        stage.advance(Duration::from_secs(4));
    }
    assert_eq!(stage.state(), LinkState::Draining, "the bridge is replaced");
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    assert_eq!(stage.server_answers(r#"{"contents":[]}"#)["method"], "resources/read");
    assert_eq!(stage.client_reads().unwrap()["id"], 5);
}

#[test]
fn connection_errors_do_not_prove_bridge_alive() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_answers("{}");
    stage.client_sends(&call("2", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    let error = r#"{"code":-32000,"message":"Connection closed"}"#;
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    let link = stage.spawned.unwrap();
    stage.input(Input::Stderr { link, line: Bytes::from_static(b"the remote end is gone") });
    stage.client_sends(&call("3", "create_note"));
    stage.server_reads().unwrap();
    stage.die(stage.written);
    let answer = std::iter::from_fn(|| stage.client_reads()).find(|answer| answer["id"] == 3).unwrap();
    assert!(answer.to_string().contains("stderr: the remote end is gone"), "{answer}");
}

#[test]
fn internal_requests_take_no_slot_from_calls() {
    let mut stage = initialized_with(|notes| notes.limits.in_flight = 1);
    stage.advance(defaults::KEEP_ALIVE);
    assert_eq!(stage.server_reads().unwrap()["method"], "ping");
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(stage.server_reads().expect("there is a slot")["method"], "tools/call");
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.server_reads(), None, "and for no other");
}

#[test]
fn subscription_before_start_is_sent_when_child_runs() {
    let mut stage = Stage::new();
    stage.client_sends(LISTEN);
    stage.accept_dial();
    assert_eq!(stage.server_reads().expect("it waited")["method"], "subscriptions/listen");
}

#[test]
fn last_stderr_line_is_stderr_tail() {
    let mut stage = Stage::up();
    let link = stage.spawned.unwrap();
    for at in 0..100 {
        stage.input(Input::Stderr { link, line: Bytes::from(format!("line {at}")) });
    }
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    stage.die(stage.written);
    assert!(stage.client_reads().unwrap().to_string().contains("stderr: line 97 | line 98 | line 99"));
}

#[test]
fn pauses_after_answers_of_a_dead_bridge_double() {
    const ERROR: &str = r#"{"code":-32000,"message":"Error POSTing to endpoint (HTTP 404): no session"}"#;
    let mut stage = initialized_with(|notes| notes.retry.initial = Duration::from_secs(1));
    stage.client_sends(r#"{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"note:1"}}"#);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let begin = stage.now;
        let id = loop {
            match stage.server_reads() {
                Some(request) => break request["id"].clone(),
                None => stage.advance(Duration::from_millis(10)),
            }
        };
        pauses.push(stage.now.since(begin));
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{ERROR}}}"#));
    }
    assert!(pauses[1] <= Duration::from_millis(1_010) && pauses[2] >= Duration::from_secs(1), "{pauses:?}");
}
