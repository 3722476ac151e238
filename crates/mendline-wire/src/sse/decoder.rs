//! Decoder for server-sent events.
//!
//! As with [`Lines`](crate::Lines), the shell reads into [`SseDecoder::buffer`] and takes events. The lines of an
//! incomplete event stay in the buffer and only their spans are kept, so that the data of a one-line event, which every
//! MCP message is, is not copied. Data of several lines is joined as it arrives.
//!
//! A CRLF may be split between reads. A CR ends the line at once, and a following LF is skipped, so that no event is
//! delayed.
//!
//! An event that exceeds the limit is reported once, when it crosses the limit, and then skipped to its end. Its id (if
//! it came first) still counts as seen; otherwise a resumed stream would repeat the event forever.

use std::fmt;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

use super::SseEvent;

/// Shorter events are copied, so that they do not pin the buffer.
const COPY_BELOW: usize = 4096;
/// A larger buffer is released after a discarded event.
const KEEP_CAPACITY: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The faults of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseFault {
    /// The event exceeds the limit. The next event is read normally.
    TooLong {
        /// The limit in bytes.
        limit: usize,
        /// The event's id, if it came before the limit was crossed.
        id: Option<Bytes>,
    },
}

impl fmt::Display for SseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SseFault::TooLong { limit, .. } = self;
        write!(f, "an event longer than {limit} bytes")
    }
}

impl std::error::Error for SseFault {}

/// Splits a stream of bytes into events.
#[derive(Debug)]
pub struct SseDecoder {
    /// The lines of the current event, then unscanned bytes.
    buffer: BytesMut,
    /// The start of the current line.
    line: usize,
    /// The offset up to which the current line has no end.
    scanned: usize,
    limit: usize,
    state: State,
    /// The last line ended with a CR, so that a following LF belongs to the same line end.
    after_carriage_return: bool,
    pending: Pending,
    last_id: Option<Bytes>,
    comments: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Nothing was taken yet; a byte order mark may follow.
    Start,
    Reading,
    /// Inside of an event that is too long.
    Skipping {
        /// Whether the current line has any bytes; an empty one ends the event.
        line_has_bytes: bool,
    },
}

/// The fields of the current event, as spans of the buffer.
#[derive(Debug, Default)]
struct Pending {
    id: Option<Range<usize>>,
    event: Option<Range<usize>>,
    data: Data,
    retry: Option<u64>,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Range<usize>),
    Joined(BytesMut),
}

impl SseDecoder {
    /// Creates a decoder for events of at most `limit` bytes, including field names and line ends.
    pub fn new(limit: usize) -> SseDecoder {
        SseDecoder {
            buffer: BytesMut::new(),
            line: 0,
            scanned: 0,
            limit,
            state: State::Start,
            after_carriage_return: false,
            pending: Pending::default(),
            last_id: None,
            comments: 0,
        }
    }

    /// Returns the buffer that the shell appends to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns the number of buffered bytes.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the number of bytes of an incomplete event, in the buffer and beside it.
    pub fn held(&self) -> usize {
        let joined = if let Data::Joined(joined) = &self.pending.data { joined.len() } else { 0 };
        self.buffer.len() + joined
    }

    /// Returns the id for a resumption: that of the last event with an id, unless it was empty.
    pub fn last_event_id(&self) -> Option<&Bytes> {
        self.last_id.as_ref().filter(|id| !id.is_empty())
    }

    /// Returns the number of comments, which only show that the peer is alive.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Returns the next complete event; `None` until more was read.
    pub fn next_event(&mut self) -> Option<Result<SseEvent, SseFault>> {
        if !self.skip_byte_order_mark() {
            return None;
        }
        loop {
            self.skip_line_feed();
            let end = match memchr2(b'\n', b'\r', self.buffer.get(self.scanned..)?) {
                Some(ahead) => self.scanned + ahead,
                None => {
                    self.scanned = self.buffer.len();
                    return self.pause();
                }
            };
            self.after_carriage_return = self.buffer[end] == b'\r';
            if let Some(outcome) = self.take_line(end) {
                return Some(outcome);
            }
        }
    }

