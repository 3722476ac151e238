//! The sessions of the gateway: one client of the engine each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mendline_core::sharing::Use;
use mendline_core::{ClientId, Moment, StreamId, UpstreamId};

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

#[derive(Debug)]
struct Usage {
    /// Connections that read a stream.
    readers: usize,
    last: Instant,
    finished: VecDeque<StreamId>,
}

impl Session {
    /// Creates a session.
    pub fn new(
        (client, upstream): (ClientId, UpstreamId),
        id: Option<String>,
        principal: Arc<str>,
        server: Arc<str>,
        revision: String,
    ) -> Session {
        let usage = Usage { readers: 0, last: Instant::now(), finished: VecDeque::new() };
        let next_stream = AtomicU32::new(StreamId::COMMON.0 + 1);
        Session { client, upstream, id, principal, server, revision, next_stream, usage: Mutex::new(usage) }
    }

    /// Returns the number of a new stream.
    pub fn new_stream(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
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
        usage.readers == 0 && now.saturating_duration_since(usage.last) >= IDLE
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a session that has no id: requests of one principal to one server, of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImplicitKey {
    /// The principal.
    pub principal: Arc<str>,
    /// The server.
    pub server: Arc<str>,
    /// The revision.
    pub revision: String,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    by_id: HashMap<String, Arc<Session>>,
    implicit: HashMap<ImplicitKey, Arc<Session>>,
    /// Sessions of servers that are being removed.
    leaving: Vec<Arc<Session>>,
}

impl Sessions {
    /// Returns the session with this id.
    pub fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.by_id.get(id).cloned()
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

    /// Removes and returns the sessions that have been idle for [`IDLE`].
    pub fn take_idle(&mut self, now: Instant) -> Vec<Arc<Session>> {
        let idle = |session: &Arc<Session>| session.is_idle(now);
        let mut taken: Vec<_> = self.by_id.extract_if(|_, session| idle(session)).map(|(_, session)| session).collect();
        taken.extend(self.implicit.extract_if(|_, session| idle(session)).map(|(_, session)| session));
        taken
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
