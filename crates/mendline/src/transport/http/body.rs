//! Reads a response body: decompresses it, collects it or splits it into events, and counts its bytes.
//!
//! A reader buffers what it cannot pass on yet: the beginning of a body or of an event. It is one buffer, however small
//! the received chunks are, so the counted bytes are the memory used.

use mendline_core::reason::CutReason;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use mendline_wire::{SseDecoder, SseEvent};
use tokio::io::{AsyncRead, AsyncWrite};

use super::coding::Inflater;
use super::h1::{Data, Http1, ReadBuffer};
use super::transfer::{Failure, ResponseBody};

/// The most bytes that are decompressed before other exchanges are polled.
const INFLATED_PER_ITERATION: usize = 1 << 20;

/// A reader of one body.
pub(super) struct Reader {
    kind: Kind,
    inflater: Option<Inflater>,
    limit: usize,
    /// Bytes arrived since the last event.
    has_new_bytes: bool,
}

enum Kind {
    Events(Box<SseDecoder>),
    Whole(Gathered),
}

/// A body that is passed on as a whole.
enum Gathered {
    /// The first chunk, without a copy: most bodies arrive in one chunk.
    First(Bytes),
    /// All chunks so far.
    Joined(BytesMut),
}

/// The result of a poll.
pub(super) enum Read {
    /// Nothing is ready.
    Wait,
    /// An event; there may be more.
    Event(SseEvent),
    /// The end of the body, with its text if it is read as a whole.
    Done(Option<Bytes>),
    /// A limit was exceeded.
    TooLarge,
    /// Reading failed.
    Failed(Failure),
}

impl Reader {
    /// Creates a reader of events of at most `limit` bytes each.
    pub(super) fn events(limit: usize, inflater: Option<Inflater>) -> Reader {
        Reader { kind: Kind::Events(Box::new(SseDecoder::new(limit))), inflater, limit, has_new_bytes: false }
    }

    /// Creates a reader of one text of at most `limit` bytes.
    pub(super) fn whole(limit: usize, inflater: Option<Inflater>) -> Reader {
        Reader { kind: Kind::Whole(Gathered::First(Bytes::new())), inflater, limit, has_new_bytes: false }
    }

    /// Returns the number of buffered bytes.
    pub(super) fn held(&self) -> usize {
        let gathered = match &self.kind {
            Kind::Events(decoder) => decoder.held(),
            Kind::Whole(Gathered::First(first)) => first.len(),
            Kind::Whole(Gathered::Joined(joined)) => joined.len(),
        };
        gathered + self.inflater.as_ref().map_or(0, Inflater::waiting)
    }

    /// Returns whether bytes arrived since the last event and the last call of this function.
    pub(super) fn take_new_bytes(&mut self) -> bool {
        std::mem::take(&mut self.has_new_bytes)
    }

    /// Reads on. A body over HTTP/1 is read from the connection of its exchange.
    pub(super) fn poll<Io: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        body: &mut ResponseBody,
        mut own: Option<(&mut Http1<Io>, &mut ReadBuffer)>,
        cx: &mut Context<'_>,
    ) -> Read {
        let mut inflated = 0;
        loop {
            if let Kind::Events(decoder) = &mut self.kind {
                match decoder.next_event() {
                    Some(Ok(event)) => {
                        self.has_new_bytes = false;
                        return Read::Event(event);
                    }
                    Some(Err(_)) => return Read::TooLarge,
                    None => {}
                }
            }
            if inflated > INFLATED_PER_ITERATION {
                cx.waker().wake_by_ref();
                return Read::Wait;
            }
            if let Some(inflater) = &mut self.inflater {
                match inflater.next_piece() {
                    Some(Ok(piece)) => {
                        inflated += piece.len();
                        if !self.kind.take(piece, self.limit) {
                            return Read::TooLarge;
                        }
                        continue;
                    }
                    Some(Err(problem)) => return Read::Failed(broken(problem)),
                    None => {}
                }
            }
            let own = own.as_mut().map(|(http1, buffer)| (&mut **http1, &mut **buffer));
            match body.poll_data(own, cx) {
                Poll::Pending => return Read::Wait,
                Poll::Ready(Some(Ok(data))) => {
                    self.has_new_bytes = true;
                    match &mut self.inflater {
                        Some(inflater) => inflater.push(owned(data)),
                        None if !self.kind.take_chunk(data, self.limit) => return Read::TooLarge,
                        None => {}
                    }
                }
                Poll::Ready(Some(Err(reason))) => return Read::Failed(Failure::Cut(reason)),
                Poll::Ready(None) if self.inflater.as_ref().is_some_and(|inflater| !inflater.is_complete()) => {
                    return Read::Failed(broken("the server's compressed answer breaks off"));
                }
                Poll::Ready(None) => return Read::Done(self.kind.finish()),
            }
        }
    }
}

impl Kind {
    /// Takes a chunk; returns false if the limit is exceeded.
    fn take_chunk(&mut self, data: Data<'_>, limit: usize) -> bool {
        match (self, data) {
            (Kind::Whole(Gathered::First(first)), data) if first.is_empty() => {
                *first = owned(data);
                first.len() <= limit
            }
            (kind, data) => kind.take(data.bytes(), limit),
        }
    }

    /// Takes bytes; returns false if the limit is exceeded.
    fn take(&mut self, data: &[u8], limit: usize) -> bool {
        match self {
            Kind::Events(decoder) => {
                decoder.buffer().extend_from_slice(data);
                true
            }
            Kind::Whole(gathered) => {
                if let Gathered::First(first) = gathered {
                    *gathered = Gathered::Joined(BytesMut::from(&first[..]));
                }
                let Gathered::Joined(joined) = gathered else { return true };
                joined.extend_from_slice(data);
                joined.len() <= limit
            }
        }
    }

    fn finish(&mut self) -> Option<Bytes> {
        let text = match self {
            Kind::Events(_) => return None,
            Kind::Whole(Gathered::First(first)) => std::mem::take(first),
            Kind::Whole(Gathered::Joined(joined)) => std::mem::take(joined).freeze(),
        };
        (!text.is_empty()).then_some(text)
    }
}

fn owned(data: Data<'_>) -> Bytes {
    match data {
        Data::Borrowed(data) => Bytes::copy_from_slice(data),
        Data::Owned(data) => data,
    }
}

fn broken(problem: &str) -> Failure {
    Failure::Cut(CutReason::Compression { problem: problem.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s05_body_in_single_bytes_is_one_buffer() {
        let read = Bytes::from(b"0123456789".repeat(90));
        let mut kind = Kind::Whole(Gathered::First(Bytes::new()));
        for at in 0..read.len() {
            assert!(kind.take_chunk(Data::Owned(read.slice(at..at + 1)), read.len()));
        }
        assert!(read.is_unique(), "no chunk keeps its receive buffer alive");
        assert!(!kind.take(b"x", read.len()), "it is over the limit");
        let mut kind = Kind::Whole(Gathered::First(Bytes::new()));
        kind.take_chunk(Data::Owned(read.clone()), read.len());
        let address = read.as_ptr();
        assert_eq!(kind.finish().map(|text| text.as_ptr()), Some(address), "one chunk is not copied");
    }
}
