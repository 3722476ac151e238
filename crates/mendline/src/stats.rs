//! Statistics of recoveries, kept on disk for `mendline stats`.
//!
//! ```text
//! $XDG_STATE_HOME/mendline/stats/     0700
//!   notes.json                        0600: counts of one server, by the hour
//! ```
//! The [`StatsObserver`] folds the events of a process ([`RecoveryFold`]) and hands the counts to a thread, which adds
//! them to the file. All processes with a server of that name add to the same file, under a lock. The file has a limit:
//! one set of counts per hour, for [`KEPT_DAYS`] days. If the disk is full, slow or gone, the counts wait in memory until
//! the file can be written; nothing else is affected.

mod file;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::recovery::{Recoveries, RecoveryFold};
use mendline_core::{Event, UpstreamId};

use crate::background::{Work, Worker};
use crate::driver::{At, Observer};
pub use file::{KEPT_DAYS, ServerStats, read_all};

/// The directory of the files inside of the state directory.
pub const FOLDER: &str = "stats";

/// The delay of a write after a recovery, so that the events of one incident are written together.
const WRITE_DELAY: Duration = Duration::from_secs(1);

/// The delay before the next write after an error.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Healthy calls are handed over in groups of this size.
const CALLS_AT_ONCE: u64 = 256;

/// The stack of the thread, which only merges and writes.
const STACK_BYTES: usize = 256 * 1024;

/// Counts by the hour since 1970.
type Hours = BTreeMap<u64, Recoveries>;

/// The observer of one process.
pub struct StatsObserver {
    servers: Vec<ServerFold>,
    shared: Arc<Shared>,
    /// The thread, once it is started.
    work: Option<Work>,
    writer: Option<Writer>,
}

/// The fold of one server.
struct ServerFold {
    fold: RecoveryFold,
    /// Healthy calls that were not handed over yet.
    answered: u64,
    /// The time of the last event.
    last: At,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Counts that are not written yet, by server.
    pending: Vec<Hours>,
    is_over: bool,
}

impl StatsObserver {
    /// Creates the observer of these servers. Nothing is written before something is recovered.
    pub fn new(state_directory: &Path, names: Vec<String>) -> StatsObserver {
        let servers = names.iter().map(|_| ServerFold::new()).collect();
        let shared = Arc::new(Shared::default());
        shared.lock().pending = names.iter().map(|_| Hours::new()).collect();
        let writer = Writer { folder: state_directory.join(FOLDER), names };
        StatsObserver { servers, shared, work: None, writer: Some(writer) }
    }

    /// Hands counts over to the thread, which is started with the first ones.
    fn hand_over(&mut self, server: usize, added: Recoveries, at: At) {
        let hour = at.unix_micros / 3_600_000_000;
        let mut state = self.shared.lock();
        if let Some(pending) = state.pending.get_mut(server) {
            *pending.entry(hour).or_default() += added;
        }
        drop(state);
        if !added.is_any() && self.work.is_none() {
            // A process in which nothing is ever recovered writes once, at its end.
            return;
        }
        self.start();
        self.shared.changed.notify_all();
    }

    /// Counts the time away of servers that are away when the process ends.
    fn count_away(&mut self, at: At) {
        for index in 0..self.servers.len() {
            let away = self.servers[index].fold.count_away(at.moment);
            if !away.is_zero() {
                self.hand_over(index, Recoveries { away, ..Recoveries::default() }, at);
            }
        }
    }

    fn start(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        let (work, worker) = Work::new();
        self.work = Some(work);
        let shared = Arc::clone(&self.shared);
        // Without the thread nothing is written, and calls continue.
        let _ = thread::Builder::new()
            .name("mendline-stats".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.serve(&writer, &worker));
    }
}

impl Observer for StatsObserver {
    fn on_event(&mut self, event: &Event, at: At) {
        if let Event::Stopping { .. } | Event::Stopped = event {
            return self.count_away(at);
        }
        let Some(index) = event.upstream().map(|UpstreamId(id)| usize::from(id)) else { return };
        let Some(server) = self.servers.get_mut(index) else { return };
        server.last = at;
        let mut added = server.fold.apply(event, at.moment);
        server.answered += added.answered;
        added.answered = 0;
        if added.is_any() || server.answered >= CALLS_AT_ONCE {
            added.answered = std::mem::take(&mut server.answered);
            self.hand_over(index, added, at);
        }
    }

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}

impl Drop for StatsObserver {
    fn drop(&mut self) {
        for index in 0..self.servers.len() {
            let server = &mut self.servers[index];
            let (answered, last) = (std::mem::take(&mut server.answered), server.last);
            if answered > 0 {
                self.hand_over(index, Recoveries { answered, ..Recoveries::default() }, last);
            }
        }
        let has_counts = self.shared.lock().pending.iter().any(|hours| !hours.is_empty());
        if has_counts {
            self.start();
        }
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(work) = &self.work {
            work.wait();
        }
    }
}

