//! Reads lines from a byte stream without copying them.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;

/// A source and its buffered bytes.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The bytes from `start` to `searched` hold no newline.
    start: usize,
    searched: usize,
    end: usize,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; 64 << 10], start: 0, searched: 0, end: 0 }
    }

    /// Returns the next line and reads the source as often as needed.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        loop {
            if let Some(line) = self.find() {
                return Ok(&self.buffer[line]);
            }
            if !self.read()? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the program closed its stdout"));
            }
        }
    }

    /// Returns the next buffered line.
    pub(crate) fn next_buffered(&mut self) -> Option<&[u8]> {
        self.find().map(|line| &self.buffer[line])
    }

    /// Reads the source once; false at its end.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.searched -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.end, 0);
        }
        let read = self.source.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read > 0)
    }

    fn find(&mut self) -> Option<Range<usize>> {
        let Some(length) = memchr(b'\n', &self.buffer[self.searched..self.end]) else {
            self.searched = self.end;
            return None;
        };
        let line = self.start..self.searched + length;
        self.start = line.end + 1;
        self.searched = self.start;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time.
    struct ShortReads<'a>(&'a [u8], usize);

    impl Read for ShortReads<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(into.len()).min(self.0.len());
            into[..size].copy_from_slice(&self.0[..size]);
            self.0 = &self.0[size..];
            Ok(size)
        }
    }

    #[test]
    fn lines_do_not_depend_on_chunk_boundaries() {
        let long = "x".repeat(200_000);
        let text = format!("one\n\n{long}\ntwo\nnot ended");
        for size in [1, 2, 3, 1000, 1 << 20] {
            let mut lines = Lines::new(ShortReads(text.as_bytes(), size));
            for expected in ["one", "", &long, "two"] {
                assert_eq!(lines.next().unwrap(), expected.as_bytes(), "{size} bytes at a time");
            }
            assert_eq!(lines.next().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn buffered_lines_are_returned_without_reading() {
        let mut lines = Lines::new(ShortReads(b"one\ntwo\nthr", 100));
        assert_eq!(lines.next_buffered(), None);
        assert!(lines.read().unwrap());
        assert_eq!(lines.next_buffered(), Some(&b"one"[..]));
        assert_eq!(lines.next_buffered(), Some(&b"two"[..]));
        assert_eq!(lines.next_buffered(), None);
        assert!(!lines.read().unwrap());
    }
}
