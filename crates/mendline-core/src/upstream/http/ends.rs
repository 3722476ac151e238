//! The end of an exchange: completed, sent again, resumed, re-initialized or failed.
//!
//! [`judge`] gives the verdict; this module carries it out.

use mendline_wire::Method;

use super::session_loss::{Refused, answer_of};
use super::{HttpLink, Refusal};
use crate::config::Dialect;
use crate::cx::Cx;
use crate::defaults;
use crate::event::Dropped;
use crate::evidence::{Evidence, Outcome, Reply};
use crate::policy::backoff;
use crate::policy::retry::{self, StatusRule};
use crate::port::{ExchangeEnd, ExchangeId, Written};
use crate::reason::{HandshakeError, Reason};
use crate::request::Op;
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::availability::{self, Sign};
use crate::upstream::call::{Call, Owner, PendingVerdict};
use crate::upstream::calls::cause_of;
use crate::upstream::credential::Remedy;
use crate::upstream::exchange::{Exchange, ExchangeContext, OneWay, Purpose, Verdict, judge};
use crate::upstream::internal::InternalRequest;
use crate::upstream::link::{EndedBy, Link};
use crate::upstream::retry_budget::Incident;
use crate::words::Cause;

/// A client's call whose exchange has ended without its answer.
struct EndedCall<'a> {
    key: Key,
    exchange: &'a Exchange,
    how: &'a ExchangeEnd,
    written: Written,
    sign: Sign,
    /// The configuration forbids another attempt.
    is_final: bool,
    /// The server named a time to wait.
    is_busy: bool,
    is_initialize: bool,
    /// It is a first handshake, which is answered provisionally soon.
    has_grace: bool,
    /// Its SSE stream is gone.
    is_orphan: bool,
    /// Its SSE stream is open.
    over_sse: bool,
}

impl EndedCall<'_> {
    /// The evidence of its status.
    fn evidence_or(&self, status: u16) -> Evidence {
        Evidence { written: self.written, reply: Reply::Status(self.exchange.status.unwrap_or(status)) }
    }

    /// Returns whether a probe decides what its failure means.
    fn needs_verdict(&self) -> bool {
        matches!(self.sign, Sign::Failed | Sign::Unknown)
            && !self.exchange.resumes
            && !self.is_orphan
            && (!self.is_initialize || (self.has_grace && !self.over_sse))
    }
}

impl Upstream {
    pub fn handle_end(&mut self, id: ExchangeId, how: &ExchangeEnd, written: Written, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(exchange) = http.exchanges.remove(&id) else { return };
        let exchange = *exchange;
        match exchange.purpose {
            // A server may close the connection after its answer to the handshake: `initialized` gets a fresh one.
            Purpose::OneWay if http.pending_initialized == Some(id) && is_repeatable(&exchange, how) => {
                if let Some(one_way) = exchange.one_way {
                    self.post_one_way(OneWay { lost: one_way.lost + 1, ..one_way }, cx);
                }
            }
            // The result of the look decides.
            Purpose::OneWay if http.pending_initialized == Some(id) && http.looks_for_sse() => {}
            Purpose::OneWay if http.pending_initialized == Some(id) => {
                let why = match how {
                    ExchangeEnd::NoConnection(why) => why.clone().into(),
                    ExchangeEnd::Cut(why) => why.clone().into(),
                    _ => HandshakeError::InitializedRejected { status: None }.into(),
                };
                self.handshake_incomplete(why, cx);
            }
            Purpose::Call(key) => {
                self.call_ended(key, &exchange, how, written, cx);
            }
            Purpose::OneWay => self.one_way_ended(&exchange, how, written, cx),
            Purpose::Notices => self.notices_ended(&exchange, cx),
            Purpose::SseStream => self.sse_stream_ended(&exchange, how, cx),
            Purpose::Look => self.look_failed(exchange.status.is_some(), cx),
            Purpose::CloseSession | Purpose::Dropped => {}
        }
        self.close_session(cx);
    }

