//! Short stories about one client, one server over HTTP and one engine, told by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::time::Duration;

use bytes::Bytes;
use mendline_core::config::Dialect;
use mendline_core::port::{Ask, Content, EndHow, ExchangeId, Head, Reuse, Verb, Written};
use mendline_core::{
    ClientId, Config, Engine, Input, LinkState, Moment, Output, Port, UpstreamConfig, UpstreamId, defaults,
};
use mendline_wire::{Limits, Line, Received, SseEvent};
use serde_json::Value;

const CLIENT: ClientId = ClientId(0);
const NOTES: UpstreamId = UpstreamId(0);
const GREETING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

/// One request as the server sees it.
struct Seen {
    id: ExchangeId,
    ask: Ask,
    reuse: Reuse,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.ask.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.ask.body.as_ref().unwrap().to_bytes()).unwrap()
    }

    fn method(&self) -> String {
        self.json()["method"].as_str().unwrap().to_owned()
    }
}

struct Stage {
    engine: Engine,
    now: Moment,
    seen: std::collections::VecDeque<Seen>,
    aborted: Vec<ExchangeId>,
    /// What the log would show.
    heard: Vec<String>,
    finished: bool,
}

impl Stage {
    fn new(dialect: Dialect) -> Self {
        // Most stories are about something else than an idle line.
        Stage::with(dialect, |notes| notes.keep_alive = None)
    }

    fn with(dialect: Dialect, change: impl FnOnce(&mut UpstreamConfig)) -> Self {
        let mut notes = UpstreamConfig::http("notes", "http://notes.example/mcp", dialect);
        change(&mut notes);
        Stage::of(notes)
    }

    fn of(upstream: UpstreamConfig) -> Self {
        let mut stage = Stage {
            engine: Engine::new(Config::new(vec![upstream]), 1),
            now: Moment::ZERO,
            seen: Default::default(),
            aborted: Vec::new(),
            heard: Vec::new(),
            finished: false,
        };
        stage.tell(Input::ClientOpened { client: CLIENT, upstream: NOTES });
        stage
    }

    /// A stage whose client has greeted in a session called `s1`; the stream for notices is refused.
    fn greeted() -> Self {
        Stage::new(Dialect::Auto).greeting()
    }

    fn greeting(self) -> Self {
        let mut stage = self;
        stage.client_says(GREETING);
        stage.greet("s1");
        stage.client_reads().unwrap();
        stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let note = stage.takes();
        assert_eq!(note.method(), "notifications/initialized");
        stage.status(note.id, 202, Content::Empty, None);
        stage.end(note.id, EndHow::Complete);
        let notices = stage.takes();
        assert_eq!((notices.ask.verb, notices.header("mcp-session-id")), (Verb::Get, Some("s1")));
        stage.status(notices.id, 405, Content::Empty, None);
        stage.end(notices.id, EndHow::Complete);
        stage
    }

    /// The server answers a greeting with this session.
    fn greet(&mut self, session: &str) -> Seen {
        let greeting = self.takes();
        assert_eq!((greeting.method().as_str(), greeting.header("mcp-session-id")), ("initialize", None));
        self.status(greeting.id, 200, Content::Json, Some(session));
        let id = &greeting.json()["id"];
        self.body(
            greeting.id,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25"}}}}"#),
        );
        self.end(greeting.id, EndHow::Complete);
        greeting
    }

    fn tell(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Exchange { exchange, ask, reuse, .. } => {
                    self.seen.push_back(Seen { id: exchange, ask: *ask, reuse });
                }
                Output::Abort { exchange } => {
                    self.aborted.push(exchange);
                    self.end(exchange, EndHow::Aborted);
                }
                Output::Finished { .. } => self.finished = true,
                Output::Happened(event) => self.heard.push(event.to_string()),
                other => panic!("not over HTTP: {other:?}"),
            }
        }
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

    fn client_reads(&mut self) -> Option<Value> {
        let text = self.engine.poll_write(Port::Client(CLIENT))?.to_bytes();
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// The next request that reaches the server.
    fn takes(&mut self) -> Seen {
        let seen = self.seen.pop_front().expect("a request");
        self.tell(Input::Reached { exchange: seen.id });
        seen
    }

    fn status(&mut self, exchange: ExchangeId, status: u16, content: Content, session: Option<&str>) {
        let head = Head { status, content, session: session.map(str::to_owned), retry_after_ms: None };
        self.tell(Input::Head { exchange, head });
    }

    fn body(&mut self, exchange: ExchangeId, text: &str) {
        let received = Received::from_text(Bytes::copy_from_slice(text.as_bytes()), &Limits::default());
        self.tell(Input::Body { exchange, received });
    }

    fn event(&mut self, exchange: ExchangeId, id: Option<&str>, data: &str) {
        let event = SseEvent {
            id: id.map(|id| Bytes::copy_from_slice(id.as_bytes())),
            event: None,
            data: Some(Bytes::copy_from_slice(data.as_bytes())),
            retry: None,
        };
        self.tell(Input::StreamEvent { exchange, event });
    }

    fn end(&mut self, exchange: ExchangeId, how: EndHow) {
        self.tell(Input::End { exchange, how, written: Written::Whole });
    }

    fn answer(&mut self, seen: &Seen, result: &str) {
        self.status(seen.id, 200, Content::Json, None);
        self.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.json()["id"]));
        self.end(seen.id, EndHow::Complete);
    }

    fn refuse_connection(&mut self) {
        let seen = self.seen.pop_front().expect("a request");
        let how = EndHow::NoConnection("nothing listens there".into());
        self.tell(Input::End { exchange: seen.id, how, written: Written::Nothing });
    }
}

fn call(id: u32, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

fn outcome(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.mendline/failure"]["outcome"].as_str().unwrap_or("none")
}

#[test]
fn a_call_carries_the_session_and_the_version_that_the_greeting_settled() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    assert_eq!((seen.header("mcp-session-id"), seen.header("mcp-protocol-version")), (Some("s1"), Some("2025-11-25")));
    assert_eq!(seen.reuse, Reuse::Fresh, "an unsafe call takes no risks with an idle connection");
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn nothing_overtakes_initialized() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    stage.greet("s1");
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let note = stage.takes();
    assert!(stage.seen.is_empty());
    stage.status(note.id, 202, Content::Empty, None);
    assert!(stage.seen.iter().any(|seen| seen.ask.verb == Verb::Post && seen.method() == "tools/list"));
}

