//! One greeting on a link, and what must be said again on the next one.
//!
//! In the legacy era a conversation begins with `initialize`, and a server that has just been restarted knows nothing of
//! the one that its client had. So the client's own greeting is kept, byte for byte, and replayed on every new link before
//! anything else is let through. So are the log level that it chose and the resources that it has subscribed to.
//!
//! A modern conversation has no greeting: nothing is kept, and every link is open at once.

use std::collections::{BTreeMap, VecDeque};

use mendline_wire::{Message, Method};

use crate::defaults;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No link, or one over which nothing has to be said first.
    New,
    /// The kept greeting has been sent on the current link, and its answer is awaited.
    Greeting,
    /// Greeted on the current link.
    Ready,
    /// The link is gone; the greeting is kept.
    Lost,
}

/// The greeting and where it stands.
#[derive(Debug)]
pub struct Session {
    state: State,
    greeting: Option<Message>,
    initialized: Option<Message>,
    /// The client's choice of log level, as it was last confirmed.
    level: Option<Message>,
    /// Its subscriptions, by the resource.
    subscriptions: BTreeMap<String, Message>,
}

impl Session {
    pub fn new() -> Self {
        Session { state: State::New, greeting: None, initialized: None, level: None, subscriptions: BTreeMap::new() }
    }

    /// May calls go out over a link that is up?
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::New | State::Ready)
    }

    /// Is this a legacy conversation that has begun on the current link?
    pub fn is_greeted(&self) -> bool {
        self.state == State::Ready
    }

    /// The log level that the client has asked for, if it has.
    pub fn log_level(&self) -> Option<String> {
        Some(self.level.as_ref()?.get_str(&["level"])?.into_owned())
    }

    /// What has to be told to a server after it was greeted again, so that it knows what the last one knew.
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

    /// A new link is up. Gives the greeting that has to be replayed first, if there is one.
    pub fn begin(&mut self) -> Option<Message> {
        let greeting = self.greeting.clone();
        self.state = if greeting.is_some() { State::Greeting } else { State::New };
        greeting
    }

    /// The greeting that has to be replayed before anything else, if the session is lost. From then on it counts as under way.
    pub fn greet_again(&mut self) -> Option<Message> {
        if self.state == State::Lost { self.begin() } else { None }
    }

    /// Has a greeting been answered well, on whatever link?
    pub fn was_greeted(&self) -> bool {
        self.greeting.is_some()
    }

    /// The replayed greeting was answered well. Gives what completes it.
    pub fn complete(&mut self) -> Option<Message> {
        self.state = State::Ready;
        self.initialized.clone()
    }

    /// The link is gone.
    pub fn lose(&mut self) {
        self.state = if self.greeting.is_some() { State::Lost } else { State::New };
    }

    /// The client's own greeting was answered well: this is what will be replayed from now on.
    pub fn learn_greeting(&mut self, greeting: Message) {
        self.state = State::Ready;
        self.greeting = Some(greeting);
        self.initialized = None;
        self.level = None;
        self.subscriptions.clear();
    }

    /// The client's greeting was answered in the server's stead: the server is to be greeted as if its session were lost.
    pub fn keep(&mut self, greeting: Message) {
        self.learn_greeting(greeting);
        self.state = State::Lost;
    }

    /// The same, when the greeting is on its way already.
    pub fn adopt(&mut self, greeting: Message) {
        self.learn_greeting(greeting);
        self.state = State::Greeting;
    }

    /// The client completed its greeting.
    pub fn learn_notice(&mut self, notice: &Message) {
        if notice.method() == Method::Initialized {
            self.initialized = Some(notice.clone());
        }
    }
}
