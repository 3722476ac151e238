//! Incoming bytes as lines.
//!
//! A source reads only if it holds no complete line, and only as much as the caller allows. So a peer that sends
//! without pause cannot starve the others. The source distinguishes "no input yet", "allowance spent" and "end of
//! stream", because the driver may sleep only after the first.
//!
//! A server that has sent one large line often sends another. The buffer of a line that has become long therefore grows
//! to the length of the last long line in one step; growing by doubling would copy the whole line once more. Memory
//! that is reserved and not used costs nothing.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};
use mendline_wire::{Line, Lines};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The size of one read: the default capacity of a pipe.
pub(crate) const READ_CHUNK: usize = 64 * 1024;

/// The free space below which a buffer grows before a read, so that no system call reads only a few bytes.
const ROOM: usize = 16 * 1024;

/// The length from which a line is long.
const LONG_LINE: usize = 128 * 1024;

/// One incoming byte stream and the lines in it.
pub(crate) struct Source<R> {
    reader: Option<R>,
    lines: Lines,
    /// The length of the last long line.
    last_long: usize,
    end_reported: bool,
}

/// The result of polling a source of lines, such as a client.
pub enum Step {
    /// A line, or another frame with the text of one or more messages.
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
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader: Some(reader), lines: Lines::new(limit), last_long: 0, end_reported: false }
    }

    /// Returns the next line. Reads at most `allowance` bytes for it.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>, allowance: &mut usize) -> Step {
        loop {
            if let Some(line) = self.lines.next_line() {
                if let Line::Text(text) = &line
                    && text.len() >= LONG_LINE
                {
                    self.last_long = text.len();
                }
                return Step::Line(line);
            }
            let Some(reader) = &mut self.reader else {
                return self.end();
            };
            if *allowance == 0 {
                return Step::Spent;
            }
            match poll_read(reader, self.lines.buffer(), self.last_long, cx) {
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
            make_room(buffer, 0);
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
fn poll_read<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    last_long: usize,
    cx: &mut Context<'_>,
) -> Poll<usize> {
    make_room(buffer, last_long);
    let mut limited = buffer.limit(READ_CHUNK);
    pin!(reader.read_buf(&mut limited)).poll(cx).map(|result| result.unwrap_or(0))
}

/// Makes room for a read. A line that is already long gets room for as much as the last long one had.
fn make_room(buffer: &mut BytesMut, last_long: usize) {
    if buffer.capacity() - buffer.len() >= ROOM {
        return;
    }
    let rest = if buffer.len() >= LONG_LINE / 2 { last_long.saturating_sub(buffer.len()) } else { 0 };
    // The newline and the beginning of the next line follow.
    buffer.reserve(READ_CHUNK.max(rest + ROOM));
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn p03_buffer_of_second_long_line_grows_in_one_step() {
        let line = [&vec![b'x'; 1 << 20][..], b"\n"].concat();
        let input = [&line[..], &line[..]].concat();
        let mut source = Source::new(&input[..], 1 << 24);
        let mut cx = Context::from_waker(Waker::noop());
        let mut capacities = Vec::new();
        for _ in 0..2 {
            let mut steps = 0;
            let mut capacity = 0;
            loop {
                match source.poll_line(&mut cx, &mut READ_CHUNK.clone()) {
                    Step::Line(Line::Text(text)) => break assert_eq!(text.len(), 1 << 20),
                    Step::Spent => {}
                    _ => panic!("the input has two lines"),
                }
                let buffer = source.lines.buffer();
                // Up to the length from which a line is known to be long, it grows as any other.
                if buffer.capacity() > capacity && buffer.len() > LONG_LINE {
                    steps += 1;
                }
                capacity = capacity.max(buffer.capacity());
            }
            capacities.push((steps, capacity));
        }
        let [(first, _), (second, capacity)] = capacities[..] else { panic!("{capacities:?}") };
        assert!(first > 1, "the first one grows by doubling: {capacities:?}");
        assert!(second <= 1, "the second one was expected: {capacities:?}");
        assert!(capacity < 2 << 20, "{capacities:?}");
    }
}
