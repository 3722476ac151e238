//! Short stories about one client, one child and one engine, told by hand.
//!
//! The simulation tells thousands of these; here are the ones that a reader of the core should see first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stage;

use std::time::Duration;

use bytes::Bytes;
use mendline_core::port::{Ending, Exit, Pipe, SpawnFailure, SpawnFailureKind};
use mendline_core::{Input, LinkState, Output, Port, defaults};
use mendline_wire::{Limits, Line, Received};
use serde_json::Value;
use stage::{CLIENT, NOTES, Stage, call};

#[test]
fn an_answer_comes_back_under_the_id_as_it_was_written() {
    let mut stage = Stage::up();
    stage.client_says(&call(r#""a\u0062c""#, "create_note"));
    stage.server_answers(r#"{"content":[],"x":1e3}"#);
    let text = stage.engine.poll_write(Port::Client(CLIENT)).unwrap().to_bytes();
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":"a\u0062c","result":{"content":[],"x":1e3}}"#);
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn an_unsafe_call_is_not_sent_twice_when_its_answer_is_lost() {
    let mut stage = Stage::up();
    stage.client_says(&call("7", "create_note"));
    stage.server_reads().unwrap();
    stage.die(stage.written);
    let answer = stage.client_reads().expect("an answer at once");
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["outcome"], "unknown");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("create_note"), "a model has to know which of its calls this is about: {text}");
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    assert_eq!(stage.server_reads(), None, "nothing is sent to the new child");
}

#[test]
fn an_unsafe_call_whose_line_was_cut_short_is_sent_again() {
    let mut stage = Stage::up();
    stage.client_says(&call("7", "create_note"));
    let first = stage.server_reads().unwrap();
    stage.die(stage.written - 2);
    assert_eq!(stage.client_reads(), None, "it waits");
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    let second = stage.server_answers("{}");
    assert_ne!(first["id"], second["id"], "a new attempt has a new number");
    assert_eq!(stage.client_reads().unwrap()["id"], 7);
}

#[test]
fn a_read_is_sent_again_after_the_greeting_was_replayed() {
    let mut stage = Stage::up();
    stage.client_says(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","odd":true}}"#,
    );
    stage.server_answers(r#"{"protocolVersion":"2025-06-18"}"#);
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.client_reads().unwrap();

    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    stage.server_reads().unwrap();
    stage.die(stage.written);
    stage.pass(Duration::from_millis(200));
    stage.accept_dial();

    let greeting = stage.server_reads().unwrap();
    assert_eq!((&greeting["method"], &greeting["params"]["odd"]), (&"initialize".into(), &true.into()));
    assert_eq!(stage.server_reads(), None, "nothing else before the greeting is answered");
    stage.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, greeting["id"]));
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.server_answers(r#"{"tools":[]}"#);
    let answer = stage.client_reads().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["tools"]), (&1.into(), &Value::Array(vec![])));
    assert_eq!(stage.client_reads(), None, "the replayed greeting is not the client's business");
}

#[test]
fn a_deadline_is_kept_and_the_server_is_told_to_stop() {
    let mut stage = Stage::up();
    stage.client_says(&call("1", "slow"));
    let request = stage.server_reads().unwrap();
    stage.pass(defaults::CALL - Duration::from_nanos(1));
    assert_eq!(stage.client_reads(), None);
    stage.pass(Duration::from_nanos(1));
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "timed_out");
    let cancelled = stage.server_reads().unwrap();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&"notifications/cancelled".into(), &request["id"])
    );
    stage.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
    assert_eq!(stage.client_reads(), None, "a late answer is dropped");
}

