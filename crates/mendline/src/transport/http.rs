//! One upstream over HTTP.
//!
//! [`Http`] runs the exchanges that the engine starts and reports facts about each in the order that
//! `mendline_core::port` defines: `Reached` at most once, `Head` at most once, then events or a body, and one `End`,
//! which says how much of the request the peer can have received. This module decides only how bytes are transferred.
//! The engine decides from these facts whether a request may be sent again, so they must be correct. If a fact is
//! uncertain, the cautious value is reported.
//!
//! [`Http::poll_input`] polls everything, and nothing is spawned: connections (`connection`) are kept in a `pool`, each
//! exchange (`exchange`) is a state machine, `assign` gives it a connection, and the ready queue (`ready`) names those to
//! poll. The other modules lead from a URL to bytes: `target` and `origin`, `proxy`, `dial`, `tls`, `connect`, and
//! `write_tracker`, which counts the bytes written.
//!
//! A request is sent twice in one case: a connection that was used before turns out to be dead before it has taken a
//! single byte. Then the request goes to a fresh connection without a report, because nothing was sent. A redirect
//! within the origin is followed too, since it proves that the request was not processed (see `redirect`).

mod addresses;
mod assign;
mod authorization;
mod body;
mod budget;
mod certificate;
pub(crate) mod certificate_files;
mod challenge;
mod client_certificate;
mod coding;
mod connect;
mod connection;
mod dial;
mod dials;
mod exchange;
mod facts;
mod fatal_idle;
pub mod fetch;
#[doc(hidden)]
pub mod fuzzing;
mod h1;
mod head;
mod keepalive;
mod origin;
mod pool;
pub mod probe;
mod proxy;
mod rate_limit;
mod ready;
mod recent_use;
mod redirect;
mod request;
mod response;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod transfer;
mod write_tracker;

use mendline_core::reason::{CutReason, RefusalReason};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use mendline_core::port::{ExchangeEnd, ExchangeId, HttpRequest, Reuse, Written};
use mendline_core::{Input, defaults};
use mendline_wire::{Received, ReceivedEvent};
use tokio::task::coop::has_budget_remaining;
use tokio::time::Instant;

use crate::credential::CredentialCell;

pub use certificate::Certificate;
pub use certificate_files::CertificateFault;
pub use challenge::Challenge;
pub use client_certificate::ClientCertificate;
pub use dial::{Dial, Dialed, HostPort, LooksOpen, Tcp, TcpDial};
pub use origin::{Origin, UrlFault};
pub use proxy::{Proxy, ProxyFault, ProxyRules};
pub(crate) use target::header_to_send;
pub use target::{HeaderFault, Protocol, Target};
pub use tls::{NoCertificates, TlsOptions};

use assign::connections;
use authorization::Authorization;
use body::Read;
use budget::Budget;
use dials::Dials;
use exchange::{Assignment, Exchange, Stage, Step};
use facts::Facts;
use origin::Location;
use pool::{ConnectionId, Pool};
use ready::ReadyQueue;
use request::Heads;
use tls::TlsContext;
use transfer::Failure;

/// The most polls before the driver gets control again.
const POLLS_PER_ITERATION: usize = 64;

/// The time after a request within which its connection ends if the request has met the close of an idle connection:
/// the close was under way already. A later end has another cause.
const CROSSING: Duration = Duration::from_secs(1);

/// All exchanges with one upstream.
pub struct Http<D: Dial = TcpDial> {
    target: Arc<Target>,
    /// The location of the target, shared by the exchanges that go there.
    home: Arc<Location>,
    heads: Heads,
    authorization: Authorization,
    tls: Arc<TlsContext>,
    dial: D,
    pool: Pool<D::Io>,
    dials: Dials<D::Io>,
    /// Boxed, because a tree moves its values.
    exchanges: BTreeMap<ExchangeId, Box<Exchange>>,
    /// Exchanges without a connection, the longest waiting first.
    waiting: VecDeque<ExchangeId>,
    /// A connection or a waiting exchange has changed, so that an assignment may be possible.
    needs_assignment: bool,
    /// Exchanges that are read on after their last fact was reported: only then the caller can decide whether they may.
    reported: Vec<ExchangeId>,
    /// Exchanges whose body has data that must not be read now.
    held: BTreeSet<ExchangeId>,
    /// The memory of unfinished bodies.
    budget: Budget,
    /// The most connections that may be busy at a time.
    connections: usize,
    /// Facts that were found and not yet returned.
    facts: Facts,
    /// The time, as it was last read. It is read again after all facts were returned.
    now: Option<Instant>,
    ready_queue: ReadyQueue<Key>,
    /// The HTTP version of the last connection.
    version: Option<Version>,
    /// The number of searches for a connection, for the tests of the cost of a call.
    #[cfg(test)]
    searches: usize,
}