#[test]
fn calls_wait_for_a_server_that_is_not_there_and_one_exchange_at_a_time_looks_for_it() {
    let mut stage = Stage::new(Dialect::Auto);
    for id in 1..=5 {
        stage.client_says(&call(id, "create_note"));
    }
    for _ in 0..4 {
        assert_eq!(stage.seen.len(), 1, "one pathfinder");
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
        stage.pass(Duration::from_secs(2));
    }
    let first = stage.takes();
    assert_eq!(stage.seen.len(), 4, "once it is reached, the others follow");
    stage.answer(&first, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn a_lost_session_is_greeted_again_once_and_every_refused_call_goes_out_again() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    stage.client_says(&call(2, "create_note"));
    for _ in 0..2 {
        let seen = stage.takes();
        stage.status(seen.id, 404, Content::Json, None);
        stage.body(seen.id, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#);
        stage.end(seen.id, EndHow::Complete);
    }
    stage.greet("s2");
    let note = stage.takes();
    assert_eq!((note.method().as_str(), note.header("mcp-session-id")), ("notifications/initialized", Some("s2")));
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, EndHow::Complete);
    let mut answered = Vec::new();
    while let Some(seen) = stage.seen.pop_front() {
        if seen.ask.verb == Verb::Post {
            assert_eq!(seen.header("mcp-session-id"), Some("s2"));
            stage.answer(&seen, "{}");
            answered.push(stage.client_reads().unwrap()["id"].as_u64().unwrap());
        }
    }
    assert_eq!(answered, [1, 2]);
}

#[test]
fn a_burst_that_is_refused_by_one_lost_session_costs_the_budget_once() {
    const BURST: u32 = 50;
    let mut stage = Stage::greeted();
    for loss in 1..=10 {
        (0..BURST).for_each(|id| stage.client_says(&call(loss * 100 + id, "create_note")));
        for _ in 0..BURST {
            let seen = stage.takes();
            stage.status(seen.id, 404, Content::Empty, None);
            stage.end(seen.id, EndHow::Complete);
        }
        stage.greet("s2");
        let note = stage.takes();
        stage.status(note.id, 202, Content::Empty, None);
        stage.end(note.id, EndHow::Complete);
        stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
        assert_eq!(stage.seen.len(), BURST as usize, "each goes out once more after loss {loss}");
        while let Some(seen) = stage.seen.pop_front() {
            // Those that have been refused before get an answer, whatever it is; nothing is earned by an error of ours.
            stage.status(seen.id, 403, Content::Empty, None);
            stage.end(seen.id, EndHow::Complete);
            assert_eq!(stage.client_reads().unwrap()["result"]["isError"], true);
        }
        assert!(stage.client_reads().is_none() && stage.seen.is_empty());
    }
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    assert_eq!(outcome(&stage.client_reads().expect("the eleventh loss is too much")), "refused");
}

#[test]
fn a_greeting_that_gets_no_answer_is_replayed_until_it_does() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 404, Content::Json, None);
    stage.end(seen.id, EndHow::Complete);
    for _ in 0..3 {
        let greeting = stage.takes();
        assert_eq!(greeting.method(), "initialize");
        stage.end(greeting.id, EndHow::Cut("reset".into()));
        assert!(stage.seen.is_empty(), "not without a pause");
        stage.pass(Duration::from_secs(2));
    }
    stage.greet("s2");
    let note = stage.takes();
    stage.status(note.id, 202, Content::Empty, None);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
    let again = stage.takes();
    stage.answer(&again, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn a_replayed_greeting_that_has_to_be_fetched_is_fetched() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 404, Content::Json, None);
    stage.end(seen.id, EndHow::Complete);
    let greeting = stage.takes();
    stage.status(greeting.id, 200, Content::Events, Some("s2"));
    stage.event(greeting.id, Some("e1"), "");
    stage.end(greeting.id, EndHow::Complete);
    stage.pass(defaults::RESUME_WAIT);
    let fetched = stage.takes();
    assert_eq!((fetched.ask.verb, fetched.header("last-event-id")), (Verb::Get, Some("e1")));
    stage.status(fetched.id, 200, Content::Events, None);
    let result = r#""result":{"protocolVersion":"2025-11-25"}"#;
    let id = &greeting.json()["id"];
    stage.event(fetched.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    stage.end(fetched.id, EndHow::Complete);
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s2"), "the call goes out again");
}

#[test]
fn an_answer_that_speaks_of_a_lost_session_is_none_the_first_time_and_one_the_second() {
    for status in [200, 400, 404] {
        let mut stage = Stage::greeted();
        stage.client_says(&call(1, "create_note"));
        let refuse = |stage: &mut Stage| {
            let seen = stage.takes();
            let error = r#"{"code":-32001,"message":"Session expired"}"#;
            stage.status(seen.id, status, Content::Json, None);
            stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, seen.json()["id"]));
            stage.end(seen.id, EndHow::Complete);
        };
        refuse(&mut stage);
        assert_eq!(stage.client_reads(), None, "HTTP {status}: it is greeted again");
        stage.greet("s2");
        complete_greeting(&mut stage);
        stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
        refuse(&mut stage);
        assert_eq!(stage.client_reads().unwrap()["error"]["message"], "Session expired", "HTTP {status}");
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn a_session_that_is_refused_twice_is_the_servers_answer() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let refuse = |stage: &mut Stage| {
        let seen = stage.takes();
        stage.status(seen.id, 404, Content::Json, None);
        stage.end(seen.id, EndHow::Complete);
    };
    refuse(&mut stage);
    stage.greet("s2");
    let note = stage.takes();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, EndHow::Complete);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
    refuse(&mut stage);
    let answer = stage.client_reads().expect("said, not looped");
    assert_eq!(answer["result"]["isError"], true);
    assert!(stage.seen.is_empty());
}

#[test]
fn a_response_that_breaks_off_is_resumed_and_not_sent_again() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, EndHow::Complete);
    assert!(stage.seen.is_empty(), "not before its time");
    stage.pass(defaults::RESUME_WAIT);
    let resumed = stage.takes();
    assert_eq!((resumed.ask.verb, resumed.header("last-event-id")), (Verb::Get, Some("e1")));
    stage.status(resumed.id, 200, Content::Events, None);
    let id = &seen.json()["id"];
    stage.event(resumed.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    stage.end(resumed.id, EndHow::Complete);
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    stage.pass(Duration::from_secs(60));
    assert!(stage.seen.is_empty(), "nothing is asked for after the answer");
}

#[test]
fn a_server_that_primes_and_closes_for_ever_is_asked_ten_times_and_then_it_is_said() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, EndHow::Complete);
    let mut resumed = 0;
    let answer = loop {
        stage.pass(defaults::RESUME_WAIT);
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        let get = stage.takes();
        assert_eq!(get.ask.verb, Verb::Get);
        resumed += 1;
        stage.status(get.id, 200, Content::Events, None);
        stage.event(get.id, Some(&format!("p{resumed}")), "");
        stage.end(get.id, EndHow::Complete);
    };
    assert_eq!((resumed, outcome(&answer)), (defaults::RESUME_ATTEMPTS, "unknown"));
    stage.pass(Duration::from_secs(300));
    assert!(stage.seen.is_empty(), "and nothing after it");
    stage.client_says(&call(2, "create_note"));
    let next = stage.takes();
    stage.answer(&next, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "later calls work");
}

