//! What a bystander sees of a conversation: what the server printed, when it was ready, and what went wrong with it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mendline::decisions::event::LinkState;
use mendline::decisions::{Event, UpstreamId};
use mendline::driver::Observer;
use tokio::sync::Notify;

/// How many lines of each kind are kept.
const LINES: usize = 12;

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Lines on stdout that are not protocol: the first of them, and how many there were.
    pub(crate) noise: Vec<String>,
    pub(crate) noise_lines: u64,
    /// The last lines of stderr.
    pub(crate) said: VecDeque<String>,
    /// It ran, or could be reached.
    pub(crate) was_up: bool,
    /// The first thing that went wrong: how it was lost, or why it could not be had.
    pub(crate) trouble: Option<String>,
    /// The call that was asked last has left.
    pub(crate) is_sent: bool,
    /// It was taken back.
    pub(crate) is_cancelled: bool,
}

/// Sees, and lets others look. Clones see the same.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    seen: Arc<Mutex<Seen>>,
    stirred: Arc<Notify>,
}

impl Witness {
    /// What was seen until now.
    pub(crate) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Waits until something has gone wrong, and says what.
    pub(crate) async fn trouble(&self) -> String {
        self.until(|seen| seen.trouble.clone()).await
    }

    /// Waits until this can be seen.
    pub(super) async fn until<T>(&self, look: impl Fn(&Seen) -> Option<T>) -> T {
        loop {
            // Before the look, so that what happens after it is not missed.
            let stirred = self.stirred.notified();
            if let Some(found) = look(&self.lock()) {
                return found;
            }
            stirred.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Witness {
    fn happened(&mut self, event: &Event) {
        let mut seen = self.lock();
        match event {
            Event::NoiseSkipped { text, .. } => {
                seen.noise_lines += 1;
                if seen.noise.len() < LINES {
                    seen.noise.push(text.clone());
                }
            }
            Event::LinkMoved { to: LinkState::Up, .. } => seen.was_up = true,
            Event::CallAccepted { .. } => (seen.is_sent, seen.is_cancelled) = (false, false),
            Event::CallSent { .. } => seen.is_sent = true,
            Event::CallCancelled { .. } => {
                seen.is_cancelled = true;
                self.stirred.notify_waiters();
            }
            Event::DialFailed { why, .. }
            | Event::LeftAlone { why, .. }
            | Event::LinkMoved { to: LinkState::Waiting | LinkState::Parked, why, .. } => {
                seen.trouble.get_or_insert_with(|| why.clone());
                self.stirred.notify_waiters();
            }
            _ => {}
        }
    }

    fn said(&mut self, _upstream: UpstreamId, line: &[u8]) {
        let mut seen = self.lock();
        if seen.said.len() == LINES {
            seen.said.pop_front();
        }
        seen.said.push_back(String::from_utf8_lossy(line).into_owned());
    }
}
