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

/// What the loader mapped before this process began: the program and its libraries, but for what can be written.
///
/// The start of a program runs through much more of them than its life does. Made before there is a second thread, so that
/// none of these places can be anything else later: nobody takes a library away that was there from the beginning.
#[derive(Debug)]
pub struct Loaded(Vec<String>);

impl Loaded {
    /// What is mapped now. Only for the beginning of a process.
    pub fn by_the_loader() -> Loaded {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Loaded(maps.lines().filter(|line| is_of_a_file(line)).map(str::to_owned).collect())
    }

    /// Gives back the memory of all that. What is used again comes back by itself, from the file that it is in.
    pub fn give_back(&self) {
        let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
        for (begin, end) in untouched(&maps, &self.0) {
            // SAFETY: the range is a private mapping of a file since the beginning of this process. It cannot be written,
            // and has no page that differs from the file (the loader's relocations and a debugger's breakpoints would be
            // such pages), so whoever reads it next finds what is there now.
            unsafe {
                libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED);
            }
        }
    }
}

/// Is this line of a process's map about a file that cannot be written there? `[vdso]` and its like have no file number.
fn is_of_a_file(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    matches!(words.next(), Some("r-xp" | "r--p")) && words.nth(2).is_some_and(|file| file != "0")
}

/// Where those mappings are of which nothing in memory differs from the file.
fn untouched<'a>(smaps: &'a str, known: &'a [String]) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let mut mapping = None;
    smaps.lines().filter_map(move |line| match line.split_once(':') {
        Some(("Anonymous", size)) if size.trim() == "0 kB" => mapping.take().and_then(|line: &String| range(line)),
        // All other names of figures are one word. A mapping begins with its range.
        Some((name, _)) if !name.contains(' ') => None,
        _ => {
            mapping = known.iter().find(|known| *known == line);
            None
        }
    })
}

fn range(line: &str) -> Option<(usize, usize)> {
    let (begin, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(begin)?, address(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "55d000001000-55d000003000 r-xp 00001000 fe:00 1234    /usr/bin/a name: with spaces";
    const DATA: &str = "55d000003000-55d000004000 r--p 00003000 fe:00 1234    /usr/bin/a name: with spaces";

    #[test]
    fn what_can_be_written_or_is_no_file_is_not_given_back() {
        assert!(is_of_a_file(CODE) && is_of_a_file(DATA));
        for other in [
            "55d000004000-55d000005000 rw-p 00004000 fe:00 1234    /usr/bin/variables",
            "55d000004000-55d000005000 rwxp 00004000 fe:00 1234    /usr/bin/patched",
            "55d000005000-55d000006000 r-xs 00004000 fe:00 1234    /usr/bin/shared",
            "7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0       [vdso]",
            "7ffc00003000-7ffc00004000 r--p 00000000 00:00 0",
            "",
        ] {
            assert!(!is_of_a_file(other), "{other}");
        }
    }

    #[test]
    fn what_differs_from_the_file_or_came_later_is_not_given_back() {
        let smaps = |code: &str, code_differs: &str, data_differs: &str| {
            format!(
                "{code}\nSize: 8 kB\nRss: 8 kB\nAnonymous: {code_differs} kB\nVmFlags: rd ex\n\
                 {DATA}\nSize: 4 kB\nRss: 4 kB\nAnonymous: {data_differs} kB\nVmFlags: rd\n"
            )
        };
        let known = [CODE.to_owned(), DATA.to_owned()];
        let given = |smaps: &str| untouched(smaps, &known).collect::<Vec<_>>();
        let (code, data) = ((0x55d0_0000_1000, 0x55d0_0000_3000), (0x55d0_0000_3000, 0x55d0_0000_4000));
        assert_eq!(given(&smaps(CODE, "0", "0")), [code, data]);
        assert_eq!(given(&smaps(CODE, "4", "0")), [data]);
        assert_eq!(given(&smaps(CODE, "0", "4")), [code]);
        assert_eq!(given(&smaps(&CODE.replace("1234", "4321"), "0", "4")), []);
    }

    #[test]
    fn what_was_given_back_is_still_there() {
        Loaded::by_the_loader().give_back();
        assert_eq!(format!("{:?}", "code and data".to_uppercase()), "\"CODE AND DATA\"");
    }
}
