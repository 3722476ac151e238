//! The availability of a server: one rule for every form of outage.
//!
//! A server can be gone in many forms: its connections are refused, reset or closed, a load balancer answers 502 or with
//! a page, a login page redirects. All are handled alike. [`sign`] turns the end of an exchange into a [`Sign`], and the
//! signs move the server between these conditions:
//!
//! ```text
//!                  a call fails                    the probe fails
//!   available ───────────────────────► suspect ───────────────────────► away
//!       ▲  ▲                              │                               │
//!       │  └──── the server answers ──────┘                               │
//!       └───────────── the server answers a probe ────────────────────────┘
//! ```
//!
//! - *Suspect*: a call ended without a JSON-RPC response. Nothing stops; only the failed call waits for the verdict.
//!   The verdict is the first response to any request that was sent after the failure, else that of one probe on a
//!   fresh connection. If the server answers, the failure belongs to the call: it costs an attempt.
//! - *Away*: no connection, or the probe failed too. Unsent and repeatable calls wait; the link paces the probes, and
//!   the first response releases all calls. Exchanges in flight run to their end, and the session stays.
//! - *Needs login*: the server refused a call and a probe with 401. Calls are rejected until a probe is accepted.
//!
//! An overloaded server is paused, see [`super::pace`]. A child process needs no probe: its exit is the verdict.

mod login;
mod probe;

use std::fmt;

use mendline_wire::{Kind, Message};

use self::probe::{ProbeStep, ProbedSession};
use super::Upstream;
use super::call::{Call, PendingVerdict, State};
use super::calls::cause_of;
use super::exchange::{Exchange, Verdict};
use super::health::FailedCall;
use super::http::params;
use super::retry_budget::Incident;
use crate::config::Dialect;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Event, LinkState};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::moment::Moment;
use crate::policy::backoff;
use crate::policy::retry::{self, Loss, RetryDecision};
use crate::reason::Reason;
use crate::request::{ClientRequest, Op};
use crate::slab::Key;
use crate::timers::TimerId;
use crate::words::Cause;

/// The condition of a server. Overload, isolation and parking are states of the gate and the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It answers, or nothing is known.
    #[default]
    Available,
    /// A call failed, and the verdict is open.
    Suspect,
    /// It does not answer.
    Away,
    /// It refuses every request without a login.
    NeedsLogin,
}

impl Condition {
    /// Returns the stable name for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Available => "available",
            Condition::Suspect => "suspect",
            Condition::Away => "away",
            Condition::NeedsLogin => "needs_login",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Condition::Available => "available",
            Condition::Suspect => "suspect",
            Condition::Away => "away: calls wait, and probes look for its return",
            Condition::NeedsLogin => "needs login",
        })
    }
}

/// The meaning of an exchange's end for the condition of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A JSON-RPC response: it is available.
    Answered,
    /// Ended without a response: it is suspect.
    Failed,
    /// Refused with 400 or 404: suspect, and perhaps only the session or the method is unknown.
    Unknown,
    /// No connection: it is away.
    Unreachable,
    /// 429, or 503 with a hint: it is overloaded.
    Overloaded,
    /// 401, and for a probe 403: it needs a login.
    LoginRequired,
    /// About this exchange or the configuration only.
    Nothing,
}

/// Returns the sign of an exchange that ended with this verdict.
pub fn sign(verdict: &Verdict, exchange: &Exchange) -> Sign {
    match verdict {
        Verdict::Answered => Sign::Answered,
        Verdict::Unreachable(_) => Sign::Unreachable,
        Verdict::NeedsLogin(_) => Sign::LoginRequired,
        Verdict::Settle(Evidence { reply: Reply::RefusedByTransport | Reply::HeadersRefused, .. }, _) => Sign::Nothing,
        Verdict::Settle(Evidence { reply: Reply::Status(421), .. }, _) => Sign::Nothing,
        // A refused resumption says nothing about the request.
        Verdict::Settle(..) if exchange.resumes => Sign::Failed,
        Verdict::Settle(..) | Verdict::Refused(_) | Verdict::SessionReportedLost(_) => match exchange.status {
            Some(429) => Sign::Overloaded,
            Some(503) if exchange.retry_after.is_some() => Sign::Overloaded,
            Some(400 | 404) => Sign::Unknown,
            _ => Sign::Failed,
        },
        // The server replied in its own way: these exchanges have their own handling.
        Verdict::Forbidden(_)
        | Verdict::Resume(_)
        | Verdict::OtherDialect(_)
        | Verdict::OtherEra(_)
        | Verdict::Final(_) => Sign::Nothing,
    }
}