    fn call_ended(&mut self, key: Key, exchange: &Exchange, how: &ExchangeEnd, written: Written, cx: &mut Cx<'_>) {
        if exchange.resumes && exchange.is_refused_for_credential() && self.hold_resumption(key, exchange, cx) {
            return;
        }
        let (Some(call), Link::Http(http)) = (self.calls.get(key), &self.link) else { return };
        let is_orphan = http.is_orphan(exchange);
        let over_sse = http.dialect == Dialect::Sse && http.sse_stream().is_some() && !is_orphan;
        if over_sse && matches!((exchange.status, how), (Some(200..300), ExchangeEnd::Complete)) {
            // Accepted; the answer comes over the SSE stream.
            return;
        }
        let context = self.context_of(call, http, is_orphan, over_sse);
        let verdict = judge(exchange, how, written, &context);
        let sign = availability::sign(&verdict, exchange);
        let is_busy = exchange.retry_after.is_some();
        if let Owner::Us(internal) = call.owner
            && !matches!(verdict, Verdict::Resume(_))
        {
            if sign == Sign::Overloaded && !is_busy && !internal.is_probe() {
                // It pauses the calls, too, and the next handshake.
                self.pause_without_hint(cx);
            }
            let Some(verdict) = self.remedy_internal(key, verdict, exchange, cx) else { return };
            return self.internal_ended(key, internal, verdict, exchange, cx);
        }
        let is_initialize = call.request.op == Op::Initialize;
        let rule = exchange.status.filter(|_| !is_initialize && !exchange.resumes && !is_orphan);
        // A lost session, a missing login and a misdirected request have their own handling.
        let policy = &call.policy(&self.config).retry;
        let rule = rule.and_then(|status| retry::rule_for_status(status, call.effect, policy));
        let (verdict, is_final) = apply_rule(verdict, rule, exchange, written);
        let has_grace = call.grace.is_some();
        let ended = EndedCall {
            key,
            exchange,
            how,
            written,
            sign,
            is_final,
            is_busy,
            is_initialize,
            has_grace,
            is_orphan,
            over_sse,
        };
        self.apply_verdict(&ended, verdict, cx);
    }

    fn context_of(&self, call: &Call, http: &HttpLink, is_orphan: bool, over_sse: bool) -> ExchangeContext {
        let policy = call.policy(&self.config);
        let resumable = !call.request.is_modern()
            && call.stream.tries < policy.resume_attempts
            && call.stream.total < policy.resume_total;
        ExchangeContext {
            last_event: call.stream.last_event.clone().filter(|_| resumable),
            can_lose_session: !call.refused_once && self.session.was_initialized() && call.request.op != Op::Initialize,
            misdirected_once: call.sent_afresh,
            // A server that needs a new handshake may be another one, with another transport.
            undetermined: http.dialect == Dialect::Auto
                && (!self.link.has_ever_answered() || call.owner == Owner::Us(InternalRequest::Handshake)),
            over_sse: over_sse || is_orphan,
            is_orphan,
            unproven_era: !http.supports_modern && call.request.is_modern(),
        }
    }

