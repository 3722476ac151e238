//! One client and one server over HTTP, both controlled by a test.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use mendline_core::reason::{ConnectError, CutReason, RefusalReason};
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mendline_core::config::Dialect;
use mendline_core::port::{Challenge, Content, ExchangeEnd, ExchangeId, Head, HttpRequest, Reuse, Verb, Written};
use mendline_core::{
    ClientId, ClientStreams, Config, Engine, Event, Input, ListCache, Moment, Output, Port, StreamId, UpstreamConfig,
    UpstreamId,
};
use mendline_wire::{Limits, Line, Received, ReceivedEvent, SseEvent};
use serde_json::Value;

pub const CLIENT: ClientId = ClientId(0);
pub const NOTES: UpstreamId = UpstreamId(0);
pub const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

/// One request as the server receives it.
pub struct SentRequest {
    pub id: ExchangeId,
    pub ask: HttpRequest,
    pub reuse: Reuse,
}

impl SentRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.ask.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.ask.body.as_ref().unwrap().to_bytes()).unwrap()
    }

    pub fn method(&self) -> String {
        self.json()["method"].as_str().unwrap().to_owned()
    }

    /// Returns whether it is a request that shows whether the server is available.
    pub fn is_probe(&self) -> bool {
        let is_probe = |method: &Value| method == "ping" || method == "server/discover";
        self.ask.verb == Verb::Post && self.reuse == Reuse::Fresh && is_probe(&self.json()["method"])
    }
}

pub struct Stage {
    pub engine: Engine,
    pub now: Moment,
    pub seen: VecDeque<SentRequest>,
    pub aborted: Vec<ExchangeId>,
    /// The lines of the log.
    pub log: Vec<String>,
    /// The same as events.
    pub events: Vec<Event>,
    pub finished: bool,
    /// The cache that was saved last.
    pub saved: Option<ListCache>,
    /// The numbers of the credentials that were to be renewed.
    pub renewals: Vec<(u32, Challenge)>,
    inputs: u32,
}

impl Stage {
    pub fn new(dialect: Dialect) -> Self {
        // Most tests do not need pings.
        Stage::with(dialect, |notes| notes.keep_alive = None)
    }

    pub fn with(dialect: Dialect, change: impl FnOnce(&mut UpstreamConfig)) -> Self {
        let mut notes = UpstreamConfig::http("notes", "http://notes.example/mcp", dialect);
        notes.tools = super::unsafe_tools();
        change(&mut notes);
        Stage::of(notes)
    }

    pub fn of(upstream: UpstreamConfig) -> Self {
        Stage::with_cache(upstream, None)
    }

    /// Creates a stage whose engine has this cache.
    pub fn with_cache(upstream: UpstreamConfig, remembered: Option<ListCache>) -> Self {
        let mut stage = Stage {
            engine: Engine::new(Config::new(vec![upstream]), 1),
            now: Moment::ZERO,
            seen: Default::default(),
            aborted: Vec::new(),
            log: Vec::new(),
            events: Vec::new(),
            finished: false,
            saved: None,
            renewals: Vec::new(),
            inputs: 0,
        };
        if let Some(what) = remembered {
            stage.input(Input::Cached { upstream: NOTES, what });
        }
        stage.input(Input::ClientOpened { client: CLIENT, upstream: NOTES, streams: ClientStreams::One });
        stage
    }

    /// Creates a stage with a session `s1` after the handshake. The GET stream is refused.
    pub fn initialized() -> Self {
        Stage::new(Dialect::Auto).initialize_session()
    }

    pub fn initialize_session(self) -> Self {
        let mut stage = self;
        stage.client_sends(INITIALIZE);
        stage.answer_initialize("s1");
        stage.client_reads().unwrap();
        let get_stream = stage.send_initialized();
        assert_eq!(get_stream.header("mcp-session-id"), Some("s1"));
        stage.status(get_stream.id, 405, Content::Empty, None);
        stage.end(get_stream.id, ExchangeEnd::Complete);
        stage.use_session();
        stage
    }

