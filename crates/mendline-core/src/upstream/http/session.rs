//! The sessions of an upstream over HTTP: how they are learnt, how they are lost, and how they are made again.
//!
//! A session outlives connections. It is lost when the server says so: with 404, with 400 to a session that worked, or with
//! an error in the body. Several exchanges hear of one loss, and those that hear late speak of a session that has been
//! replaced already. A greeting is complete only when the server has taken `initialized`; until then nothing else goes out,
//! and when nobody knows whether it arrived, the greeting is made again from its beginning.

use mendline_wire::{Message, Method};

use super::Http;
use crate::config::Dialect;
use crate::event::{Dropped, Event};
use crate::evidence::Outcome;
use crate::mail::ToClient;
use crate::moment::Moment;
use crate::policy::budget::Budget;
use crate::port::ExchangeId;
use crate::slab::Key;
use crate::turn::Turn;
use crate::upstream::Upstream;
use crate::upstream::call::{Owner, State};
use crate::upstream::exchange::{Complaint, Verdict};
use crate::upstream::outbox::Out;
use crate::words::Cause;

impl Http {
    /// However many calls a lost session refuses, its loss is one event and is paid for once. Each of them goes out at most
    /// once more for that reason, so this is no way around the budget.
    pub(in crate::upstream) fn pays_for_loss(&mut self, life: u32, budget: &mut Budget, now: Moment) -> bool {
        if self.paid_for != Some(life) && budget.try_spend(now) {
            self.paid_for = Some(life);
        }
        self.paid_for == Some(life)
    }
}

impl Upstream {
    /// The server took a notification, or refused it.
    pub(super) fn note_taken(&mut self, id: ExchangeId, status: u16, named: Option<&str>, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        let held = http.held_by == Some(id);
        if held && (status == 429 || status >= 500) {
            let words = format!("the server answered HTTP {status} to `initialized`");
            return self.greeting_incomplete(words, turn);
        }
        if held {
            http.release(turn);
        }
        match status {
            404 if named.is_some() => self.session_gone(named, turn),
            200..300 if held => {
                http.notices.wanted = http.dialect != Dialect::Sse;
                self.open_notices(turn);
            }
            200..300 => {}
            _ => self.drop_message(Method::None, Dropped::NoWay, turn),
        }
    }

    /// Does this error say that the session is gone? Servers do so with any code; the words and the circumstances tell.
    pub(super) fn speaks_of_a_lost_session(
        &self,
        id: ExchangeId,
        key: Key,
        refused: bool,
        named: bool,
        complaint: &Complaint,
    ) -> bool {
        let Some(exchange) = self.http.as_ref().and_then(|http| http.exchanges.get(&id)) else { return false };
        let first_time = self.calls.get(key).is_some_and(|call| !call.refused_once);
        // Over a trunk the endpoint itself names the session.
        let over_trunk = self.http.as_ref().is_some_and(|http| http.dialect == Dialect::Sse);
        if (exchange.session_named.is_none() && !over_trunk) || !first_time || !self.session.was_greeted() {
            return false;
        }
        let about_session = complaint.words.to_ascii_lowercase().contains("session");
        let in_body = !refused && about_session && matches!(complaint.code, -32600 | -32005..=-32000);
        let by_status =
            refused && (exchange.status == Some(404) || (exchange.status == Some(400) && (!named || about_session)));
        in_body || by_status
    }

    pub(super) fn learn_session(&mut self, id: ExchangeId, answer: &Message) {
        let Some(http) = &mut self.http else { return };
        http.session = http.exchanges.get(&id).and_then(|exchange| exchange.session.as_deref()).map(Into::into);
        let version = answer.get_str(&["protocolVersion"]);
        // Revisions before 2025-06-18 know no such header.
        http.version = version.filter(|version| version.as_ref() >= "2025-06-18").map(Into::into);
    }

