//! What stands between a call and a server that is there: breakers, the pause, the rate limit, and whose turn it is.
//!
//! The machines are in `policy/`, where their order is drawn; here they meet calls. Two things come through here: calls that
//! want to go out, and what their attempts show about the server's health. A breaker that opens answers everybody who waits
//! behind it at once; a pause answers those who could not wait for its end, and lets the others wait.
//!
//! Two kinds of calls pass breakers unseen. A client's `ping` asks whether anybody is there, which a sick server may well
//! answer: it proves nothing, and whoever holds it back makes the client believe that the line is dead. A subscription is
//! not a call that ends, so it can be neither a trial nor a success. Errands of our own pass everything here: they belong to
//! the link, which has limits of its own. Only pings wait for the end of a pause, and so does the next dial.

use std::time::Duration;

use mendline_wire::{Message, Method};

use super::Upstream;
use super::call::{Call, Owner, State};
use super::calls::cause_of;
use crate::config::UpstreamConfig;
use crate::defaults;
use crate::event::{Event, Short};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::moment::Moment;
use crate::policy::breaker::{Admission, Breaker, Edge, Sign, Standing};
use crate::policy::deadline::Deadlines;
use crate::policy::limit::Limit;
use crate::policy::pause::Pause;
use crate::policy::queue::Rotation;
use crate::policy::tool_breakers::ToolBreakers;
use crate::slab::Key;
use crate::timers::TimerId;
use crate::turn::{Alarm, Turn};
use crate::words::Cause;

/// The policies that a call passes.
#[derive(Debug)]
pub struct Gate {
    breaker: Breaker,
    tools: ToolBreakers,
    pause: Pause,
    /// A pause was told of, and its end was not.
    is_paused: bool,
    limit: Option<Limit>,
    rotation: Rotation,
    pub(super) deadlines: Deadlines,
    timer: Option<(TimerId, Moment)>,
}

impl Gate {
    pub fn new(config: &UpstreamConfig) -> Gate {
        Gate {
            breaker: Breaker::new(config.breaker),
            tools: ToolBreakers::new(config.breaker),
            pause: Pause::default(),
            is_paused: false,
            limit: config.rate_limit.map(Limit::new),
            rotation: Rotation::default(),
            deadlines: Deadlines::new(&config.tools),
            timer: None,
        }
    }

    /// Other policies hold from now on. What was seen of the server's health stays seen; a limit that is another one begins
    /// with a full burst.
    pub fn reconfigure(&mut self, old: &UpstreamConfig, new: &UpstreamConfig) {
        self.breaker.reconfigure(new.breaker);
        self.tools.reconfigure(new.breaker);
        if old.rate_limit != new.rate_limit {
            self.limit = new.rate_limit.map(Limit::new);
        }
        self.deadlines = Deadlines::new(&new.tools);
    }

    /// Where the server's own breaker stands.
    pub fn standing(&self) -> Standing {
        self.breaker.standing()
    }

    pub fn is_isolated(&self) -> bool {
        self.standing() == Standing::Isolated
    }

    /// Is the server to be left alone for now?
    pub fn is_paused(&self, now: Moment) -> bool {
        self.pause.holds(now)
    }

    /// When a pause is over, or now.
    pub fn resumes_at(&self, now: Moment) -> Moment {
        self.pause.until().max(now)
    }

    /// When the next call may go before which `ahead` others go first.
    fn opens_at(&self, ahead: usize, now: Moment) -> Moment {
        let turn = self.limit.as_ref().map_or(now, |limit| limit.turn_of(ahead, now));
        turn.max(self.pause.until()).max(now)
    }

    /// May a call go now, as far as pause and limit are concerned?
    pub fn is_open(&self, now: Moment) -> bool {
        !self.pause.holds(now) && self.limit.as_ref().is_none_or(|limit| limit.turn_of(0, now) <= now)
    }

    /// What calls wait for here, in half a sentence.
    fn words(&self, now: Moment) -> String {
        match &self.limit {
            _ if self.pause.holds(now) => {
                format!("it asked to be left alone for another {}", Short(self.pause.hint(now)))
            }
            Some(limit) => limit.words(),
            None => "it is busy".into(),
        }
    }

    /// Is there no breaker that could hold anything back? So it is nearly always.
    fn is_quiet(&self) -> bool {
        self.breaker.is_closed() && self.tools.is_empty()
    }

    /// A call goes out.
    pub fn note_sent(&mut self, call: u64, now: Moment) {
        if !self.is_quiet() {
            self.breaker.note_sent(call, now);
            self.tools.note_sent(call, now);
        }
    }

