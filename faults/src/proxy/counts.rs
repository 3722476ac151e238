//! What the proxy has seen.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Everything that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyCounts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those of them that are open now.
    pub open: u64,
    /// Connections that were made to the upstream.
    pub dialed: u64,
    /// Attempts at that which failed.
    pub dial_failures: u64,
    /// Connections that a toxic or a test ended.
    pub cut: u64,
    /// Connections whose packets a toxic let go nowhere.
    pub unplugged: u64,
    /// What went up.
    pub up: DirectionCounts,
    /// What went down.
    pub down: DirectionCounts,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectionCounts {
    /// Bytes that were read from the sender.
    pub read: u64,
    /// Bytes that were written to the receiver.
    pub written: u64,
    /// Bytes that were read and will never be written.
    pub lost: u64,
    /// In how many pieces they were written.
    pub pieces: u64,
    /// Senders that ended or broke.
    pub ends: u64,
}

/// Counts, and wakes who waits for a count.
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