#[test]
fn a_server_that_knows_only_the_old_way_is_found_out_and_answers_over_its_trunk() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    let post = stage.takes();
    stage.status(post.id, 405, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    let trunk = stage.takes();
    assert_eq!((trunk.ask.verb, trunk.ask.target.as_deref()), (Verb::Get, None));
    stage.status(trunk.id, 200, Content::Events, None);
    let endpoint = SseEvent {
        id: None,
        event: Some(Bytes::from_static(b"endpoint")),
        data: Some(Bytes::from_static(b"/messages?s=1")),
        retry: None,
    };
    stage.tell(Input::StreamEvent { exchange: trunk.id, event: endpoint });
    let post = stage.takes();
    assert_eq!((post.method().as_str(), post.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    let id = &post.json()["id"];
    stage.event(trunk.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 0);

    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.end(trunk.id, EndHow::Complete);
    assert_eq!(outcome(&stage.client_reads().expect("the answer was to come over the trunk")), "unknown");
}

#[test]
fn a_server_that_knows_neither_way_is_said_to_and_not_looped_over() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    for status in [404, 404] {
        let seen = stage.takes();
        stage.status(seen.id, status, Content::Other, None);
        stage.end(seen.id, EndHow::Complete);
    }
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["error"]["code"], -31009, "{answer}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Parked));
    stage.pass(Duration::from_secs(300));
    assert!(stage.seen.is_empty());
    stage.client_says(GREETING);
    assert_eq!(stage.takes().ask.verb, Verb::Post, "the next call may try both again");
}

#[test]
fn a_modern_call_is_cancelled_by_giving_its_exchange_up() {
    let mut stage = Stage::new(Dialect::Streamable);
    stage.client_says(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    let seen = stage.takes();
    assert_eq!((seen.header("mcp-method"), seen.header("mcp-name")), (Some("tools/call"), Some("slow")));
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(stage.aborted, [seen.id]);
    assert!(stage.seen.is_empty(), "no notification");
}

#[test]
fn a_session_is_told_goodbye() {
    let mut stage = Stage::greeted();
    stage.tell(Input::ClientEnded { client: CLIENT });
    let goodbye = stage.takes();
    assert_eq!((goodbye.ask.verb, goodbye.header("mcp-session-id")), (Verb::Delete, Some("s1")));
    assert!(!stage.finished);
    stage.pass(defaults::GOODBYE);
    assert!(stage.finished, "a server that does not take it cannot hold us");
}

#[test]
fn a_202_to_a_request_is_said_and_an_html_page_too() {
    for (status, content) in [(202, Content::Empty), (200, Content::Other)] {
        let mut stage = Stage::greeted();
        stage.client_says(&call(1, "create_note"));
        let seen = stage.takes();
        stage.status(seen.id, status, content, None);
        if content == Content::Other {
            stage.body(seen.id, "<html>");
        }
        stage.end(seen.id, EndHow::Complete);
        assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
        assert!(stage.seen.is_empty());
    }
}

/// Answers the notification that completes a greeting, and refuses the stream for notices that follows it.
fn complete_greeting(stage: &mut Stage) {
    let note = stage.takes();
    assert_eq!(note.method(), "notifications/initialized");
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, EndHow::Complete);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
}

/// The response to an unsafe call has begun and broken off; it will be resumed.
fn broken_off(stage: &mut Stage) -> Seen {
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, EndHow::Complete);
    seen
}

fn endpoint(stage: &mut Stage, trunk: ExchangeId, target: &str) {
    stage.status(trunk, 200, Content::Events, None);
    let event = SseEvent {
        id: None,
        event: Some(Bytes::from_static(b"endpoint")),
        data: Some(Bytes::copy_from_slice(target.as_bytes())),
        retry: None,
    };
    stage.tell(Input::StreamEvent { exchange: trunk, event });
}

/// A stage whose client has greeted over a trunk.
fn over_a_trunk() -> (Stage, ExchangeId) {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let trunk = stage.takes().id;
    endpoint(&mut stage, trunk, "/messages?s=1");
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    stage.client_reads().unwrap();
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    complete_greeting(&mut stage);
    (stage, trunk)
}

#[test]
fn a_resumption_that_finds_the_session_gone_does_not_send_the_call_again() {
    let mut stage = Stage::greeted();
    broken_off(&mut stage);
    stage.pass(defaults::RESUME_WAIT);
    let resumed = stage.takes();
    stage.status(resumed.id, 404, Content::Empty, None);
    stage.end(resumed.id, EndHow::Complete);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown", "the server had it in the session that is gone");
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.pass(Duration::from_secs(60));
    assert!(stage.seen.iter().all(|seen| seen.ask.verb == Verb::Get), "it is not sent again");
}

#[test]
fn a_resumption_that_finds_nobody_is_tried_again_and_does_not_make_the_call_unsent() {
    let mut stage = Stage::greeted();
    let sent = broken_off(&mut stage);
    stage.pass(defaults::RESUME_WAIT);
    stage.refuse_connection();
    assert!(stage.client_reads().is_none());
    stage.pass(defaults::RESUME_WAIT);
    let resumed = stage.takes();
    assert_eq!((resumed.ask.verb, resumed.header("last-event-id")), (Verb::Get, Some("e1")));
    stage.status(resumed.id, 200, Content::Events, None);
    let id = &sent.json()["id"];
    stage.event(resumed.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn a_session_that_is_lost_while_a_call_looks_for_a_way_is_greeted_again_when_the_way_is_found() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let first = stage.takes();
    stage.client_says(&call(2, "create_note"));
    stage.refuse_connection();
    stage.pass(Duration::from_secs(2));
    assert_eq!((stage.engine.link_state(NOTES), stage.seen.len()), (Some(LinkState::Dialing), 1));
    stage.status(first.id, 404, Content::Empty, None);
    stage.end(first.id, EndHow::Complete);
    let second = stage.takes();
    stage.status(second.id, 404, Content::Empty, None);
    stage.end(second.id, EndHow::Complete);
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
    for id in [1, 2] {
        let again = stage.takes();
        assert_eq!(again.header("mcp-session-id"), Some("s2"));
        stage.answer(&again, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
}

#[test]
fn a_late_word_about_an_old_session_does_not_cost_the_new_one() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    stage.client_says(&call(2, "create_note"));
    let (first, late) = (stage.takes(), stage.takes());
    stage.status(first.id, 404, Content::Empty, None);
    stage.end(first.id, EndHow::Complete);
    stage.greet("s2");
    complete_greeting(&mut stage);
    let again = stage.takes();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("tools/call", Some("s2")));
    stage.status(late.id, 404, Content::Empty, None);
    stage.end(late.id, EndHow::Complete);
    let again = stage.takes();
    assert_eq!((again.method().as_str(), again.header("mcp-session-id")), ("tools/call", Some("s2")), "and at once");
    assert!(stage.seen.is_empty(), "it was greeted once");
}

#[test]
fn what_waited_for_initialized_waits_for_the_next_session_when_this_one_is_lost() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    stage.greet("s2");
    stage.client_says(&call(2, "create_note"));
    let note = stage.takes();
    assert!(stage.seen.is_empty(), "both calls wait");
    stage.status(note.id, 404, Content::Empty, None);
    stage.end(note.id, EndHow::Complete);
    stage.greet("s3");
    complete_greeting(&mut stage);
    for _ in 0..2 {
        assert_eq!(stage.takes().header("mcp-session-id"), Some("s3"));
    }
}

#[test]
fn a_greeting_whose_last_word_did_not_arrive_is_made_again() {
    for refusal in [Some(429), Some(503), None] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_says(GREETING);
        stage.greet("s1");
        stage.client_reads().unwrap();
        stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        stage.client_says(&call(1, "create_note"));
        let note = stage.takes();
        match refusal {
            Some(status) => stage.status(note.id, status, Content::Empty, None),
            // Nothing comes back at all: the time for a greeting bounds that too.
            None => stage.pass(defaults::HANDSHAKE_HTTP),
        }
        assert!(stage.seen.is_empty(), "nothing goes out after half a greeting");
        stage.pass(Duration::from_secs(1));
        stage.greet("s2");
        complete_greeting(&mut stage);
        assert_eq!(stage.takes().header("mcp-session-id"), Some("s2"), "{refusal:?}");
    }
}