    /// Does what follows from the verdict about a client's call.
    fn apply_verdict(&mut self, ended: &EndedCall<'_>, verdict: Verdict, cx: &mut Cx<'_>) {
        let (key, exchange) = (ended.key, ended.exchange);
        match verdict {
            Verdict::Settle(evidence, why) => self.settle_ended(ended, evidence, why, cx),
            Verdict::Unreachable(why) => self.call_unreachable(ended, why, false, cx),
            Verdict::Forbidden(why) => self.call_unreachable(ended, why, true, cx),
            Verdict::SessionReportedLost(why) => {
                if let Some(refusal) = Refusal::of(exchange) {
                    let refused = Refused { key, refusal, answer: None, why };
                    self.session_reported_lost(exchange.session_number, refusal, Some(refused), cx);
                }
            }
            Verdict::Resume(_) => self.resume_later(ended, cx),
            Verdict::OtherDialect(why) => {
                let evidence = ended.evidence_or(405);
                self.try_other_dialect(key, evidence, why, cx);
            }
            Verdict::OtherEra(why) => {
                self.remember_refused_discover(key, &why, cx);
                // An error in the body refuses the request; a bare status may not.
                let reply = match (&exchange.error_body, exchange.status) {
                    (None, Some(status)) => Reply::Status(status),
                    _ => Reply::HeadersRefused,
                };
                let evidence = Evidence { written: ended.written, reply };
                self.end_attempt(key, evidence, &why, cx);
                self.fail(key, Cause::OtherEra, evidence.outcome(), why, cx);
            }
            Verdict::NeedsLogin(why) => self.call_met_login(ended, why, cx),
            Verdict::Refused(why) if !ended.is_initialize || (ended.has_grace && exchange.status != Some(403)) => {
                let (evidence, is_final) = (ended.evidence_or(404), ended.is_final);
                self.call_failed(key, PendingVerdict { evidence, why, is_refusal: true, is_final }, cx);
            }
            Verdict::Refused(why) => {
                self.note_health(key, None, cx);
                self.fail(key, Cause::Refused, Outcome::Refused, why, cx);
            }
            Verdict::Answered => {
                if let Some(answer) = exchange.error_body.as_ref().and_then(|it| answer_of(it, key)) {
                    self.pass_on(answer, cx);
                }
            }
            Verdict::Final(why) => {
                self.note_health(key, None, cx);
                self.fail(key, Cause::CannotBridge, Outcome::Unknown, why, cx);
            }
        }
    }

    /// Settles a call by the evidence of its exchange.
    fn settle_ended(&mut self, ended: &EndedCall<'_>, evidence: Evidence, why: Reason, cx: &mut Cx<'_>) {
        let &EndedCall { key, exchange, sign, is_final, is_busy, is_initialize, over_sse, .. } = ended;
        let sent_afresh = self.calls.get(key).is_some_and(|call| call.sent_afresh);
        if is_final && sign == Sign::Overloaded {
            self.overloaded_call_answered(key, evidence, why, is_busy, cx);
        } else if evidence.reply == Reply::HeadersRefused {
            self.headers_refused(key, evidence, why, cx);
        } else if evidence.reply == Reply::RefusedByTransport && sent_afresh {
            // Refused on a fresh connection, too: the next one would be no better.
            self.end_attempt(key, evidence, &why, cx);
            self.fail(key, cause_of(evidence), evidence.outcome(), why, cx);
        } else if sign == Sign::Overloaded && !exchange.resumes {
            self.call_overloaded(key, evidence, why, is_busy, cx);
            if is_initialize && over_sse && evidence.outcome() == Outcome::Unknown {
                // A server must not be initialized twice, and the handshake may have arrived.
                self.drain_link(HandshakeError::Unknown.into(), EndedBy::Us, cx);
            }
        } else if ended.needs_verdict() {
            self.call_failed(key, PendingVerdict { evidence, why, is_refusal: false, is_final }, cx);
        } else {
            self.settle_alone(ended, evidence, why, cx);
        }
    }

