//! The record of what actually happened.
//!
//! Mendline sees only bytes and the ends of processes; the oracle sees both sides. It keeps a record of every client
//! request: its kind and effect, how often a pipe or a connection accepted all of it, how often a server executed it,
//! and the answers of the server. The checkers compare the reports of Mendline with it. The engine never sees the
//! oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::{ClientId, Moment, UpstreamConfig};
use mendline_wire::{Id, Method};

use crate::catalogue;

/// A client request, by its index in the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// The effect of a second execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None.
    Read,
    /// Same as one execution.
    Idempotent,
    /// Harm.
    Unsafe,
}

/// The error of Mendline about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `unavailable`, `outcome_unknown`, `timed_out`, …
    pub cause: String,
    /// `not_sent`, `refused`, `unknown`, …
    pub outcome: String,
    /// The reported number of attempts.
    pub attempts: Option<u64>,
    /// Whether it is reported as retryable.
    pub retryable: Option<bool>,
    /// The text for the model.
    pub text: String,
}

/// The answer that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A result or an error of the server, with this body.
    Passed(Bytes),
    /// An error of Mendline.
    Failed(Failure),
}

/// The record of one request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its client.
    pub client: ClientId,
    /// The index of its upstream.
    pub upstream: usize,
    /// The id as the client wrote it.
    pub id: Id,
    /// Its method.
    pub method: Method,
    /// The tool, or the name of the method.
    pub what: &'static str,
    /// Its effect.
    pub effect: Effect,
    /// The parameters as the client wrote them.
    pub params: Bytes,
    /// The progress token as the client wrote it.
    pub token: Option<Bytes>,
    /// Its client used this id for two open requests. Answers and cancellations cannot be assigned to one of the two,
    /// so only the number of answers is checked.
    pub twin: bool,
    /// The time at which the engine received it.
    pub arrived: Option<Moment>,
    /// The limits that applied at that time.
    pub terms: Option<Terms>,
    /// The time at which the engine last received progress.
    pub progressed: Option<Moment>,
    /// Time during which the machine was suspended.
    pub suspended: Duration,
    /// The time of its cancellation.
    pub cancelled: Option<Moment>,
    /// Number of answers that the client has read.
    pub answers: u32,
    /// The last answer.
    pub verdict: Option<Verdict>,
    /// How often a pipe or a connection accepted all of it.
    pub whole: u32,
    /// How many of these the engine knows to be rejected.
    pub refused: u32,
    /// Of these, the refusals of its credential.
    pub refused_for_credential: u32,
    /// How many of these met an overloaded server that asked for a pause without rejecting them.
    pub overloaded: u32,
    /// How many of these had a status after which the server has done nothing, as the configuration says.
    pub harmless: u32,
    /// How many of these rejections only report a lost session, which must be confirmed first.
    pub reported_session_lost: u32,
    /// Number of executions.
    pub runs: u32,
    /// The answers of servers, byte for byte.
    pub replies: Vec<Bytes>,
}

impl Record {
    /// Returns whether the client still waits for an answer.
    pub fn is_open(&self) -> bool {
        self.answers == 0 && self.cancelled.is_none()
    }

    /// Returns the number of complete copies that were not rejected; each may be executed.
    pub fn possibly_run(&self) -> u32 {
        self.whole - self.refused
    }

    /// Returns its deadline, by what has happened so far.
    pub fn due(&self) -> Option<Moment> {
        let arrived = self.arrived?;
        self.due_if_quiet_since(self.progressed.map_or(arrived, |progressed| progressed.max(arrived)))
    }

    /// Returns the earliest time at which it may time out; progress only extends it.
    pub fn due_at_first(&self) -> Option<Moment> {
        self.due_if_quiet_since(self.arrived?)
    }

    fn due_if_quiet_since(&self, quiet_since: Moment) -> Option<Moment> {
        let (arrived, terms) = (self.arrived?, self.terms?);
        let own = terms.read_note.filter(|_| self.what == "read_note");
        let due = (quiet_since + own.unwrap_or(terms.call)).min(arrived + terms.total);
        Some(Moment(due.0.saturating_sub(self.suspended.as_nanos() as u64)))
    }

    /// Returns whether Mendline may send it again as part of a handshake. Such a copy is not an attempt.
    pub fn is_replayed_state(&self) -> bool {
        matches!(
            self.method,
            Method::Initialize
                | Method::LoggingSetLevel
                | Method::ResourcesSubscribe
                | Method::ResourcesUnsubscribe
                | Method::SubscriptionsListen
        )
    }
}

/// The limits for a request.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// From the arrival or the last progress.
    pub call: Duration,
    /// In all.
    pub total: Duration,
    /// For a request that is never sent.
    pub recovery: Duration,
    /// Replaces `call` for the tool `read_note`, if configured.
    pub read_note: Option<Duration>,
    /// Maximum number of attempts.
    pub attempts: u32,
}

