//! What we ask a server ourselves, on behalf of the conversation.
//!
//! An internal request travels like a call: it has a name, a deadline and a place in the queue. It belongs to its link, so it is
//! never sent again; when the link is gone, the next one has internal requests of its own. Nobody waits for its answer but us:
//! - the *handshake*: the client's own, replayed on every new link before anything else;
//! - what the last session knew, *restored*: the log level and the subscriptions;
//! - *lists*, read again to see what has changed behind the client's back (see [`super::resync`]);
//! - the *ping* that tests an idle line (see [`super::keepalive`]), and the one that confirms that a session is lost.

use mendline_wire::{Kind, Message, Method};

use super::Upstream;
use super::call::{Call, Owner};
use super::exchange::{Exchange, Verdict};
use super::http::Refusal;
use super::link::EndedBy;
use super::resync::ListKind;
use crate::cx::Cx;
use crate::defaults;
use crate::event::Event;
use crate::reason::{HandshakeError, Reason};
use crate::slab::Key;

/// Why we ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalRequest {
    /// The client's own handshake, replayed.
    Handshake,
    /// The log level or a subscription, told to a new session.
    Restore,
    /// A page of a list.
    List(ListKind),
    /// A page of the tools, to see which arguments a modern server wants as headers.
    Lookup,
    /// Whether the server can still be reached.
    Ping,
    /// A ping that confirms that a session is lost.
    Confirm,
}

impl Upstream {
    /// Queues an internal request for the link that is up, or that is being looked for.
    pub(super) fn send_internal(&mut self, internal: InternalRequest, message: Message, cx: &mut Cx<'_>) {
        let effect = self.tools.effect_of(&message);
        cx.ledger.charge(message.text().len());
        let Some(key) = self.calls.insert(Call::new(Owner::Us(internal), message, effect, cx.now)) else { return };
        self.internal_requests += 1;
        self.enqueue(key);
        self.arm(key, cx);
    }

    /// Is an internal request of this kind under way?
    pub(super) fn runs(&self, internal: InternalRequest) -> bool {
        self.calls.iter().any(|(_, call)| call.owner == Owner::Us(internal))
    }

    /// The server answered it.
    pub(super) fn internal_answered(
        &mut self,
        internal: InternalRequest,
        asked: &Message,
        answer: &Message,
        cx: &mut Cx<'_>,
    ) {
        match internal {
            InternalRequest::Handshake => self.finish_replay(asked, answer, cx),
            InternalRequest::Restore => self.restored(asked, answer, cx),
            InternalRequest::List(kind) => self.page_read(kind, asked, answer, cx),
            InternalRequest::Lookup => self.lookup_answered(asked, answer, cx),
            InternalRequest::Ping => self.keep_alive.note_answer(),
            // Its response is read where it arrives, with its status.
            InternalRequest::Confirm => {}
        }
    }

    /// It got no answer, and the link may be there all the same.
    pub(super) fn internal_lost(&mut self, key: Key, why: Reason, cx: &mut Cx<'_>) {
        let Some(Call { owner: Owner::Us(internal), message, .. }) = self.take(key, cx) else { return };
        match internal {
            // A handshake belongs to its link; the next link gets its own.
            InternalRequest::Handshake => {}
            // Whoever waits for it does not wait for long.
            InternalRequest::Lookup => {}
            InternalRequest::Restore => {
                cx.emit(Event::InternalRequestFailed { upstream: self.id, method: message.method(), why });
                // The client relies on it, so it is told again; when something else was answered, and one at a time.
                self.to_restore.push_back(message);
                self.restore_lost = true;
                self.promote(cx);
            }
            InternalRequest::List(_) => {
                cx.emit(Event::InternalRequestFailed { upstream: self.id, method: message.method(), why });
                // What changed is still not known: the next answer is a reason to look again.
                self.resync_due = true;
            }
            InternalRequest::Ping => self.ping_missed(cx),
            InternalRequest::Confirm => self.confirmation_lost(cx),
        }
    }