    /// A call is to go out again, and waits for that.
    pub fn note_waits(&mut self, call: u64) {
        if !self.is_quiet() {
            self.breaker.note_waits(call);
            self.tools.note_waits(call);
        }
    }

    /// A call is over, however it ended.
    pub fn let_go(&mut self, call: u64) {
        if !self.is_quiet() {
            self.breaker.let_go(call);
            self.tools.let_go(call);
        }
    }

    /// What holds this call back, if a breaker does.
    fn holds(&self, message: &Message, call: Option<u64>, now: Moment) -> Option<Hold<'_>> {
        if self.is_quiet() || (passes(message) && !self.is_isolated()) {
            return None;
        }
        let of_server = Some((&self.breaker, ""));
        let of_tool = self.tools.of(message).map(|breaker| (breaker, ", of this tool only"));
        [of_server, of_tool].into_iter().flatten().find_map(|(breaker, whose)| {
            let tries = call.is_some_and(|call| breaker.is_tried_by(call));
            match breaker.admits(now) {
                Admission::Held(wait) if !tries => Some(Hold { breaker, whose, wait }),
                // What came before it opened is not what it is tried with.
                Admission::Tries if call.is_some() && !tries => {
                    Some(Hold { breaker, whose, wait: Some(defaults::BREAKER_TRIAL_HINT) })
                }
                _ => None,
            }
        })
    }
}

impl Upstream {
    /// Why a call is not even taken on, if it is not.
    pub(super) fn held_back(&self, message: &Message, now: Moment) -> Option<(Cause, String)> {
        if let Some(hold) = self.gate.holds(message, None, now) {
            return Some((Cause::BreakerOpen, hold.words()));
        }
        if self.gate.is_open(now) {
            return None;
        }
        let timeouts = &self.config.timeouts;
        let most = self.gate.deadlines.of(message).unwrap_or(timeouts.call).min(timeouts.total).min(timeouts.recovery);
        let is_late = self.gate.opens_at(self.waiting.len(), now) > now + most;
        is_late.then(|| (Cause::RateLimited, self.gate.words(now)))
    }

    /// When a call may be made again that was held back for this reason.
    pub(super) fn comes_back_in(&self, cause: Cause, message: &Message, now: Moment) -> Option<Duration> {
        let moment = Duration::from_secs(1);
        match cause {
            Cause::Parked | Cause::Unavailable => Some(self.link.next_try(now).max(moment)),
            Cause::BreakerOpen => self.gate.holds(message, None, now).map_or(Some(moment), |hold| hold.wait),
            Cause::RateLimited if self.gate.pause.holds(now) => Some(self.gate.pause.hint(now)),
            Cause::RateLimited if self.gate.is_open(now) => Some(moment),
            Cause::RateLimited => Some(self.gate.opens_at(self.waiting.len(), now).since(now)),
            // What is in the way of the next one, if anything is.
            Cause::OutcomeUnknown if self.gate.pause.holds(now) => Some(self.gate.pause.hint(now)),
            Cause::OutcomeUnknown => self.gate.holds(message, None, now).and_then(|hold| hold.wait),
            Cause::Overloaded => Some(moment),
            _ => None,
        }
    }

    /// A call has been taken on. If a breaker is to be tried, it is by this one.
    pub(super) fn begin_trials(&mut self, key: Key, turn: &mut Turn<'_>) {
        if self.gate.is_quiet() {
            return;
        }
        let Some(call) = self.calls.get(key) else { return };
        if passes(&call.message) {
            return;
        }
        let (message, name) = (call.message.clone(), call.name);
        if self.gate.breaker.admits(turn.now) == Admission::Tries {
            let edge = self.gate.breaker.begin_trial(name);
            self.tell_edge(None, edge, turn);
        }
        if self.gate.tools.of(&message).is_some_and(|tool| tool.admits(turn.now) == Admission::Tries)
            && let Some((tool, edge)) = self.gate.tools.begin_trial(&message, name)
        {
            self.tell_edge(Some(tool), Some(edge), turn);
        }
    }

    /// An attempt was lost. If it reached a ready server, that says something about its health; that the server is busy
    /// does not.
    pub(super) fn note_loss(&mut self, key: Key, evidence: Evidence, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get(key).filter(|call| counts(call)) else { return };
        let sign = match (evidence.outcome(), evidence.reply) {
            (Outcome::Unknown, Reply::None) => Sign::Broke(call.begun),
            (Outcome::Unknown, _) => Sign::Failed(call.begun),
            _ => return,
        };
        let edge = self.gate.breaker.note(call.name, sign, turn.now, turn.dice);
        self.tell_edge(None, edge, turn);
    }

