//! The loss of a session: a refusal reports it, a ping confirms it.
//!
//! Servers report a lost session in many ways: with 404, with 400, with an error in the body. Tools use the same words
//! for sessions of their own, and so do routers for unknown paths. Sending a call again because of such words can run
//! it twice, so they are only a suspicion. One ping on the same session decides, for all refused calls:
//! - the ping gets the same status and code, or an error that names the session: the session is lost. The handshake is
//!   repeated, and each refused call is sent once more, unsafe ones too, because a lost session runs nothing;
//! - the ping is answered: the session is alive, and the refusal belongs to the call. An error in a body is the answer;
//! - neither: unconfirmed. An unsafe call is `unknown`, a repeatable one is sent again.
//!
//! A session that has answered only its handshake was never created: the next handshake waits for the backoff.
//! Otherwise a server that drops every session would be initialized in a loop. Each call is sent once more for a lost
//! session; if the next session refuses it too, that is the answer.
//!
//! Some servers refuse every ping. The pings that test idle connections reveal them: once a ping is refused in a
//! session that then answers a call, refused pings prove nothing.

use mendline_wire::{Id, Kind, Message};

use super::{HttpLink, LookFor};
use crate::config::Dialect;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::evidence::{Evidence, Outcome, Reply};
use crate::list_cache::error_code;
use crate::policy::backoff;
use crate::policy::retry::{self, StatusRule};
use crate::port::{Content, ExchangeId, Written};
use crate::reason::{LossReason, Reason};
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::Owner;
use crate::upstream::calls::cause_of;
use crate::upstream::exchange::{ErrorBody, Exchange, Purpose, names_session};
use crate::upstream::inbound::number_of_other_type;
use crate::upstream::internal::InternalRequest;
use crate::upstream::keepalive::ping;
use crate::upstream::link::Link;
use crate::words::{Cause, error_response};

/// A refusal: the HTTP status, and the code of the JSON-RPC error if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    status: u16,
    code: Option<i64>,
    /// Its text is about the session.
    names_session: bool,
}

impl Refusal {
    /// A refusal with only a status.
    pub fn bare(status: u16) -> Refusal {
        Refusal { status, code: None, names_session: false }
    }

    /// The refusal of an ended exchange.
    pub fn of(exchange: &Exchange) -> Option<Refusal> {
        let status = exchange.status?;
        Some(match &exchange.error_body {
            Some(error_body) => Refusal::with(status, error_body.code, &error_body.words),
            None => Refusal::bare(status),
        })
    }

    pub(super) fn with(status: u16, code: i64, words: &str) -> Refusal {
        Refusal { status, code: Some(code), names_session: names_session(words) }
    }

    /// Returns whether it is an error in the body of a successful response.
    fn is_in_body(self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether a ping with this refusal confirms the reported loss: the same status and code, or an error about
    /// the session. A bare refusal with another status may be this server's reply to every ping.
    fn confirms(self, said: Refusal) -> bool {
        let is_same = self.status == said.status && self.code == said.code;
        is_same || self.names_session
    }
}

/// A refused call that waits for the confirmation.
#[derive(Debug)]
pub struct Refused {
    pub key: Key,
    pub refusal: Refusal,
    /// The error, under the number of the call.
    pub answer: Option<Message>,
    pub why: Reason,
}

/// A session that is reported lost, while a ping confirms it.
#[derive(Debug)]
pub(super) struct Suspicion {
    refusal: Refusal,
    refused: Vec<Refused>,
    /// The number of pings sent.
    pings: u32,
    /// The stream for notifications reported it.
    by_notices: bool,
    about: About,
}

/// The subject of a suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Session,
    /// An error that can be the refusal of every request, see [`super::detection`].
    Transport,
}

/// The finding about a session that was reported lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Lost,
    Alive,
    Unconfirmed,
    /// This server refuses pings in live sessions.
    CannotBeConfirmed,
}

impl HttpLink {
    /// Records an answer in the current session, other than that of the handshake.
    pub(super) fn note_session_answer(&mut self) {
        self.session.note_answer();
        self.prove_transport();
    }

    /// Ignores the rest of a call's exchange. A body is read to its end, so that its connection can be reused; an event
    /// stream is aborted.
    pub(super) fn leave(&mut self, id: ExchangeId, cx: &mut Cx<'_>) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        match (exchange.purpose, exchange.content) {
            (Purpose::Call(_), Content::Events) => self.abort(id, cx),
            (Purpose::Call(_), _) => exchange.purpose = Purpose::Dropped,
            _ => {}
        }
    }
}

