//! Ends child processes after Mendline dies.
//!
//! A child whose parent is killed with SIGKILL gets an end of file on its stdin, and most servers exit then. Some do
//! not: a grandchild of a wrapper holds the pipe, or a server ignores signals. `PR_SET_PDEATHSIG` reaches only direct
//! children. So there is a guard: a second process of the same program, in its own session, which holds one end of a
//! socket and nothing else. Each child sends its own id and a pidfd of itself through that socket before it executes
//! the server, and Mendline sends a removal before it reaps the child. When the socket ends, Mendline is gone. The
//! guard gives the remaining groups `EOF_GRACE` to exit, then sends SIGTERM, and SIGKILL after `TERM_GRACE`. Without a
//! group it exits at once.
//!
//! The guard signals a group only through the pidfd of its leader (`process_group.rs`), never by a bare number, so it cannot
//! reach a later process with the same number. With every notice it drops the groups without members. A removal is sent
//! while the exited process still holds its id. A failed start is reported too, since its process may have announced
//! itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Signal;

use super::process_group as group;
use super::raw;

/// The name of the guard in a process list. It differs from the program's name, so that `pkill mendline` does not end
/// the guard.
const NAME: &str = "mdl-guard";

/// The time that groups have to exit after the end of their stdin.
const EOF_GRACE: Duration = Duration::from_millis(500);

/// The time that groups have to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_millis(1500);

/// The interval at which the guard checks whether groups are gone.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a clean exit waits for the guard, so that it does not remain as a zombie.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// A process leads a group with its id; a pidfd of it is attached.
const ADD: u8 = b'+';
/// The group with this id is gone.
const REMOVE: u8 = b'-';
/// A start has failed: if its process announced itself, that group is gone. The sender does not know its id.
const FAILED: u8 = b'!';
const NOTICE: usize = 5;

/// Groups by the id of their leader, with a pidfd of the leader.
type Groups = BTreeMap<u32, OwnedFd>;

/// The parent's side of the guard.
pub struct Guard {
    program: OsString,
    arguments: Vec<OsString>,
    socket: Arc<OwnedFd>,
    process: Child,
    groups: Groups,
}

impl Guard {
    /// Starts the guard: `program` with `arguments`, which must call [`run`] at once.
    pub fn start(program: impl Into<OsString>, arguments: Vec<OsString>) -> io::Result<Guard> {
        let program = program.into();
        let (socket, process) = launch(&program, &arguments)?;
        Ok(Guard { program, arguments, socket, process, groups: Groups::new() })
    }

    /// Restarts the guard if it has exited and sends it every group. Called before each start of a child.
    pub(super) fn ensure_running(&mut self) -> io::Result<()> {
        if self.process.try_wait()?.is_none() {
            return Ok(());
        }
        (self.socket, self.process) = launch(&self.program, &self.arguments)?;
        for (group, leader) in &self.groups {
            let _ = raw::send_with_descriptor(self.socket.as_fd(), &notice(ADD, *group), leader.as_fd());
        }
        Ok(())
    }

    /// Makes the process that `command` starts register itself with the guard.
    pub(super) fn announce(&self, command: &mut Command) {
        raw::announce_before_exec(command, Arc::clone(&self.socket), ADD);
    }

    /// Records an announced process with its id and its pidfd.
    pub(super) fn add(&mut self, group: u32, leader: &OwnedFd) {
        // Without a copy, a restarted guard does not learn of this group.
        if let Ok(leader) = leader.try_clone() {
            self.groups.insert(group, leader);
        }
    }

    /// Removes a group that is gone. Called before its leader is reaped.
    pub(super) fn remove(&mut self, group: u32) {
        self.groups.remove(&group);
        self.send(REMOVE, group);
    }

    /// Reports that an announced process was not started, or exited before `exec`. Called after it was reaped.
    pub(super) fn report_failed_start(&self) {
        self.send(FAILED, 0);
    }

