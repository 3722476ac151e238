//! The probes of a server: requests of Mendline that show whether it is available.
//!
//! The probe is a `ping`; for a server that refuses pings it is a `tools/list`, in the modern era `server/discover`. A
//! refusal with 400 or 404 can be about the session or about the method, so a second probe follows: a handshake, in the
//! modern era a `tools/list`. The session of such a handshake is used only if another ping shows that the old one is
//! lost.

use std::sync::Arc;

use mendline_wire::{Kind, Message, headers};

use super::{Condition, Sign, discover, sign};
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::LinkState;
use crate::port::{ExchangeId, HttpRequest, Reuse, Verb};
use crate::reason::{LossReason, Reason};
use crate::request::{ClientRequest, Op};
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::{Owner, State};
use crate::upstream::exchange::{Exchange, Purpose, Verdict};
use crate::upstream::http::{Http, LookFor, denies_transport, params};
use crate::upstream::internal::InternalRequest;
use crate::upstream::keepalive::ping;

/// The step of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProbeStep {
    /// The first request: a ping, or `server/discover`.
    #[default]
    First,
    /// A handshake or a `tools/list`, after 400 or 404.
    Second,
    /// Another ping, which decides between the old session and that of the handshake.
    Confirm,
}

/// The session of a handshake that was sent as a probe.
#[derive(Debug)]
pub(super) struct ProbedSession {
    session: Option<Arc<str>>,
    handshake: ClientRequest,
    answer: Message,
}

impl Upstream {
    pub(super) fn schedule_probe(&mut self, cx: &mut Cx<'_>) {
        if self.availability.timer.is_some() || self.is_probing() {
            return;
        }
        // Calls that fail together share one probe, and probes are at least a second apart.
        let soon = cx.now + defaults::PROBE_DELAY;
        let at = self.availability.probed.map_or(soon, |probed| soon.max(probed + defaults::PROBE_PAUSE));
        let at = at.max(self.gate.resumes_at(cx.now));
        self.availability.timer = cx.timers.arm(at, Alarm::Availability(self.id));
    }

    pub(super) fn is_probing(&self) -> bool {
        self.runs(InternalRequest::Probe) || self.runs(InternalRequest::ProbeHandshake)
    }

    /// Gives up the probes in flight: another target is probed from now on.
    pub(in crate::upstream) fn drop_probes(&mut self, cx: &mut Cx<'_>) {
        for key in self.calls.keys_by_age() {
            let owner = self.calls.get(key).map(|call| call.owner);
            if matches!(owner, Some(Owner::Us(internal)) if internal.is_probe()) {
                self.drop_exchange(key, cx);
                drop(self.take(key, cx));
            }
        }
    }

    /// Handles the timer of the next probe.
    pub fn handle_availability_timer(&mut self, cx: &mut Cx<'_>) {
        self.availability.timer = None;
        match self.availability.condition {
            Condition::Suspect if self.gate.is_paused(cx.now) => self.schedule_probe(cx),
            // The link was lost meanwhile; its next dial probes the server.
            Condition::Suspect if self.is_probed_by_link() => self.note_away(cx),
            // A new handshake, or the ping that confirms the loss of the session, is a probe by itself.
            Condition::Suspect if self.runs(InternalRequest::Handshake) || self.runs(InternalRequest::Confirm) => {
                self.availability.timer = cx.wake_in(defaults::PROBE_PAUSE, Alarm::Availability(self.id));
            }
            Condition::Suspect | Condition::NeedsLogin => {
                self.availability.step = ProbeStep::First;
                self.send_probe(cx);
            }
            _ => {}
        }
    }

    /// Sends the probe of a dial, if one is needed and known. Returns whether the server is being probed.
    pub(in crate::upstream) fn probe_for_link(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.availability.needs_proof() {
            return false;
        }
        if self.is_probing() {
            return true;
        }
        // The handshake of a client is its own probe.
        let handshake = self.calls.waiting().find(|(_, call)| call.request.op == Op::Initialize);
        if let Some((key, _)) = handshake {
            self.start_call(key, cx);
            return true;
        }
        if self.is_probed_by_call() {
            return false;
        }
        let has_work = self.calls.any_waits()
            || self.session.is_initialized()
            || self.calls.subscriptions() > 0
            || self.availability.needs_login();
        if !has_work {
            return false;
        }
        self.availability.step = ProbeStep::First;
        self.send_probe(cx);
        true
    }

