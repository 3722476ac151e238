//! Outgoing messages as bytes.
//!
//! A sink pulls messages only when all earlier bytes are accepted. It copies small messages into one buffer and writes
//! large ones from their own buffers, so that a burst is one write and a large result is never copied. It counts the
//! bytes that the operating system accepted: that number decides later whether a server can have received a call.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use mendline_wire::Spliced;
use tokio::io::AsyncWrite;

/// The size from which a message is written from its own buffer. Below it, a copy is cheaper than another `iovec`.
const COPY_BELOW: usize = 4 * 1024;

/// The number of bytes to pull for one write: the capacity of a pipe.
const WRITE_BYTES: usize = 64 * 1024;

/// The limit of a buffer that is kept for reuse.
const SPARE_BYTES: usize = 128 * 1024;

/// The limit of fills and flushes of one sink in one iteration.
const WRITES_PER_ITERATION: usize = 16;

/// The limit of slices per write. A message with two edits has five segments and a line end.
const SLICES: usize = 16;

/// The size from which a slice is written alone: a pipe hardly accepts more in one write. Tokio takes a short write of
/// one slice as a sign that the pipe is full, and saves the next, futile system call; it does not for several slices.
const ALONE_FROM: usize = 64 * 1024;

/// One outgoing byte stream.
pub(crate) struct Sink<W> {
    writer: Option<W>,
    /// The write failed. The writer is kept, because its pipe can still report unread bytes.
    failed: bool,
    pieces: VecDeque<Piece>,
    /// The accepted bytes of the first piece.
    offset: usize,
    queued: usize,
    accepted: u64,
    spare: BytesMut,
    closing: bool,
}

enum Piece {
    /// Small messages with their line ends.
    Gathered(BytesMut),
    /// One large message; its line end follows it.
    Whole(Spliced),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Gathered(bytes) => bytes.len(),
            Piece::Whole(message) => message.len() + 1,
        }
    }
}

impl<W: AsyncWrite + Unpin> Sink<W> {
    /// Creates a sink.
    pub(crate) fn new(writer: W) -> Self {
        Self {
            writer: Some(writer),
            failed: false,
            pieces: VecDeque::new(),
            offset: 0,
            queued: 0,
            accepted: 0,
            spare: BytesMut::new(),
            closing: false,
        }
    }

    /// Returns the number of accepted bytes.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns whether all pulled bytes are accepted.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Returns whether it can no longer be written to.
    pub(crate) fn is_closed(&self) -> bool {
        self.failed || self.writer.is_none()
    }

    /// Returns the writer, unless it is closed.
    pub(super) fn writer(&self) -> Option<&W> {
        self.writer.as_ref()
    }

    /// Closes the writer when all messages are written.
    pub(super) fn close_when_empty(&mut self) {
        self.closing = true;
    }

    /// Returns whether the reader is gone, as far as the writer can tell without a write. Marks the sink as failed if
    /// so.
    pub(crate) fn is_abandoned(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(writer) = self.writer.as_mut().filter(|_| !self.failed) else { return false };
        let is_abandoned = matches!(Pin::new(writer).poll_flush(cx), Poll::Ready(Err(_)));
        if is_abandoned {
            self.fail();
        }
        is_abandoned
    }

