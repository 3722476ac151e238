//! Tracks how much of a request can have left this machine.
//!
//! The retry decision depends on this, so nothing here is a guess. A `WriteTracker` counts at two layers. At the
//! bottom, below TLS, `TrackedIo` counts the bytes that the operating system *accepted*: the peer cannot have any other
//! byte. At the top, `Http1Io` scans the bytes of an HTTP/1 request for the end of its head and so learns the length of
//! the whole request. [`Written`] follows from the two. No byte accepted since the request began is `Nothing`. Fewer
//! bytes than the request needs is `Partial`. Anything else is `Whole`, also in doubt. Under TLS the request needs at
//! least its own length and a header and a tag for each record, so fewer encrypted bytes than that cannot contain it,
//! whatever else was sent among them.
//!
//! `Http1Io` also keeps a response from being lost to a failed write. A server that refuses a request early answers,
//! closes, and resets the connection while the request is still being sent; its response is in the receive buffer. So a
//! failed write is discarded (and not counted), and the reader has [`GRACE`] to deliver the response before the failure
//! is reported.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use memchr::memmem::Finder;
use mendline_core::port::Written;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The time to wait for the response of a peer that no longer reads.
const GRACE: Duration = Duration::from_secs(1);

/// The least that TLS adds to each record: five bytes of header and sixteen of tag, in every offered version and suite.
const RECORD_OVERHEAD: u64 = 21;
/// The most plain bytes that a TLS record holds.
const RECORD_PLAIN: u64 = 16 * 1024;

const END_OF_HEAD: &[u8; 4] = b"\r\n\r\n";

/// Finds the end of a head. It is prepared once, because that takes longer than a search.
static HEAD_END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(END_OF_HEAD));

/// The counts of one connection, shared by its two layers and by the evidence of its exchanges.
pub(super) struct WriteTracker(Mutex<Counts>);

struct Counts {
    encrypted: bool,
    /// Bytes that the operating system accepted.
    accepted: u64,
    /// Plain bytes that the layer below `Http1Io` accepted.
    passed: u64,
    last_read: Instant,
    request: Request,
}

/// The current request.
#[derive(Clone, Copy, Default)]
struct Request {
    accepted_before: u64,
    passed_before: u64,
    /// The number of bytes of the head's end marker that matched so far.
    matched: usize,
    /// The length of the head, once its end was seen.
    head: Option<u64>,
    body: u64,
}

impl WriteTracker {
    pub(super) fn new() -> Arc<WriteTracker> {
        Arc::new(WriteTracker(Mutex::new(Counts {
            encrypted: false,
            accepted: 0,
            passed: 0,
            last_read: Instant::now(),
            request: Request::default(),
        })))
    }

    /// Records that there is TLS between the two layers.
    pub(super) fn set_encrypted(&self) {
        self.counts().encrypted = true;
    }

    /// Begins a request with a body of this many bytes; all earlier bytes have been flushed.
    pub(super) fn begin(&self, body: u64) {
        let mut counts = self.counts();
        counts.request =
            Request { accepted_before: counts.accepted, passed_before: counts.passed, matched: 0, head: None, body };
    }