    /// It was not answered in time.
    pub(super) fn internal_expired(&mut self, key: Key, internal: InternalRequest, cx: &mut Cx<'_>) {
        self.drop_exchange(key, cx);
        if internal != InternalRequest::Handshake {
            return self.internal_lost(key, Reason::TimedOut { after: None }, cx);
        }
        let (Some(link), Some(_)) = (self.link.current(), self.take(key, cx)) else { return };
        cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why: Reason::TimedOut { after: None } });
        self.session.lose();
        self.drain_link(HandshakeError::TimedOut.into(), EndedBy::Us, cx);
    }

    /// Over HTTP: its exchange ended without an answer.
    pub(super) fn internal_ended(
        &mut self,
        key: Key,
        internal: InternalRequest,
        verdict: Verdict,
        exchange: &Exchange,
        cx: &mut Cx<'_>,
    ) {
        if internal == InternalRequest::Handshake {
            return self.handshake_failed(key, verdict, cx);
        }
        if internal == InternalRequest::Ping && exchange.status.is_some() {
            // Whatever it said, somebody is there.
            self.keep_alive.note_answer();
            drop(self.take(key, cx));
            return self.ping_refused(exchange);
        }
        let is_broken = exchange.status.is_none() && matches!(verdict, Verdict::Settle(..));
        if internal == InternalRequest::Confirm && is_broken && self.is_current(exchange) && self.link.is_up() {
            drop(self.take(key, cx));
            if !self.ping_to_confirm(cx) {
                self.confirmation_lost(cx);
            }
            return;
        }
        if internal == InternalRequest::Confirm && exchange.status.is_some() {
            drop(self.take(key, cx));
            return self.confirmation_ended(exchange.session_number, Refusal::of(exchange), false, cx);
        }
        let permanent = matches!(verdict, Verdict::Forbidden(_));
        match verdict {
            Verdict::SessionReportedLost(why) => {
                self.internal_lost(key, why, cx);
                if let Some(refusal) = Refusal::of(exchange) {
                    self.session_reported_lost(exchange.session_number, refusal, None, cx);
                }
            }
            Verdict::Unreachable(why) | Verdict::Forbidden(why) => {
                self.internal_lost(key, why.clone(), cx);
                if !self.has_sse_stream() {
                    self.unreachable(why, permanent, cx);
                }
            }
            verdict => self.internal_lost(key, verdict.reason(), cx),
        }
    }

    /// Tells a new session what the last one knew, a few things at a time.
    pub(super) fn restore(&mut self, cx: &mut Cx<'_>) {
        // This is asked after every answer, and nearly always in vain: not worth a look at all open calls.
        if self.to_restore.is_empty() {
            return;
        }
        let under_way = self.calls.iter().filter(|(_, call)| call.owner == Owner::Us(InternalRequest::Restore)).count();
        let at_once = if self.restore_lost { 1 } else { defaults::RESTORES };
        for _ in under_way..at_once {
            if !self.session.is_initialized() || !self.link.is_up() {
                return;
            }
            let Some(message) = self.to_restore.pop_front() else { return };
            self.send_internal(InternalRequest::Restore, message, cx);
        }
    }

    /// Is it about something that a server keeps in mind?
    fn is_state(&self, call: &Message) -> bool {
        let is_kept = matches!(
            call.method(),
            Method::LoggingSetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
        );
        is_kept && self.session.was_initialized()
    }

    /// What this call of a client's wants to be kept in mind, if it does.
    pub(super) fn state_in(&self, key: Key) -> Option<Message> {
        let call = self.calls.get(key).filter(|call| matches!(call.owner, Owner::Client { .. }))?;
        Some(call.message.clone()).filter(|message| self.is_state(message))
    }

    /// A session that is over has confirmed it; the one that took its place has to be told.
    pub(super) fn restore_again(&mut self, confirmed: Message, cx: &mut Cx<'_>) {
        self.to_restore.push_back(confirmed);
        self.restore(cx);
    }

    /// Must this wait until a new session has been told what the last one knew? What a client chooses now must not be undone
    /// by what it chose before.
    pub(super) fn is_held(&self, call: &Message) -> bool {
        self.is_state(call)
            && (self.runs(InternalRequest::Restore) || (!self.to_restore.is_empty() && !self.restore_lost))
            && self.session.is_initialized()
    }

    /// The client has chosen anew: what it chose before is not told to anybody any more.
    pub(super) fn supersede(&mut self, call: &Message) {
        if self.is_state(call) {
            let subject = subject(call);
            self.to_restore.retain(|it| self::subject(it) != subject);
        }
    }

    /// The log level or a subscription was told to a new session.
    fn restored(&mut self, asked: &Message, answer: &Message, cx: &mut Cx<'_>) {
        if answer.kind() == Kind::Error {
            let message = answer.get_str(&["message"]).unwrap_or_default();
            let why = Reason::ErrorBody { message: cx.quote.quote(message.as_bytes(), defaults::QUOTED) };
            cx.emit(Event::InternalRequestFailed { upstream: self.id, method: asked.method(), why });
            self.session.forget_subscription(asked);
        } else if asked.method() == Method::ResourcesSubscribe {
            self.notify_updated(asked, cx);
        }
        self.restore(cx);
    }
}

/// What it is about: the level, or a resource.
fn subject(call: &Message) -> Option<String> {
    call.get_str(&["uri"]).map(std::borrow::Cow::into_owned)
}
