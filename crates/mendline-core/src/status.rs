//! The status of all upstreams, folded from events.
//!
//! `status` is a fold of the events and of nothing else, so status and log cannot disagree. The simulation checks that
//! the fold agrees with the state machines.
//!
//! The fold knows no time, since events carry none. Its durations are those of events (a wait, a pause); a reader that
//! needs the rest of one records when the event arrived. A healthy call emits three events, and each costs a lookup in
//! a small map and one or two additions.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mendline_wire::Method;

use crate::config::RateLimit;
use crate::event::{Answered, CredentialState, Event, LinkState, Over, ToolName};
use crate::evidence::Outcome;
use crate::histogram::Histogram;
use crate::policy::breaker::BreakerState;
use crate::port::UpstreamId;
use crate::reason::{CredentialError, Reason, RefusalReason};
use crate::words::Cause;

/// The status of all upstreams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Each upstream with at least one event.
    pub upstreams: BTreeMap<UpstreamId, UpstreamStatus>,
}

/// The status of one upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamStatus {
    /// Its link.
    pub link: LinkState,
    /// The current or last transport.
    pub over: Option<Over>,
    /// It has given a real answer over this link.
    pub ready: bool,
    /// It was lost, and has not been ready since.
    pub lost: bool,
    /// It was ready, and the operator requested a new connection: the end of the old one is no loss.
    pub asked: bool,
    /// The next dial, or the last one since the loss.
    pub redial: Option<Redial>,
    /// The reason why it requires a login.
    pub needs_login: Option<Reason>,
    /// Its credential, if it can be renewed and an event was about it.
    pub credential: Option<CredentialStatus>,
    /// Its breaker.
    pub breaker: BreakerStatus,
    /// The tools whose breakers are not closed.
    pub tools: BTreeMap<String, BreakerStatus>,
    /// The pause that it requested, while it lasts.
    pub pause: Option<Duration>,
    /// The reason why it is not up, or last was not.
    pub last_loss: Option<Reason>,
    /// The last error of the link or of a call.
    pub last_error: Option<LastError>,
    /// Attempts to connect.
    pub dials: u64,
    /// Dials that ended without an answer.
    pub dials_failed: u64,
    /// Losses of a ready link.
    pub losses: u64,
    /// The time from the last dial to the first answer.
    pub took: Option<Duration>,
    /// Calls accepted and neither answered nor cancelled.
    pub open: u64,
    /// Of those, the sent ones.
    pub out: u64,
    /// Of those, the ones without a byte for a long time, by their numbers.
    pub silent: BTreeMap<u64, SilentCall>,
    /// Requests that were answered from the cache or provisionally.
    pub early: u64,
    /// Attempts beyond the first.
    pub retried: u64,
    /// Calls that the client cancelled or abandoned.
    pub cancelled: u64,
    /// The outcomes of tool calls.
    pub tool_calls: Counts,
    /// The outcomes of requests with other methods.
    pub other_calls: Counts,
    /// Responses that were resumed.
    pub resumed: u64,
    /// Retries that the retry budget did not allow.
    pub retries_refused: u64,
    /// Calls that waited because of the rate limit.
    pub slowed: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Changes of lists of which the client was notified.
    pub lists_changed: u64,
    /// Apparent changes of lists of which the client was not notified.
    pub list_changes_hidden: u64,
    /// The durations of answered tool calls, if there are any.
    pub latency: Option<Box<Histogram>>,
    /// The changed configuration, if it was changed.
    pub reconfigured: Option<Reconfigured>,
}

/// The credential of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CredentialStatus {
    /// Its number; 0 is none.
    pub number: u32,
    /// Its state.
    pub state: CredentialState,
    /// The number of credentials that replaced another one, or were requested.
    pub renewals: u64,
    /// The number of failed renewals.
    pub failures: u64,
    /// The last trouble, until there is another credential.
    pub why: Option<CredentialError>,
}

