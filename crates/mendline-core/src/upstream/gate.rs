//! The admission of calls to a server that is up: breakers, pause and rate limit.
//!
//! The policies are in `policy/`, which shows their order; here they are applied to calls. [`super::health`] records
//! the results of attempts, [`super::pace`] schedules admitted calls. A breaker that opens fails all calls that wait
//! behind it at once.
//!
//! Two kinds of calls bypass breakers. A client's `ping` only tests the connection, which an unhealthy server may
//! answer; blocking it would make the client drop its connection. A subscription does not end like a call, so it can be
//! neither a trial nor a success. Internal requests bypass all of this: they belong to the link, which has its own
//! limits. Only pings and the next dial wait for the end of a pause.

use std::sync::Arc;
use std::time::Duration;

use super::Upstream;
use super::call::{Call, Owner, State};
use crate::config::UpstreamConfig;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::Event;
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::backoff;
use crate::policy::breaker::{Admission, Breaker, BreakerState, Transition};
use crate::policy::deadline::Deadlines;
use crate::policy::gradual::Gradual;
use crate::policy::limit::Limit;
use crate::policy::pause::Pause;
use crate::policy::queue::Rotation;
use crate::policy::tool_breakers::ToolBreakers;
use crate::policy::tool_limits::ToolLimits;
use crate::port::{ClientId, UpstreamId};
use crate::reason::{Reason, RefusalReason};
use crate::request::{ClientRequest, Op};
use crate::rng::SeededRng;
use crate::timers::TimerId;
use crate::words::Cause;

/// The policies that apply to a call.
#[derive(Debug)]
pub struct Gate {
    breaker: Breaker,
    tools: ToolBreakers,
    pause: Pause,
    /// The start of a pause was emitted, and its end was not.
    is_paused: bool,
    /// The server named the time of the pause.
    is_hinted: bool,
    /// The admission after a pause.
    admission: Option<Gradual>,
    /// Pauses in a row that the server requested without a hint.
    pauses: u32,
    /// A probe has to be answered after the pause before a call is sent.
    probes_first: bool,
    limit: Option<Limit>,
    tool_limits: ToolLimits,
    rotation: Rotation,
    deadlines: Deadlines,
    timer: Option<(TimerId, Moment)>,
}

impl Gate {
    pub fn new(config: &UpstreamConfig) -> Gate {
        Gate {
            breaker: Breaker::new(config.breaker),
            tools: ToolBreakers::new(config.breaker, &config.tools),
            pause: Pause::default(),
            is_paused: false,
            is_hinted: false,
            admission: None,
            pauses: 0,
            probes_first: false,
            limit: config.rate_limit.map(Limit::new),
            tool_limits: ToolLimits::new(&config.tools),
            rotation: Rotation::default(),
            deadlines: Deadlines::new(&config.tools),
            timer: None,
        }
    }

    /// Applies a new configuration. Health counts are kept; a changed rate limit starts with a full burst.
    pub fn reconfigure(&mut self, old: &UpstreamConfig, new: &UpstreamConfig) {
        self.breaker.reconfigure(new.breaker);
        self.tools.reconfigure(new.breaker, &new.tools);
        if old.rate_limit != new.rate_limit {
            self.limit = new.rate_limit.map(Limit::new);
        }
        self.tool_limits.reconfigure(&new.tools);
        self.deadlines = Deadlines::new(&new.tools);
    }

    /// The state of the server's breaker.
    pub fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    pub fn is_isolated(&self) -> bool {
        self.state() == BreakerState::Isolated
    }

    /// The limits of single tools.
    pub fn tool_limits(&self) -> &ToolLimits {
        &self.tool_limits
    }

    /// The breakers of single tools.
    pub fn tool_breakers(&self) -> &ToolBreakers {
        &self.tools
    }

    /// The same, to be changed.
    pub fn tool_breakers_mut(&mut self) -> &mut ToolBreakers {
        &mut self.tools
    }

    /// The server's breaker.
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Makes this call the trial of the server's breaker, if it waits for one.
    pub fn begin_trial(&mut self, call: u64, now: Moment) -> Option<Transition> {
        if self.breaker.admits(now) == Admission::Trial { self.breaker.begin_trial(call) } else { None }
    }

    /// The timeout of this tool, if it has its own.
    pub fn timeout_of(&self, tool: &str) -> Option<Duration> {
        self.deadlines.of_tool(tool)
    }

    /// The order in which calls of several clients are sent.
    pub fn rotation(&self) -> &Rotation {
        &self.rotation
    }

