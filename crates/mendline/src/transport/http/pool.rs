//! The connections of one upstream.
//!
//! The pool grows with the exchanges in flight. It keeps as many idle connections as were in use at the same time
//! recently (`recent_use`), and at least [`MIN_KEPT`]; each of them is closed when its idle limit has passed. An
//! exchange takes the connection that has been idle for the shortest time, because the peer is the least likely to
//! close it, if it is as fresh as the exchange requires (`fatal_idle`) and still looks open. A connection that was
//! woken is polled before this check, so that it notices its own end and that of its last exchange. Only the candidate
//! is polled, so that the cost of a call does not depend on the number of idle connections.

use mendline_core::reason::CutReason;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mendline_core::port::{ExchangeId, Reuse};
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Key;
use super::connection::{Connection, Freshness};
use super::fatal_idle::FatalIdle;
use super::h1::{Http1, ReadBuffer};
use super::ready::ObservedWaker;
use super::recent_use::RecentUse;
use super::request::Head;
use super::transfer::{Evidence, ResponseFuture, Upload};

/// The number of idle connections that are kept whatever the recent use was. One burst of calls often follows another,
/// and a new dial costs more than a few idle seconds.
const MIN_KEPT: usize = 64;

/// The number of a connection, never reused.
pub(super) type ConnectionId = u64;

pub(super) struct Pool<Io: AsyncRead + AsyncWrite + Unpin> {
    entries: BTreeMap<ConnectionId, Entry<Io>>,
    /// Connections that can take another exchange, the most recently used one last. A busy HTTP/1 connection is not
    /// among them.
    order: VecDeque<ConnectionId>,
    /// Wakes the driver when an idle limit may have passed. It is reset only to an earlier time, so that a connection
    /// in frequent use does not move the timer each time.
    idle_timer: Option<Pin<Box<Sleep>>>,
    recent_use: RecentUse,
    fatal_idle: FatalIdle,
    /// All connections of HTTP/1 read into it.
    buffer: ReadBuffer,
}

