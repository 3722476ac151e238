//! What both ways have in common: a client, an engine, and the passing of time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mendline_core::{ClientId, Config, Engine, Input, Moment, Output, Port, UpstreamId};
use mendline_wire::{Limits, Line, Received, Spliced};

use crate::{CALL, RESULT};

pub(crate) const CLIENT: ClientId = ClientId(0);
pub(crate) const SERVER: UpstreamId = UpstreamId(0);

/// The first words of a client of the legacy era, and what a server says to them.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mendline-instructions","version":"1"}}}"#;
const INITIALIZE_RESULT: &str = r#","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"server","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

const EMPTY: &str = r#","result":{"tools":[]}}"#;

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;

/// An engine, and the one client that it has.
pub(crate) struct Harness {
    pub(crate) engine: Engine,
    now: Moment,
    limits: Limits,
    scratch: BytesMut,
    calls_made: u64,
}

impl Harness {
    pub(crate) fn new(config: Config) -> Self {
        let engine = Engine::new(config, 1);
        let limits = Limits::default();
        let mut harness = Harness { engine, now: Moment::ZERO, limits, scratch: BytesMut::new(), calls_made: 0 };
        harness.handle(Input::ClientOpened { client: CLIENT, upstream: SERVER });
        harness
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    /// The next child or exchange that the engine wants; everything else that it asks or tells is taken and left at that.
    pub(crate) fn next_work(&mut self) -> Option<Output> {
        loop {
            if let next_work @ (Output::Spawn { .. } | Output::Exchange { .. }) = self.engine.poll_output()? {
                return Some(next_work);
            }
        }
    }

    pub(crate) fn client_sends(&mut self, text: &str) {
        let received = self.received(text.as_bytes());
        self.handle(Input::FromClient { client: CLIENT, received });
    }

    /// The client's next call; a hundred microseconds have passed since the last.
    pub(crate) fn client_calls(&mut self) {
        self.now = self.now + Duration::from_micros(100);
        self.calls_made += 1;
        let text = with_id(self.calls_made, CALL);
        let received = self.received(&text);
        self.handle(Input::FromClient { client: CLIENT, received });
    }

    /// What the server says to anything but a call: a welcome, an empty list, or nothing to what wants no answer.
    pub(crate) fn reply(&mut self, message: &Spliced) -> Option<Received> {
        let text = message.to_bytes();
        let contains = |message: &[u8]| text.windows(message.len()).any(|window| window == message);
        let result = if contains(b"\"initialize\"") { INITIALIZE_RESULT } else { EMPTY };
        contains(b"\"id\":").then(|| self.answer(message, result))
    }

    /// What the server makes of a request: a call is answered under the number that it came with.
    pub(crate) fn answer(&mut self, request: &Spliced, result: &str) -> Received {
        self.scratch.clear();
        request.write_to(&mut self.scratch);
        let text = with_id(number(&self.scratch), result);
        self.received(&text)
    }

    /// Reads the answer to the client's last call.
    pub(crate) fn client_reads_answer(&mut self) {
        let Some(message) = self.engine.poll_write(Port::Client(CLIENT)) else {
            unreachable!("the client waits for an answer");
        };
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        message.write_to(&mut text);
        assert!(number(&text) == self.calls_made && text.ends_with(RESULT.as_bytes()), "a wrong answer: {text:?}");
        self.scratch = text;
        assert!(self.engine.poll_write(Port::Client(CLIENT)).is_none(), "one answer, and no more");
    }

    /// The client reads whatever there is.
    pub(crate) fn client_reads(&mut self) {
        while self.engine.poll_write(Port::Client(CLIENT)).is_some() {}
    }

    fn received(&self, text: &[u8]) -> Received {
        Received::from_line(Line::Text(Bytes::copy_from_slice(text)), &self.limits)
    }
}

/// A message under this number.
fn with_id(number: u64, rest: &str) -> Vec<u8> {
    let digits = mendline_wire::Id::number(number);
    let mut text = Vec::with_capacity(HEAD.len() + digits.as_bytes().len() + rest.len());
    text.extend_from_slice(HEAD);
    text.extend_from_slice(digits.as_bytes());
    text.extend_from_slice(rest.as_bytes());
    text
}

/// The number that a message carries, where all of ours carry it.
fn number(text: &[u8]) -> u64 {
    let digits = text.get(HEAD.len()..).unwrap_or_default();
    digits.iter().take_while(|digit| digit.is_ascii_digit()).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}
