//! The loop between one engine and its I/O.
//!
//! One task owns the engine, every client, every child and every exchange, and polls all of them by hand. It spawns
//! nothing per message, and takes no lock and uses no channel unless a frontend does. Clients connect and leave while
//! it runs, and each may use another upstream; no upstream is special. An iteration reads each source (a few lines, and
//! at most one read's worth of bytes), reads the clock once, runs the outputs of the engine, and gives each sink one
//! write. It writes to children before it reads their responses, so that they work meanwhile. A response leaves in the
//! same poll in which it arrives. Another iteration follows only if there is more to do: a source has more input, a
//! child was started or reaped, or a paused source may be read again. A typical call takes one iteration for the
//! request and one for the response. After `ITERATIONS_PER_POLL` iterations the task yields to the reactor, so that no
//! peer can occupy it. It yields earlier when tokio's budget for the task is spent: then every stream refuses to be
//! polled, and further iterations would find nothing.
//!
//! The driver decides nothing. It asks the engine whether a port may be read (`may_read`), lets sinks pull messages
//! (`poll_write`), counts accepted bytes, and keeps the order that `mendline_core::port` promises: the exit of a child
//! is reported after everything that the child wrote. `read.rs` reads, `peer_text.rs` redacts text of peers,
//! `outputs.rs` runs the outputs of the engine. Sinks pull as much as they can write; a client that no longer reads is
//! detected then.

mod client;
mod clock;
mod host;
mod link;
mod members;
mod multi;
mod outputs;
mod peer_text;
mod read;
mod remotes;
pub(crate) mod sink;
pub(crate) mod source;
mod stall_detector;
mod wire;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use mendline_core::port::{Ending, Pipe};
use mendline_core::{ClientId, ClientStreams, Engine, Input, Moment, Port, StreamId, UpstreamId};
use mendline_wire::{Limits, Spliced};
use tokio::task::coop::has_budget_remaining;

use crate::credential::KeeperHandle;
use crate::frontend::{Frontend, MultiFrontend};
use crate::observe::redact::Redactor;
pub use client::Client;
use client::Connected;
use clock::Clock;
pub use host::{At, CacheStore, Child, Direction, Drained, Host, Observer};
use link::Link;
pub use members::AddedServer;
use members::Members;
use remotes::Remotes;
pub use source::Step;
use stall_detector::StallDetector;

/// The limit of iterations before the task yields to the reactor.
const ITERATIONS_PER_POLL: usize = 32;

/// An input of a driver that comes neither from a connected client nor from a server.
pub enum External<F> {
    /// An input of the engine: a signal, a command, the end of a sleep, a network change, a new configuration.
    Input(Input),
    /// A client has connected.
    Client(Client<F>),
    /// A server was added to the configuration.
    Server(Box<AddedServer>),
}

/// One engine, its clients, and the children and exchanges of the engine.
pub struct Driver<H: Host, F, O> {
    engine: Engine,
    host: H,
    /// Declared before the observer, so that they are dropped first and can still log.
    cache_stores: Vec<(UpstreamId, Box<dyn CacheStore>)>,
    keepers: Vec<(UpstreamId, KeeperHandle)>,
    observer: O,
    /// Redacts text of servers where it enters.
    redactor: Redactor,
    /// The observer wants the messages on the wire.
    wire_enabled: bool,
    limits: Limits,
    /// Clients that were not lost.
    clients: Vec<Connected<F>>,
    /// The frontend of all other clients.
    multi: Option<Box<dyn MultiFrontend>>,
    /// Streams of its clients for which messages wait.
    ready_streams: Vec<(ClientId, StreamId)>,
    links: Vec<Link<H::Child>>,
    remotes: Remotes<H::Dial>,
    members: Members,
    clock: Clock,
    stall_detector: StallDetector,
    finished: Option<(Moment, Ending)>,
}

impl<H: Host, F: Frontend, O: Observer> Driver<H, F, O> {
    /// Creates a driver. Must be called inside a tokio runtime, whose clock it uses.
    pub fn new(mut engine: Engine, limits: Limits, host: H, observer: O) -> Self {
        let redactor = Redactor::default();
        engine.quote_with(Arc::new(redactor.clone()));
        Self {
            engine,
            redactor,
            cache_stores: Vec::new(),
            keepers: Vec::new(),
            wire_enabled: observer.wants_wire(),
            observer,
            clients: Vec::new(),
            multi: None,
            ready_streams: Vec::new(),
            links: Vec::new(),
            remotes: Remotes::default(),
            members: Members::default(),
            clock: Clock::start(),
            stall_detector: StallDetector::default(),
            finished: None,
            host,
            limits,
        }
    }