#[test]
fn a_server_that_starts_and_dies_for_ever_is_parked_however_often_it_starts() {
    let mut stage = Stage::up();
    for _ in 0..defaults::CRASH_LOOP_EXITS - 1 {
        stage.die(0);
        assert_eq!(stage.state(), LinkState::Waiting);
        stage.pass(Duration::from_secs(10));
        stage.accept_dial();
    }
    stage.die(0);
    assert_eq!(stage.state(), LinkState::Parked);
    stage.pass(Duration::from_secs(15));
    stage.client_says(&call("1", "create_note"));
    let answer = stage.client_reads().expect("an answer at once");
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "parked");
    assert_eq!(stage.state(), LinkState::Dialing, "and the call wakes it");
}

#[test]
fn a_command_that_does_not_exist_is_said_at_once_and_tried_again_slowly() {
    let mut stage = Stage::new();
    stage.client_says(r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
    let link = stage.spawned.take().unwrap();
    let why = SpawnFailure { kind: SpawnFailureKind::NotFound, text: "`notes-server` was not found".into() };
    stage.tell(Input::SpawnFailed { link, why });
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["error"]["code"], -31007);
    assert!(answer["error"]["message"].as_str().unwrap().contains("`notes-server` was not found"));
    stage.pass(defaults::PARKED_PROBE);
    assert_eq!((stage.state(), stage.dials), (LinkState::Dialing, 2));
}

#[test]
fn a_command_that_does_not_exist_is_remembered_even_when_nobody_waits_for_it() {
    let mut stage = Stage::new();
    stage.tell(Input::ClientEnded { client: CLIENT });
    let link = stage.spawned.take().unwrap();
    let why = SpawnFailure { kind: SpawnFailureKind::NotFound, text: "`notes-server` was not found".into() };
    stage.tell(Input::SpawnFailed { link, why });
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ending: Ending::NeverReady })));
}

#[test]
fn a_question_of_a_server_that_died_is_withdrawn_and_its_answer_goes_nowhere() {
    let mut stage = Stage::up();
    stage.server_says(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.die(0);
    let withdrawn = stage.client_reads().unwrap();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&"notifications/cancelled".into(), &question["id"])
    );
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, question["id"]));
    assert_eq!(stage.server_reads(), None);
}

#[test]
fn end_of_input_lets_running_calls_finish_and_then_ends_the_child_by_the_ladder() {
    let mut stage = Stage::up();
    stage.client_says(&call("1", "create_note"));
    let request = stage.server_reads().unwrap();
    stage.tell(Input::ClientEnded { client: CLIENT });
    assert!(stage.asked.is_empty(), "the child is left alone while it works");
    stage.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request["id"]));
    assert!(matches!(stage.asked[..], [Output::CloseStdin { .. }]), "{:?}", stage.asked);
    stage.pass(Duration::from_secs(2));
    stage.pass(Duration::from_secs(2));
    let signals: Vec<String> = stage.asked[1..].iter().map(|output| format!("{output:?}")).collect();
    assert!(signals[0].contains("Term") && signals[1].contains("Kill"), "{signals:?}");
    stage.die(stage.written);
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ending: Ending::Ready })));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.engine.poll_timeout(), None);
}