impl Terms {
    /// Returns the limits of a configuration.
    pub fn new(config: &UpstreamConfig) -> Terms {
        Terms {
            call: config.timeouts.call,
            total: config.timeouts.total,
            recovery: config.timeouts.recovery,
            read_note: config.tools.get("read_note").and_then(|tool| tool.timeout),
            attempts: config.retry.attempts,
        }
    }
}

/// The oracle.
#[derive(Debug, Default)]
pub struct Oracle {
    records: Vec<Record>,
    /// The current limits of each upstream.
    pub terms: Vec<Terms>,
    /// The bodies that each server with a cache has written, in this world or before.
    pub bodies_by_upstream: BTreeMap<usize, Vec<Bytes>>,
    /// Upstreams with a cached catalogue at the start.
    pub cached: BTreeSet<usize>,
    /// The clients as readers.
    pub readers: BTreeMap<ClientId, Reader>,
}

/// The state of a client as a reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// It reads no more.
    pub gone: bool,
    /// It has unread messages.
    pub behind: bool,
    /// It has several streams, which have no common order.
    pub has_streams: bool,
}

impl Oracle {
    /// Creates an oracle with the limits of each upstream.
    pub fn new(terms: Vec<Terms>) -> Oracle {
        Oracle { terms, ..Oracle::default() }
    }

    /// Returns the time after which all open and new requests are answered.
    pub fn longest(&self) -> Duration {
        let open = self.unanswered().filter_map(|(_, record)| record.terms.as_ref());
        self.terms.iter().chain(open).map(|terms| terms.total).max().unwrap_or_default()
    }

    /// Adds a record.
    pub fn open(&mut self, record: Record) -> Key {
        self.records.push(record);
        Key(self.records.len() as u32 - 1)
    }

    /// Returns the key of the next record. Requests carry their key, so it must be known before they are encoded.
    pub fn next_key(&self) -> Key {
        Key(self.records.len() as u32)
    }

    /// Returns a record.
    pub fn of(&self, key: Key) -> &Record {
        &self.records[key.0 as usize]
    }

    /// Returns whether the engine may request this list again on its own, to refresh the cache. That is an internal
    /// request, not an attempt.
    pub fn may_be_read_again(&self, key: Key) -> bool {
        let record = self.of(key);
        self.bodies_by_upstream.contains_key(&record.upstream) && catalogue::is_cacheable(record.method)
    }

    /// Returns a record, if the key exists.
    pub fn find(&self, key: Key) -> Option<&Record> {
        self.records.get(key.0 as usize)
    }

    /// Returns whether a body may come from the cache or be provisional. The answer to one of two open requests with the
    /// same id can be that of the other.
    pub fn may_be_from_cache(&self, record: &Record, body: &[u8]) -> bool {
        let is_twin = |it: &Record| it.twin && it.client == record.client && it.id == record.id;
        let is_cacheable = || {
            catalogue::is_cacheable(record.method)
                || (record.twin && self.records.iter().any(|it| is_twin(it) && catalogue::is_cacheable(it.method)))
        };
        let Some(bodies) = self.bodies_by_upstream.get(&record.upstream).filter(|_| is_cacheable()) else {
            return false;
        };
        bodies.iter().any(|written| catalogue::is_same_but_for_ttl(body, written))
            || (record.method == Method::Initialize && catalogue::is_provisional(body))
    }

    /// Returns whether a body may be the answer of the session that a client shares with others: the handshake of
    /// another client, or an empty result for a request that the server need not receive.
    pub fn may_be_of_session(&self, record: &Record, body: &[u8]) -> bool {
        let is_shared = |it: &Record| it.upstream == record.upstream && it.client != record.client;
        let mut others = self.records.iter().filter(|it| is_shared(it));
        match record.method {
            Method::Initialize => {
                others.any(|it| it.method == Method::Initialize && it.replies.iter().any(|reply| reply == body))
            }
            Method::LoggingSetLevel | Method::ResourcesUnsubscribe => body == b"{}" && others.next().is_some(),
            _ => false,
        }
    }

    /// Returns a record for changes.
    pub fn of_mut(&mut self, key: Key) -> &mut Record {
        &mut self.records[key.0 as usize]
    }

    /// Returns all records.
    pub fn all(&self) -> impl Iterator<Item = (Key, &Record)> {
        self.records.iter().enumerate().map(|(index, record)| (Key(index as u32), record))
    }

    /// Returns the open requests of clients that still read.
    pub fn unanswered(&self) -> impl Iterator<Item = (Key, &Record)> {
        self.all().filter(|(_, record)| record.is_open() && record.arrived.is_some() && !self.is_gone(record.client))
    }

    /// Adds suspended time to all open requests.
    pub fn advance_open_requests(&mut self, time: Duration) {
        for record in self.records.iter_mut().filter(|record| record.answers == 0) {
            record.suspended += time;
        }
    }

    /// Returns whether a client reads no more.
    pub fn is_gone(&self, client: ClientId) -> bool {
        self.readers.get(&client).is_some_and(|reader| reader.gone)
    }
}
