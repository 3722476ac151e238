//! The events of one stream, from the engine to a connection.
//!
//! The engine's messages are numbered and kept until a connection has taken them, and a bounded number of them also
//! afterwards: a client that lost its connection resumes after the last event that it has read. The last event is always
//! kept, however long it is, because its transfer may have been cut. One connection reads a stream at a time; a new one
//! replaces the last. The stream of a request takes messages without a connection, too: its answer frees the place of
//! the request. If its client cannot resume it, they are dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::kept_streams::Amount;
use super::principal::Permit;

/// The number of bytes from which a stream takes no more messages.
const ROOM: usize = 256 * 1024;

/// The events that are kept for a client that resumes.
const KEPT_EVENTS: usize = 256;

/// The same in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    /// Its position in the stream, from 1.
    pub position: u32,
    /// The text of the message.
    pub text: Bytes,
}

/// The queue of one stream.
#[derive(Debug, Default)]
pub struct StreamQueue(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Events that were read, and events that were not.
    events: VecDeque<StreamEvent>,
    /// The number of events at the front that were read.
    read: usize,
    read_bytes: usize,
    waiting_bytes: usize,
    last_position: u32,
    state: State,
    /// The number of the connection that reads, or read last.
    reader: u32,
    is_attached: bool,
    /// The client knows the id of an event, and can resume.
    is_resumable: bool,
    waker: Option<Waker>,
    /// A message was refused for lack of room.
    is_blocked: bool,
    /// The place of its requests among those of their principal, until the last answer.
    permit: Option<Permit>,
}

impl Inner {
    fn is_finished(&self) -> bool {
        self.state == State::Over && self.read == self.events.len()
    }

    fn remains(&self) -> Option<Remains> {
        let is_left = self.state == State::Over && !self.is_attached;
        is_left.then(|| match self.is_resumable {
            true => Remains::Kept(Amount { events: self.events.len(), bytes: self.read_bytes + self.waiting_bytes }),
            false => Remains::Nothing,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// No event follows.
    Over,
}

/// The result of a poll for the next event.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// An event, and whether the stream is over with it.
    Event(StreamEvent, bool),
    /// The stream is over.
    Over,
    /// Another connection reads the stream now.
    Replaced,
}

/// The fate of a stream that is over and has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Its client can resume it.
    Kept(Amount),
    /// No client can read it any more.
    Nothing,
}

/// Whether the engine waits for room in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasRoomAgain(pub bool);

impl StreamQueue {
    /// Returns whether the common stream takes another message: it has a connection, and room. If not, a later read
    /// reports that there is room again.
    pub fn has_room(&self) -> bool {
        let mut inner = self.lock();
        inner.is_blocked = inner.waiting_bytes >= ROOM || !inner.is_attached;
        !inner.is_blocked
    }

    /// The same for the stream of a request, which needs no connection.
    pub fn has_room_for_answer(&self) -> bool {
        let mut inner = self.lock();
        inner.is_blocked = inner.waiting_bytes >= ROOM && inner.is_attached;
        !inner.is_blocked
    }

    /// Records that the client learns the ids of its events.
    pub(super) fn set_resumable(&self) {
        self.lock().is_resumable = true;
    }

    /// Returns what remains of it, if it is over and has no connection.
    pub(super) fn remains(&self) -> Option<Remains> {
        self.lock().remains()
    }

    /// Keeps the place of its requests until the last answer.
    pub(super) fn hold(&self, permit: Option<Permit>) {
        self.lock().permit = permit;
    }

    /// Adds an event. Returns what remains of the stream, if it is over with it and has no connection.
    pub fn push(&self, text: Option<Bytes>, is_last: bool) -> Option<Remains> {
        let mut inner = self.lock();
        let can_be_read = inner.is_attached || inner.is_resumable;
        if let Some(text) = text.filter(|_| can_be_read) {
            inner.last_position += 1;
            inner.waiting_bytes += text.len();
            let position = inner.last_position;
            inner.events.push_back(StreamEvent { position, text });
        }
        if is_last {
            inner.state = State::Over;
            inner.permit = None;
        }
        let remains = inner.remains();
        wake(inner);
        remains
    }

