//! The one loop between an engine and the world.
//!
//! One task owns the engine, the client, every child and every exchange, and polls all of them by hand: nothing is
//! spawned, locked or sent through a channel for a message. A round takes what has come (a few lines and at most one read's
//! worth of bytes from each source), looks at the clock once, does what the engine asks, and hands each sink one write.
//! Children get theirs before their own answers are read, so that they work while we do.
//! An answer so leaves in the same poll in which it came. Another round follows only if there is a reason for one (a
//! source had more than its turn, a child was started or buried, leave to read was given): the usual call costs one round
//! down and one back. After `ITERATIONS_PER_POLL` of them the reactor gets its turn, so that no peer can keep it.
//!
//! The driver decides nothing. It asks the engine for leave to read (`may_read`), lets sinks pull (`poll_write`), counts
//! what was accepted, and keeps the order that `mendline_core::port` promises: above all that the end of a child is told
//! after everything it wrote. `hear.rs` is how it reads, `peer_text.rs` where secrets are hidden in what servers say,
//! `carry.rs` what it does for the engine, `speak.rs` how it writes.

mod clock;
mod peer_text;
mod host;
mod link;
mod outputs;
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
pub use host::{EventTime, Child, Drained, Host, CacheStore, Observer, Direction};
use link::Link;
use sink::Sink;
use source::Source;
use stall_detector::StallDetector;

/// How many rounds may follow each other before the reactor gets its turn.
const ITERATIONS_PER_POLL: usize = 32;

/// The client's side of a bridge: where it writes to us and where it reads from us.
pub struct Client<R, W> {
    /// Its name towards the engine.
    pub id: ClientId,
    /// The server that it talks to.
    pub upstream: UpstreamId,
    /// What it sends.
    pub reader: R,
    /// What it receives.
    pub writer: W,
}

/// One engine, one client, and the children that the engine asks for.
pub struct Driver<H: Host, R, W, O> {
    engine: Engine,
    host: H,
    /// Before the observer, so that it ends before it: what it has to say is heard.
    cache_store: Option<Box<dyn CacheStore>>,
    observer: O,
    /// Hides secrets in text of servers where it enters.
    redactor: Redactor,
    /// Whether the observer wants to see the messages themselves.
    wire_enabled: bool,
    limits: Limits,
    client: ClientId,
    upstream: UpstreamId,
    from_client: Source<R>,
    to_client: Sink<W>,
    client_lost: bool,
    /// The client sends no more; when to look whether it still reads.
    next_client_check: Option<Moment>,
    /// Not read from in the last round, for want of leave.
    client_paused: bool,
    links: Vec<Link<H::Child>>,
    remote: Option<Http<H::Dial>>,
    /// Ways over HTTP that were left, until what is open over them has ended.
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
    /// A driver that has not exchange_changed. Must be made inside a tokio runtime, whose clock is the one that counts.
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

    /// Hides the secrets that this one knows in every text of a server that is quoted. Without it, only what looks like a
    /// credential is hidden.
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.engine.quote_with(Arc::new(redactor.clone()));
        self.redactor = redactor;
        self
    }

    /// Gives what the engine wants to be kept to this one; without it, nothing is kept.
    pub fn with_cache_store(mut self, store: Box<dyn CacheStore>) -> Self {
        self.cache_store = Some(store);
        self
    }

    /// Runs until everything is answered and every child is buried. `poll_external_input` is asked in every round for what comes from
    /// neither side: that somebody wants us to stop or to reconnect, that the machine woke up, that its network changed.
    pub async fn run(mut self, mut poll_external_input: impl FnMut(&mut Context<'_>) -> Poll<Input> + Send) -> Ending {
        let now = self.clock.now();
        self.engine.handle(Input::ClientOpened { client: self.client, upstream: self.upstream }, now);
        // The child starts before the first request is even read: its start is what the first answer waits for.
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
            // Children begin with what was just asked while we still read what they have answered.
            self.write_links(cx, now);
            self.read_links(cx, now, &mut iteration);
            self.run_outputs(now, &mut iteration);
            // What was exchange_changed just now is heard here and needs no round of its own.
            iteration.exchange_changed = false;
            self.read_remote(cx, now, &mut iteration);
            // Not before everybody was heard: an answer that was there in time is in time, however late we look.
            self.handle_timeouts(now);
            self.run_outputs(now, &mut iteration);
            iteration.again |= self.write_all(cx, now);
            // Writing may have told the engine something, too.
            self.run_outputs(now, &mut iteration);
            if let Some(ended) = self.ended(now) {
                return Poll::Ready(ended);
            }
            iteration.again |= iteration.exchange_changed || ((iteration.paused || self.remote.is_some()) && self.may_resume_reading());
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

    /// Passes on what came from neither side. When the way to a server may have changed, connections that rest are not
    /// worth keeping: nobody knows whether they still lead anywhere, and a fresh one costs less than finding out.
    fn handle_external_input(&mut self, input: Input, now: Moment) {
        if matches!(input, Input::SystemResumed) && !self.stall_detector.is_new_stall(now) {
            return;
        }
        if let (Input::SystemResumed | Input::NetworkChanged, Some(http)) = (&input, &mut self.remote) {
            http.close();
        }
        self.engine.handle(input, now);
    }

    /// Tells the engine that its time has come, and about pipes whose process did not end after all.
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

    /// Whether a source that had to be passed over may be read now.
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

/// What a round found out about the need for another.
#[derive(Default)]
struct Iteration {
    /// There is more to do at once.
    again: bool,
    /// An exchange was exchange_changed or given up, and nobody has asked yet what became of it.
    exchange_changed: bool,
    /// A source was passed over, for want of leave to read.
    paused: bool,
}