    /// Returns whether a request is in flight that was sent after the server went away: it is the probe.
    pub(in crate::upstream) fn probe_in_flight(&self) -> bool {
        let since = self.availability.begun_before;
        self.availability.is_away()
            && self.calls.iter().any(|(_, call)| matches!(call.state, State::Sent(_)) && call.begun > since)
    }

    /// Returns whether the next call is the only possible probe: a handshake, or a call of a client without one.
    pub(super) fn is_probed_by_call(&self) -> bool {
        let is_known = self.session.was_initialized()
            || self.availability.discover.is_some()
            || self.calls.waiting().any(|(_, call)| call.request.is_modern());
        !is_known || self.calls.waiting().any(|(_, call)| call.request.op == Op::Initialize)
    }

    pub(super) fn send_probe(&mut self, cx: &mut Cx<'_>) {
        if self.is_probing() {
            return;
        }
        if self.availability.discover.is_none() && !self.session.was_initialized() {
            let modern = self.calls.waiting().find(|(_, call)| call.request.is_modern());
            self.availability.discover = modern.and_then(|(_, call)| discover(&call.request));
        }
        let is_modern = !self.session.was_initialized() && self.availability.discover.is_some();
        let refuses_pings = self.http.as_ref().is_some_and(Http::refuses_pings);
        let request = match (&self.availability.discover, self.availability.step) {
            (Some(discover), ProbeStep::First) if is_modern => Some(discover.clone()),
            (Some(discover), _) if is_modern => params::list_tools(discover, None),
            _ if refuses_pings => params::in_session("tools/list", None),
            _ => ping(),
        };
        self.availability.probed = Some(cx.now);
        if let Some(request) = request {
            self.send_internal(InternalRequest::Probe, request, cx);
        }
    }

    /// Handles the end of a probe without a response.
    pub(in crate::upstream) fn probe_ended(&mut self, verdict: Verdict, exchange: &Exchange, cx: &mut Cx<'_>) {
        let sign = match sign(&verdict, exchange) {
            Sign::Failed if exchange.status == Some(403) => Sign::LoginRequired,
            // A server may refuse an unknown session with an error that names no request.
            Sign::Answered if matches!(exchange.status, Some(400 | 404)) => Sign::Unknown,
            sign => sign,
        };
        if self.availability.condition == Condition::Available {
            // Another response was the verdict.
            return;
        }
        let is_denial = denies_transport(&verdict, exchange);
        let why = verdict.reason();
        if is_denial && self.look_for_sse(LookFor::Probe(sign, why.clone()), cx) {
            return;
        }
        self.probe_failed(sign, why, cx);
    }

    /// Handles a probe that was refused, after a GET found no SSE stream.
    pub(in crate::upstream) fn probe_failed_after_look(&mut self, sign: Sign, why: Reason, cx: &mut Cx<'_>) {
        let is_linked = matches!(self.link.state(), LinkState::Up | LinkState::Dialing);
        if is_linked && self.availability.condition != Condition::Available {
            self.probe_failed(sign, why, cx);
        }
    }

    pub(in crate::upstream) fn probe_failed(&mut self, sign: Sign, why: Reason, cx: &mut Cx<'_>) {
        match sign {
            Sign::LoginRequired => {
                self.login_required(&why, cx);
                if !self.link.is_up() {
                    // The next dial is the next probe.
                    self.unreachable(why, false, cx);
                }
            }
            Sign::Overloaded => self.probe_overloaded(cx),
            Sign::Unknown => self.probe_refused(why, cx),
            Sign::Answered => self.came_back(cx),
            _ => self.away(why, cx),
        }
    }

    /// Handles a probe that the server refused with 400 or 404.
    pub(super) fn probe_refused(&mut self, why: Reason, cx: &mut Cx<'_>) {
        if self.has_sse_stream() {
            // The session ends with its stream; the next dial opens another one.
            self.drop_sse_stream(cx);
            return self.away(why, cx);
        }
        let handshake = self.session.handshake().filter(|_| self.session.is_initialized());
        match self.availability.step {
            ProbeStep::First => {
                self.availability.step = ProbeStep::Second;
                match handshake {
                    Some(handshake) => self.send_internal(InternalRequest::ProbeHandshake, handshake, cx),
                    None if self.availability.discover.is_some() => self.send_probe(cx),
                    None => self.away(why, cx),
                }
            }
            ProbeStep::Confirm => match self.availability.probed_session.take() {
                Some(probed) => self.adopt_session(probed, cx),
                None => self.away(why, cx),
            },
            ProbeStep::Second => self.away(why, cx),
        }
    }