    /// An attempt was answered, which says that the server is well. How its tool is depends on the answer.
    pub(super) fn note_health(&mut self, key: Key, tool: Option<Health>, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get(key).filter(|call| counts(call)) else { return };
        let (name, begun) = (call.name, call.begun);
        if let Some(edge) = self.gate.breaker.note(name, Sign::Well, turn.now, turn.dice) {
            self.tell_edge(None, Some(edge), turn);
        }
        match tool {
            Some(Health::Well) if self.gate.tools.is_empty() => {}
            Some(Health::Well) => self.note_tool(key, Sign::Well, turn),
            Some(Health::Sick) => self.note_tool(key, Sign::Failed(begun), turn),
            None => {}
        }
    }

    /// No answer came in time: that is its tool's failure, and says nothing about the others.
    pub(super) fn note_silence(&mut self, key: Key, turn: &mut Turn<'_>) {
        if let Some(call) = self.calls.get(key).filter(|call| counts(call)) {
            self.note_tool(key, Sign::Failed(call.begun), turn);
        }
    }

    fn note_tool(&mut self, key: Key, sign: Sign, turn: &mut Turn<'_>) {
        let Some(call) = self.calls.get(key) else { return };
        if let Some((tool, edge)) = self.gate.tools.note(&call.message, call.name, sign, turn.now, turn.dice) {
            self.tell_edge(Some(tool), Some(edge), turn);
        }
    }

    fn tell_edge(&mut self, tool: Option<String>, edge: Option<Edge>, turn: &mut Turn<'_>) {
        let upstream = self.id;
        match edge {
            Some(Edge::Opened(open_for, why)) => {
                turn.tell(Event::BreakerOpened { upstream, tool, open_for, why });
                self.answer_held(turn);
            }
            Some(Edge::HalfOpened) => turn.tell(Event::BreakerHalfOpened { upstream, tool }),
            Some(Edge::Closed) => turn.tell(Event::BreakerClosed { upstream, tool }),
            None => {}
        }
    }

    /// Is this call, which was taken on before, held back now?
    pub(super) fn is_held_back(&self, call: &Call, now: Moment) -> bool {
        matches!(call.owner, Owner::Client { .. }) && self.gate.holds(&call.message, Some(call.name), now).is_some()
    }

