//! Newline framing for stdio: one message per line.
//!
//! The shell reads into [`Lines::buffer`] and takes lines until there is none. Nothing is scanned twice: the offset up
//! to which there is no newline is kept. A short line is copied, so that it does not pin the buffer; a long one is
//! split off without a copy.
//!
//! A line that exceeds the limit is not kept. Its beginning and its end are kept, because one of them usually contains
//! the id, and it is reported once at its newline; memory stays bounded.
//!
//! Tolerated: one `\r` before the newline, a byte order mark at the start, blank lines.

use bytes::{Buf, Bytes, BytesMut};

/// Shorter lines are copied, which is cheaper than keeping a read buffer alive.
const COPY_BELOW: usize = 4096;
/// Number of bytes that are kept of the beginning of a line that is too long.
const HEAD: usize = 4096;
/// Number of bytes that are kept of its end.
const TAIL: usize = 256;
/// A larger buffer is released after a discarded line.
const KEEP_CAPACITY: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit.
    Text(Bytes),
    /// A line that exceeds the limit.
    TooLong {
        /// Its length in bytes.
        length: u64,
        /// Its first 4 KiB.
        head: Bytes,
        /// Its last 256 bytes.
        tail: Bytes,
    },
}

impl Line {
    /// A text that was framed otherwise, as a line: whole if it has at most `limit` bytes.
    pub fn of_text(text: Bytes, limit: usize) -> Line {
        if text.len() <= limit { Line::Text(text) } else { Line::too_long(&text) }
    }

    fn too_long(text: &[u8]) -> Line {
        let (head, tail) = (&text[..text.len().min(HEAD)], &text[text.len().saturating_sub(TAIL)..]);
        Line::TooLong { length: text.len() as u64, head: copy(head), tail: copy(tail) }
    }
}

/// Splits a stream of bytes into lines.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// The offset up to which the buffer has no newline.
    scanned: usize,
    limit: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No line was taken yet; a byte order mark may follow.
    Start,
    Reading,
    /// Inside of a line that is too long: its length so far, and its ends.
    Discarding {
        length: u64,
        head: Vec<u8>,
        tail: Vec<u8>,
    },
}

impl Lines {
    /// Creates a splitter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Lines {
        Lines { buffer: BytesMut::new(), scanned: 0, limit, state: State::Start }
    }

    /// Returns the buffer that the shell appends to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns the number of buffered bytes.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the next complete line; `None` until more was read.
    pub fn next_line(&mut self) -> Option<Line> {
        if !self.skip_byte_order_mark() {
            return None;
        }
        loop {
            match memchr::memchr(b'\n', self.buffer.get(self.scanned..)?) {
                Some(ahead) => {
                    if let Some(line) = self.take(self.scanned + ahead, 1) {
                        return Some(line);
                    }
                }
                None => {
                    self.scanned = self.buffer.len();
                    self.discard_if_too_long();
                    return None;
                }
            }
        }
    }

    /// Returns the last line without a newline, at the end of the stream.
    pub fn finish(&mut self) -> Option<Line> {
        if let Some(line) = self.next_line() {
            return Some(line);
        }
        self.take(self.buffer.len(), 0)
    }

    /// Takes a line of `length` bytes and its end out of the buffer. Blank lines are skipped.
    fn take(&mut self, length: usize, end: usize) -> Option<Line> {
        self.scanned = 0;
        if let State::Discarding { .. } = self.state {
            return self.end_discarding(length, end);
        }
        let carriage_return = usize::from(self.buffer[..length].last() == Some(&b'\r'));
        let length = length - carriage_return;
        let end = end + carriage_return;
        let text = &self.buffer[..length];
        let line = if length > self.limit {
            Some(Line::too_long(text))
        } else if text.trim_ascii_start().is_empty() {
            None
        } else if length < COPY_BELOW {
            Some(Line::Text(copy(text)))
        } else {
            let text = self.buffer.split_to(length).freeze();
            self.buffer.advance(end);
            return Some(Line::Text(text));
        };
        self.buffer.advance(length + end);
        line
    }

    /// Skips a byte order mark. Returns false while that is undecided.
    fn skip_byte_order_mark(&mut self) -> bool {
        if let State::Start = self.state {
            if self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.advance(BYTE_ORDER_MARK.len());
            } else if BYTE_ORDER_MARK.starts_with(&self.buffer) {
                return false;
            }
            self.state = State::Reading;
        }
        true
    }

    /// Starts or continues to discard a line. One byte beyond the limit may be a carriage return, which does not count.
    fn discard_if_too_long(&mut self) {
        match &mut self.state {
            State::Discarding { length, head, tail } => {
                *length += self.buffer.len() as u64;
                keep_ends(head, tail, &self.buffer);
                self.buffer.clear();
            }
            _ if self.buffer.len() > self.limit.saturating_add(1) => {
                let (mut head, mut tail) = (Vec::new(), Vec::new());
                keep_ends(&mut head, &mut tail, &self.buffer);
                self.state = State::Discarding { length: self.buffer.len() as u64, head, tail };
                self.buffer.clear();
                if self.buffer.capacity() > KEEP_CAPACITY {
                    self.buffer = BytesMut::new();
                }
            }
            _ => return,
        }
        self.scanned = 0;
    }

    fn end_discarding(&mut self, last: usize, end: usize) -> Option<Line> {
        let State::Discarding { mut length, mut head, mut tail } = std::mem::replace(&mut self.state, State::Reading)
        else {
            return None;
        };
        keep_ends(&mut head, &mut tail, &self.buffer[..last]);
        self.buffer.advance(last + end);
        length += last as u64;
        if tail.last() == Some(&b'\r') {
            tail.pop();
            length -= 1;
            head.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        tail.drain(..tail.len().saturating_sub(TAIL));
        Some(Line::TooLong { length, head: head.into(), tail: tail.into() })
    }
}

