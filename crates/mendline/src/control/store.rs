//! The status of this process, folded from its events.
//!
//! The [`StatusObserver`] gets every event between a request and its answer. For the events of a healthy call it only
//! updates counters: it reads no clock, formats nothing and allocates nothing. It reads the clock for events that start
//! a duration in the status. It formats text only for followers and snapshots.

mod calls;
mod entry;
mod stories;
mod times;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::{ClientId, Event, UpstreamConfig, UpstreamId};
use tokio::sync::mpsc;

use self::entry::{Entry, millis, shown};
use self::stories::Stories;
use super::message::{EventRecord, Level};
use super::parent::parent;
use super::registry::StreamItem;
use super::snapshot::{ClientInfo, ProcessInfo, Snapshot, StateKind, VERSION};
use crate::driver::{At, Observer};
use crate::metrics::{self, Sample};
use crate::observe::redact::Redactor;

/// The limit of unread events of one follower.
const FOLLOWER_QUEUE: usize = 256;

/// The status of this process.
#[derive(Debug)]
pub struct StatusStore {
    process: ProcessInfo,
    slots: Vec<Slot>,
    /// The connected clients, and their upstreams.
    clients: BTreeMap<ClientId, UpstreamId>,
    followers: Vec<Follower>,
    /// The single calls, for `mendline explain`.
    stories: Stories,
    is_stopping: bool,
    /// Redacts all texts in snapshots and events.
    redactor: Redactor,
}

/// One upstream.
#[derive(Debug)]
enum Slot {
    /// There is none.
    Free,
    /// The base of a server: the status of the server is shown.
    Server(Box<Entry>),
    /// One more process or session of the server with this base.
    Member { base: UpstreamId },
}

/// A status store that the driver writes and the control socket reads.
pub type SharedStatus = Arc<Mutex<StatusStore>>;

/// A connection that follows the events.
#[derive(Debug)]
struct Follower {
    level: Level,
    events: mpsc::Sender<StreamItem>,
    /// The number of events dropped since the last one that was sent.
    missed: u64,
}

impl StatusStore {
    /// Creates the status store of this process for these servers.
    pub fn new(configuration: Option<String>, upstreams: &[UpstreamConfig]) -> StatusStore {
        let process = ProcessInfo {
            pid: std::process::id(),
            mendline: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: unix_ms(),
            configuration,
            client: None,
            parent: parent(),
            gateway: None,
        };
        let now = clock();
        let slots = upstreams.iter().map(|upstream| Slot::Server(Box::new(Entry::new(upstream, now)))).collect();
        let clients = BTreeMap::new();
        StatusStore {
            process,
            slots,
            clients,
            followers: Vec::new(),
            stories: Stories::default(),
            is_stopping: false,
            redactor: Redactor::default(),
        }
    }

    /// Sets the redactor.
    pub fn with_redactor(mut self, redactor: Redactor) -> StatusStore {
        self.redactor = redactor;
        self
    }

    /// Records that this process is a gateway at this URL.
    pub fn set_gateway(&mut self, url: String) {
        self.process.gateway = Some(url);
    }

    /// Adds a server.
    pub fn add_server(&mut self, upstream: UpstreamId, config: &UpstreamConfig) {
        *self.slot(upstream) = Slot::Server(Box::new(Entry::new(config, clock())));
    }

    /// Wraps the store for sharing.
    pub fn shared(self) -> SharedStatus {
        Arc::new(Mutex::new(self))
    }

    /// Returns the current state of the process and its servers.
    pub fn snapshot(&self) -> Snapshot {
        let now = clock();
        Snapshot {
            version: VERSION,
            taken_at: unix_ms(),
            process: self.process(),
            servers: self.servers().map(|(_, entry)| entry.snapshot(now, &self.redactor)).collect(),
        }
    }

    /// Returns the current metrics of the process and its servers.
    pub fn metrics(&self) -> Vec<Sample> {
        let memory = crate::os::processes::own_memory();
        let mut samples = metrics::of_process(&self.process.mendline, self.process.started_at, memory);
        samples.extend(self.servers().flat_map(|(_, entry)| entry.samples(&self.redactor)));
        samples
    }

