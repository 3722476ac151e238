//! What the server knows of one client.
//!
//! A legacy client with a session has one of these; clients without one (stateless, or modern) share one, which then only
//! serves to find a running call by its id.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::stream::Stream;

/// So many streams are kept for those who resume.
const KEPT: usize = 1_000;

/// One client.
#[derive(Debug)]
pub(crate) struct Session {
    id: String,
    /// What is said to the client unasked: on its GET stream, or on the only stream of the oldest transport.
    pub(crate) stream: Arc<Stream>,
    inner: Mutex<Inner>,
    /// Counts the GET streams; the newest carries what is said unasked.
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

    /// Keeps a stream for those who resume it.
    pub(crate) fn keep(&self, stream: &Arc<Stream>) {
        let streams = &mut self.inner().streams;
        if streams.len() == KEPT {
            streams.remove(0);
        }
        streams.push(Arc::clone(stream));
    }

    /// The stream of this name.
    pub(crate) fn find_stream(&self, name: &str) -> Option<Arc<Stream>> {
        if self.stream.name() == name {
            return Some(Arc::clone(&self.stream));
        }
        self.inner().streams.iter().find(|stream| stream.name() == name).cloned()
    }

    /// A call begins.
    pub(crate) fn begin(&self, id: Bytes) -> Arc<Call> {
        let call = Arc::new(Call { cancelled: watch::channel(false).0 });
        self.inner().calls.insert(id, Arc::clone(&call));
        call
    }

    /// A call is over.
    pub(crate) fn finish(&self, id: &Bytes) {
        self.inner().calls.remove(id);
    }

    /// The client no longer wants this call.
    pub(crate) fn cancel(&self, id: &Bytes) {
        if let Some(call) = self.inner().calls.get(id) {
            call.cancel();
        }
    }

    /// A question to the client with this id, as JSON text, waits for its answer.
    pub(crate) fn expect_answer(&self, id: Bytes) -> oneshot::Receiver<Bytes> {
        let (answer, answered) = oneshot::channel();
        self.inner().pending_requests.insert(id, answer);
        answered
    }

    /// The client answers a question. Says whether it had been asked.
    pub(crate) fn answered(&self, id: &Bytes, text: Bytes) -> bool {
        let pending = self.inner().pending_requests.remove(id);
        pending.is_some_and(|pending| {
            // Whoever asked may have stopped waiting; the answer was right all the same.
            let _ = pending.send(text);
            true
        })
    }

    /// The client wants to hear of a resource, or no longer.
    pub(crate) fn subscribe(&self, uri: &str, wants: bool) {
        let subscriptions = &mut self.inner().subscriptions;
        if wants {
            subscriptions.insert(uri.to_owned());
        } else {
            subscriptions.remove(uri);
        }
    }

    /// The client wants log messages of this level.
    pub(crate) fn set_level(&self, level: &str) {
        self.inner().level = Some(level.to_owned());
    }

    /// What the client has set: the resources it subscribed to, and its log level.
    pub(crate) fn state(&self) -> (Vec<String>, Option<String>) {
        let inner = self.inner();
        (inner.subscriptions.iter().cloned().collect(), inner.level.clone())
    }

    /// A new GET stream takes over from the one before. What is given back ends when the next one does the same.
    pub(crate) fn take_over(&self) -> impl Future<Output = ()> + use<> {
        let mut newest = self.newest.subscribe();
        self.newest.send_modify(|count| *count += 1);
        newest.mark_unchanged();
        async move {
            // An error means that the session itself is gone, which ends the stream as well.
            let _ = newest.changed().await;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs.
#[derive(Debug)]
pub(crate) struct Call {
    cancelled: watch::Sender<bool>,
}

impl Call {
    /// It is no longer wanted.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Ends when it is no longer wanted.
    pub(crate) async fn cancelled(&self) {
        // The sender is ours, so this only ends with a change.
        let _ = self.cancelled.subscribe().wait_for(|&cancelled| cancelled).await;
    }
}