    /// Ends the stream without a further event.
    pub fn end(&self) {
        let mut inner = self.lock();
        inner.state = State::Over;
        inner.permit = None;
        wake(inner);
    }

    /// Begins to read with a new connection, after the event with this position if one is given, else where the last
    /// connection stopped. Returns the number of the connection.
    pub fn attach(&self, after: Option<u32>) -> u32 {
        let mut inner = self.lock();
        inner.reader += 1;
        inner.is_attached = true;
        if let Some(after) = after {
            let read = inner.events.iter().take_while(|event| event.position <= after).count();
            let bytes = |events: std::collections::vec_deque::Iter<'_, StreamEvent>| {
                events.map(|event| event.text.len()).sum::<usize>()
            };
            (inner.read_bytes, inner.waiting_bytes) =
                (bytes(inner.events.range(..read)), bytes(inner.events.range(read..)));
            inner.read = read;
        }
        let number = inner.reader;
        wake(inner);
        number
    }

    /// Ends the connection with this number. Returns whether it was the one that reads, and the stream is not over.
    pub fn detach(&self, reader: u32) -> bool {
        let mut inner = self.lock();
        let was_reader = inner.reader == reader && std::mem::take(&mut inner.is_attached);
        was_reader && !inner.is_finished()
    }

    /// Returns whether no event follows.
    pub(super) fn is_over(&self) -> bool {
        self.lock().state == State::Over
    }

    /// Returns whether a connection reads it.
    pub fn is_attached(&self) -> bool {
        self.lock().is_attached
    }

    /// Returns whether a connection has events left to read.
    pub fn is_unread(&self) -> bool {
        let inner = self.lock();
        inner.is_attached && inner.read < inner.events.len()
    }

