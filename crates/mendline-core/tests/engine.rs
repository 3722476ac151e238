//! Basic behaviour of the engine with one client and one child.
//!
//! The simulation covers thousands of these cases. A reader of the core should start here.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use bytes::Bytes;
use mendline_core::port::{Ending, Exit, Pipe, SpawnError};
use mendline_core::{Input, LinkState, Output, Port, defaults};
use mendline_wire::{Limits, Line, Received};
use serde_json::Value;
use stage::initialized::initialized_with;
use stage::{CLIENT, NOTES, Stage, call};

#[test]
fn answer_has_request_id_verbatim() {
    let mut stage = Stage::up();
    stage.client_sends(&call(r#""a\u0062c""#, "create_note"));
    stage.server_answers(r#"{"content":[],"x":1e3}"#);
    let text = stage.engine.poll_write(Port::Client(CLIENT), stage.now).unwrap().to_bytes();
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":"a\u0062c","result":{"content":[],"x":1e3}}"#);
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn calls_out_are_those_that_the_server_got() {
    let mut stage = Stage::up();
    stage.client_sends(&call("7", "create_note"));
    stage.client_sends(&call("8", "create_note"));
    assert_eq!((stage.engine.open_calls(NOTES), stage.engine.calls_out(NOTES)), (2, 0));
    stage.server_answers("{}");
    assert_eq!((stage.engine.open_calls(NOTES), stage.engine.calls_out(NOTES)), (1, 0));
    stage.server_reads().unwrap();
    assert_eq!((stage.engine.open_calls(NOTES), stage.engine.calls_out(NOTES)), (1, 1));
}

#[test]
fn unsafe_call_with_lost_answer_is_not_resent() {
    let mut stage = Stage::up();
    stage.client_sends(&call("7", "create_note"));
    stage.server_reads().unwrap();
    stage.die(stage.written);
    let answer = stage.client_reads().expect("an answer at once");
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["outcome"], "unknown");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("create_note"), "a model has to know which of its calls this is about: {text}");
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    assert_eq!(stage.server_reads(), None, "nothing is sent to the new child");
}

#[test]
fn partly_written_unsafe_call_is_resent() {
    let mut stage = Stage::up();
    stage.client_sends(&call("7", "create_note"));
    let first = stage.server_reads().unwrap();
    stage.die(stage.written - 2);
    assert_eq!(stage.client_reads(), None, "it waits");
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    let second = stage.server_answers("{}");
    assert_ne!(first["id"], second["id"], "a new attempt has a new number");
    assert_eq!(stage.client_reads().unwrap()["id"], 7);
}

#[test]
fn read_is_resent_after_reinitialization() {
    let mut stage = Stage::up();
    stage.client_sends(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","odd":true}}"#,
    );
    stage.server_answers(r#"{"protocolVersion":"2025-06-18"}"#);
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.client_reads().unwrap();

    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    stage.server_reads().unwrap();
    stage.die(stage.written);
    stage.advance(Duration::from_millis(200));
    stage.accept_dial();

    let handshake = stage.server_reads().unwrap();
    assert_eq!((&handshake["method"], &handshake["params"]["odd"]), (&"initialize".into(), &true.into()));
    assert_eq!(stage.server_reads(), None, "no other request before the handshake is answered");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, handshake["id"]));
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.server_answers(r#"{"tools":[]}"#);
    let answer = stage.client_reads().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["tools"]), (&1.into(), &Value::Array(vec![])));
    assert_eq!(stage.client_reads(), None, "the client does not see the repeated handshake");
}

#[test]
fn deadline_is_kept_and_server_gets_cancellation() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "slow"));
    let request = stage.server_reads().unwrap();
    stage.advance(defaults::CALL - Duration::from_nanos(1));
    assert_eq!(stage.client_reads(), None);
    stage.advance(Duration::from_nanos(1));
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "timed_out");
    let cancelled = stage.server_reads().unwrap();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&"notifications/cancelled".into(), &request["id"])
    );
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
    assert_eq!(stage.client_reads(), None, "a late answer is dropped");
}

