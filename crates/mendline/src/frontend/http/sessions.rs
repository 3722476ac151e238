//! The sessions of the gateway: one client of the engine each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mendline_core::sharing::Use;
use mendline_core::{ClientId, Moment, StreamId, UpstreamId, defaults};
use ring::digest::{Context, SHA256};

use super::hub::Hub;

/// The time after which a session without a request or a stream is removed. Its id opens it again.
pub const IDLE: Duration = Duration::from_secs(30 * 60);

/// The finished streams that a client can still resume.
const FINISHED_STREAMS: usize = 4;

/// The part of the limit of sessions that is removed at once.
const SURPLUS_PART: usize = 64;

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its client in the engine.
    pub client: ClientId,
    /// Its upstream.
    pub upstream: UpstreamId,
    /// The sealed id; none for a session without one.
    pub id: Option<String>,
    /// The principal that owns it.
    pub principal: Arc<str>,
    /// The name of its server.
    pub server: Arc<str>,
    /// The revision of the handshake, or of the requests in the modern era.
    pub revision: String,
    next_stream: AtomicU32,
    usage: Mutex<Usage>,
}

/// The way in which a session was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// By a client that knows its id, or needs none.
    ByClient,
    /// For a request without a usable id. The client may ignore the id that it is told.
    Unasked,
    /// By a stream of 2024-11-05, before the first message.
    BySse,
}

#[derive(Debug)]
struct Usage {
    /// Connections that read a stream.
    readers: usize,
    last: Instant,
    finished: VecDeque<StreamId>,
    /// The time after which the session is removed, if it is not used.
    idle: Duration,
    /// The engine has its client.
    has_begun: bool,
}

impl Session {
    /// Creates a session.
    pub fn new(
        (client, upstream): (ClientId, UpstreamId),
        id: Option<String>,
        principal: Arc<str>,
        server: Arc<str>,
        revision: String,
        opened: Opened,
    ) -> Session {
        let idle = if opened == Opened::ByClient { IDLE } else { defaults::SHORT_IDLE };
        let has_begun = opened != Opened::BySse;
        let usage = Usage { readers: 0, last: Instant::now(), finished: VecDeque::new(), idle, has_begun };
        let next_stream = AtomicU32::new(StreamId::COMMON.0 + 1);
        Session { client, upstream, id, principal, server, revision, next_stream, usage: Mutex::new(usage) }
    }