#[test]
fn a_server_that_goes_away_after_a_long_health_is_not_asked_without_growing_pauses() {
    let mut stage = Stage::greeted();
    stage.pass(Duration::from_secs(60));
    stage.client_says(&call(1, "create_note"));
    let began = stage.now;
    for _ in 0..8 {
        stage.refuse_connection();
        while stage.seen.is_empty() {
            stage.pass(Duration::from_millis(10));
        }
    }
    assert!(stage.now.since(began) > Duration::from_secs(3), "eight dials took {:?}", stage.now.since(began));
}

#[test]
fn a_request_that_never_gets_there_whole_is_sent_ever_more_slowly_and_not_for_ever() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let began = stage.now;
    let mut sent = 0;
    let answer = loop {
        while let Some(seen) = stage.seen.pop_front() {
            sent += 1;
            stage.tell(Input::Reached { exchange: seen.id });
            let how = EndHow::Cut("reset".into());
            stage.tell(Input::End { exchange: seen.id, how, written: Written::Partly });
        }
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        stage.pass(Duration::from_millis(50));
    };
    assert_eq!(outcome(&answer), "not_sent");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("(reset)"), "{answer}");
    assert!((5..=30).contains(&sent), "{sent} requests");
    let waited = stage.now.since(began);
    assert!(waited <= defaults::RECOVERY + Duration::from_millis(50), "{waited:?}");
}

#[test]
fn a_call_that_waits_for_its_next_try_holds_nobody_up() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let busy = stage.takes();
    let head = Head { status: 429, content: Content::Empty, session: None, retry_after_ms: Some(30_000) };
    stage.tell(Input::Head { exchange: busy.id, head });
    stage.end(busy.id, EndHow::Complete);
    assert!(stage.seen.is_empty());
    stage.client_says(&call(2, "create_note"));
    let next = stage.takes();
    stage.answer(&next, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn a_call_that_never_had_a_connection_was_not_sent() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    stage.seen.pop_front().expect("a request that gets no connection");
    stage.pass(defaults::CALL);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "not_sent");
}

#[test]
fn an_exchange_that_hangs_keeps_nobody_from_looking_for_a_path() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let hangs = stage.takes();
    stage.client_says(&call(2, "create_note"));
    stage.refuse_connection();
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
    stage.status(hangs.id, 200, Content::Events, None);
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting), "an old connection proves nothing");
    stage.pass(Duration::from_secs(1));
    let looks = stage.takes();
    stage.answer(&looks, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn a_question_asked_in_a_lost_session_is_not_answered_in_the_next() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    stage.client_says(&call(2, "create_note"));
    let (asks, lost) = (stage.takes(), stage.takes());
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    assert!(stage.client_reads().is_none(), "nobody could be answered");
}

#[test]
fn a_session_goes_on_over_a_new_connection_and_so_do_its_questions() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let asks = stage.takes();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.client_says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    stage.refuse_connection();
    stage.pass(Duration::from_secs(1));
    let looks = stage.takes();
    stage.answer(&looks, r#"{"tools":[]}"#);
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]));
    let reply = stage.takes();
    assert_eq!((reply.json()["id"].as_str(), reply.header("mcp-session-id")), (Some("q"), Some("s1")));
}

/// A server has asked, and the client's answer is on its way.
fn replying() -> (Stage, Seen) {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let asks = stage.takes();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]));
    let reply = stage.takes();
    (stage, reply)
}

#[test]
fn an_answer_to_a_question_that_may_not_have_arrived_is_sent_again_three_times_in_all() {
    let (mut stage, first) = replying();
    stage.end(first.id, EndHow::Cut("reset".into()));
    let second = stage.takes();
    assert_eq!((second.json(), second.header("mcp-session-id")), (first.json(), Some("s1")));
    stage.end(second.id, EndHow::Cut("reset".into()));
    let third = stage.takes();
    stage.end(third.id, EndHow::Cut("reset".into()));
    assert!(stage.seen.is_empty(), "not for ever");
}

#[test]
fn an_answer_to_a_question_that_was_taken_or_whose_session_is_gone_is_not_sent_again() {
    let (mut stage, reply) = replying();
    stage.status(reply.id, 202, Content::Empty, None);
    stage.end(reply.id, EndHow::Cut("reset".into()));
    assert!(stage.seen.is_empty());

    let (mut stage, reply) = replying();
    stage.client_says(&call(2, "create_note"));
    let lost = stage.takes();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.seen.clear();
    stage.end(reply.id, EndHow::Cut("reset".into()));
    assert!(stage.seen.is_empty());
}

#[test]
fn a_notification_is_sent_again_only_if_it_cannot_have_arrived() {
    for (written, again) in [(Written::Partly, 1), (Written::Whole, 0)] {
        let mut stage = Stage::greeted();
        stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        let note = stage.takes();
        stage.tell(Input::End { exchange: note.id, how: EndHow::Cut("reset".into()), written });
        assert_eq!(stage.seen.len(), again, "{written:?}");
    }
}

#[test]
fn a_new_connection_by_hand_gives_the_trunk_up_and_makes_another() {
    let (mut stage, trunk) = over_a_trunk();
    stage.tell(Input::Reconnect { upstream: NOTES });
    assert_eq!(stage.aborted, [trunk]);
    stage.pass(Duration::from_secs(1));
    let next = stage.takes();
    assert_eq!((next.ask.verb, next.ask.target), (Verb::Get, None));
    endpoint(&mut stage, next.id, "/messages?s=2");
    let greeting = stage.takes();
    assert_eq!((greeting.method().as_str(), greeting.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
}

#[test]
fn a_message_that_finds_no_way_while_the_trunk_stands_tries_again_and_the_trunk_stays() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    for _ in 0..3 {
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
        assert!(stage.seen.is_empty(), "not without a pause");
        stage.pass(Duration::from_secs(1));
    }
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn a_trunk_that_may_have_been_greeted_is_not_greeted_twice() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let trunk = stage.takes().id;
    endpoint(&mut stage, trunk, "/messages?s=1");
    let post = stage.takes();
    stage.end(post.id, EndHow::Cut("reset".into()));
    assert_eq!(stage.aborted, [trunk]);
    stage.pass(Duration::from_secs(1));
    let next = stage.takes().id;
    endpoint(&mut stage, next, "/messages?s=2");
    assert_eq!(stage.takes().ask.target.as_deref(), Some("/messages?s=2"));
}

#[test]
fn a_trunk_whose_line_breaks_does_not_prove_that_the_server_speaks_neither_way() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    let post = stage.takes();
    stage.status(post.id, 405, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    let trunk = stage.takes();
    stage.end(trunk.id, EndHow::Cut("reset".into()));
    assert!(stage.client_reads().is_none(), "the call waits");
    stage.pass(Duration::from_secs(1));
    let begun = stage.takes();
    stage.status(begun.id, 200, Content::Events, None);
    stage.end(begun.id, EndHow::Cut("reset".into()));
    assert!(stage.client_reads().is_none(), "a stream that began proves the contrary");
    stage.pass(Duration::from_secs(1));
    let again = stage.takes().id;
    endpoint(&mut stage, again, "/messages?s=1");
    assert_eq!(stage.takes().method(), "initialize");
}

#[test]
fn a_call_on_its_way_to_a_trunk_that_is_lost_was_sent_only_if_it_had_a_connection() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    stage.client_says(&call(2, "create_note"));
    stage.takes();
    stage.seen.pop_front().expect("the second, without a connection");
    stage.end(trunk, EndHow::Cut("reset".into()));
    stage.pass(defaults::ORPHAN);
    let answer = stage.client_reads().expect("nobody knows what became of the first");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "unknown"));
    assert!(stage.client_reads().is_none(), "the second waits for the next trunk");
}

