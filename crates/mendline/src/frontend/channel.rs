//! A client in this process, over two bounded queues of messages.
//!
//! No message is framed, and none is copied on its way to the engine. Each queue takes messages until it holds
//! `ROOM` bytes, like a pipe; its sender then waits. As with a pipe, a frontend finds out that its client no longer
//! reads when it has a message for it, or when the client has closed its output too.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use mendline_wire::{Limits, Line, Spliced};

use super::{Frontend, Step};

/// The number of bytes from which a queue takes no more messages: the default capacity of a pipe.
const ROOM: usize = 64 * 1024;

/// Creates both ends of a connection: one for the driver, one for the client.
pub fn channel(limits: &Limits) -> (ChannelFrontend, ClientChannel) {
    let (to_engine, from_client) = queue();
    let (to_client, from_engine) = queue();
    let message_limit = limits.message_bytes;
    let frontend = ChannelFrontend { from_client, to_client, message_limit, is_end_reported: false, is_blocked: false };
    (frontend, ClientChannel { to_engine, from_engine })
}

/// The end of the driver.
pub struct ChannelFrontend {
    from_client: QueueReceiver<Bytes>,
    to_client: QueueSender<Spliced>,
    message_limit: usize,
    is_end_reported: bool,
    /// The last write left messages in the engine.
    is_blocked: bool,
}

impl Frontend for ChannelFrontend {
    fn poll_input(&mut self, cx: &mut Context<'_>, allowance: &mut usize) -> Step {
        if self.is_end_reported {
            return Step::Wait;
        }
        if *allowance == 0 {
            return Step::Spent;
        }
        match self.from_client.poll_recv(cx) {
            Poll::Ready(Some(text)) => {
                *allowance = allowance.saturating_sub(text.len());
                Step::Line(Line::of_text(text, self.message_limit))
            }
            Poll::Ready(None) => {
                self.is_end_reported = true;
                Step::End
            }
            Poll::Pending => Step::Wait,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, mut next: impl FnMut() -> Option<Spliced>) -> io::Result<()> {
        // Each message takes room, so this ends.
        loop {
            self.is_blocked = self.to_client.poll_room(cx).is_pending();
            if self.is_blocked {
                return Ok(());
            }
            let Some(message) = next() else { return Ok(()) };
            let length = message.len();
            self.to_client.send(message, length).map_err(|ChannelClosed| io::ErrorKind::BrokenPipe)?;
        }
    }

    fn is_abandoned(&mut self, _: &mut Context<'_>) -> bool {
        self.to_client.is_abandoned()
    }

    fn is_flushed(&self) -> bool {
        !self.is_blocked || self.to_client.is_abandoned()
    }
}

/// The end of the client. Dropping it disconnects the client.
pub struct ClientChannel {
    to_engine: QueueSender<Bytes>,
    from_engine: QueueReceiver<Spliced>,
}

impl ClientChannel {
    /// Sends the text of a message, as soon as there is room for it. A cancelled call has not sent it.
    pub async fn send(&mut self, message: impl Into<Bytes>) -> Result<(), ChannelClosed> {
        let message = message.into();
        let length = message.len();
        poll_fn(|cx| self.to_engine.poll_room(cx)).await;
        self.to_engine.send(message, length)
    }

    /// Receives the text of the next message; `None` when the driver has ended. A cancelled call loses nothing.
    pub async fn recv(&mut self) -> Option<Bytes> {
        poll_fn(|cx| self.from_engine.poll_recv(cx)).await.map(|message| message.to_bytes())
    }
}

/// The driver has ended, or the client no longer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelClosed;

impl fmt::Display for ChannelClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end of the channel is closed")
    }
}

impl std::error::Error for ChannelClosed {}

struct Queue<T> {
    /// Each message with its length.
    messages: VecDeque<(T, usize)>,
    bytes: usize,
    has_sender: bool,
    has_receiver: bool,
    /// The task that waits for room or for a message.
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

struct QueueSender<T>(Arc<Mutex<Queue<T>>>);

struct QueueReceiver<T>(Arc<Mutex<Queue<T>>>);

fn queue<T>() -> (QueueSender<T>, QueueReceiver<T>) {
    let messages = VecDeque::new();
    let queue = Queue { messages, bytes: 0, has_sender: true, has_receiver: true, sender: None, receiver: None };
    let queue = Arc::new(Mutex::new(queue));
    (QueueSender(Arc::clone(&queue)), QueueReceiver(queue))
}

impl<T> QueueSender<T> {
    /// Becomes ready when a message can be sent. Without a receiver it is ready: the message fails.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = lock(&self.0);
        if queue.bytes < ROOM || !queue.has_receiver {
            return Poll::Ready(());
        }
        note(&mut queue.sender, cx);
        Poll::Pending
    }