    /// Sets the redactor for quoted text of servers. Without it, only text that looks like a credential is redacted.
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.engine.quote_with(Arc::new(redactor.clone()));
        self.redactor = redactor;
        self
    }

    /// Sets the store for the list cache of an upstream. Without it, nothing is stored.
    pub fn with_cache_store(mut self, upstream: UpstreamId, store: Box<dyn CacheStore>) -> Self {
        self.cache_stores.push((upstream, store));
        self
    }

    /// Sets the keeper of the credential of an upstream. Without it, the upstream has no renewable credential.
    pub(crate) fn with_keeper(mut self, upstream: UpstreamId, keeper: KeeperHandle) -> Self {
        self.keepers.push((upstream, keeper));
        self
    }

    /// Connects a client before the start. Without one, a driver whose engine lives as long as its clients waits for
    /// the first to connect.
    pub fn with_client(mut self, client: Client<F>) -> Self {
        self.clients.push(Connected::new(client));
        self
    }

    /// Sets a frontend with many clients.
    pub fn with_multi_frontend(mut self, frontend: Box<dyn MultiFrontend>) -> Self {
        self.multi = Some(frontend);
        self
    }

    /// Runs until every request is answered and every child is reaped. Each iteration polls `poll_external` for further
    /// clients, and for inputs that come neither from a client nor from a server.
    pub async fn run(mut self, mut poll_external: impl FnMut(&mut Context<'_>) -> Poll<External<F>> + Send) -> Ending {
        let now = self.clock.now();
        for client in &self.clients {
            self.engine.handle(
                Input::ClientOpened { client: client.id, upstream: client.upstream, streams: ClientStreams::One },
                now,
            );
        }
        // The child starts before the first request is read, because the first answer waits for its start.
        self.run_outputs(now, &mut Iteration::default());
        poll_fn(|cx| self.poll(cx, &mut poll_external)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        poll_external: &mut impl FnMut(&mut Context<'_>) -> Poll<External<F>>,
    ) -> Poll<Ending> {
        let mut stalled = self.stall_detector.wake(self.clock.now());
        for _ in 0..ITERATIONS_PER_POLL {
            let now = self.clock.now();
            let mut iteration = Iteration::default();
            while let Poll::Ready(external) = poll_external(cx) {
                iteration.again = true;
                match external {
                    External::Input(input) => self.handle_external_input(input, now),
                    External::Client(client) => self.connect(client, now),
                    External::Server(added) => {
                        // All of them are known before a client of one of them is read.
                        self.add_server(*added, now);
                        continue;
                    }
                }
                break;
            }
            if std::mem::take(&mut stalled) {
                self.handle_external_input(Input::SystemResumed, now);
                iteration.again = true;
            }
            self.read_clients(cx, now, &mut iteration);
            self.read_multi(cx, now, &mut iteration);
            // Children start on new requests while we read their responses.
            self.write_links(cx, now);
            self.read_links(cx, now, &mut iteration);
            self.run_outputs(now, &mut iteration);
            // `read_remotes` polls new exchanges below; they need no further iteration.
            iteration.exchange_changed = false;
            self.read_remotes(cx, now, &mut iteration);
            // After all reads: a response that arrived in time counts as in time, even if we read it late.
            self.handle_timeouts(now);
            self.run_outputs(now, &mut iteration);
            iteration.again |= self.write_all(cx, now);
            // A failed write is an input to the engine and may have caused outputs.
            self.run_outputs(now, &mut iteration);
            if let Some(ended) = self.ended(now) {
                return Poll::Ready(ended);
            }
            iteration.again |= iteration.exchange_changed
                || ((iteration.paused || !self.remotes.is_empty()) && self.may_resume_reading());
            if !iteration.again {
                let due = self.next_deadline();
                if self.clock.poll_until(due, cx).is_pending() {
                    self.stall_detector.sleep_until(due);
                    return Poll::Pending;
                }
            }
            if !has_budget_remaining() {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn write_links(&mut self, cx: &mut Context<'_>, now: Moment) {
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        for link in &mut self.links {
            let (port, upstream) = (Port::Link(link.id), link.id.upstream);
            let next = || {
                let shown = wire_enabled.then_some((&mut *observer, upstream, Direction::ToServer));
                next_message(engine, port, now, shown)
            };
            if link.stdin.poll_write(cx, next).is_err() {
                link.suspect(Pipe::Stdin, now);
            }
        }
    }

    /// Writes to every sink. Returns whether a client was lost.
    fn write_all(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        self.write_links(cx, now);
        self.write_multi(now);
        let (engine, observer, wire_enabled) = (&mut self.engine, &mut self.observer, self.wire_enabled);
        let mut is_lost = false;
        self.clients.retain_mut(|client| {
            let (port, upstream) = (Port::Client(client.id), client.upstream);
            let next = || {
                let shown = wire_enabled.then_some((&mut *observer, upstream, Direction::ToClient));
                next_message(engine, port, now, shown)
            };
            if client.frontend.poll_write(cx, next).is_ok() && !client.is_gone(cx, now) {
                return true;
            }
            engine.handle(Input::ClientLost { client: client.id }, now);
            is_lost = true;
            false
        });
        is_lost
    }

    fn connect(&mut self, client: Client<F>, now: Moment) {
        self.engine.handle(
            Input::ClientOpened { client: client.id, upstream: client.upstream, streams: ClientStreams::One },
            now,
        );
        self.clients.push(Connected::new(client));
    }

    /// Passes an external input to the engine. After a resume or a network change, idle connections are closed: they
    /// may be dead, and a new connection costs less than a check.
    fn handle_external_input(&mut self, input: Input, now: Moment) {
        if matches!(input, Input::SystemResumed) && !self.stall_detector.is_new_stall(now) {
            return;
        }
        if let Input::SystemResumed | Input::NetworkChanged = &input {
            self.remotes.close_idle();
            let now = SystemTime::now();
            self.keepers.iter().for_each(|(_, keeper)| keeper.check_again(now));
            self.remotes.await_credentials();
        }
        // The engine hears of a credential before the first exchange that uses it begins.
        if let Input::CredentialChanged { upstream, .. } | Input::CredentialFailed { upstream, .. } = &input {
            self.remotes.adopt_credential(*upstream);
        }
        self.pass_to_members(&input, now);
        self.engine.handle(input, now);
    }

    /// Passes expired deadlines to the engine, and broken pipes whose process is still alive.
    fn handle_timeouts(&mut self, now: Moment) {
        if self.engine.poll_timeout().is_some_and(|due| due <= now) {
            self.engine.handle_timeout(now);
        }
        for link in &mut self.links {
            while let Some(pipe) = link.confirmed(now) {
                self.engine.handle(Input::LinkBroken { link: link.id, pipe }, now);
            }
        }
    }

    fn next_deadline(&self) -> Option<Moment> {
        let suspicions = self.links.iter().filter_map(Link::next_suspicion);
        let finish = self.finished.map(|(due, _)| due);
        let checks = self.clients.iter().filter_map(|client| client.next_check);
        suspicions.chain(self.engine.poll_timeout()).chain(finish).chain(checks).min()
    }

    /// Returns whether a paused source may be read now.
    fn may_resume_reading(&self) -> bool {
        let client = self.clients.iter().any(|client| client.paused && self.engine.may_read(Port::Client(client.id)));
        let link = self.links.iter().any(|link| link.paused && self.engine.may_read(Port::Link(link.id)));
        let may_read = |exchange| self.engine.may_read(Port::Exchange(exchange));
        client || link || self.remotes.iter().any(|remote| remote.http.may_hear_again(may_read))
    }

    fn ended(&mut self, now: Moment) -> Option<Ending> {
        let (due, ended) = self.finished?;
        let flushed = self.clients.iter().all(|client| client.frontend.is_flushed())
            && self.multi.as_ref().is_none_or(|multi| multi.is_flushed());
        (flushed || due <= now).then_some(ended)
    }
}

/// The results of one iteration that decide whether another follows.
#[derive(Default)]
struct Iteration {
    /// There is more to do at once.
    again: bool,
    /// An exchange was started or aborted and has not been polled since.
    exchange_changed: bool,
    /// A source was not read, because the engine did not allow it.
    paused: bool,
}

/// Returns the next message for this port, and shows it if there is an observer.
fn next_message<O: Observer>(
    engine: &mut Engine,
    port: Port,
    now: Moment,
    shown: Option<(&mut O, UpstreamId, Direction)>,
) -> Option<Spliced> {
    let message = engine.poll_write(port, now)?;
    if let Some((observer, upstream, direction)) = shown {
        wire::show_message(observer, upstream, direction, &message);
    }
    Some(message)
}
