//! One call to an upstream, with its deadlines.

use std::sync::Arc;
use std::time::Duration;

use mendline_wire::{Method, Patch, Span, Spliced};

use super::http::Stream;
use super::internal::InternalRequest;
use super::outbox::ByteRange;
use super::retry_budget::Incident;
use crate::config::{Timeouts, UpstreamConfig};
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Event, ToolName};
use crate::evidence::{Evidence, Outcome};
use crate::moment::Moment;
use crate::policy::effect::Effect;
use crate::port::{Challenge, ClientId, UpstreamId};
use crate::reason::Reason;
use crate::request::{ClientRequest, ListKind, Op};
use crate::slab::Key;
use crate::timers::TimerId;

/// The owner of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client's request.
    Client { client: ClientId, request: Key },
    /// Mendline itself.
    Us(InternalRequest),
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// Waits for the upstream, for a slot, or for its backoff.
    Waiting {
        /// The start of the wait, which has its own limit.
        since: Moment,
        /// The earliest time to send it.
        not_before: Moment,
    },
    /// In the outbox of a link that is up; no byte of it is written.
    Queued,
    /// Handed to the shell.
    Sent(SentOver),
}

/// The transport of a sent call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SentOver {
    /// As a line of a child's stdin.
    Stdio(ByteRange),
    /// As an HTTP exchange.
    Exchange,
}

/// The key of the first attempt of a call that was sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstTry(pub Key);

/// A lost attempt that is decided when the hints of its tool are known.
#[derive(Debug)]
pub struct AwaitedHints {
    pub evidence: Evidence,
    pub not_before: Moment,
    pub why: Reason,
    pub incident: Incident,
}

/// A failed attempt that waits for the verdict about the server.
#[derive(Debug)]
pub struct PendingVerdict {
    pub evidence: Evidence,
    pub why: Reason,
    /// The server refused it, and would refuse it again if it is available.
    pub is_refusal: bool,
    /// A configured rule answers it, whatever the verdict.
    pub is_final: bool,
}

/// One call.
#[derive(Debug)]
pub struct Call {
    pub owner: Owner,
    /// Its number in events, for all its attempts.
    pub name: u64,
    pub request: ClientRequest,
    pub effect: Effect,
    /// The tool that it calls.
    pub tool: Option<ToolName>,
    pub state: State,
    /// Attempts that the peer may have received whole.
    pub attempts: u32,
    /// Attempts of these that do not count against the limit: the server was overloaded, or refused it while it was
    /// away.
    pub uncounted: u32,
    /// The least certain outcome of the attempts so far: a later attempt cannot undo the effect of an earlier one.
    pub worst_outcome: Outcome,
    pub arrived: Moment,
    /// The time at which its current attempt was handed to the shell.
    pub attempt_started: Moment,
    /// Its current attempt was given up, and the exit of the child settles it.
    pub is_given_up: bool,
    /// Over HTTP, the number of exchanges that were begun up to its current attempt.
    pub begun: u64,
    /// Its last attempt failed, and the verdict about the server is open.
    pub pending: Option<Box<PendingVerdict>>,
    /// Its outcome is unknown, and the hints of its tool decide whether it is sent again.
    pub awaited_hints: Option<Box<AwaitedHints>>,
    /// The tools were listed to learn its effect.
    pub is_looked_up: bool,
    /// The time after which its current attempt counts as silent.
    pub silence_limit: Duration,
    /// The time of the last byte that the server sent about it.
    pub last_byte: Moment,
    /// It was reported as silent.
    pub is_silent: bool,
    /// It was silent and sent once more; its first attempt is still in flight.
    pub first_try: Option<FirstTry>,
    /// An event has reported it as sent, and none as returned or ended.
    pub is_out: bool,
    /// The tool that it calls, if that has limits of its own.
    pub limited_tool: Option<Arc<str>>,
    /// The timeout of its tool, if it has its own.
    pub timeout: Option<Duration>,
    /// The time of its arrival or its last progress.
    pub renewed: Moment,
    pub timer: Option<(TimerId, Moment)>,
    token: Option<Span>,
    /// The highest progress that the client has seen.
    progress: Option<f64>,
    /// The state of its response stream, over HTTP.
    pub stream: Stream,
    /// It was refused for a lost session before; a second refusal is the server's answer.
    pub refused_once: bool,
    /// The challenge for which it was sent again; `None` once the server has accepted it.
    pub challenged: Option<Challenge>,
    /// It was resent on a fresh connection, after 421 Misdirected Request or a refused HTTP/2 stream.
    pub sent_afresh: bool,
    /// The number of the session that last refused it.
    pub lost_in: Option<u32>,
    /// The start of its wait to be sent, and the number of attempts that were not sent whole.
    pub waited_since: Option<Moment>,
    pub unsent: u32,
    /// It was refused for its headers and waits for the lookup of the tools.
    pub awaits_lookup: bool,
    /// The reason why its last attempt failed.
    pub last_failure: Option<Reason>,
    /// A subscription that the server has confirmed: the client relies on it from then on.
    pub confirmed: bool,
    /// Mendline has reported progress of its own.
    has_own_progress: bool,
    /// The time at which a handshake is answered provisionally.
    pub grace: Option<Moment>,
    /// A handshake with a server that has come up before.
    pub is_repeated: bool,
    /// The configuration at its arrival, if it has changed since.
    pinned: Option<Arc<UpstreamConfig>>,
}

