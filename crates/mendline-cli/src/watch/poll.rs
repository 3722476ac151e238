//! Polling of all processes, on a separate thread, so that a process that hangs does not block the keys. Commands are
//! sent here, too; after a command the polling is faster for a moment, to show its effect.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline::control::Registry;

use super::model::{CommandRequest, Update};
use super::row::{Poll, PolledProcess};
use crate::status::memory;

/// Time limit for a process to accept a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval and number of fast polls after a command.
const FAST_INTERVAL: Duration = Duration::from_millis(150);
const FAST_POLLS: u32 = 6;

/// A request of the screen.
pub(crate) enum PollRequest {
    /// Poll now.
    Poll,
    Command(CommandRequest),
}

/// Starts to poll, at this interval.
pub(crate) fn start(interval: Duration, updates: SyncSender<Update>) -> io::Result<Sender<PollRequest>> {
    let (requests, wanted) = channel();
    thread::Builder::new().name("poll".to_owned()).spawn(move || {
        // An error means that the screen is closed.
        let _ = work(interval, &updates, &wanted);
    })?;
    Ok(requests)
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The screen is closed.
struct Closed;

fn work(interval: Duration, updates: &SyncSender<Update>, wanted: &Receiver<PollRequest>) -> Result<(), Closed> {
    let mut fast = 0_u32;
    loop {
        updates.send(Update::Polled(poll_all())).map_err(|_| Closed)?;
        let pause = if fast > 0 { interval.min(FAST_INTERVAL) } else { interval };
        fast = fast.saturating_sub(1);
        match wanted.recv_timeout(pause) {
            Ok(PollRequest::Command(command)) => {
                let outcome = send_command(&command);
                updates.send(Update::CommandDone { command, outcome }).map_err(|_| Closed)?;
                fast = FAST_POLLS;
            }
            Ok(PollRequest::Poll) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Closed),
        }
    }
}

fn poll_all() -> Poll {
    // The registry is read anew each time: its directory may be new.
    let registry = Registry::of_user();
    let found = registry.snapshots();
    let servers = found.iter().filter_map(|found| found.snapshot.as_ref().ok()).flat_map(|snapshot| &snapshot.servers);
    let children: Vec<u32> = servers.filter_map(|server| server.connection.child).collect();
    let memory = memory::of_groups(&children).into_iter().map(|(child, memory)| (child, memory.bytes)).collect();
    let seen = |found: mendline::control::ProcessStatus| PolledProcess {
        pid: found.process.pid,
        name: found.process.name,
        answer: found.snapshot,
    };
    Poll {
        at: now(),
        processes: found.into_iter().map(seen).collect(),
        memory,
        distrusted: registry.untrusted_directories().to_vec(),
    }
}

fn send_command(command: &CommandRequest) -> Result<(), String> {
    let processes = Registry::of_user().processes();
    let process = processes.iter().find(|process| process.pid == command.key.pid).ok_or("it has ended")?;
    match process.command(command.what, Some(&command.key.name), COMMAND_TIMEOUT) {
        Ok(_) => Ok(()),
        Err(silence) => Err(silence.to_string()),
    }
}
