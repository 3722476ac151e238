//! A scripted MCP server that works on parsed messages.
//!
//! The eras differ in the handshake and in the messages that they allow ([`legacy`], [`modern`]). Once a request is
//! admitted, a server handles it in the same way in every era: as a job of a few steps (`server/job.rs`). The server
//! never sees the ids of the client; it answers with the id that it was given.

mod action;
mod encode;
mod era_rules;
mod job;
pub mod legacy;
pub mod modern;
pub mod stateless;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Id, Kind, Message, Method};

pub use action::{Action, ReplyStream};
pub use era_rules::{Admission, EraRules};
use job::{Job, Step};

use crate::fact::Stamp;
use crate::oracle::Key;
use crate::rng::Rng;
use crate::server_faults::ServerFaults;

/// The texts of a bridge whose own connection is gone.
const LOST_BRIDGE: [&str; 3] = ["Connection closed", "Not connected", "MCP error -32001: Request timed out"];

/// Returns whether a bridge without its server wrote this answer.
pub fn is_of_lost_bridge(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    LOST_BRIDGE.iter().any(|lost| text.contains(&format!(r#""message":"{lost}""#)))
}

/// The family of protocol revisions that a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With a handshake.
    Legacy,
    /// Without.
    Modern,
}

impl Era {
    /// Returns the other era.
    pub fn other(self) -> Era {
        match self {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        }
    }
}

/// The speed of a server and the messages that it sends.
#[derive(Clone, Debug)]
pub struct ServerProfile {
    /// Milliseconds of work per request: minimum and maximum.
    pub work: (u64, u64),
    /// Percentage of jobs with a progress token that report progress.
    pub progress: u64,
    /// Percentage of tool calls that send a request to the client.
    pub server_requests: u64,
    /// Percentage of jobs that send a notification.
    pub notices: u64,
    /// Messages use unusual spacing and member order.
    pub odd: bool,
    /// The edition of its lists.
    pub edition: u32,
}

/// The session state that a client has set on a legacy server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// The log level.
    pub level: Option<String>,
    /// The subscribed resources.
    pub subscriptions: BTreeSet<String>,
}

/// A server.
pub struct Server {
    rules: Box<dyn EraRules>,
    dial: u32,
    lines: u32,
    jobs: BTreeMap<u32, Job>,
    next_job: u32,
    open_requests: BTreeMap<Id, (u32, u32)>,
    /// Requests to the client that were answered, with their nonces: over HTTP the same answer may arrive twice.
    answered: BTreeMap<Id, u32>,
    requests_sent: u32,
    seen: BTreeSet<Id>,
    initialized_by: Option<Key>,
    rng: Rng,
    profile: ServerProfile,
    actions: Vec<Action>,
    /// Messages may arrive out of order, or not at all.
    out_of_order: bool,
    /// The client can no longer answer requests.
    client_gone: bool,
    /// Protocol violations are not recorded, because the client cannot know the era of this server.
    tolerant: bool,
    /// The server is a bridge and has lost its remote side.
    bridge_lost: bool,
    /// The session state.
    pub state: SessionState,
}

impl Server {
    /// Creates a server of this era.
    pub fn new(era: Era, dial: u32, profile: ServerProfile, rng: Rng) -> Server {
        match era {
            Era::Legacy => Server::with_rules(Box::new(legacy::Legacy::default()), dial, profile, rng),
            Era::Modern => Server::with_rules(Box::new(modern::Modern), dial, profile, rng),
        }
    }

    /// Creates a server with these rules.
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

    /// Marks the server as reached over HTTP, where messages may overtake each other.
    pub fn over_http(mut self) -> Server {
        self.out_of_order = true;
        self
    }

    /// Ignores protocol violations.
    pub fn tolerating_violations(mut self) -> Server {
        self.tolerant = true;
        self
    }

    /// Loses the remote side of the bridge.
    pub fn lose_bridge(&mut self) {
        self.bridge_lost = true;
    }

    /// The edition of its lists.
    pub fn edition(&self) -> u32 {
        self.profile.edition
    }

    /// Returns the streams that serve this subscription: more than one if the server did not notice the end of an
    /// earlier stream.
    pub fn listens_to(&self, key: Key) -> impl Iterator<Item = u32> {
        let serves = move |job: &&Job| job.key == Some(key) && job.method == Method::SubscriptionsListen;
        self.jobs.values().filter(serves).map(|job| job.reply_to.stream)
    }

    /// Receives one message and returns the resulting actions.
    pub fn receive(
        &mut self,
        message: &Message,
        key: Option<Key>,
        reply_to: ReplyStream,
        faults: &ServerFaults,
    ) -> Vec<Action> {
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

    /// Runs the next step of a job.
    pub fn continue_job(&mut self, job: u32, faults: &ServerFaults) -> Vec<Action> {
        self.step(job, faults);
        std::mem::take(&mut self.actions)
    }

    /// Answers everything that was held back, after the end of a fault.
    pub fn release_held(&mut self) -> Vec<Action> {
        for (&name, job) in &mut self.jobs {
            if std::mem::take(&mut job.held) {
                job.steps.clear();
                job.steps.push_back((Duration::ZERO, Step::Reply));
                self.actions.push(Action::Continue(name, Duration::from_millis(1)));
            }
        }
        // Over HTTP, a request to the client can be lost unnoticed.
        if self.out_of_order {
            let waiting = self.open_requests.values().map(|(job, _)| Action::Continue(*job, Duration::from_millis(1)));
            self.actions.extend(waiting.collect::<Vec<_>>());
        }
        std::mem::take(&mut self.actions)
    }

    /// Stops sending requests to the client. Jobs that wait for an answer continue without it.
    pub fn stop_asking(&mut self) -> Vec<Action> {
        self.client_gone = true;
        for (job, _) in std::mem::take(&mut self.open_requests).into_values() {
            self.actions.push(Action::Continue(job, Duration::from_micros(50)));
        }
        std::mem::take(&mut self.actions)
    }

    /// Sends a notification, if the handshake allows it.
    pub fn send_notice(&mut self) -> Vec<Action> {
        if self.rules.may_notify() {
            self.notice(0);
        }
        std::mem::take(&mut self.actions)
    }

    /// Drops all jobs of this stream.
    pub fn forget(&mut self, stream: u32) {
        self.jobs.retain(|_, job| job.reply_to.stream != stream);
    }

    /// Returns the number of requests that are read and not answered.
    pub fn open_jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the id of an open request.
    pub fn an_open_id(&self) -> Option<Id> {
        self.jobs.values().next().map(|job| job.id.clone())
    }

    fn receive_request(&mut self, message: &Message, key: Option<Key>, reply_to: ReplyStream, faults: &ServerFaults) {
        let id = Id::from_raw(message.id().unwrap_or_default());
        if !self.seen.insert(id.clone()) {
            self.actions.push(Action::Violation(format!("received the id {id} twice")));
        }
        if self.bridge_lost {
            let stamp = self.stamp();
            let text = *self.rng.pick(&LOST_BRIDGE);
            let body = encode::error(-32000, text, stamp);
            return self.answer(&id, key, reply_to, ("error", body), self.profile.odd, faults);
        }
        let mut violations = Vec::new();
        if message.method() == Method::Initialize
            && std::mem::replace(&mut self.initialized_by, key) == key
            && key.is_some()
            && !self.rules.allows_repeated_initialize()
        {
            violations.push("received the same initialize request twice".into());
        }
        let admission = self.rules.admit(message, &mut violations);
        self.actions.extend(violations.into_iter().map(Action::Violation));
        match admission {
            Admission::Job => self.begin(message, id, key, reply_to, faults),
            // Malformed answers are repeated later, and only jobs can be repeated. A malformed answer to `initialize`
            // still names its request.
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
                self.actions
                    .push(Action::Violation(format!("received a cancellation of {id}, which it never received")));
            }
            if faults.answer_delay.is_zero() {
                self.jobs.retain(|_, job| job.id != id);
            }
        }
    }

    fn receive_reply(&mut self, message: &Message) {
        let id = Id::from_raw(message.id().unwrap_or_default());
        // Over HTTP, an answer with an unknown outcome is sent again, and servers ignore the second copy. Both copies
        // must be equal.
        let again = self.answered.get(&id).filter(|_| self.out_of_order).map(|nonce| (None, *nonce));
        let Some((job, nonce)) = self.open_requests.remove(&id).map(|(job, nonce)| (Some(job), nonce)).or(again) else {
            if self.client_gone {
                return;
            }
            self.actions.push(Action::Violation(format!("received an answer to {id}, which it never sent")));
            return;
        };
        let answered = message.get(&["sim/ask"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse::<u32>().ok());
        if message.kind() == Kind::Result && answered != Some(nonce + (self.dial << 16)) {
            self.actions.push(Action::Violation(format!("received the answer to another request under the id {id}")));
        }
        self.answered.insert(id, nonce);
        if let Some(job) = job
            && self.jobs.contains_key(&job)
        {
            self.actions.push(Action::Continue(job, Duration::from_micros(50)));
        }
    }

    /// Records the session state that a request sets, at the time at which the request is read.
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
        let id = if faults.ids_as_strings && !faults.malformed_json && id.as_u64().is_some() {
            format!("\"{raw}\"")
        } else {
            raw
        };
        let line = encode::response(&id, member, &body, odd, &mut self.rng);
        if faults.malformed_json {
            // The answer is truncated, so that it is not valid JSON.
            self.actions.push(Action::WriteMalformed(stream, line.slice(..line.len() - 3)));
            return;
        }
        let body = Bytes::from(body);
        // Over HTTP the answer ends its stream, so the duplicate is written first.
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
