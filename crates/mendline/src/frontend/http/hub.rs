//! The table of clients and streams, between the connections and the driver.
//!
//! Connections run as tasks of their own. They queue their inputs here, and the driver takes them; the driver puts
//! messages into the queues of the streams, and the connections take them.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use mendline_core::policy::tool_filter::ToolFilter;
use mendline_core::{ClientId, Input, StreamId, StreamMessage, UpstreamId};
use mendline_wire::Message;

use super::forward_headers::ForwardedValues;
use super::kept_streams::KeptStreams;
use super::stream_queue::{Remains, SharedQueue, StreamQueue};
use crate::frontend::{MultiFrontend, MultiInput};

/// The number of the first client. Lower ones belong to clients with frontends of their own.
const FIRST_CLIENT: u32 = 1 << 16;

/// The connections' side.
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    next_client: AtomicU32,
}

#[derive(Default)]
struct State {
    inputs: VecDeque<MultiInput>,
    driver: Option<Waker>,
    streams: HashMap<(ClientId, StreamId), SharedQueue>,
    /// Upstreams that the engine has removed.
    removed: Vec<UpstreamId>,
    clients: HashMap<ClientId, Owner>,
    kept: KeptStreams,
    /// The numbers that stand for principals where no client is known.
    of_principals: HashMap<Arc<str>, ClientId>,
    /// Headers of clients, by the upstream that they are for.
    request_headers: HashMap<UpstreamId, ForwardedValues>,
}

/// The owner of a client.
struct Owner {
    principal: Arc<str>,
    /// The tools that it may use; all if there is no filter.
    tools: Option<Arc<ToolFilter>>,
}

impl Hub {
    /// Creates the connections' side and the driver's side.
    pub fn new() -> (Hub, HubFrontend) {
        let shared = Shared { state: Mutex::default(), next_client: AtomicU32::new(FIRST_CLIENT) };
        let shared = Arc::new(shared);
        (Hub(Arc::clone(&shared)), HubFrontend(shared))
    }

