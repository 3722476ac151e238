//! What a process knows of itself: the fold of its events, with the time at which they came.
//!
//! The [`StatusObserver`] is told every event between a request and its answer, so on the way of a healthy call it does what
//! the fold does and nothing more: no clock is read, nothing is formatted, nothing allocated. The clock is read when something
//! changes that people count the time of; words are made when somebody follows, or asks.

mod entry;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::{Event, UpstreamConfig, UpstreamId};
use tokio::sync::mpsc;

use self::entry::{Entry, millis, shown};
use super::message::{Level, EventRecord};
use super::registry::StreamItem;
use super::snapshot::{ClientInfo, ProcessInfo, Snapshot, StateKind, VERSION};
use crate::driver::{EventTime, Observer};
use crate::observe::redact::Redactor;

/// How many events may wait for one who follows.
const FOLLOWER_QUEUE: usize = 256;

/// What a process knows of itself.
#[derive(Debug)]
pub struct StatusStore {
    process: ProcessInfo,
    servers: Vec<Entry>,
    followers: Vec<Follower>,
    is_stopping: bool,
    /// What it must not show, whoever said it.
    redactor: Redactor,
}

/// A status store that is written in by the driver and read by whoever asks.
pub type SharedStatus = Arc<Mutex<StatusStore>>;

/// Somebody who follows what happens.
#[derive(Debug)]
struct Follower {
    level: Level,
    events: mpsc::Sender<StreamItem>,
    /// Left out since the last one that was taken.
    missed: u64,
}

impl StatusStore {
    /// The status store of this process, which looks after these servers.
    pub fn new(configuration: Option<String>, upstreams: &[UpstreamConfig]) -> StatusStore {
        let process = ProcessInfo {
            pid: std::process::id(),
            mendline: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: unix_ms(),
            configuration,
            client: None,
        };
        let now = clock();
        let servers = upstreams.iter().map(|upstream| Entry::new(upstream, now)).collect();
        StatusStore { process, servers, followers: Vec::new(), is_stopping: false, redactor: Redactor::default() }
    }

    /// The same, which shows nothing that this one hides.
    pub fn with_redactor(mut self, redactor: Redactor) -> StatusStore {
        self.redactor = redactor;
        self
    }

    /// The same, to be shared.
    pub fn shared(self) -> SharedStatus {
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
        let is_selected = |entry: &Entry| name.is_none_or(|name| entry.name == name);
        let numbered = (0u16..).map(UpstreamId).zip(&self.servers);
        numbered.filter(|(_, entry)| is_selected(entry)).map(|(id, entry)| (id, entry.name.clone())).collect()
    }

    /// What happens from now on, but for what is quieter.
    pub(super) fn follow(&mut self, level: Level) -> mpsc::Receiver<StreamItem> {
        // Those who left and were not missed yet.
        self.followers.retain(|follower| !follower.events.is_closed());
        let (events, receiver) = mpsc::channel(FOLLOWER_QUEUE);
        self.followers.push(Follower { level, events, missed: 0 });
        receiver
    }

    fn apply(&mut self, event: &Event) {
        let (upstream, is_routine) = (event.upstream(), is_routine(event));
        if let Some(entry) = upstream.and_then(|it| self.servers.get_mut(usize::from(it.0))) {
            entry.status.apply(event);
            // That a login is not wanted any more is seen by an answer like any other.
            if !is_routine || entry.kind == StateKind::NeedsLogin {
                entry.note_time(event, self.is_stopping, clock());
            }
        }
        if !is_routine {
            self.note_process(event);
        }
        if !self.followers.is_empty() {
            self.publish(upstream, event.level().into(), false, |redactor| shown(&event.to_string(), redactor));
        }
    }

    fn note_process(&mut self, event: &Event) {
        match event {
            Event::ClientNamed { name, version, .. } => {
                let (name, version) = (shown(name, &self.redactor), shown(version, &self.redactor));
                self.process.client = Some(ClientInfo { name, version });
            }
            Event::Stopping { .. } => self.is_stopping = true,
            _ => {}
        }
    }

    fn publish(&mut self, about: Option<UpstreamId>, level: Level, is_stderr: bool, text: impl FnOnce(&Redactor) -> String) {
        if !self.followers.iter().any(|follower| follower.level <= level) {
            return;
        }
        let server = about.and_then(|it| self.servers.get(usize::from(it.0))).map(|entry| entry.name.clone());
        let record = EventRecord { at: unix_ms(), level, server, is_stderr, text: text(&self.redactor) };
        self.followers.retain_mut(|follower| follower.level > level || follower.send(&record));
    }
}

