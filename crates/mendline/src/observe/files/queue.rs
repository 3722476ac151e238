//! The queue between the thread that serves calls and the thread that writes log files.
//!
//! Waking a thread is the most expensive step here, so it happens rarely. The first entry wakes the writer, which then
//! waits briefly for more entries and takes all of them. Under load it wakes a few times per second, whatever the
//! number of entries; without entries it sleeps.
//!
//! The queue is bounded. Dropped entries are counted at their position. A part of the queue is reserved, so that the
//! stderr of a server cannot displace the events of the engine.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mendline_core::{Event, UpstreamId};

use super::now;
use super::open_calls::Before;
use crate::driver::Direction;
use crate::observe::log::LogLevel;

/// The limit of entries.
const MAX_ENTRIES: usize = 8 * 1024;

/// The entries that are reserved for events and messages above level `debug`.
const RESERVED: usize = 1024;

/// The limit of the texts of all entries, in bytes.
const MAX_BYTES: usize = 2 << 20;

/// The time that the first entry waits for others, and so the delay of `mendline logs --follow`.
const BATCH_DELAY: Duration = Duration::from_millis(40);

/// The limit of an empty buffer that is kept for reuse, in entries.
const SPARE_ENTRIES: usize = 64;

/// An entry of the log.
pub(super) struct Entry {
    /// The time, in microseconds since 1970.
    pub(super) at: u64,
    pub(super) level: LogLevel,
    pub(super) upstream: Option<UpstreamId>,
    pub(super) payload: Payload,
}

/// The content of an entry.
pub(super) enum Payload {
    /// An event, and the earlier events of its call.
    Event(Event, Option<Box<Before>>),
    /// A line of a child's stderr.
    Stderr(Box<[u8]>),
    /// A message of the program.
    Message(Box<str>),
    /// A message on the wire, or its beginning.
    Wire { direction: Direction, length: usize, text: Box<[u8]> },
    /// The number of entries that did not fit.
    Dropped(u64),
}

impl Entry {
    pub(super) fn now(level: LogLevel, upstream: Option<UpstreamId>, payload: Payload) -> Entry {
        Entry { at: now(), level, upstream, payload }
    }

    fn bytes(&self) -> usize {
        match &self.payload {
            Payload::Stderr(text) | Payload::Wire { text, .. } => text.len(),
            Payload::Message(text) => text.len(),
            Payload::Event(..) | Payload::Dropped(_) => 0,
        }
    }

    /// Returns the number of lines that it represents.
    pub(super) fn lines(&self) -> u64 {
        if let Payload::Dropped(count) = self.payload { count } else { 1 }
    }

    /// Returns whether it is of a frequent kind that may not use the reserved entries.
    fn is_low_priority(&self) -> bool {
        self.level == LogLevel::Debug || matches!(self.payload, Payload::Stderr(_) | Payload::Wire { .. })
    }
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// An empty buffer for the next batch.
    spare: Vec<Entry>,
    bytes: usize,
    is_asleep: bool,
    /// The writer was woken and must not wait for more entries.
    is_urgent: bool,
    is_closed: bool,
}

impl State {
    fn is_half_full(&self) -> bool {
        self.entries.len() >= MAX_ENTRIES / 2 || self.bytes > MAX_BYTES / 2
    }

    fn has_room_for(&self, entry: &Entry) -> bool {
        let most = if entry.is_low_priority() { MAX_ENTRIES - RESERVED } else { MAX_ENTRIES };
        self.entries.len() < most && self.bytes + entry.bytes() <= MAX_BYTES
    }

    /// Counts an entry that does not fit.
    fn count_dropped(&mut self, entry: &Entry) {
        match self.entries.last_mut() {
            Some(Entry { payload: Payload::Dropped(count), .. }) => *count += 1,
            _ => self.entries.push(Entry {
                level: LogLevel::Warn,
                upstream: None,
                payload: Payload::Dropped(1),
                ..*entry
            }),
        }
    }
}

