//! What a process knows of itself: the fold of its events, with the time at which they came.
//!
//! The [`Recorder`] is told every event between a request and its answer, so on the way of a healthy call it does what
//! the fold does and nothing more: no clock is read, nothing is formatted, nothing allocated. The clock is read when something
//! changes that people count the time of; words are made when somebody follows, or asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::config::{Dialect, RateLimit, Transport};
use mendline_core::event::Over;
use mendline_core::policy::breaker;
use mendline_core::status::{Held, UpstreamStatus};
use mendline_core::{Event, LinkState, UpstreamConfig, UpstreamId};
use tokio::sync::mpsc;

use super::message::{Level, Told};
use super::registry::Heard;
use super::snapshot::{
    Breaker, Calls, Connection, LastError, Latency, Limit, Party, ProcessFacts, Rate, Server, Snapshot, Standing,
    State, StateKind, ToolBreaker, TransportKind, VERSION,
};
use crate::driver::Observer;
use crate::observe::escaped::Escaped;
use crate::observe::redact::Redactor;

/// How many events may wait for one who follows.
const UNREAD: usize = 256;

/// How much of a text from outside is shown.
const LONGEST: usize = 300;

/// What a process knows of itself.
#[derive(Debug)]
pub struct Book {
    process: ProcessFacts,
    servers: Vec<Entry>,
    followers: Vec<Follower>,
    is_stopping: bool,
    /// What it must not show, whoever said it.
    redactor: Redactor,
}

/// A book that is written in by the driver and read by whoever asks.
pub type SharedBook = Arc<Mutex<Book>>;

/// One server.
#[derive(Debug)]
struct Entry {
    name: String,
    place: String,
    transport: TransportKind,
    rate_limit: Option<RateLimit>,
    status: UpstreamStatus,
    /// How it is, and since when.
    kind: StateKind,
    since: Duration,
    /// When the next dial was planned, and a pause began.
    planned: Duration,
    paused: Duration,
    /// When the breakers that are open were opened: the server's own, and those of tools.
    opened: BTreeMap<Option<String>, Duration>,
    erred: Duration,
}

/// Somebody who follows what happens.
#[derive(Debug)]
struct Follower {
    level: Level,
    events: mpsc::Sender<Heard>,
    /// Left out since the last one that was taken.
    missed: u64,
}

impl Book {
    /// The book of this process, which looks after these servers.
    pub fn new(configuration: Option<String>, upstreams: &[UpstreamConfig]) -> Book {
        let process = ProcessFacts {
            pid: std::process::id(),
            mendline: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: unix_ms(),
            configuration,
            client: None,
        };
        let now = clock();
        let servers = upstreams.iter().map(|upstream| Entry::new(upstream, now)).collect();
        Book { process, servers, followers: Vec::new(), is_stopping: false, redactor: Redactor::default() }
    }

    /// The same, which shows nothing that this one hides.
    pub fn hiding(mut self, redactor: Redactor) -> Book {
        self.redactor = redactor;
        self
    }

    /// The same, to be shared.
    pub fn shared(self) -> SharedBook {
        Arc::new(Mutex::new(self))
    }

    /// How everything stands now.
    pub fn snapshot(&self) -> Snapshot {
        let now = clock();
        Snapshot {
            version: VERSION,
            taken_at: unix_ms(),
            process: self.process.clone(),
            servers: self.servers.iter().map(|entry| entry.snapshot(now, &self.redactor)).collect(),
        }
    }

    /// The servers of this name, or all of them.
    pub fn named(&self, name: Option<&str>) -> Vec<(UpstreamId, String)> {
        let meant = |entry: &Entry| name.is_none_or(|name| entry.name == name);
        let numbered = (0u16..).map(UpstreamId).zip(&self.servers);
        numbered.filter(|(_, entry)| meant(entry)).map(|(id, entry)| (id, entry.name.clone())).collect()
    }

    /// What happens from now on, but for what is quieter.
    pub(super) fn follow(&mut self, level: Level) -> mpsc::Receiver<Heard> {
        // Those who left and were not missed yet.
        self.followers.retain(|follower| !follower.events.is_closed());
        let (events, heard) = mpsc::channel(UNREAD);
        self.followers.push(Follower { level, events, missed: 0 });
        heard
    }

    fn take_in(&mut self, event: &Event) {
        let (upstream, is_everyday) = (event.upstream(), is_everyday(event));
        if let Some(entry) = upstream.and_then(|it| self.servers.get_mut(usize::from(it.0))) {
            entry.status.apply(event);
            // That a login is not wanted any more is seen by an answer like any other.
            if !is_everyday || entry.kind == StateKind::NeedsLogin {
                entry.note_time(event, self.is_stopping, clock());
            }
        }
        if !is_everyday {
            self.note_process(event);
        }
        if !self.followers.is_empty() {
            self.tell(upstream, event.level().into(), false, |hide| shown(&event.to_string(), hide));
        }
    }

