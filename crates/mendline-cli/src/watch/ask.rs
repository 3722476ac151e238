//! Everybody is asked how he is, again and again, on a thread of its own: a process that hangs costs this thread its
//! patience, and the keys nothing. What somebody wants done is done here too, between two looks, and then we look more often
//! for a moment, because that is what somebody waits for.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline::control::Registry;

use super::model::{Happening, Order};
use super::row::{Look, Seen};
use crate::status::memory;

/// How long a process has to take a command.
const TAKING: Duration = Duration::from_secs(1);

/// How soon we look again after a command, and how often.
const HASTE: Duration = Duration::from_millis(150);
const HASTY_LOOKS: u32 = 6;

/// What the screen wants.
pub(crate) enum Request {
    /// Look now.
    Look,
    Steer(Order),
}

/// Begins to look, this often.
pub(crate) fn start(interval: Duration, happenings: SyncSender<Happening>) -> io::Result<Sender<Request>> {
    let (requests, wanted) = channel();
    thread::Builder::new().name("ask".to_owned()).spawn(move || {
        // The screen is gone; there is nobody to look for.
        let _ = work(interval, &happenings, &wanted);
    })?;
    Ok(requests)
}

/// The time, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The screen is gone.
struct Gone;

fn work(interval: Duration, happenings: &SyncSender<Happening>, wanted: &Receiver<Request>) -> Result<(), Gone> {
    let mut hasty = 0_u32;
    loop {
        happenings.send(Happening::Looked(look())).map_err(|_| Gone)?;
        let pause = if hasty > 0 { interval.min(HASTE) } else { interval };
        hasty = hasty.saturating_sub(1);
        match wanted.recv_timeout(pause) {
            Ok(Request::Steer(order)) => {
                let outcome = steer(&order);
                happenings.send(Happening::Answered { order, outcome }).map_err(|_| Gone)?;
                hasty = HASTY_LOOKS;
            }
            Ok(Request::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Gone),
        }
    }
}

fn look() -> Look {
    // Anew each time: the directory may have been made since.
    let registry = Registry::of_user();
    let found = registry.snapshots();
    let servers = found.iter().filter_map(|found| found.answer.as_ref().ok()).flat_map(|snapshot| &snapshot.servers);
    let children: Vec<u32> = servers.filter_map(|server| server.connection.child).collect();
    let memory = memory::of_groups(&children).into_iter().map(|(child, memory)| (child, memory.bytes)).collect();
    let seen = |found: mendline::control::Found| Seen {
        pid: found.process.pid,
        name: found.process.name,
        answer: found.answer,
    };
    Look {
        at: now(),
        processes: found.into_iter().map(seen).collect(),
        memory,
        distrusted: registry.distrusted().to_vec(),
    }
}

fn steer(order: &Order) -> Result<(), String> {
    let processes = Registry::of_user().processes();
    let process = processes.iter().find(|process| process.pid == order.key.pid).ok_or("it has ended")?;
    match process.command(order.what, Some(&order.key.name), TAKING) {
        Ok(_) => Ok(()),
        Err(silence) => Err(silence.to_string()),
    }
}
