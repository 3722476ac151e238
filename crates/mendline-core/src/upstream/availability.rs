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
//! [`Condition::after`] is the total function of these transitions. An overloaded server is paused, see [`super::pace`].
//! A child process needs no probe: its exit is the verdict.
//!
//! This part decides; it knows neither calls nor exchanges. [`super::outage`] applies the verdicts to calls,
//! [`super::probing`] sends the probes, [`super::login`] handles a server that needs a login.

mod probe;

use std::fmt;
use std::time::Duration;

use self::probe::ProbeStep;
pub use self::probe::{NextProbe, ProbeTarget, ProbedSession};
use super::credential::login_backoff;
use super::exchange::{Exchange, Verdict};
use super::health::FailedCall;
use super::retry_budget::Incident;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::Event;
use crate::evidence::{Evidence, Reply};
use crate::moment::Moment;
use crate::port::UpstreamId;
use crate::reason::Reason;
use crate::request::ClientRequest;
use crate::timers::TimerId;

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

    /// Returns the condition after this end.
    pub fn after(self, end: End) -> Condition {
        match end {
            End::Call(Sign::Answered) | End::Probe(Sign::Answered) => Condition::Available,
            End::Probe(Sign::LoginRequired) => Condition::NeedsLogin,
            // It may be about this call; a probe decides.
            End::Call(Sign::Failed | Sign::Unknown | Sign::LoginRequired) => match self {
                Condition::Available => Condition::Suspect,
                Condition::Suspect | Condition::Away | Condition::NeedsLogin => self,
            },
            End::Call(Sign::Unreachable)
            | End::Probe(Sign::Unreachable | Sign::Failed | Sign::Unknown | Sign::Nothing) => match self {
                Condition::NeedsLogin => self,
                Condition::Available | Condition::Suspect | Condition::Away => Condition::Away,
            },
            // It is there, and only has too much to do.
            End::Probe(Sign::Overloaded) => match self {
                Condition::Suspect => Condition::Available,
                Condition::Available | Condition::Away | Condition::NeedsLogin => self,
            },
            // A pause follows from overload.
            End::Call(Sign::Overloaded | Sign::Nothing) => self,
            // Nothing is known about the next process.
            End::Process => Condition::Available,
        }
    }
}

/// The end of something that can show the condition of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A call of a client.
    Call(Sign),
    /// A probe: a request of Mendline, or a request that is sent while the server is away.
    Probe(Sign),
    /// A child process: its exit is the verdict about its calls.
    Process,
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
#[derive(Debug)]
pub struct Availability {
    upstream: UpstreamId,
    condition: Condition,
    /// The exchanges begun before the last failure: a response to a later one is the verdict.
    begun_before: u64,
    /// The time of the last probe.
    probed: Option<Moment>,
    step: ProbeStep,
    probed_session: Option<ProbedSession>,
    timer: Option<TimerId>,
    /// The number of verdicts so far. All calls of one verdict are one incident for the retry budget.
    verdicts: u64,
    /// Probes since the server first required a login.
    login_probes: u32,
    /// A request was refused for want of a login, and none was accepted since.
    wants_login: bool,
    /// The modern probe, with the metadata of the client that was last affected.
    discover: Option<ClientRequest>,
    /// Calls that failed before the verdict; they count if the server is available.
    failed: Vec<FailedCall>,
    /// The reason of the last failure.
    why: Option<Reason>,
}

/// A call whose exchange ended without a response.
#[derive(Clone, Copy, Debug)]
pub struct LostCall {
    /// The number of exchanges begun up to its attempt.
    pub begun: u64,
    pub chance: Chance,
    /// The server refused it: the verdict decides whether that was its answer.
    pub is_refusal: bool,
    /// A configured rule answers it, whatever the verdict.
    pub is_final: bool,
}

/// The chance of a lost call to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// It may be sent again.
    Open,
    /// Its attempts are used up.
    Spent,
    /// It is never sent again.
    None,
}

/// The facts that decide about a probe whose time has come.
#[derive(Clone, Copy, Debug)]
pub struct TimerFacts {
    /// The server has requested a pause.
    pub is_paused: bool,
    /// The link is up; otherwise its dials probe the server.
    pub is_up: bool,
    /// A handshake, or the ping that confirms the loss of the session, is in flight and shows the same.
    pub runs_other_probe: bool,
}