    /// Returns the next event for a connection, and whether the engine waits for the room that this made.
    pub fn poll_next(&self, reader: u32, cx: &mut Context<'_>) -> Poll<(Next, HasRoomAgain)> {
        let mut inner = self.lock();
        if inner.reader != reader {
            return Poll::Ready((Next::Replaced, HasRoomAgain(false)));
        }
        let Some(event) = inner.events.get(inner.read).cloned() else {
            if inner.state == State::Over {
                return Poll::Ready((Next::Over, HasRoomAgain(false)));
            }
            inner.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        inner.read += 1;
        inner.waiting_bytes -= event.text.len();
        inner.read_bytes += event.text.len();
        let is_last = inner.is_finished();
        while inner.read > 1 && (inner.read > KEPT_EVENTS || inner.read_bytes > KEPT_BYTES) {
            let Some(dropped) = inner.events.pop_front() else { break };
            inner.read -= 1;
            inner.read_bytes -= dropped.text.len();
        }
        let has_room_again = inner.waiting_bytes < ROOM && std::mem::take(&mut inner.is_blocked);
        Poll::Ready((Next::Event(event, is_last), HasRoomAgain(has_room_again)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the connection that waits, after the lock is released.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A shared queue.
pub type SharedQueue = Arc<StreamQueue>;

#[cfg(test)]
mod tests {
    use super::*;

    fn next(queue: &StreamQueue, reader: u32) -> Option<Next> {
        match queue.poll_next(reader, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready((next, _)) => Some(next),
            Poll::Pending => None,
        }
    }

    fn event(position: u32) -> Next {
        Next::Event(StreamEvent { position, text: Bytes::from(position.to_string()) }, false)
    }

    fn filled(count: u32) -> StreamQueue {
        let queue = StreamQueue::default();
        queue.set_resumable();
        for position in 1..=count {
            queue.push(Some(Bytes::from(position.to_string())), false);
        }
        queue
    }

    #[test]
    fn events_are_read_in_order_and_the_last_one_is_marked() {
        let queue = filled(1);
        queue.push(Some(Bytes::from_static(b"2")), true);
        let reader = queue.attach(None);
        assert_eq!(next(&queue, reader), Some(event(1)));
        let last = StreamEvent { position: 2, text: Bytes::from_static(b"2") };
        assert_eq!(next(&queue, reader), Some(Next::Event(last, true)));
        assert_eq!(next(&queue, reader), Some(Next::Over));
        assert!(!queue.detach(reader), "nothing is left to resume");
    }

    #[test]
    fn only_the_connection_that_reads_detaches_an_open_stream() {
        let queue = filled(1);
        assert!(!queue.has_room(), "no connection yet");
        let (first, second) = (queue.attach(None), queue.attach(None));
        assert!(!queue.detach(first), "it was replaced");
        assert!(queue.has_room());
        assert!(queue.detach(second));
        assert!(!queue.has_room() && !queue.detach(second), "once");
    }

    #[test]
    fn resumed_stream_repeats_what_came_after_the_last_read_event() {
        let queue = filled(5);
        let first = queue.attach(None);
        for position in 1..=4 {
            assert_eq!(next(&queue, first), Some(event(position)));
        }
        let second = queue.attach(Some(2));
        assert_eq!(next(&queue, first), Some(Next::Replaced));
        for position in 3..=5 {
            assert_eq!(next(&queue, second), Some(event(position)));
        }
        assert_eq!(next(&queue, second), None);
        let third = queue.attach(None);
        assert_eq!(next(&queue, third), None, "without a position it goes on where the last one stopped");
    }

    #[test]
    fn read_events_are_kept_up_to_a_limit() {
        let count = u32::try_from(KEPT_EVENTS).unwrap() + 50;
        let queue = filled(count);
        let reader = queue.attach(None);
        while next(&queue, reader).is_some() {}
        let again = queue.attach(Some(0));
        assert_eq!(next(&queue, again), Some(event(51)));
        let queue = StreamQueue::default();
        let reader = queue.attach(None);
        for _ in 0..10 {
            queue.push(Some(Bytes::from(vec![b'x'; KEPT_BYTES / 4])), false);
            next(&queue, reader);
        }
        assert!(queue.lock().read_bytes <= KEPT_BYTES);
    }

    #[test]
    fn last_event_is_kept_however_long_it_is() {
        let queue = StreamQueue::default();
        let first = queue.attach(None);
        queue.push(Some(Bytes::from(vec![b'x'; 3 * KEPT_BYTES])), true);
        next(&queue, first);
        let second = queue.attach(Some(0));
        assert!(matches!(next(&queue, second), Some(Next::Event(event, true)) if event.text.len() == 3 * KEPT_BYTES));
    }

    #[test]
    fn stream_of_request_without_connection_takes_its_answer() {
        let queue = StreamQueue::default();
        let reader = queue.attach(None);
        queue.set_resumable();
        queue.detach(reader);
        assert!(queue.has_room_for_answer() && !queue.has_room());
        let remains = queue.push(Some(Bytes::from_static(b"answer")), true);
        assert_eq!(remains, Some(Remains::Kept(Amount { events: 1, bytes: 6 })));
        let reader = queue.attach(Some(0));
        assert!(matches!(next(&queue, reader), Some(Next::Event(_, true))));
        assert_eq!(queue.remains(), None, "it has a connection");
    }

    #[test]
    fn nothing_remains_of_a_stream_that_cannot_be_resumed() {
        let queue = StreamQueue::default();
        let reader = queue.attach(None);
        queue.detach(reader);
        assert_eq!(queue.push(Some(Bytes::from_static(b"answer")), true), Some(Remains::Nothing));
        assert!(queue.lock().events.is_empty());
    }

    #[test]
    fn full_stream_takes_no_message_until_it_is_read() {
        let queue = StreamQueue::default();
        let reader = queue.attach(None);
        queue.push(Some(Bytes::from(vec![b'x'; ROOM])), false);
        assert!(!queue.has_room());
        let Poll::Ready((_, room)) = queue.poll_next(reader, &mut Context::from_waker(Waker::noop())) else { panic!() };
        assert_eq!(room, HasRoomAgain(true));
        assert!(queue.has_room());
    }

    #[test]
    fn stream_of_cancelled_request_is_over_without_event() {
        let queue = StreamQueue::default();
        let reader = queue.attach(None);
        assert_eq!(next(&queue, reader), None);
        queue.push(None, true);
        assert_eq!(next(&queue, reader), Some(Next::Over));
    }
}
