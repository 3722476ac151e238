//! A scripted MCP server, on parsed messages.
//!
//! The two eras differ in how a conversation begins and in what may be said in it ([`legacy`], [`modern`]); what a server
//! does with a request once it is admitted is the same, and is a job of a few steps (`server/job.rs`). The server never sees
//! the client's ids; it answers with whatever id it was given.

mod action;
mod era_rules;
mod job;
pub mod legacy;
pub mod modern;
pub mod stateless;
mod encode;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Id, Kind, Message, Method};

pub use action::{Action, ReplyStream};
pub use era_rules::{Admission, EraRules};
use job::{Job, Step};

use crate::rng::Rng;
use crate::fact::Stamp;
use crate::oracle::Key;
use crate::server_faults::ServerFaults;

/// Which revision family a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With a handshake.
    Legacy,
    /// Without.
    Modern,
}

impl Era {
    /// The one that is not this one.
    pub fn other(self) -> Era {
        match self {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        }
    }
}

/// How fast and how talkative a server is.
#[derive(Clone, Debug)]
pub struct ServerProfile {
    /// Milliseconds of work per request, from and to.
    pub work: (u64, u64),
    /// Of a hundred jobs with a token, how many report progress.
    pub progress: u64,
    /// Of a hundred tool calls, how many ask the client something.
    pub server_requests: u64,
    /// Of a hundred jobs, how many say something to everybody.
    pub notices: u64,
    /// Whether texts are written with odd spacing and order.
    pub odd: bool,
    /// Which edition of its lists it has.
    pub edition: u32,
}

/// What a legacy server was told to keep in mind about its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// The log level.
    pub level: Option<String>,
    /// The resources that are subscribed to.
    pub subscriptions: BTreeSet<String>,
}

/// A server process' mind.
pub struct Server {
    rules: Box<dyn EraRules>,
    dial: u32,
    lines: u32,
    jobs: BTreeMap<u32, Job>,
    next_job: u32,
    open_requests: BTreeMap<Id, (u32, u32)>,
    /// Questions that were answered, with what tells them apart: over HTTP the same answer may come again.
    answered: BTreeMap<Id, u32>,
    requests_sent: u32,
    seen: BTreeSet<Id>,
    initialized_by: Option<Key>,
    rng: Rng,
    profile: ServerProfile,
    actions: Vec<Action>,
    /// What it is sent may overtake other things on its way, and get lost on it.
    out_of_order: bool,
    /// There is nobody to ask.
    client_gone: bool,
    /// It takes what it is sent as it comes: its client cannot know what it is.
    tolerant: bool,
    /// It is a bridge, and what it bridges to is gone.
    bridge_lost: bool,
    /// What it was told to keep in mind.
    pub state: SessionState,
}

impl Server {
    /// A fresh process of this era.
    pub fn new(era: Era, dial: u32, profile: ServerProfile, rng: Rng) -> Server {
        match era {
            Era::Legacy => Server::with_rules(Box::new(legacy::Legacy::default()), dial, profile, rng),
            Era::Modern => Server::with_rules(Box::new(modern::Modern), dial, profile, rng),
        }
    }

    /// A fresh mind behind this door.
    pub fn with_rules(rules: Box<dyn EraRules>, dial: u32, profile: ServerProfile, rng: Rng) -> Server {
        Server {
            rules,
            dial,
            lines: 0,
            jobs: BTreeMap::new(),
            next_job: 0,
            open_requests: BTreeMap::new(),
            answered: BTreeMap::new(),
            requests_sent: 0,
            seen: BTreeSet::new(),
            initialized_by: None,
            rng,
            profile,
            actions: Vec::new(),
            out_of_order: false,
            client_gone: false,
            tolerant: false,
            bridge_lost: false,
            state: SessionState::default(),
        }
    }

    /// The same over HTTP, where each message has its own way and one may overtake the other.
    pub fn over_http(mut self) -> Server {
        self.out_of_order = true;
        self
    }

    /// One that nobody expects what it is: it does not complain.
    pub fn tolerating_violations(mut self) -> Server {
        self.tolerant = true;
        self
    }

    /// It loses what it is a bridge to.
    pub fn lose_bridge(&mut self) {
        self.bridge_lost = true;
    }

    /// Which edition of its lists it has.
    pub fn edition(&self) -> u32 {
        self.profile.edition
    }