/// The condition of one server, with its probes.
#[derive(Debug, Default)]
pub struct Availability {
    condition: Condition,
    /// The exchanges begun before the last failure: a response to a later one is the verdict.
    begun_before: u64,
    /// The time of the last probe.
    probed: Option<Moment>,
    step: ProbeStep,
    probed_session: Option<ProbedSession>,
    timer: Option<TimerId>,
    /// The number of verdicts so far. All calls of one verdict are one incident for the retry budget.
    pub(super) verdicts: u64,
    /// Probes since the server first required a login.
    login_probes: u32,
    /// The modern probe, with the metadata of the client that was last affected.
    discover: Option<ClientRequest>,
    /// Calls that failed before the verdict; they count if the server is available.
    failed: Vec<FailedCall>,
    /// The reason of the last failure.
    why: Option<Reason>,
}

impl Availability {
    /// Returns whether the server is away.
    pub fn is_away(&self) -> bool {
        self.condition == Condition::Away
    }

    /// Returns whether only a response proves that the server is back, not a connection.
    pub fn needs_proof(&self) -> bool {
        matches!(self.condition, Condition::Away | Condition::NeedsLogin)
    }

    /// Returns whether calls are rejected for want of a login.
    pub fn needs_login(&self) -> bool {
        self.condition == Condition::NeedsLogin
    }

    /// Resets it for another target.
    pub fn reset(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        *self = Availability { verdicts: self.verdicts, ..Availability::default() };
    }
}

impl Upstream {
    /// Handles a call of a client whose exchange ended without a response. It waits for the verdict, unless the verdict
    /// cannot change its answer.
    pub(super) fn call_failed(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let outcome = pending.evidence.outcome();
        let lacks_hints = self.waits_for_hints(key, outcome);
        let Some(call) = self.calls.get(key) else { return };
        let policy = &call.policy(&self.config).retry;
        let decision = retry::decide(Loss::Unanswered(outcome), call.effect, policy);
        let is_spent = decision == RetryDecision::Charged && call.counted() >= policy.attempts;
        let is_never = pending.is_final || (decision == RetryDecision::Never && !lacks_hints);
        let is_decided = pending.is_final || (!pending.is_refusal && (is_never || is_spent));
        let (is_first_handshake, request) = (call.grace.is_some(), call.request.clone());
        // A call of a client without a handshake is its own probe.
        let is_probe = self.availability.is_away()
            && self.link.state() == LinkState::Dialing
            && call.begun > self.availability.begun_before;
        let is_decided = is_decided && (!is_probe || is_never);
        // A refused call and the first handshake are counted off with the verdict.
        let is_counted_off = is_probe && !pending.is_refusal && !is_first_handshake && outcome != Outcome::NotSent;
        if let Some(call) = self.calls.get_mut(key).filter(|_| is_counted_off) {
            call.uncounted += 1;
        }
        self.end_attempt(key, pending.evidence, &pending.why, cx);
        if request.is_modern() {
            self.availability.discover = discover(&request);
        }
        if let Some(http) = &self.http {
            self.availability.begun_before = http.begun();
        }
        let why = pending.why.clone();
        self.availability.why = Some(why.clone());
        if is_first_handshake {
            // The handshake is its own probe; it waits, and is answered provisionally at the end of its grace.
            self.hold_for_verdict(key, pending, cx);
            return self.away(why, cx);
        }
        if is_decided {
            let failed = self.failed_call(key, pending.evidence, cx.now);
            self.availability.failed.extend(failed);
            self.fail(key, cause_of(pending.evidence), outcome, pending.why, cx);
        } else {
            self.hold_for_verdict(key, pending, cx);
        }
        if is_probe {
            self.away(why, cx);
        } else if self.is_probed_by_link() {
            self.resolve(Condition::Away, cx);
        } else {
            self.suspect(why, cx);
        }
    }

