//! Statistics of recoveries, kept on disk for `mendline stats`.
//!
//! ```text
//! $XDG_STATE_HOME/mendline/stats/     0700
//!   notes.json                        0600: counts of one server, by the hour
//! ```
//! The [`StatsObserver`] folds the events of a process ([`RecoveryFold`]) and hands the counts to a thread, which adds
//! them to the file. All processes with a server of that name, and all its upstreams in a gateway, add to the same file,
//! under a lock. The file has a limit:
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

/// Counts by the name of the server.
type Counts = BTreeMap<Arc<str>, Hours>;

/// The observer of one process.
pub struct StatsObserver {
    upstreams: BTreeMap<UpstreamId, UpstreamFold>,
    shared: Arc<Shared>,
    /// The thread, once it is started.
    work: Option<Work>,
    writer: Option<Writer>,
}

/// The fold of one upstream.
struct UpstreamFold {
    /// The name of its server.
    server: Arc<str>,
    /// The server has another upstream, which counts the renewals of the common credential.
    is_further: bool,
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
    /// Counts that are not written yet.
    pending: Counts,
    is_over: bool,
}

impl StatsObserver {
    /// Creates the observer. `servers` are the upstreams of the start, with the names of their servers; upstreams that are
    /// added later are counted, too. Nothing is written before something is recovered.
    pub fn new(state_directory: &Path, servers: impl IntoIterator<Item = (UpstreamId, String)>) -> StatsObserver {
        let fold = |(upstream, name): (UpstreamId, String)| (upstream, UpstreamFold::new(&name, false));
        let upstreams = servers.into_iter().map(fold).collect();
        let writer = Writer { folder: state_directory.join(FOLDER) };
        StatsObserver { upstreams, shared: Arc::new(Shared::default()), work: None, writer: Some(writer) }
    }

    /// Hands counts over to the thread, which is started with the first ones.
    fn hand_over(&mut self, server: Arc<str>, added: Recoveries, at: At) {
        let hour = at.unix_micros / 3_600_000_000;
        *self.shared.lock().pending.entry(server).or_default().entry(hour).or_default() += added;
        if !added.is_any() && self.work.is_none() {
            // A process in which nothing is ever recovered writes once, at its end.
            return;
        }
        self.start();
        self.shared.changed.notify_all();
    }

    /// Counts the time away of servers that are away when the process ends.
    fn count_away(&mut self, at: At) {
        let upstreams = self.upstreams.values_mut();
        let counted: Vec<_> = upstreams.map(|it| (Arc::clone(&it.server), it.fold.count_away(at.moment))).collect();
        for (server, away) in counted.into_iter().filter(|(_, away)| !away.is_zero()) {
            self.hand_over(server, Recoveries { away, ..Recoveries::default() }, at);
        }
    }

    /// Forgets an upstream that was removed, and counts what was not handed over yet.
    fn remove(&mut self, upstream: UpstreamId, at: At) {
        let Some(mut removed) = self.upstreams.remove(&upstream) else { return };
        let away = removed.fold.count_away(at.moment);
        let added = Recoveries { away, answered: removed.answered, ..Recoveries::default() };
        if added != Recoveries::default() {
            self.hand_over(removed.server, added, at);
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
        match event {
            Event::Stopping { .. } | Event::Stopped => return self.count_away(at),
            Event::UpstreamAdded { upstream, name, like } => {
                self.upstreams.insert(*upstream, UpstreamFold::new(name, like.is_some()));
            }
            Event::UpstreamRemoved { upstream } => return self.remove(*upstream, at),
            _ => {}
        }
        let Some(upstream) = event.upstream().and_then(|id| self.upstreams.get_mut(&id)) else { return };
        upstream.last = at;
        let mut added = upstream.fold.apply(event, at.moment);
        upstream.answered += added.answered;
        added.answered = 0;
        if upstream.is_further {
            added.renewals = 0;
        }
        if added.is_any() || upstream.answered >= CALLS_AT_ONCE {
            added.answered = std::mem::take(&mut upstream.answered);
            let server = Arc::clone(&upstream.server);
            self.hand_over(server, added, at);
        }
    }

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}

impl Drop for StatsObserver {
    fn drop(&mut self) {
        for upstream in std::mem::take(&mut self.upstreams).into_values().filter(|it| it.answered > 0) {
            let added = Recoveries { answered: upstream.answered, ..Recoveries::default() };
            self.hand_over(upstream.server, added, upstream.last);
        }
        let has_counts = self.shared.lock().pending.values().any(|hours| !hours.is_empty());
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

impl UpstreamFold {
    fn new(server: &str, is_further: bool) -> UpstreamFold {
        UpstreamFold {
            server: Arc::from(server),
            is_further,
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
            let is_idle = |state: &mut State| !state.is_over && state.pending.values().all(BTreeMap::is_empty);
            let state = self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner);
            let mut state = self.pause(state, WRITE_DELAY);
            let is_over = state.is_over;
            let taken = std::mem::take(&mut state.pending);
            drop(state);
            let left = worker.risk(|| writer.write(taken));
            if is_over {
                return;
            }
            if !left.is_empty() {
                let mut state = self.lock();
                for (server, left) in left {
                    let pending = state.pending.entry(server).or_default();
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

/// The files of the servers.
struct Writer {
    folder: std::path::PathBuf,
}

impl Writer {
    /// Adds the counts to the files. Returns those that could not be written.
    fn write(&self, mut counts: Counts) -> Counts {
        counts.retain(|name, hours| !hours.is_empty() && file::add(&self.folder, name, hours).is_err());
        counts
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

    fn notes() -> [(UpstreamId, String); 1] {
        [(UPSTREAM, "notes".to_owned())]
    }

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
                scope.spawn(move || play(&mut StatsObserver::new(path, notes()), losses));
            }
        });
        let all = total(folder.path());
        assert_eq!((all.restarts, all.away), (21, Duration::from_secs(21)));
        assert_eq!(read_all(folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn healthy_process_without_calls_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        play(&mut StatsObserver::new(folder.path(), notes()), 0);
        assert!(!folder.path().join(FOLDER).exists());
    }

    #[test]
    fn unwritable_directory_keeps_counts_and_disturbs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // A file in the place of the directory: nothing can be written below it.
        std::fs::write(folder.path().join(FOLDER), "").unwrap();
        let mut observer = StatsObserver::new(folder.path(), notes());
        play(&mut observer, 2);
        let writer = Writer { folder: folder.path().join(FOLDER) };
        let counts = Recoveries { restarts: 1, ..Recoveries::default() };
        let left = writer.write(Counts::from([(Arc::from("notes"), Hours::from([(this_hour(), counts)]))]));
        assert_eq!(left["notes"][&this_hour()], counts);
        std::fs::remove_file(folder.path().join(FOLDER)).unwrap();
        drop(observer);
        assert_eq!(total(folder.path()).restarts, 2, "they are written when the disk is back");
    }
}
