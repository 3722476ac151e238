//! Where those who have something to tell and the thread that writes it meet.
//!
//! Waking a thread costs more than everything else here, so it is done rarely: a thread that sleeps is woken by the first
//! entry and then waits a moment for others to gather before it takes them all. Under load it is so woken a few times a
//! second, however much happens; when nothing happens it sleeps. The desk has an end: what does not fit is counted.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mendline_core::{Event, UpstreamId};

use super::now;
use super::stories::Before;
use crate::driver::Way;
use crate::observe::log::LogLevel;

/// How many entries lie here at most.
const MOST: usize = 8 * 1024;

/// How much text lies here at most.
const MOST_BYTES: usize = 2 << 20;

/// How long the first entry waits for others. Whoever follows the log sees them that much later.
const GATHER: Duration = Duration::from_millis(40);

/// Room for more entries than this is given back.
const KEEP: usize = 64;

/// Something to be written.
pub(super) struct Entry {
    /// When, in microseconds since 1970.
    pub(super) at: u64,
    pub(super) level: LogLevel,
    pub(super) upstream: Option<UpstreamId>,
    pub(super) what: What,
}

/// What is to be written.
pub(super) enum What {
    /// An event, and what came before it in the story of its call.
    Event(Event, Option<Box<Before>>),
    /// What a child wrote to its stderr.
    Said(Box<[u8]>),
    /// What the rest of the program has to say.
    Note(Box<str>),
    /// A message, or its beginning.
    Passed { way: Way, length: usize, text: Box<[u8]> },
}

impl Entry {
    pub(super) fn now(level: LogLevel, upstream: Option<UpstreamId>, what: What) -> Entry {
        Entry { at: now(), level, upstream, what }
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Said(text) | What::Passed { text, .. } => text.len(),
            What::Note(text) => text.len(),
            What::Event(..) => 0,
        }
    }
}

/// What was taken from the desk at once.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    /// How many did not fit.
    pub(super) lost: u64,
}

#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// An empty one, to be filled next.
    spare: Vec<Entry>,
    bytes: usize,
    lost: u64,
    is_asleep: bool,
    /// The thread was told not to wait for more.
    is_pressed: bool,
    is_over: bool,
}

impl State {
    fn is_half_full(&self) -> bool {
        self.entries.len() >= MOST / 2 || self.bytes > MOST_BYTES / 2
    }
}

impl Desk {
    /// Puts something down. Never waits for anybody but the thread that takes everything away, which is quick.
    pub(super) fn put(&self, entry: Entry) {
        let mut state = self.lock();
        let bytes = entry.bytes();
        if state.entries.len() >= MOST || state.bytes + bytes > MOST_BYTES {
            state.lost += 1;
            return;
        }
        state.bytes += bytes;
        state.entries.push(entry);
        let is_pressing = state.is_half_full() && !std::mem::replace(&mut state.is_pressed, true);
        if std::mem::take(&mut state.is_asleep) || is_pressing {
            drop(state);
            self.news.notify_one();
        }
    }

    /// What there is to write; waits for it. `None` when there will be no more.
    pub(super) fn next(&self) -> Option<Batch> {
        let mut state = self.lock();
        while state.entries.is_empty() {
            if state.is_over {
                return None;
            }
            state.is_asleep = true;
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_asleep = false;
        if !state.is_over && !state.is_half_full() {
            (state, _) = self.news.wait_timeout(state, GATHER).unwrap_or_else(PoisonError::into_inner);
        }
        let spare = std::mem::take(&mut state.spare);
        state.bytes = 0;
        state.is_pressed = false;
        Some(Batch { entries: std::mem::replace(&mut state.entries, spare), lost: std::mem::take(&mut state.lost) })
    }

    /// Takes back the room that a batch needed.
    pub(super) fn give_back(&self, mut batch: Batch) {
        batch.entries.clear();
        // Dropped outside of the lock, and not kept for days after a busy minute.
        let is_busy = !self.lock().entries.is_empty();
        if !is_busy {
            batch.entries.shrink_to(KEEP);
        }
        self.lock().spare = batch.entries;
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Entry {
        Entry::now(LogLevel::Info, None, What::Note(text.into()))
    }

    #[test]
    fn a_full_desk_counts_what_it_could_not_take() {
        let desk = Desk::default();
        for _ in 0..MOST + 3 {
            desk.put(note("x"));
        }
        let batch = desk.next().unwrap();
        assert_eq!((batch.entries.len(), batch.lost), (MOST, 3));
        desk.give_back(batch);
        desk.put(note("y"));
        desk.close();
        let batch = desk.next().unwrap();
        assert_eq!((batch.entries.len(), batch.lost), (1, 0));
        assert!(desk.next().is_none());
    }

    #[test]
    fn long_texts_fill_it_sooner() {
        let desk = Desk::default();
        let long = "x".repeat(MOST_BYTES / 4);
        for _ in 0..6 {
            desk.put(note(&long));
        }
        let batch = desk.next().unwrap();
        assert_eq!((batch.entries.len(), batch.lost), (4, 2));
    }

    #[test]
    fn what_was_put_down_before_the_end_is_still_written() {
        let desk = Desk::default();
        desk.put(note("last words"));
        desk.close();
        assert_eq!(desk.next().map(|batch| batch.entries.len()), Some(1));
        assert!(desk.next().is_none());
    }
}