/// The number of requests per outcome. Each request is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The server answered with a result.
    pub ok: u64,
    /// The server answered with a result whose `isError` is set.
    pub tool_errors: u64,
    /// The server answered with a JSON-RPC error.
    pub errors: u64,
    /// Mendline answered with a failure, and the request did not run.
    pub failed: u64,
    /// Mendline answered with a failure, and the request may have run.
    pub unknown: u64,
    /// Mendline did not accept it.
    pub rejected: u64,
}

/// A call that has had no byte for a long time.
#[derive(Clone, Debug, PartialEq)]
pub struct SilentCall {
    /// Its method.
    pub method: Method,
    /// Its tool.
    pub tool: Option<ToolName>,
    /// The duration of the silence when it was reported.
    pub silent_for: Duration,
}

/// The last error of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct LastError {
    /// The cause in the client's error, if a call failed.
    pub cause: Option<Cause>,
    /// The reason.
    pub why: Reason,
}

impl From<Reason> for LastError {
    fn from(why: Reason) -> LastError {
        LastError { cause: None, why }
    }
}

impl fmt::Display for LastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Some(cause) => write!(f, "{}: {}", cause.word(), self.why),
            None => self.why.fmt(f),
        }
    }
}

/// A breaker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BreakerStatus {
    /// Its state.
    pub state: BreakerState,
    /// The open time and the cause, while it is not closed.
    pub open_for: Option<(Duration, RefusalReason)>,
}

/// A dial that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redial {
    /// Counted from 1 since the loss.
    pub attempt: u32,
    /// The number of attempts before it is parked, if it is known.
    pub most: Option<u32>,
    /// The wait.
    pub wait: Duration,
}

/// The displayed parts of a changed configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconfigured {
    /// The rate limit.
    pub rate_limit: Option<RateLimit>,
    /// The target in words.
    pub place: String,
}

impl Status {
    /// Applies one event.
    pub fn apply(&mut self, event: &Event) {
        if let Event::UpstreamRemoved { upstream } = event {
            self.upstreams.remove(upstream);
        } else if let Some(upstream) = event.upstream() {
            self.upstreams.entry(upstream).or_default().apply(event);
        }
    }
}

impl UpstreamStatus {
    /// Applies one event of this upstream.
    pub fn apply(&mut self, event: &Event) {
        self.apply_call(event);
        self.apply_count(event);
        self.apply_state(event);
    }

    /// Applies one event of another upstream of the same server, whose state is `member`. The counts of the server are
    /// those of all its upstreams; each has a state of its own.
    pub fn apply_of_member(&mut self, member: &mut UpstreamStatus, event: &Event) {
        self.apply_call(event);
        self.apply_count(event);
        let before = [member.dials, member.dials_failed, member.losses];
        member.apply_state(event);
        self.dials += member.dials - before[0];
        self.dials_failed += member.dials_failed - before[1];
        self.losses += member.losses - before[2];
    }

    /// Applies an event to the state, and to the counts that depend on it.
    fn apply_state(&mut self, event: &Event) {
        self.apply_link(event);
        self.apply_credential(event);
        self.apply_policy(event);
        self.apply_trouble(event);
    }

    /// The need for a login, and the last error.
    fn apply_trouble(&mut self, event: &Event) {
        match event {
            Event::CallAnswered { .. } | Event::LoginAccepted { .. } => self.needs_login = None,
            Event::CallFailed { cause, why, .. } => {
                if *cause == Cause::NeedsLogin {
                    self.needs_login = Some(why.clone());
                }
                self.last_error = Some(LastError { cause: Some(*cause), why: why.clone() });
            }
            _ => {}
        }
    }

