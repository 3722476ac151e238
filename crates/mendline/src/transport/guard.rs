//! Sees to it that no child outlives us.
//!
//! A child whose parent is killed with SIGKILL gets an end of file on its stdin, and most servers go then. Some do not:
//! a wrapper's grandchild that holds the pipe, a server that ignores signals. `PR_SET_PDEATHSIG` reaches only direct
//! children, so there is a guard: a second process of our own program, in its own session, which holds one end of a
//! socket and nothing else. Each child sends its own id through that socket before it becomes the server, we send a
//! removal when it is buried, and when the socket ends, we are gone: the guard gives the groups that are left
//! `BY_THEMSELVES` to go, then asks, then kills. With no group left it ends at once.
//!
//! A removal is sent while the ended process still holds its id, so the guard never signals an id that the system has
//! given to somebody else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::raw;

/// What the guard is called in a process list. Not our own name, so that killing us by name leaves it alone.
const NAME: &str = "mdl-guard";

/// How long groups have to go by themselves after their stdin ended.
const BY_THEMSELVES: Duration = Duration::from_millis(500);

/// How long they have after having been asked.
const ASKED: Duration = Duration::from_millis(1500);

/// How often the guard looks whether groups are gone.
const LOOK: Duration = Duration::from_millis(20);

/// How long a clean end waits for the guard, so that it does not stay behind as a zombie under a lazy init.
const GOODBYE: Duration = Duration::from_millis(200);

const ADD: u8 = b'+';
const REMOVE: u8 = b'-';
const NOTICE: usize = 5;

/// Our side of the guard.
pub struct Guard {
    program: OsString,
    arguments: Vec<OsString>,
    socket: Arc<OwnedFd>,
    process: Child,
    groups: BTreeSet<u32>,
}

impl Guard {
    /// Starts the guard: `program` with `arguments`, which has to call [`keep_watch`] at once.
    pub fn start(program: impl Into<OsString>, arguments: Vec<OsString>) -> io::Result<Guard> {
        let program = program.into();
        let (socket, process) = launch(&program, &arguments)?;
        Ok(Guard { program, arguments, socket, process, groups: BTreeSet::new() })
    }

    /// Makes sure that there is a guard, and that it knows every group. Called before each start of a child.
    pub fn revive(&mut self) -> io::Result<()> {
        if self.process.try_wait()?.is_none() {
            return Ok(());
        }
        (self.socket, self.process) = launch(&self.program, &self.arguments)?;
        for group in &self.groups {
            self.tell(ADD, *group);
        }
        Ok(())
    }

    /// Lets the process that `command` starts put itself under guard.
    pub(super) fn announce(&self, command: &mut Command) {
        raw::announce_before_exec(command, Arc::clone(&self.socket), ADD);
    }

    /// The process that was announced has this id.
    pub(super) fn remember(&mut self, group: u32) {
        self.groups.insert(group);
    }

    /// The group is gone. Called before its leader is reaped.
    pub(super) fn forget(&mut self, group: u32) {
        if self.groups.remove(&group) {
            self.tell(REMOVE, group);
        }
    }

    fn tell(&self, tag: u8, group: u32) {
        let notice = notice(tag, group);
        // Failing means that the guard is dead; the next start of a child revives it and tells it everything.
        let _ = rustix::net::send(self.socket.as_fd(), &notice, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(self.socket.as_fd(), rustix::net::Shutdown::Both);
        if !self.groups.is_empty() {
            return;
        }
        let begin = Instant::now();
        while begin.elapsed() < GOODBYE && matches!(self.process.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(1));
        }
    }
}

fn launch(program: &OsString, arguments: &[OsString]) -> io::Result<(Arc<OwnedFd>, Child)> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new(program);
    command.arg0(NAME).args(arguments).current_dir("/").env_clear();
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    raw::new_session(&mut command);
    let process = command.spawn()?;
    Ok((Arc::new(ours), process))
}

/// The whole life of the guard process. Its stdin is the socket.
pub fn keep_watch() -> ExitCode {
    raw::close_all_but_the_standard_three();
    raw::ignore_endings();
    let _ = rustix::thread::set_name(c"mdl-guard");
    end(listen(), || sleep(LOOK));
    ExitCode::SUCCESS
}

/// Keeps the list of groups until the socket ends.
fn listen() -> BTreeSet<u32> {
    let mut groups = BTreeSet::new();
    let mut notice = [0; NOTICE];
    loop {
        match rustix::net::recv(rustix::stdio::stdin(), &mut notice, RecvFlags::empty()) {
            Ok((NOTICE, _)) => {
                let [tag, group @ ..] = notice;
                let group = u32::from_le_bytes(group);
                match tag {
                    ADD => groups.insert(group),
                    REMOVE => groups.remove(&group),
                    _ => false,
                };
            }
            Err(Errno::INTR) => {}
            _ => return groups,
        }
    }
}

/// Ends the groups that are left: by themselves, asked, killed.
fn end(mut groups: BTreeSet<u32>, mut rest: impl FnMut()) {
    for (patience, signal) in [(BY_THEMSELVES, Signal::TERM), (ASKED, Signal::KILL)] {
        let begin = Instant::now();
        groups.retain(|group| lives(*group));
        while !groups.is_empty() && begin.elapsed() < patience {
            rest();
            groups.retain(|group| lives(*group));
        }
        for pid in groups.iter().filter_map(|group| pid_of(*group)) {
            let _ = kill_process_group(pid, signal);
        }
    }
}

fn lives(group: u32) -> bool {
    pid_of(group).is_some_and(|pid| test_kill_process_group(pid) != Err(Errno::SRCH))
}

/// A group id as a signal may be sent to. Never 0, 1 or negative: those mean "everybody".
pub(super) fn pid_of(group: u32) -> Option<Pid> {
    i32::try_from(group).ok().filter(|raw| *raw > 1).and_then(Pid::from_raw)
}

fn notice(tag: u8, group: u32) -> [u8; NOTICE] {
    let [a, b, c, d] = group.to_le_bytes();
    [tag, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_and_everybody_are_no_groups() {
        assert_eq!(pid_of(0), None);
        assert_eq!(pid_of(1), None);
        assert_eq!(pid_of(u32::MAX), None);
        assert!(pid_of(2).is_some());
    }

    #[test]
    fn a_notice_is_a_tag_and_an_id() {
        assert_eq!(notice(ADD, 0x0102_0304), [b'+', 4, 3, 2, 1]);
    }

    #[test]
    fn groups_that_are_gone_need_no_patience() {
        let mut child = Command::new("true").process_group(0).spawn().unwrap();
        let group = child.id();
        child.wait().unwrap();
        end(BTreeSet::from([group]), || panic!("they are waited for"));
    }
}