/// The next step when the timer of the probes has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// The probe is due after the pause.
    AfterPause,
    /// Another request shows the same; the probe is due later.
    Later,
    /// The link was lost meanwhile: the server is away.
    Away,
    /// The probe is due now.
    Probe,
}

impl Availability {
    pub fn new(upstream: UpstreamId) -> Self {
        Availability {
            upstream,
            condition: Condition::Available,
            begun_before: 0,
            probed: None,
            step: ProbeStep::First,
            probed_session: None,
            timer: None,
            verdicts: 0,
            login_probes: 0,
            wants_login: false,
            discover: None,
            failed: Vec::new(),
            why: None,
        }
    }

    /// Resets it for another target.
    pub fn reset(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        let (verdicts, wants_login) = (self.verdicts, self.wants_login);
        *self = Availability { verdicts, wants_login, ..Availability::new(self.upstream) };
    }

    // ---- the condition ----

    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Returns whether the server answers, as far as is known.
    pub fn is_available(&self) -> bool {
        self.condition == Condition::Available
    }

    /// Returns whether the verdict is open.
    pub fn is_suspect(&self) -> bool {
        self.condition == Condition::Suspect
    }

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

    /// Returns whether a request was refused for want of a login, and none was accepted since.
    pub fn wants_login(&self) -> bool {
        self.wants_login
    }

    /// The reason of the last failure.
    pub fn why(&self) -> Option<&Reason> {
        self.why.as_ref()
    }

    /// The last verdict, which is one incident for all its calls.
    pub fn incident(&self) -> Incident {
        Incident::Verdict(self.verdicts)
    }

    // ---- verdicts ----

    /// Returns whether an attempt was begun after the last failure.
    pub fn is_after_failure(&self, begun: u64) -> bool {
        begun > self.begun_before
    }

    /// Returns whether a response to this attempt is the verdict. If the server needs a login, any response is.
    pub fn is_decided_by(&self, begun: u64) -> bool {
        !self.is_available() && (self.is_after_failure(begun) || self.needs_login())
    }

    /// Returns whether a call that was lost while its link was dialed is its own probe.
    pub fn is_probe(&self, begun: u64, is_dialing: bool) -> bool {
        self.is_away() && is_dialing && self.is_after_failure(begun)
    }

    /// Returns whether a lost call is answered now, because the verdict cannot change its answer. The others wait.
    pub fn is_answered_now(&self, lost: &LostCall, is_dialing: bool) -> bool {
        let is_hopeless = match lost.chance {
            Chance::Open => false,
            // The attempt of a call that is its own probe is not counted.
            Chance::Spent => !self.is_probe(lost.begun, is_dialing),
            Chance::None => true,
        };
        lost.is_final || (!lost.is_refusal && is_hopeless)
    }

    /// Records the failure of a call: only responses to later attempts are the verdict.
    pub fn note_failure(&mut self, begun: u64, why: &Reason) {
        self.begun_before = begun;
        self.why = Some(why.clone());
    }

    /// Records a call that was refused for want of a login: only responses to later attempts are the verdict.
    pub fn note_failed_login(&mut self, begun: u64) {
        self.begun_before = begun;
    }

    /// Keeps a failed call until the verdict: it counts for its tool if the server is available.
    pub fn keep_failed(&mut self, failed: Option<FailedCall>) {
        self.failed.extend(failed);
    }

    /// Handles the failure of a call with this sign.
    pub fn handle_failed_call(&mut self, sign: Sign, why: Reason, cx: &mut Cx<'_>) {
        if self.change(End::Call(sign)) {
            cx.emit(Event::ServerSuspected { upstream: self.upstream, why });
        }
    }

    /// Handles a response that is the verdict. Returns the calls that failed before it.
    pub fn handle_answer(&mut self, cx: &mut Cx<'_>) -> Vec<FailedCall> {
        self.login_probes = 0;
        self.end_suspicion(cx);
        std::mem::take(&mut self.failed)
    }

    /// Handles a server that uses another transport: its failures were those of the first one.
    pub fn handle_other_transport(&mut self, cx: &mut Cx<'_>) {
        self.failed.clear();
        self.end_suspicion(cx);
    }

    fn end_suspicion(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        self.step = ProbeStep::First;
        if self.change(End::Probe(Sign::Answered)) {
            self.reach_verdict(cx);
        }
    }