    /// Pulls and writes until there is no message left or the peer accepts no more.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        mut next: impl FnMut() -> Option<Spliced>,
    ) -> io::Result<()> {
        for _ in 0..WRITES_PER_ITERATION {
            if self.is_closed() {
                return Ok(());
            }
            if self.is_empty() {
                self.pull(&mut next);
            }
            if self.is_empty() {
                if self.closing {
                    self.writer = None;
                }
                return Ok(());
            }
            match self.poll_flush(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.fail();
                    return Err(error);
                }
                Poll::Pending => return Ok(()),
            }
        }
        // Other sources and sinks go first; the next poll continues.
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn pull(&mut self, next: &mut impl FnMut() -> Option<Spliced>) {
        while self.queued < WRITE_BYTES {
            let Some(message) = next() else { break };
            debug_assert!(is_one_line(&message), "a message must not contain a line end");
            self.queued += message.len() + 1;
            if message.len() >= COPY_BELOW {
                self.pieces.push_back(Piece::Whole(message));
                continue;
            }
            if !matches!(self.pieces.back(), Some(Piece::Gathered(_))) {
                self.pieces.push_back(Piece::Gathered(std::mem::take(&mut self.spare)));
            }
            if let Some(Piece::Gathered(buffer)) = self.pieces.back_mut() {
                message.write_to(buffer);
                buffer.extend_from_slice(b"\n");
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.queued > 0 {
            let Some(writer) = &mut self.writer else { break };
            let count = ready!(poll_pieces(writer, &self.pieces, self.offset, cx))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    /// Discards what was not accepted.
    fn fail(&mut self) {
        self.failed = true;
        self.pieces.clear();
        self.offset = 0;
        self.queued = 0;
    }

    fn advance(&mut self, count: usize) {
        self.accepted += count as u64;
        self.queued -= count;
        self.offset += count;
        while let Some(piece) = self.pieces.front() {
            let length = piece.len();
            if self.offset < length {
                break;
            }
            self.offset -= length;
            if let Some(Piece::Gathered(mut buffer)) = self.pieces.pop_front()
                && buffer.capacity() <= SPARE_BYTES
            {
                buffer.clear();
                self.spare = buffer;
            }
        }
    }
}

/// Returns whether a message is one line, also for readers that end a line at a carriage return.
fn is_one_line(message: &Spliced) -> bool {
    message.segments().all(|segment| !segment.iter().any(|byte| matches!(byte, b'\n' | b'\r')))
}

fn poll_pieces<W: AsyncWrite + Unpin>(
    writer: &mut W,
    pieces: &VecDeque<Piece>,
    offset: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if let (1, Some(Piece::Gathered(bytes))) = (pieces.len(), pieces.front()) {
        return Pin::new(writer).poll_write(cx, &bytes[offset..]);
    }
    let mut slices = [IoSlice::new(&[]); SLICES];
    let mut filled = 0;
    let mut skip = offset;
    let mut take = |bytes| {
        let bytes: &[u8] = bytes;
        let skipped = skip.min(bytes.len());
        skip -= skipped;
        if filled < SLICES && skipped < bytes.len() {
            slices[filled] = IoSlice::new(&bytes[skipped..]);
            filled += 1;
        }
        filled < SLICES
    };
    for piece in pieces {
        let room = match piece {
            Piece::Gathered(bytes) => take(bytes),
            Piece::Whole(message) => {
                for segment in message.segments() {
                    take(segment);
                }
                take(b"\n")
            }
        };
        if !room {
            break;
        }
    }
    match &slices[..filled] {
        [first, ..] if first.len() >= ALONE_FROM => Pin::new(writer).poll_write(cx, first),
        several => Pin::new(writer).poll_write_vectored(cx, several),
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use bytes::Bytes;

    use super::*;

    /// Accepts `step` bytes per write, and none once it holds `limit` bytes.
    struct LimitedWriter {
        taken: Vec<u8>,
        step: usize,
        limit: usize,
        vectored: bool,
    }

    impl AsyncWrite for LimitedWriter {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.step).min(self.limit - self.taken.len());
            if count == 0 {
                return Poll::Pending;
            }
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            if self.vectored {
                let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                return self.poll_write(cx, &all);
            }
            let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
            self.poll_write(cx, first)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn messages() -> Vec<Spliced> {
        let lengths = [1, 10, COPY_BELOW, 3, COPY_BELOW + 1, COPY_BELOW - 1, 2 * COPY_BELOW, 0, 7];
        let fill = |(at, length): (usize, usize)| Spliced::whole(Bytes::from(vec![b'a' + at as u8; length]));
        lengths.into_iter().enumerate().map(fill).collect()
    }

    #[test]
    fn messages_are_written_whole_and_in_order_by_partial_writes() {
        let mut expected = Vec::new();
        for message in messages() {
            message.segments().for_each(|segment| expected.extend_from_slice(segment));
            expected.push(b'\n');
        }
        for step in [1, 2, 7, 4095, 4096, 4097, 100_000] {
            for vectored in [false, true] {
                let mut sink = Sink::new(LimitedWriter { taken: Vec::new(), step, limit: usize::MAX, vectored });
                let mut waiting = messages().into_iter();
                sink.poll_write(&mut Context::from_waker(Waker::noop()), || waiting.next()).unwrap();
                assert!(sink.is_empty());
                assert_eq!(sink.accepted(), expected.len() as u64);
                assert!(sink.writer().unwrap().taken == expected, "step {step}, vectored {vectored}");
            }
        }
    }

    #[test]
    fn p03_rest_of_large_message_is_written_as_single_slice() {
        struct Recorded(Vec<(bool, usize)>);

        impl AsyncWrite for Recorded {
            fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.0.push((false, bytes.len()));
                Poll::Ready(Ok(bytes.len().min(WRITE_BYTES)))
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let total = slices.iter().map(|slice| slice.len()).sum();
                self.0.push((true, total));
                Poll::Ready(Ok(total.min(WRITE_BYTES)))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }

        let mut sink = Sink::new(Recorded(Vec::new()));
        let small = Spliced::whole(Bytes::from_static(b"{}"));
        let mut waiting = [small, Spliced::whole(Bytes::from(vec![b'x'; 3 * WRITE_BYTES]))].into_iter();
        sink.poll_write(&mut Context::from_waker(Waker::noop()), || waiting.next()).unwrap();
        let rest = 2 * WRITE_BYTES + 3;
        assert_eq!(
            sink.writer().unwrap().0,
            [(true, 3 * WRITE_BYTES + 4), (false, rest), (false, rest - WRITE_BYTES), (true, 4)]
        );
    }

    #[test]
    fn accepted_bytes_are_counted_exactly() {
        for limit in [0, 1, 5, 6, 4100, 4200, 9000] {
            let mut sink = Sink::new(LimitedWriter { taken: Vec::new(), step: 1000, limit, vectored: true });
            let mut waiting = messages().into_iter();
            let mut cx = Context::from_waker(Waker::noop());
            sink.poll_write(&mut cx, || waiting.next()).unwrap();
            sink.poll_write(&mut cx, || waiting.next()).unwrap();
            assert_eq!(sink.accepted(), limit as u64);
            assert!(!sink.is_empty());
        }
    }

    #[test]
    fn blocked_sink_pulls_no_messages() {
        let mut sink = Sink::new(LimitedWriter { taken: Vec::new(), step: 1, limit: 0, vectored: false });
        let mut pulled = 0;
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            let mut next = || {
                pulled += 1;
                (pulled < 4).then(|| Spliced::whole(Bytes::from_static(b"x")))
            };
            sink.poll_write(&mut cx, &mut next).unwrap();
        }
        assert_eq!(pulled, 4, "three messages and one attempt to pull a fourth, in the first poll only");
    }

    #[test]
    fn sink_closes_only_after_the_last_write() {
        let mut sink = Sink::new(LimitedWriter { taken: Vec::new(), step: 1, limit: 3, vectored: false });
        let mut waiting = [Spliced::whole(Bytes::from_static(b"abcd"))].into_iter();
        let mut cx = Context::from_waker(Waker::noop());
        sink.close_when_empty();
        sink.poll_write(&mut cx, || waiting.next()).unwrap();
        assert!(!sink.is_closed());
        sink.writer.as_mut().unwrap().limit = 100;
        sink.poll_write(&mut cx, || waiting.next()).unwrap();
        assert!(sink.is_closed());
        assert_eq!(sink.accepted(), 5);
    }
}
