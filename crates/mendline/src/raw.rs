//! The one room with `unsafe` in it.
//!
//! Code between `fork` and `exec`, signal dispositions, closing descriptors that we did not open and registering one that
//! we did with the reactor have no safe form in the standard library or tokio. They are here, small, each with the reason
//! why it is sound, so that the lint can stay on everywhere else.

#![allow(unsafe_code, reason = "fork, signal dispositions and foreign descriptors have no safe interface")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::net::SendFlags;
use rustix::process::{getpid, setsid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets the process that `command` starts send `tag` and its own id through `socket` before it becomes the new program.
///
/// The copy of the socket that the process inherits closes when the program is executed and not before. So whoever waits
/// for the socket's end cannot see it before the id has been sent, even if we are killed between `fork` and `exec`.
pub(crate) fn announce_before_exec(command: &mut Command, socket: Arc<OwnedFd>, tag: u8) {
    let announce = move || {
        let mut notice = [tag, 0, 0, 0, 0];
        notice[1..].copy_from_slice(&getpid().as_raw_nonzero().get().to_le_bytes());
        // A failure is nobody's to handle here: a server that runs unguarded is better than none, and the guard is looked
        // after before the next start.
        let _ = rustix::net::send(socket.as_fd(), &notice, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        Ok(())
    };
    // SAFETY: between `fork` and `exec` only async-signal-safe things may happen. The closure makes two system calls
    // (getpid, sendto) on the stack, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(announce);
    }
}

/// Puts the process that `command` starts into a session of its own, so that no terminal and no signal to our group
/// reaches it.
pub(crate) fn new_session(command: &mut Command) {
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| setsid().map(drop).map_err(Into::into));
    }
}

/// A descriptor of ours that the reactor watches.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays the same descriptor until it is dropped, and nobody in this crate replaces the
    // one inside an `AsyncFd`.
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
    watched.map_err(Into::into)
}

/// Makes this process deaf to the signals that ask it to end: hang-up, interrupt, terminate.
///
/// For the guard, which must outlive whoever is being ended, and for servers in tests that will not go.
pub fn ignore_endings() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: setting a disposition to "ignore" installs no handler, so no code of ours can run at a bad moment.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Closes every descriptor beyond the three standard ones. Only for a process that has opened none itself.
pub(crate) fn close_all_but_the_standard_three() {
    // SAFETY: the guard calls this first of all, before it owns any descriptor, so no value in this process refers to one
    // of those that are closed.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
    }
}