    /// Settles a call whose end says nothing about the server.
    fn settle_alone(&mut self, ended: &EndedCall<'_>, evidence: Evidence, why: Reason, cx: &mut Cx<'_>) {
        let (key, exchange) = (ended.key, ended.exchange);
        let Some(call) = self.calls.get_mut(key) else { return };
        let policy = call.policy(&self.config);
        // An unsent call costs no attempt, so only its backoff bounds the rate.
        let pause = match evidence.outcome() {
            Outcome::NotSent => backoff::unsent(&policy.reconnect, call.unsent + 1, cx.rng),
            _ => backoff::retry(&policy.retry, call.attempts + 1, cx.rng),
        };
        let not_before = self.gate.resumes_at(cx.now) + pause;
        call.sent_afresh |= matches!(evidence.reply, Reply::Status(421) | Reply::RefusedByTransport);
        if ended.is_orphan && evidence.reply == Reply::SessionGone && self.session.was_initialized() {
            (call.refused_once, call.lost_in) = (true, Some(exchange.session_number));
        }
        self.settle_for(key, evidence, not_before, why, cx);
        if ended.is_initialize && evidence.outcome() == Outcome::Unknown && ended.over_sse {
            // A server must not be initialized twice, and the handshake may have arrived.
            self.drain_link(HandshakeError::Unknown.into(), EndedBy::Us, cx);
        }
        if let (true, Some(404), Some(refusal)) = (exchange.resumes, exchange.status, Refusal::of(exchange)) {
            self.session_reported_lost(exchange.session_number, refusal, None, cx);
        }
    }

    /// Handles a call that got no connection, or whose connection is `forbidden`.
    fn call_unreachable(&mut self, ended: &EndedCall<'_>, why: Reason, forbidden: bool, cx: &mut Cx<'_>) {
        let key = ended.key;
        let Some(call) = self.calls.get_mut(key) else { return };
        // With an open SSE stream only this POST failed, not the upstream. One that is not allowed fails at once.
        if forbidden && ended.over_sse {
            call.attempts -= 1;
            return self.fail(key, Cause::Unavailable, Outcome::NotSent, why, cx);
        }
        if !forbidden && (ended.over_sse || ended.is_orphan) {
            let reconnect = &call.policy(&self.config).reconnect;
            let not_before = cx.now + backoff::unsent(reconnect, call.unsent + 1, cx.rng);
            return self.settle_for(key, Evidence::UNSENT, not_before, why, cx);
        }
        self.settle_for(key, Evidence::UNSENT, cx.now, why.clone(), cx);
        self.unreachable(why, forbidden, cx);
    }

    /// Resumes the event stream of a call after a pause.
    fn resume_later(&mut self, ended: &EndedCall<'_>, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(ended.key) else { return };
        call.stream.tries += 1;
        call.stream.total += 1;
        let wait = call.stream.retry.unwrap_or(defaults::RESUME_WAIT);
        // A server that ends every stream of a handshake is not ready yet.
        let pause = backoff::resumed_handshake(call.stream.total);
        call.stream.resume_at = Some(cx.now + if ended.is_initialize { wait.max(pause) } else { wait });
        self.arm(ended.key, cx);
        if let (true, ExchangeEnd::NoConnection(why)) = (ended.exchange.resumes, ended.how) {
            self.unreachable(why.clone().into(), false, cx);
        }
    }

    /// Handles a call that needs a login. A first handshake waits for its provisional answer, which names the login.
    fn call_met_login(&mut self, ended: &EndedCall<'_>, why: Reason, cx: &mut Cx<'_>) {
        let evidence = ended.evidence_or(401);
        let before = self.calls.get(ended.key).and_then(|call| call.challenged);
        let remedy = self.remedy_for(ended.exchange, before, ended.is_initialize, cx);
        if remedy == Remedy::SendAgain {
            return self.hold_refused(ended.key, evidence, ended.exchange.challenge_or_default(), why, cx);
        }
        let why = self.words_for_login(remedy, why);
        if !ended.has_grace {
            self.availability.note_login_wanted();
            return self.call_needs_login(ended.key, why, cx);
        }
        if let Some(call) = self.calls.get_mut(ended.key) {
            call.uncounted += 1;
        }
        self.end_attempt(ended.key, evidence, &why, cx);
        self.resend(ended.key, evidence, cx.now, why.clone(), Incident::Free, cx);
        self.login_required(&why, cx);
        self.unreachable(why, false, cx);
    }

