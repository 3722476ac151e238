//! One connection's view of a stream.

use std::future::poll_fn;
use std::task::{Context, Poll};

use std::sync::Arc;

use mendline_core::{Input, StreamId};

use super::hub::Hub;
use super::sessions::Session;
use super::stream_queue::{Next, SharedQueue};

/// What the loss of a connection means for its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The client may resume the stream: its requests go on.
    Detach,
    /// The requests of the stream are cancelled.
    Close,
}

/// A connection that reads a stream. Dropping it reports the loss of the connection, unless the stream is over.
pub struct StreamReader {
    hub: Hub,
    session: Arc<Session>,
    stream: StreamId,
    queue: SharedQueue,
    number: u32,
    on_loss: OnLoss,
}

impl StreamReader {
    /// Begins to read a stream, after the event with this position if one is given.
    pub fn attach(
        hub: &Hub,
        session: &Arc<Session>,
        stream: StreamId,
        queue: SharedQueue,
        after: Option<u32>,
        on_loss: OnLoss,
    ) -> StreamReader {
        let number = queue.attach(after);
        hub.resume_stream(session.client, stream);
        session.begin_use();
        StreamReader { hub: hub.clone(), session: Arc::clone(session), stream, queue, number, on_loss }
    }

    /// The response tells the client the ids of its events.
    pub fn set_resumable(&self) {
        self.queue.set_resumable();
    }

    /// The response is complete in one piece: the client cannot resume its stream.
    pub fn finish(mut self) {
        self.on_loss = OnLoss::Close;
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Next {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next event.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        self.queue.poll_next(self.number, cx).map(|(next, room)| {
            if room.0 {
                self.hub.has_room(self.session.client, self.stream);
            }
            next
        })
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let (client, stream) = (self.session.client, self.stream);
        self.session.end_use();
        let is_open = self.queue.detach(self.number);
        match self.on_loss {
            OnLoss::Detach if is_open => {
                self.hub.input(Input::StreamDetached { client, stream });
                if stream == StreamId::COMMON {
                    return;
                }
                if let Some(remains) = self.queue.remains() {
                    self.hub.keep_stream(client, stream, remains);
                }
                // The engine may wait for room: the stream takes the rest without a connection.
                self.hub.has_room(client, stream);
            }
            OnLoss::Close => {
                if is_open {
                    self.hub.input(Input::StreamClosed { client, stream });
                }
                self.hub.remove_stream(client, stream);
            }
            OnLoss::Detach => {
                if let Some(remains) = self.queue.remains().filter(|_| stream != StreamId::COMMON) {
                    self.hub.keep_stream(client, stream, remains);
                    self.session.keep_finished(stream, &self.hub);
                }
            }
        }
    }
}
