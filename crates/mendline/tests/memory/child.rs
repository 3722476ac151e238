//! A child of the driver whose pipes are streams in memory.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use mendline::decisions::port::{Exit, Signal};
use mendline::{Child, Drained};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// The number of bytes that are read from a pipe at once.
const CHUNK: usize = 64 * 1024;

/// The exit status of a child, once it has exited.
#[derive(Clone, Default)]
pub struct ExitSlot(Arc<Mutex<(Option<Exit>, Option<Waker>)>>);

impl ExitSlot {
    /// Ends the child. Only the first end counts.
    pub fn set(&self, exit: Exit) {
        let mut exit_slot = self.0.lock().unwrap();
        exit_slot.0.get_or_insert(exit);
        if let Some(waker) = exit_slot.1.take() {
            waker.wake();
        }
    }
}

/// A child with streams of this type as stdin and stdout.
pub struct FakeChild<S> {
    pipes: Option<(S, S, DuplexStream)>,
    exit_slot: ExitSlot,
}

impl<S> FakeChild<S> {
    /// Creates a child with these pipes: stdin, stdout, stderr.
    pub fn new(pipes: (S, S, DuplexStream), exit_slot: ExitSlot) -> Self {
        FakeChild { pipes: Some(pipes), exit_slot }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Child for FakeChild<S> {
    type Stdin = S;
    type Stdout = S;
    type Stderr = DuplexStream;

    fn pid(&self) -> u32 {
        4711
    }

    fn pipes(&mut self) -> Option<(S, S, DuplexStream)> {
        self.pipes.take()
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut exit_slot = self.exit_slot.0.lock().unwrap();
        if exit_slot.0.is_some() {
            return Poll::Ready(());
        }
        exit_slot.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    fn signal(&mut self, signal: Signal) {
        self.exit_slot.set(match signal {
            Signal::Term => Exit::Signal(15),
            Signal::Kill => Exit::Signal(9),
        });
    }

    fn reap(&mut self) -> Exit {
        self.exit_slot.0.lock().unwrap().0.expect("reaped before it exited")
    }

    fn unread(&self, _: &S) -> u64 {
        0
    }

    fn drain_stdout(&self, stdout: &mut S, into: &mut BytesMut) -> Drained {
        drain(stdout, into)
    }

    fn drain_stderr(&self, stderr: &mut DuplexStream, into: &mut BytesMut) -> Drained {
        drain(stderr, into)
    }
}

fn drain(stream: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> Drained {
    let mut space = vec![0; CHUNK];
    let mut buffer = ReadBuf::new(&mut space);
    let read = Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
    match (read, buffer.filled().len()) {
        (Poll::Ready(Ok(())), count) if count > 0 => {
            into.extend_from_slice(buffer.filled());
            Drained::Bytes(count)
        }
        _ => Drained::Nothing,
    }
}
