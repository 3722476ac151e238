//! The lower bound: a minimal program between a client and a server.
//!
//! It has the structure of Mendline's bridge, one child, one thread, one loop, without its work: it copies bytes and
//! does not parse them. The difference to Mendline is the cost of parsing and policies. A threaded relay, or `splice`,
//! would be a different program and no lower bound for this one.
//!
//! Each direction waits for one event at a time: for its source while its buffer is empty, for its sink while it is
//! not. A write is tried directly after a read, so that a typical message costs one `poll`, one `read` and one `write`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

const BUFFER: usize = 64 << 10;

/// Relays between stdio and the command until the command closes its stdout. Returns the command's exit code.
pub(crate) fn run(command: &[String]) -> io::Result<ExitCode> {
    let mut child =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(child_stdin), Some(child_stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    let mut to_child = Direction::new(io::stdin().as_fd().try_clone_to_owned()?, child_stdin.into())?;
    let mut to_client = Direction::new(child_stdout.into(), io::stdout().as_fd().try_clone_to_owned()?)?;

    while let Some(client_wait) = to_client.poll_fd() {
        let (for_child, for_client) = match to_child.poll_fd() {
            Some(child_wait) => {
                let mut both = [child_wait, client_wait];
                await_any(&mut both)?;
                (is_ready(&both[0]), is_ready(&both[1]))
            }
            None => {
                await_any(&mut [client_wait])?;
                (false, true)
            }
        };
        if for_child {
            to_child.step()?;
        }
        if for_client {
            to_client.step()?;
        }
    }
    // The child may still be reading, so its stdin is closed before the wait.
    drop(to_child);
    let status = child.wait()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// One direction.
struct Direction {
    /// `None` once the source has ended or the sink is closed. Dropping the sink passes on the end.
    pipes: Option<Pipes>,
    buffer: Box<[u8]>,
    /// The range of the buffer that is not yet written.
    start: usize,
    end: usize,
}

struct Pipes {
    source: OwnedFd,
    sink: OwnedFd,
}

impl Direction {
    fn new(source: OwnedFd, sink: OwnedFd) -> io::Result<Self> {
        for end in [&source, &sink] {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { pipes: Some(Pipes { source, sink }), buffer: vec![0; BUFFER].into(), start: 0, end: 0 })
    }

    fn poll_fd(&self) -> Option<PollFd<'_>> {
        let Pipes { source, sink } = self.pipes.as_ref()?;
        Some(if self.start == self.end {
            PollFd::new(source, PollFlags::IN)
        } else {
            PollFd::new(sink, PollFlags::OUT)
        })
    }

    /// Reads or writes once. A direction that cannot continue closes.
    fn step(&mut self) -> io::Result<()> {
        let Some(Pipes { source, sink }) = &self.pipes else { return Ok(()) };
        if self.start == self.end {
            match rustix::io::read(source, &mut *self.buffer) {
                Ok(0) => {
                    self.pipes = None;
                    return Ok(());
                }
                Ok(read) => (self.start, self.end) = (0, read),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        match rustix::io::write(sink, &self.buffer[self.start..self.end]) {
            Ok(written) => self.start += written,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::PIPE) => self.pipes = None,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn await_any(waits: &mut [PollFd<'_>]) -> io::Result<()> {
    match poll(waits, None) {
        // An interrupted wait sets no flags, and the loop polls again.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An error or a hang-up counts as ready: the following read or write reports it.
fn is_ready(wait: &PollFd<'_>) -> bool {
    !wait.revents().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A direction between two pipes, and the outer ends of the pipes.
    fn direction() -> (OwnedFd, Direction, OwnedFd) {
        let (source, writer) = rustix::pipe::pipe().unwrap();
        let (reader, sink) = rustix::pipe::pipe().unwrap();
        (writer, Direction::new(source, sink).unwrap(), reader)
    }

    #[test]
    fn bytes_and_the_end_are_passed_on() {
        let (writer, mut direction, reader) = direction();
        rustix::io::write(&writer, b"one\ntwo").unwrap();
        direction.step().unwrap();
        let mut seen = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut seen), Ok(7));
        assert_eq!(&seen[..7], b"one\ntwo");

        drop(writer);
        direction.step().unwrap();
        assert!(direction.poll_fd().is_none());
        assert_eq!(rustix::io::read(&reader, &mut seen), Ok(0));
    }

    #[test]
    fn full_sink_loses_no_bytes() {
        let (writer, mut direction, reader) = direction();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut sent = 0;
        // The direction fills the sink, then its buffer, and then stops reading.
        for _ in 0..64 {
            sent += rustix::io::write(&writer, &[b'x'; 4 << 10]).unwrap_or(0);
            direction.step().unwrap();
        }
        assert!(direction.start < direction.end, "the direction should hold what the full pipe did not accept");
        drop(writer);
        let mut received = 0;
        let mut seen = vec![0; BUFFER];
        while direction.poll_fd().is_some() {
            received += rustix::io::read(&reader, &mut seen).unwrap();
            direction.step().unwrap();
        }
        drop(direction);
        received += std::iter::repeat_with(|| rustix::io::read(&reader, &mut seen).unwrap())
            .take_while(|read| *read > 0)
            .sum::<usize>();
        assert_eq!(received, sent);
    }

    #[test]
    fn direction_closes_when_its_reader_has_gone() {
        let (writer, mut direction, reader) = direction();
        drop(reader);
        rustix::io::write(&writer, b"lost").unwrap();
        direction.step().unwrap();
        assert!(direction.poll_fd().is_none());
    }
}
