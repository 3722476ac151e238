//! A test harness for both transports: a client, an engine, and simulated time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mendline_core::{ClientId, ClientStreams, Config, Engine, Input, Moment, Output, Port, StreamId, UpstreamId};
use mendline_wire::{Limits, Line, Received, Spliced};

use crate::{CALL, RESULT};

pub(crate) const CLIENT: ClientId = ClientId(0);
/// The number that the harness gives its server.
const SERVER: UpstreamId = UpstreamId(1);

/// The `initialize` request of a legacy client, and the result of the server.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mendline-instructions","version":"1"}}}"#;
const INITIALIZE_RESULT: &str = r#","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"server","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

const EMPTY: &str = r#","result":{"tools":[]}}"#;

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;

/// An engine with one client.
pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) now: Moment,
    limits: Limits,
    scratch: BytesMut,
    calls_made: u64,
}

impl Harness {
    pub(crate) fn new(mut config: Config) -> Self {
        let servers = std::mem::take(&mut config.upstreams);
        let engine = Engine::new(config, 1);
        let limits = Limits::default();
        let mut harness = Harness { engine, now: Moment::ZERO, limits, scratch: BytesMut::new(), calls_made: 0 };
        for config in servers.into_iter().take(1).map(Box::new) {
            harness.handle(Input::AddUpstream { upstream: SERVER, config, like: None });
        }
        harness.handle(Input::ClientOpened { client: CLIENT, upstream: SERVER, streams: ClientStreams::One });
        harness
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    /// Returns the next child or exchange that the engine wants to start. All other outputs are discarded.
    pub(crate) fn next_work(&mut self) -> Option<Output> {
        loop {
            if let next_work @ (Output::Spawn { .. } | Output::Exchange { .. }) = self.engine.poll_output()? {
                return Some(next_work);
            }
        }
    }

    pub(crate) fn client_sends(&mut self, text: &str) {
        let received = self.received(text.as_bytes());
        self.handle(Input::FromClient { client: CLIENT, stream: StreamId::COMMON, received });
    }

    /// Sends the client's next call, 100 µs after the last one.
    pub(crate) fn client_calls(&mut self) {
        self.now = self.now + Duration::from_micros(100);
        self.calls_made += 1;
        let text = with_id(self.calls_made, CALL);
        let received = self.received(&text);
        self.handle(Input::FromClient { client: CLIENT, stream: StreamId::COMMON, received });
    }

    /// Returns the server's answer to anything but a call: the result of `initialize`, an empty list, or nothing for a
    /// notification.
    pub(crate) fn reply(&mut self, message: &Spliced) -> Option<Received> {
        let text = message.to_bytes();
        let contains = |message: &[u8]| text.windows(message.len()).any(|window| window == message);
        let result = if contains(b"\"initialize\"") { INITIALIZE_RESULT } else { EMPTY };
        contains(b"\"id\":").then(|| self.answer(message, result))
    }

    /// Returns the server's answer to a request, with the same id.
    pub(crate) fn answer(&mut self, request: &Spliced, result: &str) -> Received {
        self.scratch.clear();
        request.write_to(&mut self.scratch);
        let text = with_id(number(&self.scratch), result);
        self.received(&text)
    }

    /// Reads and checks the answer to the client's last call.
    pub(crate) fn client_reads_answer(&mut self) {
        let Some(message) = self.engine.poll_write(Port::Client(CLIENT), self.now) else {
            unreachable!("the client waits for an answer");
        };
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        message.write_to(&mut text);
        assert!(number(&text) == self.calls_made && text.ends_with(RESULT.as_bytes()), "a wrong answer: {text:?}");
        self.scratch = text;
        assert!(self.engine.poll_write(Port::Client(CLIENT), self.now).is_none(), "exactly one answer");
    }

    /// Reads and discards all messages to the client.
    pub(crate) fn client_reads(&mut self) {
        while self.engine.poll_write(Port::Client(CLIENT), self.now).is_some() {}
    }

    fn received(&self, text: &[u8]) -> Received {
        Received::from_line(Line::Text(Bytes::copy_from_slice(text)), &self.limits)
    }
}

/// Builds a message with this id.
fn with_id(number: u64, rest: &str) -> Vec<u8> {
    let digits = mendline_wire::Id::number(number);
    let mut text = Vec::with_capacity(HEAD.len() + digits.as_bytes().len() + rest.len());
    text.extend_from_slice(HEAD);
    text.extend_from_slice(digits.as_bytes());
    text.extend_from_slice(rest.as_bytes());
    text
}

/// Returns the id of a message, which is at a fixed position in all messages here.
fn number(text: &[u8]) -> u64 {
    let digits = text.get(HEAD.len()..).unwrap_or_default();
    digits.iter().take_while(|digit| digit.is_ascii_digit()).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}
