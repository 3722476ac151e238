//! The connections that are being established.
//!
//! A dial begins only for an exchange that waits for a connection. If the exchange gets another connection first, the
//! dial continues as long as the pool has fewer connections than recent use needs. Otherwise it is dropped, so that a
//! server in trouble is not dialed needlessly.

use mendline_core::reason::ConnectError;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::Connection;
use super::pool::ConnectionId;

type ConnectResult<Io> = Result<Connection<Io>, ConnectError>;
/// A connection that is being established.
pub(super) type Dialing<Io> = Pin<Box<dyn Future<Output = ConnectResult<Io>> + Send>>;

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

    /// Starts dials until the wanted number runs, and drops those beyond the wanted and the kept number. The newest are
    /// dropped first.
    pub(super) fn set_wanted(
        &mut self,
        wanted: usize,
        kept: usize,
        mut start: impl FnMut(ConnectionId) -> (Dialing<Io>, Waker),
    ) {
        while self.running.len() < wanted {
            let (dialing, waker) = start(self.next);
            self.running.insert(self.next, Entry { dialing, waker });
            self.next += 1;
        }
        while self.running.len() > wanted.max(kept) {
            self.running.pop_last();
        }
    }

    /// Polls a dial; returns its result and removes it when it is done.
    pub(super) fn poll(&mut self, id: ConnectionId) -> Option<ConnectResult<Io>> {
        let entry = self.running.get_mut(&id)?;
        match entry.dialing.as_mut().poll(&mut Context::from_waker(&entry.waker)) {
            Poll::Ready(result) => {
                self.running.remove(&id);
                Some(result)
            }
            Poll::Pending => None,
        }
    }
}