    fn send(&self, tag: u8, group: u32) {
        let notice = notice(tag, group);
        // An error means that the guard has exited; the next start of a child restarts it and sends every group.
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
        while begin.elapsed() < EXIT_TIMEOUT && matches!(self.process.try_wait(), Ok(None)) {
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
    raw::inherit_only_standard(&mut command);
    let process = command.spawn()?;
    Ok((Arc::new(ours), process))
}

/// The main function of the guard process. Its stdin is the socket.
pub fn run() -> ExitCode {
    raw::ignore_termination_signals();
    let _ = rustix::thread::set_name(c"mdl-guard");
    end_groups(track_groups(rustix::stdio::stdin()), || sleep(POLL_INTERVAL));
    ExitCode::SUCCESS
}

/// Keeps the list of groups until the socket ends.
fn track_groups(socket: impl AsFd) -> Groups {
    let mut groups = Groups::new();
    loop {
        match receive(socket.as_fd()) {
            Ok(Some((ADD, group, Some(leader)))) => drop(groups.insert(group, leader)),
            Ok(Some((REMOVE, group, _))) => drop(groups.remove(&group)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return groups,
        }
        groups.retain(|group, leader| group::has_members(leader.as_fd(), *group));
    }
}

/// Receives the next notice: its tag, the id of its group and the pidfd of the leader if one is attached. `None` at the
/// end of the socket.
fn receive(socket: impl AsFd) -> Result<Option<(u8, u32, Option<OwnedFd>)>, Errno> {
    let mut notice = [0; NOTICE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut notice)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let leader = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let [tag, group @ ..] = notice;
    Ok((received.bytes == NOTICE).then(|| (tag, u32::from_le_bytes(group), leader)))
}

/// Ends the remaining groups: waits, sends SIGTERM, waits, sends SIGKILL.
fn end_groups(mut groups: Groups, mut wait: impl FnMut()) {
    for (grace, signal) in [(EOF_GRACE, Signal::TERM), (TERM_GRACE, Signal::KILL)] {
        let begin = Instant::now();
        groups.retain(|group, leader| group::has_members(leader.as_fd(), *group));
        while !groups.is_empty() && begin.elapsed() < grace {
            wait();
            groups.retain(|group, leader| group::has_members(leader.as_fd(), *group));
        }
        for (group, leader) in &groups {
            group::signal(leader.as_fd(), *group, signal);
        }
    }
}

fn notice(tag: u8, group: u32) -> [u8; NOTICE] {
    let [a, b, c, d] = group.to_le_bytes();
    [tag, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread::{JoinHandle, spawn};

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    const NONE: [u32; 0] = [];

    /// The two sides of a guard; the guard's side runs in a thread.
    struct Pair {
        socket: Arc<OwnedFd>,
        listener: JoinHandle<Groups>,
    }

    impl Pair {
        fn start() -> Pair {
            let flags = SocketFlags::CLOEXEC;
            let (ours, theirs) =
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            Pair { socket: Arc::new(ours), listener: spawn(move || track_groups(theirs)) }
        }

        fn send(&self, tag: u8, group: u32) {
            rustix::net::send(&self.socket, &notice(tag, group), SendFlags::NOSIGNAL).unwrap();
        }

        fn announced(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
            let mut command = Command::new(program);
            command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            raw::announce_before_exec(&mut command, Arc::clone(&self.socket), ADD);
            command
        }

        /// Closes the parent's side, as the kernel does when Mendline is killed, and returns the guard's list.
        fn list(self) -> Groups {
            rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).unwrap();
            self.listener.join().unwrap()
        }

        fn remaining(self) -> Vec<u32> {
            self.list().into_keys().collect()
        }
    }

    #[test]
    fn notice_is_tag_and_id() {
        assert_eq!(notice(ADD, 0x0102_0304), [b'+', 4, 3, 2, 1]);
    }

    #[test]
    fn groups_without_members_are_not_waited_for() {
        let mut child = Command::new("true").process_group(0).spawn().unwrap();
        let leader = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        end_groups(Groups::from([(child.id(), leader)]), || panic!("the guard waits for them"));
    }

    #[test]
    fn running_child_is_listed_until_removed() {
        let (kept, removed) = (Pair::start(), Pair::start());
        let (mut first, mut second) =
            (kept.announced("cat").spawn().unwrap(), removed.announced("cat").spawn().unwrap());
        removed.send(REMOVE, second.id());
        assert_eq!(kept.remaining(), [first.id()]);
        assert_eq!(removed.remaining(), NONE);
        for child in [&mut first, &mut second] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn s02_failed_spawn_is_removed_from_guard() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            use std::os::unix::fs::PermissionsExt as _;
            let path = folder.path().join(name);
            std::fs::write(&path, "#!/nonexistent/interpreter\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (missing, plain) = (folder.path().join("missing"), file("plain", 0o644));
        for program in [missing.as_path(), &plain, &file("no_interpreter", 0o755), Path::new("/")] {
            let pair = Pair::start();
            assert!(pair.announced(program).spawn().is_err(), "{}", program.display());
            pair.send(FAILED, 0);
            assert_eq!(pair.remaining(), NONE, "{}", program.display());
        }
        let pair = Pair::start();
        assert!(pair.announced("cat").current_dir(missing).spawn().is_err());
        pair.send(FAILED, 0);
        assert_eq!(pair.remaining(), NONE);
    }

    #[test]
    fn s02_child_reaped_without_removal_is_not_signalled() {
        let pair = Pair::start();
        let mut child = pair.announced("true").spawn().unwrap();
        // As if Mendline were killed before it sends a removal, and init reaped the leader.
        child.wait().unwrap();
        end_groups(pair.list(), || panic!("the guard waits for it"));
    }

    #[test]
    fn s02_number_without_pidfd_is_never_a_group() {
        let mut other = Command::new("cat").process_group(0).stdin(Stdio::piped()).spawn().unwrap();
        let pair = Pair::start();
        pair.send(ADD, other.id());
        assert_eq!(pair.remaining(), NONE);
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
