//! How a call gets a place, goes out, goes out again, fails, or runs out of time.
//!
//! Three functions carry the promises:
//! - [`Upstream::settle`] is where evidence about a lost attempt becomes either another attempt or a failure. A call is sent
//!   again there and nowhere else.
//! - [`Upstream::take`] is the only way out for a call; whoever takes it answers it or says why nobody needs an answer.
//! - [`Upstream::handle_time`] is where time runs out.

use std::time::Duration;

use mendline_wire::{Id, Method, Spliced, meta};

use super::Upstream;
use super::call::{Call, Owner, State, Way};
use super::link::Wish;
use super::outbox::Out;
use crate::event::{Event, Short};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::mail::ToClient;
use crate::moment::Moment;
use crate::port::LinkId;
use crate::slab::Key;
use crate::turn::{Alarm, Turn};
use crate::words::{self, Cause, Failure};

impl Upstream {
    /// Is there a place for one more call on a link that can take it?
    pub(super) fn has_place(&self) -> bool {
        self.link.is_up()
            && self.session.is_open()
            && self.calls.len() - self.waiting.len() < self.config.limits.in_flight
    }

    /// Lets waiting calls go as far as there are places.
    pub(super) fn promote(&mut self, turn: &mut Turn<'_>) {
        let mut index = 0;
        while index < self.waiting.len() && self.has_place() {
            let key = self.waiting[index];
            let is_time = match self.calls.get(key).map(|call| call.state) {
                Some(State::Waiting { not_before, .. }) => not_before <= turn.now,
                _ => true,
            };
            if is_time {
                self.waiting.remove(index);
                self.enqueue(key);
            } else {
                index += 1;
            }
        }
    }

    pub(super) fn enqueue(&mut self, key: Key) {
        if let Some(call) = self.calls.get_mut(key) {
            if let State::Waiting { since, .. } = call.state {
                call.waited_since = Some(since);
            }
            call.state = State::Queued;
            self.outbox.push_call(key);
        }
    }

    /// Hands the next message for this link to the shell.
    pub fn pull(&mut self, link: LinkId, turn: &mut Turn<'_>) -> Option<Spliced> {
        if !self.link.is_up() || self.link.current() != Some(link) {
            return None;
        }
        loop {
            match self.outbox.pop(turn.ledger)? {
                Out::Text(text, _) => {
                    self.outbox.hand_over(text.len());
                    return Some(text);
                }
                Out::Call(key) => {
                    let Some(call) = self.calls.get_mut(key) else { continue };
                    let text = call.spliced(key);
                    call.state = State::Sent(Way::Line(self.outbox.hand_over(text.len())));
                    call.attempts += 1;
                    turn.tell(Event::CallSent { upstream: self.id, call: call.name, attempt: call.attempts });
                    return Some(text);
                }
            }
        }
    }

    /// Decides what becomes of a call whose attempt is lost. The one place where a call is sent again.
    pub(super) fn settle(&mut self, key: Key, evidence: Evidence, again: Moment, turn: &mut Turn<'_>) {
        let words = self.link_words(evidence.reply);
        self.settle_saying(key, evidence, again, words, turn);
    }

