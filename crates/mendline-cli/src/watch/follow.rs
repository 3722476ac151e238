//! What happens in every process, as it happens, on a thread of its own.
//!
//! Processes come and go: once a second we see who is new and follow him too. One that does not take us is left alone for a
//! while, so that it does not keep us from hearing the others. The screen may be slower than what happens: then lines are
//! left out and counted, and memory is not filled.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use mendline::control::{Events, Heard, Level, Process, Registry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::model::Happening;

/// How often we see who is new.
const ROUND: Duration = Duration::from_secs(1);

/// How long a process has to take us.
const TAKING: Duration = Duration::from_millis(250);

/// How long one that did not is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// How much of one process is heard before the others have their turn.
const AT_ONCE: usize = 256;

/// Begins to follow.
pub(crate) fn start(happenings: SyncSender<Happening>) -> io::Result<()> {
    thread::Builder::new().name("follow".to_owned()).spawn(move || {
        let mut crowd = Crowd { followed: Vec::new(), left_alone: Vec::new(), happenings };
        // Until the screen is gone.
        while crowd.round().is_ok() {}
    })?;
    Ok(())
}

/// The screen is gone.
struct Gone;

/// Everybody who is followed.
struct Crowd {
    followed: Vec<Followed>,
    /// Those who did not take us, and until when that holds.
    left_alone: Vec<(Process, Instant)>,
    happenings: SyncSender<Happening>,
}

struct Followed {
    process: Process,
    events: Events,
    /// Lines that the screen was too slow for.
    lost: u64,
    /// Whether it had more to say than was heard.
    has_more: bool,
}

impl Crowd {
    fn round(&mut self) -> Result<(), Gone> {
        self.welcome();
        let end = Instant::now() + ROUND;
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
            self.hear(&ready)?;
        }
    }

    /// Follows whoever is new.
    fn welcome(&mut self) {
        let now = Instant::now();
        self.left_alone.retain(|(_, until)| *until > now);
        for process in Registry::of_user().processes() {
            let is_known = self.followed.iter().any(|followed| followed.process == process)
                || self.left_alone.iter().any(|(left, _)| *left == process);
            if is_known {
                continue;
            }
            match process.follow(Level::Info, TAKING) {
                Ok(events) => self.followed.push(Followed { process, events, lost: 0, has_more: false }),
                Err(_) => self.left_alone.push((process, Instant::now() + LEFT_ALONE)),
            }
        }
    }

    /// Who has something to say.
    fn wait(&self, within: Duration) -> Vec<bool> {
        let fds = self.followed.iter().map(|followed| followed.events.as_fd());
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let within = Timespec::try_from(within).unwrap_or_default();
        // An interruption is as good as a timeout: whoever has something to say has it the next time.
        let _ = poll(&mut fds, Some(&within));
        fds.iter().map(|fd| !fd.revents().is_empty()).collect()
    }

    /// Hears those who have something to say, each for a while.
    fn hear(&mut self, ready: &[bool]) -> Result<(), Gone> {
        let mut ready = ready.iter();
        let mut is_open = true;
        let happenings = &self.happenings;
        self.followed.retain_mut(|followed| {
            let is_ready = ready.next().is_some_and(|ready| *ready);
            if !is_ready && !followed.has_more {
                return true;
            }
            followed.has_more = false;
            for _ in 0..AT_ONCE {
                match followed.events.next_within(Duration::ZERO) {
                    Ok(Some(heard)) => is_open &= followed.pass_on(heard, happenings),
                    Ok(None) => return true,
                    // It is gone, or has dropped us. If it is still there, it is new in the next round.
                    Err(_) => return false,
                }
            }
            followed.has_more = true;
            true
        });
        if is_open { Ok(()) } else { Err(Gone) }
    }
}

impl Followed {
    /// Whether the screen is still there.
    fn pass_on(&mut self, heard: Heard, happenings: &SyncSender<Happening>) -> bool {
        let (pid, name) = (self.process.pid, self.process.name.clone());
        if self.lost > 0 {
            let missed = Happening::Missed { pid, name: name.clone(), count: self.lost };
            match happenings.try_send(missed) {
                Ok(()) => self.lost = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        let happening = match heard {
            Heard::Event(told) => Happening::Told { pid, name, told },
            Heard::Missed(count) => Happening::Missed { pid, name, count },
        };
        match happenings.try_send(happening) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost += 1;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