impl Call {
    pub fn new(owner: Owner, request: ClientRequest, effect: Effect, now: Moment) -> Self {
        let token = request.message.progress_token();
        let state = State::Waiting { since: now, not_before: now };
        Call {
            owner,
            name: 0,
            request,
            effect,
            tool: None,
            state,
            attempts: 0,
            uncounted: 0,
            worst_outcome: Outcome::NotSent,
            arrived: now,
            attempt_started: now,
            is_given_up: false,
            last_byte: now,
            begun: 0,
            pending: None,
            awaited_hints: None,
            is_looked_up: false,
            silence_limit: defaults::SILENCE,
            is_silent: false,
            first_try: None,
            is_out: false,
            limited_tool: None,
            timeout: None,
            renewed: now,
            timer: None,
            token,
            progress: None,
            stream: Stream::default(),
            refused_once: false,
            challenged: None,
            sent_afresh: false,
            lost_in: None,
            waited_since: None,
            unsent: 0,
            awaits_lookup: false,
            last_failure: None,
            confirmed: false,
            has_own_progress: false,
            grace: None,
            is_repeated: false,
            pinned: None,
        }
    }

    /// Keeps the old configuration for this call when it changes.
    pub fn keep(&mut self, old: &Arc<UpstreamConfig>) {
        self.pinned.get_or_insert_with(|| Arc::clone(old));
    }

    /// The configuration that applies to this call; `configured` is the current one. All decisions about an accepted
    /// call use it.
    pub fn policy<'a>(&'a self, configured: &'a UpstreamConfig) -> &'a UpstreamConfig {
        self.pinned.as_deref().unwrap_or(configured)
    }

    pub fn method(&self) -> Method {
        self.request.method()
    }

    /// The event that reports it as sent.
    pub fn sent(&self, upstream: UpstreamId, key: Key) -> Event {
        let (call, attempt, number) = (self.name, self.attempts, key.number());
        match self.owner {
            Owner::Client { .. } => Event::AttemptStarted { upstream, call, attempt, number },
            Owner::Us(_) => Event::InternalRequestSent { upstream, method: self.method() },
        }
    }

