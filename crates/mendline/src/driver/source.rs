//! Incoming bytes as lines.
//!
//! A source reads only if it holds no complete line, and only as much as the caller allows. So a peer that sends
//! without pause cannot starve the others. The source distinguishes "no input yet", "allowance spent" and "end of
//! stream", because the driver may sleep only after the first.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};
use mendline_wire::{Line, Lines};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The size of one read: the default capacity of a pipe.
pub(super) const READ_CHUNK: usize = 64 * 1024;

/// The free space below which a buffer grows before a read, so that no system call reads only a few bytes.
const ROOM: usize = 16 * 1024;

/// One incoming byte stream and the lines in it.
pub(super) struct Source<R> {
    reader: Option<R>,
    lines: Lines,
    end_reported: bool,
}

/// The result of polling a source.
pub(super) enum Step {
    /// A line.
    Line(Line),
    /// No input until the reactor wakes the task.
    Wait,
    /// The allowance is spent; there may be more.
    Spent,
    /// The end of the stream. Returned once; later polls return `Wait`.
    End,
}

impl<R: AsyncRead + Unpin> Source<R> {
    /// Creates a source of lines of at most `limit` bytes.
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader: Some(reader), lines: Lines::new(limit), end_reported: false }
    }

    /// Returns the next line. Reads at most `allowance` bytes for it.
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

    /// Reads the rest of the stream without waiting. `drain` reads once into the given buffer and returns the number of
    /// bytes. The total is at most `limit` bytes, because another process may hold the write end and never stop.
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

/// Reads once. A read error is the end of the stream: a terminal that hung up returns EIO, and no input follows.
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