    // ---- pause and admission ----

    /// Starts or extends a pause. Returns its length, if it is longer than the current one.
    pub fn begin_pause(
        &mut self,
        hint: Duration,
        is_hinted: bool,
        is_unavailable: bool,
        now: Moment,
    ) -> Option<Duration> {
        self.admission = Some(Gradual::beginning());
        self.probes_first = is_unavailable;
        let wait = self.pause.extend(hint, now)?;
        (self.is_paused, self.is_hinted) = (true, is_hinted);
        Some(wait)
    }

    /// The length of the next pause that the server requests without a hint.
    pub fn next_pause(&mut self, rng: &mut SeededRng) -> Duration {
        let wait = backoff::overloaded(self.pauses, rng);
        self.pauses = self.pauses.saturating_add(1);
        wait
    }

    /// Returns whether a pause has ended that was reported.
    pub fn take_ended_pause(&mut self, now: Moment) -> bool {
        !self.pause.holds(now) && std::mem::take(&mut self.is_paused)
    }

    /// The end of the pause, even if it is over.
    pub fn paused_until(&self) -> Moment {
        self.pause.until()
    }

    /// Returns whether a probe has to be answered before a call is sent.
    pub fn probes_first(&self) -> bool {
        self.probes_first
    }

    /// Records that no probe is needed before the next call.
    pub fn note_probed(&mut self) {
        self.probes_first = false;
    }

    /// Admits calls gradually from now on.
    pub fn admit_gradually(&mut self) {
        self.admission = Some(Gradual::beginning());
    }

    /// Begins a gradual admission again, if there is one.
    pub fn restart_admission(&mut self) {
        self.admission = self.admission.map(|_| Gradual::beginning());
    }

    /// Admits no call until an answer.
    pub fn block_admission(&mut self) {
        self.admission = Some(Gradual::blocked());
    }

    /// Admits calls without regard to the past: the server is another one.
    pub fn end_admission(&mut self) {
        self.admission = None;
    }

    /// Returns whether calls are admitted gradually.
    pub fn is_gradual(&self) -> bool {
        self.admission.is_some()
    }

    /// Records an answer of the probe: more calls are admitted.
    pub fn note_probe_answer(&mut self) {
        if let Some(admission) = &mut self.admission {
            admission.note_answer();
        }
    }

    /// Records the answer to a call: more calls are admitted, up to this number in flight.
    pub fn note_answer(&mut self, in_flight: usize) {
        self.pauses = 0;
        if let Some(admission) = &mut self.admission
            && admission.note_answer() >= in_flight as u64
        {
            self.admission = None;
        }
    }

    /// Takes the slots of the rate limits for a call, whose tool may have its own.
    pub fn take_slots(&mut self, limited_tool: Option<&Arc<str>>, now: Moment) {
        if let Some(limit) = &mut self.limit {
            limit.try_take(now);
        }
        if let Some(tool) = limited_tool {
            self.tool_limits.take(tool, now);
        }
    }

    /// Records that a call of this client starts.
    pub fn note_started(&mut self, client: Option<ClientId>, now: Moment) {
        if let Some(admission) = &mut self.admission {
            admission.note_sent(now);
        }
        if let Some(client) = client {
            self.rotation.note(client);
        }
    }

    /// Returns whether the server has a rate limit.
    pub fn has_rate_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Arms the timer for this time, unless it fires before.
    pub fn watch_at(&mut self, at: Moment, upstream: UpstreamId, cx: &mut Cx<'_>) {
        if self.timer.is_some_and(|(_, armed)| armed <= at && armed > cx.now) {
            return;
        }
        if let Some((timer, _)) = self.timer.take() {
            cx.timers.disarm(timer);
        }
        self.timer = cx.timers.arm(at, Alarm::Gate(upstream)).map(|timer| (timer, at));
    }

    /// Records that the timer has fired.
    pub fn note_timer(&mut self) {
        self.timer = None;
    }

    /// Returns whether a pause was reported, and its end was not.
    pub fn is_pause_reported(&self) -> bool {
        self.is_paused
    }

    /// Returns whether the server is paused.
    pub fn is_paused(&self, now: Moment) -> bool {
        self.pause.holds(now)
    }

    /// The end of the pause, or now.
    pub fn resumes_at(&self, now: Moment) -> Moment {
        self.pause.until().max(now)
    }