#[test]
fn the_queue_has_an_end_and_says_so_at_once() {
    let mut stage = Stage::up();
    let limit = defaults::IN_FLIGHT + defaults::WAITING;
    for id in 0..=limit {
        stage.client_says(&call(&id.to_string(), "create_note"));
    }
    let answer = stage.client_reads().expect("the one too many is answered");
    assert_eq!(
        (&answer["id"], &answer["result"]["_meta"]["dev.mendline/failure"]["cause"]),
        (&limit.into(), &"overloaded".into())
    );
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["retryAfterMs"], 1000, "and when to come again");
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn what_is_held_for_a_request_is_given_back_with_its_answer() {
    let mut stage = Stage::up();
    let before = stage.engine.load();
    for id in ["1", "2", "3"] {
        stage.client_says(&call(id, "create_note"));
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
fn a_server_that_asked_a_client_that_has_gone_is_told_so() {
    let mut stage = Stage::up();
    stage.client_says(&call("1", "create_note"));
    stage.server_reads().unwrap();
    stage.server_says(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    stage.client_reads().unwrap();
    stage.tell(Input::ClientEnded { client: CLIENT });
    let declined = stage.server_reads().expect("it does not wait for ever");
    assert_eq!((&declined["id"], &declined["error"]["message"]), (&"q".into(), &"the client has gone".into()));
}

#[test]
fn progress_of_an_answer_to_a_servers_question_reaches_it_under_its_own_token() {
    let mut stage = Stage::up();
    stage.server_says(
        r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":"mine"}}}"#,
    );
    let token = stage.client_reads().unwrap()["params"]["_meta"]["progressToken"].clone();
    stage.client_says(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    ));
    let progress = stage.server_reads().expect("it hears of it");
    assert_eq!((&progress["params"]["progressToken"], &progress["params"]["progress"]), (&"mine".into(), &1.into()));
}

#[test]
fn a_client_that_does_not_read_slows_its_server_down_until_it_does() {
    let mut stage = Stage::up();
    let line = Port::Link(stage.spawned.unwrap());
    for sent in 0..defaults::CLIENT_QUEUE_SOFT {
        assert!(stage.engine.may_read(line), "{sent} messages are nothing yet");
        stage.server_says(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#);
    }
    assert!(!stage.engine.may_read(line));
    stage.client_reads().unwrap();
    assert!(stage.engine.may_read(line));
}

#[test]
fn a_line_of_a_child_that_has_been_replaced_is_nobodys_answer() {
    let mut stage = Stage::up();
    let old = stage.spawned.unwrap();
    stage.die(0);
    stage.pass(Duration::from_secs(1));
    stage.accept_dial();
    assert_ne!(stage.spawned, Some(old), "each child has a name of its own");
    stage.client_says(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    let text = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let received = Received::from_line(Line::Text(text), &Limits::default());
    stage.tell(Input::FromLink { link: old, received });
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn a_server_that_closes_its_output_and_ends_is_said_to_have_ended_as_it_did() {
    let mut stage = Stage::up();
    stage.client_says(&call("1", "create_note"));
    stage.server_reads().unwrap();
    let link = stage.spawned.take().unwrap();
    stage.tell(Input::LinkBroken { link, pipe: Pipe::Stdout });
    stage.tell(Input::ChildExited { link, how: Exit::Code(3), written: stage.written });
    let answer = stage.client_reads().unwrap().to_string();
    assert!(answer.contains("exit code 3"), "{answer}");
}

#[test]
fn a_server_is_said_to_be_ready_with_its_first_answer_and_only_then() {
    let mut stage = Stage::up();
    for id in ["1", "2", "3"] {
        assert_eq!(stage.heard.iter().any(|line| line.contains("ready after")), id != "1");
        stage.client_says(&call(id, "create_note"));
        stage.server_answers("{}");
    }
    assert_eq!(stage.heard.iter().filter(|line| line.contains("ready after")).count(), 1, "{:?}", stage.heard);
}

#[test]
fn a_line_that_is_not_protocol_is_shown_by_its_beginning_without_what_would_move_a_cursor() {
    let mut stage = Stage::up();
    stage.server_says(&format!("listening on\t\x1b[1mport 8080{}", "!".repeat(1000)));
    let shown = stage.heard.iter().find(|line| line.contains("listening on  [1mport 8080!")).expect("the log shows it");
    assert!(shown.len() < 400 && !shown.contains(char::is_control), "{shown}");
}

#[test]
fn a_server_that_closes_its_output_and_stays_is_ended_by_the_ladder() {
    let mut stage = Stage::up();
    let link = stage.spawned.unwrap();
    stage.tell(Input::LinkBroken { link, pipe: Pipe::Stdout });
    assert_eq!(stage.state(), LinkState::Draining);
    stage.pass(defaults::LADDER_STEP * 2);
    assert!(stage.asked.iter().any(|asked| format!("{asked:?}").contains("Kill")), "{:?}", stage.asked);
}

#[test]
fn a_question_that_the_server_takes_back_is_the_one_that_the_client_is_told_of() {
    let mut stage = Stage::up();
    stage.server_says(r#"{"jsonrpc":"2.0","id":"a","method":"roots/list"}"#);
    stage.server_says(r#"{"jsonrpc":"2.0","id":"b","method":"roots/list"}"#);
    let (first, second) = (stage.client_reads().unwrap(), stage.client_reads().unwrap());
    stage.server_says(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}"#);
    assert_eq!(stage.client_reads().expect("it is told")["params"]["requestId"], second["id"]);
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, first["id"]));
    assert_eq!(stage.server_reads().expect("the other one is still open")["id"], "a");
}

#[test]
fn nothing_is_kept_for_a_client_that_can_no_longer_be_written_to() {
    let mut stage = Stage::up();
    let before = stage.engine.load();
    stage.server_says(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#);
    assert_eq!(stage.engine.load().for_clients, 1);
    stage.tell(Input::ClientLost { client: CLIENT });
    let load = stage.engine.load();
    assert_eq!((load.for_clients, load.bytes), (0, before.bytes));
}

#[test]
fn a_client_that_only_writes_is_not_listened_to_until_it_reads() {
    let mut stage = Stage::up();
    for sent in 0..defaults::CLIENT_QUEUE_HARD {
        assert!(stage.engine.may_read(Port::Client(CLIENT)), "{sent} messages are not too many");
        stage.client_says("nonsense");
    }
    assert!(!stage.engine.may_read(Port::Client(CLIENT)));
    assert_eq!(stage.client_reads().expect("nonsense is answered")["error"]["code"], -32700);
    assert!(stage.engine.may_read(Port::Client(CLIENT)));
}

#[test]
fn an_answer_that_is_too_long_is_said_to_be_so_and_the_call_ends() {
    let mut stage = Stage::up();
    stage.client_says(&call("1", "create_note"));
    let id = stage.server_reads().unwrap()["id"].clone();
    let head = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"aaaa"#));
    let line = Line::TooLong { length: 1 << 30, head, tail: Bytes::from_static(br#"aaaa"}}"#) };
    let link = stage.spawned.unwrap();
    stage.tell(Input::FromLink { link, received: Received::from_line(line, &Limits::default()) });
    let answer = stage.client_reads().expect("said at once");
    assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "cannot_bridge");
}

#[test]
fn a_new_connection_by_hand_is_made_at_once_whatever_the_backoff_says() {
    let mut stage = Stage::up();
    stage.die(0);
    assert_eq!((stage.state(), stage.dials), (LinkState::Waiting, 1));
    stage.tell(Input::Reconnect { upstream: NOTES });
    assert_eq!((stage.state(), stage.dials), (LinkState::Dialing, 2));
}

#[test]
fn the_last_words_of_a_server_that_never_answered_are_passed_on() {
    let mut stage = Stage::up();
    stage.client_says(&call("1", "create_note"));
    stage.server_reads().unwrap();
    let link = stage.spawned.unwrap();
    for line in ["NOTES_TOKEN is not set", " \t"] {
        stage.tell(Input::Said { link, line: Bytes::from(line) });
    }
    stage.die(stage.written);
    let answer = stage.client_reads().unwrap().to_string();
    assert!(answer.contains("its last words: NOTES_TOKEN is not set"), "{answer}");
}

#[test]
fn a_child_that_does_not_read_is_sent_so_many_notifications_and_no_more() {
    let mut stage = Stage::up();
    for _ in 0..defaults::LINK_QUEUE + 10 {
        stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    }
    assert_eq!(std::iter::from_fn(|| stage.server_reads()).count(), defaults::LINK_QUEUE);
}
