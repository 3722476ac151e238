//! The traits through which the driver uses processes, connections, caches and observers.
//!
//! The driver is generic over these traits and not over an operating system. The real implementations start processes
//! ([`crate::transport::child`]), those of tests use streams in memory.

use std::task::{Context, Poll};

use bytes::BytesMut;
use mendline_core::port::{Exit, Signal, SpawnError};
use mendline_core::{Event, LinkId, ListCache, Moment, UpstreamId};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::transport::http::{Dial, Http};

/// Starts children and provides HTTP transports.
pub trait Host: Send {
    /// A child process.
    type Child: Child;

    /// Dials connections.
    type Dial: Dial + Send;

    /// Starts the child of this link's upstream. Returns when the child runs or has failed to start.
    fn spawn(&mut self, link: LinkId) -> Result<Self::Child, SpawnError>;

    /// Returns the HTTP transport of this upstream, if it has one. Called before its first exchange; after `renew` has
    /// returned one, never.
    fn remote(&mut self, upstream: UpstreamId) -> Option<Http<Self::Dial>>;

    /// Learns the endpoint of a server that was added while the driver runs.
    fn admit(&mut self, upstream: UpstreamId) {
        let _ = upstream;
    }

    /// Forgets the endpoint of a removed server.
    fn forget(&mut self, upstream: UpstreamId) {
        let _ = upstream;
    }

    /// Applies the latest configuration of this upstream: later children are started by it. Returns the new HTTP
    /// transport, if the upstream has one.
    fn renew(&mut self, upstream: UpstreamId) -> Option<Http<Self::Dial>> {
        let _ = upstream;
        None
    }
}

/// A child that was started and is not yet reaped.
///
/// Its end has two steps. A process that has exited but is not reaped still owns its id, so the rest of its process
/// group can be killed without the risk of killing an unrelated process.
pub trait Child: Send {
    /// The write end of its stdin.
    type Stdin: AsyncWrite + Unpin + Send;
    /// The read end of its stdout, which carries the protocol.
    type Stdout: AsyncRead + Unpin + Send;
    /// The read end of its stderr.
    type Stderr: AsyncRead + Unpin + Send;

    /// Returns its process id, which is also the id of its process group.
    fn pid(&self) -> u32;

    /// Returns its three pipes, once.
    fn pipes(&mut self) -> Option<(Self::Stdin, Self::Stdout, Self::Stderr)>;

    /// Becomes ready when the process has exited, and stays ready.
    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Sends a signal to the whole process group. An empty group is not an error.
    fn signal(&mut self, signal: Signal);

    /// Kills the rest of the process group, reaps the process and returns its exit status. Only after `poll_exited` was
    /// ready.
    fn reap(&mut self) -> Exit;

    /// Returns how many bytes its stdin accepted that no process has read or can still read. Only after `reap`. Returns
    /// 0 unless the number is certain: if it is too high, a call may run twice.
    fn unread(&self, stdin: &Self::Stdin) -> u64;

    /// Reads the bytes that are in the pipe now. Does not wait, and ignores cached readiness.
    fn drain_stdout(&self, stdout: &mut Self::Stdout, into: &mut BytesMut) -> Drained;

    /// Does the same as [`Child::drain_stdout`] for stderr.
    fn drain_stderr(&self, stderr: &mut Self::Stderr, into: &mut BytesMut) -> Drained;
}

/// The result of one read without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// This many bytes; there may be more.
    Bytes(usize),
    /// No bytes: the pipe is empty or closed.
    Nothing,
}

/// Stores the list cache of one upstream for the next start. Must not block.
pub trait CacheStore: Send {
    /// Stores this cache in place of the last one.
    fn store(&mut self, cache: ListCache);
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// On the engine's clock, which is monotonic.
    pub moment: Moment,
    /// On the system clock, in microseconds since 1970.
    pub unix_micros: u64,
}

/// An observer of events. It must not block: it is called between a request and its answer.
pub trait Observer: Send {
    /// The engine emitted an event.
    fn on_event(&mut self, event: &Event, at: At);

    /// A child wrote a line to its stderr. Secrets are hidden in it.
    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]);

    /// Returns whether it wants the messages on the wire. Called once, at the start.
    fn wants_wire(&self) -> bool {
        false
    }

    /// A message passed in this direction. Called only if `wants_wire` returned true.
    fn on_message(&mut self, upstream: UpstreamId, direction: Direction, message: &[u8]) {
        let _ = (upstream, direction, message);
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to Mendline.
    FromClient,
    /// From Mendline to the server.
    ToServer,
    /// From the server to Mendline.
    FromServer,
    /// From Mendline to the client.
    ToClient,
}

/// Both observers get every call.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_event(&mut self, event: &Event, at: At) {
        self.0.on_event(event, at);
        self.1.on_event(event, at);
    }

    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]) {
        self.0.on_stderr(upstream, line);
        self.1.on_stderr(upstream, line);
    }

    fn wants_wire(&self) -> bool {
        self.0.wants_wire() || self.1.wants_wire()
    }

    fn on_message(&mut self, upstream: UpstreamId, direction: Direction, message: &[u8]) {
        self.0.on_message(upstream, direction, message);
        self.1.on_message(upstream, direction, message);
    }
}

/// Observes nothing.
impl Observer for () {
    fn on_event(&mut self, _: &Event, _: At) {}

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}

/// An optional observer; `None` ignores every call.
impl<A: Observer> Observer for Option<A> {
    fn on_event(&mut self, event: &Event, at: At) {
        if let Some(observer) = self {
            observer.on_event(event, at);
        }
    }

    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]) {
        if let Some(observer) = self {
            observer.on_stderr(upstream, line);
        }
    }

    fn wants_wire(&self) -> bool {
        self.as_ref().is_some_and(Observer::wants_wire)
    }

    fn on_message(&mut self, upstream: UpstreamId, direction: Direction, message: &[u8]) {
        if let Some(observer) = self {
            observer.on_message(upstream, direction, message);
        }
    }
}
