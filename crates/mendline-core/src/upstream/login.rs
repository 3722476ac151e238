//! A server that needs a login: its calls are rejected until a probe is accepted.

use std::time::Duration;

use super::Upstream;
use super::availability::Sign;
use super::call::Call;
use super::credential::is_refused_discover;
use crate::cx::Cx;
use crate::evidence::Outcome;
use crate::reason::Reason;
use crate::slab::Key;
use crate::words::Cause;

impl Upstream {
    /// Handles a probe or a handshake that was refused for want of a login: new calls are rejected until one succeeds.
    pub(super) fn login_required(&mut self, why: &Reason, cx: &mut Cx<'_>) {
        self.availability.handle_login_required(why, self.is_login_limited(), cx);
        let is_pending = self.is_login_pending();
        let is_held = |call: &Call| call.grace.is_some() || (is_pending && is_refused_discover(call));
        for key in self.calls.take_waiting(|call| !is_held(call)) {
            if let Some(call) = self.calls.get_mut(key) {
                call.pending = None;
            }
            self.fail(key, Cause::NeedsLogin, Outcome::NotSent, why.clone(), cx);
        }
        self.watch_login(cx);
    }

    /// Schedules the next look whether the server accepts requests again.
    fn watch_login(&mut self, cx: &mut Cx<'_>) {
        let wait = self.availability.next_login_wait(self.is_login_limited(), cx);
        // A server that is dialed is not dialed before, either.
        self.link.postpone_until(cx.now + wait, cx);
        if self.link.is_up() {
            self.availability.plan_probe_in(wait, cx);
        }
    }

    /// Probes a server that needs a login at once, because its credential has changed.
    pub(super) fn probe_login(&mut self, cx: &mut Cx<'_>) {
        if !self.availability.needs_login() {
            return;
        }
        self.availability.restart_login_waits();
        self.link.hasten(self.gate.resumes_at(cx.now), cx);
        // A server that is not dialed by itself is dialed, because a person or its source has acted.
        self.link.open(cx);
        if self.link.is_up() {
            self.availability.plan_probe_in(Duration::ZERO, cx);
        }
    }

    /// Handles a call that was refused for want of a login. It is answered at once; a probe shows whether this holds for
    /// all calls.
    pub(super) fn call_needs_login(&mut self, key: Key, why: Reason, cx: &mut Cx<'_>) {
        self.note_probe(key);
        self.fail(key, Cause::NeedsLogin, Outcome::Refused, why.clone(), cx);
        self.suspect_login(why, cx);
    }

    /// Keeps the modern probe that has the metadata of this call.
    pub(super) fn note_probe(&mut self, key: Key) {
        if let Some(call) = self.calls.get(key) {
            self.availability.keep_probe_of(&call.request);
        }
    }

    /// Lets a probe decide whether the server needs a login for everything.
    pub(super) fn suspect_login(&mut self, why: Reason, cx: &mut Cx<'_>) {
        // With another credential a ping before the handshake would be admitted, so the next handshake is the probe.
        let is_probed_by_handshake = !self.session.was_initialized() && !self.availability.has_modern_probe();
        if is_probed_by_handshake && self.credential_kind().is_renewable() {
            return;
        }
        if self.availability.is_available() && self.link.is_up() {
            self.availability.note_failed_login(self.link.begun());
            self.suspect(Sign::LoginRequired, why, cx);
        }
    }

    /// The reason why a new call is rejected for want of a login.
    pub(super) fn login_rejection(&self) -> Option<(Cause, Reason)> {
        let needs_login = self.availability.needs_login();
        let why =
            || self.availability.why().cloned().unwrap_or(Reason::Status { status: 401, body: None, not_json: false });
        needs_login.then(|| (Cause::NeedsLogin, why()))
    }
}