/// The owner of a waker.
#[derive(Clone, Copy, Debug)]
enum Key {
    Connection(ConnectionId),
    Dial(ConnectionId),
    Exchange(ExchangeId),
}

impl<D: Dial> Http<D> {
    /// Creates an upstream without connections.
    pub fn new(target: Target, dial: D) -> Http<D> {
        let tls = TlsContext::new(target.tls.clone(), target.protocol);
        Http {
            home: Arc::new(target.location.clone()),
            heads: Heads::default(),
            authorization: Authorization::default(),
            tls: Arc::new(tls),
            dial,
            pool: Pool::new(),
            dials: Dials::new(),
            exchanges: BTreeMap::new(),
            waiting: VecDeque::new(),
            needs_assignment: false,
            reported: Vec::new(),
            held: BTreeSet::new(),
            budget: Budget::new(defaults::LEDGER, target.limits.message_bytes),
            connections: connections(defaults::IN_FLIGHT),
            facts: Facts::default(),
            now: None,
            ready_queue: ReadyQueue::new(),
            version: None,
            #[cfg(test)]
            searches: 0,
            target: Arc::new(target),
        }
    }

    /// Adds the credential of this cell to every request. It replaces configured headers of the same name.
    pub fn with_credential(mut self, cell: Arc<CredentialCell>) -> Http<D> {
        self.authorization = Authorization::new(cell);
        self
    }

    /// Uses the latest credential of the cell for requests that are sent from now on.
    pub fn adopt_credential(&mut self) {
        self.authorization.adopt();
        self.needs_assignment = true;
    }

    /// Lets new exchanges wait a moment, if the source of the credential is about to be read.
    pub fn await_credential(&mut self) {
        self.authorization.await_next();
    }

    /// Begins an exchange. The caller must call [`Http::poll_input`] afterwards, which reports its facts: no waker is
    /// woken for actions of the caller.
    pub fn begin(&mut self, exchange: ExchangeId, request: HttpRequest, reuse: Reuse) {
        let waker = self.ready_queue.waker(Key::Exchange(exchange));
        let home = || Ok(Arc::clone(&self.home));
        match request.target.as_deref().map_or_else(home, |named| self.resolve(named).map(Arc::new)) {
            Ok(location) => {
                self.exchanges.insert(exchange, Box::new(Exchange::new(request, location, reuse, waker)));
                self.waiting.push_back(exchange);
                self.needs_assignment = true;
            }
            Err(why) => self.end(exchange, ExchangeEnd::Forbidden(why), Written::Nothing),
        }
    }

    /// Aborts an exchange. The next [`Http::poll_input`] reports its `End`, unless it has ended already.
    pub fn abort(&mut self, exchange: ExchangeId) {
        let Some(mut given_up) = self.exchanges.remove(&exchange) else {
            return;
        };
        self.needs_assignment = true;
        let written = match std::mem::replace(&mut given_up.stage, Stage::Waiting) {
            Stage::Waiting => {
                self.waiting.retain(|waiting| *waiting != exchange);
                Written::Nothing
            }
            Stage::Sent { assignment, response } => {
                drop(response);
                self.abandon(&assignment)
            }
            Stage::Reading { assignment, body, .. } => {
                drop(body);
                self.abandon(&assignment)
            }
        };
        self.end(exchange, ExchangeEnd::Aborted, written);
    }

