//! The detection of the transport after the handshake: a URL whose POST answers `initialize`, and nothing else.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId, Verb};
use mendline_core::{Input, LinkState, defaults};
use serde_json::Value;
use stage::NOTES;
use stage::http::{INITIALIZE, SentRequest, Stage, call, endpoint, outcome};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// The response to every POST besides the handshake.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Denial {
    Status(u16),
    /// A page with this status.
    Page(u16),
    /// 202 without an answer.
    Accepted,
    /// An error in the body, with this status and code.
    Error(u16, i64),
    /// A result: it works.
    None,
}

/// The response to a GET at the URL.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Get {
    Endpoint,
    Status(u16),
    /// An event stream that carries nothing.
    Mute,
    /// An event stream that begins with a message.
    Message,
    Cut,
}

struct Server {
    denial: Denial,
    /// The response to the first GET, which is that for notifications.
    first_get: Get,
    get: Get,
    session: Option<&'static str>,
    /// The status of `initialized`, if the URL gets it.
    initialized: u16,
    gets: u32,
    stream: Option<ExchangeId>,
    /// The methods of the requests at the URL, in order.
    at_url: Vec<String>,
    /// The methods of the requests at the endpoint.
    at_endpoint: Vec<String>,
}

impl Server {
    fn new(denial: Denial) -> Server {
        Server {
            denial,
            first_get: Get::Endpoint,
            get: Get::Endpoint,
            session: None,
            initialized: 202,
            gets: 0,
            stream: None,
            at_url: Vec::new(),
            at_endpoint: Vec::new(),
        }
    }

