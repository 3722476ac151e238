//! One call to an upstream, and the times that bound it.

use std::sync::Arc;
use std::time::Duration;

use mendline_wire::{Message, Method, Patch, Span, Spliced};

use super::http::Stream;
use super::internal::InternalRequest;
use super::outbox::ByteRange;
use crate::config::UpstreamConfig;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Event, ToolName};
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::effect::Effect;
use crate::port::{ClientId, UpstreamId};
use crate::reason::Reason;
use crate::slab::Key;
use crate::timers::TimerId;

/// Who waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client's request.
    Client { client: ClientId, request: Key },
    /// We ourselves.
    Us(InternalRequest),
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// For the upstream, for a place, or for the time to try again.
    Waiting {
        /// Since when; waiting has its own limit.
        since: Moment,
        /// Not to be sent before.
        not_before: Moment,
    },
    /// In the outbox of a link that is up; nothing of it has left.
    Queued,
    /// Handed to the shell, one way or the other.
    Sent(SentOver),
}

/// How a call was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SentOver {
    /// As a line of a child's stdin.
    Stdio(ByteRange),
    /// As an HTTP exchange; the exchanges know the rest.
    Exchange,
}

/// One call.
#[derive(Debug)]
pub struct Call {
    pub owner: Owner,
    /// Its name in events, for all its attempts.
    pub name: u64,
    pub message: Message,
    pub effect: Effect,
    /// The tool that it calls.
    pub tool: Option<ToolName>,
    pub state: State,
    /// Attempts that count: those that the peer may have seen whole.
    pub attempts: u32,
    /// The least certain outcome of the attempts so far: what a later one says cannot undo what an earlier one may have done.
    pub worst_outcome: Outcome,
    pub arrived: Moment,
    /// When its current attempt was handed to the shell.
    pub attempt_started: Moment,
    /// It was said to be out, and neither to have come back nor to be over.
    pub is_out: bool,
    /// How long it may take, if its tool has a time of its own.
    pub timeout: Option<Duration>,
    /// When it arrived, or last made progress.
    pub renewed: Moment,
    pub timer: Option<(TimerId, Moment)>,
    token: Option<Span>,
    /// The highest progress that the client has seen.
    progress: Option<f64>,
    /// What is known of its response stream, over HTTP.
    pub stream: Stream,
    /// It has been refused for a lost session before; a second time it is the server's answer.
    pub refused_once: bool,
    /// It has been sent once more because the connection led to a server that is not responsible.
    pub misdirected_once: bool,
    /// The session that it was last refused by, as its upstream counts them.
    pub lost_in: Option<u32>,
    /// Since when it has been trying to get out, and how often it did not get there whole.
    pub waited_since: Option<Moment>,
    pub unsent: u32,
    /// It was refused for its headers and waits until the tools have been looked up.
    pub awaits_lookup: bool,
    /// What happened to its last attempt, in half a sentence.
    pub last_failure: Option<Reason>,
    /// A subscription that the server has confirmed: the client relies on it from then on.
    pub confirmed: bool,
    /// We made progress up, so that the client sees that something is done.
    has_own_progress: bool,
    /// A handshake that is answered in the server's stead then.
    pub grace: Option<Moment>,
    /// A handshake that the client made and no longer waits for: the server may take as long for it as for any call.
    pub is_first_handshake: bool,
    /// How long it waits for its upstream at most, when that is less than others do.
    pub waits: Option<Duration>,
    /// What held when it came, if that has changed since.
    pinned: Option<Arc<UpstreamConfig>>,
}

impl Call {
    pub fn new(owner: Owner, message: Message, effect: Effect, now: Moment) -> Self {
        let token = message.progress_token();
        let state = State::Waiting { since: now, not_before: now };
        Call {
            owner,
            name: 0,
            message,
            effect,
            tool: None,
            state,
            attempts: 0,
            worst_outcome: Outcome::NotSent,
            arrived: now,
            attempt_started: now,
            is_out: false,
            timeout: None,
            renewed: now,
            timer: None,
            token,
            progress: None,
            stream: Stream::default(),
            refused_once: false,
            misdirected_once: false,
            lost_in: None,
            waited_since: None,
            unsent: 0,
            awaits_lookup: false,
            last_failure: None,
            confirmed: false,
            has_own_progress: false,
            grace: None,
            is_first_handshake: false,
            waits: None,
            pinned: None,
        }
    }

    /// The configuration changes, and this call goes on under the old one.
    pub fn keep(&mut self, old: &Arc<UpstreamConfig>) {
        self.pinned.get_or_insert_with(|| Arc::clone(old));
    }

    /// The policy that holds for it, of which `configured` is the one for those that come now. Whatever is decided about a
    /// call that has been taken on is decided by this one.
    pub fn policy<'a>(&'a self, configured: &'a UpstreamConfig) -> &'a UpstreamConfig {
        self.pinned.as_deref().unwrap_or(configured)
    }

    pub fn method(&self) -> Method {
        self.message.method()
    }

    /// That it was handed to the shell.
    pub fn sent(&self, upstream: UpstreamId, key: Key) -> Event {
        let (call, attempt, number) = (self.name, self.attempts, key.number());
        match self.owner {
            Owner::Client { .. } => Event::AttemptStarted { upstream, call, attempt, number },
            Owner::Us(_) => Event::InternalRequestSent { upstream, method: self.method() },
        }
    }