#[test]
fn a_post_that_may_not_be_sent_costs_its_call_and_not_the_trunk() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.seen.pop_front().expect("a post");
    let how = EndHow::Forbidden("its certificate has expired".into());
    stage.tell(Input::End { exchange: post.id, how, written: Written::Nothing });
    let answer = stage.client_reads().expect("it is said at once");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "not_sent"));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up), "the trunk stands");
    stage.client_says(&call(2, "create_note"));
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn a_post_whose_end_is_unknown_costs_its_call_and_not_the_trunk() {
    let (mut stage, _) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.end(post.id, EndHow::Cut("reset".into()));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    stage.client_says(&call(2, "create_note"));
    assert_eq!(stage.takes().ask.target.as_deref(), Some("/messages?s=1"));
}

#[test]
fn an_answer_that_breaks_off_is_unknown_and_the_reason_is_the_cut() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Json, None);
    stage.end(seen.id, EndHow::Cut("the connection was reset".into()));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "unknown" && text.contains("the connection was reset"), "{text}");
}

#[test]
fn a_notice_that_is_replayed_when_its_stream_is_resumed_is_not_passed_on_twice() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    stage.greet("s1");
    stage.client_reads().unwrap();
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let initialized = stage.takes();
    stage.status(initialized.id, 202, Content::Empty, None);
    stage.end(initialized.id, EndHow::Complete);
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    for (last, passed_on) in [(None, true), (Some("e1"), false)] {
        let notices = stage.takes();
        assert_eq!((notices.ask.verb, notices.header("last-event-id")), (Verb::Get, last));
        stage.status(notices.id, 200, Content::Events, None);
        stage.event(notices.id, Some("e1"), notice);
        assert_eq!(stage.client_reads().is_some(), passed_on);
        stage.end(notices.id, EndHow::Cut("reset".into()));
        stage.pass(Duration::from_secs(5));
    }
}

#[test]
fn what_an_old_session_confirmed_late_is_told_to_the_one_that_took_its_place() {
    let mut stage = watched();
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}"#);
    let slow = stage.takes();
    stage.client_says(&call(2, "create_note"));
    let lost = stage.takes();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.takes();
    stage.answer(&slow, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    let told = stage.takes();
    assert_eq!((told.method().as_str(), told.header("mcp-session-id")), ("resources/subscribe", Some("s2")));
}

#[test]
fn lists_are_not_compared_while_the_way_to_the_server_is_lost() {
    let mut stage = watched();
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = stage.takes();
    stage.answer(&list, r#"{"tools":[]}"#);
    stage.client_reads().unwrap();
    stage.client_says(&call(2, "create_note"));
    stage.refuse_connection();
    stage.pass(Duration::from_secs(1));
    let old = stage.takes();
    stage.client_says(&call(3, "create_note"));
    stage.refuse_connection();
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
    stage.answer(&old, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    assert!(stage.seen.is_empty(), "one looks for a path, and it is not time yet");
}

#[test]
fn questions_are_withdrawn_when_everything_ends() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let asks = stage.takes();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    stage.client_reads().unwrap();
    stage.tell(Input::Stop);
    stage.tell(Input::Stop);
    assert_eq!(stage.engine.load().asks, 0);
}

#[test]
fn an_event_that_names_a_call_and_cannot_be_read_is_its_answer() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, None, "a line of log");
    assert!(stage.client_reads().is_none(), "noise harms nobody");
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, seen.json()["id"]));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert_eq!(stage.aborted, [seen.id]);
}

#[test]
fn a_replayed_greeting_whose_answer_cannot_be_read_is_replayed_again_before_anything_else() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    let greeting = stage.takes();
    stage.status(greeting.id, 200, Content::Events, Some("s2"));
    stage.event(greeting.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, greeting.json()["id"]));
    stage.pass(Duration::from_secs(1));
    stage.greet("s3");
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s3"));
}

#[test]
fn a_greeting_that_is_resumed_keeps_the_session_that_its_first_response_named() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    let greeting = stage.takes();
    stage.status(greeting.id, 200, Content::Events, Some("s1"));
    stage.event(greeting.id, Some("e1"), "");
    stage.end(greeting.id, EndHow::Cut("reset".into()));
    stage.pass(defaults::RESUME_WAIT);
    let resumed = stage.takes();
    assert_eq!((resumed.ask.verb, resumed.header("mcp-session-id")), (Verb::Get, Some("s1")));
    stage.status(resumed.id, 200, Content::Events, None);
    let result = r#""result":{"protocolVersion":"2025-11-25"}"#;
    let id = &greeting.json()["id"];
    stage.event(resumed.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    stage.client_reads().unwrap();
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s1"));
}

#[test]
fn a_client_that_asks_again_and_again_for_what_cannot_be_bridged_is_no_storm() {
    let mut stage = Stage::new(Dialect::Auto);
    let mut requests = 0;
    for _ in 0..200 {
        stage.client_says(GREETING);
        for _ in 0..2 {
            let Some(seen) = stage.seen.pop_front() else { continue };
            requests += 1;
            stage.tell(Input::Reached { exchange: seen.id });
            stage.status(seen.id, 404, Content::Other, None);
            stage.end(seen.id, EndHow::Complete);
        }
        stage.pass(Duration::from_millis(100));
    }
    assert!(requests <= 6, "{requests} requests within twenty seconds");
}

#[test]
fn a_trunk_that_names_no_endpoint_is_given_up_in_time_and_another_made() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let mute = stage.takes();
    stage.status(mute.id, 200, Content::Events, None);
    stage.pass(defaults::HANDSHAKE_HTTP);
    assert_eq!(stage.aborted, [mute.id]);
    stage.pass(Duration::from_secs(1));
    let next = stage.takes().id;
    endpoint(&mut stage, next, "/messages?s=1");
    assert_eq!(stage.takes().method(), "initialize");
}

#[test]
fn initialized_that_comes_while_there_is_no_way_completes_a_new_greeting() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    stage.greet("s1");
    stage.client_reads().unwrap();
    stage.tell(Input::Reconnect { upstream: NOTES });
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.client_says(&call(1, "create_note"));
    stage.pass(Duration::from_secs(1));
    stage.greet("s2");
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s2"));
}

/// A greeted stage whose idle line is tested.
fn watched() -> Stage {
    Stage::with(Dialect::Auto, |_| {}).greeting()
}

#[test]
fn an_idle_server_that_has_gone_is_looked_for_and_found_by_itself() {
    let mut stage = watched();
    stage.pass(defaults::KEEP_ALIVE);
    for _ in 0..5 {
        assert_eq!(stage.seen.len(), 1, "one at a time");
        assert_eq!(stage.seen[0].method(), "ping");
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Waiting));
        while stage.seen.is_empty() {
            stage.pass(Duration::from_secs(1));
        }
    }
    assert!(stage.now.since(Moment::ZERO) < Duration::from_secs(60));
    let found = stage.takes();
    assert_eq!((found.method().as_str(), found.header("mcp-session-id")), ("ping", Some("s1")));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    stage.answer(&found, "{}");
    assert_eq!(stage.client_reads(), None, "the client never hears of it");
}

