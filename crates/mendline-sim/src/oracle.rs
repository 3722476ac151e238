//! What really happened.
//!
//! Mendline only sees bytes and ends of processes; the oracle sees both sides. It keeps a record of every request that a
//! client made: what it was, whether repeating it does harm, how often a pipe accepted all of it, how often a server really
//! did it and what that server answered. The checkers compare what Mendline says with this. Nothing in here is ever shown to
//! the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::{ClientId, Moment, UpstreamConfig};
use mendline_wire::{Id, Method};

use crate::catalogue;

/// A request of a client, by its place in the oracle's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// What running something twice would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Read,
    /// The same as once.
    Idempotent,
    /// Harm.
    Unsafe,
}

/// What Mendline says about a request that it answered itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `unavailable`, `outcome_unknown`, `timed_out`, …
    pub cause: String,
    /// `not_sent`, `refused`, `unknown`, …
    pub outcome: String,
    /// How many attempts it says there were.
    pub attempts: Option<u64>,
    /// Whether it says that the client may try again.
    pub retryable: Option<bool>,
    /// What a model reads.
    pub text: String,
}

/// What a client was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A result or an error from the server, with this body.
    Passed(Bytes),
    /// Mendline's own words.
    Failed(Failure),
}

/// All that is known of one request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Who made it.
    pub client: ClientId,
    /// Which upstream it is for, by its place in the configuration.
    pub upstream: usize,
    /// The id as the client wrote it.
    pub id: Id,
    /// What it asks for.
    pub method: Method,
    /// The tool that it calls, or the method's name.
    pub what: &'static str,
    /// What a second run would do.
    pub effect: Effect,
    /// The parameters as the client wrote them.
    pub params: Bytes,
    /// The progress token as the client wrote it.
    pub token: Option<Bytes>,
    /// Its client used this id for two open requests. Which of the two an answer or a cancellation means is then the
    /// client's own riddle, so only the number of answers can be judged.
    pub twin: bool,
    /// When the engine was given it.
    pub arrived: Option<Moment>,
    /// What was promised for it then, whatever is configured later.
    pub terms: Option<Terms>,
    /// When the engine was last given progress of it.
    pub progressed: Option<Moment>,
    /// How much of its time passed while the machine slept.
    pub suspended: Duration,
    /// When the client called it off.
    pub cancelled: Option<Moment>,
    /// How many answers the client has read.
    pub answers: u32,
    /// The last of them.
    pub verdict: Option<Verdict>,
    /// How often a pipe or a cable accepted all of it.
    pub whole: u32,
    /// How many of those the engine was told of as turned away at the door.
    pub refused: u32,
    /// How many of these refusals only said that the session is lost, which has to be confirmed before it counts.
    pub reported_session_lost: u32,
    /// How often a server did it.
    pub runs: u32,
    /// What servers answered to it, byte for byte.
    pub replies: Vec<Bytes>,
}

impl Record {
    /// Whether the client still waits for an answer.
    pub fn is_open(&self) -> bool {
        self.answers == 0 && self.cancelled.is_none()
    }

    /// How many whole copies there are that were not turned away: each may run.
    pub fn possibly_run(&self) -> u32 {
        self.whole - self.refused
    }

    /// The latest moment at which it may be answered, by what has happened so far.
    pub fn due(&self) -> Option<Moment> {
        let arrived = self.arrived?;
        self.due_if_quiet_since(self.progressed.map_or(arrived, |progressed| progressed.max(arrived)))
    }

    /// The earliest moment at which its time may be said to be over: progress only ever gives it more.
    pub fn due_at_first(&self) -> Option<Moment> {
        self.due_if_quiet_since(self.arrived?)
    }

    fn due_if_quiet_since(&self, quiet_since: Moment) -> Option<Moment> {
        let (arrived, terms) = (self.arrived?, self.terms?);
        let own = terms.read_note.filter(|_| self.what == "read_note");
        let due = (quiet_since + own.unwrap_or(terms.call)).min(arrived + terms.total);
        Some(Moment(due.0.saturating_sub(self.suspended.as_nanos() as u64)))
    }