#[test]
fn r09_five_exits_slow_restarts_and_park_nothing() {
    let mut stage = Stage::up();
    // Long after the start of the client.
    stage.advance(defaults::RECONNECT_PATIENCE);
    let began = stage.now;
    let mut exits = 0;
    let mut pauses = Vec::new();
    while stage.state() != LinkState::Parked {
        stage.die(0);
        exits += 1;
        if stage.state() == LinkState::Waiting {
            pauses.push(stage.next_dial());
            stage.accept_dial();
        }
    }
    let (quick, slow) = pauses.split_at(defaults::CRASH_LOOP_EXITS - 1);
    assert!(quick.iter().all(|pause| *pause <= Duration::from_secs(1)), "{pauses:?}");
    assert!(slow[0] >= defaults::RECONNECT_CAP_IDLE / 2, "{pauses:?}");
    assert!(exits > defaults::RECONNECT_ATTEMPTS, "parked after {exits} exits");
    assert!(stage.now.since(began) >= defaults::RECONNECT_PATIENCE, "parked after {:?}", stage.now.since(began));
}

#[test]
fn r09_crash_loop_in_handshake_is_slow_while_no_call_waits() {
    let mut stage = initialized_with(|notes| notes.keep_alive = None);
    // Long after the start of the client.
    stage.advance(defaults::RECONNECT_PATIENCE);
    for _ in 1..defaults::CRASH_LOOP_EXITS {
        stage.die(stage.written);
        stage.next_dial();
        stage.accept_dial();
        assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
    }
    stage.die(stage.written);
    let pause = stage.next_dial();
    assert!(pause >= defaults::RECONNECT_CAP_IDLE / 2, "restarted after {pause:?}");
}

#[test]
fn r09_call_waits_its_whole_time_for_exiting_command() {
    let mut stage = Stage::up();
    stage.die(0);
    stage.client_sends(&call("1", "create_note"));
    let began = stage.now;
    let mut pauses = Vec::new();
    let answer = loop {
        let lost = stage.now;
        while stage.spawned.is_none() && stage.engine.load().requests > 0 {
            stage.advance(Duration::from_millis(1));
        }
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        pauses.push(stage.now.since(lost));
        stage.accept_dial();
        stage.die(0);
        assert_eq!(stage.state(), LinkState::Waiting, "it is not parked while calls wait");
    };
    assert_eq!(stage.now.since(began), defaults::RECOVERY);
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "unavailable");
    let most = defaults::RECONNECT_CAP_CALLED + Duration::from_millis(1);
    assert!(pauses.len() > 15 && pauses.iter().all(|pause| *pause <= most), "{pauses:?}");
}

#[test]
fn r25_ping_is_answered_by_mendline_while_server_is_away() {
    const PING: &str = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    let mut stage = Stage::new();
    stage.client_sends(PING);
    let pong = serde_json::json!({ "jsonrpc": "2.0", "id": 5, "result": {} });
    assert_eq!(stage.client_reads(), Some(pong.clone()), "while it starts");
    stage.accept_dial();
    stage.client_sends(PING);
    assert_eq!(stage.client_reads(), None, "a server that is there answers for itself");
    assert_eq!(stage.server_answers("{}")["method"], "ping");
    assert_eq!(stage.client_reads(), Some(pong.clone()));
    stage.die(stage.written);
    stage.client_sends(PING);
    assert_eq!(stage.client_reads(), Some(pong));
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_reads(), None, "it is not sent later");
}

#[test]
fn missing_command_is_reported_at_once_and_retried_slowly() {
    let mut stage = Stage::new();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
    let link = stage.spawned.take().unwrap();
    let why = SpawnError::NotFound { command: "notes-server".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["error"]["code"], -31007);
    assert!(answer["error"]["message"].as_str().unwrap().contains("`notes-server` was not found"));
    stage.advance(defaults::PARKED_PROBE);
    assert_eq!((stage.state(), stage.dials), (LinkState::Dialing, 2));
}

#[test]
fn missing_command_is_reported_to_later_calls() {
    let mut stage = Stage::new();
    stage.input(Input::ClientEnded { client: CLIENT });
    let link = stage.spawned.take().unwrap();
    let why = SpawnError::NotFound { command: "notes-server".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ending: Ending::NeverReady })));
}