    /// Returns the number of a new client.
    pub fn new_client(&self) -> ClientId {
        ClientId(self.0.next_client.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a client of a principal, who may use these tools; all if there is no filter.
    pub fn add_client(&self, client: ClientId, principal: Arc<str>, tools: Option<&ToolFilter>) {
        self.lock().clients.insert(client, Owner { principal, tools: effective(tools.cloned()) });
    }

    /// Replaces the tools that the clients of each principal may use.
    pub fn set_tools(&self, tools: impl Fn(&str) -> Option<ToolFilter>) {
        for owner in self.lock().clients.values_mut() {
            owner.tools = effective(tools(&owner.principal));
        }
    }

    /// Returns the principal of a client.
    pub fn principal_of(&self, client: ClientId) -> Option<Arc<str>> {
        self.lock().clients.get(&client).map(|owner| Arc::clone(&owner.principal))
    }

    /// Returns the number that stands for a principal, for a request that was refused before its client was known.
    pub(super) fn client_of_principal(&self, principal: &Arc<str>) -> ClientId {
        if let Some(client) = self.lock().of_principals.get(principal) {
            return *client;
        }
        let client = self.new_client();
        let mut state = self.lock();
        state.of_principals.insert(Arc::clone(principal), client);
        state.clients.insert(client, Owner { principal: Arc::clone(principal), tools: None });
        client
    }

    /// Sets the headers of clients that go with every request to an upstream. Must be called before the input that
    /// opens its client.
    pub fn set_request_headers(&self, upstream: UpstreamId, values: &ForwardedValues) {
        let mut state = self.lock();
        match values.is_empty() {
            true => drop(state.request_headers.remove(&upstream)),
            false => drop(state.request_headers.insert(upstream, values.clone())),
        }
    }

    /// Returns whether these headers of clients go with the requests to an upstream.
    pub fn has_request_headers(&self, upstream: UpstreamId, values: &ForwardedValues) -> bool {
        self.lock().request_headers.get(&upstream).map_or(values.is_empty(), |known| known == values)
    }

    /// Passes an input to the engine.
    pub fn input(&self, input: Input) {
        self.push(MultiInput::Engine(input));
    }

    /// Creates the queue of a stream. Must be called before the input that opens the stream.
    pub fn open_stream(&self, client: ClientId, stream: StreamId) -> SharedQueue {
        let queue = SharedQueue::default();
        self.lock().streams.insert((client, stream), Arc::clone(&queue));
        queue
    }

    /// Returns the queue of a stream.
    pub fn stream(&self, client: ClientId, stream: StreamId) -> Option<SharedQueue> {
        self.lock().streams.get(&(client, stream)).cloned()
    }

    /// Keeps a stream that is over and has lost its connection, as long as there is room for it.
    pub(super) fn keep_stream(&self, client: ClientId, stream: StreamId, remains: Remains) {
        self.0.keep_stream(client, stream, remains);
    }

    /// Records that a stream has a connection again.
    pub(super) fn resume_stream(&self, client: ClientId, stream: StreamId) {
        self.lock().kept.remove((client, stream));
    }

    /// Removes the queue of a stream.
    pub fn remove_stream(&self, client: ClientId, stream: StreamId) {
        let removed = {
            let mut state = self.lock();
            state.kept.remove((client, stream));
            state.streams.remove(&(client, stream))
        };
        if let Some(queue) = removed {
            queue.end();
        }
    }

    /// Removes the queues of all streams of a client.
    pub fn remove_client(&self, client: ClientId) {
        let removed: Vec<_> = {
            let mut state = self.lock();
            state.clients.remove(&client);
            let removed: Vec<_> = state.streams.extract_if(|(its, _), _| *its == client).collect();
            removed.iter().for_each(|(key, _)| state.kept.remove(*key));
            removed
        };
        for (_, queue) in removed {
            queue.end();
        }
    }

    /// Reports that a stream takes messages again.
    pub fn has_room(&self, client: ClientId, stream: StreamId) {
        self.push(MultiInput::Room(client, stream));
    }

    /// Returns whether a request of a client runs.
    pub(super) fn has_open_request(&self, client: ClientId) -> bool {
        let state = self.lock();
        let mut its =
            state.streams.iter().filter(|((owner, stream), _)| *owner == client && *stream != StreamId::COMMON);
        its.any(|(_, queue)| !queue.is_over())
    }

    /// Takes the upstreams that the engine has removed since the last time.
    pub fn take_removed(&self) -> Vec<UpstreamId> {
        std::mem::take(&mut self.lock().removed)
    }

    /// Ends all streams: the engine has stopped, and clients connect to the next process.
    pub fn end_streams(&self) {
        let streams: Vec<_> = self.lock().streams.values().cloned().collect();
        streams.iter().for_each(|queue| queue.end());
    }

    /// The number of open streams.
    pub fn streams(&self) -> usize {
        self.lock().streams.len()
    }

    fn push(&self, input: MultiInput) {
        let waker = {
            let mut state = self.lock();
            state.inputs.push_back(input);
            state.driver.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// Returns a filter that hides something.
fn effective(tools: Option<ToolFilter>) -> Option<Arc<ToolFilter>> {
    tools.filter(|tools| !tools.allows_all()).map(Arc::new)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a message without the tools that are hidden from this client.
    fn permitted(&self, client: ClientId, text: Bytes) -> Bytes {
        let tools = self.lock().clients.get(&client).and_then(|owner| owner.tools.clone());
        let shorter = tools.and_then(|tools| tools.without_denied(&Message::parse(text.clone()).ok()?));
        shorter.map_or(text, Message::into_text)
    }

    /// Keeps a stream without a connection, or removes it if no client can read it. The oldest streams make room.
    fn keep_stream(&self, client: ClientId, stream: StreamId, remains: Remains) {
        let mut state = self.lock();
        let principal = state.clients.get(&client).map(|owner| Arc::clone(&owner.principal));
        let dropped = match (remains, principal) {
            (Remains::Kept(amount), Some(principal)) => state.kept.keep((client, stream), &principal, amount),
            _ => vec![(client, stream)],
        };
        for key in dropped {
            state.streams.remove(&key);
        }
    }

    fn queue(&self, client: ClientId, stream: StreamId) -> Option<Arc<StreamQueue>> {
        self.lock().streams.get(&(client, stream)).cloned()
    }
}

/// The driver's side.
pub struct HubFrontend(Arc<Shared>);

impl MultiFrontend for HubFrontend {
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<MultiInput> {
        let mut state = self.0.lock();
        match state.inputs.pop_front() {
            Some(input) => Poll::Ready(input),
            None => {
                match &mut state.driver {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => state.driver = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    fn has_room(&mut self, client: ClientId, stream: StreamId) -> bool {
        // A stream without a queue has no reader any more: its messages are taken and dropped.
        self.0.queue(client, stream).is_none_or(|queue| match stream {
            StreamId::COMMON => queue.has_room(),
            _ => queue.has_room_for_answer(),
        })
    }

    fn write(&mut self, client: ClientId, stream: StreamId, message: StreamMessage) {
        if let Some(queue) = self.0.queue(client, stream) {
            let text = message.message.map(|message| self.0.permitted(client, message.to_bytes()));
            if let Some(remains) = queue.push(text, message.is_last).filter(|_| stream != StreamId::COMMON) {
                self.0.keep_stream(client, stream, remains);
            }
        }
    }

    fn forget_upstream(&mut self, upstream: UpstreamId) {
        let mut state = self.0.lock();
        state.removed.push(upstream);
        state.request_headers.remove(&upstream);
    }

    fn request_headers(&self, upstream: UpstreamId) -> Vec<(Cow<'static, str>, Arc<str>)> {
        self.0.lock().request_headers.get(&upstream).map(ForwardedValues::headers).unwrap_or_default()
    }

    fn is_flushed(&self) -> bool {
        !self.0.lock().streams.values().any(|queue| queue.is_unread())
    }
}