    /// Answers a ping of the client, so that the session has been used.
    pub fn use_session(&mut self) {
        self.client_sends(r#"{"jsonrpc":"2.0","id":99,"method":"ping"}"#);
        let ping = self.next_sent();
        self.answer(&ping, "{}");
        assert_eq!(self.client_reads().unwrap()["id"], 99);
    }

    /// Refuses the ping that confirms the loss of a session with this status.
    pub fn confirm_loss(&mut self, status: u16) {
        let at = self.seen.iter().position(|seen| seen.ask.verb == Verb::Post && seen.method() == "ping");
        let ping = self.seen.remove(at.expect("a ping")).unwrap();
        self.input(Input::Reached { exchange: ping.id });
        self.status(ping.id, status, Content::Empty, None);
        self.end(ping.id, ExchangeEnd::Complete);
    }

    /// Waits for the next probe, and lets it reach the server.
    pub fn next_probe(&mut self) -> SentRequest {
        for _ in 0..60_000 {
            if let Some(at) = self.seen.iter().position(SentRequest::is_probe) {
                let probe = self.seen.remove(at).unwrap();
                self.input(Input::Reached { exchange: probe.id });
                return probe;
            }
            self.advance(Duration::from_millis(1));
        }
        panic!("no probe within a minute");
    }

    /// Waits for the next probe and answers it: the server is available.
    pub fn answer_probe(&mut self) {
        let probe = self.next_probe();
        self.answer(&probe, "{}");
    }

    /// Waits for the next probe and refuses it with this status.
    pub fn refuse_probe(&mut self, status: u16) {
        let probe = self.next_probe();
        self.status(probe.id, status, Content::Empty, None);
        self.end(probe.id, ExchangeEnd::Complete);
    }

    /// Lets the server handle every request like this for a while, and returns the messages that the client reads.
    pub fn run(&mut self, time: Duration, mut handle: impl FnMut(&mut Stage, &SentRequest)) -> Vec<(Moment, Value)> {
        let end = self.now + time;
        let mut read = Vec::new();
        loop {
            while let Some(seen) = self.seen.pop_front() {
                self.input(Input::Reached { exchange: seen.id });
                handle(self, &seen);
            }
            while let Some(message) = self.client_reads() {
                read.push((self.now, message));
            }
            if self.now >= end {
                return read;
            }
            self.advance(Duration::from_millis(10));
        }
    }

    /// Handles a request like a healthy server without a GET stream.
    pub fn serve(&mut self, seen: &SentRequest) {
        let method = if seen.ask.verb == Verb::Post { seen.json()["method"].clone() } else { Value::Null };
        if method == "initialize" {
            self.status(seen.id, 200, Content::Json, Some("s1"));
            let result = r#"{"protocolVersion":"2025-11-25"}"#;
            let id = &seen.json()["id"];
            self.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
            self.end(seen.id, ExchangeEnd::Complete);
        } else if seen.ask.verb == Verb::Post && !seen.json()["id"].is_null() {
            self.answer(seen, "{}");
        } else {
            self.status(seen.id, if seen.ask.verb == Verb::Post { 202 } else { 405 }, Content::Empty, None);
            self.end(seen.id, ExchangeEnd::Complete);
        }
    }

    /// The same with an error in the body.
    pub fn confirm_loss_with(&mut self, status: u16, code: i64, words: &str) {
        let ping = self.next_sent();
        assert_eq!(ping.method(), "ping");
        self.refuse(&ping, status, code, words);
    }

    /// Refuses a request with an error that has its id.
    pub fn refuse(&mut self, seen: &SentRequest, status: u16, code: i64, words: &str) {
        let id = &seen.json()["id"];
        self.status(seen.id, status, Content::Json, None);
        let error = format!(r#"{{"code":{code},"message":"{words}"}}"#);
        self.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        self.end(seen.id, ExchangeEnd::Complete);
    }

    /// Completes the handshake and returns the GET request that follows.
    pub fn send_initialized(&mut self) -> SentRequest {
        self.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let note = self.next_sent();
        assert_eq!(note.method(), "notifications/initialized");
        self.status(note.id, 202, Content::Empty, None);
        self.end(note.id, ExchangeEnd::Complete);
        let get_stream = self.next_sent();
        assert_eq!(get_stream.ask.verb, Verb::Get);
        get_stream
    }

    /// Answers `initialize` with this session.
    pub fn answer_initialize(&mut self, session: &str) -> SentRequest {
        let handshake = self.next_sent();
        assert_eq!((handshake.method().as_str(), handshake.header("mcp-session-id")), ("initialize", None));
        self.status(handshake.id, 200, Content::Json, Some(session));
        let id = &handshake.json()["id"];
        self.body(
            handshake.id,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25"}}}}"#),
        );
        self.end(handshake.id, ExchangeEnd::Complete);
        handshake
    }

    pub fn input(&mut self, input: Input) {
        self.count_input();
        self.engine.handle(input, self.now);
        self.collect();
    }

    /// Bounds every test, so that none runs without end.
    fn count_input(&mut self) {
        self.inputs += 1;
        assert!(self.inputs < 1_000_000, "the test does not end");
    }

    pub fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Exchange { exchange, request: ask, reuse, .. } => {
                    self.seen.push_back(SentRequest { id: exchange, ask: *ask, reuse });
                }
                Output::Abort { exchange } => {
                    self.aborted.push(exchange);
                    self.end(exchange, ExchangeEnd::Aborted);
                }
                Output::ReplaceTransport { .. } | Output::UpstreamRemoved { .. } => {}
                Output::RenewCredential { refused, challenge, .. } => self.renewals.push((refused, challenge)),
                Output::Finished { .. } => self.finished = true,
                Output::Cache { what, .. } => self.saved = Some(what),
                Output::Event(event) => {
                    self.log.push(event.to_string());
                    self.events.push(event);
                }
                // Tests with many streams pull them by themselves.
                Output::StreamReady { .. } => {}
                other => panic!("not over HTTP: {other:?}"),
            }
        }
    }

    pub fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        self.count_input();
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= end) {
            self.count_input();
            self.now = at;
            self.engine.handle_timeout(at);
            self.collect();
        }
        self.now = end;
    }

    pub fn client_sends(&mut self, text: &str) {
        let received = Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default());
        self.input(Input::FromClient { client: CLIENT, stream: StreamId::COMMON, received });
    }

    pub fn client_reads(&mut self) -> Option<Value> {
        let text = self.engine.poll_write(Port::Client(CLIENT), self.now)?.to_bytes();
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Waits for the next request and returns the time until it.
    pub fn next_request(&mut self) -> Duration {
        let began = self.now;
        while self.seen.is_empty() {
            self.advance(Duration::from_millis(1));
        }
        self.now.since(began)
    }

    /// Returns the next request that reaches the server.
    pub fn next_sent(&mut self) -> SentRequest {
        let seen = self.seen.pop_front().expect("a request");
        self.input(Input::Reached { exchange: seen.id });
        seen
    }

    pub fn status(&mut self, exchange: ExchangeId, status: u16, content: Content, session: Option<&str>) {
        let session = session.map(str::to_owned);
        let head = Head { status, content, session, retry_after_ms: None, challenge: None };
        self.input(Input::Head { exchange, head });
    }

    /// Answers with an overload status, optionally with `Retry-After`.
    pub fn answer_overloaded(&mut self, seen: &SentRequest, status: u16, seconds: Option<u64>) {
        let retry_after_ms = seconds.map(|seconds| seconds * 1_000);
        let head = Head { status, content: Content::Empty, session: None, retry_after_ms, challenge: None };
        self.input(Input::Head { exchange: seen.id, head });
        self.end(seen.id, ExchangeEnd::Complete);
    }

    /// Refuses a request with this status and a `WWW-Authenticate`.
    pub fn challenge(&mut self, seen: &SentRequest, status: u16) {
        self.challenge_with(seen, status, Challenge::Credential);
    }

    /// Refuses a request with this status and this challenge.
    pub fn challenge_with(&mut self, seen: &SentRequest, status: u16, challenge: Challenge) {
        let head =
            Head { status, content: Content::Empty, session: None, retry_after_ms: None, challenge: Some(challenge) };
        self.input(Input::Head { exchange: seen.id, head });
        self.end(seen.id, ExchangeEnd::Complete);
    }

    pub fn body(&mut self, exchange: ExchangeId, text: &str) {
        let received = Received::from_text(Bytes::copy_from_slice(text.as_bytes()), &Limits::default());
        self.input(Input::Body { exchange, received });
    }

    pub fn event(&mut self, exchange: ExchangeId, id: Option<&str>, data: &str) {
        self.event_with(exchange, id, data, None);
    }

    /// An event that names the time in milliseconds after which its stream may be resumed.
    pub fn event_with_retry(&mut self, exchange: ExchangeId, id: &str, data: &str, retry: u64) {
        self.event_with(exchange, Some(id), data, Some(retry));
    }

    fn event_with(&mut self, exchange: ExchangeId, id: Option<&str>, data: &str, retry: Option<u64>) {
        let event = SseEvent {
            id: id.map(|id| Bytes::copy_from_slice(id.as_bytes())),
            event: None,
            data: Some(Bytes::copy_from_slice(data.as_bytes())),
            retry,
        };
        self.input(Input::StreamEvent { exchange, event: ReceivedEvent::new(event, &Limits::default()) });
    }

    pub fn end(&mut self, exchange: ExchangeId, how: ExchangeEnd) {
        self.input(Input::End { exchange, how, written: Written::Whole });
    }

    pub fn answer(&mut self, seen: &SentRequest, result: &str) {
        self.status(seen.id, 200, Content::Json, None);
        self.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.json()["id"]));
        self.end(seen.id, ExchangeEnd::Complete);
    }

    /// Answers with this status and a page for people.
    pub fn page(&mut self, seen: &SentRequest, status: u16) {
        self.status(seen.id, status, Content::Other, None);
        self.body(seen.id, "<html><title>Be right back</title></html>");
        self.end(seen.id, ExchangeEnd::Complete);
    }

    pub fn refuse_connection(&mut self) {
        let seen = self.seen.pop_front().expect("a request");
        let how = ExchangeEnd::NoConnection(ConnectError::Refused { target: "notes.test:443".to_owned() });
        self.input(Input::End { exchange: seen.id, how, written: Written::Nothing });
    }
}

