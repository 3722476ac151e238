//! Bytes that come in, as lines.
//!
//! A source reads only when it has no whole line left and only as much as the caller allows, so that a peer which never
//! stops talking gets its turn and no more. It keeps the difference between "nothing now", "allowance spent" and "over",
//! because only the first of them may put the driver to sleep.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};
use mendline_wire::{Line, Lines};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much one read asks for. A pipe holds 64 KiB unless told otherwise, so more would rarely come at once.
pub(super) const READ_CHUNK: usize = 64 * 1024;

/// Below this much room a buffer is grown first, so that a read is worth its system call.
const ROOM: usize = 16 * 1024;

/// One incoming byte stream and the lines in it.
pub(super) struct Source<R> {
    reader: Option<R>,
    lines: Lines,
    end_reported: bool,
}

/// What a source has to offer.
pub(super) enum Step {
    /// A line.
    Line(Line),
    /// Nothing until the reactor wakes us.
    Wait,
    /// The allowance is spent; there may be more.
    Spent,
    /// The stream is over. Said once; afterwards the source only waits.
    End,
}

impl<R: AsyncRead + Unpin> Source<R> {
    /// A source of lines of at most `limit` bytes.
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader: Some(reader), lines: Lines::new(limit), end_reported: false }
    }

    /// The next line, reading at most `allowance` bytes for it.
    pub(super) fn poll_line(&mut self, cx: &mut Context<'_>, allowance: &mut usize) -> Step {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Step::Line(line);
            }
            let Some(reader) = &mut self.reader else {
                return self.end();
            };
            if *allowance == 0 {
                return Step::Spent;
            }
            match poll_read(reader, self.lines.buffer(), cx) {
                Poll::Pending => return Step::Wait,
                Poll::Ready(0) => self.reader = None,
                Poll::Ready(count) => *allowance = allowance.saturating_sub(count),
            }
        }
    }

    /// Everything that can still be had without waiting: `drain` reads once into the buffer it is given, and says
    /// whether it got anything. EventTime most `limit` bytes, since a stranger may hold the other end and write for ever.
    pub(super) fn drain_lines(
        &mut self,
        limit: usize,
        mut drain: impl FnMut(&mut R, &mut BytesMut) -> super::Drained,
        mut each: impl FnMut(Line),
    ) {
        let mut total = 0;
        while let Some(reader) = &mut self.reader {
            let buffer = self.lines.buffer();
            make_room(buffer);
            match drain(reader, buffer) {
                super::Drained::Bytes(count) => total += count,
                super::Drained::Nothing => self.reader = None,
            }
            if total >= limit {
                self.reader = None;
            }
            while let Some(line) = self.lines.next_line() {
                each(line);
            }
        }
        while let Some(line) = self.lines.next_line() {
            each(line);
        }
        if let Some(line) = self.lines.finish() {
            each(line);
        }
        self.end_reported = true;
    }

    fn end(&mut self) -> Step {
        if self.end_reported {
            return Step::Wait;
        }
        if let Some(line) = self.lines.finish() {
            return Step::Line(line);
        }
        self.end_reported = true;
        Step::End
    }
}

/// One read. A read error is an end: a terminal that hung up says EIO, and nothing better can follow it.
fn poll_read<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut, cx: &mut Context<'_>) -> Poll<usize> {
    make_room(buffer);
    let mut limited = buffer.limit(READ_CHUNK);
    pin!(reader.read_buf(&mut limited)).poll(cx).map(|result| result.unwrap_or(0))
}

fn make_room(buffer: &mut BytesMut) {
    if buffer.capacity() - buffer.len() < ROOM {
        buffer.reserve(READ_CHUNK);
    }
}
