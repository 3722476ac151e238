//! Messages that go out, as bytes.
//!
//! A sink pulls messages only when everything before them has been accepted, gathers small ones into one buffer and lets
//! big ones travel where they lie, so that a burst is one write and a large result is never copied. It counts what the
//! operating system accepted, byte for byte: that number decides later whether a call can have been received.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use mendline_wire::Spliced;
use tokio::io::AsyncWrite;

/// From this size on a message is written from where it lies; below it, copying is cheaper than another `iovec`.
const COPY_BELOW: usize = 4 * 1024;

/// Enough for one write: what an ordinary pipe can take at once.
const ENOUGH: usize = 64 * 1024;

/// A gather buffer that grew beyond this is given back.
const KEEP: usize = 128 * 1024;

/// Pieces per write. A message with two edits has five segments and a line end.
const SLICES: usize = 16;

/// One outgoing byte stream.
pub(super) struct Sink<W> {
    writer: Option<W>,
    pieces: VecDeque<Piece>,
    /// How much of the first piece has been accepted.
    offset: usize,
    queued: usize,
    accepted: u64,
    spare: BytesMut,
    closing: bool,
}

enum Piece {
    /// Small messages with their line ends.
    Gathered(BytesMut),
    /// One big message; its line end follows it.
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
    /// A sink that has written nothing yet.
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer: Some(writer),
            pieces: VecDeque::new(),
            offset: 0,
            queued: 0,
            accepted: 0,
            spare: BytesMut::new(),
            closing: false,
        }
    }

    /// How many bytes were accepted in all.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Nothing is waiting to be written here.
    pub(super) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// It can no longer be written to.
    pub(super) fn is_closed(&self) -> bool {
        self.writer.is_none()
    }

    /// Closes it as soon as all that is there to be written has been.
    pub(super) fn close_when_empty(&mut self) {
        self.closing = true;
    }

    /// Forgets what was not accepted, and the writer.
    pub(super) fn abandon(&mut self) {
        self.writer = None;
        self.pieces.clear();
        self.offset = 0;
        self.queued = 0;
    }

    /// Pulls and writes until there is nothing more to pull or the peer takes no more. Says whether anything moved.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        mut next: impl FnMut() -> Option<Spliced>,
    ) -> io::Result<bool> {
        if self.writer.is_none() {
            return Ok(false);
        }
        let before = self.accepted;
        let was_empty = self.is_empty();
        if was_empty {
            self.pull(&mut next);
            if self.is_empty() && self.closing {
                self.abandon();
                return Ok(true);
            }
        }
        // A pull changes the engine, so it counts as movement even when the peer takes nothing.
        let pulled = was_empty && !self.is_empty();
        match self.poll_flush(cx) {
            Poll::Ready(Ok(())) | Poll::Pending => Ok(pulled || self.accepted != before),
            Poll::Ready(Err(error)) => {
                self.abandon();
                Err(error)
            }
        }
    }

    fn pull(&mut self, next: &mut impl FnMut() -> Option<Spliced>) {
        while self.queued < ENOUGH {
            let Some(message) = next() else { break };
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
                && buffer.capacity() <= KEEP
            {
                buffer.clear();
                self.spare = buffer;
            }
        }
    }
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
    Pin::new(writer).poll_write_vectored(cx, &slices[..filled])
}