#[test]
fn request_of_dead_server_is_cancelled_and_response_dropped() {
    let mut stage = Stage::up();
    stage.server_sends(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.die(0);
    let withdrawn = stage.client_reads().unwrap();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&"notifications/cancelled".into(), &question["id"])
    );
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, question["id"]));
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn eof_finishes_calls_and_runs_shutdown_sequence() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    let request = stage.server_reads().unwrap();
    stage.input(Input::ClientEnded { client: CLIENT });
    assert!(stage.asked.is_empty(), "the child is left alone while it works");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
    assert!(matches!(stage.asked[..], [Output::CloseStdin { .. }]), "{:?}", stage.asked);
    stage.advance(Duration::from_secs(2));
    stage.advance(Duration::from_secs(2));
    let signals: Vec<String> = stage.asked[1..].iter().map(|output| format!("{output:?}")).collect();
    assert!(signals[0].contains("Term") && signals[1].contains("Kill"), "{signals:?}");
    stage.die(stage.written);
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ending: Ending::Ready })));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.engine.poll_timeout(), None);
}

#[test]
fn full_queue_rejects_call_at_once() {
    let mut stage = Stage::up();
    let limit = defaults::IN_FLIGHT + defaults::WAITING;
    for id in 0..=limit {
        stage.client_sends(&call(&id.to_string(), "create_note"));
    }
    let answer = stage.client_reads().expect("the one too many is answered");
    assert_eq!(
        (&answer["id"], &answer["result"]["_meta"]["dev.mendline/failure"]["cause"]),
        (&limit.into(), &"overloaded".into())
    );
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["retryAfterMs"], 1000, "the retry time");
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn memory_of_request_is_freed_with_answer() {
    let mut stage = Stage::up();
    let before = stage.engine.load();
    for id in ["1", "2", "3"] {
        stage.client_sends(&call(id, "create_note"));
    }
    let load = stage.engine.load();
    assert_eq!((load.requests, load.calls, load.timers), (3, 3, before.timers + 3));
    for _ in 0..3 {
        stage.server_answers("{}");
        stage.client_reads().unwrap();
    }
    assert_eq!(stage.engine.load(), before);
}

#[test]
fn request_to_departed_client_is_answered_with_error() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    stage.server_sends(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    stage.client_reads().unwrap();
    stage.input(Input::ClientEnded { client: CLIENT });
    let declined = stage.server_reads().expect("the wait is bounded");
    assert_eq!((&declined["id"], &declined["error"]["message"]), (&"q".into(), &"the client has gone".into()));
}

#[test]
fn progress_for_server_request_keeps_server_token() {
    let mut stage = Stage::up();
    stage.server_sends(
        r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":"mine"}}}"#,
    );
    let token = stage.client_reads().unwrap()["params"]["_meta"]["progressToken"].clone();
    stage.client_sends(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    ));
    let progress = stage.server_reads().expect("the client is notified");
    assert_eq!((&progress["params"]["progressToken"], &progress["params"]["progress"]), (&"mine".into(), &1.into()));
}

#[test]
fn backpressure_of_client_pauses_server() {
    let mut stage = Stage::up();
    let line = Port::Link(stage.spawned.unwrap());
    for sent in 0..defaults::CLIENT_QUEUE_SOFT {
        assert!(stage.engine.may_read(line), "{sent} messages are nothing yet");
        stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#);
    }
    assert!(!stage.engine.may_read(line));
    stage.client_reads().unwrap();
    assert!(stage.engine.may_read(line));
}

#[test]
fn line_of_replaced_child_is_ignored() {
    let mut stage = Stage::up();
    let old = stage.spawned.unwrap();
    stage.die(0);
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    assert_ne!(stage.spawned, Some(old), "each child has a name of its own");
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    let text = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let received = Received::from_line(Line::Text(text), &Limits::default());
    stage.input(Input::FromLink { link: old, received });
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn exit_after_closed_stdout_is_reported_with_status() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    let link = stage.spawned.take().unwrap();
    stage.input(Input::LinkBroken { link, pipe: Pipe::Stdout });
    stage.input(Input::ChildExited { link, how: Exit::Code(3), written: stage.written });
    let answer = stage.client_reads().unwrap().to_string();
    assert!(answer.contains("exit code 3"), "{answer}");
}

#[test]
fn server_is_ready_after_first_answer() {
    let mut stage = Stage::up();
    for id in ["1", "2", "3"] {
        assert_eq!(stage.log.iter().any(|line| line.contains("ready after")), id != "1");
        stage.client_sends(&call(id, "create_note"));
        stage.server_answers("{}");
    }
    assert_eq!(stage.log.iter().filter(|line| line.contains("ready after")).count(), 1, "{:?}", stage.log);
}

