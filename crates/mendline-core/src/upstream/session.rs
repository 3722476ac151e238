//! The session of a legacy server: its handshake and the state to restore.
//!
//! A legacy session begins with `initialize`, and a restarted server does not know its client. So the client's
//! handshake is kept, byte for byte, and replayed on every new link before anything else. The log level and the
//! resource subscriptions are restored too.
//!
//! A modern server has no handshake: nothing is kept, and every link is open at once.

use std::collections::{BTreeMap, VecDeque};

use mendline_wire::Message;

use crate::defaults;
use crate::port::ClientId;
use crate::request::{ClientRequest, Op};

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No link, or one that needs no handshake.
    New,
    /// The kept handshake was sent on the current link and is not answered yet.
    Handshake,
    /// Initialized on the current link.
    Ready,
    /// The link is gone; the handshake is kept.
    Lost,
}

/// The kept handshake and the state of the session.
#[derive(Debug)]
pub struct Session {
    state: State,
    handshake: Option<ClientRequest>,
    initialized: Option<Message>,
    /// The client whose handshake it is; `None` if it was restored.
    client: Option<ClientId>,
    /// The last answer to it, of the server or of Mendline.
    answer: Option<Message>,
    /// The request that set the log level, as last confirmed.
    level: Option<ClientRequest>,
    /// The confirmed subscriptions, by resource.
    subscriptions: BTreeMap<String, ClientRequest>,
    restore: Restore,
    /// A server has answered a handshake before.
    was_ever_ready: bool,
}

/// The state that the server does not have yet after a handshake.
#[derive(Debug, Default)]
struct Restore {
    requests: VecDeque<ClientRequest>,
    /// A request was lost: the rest is sent one at a time.
    was_lost: bool,
}

impl Session {
    pub fn new() -> Self {
        Session {
            state: State::New,
            handshake: None,
            initialized: None,
            client: None,
            answer: None,
            level: None,
            subscriptions: BTreeMap::new(),
            restore: Restore::default(),
            was_ever_ready: false,
        }
    }

    /// Returns whether calls may be sent over a link that is up.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::New | State::Ready)
    }

    /// Returns whether a legacy session is initialized on the current link.
    pub fn is_initialized(&self) -> bool {
        self.state == State::Ready
    }

    /// Returns whether the session is lost and its handshake is not sent yet.
    pub fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Returns whether the handshake is that of this client.
    pub fn is_of(&self, client: ClientId) -> bool {
        self.client == Some(client)
    }

    /// Returns whether `initialized` was sent, or is kept to be sent.
    pub fn has_initialized(&self) -> bool {
        self.initialized.is_some()
    }

    /// The last answer to the handshake.
    pub fn answer(&self) -> Option<Message> {
        self.answer.clone()
    }

    /// Records the answer to the replayed handshake.
    pub fn learn_answer(&mut self, answer: Message) {
        self.answer = Some(answer);
    }

    /// Returns whether there is state that the server does not have.
    pub fn has_to_restore(&self) -> bool {
        !self.restore.requests.is_empty()
    }

    /// Returns whether the state is being restored, apart from lost requests.
    pub fn is_restoring(&self) -> bool {
        self.has_to_restore() && !self.restore.was_lost
    }

    /// Takes the next request that restores the state, with so many in flight.
    pub fn next_to_restore(&mut self, in_flight: usize) -> Option<ClientRequest> {
        let at_once = if self.restore.was_lost { 1 } else { defaults::RESTORES };
        if in_flight < at_once { self.restore.requests.pop_front() } else { None }
    }

    /// Records a restore request without an answer. The client relies on it, so it is sent again, one at a time, after
    /// another answer.
    pub fn note_restore_lost(&mut self, request: ClientRequest) {
        self.restore.requests.push_back(request);
        self.restore.was_lost = true;
    }

    /// Adds state that the server is to get.
    pub fn restore_also(&mut self, request: ClientRequest) {
        self.restore.requests.push_back(request);
    }

    /// Drops a pending restore that a new choice of the client replaces.
    pub fn supersede(&mut self, choice: &ClientRequest) {
        let uri = choice.uri();
        self.restore.requests.retain(|request| request.uri() != uri);
    }

    /// Returns whether a server has answered a handshake before.
    pub fn was_ever_ready(&self) -> bool {
        self.was_ever_ready
    }

    /// Records that a server has answered a handshake. Returns whether it is the first time.
    pub fn note_ready(&mut self) -> bool {
        !std::mem::replace(&mut self.was_ever_ready, true)
    }

    /// Records a confirmed log level or subscription.
    pub fn learn(&mut self, call: &ClientRequest) {
        match call.op {
            Op::SetLevel => self.level = Some(call.clone()),
            Op::Subscribe if self.subscriptions.len() < defaults::SUBSCRIPTIONS => {
                self.subscriptions.extend(call.uri().map(|uri| (uri, call.clone())));
            }
            Op::Unsubscribe => drop(call.uri().and_then(|uri| self.subscriptions.remove(&uri))),
            _ => {}
        }
    }

    /// Drops a subscription that the server refused.
    pub fn forget_subscription(&mut self, call: &ClientRequest) {
        if let Some(uri) = call.uri() {
            self.subscriptions.remove(&uri);
        }
    }

    /// Starts the session on a new link. Returns the handshake to replay, if there is one.
    pub fn begin(&mut self) -> Option<ClientRequest> {
        let handshake = self.handshake.clone();
        self.state = if handshake.is_some() { State::Handshake } else { State::New };
        handshake
    }

    /// Returns the handshake to replay if the session is lost; it counts as in flight from then on.
    pub fn reinitialize(&mut self) -> Option<ClientRequest> {
        if self.state == State::Lost { self.begin() } else { None }
    }

    /// The kept handshake.
    pub fn handshake(&self) -> Option<ClientRequest> {
        self.handshake.clone()
    }

    /// Returns whether a handshake was ever answered with success.
    pub fn was_initialized(&self) -> bool {
        self.handshake.is_some()
    }

    /// Completes the replayed handshake; the state is to be restored. Returns the `initialized` notification.
    pub fn complete(&mut self) -> Option<Message> {
        self.state = State::Ready;
        let requests = self.level.iter().chain(self.subscriptions.values()).cloned().collect();
        self.restore = Restore { requests, was_lost: false };
        self.initialized.clone()
    }

    /// Records the loss of the link.
    pub fn lose(&mut self) {
        self.state = if self.handshake.is_some() { State::Lost } else { State::New };
    }

    /// Records the client's handshake after its successful answer, for replays.
    pub fn learn_handshake(&mut self, client: Option<ClientId>, handshake: ClientRequest, answer: Message) {
        self.state = State::Ready;
        self.handshake = Some(handshake);
        (self.client, self.answer) = (client, Some(answer));
        self.initialized = None;
        self.level = None;
        self.subscriptions.clear();
    }

    /// Records a handshake that was answered from the cache or provisionally: the server still has to be initialized.
    pub fn keep(&mut self, client: ClientId, handshake: ClientRequest, answer: Message) {
        self.learn_handshake(Some(client), handshake, answer);
        self.state = State::Lost;
    }

    /// The same for a handshake that is in flight already.
    pub fn adopt(&mut self, client: ClientId, handshake: ClientRequest, answer: Message) {
        self.learn_handshake(Some(client), handshake, answer);
        self.state = State::Handshake;
    }

    /// Records the client's `initialized`.
    pub fn learn_initialized(&mut self, notice: &Message) {
        self.initialized = Some(notice.clone());
    }
}