impl Queue {
    /// Adds an entry. Waits only for the lock, which the writer holds briefly.
    pub(super) fn put(&self, entry: Entry) {
        let mut state = self.lock();
        if !state.has_room_for(&entry) {
            state.count_dropped(&entry);
            return;
        }
        state.bytes += entry.bytes();
        state.entries.push(entry);
        let becomes_urgent = state.is_half_full() && !std::mem::replace(&mut state.is_urgent, true);
        if std::mem::take(&mut state.is_asleep) || becomes_urgent {
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Waits for entries and returns them. Returns `None` after the queue was closed and emptied.
    pub(super) fn next(&self) -> Option<Vec<Entry>> {
        let mut state = self.lock();
        while state.entries.is_empty() {
            if state.is_closed {
                return None;
            }
            state.is_asleep = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_asleep = false;
        if !state.is_closed && !state.is_half_full() {
            (state, _) = self.wake.wait_timeout(state, BATCH_DELAY).unwrap_or_else(PoisonError::into_inner);
        }
        let spare = std::mem::take(&mut state.spare);
        state.bytes = 0;
        state.is_urgent = false;
        Some(std::mem::replace(&mut state.entries, spare))
    }

    /// Takes the buffer of a batch for reuse.
    pub(super) fn recycle(&self, mut batch: Vec<Entry>) {
        batch.clear();
        // The entries are dropped outside of the lock. A large buffer is released when the queue is idle.
        let is_busy = !self.lock().entries.is_empty();
        if !is_busy {
            batch.shrink_to(SPARE_ENTRIES);
        }
        self.lock().spare = batch;
    }

    /// Closes the queue.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Entry {
        Entry::now(LogLevel::Info, None, Payload::Message(text.into()))
    }

    fn stderr() -> Entry {
        Entry::now(LogLevel::Info, None, Payload::Stderr((*b"x").into()))
    }

    /// Returns the number of entries and of dropped entries.
    fn counted(batch: &[Entry]) -> (usize, u64) {
        let dropped =
            batch.iter().map(|entry| if let Payload::Dropped(count) = entry.payload { count } else { 0 }).sum();
        (batch.iter().filter(|entry| !matches!(entry.payload, Payload::Dropped(_))).count(), dropped)
    }

    #[test]
    fn full_queue_counts_dropped_entries() {
        let queue = Queue::default();
        for _ in 0..MAX_ENTRIES + 3 {
            queue.put(message("x"));
        }
        let batch = queue.next().unwrap();
        assert_eq!(counted(&batch), (MAX_ENTRIES, 3));
        assert_eq!(batch.iter().map(Entry::lines).sum::<u64>(), MAX_ENTRIES as u64 + 3);
        queue.recycle(batch);
        queue.put(message("y"));
        queue.close();
        assert_eq!(counted(&queue.next().unwrap()), (1, 0));
        assert!(queue.next().is_none());
    }

    #[test]
    fn stderr_does_not_use_reserved_entries() {
        let queue = Queue::default();
        for _ in 0..MAX_ENTRIES {
            queue.put(stderr());
        }
        queue.put(Entry::now(LogLevel::Debug, None, Payload::Message("one of very many".into())));
        queue.put(message("stopping"));
        queue.put(stderr());
        queue.put(message("stopped"));
        let batch = queue.next().unwrap();
        assert_eq!(counted(&batch), (MAX_ENTRIES - RESERVED + 2, RESERVED as u64 + 2));
        let last: Vec<&Payload> = batch[batch.len() - 4..].iter().map(|entry| &entry.payload).collect();
        assert!(
            matches!(last[..], [Payload::Dropped(_), Payload::Message(first), Payload::Dropped(1), Payload::Message(last)]
                if **first == *"stopping" && **last == *"stopped"),
            "dropped entries are counted at their position"
        );
        assert!(batch.is_sorted_by_key(|entry| entry.at));
    }

    #[test]
    fn long_texts_fill_the_queue_sooner() {
        let queue = Queue::default();
        let long = "x".repeat(MAX_BYTES / 4);
        for _ in 0..6 {
            queue.put(message(&long));
        }
        assert_eq!(counted(&queue.next().unwrap()), (4, 2));
    }

    #[test]
    fn entries_before_close_are_still_returned() {
        let queue = Queue::default();
        queue.put(message("final writes"));
        queue.close();
        assert_eq!(queue.next().map(|batch| batch.len()), Some(1));
        assert!(queue.next().is_none());
    }
}
