//! A minimal MCP server on stdio, so that the measurement is about the program in front of it.
//!
//! It has one thread, blocking reads, and one `write` per answer: real servers answer each call when it is done, and a
//! proxy has to handle those small writes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use memchr::memchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::{stderr, stdin, stdout};

use crate::answers::Answers;

/// Serves until stdin ends or stdout is closed.
pub(crate) fn serve() -> io::Result<()> {
    let mut answers = Answers::default();
    let mut buffer = vec![0; 64 << 10];
    let mut filled = 0;
    let mut delayed = Delayed::default();
    loop {
        if let Some(until) = delayed.next_due() {
            let mut ready = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
            let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            let count = poll(&mut ready, timeout.as_ref());
            while let Some((line, ())) = delayed.take_due() {
                write_all(stdout(), &line)?;
            }
            if !matches!(count, Ok(1..)) {
                continue;
            }
        }
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
        let read = match rustix::io::read(stdin(), &mut buffer[filled..]) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        // Earlier bytes hold no newline, so only the new ones are searched.
        let mut searched = filled;
        filled += read;
        let mut line_start = 0;
        while let Some(length) = memchr(b'\n', &buffer[searched..filled]) {
            let line_end = searched + length;
            answers.answer(&buffer[line_start..line_end]);
            match answers.take_delay() {
                Some(delay) => delayed.add(delay, answers.line().to_vec(), ()),
                None => match write_all(stdout(), answers.line()) {
                    Err(Errno::PIPE) => return Ok(()),
                    written => written?,
                },
            }
            line_start = line_end + 1;
            searched = line_start;
        }
        buffer.copy_within(line_start..filled, 0);
        filled -= line_start;
    }
}

/// Answers that are due later, with their receivers.
pub(crate) struct Delayed<T>(BTreeMap<(Instant, u64), (Vec<u8>, T)>, u64);

impl<T> Default for Delayed<T> {
    fn default() -> Self {
        Self(BTreeMap::new(), 0)
    }
}

impl<T> Delayed<T> {
    pub(crate) fn add(&mut self, delay: Duration, answer: Vec<u8>, receiver: T) {
        self.1 += 1;
        self.0.insert((Instant::now() + delay, self.1), (answer, receiver));
    }

    /// Returns the time of the first answer.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.0.keys().next().map(|(at, _)| *at)
    }

    /// Takes an answer whose time has come.
    pub(crate) fn take_due(&mut self) -> Option<(Vec<u8>, T)> {
        let is_due = self.next_due()? <= Instant::now();
        if is_due { self.0.pop_first().map(|(_, answer)| answer) } else { None }
    }
}

/// Writes so many lines per second to stderr, in bursts, until stderr is closed.
pub(crate) fn chatter(a_second: u64) {
    const BURSTS: u64 = 100;
    let line =
        "2026-11-15 12:20:12 INFO [server] handled request 4711 of session 0815 in 12.3 ms without any errors.\n";
    let burst = line.repeat(usize::try_from(a_second / BURSTS).unwrap_or_default().max(1));
    let mut next = Instant::now();
    while write_all(stderr(), burst.as_bytes()).is_ok() {
        next += Duration::from_secs(1) / BURSTS as u32;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn write_all(sink: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&sink, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
