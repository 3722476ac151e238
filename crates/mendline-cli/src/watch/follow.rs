//! EventStream of all processes, on a separate thread.
//!
//! New processes are found once per second. A process that does not accept the connection is skipped for a while, so
//! that it does not delay the events of others. If the screen is too slow, lines are dropped and counted, and memory
//! stays bounded.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use mendline::control::{EventStream, Level, Process, Registry, StreamItem};

use super::model::Update;

/// Interval of the search for new processes.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for a process to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// Pause after a failed connection.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of events of one process in a row.
const AT_ONCE: usize = 256;

/// Starts to follow.
pub(crate) fn start(updates: SyncSender<Update>) -> io::Result<()> {
    thread::Builder::new().name("follow".to_owned()).spawn(move || {
        let mut processes = FollowedProcesses { followed: Vec::new(), refused: Vec::new(), updates };
        // Ends when the screen is closed.
        while processes.round().is_ok() {}
    })?;
    Ok(())
}

/// The screen is closed.
struct Closed;

/// The followed processes.
struct FollowedProcesses {
    followed: Vec<Followed>,
    /// Processes that did not accept the connection, and the end of their pause.
    refused: Vec<(Process, Instant)>,
    updates: SyncSender<Update>,
}

struct Followed {
    process: Process,
    events: EventStream,
    /// Number of lines that were dropped because the screen was too slow.
    lost: u64,
    /// True if more events are available.
    has_more: bool,
}

impl FollowedProcesses {
    fn round(&mut self) -> Result<(), Closed> {
        self.follow_new();
        let end = Instant::now() + SEARCH_INTERVAL;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.followed.is_empty() {
                thread::sleep(left);
                return Ok(());
            }
            let has_more = self.followed.iter().any(|followed| followed.has_more);
            let ready = self.wait(if has_more { Duration::ZERO } else { left });
            self.read_events(&ready)?;
        }
    }

    /// Follows new processes.
    fn follow_new(&mut self) {
        let now = Instant::now();
        self.refused.retain(|(_, until)| *until > now);
        for process in Registry::of_user().processes() {
            let is_known = self.followed.iter().any(|followed| followed.process == process)
                || self.refused.iter().any(|(left, _)| *left == process);
            if is_known {
                continue;
            }
            match process.follow(Level::Info, CONNECT_TIMEOUT) {
                Ok(events) => self.followed.push(Followed { process, events, lost: 0, has_more: false }),
                Err(_) => self.refused.push((process, Instant::now() + REFUSED_PAUSE)),
            }
        }
    }

    /// Waits, and returns which processes have events.
    fn wait(&self, within: Duration) -> Vec<bool> {
        EventStream::wait_for_any(self.followed.iter().map(|followed| &followed.events), within)
    }

    /// Reads the events of the ready processes, each up to a limit.
    fn read_events(&mut self, ready: &[bool]) -> Result<(), Closed> {
        let mut ready = ready.iter();
        let mut is_open = true;
        let updates = &self.updates;
        self.followed.retain_mut(|followed| {
            let is_ready = ready.next().is_some_and(|ready| *ready);
            if !is_ready && !followed.has_more {
                return true;
            }
            followed.has_more = false;
            for _ in 0..AT_ONCE {
                match followed.events.next_within(Duration::ZERO) {
                    Ok(Some(heard)) => is_open &= followed.pass_on(heard, updates),
                    Ok(None) => return true,
                    // The process has ended or closed the connection. If it still runs, the next round follows it
                    // again.
                    Err(_) => return false,
                }
            }
            followed.has_more = true;
            true
        });
        if is_open { Ok(()) } else { Err(Closed) }
    }
}

impl Followed {
    /// Forwards an event. Returns whether the screen is still open.
    fn pass_on(&mut self, heard: StreamItem, updates: &SyncSender<Update>) -> bool {
        let (pid, name) = (self.process.pid, self.process.name.clone());
        if self.lost > 0 {
            let missed = Update::Missed { pid, name: name.clone(), count: self.lost };
            match updates.try_send(missed) {
                Ok(()) => self.lost = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        let update = match heard {
            StreamItem::Event(told) => Update::Event { pid, name, told },
            StreamItem::Missed(count) => Update::Missed { pid, name, count },
        };
        match updates.try_send(update) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost += 1;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
