//! Requests that were refused for their credential, and their repetition with another one.
//!
//! A client's call waits in the queue, an internal request in the outbox, and a notification beside it. A response that
//! is to be resumed, the stream for notifications and the SSE stream are opened when the credential has changed.

use mendline_wire::Method;

use super::{FailedRenewal, RefusedRequest, Remedy};
use crate::config::CredentialKind;
use crate::cx::Cx;
use crate::event::{CredentialState, Dropped};
use crate::evidence::{Evidence, Outcome};
use crate::policy::backoff;
use crate::port::Challenge;
use crate::reason::{CredentialError, Reason, RefusalReason};
use crate::request::Op;
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::availability::Sign;
use crate::upstream::call::{Call, Owner};
use crate::upstream::exchange::{Exchange, OneWay, Verdict};
use crate::upstream::internal::InternalRequest;
use crate::upstream::link::Link;
use crate::upstream::retry_budget::Incident;
use crate::words::Cause;

impl Upstream {
    /// Handles another credential: what was refused is sent again, and a server that needed a login is probed at once.
    pub fn handle_credential_changed(&mut self, number: u32, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        if http.credential.number() == number {
            // A shell that reports the refused credential again has no newer one.
            return self.handle_credential_failed(CredentialError::Unchanged, cx);
        }
        let was_requested = http.credential.handle_changed(number, cx);
        let one_way = std::mem::take(&mut http.refused_one_way);
        for one_way in one_way {
            self.post_one_way(one_way, cx);
        }
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get_mut(key) else { continue };
            if std::mem::take(&mut call.stream.is_refused) {
                call.stream.resume_at = Some(cx.now);
                self.arm(key, cx);
            } else if call.is_held_internal() {
                self.restart_time(key, cx);
            }
        }
        self.reopen_refused_notices(cx);
        if !was_requested {
            self.probe_login(cx);
        }
    }

    /// Handles a renewal without a newer credential. If its trouble can pass, the refused requests wait on.
    pub fn handle_credential_failed(&mut self, why: CredentialError, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let was_limited = http.credential.is_limited();
        match http.credential.handle_failed(why.clone(), cx) {
            FailedRenewal::Unrequested => self.refusal_changed(was_limited, why, cx),
            FailedRenewal::Continues => self.shorten_grace(cx),
            FailedRenewal::Ended(Challenge::Credential) => self.give_up_refused(why, cx),
            FailedRenewal::Ended(Challenge::Scope) => self.give_up_for_scope(why, cx),
        }
    }

    /// Handles another reason of a refusal: the person did not log in, or the limit of fruitless requests is reached or
    /// has ended.
    fn refusal_changed(&mut self, was_limited: bool, why: CredentialError, cx: &mut Cx<'_>) {
        if !self.is_login_pending() {
            for key in self.calls.take_waiting(is_refused_discover) {
                self.fail(key, Cause::NeedsLogin, Outcome::NotSent, why.clone().into(), cx);
            }
        }
        match (was_limited, self.is_login_limited()) {
            (false, true) if self.availability.needs_login() => self.login_required(&why.into(), cx),
            (true, false) => self.probe_login(cx),
            _ => {}
        }
    }

    /// Returns whether no more probes for a login are to be sent.
    pub(in crate::upstream) fn is_login_limited(&self) -> bool {
        self.link.http().is_some_and(|http| http.credential.is_limited())
    }

    /// The origin of the credential.
    pub(in crate::upstream) fn credential_kind(&self) -> CredentialKind {
        self.link.http().map_or(CredentialKind::Fixed, |http| http.credential.kind())
    }

    /// The state of the credential.
    pub fn credential_state(&self) -> CredentialState {
        self.link.http().map_or(CredentialState::Current, |http| http.credential.state())
    }

    /// The number of its credential.
    pub fn credential_number(&self) -> Option<u32> {
        self.link.http().map(|http| http.credential.number())
    }

    /// Returns whether requests wait for a newer credential.
    pub(in crate::upstream) fn awaits_credential(&self) -> bool {
        self.link.http().is_some_and(|http| http.credential.is_awaited())
    }

    /// Returns whether this call waits, unlike others: for a credential with more permissions, or for a login.
    pub(in crate::upstream) fn is_held_for_credential(&self, call: &Call) -> bool {
        let is_renewing = || self.link.http().is_some_and(|http| http.credential.is_renewing());
        (call.challenged == Some(Challenge::Scope) && is_renewing()) || self.awaits_login(call)
    }

    /// Returns whether this call waits for the person who is logging in. A modern client ends if its first request
    /// fails, and the login would end with it.
    pub(in crate::upstream) fn awaits_login(&self, call: &Call) -> bool {
        is_refused_discover(call) && self.is_login_pending()
    }

    /// Returns whether a person was asked to log in, and has not done it yet.
    pub(in crate::upstream) fn is_login_pending(&self) -> bool {
        self.link.http().is_some_and(|http| http.credential.is_login_pending())
    }

    /// The reason why requests wait for a newer credential, if they do.
    pub(in crate::upstream) fn credential_wait(&self) -> Option<Reason> {
        let credential = &self.link.http()?.credential;
        let why = credential.trouble().cloned().map_or(RefusalReason::CredentialRenewal.into(), Reason::from);
        credential.is_awaited().then_some(why)
    }

    /// Records an answer: the server does not refuse everything.
    pub(in crate::upstream) fn note_credential_answered(&mut self) {
        if let Link::Http(http) = &mut self.link {
            http.credential.note_answered();
        }
    }

    /// Decides what becomes of a request that was refused for its credential.
    pub(in crate::upstream) fn remedy_for(
        &mut self,
        exchange: &Exchange,
        before: Option<Challenge>,
        is_essential: bool,
        cx: &mut Cx<'_>,
    ) -> Remedy {
        let is_login_probe = self.availability.needs_login();
        let Link::Http(http) = &mut self.link else { return Remedy::Login(None) };
        let (used, challenge) = (exchange.credential, exchange.challenge_or_default());
        http.credential.handle_refusal(RefusedRequest { used, challenge, before, is_essential, is_login_probe }, cx)
    }

    /// Lets a refused call of a client wait for the credential. The attempt costs nothing: the call did not run.
    pub(in crate::upstream) fn hold_refused(
        &mut self,
        key: Key,
        evidence: Evidence,
        challenge: Challenge,
        why: Reason,
        cx: &mut Cx<'_>,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.uncounted += 1;
        call.challenged = Some(challenge);
        self.end_attempt(key, evidence, &why, cx);
        self.resend(key, evidence, cx.now, why, Incident::Free, cx);
        self.shorten_grace(cx);
    }

    /// Puts a refused internal request back into the outbox.
    pub(in crate::upstream) fn requeue_refused(&mut self, key: Key, challenge: Challenge, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        (call.challenged, call.is_out) = (Some(challenge), false);
        call.stream.restart();
        self.enqueue(key);
        self.restart_time(key, cx);
        self.shorten_grace(cx);
    }

    /// Handles a resumption that was refused for its credential. Returns whether it is repeated.
    pub(in crate::upstream) fn hold_resumption(&mut self, key: Key, exchange: &Exchange, cx: &mut Cx<'_>) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        let (before, is_internal) = (call.challenged, matches!(call.owner, Owner::Us(_)));
        if call.stream.last_event.is_none() || self.remedy_for(exchange, before, is_internal, cx) != Remedy::SendAgain {
            return false;
        }
        let is_renewing = self.link.http().is_some_and(|http| http.credential.is_renewing());
        let Some(call) = self.calls.get_mut(key) else { return false };
        call.challenged = Some(exchange.challenge_or_default());
        if is_renewing {
            call.stream.is_refused = true;
        } else {
            call.stream.resume_at = Some(cx.now);
        }
        self.arm(key, cx);
        true
    }

    /// Handles a notification or an answer that was refused for its credential. Returns whether it is repeated.
    pub(in crate::upstream) fn hold_one_way(&mut self, exchange: &Exchange, cx: &mut Cx<'_>) -> bool {
        let Some(one_way) = exchange.one_way.clone() else { return false };
        if self.remedy_for(exchange, one_way.challenged, true, cx) != Remedy::SendAgain {
            return false;
        }
        let one_way = OneWay { challenged: Some(exchange.challenge_or_default()), ..one_way };
        let Link::Http(http) = &mut self.link else { return false };
        if http.credential.is_renewing() {
            http.refused_one_way.push(one_way);
        } else {
            self.post_one_way(one_way, cx);
        }
        true
    }

    /// Gives a waiting internal request its whole time again: a renewal is not the server's delay.
    pub(in crate::upstream) fn restart_time(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        (call.arrived, call.attempt_started) = (cx.now, cx.now);
        self.disarm(key, cx);
        self.arm(key, cx);
    }

    /// The source has no newer credential: what waits for it ends, and a probe shows whether the server needs a login
    /// for everything.
    fn give_up_refused(&mut self, why: CredentialError, cx: &mut Cx<'_>) {
        self.availability.note_login_wanted();
        let why =
            self.words_for_login(Remedy::Login(Some(why)), Reason::Status { status: 401, body: None, not_json: false });
        self.end_refused(Challenge::Credential, &why, cx);
        let mut is_refused = false;
        let is_pending = self.is_login_pending();
        let is_held = |call: &Call| call.grace.is_some() || (is_pending && is_refused_discover(call));
        for key in self.calls.take_waiting(|call| !is_held(call)) {
            self.note_probe(key);
            if let Some(call) = self.calls.get_mut(key) {
                is_refused |= call.challenged.is_some();
                call.pending = None;
            }
            self.fail(key, Cause::NeedsLogin, Outcome::NotSent, why.clone(), cx);
        }
        let is_refused_handshake = |call: &Call| call.grace.is_some() && call.challenged.is_some();
        if self.calls.waiting().any(|(_, call)| is_refused_handshake(call)) {
            self.login_required(&why, cx);
            self.unreachable(why, false, cx);
        } else if is_refused {
            self.suspect_login(why, cx);
        }
    }

    /// The source has no credential with more permissions: only the calls that need them end.
    fn give_up_for_scope(&mut self, why: CredentialError, cx: &mut Cx<'_>) {
        let why = Reason::from(why);
        self.end_refused(Challenge::Scope, &why, cx);
        for key in self.calls.take_waiting(|call| call.challenged == Some(Challenge::Scope) && call.grace.is_none()) {
            self.call_needs_login(key, why.clone(), cx);
        }
        if self.calls.waiting().any(|(_, call)| call.grace.is_some() && call.challenged.is_some()) {
            self.login_required(&why, cx);
            self.unreachable(why, false, cx);
        }
    }

    /// Ends what was refused besides clients' calls in the queue: without a valid credential all, without permissions
    /// only what lacks them.
    fn end_refused(&mut self, denied: Challenge, why: &Reason, cx: &mut Cx<'_>) {
        let is_denied = |challenged: Option<Challenge>| denied == Challenge::Credential || challenged == Some(denied);
        let keys = self.calls.keys_by_age();
        for &key in &keys {
            let Some(call) = self.calls.get_mut(key).filter(|call| is_denied(call.challenged)) else { continue };
            if std::mem::take(&mut call.stream.is_refused) {
                // The response is lost, and the call may have run.
                let pause = backoff::retry(&call.policy(&self.config).retry, call.attempts + 1, cx.rng);
                self.settle_for(key, Evidence::SILENCE, cx.now + pause, why.clone(), cx);
            }
        }
        self.drop_refused_one_way(|one_way| is_denied(one_way.challenged), cx);
        for key in keys {
            if self.calls.get(key).is_some_and(|call| call.challenged.is_some() && is_denied(call.challenged)) {
                self.end_refused_internal(key, why, cx);
            }
        }
    }

    /// Drops notifications and answers that were refused for their credential.
    pub(in crate::upstream) fn drop_refused_one_way(&mut self, matches: impl Fn(&OneWay) -> bool, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let (dropped, kept) = std::mem::take(&mut http.refused_one_way).into_iter().partition(matches);
        http.refused_one_way = kept;
        let dropped: Vec<OneWay> = dropped;
        // `initialized` is part of the handshake, which is replayed.
        for one_way in dropped.iter().filter(|one_way| one_way.method != Method::Initialized) {
            self.drop_message(one_way.method, Dropped::Undeliverable, cx);
        }
    }

    /// Ends an internal request that was refused and waits in the outbox.
    fn end_refused_internal(&mut self, key: Key, why: &Reason, cx: &mut Cx<'_>) {
        let Some(Owner::Us(internal)) = self.calls.get(key).filter(|call| call.is_held_internal()).map(|it| it.owner)
        else {
            return;
        };
        match internal {
            InternalRequest::Handshake => self.handshake_failed(key, Verdict::NeedsLogin(why.clone()), cx),
            InternalRequest::Probe | InternalRequest::ProbeHandshake => {
                drop(self.take(key, cx));
                self.probe_failed(Sign::LoginRequired, why.clone(), cx);
            }
            // The server has answered it, which is all that a ping has to show.
            InternalRequest::Ping => drop(self.take(key, cx)),
            _ => self.internal_lost(key, why.clone(), cx),
        }
    }

    /// The reason for a person: that of the source, or else that of the server.
    pub(in crate::upstream) fn words_for_login(&self, remedy: Remedy, said: Reason) -> Reason {
        match remedy {
            Remedy::Login(Some(why)) if why != CredentialError::Unchanged => why.into(),
            _ => said,
        }
    }
}

/// Returns whether this is the first request of a modern client, and was refused for its credential.
pub(in crate::upstream) fn is_refused_discover(call: &Call) -> bool {
    call.request.op == Op::Discover && call.challenged.is_some()
}