    /// Ends the stream. An incomplete event is discarded, as the standard requires; the number of its bytes
    /// distinguishes a clean end from a cut.
    pub fn finish(&mut self) -> usize {
        let left = match self.state {
            State::Skipping { .. } => self.buffer.len().max(1),
            _ => self.buffer.len(),
        };
        self.buffer.clear();
        self.forget();
        self.state = State::Reading;
        left
    }

    /// Skips a byte order mark. Returns false while that is undecided.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.state == State::Start {
            if self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.advance(BYTE_ORDER_MARK.len());
            } else if BYTE_ORDER_MARK.starts_with(&self.buffer) {
                return false;
            }
            self.state = State::Reading;
        }
        true
    }

    fn skip_line_feed(&mut self) {
        if self.after_carriage_return && self.scanned == self.line && self.buffer.len() > self.line {
            self.after_carriage_return = false;
            if self.buffer[self.line] == b'\n' {
                self.line += 1;
                self.scanned = self.line;
                self.drop_lines_without_fields();
            }
        }
    }

    /// Handles a buffer without a complete line.
    fn pause(&mut self) -> Option<Result<SseEvent, SseFault>> {
        match &mut self.state {
            State::Skipping { line_has_bytes } => {
                *line_has_bytes |= self.buffer.len() > self.line;
                self.buffer.clear();
                self.line = 0;
                self.scanned = 0;
                None
            }
            // The current line will exceed the limit. An empty line may still end the event.
            _ if self.buffer.len() > self.limit.max(self.line) => Some(Err(self.give_up())),
            _ => None,
        }
    }

    /// Handles a line that ends at `end`.
    fn take_line(&mut self, end: usize) -> Option<Result<SseEvent, SseFault>> {
        let line = self.line..end;
        self.line = end + 1;
        self.scanned = self.line;
        if let State::Skipping { line_has_bytes } = self.state {
            let ends_event = line.is_empty() && !line_has_bytes;
            self.buffer.advance(self.line);
            self.line = 0;
            self.scanned = 0;
            self.state = if ends_event { State::Reading } else { State::Skipping { line_has_bytes: false } };
            return None;
        }
        if line.is_empty() {
            return self.take_event().map(Ok);
        }
        if line.end > self.limit {
            // The line has ended, so skipping starts with the next line.
            let fault = self.give_up_after(line.end + 1);
            return Some(Err(fault));
        }
        self.take_field(line);
        self.drop_lines_without_fields();
        None
    }

    fn take_field(&mut self, line: Range<usize>) {
        let text = &self.buffer[line.clone()];
        let (name, value) = match memchr::memchr(b':', text) {
            Some(0) => {
                self.comments += 1;
                return;
            }
            Some(colon) => {
                let space = usize::from(text.get(colon + 1) == Some(&b' '));
                (&text[..colon], line.start + colon + 1 + space..line.end)
            }
            None => (text, line.end..line.end),
        };
        match name {
            b"data" => self.pending.data.append(&self.buffer, value),
            b"event" => self.pending.event = Some(value),
            b"id" if !self.buffer[value.clone()].contains(&0) => self.pending.id = Some(value),
            b"retry" => self.pending.retry = milliseconds(&self.buffer[value]).or(self.pending.retry),
            _ => {}
        }
    }

    /// Returns the collected event, after a blank line.
    fn take_event(&mut self) -> Option<SseEvent> {
        let length = self.line;
        let pending = self.forget();
        if pending.is_empty() {
            self.buffer.advance(length);
            return None;
        }
        let lines = if length < COPY_BELOW {
            let copy = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            copy
        } else {
            self.buffer.split_to(length).freeze()
        };
        let event = SseEvent {
            // It is kept as long as the stream, so it must not pin a large event.
            id: pending.id.map(|range| Bytes::copy_from_slice(&lines[range])),
            event: pending.event.map(|range| lines.slice(range)),
            data: match pending.data {
                Data::None => None,
                Data::One(range) => Some(lines.slice(range)),
                Data::Joined(joined) => Some(joined.freeze()),
            },
            retry: pending.retry,
        };
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone());
        }
        Some(event)
    }

    /// Drops lines without a field (comments, unknown names) from the buffer.
    fn drop_lines_without_fields(&mut self) {
        if self.pending.is_empty() {
            self.buffer.advance(self.line);
            self.line = 0;
            self.scanned = 0;
        }
    }

    /// Discards the event whose current line is too long and not complete.
    fn give_up(&mut self) -> SseFault {
        let fault = self.give_up_after(self.buffer.len());
        self.state = State::Skipping { line_has_bytes: true };
        fault
    }

    /// Discards the first `length` bytes of the buffer, and the rest of the event when it arrives.
    fn give_up_after(&mut self, length: usize) -> SseFault {
        let pending = self.forget();
        let id = pending.id.map(|range| Bytes::copy_from_slice(&self.buffer[range]));
        if id.is_some() {
            self.last_id.clone_from(&id);
        }
        self.buffer.advance(length);
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_CAPACITY {
            self.buffer = BytesMut::new();
        }
        self.state = State::Skipping { line_has_bytes: false };
        SseFault::TooLong { limit: self.limit, id }
    }

    /// Resets to the start of an event.
    fn forget(&mut self) -> Pending {
        self.line = 0;
        self.scanned = 0;
        std::mem::take(&mut self.pending)
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.id.is_none() && self.event.is_none() && self.retry.is_none() && matches!(self.data, Data::None)
    }
}

