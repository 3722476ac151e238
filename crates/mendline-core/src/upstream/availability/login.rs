//! A server that needs a login: its calls are rejected until a probe is accepted.

use std::time::Duration;

use super::{Condition, discover};
use crate::cx::{Alarm, Cx};
use crate::event::Event;
use crate::evidence::Outcome;
use crate::reason::Reason;
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::credential::login_backoff;
use crate::words::Cause;

impl Upstream {
    /// Handles a probe or a handshake that was refused for want of a login: new calls are rejected until one succeeds.
    pub(in crate::upstream) fn login_required(&mut self, why: &Reason, cx: &mut Cx<'_>) {
        self.wants_login = true;
        self.availability.why = Some(why.clone());
        if self.availability.condition != Condition::NeedsLogin {
            self.availability.condition = Condition::NeedsLogin;
            cx.emit(Event::LoginRequired { upstream: self.id, why: why.clone() });
        }
        for key in self.calls.take_waiting(|call| call.grace.is_none()) {
            if let Some(call) = self.calls.get_mut(key) {
                call.pending = None;
            }
            self.fail(key, Cause::NeedsLogin, Outcome::NotSent, why.clone(), cx);
        }
        self.watch_login(cx);
    }

    /// Schedules the next look whether the server accepts requests again.
    pub(super) fn watch_login(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.availability.timer);
        let wait = login_backoff(self.availability.login_probes);
        self.availability.login_probes = self.availability.login_probes.saturating_add(1);
        // A server that is dialed is not dialed before, either.
        self.link.postpone_until(cx.now + wait, cx);
        if self.link.is_up() {
            self.availability.timer = cx.wake_in(wait, Alarm::Availability(self.id));
        }
    }

    /// Probes a server that needs a login at once, because its credential has changed.
    pub(in crate::upstream) fn probe_login(&mut self, cx: &mut Cx<'_>) {
        if self.availability.condition != Condition::NeedsLogin {
            return;
        }
        self.availability.login_probes = 0;
        self.link.hasten(self.gate.resumes_at(cx.now), cx);
        // A server that is not dialed by itself is dialed, because a person or its source has acted.
        self.link.open(cx);
        if self.link.is_up() {
            cx.disarm(&mut self.availability.timer);
            self.availability.timer = cx.wake_in(Duration::ZERO, Alarm::Availability(self.id));
        }
    }

    /// Handles a call that was refused for want of a login. It is answered at once; a probe shows whether this holds for
    /// all calls.
    pub(in crate::upstream) fn call_needs_login(&mut self, key: Key, why: Reason, cx: &mut Cx<'_>) {
        self.note_probe(key);
        self.fail(key, Cause::NeedsLogin, Outcome::Refused, why.clone(), cx);
        self.suspect_login(why, cx);
    }

    /// Keeps the modern probe that has the metadata of this call.
    pub(in crate::upstream) fn note_probe(&mut self, key: Key) {
        if let Some(call) = self.calls.get(key).filter(|call| call.request.is_modern()) {
            self.availability.discover = discover(&call.request);
        }
    }

    /// Lets a probe decide whether the server needs a login for everything.
    pub(in crate::upstream) fn suspect_login(&mut self, why: Reason, cx: &mut Cx<'_>) {
        // With another credential a ping before the handshake would be admitted, so the next handshake is the probe.
        let is_probed_by_handshake = !self.session.was_initialized() && self.availability.discover.is_none();
        if is_probed_by_handshake && self.credential_kind().is_renewable() {
            return;
        }
        if self.availability.condition == Condition::Available && self.link.is_up() {
            if let Some(http) = &self.http {
                self.availability.begun_before = http.begun();
            }
            self.suspect(why, cx);
        }
    }

    /// The reason why a new call is rejected for want of a login.
    pub(in crate::upstream) fn login_rejection(&self) -> Option<(Cause, Reason)> {
        let needs_login = self.availability.condition == Condition::NeedsLogin;
        let why =
            || self.availability.why.clone().unwrap_or(Reason::Status { status: 401, body: None, not_json: false });
        needs_login.then(|| (Cause::NeedsLogin, why()))
    }
}