    fn note_process(&mut self, event: &Event) {
        match event {
            Event::ClientNamed { name, version, .. } => {
                let (name, version) = (shown(name, &self.redactor), shown(version, &self.redactor));
                self.process.client = Some(Party { name, version });
            }
            Event::Stopping { .. } => self.is_stopping = true,
            _ => {}
        }
    }

    fn tell(&mut self, about: Option<UpstreamId>, level: Level, said: bool, words: impl FnOnce(&Redactor) -> String) {
        if !self.followers.iter().any(|follower| follower.level <= level) {
            return;
        }
        let server = about.and_then(|it| self.servers.get(usize::from(it.0))).map(|entry| entry.name.clone());
        let told = Told { at: unix_ms(), level, server, said, text: words(&self.redactor) };
        self.followers.retain_mut(|follower| follower.level > level || follower.tell(&told));
    }
}

impl Follower {
    /// Says whether anybody is still there.
    fn tell(&mut self, told: &Told) -> bool {
        if self.missed > 0 && self.events.try_send(Heard::Missed(self.missed)).is_ok() {
            self.missed = 0;
        }
        match self.events.try_send(Heard::Event(told.clone())) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.missed += 1;
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

impl Entry {
    fn new(config: &UpstreamConfig, now: Duration) -> Entry {
        Entry {
            name: config.name.clone(),
            place: config.place.clone(),
            transport: match config.transport {
                Transport::Child => TransportKind::Child,
                Transport::Http(Dialect::Sse) => TransportKind::Sse,
                Transport::Http(Dialect::Auto | Dialect::Streamable) => TransportKind::Http,
            },
            rate_limit: config.rate_limit,
            status: UpstreamStatus::default(),
            kind: StateKind::Idle,
            since: now,
            planned: now,
            paused: now,
            opened: BTreeMap::new(),
            erred: now,
        }
    }

    fn note_time(&mut self, event: &Event, is_stopping: bool, now: Duration) {
        let kind = kind_of(&self.status, is_stopping);
        if kind != self.kind {
            (self.kind, self.since) = (kind, now);
        }
        match event {
            Event::DialPlanned { .. } => self.planned = now,
            Event::Paused { .. } => self.paused = now,
            Event::BreakerOpened { tool, .. } => drop(self.opened.insert(tool.clone(), now)),
            Event::BreakerClosed { tool, .. } => drop(self.opened.remove(tool)),
            // The same words again are a new error; that somebody wanted it so is none.
            Event::LinkMoved { to: LinkState::Waiting | LinkState::Parked, why, .. }
                if self.status.last_error.as_ref() == Some(why) =>
            {
                self.erred = now;
            }
            Event::DialFailed { .. }
            | Event::LeftAlone { .. }
            | Event::LoginWanted { .. }
            | Event::CallFailed { .. } => self.erred = now,
            Event::Reconfigured { rate_limit, place, .. } => {
                self.rate_limit = *rate_limit;
                self.place.clone_from(place);
            }
            _ => {}
        }
    }

    fn snapshot(&self, now: Duration, hide: &Redactor) -> Server {
        let status = &self.status;
        let percentile = |share| status.latency.as_ref()?.per_mille(share).map(micros);
        Server {
            name: self.name.clone(),
            transport: match status.over {
                Some(Over::Sse) => TransportKind::Sse,
                Some(Over::Http) => TransportKind::Http,
                Some(Over::Child(_)) | None => self.transport,
            },
            target: shown(&self.place, hide),
            state: self.state(now, hide),
            breaker: Breaker {
                standing: standing(status.breaker.standing),
                tries_in_ms: self.left_of(None, &status.breaker, now),
                why: why(&status.breaker, hide),
                tools: status.tools.iter().map(|(tool, held)| self.tool(tool, held, now, hide)).collect(),
            },
            limit: Limit {
                rate: self.rate_limit.map(|rate| Rate { burst: rate.burst, per_second: rate.per_second }),
                paused_ms: status.pause.map(|pause| left(pause, self.paused, now)),
                slowed: status.slowed,
            },
            in_flight: status.out,
            waiting: status.open.saturating_sub(status.out),
            calls: Calls {
                answered: status.answered,
                errors: status.errors,
                failed: status.failed,
                unknown: status.unknown,
                retried: status.retried,
                cancelled: status.cancelled,
                turned_away: status.turned_away,
                answered_early: status.early,
            },
            latency: Latency {
                count: status.latency.as_ref().map_or(0, |latency| latency.count()),
                p50_us: percentile(500),
                p95_us: percentile(950),
                p99_us: percentile(990),
            },
            connection: Connection {
                dials: status.dials,
                dials_failed: status.dials_failed,
                losses: status.losses,
                took_ms: status.took.map(millis),
                child: status.child(),
            },
            last_error: status
                .last_error
                .as_ref()
                .map(|what| LastError { what: shown(what, hide), ago_ms: millis(now.saturating_sub(self.erred)) }),
        }
    }

    fn state(&self, now: Duration, hide: &Redactor) -> State {
        let status = &self.status;
        let is_lost = matches!(self.kind, StateKind::Reconnecting | StateKind::Parked);
        let redial = status.redial.filter(|_| is_lost);
        let waits = matches!(status.link, LinkState::Waiting | LinkState::Parked);
        let why = match self.kind {
            StateKind::Reconnecting | StateKind::Parked => status.last_trouble.as_deref(),
            StateKind::NeedsLogin => status.needs_login.as_deref(),
            StateKind::Idle if status.lost => status.last_error.as_deref(),
            _ => None,
        };
        State {
            kind: self.kind,
            for_ms: millis(now.saturating_sub(self.since)),
            why: why.map(|why| shown(why, hide)),
            attempt: redial.map(|redial| redial.attempt),
            attempts: redial.and_then(|redial| redial.most),
            next_in_ms: redial.filter(|_| waits).map(|redial| left(redial.wait, self.planned, now)),
        }
    }

    fn tool(&self, tool: &str, held: &Held, now: Duration, hide: &Redactor) -> ToolBreaker {
        let tries_in_ms = self.left_of(Some(tool), held, now);
        ToolBreaker { tool: shown(tool, hide), standing: standing(held.standing), tries_in_ms, why: why(held, hide) }
    }

    fn left_of(&self, tool: Option<&str>, held: &Held, now: Duration) -> Option<u64> {
        let (open_for, _) = held.open_for.as_ref()?;
        let opened = self.opened.get(&tool.map(str::to_owned)).copied().unwrap_or(now);
        Some(left(*open_for, opened, now))
    }
}

/// How a server is, in one word.
fn kind_of(status: &UpstreamStatus, is_stopping: bool) -> StateKind {
    match status.link {
        LinkState::Idle | LinkState::Draining if is_stopping => StateKind::Stopping,
        _ if status.breaker.standing == breaker::Standing::Isolated => StateKind::Isolated,
        _ if status.needs_login.is_some() => StateKind::NeedsLogin,
        LinkState::Idle => StateKind::Idle,
        LinkState::Parked => StateKind::Parked,
        LinkState::Up if status.ready => StateKind::Ready,
        // It is there, and has not answered yet: perhaps nobody has asked it anything.
        LinkState::Up => StateKind::Starting,
        LinkState::Dialing if !status.lost => StateKind::Starting,
        LinkState::Dialing | LinkState::Waiting | LinkState::Draining => StateKind::Reconnecting,
    }
}

/// What happens on the way of every healthy call changes nothing that people count the time of.
fn is_everyday(event: &Event) -> bool {
    matches!(
        event,
        Event::CallAccepted { .. }
            | Event::CallSent { .. }
            | Event::CallAnswered { .. }
            | Event::CallCancelled { .. }
            | Event::AnsweredFromCatalogue { .. }
            | Event::ErrandSent { .. }
            | Event::MessageDropped { .. }
            | Event::RateLimited { .. }
    )
}

fn standing(standing: breaker::Standing) -> Standing {
    match standing {
        breaker::Standing::Closed => Standing::Closed,
        breaker::Standing::Open => Standing::Open,
        breaker::Standing::HalfOpen => Standing::HalfOpen,
        breaker::Standing::Isolated => Standing::Isolated,
    }
}

fn why(held: &Held, hide: &Redactor) -> Option<String> {
    held.open_for.as_ref().map(|(_, why)| shown(why, hide))
}

/// Text from outside, without secrets, harmless to print and not too long.
fn shown(text: &str, hide: &Redactor) -> String {
    let text = Escaped(&hide.redact(text.as_bytes())).to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// How much of a span is left that began then.
fn left(span: Duration, began: Duration, now: Duration) -> u64 {
    millis(span.saturating_sub(now.saturating_sub(began)))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The time since the machine was started, asleep or not: a laptop that slept was not ready meanwhile, but the hour passed.
fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Writes into a book what happens.
#[derive(Debug)]
pub struct Recorder(SharedBook);

impl Recorder {
    /// One that writes into this book.
    pub fn new(book: SharedBook) -> Recorder {
        Recorder(book)
    }
}

impl Observer for Recorder {
    fn happened(&mut self, event: &Event) {
        open(&self.0).take_in(event);
    }

    fn said(&mut self, upstream: UpstreamId, line: &[u8]) {
        let mut book = open(&self.0);
        if !book.followers.is_empty() {
            book.tell(Some(upstream), Level::Info, true, |hide| shown(&String::from_utf8_lossy(line), hide));
        }
    }
}

/// Both sides are on one thread, so nobody ever waits here.
pub(super) fn open(book: &SharedBook) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mendline_core::LinkId;
    use mendline_wire::Method;

    use super::*;

    const UPSTREAM: UpstreamId = UpstreamId(0);

    fn book() -> SharedBook {
        Book::new(None, &[UpstreamConfig::child("notes", "npx")]).shared()
    }

    fn moved(from: LinkState, to: LinkState, why: &str) -> Event {
        let over = (to == LinkState::Up).then_some(Over::Child(7));
        Event::LinkMoved { upstream: UPSTREAM, from, to, why: why.to_owned(), over }
    }

    fn ready() -> Event {
        let link = LinkId { upstream: UPSTREAM, dial: 1 };
        Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::from_millis(80) }
    }

    fn up(recorder: &mut Recorder) {
        recorder.happened(&moved(LinkState::Idle, LinkState::Dialing, ""));
        recorder.happened(&moved(LinkState::Dialing, LinkState::Up, ""));
        recorder.happened(&ready());
    }

    fn seen(book: &SharedBook) -> Server {
        open(book).snapshot().servers.remove(0)
    }

    #[test]
    fn a_server_is_followed_from_its_start_to_its_end() {
        let book = book();
        let mut recorder = Recorder::new(Arc::clone(&book));
        assert_eq!(seen(&book).state.kind, StateKind::Idle);
        recorder.happened(&moved(LinkState::Idle, LinkState::Dialing, ""));
        assert_eq!(seen(&book).state.kind, StateKind::Starting);
        recorder.happened(&moved(LinkState::Dialing, LinkState::Up, ""));
        assert_eq!((seen(&book).state.kind, seen(&book).connection.child), (StateKind::Starting, Some(7)));
        recorder.happened(&ready());
        assert_eq!((seen(&book).state.kind, seen(&book).connection.took_ms), (StateKind::Ready, Some(80)));
        recorder.happened(&Event::Stopping { running: 0 });
        recorder.happened(&moved(LinkState::Up, LinkState::Draining, "stopping"));
        assert_eq!(seen(&book).state.kind, StateKind::Stopping);
    }

    #[test]
    fn what_is_left_of_a_wait_is_never_more_than_the_wait() {
        let book = book();
        let mut recorder = Recorder::new(Arc::clone(&book));
        up(&mut recorder);
        recorder.happened(&moved(LinkState::Up, LinkState::Waiting, "gone\u{1b}[2J"));
        let wait = Duration::from_secs(4);
        recorder.happened(&Event::DialPlanned { upstream: UPSTREAM, attempt: 3, most: Some(10), wait });
        let state = seen(&book).state;
        assert_eq!((state.kind, state.attempt, state.attempts), (StateKind::Reconnecting, Some(3), Some(10)));
        let left = state.next_in_ms.unwrap();
        assert!(left > 1_000 && left <= 4_000, "{left}");
        assert_eq!(state.why.as_deref(), Some("gone\\u{1b}[2J"), "and what was said is harmless");
        recorder.happened(&moved(LinkState::Waiting, LinkState::Dialing, ""));
        assert_eq!(seen(&book).state.next_in_ms, None, "it is under way");
    }

    #[test]
    fn whoever_does_not_read_is_told_how_much_he_missed_when_he_does() {
        let book = book();
        let mut recorder = Recorder::new(Arc::clone(&book));
        let mut heard = open(&book).follow(Level::Debug);
        let mut quiet = open(&book).follow(Level::Warn);
        let sent = Event::CallAccepted { upstream: UPSTREAM, call: 1, method: Method::ToolsCall };
        for _ in 0..UNREAD + 10 {
            recorder.happened(&sent);
        }
        for _ in 0..UNREAD {
            assert!(matches!(heard.try_recv(), Ok(Heard::Event(_))));
        }
        recorder.happened(&sent);
        assert_eq!(heard.try_recv(), Ok(Heard::Missed(10)));
        assert!(matches!(heard.try_recv(), Ok(Heard::Event(_))));
        assert!(quiet.try_recv().is_err(), "nothing was loud enough");
        drop((heard, quiet));
        recorder.happened(&sent);
        assert_eq!(open(&book).followers.len(), 1, "the one that heard nothing is not missed yet");
        let _next = open(&book).follow(Level::Debug);
        assert_eq!(open(&book).followers.len(), 1, "and has left by now");
    }
}
