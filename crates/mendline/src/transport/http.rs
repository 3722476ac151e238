//! One upstream over HTTP.
//!
//! [`Http`] runs the exchanges that the engine starts and reports facts about each in the order that
//! `mendline_core::port` defines: `Reached` at most once, `Head` at most once, then events or a body, and one `End`,
//! which says how much of the request the peer can have received. This module decides only how bytes are transferred.
//! The engine decides from these facts whether a request may be sent again, so they must be correct. If a fact is
//! uncertain, the cautious value is reported.
//!
//! [`Http::poll_input`] polls everything, and nothing is spawned: connections (`connection`) are kept in a `pool`, each
//! exchange (`exchange`) is a state machine, and the ready queue (`ready`) names those to poll. The other modules lead
//! from a URL to bytes: `target` and `origin`, `proxy`, `dial`, `tls`, `connect`, and `write_tracker`, which counts the
//! bytes written.
//!
//! A request is sent twice in one case: a connection that was used before turns out to be dead before it has taken a
//! single byte. Then the request goes to a fresh connection without a report, because nothing was sent. A redirect
//! within the origin is followed too, since it proves that the request was not processed (see `redirect`).

mod addresses;
mod authorization;
mod body;
mod budget;
mod certificate;
mod challenge;
mod client_certificate;
mod coding;
mod connect;
mod connection;
mod dial;
mod dials;
mod exchange;
mod fatal_idle;
pub mod fetch;
#[doc(hidden)]
pub mod fuzzing;
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
mod tls;
mod transfer;
mod write_tracker;

use mendline_core::reason::{CutReason, RefusalReason};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::response::Parts;
use http::{StatusCode, Version};
use mendline_core::port::{Content, ExchangeEnd, ExchangeId, HttpRequest, Reuse, Written};
use mendline_core::{Input, defaults};
use mendline_wire::{Received, ReceivedEvent};
use tokio::time::Instant;

use crate::credential::CredentialCell;

pub use certificate::Certificate;
pub use challenge::Challenge;
pub use client_certificate::{ClientCertificate, ClientCertificateFault};
pub use dial::{Dial, Dialed, HostPort, LooksOpen, Tcp, TcpDial};
pub use origin::{Origin, UrlFault};
pub use proxy::{Proxy, ProxyFault, ProxyRules};
pub(crate) use target::header_to_send;
pub use target::{HeaderFault, Protocol, Target};
pub use tls::{NoCertificates, TlsOptions};

use authorization::Authorization;
use body::{Read, Reader};
use budget::Budget;
use connect::{connect, first_hop};
use connection::Freshness;
use dials::{Dialing, Dials};
use exchange::{Assignment, Exchange, Stage, Step};
use origin::Location;
use pool::{ConnectionId, Pool};
use ready::ReadyQueue;
use request::Heads;
use tls::TlsContext;
use transfer::{Failure, ResponseBody};

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
    /// Exchanges whose body has data that must not be read now.
    held: BTreeSet<ExchangeId>,
    /// The memory of unfinished bodies.
    budget: Budget,
    /// The most connections that may be busy at a time.
    connections: usize,
    facts: VecDeque<Input>,
    ready_queue: ReadyQueue<Key>,
    /// The HTTP version of the last connection.
    version: Option<Version>,
}

/// The owner of a waker.
#[derive(Clone, Copy, Debug)]
enum Key {
    Connection(ConnectionId),
    Dial(ConnectionId),
    Exchange(ExchangeId),
}

