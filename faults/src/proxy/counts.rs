//! The counts of the proxy.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// All counts of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyCounts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections that were made to the upstream.
    pub dialed: u64,
    /// Connections to the upstream that failed.
    pub dial_failures: u64,
    /// Connections that a toxic or a test cut.
    pub cut: u64,
    /// Connections whose packets a toxic dropped.
    pub unplugged: u64,
    /// The direction from client to upstream.
    pub up: DirectionCounts,
    /// The direction from upstream to client.
    pub down: DirectionCounts,
}

/// The counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectionCounts {
    /// Bytes read from the sender.
    pub read: u64,
    /// Bytes written to the receiver.
    pub written: u64,
    /// Bytes that were read and discarded.
    pub lost: u64,
    /// The number of writes.
    pub pieces: u64,
    /// Senders that closed or reset the connection.
    pub ends: u64,
}

/// Counters that wake tasks waiting for a count.
#[derive(Debug)]
pub(super) struct SharedCounts {
    counts: Mutex<ProxyCounts>,
    changed: watch::Sender<()>,
}

impl SharedCounts {
    pub(super) fn new() -> SharedCounts {
        SharedCounts { counts: Mutex::default(), changed: watch::channel(()).0 }
    }

    pub(super) fn now(&self) -> ProxyCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, update: impl FnOnce(&mut ProxyCounts)) {
        update(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.send_replace(());
    }

    pub(super) async fn until(
        &self,
        timeout: Duration,
        condition: impl Fn(&ProxyCounts) -> bool,
    ) -> Result<ProxyCounts, ProxyCounts> {
        let deadline = Instant::now() + timeout;
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let counts = self.now();
            if condition(&counts) {
                return Ok(counts);
            }
            if timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.now());
            }
        }
    }
}