    /// Puts an internal request that was refused for its credential back into the outbox. Returns the verdict if it is
    /// not sent again.
    fn remedy_internal(&mut self, key: Key, verdict: Verdict, exchange: &Exchange, cx: &mut Cx<'_>) -> Option<Verdict> {
        let Verdict::NeedsLogin(why) = verdict else { return Some(verdict) };
        let before = self.calls.get(key).and_then(|call| call.challenged);
        let remedy = self.remedy_for(exchange, before, true, cx);
        if remedy == Remedy::SendAgain {
            self.requeue_refused(key, exchange.challenge_or_default(), cx);
            return None;
        }
        Some(Verdict::NeedsLogin(self.words_for_login(remedy, why)))
    }

    /// Returns whether the transport is legacy SSE with an open SSE stream.
    pub(in crate::upstream) fn has_sse_stream(&self) -> bool {
        self.link.http().is_some_and(HttpLink::has_sse_stream)
    }

    fn one_way_ended(&mut self, exchange: &Exchange, how: &ExchangeEnd, written: Written, cx: &mut Cx<'_>) {
        if exchange.status.is_none() {
            if let Some(one_way) = self.one_way_to_repeat(exchange, how, written) {
                return self.post_one_way(one_way, cx);
            }
            self.drop_message(Method::None, Dropped::Undeliverable, cx);
            let over_sse = self.link.http().is_some_and(|http| http.sse_stream().is_some());
            if let (ExchangeEnd::NoConnection(why), false) = (how, over_sse) {
                self.unreachable(why.clone().into(), false, cx);
            }
        }
    }

    /// Returns the message of an interrupted POST if it is to be sent again: a notification that cannot have arrived,
    /// and any answer. A server ignores a second answer; without one its call would time out.
    fn one_way_to_repeat(&self, exchange: &Exchange, how: &ExchangeEnd, written: Written) -> Option<OneWay> {
        let one_way = exchange.one_way.as_ref()?;
        let is_current = self.link.http().is_some_and(|http| http.session.number() == exchange.session_number);
        let was_cut = matches!(how, ExchangeEnd::Cut(_) | ExchangeEnd::Refused);
        let may_repeat = one_way.method == Method::None || written != Written::Whole || *how == ExchangeEnd::Refused;
        let lost = one_way.lost + 1;
        (is_current && was_cut && may_repeat && lost < one_way.most).then(|| OneWay { lost, ..one_way.clone() })
    }

    pub(in crate::upstream) fn unreachable(&mut self, why: Reason, permanent: bool, cx: &mut Cx<'_>) {
        let called = self.calls.any_waits();
        self.link.handle_unreachable(why, permanent, called, cx);
        self.note_away(cx);
        self.shorten_grace(cx);
    }
}

/// Applies the configured rule for the status of an exchange. Returns whether the call is answered at once.
fn apply_rule(verdict: Verdict, rule: Option<StatusRule>, exchange: &Exchange, written: Written) -> (Verdict, bool) {
    let (Some(rule), Some(status)) = (rule, exchange.status) else { return (verdict, false) };
    let reply = match rule {
        StatusRule::Answer | StatusRule::Repeat => Reply::Status(status),
        StatusRule::Unprocessed => Reply::Unprocessed(status),
    };
    match verdict {
        // A request that was not sent whole did not run, whatever the rule.
        Verdict::Settle(Evidence { reply: Reply::Status(_), .. }, why) if written == Written::Whole => {
            (Verdict::Settle(Evidence { written, reply }, why), rule == StatusRule::Answer)
        }
        Verdict::Refused(why) if rule == StatusRule::Answer => (Verdict::Refused(why), true),
        Verdict::Refused(why) => (Verdict::Settle(Evidence { written, reply }, why), false),
        verdict => (verdict, false),
    }
}

/// Returns whether `initialized` is sent once more: its connection broke, and it is not known whether it arrived.
fn is_repeatable(exchange: &Exchange, how: &ExchangeEnd) -> bool {
    let lost = exchange.one_way.as_ref().map_or(0, |one_way| one_way.lost);
    exchange.status.is_none() && matches!(how, ExchangeEnd::Cut(_)) && lost + 1 < defaults::INITIALIZED_ATTEMPTS
}
