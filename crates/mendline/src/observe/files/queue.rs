//! Where those who have something to tell and the thread that writes it meet.
//!
//! Waking a thread costs more than everything else here, so it is done rarely: a thread that sleeps is woken by the first
//! entry and then waits a moment for others to gather before it takes them all. Under load it is so woken a few times a
//! second, however much happens; when nothing happens it sleeps.
//!
//! The queue has an end. Payload does not fit is counted where it is missing, and a server that talks without end takes no place
//! from what was decided meanwhile.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mendline_core::{Event, UpstreamId};

use super::now;
use super::open_calls::Before;
use crate::driver::Direction;
use crate::observe::log::LogLevel;

/// How many entries lie here at most.
const MAX_ENTRIES: usize = 8 * 1024;

/// How many places of those are only for what is rare.
const RESERVED: usize = 1024;

/// How much text lies here at most.
const MAX_BYTES: usize = 2 << 20;

/// How long the first entry waits for others. Whoever follows the log sees them that much later.
const BATCH_DELAY: Duration = Duration::from_millis(40);

/// Room for more entries than this is given back.
const SPARE_ENTRIES: usize = 64;

/// Something to be written.
pub(super) struct Entry {
    /// When, in microseconds since 1970.
    pub(super) at: u64,
    pub(super) level: LogLevel,
    pub(super) upstream: Option<UpstreamId>,
    pub(super) payload: Payload,
}

/// Payload is to be written.
pub(super) enum Payload {
    /// An event, and what came before it in the story of its call.
    Event(Event, Option<Box<Before>>),
    /// Payload a child wrote to its stderr.
    Stderr(Box<[u8]>),
    /// Payload the rest of the program has to say.
    Message(Box<str>),
    /// A message, or its beginning.
    Wire { direction: Direction, length: usize, text: Box<[u8]> },
    /// This many entries that did not fit.
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

    /// How many lines it stands for.
    pub(super) fn lines(&self) -> u64 {
        if let Payload::Dropped(count) = self.payload { count } else { 1 }
    }

    /// Is it one of very many?
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
    /// An empty one, to be filled next.
    spare: Vec<Entry>,
    bytes: usize,
    is_asleep: bool,
    /// The thread was told not to wait for more.
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

    /// Counts an entry that has no place here.
    fn count_dropped(&mut self, entry: &Entry) {
        match self.entries.last_mut() {
            Some(Entry { payload: Payload::Dropped(count), .. }) => *count += 1,
            _ => self.entries.push(Entry { level: LogLevel::Warn, upstream: None, payload: Payload::Dropped(1), ..*entry }),
        }
    }
}

impl Queue {
    /// Puts something down. Never waits for anybody but the thread that takes everything away, which is quick.
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

    /// Payload there is to write; waits for it. `None` when there will be no more.
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

    /// Takes back the room that a batch needed.
    pub(super) fn recycle(&self, mut batch: Vec<Entry>) {
        batch.clear();
        // Dropped outside of the lock, and not kept for days after a busy minute.
        let is_busy = !self.lock().entries.is_empty();
        if !is_busy {
            batch.shrink_to(SPARE_ENTRIES);
        }
        self.lock().spare = batch;
    }

    /// Nothing more will come.
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

    /// How many were kept, and how many that were not.
    fn counted(batch: &[Entry]) -> (usize, u64) {
        let dropped = batch.iter().map(|entry| if let Payload::Dropped(count) = entry.payload { count } else { 0 }).sum();
        (batch.iter().filter(|entry| !matches!(entry.payload, Payload::Dropped(_))).count(), dropped)
    }

    #[test]
    fn a_full_desk_counts_what_it_could_not_take() {
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
    fn a_server_that_talks_without_end_takes_no_place_from_what_was_decided() {
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
            "what is missing is missing where it was said"
        );
        assert!(batch.is_sorted_by_key(|entry| entry.at));
    }

    #[test]
    fn long_texts_fill_it_sooner() {
        let queue = Queue::default();
        let long = "x".repeat(MAX_BYTES / 4);
        for _ in 0..6 {
            queue.put(message(&long));
        }
        assert_eq!(counted(&queue.next().unwrap()), (4, 2));
    }

    #[test]
    fn what_was_put_down_before_the_end_is_still_written() {
        let queue = Queue::default();
        queue.put(message("final writes"));
        queue.close();
        assert_eq!(queue.next().map(|batch| batch.len()), Some(1));
        assert!(queue.next().is_none());
    }
}
