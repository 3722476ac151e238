//! The connections that are being made.
//!
//! There are as many as somebody waits for and no more: a dial that nobody waits for any longer is given up, because a
//! server that is in trouble should not also be dialed for nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connect::NoConnection;
use super::connection::Connection;
use super::pool::ConnectionId;

type Made<Io> = Result<Connection<Io>, NoConnection>;
/// A connection in the making.
pub(super) type Making<Io> = Pin<Box<dyn Future<Output = Made<Io>> + Send>>;

pub(super) struct Dials<Io: AsyncRead + AsyncWrite + Unpin> {
    running: BTreeMap<ConnectionId, Dialing<Io>>,
    /// The number of the next connection.
    next: ConnectionId,
}

struct Dialing<Io: AsyncRead + AsyncWrite + Unpin> {
    made: Making<Io>,
    waker: Waker,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static> Dials<Io> {
    pub(super) fn new() -> Dials<Io> {
        Dials { running: BTreeMap::new(), next: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Sees to it that as many run as are wanted. The youngest are given up first.
    pub(super) fn keep(&mut self, wanted: usize, mut start: impl FnMut(ConnectionId) -> (Making<Io>, Waker)) {
        while self.running.len() < wanted {
            let (made, waker) = start(self.next);
            self.running.insert(self.next, Dialing { made, waker });
            self.next += 1;
        }
        while self.running.len() > wanted {
            self.running.pop_last();
        }
    }

    /// What became of a dial, once something has.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<Made<Io>> {
        let dialing = self.running.get_mut(&id)?;
        match dialing.made.as_mut().poll(&mut Context::from_waker(&dialing.waker)) {
            Poll::Ready(made) => {
                self.running.remove(&id);
                Some(made)
            }
            Poll::Pending => None,
        }
    }
}