    /// Whether Mendline may send it again on its own account as part of a greeting: then sending it is no attempt.
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

/// What is promised for a request that comes to an upstream now.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// From the arrival or the last progress.
    pub call: Duration,
    /// In all.
    pub total: Duration,
    /// For one that never gets out.
    pub recovery: Duration,
    /// Instead of `call` for this one tool, if somebody has said so.
    pub read_note: Option<Duration>,
    /// How often it is sent at most.
    pub attempts: u32,
}

impl Terms {
    /// By what an upstream's configuration says.
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

/// The book.
#[derive(Debug, Default)]
pub struct Oracle {
    records: Vec<Record>,
    /// What each upstream promises now.
    pub terms: Vec<Terms>,
    /// What each server that is remembered ever said, today or on an earlier day.
    pub bodies_by_upstream: BTreeMap<usize, Vec<Bytes>>,
    /// Upstreams of which something was remembered when the world began.
    pub cached: BTreeSet<usize>,
    /// Which clients are still there to read answers.
    pub readers: BTreeMap<ClientId, Reader>,
}

/// What is known of a client as a reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// It will read no more.
    pub gone: bool,
    /// There is something that was written to it and that it has not read.
    pub behind: bool,
}

impl Oracle {
    /// An empty book, with what each upstream promises.
    pub fn new(terms: Vec<Terms>) -> Oracle {
        Oracle { terms, ..Oracle::default() }
    }

    /// After this long from now whatever is open, and whatever comes now, has been answered.
    pub fn longest(&self) -> Duration {
        let open = self.unanswered().filter_map(|(_, record)| record.terms.as_ref());
        self.terms.iter().chain(open).map(|terms| terms.total).max().unwrap_or_default()
    }

    /// Opens a record.
    pub fn open(&mut self, record: Record) -> Key {
        self.records.push(record);
        Key(self.records.len() as u32 - 1)
    }

    /// The key that the next record will have; requests carry their key, so it must be known before the text is.
    pub fn next_key(&self) -> Key {
        Key(self.records.len() as u32)
    }

    /// One record.
    pub fn of(&self, key: Key) -> &Record {
        &self.records[key.0 as usize]
    }

    /// A modern list that was answered from memory is read again in the client's own name. That is no attempt to answer it,
    /// and an errand as any other.
    pub fn may_be_read_again(&self, key: Key) -> bool {
        let record = self.of(key);
        self.bodies_by_upstream.contains_key(&record.upstream) && catalogue::is_cacheable(record.method)
    }

    /// One record, if a peer did not make the key up.
    pub fn find(&self, key: Key) -> Option<&Record> {
        self.records.get(key.0 as usize)
    }

    /// Whether a client may be told this from memory, or in its server's stead.
    pub fn may_be_from_cache(&self, record: &Record, body: &[u8]) -> bool {
        let Some(bodies) = self.bodies_by_upstream.get(&record.upstream).filter(|_| catalogue::is_cacheable(record.method)) else {
            return false;
        };
        bodies.iter().any(|written| catalogue::is_same_but_for_ttl(body, written))
            || (record.method == Method::Initialize && catalogue::is_provisional(body))
    }

    /// One record, to write in.
    pub fn of_mut(&mut self, key: Key) -> &mut Record {
        &mut self.records[key.0 as usize]
    }

    /// All records.
    pub fn all(&self) -> impl Iterator<Item = (Key, &Record)> {
        self.records.iter().enumerate().map(|(place, record)| (Key(place as u32), record))
    }

    /// Requests that must still be answered: open, and made by a client that still reads.
    pub fn unanswered(&self) -> impl Iterator<Item = (Key, &Record)> {
        self.all().filter(|(_, record)| record.is_open() && record.arrived.is_some() && !self.is_gone(record.client))
    }

    /// So much time passes at once, for every request that is open.
    pub fn advance_open_requests(&mut self, time: Duration) {
        for record in self.records.iter_mut().filter(|record| record.answers == 0) {
            record.suspended += time;
        }
    }

    /// Whether a client reads no more.
    pub fn is_gone(&self, client: ClientId) -> bool {
        self.readers.get(&client).is_some_and(|reader| reader.gone)
    }
}
