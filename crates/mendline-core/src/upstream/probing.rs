//! Probes of a server: when they are sent, and what follows from their ends.
//!
//! [`super::availability`] decides which request is the next probe, and what its end means.

use mendline_wire::{Kind, Message};

use super::Upstream;
use super::availability::{Due, NextProbe, ProbeTarget, ProbedSession, Sign, TimerFacts, sign};
use super::call::{Call, Owner, State};
use super::exchange::{Exchange, Verdict};
use super::http::{LookFor, denies_transport};
use super::internal::InternalRequest;
use crate::cx::Cx;
use crate::defaults;
use crate::event::LinkState;
use crate::port::ExchangeId;
use crate::reason::{LossReason, Reason};
use crate::request::Op;
use crate::slab::Key;

impl Upstream {
    /// Plans the next probe, unless one is in flight.
    pub(super) fn schedule_probe(&mut self, cx: &mut Cx<'_>) {
        if !self.is_probing() {
            self.availability.plan_probe(self.gate.resumes_at(cx.now), cx);
        }
    }

    pub(super) fn is_probing(&self) -> bool {
        self.runs(InternalRequest::Probe) || self.runs(InternalRequest::ProbeHandshake)
    }

    /// Gives up the probes in flight: another target is probed from now on.
    pub(super) fn drop_probes(&mut self, cx: &mut Cx<'_>) {
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
        let facts = TimerFacts {
            is_paused: self.gate.is_paused(cx.now),
            is_up: !self.is_probed_by_link(),
            runs_other_probe: self.runs(InternalRequest::Handshake) || self.runs(InternalRequest::Confirm),
        };
        match self.availability.handle_timer(facts) {
            Due::Nothing => {}
            Due::AfterPause => self.schedule_probe(cx),
            Due::Later => self.availability.plan_probe_in(defaults::PROBE_PAUSE, cx),
            Due::Away => self.note_away(cx),
            Due::Probe => self.begin_probe(cx),
        }
    }

    fn begin_probe(&mut self, cx: &mut Cx<'_>) {
        self.availability.begin_probe();
        self.send_probe(cx);
    }

    /// Sends the probe of a dial, if one is needed and known. Returns whether the server is being probed.
    pub(super) fn probe_for_link(&mut self, cx: &mut Cx<'_>) -> bool {
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
        self.begin_probe(cx);
        true
    }

    /// Returns whether a request is in flight that was sent after the server went away: it is the probe.
    pub(super) fn probe_in_flight(&self) -> bool {
        let is_probe =
            |call: &Call| matches!(call.state, State::Sent(_)) && self.availability.is_after_failure(call.begun);
        self.availability.is_away() && self.calls.iter().any(|(_, call)| is_probe(call))
    }

    /// Returns whether the next call is the only possible probe: a handshake, or a call of a client without one.
    fn is_probed_by_call(&self) -> bool {
        let is_known = self.session.was_initialized()
            || self.availability.has_modern_probe()
            || self.calls.waiting().any(|(_, call)| call.request.is_modern());
        !is_known || self.calls.waiting().any(|(_, call)| call.request.op == Op::Initialize)
    }

    fn send_probe(&mut self, cx: &mut Cx<'_>) {
        if self.is_probing() {
            return;
        }
        let is_legacy = self.session.was_initialized();
        if !self.availability.has_modern_probe()
            && !is_legacy
            && let Some((_, call)) = self.calls.waiting().find(|(_, call)| call.request.is_modern())
        {
            self.availability.keep_probe_of(&call.request);
        }
        let target = ProbeTarget { is_legacy, refuses_pings: self.link.refuses_pings() };
        if let Some(request) = self.availability.next_probe(target, cx.now) {
            self.send_internal(InternalRequest::Probe, request, cx);
        }
    }

