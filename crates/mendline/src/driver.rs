//! The one loop between an engine and the world.
//!
//! One task owns the engine, the client, every child and every exchange, and polls all of them by hand: nothing is spawned, locked or
//! sent through a channel for a message. A round takes what has come (at most `INPUTS_PER_TURN` lines and one read's
//! worth of bytes from each source), looks at the clock once, does what the engine asks, and hands each sink one write.
//! Children get theirs before their own answers are read, so that they work while we do.
//! An answer so leaves in the same poll in which it came. Another round follows only if there is a reason for one (a
//! source had more than its turn, a child was started or buried, leave to read was given): the usual call costs one round
//! down and one back. After `ROUNDS_PER_POLL` of them the reactor gets its turn, so that no peer can keep it.
//!
//! The driver decides nothing. It asks the engine for leave to read (`may_read`), lets sinks pull (`poll_write`), counts
//! what was accepted, and keeps the order that `mendline_core::port` promises: above all that the end of a child is told
//! after everything it wrote.

mod clock;
mod host;
mod link;
mod sink;
mod source;
mod vigil;
mod wire;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mendline_core::defaults::LAST_WORDS;
use mendline_core::port::{EndHow, Ending, Pipe, Written};
use mendline_core::{ClientId, Engine, Input, LinkId, Moment, Output, Port, UpstreamId};
use mendline_wire::{Limits, Line, Received};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::transport::http::{Dial, Http};
use clock::Clock;
pub use host::{Child, Drained, Host, Keeper, Observer, Way};
use link::Link;
use sink::Sink;
use source::{READ_CHUNK, Source, Step};
use vigil::Vigil;

/// How many lines one source may deliver before the others get their turn. A long burst goes on in pieces: whoever gets the
/// first of them works while we read the next.
const INPUTS_PER_TURN: usize = 8;

/// How many rounds may follow each other before the reactor gets its turn.
const ROUNDS_PER_POLL: usize = 32;

/// How often we look whether a client that sends no more still reads.
const LOOK: Duration = Duration::from_secs(1);

/// How many outputs are carried out in one round.
const OUTPUTS_PER_ROUND: usize = 1024;

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
    keeper: Option<Box<dyn Keeper>>,
    observer: O,
    /// Whether the observer wants to see the messages themselves.
    wired: bool,
    limits: Limits,
    client: ClientId,
    upstream: UpstreamId,
    from_client: Source<R>,
    to_client: Sink<W>,
    client_lost: bool,
    /// The client sends no more; when to look whether it still reads.
    next_look: Option<Moment>,
    /// Not read from in the last round, for want of leave.
    client_held: bool,
    links: Vec<Link<H::Child>>,
    remote: Option<Http<H::Dial>>,
    /// Ways over HTTP that were left, until what is open over them has ended.
    left: Vec<Http<H::Dial>>,
    clock: Clock,
    vigil: Vigil,
    finished: Option<(Moment, Ending)>,
}