    /// Returns the number of a new stream.
    pub fn new_stream(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Records that its client cannot resume its stream for long.
    pub fn set_short_lived(&self) {
        self.lock().idle = defaults::SHORT_IDLE;
    }

    /// Records that its client uses its id.
    pub fn set_long_lived(&self) {
        self.lock().idle = IDLE;
    }

    /// Records that its client is opened in the engine. Returns whether it was not before.
    pub fn begin(&self) -> bool {
        !std::mem::replace(&mut self.lock().has_begun, true)
    }

    /// Registers a connection that reads a stream.
    pub fn begin_use(&self) {
        self.lock().readers += 1;
    }

    /// Registers its end.
    pub fn end_use(&self) {
        let mut usage = self.lock();
        usage.readers = usage.readers.saturating_sub(1);
        usage.last = Instant::now();
    }

    /// Registers a request without a stream.
    pub fn touch(&self) {
        self.lock().last = Instant::now();
    }

    /// Keeps a finished stream for a client that lost its end, and removes the oldest one that is too many.
    pub fn keep_finished(&self, stream: StreamId, hub: &Hub) {
        if stream == StreamId::COMMON {
            return;
        }
        let removed = {
            let mut usage = self.lock();
            usage.finished.push_back(stream);
            if usage.finished.len() > FINISHED_STREAMS { usage.finished.pop_front() } else { None }
        };
        if let Some(removed) = removed {
            hub.remove_stream(self.client, removed);
        }
    }

    /// The time of its last use; none if a connection reads one of its streams.
    fn idle_since(&self) -> Option<Instant> {
        let usage = self.lock();
        (usage.readers == 0).then_some(usage.last)
    }

    fn is_idle(&self, now: Instant) -> bool {
        let usage = self.lock();
        usage.readers == 0 && now.saturating_duration_since(usage.last) >= usage.idle
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of the session that has no id: requests of the modern era, of one principal to one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImplicitKey {
    /// The principal.
    pub principal: Arc<str>,
    /// The server.
    pub server: Arc<str>,
}

/// The key of a session whose client sends the id of another gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForeignKey([u8; 32]);

impl ForeignKey {
    /// The key for an id that a client of this principal sends to this server.
    pub fn new(principal: &str, server: &str, id: &str) -> ForeignKey {
        let mut hash = Context::new(&SHA256);
        for part in [principal, server, id] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(hash.finish().as_ref());
        ForeignKey(key)
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    by_id: HashMap<String, Arc<Session>>,
    implicit: HashMap<ImplicitKey, Arc<Session>>,
    /// The ids of sessions whose clients send another one.
    foreign: HashMap<ForeignKey, String>,
    /// Sessions of servers that are being removed.
    leaving: Vec<Arc<Session>>,
}

impl Sessions {
    /// Returns the session with this id.
    pub fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.by_id.get(id).cloned()
    }

    /// Returns the session of a client that sends a foreign id.
    pub fn of_foreign(&self, key: &ForeignKey) -> Option<Arc<Session>> {
        self.get(self.foreign.get(key)?)
    }

    /// Adds the id of the session of a client that sends a foreign id.
    pub fn insert_foreign(&mut self, key: ForeignKey, id: String) {
        self.foreign.insert(key, id);
    }

    /// Returns the session for requests without an id.
    pub fn implicit(&self, key: &ImplicitKey) -> Option<Arc<Session>> {
        self.implicit.get(key).cloned()
    }

    /// Adds a session with an id.
    pub fn insert(&mut self, session: &Arc<Session>) {
        if let Some(id) = &session.id {
            self.by_id.insert(id.clone(), Arc::clone(session));
        }
    }

    /// Adds a session without an id.
    pub fn insert_implicit(&mut self, key: ImplicitKey, session: &Arc<Session>) {
        self.implicit.insert(key, Arc::clone(session));
    }

    /// Removes the session with this id.
    pub fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        self.by_id.remove(id)
    }

    /// Removes and returns the sessions that have been idle for too long.
    pub fn take_idle(&mut self, now: Instant) -> Vec<Arc<Session>> {
        let idle = |session: &Arc<Session>| session.is_idle(now);
        let mut taken: Vec<_> = self.by_id.extract_if(|_, session| idle(session)).map(|(_, session)| session).collect();
        taken.extend(self.implicit.extract_if(|_, session| idle(session)).map(|(_, session)| session));
        self.foreign.retain(|_, id| self.by_id.contains_key(id));
        taken
    }

    /// Removes and returns the session of a principal with a server that has an upstream alone, was not used since
    /// `until`, and was idle for the longest time.
    pub fn take_evictable(
        &mut self,
        principal: &str,
        server: &str,
        until: Instant,
        is_busy: impl Fn(&Session) -> bool,
    ) -> Option<Arc<Session>> {
        let mut clients: HashMap<UpstreamId, usize> = HashMap::new();
        for session in self.by_id.values().chain(self.implicit.values()) {
            *clients.entry(session.upstream).or_default() += 1;
        }
        let is_its = |session: &&Arc<Session>| *session.principal == *principal && *session.server == *server;
        let idle = self.by_id.values().filter(is_its).filter(|session| clients.get(&session.upstream) == Some(&1));
        let idle = idle.filter_map(|session| Some((session.idle_since().filter(|since| *since <= until)?, session)));
        let (_, session) = idle.filter(|(_, session)| !is_busy(session)).min_by_key(|(since, _)| *since)?;
        let id = session.id.clone()?;
        self.by_id.remove(&id)
    }

    /// Returns whether a principal has more sessions than this limit.
    pub fn is_above(&self, principal: &str, limit: usize) -> bool {
        self.by_id.len() > limit
            && self.by_id.values().filter(|session| *session.principal == *principal).count() > limit
    }

    /// Removes and returns the sessions of principals that are not known any more.
    pub fn take_unknown(&mut self, knows: impl Fn(&str) -> bool) -> Vec<Arc<Session>> {
        let is_unknown = |session: &Arc<Session>| !knows(&session.principal);
        let named = self.by_id.extract_if(|_, session| is_unknown(session)).map(|(_, session)| session);
        let implicit = self.implicit.extract_if(|_, session| is_unknown(session)).map(|(_, session)| session);
        named.chain(implicit).collect()
    }

    /// Takes the sessions of a server out of use, because it is being removed. Their calls go on.
    pub fn note_leaving(&mut self, server: &str) {
        let is_its = |session: &Arc<Session>| *session.server == *server;
        let named = self.by_id.extract_if(|_, session| is_its(session)).map(|(_, session)| session);
        let implicit = self.implicit.extract_if(|_, session| is_its(session)).map(|(_, session)| session);
        self.leaving.extend(named.chain(implicit));
    }

    /// Removes and returns the sessions of an upstream that was removed.
    pub fn take_leaving(&mut self, upstream: UpstreamId) -> Vec<Arc<Session>> {
        self.leaving.extract_if(.., |session| session.upstream == upstream).collect()
    }

    /// The uses of all upstreams that have sessions.
    pub fn uses(&self, moment: impl Fn(Instant) -> Moment) -> BTreeMap<UpstreamId, Use> {
        let mut uses = BTreeMap::new();
        for session in self.by_id.values().chain(self.implicit.values()) {
            let usage = session.lock();
            let new = if usage.readers > 0 { Use::Now } else { Use::Last(moment(usage.last)) };
            let last = uses.entry(session.upstream).or_insert(new);
            *last = match (*last, new) {
                (Use::Last(one), Use::Last(other)) => Use::Last(one.max(other)),
                _ => Use::Now,
            };
        }
        uses
    }

    /// The number of sessions with this upstream.
    pub fn count_of(&self, upstream: UpstreamId) -> usize {
        self.by_id.values().chain(self.implicit.values()).filter(|session| session.upstream == upstream).count()
    }

    /// Returns whether a connection reads a stream of a session.
    pub fn any_reader(&self) -> bool {
        self.by_id.values().chain(self.implicit.values()).any(|session| session.lock().readers > 0)
    }

    /// Removes and returns the idle sessions that are too many for the principal of this one, those first that were used
    /// long ago. A few more are removed than necessary, so that the next session need not search again.
    pub fn take_surplus(&mut self, new: &Session, most: usize) -> Vec<Arc<Session>> {
        if self.by_id.len() <= most {
            return Vec::new();
        }
        let of_principal = || self.by_id.values().filter(|session| session.principal == new.principal);
        let count = of_principal().count();
        if count <= most {
            return Vec::new();
        }
        let others = of_principal().filter(|session| session.client != new.client);
        let mut idle: Vec<_> =
            others.filter_map(|session| Some((session.idle_since()?, session.id.clone()?))).collect();
        idle.sort_unstable();
        idle.into_iter().take(count - most + most / SURPLUS_PART).filter_map(|(_, id)| self.by_id.remove(&id)).collect()
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.by_id.len() + self.implicit.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u32, upstream: u16, principal: &str, opened: Opened) -> Arc<Session> {
        let ids = (ClientId(number), UpstreamId(upstream));
        let (principal, server) = (Arc::from(principal), Arc::from("notes"));
        Arc::new(Session::new(ids, Some(number.to_string()), principal, server, "2025-11-25".to_owned(), opened))
    }

    fn table(sessions: &[Arc<Session>]) -> Sessions {
        let mut table = Sessions::default();
        sessions.iter().for_each(|session| table.insert(session));
        table
    }

    fn clients(sessions: &[Arc<Session>]) -> Vec<u32> {
        let mut clients: Vec<_> = sessions.iter().map(|session| session.client.0).collect();
        clients.sort_unstable();
        clients
    }

    #[test]
    fn session_expires_after_its_idle_time_unless_it_is_read() {
        let all = [
            session(1, 0, "ann", Opened::ByClient),
            session(2, 0, "ann", Opened::Unasked),
            session(3, 0, "ann", Opened::BySse),
            session(4, 0, "ann", Opened::BySse),
        ];
        all[3].begin_use();
        let mut table = table(&all);
        let now = Instant::now();
        assert_eq!(clients(&table.take_idle(now)), [0u32; 0]);
        assert_eq!(clients(&table.take_idle(now + defaults::SHORT_IDLE)), [2, 3], "their clients cannot come back");
        assert_eq!(clients(&table.take_idle(now + IDLE)), [1]);
        all[3].end_use();
        assert_eq!(clients(&table.take_idle(Instant::now() + defaults::SHORT_IDLE)), [4]);
    }

    #[test]
    fn longest_idle_session_of_the_principal_is_evicted() {
        let all = [
            session(1, 1, "bob", Opened::ByClient),
            session(2, 2, "ann", Opened::ByClient),
            session(3, 3, "ann", Opened::ByClient),
            session(4, 3, "ann", Opened::ByClient),
            session(5, 4, "ann", Opened::ByClient),
            session(6, 5, "ann", Opened::ByClient),
        ];
        all[4].begin_use();
        let mut table = table(&all);
        let mut evict = |until, busy: u32| {
            table.take_evictable("ann", "notes", until, |session| session.client.0 == busy).map(|it| it.client.0)
        };
        let now = Instant::now();
        assert_eq!(evict(now.checked_sub(Duration::from_secs(60)).unwrap(), 0), None, "all were just used");
        assert_eq!(evict(now, 0), Some(2));
        assert_eq!(evict(now, 6), None, "the others share, are read, or run a request");
        assert_eq!(evict(now, 0), Some(6));
    }

    #[test]
    fn sessions_in_use_stay_and_the_limit_is_reported() {
        let all = [0, 1, 2].map(|number| session(number, 0, "ann", Opened::ByClient));
        all.iter().for_each(|session| session.begin_use());
        let mut table = table(&all);
        assert!(table.take_surplus(&all[2], 2).is_empty() && table.is_above("ann", 2));
        assert!(!table.is_above("ann", 3) && !table.is_above("bob", 2));
        all[0].end_use();
        assert_eq!(clients(&table.take_surplus(&all[2], 2)), [0]);
        assert!(!table.is_above("ann", 2));
    }

    #[test]
    fn foreign_ids_of_two_principals_name_two_sessions() {
        let keys = [("ann", "notes", "x"), ("bob", "notes", "x"), ("ann", "note", "sx"), ("ann", "notes", "y")];
        let keys = keys.map(|(principal, server, id)| ForeignKey::new(principal, server, id));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(key));
        }
    }
}