    /// The greeting that was replayed got no answer. Without it nothing can go out, so the upstream counts as lost.
    pub(in crate::upstream) fn greeting_failed(&mut self, key: Key, verdict: Verdict, turn: &mut Turn<'_>) {
        let Some(link) = self.link.current() else { return };
        drop(self.take(key, turn));
        self.session.lose();
        let hopeless = matches!(verdict, Verdict::Forbidden(_));
        let is_other_dialect = matches!(verdict, Verdict::OtherDialect(_));
        let cause = match &verdict {
            Verdict::NeedsLogin(_) => Some(Cause::NeedsLogin),
            Verdict::OtherEra(_) => Some(Cause::OtherEra),
            Verdict::Final(_) => Some(Cause::CannotBridge),
            _ => None,
        };
        let why = verdict.words();
        turn.tell(Event::SessionReplayFailed { upstream: self.id, link, why: why.clone() });
        if let (true, Some(http)) = (is_other_dialect, &mut self.http) {
            http.dialect = Dialect::Sse;
            http.refused = Some(why);
            return self.link.look_again(turn);
        }
        self.drop_trunk(turn);
        if let (Some(cause), false) = (cause, self.is_greeted_once) {
            // Had the client waited for this greeting, it would have been told so. Whoever waits now is.
            if cause == Cause::NeedsLogin {
                self.wants_login = true;
                turn.tell(Event::LoginWanted { upstream: self.id, why: why.clone() });
            }
            for key in std::mem::take(&mut self.waiting) {
                self.fail(key, cause, Outcome::NotSent, why.clone(), turn);
            }
        }
        self.unreachable(why, hopeless, turn);
    }

    /// Nobody knows whether `initialized` arrived, and a server may refuse whatever comes without it: the greeting is made
    /// again from its beginning.
    pub(super) fn greeting_incomplete(&mut self, why: String, turn: &mut Turn<'_>) {
        self.forget_session(turn);
        if let Some(link) = self.link.current() {
            turn.tell(Event::SessionReplayFailed { upstream: self.id, link, why: why.clone() });
        }
        self.drop_trunk(turn);
        self.unreachable(why, false, turn);
    }

    /// The server had time enough to take `initialized`, or to name the endpoint of its trunk.
    pub fn handle_greeting_timer(&mut self, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        http.held_until = None;
        if let Some(id) = http.held_by {
            http.abort(id, turn);
            self.greeting_incomplete("the server did not take `initialized` in time".into(), turn);
        } else if let (Some(trunk), None) = (http.trunk(), &http.endpoint) {
            http.abort(trunk, turn);
            self.unreachable("the server did not name its endpoint in time".into(), false, turn);
        }
        self.keep_moving(turn);
    }

    /// The server has lost the session that an exchange named: everything that hangs on it is gone, and it is greeted again.
    /// Several exchanges hear of one loss; those that hear late speak of a session that has been replaced already.
    pub(super) fn session_gone(&mut self, named: Option<&str>, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        if http.session.is_none() || http.session.as_deref() != named || !self.session.was_greeted() {
            return;
        }
        self.forget_session(turn);
        if self.link.is_up()
            && let Some(greeting) = self.session.greet_again()
        {
            self.replay(greeting, turn);
        }
    }

    /// Everything that hangs on a session is gone: its name, its streams, the questions asked in it, and what was about to
    /// be said in it. Calls that had not left go back to waiting for the next one.
    pub(in crate::upstream) fn forget_session(&mut self, turn: &mut Turn<'_>) {
        let Some(http) = &mut self.http else { return };
        http.session = None;
        http.version = None;
        http.life += 1;
        http.release(turn);
        self.give_up_notes(turn);
        self.end_notices(turn);
        self.session.lose();
        self.withdraw_questions(turn);
        self.link.renew();
        while let Some(out) = self.outbox.pop(turn.ledger) {
            match out {
                Out::Call(key) => self.put_back(key, turn),
                // `initialized` is part of the greeting that will be replayed.
                Out::Text(_, Method::Initialized) => {}
                Out::Text(_, method) => self.drop_message(method, Dropped::NoWay, turn),
            }
        }
        self.sort_waiting();
    }

    /// Nobody waits any more for the answers to what was asked in this session.
    pub(super) fn withdraw_questions(&self, turn: &mut Turn<'_>) {
        if let Some(link) = self.link.current() {
            for client in self.clients.clone() {
                turn.mail_client(client, ToClient::LinkGone { link });
            }
        }
    }

    /// A call that has not left waits again; one of our own belongs to its session.
    pub(in crate::upstream) fn put_back(&mut self, key: Key, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if matches!(call.owner, Owner::Us(_)) {
            drop(self.take(key, turn));
            return;
        }
        let since = call.waited_since.unwrap_or(turn.now);
        call.state = State::Waiting { since, not_before: turn.now };
        call.tell_return(self.id, turn);
        self.waiting.push_back(key);
        self.arm(key, turn);
    }
}
