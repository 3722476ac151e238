//! Tracks how much of a request can have left this machine.
//!
//! The retry decision depends on this, so nothing here is a guess. A `WriteTracker` counts at two layers. At the
//! bottom, below TLS, `TrackedIo` counts the bytes that the operating system *accepted*: the peer cannot have any other
//! byte. At the top, an HTTP/1 connection notes the length of its request and how much of it the stream took.
//! [`Written`] follows from the two. No byte accepted since the request began is `Nothing`. Fewer bytes than the request
//! needs is `Partial`. Anything else is `Whole`, also in doubt. Under TLS the request needs at least its own length and
//! a header and a tag for each record, so fewer encrypted bytes than that cannot contain it, whatever else was sent
//! among them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use mendline_core::port::Written;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The least that TLS adds to each record: five bytes of header and sixteen of tag, in every offered version and suite.
const RECORD_OVERHEAD: u64 = 21;
/// The most plain bytes that a TLS record holds.
const RECORD_PLAIN: u64 = 16 * 1024;

/// The counts of one connection, shared by its two layers and by the evidence of its exchanges.
pub(super) struct WriteTracker(Mutex<Counts>);

struct Counts {
    encrypted: bool,
    /// Bytes that the operating system accepted.
    accepted: u64,
    last_read: Instant,
    request: Request,
}

/// The current request of an HTTP/1 connection.
#[derive(Clone, Copy, Default)]
struct Request {
    /// The accepted bytes before it.
    accepted_before: u64,
    /// Its length, head and body.
    plain: u64,
    /// The part of it that was passed to the stream.
    passed: u64,
}

impl WriteTracker {
    pub(super) fn new() -> Arc<WriteTracker> {
        Arc::new(WriteTracker(Mutex::new(Counts {
            encrypted: false,
            accepted: 0,
            last_read: Instant::now(),
            request: Request::default(),
        })))
    }

    /// Records that there is TLS between the two layers.
    pub(super) fn set_encrypted(&self) {
        self.counts().encrypted = true;
    }

    /// Begins an HTTP/1 request of this many bytes; all earlier bytes have been flushed.
    pub(super) fn begin(&self, plain: u64) {
        let mut counts = self.counts();
        counts.request = Request { accepted_before: counts.accepted, passed: 0, plain };
    }

    /// Notes that the layer above the stream passed this many bytes of the current request to it.
    pub(super) fn note_passed(&self, count: usize) {
        self.counts().request.passed += count as u64;
    }

    /// Returns how much of the current request the peer can have.
    pub(super) fn written(&self) -> Written {
        let counts = self.counts();
        let request = counts.request;
        let accepted = counts.accepted - request.accepted_before;
        if accepted == 0 {
            Written::Nothing
        } else if request.passed < request.plain || accepted < counts.needed(request.plain) {
            Written::Partial
        } else {
            Written::Whole
        }
    }

    /// Returns whether the bytes accepted since `before` can contain this many plain bytes.
    pub(super) fn can_hold(&self, before: u64, plain: u64) -> bool {
        let counts = self.counts();
        counts.accepted - before >= counts.needed(plain)
    }

    /// Returns how many bytes the operating system has accepted in total.
    pub(super) fn accepted(&self) -> u64 {
        self.counts().accepted
    }

    /// Returns the time of the last read.
    pub(super) fn last_read(&self) -> Instant {
        self.counts().last_read
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns the least number of accepted bytes that can contain this many plain ones.
    fn needed(&self, plain: u64) -> u64 {
        if self.encrypted { plain + plain.div_ceil(RECORD_PLAIN) * RECORD_OVERHEAD } else { plain }
    }
}

/// The bottom layer: a stream that counts accepted bytes.
pub(super) struct TrackedIo<Io> {
    io: Io,
    tracker: Arc<WriteTracker>,
}

impl<Io> TrackedIo<Io> {
    pub(super) fn new(io: Io, tracker: Arc<WriteTracker>) -> TrackedIo<Io> {
        TrackedIo { io, tracker }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            self.tracker.counts().accepted += count as u64;
        }
        written
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for TrackedIo<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.tracker.counts().last_read = Instant::now();
        }
        read
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for TrackedIo<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_encrypted_bytes_are_partly_written() {
        let tracker = WriteTracker::new();
        tracker.set_encrypted();
        tracker.begin(30_100);
        let state = |passed: u64, accepted: u64| {
            let mut counts = tracker.counts();
            counts.request.passed = passed;
            counts.accepted = accepted;
            drop(counts);
            tracker.written()
        };
        assert_eq!(state(30_100, 0), Written::Nothing, "TLS accepted all, the socket nothing");
        assert_eq!(state(30_100, 30_100), Written::Partial, "less than the records need");
        assert_eq!(state(30_100, 30_141), Written::Partial);
        assert_eq!(state(30_100, 30_142), Written::Whole, "two records of the smallest kind");
        assert_eq!(state(30_099, 99_999), Written::Partial, "TLS did not accept the last byte");
    }
}
