//! Where those who have something to tell and the thread that writes it meet.
//!
//! Waking a thread costs more than everything else here, so it is done rarely: a thread that sleeps is woken by the first
//! entry and then waits a moment for others to gather before it takes them all. Under load it is so woken a few times a
//! second, however much happens; when nothing happens it sleeps.
//!
//! The queue has an end. What does not fit is counted where it is missing, and a server that talks without end takes no place
//! from what was decided meanwhile.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mendline_core::{Event, UpstreamId};

use super::now;
use super::open_calls::Before;
use crate::driver::Direction;
use crate::observe::log::LogLevel;

/// How many entries lie here at most.
const MOST: usize = 8 * 1024;

/// How many places of those are only for what is rare.
const RESERVED: usize = 1024;

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
    Passed { direction: Direction, length: usize, text: Box<[u8]> },
    /// This many entries that did not fit.
    Lost(u64),
}

impl Entry {
    pub(super) fn now(level: LogLevel, upstream: Option<UpstreamId>, what: What) -> Entry {
        Entry { at: now(), level, upstream, what }
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Said(text) | What::Passed { text, .. } => text.len(),
            What::Note(text) => text.len(),
            What::Event(..) | What::Lost(_) => 0,
        }
    }

    /// How many lines it stands for.
    pub(super) fn lines(&self) -> u64 {
        if let What::Lost(count) = self.what { count } else { 1 }
    }

    /// Is it one of very many?
    fn is_chatter(&self) -> bool {
        self.level == LogLevel::Debug || matches!(self.what, What::Said(_) | What::Passed { .. })
    }
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// An empty one, to be filled next.
    spare: Vec<Entry>,
    bytes: usize,
    is_asleep: bool,
    /// The thread was told not to wait for more.
    is_pressed: bool,
    is_over: bool,
}

impl State {
    fn is_half_full(&self) -> bool {
        self.entries.len() >= MOST / 2 || self.bytes > MOST_BYTES / 2
    }

    fn takes(&self, entry: &Entry) -> bool {
        let most = if entry.is_chatter() { MOST - RESERVED } else { MOST };
        self.entries.len() < most && self.bytes + entry.bytes() <= MOST_BYTES
    }

    /// Counts an entry that has no place here.
    fn lose(&mut self, entry: &Entry) {
        match self.entries.last_mut() {
            Some(Entry { what: What::Lost(count), .. }) => *count += 1,
            _ => self.entries.push(Entry { level: LogLevel::Warn, upstream: None, what: What::Lost(1), ..*entry }),
        }
    }
}

impl Queue {
    /// Puts something down. Never waits for anybody but the thread that takes everything away, which is quick.
    pub(super) fn put(&self, entry: Entry) {
        let mut state = self.lock();
        if !state.takes(&entry) {
            state.lose(&entry);
            return;
        }
        state.bytes += entry.bytes();
        state.entries.push(entry);
        let is_pressing = state.is_half_full() && !std::mem::replace(&mut state.is_pressed, true);
        if std::mem::take(&mut state.is_asleep) || is_pressing {
            drop(state);
            self.news.notify_one();
        }
    }

    /// What there is to write; waits for it. `None` when there will be no more.
    pub(super) fn next(&self) -> Option<Vec<Entry>> {
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
        Some(std::mem::replace(&mut state.entries, spare))
    }

    /// Takes back the room that a batch needed.
    pub(super) fn give_back(&self, mut batch: Vec<Entry>) {
        batch.clear();
        // Dropped outside of the lock, and not kept for days after a busy minute.
        let is_busy = !self.lock().entries.is_empty();
        if !is_busy {
            batch.shrink_to(KEEP);
        }
        self.lock().spare = batch;
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

    fn said() -> Entry {
        Entry::now(LogLevel::Info, None, What::Said((*b"x").into()))
    }

    /// How many were kept, and how many that were not.
    fn counted(batch: &[Entry]) -> (usize, u64) {
        let lost = batch.iter().map(|entry| if let What::Lost(count) = entry.what { count } else { 0 }).sum();
        (batch.iter().filter(|entry| !matches!(entry.what, What::Lost(_))).count(), lost)
    }

    #[test]
    fn a_full_desk_counts_what_it_could_not_take() {
        let queue = Queue::default();
        for _ in 0..MOST + 3 {
            queue.put(note("x"));
        }
        let batch = queue.next().unwrap();
        assert_eq!(counted(&batch), (MOST, 3));
        assert_eq!(batch.iter().map(Entry::lines).sum::<u64>(), MOST as u64 + 3);
        queue.give_back(batch);
        queue.put(note("y"));
        queue.close();
        assert_eq!(counted(&queue.next().unwrap()), (1, 0));
        assert!(queue.next().is_none());
    }

    #[test]
    fn a_server_that_talks_without_end_takes_no_place_from_what_was_decided() {
        let queue = Queue::default();
        for _ in 0..MOST {
            queue.put(said());
        }
        queue.put(Entry::now(LogLevel::Debug, None, What::Note("one of very many".into())));
        queue.put(note("stopping"));
        queue.put(said());
        queue.put(note("stopped"));
        let batch = queue.next().unwrap();
        assert_eq!(counted(&batch), (MOST - RESERVED + 2, RESERVED as u64 + 2));
        let last: Vec<&What> = batch[batch.len() - 4..].iter().map(|entry| &entry.what).collect();
        assert!(
            matches!(last[..], [What::Lost(_), What::Note(first), What::Lost(1), What::Note(last)]
                if **first == *"stopping" && **last == *"stopped"),
            "what is missing is missing where it was said"
        );
        assert!(batch.is_sorted_by_key(|entry| entry.at));
    }

    #[test]
    fn long_texts_fill_it_sooner() {
        let queue = Queue::default();
        let long = "x".repeat(MOST_BYTES / 4);
        for _ in 0..6 {
            queue.put(note(&long));
        }
        assert_eq!(counted(&queue.next().unwrap()), (4, 2));
    }

    #[test]
    fn what_was_put_down_before_the_end_is_still_written() {
        let queue = Queue::default();
        queue.put(note("final writes"));
        queue.close();
        assert_eq!(queue.next().map(|batch| batch.len()), Some(1));
        assert!(queue.next().is_none());
    }
}
