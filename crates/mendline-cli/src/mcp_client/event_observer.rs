//! An observer of a connection: the server's output, its readiness, and failures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mendline::decisions::event::LinkState;
use mendline::decisions::reason::Reason;
use mendline::decisions::{Event, UpstreamId};
use mendline::driver::{At, Observer};
use tokio::sync::Notify;

/// Number of lines kept of each kind.
const LINES: usize = 12;

/// Everything that was observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The first lines on stdout that are not protocol, and the number of all such lines.
    pub(crate) noise: Vec<String>,
    pub(crate) noise_lines: u64,
    /// The last lines of stderr.
    pub(crate) said: VecDeque<String>,
    /// True if the server ran or was connected.
    pub(crate) was_up: bool,
    /// The first failure: the loss of the connection, or a failed attempt to connect.
    pub(crate) trouble: Option<Reason>,
    /// True if the last call was sent.
    pub(crate) is_sent: bool,
    /// True if the last call was cancelled.
    pub(crate) is_cancelled: bool,
}

/// Collects events for other tasks. Clones share their state.
#[derive(Clone, Default)]
pub(crate) struct EventObserver {
    seen: Arc<Mutex<Observed>>,
    changed: Arc<Notify>,
}

impl EventObserver {
    /// Returns a copy of everything that was observed.
    pub(crate) fn seen(&self) -> Observed {
        self.lock().clone()
    }

    /// Waits for the first failure.
    pub(crate) async fn trouble(&self) -> Reason {
        self.until(|seen| seen.trouble.clone()).await
    }

    /// Waits until `look` returns something.
    pub(super) async fn until<T>(&self, look: impl Fn(&Observed) -> Option<T>) -> T {
        loop {
            // Registered before the check, so that no change is missed.
            let changed = self.changed.notified();
            if let Some(found) = look(&self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Observed> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventObserver {
    fn note_failure(&self, seen: &mut Observed, why: Reason) {
        seen.trouble.get_or_insert(why);
        self.changed.notify_waiters();
    }
}

impl Observer for EventObserver {
    fn on_event(&mut self, event: &Event, _: At) {
        let mut seen = self.lock();
        match event {
            Event::OutputSkipped { text, .. } => {
                seen.noise_lines += 1;
                if seen.noise.len() < LINES {
                    seen.noise.push(text.clone());
                }
            }
            Event::LinkStateChanged { to: LinkState::Up, .. } => seen.was_up = true,
            Event::CallAccepted { .. } => (seen.is_sent, seen.is_cancelled) = (false, false),
            Event::AttemptStarted { .. } => seen.is_sent = true,
            Event::CallCancelled { .. } => {
                seen.is_cancelled = true;
                self.changed.notify_waiters();
            }
            Event::DialFailed { why, .. } => self.note_failure(&mut seen, why.clone().into()),
            Event::ReconnectDisabled { why, .. }
            | Event::LinkStateChanged { to: LinkState::Waiting | LinkState::Parked, why: Some(why), .. } => {
                self.note_failure(&mut seen, why.clone());
            }
            _ => {}
        }
    }

    fn on_stderr(&mut self, _upstream: UpstreamId, line: &[u8]) {
        let mut seen = self.lock();
        if seen.said.len() == LINES {
            seen.said.pop_front();
        }
        seen.said.push_back(String::from_utf8_lossy(line).into_owned());
    }
}