    fn handle(&mut self, stage: &mut Stage, seen: &SentRequest) {
        match seen.ask.verb {
            Verb::Get => return self.open(stage, seen),
            Verb::Delete => {
                stage.status(seen.id, 200, Content::Empty, None);
                return stage.end(seen.id, ExchangeEnd::Complete);
            }
            Verb::Post => {}
        }
        let message = seen.json();
        let (method, id) = (seen.method(), message["id"].clone());
        if seen.ask.target.is_some() {
            self.at_endpoint.push(method.clone());
            stage.status(seen.id, 202, Content::Empty, None);
            stage.end(seen.id, ExchangeEnd::Complete);
            if let (false, Some(stream)) = (id.is_null(), self.stream) {
                let result = if method == "initialize" { r#"{"protocolVersion":"2024-11-05"}"# } else { "{}" };
                stage.event(stream, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
            }
            return;
        }
        self.at_url.push(method.clone());
        if method == "initialize" {
            stage.status(seen.id, 200, Content::Json, self.session);
            let result = r#"{"protocolVersion":"2025-11-25"}"#;
            stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
            return stage.end(seen.id, ExchangeEnd::Complete);
        }
        if id.is_null() {
            stage.status(seen.id, self.initialized, Content::Empty, None);
            return stage.end(seen.id, ExchangeEnd::Complete);
        }
        match self.denial {
            Denial::Status(status) => {
                stage.status(seen.id, status, Content::Empty, None);
                stage.end(seen.id, ExchangeEnd::Complete);
            }
            Denial::Page(status) => stage.page(seen, status),
            Denial::Accepted => {
                stage.status(seen.id, 202, Content::Empty, None);
                stage.end(seen.id, ExchangeEnd::Complete);
            }
            Denial::Error(status, code) => stage.refuse(seen, status, code, "toolset does not exist"),
            Denial::None => stage.answer(seen, "{}"),
        }
    }

    fn open(&mut self, stage: &mut Stage, seen: &SentRequest) {
        self.gets += 1;
        match if self.gets == 1 { self.first_get } else { self.get } {
            Get::Endpoint => {
                self.stream = Some(seen.id);
                endpoint(stage, seen.id, "/messages?s=1");
            }
            Get::Status(status) => {
                stage.status(seen.id, status, Content::Empty, None);
                stage.end(seen.id, ExchangeEnd::Complete);
            }
            Get::Mute => stage.status(seen.id, 200, Content::Events, None),
            Get::Message => {
                stage.status(seen.id, 200, Content::Events, None);
                stage.event(seen.id, None, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
            }
            Get::Cut => {
                stage.end(seen.id, ExchangeEnd::Cut(mendline_core::reason::CutReason::Reset));
            }
        }
    }

    /// Runs for a while, and returns what the client reads.
    fn run(&mut self, stage: &mut Stage, time: Duration) -> Vec<Value> {
        let read = stage.run(time, |stage, seen| self.handle(stage, seen));
        read.into_iter().map(|(_, message)| message).collect()
    }

    /// Runs for a second after the client has sent this.
    fn serve(&mut self, stage: &mut Stage, text: &str) -> Vec<Value> {
        stage.client_sends(text);
        self.run(stage, Duration::from_secs(1))
    }

    /// Creates a stage with an initialized client.
    fn initialize(&mut self, dialect: Dialect) -> Stage {
        let mut stage = Stage::new(dialect);
        let read = self.serve(&mut stage, INITIALIZE);
        assert_eq!((read.len(), &read[0]["id"]), (1, &Value::from(0)), "{read:?}");
        self.serve(&mut stage, INITIALIZED);
        stage
    }

    fn count(&self, method: &str) -> (usize, usize) {
        let count = |all: &[String]| all.iter().filter(|it| *it == method).count();
        (count(&self.at_url), count(&self.at_endpoint))
    }
}

const DENIALS: [Denial; 13] = [
    Denial::Status(400),
    Denial::Status(404),
    Denial::Status(405),
    Denial::Status(406),
    Denial::Status(410),
    Denial::Status(415),
    Denial::Page(200),
    Denial::Page(404),
    Denial::Accepted,
    Denial::Error(200, -32600),
    Denial::Error(200, -32601),
    Denial::Error(400, -32000),
    Denial::Error(404, -32601),
];

#[test]
fn r27_url_that_answers_only_the_handshake_is_used_over_sse() {
    for session in [None, Some("s1")] {
        for denial in DENIALS {
            let mut server = Server { session, ..Server::new(denial) };
            let mut stage = server.initialize(Dialect::Auto);
            let read = server.serve(&mut stage, LIST);
            assert_eq!(read.len(), 1, "{denial:?} {session:?}: {read:?}");
            assert_eq!((&read[0]["id"], &read[0]["error"]), (&Value::from(1), &Value::Null), "{denial:?} {session:?}");
            assert_eq!(server.count("tools/list"), (1, 1), "{denial:?} {session:?}");
            assert_eq!(server.at_endpoint, ["initialize", "notifications/initialized", "tools/list"], "{denial:?}");
            assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
            let read = server.serve(&mut stage, &call(2, "create_note"));
            assert_eq!((read.len(), outcome(&read[0])), (1, "none"), "{denial:?}: {read:?}");
            assert_eq!(server.count("tools/call"), (0, 1), "{denial:?}");
        }
    }
}

#[test]
fn r27_refused_unsafe_call_runs_once_over_sse() {
    for session in [None, Some("s1")] {
        for status in [404, 405, 406, 415] {
            let mut server = Server { session, ..Server::new(Denial::Status(status)) };
            let mut stage = server.initialize(Dialect::Auto);
            let read = server.serve(&mut stage, &call(1, "create_note"));
            assert_eq!((read.len(), outcome(&read[0])), (1, "none"), "{status} {session:?}: {read:?}");
            assert_eq!(server.count("tools/call"), (1, 1), "{status} {session:?}");
        }
    }
}

#[test]
fn r27_unsafe_call_that_may_have_run_is_not_sent_again() {
    for denial in [Denial::Status(400), Denial::Status(410), Denial::Page(200), Denial::Accepted] {
        let mut server = Server::new(denial);
        let mut stage = server.initialize(Dialect::Auto);
        let read = server.serve(&mut stage, &call(1, "create_note"));
        assert_eq!((read.len(), outcome(&read[0])), (1, "unknown"), "{denial:?}: {read:?}");
        let read = server.serve(&mut stage, &call(2, "create_note"));
        assert_eq!((read.len(), outcome(&read[0])), (1, "none"), "the next call: {denial:?}: {read:?}");
        assert_eq!(server.count("tools/call"), (1, 1), "{denial:?}");
    }
}

#[test]
fn r27_unsafe_call_answered_with_error_is_not_sent_again() {
    for denial in [Denial::Error(200, -32600), Denial::Error(400, -32000), Denial::Error(404, -32601)] {
        let mut server = Server::new(denial);
        let mut stage = server.initialize(Dialect::Auto);
        let read = server.serve(&mut stage, &call(1, "create_note"));
        assert_eq!((read.len(), &read[0]["error"]["message"]), (1, &"toolset does not exist".into()), "{read:?}");
        let read = server.serve(&mut stage, &call(2, "create_note"));
        assert_eq!((read.len(), &read[0]["error"]), (1, &Value::Null), "the next call: {denial:?}: {read:?}");
        assert_eq!(server.count("tools/call"), (1, 1), "{denial:?}");
    }
}

#[test]
fn r27_refused_initialized_leads_to_sse() {
    for session in [None, Some("s1")] {
        for status in [404, 405] {
            let denial = Denial::Status(status);
            let mut server = Server { session, initialized: status, ..Server::new(denial) };
            let mut stage = server.initialize(Dialect::Auto);
            let read = server.serve(&mut stage, &call(1, "create_note"));
            assert_eq!((read.len(), outcome(&read[0])), (1, "none"), "{status} {session:?}: {read:?}");
            assert_eq!(server.count("tools/call").1, 1, "{status} {session:?}");
        }
    }
}

#[test]
fn r27_sse_is_remembered_after_reconnects() {
    let mut server = Server::new(Denial::Status(404));
    let mut stage = server.initialize(Dialect::Auto);
    server.serve(&mut stage, LIST);
    let at_url = server.at_url.len();
    for id in 2..5 {
        let stream = server.stream.unwrap();
        stage.end(stream, ExchangeEnd::Complete);
        let read = server.serve(&mut stage, &call(id, "create_note"));
        assert_eq!((read.len(), outcome(&read[0])), (1, "none"), "{read:?}");
        stage.input(Input::Reconnect { upstream: NOTES });
        server.run(&mut stage, Duration::from_secs(1));
    }
    assert_eq!(server.at_url.len(), at_url, "no POST at the URL any more: {:?}", server.at_url);
}

#[test]
fn r27_configured_transport_is_not_changed() {
    for denial in DENIALS {
        let mut server = Server::new(denial);
        let mut stage = server.initialize(Dialect::Streamable);
        server.serve(&mut stage, LIST);
        server.run(&mut stage, Duration::from_secs(60));
        assert!(server.at_endpoint.is_empty(), "{denial:?}: {:?}", server.at_endpoint);
    }
}

#[test]
fn r27_server_that_answered_once_is_not_switched() {
    for denial in DENIALS {
        let mut server = Server { session: Some("s1"), ..Server::new(Denial::None) };
        let mut stage = server.initialize(Dialect::Auto);
        server.serve(&mut stage, r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
        server.denial = denial;
        server.serve(&mut stage, LIST);
        server.run(&mut stage, Duration::from_secs(60));
        assert!(server.at_endpoint.is_empty(), "{denial:?}: {:?}", server.at_endpoint);
    }
}

#[test]
fn r27_other_failures_do_not_switch_the_transport() {
    for denial in [Denial::Status(401), Denial::Status(403), Denial::Status(429), Denial::Page(502)] {
        let mut server = Server::new(denial);
        let mut stage = server.initialize(Dialect::Auto);
        server.serve(&mut stage, LIST);
        server.run(&mut stage, Duration::from_secs(60));
        assert!(server.at_endpoint.is_empty(), "{denial:?}: {:?}", server.at_endpoint);
    }
}

#[test]
fn r27_error_of_one_request_does_not_switch_the_transport() {
    let mut server = Server::new(Denial::None);
    let mut stage = server.initialize(Dialect::Auto);
    stage.client_sends(LIST);
    let list = stage.next_sent();
    stage.refuse(&list, 200, -32601, "Method not found");
    assert_eq!(stage.client_reads(), None, "a ping decides");
    let read = server.run(&mut stage, Duration::from_secs(1));
    assert_eq!((read.len(), &read[0]["error"]["code"]), (1, &Value::from(-32601)), "{read:?}");
    assert!(server.at_endpoint.is_empty(), "{:?}", server.at_endpoint);
    stage.client_sends(LIST);
    let list = stage.next_sent();
    stage.refuse(&list, 200, -32601, "Method not found");
    assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32601, "the transport is proven now");
}

#[test]
fn r27_refusal_stands_without_an_sse_stream() {
    for get in [Get::Status(405), Get::Status(401), Get::Status(500), Get::Mute, Get::Message, Get::Cut] {
        let within = if get == Get::Mute { defaults::PROBE } else { Duration::ZERO } + Duration::from_secs(1);
        for session in [None, Some("s1")] {
            let first_get = Get::Cut;
            let mut server = Server { session, first_get, get, ..Server::new(Denial::Error(200, -32600)) };
            let mut stage = server.initialize(Dialect::Auto);
            stage.client_sends(LIST);
            let read = server.run(&mut stage, within);
            let answers: Vec<_> = read.iter().filter(|it| it["id"] == 1).collect();
            assert_eq!((answers.len(), &answers[0]["error"]["code"]), (1, &Value::from(-32600)), "{get:?}: {read:?}");
        }
        let mut server = Server { first_get: Get::Cut, get, ..Server::new(Denial::Status(404)) };
        let mut stage = server.initialize(Dialect::Auto);
        stage.client_sends(&call(1, "create_note"));
        let read = server.run(&mut stage, within);
        let answers: Vec<_> = read.iter().filter(|it| it["id"] == 1).collect();
        assert_eq!((answers.len(), outcome(answers[0])), (1, "refused"), "{get:?}: {read:?}");
        assert_eq!(server.count("tools/call"), (1, 0), "{get:?}");
    }
}

#[test]
fn r27_server_with_ordinary_get_stream_is_not_looked_at() {
    for get in [Get::Status(405), Get::Mute, Get::Message] {
        let mut server = Server { first_get: get, ..Server::new(Denial::Status(404)) };
        let mut stage = server.initialize(Dialect::Auto);
        server.serve(&mut stage, &call(1, "create_note"));
        assert!(server.at_endpoint.is_empty(), "{get:?}: {:?}", server.at_endpoint);
    }
}

#[test]
fn r27_endpoint_may_come_after_the_head_of_the_get_stream() {
    let mut server = Server { first_get: Get::Mute, ..Server::new(Denial::Error(200, -32600)) };
    let mut stage = Stage::new(Dialect::Auto);
    server.serve(&mut stage, INITIALIZE);
    stage.client_sends(INITIALIZED);
    server.run(&mut stage, Duration::from_millis(100));
    let read = server.serve(&mut stage, LIST);
    assert_eq!((read.len(), &read[0]["error"]), (1, &Value::Null), "{read:?}");
    assert_eq!(server.count("tools/list"), (1, 1));
}

#[test]
fn r27_looks_without_an_sse_stream_are_rare() {
    let mut server = Server { initialized: 405, get: Get::Status(403), ..Server::new(Denial::Status(404)) };
    server.first_get = server.get;
    let mut stage = server.initialize(Dialect::Auto);
    for id in 0..20 {
        stage.client_sends(&call(id, "create_note"));
        server.run(&mut stage, Duration::from_secs(2));
    }
    assert_eq!(server.gets, 1, "GETs within 40 s");
}

#[test]
fn r27_call_in_flight_keeps_the_transport() {
    let mut server = Server::new(Denial::Status(404));
    let mut stage = server.initialize(Dialect::Auto);
    stage.client_sends(&call(7, "create_note"));
    let slow = stage.next_sent();
    stage.status(slow.id, 200, Content::Events, None);
    server.serve(&mut stage, LIST);
    assert!(server.at_endpoint.is_empty(), "{:?}", server.at_endpoint);
    let id = &slow.json()["id"];
    stage.event(slow.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"ok":true}}}}"#));
    let read = server.run(&mut stage, Duration::from_secs(1));
    assert!(read.iter().any(|it| it["id"] == 7 && it["result"]["ok"] == true), "{read:?}");
}

#[test]
fn r27_call_in_flight_during_the_switch_keeps_its_answer() {
    let mut server = Server::new(Denial::Status(404));
    let mut stage = server.initialize(Dialect::Auto);
    stage.client_sends(&call(7, "create_note"));
    stage.client_sends(&call(8, "create_note"));
    let (slow, refused) = (stage.next_sent(), stage.next_sent());
    let read = server.serve(&mut stage, LIST);
    assert_eq!((read.len(), &read[0]["id"]), (1, &Value::from(1)), "over SSE: {read:?}");
    server.run(&mut stage, Duration::from_secs(10));
    stage.answer(&slow, r#"{"ok":true}"#);
    stage.status(refused.id, 405, Content::Empty, None);
    stage.end(refused.id, ExchangeEnd::Complete);
    let read = server.run(&mut stage, Duration::from_secs(1));
    assert!(read.iter().any(|it| it["id"] == 7 && it["result"]["ok"] == true), "{read:?}");
    assert!(read.iter().any(|it| it["id"] == 8 && outcome(it) == "none"), "{read:?}");
    assert_eq!(server.count("tools/call"), (0, 1), "the refused one only");
}