impl Follower {
    /// Says whether anybody is still there.
    fn send(&mut self, record: &EventRecord) -> bool {
        if self.missed > 0 && self.events.try_send(StreamItem::Missed(self.missed)).is_ok() {
            self.missed = 0;
        }
        match self.events.try_send(StreamItem::Event(record.clone())) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.missed += 1;
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

/// What happens on the way of every healthy call changes nothing that people count the time of.
fn is_routine(event: &Event) -> bool {
    matches!(
        event,
        Event::CallAccepted { .. }
            | Event::AttemptStarted { .. }
            | Event::CallAnswered { .. }
            | Event::CallCancelled { .. }
            | Event::AnsweredFromCatalogue { .. }
            | Event::InternalRequestSent { .. }
            | Event::MessageDropped { .. }
            | Event::RateLimited { .. }
    )
}

/// The time since the machine was started, asleep or not: a laptop that slept was not ready meanwhile, but the hour passed.
fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Writes into a status store what happens.
#[derive(Debug)]
pub struct StatusObserver(SharedStatus);

impl StatusObserver {
    /// One that writes into this status store.
    pub fn new(store: SharedStatus) -> StatusObserver {
        StatusObserver(store)
    }
}

impl Observer for StatusObserver {
    fn on_event(&mut self, event: &Event, _: EventTime) {
        lock(&self.0).apply(event);
    }

    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]) {
        let mut store = lock(&self.0);
        if !store.followers.is_empty() {
            store.publish(Some(upstream), Level::Info, true, |redactor| shown(&String::from_utf8_lossy(line), redactor));
        }
    }
}

/// Both sides are on one thread, so nobody ever waits here.
pub(super) fn lock(store: &SharedStatus) -> MutexGuard<'_, StatusStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mendline_core::event::Over;
    use mendline_core::{LinkId, LinkState};
    use mendline_wire::Method;

    use super::*;
    use crate::control::snapshot::Server;

    const UPSTREAM: UpstreamId = UpstreamId(0);

    fn store() -> SharedStatus {
        StatusStore::new(None, &[UpstreamConfig::child("notes", "npx")]).shared()
    }

    fn moved(from: LinkState, to: LinkState, why: &str) -> Event {
        let over = (to == LinkState::Up).then_some(Over::Child(7));
        Event::LinkStateChanged { upstream: UPSTREAM, from, to, why: why.to_owned(), over }
    }

    fn ready() -> Event {
        let link = LinkId { upstream: UPSTREAM, dial: 1 };
        Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::from_millis(80) }
    }

    fn up(observer: &mut StatusObserver) {
        observer.on_event(&moved(LinkState::Idle, LinkState::Dialing, ""));
        observer.on_event(&moved(LinkState::Dialing, LinkState::Up, ""));
        observer.on_event(&ready());
    }

    fn seen(store: &SharedStatus) -> Server {
        lock(store).snapshot().servers.remove(0)
    }

    #[test]
    fn a_server_is_followed_from_its_start_to_its_end() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        assert_eq!(seen(&store).state.kind, StateKind::Idle);
        observer.on_event(&moved(LinkState::Idle, LinkState::Dialing, ""));
        assert_eq!(seen(&store).state.kind, StateKind::Starting);
        observer.on_event(&moved(LinkState::Dialing, LinkState::Up, ""));
        assert_eq!((seen(&store).state.kind, seen(&store).connection.child), (StateKind::Starting, Some(7)));
        observer.on_event(&ready());
        assert_eq!((seen(&store).state.kind, seen(&store).connection.took_ms), (StateKind::Ready, Some(80)));
        observer.on_event(&Event::Stopping { running: 0 });
        observer.on_event(&moved(LinkState::Up, LinkState::Draining, "stopping"));
        assert_eq!(seen(&store).state.kind, StateKind::Stopping);
    }

    #[test]
    fn what_is_left_of_a_wait_is_never_more_than_the_wait() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        up(&mut observer);
        observer.on_event(&moved(LinkState::Up, LinkState::Waiting, "gone\u{1b}[2J"));
        let wait = Duration::from_secs(3_600);
        observer.on_event(&Event::DialPlanned { upstream: UPSTREAM, attempt: 3, most: Some(10), wait });
        let state = seen(&store).state;
        assert_eq!((state.kind, state.attempt, state.attempts), (StateKind::Reconnecting, Some(3), Some(10)));
        let left = state.next_in_ms.unwrap();
        assert!(left > 1_800_000 && left <= 3_600_000, "{left}");
        assert_eq!(state.why.as_deref(), Some("gone\\u{1b}[2J"), "and what was said is harmless");
        observer.on_event(&moved(LinkState::Waiting, LinkState::Dialing, ""));
        assert_eq!(seen(&store).state.next_in_ms, None, "it is under way");
    }

    #[test]
    fn whoever_does_not_read_is_told_how_much_he_missed_when_he_does() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        let mut receiver = lock(&store).follow(Level::Debug);
        let mut quiet = lock(&store).follow(Level::Warn);
        let sent = Event::CallAccepted { upstream: UPSTREAM, call: 1, method: Method::ToolsCall };
        for _ in 0..FOLLOWER_QUEUE + 10 {
            observer.on_event(&sent);
        }
        for _ in 0..FOLLOWER_QUEUE {
            assert!(matches!(receiver.try_recv(), Ok(StreamItem::Event(_))));
        }
        observer.on_event(&sent);
        assert_eq!(receiver.try_recv(), Ok(StreamItem::Missed(10)));
        assert!(matches!(receiver.try_recv(), Ok(StreamItem::Event(_))));
        assert!(quiet.try_recv().is_err(), "nothing was loud enough");
        drop((receiver, quiet));
        observer.on_event(&sent);
        assert_eq!(lock(&store).followers.len(), 1, "the one that heard nothing is not missed yet");
        let _next = lock(&store).follow(Level::Debug);
        assert_eq!(lock(&store).followers.len(), 1, "and has left by now");
    }
}