/// Returns how many connections may be busy when so many calls may be in flight: one for each call, for each
/// subscription, and for requests that are not calls.
fn connections(calls: usize) -> usize {
    calls.saturating_add(defaults::SUBSCRIPTION_STREAMS + defaults::CONNECTIONS_BESIDE_CALLS)
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
            held: BTreeSet::new(),
            budget: Budget::new(defaults::LEDGER, target.limits.message_bytes),
            connections: connections(defaults::IN_FLIGHT),
            facts: VecDeque::new(),
            ready_queue: ReadyQueue::new(),
            version: None,
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
        self.ready_queue.begin_poll();
        self.release_held(&may_read);
        if self.authorization.is_awaited() && self.authorization.poll_wait(cx) {
            self.needs_assignment = true;
        }
        for _ in 0..POLLS_PER_ITERATION {
            if let Some(fact) = self.facts.pop_front() {
                return Poll::Ready(fact);
            }
            if std::mem::take(&mut self.needs_assignment) {
                self.assign();
                continue;
            }
            match self.ready_queue.next() {
                Some(Key::Connection(id)) => self.poll_connection(id),
                Some(Key::Dial(id)) => self.poll_dial(id),
                Some(Key::Exchange(id)) => self.poll_exchange(id, &may_read),
                None if self.pool.poll_idle_timer(cx) => {}
                None if self.is_stuck(cx, &may_read) => self.give_up_largest(),
                None => {
                    self.ready_queue.wait(cx);
                    return Poll::Pending;
                }
            }
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

    /// Assigns connections to waiting exchanges, and dials as many new connections as are needed.
    fn assign(&mut self) {
        if self.authorization.is_awaited() {
            return;
        }
        // If there is no connection for one exchange, there is none for others that require the same, and if any
        // connection would do, there is none at all. So many exchanges that wait for dials cost little.
        let mut unassigned = Vec::new();
        let mut exhausted: Option<Freshness> = None;
        while exhausted != Some(Freshness::By(Reuse::Any))
            && let Some(id) = self.waiting.pop_front()
        {
            let Some(freshness) = self.exchanges.get(&id).map(|exchange| exchange.freshness()) else { continue };
            if exhausted == Some(freshness) || !self.assign_one(id, freshness) {
                exhausted = Some(freshness);
                unassigned.push(id);
            }
        }
        unassigned.into_iter().rev().for_each(|id| self.waiting.push_front(id));
        // If one connection can carry all exchanges, or might, one dial is enough.
        let shared = match self.version {
            Some(version) => version == Version::HTTP_2,
            None => self.target.location.origin.secure || self.target.protocol == Protocol::Http2,
        };
        let wanted = if shared { self.waiting.len().min(1) } else { self.waiting.len() };
        // The limit keeps a server, or a proxy in front of it, from being flooded with connections.
        let wanted = wanted.min(self.connections.saturating_sub(self.pool.busy()));
        // An exchange that waited may have got a connection of another one meanwhile. If its dial were dropped, the pool
        // could not grow to the number of calls in flight, and every call would begin a dial in vain.
        let may_keep = !shared && (wanted > 0 || !self.dials.is_empty());
        let kept = if may_keep { self.pool.missing(self.waiting.len()) } else { 0 };
        let (target, tls, ready_queue, dial) = (&self.target, &self.tls, &self.ready_queue, &self.dial);
        self.dials.set_wanted(wanted, kept, |id| {
            let dialed = dial.dial(&first_hop(target), target.connect_timeout);
            let dialing: Dialing<D::Io> = Box::pin(connect(dialed, Arc::clone(target), Arc::clone(tls)));
            (dialing, ready_queue.ready_waker(Key::Dial(id)))
        });
    }

    /// Returns whether the exchange no longer waits.
    fn assign_one(&mut self, id: ExchangeId, freshness: Freshness) -> bool {
        while let Some(connection) = self.pool.choose(freshness) {
            if self.send(id, connection) {
                return true;
            }
        }
        false
    }

    /// Sends an exchange on a connection. Returns false if the connection did not take it.
    fn send(&mut self, id: ExchangeId, connection: ConnectionId) -> bool {
        let (Some(exchange), Some(chosen)) = (self.exchanges.get_mut(&id), self.pool.get(connection)) else {
            return true;
        };
        let reused = chosen.is_used();
        let now = Instant::now();
        exchange.sent_after_idle = chosen.idle_time(now).map(|idle| (now, idle));
        let credential = self.authorization.headers();
        let head = self.heads.head(&self.target, &exchange.location, &exchange.request, chosen.version(), credential);
        let head = match head {
            Ok(head) => head,
            Err(why) => {
                self.exchanges.remove(&id);
                self.end(id, ExchangeEnd::Forbidden(why), Written::Nothing);
                return true;
            }
        };
        let Some((response, upload, evidence)) = self.pool.send(connection, head, exchange.request.body.as_ref())
        else {
            return false;
        };
        let assignment = Assignment::new(connection, reused, evidence, upload);
        exchange.stage = Stage::Sent { assignment, response };
        exchange.waker.wake_by_ref();
        if !std::mem::replace(&mut exchange.reached, true) {
            self.facts.push_back(Input::Reached { exchange: id });
        }
        true
    }

    fn poll_dial(&mut self, id: ConnectionId) {
        let Some(made) = self.dials.poll(id) else {
            return;
        };
        self.needs_assignment = true;
        let how = match made {
            Ok(connection) => {
                self.version = Some(connection.version());
                self.pool.add(id, connection, self.ready_queue.ready_waker(Key::Connection(id)));
                return;
            }
            Err(error) if error.is_permanent() => ExchangeEnd::Forbidden(RefusalReason::Connect(error)),
            Err(error) => ExchangeEnd::NoConnection(error),
        };
        // While other dials run, only the first waiting exchange fails; otherwise all fail.
        let failed = if self.dials.is_empty() { self.waiting.len() } else { self.waiting.len().min(1) };
        for exchange in self.waiting.drain(..failed).collect::<Vec<_>>() {
            self.exchanges.remove(&exchange);
            self.end(exchange, how.clone(), Written::Nothing);
        }
    }

    fn poll_connection(&mut self, id: ConnectionId) {
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
        if exchange.is_reading() && !(may_read(id) && self.budget.may_read(id)) {
            self.held.insert(id);
            return;
        }
        match exchange.poll() {
            Step::Wait => {}
            Step::Read(Read::Wait) => {
                if exchange.take_new_bytes() {
                    self.facts.push_back(Input::ResponseBytes { exchange: id });
                }
                self.update_held(id);
            }
            Step::Read(Read::Event(event)) => {
                exchange.waker.wake_by_ref();
                self.update_held(id);
                let event = ReceivedEvent::new(event, &self.target.limits);
                self.facts.push_back(Input::StreamEvent { exchange: id, event });
            }
            Step::Answered { assignment, parts, body } => self.answered(id, assignment, &parts, body),
            Step::Read(Read::Done(body)) => {
                if let Some(text) = body {
                    let received = Received::from_text(text, &self.target.limits);
                    self.facts.push_back(Input::Body { exchange: id, received });
                }
                let stage = self.exchanges.remove(&id).map(|exchange| exchange.stage);
                if let Some(Stage::Reading { assignment, body, idle_limit, .. }) = stage {
                    let written = self.finish(&assignment, idle_limit, body);
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

    /// Handles the head of a response.
    fn answered(&mut self, id: ExchangeId, assignment: Assignment, parts: &Parts, body: ResponseBody) {
        if let Some((_, idle)) = self.exchanges.get(&id).and_then(|exchange| exchange.sent_after_idle) {
            self.pool.note_answered(idle);
        }
        if parts.version == Version::HTTP_2 && response::head_length(parts) > self.target.head_bytes {
            drop(body);
            self.exchanges.remove(&id);
            let written = self.abandon(&assignment);
            self.end(id, ExchangeEnd::TooLarge, written);
            return;
        }
        if let Some(to) = redirect::target_of(parts) {
            return self.redirected(id, &assignment, parts, body, &to);
        }
        if matches!(parts.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.authorization.note_refusal(&parts.headers);
        }
        let idle_limit = response::idle_limit(parts);
        let head = response::head(parts, body.is_over(), SystemTime::now);
        let content = head.content;
        self.facts.push_back(Input::Head { exchange: id, head });
        let limit = self.target.limits.message_bytes;
        if content == Content::Empty {
            self.exchanges.remove(&id);
            let written = self.finish(&assignment, idle_limit, body);
            self.end(id, ExchangeEnd::Complete, written);
            return;
        }
        let inflater = match coding::inflater_for(&parts.headers) {
            Ok(inflater) => inflater,
            Err(reason) => {
                drop(body);
                self.exchanges.remove(&id);
                let written = self.abandon(&assignment);
                self.end(id, ExchangeEnd::Cut(reason), written);
                return;
            }
        };
        let reader = match content {
            Content::Events => Reader::events(limit, inflater),
            _ => Reader::whole(limit, inflater),
        };
        let announced = response::length(parts).filter(|_| content != Content::Events);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.stage = Stage::Reading { assignment, body, reader, idle_limit };
            // The body is not sent again, so it is not kept while the response streams for hours.
            exchange.request.body = None;
            exchange.waker.wake_by_ref();
        }
        if announced.is_some_and(|length| length > limit as u64) {
            self.fail(id, ExchangeEnd::TooLarge);
        }
    }

    /// Handles a redirect.
    fn redirected(&mut self, id: ExchangeId, assignment: &Assignment, parts: &Parts, body: ResponseBody, to: &str) {
        let head = response::head(parts, body.is_over(), SystemTime::now);
        let written = self.finish(assignment, response::idle_limit(parts), body);
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        match redirect::follow(parts.status, &exchange.location, to, exchange.redirects) {
            Ok(location) => {
                exchange.redirects += 1;
                exchange.location = Arc::new(location);
                self.waiting.push_front(id);
            }
            Err(why) => {
                self.exchanges.remove(&id);
                self.facts.push_back(Input::Head { exchange: id, head });
                self.end(id, ExchangeEnd::Forbidden(why), written);
            }
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
    fn finish(&mut self, assignment: &Assignment, idle_limit: Option<Duration>, body: ResponseBody) -> Written {
        if !assignment.is_request_written() {
            drop(body);
            return self.abandon(assignment);
        }
        self.pool.release(assignment.connection, idle_limit, body);
        self.needs_assignment = true;
        Written::Whole
    }

    fn end(&mut self, exchange: ExchangeId, how: ExchangeEnd, written: Written) {
        self.held.remove(&exchange);
        self.budget.update(exchange, 0);
        self.facts.push_back(Input::End { exchange, how, written });
    }
}
