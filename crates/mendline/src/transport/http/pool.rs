//! The connections of one upstream.
//!
//! The pool grows with the exchanges in flight and keeps [`IDLE_MOST`] more at rest. Who takes which is one rule: the
//! connection that has rested least, because it is the least likely to be closed under our hands, if it is as fresh as
//! the exchange wants it and still looks open. Before that is judged the connection is polled: it hears of its own end,
//! and learns that its last exchange is over. Only the one whose turn it is is asked; the others will be when theirs comes,
//! so that a call costs the same however many rest.

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

/// How many connections rest at most. A burst of calls is followed by the next one, and dialing anew costs more than a few
/// seconds of rest; time retires what is not needed again.
const IDLE_MOST: usize = 64;

/// The number of a connection, never used twice.
pub(super) type ConnectionId = u64;

pub(super) struct Pool<Io: AsyncRead + AsyncWrite + Unpin> {
    seats: BTreeMap<ConnectionId, Seat<Io>>,
    /// Those that may take an exchange more, the one that has rested least last. One that cannot be shared is not among
    /// them while it carries something.
    order: VecDeque<ConnectionId>,
    /// Wakes the driver when a connection may have rested long enough, and is armed anew only for an earlier moment: who
    /// is used again and again must not move a timer each time.
    retirement: Option<Pin<Box<Sleep>>>,
}

struct Seat<Io: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<Io>,
    waker: Waker,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Pool<Io> {
    pub(super) fn new() -> Pool<Io> {
        Pool { seats: BTreeMap::new(), order: VecDeque::new(), retirement: None }
    }

    pub(super) fn add(&mut self, id: ConnectionId, connection: Connection<Io>, waker: Waker) {
        let due = connection.retires();
        self.seats.insert(id, Seat { connection, waker });
        self.order.push_back(id);
        self.arm(due);
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection<Io>> {
        self.seats.get(&id).map(|seat| &seat.connection)
    }

    /// How many connections carry something and can take nothing more. (A shared one is never among them.)
    pub(super) fn taken(&self) -> usize {
        self.seats.len().saturating_sub(self.order.len())
    }

    pub(super) fn holds(&self, id: ConnectionId) -> bool {
        self.seats.contains_key(&id)
    }

    /// Lets a connection read and write. If it is over it leaves the pool, and the words say why.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<String> {
        let seat = self.seats.get_mut(&id)?;
        match seat.connection.poll(&mut Context::from_waker(&seat.waker)) {
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
        let mut place = self.order.len();
        while let Some(id) = place.checked_sub(1).and_then(|place| self.order.get(place).copied()) {
            place -= 1;
            let Some(seat) = self.seats.get(&id) else { continue };
            if !seat.connection.is_fresh(freshness, now) {
                continue;
            }
            if seat.connection.rests() && seat.connection.is_used() {
                if self.poll(id).is_some() {
                    continue;
                }
                if self.seats.get(&id).is_some_and(|seat| !seat.connection.looks_open()) {
                    self.remove(id);
                    continue;
                }
            }
            if self.seats.get(&id).is_some_and(|seat| seat.connection.has_room()) {
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
        let seat = self.seats.get_mut(&id)?;
        let sent = seat.connection.send(head, body);
        seat.waker.wake_by_ref();
        if !seat.connection.is_shared() {
            self.leave_order(id);
        }
        sent
    }

    /// An exchange came to its proper end, and the connection may rest this long.
    pub(super) fn release(&mut self, id: ConnectionId, rest: Option<Duration>, leftover: ResponseBody) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        seat.connection.release(rest, leftover);
        seat.waker.wake_by_ref();
        self.come_to_rest(id);
    }

    /// An exchange was given up. Afterwards the connection is gone if it cannot go on without it.
    pub(super) fn give_up(&mut self, id: ConnectionId) {
        if self.seats.get_mut(&id).is_some_and(|seat| seat.connection.give_up()) {
            self.come_to_rest(id);
        } else {
            self.remove(id);
        }
    }

    /// True if connections were closed because they have rested long enough.
    pub(super) fn poll_retirement(&mut self, cx: &mut Context<'_>) -> bool {
        if self.retirement.as_mut().is_none_or(|sleep| sleep.as_mut().poll(cx).is_pending()) {
            return false;
        }
        self.retirement = None;
        let before = self.seats.len();
        self.retire_due(Instant::now());
        let next = self.seats.values().filter_map(|seat| seat.connection.retires()).min();
        self.arm(next);
        // Asked again it waits for the next one.
        self.seats.len() < before || self.retirement.is_some()
    }

    /// Closes every connection that carries nothing.
    pub(super) fn retire_all(&mut self) {
        self.retire_where(|_, _| true);
    }

    /// Its exchange is over: it is now the one that has rested least, and somebody else may have to go for it.
    fn come_to_rest(&mut self, id: ConnectionId) {
        let now = Instant::now();
        let due = self.get(id).and_then(Connection::retires);
        if self.get(id).is_some_and(Connection::is_shared) {
            self.leave_order(id);
        }
        self.order.push_back(id);
        if self.order.len() > IDLE_MOST || due.is_some_and(|due| due <= now) {
            self.retire_due(now);
        } else {
            self.arm(due);
        }
    }

    /// Closes the connections that have rested long enough, and the longest resting ones if there are too many.
    fn retire_due(&mut self, now: Instant) {
        let resting = self.order.iter().filter(|id| self.get(**id).is_some_and(Connection::rests)).count();
        let surplus = resting.saturating_sub(IDLE_MOST);
        self.retire_where(|place, connection| place < surplus || connection.retires().is_some_and(|due| due <= now));
    }

    /// Closes those of the resting connections that are meant, counted from the longest resting one.
    fn retire_where(&mut self, is_meant: impl Fn(usize, &Connection<Io>) -> bool) {
        let resting = self.order.iter().filter(|id| self.get(**id).is_some_and(Connection::rests)).enumerate();
        let meant = resting.filter(|(place, id)| self.get(**id).is_some_and(|connection| is_meant(*place, connection)));
        for id in meant.map(|(_, id)| *id).collect::<Vec<_>>() {
            if let Some(seat) = self.remove(id) {
                seat.connection.retire();
            }
        }
    }

    fn arm(&mut self, due: Option<Instant>) {
        let Some(due) = due else { return };
        match &mut self.retirement {
            Some(sleep) if sleep.deadline() <= due => {}
            Some(sleep) => sleep.as_mut().reset(due),
            None => self.retirement = Some(Box::pin(sleep_until(due))),
        }
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Seat<Io>> {
        self.leave_order(id);
        self.seats.remove(&id)
    }

    fn leave_order(&mut self, id: ConnectionId) {
        // Whoever is chosen stands near the end.
        if let Some(place) = self.order.iter().rposition(|other| *other == id) {
            self.order.remove(place);
        }
    }
}