    /// Over which streams it says what this request listens for: more than one if it was not told of the end of the last.
    pub fn listens_to(&self, key: Key) -> impl Iterator<Item = u32> {
        let serves = move |job: &&Job| job.key == Some(key) && job.method == Method::SubscriptionsListen;
        self.jobs.values().filter(serves).map(|job| job.reply_to.stream)
    }

    /// Reads one message; gives back what it does about it.
    pub fn receive(&mut self, message: &Message, key: Option<Key>, reply_to: ReplyStream, faults: &ServerFaults) -> Vec<Action> {
        match message.kind() {
            Kind::Request => self.receive_request(message, key, reply_to, faults),
            Kind::Notification => self.receive_notification(message, faults),
            Kind::Result | Kind::Error => self.receive_reply(message),
        }
        if self.tolerant {
            self.actions.retain(|action| !matches!(action, Action::Violation(_)));
        }
        std::mem::take(&mut self.actions)
    }

    /// Goes on with a job.
    pub fn continue_job(&mut self, job: u32, faults: &ServerFaults) -> Vec<Action> {
        self.step(job, faults);
        std::mem::take(&mut self.actions)
    }

    /// The world has healed: what hung is answered now.
    pub fn release_held(&mut self) -> Vec<Action> {
        for (&name, job) in &mut self.jobs {
            if std::mem::take(&mut job.held) {
                job.steps.clear();
                job.steps.push_back((Duration::ZERO, Step::Reply));
                self.actions.push(Action::Continue(name, Duration::from_millis(1)));
            }
        }
        // Over HTTP a question can have been lost on its way without anybody noticing.
        if self.out_of_order {
            let waiting = self.open_requests.values().map(|(job, _)| Action::Continue(*job, Duration::from_millis(1)));
            self.actions.extend(waiting.collect::<Vec<_>>());
        }
        std::mem::take(&mut self.actions)
    }

    /// Its client can no longer answer it: whatever waits for an answer goes on without, and nothing is asked any more.
    pub fn stop_asking(&mut self) -> Vec<Action> {
        self.client_gone = true;
        for (job, _) in std::mem::take(&mut self.open_requests).into_values() {
            self.actions.push(Action::Continue(job, Duration::from_micros(50)));
        }
        std::mem::take(&mut self.actions)
    }

    /// Says something to everybody, if the conversation has come that far.
    pub fn send_notice(&mut self) -> Vec<Action> {
        if self.rules.may_notify() {
            self.notice(0);
        }
        std::mem::take(&mut self.actions)
    }

    /// Nobody wants what belongs to this stream any more.
    pub fn forget(&mut self, stream: u32) {
        self.jobs.retain(|_, job| job.reply_to.stream != stream);
    }

    /// Requests that it has read and not answered.
    pub fn open_jobs(&self) -> usize {
        self.jobs.len()
    }

    /// An id that it was given and has not answered, for faults that say something odd about one.
    pub fn an_open_id(&self) -> Option<Id> {
        self.jobs.values().next().map(|job| job.id.clone())
    }

    fn receive_request(&mut self, message: &Message, key: Option<Key>, reply_to: ReplyStream, faults: &ServerFaults) {
        let id = Id::from_raw(message.id().unwrap_or_default());
        if !self.seen.insert(id.clone()) {
            self.actions.push(Action::Violation(format!("was given the id {id} twice")));
        }
        if self.bridge_lost {
            let stamp = self.stamp();
            let text = *self.rng.pick(&["Connection closed", "Not connected", "MCP error -32001: Request timed out"]);
            let body = encode::error(-32000, text, stamp);
            return self.answer(&id, key, reply_to, ("error", body), self.profile.odd, faults);
        }
        let mut violations = Vec::new();
        if message.method() == Method::Initialize
            && std::mem::replace(&mut self.initialized_by, key) == key
            && key.is_some()
            && !self.rules.allows_repeated_initialize()
        {
            violations.push("was sent the same greeting twice".into());
        }
        let admission = self.rules.admit(message, &mut violations);
        self.actions.extend(violations.into_iter().map(Action::Violation));
        match admission {
            Admission::Job => self.begin(message, id, key, reply_to, faults),
            // What cannot be read is said again later, and only jobs can be; a greeting is at least put so that it names itself.
            Admission::Result(_) if faults.malformed_json && message.method() != Method::Initialize => {
                self.begin(message, id, key, reply_to, faults);
            }
            Admission::Result(body) => {
                self.actions.extend(key.map(Action::Run));
                let body = self.stamped(&body);
                let odd = self.profile.odd && !faults.malformed_json;
                self.answer(&id, key, reply_to, ("result", body), odd, faults);
            }
            Admission::Error(code, text) => {
                let stamp = self.stamp();
                let body = encode::error(code, text, stamp);
                self.answer(&id, key, reply_to, ("error", body), self.profile.odd, faults);
            }
            Admission::Accepted => {}
        }
    }

