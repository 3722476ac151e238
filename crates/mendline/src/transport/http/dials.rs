//! The connections that are being dialing.
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

type Dialed<Io> = Result<Connection<Io>, NoConnection>;
/// A connection in the making.
pub(super) type Dialing<Io> = Pin<Box<dyn Future<Output = Dialed<Io>> + Send>>;

pub(super) struct Dials<Io: AsyncRead + AsyncWrite + Unpin> {
    running: BTreeMap<ConnectionId, Entry<Io>>,
    /// The number of the next connection.
    next: ConnectionId,
}

struct Entry<Io: AsyncRead + AsyncWrite + Unpin> {
    dialing: Dialing<Io>,
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
    pub(super) fn set_wanted(&mut self, wanted: usize, mut start: impl FnMut(ConnectionId) -> (Dialing<Io>, Waker)) {
        while self.running.len() < wanted {
            let (dialing, waker) = start(self.next);
            self.running.insert(self.next, Entry { dialing, waker });
            self.next += 1;
        }
        while self.running.len() > wanted {
            self.running.pop_last();
        }
    }

    /// What became of a dial, once something has.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<Dialed<Io>> {
        let entry = self.running.get_mut(&id)?;
        match entry.dialing.as_mut().poll(&mut Context::from_waker(&entry.waker)) {
            Poll::Ready(dialing) => {
                self.running.remove(&id);
                Some(dialing)
            }
            Poll::Pending => None,
        }
    }
}