    /// Returns whether the link probes the server: it is away already.
    fn is_probed_by_link(&self) -> bool {
        !self.link.is_up()
    }

    fn hold_for_verdict(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let since = call.waiting_since(cx.now);
        let (name, tool, why) = (call.name, call.tool.clone(), pending.why.clone());
        let was_out = std::mem::take(&mut call.is_out);
        cx.emit(Event::VerdictAwaited { upstream: self.id, call: name, tool, why, was_out });
        call.stream.restart();
        call.pending = Some(Box::new(pending));
        self.gate.note_waits(call.name);
        // A new key, so that a late answer to the lost attempt is not taken for that of the next one.
        let Some(key) = self.calls.rename(key) else { return };
        self.calls.wait(key, since, cx.now);
        self.disarm(key, cx);
        self.arm(key, cx);
    }

    /// Makes the server suspect, and schedules the probe.
    fn suspect(&mut self, why: Reason, cx: &mut Cx<'_>) {
        if self.availability.condition == Condition::Available {
            self.availability.condition = Condition::Suspect;
            cx.emit(Event::ServerSuspected { upstream: self.id, why });
        }
        self.schedule_probe(cx);
    }

    /// Handles a JSON-RPC response over HTTP to a request that was sent as exchange number `begun`. It is the verdict if
    /// the request was sent after the last failure.
    pub(super) fn note_response(&mut self, call: Key, cx: &mut Cx<'_>) {
        if self.availability.condition == Condition::Available {
            return;
        }
        let Some(call) = self.calls.get(call) else { return };
        if call.begun <= self.availability.begun_before && self.availability.condition != Condition::NeedsLogin {
            return;
        }
        self.came_back(cx);
    }

    /// The server answers: releases all calls.
    fn came_back(&mut self, cx: &mut Cx<'_>) {
        let was = std::mem::take(&mut self.availability.condition);
        cx.disarm(&mut self.availability.timer);
        self.availability.step = ProbeStep::First;
        self.availability.login_probes = 0;
        self.close_probed_session(cx);
        if std::mem::take(&mut self.wants_login) {
            self.note_credential_answered();
            cx.emit(Event::LoginAccepted { upstream: self.id });
        }
        if was != Condition::Available {
            self.availability.verdicts += 1;
            cx.emit(Event::VerdictReached { upstream: self.id, condition: Condition::Available });
        }
        self.gate.note_probe_answer();
        for failed in std::mem::take(&mut self.availability.failed) {
            self.note_failed_call(&failed, cx);
        }
        self.resolve(Condition::Available, cx);
        if !self.link.is_up() {
            self.handle_reachable(cx);
        }
    }