fn copy(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// Updates the two ends of a line. The tail has room for a carriage return that is removed later.
fn keep_ends(head: &mut Vec<u8>, tail: &mut Vec<u8>, more: &[u8]) {
    let room = HEAD - head.len();
    head.extend_from_slice(&more[..more.len().min(room)]);
    tail.extend_from_slice(&more[more.len().saturating_sub(TAIL + 1)..]);
    tail.drain(..tail.len().saturating_sub(TAIL + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines, input: &[u8]) -> Vec<Line> {
        lines.buffer().extend_from_slice(input);
        std::iter::from_fn(|| lines.next_line()).collect()
    }

    fn text(text: &str) -> Line {
        Line::Text(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn lines_are_complete_for_any_chunking() {
        let mut lines = Lines::new(100);
        assert_eq!(all(&mut lines, b"one\r\ntw"), [text("one")]);
        assert_eq!(all(&mut lines, b"o"), []);
        assert_eq!(all(&mut lines, b"\n\n \r\n\t\nthree\r\r\nlast"), [text("two"), text("three\r")]);
        assert_eq!(lines.buffered(), 4);
        assert_eq!(lines.finish(), Some(text("last")));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn byte_order_mark_is_skipped_at_the_start_only() {
        let mut lines = Lines::new(100);
        assert_eq!(all(&mut lines, b"\xef"), []);
        assert_eq!(all(&mut lines, b"\xbb"), []);
        assert_eq!(all(&mut lines, b"\xbfa\n\xef\xbb\xbfb\n"), [text("a"), text("\u{feff}b")]);
        let mut lines = Lines::new(100);
        assert_eq!(all(&mut lines, b"\xef\xbbx\n"), [Line::Text(Bytes::from_static(b"\xef\xbbx"))]);
    }

    #[test]
    fn short_line_is_copied_and_long_line_is_not() {
        let mut lines = Lines::new(1 << 20);
        let mut input = vec![b'a'; 10_000];
        input.extend_from_slice(b"\nshort\n");
        lines.buffer().extend_from_slice(&input);
        let start = lines.buffer().as_ptr();
        let Some(Line::Text(long)) = lines.next_line() else { panic!("a line") };
        assert_eq!((long.as_ptr(), long.len()), (start, 10_000));
        let Some(Line::Text(short)) = lines.next_line() else { panic!("a line") };
        assert!(short.is_unique(), "it shares nothing with the buffer");
    }

    #[test]
    fn limit_is_exact_with_and_without_carriage_return() {
        for end in ["\n", "\r\n"] {
            let mut lines = Lines::new(5);
            assert_eq!(all(&mut lines, format!("12345{end}").as_bytes()), [text("12345")]);
            let too_long = Line::TooLong { length: 6, head: "123456".into(), tail: "123456".into() };
            assert_eq!(all(&mut lines, format!("123456{end}ok{end}").as_bytes()), [too_long.clone(), text("ok")]);
            let mut byte_by_byte = Vec::new();
            for byte in format!("123456{end}ok{end}").bytes() {
                byte_by_byte.extend(all(&mut lines, &[byte]));
            }
            assert_eq!(byte_by_byte, [too_long, text("ok")]);
        }
    }

    #[test]
    fn endless_line_is_discarded_and_reported_once() {
        let mut lines = Lines::new(100_000);
        let mut seen = Vec::new();
        seen.extend(all(&mut lines, b"{\"id\":1,"));
        for _ in 0..1_000 {
            seen.extend(all(&mut lines, &[b'x'; 10_000]));
            assert!(lines.buffered() <= 110_000 && lines.buffer().capacity() <= 300_000);
        }
        assert_eq!(seen, []);
        let seen = all(&mut lines, b"the end\r\nnext\n");
        let Line::TooLong { length, head, tail } = &seen[0] else { panic!("{seen:?}") };
        assert_eq!(*length, 8 + 10_000_000 + 7);
        assert_eq!((head.len(), tail.len()), (4096, 256));
        assert!(head.starts_with(b"{\"id\":1,x") && tail.ends_with(b"xthe end"));
        assert_eq!(seen[1..], [text("next")]);
    }

    #[test]
    fn endless_line_at_end_of_stream_is_reported() {
        let mut lines = Lines::new(3);
        assert_eq!(all(&mut lines, b"123456"), []);
        assert_eq!(lines.finish(), Some(Line::TooLong { length: 6, head: "123456".into(), tail: "123456".into() }));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn scanned_bytes_are_not_scanned_again() {
        let mut lines = Lines::new(1 << 20);
        for read in 1..=1_000 {
            assert_eq!(all(&mut lines, b"1234567890"), []);
            assert_eq!(lines.scanned, read * 10);
        }
        assert_eq!(all(&mut lines, b"\nrest").len(), 1);
        assert_eq!(lines.scanned, 4);
    }
}