impl Upstream {
    /// Returns whether this error to this call reports the session as lost.
    pub(super) fn reports_session_lost(&self, id: ExchangeId, key: Key, error_body: &ErrorBody) -> bool {
        let (Link::Http(http), Some(call)) = (&self.link, self.calls.get(key)) else { return false };
        let Some(exchange) = http.exchanges.get(&id) else { return false };
        let is_named = exchange.session_named.is_some() || http.dialect == Dialect::Sse;
        let asks_for_it = matches!(
            call.owner,
            Owner::Us(
                InternalRequest::Handshake
                    | InternalRequest::Ping
                    | InternalRequest::Confirm
                    | InternalRequest::Probe
                    | InternalRequest::ProbeHandshake
            )
        );
        let can_lose =
            is_named && !exchange.resumes && !call.refused_once && !asks_for_it && self.session.was_initialized();
        let by_status = match exchange.status {
            Some(400 | 404) => true,
            Some(200..300) => matches!(error_body.code, -32000 | -32001 | -32600 | -32602),
            _ => false,
        };
        can_lose && by_status && names_session(&error_body.words)
    }

    /// Handles a call that was refused with such an error.
    pub(super) fn refused_for_session(&mut self, id: ExchangeId, key: Key, error_body: &ErrorBody, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(exchange) = http.exchanges.get(&id) else { return };
        let session_number = exchange.session_number;
        let refusal = Refusal::with(exchange.status.unwrap_or(200), error_body.code, &error_body.words);
        let why = Reason::ErrorBody { message: error_body.words.clone() };
        http.leave(id, cx);
        if matches!(self.calls.get(key).map(|call| call.owner), Some(Owner::Us(_))) {
            self.internal_lost(key, why, cx);
            return self.session_reported_lost(session_number, refusal, None, cx);
        }
        let refused = Refused { key, refusal, answer: answer_of(error_body, key), why };
        self.session_reported_lost(session_number, refusal, Some(refused), cx);
    }

    /// Handles a reported loss. The refused call waits for the confirmation.
    pub(in crate::upstream) fn session_reported_lost(
        &mut self,
        session_number: u32,
        refusal: Refusal,
        refused: Option<Refused>,
        cx: &mut Cx<'_>,
    ) {
        let Link::Http(http) = &mut self.link else { return };
        if session_number != http.session.number() {
            // The session was replaced meanwhile, perhaps for this reason.
            let finding = if http.session.was_lost(session_number) { Finding::Lost } else { Finding::Unconfirmed };
            if let Some(refused) = refused {
                self.settle_refused(refused, finding, session_number, cx);
            }
            return;
        }
        if let Some(suspicion) = &mut http.suspicion {
            suspicion.about = About::Session;
            return suspicion.refused.extend(refused);
        }
        self.suspect_session(refusal, refused, About::Session, cx);
    }

    /// Handles an error that can be the refusal of every request. The refused call waits for the confirmation.
    pub(super) fn error_doubted(
        &mut self,
        session_number: u32,
        refusal: Refusal,
        call: Option<(Key, &ErrorBody)>,
        cx: &mut Cx<'_>,
    ) {
        let why = |error: &ErrorBody| Reason::ErrorBody { message: error.words.clone() };
        let refused = call.map(|(key, error)| Refused { key, refusal, answer: answer_of(error, key), why: why(error) });
        let is_current = self.is_current_session(session_number);
        match self.link.http_mut().and_then(|http| http.suspicion.as_mut()) {
            Some(suspicion) => suspicion.refused.extend(refused),
            None if is_current => self.suspect_session(refusal, refused, About::Transport, cx),
            None => {
                if let Some(answer) = refused.and_then(|refused| refused.answer) {
                    self.pass_on(answer, cx);
                }
            }
        }
    }

    fn suspect_session(&mut self, refusal: Refusal, refused: Option<Refused>, about: About, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let is_pointless = http.session.refuses_pings();
        http.suspicion =
            Some(Suspicion { refusal, refused: refused.into_iter().collect(), pings: 0, by_notices: false, about });
        if is_pointless {
            return self.settle_suspicion(Finding::CannotBeConfirmed, cx);
        }
        if !self.ping_to_confirm(cx) {
            self.settle_suspicion(Finding::Unconfirmed, cx);
        }
    }

    /// Sends the confirming ping, once more if a broken connection took it. Returns whether one is in flight.
    pub(in crate::upstream) fn ping_to_confirm(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.is_closing() {
            // The session ends anyway.
            return false;
        }
        let Some(suspicion) = self.link.http_mut().and_then(|http| http.suspicion.as_mut()) else { return false };
        let Some(ping) = ping().filter(|_| suspicion.pings < defaults::CONFIRMATIONS) else { return false };
        suspicion.pings += 1;
        self.send_internal(InternalRequest::Confirm, ping, cx);
        self.runs(InternalRequest::Confirm)
    }

