//! Reads and writes one connection: a request, then its response, then the next request.
//!
//! A response may begin while the request is still being written. If writing fails, the response may be on its way
//! already: a server that refuses a request early answers, closes, and resets the connection. So a failed write ends the
//! request only after [`GRACE`], and a response that arrives before counts.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes, BytesMut};
use mendline_core::reason::CutReason;
use mendline_wire::Spliced;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::Fault;
use super::body::{Decoded, Decoder};
use super::parse::{HeadError, Keep, Parsed, Persistence, ResponseHead, parse};
use crate::transport::http::connect::MaybeTlsStream;
use crate::transport::http::request::Segments;
use crate::transport::http::transfer::{Failure, io_reason};
use crate::transport::http::write_tracker::WriteTracker;

/// The time to wait for the response of a peer that no longer reads.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The most bytes that one read returns.
const READ_BYTES: usize = 64 * 1024;

/// The size up to which a body is copied behind its head: one piece is cheaper to write than several.
const COPIED_BODY: usize = 16 * 1024;

/// The most pieces that are written at once.
const PIECES: usize = 16;

/// The most bytes of an unwanted body that are read to keep its connection.
const MAX_LEFTOVER: usize = 64 * 1024;

/// The buffer that all connections of a transport read into. Its content is valid only during one poll, so a connection
/// that waits has no buffer.
pub(in crate::transport::http) struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    pub(in crate::transport::http) fn new() -> ReadBuffer {
        ReadBuffer(vec![0; READ_BYTES])
    }
}

/// Data of a body.
pub(in crate::transport::http) enum Data<'a> {
    /// In a buffer that is used again.
    Borrowed(&'a [u8]),
    Owned(Bytes),
}

impl Data<'_> {
    pub(in crate::transport::http) fn bytes(&self) -> &[u8] {
        match self {
            Data::Borrowed(data) => data,
            Data::Owned(data) => data,
        }
    }
}

/// A connection.
pub(in crate::transport::http) struct Http1<Io> {
    io: MaybeTlsStream<Io>,
    tracker: Arc<WriteTracker>,
    phase: Phase,
    /// Bytes that were read and not yet used: the beginning of a head, or of a body.
    received: BytesMut,
    /// The rest of the request.
    unsent: Option<Box<Chain<Bytes, Segments>>>,
    needs_flush: bool,
    failure: Option<Box<WriteFailure>>,
    persistence: Persistence,
    head_limit: usize,
    keep: Keep,
}

/// The state of the response.
enum Phase {
    /// No request waits for a response.
    Idle,
    /// The connection ended before a request was written.
    Returned,
    /// A head is expected. `searched` bytes of those received do not contain its end; interim responses had `interim`
    /// bytes.
    Head { searched: usize, interim: usize },
    /// A body is read.
    Body(Decoder),
    /// The rest of an unwanted body is read; it had so many bytes so far.
    Leftover(Decoder, usize),
}

