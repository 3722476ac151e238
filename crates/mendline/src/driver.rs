//! The loop between one engine and its I/O.
//!
//! One task owns the engine, the client, every child and every exchange, and polls all of them by hand. It spawns
//! nothing per message, takes no lock and uses no channel. An iteration reads each source (a few lines, and at most one
//! read's worth of bytes), reads the clock once, runs the outputs of the engine, and gives each sink one write. It
//! writes to children before it reads their responses, so that they work meanwhile. A response leaves in the same poll
//! in which it arrives. Another iteration follows only if there is more to do: a source has more input, a child was
//! started or reaped, or a paused source may be read again. A typical call takes one iteration for the request and one
//! for the response. After `ITERATIONS_PER_POLL` iterations the task yields to the reactor, so that no peer can occupy
//! it.
//!
//! The driver decides nothing. It asks the engine whether a port may be read (`may_read`), lets sinks pull messages
//! (`poll_write`), counts accepted bytes, and keeps the order that `mendline_core::port` promises: the exit of a child
//! is reported after everything that the child wrote. `read.rs` reads, `peer_text.rs` redacts text of peers,
//! `outputs.rs` runs the outputs of the engine, `write.rs` writes.

mod clock;
mod host;
mod link;
mod outputs;
mod peer_text;
mod read;
mod sink;
mod source;
mod stall_detector;
mod wire;
mod write;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use mendline_core::port::Ending;
use mendline_core::{ClientId, Engine, Input, Moment, Port, UpstreamId};
use mendline_wire::Limits;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::observe::redact::Redactor;
use crate::transport::http::Http;
use clock::Clock;
pub use host::{CacheStore, Child, Direction, Drained, EventTime, Host, Observer};
use link::Link;
use sink::Sink;
use source::Source;
use stall_detector::StallDetector;

/// The limit of iterations before the task yields to the reactor.
const ITERATIONS_PER_POLL: usize = 32;

/// The client's side of a bridge.
pub struct Client<R, W> {
    /// Its id in the engine.
    pub id: ClientId,
    /// The server that it uses.
    pub upstream: UpstreamId,
    /// The stream that the client writes to.
    pub reader: R,
    /// The stream that the client reads from.
    pub writer: W,
}

/// One engine, one client, and the children and exchanges of the engine.
pub struct Driver<H: Host, R, W, O> {
    engine: Engine,
    host: H,
    /// Declared before the observer, so that it is dropped first and can still log.
    cache_store: Option<Box<dyn CacheStore>>,
    observer: O,
    /// Redacts text of servers where it enters.
    redactor: Redactor,
    /// The observer wants the messages on the wire.
    wire_enabled: bool,
    limits: Limits,
    client: ClientId,
    upstream: UpstreamId,
    from_client: Source<R>,
    to_client: Sink<W>,
    client_lost: bool,
    /// The time of the next check whether the client still reads. Set when the client has closed its output.
    next_client_check: Option<Moment>,
    /// The engine did not allow reading in the last iteration.
    client_paused: bool,
    links: Vec<Link<H::Child>>,
    remote: Option<Http<H::Dial>>,
    /// Former HTTP targets, until their open exchanges have ended.
    retired: Vec<Http<H::Dial>>,
    clock: Clock,
    stall_detector: StallDetector,
    finished: Option<(Moment, Ending)>,
}

impl<H, R, W, O> Driver<H, R, W, O>
where
    H: Host,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    O: Observer,
{
    /// Creates a driver. Must be called inside a tokio runtime, whose clock it uses.
    pub fn new(mut engine: Engine, limits: Limits, mut host: H, client: Client<R, W>, observer: O) -> Self {
        let redactor = Redactor::default();
        engine.quote_with(Arc::new(redactor.clone()));
        Self {
            engine,
            redactor,
            cache_store: None,
            wire_enabled: observer.wants_wire(),
            observer,
            client: client.id,
            upstream: client.upstream,
            from_client: Source::new(client.reader, limits.message_bytes),
            to_client: Sink::new(client.writer),
            client_lost: false,
            next_client_check: None,
            client_paused: false,
            links: Vec::new(),
            remote: host.remote(client.upstream),
            retired: Vec::new(),
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

    /// Sets the store for the list cache. Without it, nothing is stored.
    pub fn with_cache_store(mut self, store: Box<dyn CacheStore>) -> Self {
        self.cache_store = Some(store);
        self
    }

    /// Runs until every request is answered and every child is reaped. Each iteration polls `poll_external_input` for
    /// inputs that come neither from the client nor from a server: signals, commands, resume from sleep, network
    /// changes.
    pub async fn run(mut self, mut poll_external_input: impl FnMut(&mut Context<'_>) -> Poll<Input> + Send) -> Ending {
        let now = self.clock.now();
        self.engine.handle(Input::ClientOpened { client: self.client, upstream: self.upstream }, now);
        // The child starts before the first request is read, because the first answer waits for its start.
        self.run_outputs(now, &mut Iteration::default());
        poll_fn(|cx| self.poll(cx, &mut poll_external_input)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        poll_external_input: &mut impl FnMut(&mut Context<'_>) -> Poll<Input>,
    ) -> Poll<Ending> {
        let mut stalled = self.stall_detector.wake(self.clock.now());
        for _ in 0..ITERATIONS_PER_POLL {
            let now = self.clock.now();
            let mut iteration = Iteration::default();
            if let Poll::Ready(input) = poll_external_input(cx) {
                self.handle_external_input(input, now);
                iteration.again = true;
            }
            if std::mem::take(&mut stalled) {
                self.handle_external_input(Input::SystemResumed, now);
                iteration.again = true;
            }
            self.read_client(cx, now, &mut iteration);
            // Children start on new requests while we read their responses.
            self.write_links(cx, now);
            self.read_links(cx, now, &mut iteration);
            self.run_outputs(now, &mut iteration);
            // `read_remote` polls new exchanges below; they need no further iteration.
            iteration.exchange_changed = false;
            self.read_remote(cx, now, &mut iteration);
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
                || ((iteration.paused || self.remote.is_some()) && self.may_resume_reading());
            if !iteration.again {
                let due = self.next_deadline();
                if self.clock.poll_until(due, cx).is_pending() {
                    self.stall_detector.sleep_until(due);
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Passes an external input to the engine. After a resume or a network change, idle connections are closed: they
    /// may be dead, and a new connection costs less than a check.
    fn handle_external_input(&mut self, input: Input, now: Moment) {
        if matches!(input, Input::SystemResumed) && !self.stall_detector.is_new_stall(now) {
            return;
        }
        if let (Input::SystemResumed | Input::NetworkChanged, Some(http)) = (&input, &mut self.remote) {
            http.close();
        }
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
        suspicions.chain(self.engine.poll_timeout()).chain(finish).chain(self.next_client_check).min()
    }

    /// Returns whether a paused source may be read now.
    fn may_resume_reading(&self) -> bool {
        let client = !self.client_lost && self.client_paused && self.engine.may_read(Port::Client(self.client));
        let link = self.links.iter().any(|link| link.paused && self.engine.may_read(Port::Link(link.id)));
        let may_read = |exchange| self.engine.may_read(Port::Exchange(exchange));
        client || link || self.remote.iter().chain(&self.retired).any(|http| http.may_hear_again(may_read))
    }

    fn ended(&mut self, now: Moment) -> Option<Ending> {
        let (due, ended) = self.finished?;
        let flushed = self.to_client.is_closed() || self.to_client.is_empty();
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
