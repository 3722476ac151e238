//! The part of Streamable HTTP that the bench needs: an upstream, two relays and a client.
//!
//! All but the relay of [`stack`] use HTTP/1.1 with `Content-Length` on persistent connections, with one exchange at a
//! time on each. Other forms of HTTP are an error and never a wrong figure.
//!
//! Sockets are blocking and are read once per `epoll` event. A typical exchange costs one `epoll_wait`, one `read` and
//! one `writev` on each side, which is the minimum for one thread.

pub(crate) mod message;
pub(crate) mod pool;
pub(crate) mod relay;
pub(crate) mod remote;
pub(crate) mod stack;
pub(crate) mod upstream;

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// The largest number of events per wait.
const AT_ONCE: usize = 64;

/// An epoll instance. Each watched descriptor has a number.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Box<[Event]>,
    /// The range of `events` that is not yet returned.
    next: usize,
    ready: usize,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Box::new([empty; AT_ONCE]), next: 0, ready: 0 })
    }

    /// Watches a descriptor until it is closed.
    pub(crate) fn add(&self, what: impl AsFd, number: usize) -> Result<(), Errno> {
        epoll::add(&self.epoll, what, EventData::new_u64(number as u64), EventFlags::IN)
    }

    pub(crate) fn remove(&self, what: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, what)
    }

    /// Returns the next readable descriptor of the last wait.
    pub(crate) fn next_ready(&mut self) -> Option<usize> {
        let event = self.events[..self.ready].get(self.next)?;
        self.next += 1;
        Some(event.data.u64() as usize)
    }

    /// Waits until a descriptor is readable.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.wait_until(None)
    }

    /// Waits until a descriptor is readable, or until a time.
    pub(crate) fn wait_until(&mut self, until: Option<Instant>) -> io::Result<()> {
        (self.next, self.ready) = (0, 0);
        let timeout = until.and_then(|at| Timespec::try_from(at.saturating_duration_since(Instant::now())).ok());
        match epoll::wait(&self.epoll, &mut self.events[..], timeout.as_ref()) {
            Ok(ready) => self.ready = ready,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Splits a URL into `host:port` and the path without its first slash.
pub(crate) fn address(url: &str) -> io::Result<(&str, &str)> {
    url.strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(|| io::Error::other(format!("`{url}` is not http://HOST:PORT/PATH")))
}

/// Writes both parts, in one system call unless the sink is full.
pub(crate) fn write_both(sink: &mut impl Write, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut parts = [IoSlice::new(first), IoSlice::new(second)];
    let mut left = &mut parts[..];
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match sink.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that accepts a few bytes at a time.
    struct ShortWrites(Vec<u8>, usize);

    impl Write for ShortWrites {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn short_writes_still_write_both_parts() {
        for (first, second) in [("head", "body"), ("head", ""), ("", "body"), ("", "")] {
            for limit in [1, 3, 100] {
                let mut sink = ShortWrites(Vec::new(), limit);
                write_both(&mut sink, first.as_bytes(), second.as_bytes()).unwrap();
                assert_eq!(sink.0, [first, second].concat().as_bytes(), "{limit} bytes at a time");
            }
        }
    }

    #[test]
    fn only_readable_descriptors_are_returned() {
        let mut poller = Poller::new().unwrap();
        let pipes = [rustix::pipe::pipe().unwrap(), rustix::pipe::pipe().unwrap()];
        for (number, (reader, _)) in pipes.iter().enumerate() {
            poller.add(reader, number + 5).unwrap();
        }
        rustix::io::write(&pipes[1].1, b"x").unwrap();
        assert_eq!(poller.next_ready(), None);
        poller.wait().unwrap();
        assert_eq!(poller.next_ready(), Some(6));
        assert_eq!(poller.next_ready(), None);
    }
}
