//! A process group, identified by the pidfd of its leader.
//!
//! A number is not enough to signal a group: once its leader is reaped and its last member has exited, the kernel may
//! give the number to another process. A pidfd stays with the process that it was opened for. Linux 6.9 and later send
//! a signal to the group through the pidfd, so it reaches members that outlive their leader and never another group.
//! Earlier kernels know groups by number only. There the pidfd shows whether the leader still holds the number. A group
//! whose leader was reaped is signalled only while no process has that number, which holds as long as a member of the
//! group lives.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::raw::{SignalTarget, signal_by_pidfd};

/// Returns whether the group of this leader has a member, including one that has exited and is not reaped.
pub(super) fn has_members(leader: BorrowedFd<'_>, number: u32) -> bool {
    match signal_by_pidfd(leader, None, SignalTarget::Group) {
        Ok(()) => true,
        Err(Errno::SRCH) => false,
        Err(_) => pid_of(number)
            .filter(|_| number_is_valid(leader, number))
            .is_some_and(|group| test_kill_process_group(group) != Err(Errno::SRCH)),
    }
}

/// Sends a signal to every member of the group of this leader. Does nothing if the group has no members, even if
/// another group has its number.
pub(super) fn signal(leader: BorrowedFd<'_>, number: u32, signal: Signal) {
    if let Err(error) = signal_by_pidfd(leader, Some(signal), SignalTarget::Group)
        && error != Errno::SRCH
        && let Some(group) = pid_of(number).filter(|_| number_is_valid(leader, number))
    {
        let _ = kill_process_group(group, signal);
    }
}

/// Returns whether the number can still mean the group of this leader, for kernels that signal groups by number only.
fn number_is_valid(leader: BorrowedFd<'_>, number: u32) -> bool {
    let is_reaped = signal_by_pidfd(leader, None, SignalTarget::Process) == Err(Errno::SRCH);
    !is_reaped || !Path::new("/proc").join(number.to_string()).exists()
}

/// Returns a group id that a signal may be sent to. Never 0, 1 or negative: these address other groups or every
/// process.
pub(super) fn pid_of(group: u32) -> Option<Pid> {
    i32::try_from(group).ok().filter(|raw| *raw > 1).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;

    /// A process that leads a group and lives until its stdin ends.
    fn leader() -> Child {
        Command::new("cat").process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn numbers_that_address_every_process_are_no_group() {
        assert_eq!(pid_of(0), None);
        assert_eq!(pid_of(1), None);
        assert_eq!(pid_of(u32::MAX), None);
        assert!(pid_of(2).is_some());
    }

    #[test]
    fn s02_group_of_reaped_leader_is_not_found_by_its_number() {
        let (mut gone, mut other) = (leader(), leader());
        let pidfd = pidfd_open(Pid::from_child(&gone), PidfdFlags::empty()).unwrap();
        assert!(has_members(pidfd.as_fd(), gone.id()));
        assert!(number_is_valid(pidfd.as_fd(), gone.id()));
        drop(gone.stdin.take());
        gone.wait().unwrap();
        // The number of the other process beside the pidfd of the first, as if the kernel had reused the number.
        assert!(!has_members(pidfd.as_fd(), other.id()));
        assert!(!number_is_valid(pidfd.as_fd(), other.id()), "kernels without group signals must not reach it either");
        signal(pidfd.as_fd(), other.id(), Signal::KILL);
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success(), "the other process was signalled");
    }

    #[test]
    fn s02_members_that_outlive_their_leader_are_signalled() {
        use std::io::Read as _;
        // The leader exits at once; the member in the background holds its stdout until it is killed.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo started"]).process_group(0).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&leader), PidfdFlags::empty()).unwrap();
        let mut stdout = leader.stdout.take().unwrap();
        let mut started = [0; 8];
        stdout.read_exact(&mut started).unwrap();
        leader.wait().unwrap();
        assert!(has_members(pidfd.as_fd(), leader.id()));
        assert!(
            number_is_valid(pidfd.as_fd(), leader.id()),
            "the number belongs to the group as long as the member lives"
        );
        signal(pidfd.as_fd(), leader.id(), Signal::KILL);
        // Returns when the last process that holds the pipe has exited.
        stdout.read_to_end(&mut Vec::new()).unwrap();
    }
}