/// A failed write and the time until it is reported.
struct WriteFailure {
    why: Option<io::Error>,
    grace: Pin<Box<Sleep>>,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Http1<Io> {
    pub(in crate::transport::http) fn new(
        io: MaybeTlsStream<Io>,
        tracker: Arc<WriteTracker>,
        head_limit: usize,
        keep: Keep,
    ) -> Http1<Io> {
        Http1 {
            io,
            tracker,
            phase: Phase::Idle,
            received: BytesMut::new(),
            unsent: None,
            needs_flush: false,
            failure: None,
            persistence: Persistence::default(),
            head_limit,
            keep,
        }
    }

    /// Returns the number of bytes that its buffers hold.
    #[cfg(test)]
    pub(in crate::transport::http) fn buffered(&self) -> usize {
        self.received.capacity() + self.unsent.as_ref().map_or(0, |unsent| unsent.remaining())
    }

    /// Returns whether it can take a request.
    pub(in crate::transport::http) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Idle) && !self.persistence.closes
    }

    /// Returns how long it may be idle after the last response: `None` if the server does not say, zero if it closes.
    pub(in crate::transport::http) fn idle_limit(&self) -> Option<Duration> {
        self.persistence.idle_limit()
    }

    /// Begins a request: writes as much of it as the peer takes. `head` is whole and is used as a buffer. Returns
    /// whether the response must be polled without waiting to be woken.
    pub(in crate::transport::http) fn begin(
        &mut self,
        head: &mut Vec<u8>,
        body: Option<&Spliced>,
        buffer: &mut ReadBuffer,
        cx: &mut Context<'_>,
    ) -> bool {
        let body = body.filter(|body| !body.is_empty());
        self.tracker.begin((head.len() + body.map_or(0, Spliced::len)) as u64);
        // Nothing can have arrived yet. If something has, the peer has closed the connection, or is about to.
        if self.poll_read(cx, buffer).is_ready() {
            self.phase = Phase::Returned;
            return true;
        }
        self.phase = Phase::Head { searched: 0, interim: 0 };
        let rest = match body {
            Some(body) if body.len() <= COPIED_BODY => {
                body.segments().for_each(|segment| head.extend_from_slice(segment));
                None
            }
            rest => rest,
        };
        let mut written = 0;
        match Pin::new(&mut self.io).poll_write(cx, head) {
            Poll::Ready(Ok(count)) => {
                self.tracker.note_passed(count);
                written = count;
            }
            Poll::Ready(Err(why)) => self.fail(why),
            Poll::Pending => {}
        }
        if self.failure.is_none() && (written < head.len() || rest.is_some()) {
            let rest = Segments::whole(rest.cloned().unwrap_or_else(|| Spliced::whole(Bytes::new())));
            self.unsent = Some(Box::new(Bytes::copy_from_slice(&head[written..]).chain(rest)));
        }
        if self.failure.is_none() {
            self.needs_flush = true;
            self.poll_write(cx);
        }
        self.failure.is_some()
    }

    /// Polls for the head of the response.
    pub(in crate::transport::http) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
    ) -> Poll<Result<Box<ResponseHead>, Failure>> {
        if matches!(self.phase, Phase::Returned) {
            return Poll::Ready(Err(Failure::Returned));
        }
        self.poll_write(cx);
        loop {
            let count = match ready!(self.poll_read(cx, buffer)) {
                Ok(0) => return Poll::Ready(Err(Failure::Cut(self.end_without_answer()))),
                Ok(count) => count,
                Err(error) => return Poll::Ready(Err(Failure::Cut(io_reason(&error)))),
            };
            match self.take_head(&buffer.0[..count]) {
                Ok(Some(head)) => {
                    if matches!(self.phase, Phase::Idle) {
                        self.end_response(cx, buffer);
                    }
                    return Poll::Ready(Ok(head));
                }
                Ok(None) => {}
                Err(HeadError::TooLarge) => return Poll::Ready(Err(Failure::HeadTooLarge)),
                Err(HeadError::Fault(fault)) => return Poll::Ready(Err(Failure::Cut(not_http(fault)))),
            }
        }
    }

    /// Returns the reason why the connection ended before a response. The error of a failed write is more precise than
    /// the end that was read after it.
    fn end_without_answer(&mut self) -> CutReason {
        let why = self.failure.as_mut().and_then(|failure| failure.why.take());
        why.map_or(CutReason::ClosedWithoutAnswer, |why| io_reason(&why))
    }

    /// Takes bytes of a head that were just read. Keeps what follows a complete head.
    fn take_head(&mut self, read: &[u8]) -> Result<Option<Box<ResponseHead>>, HeadError> {
        let Phase::Head { mut searched, mut interim } = self.phase else { return Ok(None) };
        let is_continued = !self.received.is_empty();
        if is_continued {
            self.received.extend_from_slice(read);
        }
        let bytes = if is_continued { &self.received[..] } else { read };
        let mut used = 0;
        let head = loop {
            let limit = self.head_limit.saturating_sub(interim);
            match parse(&bytes[used..], searched, limit, self.keep)? {
                Parsed::Incomplete => {
                    searched = bytes.len() - used;
                    break None;
                }
                Parsed::Interim(length) => {
                    used += length;
                    interim += length;
                    searched = 0;
                }
                Parsed::Final(length, head) => {
                    used += length;
                    break Some(head);
                }
            }
        };
        if is_continued {
            self.received.advance(used);
        } else {
            self.received.extend_from_slice(&read[used..]);
        }
        self.phase = match &head {
            Some(head) => {
                self.persistence = head.persistence;
                body_phase(Decoder::new(head.framing))
            }
            None => Phase::Head { searched, interim },
        };
        Ok(head)
    }

    /// Returns whether the response has ended.
    pub(in crate::transport::http) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Returns the next data of the body, `None` at its proper end, and the reason of a loss otherwise.
    pub(in crate::transport::http) fn poll_data<'a>(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &'a mut ReadBuffer,
    ) -> Poll<Option<Result<Data<'a>, CutReason>>> {
        self.poll_write(cx);
        loop {
            let (Phase::Body(decoder) | Phase::Leftover(decoder, _)) = &mut self.phase else {
                return Poll::Ready(None);
            };
            if decoder.is_over() {
                self.end_response(cx, buffer);
                return Poll::Ready(None);
            }
            if !self.received.is_empty() {
                match decoder.decode(&self.received) {
                    Ok(decoded) => {
                        let data = self.take_received(decoded);
                        if data.is_empty() {
                            continue;
                        }
                        return Poll::Ready(Some(Ok(Data::Owned(data))));
                    }
                    Err(fault) => return Poll::Ready(Some(Err(not_http(fault)))),
                }
            }
            let is_end = decoder.ends_with_connection();
            let count = match ready!(self.poll_read(cx, buffer)) {
                Ok(0) if is_end => {
                    self.phase = Phase::Idle;
                    return Poll::Ready(None);
                }
                Ok(0) => return Poll::Ready(Some(Err(CutReason::Closed))),
                Ok(count) => count,
                Err(error) => return Poll::Ready(Some(Err(io_reason(&error)))),
            };
            let (Phase::Body(decoder) | Phase::Leftover(decoder, _)) = &mut self.phase else {
                return Poll::Ready(None);
            };
            match decoder.decode(&buffer.0[..count]) {
                Ok(decoded) => {
                    let data = decoded.skipped..decoded.skipped + decoded.data;
                    self.received.extend_from_slice(&buffer.0[data.end..count]);
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Data::Borrowed(&buffer.0[data]))));
                    }
                }
                Err(fault) => return Poll::Ready(Some(Err(not_http(fault)))),
            }
        }
    }

    /// Removes decoded bytes from those received, and returns the data. If all were used, the buffer is given up.
    fn take_received(&mut self, decoded: Decoded) -> Bytes {
        self.received.advance(decoded.skipped);
        if decoded.data == self.received.len() {
            return std::mem::take(&mut self.received).freeze();
        }
        self.received.split_to(decoded.data).freeze()
    }

    /// Ends a response. If anything follows it, even the end of the connection, no other request can be sent.
    fn end_response(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuffer) {
        self.phase = Phase::Idle;
        if !self.received.is_empty() {
            self.received = BytesMut::new();
            self.persistence.closes = true;
        }
        // The read also asks to be woken when the peer closes the idle connection.
        if !self.persistence.closes && self.poll_read(cx, buffer).is_ready() {
            self.persistence.closes = true;
        }
    }

    /// Gives up the rest of a body: it is read and dropped while the connection is idle.
    pub(in crate::transport::http) fn drop_body(&mut self) {
        if let Phase::Body(decoder) = self.phase {
            self.phase = Phase::Leftover(decoder, 0);
        }
    }

    /// Returns whether it must read the rest of an unwanted body before it can be used again.
    pub(in crate::transport::http) fn has_leftover(&self) -> bool {
        matches!(self.phase, Phase::Leftover(..))
    }

    /// Polls an idle connection. Ready with the reason when it has ended.
    pub(in crate::transport::http) fn poll_idle(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuffer,
    ) -> Poll<CutReason> {
        while self.has_leftover() {
            match ready!(self.poll_data(cx, buffer)) {
                Some(Ok(data)) => {
                    let length = data.bytes().len();
                    let Phase::Leftover(_, total) = &mut self.phase else { continue };
                    *total += length;
                    if *total > MAX_LEFTOVER {
                        return Poll::Ready(CutReason::TooMuchData);
                    }
                }
                Some(Err(_)) => return Poll::Ready(CutReason::TooMuchData),
                None if self.persistence.closes => return Poll::Ready(CutReason::TooMuchData),
                None => {}
            }
        }
        // Whatever is read ends the connection: data that was not asked for may be a notice that it is closed.
        self.poll_read(cx, buffer).map(|_| CutReason::Closed)
    }

    /// Closes the connection properly as far as possible without waiting.
    pub(in crate::transport::http) fn close(mut self, cx: &mut Context<'_>) {
        let _ = Pin::new(&mut self.io).poll_shutdown(cx);
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuffer) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(&mut buffer.0);
        if let Poll::Ready(result) = Pin::new(&mut self.io).poll_read(cx, &mut read) {
            return Poll::Ready(result.map(|()| read.filled().len()));
        }
        let Some(failure) = &mut self.failure else {
            return Poll::Pending;
        };
        ready!(failure.grace.as_mut().poll(cx));
        Poll::Ready(Err(failure.why.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())))
    }

    /// Writes the rest of the request as far as the peer takes it.
    pub(in crate::transport::http) fn poll_write(&mut self, cx: &mut Context<'_>) {
        while let Some(unsent) = &mut self.unsent {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let count = unsent.chunks_vectored(&mut slices);
            match Pin::new(&mut self.io).poll_write_vectored(cx, &slices[..count]) {
                Poll::Pending => return,
                Poll::Ready(Ok(0)) => self.fail(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.tracker.note_passed(count);
                    unsent.advance(count);
                    if !unsent.has_remaining() {
                        self.unsent = None;
                    }
                }
                Poll::Ready(Err(why)) => self.fail(why),
            }
        }
        if self.needs_flush {
            match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.needs_flush = false,
                Poll::Ready(Err(why)) => self.fail(why),
            }
        }
    }

    /// Stops writing.
    fn fail(&mut self, why: io::Error) {
        self.unsent = None;
        self.needs_flush = false;
        let grace = || Box::pin(tokio::time::sleep(GRACE));
        self.failure.get_or_insert_with(|| Box::new(WriteFailure { why: Some(why), grace: grace() }));
    }
}

fn body_phase(decoder: Decoder) -> Phase {
    if decoder.is_over() { Phase::Idle } else { Phase::Body(decoder) }
}

fn not_http(fault: Fault) -> CutReason {
    CutReason::NotHttp { error: fault.to_string() }
}