/// One form of outage: the end of every exchange.
pub type Outage = fn(&mut Stage, &SentRequest);

/// The forms of outage in which a connection is made.
pub const OUTAGES: [(&str, Outage); 9] = [
    ("a reset", |stage, seen| stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset))),
    ("a FIN", |stage, seen| stage.end(seen.id, ExchangeEnd::Cut(CutReason::ClosedWithoutAnswer))),
    ("HTTP 500", |stage, seen| stage.page(seen, 500)),
    ("HTTP 502", |stage, seen| stage.page(seen, 502)),
    ("HTTP 503", |stage, seen| stage.page(seen, 503)),
    ("HTTP 504", |stage, seen| stage.page(seen, 504)),
    ("a page with 404", |stage, seen| stage.page(seen, 404)),
    ("a page with 200", |stage, seen| stage.page(seen, 200)),
    ("a redirect to a login page", |stage, seen| {
        stage.status(seen.id, 307, Content::Empty, None);
        let (from, to) = ("http://notes.example".to_owned(), Some("https://login.example".to_owned()));
        stage.end(seen.id, ExchangeEnd::Forbidden(RefusalReason::Endpoint { from, to }));
    }),
];

pub fn call(id: u32, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

pub fn outcome(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.mendline/failure"]["outcome"].as_str().unwrap_or("none")
}

/// Answers the notification that completes a handshake, and drops the GET request that follows it.
pub fn complete_handshake(stage: &mut Stage) {
    let note = stage.next_sent();
    assert_eq!(note.method(), "notifications/initialized");
    stage.status(note.id, 202, Content::Empty, None);
    stage.end(note.id, ExchangeEnd::Complete);
    stage.seen.retain(|seen| seen.ask.verb == Verb::Post);
}

pub fn endpoint(stage: &mut Stage, sse: ExchangeId, target: &str) {
    stage.status(sse, 200, Content::Events, None);
    let event = SseEvent {
        id: None,
        event: Some(Bytes::from_static(b"endpoint")),
        data: Some(Bytes::copy_from_slice(target.as_bytes())),
        retry: None,
    };
    stage.input(Input::StreamEvent { exchange: sse, event: ReceivedEvent::new(event, &Limits::default()) });
}

/// Creates a stage after a handshake over an SSE stream.
pub fn over_sse() -> (Stage, ExchangeId) {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_sends(INITIALIZE);
    let sse = stage.next_sent().id;
    endpoint(&mut stage, sse, "/messages?s=1");
    let post = stage.next_sent();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    stage.client_reads().unwrap();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    complete_handshake(&mut stage);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":99,"method":"ping"}"#);
    let ping = stage.next_sent();
    stage.status(ping.id, 202, Content::Empty, None);
    stage.end(ping.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, ping.json()["id"]));
    stage.client_reads().unwrap();
    (stage, sse)
}

/// Creates an initialized stage with keep-alive.
pub fn initialized_with_keep_alive() -> Stage {
    Stage::with(Dialect::Auto, |_| {}).initialize_session()
}

pub const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken":9}"#;

pub fn modern(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{META}}}}}"#)
}

/// Creates a stage after a handshake without a session id. The GET stream has been requested.
pub fn initialized_without_session() -> (Stage, SentRequest) {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let handshake = stage.next_sent();
    stage.answer(&handshake, r#"{"protocolVersion":"2025-11-25"}"#);
    stage.client_reads().unwrap();
    let get_stream = stage.send_initialized();
    (stage, get_stream)
}