    /// It is not out any more, and waits. That it was never out is no news.
    pub fn emit_return(&mut self, upstream: UpstreamId, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.is_out) && matches!(self.owner, Owner::Client { .. }) {
            cx.emit(Event::CallReturned { upstream, call: self.name });
        }
    }

    /// What a model knows it as: the tool's name, else the method.
    pub fn what(&self) -> String {
        describe(&self.message)
    }

    /// Its bytes under the name that the upstream is to know it by.
    pub fn spliced(&self, key: Key) -> Spliced {
        let (number, text) = (Patch::number(key.number()), self.message.text().clone());
        match (self.message.id_span(), self.token) {
            (Some(id), Some(token)) => Spliced::new(text, [(id, number.clone()), (token, number)]),
            (Some(only), None) | (None, Some(only)) => Spliced::new(text, [(only, number)]),
            (None, None) => Spliced::whole(text),
        }
    }

    /// Does this call end only when someone ends it?
    pub fn listens(&self) -> bool {
        self.method() == Method::SubscriptionsListen
    }

    /// When it must have been answered.
    pub fn deadline(&self, configured: &UpstreamConfig) -> Option<Moment> {
        let timeouts = &self.policy(configured).timeouts;
        match self.owner {
            Owner::Us(InternalRequest::Ping | InternalRequest::Confirm) => Some(self.arrived + timeouts.ping),
            Owner::Us(InternalRequest::Lookup) => Some(self.arrived + defaults::LOOKUP),
            Owner::Us(InternalRequest::Handshake) if self.is_first_handshake => Some(self.arrived + timeouts.call),
            Owner::Us(_) => Some(self.arrived + timeouts.handshake),
            Owner::Client { .. } if self.listens() => None,
            Owner::Client { .. } => {
                let timeout = self.timeout.unwrap_or(timeouts.call);
                Some((self.renewed + timeout).min(self.arrived + timeouts.total))
            }
        }
    }

    /// When it has waited long enough for its upstream.
    pub fn patience(&self, configured: &UpstreamConfig) -> Option<Moment> {
        let timeouts = &self.policy(configured).timeouts;
        match self.state {
            // A subscription that the client relies on is opened again whenever that becomes possible.
            State::Waiting { .. } if self.confirmed => None,
            State::Waiting { since, .. } => {
                Some(since + self.waits.map_or(timeouts.recovery, |waits| waits.min(timeouts.recovery)))
            }
            State::Queued | State::Sent(_) => None,
        }
    }

    /// Until when it waits at most.
    pub fn waits_until(&self, configured: &UpstreamConfig) -> Option<Moment> {
        [self.deadline(configured), self.patience(configured)].into_iter().flatten().min()
    }

    /// When it next needs attention.
    pub fn due(&self, configured: &UpstreamConfig, now: Moment) -> Option<Moment> {
        let again = match self.state {
            State::Waiting { not_before, .. } if not_before > now => Some(not_before),
            _ => None,
        };
        let times = [self.deadline(configured), self.patience(configured), again, self.stream.resume_at, self.grace];
        times.into_iter().flatten().min()
    }

    /// Takes note of progress; says whether the client should see it. Progress never falls, so what a second attempt
    /// repeats is kept back until it is news.
    pub fn note_progress(&mut self, value: Option<f64>, now: Moment) -> bool {
        self.renewed = now;
        let Some(value) = value else { return true };
        let is_first_hand = self.attempts <= 1 && !self.has_own_progress;
        let is_news = is_first_hand || self.progress.is_none_or(|seen| value > seen);
        if is_news {
            self.progress = Some(value);
        }
        is_news
    }

    /// Progress of our own, while it waits: a trifle more than the client has seen, so that the server's next is not kept
    /// back for it.
    pub fn next_own_progress(&mut self) -> Option<f64> {
        self.token?;
        let value = self.progress.unwrap_or(0.0) + defaults::OWN_PROGRESS_STEP;
        self.has_own_progress = true;
        self.progress = Some(value);
        Some(value)
    }
}

/// What a model knows a call as: the tool's name, else the method.
pub fn describe(message: &Message) -> String {
    let tool = if message.method() == Method::ToolsCall { message.get_str(&["name"]) } else { None };
    let what = tool.unwrap_or_else(|| message.method_name());
    // Names come from outside and end up in sentences: keep them short.
    what.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn call() -> Call {
        let text = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}"#;
        let message = Message::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let owner = Owner::Client { client: ClientId(0), request: Key::from_number(1) };
        Call::new(owner, message, Effect::Unsafe, Moment::ZERO)
    }

    #[test]
    fn progress_extends_the_deadline_up_to_the_total_timeout() {
        let config = UpstreamConfig::child("notes", "notes-server");
        let timeouts = &config.timeouts;
        let mut call = call();
        assert_eq!(call.deadline(&config), Some(Moment::ZERO + timeouts.call));
        let later = Moment::ZERO + Duration::from_secs(200);
        call.note_progress(Some(1.0), later);
        assert_eq!(call.deadline(&config), Some(later + timeouts.call));
        call.note_progress(Some(2.0), Moment::ZERO + Duration::from_secs(29 * 60));
        assert_eq!(call.deadline(&config), Some(Moment::ZERO + timeouts.total));
    }

    #[test]
    fn progress_of_a_second_attempt_never_falls() {
        let mut call = call();
        call.attempts = 1;
        assert!(call.note_progress(Some(5.0), Moment(1)));
        call.attempts = 2;
        assert!(!call.note_progress(Some(1.0), Moment(2)));
        assert!(!call.note_progress(Some(5.0), Moment(3)));
        assert!(call.note_progress(Some(6.0), Moment(4)));
    }

    #[test]
    fn upstream_sees_our_number_as_id_and_progress_token() {
        let sent = call().spliced(Key::from_number(65_537)).to_bytes();
        assert_eq!(
            sent,
            r#"{"jsonrpc":"2.0","id":65537,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":65537}}}"#
        );
    }
}