impl<H, R, W, O> Driver<H, R, W, O>
where
    H: Host,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    O: Observer,
{
    /// A driver that has not begun. Must be made inside a tokio runtime, whose clock is the one that counts.
    pub fn new(engine: Engine, limits: Limits, mut host: H, client: Client<R, W>, observer: O) -> Self {
        Self {
            engine,
            keeper: None,
            wired: observer.wants_wire(),
            observer,
            client: client.id,
            upstream: client.upstream,
            from_client: Source::new(client.reader, limits.message_bytes),
            to_client: Sink::new(client.writer),
            client_lost: false,
            next_look: None,
            client_held: false,
            links: Vec::new(),
            remote: host.remote(client.upstream),
            left: Vec::new(),
            clock: Clock::start(),
            vigil: Vigil::default(),
            finished: None,
            host,
            limits,
        }
    }

    /// Gives what the engine wants to be kept to this one; without it, nothing is kept.
    pub fn keeping(mut self, keeper: Box<dyn Keeper>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Runs until everything is answered and every child is buried. `poll_news` is asked in every round for what comes from
    /// neither side: that somebody wants us to stop or to reconnect, that the machine woke up, that its network changed.
    pub async fn run(mut self, mut poll_news: impl FnMut(&mut Context<'_>) -> Poll<Input> + Send) -> Ending {
        let now = self.clock.now();
        self.engine.handle(Input::ClientOpened { client: self.client, upstream: self.upstream }, now);
        // The child starts before the first request is even read: its start is what the first answer waits for.
        self.carry_out(now, &mut Turn::default());
        poll_fn(|cx| self.poll(cx, &mut poll_news)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        poll_news: &mut impl FnMut(&mut Context<'_>) -> Poll<Input>,
    ) -> Poll<Ending> {
        let mut stood_still = self.vigil.rise(self.clock.now());
        for _ in 0..ROUNDS_PER_POLL {
            let now = self.clock.now();
            let mut turn = Turn::default();
            if let Poll::Ready(news) = poll_news(cx) {
                self.hear_news(news, now);
                turn.again = true;
            }
            if std::mem::take(&mut stood_still) {
                // An answer that came while we stood still is in time: sources are heard before deadlines are kept.
                self.hear_news(Input::Woke, now);
                turn.again = true;
            } else {
                self.keep_time(now);
            }
            self.hear_client(cx, now, &mut turn);
            // Children begin with what was just asked while we still read what they have answered.
            self.speak_to_links(cx, now);
            self.hear_links(cx, now, &mut turn);
            self.carry_out(now, &mut turn);
            // What was begun just now is heard here and needs no round of its own.
            turn.begun = false;
            self.hear_remote(cx, now, &mut turn);
            self.carry_out(now, &mut turn);
            turn.again |= self.speak(cx, now);
            // Writing may have told the engine something, too.
            self.carry_out(now, &mut turn);
            if let Some(ended) = self.ended(now) {
                return Poll::Ready(ended);
            }
            turn.again |= turn.begun || ((turn.held || self.remote.is_some()) && self.may_hear_again());
            if !turn.again {
                let due = self.next_deadline();
                if self.clock.poll_until(due, cx).is_pending() {
                    self.vigil.rest_until(due);
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Passes on what came from neither side. When the way to a server may have changed, connections that rest are not
    /// worth keeping: nobody knows whether they still lead anywhere, and a fresh one costs less than finding out.
    fn hear_news(&mut self, news: Input, now: Moment) {
        if matches!(news, Input::Woke) && !self.vigil.is_news(now) {
            return;
        }
        if let (Input::Woke | Input::NetworkChanged, Some(http)) = (&news, &mut self.remote) {
            http.close();
        }
        self.engine.handle(news, now);
    }

    /// Tells the engine that its time has come, and about pipes whose process did not end after all.
    fn keep_time(&mut self, now: Moment) {
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
        suspicions.chain(self.engine.poll_timeout()).chain(finish).chain(self.next_look).min()
    }

    /// Whether a source that had to be passed over may be read now.
    fn may_hear_again(&self) -> bool {
        let client = !self.client_lost && self.client_held && self.engine.may_read(Port::Client(self.client));
        let link = self.links.iter().any(|link| link.held && self.engine.may_read(Port::Link(link.id)));
        let may_read = |exchange| self.engine.may_read(Port::Exchange(exchange));
        client || link || self.remote.iter().chain(&self.left).any(|http| http.may_hear_again(may_read))
    }

    fn hear_client(&mut self, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let client = self.client;
        let mut allowance = READ_CHUNK;
        self.client_held = false;
        for _ in 0..INPUTS_PER_TURN {
            if self.client_lost {
                return;
            }
            if !self.engine.may_read(Port::Client(client)) {
                self.client_held = true;
                turn.held = true;
                return;
            }
            match self.from_client.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    if self.wired {
                        wire::came(&mut self.observer, self.upstream, Way::FromClient, &line);
                    }
                    let received = Received::from_line(line, &self.limits);
                    self.engine.handle(Input::FromClient { client, received }, now);
                }
                Step::End => {
                    self.next_look = Some(now);
                    self.engine.handle(Input::ClientEnded { client }, now);
                }
                Step::Spent => break,
                Step::Wait => return,
            }
        }
        turn.again = true;
    }

    fn hear_links(&mut self, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let mut at = 0;
        while at < self.links.len() {
            if self.links[at].child.poll_exited(cx).is_ready() {
                let link = self.links.swap_remove(at);
                self.bury(link, now);
                turn.again = true;
                continue;
            }
            self.hear_stdout(at, cx, now, turn);
            self.hear_stderr(at, cx, now, turn);
            at += 1;
        }
    }

    fn hear_remote(&mut self, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        for http in self.remote.iter_mut().chain(&mut self.left) {
            let observer = self.wired.then_some(&mut self.observer);
            turn.again |= hear(http, &mut self.engine, observer, cx, now);
        }
        self.left.retain(|http| !http.is_over());
    }

    fn hear_stdout(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let link = &mut self.links[at];
        let mut allowance = READ_CHUNK;
        link.held = false;
        for _ in 0..INPUTS_PER_TURN {
            if !self.engine.may_read(Port::Link(link.id)) {
                link.held = true;
                turn.held = true;
                return;
            }
            match link.stdout.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    if self.wired {
                        wire::came(&mut self.observer, self.upstream, Way::FromServer, &line);
                    }
                    let received = Received::from_line(line, &self.limits);
                    self.engine.handle(Input::FromLink { link: link.id, received }, now);
                }
                Step::End => link.suspect(Pipe::Stdout, now),
                Step::Spent => break,
                Step::Wait => return,
            }
        }
        turn.again = true;
    }

    fn hear_stderr(&mut self, at: usize, cx: &mut Context<'_>, now: Moment, turn: &mut Turn) {
        let link = &mut self.links[at];
        let mut allowance = READ_CHUNK;
        for _ in 0..INPUTS_PER_TURN {
            match link.stderr.poll_line(cx, &mut allowance) {
                Step::Line(line) => {
                    let line = stderr_text(line);
                    self.observer.said(link.id.upstream, &line);
                    self.engine.handle(Input::Said { link: link.id, line }, now);
                }
                Step::Spent => break,
                Step::End | Step::Wait => return,
            }
        }
        turn.again = true;
    }

    /// The last of a child: everything it wrote, then the rest of its group, then the news.
    fn bury(&mut self, mut link: Link<H::Child>, now: Moment) {
        let id = link.id;
        let (engine, observer, limits, child) = (&mut self.engine, &mut self.observer, &self.limits, &link.child);
        let wired = self.wired;
        link.stdout.last_lines(
            link::LAST_BYTES,
            |stdout, buffer| child.drain_stdout(stdout, buffer),
            |line| {
                if wired {
                    wire::came(observer, id.upstream, Way::FromServer, &line);
                }
                engine.handle(Input::FromLink { link: id, received: Received::from_line(line, limits) }, now);
            },
        );
        link.stderr.last_lines(
            link::LAST_BYTES,
            |stderr, buffer| child.drain_stderr(stderr, buffer),
            |line| {
                let line = stderr_text(line);
                observer.said(id.upstream, &line);
                engine.handle(Input::Said { link: id, line }, now);
            },
        );
        let how = link.child.bury();
        // What lies unread in a pipe without readers was accepted by the system, but never received by anybody.
        let unread = link.stdin.writer().map_or(0, |stdin| link.child.unread(stdin));
        let written = link.stdin.accepted().saturating_sub(unread);
        self.engine.handle(Input::ChildExited { link: id, how, written }, now);
    }

    /// Does what the engine asks for, and notes what that can have changed here; telling people has not.
    fn carry_out(&mut self, now: Moment, turn: &mut Turn) {
        for _ in 0..OUTPUTS_PER_ROUND {
            let Some(output) = self.engine.poll_output() else {
                return;
            };
            match output {
                Output::Happened(event) => {
                    self.observer.happened(&event);
                    continue;
                }
                Output::Remember { upstream, what } => {
                    if let Some(keeper) = &mut self.keeper {
                        keeper.keep(upstream, what);
                    }
                    continue;
                }
                Output::Exchange { exchange, ask, reuse, .. } => {
                    turn.begun = true;
                    if let (true, Some(body)) = (self.wired, &ask.body) {
                        wire::goes(&mut self.observer, exchange.upstream(), Way::ToServer, body);
                    }
                    match &mut self.remote {
                        Some(http) => http.begin(exchange, *ask, reuse),
                        None => {
                            let how = EndHow::NoConnection("no address is configured for this server".to_owned());
                            self.engine.handle(Input::End { exchange, how, written: Written::Nothing }, now);
                        }
                    }
                    continue;
                }
                Output::Abort { exchange } => {
                    turn.begun = true;
                    self.remote.iter_mut().chain(&mut self.left).for_each(|http| http.abort(exchange));
                    continue;
                }
                Output::Renew { upstream } => {
                    // What is said from now on belongs to another server, or is said to another credential.
                    self.keeper = None;
                    if let Some(way) = self.host.renew(upstream) {
                        self.left.extend(self.remote.replace(way));
                    }
                }
                Output::Spawn { link } => self.spawn(link, now),
                Output::CloseStdin { link } => {
                    if let Some(link) = self.link_mut(link) {
                        link.stdin.close_when_empty();
                    }
                }
                Output::Signal { link, signal } => {
                    if let Some(link) = self.link_mut(link) {
                        link.child.signal(signal);
                    }
                }
                Output::Finished { ending } => self.finished = Some((now + LAST_WORDS, ending)),
            }
            turn.again = true;
        }
        turn.again = true;
    }

    fn spawn(&mut self, link: LinkId, now: Moment) {
        let spawned = self.host.spawn(link);
        let input = match spawned {
            Ok(mut child) => {
                let pid = child.pid();
                if let Some(pipes) = child.pipes() {
                    self.links.push(Link::new(link, child, pipes, self.limits.message_bytes));
                }
                Input::Spawned { link, pid }
            }
            Err(why) => Input::SpawnFailed { link, why },
        };
        self.engine.handle(input, now);
    }

    fn speak_to_links(&mut self, cx: &mut Context<'_>, now: Moment) {
        let (engine, observer, wired) = (&mut self.engine, &mut self.observer, self.wired);
        for link in &mut self.links {
            let (port, upstream) = (Port::Link(link.id), link.id.upstream);
            let next = || wire::next(engine, port, wired.then_some((&mut *observer, upstream, Way::ToServer)));
            if link.stdin.poll_write(cx, next).is_err() {
                link.suspect(Pipe::Stdin, now);
            }
        }
    }

    /// Lets every sink write what there is. Says whether the client was lost over it.
    fn speak(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        self.speak_to_links(cx, now);
        let (engine, observer, wired) = (&mut self.engine, &mut self.observer, self.wired);
        let (port, upstream) = (Port::Client(self.client), self.upstream);
        let next = || wire::next(engine, port, wired.then_some((&mut *observer, upstream, Way::ToClient)));
        if self.to_client.poll_write(cx, next).is_ok() && !self.has_left(cx, now) {
            return false;
        }
        self.client_lost = true;
        self.next_look = None;
        self.engine.handle(Input::ClientLost { client: self.client }, now);
        true
    }

    /// A client that sends no more may still read its answers, or may have been killed. While its calls run there is nothing
    /// to write that would tell, so we look.
    fn has_left(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        if self.next_look.is_none_or(|due| now < due) {
            return false;
        }
        self.next_look = Some(now + LOOK);
        self.to_client.is_abandoned(cx)
    }

    fn ended(&mut self, now: Moment) -> Option<Ending> {
        let (due, ended) = self.finished?;
        let silent = self.to_client.is_closed() || self.to_client.is_empty();
        (silent || due <= now).then_some(ended)
    }

    fn link_mut(&mut self, id: LinkId) -> Option<&mut Link<H::Child>> {
        self.links.iter_mut().find(|link| link.id == id)
    }
}

/// What a round found out about the need for another.
#[derive(Default)]
struct Turn {
    /// There is more to do at once.
    again: bool,
    /// An exchange was begun or given up, and nobody has asked yet what became of it.
    begun: bool,
    /// A source was passed over, for want of leave to read.
    held: bool,
}

/// Tells the engine what comes over HTTP. Says whether there was more than its turn.
fn hear<D: Dial, O: Observer>(
    http: &mut Http<D>,
    engine: &mut Engine,
    mut observer: Option<&mut O>,
    cx: &mut Context<'_>,
    now: Moment,
) -> bool {
    for _ in 0..INPUTS_PER_TURN {
        match http.poll_input(cx, |exchange| engine.may_read(Port::Exchange(exchange))) {
            Poll::Ready(input) => {
                if let Some(observer) = &mut observer {
                    wire::heard(*observer, &input);
                }
                engine.handle(input, now);
            }
            Poll::Pending => return false,
        }
    }
    true
}

fn stderr_text(line: Line) -> Bytes {
    match line {
        Line::Text(text) => text,
        Line::TooLong { head, .. } => head,
    }
}
