//! Blocking writes to stdout and stderr, without the locks of the standard library.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};

/// Writes as much as stdout accepts, and waits until it accepts something.
pub fn write_to_stdout(bytes: &[u8]) -> io::Result<usize> {
    write_some(rustix::stdio::stdout(), bytes)
}

/// Writes as much as stderr accepts, and waits until it accepts something.
pub fn write_to_stderr(bytes: &[u8]) -> io::Result<usize> {
    write_some(rustix::stdio::stderr(), bytes)
}

fn write_some(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match retry_on_intr(|| rustix::io::write(to, bytes)) {
            // Another process that shares the descriptor has made it non-blocking.
            Err(Errno::AGAIN) => retry_on_intr(|| poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)).map(drop)?,
            written => return Ok(written?),
        }
    }
}

/// Returns whether the reader of stdout has closed. Without this check, only the next write would tell.
pub fn stdout_is_abandoned() -> io::Result<bool> {
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default()))?;
    Ok(polled[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL))
}

/// Replaces stdout by a file that drops everything, which closes a pipe.
pub fn close_stdout() {
    if let Ok(nothing) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn write_waits_for_a_full_non_blocking_pipe() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let filled = std::iter::from_fn(|| rustix::io::write(&writer, &[b'x'; 4096]).ok()).sum::<usize>();
        let drained = std::thread::spawn(move || {
            let mut read = 0;
            let mut bytes = vec![0; 4096];
            while let Ok(count @ 1..) = rustix::io::read(&reader, &mut bytes) {
                read += count;
            }
            read
        });
        let written = write_some(writer.as_fd(), b"last").unwrap();
        drop(writer);
        assert_eq!(drained.join().unwrap(), filled + written);
    }
}
