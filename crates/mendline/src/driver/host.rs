//! What the driver needs of the world that children live in.
//!
//! The driver is generic over these traits and not over an operating system: the real ones start processes
//! ([`crate::transport::child`]), those of a test hand out cables in memory, and the loop between them is the same.

use std::task::{Context, Poll};

use bytes::BytesMut;
use mendline_core::port::{Exit, Signal, SpawnError};
use mendline_core::{Event, LinkId, ListCache, Moment, UpstreamId};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::transport::http::{Dial, Http};

/// Starts children, and knows the way to servers that live elsewhere.
pub trait Host: Send {
    /// What it starts.
    type Child: Child;

    /// How it makes connections.
    type Dial: Dial + Send;

    /// Starts the child of this link's upstream. Returns when the child runs or is known not to.
    fn spawn(&mut self, link: LinkId) -> Result<Self::Child, SpawnError>;

    /// The way to this upstream, if it is reached over HTTP. Asked for once.
    fn remote(&mut self, upstream: UpstreamId) -> Option<Http<Self::Dial>>;

    /// From now on this upstream is reached the way that was configured last: the next child is started by it, and this is
    /// the new way over HTTP, if there is one.
    fn renew(&mut self, upstream: UpstreamId) -> Option<Http<Self::Dial>> {
        let _ = upstream;
        None
    }
}

/// A child that was started and is not yet buried.
///
/// Ending has two steps, because a process that has ended but is not reaped still owns its id: nobody else can have got
/// it, so what is left of its group can be killed without fear of hitting a stranger.
pub trait Child: Send {
    /// Where it reads from.
    type Stdin: AsyncWrite + Unpin + Send;
    /// Where it writes protocol to.
    type Stdout: AsyncRead + Unpin + Send;
    /// Where it writes everything else to.
    type Stderr: AsyncRead + Unpin + Send;

    /// Its process id, which is also the id of its group.
    fn pid(&self) -> u32;

    /// Its three pipes, once.
    fn pipes(&mut self) -> Option<(Self::Stdin, Self::Stdout, Self::Stderr)>;

    /// Ready as soon as the process has ended, and from then on.
    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Sends a signal to the whole group. That nobody is left to receive it is no error.
    fn signal(&mut self, signal: Signal);

    /// Kills what is left of the group, reaps the process, and says how it had ended. Only after `poll_exited` was ready.
    fn reap(&mut self) -> Exit;

    /// How many of the bytes that its stdin accepted nobody has read and nobody can read any more. Only after `bury`, and
    /// nothing unless that is certain: a byte too many here is a call made twice.
    fn unread(&self, stdin: &Self::Stdin) -> u64;

    /// Reads what lies in the pipe now, without waiting and without trusting a remembered readiness.
    fn drain_stdout(&self, stdout: &mut Self::Stdout, into: &mut BytesMut) -> Drained;

    /// As [`Child::drain_stdout`], for the other pipe.
    fn drain_stderr(&self, stderr: &mut Self::Stderr, into: &mut BytesMut) -> Drained;
}

/// What one read without waiting gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// That many bytes; there may be more.
    Bytes(usize),
    /// Nothing for now, or nothing ever again.
    Nothing,
}

/// Keeps what is known of servers for the next time. Must not block.
pub trait CacheStore: Send {
    /// Keeps this; it replaces what was kept of this upstream before.
    fn store(&mut self, upstream: UpstreamId, cache: ListCache);
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// On the engine's clock, which never goes back.
    pub moment: Moment,
    /// On the machine's clock, in microseconds since 1970.
    pub unix_micros: u64,
}

/// An observer of events. It must not block: it is called between a request and its answer.
pub trait Observer: Send {
    /// The engine emitted an event.
    fn on_event(&mut self, event: &Event, at: EventTime);

    /// A child wrote a line to its stderr. Secrets are hidden in it.
    fn on_stderr(&mut self, upstream: UpstreamId, line: &[u8]);

    /// Whether it wants to see the messages themselves. Asked once, at the beginning.
    fn wants_wire(&self) -> bool {
        false
    }

    /// A message went this way. Told only to those who want it.
    fn on_message(&mut self, upstream: UpstreamId, direction: Direction, message: &[u8]) {
        let _ = (upstream, direction, message);
    }
}

/// The four ways that a message can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to us.
    FromClient,
    /// From us to the server.
    ToServer,
    /// From the server to us.
    FromServer,
    /// From us to the client.
    ToClient,
}

/// Two that are told the same.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn on_event(&mut self, event: &Event, at: EventTime) {
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

/// Nobody, when there is nobody to tell.
impl<A: Observer> Observer for Option<A> {
    fn on_event(&mut self, event: &Event, at: EventTime) {
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
