//! Legacy SSE: one long GET, the SSE stream, carries all messages of the server.
//!
//! The SSE stream is the link. While it is open, a failed POST concerns only its own message. When it ends, the session
//! and all expected answers are lost. A server that may have been initialized over an SSE stream is not initialized
//! over it again; a new stream is opened.
//!
//! A POST in flight when its SSE stream ends is an *orphan*: its answer will not come, but its own end is evidence. It
//! has a short time to end; then it counts as possibly received.

use crate::config::Dialect;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::Over;
use crate::evidence::{Evidence, Outcome};
use crate::port::{ExchangeEnd, Written};
use crate::reason::{LossReason, Reason};
use crate::slab::Key;
use crate::upstream::Upstream;
use crate::upstream::call::Owner;
use crate::upstream::credential::Remedy;
use crate::upstream::exchange::{Exchange, Purpose};
use crate::upstream::link::Link;
use crate::upstream::retry_budget::Incident;
use crate::words::Cause;

impl Upstream {
    /// Requeues the call and tries the SSE stream: the server does not support Streamable HTTP. The attempt does not
    /// count, but the server has received the call: an unsafe one that may have run is answered.
    pub(super) fn try_other_dialect(&mut self, key: Key, evidence: Evidence, why: Reason, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        http.dialect = Dialect::Sse;
        http.refused = Some(why);
        let why = Reason::from(LossReason::TryingSse);
        if let Some(call) = self.calls.get_mut(key).filter(|_| evidence.outcome() != Outcome::NotSent) {
            call.uncounted += 1;
        }
        self.end_attempt(key, evidence, &why, cx);
        self.resend(key, evidence, cx.now, why, Incident::Free, cx);
        self.link.return_to_dialing(cx);
    }