    /// Handles the end of a probe without a response.
    pub(super) fn probe_ended(&mut self, verdict: Verdict, exchange: &Exchange, cx: &mut Cx<'_>) {
        let sign = match sign(&verdict, exchange) {
            Sign::Failed if exchange.status == Some(403) => Sign::LoginRequired,
            // A server may refuse an unknown session with an error that names no request.
            Sign::Answered if matches!(exchange.status, Some(400 | 404)) => Sign::Unknown,
            sign => sign,
        };
        if self.availability.is_available() {
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
    pub(super) fn probe_failed_after_look(&mut self, sign: Sign, why: Reason, cx: &mut Cx<'_>) {
        let is_linked = matches!(self.link.state(), LinkState::Up | LinkState::Dialing);
        if is_linked && !self.availability.is_available() {
            self.probe_failed(sign, why, cx);
        }
    }

    pub(super) fn probe_failed(&mut self, sign: Sign, why: Reason, cx: &mut Cx<'_>) {
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
    fn probe_refused(&mut self, why: Reason, cx: &mut Cx<'_>) {
        if self.has_sse_stream() {
            // The session ends with its stream; the next dial opens another one.
            self.drop_sse_stream(cx);
            return self.away(why, cx);
        }
        let handshake = self.session.handshake().filter(|_| self.session.is_initialized());
        match self.availability.handle_refused_probe(handshake) {
            NextProbe::Handshake(handshake) => self.send_internal(InternalRequest::ProbeHandshake, handshake, cx),
            NextProbe::Another => self.send_probe(cx),
            NextProbe::Adopt(probed) => self.adopt_session(probed, cx),
            NextProbe::Away => self.away(why, cx),
        }
    }

    /// Handles a handshake that was sent as a probe and answered with a result. Another ping decides which session is
    /// used.
    pub(super) fn probe_handshake_answered(&mut self, id: ExchangeId, key: Key, answer: Message, cx: &mut Cx<'_>) {
        let session = self.session_in(id);
        let Some(call) = self.take(key, cx) else { return };
        if answer.kind() == Kind::Error {
            return self.away(Reason::Error, cx);
        }
        let is_same = session.is_some() && self.is_session(session.as_ref());
        let probed = ProbedSession { session, handshake: call.request, answer };
        // A restarted server can give the same id again: a ping cannot tell the sessions apart. If the old session was
        // found to be lost meanwhile, nothing is left to decide.
        if is_same || self.session.is_lost() {
            self.adopt_session(probed, cx);
        } else if self.session.is_initialized() {
            self.availability.confirm_old_session(probed);
            self.send_probe(cx);
        } else if let Some(session) = probed.session {
            // Another handshake is in flight and gives the verdict.
            self.close_other_session(session, cx);
        }
    }

    /// Uses the session of the probe: the old one is lost.
    fn adopt_session(&mut self, probed: ProbedSession, cx: &mut Cx<'_>) {
        self.availability.begin_probe();
        self.forget_session(cx);
        if self.session.reinitialize().is_none() {
            return;
        }
        let ProbedSession { session, handshake, answer } = probed;
        self.use_session(session, &answer);
        self.came_back(cx);
        self.finish_replay(&handshake, &answer, cx);
    }

    /// Closes the session of a probe that is not used.
    pub(super) fn close_probed_session(&mut self, cx: &mut Cx<'_>) {
        if let Some(session) = self.availability.take_unused_session() {
            self.close_other_session(session, cx);
        }
    }

    /// Handles a probe that found the server overloaded: the calls wait for the end of the pause.
    fn probe_overloaded(&mut self, cx: &mut Cx<'_>) {
        self.pause_without_hint(cx);
        for key in self.calls.take_waiting(|call| call.pending.is_some()) {
            let Some(pending) = self.calls.get_mut(key).and_then(|call| call.pending.take()) else { continue };
            self.failed_while_away(key, *pending, cx);
        }
        self.availability.handle_overload();
        if !self.link.is_up() {
            // The next dial waits for the end of the pause.
            let why = self.gate.reason(cx.now).into();
            self.unreachable(why, false, cx);
        }
    }

    /// Probes a server that answered 503 before the pause, if a call waits, so that no unsafe call meets another 503.
    pub(super) fn probe_after_pause(&mut self, cx: &mut Cx<'_>) {
        let is_due = self.link.is_up() && !self.gate.is_paused(cx.now);
        if !is_due || !self.calls.any_waits() {
            return;
        }
        self.gate.note_probed();
        let is_decided = !self.availability.is_available();
        if is_decided || !self.session.is_open() || self.is_probed_by_call() {
            // A call goes first.
            self.gate.admit_gradually();
            return;
        }
        self.gate.block_admission();
        self.availability.suspect_after_pause(self.link.begun());
        self.send_probe(cx);
    }

    /// Handles a probe that was not answered in time. A server that runs another call may be too busy to answer.
    pub(super) fn probe_expired(&mut self, cx: &mut Cx<'_>) {
        let runs_call = self.calls.iter().any(|(_, call)| {
            matches!((call.owner, call.state), (Owner::Client { .. }, State::Sent(_)))
                && !self.availability.is_after_failure(call.begun)
                && !call.is_subscription()
        });
        if runs_call && self.availability.is_suspect() {
            return self.came_back(cx);
        }
        self.drop_sse_stream(cx);
        self.away(LossReason::ProbeTimedOut.into(), cx);
    }
}

/// Returns whether a response counts as the verdict: for a handshake only a result does.
pub(super) fn proves_availability(call: &Call, answer: &Message) -> bool {
    call.request.op != Op::Initialize || answer.kind() == Kind::Result
}
