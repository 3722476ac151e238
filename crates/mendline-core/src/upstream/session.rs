//! One handshake on a link, and what must be said again on the next one.
//!
//! In the legacy era a conversation begins with `initialize`, and a server that has just been restarted knows nothing of
//! the one that its client had. So the client's own handshake is kept, byte for byte, and replayed on every new link before
//! anything else is let through. So are the log level that it chose and the resources that it has subscribed to.
//!
//! A modern conversation has no handshake: nothing is kept, and every link is open at once.

use std::collections::{BTreeMap, VecDeque};

use mendline_wire::{Message, Method};

use crate::defaults;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No link, or one over which nothing has to be said first.
    New,
    /// The kept handshake has been sent on the current link, and its answer is awaited.
    Handshake,
    /// Initialized on the current link.
    Ready,
    /// The link is gone; the handshake is kept.
    Lost,
}

/// The handshake and where it stands.
#[derive(Debug)]
pub struct Session {
    state: State,
    handshake: Option<Message>,
    initialized: Option<Message>,
    /// The client's choice of log level, as it was last confirmed.
    level: Option<Message>,
    /// Its subscriptions, by the resource.
    subscriptions: BTreeMap<String, Message>,
}

impl Session {
    pub fn new() -> Self {
        Session { state: State::New, handshake: None, initialized: None, level: None, subscriptions: BTreeMap::new() }
    }

    /// May calls go out over a link that is up?
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::New | State::Ready)
    }

    /// Is this a legacy conversation that has begun on the current link?
    pub fn is_initialized(&self) -> bool {
        self.state == State::Ready
    }

    /// The log level that the client has asked for, if it has.
    pub fn log_level(&self) -> Option<String> {
        Some(self.level.as_ref()?.get_str(&["level"])?.into_owned())
    }

    /// What has to be told to a server after it was re-initialized, so that it knows what the last one knew.
    pub fn to_restore(&self) -> VecDeque<Message> {
        self.level.iter().chain(self.subscriptions.values()).cloned().collect()
    }

    /// The server confirmed something that the next one has to be told, too.
    pub fn learn(&mut self, call: &Message) {
        let uri = || call.get_str(&["uri"]).map(std::borrow::Cow::into_owned);
        match call.method() {
            Method::LoggingSetLevel => self.level = Some(call.clone()),
            Method::ResourcesSubscribe if self.subscriptions.len() < defaults::SUBSCRIPTIONS => {
                self.subscriptions.extend(uri().map(|uri| (uri, call.clone())));
            }
            Method::ResourcesUnsubscribe => drop(uri().and_then(|uri| self.subscriptions.remove(&uri))),
            _ => {}
        }
    }

    /// The next server does not want to know of it.
    pub fn forget_subscription(&mut self, call: &Message) {
        if let Some(uri) = call.get_str(&["uri"]) {
            self.subscriptions.remove(uri.as_ref());
        }
    }

    /// A new link is up. Gives the handshake that has to be replayed first, if there is one.
    pub fn begin(&mut self) -> Option<Message> {
        let handshake = self.handshake.clone();
        self.state = if handshake.is_some() { State::Handshake } else { State::New };
        handshake
    }

    /// The handshake that has to be replayed before anything else, if the session is lost. From then on it counts as under way.
    pub fn reinitialize(&mut self) -> Option<Message> {
        if self.state == State::Lost { self.begin() } else { None }
    }

    /// Has a handshake been answered well, on whatever link?
    pub fn was_initialized(&self) -> bool {
        self.handshake.is_some()
    }

    /// The replayed handshake was answered well. Gives what completes it.
    pub fn complete(&mut self) -> Option<Message> {
        self.state = State::Ready;
        self.initialized.clone()
    }

    /// The link is gone.
    pub fn lose(&mut self) {
        self.state = if self.handshake.is_some() { State::Lost } else { State::New };
    }

    /// The client's own handshake was answered well: this is what will be replayed from now on.
    pub fn learn_handshake(&mut self, handshake: Message) {
        self.state = State::Ready;
        self.handshake = Some(handshake);
        self.initialized = None;
        self.level = None;
        self.subscriptions.clear();
    }

    /// The client's handshake was answered in the server's stead: the server is to be initialized as if its session were lost.
    pub fn keep(&mut self, handshake: Message) {
        self.learn_handshake(handshake);
        self.state = State::Lost;
    }

    /// The same, when the handshake is on its way already.
    pub fn adopt(&mut self, handshake: Message) {
        self.learn_handshake(handshake);
        self.state = State::Handshake;
    }

    /// The client completed its handshake.
    pub fn learn_notice(&mut self, notice: &Message) {
        if notice.method() == Method::Initialized {
            self.initialized = Some(notice.clone());
        }
    }
}