impl Data {
    fn append(&mut self, buffer: &[u8], value: Range<usize>) {
        match self {
            Data::None => *self = Data::One(value),
            Data::One(first) => {
                let mut joined = BytesMut::with_capacity(first.len() + value.len() + 1);
                joined.extend_from_slice(&buffer[first.clone()]);
                *self = Data::Joined(joined);
                self.append(buffer, value);
            }
            Data::Joined(joined) => {
                joined.extend_from_slice(b"\n");
                joined.extend_from_slice(&buffer[value]);
            }
        }
    }
}

/// Parses `retry`, which consists of digits only; a larger number saturates.
fn milliseconds(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number
        .then(|| digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(decoder: &mut SseDecoder, input: &[u8]) -> Vec<Result<SseEvent, SseFault>> {
        decoder.buffer().extend_from_slice(input);
        std::iter::from_fn(|| decoder.next_event()).collect()
    }

    fn events(input: &str) -> Vec<SseEvent> {
        all(&mut SseDecoder::new(1 << 20), input.as_bytes()).into_iter().map(Result::unwrap).collect()
    }

    fn data(text: &'static str) -> SseEvent {
        SseEvent { data: Some(text.into()), ..SseEvent::default() }
    }

    #[test]
    fn all_fields_of_an_event_are_read() {
        let event = SseEvent {
            id: Some("7".into()),
            event: Some("message".into()),
            data: Some("x: y".into()),
            retry: Some(10),
        };
        assert_eq!(events("id: 7\nevent:message\ndata: x: y\nretry: 10\n\n"), [event]);
    }

    #[test]
    fn any_line_end_and_chunking_is_accepted() {
        let text = "\u{feff}data: a\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n: hi\r\n\r\nid: 1\r\n\n";
        let expected = [data("a\nb"), data("c"), data("d"), SseEvent { id: Some("1".into()), ..SseEvent::default() }];
        assert_eq!(events(text), expected);
        for cut in 0..text.len() {
            let mut decoder = SseDecoder::new(1 << 20);
            let mut seen = all(&mut decoder, &text.as_bytes()[..cut]);
            seen.extend(all(&mut decoder, &text.as_bytes()[cut..]));
            assert_eq!(seen.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected, "cut at {cut}");
            assert_eq!((decoder.comments(), decoder.finish()), (1, 0));
        }
    }

    #[test]
    fn event_does_not_wait_for_a_line_feed() {
        let mut decoder = SseDecoder::new(100);
        assert_eq!(all(&mut decoder, b"data: a\r\r"), [Ok(data("a"))]);
        assert_eq!(all(&mut decoder, b"\ndata: b\r\n\r"), [Ok(data("b"))]);
    }

    #[test]
    fn priming_and_retry_only_events_are_reported() {
        let primed = SseEvent { id: Some("p".into()), ..SseEvent::default() };
        let with_empty_data = SseEvent { data: Some(Bytes::new()), ..primed.clone() };
        let patience = SseEvent { retry: Some(0), ..SseEvent::default() };
        assert_eq!(events("id: p\n\nid: p\ndata:\n\nretry: 0\n\n\n\n: c\n\n"), [primed, with_empty_data, patience]);
    }

    #[test]
    fn fields_that_the_standard_ignores_are_ignored() {
        assert_eq!(events("id: a\0b\nretry: 1x\nretry:\nretry: -1\nunknown: x\nnocolon\n data: x\n\n"), []);
        assert_eq!(events("data\n\n"), [data("")]);
        assert_eq!(events("data:  x\n\n"), [data(" x")], "one space only");
        assert_eq!(events("retry: 99999999999999999999999\n\n")[0].retry, Some(u64::MAX));
        assert_eq!(events("retry: 5\nretry: x\n\n")[0].retry, Some(5));
    }

    #[test]
    fn last_id_stays_until_replaced_or_cleared() {
        let mut decoder = SseDecoder::new(100);
        all(&mut decoder, b"id: 1\ndata: x\n\ndata: y\n\n");
        assert_eq!(decoder.last_event_id().map(|id| &id[..]), Some(&b"1"[..]));
        all(&mut decoder, b"id: 2\n");
        assert_eq!(decoder.last_event_id().map(|id| &id[..]), Some(&b"1"[..]), "that event has not ended");
        assert_eq!(decoder.finish(), 6);
        assert_eq!(decoder.last_event_id().map(|id| &id[..]), Some(&b"1"[..]), "and never will");
        all(&mut decoder, b"id:\n\n");
        assert_eq!(decoder.last_event_id(), None);
    }

    #[test]
    fn data_of_one_long_line_is_not_copied() {
        let mut decoder = SseDecoder::new(1 << 20);
        let line = format!("data: {}\n\n", "x".repeat(10_000));
        decoder.buffer().extend_from_slice(line.as_bytes());
        let start = decoder.buffer().as_ptr();
        let data = decoder.next_event().unwrap().unwrap().data.unwrap();
        assert_eq!((data.as_ptr(), data.len()), (start.wrapping_add(6), 10_000));
    }

    #[test]
    fn event_above_the_limit_is_reported_once() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("id: 1{end}data: 12345678901234{end}data: more{end}{end}data: ok{end}{end}");
            let fault = SseFault::TooLong { limit: 16, id: Some("1".into()) };
            for chunk in 1..text.len() {
                let mut decoder = SseDecoder::new(16);
                let seen: Vec<_> = text.as_bytes().chunks(chunk).flat_map(|part| all(&mut decoder, part)).collect();
                assert_eq!(seen, [Err(fault.clone()), Ok(data("ok"))], "chunks of {chunk}");
                assert_eq!(decoder.last_event_id().map(|id| &id[..]), Some(&b"1"[..]));
            }
        }
    }

    #[test]
    fn endless_event_needs_bounded_memory() {
        for part in ["x".repeat(1_000), "data: x\n".repeat(100), ": comment\n".repeat(100), "x\r".repeat(500)] {
            let mut decoder = SseDecoder::new(10_000);
            let mut faults = 0;
            for _ in 0..1_000 {
                faults += all(&mut decoder, part.as_bytes()).len();
                assert!(decoder.buffered() <= 11_000 && decoder.buffer().capacity() <= 100_000);
            }
            assert!(faults <= 1);
        }
    }

    #[test]
    fn scanned_bytes_are_not_scanned_again() {
        let mut decoder = SseDecoder::new(1 << 20);
        all(&mut decoder, b"id: 1\ndata: ");
        for read in 1..=1_000 {
            assert_eq!(all(&mut decoder, b"1234567890"), []);
            assert_eq!((decoder.line, decoder.scanned), (6, 12 + read * 10));
        }
        assert_eq!(all(&mut decoder, b"\n\nda").len(), 1);
        assert_eq!((decoder.line, decoder.scanned), (0, 2));
    }
}
