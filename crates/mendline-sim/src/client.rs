//! A scripted client: it initializes, calls, cancels, answers requests and reads at its own pace.
//!
//! It follows the protocol as the SDKs do (nothing but `initialize` before the handshake is complete) and uses unusual
//! forms where the protocol allows them: ids and tokens of any kind, whitespace and escapes, cancellations that cross
//! their answers. It matches answers to requests by the id alone. The key of the oracle travels in `_meta` only so that
//! servers and checkers can name requests.

mod expected_state;
mod incoming;
mod requests;
mod workload;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::{ClientId, Moment};
use mendline_wire::Id;

pub use expected_state::ExpectedState;
pub use incoming::{Incoming, stamp_of};
pub use workload::Workload;

use crate::client_streams::ClientStreams;
use crate::oracle::{Effect, Key, Oracle};
use crate::pipe::Pipe;
use crate::rng::Rng;
use crate::server::Era;

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// It has not sent anything.
    New,
    /// It waits for the answer to `initialize` or `server/discover`.
    Initializing(Key),
    /// It may send requests.
    Ready,
    /// It has closed its output and still reads.
    Ended,
    /// It is disconnected.
    Gone,
}

/// The specification of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    /// The method.
    pub method: &'static str,
    /// The tool, for `tools/call`.
    pub tool: Option<&'static str>,
    /// The effect of a second execution.
    pub effect: Effect,
    /// It continues a call that the server has begun.
    pub continues: bool,
}

/// The read-only tool that probes call.
pub const READ_NOTE: RequestSpec =
    RequestSpec { method: "tools/call", tool: Some("read_note"), effect: Effect::Read, continues: false };

/// The tool that must not run twice.
pub const CREATE_NOTE: RequestSpec =
    RequestSpec { method: "tools/call", tool: Some("create_note"), effect: Effect::Unsafe, continues: false };

/// The state of the first call after the faults have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Not started.
    None,
    /// In progress, with this deadline.
    Under(Moment),
    /// It succeeded.
    Done,
}

/// One client.
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// The index of its upstream.
    pub upstream: usize,
    /// Its era.
    pub era: Era,
    /// Its state.
    pub state: ClientState,
    /// Its remaining workload.
    pub workload: Workload,
    /// Lines that it has written and the engine has not read.
    pub outbox: VecDeque<(Bytes, Vec<Key>)>,
    /// The pipe from the engine.
    pub inbox: Pipe,
    /// Whether it reads.
    pub reads: bool,
    /// A read is scheduled.
    pub will_read: bool,
    /// It closes its output once the engine has read everything.
    pub closing: bool,
    /// The state of its probe.
    pub probe: Probe,
    /// It pauses its workload.
    pub is_idle: bool,
    /// Its streams, if it has more than one.
    pub streams: Option<ClientStreams>,
    /// The state that it relies on.
    pub expected: ExpectedState,
    continues_with: Option<&'static str>,
    waiting: BTreeMap<Id, Vec<Key>>,
    tokens: BTreeMap<Bytes, Key>,
    server_requests: BTreeMap<u32, (Bytes, Bytes)>,
    server_requests_seen: u32,
    counter: u32,
    odd: bool,
    rng: Rng,
}

impl Client {
    /// Creates a client.
    pub fn new(
        id: ClientId,
        upstream: usize,
        era: Era,
        workload: Workload,
        capacity: u64,
        odd: bool,
        rng: Rng,
    ) -> Client {
        Client {
            id,
            upstream,
            era,
            state: ClientState::New,
            workload,
            outbox: VecDeque::new(),
            inbox: Pipe::new(capacity),
            reads: true,
            will_read: false,
            closing: false,
            probe: Probe::None,
            is_idle: false,
            streams: ClientStreams::choose(&rng),
            expected: ExpectedState::default(),
            continues_with: None,
            waiting: BTreeMap::new(),
            tokens: BTreeMap::new(),
            server_requests: BTreeMap::new(),
            server_requests_seen: 0,
            counter: 0,
            odd,
            rng,
        }
    }

    /// Performs the next item of the workload. Returns the delay until the one after it.
    pub fn act(&mut self, oracle: &mut Oracle) -> Option<Duration> {
        match self.state {
            ClientState::New => {
                self.initialize(oracle);
                Some(self.rng.millis(100, 800))
            }
            // An SDK waits for the answer. This client polls.
            ClientState::Initializing(_) => Some(Duration::from_millis(200)),
            ClientState::Ready if self.is_idle => Some(Duration::from_millis(200)),
            ClientState::Ready => {
                let next = self.workload.next(&mut self.rng)?;
                self.perform(next, oracle);
                Some(self.workload.pause(&mut self.rng))
            }
            ClientState::Ended | ClientState::Gone => None,
        }
    }

    /// Returns whether messages may wait that it has not read: in its pipe, or on a stream without a connection.
    pub fn is_behind(&self) -> bool {
        let has_detached = self.streams.as_ref().is_some_and(ClientStreams::has_detached);
        has_detached || self.inbox.unaccepted() + self.inbox.unread() > 0
    }

    /// Sends a request and returns its key.
    pub fn send_request(&mut self, spec: RequestSpec, oracle: &mut Oracle) -> Key {
        let id = self.new_id();
        self.send_request_with_id(spec, &id, oracle)
    }

    /// Sends a request with a given id.
    pub fn send_request_with_id(&mut self, spec: RequestSpec, id: &str, oracle: &mut Oracle) -> Key {
        let (line, key) = self.write_request(spec, id, oracle);
        self.outbox.push_back((line, vec![key]));
        key
    }

    /// Starts the handshake, or repeats it after a failure.
    pub fn initialize(&mut self, oracle: &mut Oracle) {
        let method = match self.era {
            Era::Legacy => "initialize",
            Era::Modern => "server/discover",
        };
        let effect = if self.era == Era::Legacy { Effect::Idempotent } else { Effect::Read };
        let key = self.send_request(RequestSpec { method, tool: None, effect, continues: false }, oracle);
        self.state = ClientState::Initializing(key);
    }

    /// Sends a probe call, or the handshake if that is not complete.
    pub fn probe_call(&mut self, oracle: &mut Oracle) {
        match self.state {
            ClientState::New => self.initialize(oracle),
            ClientState::Ready => {
                self.send_request(READ_NOTE, oracle);
            }
            ClientState::Initializing(_) | ClientState::Ended | ClientState::Gone => {}
        }
    }

    /// Cancels an open request.
    pub fn cancel(&mut self, key: Key, now: Moment, oracle: &mut Oracle) {
        let id = oracle.of(key).id.clone();
        for twin in self.waiting.get(&id).into_iter().flatten() {
            oracle.of_mut(*twin).cancelled.get_or_insert(now);
            self.expected.give_up(*twin);
        }
        self.outbox.push_back((requests::cancelled(&id), Vec::new()));
    }

    /// Returns whether it can still send and read.
    pub fn is_connected(&self) -> bool {
        !matches!(self.state, ClientState::Ended | ClientState::Gone)
    }

    /// Returns the id of an open request that is not cancelled.
    pub fn an_open_id(&self, oracle: &Oracle) -> Option<String> {
        let is_open = |keys: &Vec<Key>| keys.iter().all(|key| oracle.of(*key).is_open());
        self.waiting.iter().find(|(_, keys)| is_open(keys)).map(|(id, _)| id.to_string())
    }

    /// Returns its open requests.
    pub fn open_keys(&self) -> impl Iterator<Item = Key> {
        self.waiting.values().flatten().copied()
    }
}
