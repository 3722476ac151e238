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
        self.ask.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
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
    finished: bool,
}

impl Stage {
    fn new(dialect: Dialect) -> Self {
        let config = Config::new(vec![UpstreamConfig::http("notes", "http://notes.example/mcp", dialect)]);
        let mut stage = Stage {
            engine: Engine::new(config, 1),
            now: Moment::ZERO,
            seen: Default::default(),
            aborted: Vec::new(),
            finished: false,
        };
        stage.tell(Input::ClientOpened { client: CLIENT, upstream: NOTES });
        stage
    }

    /// A stage whose client has greeted in a session called `s1`; the stream for notices is refused.
    fn greeted() -> Self {
        let mut stage = Stage::new(Dialect::Auto);
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
                Output::Exchange { exchange, ask, reuse, .. } => self.seen.push_back(Seen { id: exchange, ask, reuse }),
                Output::Abort { exchange } => {
                    self.aborted.push(exchange);
                    self.end(exchange, EndHow::Aborted);
                }
                Output::Finished { .. } => self.finished = true,
                Output::Happened(_) => {}
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
    let answer = stage.client_reads().expect("nobody knows what became of the first");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "unknown"));
    assert!(stage.client_reads().is_none(), "the second waits for the next trunk");
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