    /// Emits that a sent call is waiting again. A call that was not sent emits nothing.
    pub fn emit_return(&mut self, upstream: UpstreamId, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.is_out) && matches!(self.owner, Owner::Client { .. }) {
            cx.emit(Event::CallReturned { upstream, call: self.name });
        }
    }

    /// The name that a model knows.
    pub fn what(&self) -> String {
        self.request.describe()
    }

    /// Its bytes under the id that the upstream sees.
    pub fn spliced(&self, key: Key) -> Spliced {
        let (number, text) = (Patch::number(key.number()), self.request.message.text().clone());
        match (self.request.message.id_span(), self.token) {
            (Some(id), Some(token)) => Spliced::new(text, [(id, number.clone()), (token, number)]),
            (Some(only), None) | (None, Some(only)) => Spliced::new(text, [(only, number)]),
            (None, None) => Spliced::whole(text),
        }
    }

    /// Returns whether it is not known yet whether it is sent again.
    pub fn is_undecided(&self) -> bool {
        self.pending.is_some() || self.awaited_hints.is_some()
    }

    /// Returns whether it is an internal request that is not sent yet.
    pub fn is_held_internal(&self) -> bool {
        matches!((self.owner, self.state), (Owner::Us(_), State::Queued))
    }

    /// Returns whether this call is a subscription, which ends only on request.
    pub fn is_subscription(&self) -> bool {
        self.request.op == Op::Listen
    }

    /// Returns whether this subscription covers the changes of a list.
    pub fn wants_changes_of(&self, kind: ListKind) -> bool {
        self.is_subscription() && self.request.message.get(&["notifications", kind.filter()]) == Some(b"true")
    }

    /// Its client; `None` for an internal request.
    pub fn client(&self) -> Option<ClientId> {
        match self.owner {
            Owner::Client { client, .. } => Some(client),
            Owner::Us(_) => None,
        }
    }

    /// The deadline of its answer.
    pub fn deadline(&self, configured: &UpstreamConfig) -> Option<Moment> {
        let timeouts = &self.policy(configured).timeouts;
        match self.owner {
            Owner::Us(InternalRequest::Ping | InternalRequest::Confirm) => Some(self.arrived + timeouts.ping),
            Owner::Us(InternalRequest::Lookup | InternalRequest::Hints) => Some(self.arrived + defaults::LOOKUP),
            Owner::Us(InternalRequest::Probe | InternalRequest::Silence) => Some(self.arrived + defaults::PROBE),
            Owner::Us(_) => Some(self.attempt_started + self.handshake_timeout(timeouts)),
            Owner::Client { .. } if self.is_subscription() => None,
            Owner::Client { .. } => {
                let timeout = self.timeout.unwrap_or(timeouts.call);
                Some((self.renewed + timeout).min(self.arrived + timeouts.total))
            }
        }
    }

    /// Returns whether its deadline is not before this time.
    pub fn has_time(&self, least: Option<Moment>, configured: &UpstreamConfig) -> bool {
        let Some(least) = least else { return true };
        self.deadline(configured).is_none_or(|deadline| deadline >= least)
    }

    /// The end of its wait for the upstream.
    pub fn patience(&self, configured: &UpstreamConfig) -> Option<Moment> {
        let timeouts = &self.policy(configured).timeouts;
        match self.state {
            // A confirmed subscription waits without limit.
            State::Waiting { .. } if self.confirmed => None,
            State::Waiting { since, .. } => Some(since + timeouts.recovery),
            State::Queued | State::Sent(_) => None,
        }
    }

    fn handshake_timeout(&self, timeouts: &Timeouts) -> Duration {
        if self.is_repeated { timeouts.handshake_again } else { timeouts.handshake }
    }

    /// The time at which its current attempt is given up: a handshake by its timeout, a call if that is configured.
    pub fn attempt_deadline(&self, configured: &UpstreamConfig) -> Option<Moment> {
        let timeouts = &self.policy(configured).timeouts;
        if self.is_given_up || !matches!((self.owner, self.state), (Owner::Client { .. }, State::Sent(_))) {
            return None;
        }
        match self.request.op {
            Op::Initialize => Some(self.attempt_started + self.handshake_timeout(timeouts)),
            Op::Listen => None,
            _ => timeouts.attempt.map(|attempt| self.attempt_started + attempt),
        }
    }

    /// The time at which its current attempt counts as silent.
    pub fn silent_at(&self) -> Option<Moment> {
        (self.is_watched() && self.is_sent()).then(|| self.attempt_started.max(self.last_byte) + self.silence_limit)
    }

    fn is_sent(&self) -> bool {
        matches!(self.state, State::Sent(_))
    }

    /// Returns whether its silence is to be reported.
    fn is_watched(&self) -> bool {
        let is_clients = matches!(self.owner, Owner::Client { .. });
        let is_long = self.is_subscription() || self.request.op == Op::Initialize;
        is_clients && !is_long && !self.is_silent
    }

    /// Returns whether its timer does not cover the silence of an attempt that begins now.
    pub fn is_sent_late(&self, now: Moment) -> bool {
        self.is_watched() && now.since(self.arrived) >= self.silence_limit
    }

    /// Attempts that count against the limit.
    pub fn counted(&self) -> u32 {
        self.attempts.saturating_sub(self.uncounted)
    }

    /// The beginning of a wait that starts now: the time of earlier waits counts.
    pub fn waiting_since(&self, now: Moment) -> Moment {
        let waited = self.waited_since.map_or(Duration::ZERO, |since| self.attempt_started.since(since));
        Moment(now.0.saturating_sub(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The end of its wait, by deadline or patience.
    pub fn waits_until(&self, configured: &UpstreamConfig) -> Option<Moment> {
        [self.deadline(configured), self.patience(configured)].into_iter().flatten().min()
    }

    /// The time at which it next needs attention.
    pub fn due(&self, configured: &UpstreamConfig, now: Moment) -> Option<Moment> {
        let again = match self.state {
            State::Waiting { not_before, .. } if not_before > now => Some(not_before),
            _ => None,
        };
        // One timer serves for the deadline and for silence; a call is usually sent when it arrives.
        let early =
            Some(self.arrived + self.silence_limit).filter(|at| self.is_watched() && !self.is_sent() && *at > now);
        let times = [
            early,
            self.deadline(configured),
            self.attempt_deadline(configured),
            self.silent_at(),
            self.patience(configured),
            again,
            self.stream.resume_at,
            self.grace,
        ];
        times.into_iter().flatten().min()
    }

    /// Records progress; returns whether the client should see it. Progress never falls, so values that a second
    /// attempt repeats are suppressed.
    pub fn note_progress(&mut self, value: Option<f64>, now: Moment) -> bool {
        self.renewed = now;
        let Some(value) = value else { return true };
        let is_first_hand = self.attempts <= 1 && !self.has_own_progress;
        let is_new = is_first_hand || self.progress.is_none_or(|seen| value > seen);
        if is_new {
            self.progress = Some(value);
        }
        is_new
    }

    /// The next progress value of Mendline while it waits: minimally above the client's last, so that the server's next
    /// value is not suppressed.
    pub fn next_own_progress(&mut self) -> Option<f64> {
        self.token?;
        let value = self.progress.unwrap_or(0.0) + defaults::OWN_PROGRESS_STEP;
        self.has_own_progress = true;
        self.progress = Some(value);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use mendline_wire::Message;

    fn call() -> Call {
        let text = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"t"}}}"#;
        let message = Message::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let owner = Owner::Client { client: ClientId(0), request: Key::from_number(1) };
        Call::new(owner, ClientRequest::new(message), Effect::Unsafe, Moment::ZERO)
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
