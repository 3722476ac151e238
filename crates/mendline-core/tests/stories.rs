//! Short stories about one client, one child and one engine, told by hand.
//!
//! The simulation tells thousands of these; here are the ones that a reader of the core should see first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::time::Duration;

use bytes::Bytes;
use mendline_core::port::{Exit, SpawnFailure, SpawnFailureKind};
use mendline_core::{
    ClientId, Config, Engine, Input, LinkId, LinkState, Moment, Output, Port, UpstreamConfig, UpstreamId, defaults,
};
use mendline_wire::{Limits, Line, Received};
use serde_json::Value;

const CLIENT: ClientId = ClientId(0);
const NOTES: UpstreamId = UpstreamId(0);

/// One client and one child, both played by the test.
struct Stage {
    engine: Engine,
    now: Moment,
    spawned: Option<LinkId>,
    dials: u32,
    written: u64,
    asked: Vec<Output>,
}

impl Stage {
    fn new() -> Self {
        let config = Config::new(vec![UpstreamConfig::child("notes", "notes-server")]);
        let mut stage = Stage {
            engine: Engine::new(config, 1),
            now: Moment::ZERO,
            spawned: None,
            dials: 0,
            written: 0,
            asked: Vec::new(),
        };
        stage.tell(Input::ClientOpened { client: CLIENT, upstream: NOTES });
        stage
    }

    /// A stage whose child runs.
    fn up() -> Self {
        let mut stage = Stage::new();
        stage.accept_dial();
        stage
    }

    fn tell(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Spawn { link } => {
                    assert_eq!(self.spawned, None, "one dial at a time");
                    self.spawned = Some(link);
                    self.dials += 1;
                    self.written = 0;
                }
                Output::Happened(_) => {}
                other => self.asked.push(other),
            }
        }
    }

    fn accept_dial(&mut self) {
        let link = self.spawned.expect("a dial");
        self.tell(Input::Spawned { link, pid: 1 });
    }

    fn die(&mut self, written: u64) {
        let link = self.spawned.take().expect("a child");
        self.tell(Input::ChildExited { link, how: Exit::Signal(9), written });
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= end) {
            self.now = at;
            self.engine.handle_timeout(at);
            self.collect();
        }
        self.now = end;
    }

    fn client_says(&mut self, text: &str) {
        let received = Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default());
        self.tell(Input::FromClient { client: CLIENT, received });
    }

    fn server_says(&mut self, text: &str) {
        let link = self.spawned.expect("a child");
        let received = Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default());
        self.tell(Input::FromLink { link, received });
    }

    /// What the client reads next.
    fn client_reads(&mut self) -> Option<Value> {
        let text = self.engine.poll_write(Port::Client(CLIENT))?.to_bytes();
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// What the child reads next.
    fn server_reads(&mut self) -> Option<Value> {
        let text = self.engine.poll_write(Port::Link(self.spawned?))?.to_bytes();
        self.collect();
        self.written += text.len() as u64 + 1;
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// The child reads one request and answers it.
    fn server_answers(&mut self, result: &str) -> Value {
        let request = self.server_reads().expect("a request");
        self.server_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"]));
        request
    }

    fn state(&self) -> LinkState {
        self.engine.link_state(NOTES).unwrap()
    }
}

fn call(id: &str, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

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
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ever_ready: false })));
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
    assert!(matches!(stage.asked.last(), Some(Output::Finished { ever_ready: true })));
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
    assert_eq!(stage.client_reads(), None);
}