    /// Handles a handshake that was sent as a probe and answered with a result. Another ping decides which session is
    /// used.
    pub(in crate::upstream) fn probe_handshake_answered(
        &mut self,
        id: ExchangeId,
        key: Key,
        answer: Message,
        cx: &mut Cx<'_>,
    ) {
        let session = self.http.as_ref().and_then(|http| http.session_in(id));
        let Some(call) = self.take(key, cx) else { return };
        if answer.kind() == Kind::Error {
            return self.away(Reason::Error, cx);
        }
        let is_same = session.is_some() && self.http.as_ref().is_some_and(|http| http.session_id() == session.as_ref());
        let probed = ProbedSession { session, handshake: call.request, answer };
        // A restarted server can give the same id again: a ping cannot tell the sessions apart. If the old session was
        // found to be lost meanwhile, nothing is left to decide.
        if is_same || self.session.is_lost() {
            self.adopt_session(probed, cx);
            return;
        }
        self.availability.probed_session = Some(probed);
        if self.session.is_initialized() {
            self.availability.step = ProbeStep::Confirm;
            self.send_probe(cx);
        } else {
            // Another handshake is in flight and gives the verdict.
            self.close_probed_session(cx);
        }
    }

    /// Uses the session of the probe: the old one is lost.
    pub(super) fn adopt_session(&mut self, probed: ProbedSession, cx: &mut Cx<'_>) {
        self.availability.step = ProbeStep::First;
        self.forget_session(cx);
        if self.session.reinitialize().is_none() {
            return;
        }
        let ProbedSession { session, handshake, answer } = probed;
        if let Some(http) = &mut self.http {
            http.adopt_session(session, &answer);
        }
        self.came_back(cx);
        self.finish_replay(&handshake, &answer, cx);
    }

    /// Closes the session of a probe that is not used.
    pub(super) fn close_probed_session(&mut self, cx: &mut Cx<'_>) {
        let Some(ProbedSession { session: Some(session), .. }) = self.availability.probed_session.take() else {
            return;
        };
        if let Some(http) = &mut self.http {
            let headers = vec![(headers::SESSION_ID.into(), session)];
            let request = HttpRequest { verb: Verb::Delete, target: None, headers, body: None };
            http.begin(Exchange::new(Purpose::CloseSession), request, Reuse::Any, cx);
        }
    }

    /// Handles a probe that found the server overloaded: the calls wait for the end of the pause.
    pub(super) fn probe_overloaded(&mut self, cx: &mut Cx<'_>) {
        self.pause_without_hint(cx);
        for key in self.calls.take_waiting(|call| call.pending.is_some()) {
            let Some(pending) = self.calls.get_mut(key).and_then(|call| call.pending.take()) else { continue };
            self.failed_while_away(key, *pending, cx);
        }
        if self.availability.condition == Condition::Suspect {
            self.availability.condition = Condition::Available;
        }
        if !self.link.is_up() {
            // The next dial waits for the end of the pause.
            let why = self.gate.reason(cx.now).into();
            self.unreachable(why, false, cx);
        }
    }

    /// Probes a server that answered 503 before the pause, if a call waits, so that no unsafe call meets another 503.
    pub(in crate::upstream) fn probe_after_pause(&mut self, cx: &mut Cx<'_>) {
        let is_due = self.link.is_up() && !self.gate.is_paused(cx.now);
        if !is_due || !self.calls.any_waits() {
            return;
        }
        self.gate.note_probed();
        let is_decided = self.availability.condition != Condition::Available;
        if is_decided || !self.session.is_open() || self.is_probed_by_call() {
            // A call goes first.
            self.gate.admit_gradually();
            return;
        }
        if let Some(http) = &self.http {
            self.availability.begun_before = http.begun();
        }
        self.gate.block_admission();
        self.availability.condition = Condition::Suspect;
        self.availability.step = ProbeStep::First;
        self.send_probe(cx);
    }

    /// Handles a probe that was not answered in time. A server that runs another call may be too busy to answer.
    pub(in crate::upstream) fn probe_expired(&mut self, cx: &mut Cx<'_>) {
        let runs_call = self.calls.iter().any(|(_, call)| {
            matches!((call.owner, call.state), (Owner::Client { .. }, State::Sent(_)))
                && call.begun <= self.availability.begun_before
                && !call.is_subscription()
        });
        if runs_call && self.availability.condition == Condition::Suspect {
            return self.came_back(cx);
        }
        self.drop_sse_stream(cx);
        self.away(LossReason::ProbeTimedOut.into(), cx);
    }
}
