//! The connections of one upstream.
//!
//! The pool grows with the exchanges in flight and keeps [`IDLE_MOST`] more at rest. Who takes which is one rule: the
//! connection that has rested least, because it is the least likely to be closed under our hands, if it is as fresh as
//! the exchange wants it and still looks open. Before that is judged, a resting connection is polled: it hears of its
//! own end, and learns that its last exchange is over.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Request;
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::answer::{Answer, Evidence, Inflow, Upload};
use super::connection::{Connection, Freshness};

/// How many connections rest at most. A burst of calls is followed by the next one, and dialing anew costs more than a few
/// seconds of rest; time retires what is not needed again.
const IDLE_MOST: usize = 64;

/// The number of a connection, never used twice.
pub(super) type ConnectionId = u64;

pub(super) struct Pool<Io: AsyncRead + AsyncWrite + Unpin> {
    seats: BTreeMap<ConnectionId, Seat<Io>>,
    /// Wakes the driver when the next connection has rested long enough.
    retirement: Option<Pin<Box<Sleep>>>,
}

struct Seat<Io: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<Io>,
    bell: Waker,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Pool<Io> {
    pub(super) fn new() -> Pool<Io> {
        Pool { seats: BTreeMap::new(), retirement: None }
    }

    pub(super) fn add(&mut self, id: ConnectionId, connection: Connection<Io>, bell: Waker) {
        self.seats.insert(id, Seat { connection, bell });
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection<Io>> {
        self.seats.get(&id).map(|seat| &seat.connection)
    }

    pub(super) fn holds(&self, id: ConnectionId) -> bool {
        self.seats.contains_key(&id)
    }

    /// Lets a connection read and write. If it is over it leaves the pool, and the words say why.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<String> {
        let seat = self.seats.get_mut(&id)?;
        match seat.connection.poll(&mut Context::from_waker(&seat.bell)) {
            Poll::Ready(words) => {
                self.seats.remove(&id);
                Some(words)
            }
            Poll::Pending => None,
        }
    }

    /// The best connection for an exchange that wants it this fresh.
    pub(super) fn choose(&mut self, freshness: Freshness) -> Option<ConnectionId> {
        let now = Instant::now();
        let resting = |(id, seat): (&ConnectionId, &Seat<Io>)| {
            (seat.connection.rests() && seat.connection.is_used()).then_some(*id)
        };
        for id in self.seats.iter().filter_map(resting).collect::<Vec<_>>() {
            if self.poll(id).is_none() && self.seats.get(&id).is_some_and(|seat| !seat.connection.looks_open()) {
                self.seats.remove(&id);
            }
        }
        let free = self.seats.iter().filter(|(_, seat)| seat.connection.is_free(freshness, now));
        free.max_by_key(|(_, seat)| seat.connection.resting_since()).map(|(id, _)| *id)
    }

    /// Sends a request on a connection that was chosen. `None` if it takes it no more, with nothing written.
    pub(super) fn send(
        &mut self,
        id: ConnectionId,
        head: Request<()>,
        body: Option<&Spliced>,
    ) -> Option<(Answer, Option<Upload>, Evidence)> {
        let seat = self.seats.get_mut(&id)?;
        let sent = seat.connection.send(head, body);
        seat.bell.wake_by_ref();
        sent
    }

    /// An exchange came to its proper end, and the connection may rest this long.
    pub(super) fn release(&mut self, id: ConnectionId, rest: Option<Duration>, leftover: Inflow) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.connection.release(rest, leftover);
            seat.bell.wake_by_ref();
        }
        self.retire_due(Instant::now());
    }

    /// An exchange was given up. Afterwards the connection is gone if it cannot go on without it.
    pub(super) fn give_up(&mut self, id: ConnectionId) {
        let goes_on = self.seats.get_mut(&id).is_some_and(|seat| seat.connection.give_up());
        if !goes_on {
            self.seats.remove(&id);
        }
    }

    /// True if connections were closed because they have rested long enough.
    pub(super) fn poll_retirement(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.seats.values().filter_map(|seat| seat.connection.retires()).min() else {
            self.retirement = None;
            return false;
        };
        let sleep = self.retirement.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if sleep.deadline() != due {
            sleep.as_mut().reset(due);
        }
        if sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.retire_due(Instant::now());
        true
    }

    /// Closes the connections that have rested long enough, and the longest resting ones if there are too many.
    fn retire_due(&mut self, now: Instant) {
        let mut resting: Vec<_> = self.seats.iter().filter(|(_, seat)| seat.connection.rests()).collect();
        resting.sort_by_key(|(_, seat)| std::cmp::Reverse(seat.connection.resting_since()));
        let due = resting.iter().enumerate().filter(|(place, (_, seat))| {
            *place >= IDLE_MOST || seat.connection.retires().is_some_and(|due| due <= now)
        });
        let due: Vec<ConnectionId> = due.map(|(_, (id, _))| **id).collect();
        self.retire(&due);
    }

    /// Closes every connection that carries nothing.
    pub(super) fn retire_all(&mut self) {
        let resting: Vec<_> =
            self.seats.iter().filter(|(_, seat)| seat.connection.rests()).map(|(id, _)| *id).collect();
        self.retire(&resting);
    }

    fn retire(&mut self, ids: &[ConnectionId]) {
        for seat in ids.iter().filter_map(|id| self.seats.remove(id)).collect::<Vec<_>>() {
            seat.connection.retire();
        }
    }
}
