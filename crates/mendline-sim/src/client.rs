//! A client: greets, calls, changes its mind, answers questions, reads at its own pace.
//!
//! It follows the protocol as the SDKs do (nothing but `initialize` before the handshake is over) and is odd where they may
//! be: ids of any shape, tokens of any shape, spaces and escapes, cancellations that cross their answers. It knows which
//! answer belongs to which request by the id alone, as any client does; the oracle's key travels in `_meta` only so that
//! servers and checkers can name requests.

mod expected_state;
mod requests;
mod incoming;
mod workload;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::{ClientId, Moment};
use mendline_wire::Id;

pub use expected_state::ExpectedState;
pub use incoming::{Incoming, stamp_of};
pub use workload::Workload;

use crate::rng::Rng;
use crate::oracle::{Effect, Key, Oracle};
use crate::pipe::Pipe;
use crate::server::Era;

/// How far a client's conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// It has not said anything.
    New,
    /// It waits for the answer to its greeting.
    Initializing(Key),
    /// It may call.
    Ready,
    /// It has closed its end and still reads.
    Ended,
    /// It is gone.
    Gone,
}

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    /// The method.
    pub method: &'static str,
    /// The tool, for `tools/call`.
    pub tool: Option<&'static str>,
    /// What a second run would do.
    pub effect: Effect,
    /// It goes on with something that the server has begun.
    pub continues: bool,
}

/// The tool that only reads: what probes call.
pub const READ_NOTE: RequestSpec =
    RequestSpec { method: "tools/call", tool: Some("read_note"), effect: Effect::Read, continues: false };

/// The tool that must not run twice.
pub const CREATE_NOTE: RequestSpec =
    RequestSpec { method: "tools/call", tool: Some("create_note"), effect: Effect::Unsafe, continues: false };

/// The first call after the healing, and its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Not begun.
    None,
    /// Under way, until then.
    Under(Moment),
    /// It went well.
    Done,
}

/// One client.
pub struct Client {
    /// Its name.
    pub id: ClientId,
    /// Which upstream it talks to, by its place in the configuration.
    pub upstream: usize,
    /// What it speaks.
    pub era: Era,
    /// How far it is.
    pub state: ClientState,
    /// What it still means to do.
    pub workload: Workload,
    /// Lines that it has written and the engine has not read.
    pub outbox: VecDeque<(Bytes, Vec<Key>)>,
    /// What was written to it.
    pub inbox: Pipe,
    /// Whether it reads at all.
    pub reads: bool,
    /// A read is planned.
    pub will_read: bool,
    /// It means to close its end once all that it wrote is read.
    pub closing: bool,
    /// How its calls after the healing go.
    pub probe: Probe,
    /// It wants nothing for a while.
    pub is_idle: bool,
    /// What it relies on.
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
    /// A client that has not said anything yet.
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

    /// Does the next thing; says when it wants to do another.
    pub fn act(&mut self, oracle: &mut Oracle) -> Option<Duration> {
        match self.state {
            ClientState::New => {
                self.initialize(oracle);
                Some(self.rng.millis(100, 800))
            }
            // An SDK waits for the answer; so does this one, and looks again later.
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

    /// Makes a request of this kind now; says under which key.
    pub fn send_request(&mut self, spec: RequestSpec, oracle: &mut Oracle) -> Key {
        let id = self.an_id();
        self.send_request_with_id(spec, &id, oracle)
    }

    /// Makes a request with an id of the caller's choice.
    pub fn send_request_with_id(&mut self, spec: RequestSpec, id: &str, oracle: &mut Oracle) -> Key {
        let (line, key) = self.write_request(spec, id, oracle);
        self.outbox.push_back((line, vec![key]));
        key
    }

    /// Begins, or begins again after a greeting that failed.
    pub fn initialize(&mut self, oracle: &mut Oracle) {
        let method = match self.era {
            Era::Legacy => "initialize",
            Era::Modern => "server/discover",
        };
        let effect = if self.era == Era::Legacy { Effect::Idempotent } else { Effect::Read };
        let key = self.send_request(RequestSpec { method, tool: None, effect, continues: false }, oracle);
        self.state = ClientState::Initializing(key);
    }

    /// Asks for something that must work, unless the greeting comes first.
    pub fn probe_call(&mut self, oracle: &mut Oracle) {
        match self.state {
            ClientState::New => self.initialize(oracle),
            ClientState::Ready => {
                self.send_request(READ_NOTE, oracle);
            }
            ClientState::Initializing(_) | ClientState::Ended | ClientState::Gone => {}
        }
    }

    /// Calls off a request that is still open, by its key.
    pub fn cancel(&mut self, key: Key, now: Moment, oracle: &mut Oracle) {
        let id = oracle.of(key).id.clone();
        for twin in self.waiting.get(&id).into_iter().flatten() {
            oracle.of_mut(*twin).cancelled.get_or_insert(now);
            self.expected.give_up(*twin);
        }
        self.outbox.push_back((requests::cancelled(&id), Vec::new()));
    }

    /// Whether it can still act and read.
    pub fn is_connected(&self) -> bool {
        !matches!(self.state, ClientState::Ended | ClientState::Gone)
    }

    /// An id that it waits for, of a request that it has not called off.
    pub fn an_open_id(&self, oracle: &Oracle) -> Option<String> {
        let is_open = |keys: &Vec<Key>| keys.iter().all(|key| oracle.of(*key).is_open());
        self.waiting.iter().find(|(_, keys)| is_open(keys)).map(|(id, _)| id.to_string())
    }

    /// The requests that it waits for.
    pub fn open_keys(&self) -> impl Iterator<Item = Key> {
        self.waiting.values().flatten().copied()
    }
}