    /// Returns the next fact about any exchange. It must be polled until it is pending. `may_read` tells whether the
    /// body of an exchange may be read now.
    pub fn poll_input(&mut self, cx: &mut Context<'_>, may_read: impl Fn(ExchangeId) -> bool) -> Poll<Input> {
        if let Some(fact) = self.facts.pop() {
            return Poll::Ready(fact);
        }
        self.ready_queue.begin_poll();
        self.release_held(&may_read);
        self.continue_reported();
        self.now = None;
        if self.authorization.is_awaited() && self.authorization.poll_wait(cx) {
            self.needs_assignment = true;
        }
        for _ in 0..POLLS_PER_ITERATION {
            if std::mem::take(&mut self.needs_assignment) {
                self.assign();
                continue;
            }
            match self.ready_queue.next() {
                Some(Key::Connection(id)) => self.poll_connection(id, &may_read),
                Some(Key::Dial(id)) => self.poll_dial(id),
                Some(Key::Exchange(id)) => self.poll_exchange(id, &may_read),
                None if !self.facts.is_empty() => break,
                None if self.pool.poll_idle_timer(cx) => {}
                None if self.is_stuck(cx, &may_read) => self.give_up_largest(),
                None => {
                    self.ready_queue.wait(cx);
                    return Poll::Pending;
                }
            }
            // Without budget every stream refuses to be polled until the task has yielded.
            if self.facts.is_full() || !has_budget_remaining() {
                break;
            }
        }
        if let Some(fact) = self.facts.pop() {
            return Poll::Ready(fact);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns whether an exchange that was held back may be read now.
    pub(crate) fn may_hear_again(&self, may_read: impl Fn(ExchangeId) -> bool) -> bool {
        self.held.iter().any(|exchange| may_read(*exchange) && self.budget.may_read(*exchange))
    }

    /// Returns the number of bytes of unfinished bodies and events that are buffered.
    pub fn buffered(&self) -> usize {
        self.budget.held()
    }

    /// Sets the number of calls that may be in flight, which bounds the number of connections.
    pub fn limit_calls(&mut self, calls: usize) {
        self.connections = connections(calls);
    }

    /// Sets the number of bytes of unfinished bodies and events that may be buffered.
    pub fn limit_buffers(&mut self, bytes: usize) {
        self.budget.set_limit(bytes);
    }

    /// Returns whether no exchange is open and no fact is left to report.
    pub fn is_over(&self) -> bool {
        self.exchanges.is_empty() && self.facts.is_empty()
    }

    /// Closes every idle connection. Running exchanges continue.
    pub fn close(&mut self) {
        self.pool.close_idle();
    }

    /// Resolves an endpoint that the server named, if it is within the server's origin.
    fn resolve(&self, named: &str) -> Result<Location, RefusalReason> {
        let home = &self.target.location;
        let elsewhere = |to: Option<String>| RefusalReason::Endpoint { from: home.origin.to_string(), to };
        match home.resolve(named) {
            Ok(location) if location.origin == home.origin => Ok(location),
            Ok(location) => Err(elsewhere(Some(location.origin.to_string()))),
            Err(_) => Err(elsewhere(None)),
        }
    }

    /// Wakes the exchanges whose facts were reported.
    fn continue_reported(&mut self) {
        for id in self.reported.drain(..) {
            if let Some(exchange) = self.exchanges.get_mut(&id) {
                exchange.has_unreported = false;
                exchange.waker.wake_by_ref();
            }
        }
    }

    fn release_held(&mut self, may_read: &impl Fn(ExchangeId) -> bool) {
        let (exchanges, budget) = (&self.exchanges, &self.budget);
        self.held.retain(|id| match exchanges.get(id) {
            Some(exchange) if may_read(*id) && budget.may_read(*id) => {
                exchange.waker.wake_by_ref();
                false
            }
            Some(_) => true,
            None => false,
        });
    }

    fn poll_connection(&mut self, id: ConnectionId, may_read: &impl Fn(ExchangeId) -> bool) {
        if let Some(exchange) = self.pool.exchange_on(id) {
            return self.poll_exchange(exchange, may_read);
        }
        let Some(words) = self.pool.poll(id) else {
            return;
        };
        self.needs_assignment = true;
        for exchange in self.exchanges.values_mut() {
            if let Some(assignment) = exchange.assignment_mut().filter(|assignment| assignment.connection == id) {
                assignment.broken = Some(words.clone());
            }
        }
    }

    fn poll_exchange(&mut self, id: ExchangeId, may_read: &impl Fn(ExchangeId) -> bool) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.has_unreported {
            return;
        }
        if exchange.is_reading() && !(may_read(id) && self.budget.may_read(id)) {
            exchange.poll_write(&mut self.pool);
            self.held.insert(id);
            return;
        }
        match exchange.poll(&mut self.pool) {
            Step::Wait => {}
            Step::Read(Read::Wait) => {
                if exchange.take_new_bytes() {
                    self.facts.push(Input::ResponseBytes { exchange: id });
                }
                self.update_held(id);
            }
            Step::Read(Read::Event(event)) => {
                exchange.has_unreported = true;
                self.reported.push(id);
                self.update_held(id);
                let length = event.data.as_ref().map_or(0, Bytes::len);
                let event = ReceivedEvent::new(event, &self.target.limits);
                self.facts.push_message(Input::StreamEvent { exchange: id, event }, length);
            }
            Step::Answered { assignment, answer } => self.answered(id, assignment, *answer),
            Step::Read(Read::Done(body)) => {
                if let Some(text) = body {
                    let length = text.len();
                    let received = Received::from_text(text, &self.target.limits);
                    self.facts.push_message(Input::Body { exchange: id, received }, length);
                }
                let stage = self.exchanges.remove(&id).map(|exchange| exchange.stage);
                if let Some(Stage::Reading { assignment, body, .. }) = stage {
                    drop(body);
                    let written = self.finish(&assignment);
                    self.end(id, ExchangeEnd::Complete, written);
                }
            }
            Step::Read(Read::TooLarge) => self.fail(id, ExchangeEnd::TooLarge),
            Step::Failed(failure) | Step::Read(Read::Failed(failure)) => {
                let how = match failure {
                    Failure::HeadTooLarge => ExchangeEnd::TooLarge,
                    Failure::Refused => ExchangeEnd::Refused,
                    Failure::Cut(reason) => ExchangeEnd::Cut(reason),
                    Failure::Returned => ExchangeEnd::Cut(CutReason::ClosedAtOnce),
                };
                self.fail(id, how);
            }
        }
    }

    /// Updates how much of its body an exchange buffers.
    fn update_held(&mut self, id: ExchangeId) {
        let held = self.exchanges.get(&id).map_or(0, |exchange| exchange.held());
        self.budget.update(id, held);
    }

    /// Returns whether exchanges have been held back too long for lack of memory and for no other reason.
    fn is_stuck(&mut self, cx: &mut Context<'_>, may_read: &impl Fn(ExchangeId) -> bool) -> bool {
        let is_starved = |id: &ExchangeId| may_read(*id) && !self.budget.may_read(*id);
        let any_starved = self.held.iter().any(is_starved);
        self.budget.poll_stuck(any_starved, cx)
    }

    /// Gives up the exchange with the largest buffered body, so that the others can be read to their end.
    fn give_up_largest(&mut self) {
        if let Some(id) = self.budget.largest() {
            self.fail(id, ExchangeEnd::Cut(CutReason::Memory));
        }
    }

    /// Handles a failed exchange. If its connection was used before and was dead before it took a byte, the exchange
    /// gets a fresh connection; otherwise it ends.
    fn fail(&mut self, id: ExchangeId, how: ExchangeEnd) {
        let Some(mut exchange) = self.exchanges.remove(&id) else {
            return;
        };
        self.needs_assignment = true;
        let cut = matches!(how, ExchangeEnd::Cut(_));
        let assignment = match std::mem::replace(&mut exchange.stage, Stage::Waiting) {
            Stage::Waiting => return,
            Stage::Reading { assignment, .. } => assignment,
            Stage::Sent { assignment, .. } => {
                if let Some((sent, idle)) = exchange.sent_after_idle.filter(|_| cut)
                    && sent.elapsed() < CROSSING
                {
                    self.pool.note_lost(idle);
                }
                assignment
            }
        };
        let written = self.abandon(&assignment);
        if cut && written == Written::Nothing && assignment.reused && !exchange.is_second_try {
            exchange.is_second_try = true;
            self.waiting.push_front(id);
            self.exchanges.insert(id, exchange);
            return;
        }
        let how = match (how, assignment.broken) {
            (ExchangeEnd::Cut(_), Some(better)) if matches!(assignment.evidence, transfer::Evidence::Http2 { .. }) => {
                ExchangeEnd::Cut(better)
            }
            (how, _) => how,
        };
        self.end(id, how, written);
    }

    /// Removes an exchange that did not complete from its connection. Returns how much of its request was written.
    fn abandon(&mut self, assignment: &Assignment) -> Written {
        self.pool.give_up(assignment.connection);
        self.needs_assignment = true;
        assignment.evidence.written(!self.pool.holds(assignment.connection))
    }

    /// Removes a completed exchange from its connection, which stays open unless part of the request is unsent.
    fn finish(&mut self, assignment: &Assignment) -> Written {
        if !assignment.is_request_written() {
            return self.abandon(assignment);
        }
        let now = self.now();
        self.pool.release(assignment.connection, now);
        self.needs_assignment = true;
        Written::Whole
    }

    /// Returns the time. Facts that are reported together share one reading of the clock.
    fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }

    fn end(&mut self, exchange: ExchangeId, how: ExchangeEnd, written: Written) {
        self.held.remove(&exchange);
        self.budget.update(exchange, 0);
        self.facts.push(Input::End { exchange, how, written });
    }
}