    /// Returns how much of the current request the peer can have.
    pub(super) fn written(&self) -> Written {
        let counts = self.counts();
        let request = counts.request;
        let accepted = counts.accepted - request.accepted_before;
        let passed = counts.passed - request.passed_before;
        let Some(head) = request.head else {
            return if accepted == 0 { Written::Nothing } else { Written::Partial };
        };
        let plain = head + request.body;
        let needed = counts.needed(plain);
        if accepted == 0 {
            Written::Nothing
        } else if passed < plain || accepted < needed {
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

impl Request {
    /// Searches plain bytes for the end of the head; `before` is the number of earlier bytes of the request.
    fn find_head_end(&mut self, before: u64, bytes: &[u8]) {
        if self.head.is_some() {
            return;
        }
        let mut at = 0;
        if self.matched == 0 {
            // The whole head is usually written at once.
            if let Some(found) = HEAD_END.find(bytes) {
                self.head = Some(before + (found + END_OF_HEAD.len()) as u64);
                return;
            }
            // Only the last bytes can be the beginning of its end.
            at = bytes.len().saturating_sub(END_OF_HEAD.len() - 1);
        }
        while at < bytes.len() {
            self.matched = match self.matched {
                matched if bytes[at] == END_OF_HEAD[matched] => matched + 1,
                _ => usize::from(bytes[at] == END_OF_HEAD[0]),
            };
            at += 1;
            if self.matched == END_OF_HEAD.len() {
                self.head = Some(before + at as u64);
                return;
            }
        }
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

/// The top layer: the stream that HTTP/1 reads and writes.
pub(super) struct Http1Io<Io> {
    io: Io,
    tracker: Arc<WriteTracker>,
    failure: Option<WriteFailure>,
}

/// A failed write and the time until it is reported.
struct WriteFailure {
    why: Option<io::Error>,
    grace: Pin<Box<Sleep>>,
}

impl<Io> Http1Io<Io> {
    pub(super) fn new(io: Io, tracker: Arc<WriteTracker>) -> Http1Io<Io> {
        Http1Io { io, tracker, failure: None }
    }

    /// Counts accepted bytes. After a failure, discards all bytes.
    fn count_passed(&mut self, taken: io::Result<usize>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match taken {
            Ok(count) => {
                let mut counts = self.tracker.counts();
                let mut left = count;
                for buf in bufs {
                    let piece = &buf[..buf.len().min(left)];
                    let before = counts.passed - counts.request.passed_before;
                    counts.request.find_head_end(before, piece);
                    counts.passed += piece.len() as u64;
                    left -= piece.len();
                }
                Ok(count)
            }
            Err(why) => {
                self.fail(why);
                Ok(discard(bufs))
            }
        }
    }

    fn fail(&mut self, why: io::Error) {
        self.failure.get_or_insert_with(|| WriteFailure { why: Some(why), grace: Box::pin(tokio::time::sleep(GRACE)) });
    }
}

fn discard(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter().map(|buf| buf.len()).sum()
}

impl<Io: AsyncRead + Unpin> AsyncRead for Http1Io<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.io).poll_read(cx, buf) {
            return Poll::Ready(read);
        }
        let Some(failure) = &mut this.failure else {
            return Poll::Pending;
        };
        ready!(failure.grace.as_mut().poll(cx));
        Poll::Ready(Err(failure.why.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())))
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Http1Io<Io> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.failure.is_some() {
            return Poll::Ready(Ok(discard(bufs)));
        }
        let taken = match bufs {
            [buf] => ready!(Pin::new(&mut this.io).poll_write(cx, buf)),
            _ => ready!(Pin::new(&mut this.io).poll_write_vectored(cx, bufs)),
        };
        // A pending read must be polled again: the failure bounds its wait.
        let taken = this.count_passed(taken, bufs);
        if this.failure.is_some() {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(taken)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.failure.is_none()
            && let Err(why) = ready!(Pin::new(&mut this.io).poll_flush(cx))
        {
            this.fail(why);
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failure.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A stream that accepts so many bytes, then fails.
    struct LimitedIo(usize);

    impl AsyncWrite for LimitedIo {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            if self.0 == 0 {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let count = buf.len().min(self.0);
            self.0 -= count;
            Poll::Ready(Ok(count))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for LimitedIo {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\n\r\n{\"\r\n\r\n\"}";

    async fn written_after(accepts: usize, slice: usize) -> Written {
        let tracker = WriteTracker::new();
        let mut io = Http1Io::new(TrackedIo::new(LimitedIo(accepts), Arc::clone(&tracker)), Arc::clone(&tracker));
        tracker.begin(8);
        for piece in REQUEST.chunks(slice) {
            io.write_all(piece).await.unwrap();
        }
        tracker.written()
    }

    #[tokio::test]
    async fn written_follows_from_accepted_bytes() {
        for accepts in 0..=REQUEST.len() {
            let expected = match accepts {
                0 => Written::Nothing,
                all if all == REQUEST.len() => Written::Whole,
                _ => Written::Partial,
            };
            for slice in [1, 3, REQUEST.len()] {
                assert_eq!(written_after(accepts, slice).await, expected, "{accepts} bytes in slices of {slice}");
            }
        }
    }

    #[tokio::test]
    async fn second_request_starts_with_nothing_written() {
        let tracker = WriteTracker::new();
        let mut io = Http1Io::new(TrackedIo::new(LimitedIo(1000), Arc::clone(&tracker)), Arc::clone(&tracker));
        tracker.begin(8);
        io.write_all(REQUEST).await.unwrap();
        tracker.begin(0);
        assert_eq!(tracker.written(), Written::Nothing);
        io.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(tracker.written(), Written::Whole);
    }

    #[test]
    fn too_few_encrypted_bytes_are_partly_written() {
        let tracker = WriteTracker::new();
        tracker.set_encrypted();
        tracker.begin(30_000);
        let state = |passed: u64, accepted: u64| {
            let mut counts = tracker.counts();
            counts.request.head = Some(100);
            counts.passed = passed;
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

    #[tokio::test(start_paused = true)]
    async fn failed_write_is_reported_to_reader_after_grace() {
        let tracker = WriteTracker::new();
        let mut io = Http1Io::new(TrackedIo::new(LimitedIo(0), Arc::clone(&tracker)), Arc::clone(&tracker));
        let start = Instant::now();
        io.write_all(REQUEST).await.unwrap();
        let error = io.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(start.elapsed(), GRACE);
    }
}