    /// As [`Upstream::settle`], with words of its own for what happened.
    pub(super) fn settle_saying(
        &mut self,
        key: Key,
        evidence: Evidence,
        again: Moment,
        words: String,
        turn: &mut Turn<'_>,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.owner == Owner::Session {
            // A greeting belongs to its link; the next link gets its own.
            drop(self.take(key, turn));
            return;
        }
        let outcome = evidence.outcome();
        call.doubt = call.doubt.max(outcome);
        let may_repeat = match outcome {
            // It cannot have run, so it costs neither an attempt nor budget; the wait for the link bounds it.
            Outcome::NotSent => {
                call.attempts -= 1;
                call.unsent += 1;
                true
            }
            Outcome::Refused => call.attempts < self.config.attempts && self.budget.try_spend(turn.now),
            Outcome::Unknown => {
                call.effect.is_repeatable() && call.attempts < self.config.attempts && self.budget.try_spend(turn.now)
            }
            Outcome::Answered => false,
        };
        if !may_repeat {
            let cause = if outcome == Outcome::Refused { Cause::Unavailable } else { Cause::OutcomeUnknown };
            return self.fail(key, cause, outcome, words, turn);
        }
        call.trouble = Some(words).filter(|words| !words.is_empty());
        // Over HTTP a call looks for its own way, time and again; that is all one wait.
        let trying = call.waited_since.filter(|_| self.http.is_some() && outcome == Outcome::NotSent);
        call.state = State::Waiting { since: trying.unwrap_or(turn.now), not_before: again };
        let (name, attempt) = (call.name, call.attempts + 1);
        if outcome != Outcome::NotSent {
            turn.tell(Event::CallRetried { upstream: self.id, call: name, attempt, outcome });
        }
        // A new name, so that a late answer to the lost attempt is not taken for the answer to the next one.
        let Some(key) = self.calls.rename(key) else { return };
        self.waiting.push_back(key);
        self.disarm(key, turn);
        self.arm(key, turn);
    }

    pub(super) fn link_words(&self, reply: Reply) -> String {
        match reply {
            Reply::Unreadable => "its answer could not be read".into(),
            _ => self.link.trouble().to_owned(),
        }
    }

    /// Takes a call out: its place, its timer, its bytes. Whoever calls this answers it.
    pub(super) fn take(&mut self, key: Key, turn: &mut Turn<'_>) -> Option<Call> {
        self.disarm(key, turn);
        let call = self.calls.remove(key)?;
        turn.ledger.release(call.message.text().len());
        match call.state {
            State::Waiting { .. } => self.waiting.retain(|it| *it != key),
            State::Queued => self.outbox.take_back(key),
            State::Sent(_) => {}
        }
        Some(call)
    }

    /// Answers a call with a failure.
    pub(super) fn fail(&mut self, key: Key, cause: Cause, outcome: Outcome, detail: String, turn: &mut Turn<'_>) {
        let Some(call) = self.take(key, turn) else { return };
        let Owner::Client { client, request } = call.owner else { return };
        let outcome = outcome.max(call.doubt);
        let retryable = match outcome {
            Outcome::NotSent | Outcome::Refused => true,
            Outcome::Unknown => call.effect.is_repeatable(),
            Outcome::Answered => false,
        };
        let retry_after = match cause {
            Cause::Parked | Cause::Unavailable => Some(self.link.next_try(turn.now).max(Duration::from_secs(1))),
            _ => None,
        };
        turn.tell(Event::CallFailed {
            upstream: self.id,
            call: call.name,
            method: call.method(),
            attempts: call.attempts,
            cause,
            outcome,
            took: turn.now.since(call.arrived),
        });
        let failure = Failure {
            cause,
            outcome,
            retryable,
            attempts: call.attempts,
            retry_after,
            upstream: self.config.name.clone(),
            what: call.what(),
            detail,
        };
        turn.mail_client(client, ToClient::Fail { request, failure: Box::new(failure) });
    }

    pub(super) fn give_up_if_parked(&mut self, turn: &mut Turn<'_>) {
        if self.link.is_parked() {
            for key in std::mem::take(&mut self.waiting) {
                self.fail(key, Cause::Parked, Outcome::NotSent, self.link.trouble().to_owned(), turn);
            }
        }
    }

    /// No more calls; what is still open is answered now, and the child is ended.
    pub fn close(&mut self, turn: &mut Turn<'_>) {
        self.closing = true;
        for key in self.calls.keys_by_age() {
            self.take_back_unreached(key);
            match self.calls.get(key).map(|call| (call.state, call.owner)) {
                Some((_, Owner::Session)) => drop(self.take(key, turn)),
                Some((State::Sent(_), _)) => {
                    self.fail(key, Cause::OutcomeUnknown, Outcome::Unknown, "Mendline is stopping".into(), turn);
                }
                Some(_) => self.fail(key, Cause::Unavailable, Outcome::NotSent, "Mendline is stopping".into(), turn),
                None => {}
            }
        }
        self.link.stop(turn);
        self.close_http(turn);
    }

    /// Takes no new calls from now on.
    pub fn refuse_new_calls(&mut self) {
        self.closing = true;
    }

    /// A call's time has come, for one reason or another.
    pub fn handle_time(&mut self, key: Key, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.timer = None;
        let timeouts = &self.config.timeouts;
        let is_over = |at: Option<Moment>| at.is_some_and(|at| turn.now >= at);
        if is_over(call.deadline(timeouts)) {
            self.expire(key, turn);
        } else if is_over(call.patience(timeouts)) {
            let (cause, detail) = match call.trouble.take() {
                _ if !self.link.is_up() || !self.session.is_open() => {
                    (Cause::Unavailable, self.link.trouble().to_owned())
                }
                Some(words) => (Cause::Unavailable, words),
                None => (Cause::Overloaded, "no place became free in time".to_owned()),
            };
            self.fail(key, cause, Outcome::NotSent, detail, turn);
            self.promote(turn);
        } else {
            if is_over(call.stream.resume_at) {
                self.resume(key, turn);
            }
            self.promote(turn);
            self.arm(key, turn);
        }
        self.keep_moving(turn);
    }

    pub(super) fn expire(&mut self, key: Key, turn: &mut Turn<'_>) {
        self.take_back_unreached(key);
        let Some(call) = self.calls.get(key) else { return };
        if call.owner == Owner::Session {
            let (Some(link), Some(_)) = (self.link.current(), self.take(key, turn)) else { return };
            let why = "no answer in time".to_owned();
            turn.tell(Event::SessionReplayFailed { upstream: self.id, link, why });
            self.drop_exchange(key, turn);
            self.session.lose();
            return self.drain_link("the server did not answer the greeting in time", Wish::Ours, turn);
        }
        let waited = Short(turn.now.since(call.arrived));
        let (outcome, detail) = match call.state {
            State::Sent(_) => (Evidence::SILENCE.outcome(), format!("no answer after {waited}")),
            State::Waiting { .. } | State::Queued => {
                (Evidence::UNSENT.outcome(), format!("it could not be sent for {waited}"))
            }
        };
        if matches!(call.state, State::Sent(_)) && call.method() != Method::Initialize {
            self.cancel_upstream(key, "deadline passed", turn);
        }
        self.drop_exchange(key, turn);
        self.fail(key, Cause::TimedOut, outcome, detail, turn);
        self.promote(turn);
    }

    /// Tells the server to stop, in its era's way: over HTTP a modern call is cancelled by giving its exchange up.
    pub(super) fn cancel_upstream(&mut self, key: Key, reason: &str, turn: &mut Turn<'_>) {
        let by_closing = self.http.is_some() && self.calls.get(key).is_some_and(|call| meta::is_modern(&call.message));
        if self.link.is_up() && self.session.is_open() && !by_closing {
            let text = Spliced::whole(words::cancelled(&Id::number(key.number()), reason));
            self.outbox.push_text(text, Method::Cancelled, turn.ledger);
        }
    }

    pub(super) fn arm(&mut self, key: Key, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(due) = call.due(&self.config.timeouts, turn.now) else { return };
        // An armed timer that goes off too early only costs a look; one that goes off too late breaks a promise.
        match call.timer {
            Some((_, at)) if at <= due => {}
            earlier => {
                if let Some((timer, _)) = earlier {
                    turn.timers.disarm(timer);
                }
                call.timer = turn.timers.arm(due, Alarm::Call(self.id, key)).map(|timer| (timer, due));
            }
        }
    }

    pub(super) fn disarm(&mut self, key: Key, turn: &mut Turn<'_>) {
        if let Some((timer, _)) = self.calls.get_mut(key).and_then(|call| call.timer.take()) {
            turn.timers.disarm(timer);
        }
    }
}