#[test]
fn a_session_that_was_lost_while_idle_is_replaced_before_anyone_calls() {
    let mut stage = watched();
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}"#);
    let level = stage.takes();
    stage.answer(&level, "{}");
    stage.client_reads().unwrap();
    stage.pass(defaults::KEEP_ALIVE);
    let ping = stage.takes();
    stage.status(ping.id, 404, Content::Empty, None);
    stage.end(ping.id, EndHow::Complete);
    stage.greet("s2");
    complete_greeting(&mut stage);
    let level = stage.takes();
    assert_eq!((level.method().as_str(), level.header("mcp-session-id")), ("logging/setLevel", Some("s2")));
    assert_eq!(level.json()["params"]["level"], "error");
}

#[test]
fn pings_that_get_lost_cost_the_line_and_not_the_session() {
    let mut stage = watched();
    stage.pass(defaults::KEEP_ALIVE);
    for _ in 0..defaults::KEEP_ALIVE_MISSES {
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
        let ping = stage.takes();
        stage.end(ping.id, EndHow::Cut("reset".into()));
        stage.pass(defaults::KEEP_ALIVE_PAUSE);
    }
    let looks = stage.takes();
    assert_eq!((looks.method().as_str(), looks.header("mcp-session-id")), ("ping", Some("s1")), "it is looked for");
    stage.answer(&looks, "{}");
    stage.client_says(&call(1, "create_note"));
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s1"));
}

#[test]
fn a_server_that_answers_a_ping_with_any_status_is_there() {
    let mut stage = watched();
    for _ in 0..5 {
        stage.pass(defaults::KEEP_ALIVE);
        let ping = stage.takes();
        stage.status(ping.id, 500, Content::Other, None);
        stage.end(ping.id, EndHow::Complete);
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    }
}

#[test]
fn lists_are_compared_when_a_session_outlives_a_gap() {
    let mut stage = watched();
    stage.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = stage.takes();
    stage.answer(&list, r#"{"tools":[{"name":"one"}]}"#);
    stage.client_reads().unwrap();
    stage.client_says(&call(2, "create_note"));
    stage.refuse_connection();
    stage.pass(Duration::from_secs(1));
    let found = stage.takes();
    stage.answer(&found, "{}");
    stage.client_reads().unwrap();
    let again = stage.takes();
    assert_eq!(again.method(), "tools/list");
    stage.answer(&again, r#"{"tools":[]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_server_that_comes_back_with_the_other_dialect_is_found_out_again() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let lost = stage.takes();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    let greeting = stage.takes();
    assert_eq!(greeting.method(), "initialize");
    stage.status(greeting.id, 405, Content::Empty, None);
    stage.end(greeting.id, EndHow::Complete);
    let trunk = stage.takes();
    assert_eq!(trunk.ask.verb, Verb::Get);
    endpoint(&mut stage, trunk.id, "/messages?s=1");
    let greeting = stage.takes();
    assert_eq!((greeting.method().as_str(), greeting.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(greeting.id, 202, Content::Empty, None);
    stage.end(greeting.id, EndHow::Complete);
    stage.event(trunk.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, greeting.json()["id"]));
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().method(), "tools/call");
    stage.end(trunk.id, EndHow::Complete);
    stage.client_says(&call(2, "create_note"));
    stage.pass(Duration::from_secs(1));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    let trunk = stage.takes();
    assert_eq!(trunk.ask.verb, Verb::Get);
    stage.status(trunk.id, 405, Content::Empty, None);
    stage.end(trunk.id, EndHow::Complete);
    stage.pass(Duration::from_secs(1));
    stage.greet("s3");
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s3"));
}

#[test]
fn a_proxy_that_answers_404_for_a_server_that_worked_is_waited_out() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    // The call, then the greeting and the trunk, twice.
    for _ in 0..5 {
        while stage.seen.is_empty() {
            stage.pass(Duration::from_secs(1));
        }
        let seen = stage.takes();
        stage.status(seen.id, 404, Content::Other, None);
        stage.end(seen.id, EndHow::Complete);
    }
    assert_eq!(stage.client_reads(), None, "the call waits");
    while stage.seen.is_empty() {
        stage.pass(Duration::from_secs(1));
    }
    stage.greet("s2");
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().method(), "tools/call");
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken":9}"#;

fn modern(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{META}}}}}"#)
}

fn query(id: u32) -> String {
    let arguments = r#"{"region":"Zürich","limit":5.0,"deep":{"dry":true},"none":null}"#;
    modern(id, "tools/call", &format!(r#""name":"query","arguments":{arguments},"#))
}

const QUERY: &str = r#"{"name":"query","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"},"none":{"type":"string","x-mcp-header":"None"},"deep":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}}}}}"#;

fn params_of(seen: &Seen) -> Vec<(String, String)> {
    let is_param = |name: &str| name.to_ascii_lowercase().starts_with("mcp-param-");
    let params = seen.ask.headers.iter().filter(|(name, _)| is_param(name));
    params.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn query_params() -> Vec<(String, String)> {
    [("Region", "=?base64?WsO8cmljaA==?="), ("Limit", "5"), ("Dry", "true")]
        .map(|(name, value)| (format!("Mcp-Param-{name}"), value.to_owned()))
        .to_vec()
}

fn refuse_headers(stage: &mut Stage, seen: &Seen, id: &Value) {
    stage.status(seen.id, 400, Content::Json, None);
    stage.body(
        seen.id,
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"Header mismatch"}}}}"#),
    );
    stage.end(seen.id, EndHow::Complete);
}

