//! The connections of one upstream.
//!
//! The pool grows with the exchanges in flight and keeps [`MAX_IDLE`] more at idle_limit. Who takes which is one rule: the
//! connection that has rested least, because it is the least likely to be closed under our hands, if it is as fresh as
//! the exchange wants it and still looks open. Before that is judged the connection is polled: it hears of its own end,
//! and learns that its last exchange is over. Only the one whose turn it is is asked; the others will be when theirs comes,
//! so that a call costs the same however many idle_limit.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Request;
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::transfer::{ResponseFuture, Evidence, ResponseBody, Upload};
use super::connection::{Connection, Freshness};

/// How many connections idle_limit at most. A burst of calls is followed by the next one, and dialing anew costs more than a few
/// seconds of idle_limit; time idle_deadline what is not needed again.
const MAX_IDLE: usize = 64;

/// The number of a connection, never used twice.
pub(super) type ConnectionId = u64;

pub(super) struct Pool<Io: AsyncRead + AsyncWrite + Unpin> {
    entries: BTreeMap<ConnectionId, Entry<Io>>,
    /// Those that may take an exchange more, the one that has rested least last. One that cannot be shared is not among
    /// them while it carries something.
    order: VecDeque<ConnectionId>,
    /// Wakes the driver when a connection may have rested long enough, and is armed anew only for an earlier moment: who
    /// is used again and again must not move a timer each time.
    idle_timer: Option<Pin<Box<Sleep>>>,
}

struct Entry<Io: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<Io>,
    waker: Waker,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Pool<Io> {
    pub(super) fn new() -> Pool<Io> {
        Pool { entries: BTreeMap::new(), order: VecDeque::new(), idle_timer: None }
    }

    pub(super) fn add(&mut self, id: ConnectionId, connection: Connection<Io>, waker: Waker) {
        let due = connection.idle_deadline();
        self.entries.insert(id, Entry { connection, waker });
        self.order.push_back(id);
        self.arm(due);
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection<Io>> {
        self.entries.get(&id).map(|entry| &entry.connection)
    }

    /// How many connections carry something and can take nothing more. (A shared one is never among them.)
    pub(super) fn busy(&self) -> usize {
        self.entries.len().saturating_sub(self.order.len())
    }

    pub(super) fn holds(&self, id: ConnectionId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Lets a connection read and write. If it is over it leaves the pool, and the words say why.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<String> {
        let entry = self.entries.get_mut(&id)?;
        match entry.connection.poll(&mut Context::from_waker(&entry.waker)) {
            Poll::Ready(words) => {
                self.remove(id);
                Some(words)
            }
            Poll::Pending => None,
        }
    }

    /// The best connection for an exchange that wants it this fresh.
    pub(super) fn choose(&mut self, freshness: Freshness) -> Option<ConnectionId> {
        let now = Instant::now();
        let mut index = self.order.len();
        while let Some(id) = index.checked_sub(1).and_then(|index| self.order.get(index).copied()) {
            index -= 1;
            let Some(entry) = self.entries.get(&id) else { continue };
            if !entry.connection.is_fresh(freshness, now) {
                continue;
            }
            if entry.connection.is_idle() && entry.connection.is_used() {
                if self.poll(id).is_some() {
                    continue;
                }
                if self.entries.get(&id).is_some_and(|entry| !entry.connection.looks_open()) {
                    self.remove(id);
                    continue;
                }
            }
            if self.entries.get(&id).is_some_and(|entry| entry.connection.has_room()) {
                return Some(id);
            }
        }
        None
    }

    /// Sends a request on a connection that was chosen. `None` if it takes it no more, with nothing written.
    pub(super) fn send(
        &mut self,
        id: ConnectionId,
        head: Request<()>,
        body: Option<&Spliced>,
    ) -> Option<(ResponseFuture, Option<Upload>, Evidence)> {
        let entry = self.entries.get_mut(&id)?;
        let sent = entry.connection.send(head, body);
        entry.waker.wake_by_ref();
        if !entry.connection.is_shared() {
            self.remove_from_order(id);
        }
        sent
    }

    /// An exchange came to its proper end, and the connection may idle_limit this long.
    pub(super) fn release(&mut self, id: ConnectionId, idle_limit: Option<Duration>, leftover: ResponseBody) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.connection.release(idle_limit, leftover);
        entry.waker.wake_by_ref();
        self.become_idle(id);
    }

    /// An exchange was given up. Afterwards the connection is gone if it cannot go on without it.
    pub(super) fn give_up(&mut self, id: ConnectionId) {
        if self.entries.get_mut(&id).is_some_and(|entry| entry.connection.give_up()) {
            self.become_idle(id);
        } else {
            self.remove(id);
        }
    }

    /// True if connections were closed because they have rested long enough.
    pub(super) fn poll_idle_timer(&mut self, cx: &mut Context<'_>) -> bool {
        if self.idle_timer.as_mut().is_none_or(|sleep| sleep.as_mut().poll(cx).is_pending()) {
            return false;
        }
        self.idle_timer = None;
        let before = self.entries.len();
        self.close_expired(Instant::now());
        let next = self.entries.values().filter_map(|entry| entry.connection.idle_deadline()).min();
        self.arm(next);
        // Asked again it waits for the next one.
        self.entries.len() < before || self.idle_timer.is_some()
    }

    /// Closes every connection that carries nothing.
    pub(super) fn close_idle(&mut self) {
        self.close_where(|_, _| true);
    }

    /// Its exchange is over: it is now the one that has rested least, and somebody else may have to go for it.
    fn become_idle(&mut self, id: ConnectionId) {
        let now = Instant::now();
        let due = self.get(id).and_then(Connection::idle_deadline);
        if self.get(id).is_some_and(Connection::is_shared) {
            self.remove_from_order(id);
        }
        self.order.push_back(id);
        if self.order.len() > MAX_IDLE || due.is_some_and(|due| due <= now) {
            self.close_expired(now);
        } else {
            self.arm(due);
        }
    }

    /// Closes the connections that have rested long enough, and the longest idle ones if there are too many.
    fn close_expired(&mut self, now: Instant) {
        let idle = self.order.iter().filter(|id| self.get(**id).is_some_and(Connection::is_idle)).count();
        let surplus = idle.saturating_sub(MAX_IDLE);
        self.close_where(|index, connection| index < surplus || connection.idle_deadline().is_some_and(|due| due <= now));
    }

    /// Closes those of the idle connections that are chosen, counted from the longest idle one.
    fn close_where(&mut self, is_chosen: impl Fn(usize, &Connection<Io>) -> bool) {
        let idle = self.order.iter().filter(|id| self.get(**id).is_some_and(Connection::is_idle)).enumerate();
        let chosen = idle.filter(|(index, id)| self.get(**id).is_some_and(|connection| is_chosen(*index, connection)));
        for id in chosen.map(|(_, id)| *id).collect::<Vec<_>>() {
            if let Some(entry) = self.remove(id) {
                entry.connection.close();
            }
        }
    }

    fn arm(&mut self, due: Option<Instant>) {
        let Some(due) = due else { return };
        match &mut self.idle_timer {
            Some(sleep) if sleep.deadline() <= due => {}
            Some(sleep) => sleep.as_mut().reset(due),
            None => self.idle_timer = Some(Box::pin(sleep_until(due))),
        }
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Entry<Io>> {
        self.remove_from_order(id);
        self.entries.remove(&id)
    }

    fn remove_from_order(&mut self, id: ConnectionId) {
        // Whoever is chosen stands near the end.
        if let Some(index) = self.order.iter().rposition(|other| *other == id) {
            self.order.remove(index);
        }
    }
}