impl ServerFold {
    fn new() -> ServerFold {
        ServerFold {
            fold: RecoveryFold::default(),
            answered: 0,
            last: At { moment: Default::default(), unix_micros: 0 },
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, writer: &Writer, worker: &Worker) {
        loop {
            let state = self.lock();
            let is_idle = |state: &mut State| !state.is_over && state.pending.iter().all(BTreeMap::is_empty);
            let state = self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner);
            let mut state = self.pause(state, WRITE_DELAY);
            let is_over = state.is_over;
            let taken: Vec<Hours> = state.pending.iter_mut().map(std::mem::take).collect();
            drop(state);
            let left = worker.risk(|| writer.write(taken));
            if is_over {
                return;
            }
            if left.iter().any(|hours| !hours.is_empty()) {
                let mut state = self.lock();
                for (pending, left) in state.pending.iter_mut().zip(left) {
                    left.into_iter().for_each(|(hour, counts)| *pending.entry(hour).or_default() += counts);
                    file::forget_old(pending);
                }
                drop(self.pause(state, RETRY_DELAY));
            }
        }
    }

    /// Waits for this time, or until the process ends.
    fn pause<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The files of the servers of this process.
struct Writer {
    folder: std::path::PathBuf,
    names: Vec<String>,
}

impl Writer {
    /// Adds the counts to the files. Returns those that could not be written.
    fn write(&self, counts: Vec<Hours>) -> Vec<Hours> {
        let write =
            |(name, hours): (&String, Hours)| match hours.is_empty() || file::add(&self.folder, name, &hours).is_ok() {
                true => Hours::new(),
                false => hours,
            };
        self.names.iter().zip(counts).map(write).collect()
    }
}

/// Returns the current hour since 1970.
pub(crate) fn this_hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 3600)
}

#[cfg(test)]
mod tests {
    use mendline_core::event::{LinkState, Over};
    use mendline_core::{LinkId, Moment};

    use super::*;

    const UPSTREAM: UpstreamId = UpstreamId(0);

    fn moved(from: LinkState, to: LinkState) -> Event {
        let over = (to == LinkState::Up).then_some(Over::Child(7));
        Event::LinkStateChanged { upstream: UPSTREAM, from, to, why: None, over, repeated: false }
    }

    fn at(second: u64) -> At {
        let moment = Moment::ZERO + Duration::from_secs(second);
        At { moment, unix_micros: this_hour() * 3_600_000_000 + second * 1_000_000 }
    }

    /// Plays a start, and this many losses that last one second each.
    fn play(observer: &mut StatsObserver, losses: u64) {
        let ready = || Event::UpstreamReady {
            upstream: UPSTREAM,
            link: LinkId { upstream: UPSTREAM, dial: 1 },
            after: Duration::ZERO,
        };
        observer.on_event(&moved(LinkState::Dialing, LinkState::Up), at(0));
        observer.on_event(&ready(), at(0));
        for loss in 0..losses {
            observer.on_event(&moved(LinkState::Up, LinkState::Waiting), at(loss));
            observer.on_event(&moved(LinkState::Dialing, LinkState::Up), at(loss + 1));
            observer.on_event(&ready(), at(loss + 1));
        }
    }

    fn total(folder: &Path) -> Recoveries {
        let all = read_all(folder).unwrap();
        all.iter().map(|server| server.since(0)).fold(Recoveries::default(), |mut sum, it| {
            sum += it;
            sum
        })
    }

    #[test]
    fn counts_of_several_processes_add_up() {
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for losses in 1..=6 {
                let path = folder.path();
                scope.spawn(move || play(&mut StatsObserver::new(path, vec!["notes".to_owned()]), losses));
            }
        });
        let all = total(folder.path());
        assert_eq!((all.restarts, all.away), (21, Duration::from_secs(21)));
        assert_eq!(read_all(folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn healthy_process_without_calls_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        play(&mut StatsObserver::new(folder.path(), vec!["notes".to_owned()]), 0);
        assert!(!folder.path().join(FOLDER).exists());
    }

    #[test]
    fn unwritable_directory_keeps_counts_and_disturbs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // A file in the place of the directory: nothing can be written below it.
        std::fs::write(folder.path().join(FOLDER), "").unwrap();
        let mut observer = StatsObserver::new(folder.path(), vec!["notes".to_owned()]);
        play(&mut observer, 2);
        let writer = Writer { folder: folder.path().join(FOLDER), names: vec!["notes".to_owned()] };
        let counts = Recoveries { restarts: 1, ..Recoveries::default() };
        let left = writer.write(vec![Hours::from([(this_hour(), counts)])]);
        assert_eq!(left[0][&this_hour()], counts);
        std::fs::remove_file(folder.path().join(FOLDER)).unwrap();
        drop(observer);
        assert_eq!(total(folder.path()).restarts, 2, "they are written when the disk is back");
    }
}
