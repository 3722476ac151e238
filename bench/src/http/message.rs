//! An HTTP message while it is read.

use std::io::{self, Read};

use memchr::{memchr_iter, memmem};

/// The longest head.
const LONGEST_HEAD: usize = 64 << 10;
/// The longest body; slightly more than the biggest result of the upstream.
const LONGEST_BODY: usize = 65 << 20;

/// The received bytes of a message. The buffer is reused for the next one.
pub(crate) struct Message {
    buffer: Vec<u8>,
    filled: usize,
    frame: Option<Frame>,
    /// The state of a body in chunks, until it is complete.
    chunks: Option<Chunks>,
}

/// A body in chunks. Complete chunks are moved together, so that the body becomes contiguous.
#[derive(Clone, Copy)]
struct Chunks {
    head: usize,
    /// The end of the chunks that were moved.
    end: usize,
    /// The start of the next chunk.
    next: usize,
}

/// The end of the head, including its blank line, and the end of the message.
#[derive(Clone, Copy)]
struct Frame {
    head: usize,
    end: usize,
}

impl Message {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; 4 << 10], filled: 0, frame: None, chunks: None }
    }

    /// Discards the message and keeps the buffer.
    pub(crate) fn clear(&mut self) {
        (self.filled, self.frame, self.chunks) = (0, None, None);
    }

    /// Reads once and returns whether the message is complete. The end of the source is an error of kind
    /// `UnexpectedEof`.
    pub(crate) fn read(&mut self, source: &mut impl Read) -> io::Result<bool> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        match source.read(&mut self.buffer[self.filled..]) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(read) => self.filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.frame.is_none() && self.chunks.is_none() {
            self.find_frame()?;
        }
        if let Some(chunks) = self.chunks {
            self.read_chunks(chunks)?;
        }
        match self.frame {
            Some(Frame { end, .. }) if self.filled > end => Err(unsupported("more than one message at a time")),
            Some(Frame { end, .. }) => Ok(self.filled == end),
            None => Ok(false),
        }
    }

    /// The first line and the headers; empty until the message is complete.
    pub(crate) fn head(&self) -> &[u8] {
        self.frame.map_or(b"", |frame| &self.buffer[..frame.head])
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.frame.map_or(b"", |frame| &self.buffer[frame.head..frame.end])
    }

    /// The body with a newline appended, for which the buffer always has room.
    pub(crate) fn body_as_line(&mut self) -> &[u8] {
        let Some(Frame { head, end }) = self.frame else { return b"" };
        self.buffer[end] = b'\n';
        &self.buffer[head..=end]
    }

    /// Returns the value of a header; `name` is in lower case.
    pub(crate) fn header(&self, name: &[u8]) -> Option<&[u8]> {
        header(self.head(), name)
    }

    fn find_frame(&mut self) -> io::Result<()> {
        let Some(blank) = memmem::find(&self.buffer[..self.filled], b"\r\n\r\n") else {
            return if self.filled > LONGEST_HEAD { Err(unsupported("a head without an end")) } else { Ok(()) };
        };
        let head = blank + 4;
        if header(&self.buffer[..head], b"transfer-encoding").is_some() {
            self.chunks = Some(Chunks { head, end: head, next: head });
            return Ok(());
        }
        let length = match header(&self.buffer[..head], b"content-length") {
            None => 0,
            Some(value) => str::from_utf8(value)
                .ok()
                .and_then(|value| value.parse().ok())
                .filter(|length| *length <= LONGEST_BODY)
                .ok_or_else(|| unsupported("an invalid content-length"))?,
        };
        let end = head + length;
        if self.buffer.len() <= end {
            self.buffer.resize(end + 1, 0);
        }
        self.frame = Some(Frame { head, end });
        Ok(())
    }

    /// Moves the chunks that are complete. The last one completes the message.
    fn read_chunks(&mut self, mut chunks: Chunks) -> io::Result<()> {
        loop {
            self.chunks = Some(chunks);
            let Some(line) = memmem::find(&self.buffer[chunks.next..self.filled], b"\r\n") else { return Ok(()) };
            let size = str::from_utf8(&self.buffer[chunks.next..chunks.next + line])
                .ok()
                .and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok())
                .filter(|size| *size <= LONGEST_BODY)
                .ok_or_else(|| unsupported("an invalid chunk"))?;
            let data = chunks.next + line + 2;
            let after = data + size + 2;
            if after > self.filled {
                return Ok(());
            }
            if size == 0 {
                if after < self.filled {
                    return Err(unsupported("more than one message at a time"));
                }
                self.filled = chunks.end;
                self.frame = Some(Frame { head: chunks.head, end: chunks.end });
                self.chunks = None;
                return Ok(());
            }
            self.buffer.copy_within(data..data + size, chunks.end);
            (chunks.end, chunks.next) = (chunks.end + size, after);
        }
    }
}

fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut start = 0;
    for end in memchr_iter(b'\n', head) {
        let line = &head[start..end];
        start = end + 1;
        if line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name) {
            return Some(line[name.len() + 1..].trim_ascii());
        }
    }
    None
}

fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: not supported by the bench"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "POST /mcp HTTP/1.1\r\nHost: x\r\nCONTENT-length:  5 \r\nMcp-Session-Id: s\r\n\r\nhello";

    fn read(mut text: &[u8]) -> io::Result<(Message, bool)> {
        let mut message = Message::new();
        let whole = message.read(&mut text)?;
        Ok((message, whole))
    }

    #[test]
    fn message_is_complete_with_its_last_byte() {
        for cut in 1..REQUEST.len() {
            let (mut message, whole) = read(&REQUEST.as_bytes()[..cut]).unwrap();
            assert!(!whole, "whole after {cut} bytes");
            assert!(message.read(&mut &REQUEST.as_bytes()[cut..]).unwrap(), "cut at {cut}");
            assert_eq!(message.body(), b"hello");
            assert_eq!(message.header(b"mcp-session-id"), Some(&b"s"[..]));
            assert_eq!(message.header(b"mcp-session"), None);
        }
    }

    #[test]
    fn body_in_chunks_is_contiguous_however_it_arrives() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n there\r\n0\r\n\r\n";
        for cut in 1..text.len() {
            let (mut message, whole) = read(&text.as_bytes()[..cut]).unwrap();
            assert!(!whole, "whole after {cut} bytes");
            assert!(message.read(&mut &text.as_bytes()[cut..]).unwrap(), "cut at {cut}");
            assert_eq!(message.body(), b"hello there");
        }
    }

    #[test]
    fn long_body_has_room_for_its_newline() {
        let body = "x".repeat(100_000);
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{body}");
        let mut source = text.as_bytes();
        let mut message = Message::new();
        while !message.read(&mut source).unwrap() {}
        assert_eq!(message.body_as_line(), format!("{body}\n").as_bytes());
    }

    #[test]
    fn cleared_buffer_reads_the_next_message() {
        let (mut message, _) = read(REQUEST.as_bytes()).unwrap();
        message.clear();
        assert!(message.read(&mut &b"GET /mcp HTTP/1.1\r\n\r\n"[..]).unwrap());
        assert_eq!(message.body(), b"");
        assert!(message.head().starts_with(b"GET "));
    }

    #[test]
    fn unsupported_http_is_an_error() {
        for text in [
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nmany\r\n",
            "POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 999999999999\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            let error = read(text.as_bytes()).err().unwrap_or_else(|| panic!("`{text}` was accepted"));
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        assert_eq!(read(b"").err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    }
}
