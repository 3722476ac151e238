//! The only module with `unsafe` code.
//!
//! Code between `fork` and `exec`, signal dispositions, a signal to a process group by the pidfd of its leader, a
//! descriptor that was passed to this process, and the registration of a descriptor with the reactor have no safe form in the standard library, rustix or tokio. They are
//! collected here, each with the reason why it is sound, so that the lint stays on everywhere else. No function here
//! has a soundness condition that its caller must uphold.

#![allow(unsafe_code, reason = "fork, signal dispositions and pidfd signals have no safe interface")]

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, setsid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes the process that `command` starts send `tag`, its own id and a pidfd of itself through `socket` before it
/// executes the program.
///
/// The socket that the process inherits closes on `exec` and not before. So the reader of the socket cannot see its end
/// before the notice is sent, even if Mendline is killed between `fork` and `exec`. The process opens the pidfd itself,
/// so that it cannot belong to a later process with the same id.
pub(crate) fn announce_before_exec(command: &mut Command, socket: Arc<OwnedFd>, tag: u8) {
    let announce = move || {
        let id = getpid();
        let mut notice = [tag, 0, 0, 0, 0];
        notice[1..].copy_from_slice(&id.as_raw_nonzero().get().to_le_bytes());
        // A failure is ignored: a server without a guard is better than none, and the guard is checked before the next
        // start.
        if let Ok(pidfd) = pidfd_open(id, PidfdFlags::empty()) {
            let _ = send_with_descriptor(socket.as_fd(), &notice, pidfd.as_fd());
        }
        Ok(())
    };
    // SAFETY: between `fork` and `exec` only async-signal-safe operations are allowed. The closure makes four system
    // calls (getpid, pidfd_open, sendmsg, close) with memory on the stack, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(announce);
    }
}

/// Sends a notice and a descriptor without waiting. Allocates nothing and takes no lock.
pub(crate) fn send_with_descriptor(
    socket: BorrowedFd<'_>,
    notice: &[u8],
    fd: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let fds = [fd];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(notice)], &mut control, flags).map(drop)
}

/// Puts the process that `command` starts into a session of its own, so that no terminal and no signal to the process
/// group of Mendline reaches it.
pub(crate) fn new_session(command: &mut Command) {
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| setsid().map(drop).map_err(Into::into));
    }
}

/// Makes the process that `command` starts inherit its three standard descriptors and no other, not even one that the
/// parent of Mendline left open.
pub(crate) fn inherit_only_standard(command: &mut Command) {
    let close = || {
        // SAFETY: the call marks descriptors close-on-exec and closes none, so every descriptor of this process stays
        // valid until `exec`, including the one through which the standard library reports a failed start.
        let marked = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if marked != 0 {
            // Linux before 5.11 lacks this flag. Few processes leave more descriptors open than these.
            for fd in 3..256 {
                // SAFETY: the same, one descriptor at a time; a number that is not open is refused without an effect.
                unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(close);
    }
}

/// The target of a signal that is sent through the pidfd of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalTarget {
    /// The process.
    Process,
    /// The process group whose leader it is or was. Needs Linux 6.9; earlier kernels refuse it with `EINVAL`.
    Group,
}

/// Sends a signal through a pidfd, or with `None` only checks whether a signal can be sent.
pub(crate) fn signal_by_pidfd(
    pidfd: BorrowedFd<'_>,
    signal: Option<Signal>,
    target: SignalTarget,
) -> rustix::io::Result<()> {
    let number = signal.map_or(0, Signal::as_raw);
    let flags = match target {
        SignalTarget::Process => 0,
        SignalTarget::Group => libc::PIDFD_SIGNAL_PROCESS_GROUP,
    };
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the call reads no memory of this process, since there is no `siginfo_t`; the kernel refuses a descriptor
    // that is no pidfd.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), number, no_info, flags) };
    if sent == 0 { Ok(()) } else { Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

/// Registers a descriptor with the reactor.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays the same descriptor until it is dropped, and this crate never replaces the
    // one inside an `AsyncFd`.
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
    watched.map_err(Into::into)
}

/// Takes the first descriptor that a service manager has passed to this process, once. The caller has checked that one
/// was passed.
pub(crate) fn take_passed_descriptor() -> Option<OwnedFd> {
    const FIRST: i32 = 3;
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    // A descriptor that was passed is open from the start and belongs to no other part of this program, unless this
    // process has none, and the number was given to a file of ours: that is close-on-exec, which a passed one is not.
    // SAFETY: the call only reads the flags of a descriptor, and fails for a number that is not open.
    let flags = unsafe { libc::fcntl(FIRST, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 || IS_TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    // SAFETY: the descriptor is open, no other owner exists (see above), and it is taken once.
    let passed = unsafe { OwnedFd::from_raw_fd(FIRST) };
    // Children do not inherit it.
    rustix::io::fcntl_setfd(&passed, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(passed)
}

/// Makes this process ignore the signals that ask it to end: SIGHUP, SIGINT and SIGTERM.
///
/// For the guard, which must outlive the process that is being ended, and for test servers that refuse to exit.
pub fn ignore_termination_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: setting a disposition to "ignore" installs no handler, so no code of this process runs on a signal.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
