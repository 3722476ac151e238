//! The state of one client.
//!
//! A legacy client with a session has its own `Session`. Clients without one (stateless or modern) share one, which
//! only serves to find a running call by its id.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::stream::Stream;

/// The number of streams that are kept for resumption.
const KEPT: usize = 1_000;

/// The state of one client.
#[derive(Debug)]
pub(crate) struct Session {
    id: String,
    /// Unsolicited messages to the client: on its GET stream, or on the SSE stream of HTTP+SSE.
    pub(crate) stream: Arc<Stream>,
    inner: Mutex<Inner>,
    /// The number of GET streams so far; the newest one carries unsolicited messages.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: Vec<Arc<Stream>>,
    calls: HashMap<Bytes, Arc<Call>>,
    pending_requests: HashMap<Bytes, oneshot::Sender<Bytes>>,
    subscriptions: BTreeSet<String>,
    level: Option<String>,
}

impl Session {
    pub(crate) fn new(id: String, stream: Stream) -> Session {
        Session { id, stream: Arc::new(stream), inner: Mutex::default(), newest: watch::channel(0).0 }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Keeps a stream for resumption.
    pub(crate) fn keep(&self, stream: &Arc<Stream>) {
        let streams = &mut self.inner().streams;
        if streams.len() == KEPT {
            streams.remove(0);
        }
        streams.push(Arc::clone(stream));
    }

    /// Returns the stream with this name.
    pub(crate) fn find_stream(&self, name: &str) -> Option<Arc<Stream>> {
        if self.stream.name() == name {
            return Some(Arc::clone(&self.stream));
        }
        self.inner().streams.iter().find(|stream| stream.name() == name).cloned()
    }

    /// Registers a call.
    pub(crate) fn begin(&self, id: Bytes) -> Arc<Call> {
        let call = Arc::new(Call { cancelled: watch::channel(false).0 });
        self.inner().calls.insert(id, Arc::clone(&call));
        call
    }

    /// Removes a call that has finished.
    pub(crate) fn finish(&self, id: &Bytes) {
        self.inner().calls.remove(id);
    }

    /// Cancels a call.
    pub(crate) fn cancel(&self, id: &Bytes) {
        if let Some(call) = self.inner().calls.get(id) {
            call.cancel();
        }
    }

    /// Registers a request to the client by its id, as JSON text. The receiver gets the answer.
    pub(crate) fn expect_answer(&self, id: Bytes) -> oneshot::Receiver<Bytes> {
        let (answer, answered) = oneshot::channel();
        self.inner().pending_requests.insert(id, answer);
        answered
    }

    /// Delivers an answer of the client. Returns whether the request was pending.
    pub(crate) fn answered(&self, id: &Bytes, text: Bytes) -> bool {
        let pending = self.inner().pending_requests.remove(id);
        pending.is_some_and(|pending| {
            // The receiver may be gone; the answer still counts.
            let _ = pending.send(text);
            true
        })
    }

    /// Subscribes the client to a resource, or unsubscribes it.
    pub(crate) fn subscribe(&self, uri: &str, is_subscribed: bool) {
        let subscriptions = &mut self.inner().subscriptions;
        if is_subscribed {
            subscriptions.insert(uri.to_owned());
        } else {
            subscriptions.remove(uri);
        }
    }

    /// Sets the log level of the client.
    pub(crate) fn set_level(&self, level: &str) {
        self.inner().level = Some(level.to_owned());
    }

    /// Returns the resources that the client subscribed to, and its log level.
    pub(crate) fn state(&self) -> (Vec<String>, Option<String>) {
        let inner = self.inner();
        (inner.subscriptions.iter().cloned().collect(), inner.level.clone())
    }

    /// Registers a new GET stream. The returned future ends when the next one replaces it.
    pub(crate) fn take_over(&self) -> impl Future<Output = ()> + use<> {
        let mut newest = self.newest.subscribe();
        self.newest.send_modify(|count| *count += 1);
        newest.mark_unchanged();
        async move {
            // An error means that the session is gone, which ends the stream as well.
            let _ = newest.changed().await;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running call.
#[derive(Debug)]
pub(crate) struct Call {
    cancelled: watch::Sender<bool>,
}

impl Call {
    /// Cancels the call.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Waits for the cancellation.
    pub(crate) async fn cancelled(&self) {
        // The sender is ours, so this only ends with a change.
        let _ = self.cancelled.subscribe().wait_for(|&cancelled| cancelled).await;
    }
}
