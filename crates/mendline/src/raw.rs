//! The one room with `unsafe` in it.
//!
//! Code between `fork` and `exec`, signal dispositions, closing descriptors that we did not open, registering one that we
//! did with the reactor and giving back memory that code lies in have no safe form in the standard library or tokio. They
//! are here, small, each with the reason why it is sound, so that the lint can stay on everywhere else.

#![allow(unsafe_code, reason = "fork, signal dispositions, foreign descriptors and code have no safe interface")]

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

/// Gives back the memory of all code that this process has run so far. What it still runs comes back by itself, from the
/// file that it lies in.
///
/// For a process that has little left to do. The start of a program runs through much more code than its life.
pub(crate) fn forget_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (begin, end) in maps.lines().filter_map(code) {
        // SAFETY: the range is a private mapping of a file, made by the kernel or the loader, that can be executed and
        // cannot be written: its pages are what the file holds (position-independent code has no relocations in it), and
        // are read from there again when they are next used. A range that has gone since is an error, which changes
        // nothing.
        unsafe {
            libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED);
        }
    }
}

/// Where a line of a process's map says that the code of a file lies.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let is_code = words.next()? == "r-xp";
    // Then where in the file, on which device, and the number of the file, which what the kernel made up does not have.
    let is_file = words.nth(2)? != "0";
    let address = |text| usize::from_str_radix(text, 16).ok();
    if is_code && is_file { Some((address(begin)?, address(end)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_lies_where_a_file_is_mapped_that_cannot_be_written() {
        let code_of = "55d000001000-55d000003000 r-xp 00001000 fe:00 1234    /usr/bin/a name with spaces";
        assert_eq!(code(code_of), Some((0x55d0_0000_1000, 0x55d0_0000_3000)));
        for other in [
            "55d000003000-55d000004000 r--p 00003000 fe:00 1234    /usr/bin/data",
            "55d000004000-55d000005000 rwxp 00004000 fe:00 1234    /usr/bin/patched",
            "55d000005000-55d000006000 r-xs 00004000 fe:00 1234    /usr/bin/shared",
            "7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0       [vdso]",
            "7ffc00003000-7ffc00004000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn code_that_was_forgotten_still_runs() {
        forget_code();
        assert_eq!(format!("{:?}", "code".to_uppercase()), "\"CODE\"");
    }
}