    fn receive_notification(&mut self, message: &Message, faults: &ServerFaults) {
        let mut violations = Vec::new();
        self.rules.admit(message, &mut violations);
        self.actions.extend(violations.into_iter().map(Action::Violation));
        if message.method() == Method::Cancelled {
            let Some(raw) = message.get(&["requestId"]) else { return };
            let id = Id::from_raw(raw);
            if !self.seen.contains(&id) && !self.out_of_order {
                self.actions.push(Action::Violation(format!("was told to cancel {id}, which it never had")));
            }
            if faults.answer_delay.is_zero() {
                self.jobs.retain(|_, job| job.id != id);
            }
        }
    }

    fn receive_reply(&mut self, message: &Message) {
        let id = Id::from_raw(message.id().unwrap_or_default());
        // An answer whose fate nobody knew is sent again over HTTP, and servers ignore the second; it must still be the same.
        let again = self.answered.get(&id).filter(|_| self.out_of_order).map(|nonce| (None, *nonce));
        let Some((job, nonce)) = self.open_requests.remove(&id).map(|(job, nonce)| (Some(job), nonce)).or(again) else {
            if self.client_gone {
                return;
            }
            self.actions.push(Action::Violation(format!("got an answer to {id}, which it never asked")));
            return;
        };
        let answered = message.get(&["sim/ask"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse::<u32>().ok());
        if message.kind() == Kind::Result && answered != Some(nonce + (self.dial << 16)) {
            self.actions.push(Action::Violation(format!("got the answer to another question under {id}")));
        }
        self.answered.insert(id, nonce);
        if let Some(job) = job
            && self.jobs.contains_key(&job)
        {
            self.actions.push(Action::Continue(job, Duration::from_micros(50)));
        }
    }

    /// What the client wants to be remembered is remembered from the moment in which it is read.
    fn record_state(&mut self, message: &Message) {
        let text = |name: &str| message.get_str(&[name]).map(std::borrow::Cow::into_owned);
        match message.method() {
            Method::LoggingSetLevel => self.state.level = text("level"),
            Method::ResourcesSubscribe => self.state.subscriptions.extend(text("uri")),
            Method::ResourcesUnsubscribe => {
                text("uri").map(|uri| self.state.subscriptions.remove(&uri));
            }
            _ => {}
        }
    }

    fn notice(&mut self, stream: u32) {
        let stamp = self.stamp();
        let line = encode::notice(stamp, &mut self.rng);
        self.actions.push(Action::Notify(stream, line, stamp));
    }

    fn answer(
        &mut self,
        id: &Id,
        key: Option<Key>,
        ReplyStream { stream, .. }: ReplyStream,
        (member, body): (&str, String),
        odd: bool,
        faults: &ServerFaults,
    ) {
        let raw = String::from_utf8_lossy(id.as_bytes()).into_owned();
        let id =
            if faults.ids_as_strings && !faults.malformed_json && id.as_u64().is_some() { format!("\"{raw}\"") } else { raw };
        let line = encode::response(&id, member, &body, odd, &mut self.rng);
        if faults.malformed_json {
            // The answer is lost in the noise: cut in the middle, so that it is no JSON any more.
            self.actions.push(Action::WriteMalformed(stream, line.slice(..line.len() - 3)));
            return;
        }
        let body = Bytes::from(body);
        // Over HTTP the answer ends its stream, so whatever is said twice is said before.
        if faults.duplicates_answers && stream != 0 {
            self.actions.push(Action::Write(stream, line.clone()));
        }
        self.actions.push(Action::Answer(stream, line.clone(), key, body));
        if faults.duplicates_answers && stream == 0 {
            self.actions.push(Action::Write(stream, line));
        }
    }

    fn stamp(&mut self) -> Stamp {
        self.lines += 1;
        Stamp { dial: self.dial, line: self.lines }
    }

    fn stamped(&mut self, body: &str) -> String {
        let stamp = self.stamp();
        encode::with_stamp(body, stamp)
    }
}