    /// The time at which a call may be sent that has `ahead` others before it.
    pub(super) fn opens_at(&self, ahead: usize, now: Moment) -> Moment {
        let cx = self.limit.as_ref().map_or(now, |limit| limit.slot_after(ahead, now));
        let admitted = self.admission.map_or(now, |admission| admission.opens_at(now));
        cx.max(self.pause.until()).max(admitted)
    }

    /// Returns whether pause and rate limit admit a call now.
    pub fn is_open(&self, now: Moment) -> bool {
        !self.pause.holds(now)
            && self.admission.is_none_or(|admission| admission.opens_at(now) <= now)
            && self.limit.as_ref().is_none_or(|limit| limit.slot_after(0, now) <= now)
    }

    /// Returns the reason for the wait.
    pub(super) fn reason(&self, now: Moment) -> RefusalReason {
        match &self.limit {
            _ if self.pause.holds(now) && self.is_hinted => RefusalReason::Paused { wait: self.pause.hint(now) },
            _ if self.pause.holds(now) => RefusalReason::Overloaded,
            Some(limit) if self.admission.is_none() => limit.reason(),
            _ => RefusalReason::Overloaded,
        }
    }

    /// Returns whether all breakers are closed, which is the usual case.
    pub(super) fn all_closed(&self) -> bool {
        self.breaker.is_closed() && self.tools.is_empty()
    }

    /// Records that a call is sent.
    pub fn note_sent(&mut self, call: u64, now: Moment) {
        if !self.all_closed() {
            self.breaker.note_sent(call, now);
            self.tools.note_sent(call, now);
        }
    }

    /// Records that a call waits to be sent again.
    pub fn note_waits(&mut self, call: u64) {
        if !self.all_closed() {
            self.breaker.note_waits(call);
            self.tools.note_waits(call);
        }
    }

    /// Records the end of a call.
    pub fn note_ended(&mut self, call: u64) {
        if !self.all_closed() {
            self.breaker.note_ended(call);
            self.tools.note_ended(call);
        }
    }

    /// The breaker that blocks this call, if one does.
    pub(super) fn blocking_breaker(
        &self,
        request: &ClientRequest,
        call: Option<u64>,
        now: Moment,
    ) -> Option<Block<'_>> {
        if self.all_closed() || (bypasses_breakers(request) && !self.is_isolated()) {
            return None;
        }
        let of_server = Some((&self.breaker, false));
        let of_tool = self.tools.of(request).map(|breaker| (breaker, true));
        [of_server, of_tool].into_iter().flatten().find_map(|(breaker, of_tool)| {
            let tries = call.is_some_and(|call| breaker.is_tried_by(call));
            match breaker.admits(now) {
                Admission::Blocked(wait) if !tries => Some(Block { breaker, of_tool, wait }),
                // Calls from before the opening are not trials.
                Admission::Trial if call.is_some() && !tries => {
                    Some(Block { breaker, of_tool, wait: Some(defaults::BREAKER_TRIAL_HINT) })
                }
                _ => None,
            }
        })
    }
}

impl Upstream {
    /// The reason why a call is rejected, if it is.
    pub(super) fn rejection(&self, client: ClientId, request: &ClientRequest, now: Moment) -> Option<(Cause, Reason)> {
        if let Some(hold) = self.gate.blocking_breaker(request, None, now) {
            return Some((Cause::BreakerOpen, hold.reason().into()));
        }
        let tool = self.gate.tool_limits.of(request);
        if self.gate.is_open(now) && tool.is_none() {
            return None;
        }
        let timeouts = &self.config.timeouts;
        let most = self.gate.deadlines.of(request).unwrap_or(timeouts.call).min(timeouts.total).min(timeouts.recovery);
        if !self.gate.is_open(now) && self.gate.opens_at(self.ahead_of(client), now) > now + most {
            return Some((Cause::RateLimited, self.gate.reason(now).into()));
        }
        self.rejection_by_tool(&tool?, now + most, now)
    }

    /// The reason why a call of a tool with limits is rejected, if it is.
    fn rejection_by_tool(&self, tool: &Arc<str>, until: Moment, now: Moment) -> Option<(Cause, Reason)> {
        let (waiting, limits) = (self.waiting_of(tool), &self.gate.tool_limits);
        if let Some(why) = self.full_queue_of(tool).filter(|_| !limits.admits(tool, self.in_flight_of(tool), now)) {
            return Some((Cause::Overloaded, why.into()));
        }
        let is_late = limits.slot_after(tool, waiting, now) > until;
        limits.rate_reason(tool).filter(|_| is_late).map(|why| (Cause::RateLimited, why.into()))
    }