struct Entry<Io: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<Io>,
    waker: ObservedWaker<Key>,
    /// The exchange that a connection of HTTP/1 carries.
    exchange: Option<ExchangeId>,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Pool<Io> {
    pub(super) fn new() -> Pool<Io> {
        Pool {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            idle_timer: None,
            recent_use: RecentUse::new(Instant::now()),
            fatal_idle: FatalIdle::default(),
            buffer: ReadBuffer::new(),
        }
    }

    pub(super) fn add(&mut self, id: ConnectionId, connection: Connection<Io>, waker: ObservedWaker<Key>) {
        let due = connection.idle_deadline();
        self.entries.insert(id, Entry { connection, waker, exchange: None });
        self.order.push_back(id);
        self.arm(due);
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection<Io>> {
        self.entries.get(&id).map(|entry| &entry.connection)
    }

    /// Returns the number of connections that can take no exchange until their current one ends. HTTP/2 connections do
    /// not count.
    pub(super) fn busy(&self) -> usize {
        self.entries.len().saturating_sub(self.order.len())
    }

    /// Returns how many connections are missing for the recent use; `waiting` exchanges wait for one now. None is
    /// missing if no connection is in use: there is no sign that the server is there.
    pub(super) fn missing(&mut self, waiting: usize) -> usize {
        let busy = self.busy();
        if busy == 0 {
            return 0;
        }
        self.recent_use.peak(busy + waiting, Instant::now()).saturating_sub(self.entries.len())
    }

    /// Returns whether any connection may be able to take an exchange.
    pub(super) fn has_candidates(&self) -> bool {
        !self.order.is_empty()
    }

    pub(super) fn holds(&self, id: ConnectionId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Polls a connection. If it has ended, removes it and returns the reason.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<CutReason> {
        let entry = self.entries.get_mut(&id)?;
        match entry.connection.poll(&mut Context::from_waker(entry.waker.waker()), &mut self.buffer) {
            Poll::Ready(reason) => {
                if let (CutReason::Closed, Some(idle)) = (&reason, entry.connection.idle_time(Instant::now())) {
                    self.fatal_idle.note_closed(idle);
                }
                self.remove(id);
                Some(reason)
            }
            Poll::Pending => None,
        }
    }

    /// Returns the exchange that a connection of HTTP/1 carries. The exchange polls it.
    pub(super) fn exchange_on(&self, id: ConnectionId) -> Option<ExchangeId> {
        self.entries.get(&id)?.exchange
    }

    /// Returns a connection of HTTP/1 for its exchange, with the buffer for reading and the waker of the connection.
    pub(super) fn http1(&mut self, id: ConnectionId) -> Option<(&mut Http1<Io>, &mut ReadBuffer, &Waker)> {
        let entry = self.entries.get_mut(&id)?;
        Some((entry.connection.http1()?, &mut self.buffer, entry.waker.waker()))
    }

    /// Notes that the server closed a connection when a request came after this idle time.
    pub(super) fn note_lost(&mut self, idle: Duration) {
        self.fatal_idle.note_closed(idle);
    }

    /// Notes that the server answered a request that came after this idle time.
    pub(super) fn note_answered(&mut self, idle: Duration) {
        self.fatal_idle.note_open(idle);
    }

    /// Returns the best connection for an exchange with this requirement.
    pub(super) fn choose(&mut self, freshness: Freshness, now: Instant) -> Option<ConnectionId> {
        let safe_idle = self.fatal_idle.limit();
        let mut index = self.order.len();
        while let Some(id) = index.checked_sub(1).and_then(|index| self.order.get(index).copied()) {
            index -= 1;
            let Some(entry) = self.entries.get(&id) else { continue };
            if !entry.connection.is_fresh(freshness, safe_idle, now) {
                // Those before it have been idle for longer.
                if freshness != Freshness::By(Reuse::Any) && entry.connection.is_stale(safe_idle, now) {
                    break;
                }
                continue;
            }
            if entry.connection.is_idle() && entry.connection.is_used() {
                // If nothing has woken it since its last poll, it has noticed everything that the reactor knows.
                if entry.waker.is_queued() && self.poll(id).is_some() {
                    continue;
                }
                let Some(entry) = self.entries.get(&id) else { continue };
                if !entry.connection.looks_open() {
                    entry.connection.idle_time(now).into_iter().for_each(|idle| self.fatal_idle.note_closed(idle));
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

    /// Sends a request on a chosen connection. Returns `None` if the connection no longer takes it; then nothing was
    /// written.
    pub(super) fn send(
        &mut self,
        id: ConnectionId,
        exchange: ExchangeId,
        head: Head<'_>,
        body: Option<&Spliced>,
        now: Instant,
    ) -> Option<(ResponseFuture, Option<Upload>, Evidence)> {
        let entry = self.entries.get_mut(&id)?;
        let waker = entry.waker.waker();
        let sent = entry.connection.send(head, body, &mut self.buffer, &mut Context::from_waker(waker));
        if entry.connection.is_shared() {
            waker.wake_by_ref();
        } else {
            entry.exchange = sent.is_some().then_some(exchange);
            self.remove_from_order(id);
            self.recent_use.note(self.busy(), now);
        }
        sent
    }

    /// Ends a completed exchange.
    pub(super) fn release(&mut self, id: ConnectionId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.connection.release(now);
        entry.exchange = None;
        // A connection of HTTP/1 whose body was read to its end has nothing more to do.
        if entry.connection.is_shared() || entry.connection.has_leftover() {
            entry.waker.waker().wake_by_ref();
        }
        self.become_idle(id, now);
    }

    /// Ends an exchange that was given up. Removes the connection if it cannot be used without it.
    pub(super) fn give_up(&mut self, id: ConnectionId) {
        if self.entries.get_mut(&id).is_some_and(|entry| entry.connection.give_up()) {
            self.become_idle(id, Instant::now());
        } else {
            self.remove(id);
        }
    }

    /// Closes connections whose idle limit has passed. Returns true if it must be polled again.
    pub(super) fn poll_idle_timer(&mut self, cx: &mut Context<'_>) -> bool {
        if self.idle_timer.as_mut().is_none_or(|sleep| sleep.as_mut().poll(cx).is_pending()) {
            return false;
        }
        self.idle_timer = None;
        let before = self.entries.len();
        self.close_expired(Instant::now());
        let next = self.entries.values().filter_map(|entry| entry.connection.idle_deadline()).min();
        self.arm(next);
        self.arm_surplus();
        // The next poll registers the new timer.
        self.entries.len() < before || self.idle_timer.is_some()
    }

    /// Closes every idle connection.
    pub(super) fn close_idle(&mut self) {
        self.close_where(|_, _| true);
    }

    /// Moves a connection to the end of the order after an exchange, and closes surplus ones.
    fn become_idle(&mut self, id: ConnectionId, now: Instant) {
        let due = self.get(id).and_then(Connection::idle_deadline);
        if self.get(id).is_some_and(Connection::is_shared) {
            self.remove_from_order(id);
        }
        self.order.push_back(id);
        if due.is_some_and(|due| due <= now) {
            self.close_expired(now);
        } else {
            self.close_surplus(now);
            self.arm(due);
        }
        self.arm_surplus();
    }

    /// Returns how many idle connections are kept.
    fn kept(&mut self, now: Instant) -> usize {
        // The common case needs no history.
        if self.order.len() <= MIN_KEPT { MIN_KEPT } else { self.recent_use.peak(self.busy(), now).max(MIN_KEPT) }
    }

    /// Closes the longest idle connections if there are too many. They are the first ones, so that the cost does not
    /// depend on the number of connections.
    fn close_surplus(&mut self, now: Instant) {
        let surplus = self.order.len().saturating_sub(self.kept(now));
        if surplus == 0 {
            return;
        }
        let longest = self.order.iter().take(surplus).copied();
        let idle = longest.filter(|id| self.get(*id).is_some_and(Connection::is_idle));
        for id in idle.collect::<Vec<_>>() {
            self.remove_and_close(id);
        }
    }

    fn remove_and_close(&mut self, id: ConnectionId) {
        if let Some(entry) = self.remove(id) {
            entry.connection.close();
        }
    }

    /// Arms the timer for the time when some idle connections may no longer be kept.
    fn arm_surplus(&mut self) {
        if self.order.len() > MIN_KEPT {
            self.arm(Some(self.recent_use.until()));
        }
    }

    /// Closes the connections whose idle limit has passed, and the longest idle ones if there are too many.
    fn close_expired(&mut self, now: Instant) {
        let idle = self.order.iter().filter(|id| self.get(**id).is_some_and(Connection::is_idle)).count();
        let surplus = idle.saturating_sub(self.kept(now));
        for entry in self.entries.values() {
            // Its idle limit ends before the server closes it, so this is not the longest possible time.
            if entry.connection.idle_deadline().is_some_and(|due| due <= now) && entry.connection.looks_open() {
                entry.connection.idle_time(now).into_iter().for_each(|idle| self.fatal_idle.note_open(idle));
            }
        }
        self.close_where(|index, connection| {
            index < surplus || connection.idle_deadline().is_some_and(|due| due <= now)
        });
    }

    /// Closes the idle connections that the predicate selects; its index counts from the longest idle one.
    fn close_where(&mut self, is_selected: impl Fn(usize, &Connection<Io>) -> bool) {
        let idle = self.order.iter().filter(|id| self.get(**id).is_some_and(Connection::is_idle)).enumerate();
        let selected =
            idle.filter(|(index, id)| self.get(**id).is_some_and(|connection| is_selected(*index, connection)));
        for id in selected.map(|(_, id)| *id).collect::<Vec<_>>() {
            self.remove_and_close(id);
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
        // A chosen connection is near the end.
        if let Some(index) = self.order.iter().rposition(|other| *other == id) {
            self.order.remove(index);
        }
    }
}
