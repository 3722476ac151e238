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
            // In parts, so that a client that does not take them is noticed.
            ResponseBody::Text(text) => Poll::Ready(text.take().map(|mut rest| {
                let part = rest.split_to(rest.len().min(FRAME_BYTES));
                *text = Some(rest).filter(|rest| !rest.is_empty());
                Ok(Frame::data(part))
            })),
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
        /// The number of the session in this process.
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
        if let EventIds::Of { .. } = ids {
            reader.set_resumable();
        }
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

    /// Adds an event that names the endpoint for messages, as 2024-11-05 has it. Its id is that of the session: a client
    /// that connects again sends it.
    pub fn with_endpoint(mut self, target: String, session: String) -> EventBody {
        let (event, data, id) = (Some("endpoint".into()), Some(target.into()), Some(session.into()));
        let event = SseEvent { id, event, data, retry: None };
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
        let length = self.buffer.len().min(FRAME_BYTES);
        Poll::Ready(Some(self.buffer.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use mendline_core::{ClientId, UpstreamId};

    use super::super::hub::Hub;
    use super::super::reader::OnLoss;
    use super::super::sessions::{Opened, Session};
    use super::*;

    /// Creates the body of a stream, and the side of the engine.
    fn stream() -> (EventBody, Hub) {
        let (hub, _) = Hub::new();
        let (client, stream) = (ClientId(1), StreamId(1));
        let (principal, server) = (Arc::from("ann"), Arc::from("notes"));
        let ids = (client, UpstreamId(0));
        let session = Session::new(ids, None, principal, server, "2025-11-25".to_owned(), Opened::ByClient);
        let queue = hub.open_stream(client, stream);
        let reader = StreamReader::attach(&hub, &Arc::new(session), stream, queue, None, OnLoss::Detach);
        (EventBody::new(reader, EventIds::None, false, None), hub)
    }

    #[tokio::test(start_paused = true)]
    async fn silent_stream_has_a_comment_every_15_s() {
        let (mut body, _hub) = stream();
        let begin = Instant::now();
        for round in 1..=3 {
            let bytes = poll_fn(|cx| body.poll(cx)).await.unwrap();
            assert!(bytes.starts_with(b":"), "{bytes:?}");
            assert_eq!(begin.elapsed().as_secs(), 15 * round);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_event_is_handed_over_in_parts() {
        let (mut body, hub) = stream();
        let queue = hub.stream(ClientId(1), StreamId(1)).unwrap();
        queue.push(Some(Bytes::from(vec![b'x'; 200_000])), true);
        let (mut parts, mut length) = (0, 0);
        while let Some(part) = poll_fn(|cx| body.poll(cx)).await {
            assert!(part.len() <= FRAME_BYTES);
            (parts, length) = (parts + 1, length + part.len());
        }
        assert!(parts == 4 && length > 200_000, "{parts} parts, {length} bytes");
    }
}
