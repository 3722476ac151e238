//! One client and one child, both controlled by a test.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod http;
pub mod initialized;

use mendline_core::reason::{ConnectError, RefusalReason, TlsError};
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mendline_core::config::ToolPolicy;
use mendline_core::policy::effect::Effect;
use mendline_core::port::Exit;
use mendline_core::{
    ClientId, ClientStreams, Config, Engine, Input, Level, Lifetime, LinkId, LinkState, ListCache, Moment, Output,
    Port, StreamId, UpstreamConfig, UpstreamId,
};
use mendline_wire::{Limits, Line, Received};
use serde_json::Value;

pub const CLIENT: ClientId = ClientId(0);
pub const NOTES: UpstreamId = UpstreamId(0);

/// One client and one child, both controlled by the test.
pub struct Stage {
    /// Events that need a person.
    pub errors: usize,
    inputs: u32,
    pub engine: Engine,
    pub now: Moment,
    pub spawned: Option<LinkId>,
    pub dials: u32,
    pub written: u64,
    pub asked: Vec<Output>,
    /// The lines of the log.
    pub log: Vec<String>,
    /// The cache that was saved last, and the number of saves.
    pub saved: Option<ListCache>,
    pub saves: u32,
}

/// The effects of the tools that most tests call: known without a list of the tools.
pub fn unsafe_tools() -> BTreeMap<String, ToolPolicy> {
    let policy = || ToolPolicy { effect: Some(Effect::Unsafe), ..ToolPolicy::default() };
    ["create_note", "slow"].map(|tool| (tool.to_owned(), policy())).into()
}

impl Stage {
    pub fn new() -> Self {
        Stage::with(|_| {})
    }

    /// Creates a stage with another configuration.
    pub fn with(change: impl FnOnce(&mut UpstreamConfig)) -> Self {
        Stage::with_cache(None, change)
    }

    /// Creates a stage whose engine has this cache.
    pub fn with_cache(remembered: Option<ListCache>, change: impl FnOnce(&mut UpstreamConfig)) -> Self {
        Stage::living(Lifetime::WithClients, remembered, change)
    }

    /// Creates a stage whose engine outlives its clients.
    pub fn until_stopped() -> Self {
        Stage::living(Lifetime::UntilStopped, None, |_| {})
    }

    fn living(lifetime: Lifetime, remembered: Option<ListCache>, change: impl FnOnce(&mut UpstreamConfig)) -> Self {
        let mut notes = UpstreamConfig::child("notes", "notes-server");
        notes.tools = unsafe_tools();
        change(&mut notes);
        let config = Config { lifetime, ..Config::new(vec![notes]) };
        let mut stage = Stage {
            errors: 0,
            inputs: 0,
            engine: Engine::new(config, 1),
            now: Moment::ZERO,
            spawned: None,
            dials: 0,
            written: 0,
            asked: Vec::new(),
            log: Vec::new(),
            saved: None,
            saves: 0,
        };
        if let Some(what) = remembered {
            stage.input(Input::Cached { upstream: NOTES, what });
        }
        stage.input(Input::ClientOpened { client: CLIENT, upstream: NOTES, streams: ClientStreams::One });
        stage
    }

    /// Creates a stage whose child runs.
    pub fn up() -> Self {
        let mut stage = Stage::new();
        stage.accept_dial();
        stage
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
                Output::Spawn { link } => {
                    assert_eq!(self.spawned, None, "one dial at a time");
                    self.spawned = Some(link);
                    self.dials += 1;
                    self.written = 0;
                }
                Output::Event(event) => {
                    self.errors += usize::from(event.level() == Level::Error);
                    self.log.push(event.to_string());
                }
                Output::Cache { what, .. } => {
                    self.saved = Some(what);
                    self.saves += 1;
                }
                other => self.asked.push(other),
            }
        }
    }

    pub fn accept_dial(&mut self) {
        let link = self.spawned.expect("a dial");
        self.input(Input::Spawned { link, pid: 1 });
    }

    /// Waits for the next dial and returns the time until it.
    pub fn next_dial(&mut self) -> Duration {
        let began = self.now;
        while self.spawned.is_none() {
            self.advance(Duration::from_millis(1));
        }
        self.now.since(began)
    }

    pub fn die(&mut self, written: u64) {
        let link = self.spawned.take().expect("a child");
        self.input(Input::ChildExited { link, how: Exit::Signal(9), written });
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
        self.sends(CLIENT, text);
    }

    /// Lets one of several clients send a message.
    pub fn sends(&mut self, client: ClientId, text: &str) {
        let received = Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default());
        self.input(Input::FromClient { client, stream: StreamId::COMMON, received });
    }

    pub fn server_sends(&mut self, text: &str) {
        let link = self.spawned.expect("a child");
        let received = Received::from_line(Line::Text(Bytes::copy_from_slice(text.as_bytes())), &Limits::default());
        self.input(Input::FromLink { link, received });
    }

    /// Returns the next message to the client.
    pub fn client_reads(&mut self) -> Option<Value> {
        self.reads(CLIENT)
    }

    /// Returns the next message to one of several clients.
    pub fn reads(&mut self, client: ClientId) -> Option<Value> {
        let text = self.engine.poll_write(Port::Client(client), self.now)?.to_bytes();
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Returns the next message to the child.
    pub fn server_reads(&mut self) -> Option<Value> {
        let text = self.engine.poll_write(Port::Link(self.spawned?), self.now)?.to_bytes();
        self.collect();
        self.written += text.len() as u64 + 1;
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Reads one request of the child and answers it.
    pub fn server_answers(&mut self, result: &str) -> Value {
        let request = self.server_reads().expect("a request");
        self.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"]));
        request
    }

    pub fn state(&self) -> LinkState {
        self.engine.link_state(NOTES).unwrap()
    }
}

pub fn call(id: &str, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

/// Returns the refusal of a server whose certificate has expired.
#[allow(dead_code, reason = "not every test needs it")]
pub fn expired_certificate() -> RefusalReason {
    let error = TlsError::Validity { problem: "its certificate has expired".to_owned() };
    RefusalReason::Connect(ConnectError::Tls { server: "notes.test:443".to_owned(), error })
}
