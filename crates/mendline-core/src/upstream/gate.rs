//! What stands between a call and a server that is there: breakers, the pause and the rate limit.
//!
//! The machines are in `policy/`, where their order is drawn; here they meet calls that want to go out. What attempts show
//! about the server's health comes back in [`super::health`]; when a call goes that may, is in [`super::pace`]. A breaker that
//! opens answers everybody who waits behind it at once.
//!
//! Two kinds of calls pass breakers unseen. A client's `ping` asks whether anybody is there, which a sick server may well
//! answer: it proves nothing, and whoever holds it back makes the client believe that the line is dead. A subscription is
//! not a call that ends, so it can be neither a trial nor a success. Internal requests of our own pass everything here: they belong to
//! the link, which has limits of its own. Only pings wait for the end of a pause, and so does the next dial.

use std::time::Duration;

use mendline_wire::{Message, Method};

use super::Upstream;
use super::call::{Call, Owner, State};
use crate::config::UpstreamConfig;
use crate::cx::Cx;
use crate::defaults;
use crate::event::Event;
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::breaker::{Admission, Breaker, BreakerState};
use crate::policy::deadline::Deadlines;
use crate::policy::limit::Limit;
use crate::policy::pause::Pause;
use crate::policy::queue::Rotation;
use crate::policy::tool_breakers::ToolBreakers;
use crate::port::ClientId;
use crate::reason::{Reason, RefusalReason};
use crate::timers::TimerId;
use crate::words::Cause;

/// The policies that a call passes.
#[derive(Debug)]
pub struct Gate {
    pub(super) breaker: Breaker,
    pub(super) tools: ToolBreakers,
    pub(super) pause: Pause,
    /// A pause was told of, and its end was not.
    pub(super) is_paused: bool,
    pub(super) limit: Option<Limit>,
    pub(super) rotation: Rotation,
    pub(super) deadlines: Deadlines,
    pub(super) timer: Option<(TimerId, Moment)>,
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
    pub fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    pub fn is_isolated(&self) -> bool {
        self.state() == BreakerState::Isolated
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
    pub(super) fn opens_at(&self, ahead: usize, now: Moment) -> Moment {
        let cx = self.limit.as_ref().map_or(now, |limit| limit.slot_after(ahead, now));
        cx.max(self.pause.until()).max(now)
    }

    /// May a call go now, as far as pause and limit are concerned?
    pub fn is_open(&self, now: Moment) -> bool {
        !self.pause.holds(now) && self.limit.as_ref().is_none_or(|limit| limit.slot_after(0, now) <= now)
    }

    /// Returns what calls wait for here.
    pub(super) fn reason(&self, now: Moment) -> RefusalReason {
        match &self.limit {
            _ if self.pause.holds(now) => RefusalReason::Paused { wait: self.pause.hint(now) },
            Some(limit) => limit.reason(),
            None => RefusalReason::Overloaded,
        }
    }

    /// Is there no breaker that could hold anything back? So it is nearly always.
    pub(super) fn is_quiet(&self) -> bool {
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
    pub fn note_ended(&mut self, call: u64) {
        if !self.is_quiet() {
            self.breaker.note_ended(call);
            self.tools.note_ended(call);
        }
    }

    /// What holds this call back, if a breaker does.
    pub(super) fn holds(&self, message: &Message, call: Option<u64>, now: Moment) -> Option<Hold<'_>> {
        if self.is_quiet() || (passes(message) && !self.is_isolated()) {
            return None;
        }
        let of_server = Some((&self.breaker, false));
        let of_tool = self.tools.of(message).map(|breaker| (breaker, true));
        [of_server, of_tool].into_iter().flatten().find_map(|(breaker, of_tool)| {
            let tries = call.is_some_and(|call| breaker.is_tried_by(call));
            match breaker.admits(now) {
                Admission::Blocked(wait) if !tries => Some(Hold { breaker, of_tool, wait }),
                // What came before it opened is not what it is tried with.
                Admission::Trial if call.is_some() && !tries => {
                    Some(Hold { breaker, of_tool, wait: Some(defaults::BREAKER_TRIAL_HINT) })
                }
                _ => None,
            }
        })
    }
}

impl Upstream {
    /// Why a call is not even taken on, if it is not.
    pub(super) fn held_back(&self, client: ClientId, message: &Message, now: Moment) -> Option<(Cause, Reason)> {
        if let Some(hold) = self.gate.holds(message, None, now) {
            return Some((Cause::BreakerOpen, hold.reason().into()));
        }
        if self.gate.is_open(now) {
            return None;
        }
        let timeouts = &self.config.timeouts;
        let most = self.gate.deadlines.of(message).unwrap_or(timeouts.call).min(timeouts.total).min(timeouts.recovery);
        let is_late = self.gate.opens_at(self.ahead_of(client), now) > now + most;
        is_late.then(|| (Cause::RateLimited, self.gate.reason(now).into()))
    }

    /// When a call may be made again that was held back for this reason.
    pub(super) fn comes_back_in(&self, cause: Cause, message: &Message, now: Moment) -> Option<Duration> {
        let moment = Duration::from_secs(1);
        match cause {
            Cause::Parked | Cause::Unavailable => Some(self.link.retry_after(now).max(moment)),
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

    /// Is this call, which was taken on before, held back now?
    pub(super) fn is_held_back(&self, call: &Call, now: Moment) -> bool {
        matches!(call.owner, Owner::Client { .. }) && self.gate.holds(&call.message, Some(call.name), now).is_some()
    }

    /// Answers every call that has not left and that a breaker holds back.
    pub(super) fn answer_held(&mut self, cx: &mut Cx<'_>) {
        if self.gate.is_quiet() {
            return;
        }
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get(key) else { continue };
            if matches!(call.state, State::Sent(_)) || matches!(call.owner, Owner::Us(_)) {
                continue;
            }
            if let Some(hold) = self.gate.holds(&call.message, Some(call.name), cx.now) {
                let why = hold.reason().into();
                self.fail(key, Cause::BreakerOpen, Outcome::NotSent, why, cx);
            }
        }
    }

    /// A person takes the server out: nothing new goes there, and it is not dialed. What is out may finish.
    pub fn isolate(&mut self, cx: &mut Cx<'_>) {
        if self.gate.breaker.isolate() {
            cx.emit(Event::Isolated { upstream: self.id });
            self.link.hold(cx);
            self.answer_held(cx);
        }
    }

    /// A person brings it back.
    pub fn resume_manually(&mut self, cx: &mut Cx<'_>) {
        if !self.gate.breaker.resume() {
            return;
        }
        cx.emit(Event::Resumed { upstream: self.id });
        self.link.release();
        if self.http.is_none() && !self.clients.is_empty() {
            self.link.open(cx);
        }
        // While it was out, nobody tested its line.
        self.watch(cx);
        self.advance_http(cx);
    }
}

/// What holds a call back: whose breaker, and for how long; for ever if nobody knows.
pub(super) struct Hold<'a> {
    breaker: &'a Breaker,
    of_tool: bool,
    wait: Option<Duration>,
}

impl Hold<'_> {
    pub(super) fn reason(&self) -> RefusalReason {
        self.breaker.reason(self.of_tool)
    }
}

/// Does it pass breakers unseen?
pub(super) fn passes(message: &Message) -> bool {
    matches!(message.method(), Method::Ping | Method::SubscriptionsListen)
}