#[test]
fn arguments_that_a_listed_tool_marks_travel_as_headers_too() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(&modern(1, "tools/list", ""));
    let list = stage.takes();
    stage.answer(&list, &format!(r#"{{"tools":[{QUERY}]}}"#));
    assert_eq!(stage.client_reads().unwrap()["result"]["tools"][0]["name"], "query");
    stage.client_says(&query(2));
    let call = stage.takes();
    assert_eq!(params_of(&call), query_params());
    assert_eq!(call.header("mcp-name"), Some("query"));
    stage.answer(&call, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
    stage.client_says(&modern(3, "prompts/get", r#""name":"query","arguments":{"region":"Bern"},"#));
    assert_eq!(params_of(&stage.takes()), [], "a prompt of the same name is no tool");
}

#[test]
fn a_tool_whose_marks_break_the_rules_is_left_out_of_the_list_and_nothing_else_is_touched() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(&modern(1, "tools/list", ""));
    let list = stage.takes();
    let bad = QUERY.replace("\"query\"", "\"bad\"").replace("\"integer\"", "\"number\"");
    let odd = r#"{ "name" : "plain\u0020", "inputSchema" : {"maximum":1.50E+1} }"#;
    let tools = |list: &str| format!(r#"{{"tools":[{list}],"z":1.0}}"#);
    stage.answer(&list, &tools(&format!("{bad},{odd}, {bad} ,{QUERY} , {bad}")));
    let text = stage.engine.poll_write(Port::Client(CLIENT)).unwrap().to_bytes();
    let left = tools(&format!("{odd} ,{QUERY}"));
    assert_eq!(String::from_utf8_lossy(&text), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{left}}}"#));
    assert_eq!(stage.heard.iter().filter(|line| line.contains("left the tool \"bad\" out")).count(), 3);

    let mut legacy = Stage::greeted();
    legacy.client_says(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = legacy.takes();
    legacy.answer(&list, &tools(&bad));
    assert_eq!(legacy.client_reads().unwrap()["result"]["tools"][0]["name"], "bad", "marks are of the modern era");
}

#[test]
fn a_call_that_is_refused_for_its_headers_goes_out_again_once_the_tools_are_listed() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(&query(1));
    stage.client_says(&query(2));
    for _ in 0..2 {
        let call = stage.takes();
        assert_eq!(params_of(&call), [], "nobody has told us of the tool");
        refuse_headers(&mut stage, &call, &call.json()["id"]);
    }
    let first_page = stage.takes();
    assert!(stage.seen.is_empty(), "one lookup for both, and nothing before it");
    assert_eq!(first_page.method(), "tools/list");
    let said = first_page.json();
    assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "c");
    assert_eq!(said["params"]["_meta"].get("progressToken"), None, "that belongs to the call");
    assert_eq!(first_page.header("mcp-method"), Some("tools/list"));
    stage.answer(&first_page, r#"{"tools":[],"nextCursor":"p\"2"}"#);
    let second_page = stage.takes();
    assert_eq!(second_page.json()["params"]["cursor"], "p\"2");
    stage.answer(&second_page, &format!(r#"{{"tools":[{QUERY}]}}"#));
    assert!(stage.client_reads().is_none(), "no client asked for these lists");
    for id in [1, 2] {
        let again = stage.takes();
        assert_eq!(params_of(&again), query_params());
        stage.answer(&again, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
}

#[test]
fn a_call_that_is_refused_for_its_headers_twice_has_its_answer() {
    for named in [true, false] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_says(&query(1));
        let id_of = |seen: &Seen| if named { seen.json()["id"].clone() } else { Value::Null };
        let call = stage.takes();
        refuse_headers(&mut stage, &call, &id_of(&call));
        let list = stage.takes();
        stage.answer(&list, r#"{"tools":[]}"#);
        let again = stage.takes();
        refuse_headers(&mut stage, &again, &id_of(&again));
        let answer = stage.client_reads().expect("said, not looped");
        assert_eq!(answer["id"], 1);
        let said = if named { &answer["error"]["message"] } else { &answer["result"]["content"][0]["text"] };
        assert!(said.as_str().unwrap().contains("Header mismatch"), "{answer}");
        stage.pass(Duration::from_secs(60));
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn a_list_of_tools_that_does_not_come_holds_a_refused_call_for_a_moment_only() {
    for how in ["silence", "a cut", "another error"] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_says(&query(1));
        let call = stage.takes();
        refuse_headers(&mut stage, &call, &call.json()["id"]);
        let list = stage.takes();
        match how {
            "a cut" => stage.end(list.id, EndHow::Cut("reset".into())),
            "another error" => {
                stage.status(list.id, 500, Content::Other, None);
                stage.end(list.id, EndHow::Complete);
            }
            _ => {}
        }
        stage.pass(defaults::LOOKUP);
        let again = stage.takes();
        assert_eq!(again.method(), "tools/call", "after {how}");
        stage.answer(&again, "{}");
        assert_eq!(stage.client_reads().unwrap()["id"], 1);
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn a_post_whose_trunk_ended_is_judged_by_its_own_end_if_that_comes_soon() {
    let cut = || EndHow::Cut("reset".into());
    for (status, how, written, after) in [
        (None, cut(), Written::Partly, "not_sent"),
        (None, cut(), Written::Nothing, "not_sent"),
        (Some(404), EndHow::Complete, Written::Whole, "refused"),
        (None, cut(), Written::Whole, "unknown"),
        (Some(202), EndHow::Complete, Written::Whole, "unknown"),
    ] {
        let (mut stage, trunk) = over_a_trunk();
        stage.client_says(&call(1, "create_note"));
        let post = stage.takes();
        stage.end(trunk, EndHow::Complete);
        assert!(stage.client_reads().is_none(), "its own exchange may tell");
        if let Some(status) = status {
            stage.status(post.id, status, Content::Empty, None);
        }
        stage.tell(Input::End { exchange: post.id, how: how.clone(), written });
        if after == "unknown" {
            assert_eq!(outcome(&stage.client_reads().expect("said at once")), "unknown", "{status:?} {how:?}");
            continue;
        }
        assert!(stage.client_reads().is_none(), "{status:?} {how:?} {written:?}: it goes out again");
        stage.pass(Duration::from_secs(1));
        let trunk = stage.takes().id;
        endpoint(&mut stage, trunk, "/messages?s=2");
        let greeting = stage.takes();
        assert_eq!(greeting.method(), "initialize");
        stage.status(greeting.id, 202, Content::Empty, None);
        stage.end(greeting.id, EndHow::Complete);
        stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, greeting.json()["id"]));
        complete_greeting(&mut stage);
        stage.pass(Duration::from_secs(1));
        let again = stage.takes();
        assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("tools/call", Some("/messages?s=2")));
    }
}

#[test]
fn a_post_whose_trunk_ended_and_that_says_nothing_is_unknown_after_a_moment() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.end(trunk, EndHow::Complete);
    stage.pass(defaults::ORPHAN - Duration::from_millis(1));
    assert!(stage.client_reads().is_none());
    stage.pass(Duration::from_millis(1));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert!(stage.aborted.contains(&post.id));
}

#[test]
fn a_call_that_runs_out_of_time_before_it_was_sent_says_what_was_in_the_way() {
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    config.timeouts.call = Duration::from_secs(3);
    let mut stage = Stage::of(config.clone());
    stage.client_says(&call(1, "create_note"));
    let answer = loop {
        while !stage.seen.is_empty() {
            stage.refuse_connection();
        }
        if let Some(answer) = stage.client_reads() {
            break answer;
        }
        stage.pass(Duration::from_millis(100));
    };
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!((outcome(&answer), text.contains("nothing listens there")), ("not_sent", true), "{text}");

    let mut stage = Stage::of(config);
    stage.client_says(&call(1, "create_note"));
    stage.pass(Duration::from_secs(3));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "not_sent" && text.contains("no connection has been made yet"), "{text}");
    assert!(stage.heard.iter().any(|line| line.contains("no connection has been made yet")), "the log says so too");

    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    (config.limits.in_flight, config.keep_alive) = (1, None);
    config.timeouts.call = Duration::from_secs(3);
    let mut stage = Stage::of(config).greeting();
    let params = r#"{"name":"slow","_meta":{"progressToken":"t"}}"#;
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#));
    let slow = stage.takes();
    stage.status(slow.id, 200, Content::Events, None);
    stage.client_says(&call(2, "create_note"));
    stage.pass(Duration::from_secs(2));
    let progress = format!(r#"{{"progressToken":{},"progress":1}}"#, slow.json()["params"]["_meta"]["progressToken"]);
    let notice = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#);
    stage.event(slow.id, None, &notice);
    assert_eq!(stage.client_reads().unwrap()["params"]["progressToken"], "t", "the first one goes on");
    stage.pass(Duration::from_secs(1));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "not_sent" && text.contains("no place became free in time"), "{text}");
}

#[test]
fn a_server_that_wants_a_login_is_said_to_want_one() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 401, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    let answer = stage.client_reads().unwrap();
    let failure = &answer["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!((&failure["cause"], &failure["outcome"]), (&"needs_login".into(), &"refused".into()), "{answer}");
}

#[test]
fn the_end_of_a_subscription_names_it_as_the_client_did_and_other_answers_are_left_as_they_are() {
    const NAMED: &str = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":77}}"#;
    for (method, named) in [("subscriptions/listen", 5), ("resources/list", 77)] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_says(&modern(5, method, ""));
        let seen = stage.takes();
        stage.answer(&seen, NAMED);
        let answer = stage.client_reads().unwrap();
        assert_eq!(answer["id"], 5);
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], named, "{method}");
    }
}

#[test]
fn a_session_that_is_not_known_any_more_when_notices_are_asked_for_is_not_used_for_calls() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    stage.greet("s1");
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let note = stage.takes();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, EndHow::Complete);
    let notices = stage.takes();
    stage.status(notices.id, 404, Content::Empty, None);
    stage.end(notices.id, EndHow::Complete);
    stage.client_says(&call(1, "create_note"));
    stage.greet("s2");
}

