//! The floor: the least that a program between a client and a server can do.
//!
//! It has the shape of Mendline's bridge, one child, one thread, one loop, and does none of its work: bytes are copied,
//! not understood. What Mendline takes beyond this is the price of understanding. A threaded relay, or `splice`, would
//! be a different program and not a floor for this one.
//!
//! Each direction is a lane that waits for exactly one thing at a time: for its source while its buffer is empty, for
//! its sink while it is not. A write is tried at once after a read, so that the usual message costs one `poll`, one
//! `read` and one `write`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

const BUFFER: usize = 64 << 10;

/// Relays between our stdio and the command's until the command closes its stdout; ends as the command ended.
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
    // The child may still be reading; it is told that nothing more comes before we wait for it.
    drop(to_child);
    let status = child.wait()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// One direction.
struct Direction {
    /// None once the source has ended or the sink is gone; closing the sink is how the end is passed on.
    pipes: Option<Pipes>,
    buffer: Box<[u8]>,
    /// What of the buffer was read and not yet written.
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

    /// Does what has become possible; a lane that can go no further closes.
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
        // After an interrupted wait no flag is set, and the loop asks again.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An error or a hang-up counts as ready: the read or write that follows says what it is.
fn is_ready(wait: &PollFd<'_>) -> bool {
    !wait.revents().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane between two pipes, with the ends that stay outside.
    fn direction() -> (OwnedFd, Direction, OwnedFd) {
        let (source, writer) = rustix::pipe::pipe().unwrap();
        let (reader, sink) = rustix::pipe::pipe().unwrap();
        (writer, Direction::new(source, sink).unwrap(), reader)
    }

    #[test]
    fn bytes_arrive_as_they_were_sent_and_the_end_is_passed_on() {
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
    fn a_full_sink_is_waited_for_and_nothing_is_lost() {
        let (writer, mut direction, reader) = direction();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut sent = 0;
        // The lane fills the far pipe, then its buffer, and then leaves its source alone.
        for _ in 0..64 {
            sent += rustix::io::write(&writer, &[b'x'; 4 << 10]).unwrap_or(0);
            direction.step().unwrap();
        }
        assert!(direction.start < direction.end, "the lane should hold what the full pipe did not take");
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
    fn a_lane_whose_reader_left_closes() {
        let (writer, mut direction, reader) = direction();
        drop(reader);
        rustix::io::write(&writer, b"unheard").unwrap();
        direction.step().unwrap();
        assert!(direction.poll_fd().is_none());
    }
}