    pub(super) fn sse_stream_ready(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            (http.refused, http.sse_challenged) = (None, None);
            http.release(cx);
        }
        if self.link.handle_reached(Over::Sse, cx) {
            match self.session.begin() {
                Some(handshake) => self.replay(handshake, cx),
                None => {
                    self.link.note_open(cx.now);
                }
            }
        }
    }

    /// Handles the end of the SSE stream: the session and all expected answers are lost.
    pub(super) fn sse_stream_ended(&mut self, exchange: &Exchange, how: &ExchangeEnd, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        http.endpoint = None;
        let why: Reason = match (exchange.status, how) {
            (None, ExchangeEnd::NoConnection(why)) => why.clone().into(),
            (None, ExchangeEnd::Forbidden(why)) => why.clone().into(),
            (None | Some(200..300), ExchangeEnd::Cut(why)) => why.clone().into(),
            (Some(200..300), _) => LossReason::SseStreamEnded.into(),
            (Some(status), _) => Reason::SseStatus { status },
            (None, _) => LossReason::SseStreamNotOpened.into(),
        };
        if exchange.is_refused_for_credential() && self.sse_stream_refused(exchange, &why, cx) {
            return;
        }
        let Link::Http(http) = &mut self.link else { return };
        // Only a response shows that the server does not support this transport. A broken connection shows nothing, and
        // an event stream that breaks before it names its endpoint shows the opposite.
        let broke_off = matches!((exchange.status, how), (None, _) | (Some(200..300), ExchangeEnd::Cut(_)));
        let was_answered = !broke_off && !http.supervisor.is_up() && exchange.status != Some(401);
        if let Some(refused) = http.refused.take_if(|_| was_answered) {
            // Neither transport: the next call may try both again.
            http.dialect = Dialect::Auto;
            let why = Reason::Both(Box::new(refused), Box::new(why));
            let has_grace = self.calls.iter().any(|(_, call)| call.grace.is_some());
            if self.link.has_ever_answered() || has_grace || self.lists.is_provisional() {
                // It supported one of them before, or it is starting: a proxy in front of it may be answering now.
                return self.unreachable(why, false, cx);
            }
            for key in self.calls.take_waiting(|_| true) {
                self.fail(key, Cause::CannotBridge, Outcome::NotSent, why.clone(), cx);
            }
            // Like a missing command: a quick retry is pointless.
            return self.link.handle_unreachable(why, true, false, cx);
        }
        let is_unknown_there = matches!(exchange.status, Some(400 | 404 | 405));
        if was_answered && is_unknown_there && http.configured == Dialect::Auto {
            // It no longer supports this transport: the next attempt begins with the other one.
            http.dialect = Dialect::Auto;
        }
        self.give_up_posts(cx);
        let permanent = matches!(how, ExchangeEnd::Forbidden(_)) && exchange.status.is_none();
        self.link.handle_unreachable(why, permanent, !self.calls.is_empty(), cx);
        // A call whose POST has ended was received.
        self.lose_calls(|_| Written::Whole, cx);
    }

    /// Handles an SSE stream that was refused for the credential. Returns whether it is opened again.
    fn sse_stream_refused(&mut self, exchange: &Exchange, why: &Reason, cx: &mut Cx<'_>) -> bool {
        let before = self.link.http().and_then(|http| http.sse_challenged);
        let remedy = self.remedy_for(exchange, before, true, cx);
        let is_repeated = remedy == Remedy::SendAgain && !self.link.is_up();
        let Link::Http(http) = &mut self.link else { return false };
        http.sse_challenged = is_repeated.then(|| exchange.challenge_or_default());
        if is_repeated {
            http.release(cx);
            self.shorten_grace(cx);
        } else if exchange.status == Some(401) || remedy != Remedy::Login(None) {
            let why = self.words_for_login(remedy, why.clone());
            self.login_required(&why, cx);
        }
        is_repeated
    }

    /// Closes the SSE stream; all expected answers are lost.
    pub(in crate::upstream) fn drop_sse_stream(&mut self, cx: &mut Cx<'_>) {
        let Link::Http(http) = &mut self.link else { return };
        let Some(sse_stream) = http.sse_stream() else { return };
        http.abort(sse_stream, cx);
        http.endpoint = None;
        self.give_up_posts(cx);
        self.lose_calls(|_| Written::Whole, cx);
    }

    /// Aborts the POSTs whose SSE stream is gone, except orphans: clients' calls with a connection and without a
    /// response.
    pub(super) fn give_up_posts(&mut self, cx: &mut Cx<'_>) {
        for key in self.calls.keys_by_age() {
            self.revert_unreached(key);
        }
        let Link::Http(http) = &mut self.link else { return };
        let is_clients = |key: Key| self.calls.get(key).is_some_and(|call| matches!(call.owner, Owner::Client { .. }));
        let is_useless = |exchange: &Exchange| match exchange.purpose {
            Purpose::OneWay => true,
            Purpose::Call(key) => {
                let is_conclusive = exchange.reached && !matches!(exchange.status, Some(200..300));
                !is_conclusive || !is_clients(key)
            }
            _ => false,
        };
        let useless: Vec<_> = http.exchanges.iter().filter(|(_, it)| is_useless(it)).map(|(id, _)| *id).collect();
        for id in useless {
            http.abort(id, cx);
        }
        self.forget_session(cx);
        if let Link::Http(http) = &mut self.link
            && http.orphans_timer.is_none()
            && http.exchanges.values().any(|exchange| http.is_orphan(exchange))
        {
            http.orphans_timer = cx.wake_in(defaults::ORPHAN, Alarm::Orphans(self.id));
        }
    }

    /// The orphaned calls.
    pub(in crate::upstream) fn orphans(&self) -> Vec<Key> {
        let Link::Http(http) = &self.link else { return Vec::new() };
        let orphans = http.exchanges.values().filter(|exchange| http.is_orphan(exchange));
        orphans.filter_map(|it| if let Purpose::Call(key) = it.purpose { Some(key) } else { None }).collect()
    }

    /// Settles the orphans as possibly received.
    pub fn handle_orphans_timer(&mut self, cx: &mut Cx<'_>) {
        if let Link::Http(http) = &mut self.link {
            http.orphans_timer = None;
        }
        for key in self.orphans() {
            self.drop_exchange(key, cx);
            self.settle(key, Evidence::SILENCE, cx.now, cx);
        }
    }
}
