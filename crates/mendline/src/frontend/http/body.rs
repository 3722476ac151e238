//! The body of a response: one text, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use mendline_core::StreamId;
use mendline_wire::{SseEncoder, SseEvent};
use tokio::time::{Instant, Sleep};

use super::event_id::EventId;
use super::operation::FollowedEvents;
use super::reader::StreamReader;
use super::stream_queue::Next;

/// The interval of comments on a stream without events. Proxies end a response that is silent for 30 s or more.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// The time after which a client connects again, as it is told to.
const RETRY: Duration = Duration::from_secs(1);

/// The limit of one frame.
const FRAME_BYTES: usize = 64 * 1024;

/// The body of a response.
pub enum ResponseBody {
    /// A text, or nothing.
    Text(Option<Bytes>),
    /// Events.
    Events(Box<EventBody>),
    /// Events of the servers, for the operator.
    Followed(Box<FollowedEvents>),
}

impl ResponseBody {
    /// A body without content.
    pub fn empty() -> ResponseBody {
        ResponseBody::Text(None)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ResponseBody::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            ResponseBody::Events(events) => events.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            ResponseBody::Followed(events) => events.poll(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            ResponseBody::Events(_) | ResponseBody::Followed(_) => SizeHint::default(),
        }
    }
}

/// The ids of the events of a stream.
#[derive(Clone, Debug)]
pub enum EventIds {
    /// The client cannot resume: events have no ids.
    None,
    /// The client can resume after each event.
    Of {
        /// The number of this process.
        process: u32,
        /// The stream.
        stream: StreamId,
        /// The id of its only request.
        request: Option<Vec<u8>>,
    },
}

impl EventIds {
    fn at(&self, position: u32) -> Option<Bytes> {
        match self {
            EventIds::None => None,
            EventIds::Of { process, stream, request } => {
                let id = EventId { process: *process, stream: *stream, position, request: request.clone() };
                Some(Bytes::from(id.write()))
            }
        }
    }
}

/// A stream of events.
pub struct EventBody {
    reader: StreamReader,
    ids: EventIds,
    buffer: BytesMut,
    comment: Pin<Box<Sleep>>,
    is_over: bool,
}

impl EventBody {
    /// Creates a body with the rest of a stream, after `first` if that was read already. With `is_primed`, the first
    /// event only tells the client its id, so that the client can resume before any message came.
    pub fn new(reader: StreamReader, ids: EventIds, is_primed: bool, first: Option<Next>) -> EventBody {
        let comment = Box::pin(tokio::time::sleep(COMMENT_INTERVAL));
        let mut body = EventBody { reader, ids, buffer: BytesMut::new(), comment, is_over: false };
        if is_primed && let Some(id) = body.ids.at(0) {
            let retry = u64::try_from(RETRY.as_millis()).ok();
            let event = SseEvent { id: Some(id), event: None, data: Some(Bytes::new()), retry };
            SseEncoder.encode(&event, &mut body.buffer);
        }
        if let Some(next) = first {
            body.add(next);
        }
        body
    }

    /// Adds an event that names the endpoint for messages, as 2024-11-05 has it.
    pub fn with_endpoint(mut self, target: String) -> EventBody {
        let event = SseEvent { event: Some("endpoint".into()), data: Some(target.into()), ..SseEvent::default() };
        SseEncoder.encode(&event, &mut self.buffer);
        self
    }

    fn add(&mut self, next: Next) {
        match next {
            Next::Event(event, is_last) => {
                let encoded = SseEvent {
                    id: self.ids.at(event.position),
                    event: Some(Bytes::from_static(b"message")),
                    data: Some(event.text),
                    retry: None,
                };
                SseEncoder.encode(&encoded, &mut self.buffer);
                self.is_over |= is_last;
            }
            Next::Over | Next::Replaced => self.is_over = true,
        }
    }

    /// Returns the next bytes, or nothing at the end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while !self.is_over && self.buffer.len() < FRAME_BYTES {
            match self.reader.poll_next(cx) {
                Poll::Ready(next) => self.add(next),
                Poll::Pending => break,
            }
        }
        if self.buffer.is_empty() && !self.is_over {
            if self.comment.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            SseEncoder.comment("waiting", &mut self.buffer);
        }
        self.comment.as_mut().reset(Instant::now() + COMMENT_INTERVAL);
        // The timer must be polled once after its reset, so that it wakes this task.
        let _ = self.comment.as_mut().poll(cx);
        if self.buffer.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(self.buffer.split().freeze()))
    }
}