    /// The server is found to use another transport: the calls that wait for the verdict are sent over it.
    pub(super) fn resolved_by_sse(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.availability.timer);
        self.availability.step = ProbeStep::First;
        self.close_probed_session(cx);
        self.availability.failed.clear();
        if std::mem::take(&mut self.availability.condition) != Condition::Available {
            self.availability.verdicts += 1;
            cx.emit(Event::VerdictReached { upstream: self.id, condition: Condition::Available });
        }
        self.resolve(Condition::Away, cx);
    }

    /// The server is away: repeatable and unsent calls wait, and the link paces the probes.
    pub(super) fn away(&mut self, why: Reason, cx: &mut Cx<'_>) {
        self.availability.step = ProbeStep::First;
        self.close_probed_session(cx);
        self.unreachable(why, false, cx);
    }

    /// Records that the server is away, for a reason that needs no probe.
    pub(super) fn note_away(&mut self, cx: &mut Cx<'_>) {
        // The stream of a 2024-11-05 server is its own probe while it is not open.
        let is_probed = self.http.as_ref().is_some_and(|http| http.dialect() != Dialect::Sse) || self.has_sse_stream();
        if let (true, Some(http)) = (is_probed, &self.http) {
            self.availability.begun_before = http.begun();
            if !matches!(self.availability.condition, Condition::Away | Condition::NeedsLogin) {
                cx.disarm(&mut self.availability.timer);
                self.availability.condition = Condition::Away;
                self.availability.verdicts += 1;
                cx.emit(Event::VerdictReached { upstream: self.id, condition: Condition::Away });
            }
        }
        // A probe opens the gate while the server is away.
        self.gate.restart_admission();
        // An outage is not the failure of a tool.
        self.availability.failed.clear();
        self.resolve(Condition::Away, cx);
        self.answer_waiting_lists(cx);
    }

    /// Decides about the calls that wait for the verdict.
    fn resolve(&mut self, verdict: Condition, cx: &mut Cx<'_>) {
        let pending = self.calls.take_waiting(|call| call.pending.is_some());
        if pending.is_empty() {
            return;
        }
        for key in pending {
            let Some(pending) = self.calls.get_mut(key).and_then(|call| call.pending.take()) else { continue };
            match verdict {
                Condition::Available => self.failed_while_available(key, *pending, cx),
                _ => self.failed_while_away(key, *pending, cx),
            }
        }
        self.fail_blocked(cx);
    }

    /// The server answers, so the failure belongs to the call.
    fn failed_while_available(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let PendingVerdict { evidence, why, is_refusal, .. } = pending;
        let Some(call) = self.calls.get(key) else { return };
        if is_refusal {
            return self.fail(key, Cause::Refused, Outcome::Refused, why, cx);
        }
        let policy = call.policy(&self.config);
        let pause = match evidence.outcome() {
            Outcome::NotSent => backoff::unsent(&policy.reconnect, call.unsent, cx.rng),
            _ => backoff::retry(&policy.retry, call.attempts + 1, cx.rng),
        };
        let not_before = self.gate.resumes_at(cx.now) + pause;
        // It has waited for the verdict since its failure.
        let ended = match call.state {
            State::Waiting { not_before, .. } => not_before,
            _ => cx.now,
        };
        let failed = self.failed_call(key, evidence, ended);
        let incident = Incident::Verdict(self.availability.verdicts);
        let goes_on = self.resend(key, evidence, not_before, why, incident, cx);
        if let Some(failed) = failed.filter(|_| !goes_on) {
            self.note_failed_call(&failed, cx);
        }
    }

    /// The server is away: the call waits for it without another attempt.
    fn failed_while_away(&mut self, key: Key, pending: PendingVerdict, cx: &mut Cx<'_>) {
        let PendingVerdict { evidence, why, is_refusal, .. } = pending;
        let Some(call) = self.calls.get_mut(key) else { return };
        if evidence.outcome() != Outcome::NotSent && (is_refusal || call.grace.is_some()) {
            // It was not processed, or it is the handshake, which may be repeated.
            call.uncounted += 1;
        }
        if self.answer_pending_from_cache(key, cx) {
            return;
        }
        let is_free = is_refusal || self.has_grace(key);
        let incident = if is_free { Incident::Free } else { Incident::Verdict(self.availability.verdicts) };
        self.resend(key, evidence, cx.now, why, incident, cx);
    }

    fn has_grace(&self, key: Key) -> bool {
        self.calls.get(key).is_some_and(|call| call.grace.is_some())
    }

    /// Shortens the grace of a waiting handshake after a failure.
    pub(super) fn shorten_grace(&mut self, cx: &mut Cx<'_>) {
        let soon = cx.now + defaults::GRACE_AFTER_FAILURE;
        for key in self.calls.keys_by_age() {
            if let Some(call) = self.calls.get_mut(key).filter(|call| call.grace.is_some_and(|grace| grace > soon)) {
                call.grace = Some(soon);
                self.arm(key, cx);
            }
        }
    }

    /// The reason why the server is not available, for a provisional answer.
    pub(super) fn problem(&self, now: Moment) -> Option<Reason> {
        match self.availability.condition {
            _ if self.gate.is_paused(now) => Some(self.gate.reason(now).into()),
            _ if self.awaits_credential() => self.credential_wait(),
            Condition::Available | Condition::Suspect if !self.link.has_failed() => None,
            Condition::NeedsLogin => self.availability.why.clone(),
            _ => Some(self.link.failure_reason()),
        }
    }
}

/// Returns whether a response counts as the verdict: for a handshake only a result does.
pub(super) fn proves_availability(call: &Call, answer: &Message) -> bool {
    call.request.op != Op::Initialize || answer.kind() == Kind::Result
}

/// A `server/discover` with the metadata of this request.
fn discover(request: &ClientRequest) -> Option<ClientRequest> {
    params::with_meta_of(request, "server/discover", None)
}