    /// Handles the loss of a server that is probed.
    pub fn handle_loss(&mut self, begun: u64, cx: &mut Cx<'_>) {
        self.begun_before = begun;
        if self.change(End::Probe(Sign::Unreachable)) {
            cx.disarm(&mut self.timer);
            self.reach_verdict(cx);
        }
    }

    /// Forgets the failed calls: an outage is not the failure of a tool.
    pub fn forget_failed(&mut self) {
        self.failed.clear();
    }

    /// Handles the exit of a child process.
    pub fn handle_exit(&mut self) {
        self.change(End::Process);
    }

    /// Handles a probe that found the server overloaded.
    pub fn handle_overload(&mut self) {
        self.change(End::Probe(Sign::Overloaded));
    }

    fn change(&mut self, end: End) -> bool {
        let before = self.condition;
        self.condition = before.after(end);
        self.condition != before
    }

    fn reach_verdict(&mut self, cx: &mut Cx<'_>) {
        self.verdicts += 1;
        cx.emit(Event::VerdictReached { upstream: self.upstream, condition: self.condition });
    }

    // ---- logins ----

    /// Records a request that was refused for want of a login.
    pub fn note_login_wanted(&mut self) {
        self.wants_login = true;
    }

    /// Forgets that a login was wanted: a request was accepted. Returns whether it was.
    pub fn take_wanted_login(&mut self) -> bool {
        std::mem::take(&mut self.wants_login)
    }

    /// Handles a probe or a handshake that was refused for want of a login.
    pub fn handle_login_required(&mut self, why: &Reason, is_limited: bool, cx: &mut Cx<'_>) {
        self.wants_login = true;
        // The limit of fruitless requests is another reason, of which the operator is told.
        let is_news = is_limited && self.why.as_ref() != Some(why);
        self.why = Some(why.clone());
        if self.change(End::Probe(Sign::LoginRequired)) || is_news {
            cx.emit(Event::LoginRequired { upstream: self.upstream, why: why.clone() });
        }
    }

    /// The wait before the next probe for a login, which grows. After too many fruitless requests it is long.
    pub fn next_login_wait(&mut self, is_limited: bool, cx: &mut Cx<'_>) -> Duration {
        cx.disarm(&mut self.timer);
        let wait = if is_limited { defaults::LOGIN_PROBE_LIMITED } else { login_backoff(self.login_probes) };
        self.login_probes = self.login_probes.saturating_add(1);
        wait
    }

    /// Begins the waits anew: the credential has changed.
    pub fn restart_login_waits(&mut self) {
        self.login_probes = 0;
    }

    // ---- the time of probes ----

    /// Plans the next probe, unless one is planned. Calls that fail together share it.
    pub fn plan_probe(&mut self, not_before: Moment, cx: &mut Cx<'_>) {
        if self.timer.is_some() {
            return;
        }
        let soon = cx.now + defaults::PROBE_DELAY;
        // Probes are at least a second apart.
        let at = self.probed.map_or(soon, |probed| soon.max(probed + defaults::PROBE_PAUSE));
        self.timer = cx.timers.arm(at.max(not_before), Alarm::Availability(self.upstream));
    }

    /// Plans the next probe for this time from now.
    pub fn plan_probe_in(&mut self, wait: Duration, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        self.timer = cx.wake_in(wait, Alarm::Availability(self.upstream));
    }

    /// Handles the timer of the next probe.
    pub fn handle_timer(&mut self, facts: TimerFacts) -> Due {
        self.timer = None;
        match self.condition {
            Condition::Suspect if facts.is_paused => Due::AfterPause,
            Condition::Suspect if !facts.is_up => Due::Away,
            Condition::Suspect if facts.runs_other_probe => Due::Later,
            // The next dial probes the server.
            Condition::NeedsLogin if !facts.is_up => Due::Nothing,
            Condition::Suspect | Condition::NeedsLogin => Due::Probe,
            Condition::Available | Condition::Away => Due::Nothing,
        }
    }

    /// Lets a probe decide whether an overloaded server answers again.
    pub fn suspect_after_pause(&mut self, begun: u64) {
        self.begun_before = begun;
        self.change(End::Call(Sign::Failed));
        self.step = ProbeStep::First;
    }
}

#[cfg(test)]
mod tests;