    fn process(&self) -> ProcessInfo {
        let mut process = self.process.clone();
        if let Some(parent) = &mut process.parent {
            parent.name = shown(&parent.name, &self.redactor);
        }
        process
    }

    /// Returns the servers of this name, or all.
    pub fn named(&self, name: Option<&str>) -> Vec<(UpstreamId, String)> {
        let is_selected = |entry: &Entry| name.is_none_or(|name| entry.name == name);
        let selected = self.servers().filter(|(_, entry)| is_selected(entry));
        selected.map(|(id, entry)| (id, entry.name.clone())).collect()
    }

    /// The servers, in the order of their upstreams.
    fn servers(&self) -> impl Iterator<Item = (UpstreamId, &Entry)> {
        let numbered = (0u16..).map(UpstreamId).zip(&self.slots);
        numbered.filter_map(|(id, slot)| match slot {
            Slot::Server(entry) => Some((id, &**entry)),
            Slot::Free | Slot::Member { .. } => None,
        })
    }

    fn slot(&mut self, upstream: UpstreamId) -> &mut Slot {
        let at = usize::from(upstream.0);
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || Slot::Free);
        }
        &mut self.slots[at]
    }

    /// The base of the server of an upstream.
    fn base(&self, upstream: UpstreamId) -> UpstreamId {
        match self.slots.get(usize::from(upstream.0)) {
            Some(Slot::Member { base }) => *base,
            _ => upstream,
        }
    }

    fn entry(&mut self, base: UpstreamId) -> Option<&mut Entry> {
        match self.slots.get_mut(usize::from(base.0)) {
            Some(Slot::Server(entry)) => Some(entry),
            _ => None,
        }
    }

    /// Changes the number of clients of an upstream. The state of its server may be that of another one then.
    fn count_clients(&mut self, upstream: UpstreamId, change: impl FnOnce(usize) -> usize) {
        let (base, is_stopping) = (self.base(upstream), self.is_stopping);
        if let Some(entry) = self.entry(base) {
            let clients = entry.clients(upstream);
            *clients = change(*clients);
            entry.note_kind(is_stopping, clock());
        }
    }

    /// Adds or removes an upstream or a client.
    fn apply_change(&mut self, event: &Event) {
        match event {
            Event::UpstreamAdded { upstream, like: Some(like), .. } => {
                let base = self.base(*like);
                *self.slot(*upstream) = Slot::Member { base };
                self.entry(base).into_iter().for_each(|entry| entry.add_member(*upstream, clock()));
            }
            Event::UpstreamRemoved { upstream } => {
                let base = self.base(*upstream);
                *self.slot(*upstream) = Slot::Free;
                self.stories.forget(*upstream);
                self.clients.retain(|_, its| its != upstream);
                let is_stopping = self.is_stopping;
                if let Some(entry) = self.entry(base) {
                    entry.remove_member(*upstream);
                    entry.note_kind(is_stopping, clock());
                }
            }
            Event::ClientOpened { client, upstream } => {
                self.clients.insert(*client, *upstream);
                self.count_clients(*upstream, |clients| clients + 1);
            }
            Event::ClientEnded { client } | Event::ClientLost { client } => {
                if let Some(upstream) = self.clients.remove(client) {
                    self.count_clients(upstream, |clients| clients.saturating_sub(1));
                }
            }
            _ => {}
        }
    }

    /// Returns a receiver of the events from this level up.
    pub(crate) fn follow(&mut self, level: Level) -> mpsc::Receiver<StreamItem> {
        // Removes followers whose connection is closed and that got no event since.
        self.followers.retain(|follower| !follower.events.is_closed());
        let (events, receiver) = mpsc::channel(FOLLOWER_QUEUE);
        self.followers.push(Follower { level, events, missed: 0 });
        receiver
    }

    fn apply(&mut self, event: &Event, at: At) {
        let (upstream, is_routine, is_stopping) = (event.upstream(), is_routine(event), self.is_stopping);
        if let Some(upstream) = upstream
            && let Some(entry) = self.entry(self.base(upstream))
        {
            entry.apply(upstream, event, at);
            // Any answer can end the need for a login.
            if !is_routine || entry.kind == StateKind::NeedsLogin {
                entry.note_time(upstream, event, is_stopping, clock());
            }
        }
        self.stories.apply(event, at.unix_micros);
        if !is_routine {
            self.apply_change(event);
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

    fn publish(
        &mut self,
        about: Option<UpstreamId>,
        level: Level,
        is_stderr: bool,
        text: impl FnOnce(&Redactor) -> String,
    ) {
        if !self.followers.iter().any(|follower| follower.level <= level) {
            return;
        }
        let base = about.map(|upstream| self.base(upstream));
        let server = base.and_then(|base| self.entry(base)).map(|entry| entry.name.clone());
        let record = EventRecord { at: unix_ms(), level, server, is_stderr, text: text(&self.redactor) };
        self.followers.retain_mut(|follower| follower.level > level || follower.send(&record));
    }
}

impl Follower {
    /// Sends an event. Returns false if the follower is gone.
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

/// Returns whether an event belongs to a healthy call and starts no duration in the status.
fn is_routine(event: &Event) -> bool {
    matches!(
        event,
        Event::CallAccepted { .. }
            | Event::AttemptStarted { .. }
            | Event::CallAnswered { .. }
            | Event::CallCancelled { .. }
            | Event::AnsweredFromCatalogue { .. }
            | Event::PingAnswered { .. }
            | Event::AnsweredBySession { .. }
            | Event::OwnStatusAnswered { .. }
            | Event::InternalRequestSent { .. }
            | Event::MessageDropped { .. }
            | Event::RateLimited { .. }
    )
}

/// Returns the time of the store: durations in the status count the time asleep.
fn clock() -> Duration {
    crate::os::sleep::since_boot()
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// An observer that writes to a status store.
#[derive(Debug)]
pub struct StatusObserver(SharedStatus);

impl StatusObserver {
    /// Creates an observer for this store.
    pub fn new(store: SharedStatus) -> StatusObserver {
        StatusObserver(store)
    }
}

impl Observer for StatusObserver {
    fn on_event(&mut self, event: &Event, at: At) {
        lock(&self.0).apply(event, at);
    }

    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]) {
        let mut store = lock(&self.0);
        let base = store.base(upstream);
        store.stories.note_stderr(base, line, unix_micros());
        if !store.followers.is_empty() {
            store
                .publish(Some(upstream), Level::Info, true, |redactor| shown(&String::from_utf8_lossy(line), redactor));
        }
    }
}

/// Locks the store. Writer and readers run on one thread, so this never waits.
pub(crate) fn lock(store: &SharedStatus) -> MutexGuard<'_, StatusStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mendline_core::event::Over;
    use mendline_core::reason::{Reason, RefusalReason};
    use mendline_core::{ClientId, LinkId, LinkState, Moment};
    use mendline_wire::Method;

    use super::*;
    use crate::control::snapshot::{BreakerState, Server};

    const UPSTREAM: UpstreamId = UpstreamId(1);

    fn emit(observer: &mut StatusObserver, event: &Event) {
        observer.on_event(event, At { moment: Moment::ZERO, unix_micros: 0 });
    }

    fn store() -> SharedStatus {
        let upstreams = ["files", "notes"].map(|name| UpstreamConfig::child(name, "npx"));
        StatusStore::new(None, &upstreams).shared()
    }

    fn moved(from: LinkState, to: LinkState, why: Option<Reason>) -> Event {
        let over = (to == LinkState::Up).then_some(Over::Child(7));
        Event::LinkStateChanged { upstream: UPSTREAM, from, to, why, over, repeated: false }
    }

    fn ready() -> Event {
        let link = LinkId { upstream: UPSTREAM, dial: 1 };
        Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::from_millis(80) }
    }

    fn up(observer: &mut StatusObserver) {
        emit(observer, &moved(LinkState::Idle, LinkState::Dialing, None));
        emit(observer, &moved(LinkState::Dialing, LinkState::Up, None));
        emit(observer, &ready());
    }

    fn seen(store: &SharedStatus) -> Server {
        lock(store).snapshot().servers.remove(usize::from(UPSTREAM.0))
    }

    #[test]
    fn state_follows_the_events_of_a_server() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        assert_eq!(seen(&store).state.kind, StateKind::Idle);
        emit(&mut observer, &moved(LinkState::Idle, LinkState::Dialing, None));
        assert_eq!(seen(&store).state.kind, StateKind::Starting);
        emit(&mut observer, &moved(LinkState::Dialing, LinkState::Up, None));
        assert_eq!((seen(&store).state.kind, seen(&store).connection.child), (StateKind::Starting, Some(7)));
        emit(&mut observer, &ready());
        assert_eq!((seen(&store).state.kind, seen(&store).connection.took_ms), (StateKind::Ready, Some(80)));
        emit(&mut observer, &Event::Stopping { running: 0 });
        emit(&mut observer, &moved(LinkState::Up, LinkState::Draining, None));
        assert_eq!(seen(&store).state.kind, StateKind::Stopping);
    }

    /// The metrics whose name begins like this, with their labels.
    fn samples(store: &SharedStatus, name: &str) -> Vec<String> {
        let text = crate::metrics::text::of_store(store);
        text.lines().filter(|line| line.starts_with(name) && line.contains("notes")).map(str::to_owned).collect()
    }

    #[test]
    fn status_and_metrics_of_member_agree() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        let member = UpstreamId(9);
        let is = |event: Event| match event {
            Event::LinkStateChanged { from, to, why, over, repeated, .. } => {
                Event::LinkStateChanged { upstream: member, from, to, why, over, repeated }
            }
            _ => Event::UpstreamReady {
                upstream: member,
                link: LinkId { upstream: member, dial: 1 },
                after: Duration::ZERO,
            },
        };
        up(&mut observer);
        emit(&mut observer, &Event::UpstreamAdded { upstream: member, name: "notes".to_owned(), like: Some(UPSTREAM) });
        let open = |client, upstream| Event::ClientOpened { client: ClientId(client), upstream };
        emit(&mut observer, &open(1, UPSTREAM));
        emit(&mut observer, &open(2, member));
        emit(&mut observer, &is(moved(LinkState::Idle, LinkState::Dialing, None)));
        emit(&mut observer, &is(moved(LinkState::Dialing, LinkState::Up, None)));
        emit(&mut observer, &is(ready()));
        emit(&mut observer, &is(moved(LinkState::Up, LinkState::Waiting, Some(Reason::ConnectionEnded))));
        let (open_for, why) = (Duration::from_secs(60), RefusalReason::BreakerFailures { calls: 5, of_tool: false });
        emit(&mut observer, &Event::BreakerOpened { upstream: member, tool: None, open_for, why });
        let seen_now = seen(&store);
        assert_eq!((seen_now.connection.dials, seen_now.connection.losses), (2, 1), "the counts are summed");
        assert!(samples(&store, "mendline_losses_total")[0].ends_with(" 1"), "as in the metrics");
        assert_eq!((seen_now.state.kind, seen_now.breaker.state), (StateKind::Ready, BreakerState::Closed));
        assert!(samples(&store, "mendline_up")[0].ends_with(" 1.0"), "the base has a client, and is ready");
        emit(&mut observer, &Event::ClientEnded { client: ClientId(1) });
        let seen_now = seen(&store);
        assert_eq!((seen_now.state.kind, seen_now.breaker.state), (StateKind::Reconnecting, BreakerState::Open));
        assert!(samples(&store, "mendline_up")[0].ends_with(" 0.0"), "only the member has clients");
        assert!(samples(&store, "mendline_breaker_state")[0].contains("open"));
        emit(&mut observer, &Event::UpstreamRemoved { upstream: member });
        let seen_now = seen(&store);
        assert_eq!((seen_now.state.kind, seen_now.connection.losses), (StateKind::Ready, 1), "its counts stay");
    }

    #[test]
    fn renewal_of_shared_credential_counts_once() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        let member = UpstreamId(9);
        emit(&mut observer, &Event::UpstreamAdded { upstream: member, name: "notes".to_owned(), like: Some(UPSTREAM) });
        for upstream in [UPSTREAM, member] {
            emit(&mut observer, &Event::CredentialRenewed { upstream, number: 2 });
        }
        assert!(samples(&store, "mendline_credentials_renewed_total")[0].ends_with(" 1"));
    }

    #[test]
    fn calls_of_further_session_count_for_its_server() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        let member = UpstreamId(9);
        emit(&mut observer, &Event::UpstreamAdded { upstream: member, name: "notes".to_owned(), like: Some(UPSTREAM) });
        let accepted = |upstream| Event::CallAccepted {
            upstream,
            call: 1,
            client: ClientId(1),
            method: Method::ToolsCall,
            tool: None,
            trace: None,
        };
        emit(&mut observer, &accepted(member));
        emit(&mut observer, &accepted(UPSTREAM));
        assert_eq!((seen(&store).waiting, seen(&store).sessions, seen(&store).state.kind), (2, 1, StateKind::Idle));
        assert_eq!(lock(&store).snapshot().servers.len(), 2, "it is not a server of its own");
        emit(&mut observer, &Event::UpstreamRemoved { upstream: member });
        assert_eq!(seen(&store).sessions, 0);
        emit(&mut observer, &accepted(member));
        assert_eq!(seen(&store).waiting, 2, "its number belongs to no server any more");
    }

    #[test]
    fn remaining_wait_is_at_most_the_planned_wait() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        up(&mut observer);
        let gone = Reason::ErrorBody { message: "gone\u{1b}[2J".to_owned() };
        emit(&mut observer, &moved(LinkState::Up, LinkState::Waiting, Some(gone)));
        let wait = Duration::from_secs(3_600);
        emit(&mut observer, &Event::DialPlanned { upstream: UPSTREAM, attempt: 3, most: Some(10), wait });
        let state = seen(&store).state;
        assert_eq!((state.kind, state.attempt, state.attempts), (StateKind::Reconnecting, Some(3), Some(10)));
        let left = state.next_in_ms.unwrap();
        assert!(left > 1_800_000 && left <= 3_600_000, "{left}");
        assert_eq!(state.why.as_deref(), Some("the server answered: gone\\u{1b}[2J"), "the text is escaped");
        emit(&mut observer, &moved(LinkState::Waiting, LinkState::Dialing, None));
        assert_eq!(seen(&store).state.next_in_ms, None, "the dial has started");
    }

    #[test]
    fn slow_follower_gets_the_number_of_missed_events() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        let mut receiver = lock(&store).follow(Level::Debug);
        let mut quiet = lock(&store).follow(Level::Warn);
        let accepted = Event::CallAccepted {
            upstream: UPSTREAM,
            call: 1,
            client: ClientId(1),
            method: Method::ToolsCall,
            tool: None,
            trace: None,
        };
        for _ in 0..FOLLOWER_QUEUE + 10 {
            emit(&mut observer, &accepted);
        }
        for _ in 0..FOLLOWER_QUEUE {
            assert!(matches!(receiver.try_recv(), Ok(StreamItem::Event(_))));
        }
        emit(&mut observer, &accepted);
        assert_eq!(receiver.try_recv(), Ok(StreamItem::Missed(10)));
        assert!(matches!(receiver.try_recv(), Ok(StreamItem::Event(_))));
        assert!(quiet.try_recv().is_err(), "no event has its level");
        drop((receiver, quiet));
        emit(&mut observer, &accepted);
        assert_eq!(lock(&store).followers.len(), 1, "a follower without events is removed later");
        let _next = lock(&store).follow(Level::Debug);
        assert_eq!(lock(&store).followers.len(), 1, "it is removed with the next follower");
    }

    #[test]
    fn t04_breaker_whose_time_is_over_is_half_open() {
        let store = store();
        let mut observer = StatusObserver::new(Arc::clone(&store));
        let opened = |tool: Option<&str>, open_for| Event::BreakerOpened {
            upstream: UPSTREAM,
            tool: tool.map(str::to_owned),
            open_for,
            why: RefusalReason::Overloaded,
        };
        emit(&mut observer, &opened(None, Duration::from_secs(3_600)));
        assert_eq!(seen(&store).breaker.state, BreakerState::Open);
        emit(&mut observer, &opened(None, Duration::ZERO));
        emit(&mut observer, &opened(Some("create_note"), Duration::ZERO));
        let breaker = seen(&store).breaker;
        assert_eq!((breaker.state, breaker.tools[0].state), (BreakerState::HalfOpen, BreakerState::HalfOpen));
        assert_eq!(breaker.words(), "half open");
    }
}