    /// Handles a refusal of the notification stream that reports the session as lost.
    pub(super) fn notices_reported_lost(&mut self, session_number: u32, refusal: Refusal, cx: &mut Cx<'_>) {
        self.session_reported_lost(session_number, refusal, None, cx);
        if let Some(suspicion) = self.link.http_mut().and_then(|http| http.suspicion.as_mut()) {
            suspicion.by_notices = true;
        }
    }

    /// Handles the response to the confirming ping.
    pub(super) fn confirmation_answered(&mut self, id: ExchangeId, key: Key, answer: &Message, cx: &mut Cx<'_>) {
        let Some(exchange) = self.link.http().and_then(|http| http.exchanges.get(&id)) else { return };
        let code = error_code(answer).unwrap_or_default();
        let words = answer.get_str(&["message"]).unwrap_or_default();
        let refusal = Refusal::with(exchange.status.unwrap_or(200), code, &words);
        let (session_number, is_error) = (exchange.session_number, answer.kind() == Kind::Error);
        drop(self.take(key, cx));
        if let Link::Http(http) = &mut self.link {
            http.leave(id, cx);
        }
        self.confirmation_ended(session_number, is_error.then_some(refusal), !is_error, cx);
    }

    /// Handles the end of the confirming ping: refused, answered or neither.
    pub(in crate::upstream) fn confirmation_ended(
        &mut self,
        session_number: u32,
        refusal: Option<Refusal>,
        is_answered: bool,
        cx: &mut Cx<'_>,
    ) {
        let Link::Http(http) = &self.link else { return };
        let Some(suspicion) = http.suspicion.as_ref().filter(|_| http.session.number() == session_number) else {
            return;
        };
        let finding = match refusal {
            _ if is_answered => Finding::Alive,
            Some(refusal) if refusal.confirms(suspicion.refusal) => Finding::Lost,
            // Another error in a body is an answer: the server does not know pings.
            Some(refusal) if refusal.is_in_body() => Finding::Alive,
            _ => Finding::Unconfirmed,
        };
        self.settle_suspicion(finding, cx);
    }

    /// Returns whether an exchange belongs to the current session.
    pub(in crate::upstream) fn is_current(&self, exchange: &Exchange) -> bool {
        self.is_current_session(exchange.session_number)
    }

    fn is_current_session(&self, number: u32) -> bool {
        self.link.http().is_some_and(|http| http.session.number() == number)
    }

    /// Handles a confirming ping without an answer.
    pub(in crate::upstream) fn confirmation_lost(&mut self, cx: &mut Cx<'_>) {
        self.settle_suspicion(Finding::Unconfirmed, cx);
    }

    /// Records a refused keep-alive ping. It starts no suspicion: the server may refuse every ping.
    pub(in crate::upstream) fn ping_refused(&mut self, exchange: &Exchange) {
        if let (Link::Http(http), Some(400..500)) = (&mut self.link, exchange.status) {
            http.session.note_refused_ping(exchange.session_number);
        }
    }

    /// Settles the suspicion without a ping, because the session ends for another reason.
    pub(super) fn give_up_suspicion(&mut self, cx: &mut Cx<'_>) {
        self.settle_suspicion(Finding::Unconfirmed, cx);
    }

    /// Takes the error of a refused call that still waits for the confirmation.
    pub(in crate::upstream) fn take_refused_answer(&mut self, key: Key) -> Option<Message> {
        let suspicion = self.link.http_mut()?.suspicion.as_mut()?;
        let at = suspicion.refused.iter().position(|refused| refused.key == key)?;
        suspicion.refused.remove(at).answer
    }

    /// Handles a confirmed refusal on a server without an SSE stream.
    pub(super) fn confirmed_without_sse(&mut self, cx: &mut Cx<'_>) {
        self.settle_confirmed(Finding::Lost, cx);
    }

    /// Sends the refused calls again over the SSE stream that was found.
    pub(super) fn refused_before_sse(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(suspicion) = http.suspicion.take() else { return };
        let session_number = http.session.number();
        for refused in suspicion.refused {
            self.settle_refused(refused, Finding::Lost, session_number, cx);
        }
    }

    fn settle_suspicion(&mut self, finding: Finding, cx: &mut Cx<'_>) {
        let is_open = self.link.http().is_some_and(|http| http.suspicion.is_some());
        if is_open && finding == Finding::Lost && self.look_for_sse(LookFor::Confirmation, cx) {
            return;
        }
        self.settle_confirmed(finding, cx);
    }