#[test]
fn a_stream_for_notices_that_ends_at_once_is_asked_for_ever_more_slowly_but_never_given_up() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    stage.greet("s1");
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let note = stage.takes();
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, EndHow::Complete);
    for pause in [1, 2, 4, 8, 15, 15, 15] {
        let notices = stage.takes();
        assert_eq!(notices.ask.verb, Verb::Get);
        stage.status(notices.id, 200, Content::Events, None);
        stage.end(notices.id, EndHow::Complete);
        stage.pass(Duration::from_secs(pause) - Duration::from_millis(1));
        assert!(stage.seen.is_empty(), "not within {pause} s");
        stage.pass(Duration::from_millis(1));
        assert_eq!(stage.seen.len(), 1, "after {pause} s");
    }
}

#[test]
fn an_answer_under_a_wrong_label_is_taken_and_said_once() {
    let mut stage = Stage::greeted();
    for id in 1..=3 {
        stage.client_says(&call(id, "create_note"));
        let seen = stage.takes();
        stage.status(seen.id, 200, Content::Other, None);
        stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, seen.json()["id"]));
        stage.end(seen.id, EndHow::Complete);
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
    assert_eq!(stage.heard.iter().filter(|line| line.contains("Content-Type")).count(), 1);
}

#[test]
fn whatever_is_wrong_with_an_answer_the_call_and_the_log_are_told_and_nothing_loops() {
    type Play = fn(&mut Stage, &Seen);
    let plays: [(&str, &str, Play); 5] = [
        ("not JSON-RPC", "HTML", |stage, seen| {
            stage.status(seen.id, 200, Content::Other, None);
            stage.body(seen.id, "<!doctype html>");
            stage.end(seen.id, EndHow::Complete);
        }),
        ("not JSON-RPC", "truncated JSON", |stage, seen| {
            stage.status(seen.id, 200, Content::Json, None);
            stage.body(seen.id, r#"{"jsonrpc":"2.0","id":1,"res"#);
            stage.end(seen.id, EndHow::Complete);
        }),
        ("HTTP 202", "202 to a request", |stage, seen| {
            stage.status(seen.id, 202, Content::Empty, None);
            stage.end(seen.id, EndHow::Complete);
        }),
        ("larger than the limit", "an event over the limit", |stage, seen| {
            stage.status(seen.id, 200, Content::Events, None);
            stage.end(seen.id, EndHow::TooLarge);
        }),
        ("another origin", "a redirect elsewhere", |stage, seen| {
            stage.status(seen.id, 307, Content::Empty, None);
            stage.end(seen.id, EndHow::Forbidden("it redirects to another origin".into()));
        }),
    ];
    for (words, what, play) in plays {
        let mut stage = Stage::greeted();
        stage.client_says(&call(1, "create_note"));
        let seen = stage.takes();
        play(&mut stage, &seen);
        let answer = stage.client_reads().expect(what);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(words), "{what}: {text}");
        assert!(stage.heard.iter().any(|line| line.contains("failed after") && line.contains(words)), "{what}");
        stage.pass(Duration::from_secs(120));
        assert!(stage.seen.is_empty(), "{what}");
    }
}

#[test]
fn a_legacy_server_that_refuses_a_modern_question_makes_the_client_greet_it() {
    let said = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    for (status, body) in [(400, Some(said)), (400, None), (404, None), (405, None), (406, Some(said))] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_says(&modern(7, "server/discover", ""));
        let seen = stage.takes();
        stage.status(seen.id, status, if body.is_some() { Content::Json } else { Content::Other }, None);
        body.into_iter().for_each(|body| stage.body(seen.id, body));
        stage.end(seen.id, EndHow::Complete);
        let answer = stage.client_reads().expect("an answer to fall back from");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&7.into(), &(-32601).into()), "{status} {body:?}");
        assert_eq!(answer["error"]["data"]["cause"], "other_era");
        assert!(stage.seen.is_empty(), "and no other dialect is tried for it");
        stage.client_says(GREETING);
        stage.greet("s1");
        assert_eq!(stage.client_reads().unwrap()["id"], 0);
    }
}

#[test]
fn a_modern_server_that_refuses_is_not_taken_for_a_legacy_one() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(&modern(1, "tools/list", ""));
    let seen = stage.takes();
    stage.answer(&seen, r#"{"tools":[]}"#);
    stage.client_reads().unwrap();
    stage.client_says(&modern(2, "prompts/list", ""));
    let seen = stage.takes();
    stage.status(seen.id, 405, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    assert_eq!(stage.client_reads().unwrap()["error"]["data"]["cause"], "cannot_bridge");
}

#[test]
fn subscriptions_take_no_place_from_calls_and_have_a_limit_of_their_own() {
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    (config.limits.in_flight, config.limits.waiting) = (2, 2);
    let mut stage = Stage::of(config);
    stage.client_says(&modern(0, "tools/list", ""));
    let first = stage.takes();
    stage.answer(&first, "{}");
    stage.client_reads().unwrap();
    let listens = defaults::LISTENS as u32;
    for id in 0..listens {
        stage.client_says(&modern(1_000 + id, "subscriptions/listen", ""));
        assert_eq!(stage.takes().method(), "subscriptions/listen");
    }
    stage.client_says(&modern(2_000, "subscriptions/listen", ""));
    assert_eq!(stage.client_reads().expect("one too many")["error"]["data"]["cause"], "overloaded");
    for id in 1..=4 {
        stage.client_says(&query(id));
    }
    let (first, _second) = (stage.takes(), stage.takes());
    assert!(stage.seen.is_empty(), "two places, and two wait");
    stage.client_says(&query(5));
    assert_eq!(stage.client_reads().unwrap()["id"], 5, "no place and nowhere to wait");
    stage.answer(&first, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.takes().method(), "tools/call");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1000}}"#;
    stage.client_says(cancel);
    stage.client_says(&modern(3_000, "subscriptions/listen", ""));
    assert_eq!(stage.takes().method(), "subscriptions/listen", "it waits behind no call");
    assert!(stage.seen.is_empty());
}