    /// The reason why another call of this tool cannot wait, if it cannot.
    pub(super) fn full_queue_of(&self, tool: &Arc<str>) -> Option<RefusalReason> {
        let limit = self.gate.tool_limits.waiting(tool).filter(|most| self.waiting_of(tool) >= *most)?;
        Some(RefusalReason::ToolQueueFull { limit })
    }

    /// Returns whether a tool has a place for another call. A call in flight can have to wait again, so its place in the
    /// queue is taken.
    pub(super) fn has_place(&self, tool: &Arc<str>, now: Moment) -> bool {
        let (in_flight, limits) = (self.in_flight_of(tool), &self.gate.tool_limits);
        let is_at_capacity = limits.capacity(tool).is_some_and(|most| self.waiting_of(tool) + in_flight >= most);
        limits.admits(tool, in_flight, now) && !is_at_capacity
    }

    /// The retry hint for this cause.
    pub(super) fn retry_hint(&self, cause: Cause, request: &ClientRequest, now: Moment) -> Option<Duration> {
        let moment = Duration::from_secs(1);
        match cause {
            Cause::Parked | Cause::Unavailable => Some(self.link.retry_after(now).max(moment)),
            Cause::BreakerOpen => self.gate.blocking_breaker(request, None, now).map_or(Some(moment), |hold| hold.wait),
            Cause::RateLimited if self.gate.pause.holds(now) => Some(self.gate.pause.hint(now)),
            Cause::RateLimited => {
                let tool = self.gate.tool_limits.of(request);
                let of_tool = tool.map(|it| self.gate.tool_limits.slot_after(&it, self.waiting_of(&it), now));
                let of_server = (!self.gate.is_open(now)).then(|| self.gate.opens_at(self.calls.waiting_count(), now));
                let at = of_tool.filter(|at| *at > now).max(of_server);
                Some(at.map_or(moment, |at| at.since(now)))
            }
            // The pause, if there is one.
            Cause::OutcomeUnknown if self.gate.pause.holds(now) => Some(self.gate.pause.hint(now)),
            Cause::OutcomeUnknown => self.gate.blocking_breaker(request, None, now).and_then(|hold| hold.wait),
            Cause::Overloaded => Some(moment),
            _ => None,
        }
    }

    /// Returns whether a breaker blocks this accepted call now.
    pub(super) fn is_blocked(&self, call: &Call, now: Moment) -> bool {
        matches!(call.owner, Owner::Client { .. })
            && self.gate.blocking_breaker(&call.request, Some(call.name), now).is_some()
    }

    /// Fails every unsent call that a breaker blocks.
    pub(super) fn fail_blocked(&mut self, cx: &mut Cx<'_>) {
        if self.gate.all_closed() {
            return;
        }
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get(key) else { continue };
            if matches!(call.state, State::Sent(_)) || matches!(call.owner, Owner::Us(_)) {
                continue;
            }
            if let Some(hold) = self.gate.blocking_breaker(&call.request, Some(call.name), cx.now) {
                let why = hold.reason().into();
                self.fail(key, Cause::BreakerOpen, Outcome::NotSent, why, cx);
            }
        }
    }

    /// Isolates the server: no new call is sent, and it is not dialed. Sent calls may finish.
    pub fn isolate(&mut self, cx: &mut Cx<'_>) {
        if self.gate.breaker.isolate() {
            cx.emit(Event::Isolated { upstream: self.id });
            self.link.hold(cx);
            self.fail_blocked(cx);
        }
    }

    /// Resumes the server.
    pub fn resume_manually(&mut self, cx: &mut Cx<'_>) {
        if !self.gate.breaker.resume() {
            return;
        }
        cx.emit(Event::Resumed { upstream: self.id });
        self.link.release(!self.clients.is_empty(), cx);
        // Its connection was not tested while it was isolated.
        self.watch(cx);
    }
}

/// A blocking breaker: its tool, and its time; `None` if the time is unknown.
pub(super) struct Block<'a> {
    breaker: &'a Breaker,
    of_tool: bool,
    wait: Option<Duration>,
}

impl Block<'_> {
    pub(super) fn reason(&self) -> RefusalReason {
        self.breaker.reason(self.of_tool)
    }
}

/// Returns whether a call bypasses breakers.
pub(super) fn bypasses_breakers(request: &ClientRequest) -> bool {
    matches!(request.op, Op::Ping | Op::Listen)
}