    fn settle_confirmed(&mut self, finding: Finding, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(suspicion) = http.suspicion.take() else { return };
        let (session_number, was_made) = (http.session.number(), http.session.has_answered());
        if suspicion.about == About::Transport {
            // Only the server's answer is left.
            if finding == Finding::Alive {
                http.note_session_answer();
            }
            for answer in suspicion.refused.into_iter().filter_map(|refused| refused.answer) {
                self.pass_on(answer, cx);
            }
            return;
        }
        for refused in suspicion.refused {
            self.settle_refused(refused, finding, session_number, cx);
        }
        let Link::Http(http) = &mut self.link else { return };
        let is_lost = match finding {
            Finding::Lost => {
                http.session.note_lost(session_number);
                true
            }
            // It cannot be told from a refusal of the call; a new handshake does no harm.
            Finding::CannotBeConfirmed => !suspicion.refusal.is_in_body(),
            Finding::Alive => {
                http.note_session_answer();
                http.notices.wanted &= !suspicion.by_notices;
                false
            }
            Finding::Unconfirmed => {
                if suspicion.by_notices {
                    self.reopen_notices_later(cx);
                }
                false
            }
        };
        if is_lost {
            self.replace_session(was_made, cx);
        }
    }

    /// Settles one refused call.
    fn settle_refused(&mut self, refused: Refused, finding: Finding, session_number: u32, cx: &mut Cx<'_>) {
        let Refused { key, refusal, answer, why } = refused;
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_repeatable = call.effect.is_repeatable();
        let pause = backoff::retry(&call.policy(&self.config).retry, call.attempts + 1, cx.rng);
        let not_before = self.gate.resumes_at(cx.now) + pause;
        let rule = retry::rule_for_status(refusal.status, call.effect, &call.policy(&self.config).retry);
        match (finding, answer) {
            (Finding::Lost, _) => {
                call.refused_once = true;
                call.lost_in = Some(session_number);
                let evidence = Evidence { written: Written::Whole, reply: Reply::SessionGone };
                self.settle_for(key, evidence, cx.now, LossReason::SessionLost.into(), cx);
            }
            (Finding::Alive, Some(answer)) => self.pass_on(answer, cx),
            // An error in a body is a sufficient answer; the call is not sent again.
            (_, Some(answer)) if is_repeatable && refusal.is_in_body() => self.pass_on(answer, cx),
            (Finding::Alive, None) if rule.is_some() => {
                let reply = match rule {
                    Some(StatusRule::Unprocessed) => Reply::Unprocessed(refusal.status),
                    _ => Reply::Status(refusal.status),
                };
                let evidence = Evidence { written: Written::Whole, reply };
                if rule == Some(StatusRule::Answer) {
                    self.end_attempt(key, evidence, &why, cx);
                    self.fail(key, cause_of(evidence), evidence.outcome(), why, cx);
                } else {
                    self.settle_for(key, evidence, not_before, why, cx);
                }
            }
            (Finding::Alive, None) if refusal.status == 404 => {
                self.note_health(key, None, cx);
                self.fail(key, Cause::Refused, Outcome::Refused, why, cx);
            }
            (Finding::Alive, None) => {
                let evidence = Evidence { written: Written::Whole, reply: Reply::Status(refusal.status) };
                self.settle_for(key, evidence, not_before, why, cx);
            }
            (Finding::Unconfirmed | Finding::CannotBeConfirmed, _) => {
                let why = Reason::LossUnconfirmed(Box::new(why));
                self.settle_for(key, Evidence::SILENCE, not_before, why, cx);
            }
        }
    }

    /// Passes a server's error to the client as the answer to its call.
    pub(in crate::upstream) fn pass_on(&mut self, answer: Message, cx: &mut Cx<'_>) {
        if let Some(link) = self.link.current() {
            self.handle_message(link, None, answer, cx);
        }
    }

    /// Repeats the handshake: at once if the session had worked, else after the backoff.
    fn replace_session(&mut self, had_worked: bool, cx: &mut Cx<'_>) {
        let why = match had_worked {
            true => LossReason::SessionLost,
            false => LossReason::SessionRefused,
        };
        if self.has_sse_stream() {
            self.drop_sse_stream(cx);
            return self.unreachable(why.into(), false, cx);
        }
        self.forget_session(cx);
        if !had_worked {
            return self.unreachable(why.into(), false, cx);
        }
        if self.link.is_up()
            && let Some(handshake) = self.session.reinitialize()
        {
            self.replay(handshake, cx);
        }
    }

    /// Schedules the reopening of the notification stream, with a growing backoff.
    pub(super) fn reopen_notices_later(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        if http.notices.timer.is_none() {
            http.notices.timer = cx.wake_in(http.notices.wait(), Alarm::Notices(self.id));
        }
    }
}

/// The answer that an error gives to a call. An error that names the call passes unchanged. An error with another id,
/// or none, is quoted: its code, and its redacted text.
pub(in crate::upstream) fn answer_of(error: &ErrorBody, key: Key) -> Option<Message> {
    let number = error.message.id().and_then(|raw| Id::from_raw(raw).as_u64().or_else(|| number_of_other_type(raw)));
    if number == Some(key.number()) {
        return Some(error.message.clone());
    }
    Message::parse(error_response(&Id::number(key.number()), error.code, &error.words)).ok()
}