    fn apply_call(&mut self, event: &Event) {
        match event {
            Event::CallAccepted { .. } => self.open += 1,
            Event::AttemptStarted { .. } => self.out += 1,
            Event::CallAnswered { call, method, result, attempt_took, .. } => {
                self.silent.remove(call);
                self.end(true);
                let counts = self.counts(*method);
                match result {
                    Answered::Ok => counts.ok += 1,
                    Answered::ToolError => counts.tool_errors += 1,
                    Answered::Error(_) => counts.errors += 1,
                }
                // Only tool calls show how fast a server is: handshakes and subscriptions take any time.
                if *method == Method::ToolsCall {
                    self.latency.get_or_insert_default().note(*attempt_took);
                }
            }
            Event::AnsweredFromCatalogue { .. } => self.early += 1,
            Event::ProvisionalAnswer { was_out, .. } => {
                self.end(*was_out);
                self.early += 1;
            }
            Event::CallFailed { call, method, outcome, was_out, .. } => {
                self.silent.remove(call);
                self.end(*was_out);
                let counts = self.counts(*method);
                match outcome {
                    Outcome::Unknown => counts.unknown += 1,
                    _ => counts.failed += 1,
                }
            }
            Event::CallCancelled { call, was_out, .. } | Event::CallAbandoned { call, was_out, .. } => {
                self.silent.remove(call);
                self.end(*was_out);
                self.cancelled += 1;
            }
            Event::CallRetried { call, was_out, .. } => {
                self.silent.remove(call);
                self.out -= u64::from(*was_out);
                self.retried += 1;
            }
            Event::VerdictAwaited { call, was_out, .. } | Event::HintsAwaited { call, was_out, .. } => {
                self.silent.remove(call);
                self.out -= u64::from(*was_out);
            }
            Event::CallReturned { call, .. } => {
                self.silent.remove(call);
                self.out -= 1;
            }
            _ => {}
        }
    }

    fn apply_count(&mut self, event: &Event) {
        match event {
            Event::CallSilent { call, method, tool, silent_for, .. } => {
                let silent = SilentCall { method: *method, tool: tool.clone(), silent_for: *silent_for };
                self.silent.insert(*call, silent);
            }
            Event::SilenceEnded { call, .. } => drop(self.silent.remove(call)),
            Event::PingAnswered { .. } | Event::AnsweredBySession { .. } | Event::OwnStatusAnswered { .. } => {
                self.early += 1;
            }
            Event::CallRejected { method, .. } => {
                self.counts(*method).rejected += 1;
            }
            Event::ToolDenied { .. } => self.counts(Method::ToolsCall).rejected += 1,
            Event::ResponseResumed { .. } => self.resumed += 1,
            Event::RetryRefused { .. } => self.retries_refused += 1,
            Event::RateLimited { .. } => self.slowed += 1,
            Event::MessageDropped { .. } => self.dropped += 1,
            Event::ListChanged { .. } => self.lists_changed += 1,
            Event::ListChangeHidden { .. } => self.list_changes_hidden += 1,
            _ => {}
        }
    }

    fn apply_link(&mut self, event: &Event) {
        match event {
            Event::LinkStateChanged { from, to, why, over, .. } => self.move_link(*from, *to, why.as_ref(), *over),
            Event::DialPlanned { attempt, most, wait, .. } => {
                self.redial = Some(Redial { attempt: *attempt, most: *most, wait: *wait });
            }
            Event::ReconnectRequested { .. } => self.asked = self.ready,
            Event::DialFailed { why, .. } => self.last_error = Some(Reason::from(why.clone()).into()),
            Event::ReconnectDisabled { why, .. } => self.lose(Some(why)),
            Event::IdleStopped { .. } => (self.lost, self.redial, self.last_loss) = (false, None, None),
            Event::UpstreamReady { after, .. } => {
                (self.ready, self.lost) = (true, false);
                (self.redial, self.needs_login) = (None, None);
                self.took = Some(*after);
            }
            Event::LoginRequired { why, .. } => {
                self.needs_login = Some(why.clone());
                self.last_error = Some(why.clone().into());
            }
            _ => {}
        }
    }