    /// Sends a message after `poll_room` was ready.
    fn send(&self, message: T, length: usize) -> Result<(), ChannelClosed> {
        let mut queue = lock(&self.0);
        if !queue.has_receiver {
            return Err(ChannelClosed);
        }
        // An empty message takes room too.
        let length = length + 1;
        queue.messages.push_back((message, length));
        queue.bytes += length;
        wake(&mut queue.receiver);
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        !lock(&self.0).has_receiver
    }
}

impl<T> QueueReceiver<T> {
    /// Returns the next message, or `None` after the last one.
    fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut queue = lock(&self.0);
        let Some((message, length)) = queue.messages.pop_front() else {
            if !queue.has_sender {
                return Poll::Ready(None);
            }
            note(&mut queue.receiver, cx);
            return Poll::Pending;
        };
        queue.bytes -= length;
        if queue.bytes < ROOM {
            wake(&mut queue.sender);
        }
        Poll::Ready(Some(message))
    }
}

impl<T> Drop for QueueSender<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.has_sender = false;
        wake(&mut queue.receiver);
    }
}

impl<T> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.has_receiver = false;
        queue.messages.clear();
        queue.bytes = 0;
        wake(&mut queue.sender);
    }
}

fn lock<T>(queue: &Mutex<Queue<T>>) -> MutexGuard<'_, Queue<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

fn wake(slot: &mut Option<Waker>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    fn spliced(length: usize) -> Spliced {
        Spliced::whole(Bytes::from(vec![b'x'; length]))
    }

    #[tokio::test]
    async fn messages_pass_in_order_in_both_directions() {
        let (mut frontend, mut client) = channel(&Limits::default());
        client.send("one").await.unwrap();
        client.send("two").await.unwrap();
        for expected in ["one", "two"] {
            let Step::Line(Line::Text(text)) = frontend.poll_input(&mut cx(), &mut 100) else { panic!("{expected}") };
            assert_eq!(text, expected);
        }
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 100), Step::Wait));
        let mut waiting = ["three", "four"].map(|text| Spliced::whole(Bytes::from_static(text.as_bytes()))).into_iter();
        frontend.poll_write(&mut cx(), || waiting.next()).unwrap();
        assert_eq!(client.recv().await.unwrap(), "three");
        drop(frontend);
        assert_eq!(client.recv().await.unwrap(), "four", "sent before the driver ended");
        assert_eq!(client.recv().await, None);
        assert_eq!(client.send("five").await, Err(ChannelClosed));
    }

    #[tokio::test]
    async fn full_queue_leaves_messages_in_the_engine() {
        let (mut frontend, mut client) = channel(&Limits::default());
        let mut pulled = 0;
        let mut write = |frontend: &mut ChannelFrontend| {
            let next = || {
                pulled += 1;
                Some(spliced(ROOM / 2))
            };
            frontend.poll_write(&mut cx(), next).unwrap();
            pulled
        };
        assert_eq!((write(&mut frontend), write(&mut frontend)), (2, 2));
        assert!(!frontend.is_flushed());
        client.recv().await.unwrap();
        assert_eq!(write(&mut frontend), 3);
        drop(client);
        assert!(frontend.is_flushed(), "the client will never take the rest");
    }

    #[tokio::test]
    async fn sender_waits_for_room() {
        let (mut frontend, mut client) = channel(&Limits::default());
        client.send(vec![b'x'; ROOM]).await.unwrap();
        let task = tokio::spawn(async move { client.send("second").await.map(|()| client) });
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 1), Step::Line(_)));
        let _client = task.await.unwrap().unwrap();
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 1), Step::Line(_)));
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 0), Step::Spent));
    }

    #[tokio::test]
    async fn dropped_client_is_read_to_its_end() {
        let (mut frontend, mut client) = channel(&Limits::default());
        client.send("last").await.unwrap();
        drop(client);
        assert!(frontend.poll_write(&mut cx(), || None).is_ok(), "nothing shows it while there is nothing to write");
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 100), Step::Line(_)));
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 100), Step::End));
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 100), Step::Wait));
        assert!(frontend.is_abandoned(&mut cx()));
        assert!(frontend.poll_write(&mut cx(), || Some(spliced(1))).is_err());
    }

    #[tokio::test]
    async fn message_above_limit_keeps_only_its_ends() {
        let limits = Limits { message_bytes: 10_000, ..Limits::default() };
        let (mut frontend, mut client) = channel(&limits);
        client.send(vec![b'x'; 10_000]).await.unwrap();
        client.send(vec![b'x'; 10_001]).await.unwrap();
        assert!(matches!(frontend.poll_input(&mut cx(), &mut 1), Step::Line(Line::Text(_))));
        let Step::Line(Line::TooLong { length, head, tail }) = frontend.poll_input(&mut cx(), &mut 1) else { panic!() };
        assert_eq!((length, head.len(), tail.len()), (10_001, 4096, 256));
    }
}