    /// Answers every call that has not left and that a breaker holds back.
    pub(super) fn answer_held(&mut self, turn: &mut Turn<'_>) {
        if self.gate.is_quiet() {
            return;
        }
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get(key) else { continue };
            if matches!(call.state, State::Sent(_)) || matches!(call.owner, Owner::Us(_)) {
                continue;
            }
            if let Some(hold) = self.gate.holds(&call.message, Some(call.name), turn.now) {
                let words = hold.words();
                self.fail(key, Cause::BreakerOpen, Outcome::NotSent, words, turn);
            }
        }
    }

    /// The server asks to be left alone for a while.
    pub(super) fn pause(&mut self, hint: Duration, turn: &mut Turn<'_>) {
        let Some(wait) = self.gate.pause.extend(hint, turn.now) else { return };
        self.gate.is_paused = true;
        self.link.put_off(self.gate.pause.until(), turn);
        turn.tell(Event::Paused { upstream: self.id, wait, hint });
        self.answer_late(turn);
        self.watch_gate(turn);
    }

    /// Answers every waiting call whose time is over before the pause is.
    fn answer_late(&mut self, turn: &mut Turn<'_>) {
        for key in self.waiting.clone() {
            if self.calls.get(key).is_some_and(|call| self.is_too_late(call)) {
                self.fail(key, Cause::RateLimited, Outcome::NotSent, self.gate.words(turn.now), turn);
            }
        }
    }

    /// Is the time of this call, which waits, over before the pause is?
    pub(super) fn is_too_late(&self, call: &Call) -> bool {
        call.waits_until(&self.config.timeouts).is_some_and(|end| end < self.gate.pause.until())
    }

    /// Why a call whose attempt was lost does not wait for the next, if it does not. What became of the attempt says more
    /// than what is in the way of the next one; only if nothing became of it, that is said.
    pub(super) fn gives_up_waiting(&self, key: Key, lost: Evidence, now: Moment) -> Option<(Cause, Option<String>)> {
        let call = self.calls.get(key)?;
        let is_unsent = lost.outcome() == Outcome::NotSent;
        if let Some(hold) = self.gate.holds(&call.message, Some(call.name), now) {
            Some(if is_unsent { (Cause::BreakerOpen, Some(hold.words())) } else { (cause_of(lost), None) })
        } else if self.is_too_late(call) {
            Some(if is_unsent { (Cause::RateLimited, Some(self.gate.words(now))) } else { (cause_of(lost), None) })
        } else {
            None
        }
    }

    /// Why a call that waits has not gone, if it is for the pause or the limit.
    pub(super) fn why_slow(&self, now: Moment) -> Option<String> {
        (!self.gate.is_open(now)).then(|| self.gate.words(now))
    }

    /// A call goes out: its turn is used up.
    pub(super) fn let_out(&mut self, key: Key, turn: &mut Turn<'_>) {
        if let Some(limit) = &mut self.gate.limit {
            limit.try_take(turn.now);
        }
        if let Some(Owner::Client { client, .. }) = self.calls.get(key).map(|call| call.owner) {
            self.gate.rotation.note(client);
        }
        self.enqueue(key);
    }

    /// A call has to wait for its turn.
    pub(super) fn tell_of_turn(&self, call: u64, turn: &mut Turn<'_>) {
        if self.gate.limit.is_some() && !self.gate.is_open(turn.now) {
            let wait = self.gate.opens_at(self.waiting.len().saturating_sub(1), turn.now).since(turn.now);
            turn.tell(Event::RateLimited { upstream: self.id, call, wait });
        }
    }

    /// Several clients wait: they take turns.
    pub(super) fn take_turns(&mut self) {
        let client = |key: &Key| match self.calls.get(*key)?.owner {
            Owner::Client { client, .. } => Some((client, *key)),
            Owner::Us(_) => None,
        };
        self.waiting = self.gate.rotation.order(self.waiting.iter().filter_map(client)).into();
    }

    /// Sees to it that somebody looks when the pause is over, or when the next call's turn has come.
    pub(super) fn watch_gate(&mut self, turn: &mut Turn<'_>) {
        let at = self.gate.opens_at(0, turn.now);
        if self.gate.timer.is_some_and(|(_, armed)| armed <= at && armed > turn.now) {
            return;
        }
        if let Some((timer, _)) = self.gate.timer.take() {
            turn.timers.disarm(timer);
        }
        self.gate.timer = turn.timers.arm(at, Alarm::Gate(self.id)).map(|timer| (timer, at));
    }

    pub fn handle_gate_timer(&mut self, turn: &mut Turn<'_>) {
        self.gate.timer = None;
        if !self.gate.pause.holds(turn.now) && std::mem::take(&mut self.gate.is_paused) {
            turn.tell(Event::PauseEnded { upstream: self.id });
        }
        if self.gate.is_paused {
            self.watch_gate(turn);
        }
        self.promote(turn);
        self.keep_moving(turn);
    }

    /// A person takes the server out: nothing new goes there, and it is not dialed. What is out may finish.
    pub fn isolate(&mut self, turn: &mut Turn<'_>) {
        if self.gate.breaker.isolate() {
            turn.tell(Event::Isolated { upstream: self.id });
            self.link.hold(turn);
            self.answer_held(turn);
        }
    }

    /// A person brings it back.
    pub fn resume_by_hand(&mut self, turn: &mut Turn<'_>) {
        if !self.gate.breaker.resume() {
            return;
        }
        turn.tell(Event::Resumed { upstream: self.id });
        self.link.release();
        if self.http.is_none() && !self.clients.is_empty() {
            self.link.open(turn);
        }
        // While it was out, nobody tested its line.
        self.watch(turn);
        self.keep_moving(turn);
    }
}

/// What holds a call back: whose breaker, and for how long; for ever if nobody knows.
struct Hold<'a> {
    breaker: &'a Breaker,
    whose: &'static str,
    wait: Option<Duration>,
}

impl Hold<'_> {
    fn words(&self) -> String {
        format!("{}{}", self.breaker.why(), self.whose)
    }
}

/// How the tool is that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    Sick,
}

/// Is it a call whose fate says something about the server?
fn counts(call: &Call) -> bool {
    matches!(call.owner, Owner::Client { .. }) && matches!(call.state, State::Sent(_)) && !passes(&call.message)
}

/// Does it pass breakers unseen?
fn passes(message: &Message) -> bool {
    matches!(message.method(), Method::Ping | Method::SubscriptionsListen)
}