    fn apply_credential(&mut self, event: &Event) {
        match event {
            Event::CredentialRenewalStarted { .. } => {
                self.credential.get_or_insert_default().state = CredentialState::Renewing;
            }
            Event::CredentialRenewed { number, .. } => {
                let old = self.credential.take().unwrap_or_default();
                // The first credential renews none, unless it was requested.
                let is_renewal = old.number > 0 || old.state != CredentialState::Current;
                let renewals = old.renewals + u64::from(is_renewal);
                let state = CredentialState::Current;
                self.credential = Some(CredentialStatus { number: *number, state, renewals, why: None, ..old });
            }
            Event::CredentialRenewalFailed { why, state, .. } => {
                let credential = self.credential.get_or_insert_default();
                (credential.state, credential.why) = (*state, Some(why.clone()));
                credential.failures += 1;
            }
            // The shell goes on to count the credentials of the new target.
            Event::ServerReplaced { .. } => {
                if let Some(credential) = &mut self.credential {
                    (credential.state, credential.why) = (CredentialState::Current, None);
                }
            }
            Event::CallAnswered { .. } | Event::LoginAccepted { .. } => {
                if let Some(credential) = &mut self.credential
                    && credential.state == CredentialState::Refused
                {
                    (credential.state, credential.why) = (CredentialState::Current, None);
                }
            }
            _ => {}
        }
    }

    fn apply_policy(&mut self, event: &Event) {
        match event {
            Event::BreakerOpened { tool, open_for, why, .. } => {
                let open_for = Some((*open_for, why.clone()));
                self.set_breaker(tool.as_deref(), BreakerStatus { state: BreakerState::Open, open_for });
            }
            Event::BreakerHalfOpened { tool, .. } => {
                self.set_breaker(tool.as_deref(), BreakerStatus { state: BreakerState::HalfOpen, open_for: None });
            }
            Event::BreakerClosed { tool, .. } => self.set_breaker(tool.as_deref(), BreakerStatus::default()),
            Event::Isolated { .. } => {
                self.set_breaker(None, BreakerStatus { state: BreakerState::Isolated, open_for: None });
            }
            Event::Resumed { .. } => self.set_breaker(None, BreakerStatus::default()),
            Event::Paused { wait, .. } => self.pause = Some(*wait),
            Event::PauseEnded { .. } => self.pause = None,
            Event::Reconfigured { rate_limit, place, .. } => {
                self.reconfigured = Some(Reconfigured { rate_limit: *rate_limit, place: place.clone() });
            }
            _ => {}
        }
    }

    /// The process id of a running child.
    pub fn child(&self) -> Option<u32> {
        match self.over {
            Some(Over::Child(pid)) if matches!(self.link, LinkState::Up | LinkState::Draining) => Some(pid),
            _ => None,
        }
    }

    fn counts(&mut self, method: Method) -> &mut Counts {
        if method == Method::ToolsCall { &mut self.tool_calls } else { &mut self.other_calls }
    }

    /// Ends a call.
    fn end(&mut self, was_out: bool) {
        self.open -= 1;
        self.out -= u64::from(was_out);
    }

    fn move_link(&mut self, from: LinkState, to: LinkState, why: Option<&Reason>, over: Option<Over>) {
        self.link = to;
        let was_tried = matches!(from, LinkState::Dialing | LinkState::Up | LinkState::Draining);
        match to {
            // A change of the HTTP transport of a reachable server is no new dial.
            LinkState::Dialing => self.dials += u64::from(from != LinkState::Up),
            LinkState::Up => {
                // Reached by an exchange without a dial; it counts as one.
                self.dials += u64::from(from != LinkState::Dialing);
                (self.over, self.ready) = (over, false);
            }
            LinkState::Waiting | LinkState::Parked => {
                if was_tried {
                    self.lose(why);
                }
                self.last_loss = why.cloned();
            }
            LinkState::Idle => self.ready = false,
            LinkState::Draining => {}
        }
    }

    fn lose(&mut self, why: Option<&Reason>) {
        let (was_ready, is_requested) = (self.ready, std::mem::take(&mut self.asked));
        (self.ready, self.lost) = (false, true);
        if !is_requested {
            self.losses += u64::from(was_ready);
            self.dials_failed += u64::from(!was_ready);
            self.last_error = why.cloned().map(LastError::from);
        }
    }

    fn set_breaker(&mut self, tool: Option<&str>, held: BreakerStatus) {
        match tool {
            None => self.breaker = held,
            Some(tool) if held.state == BreakerState::Closed => drop(self.tools.remove(tool)),
            Some(tool) => drop(self.tools.insert(tool.to_owned(), held)),
        }
    }
}

#[cfg(test)]
mod tests;