#[test]
fn non_protocol_line_is_truncated_and_escaped_in_log() {
    let mut stage = Stage::up();
    stage.server_sends(&format!("listening on\t\x1b[1mport 8080{}", "!".repeat(1000)));
    let shown = stage.log.iter().find(|line| line.contains("listening on  [1mport 8080!")).expect("the log shows it");
    assert!(shown.len() < 400 && !shown.contains(char::is_control), "{shown}");
}

#[test]
fn live_server_with_closed_stdout_gets_shutdown_sequence() {
    let mut stage = Stage::up();
    let link = stage.spawned.unwrap();
    stage.input(Input::LinkBroken { link, pipe: Pipe::Stdout });
    assert_eq!(stage.state(), LinkState::Draining);
    stage.advance(defaults::SHUTDOWN_STEP * 2);
    assert!(stage.asked.iter().any(|asked| format!("{asked:?}").contains("Kill")), "{:?}", stage.asked);
}

#[test]
fn cancellation_by_server_names_its_own_request() {
    let mut stage = Stage::up();
    stage.server_sends(r#"{"jsonrpc":"2.0","id":"a","method":"roots/list"}"#);
    stage.server_sends(r#"{"jsonrpc":"2.0","id":"b","method":"roots/list"}"#);
    let (first, second) = (stage.client_reads().unwrap(), stage.client_reads().unwrap());
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}"#);
    assert_eq!(stage.client_reads().expect("the client is notified")["params"]["requestId"], second["id"]);
    stage.client_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, first["id"]));
    assert_eq!(stage.server_reads().expect("the other one is still open")["id"], "a");
}

#[test]
fn messages_for_unwritable_client_are_dropped() {
    let mut stage = Stage::up();
    let before = stage.engine.load();
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#);
    assert_eq!(stage.engine.load().for_clients, 1);
    stage.input(Input::ClientLost { client: CLIENT });
    let load = stage.engine.load();
    assert_eq!((load.for_clients, load.bytes), (0, before.bytes));
}

#[test]
fn client_that_never_reads_is_not_read_either() {
    let mut stage = Stage::up();
    for sent in 0..defaults::CLIENT_QUEUE_HARD {
        assert!(stage.engine.may_read(Port::Client(CLIENT)), "{sent} messages are not too many");
        stage.client_sends("nonsense");
    }
    assert!(!stage.engine.may_read(Port::Client(CLIENT)));
    assert_eq!(stage.client_reads().expect("nonsense is answered")["error"]["code"], -32700);
    assert!(stage.engine.may_read(Port::Client(CLIENT)));
}

#[test]
fn overlong_answer_ends_call_with_error() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    let head = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"aaaa"#));
    let line = Line::TooLong { length: 1 << 30, head, tail: Bytes::from_static(br#"aaaa"}}"#) };
    let link = stage.spawned.unwrap();
    stage.input(Input::FromLink { link, received: Received::from_line(line, &Limits::default()) });
    let answer = stage.client_reads().expect("answered at once");
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "cannot_bridge");
}

#[test]
fn manual_reconnect_ignores_backoff() {
    let mut stage = Stage::up();
    stage.die(0);
    assert_eq!((stage.state(), stage.dials), (LinkState::Waiting, 1));
    stage.input(Input::Reconnect { upstream: NOTES });
    assert_eq!((stage.state(), stage.dials), (LinkState::Dialing, 2));
}

#[test]
fn stderr_tail_of_server_that_never_answered_is_reported() {
    let mut stage = Stage::up();
    stage.client_sends(&call("1", "create_note"));
    stage.server_reads().unwrap();
    let link = stage.spawned.unwrap();
    for line in ["NOTES_TOKEN is not set", " \t"] {
        stage.input(Input::Stderr { link, line: Bytes::from(line) });
    }
    stage.die(stage.written);
    let answer = stage.client_reads().unwrap().to_string();
    assert!(answer.contains("stderr: NOTES_TOKEN is not set"), "{answer}");
}

#[test]
fn notifications_to_child_that_never_reads_are_limited() {
    let mut stage = Stage::up();
    for _ in 0..defaults::LINK_QUEUE + 10 {
        stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    }
    assert_eq!(std::iter::from_fn(|| stage.server_reads()).count(), defaults::LINK_QUEUE);
}
