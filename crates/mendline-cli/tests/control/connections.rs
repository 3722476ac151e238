//! Control connections that send invalid requests, send nothing, never read, or are too many. Calls are not affected.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use mendline::control::{Level, Process, StreamItem};
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, lines_of};
use crate::stage::{LATER, Stage};

fn only(stage: &Stage) -> Process {
    stage.registry().processes().into_iter().next().unwrap()
}

fn connect_control(stage: &Stage) -> UnixStream {
    let stream = UnixStream::connect(&stage.sockets()[0]).unwrap();
    stream.set_read_timeout(Some(LATER)).unwrap();
    stream
}

fn look_up(client: &mut Client, id: &str) {
    let result = client.result(id, "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42", "{result}");
}

#[test]
fn follower_gets_events_in_order_as_text() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let mut events = only(&stage).follow(Level::Debug, SOON).unwrap();
    look_up(&mut client, "a");
    let mut texts = Vec::new();
    while !texts.iter().any(|text: &String| text.contains("answered after")) {
        match events.next_within(LATER).unwrap() {
            Some(StreamItem::Event(event)) => {
                assert_eq!((event.server.as_deref(), event.is_stderr), (Some("notes"), false));
                texts.push(event.text);
            }
            other => panic!("{other:?}; heard before: {texts:?}"),
        }
    }
    let place = |word: &str| texts.iter().position(|text| text.contains(word)).unwrap_or_else(|| panic!("{texts:?}"));
    assert!(place("lookup: accepted") < place("attempt 1 started"), "{texts:?}");
    assert!(place("attempt 1 started") < place("answered after"), "{texts:?}");
}

#[test]
fn follower_without_calls_gets_losses_only() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let mut events = only(&stage).follow(Level::Warn, SOON).unwrap();
    look_up(&mut client, "a");
    let server = stage.until("notes", "it is ready", |server| server["connection"]["child"].is_u64());
    crate::client::kill(crate::stage::child(&server), rustix::process::Signal::KILL);
    match events.next_within(LATER).unwrap() {
        Some(StreamItem::Event(event)) => {
            assert!(event.level >= Level::Warn && event.text.contains("killed by signal 9"), "{event:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn follower_that_never_reads_loses_events_and_delays_no_call() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let mut stream = BufReader::new(connect_control(&stage));
    stream.get_mut().write_all(b"{\"ask\":\"events\",\"level\":\"debug\"}\n").unwrap();
    let mut reply = String::new();
    stream.read_line(&mut reply).unwrap();
    assert_eq!(reply, "\"following\"\n");
    // Each call causes more than three events, far more than pipe and queue can hold. A connection that does not read
    // for ten seconds is closed, so the test sends all calls at once and waits for the answers later.
    let calls = 1_000;
    for number in 0..calls {
        client.call(&number.to_string(), "lookup", &json!({ "key": "k" }));
    }
    let mut answered = BTreeSet::new();
    while answered.len() < calls {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "k is 42", "{answer}");
        assert!(answered.insert(answer["id"].to_string()), "{answer}");
    }
    // The queued events come first. The count of lost events comes with the first event that fits again, and there may
    // be several such counts.
    let lines = lines_of(stream);
    let mut missed = 0;
    eventually("many were missed", LATER, || {
        look_up(&mut client, "more");
        for line in lines.try_iter() {
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert!(answer.get("event").is_some() || answer["missed"].is_u64(), "{answer}");
            missed += answer["missed"].as_u64().unwrap_or(0);
        }
        missed > 100
    });
}

#[test]
fn invalid_control_request_is_rejected_and_bridge_continues() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let endless = "x".repeat(1 << 20);
    let nested = "[".repeat(4_000);
    for nonsense in
        ["\n", "{}\n", "{\"ask\":\"explode\"}\n", "\0\u{1b}\n", &format!("{endless}\n"), &format!("{nested}\n")]
    {
        let mut stream = connect_control(&stage);
        // The bridge may have closed the connection already.
        let _ = stream.write_all(nonsense.as_bytes());
        let mut output = String::new();
        let _ = stream.read_to_string(&mut output);
        assert!(output.is_empty() || output.starts_with("{\"refused\":"), "{output}");
    }
    look_up(&mut client, "a");
    let mut stream = connect_control(&stage);
    stream.write_all(b"{\"ask\":\"command\",\"what\":\"reconnect\",\"server\":\"missing\"}\n").unwrap();
    let mut output = String::new();
    BufReader::new(stream).read_line(&mut output).unwrap();
    assert!(output.contains("there is no server") && output.contains("missing"), "{output}");
}

#[test]
fn control_connections_are_limited_and_freed_on_close() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let silent: Vec<UnixStream> = (0..40).map(|_| connect_control(&stage)).collect();
    let refused =
        |found: &mendline::control::ProcessStatus| format!("{:?}", found.snapshot).contains("too many are connected");
    let asked = stage.registry().snapshots_within(SOON);
    assert!(!asked.is_empty() && asked.iter().all(refused), "{asked:?}");
    look_up(&mut client, "a");
    drop(silent);
    eventually("a slot is free", LATER, || {
        let asked = stage.registry().snapshots();
        !asked.is_empty() && asked.iter().all(|found| found.snapshot.is_ok())
    });
}

#[test]
fn silent_control_connection_is_closed_after_timeout() {
    let stage = Stage::new();
    let _client = stage.bridge("notes");
    let mut stream = connect_control(&stage);
    // The timeout is ten seconds of the bridge's clock.
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn one_control_connection_serves_many_requests() {
    let stage = Stage::new();
    let _client = stage.bridge("notes");
    let mut stream = connect_control(&stage);
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for _ in 0..100 {
        stream.write_all(b"{\"ask\":\"snapshot\",\"unknown\":1}\n").unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["snapshot"]["servers"][0]["name"], "notes");
    }
    assert!(only(&stage).snapshot(SOON).is_ok());
}
