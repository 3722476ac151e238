//! The supervisor of a link: dialing, waiting, parking.
//!
//! It knows whether its upstream is *down*; breakers know whether one that is up is unhealthy.
//!
//! # Incidents
//!
//! An incident lasts from the first loss until health is *proven*: an answer to a client's request, or ten seconds ready
//! with an answer to a ping.
//! Redials are counted over the whole incident. A started child or an accepted connection proves nothing and resets
//! nothing: otherwise a server that accepts and drops would be dialed for ever.
//!
//! # Parking
//!
//! When the incident has used up its redials, or the command does not exist, the link is *parked*: it is probed slowly,
//! and a call wakes it, with a cool-down. Only proven health ends this, or an event that invalidates the past: the machine
//! resumed, the network changed.
//!
//! Under a policy without redials a lost link waits for the next call, which dials once.
//!
//! [`wanted`] handles requests to dial or to hold; [`reached`] handles what exchanges find out over HTTP.

mod reached;
mod wanted;

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::Reconnect;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::{Event, LinkState, Over};
use crate::moment::Moment;
use crate::policy::backoff;
use crate::port::{LinkId, Output, UpstreamId};
use crate::reason::{LossReason, Reason};
use crate::timers::TimerId;

/// The meaning of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialer {
    /// A new process, with a link id of its own.
    Process,
    /// The next exchange finds out whether the server is reachable. A session outlives connections, and a link id stands
    /// for a session.
    Exchanges,
}

/// The permission to dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Granted,
    /// The operator holds it.
    Held,
    /// Mendline stops: no more dials.
    Stopped,
}

/// From the first loss to proven health.
#[derive(Clone, Copy, Debug)]
struct Incident {
    since: Moment,
    redials: u32,
    /// It was parked once; only proven health ends this.
    parked: bool,
}

impl Incident {
    /// An incident that begins now.
    fn new(now: Moment) -> Self {
        Incident { since: now, redials: 0, parked: false }
    }
}

/// The health of the current or last link.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    ready: Option<Moment>,
    proof: Proof,
}

/// The best sign of health on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Proof {
    #[default]
    None,
    /// The server has answered.
    Answered,
    /// The server has answered a client's request: it is healthy, however short its connections live.
    Served,
}

/// The last failure of a link.
#[derive(Debug)]
struct Failure {
    why: Reason,
    /// A person has to act: no such command, an untrusted server.
    is_permanent: bool,
}

/// The supervisor of one link.
#[derive(Debug)]
pub struct Supervisor {
    upstream: UpstreamId,
    policy: Reconnect,
    dialer: Dialer,
    state: LinkState,
    dial: u32,
    dialed: Moment,
    health: Health,
    incident: Option<Incident>,
    permission: Permission,
    dials: VecDeque<Moment>,
    /// The exits of children that Mendline did not end.
    crashes: VecDeque<Moment>,
    timer: Option<TimerId>,
    wakes_at: Moment,
    /// The end of the pause that the server requested.
    not_before: Moment,
    /// The end of the time after a client's start in which dials are as frequent as for a waiting call.
    hurried_until: Moment,
    failure: Option<Failure>,
    /// The time of the last report that the link is parked.
    reported_parked: Option<Moment>,
    /// The longest time from a dial to the first answer.
    slowest_start: Duration,
    /// Consecutive handshakes without an answer in time.
    missed_handshakes: u32,
    ever_answered: bool,
    /// The server whose dials it shares with other links.
    shared_with: Option<UpstreamId>,
}

impl Supervisor {
    pub fn new(upstream: UpstreamId, policy: Reconnect, dialer: Dialer) -> Self {
        Supervisor {
            upstream,
            policy,
            dialer,
            state: LinkState::Idle,
            dial: 0,
            dialed: Moment::ZERO,
            health: Health::default(),
            incident: None,
            permission: Permission::Granted,
            dials: VecDeque::new(),
            crashes: VecDeque::new(),
            timer: None,
            wakes_at: Moment::ZERO,
            not_before: Moment::ZERO,
            hurried_until: Moment::ZERO,
            failure: None,
            reported_parked: None,
            slowest_start: Duration::ZERO,
            missed_handshakes: 0,
            ever_answered: false,
            shared_with: None,
        }
    }

    pub(super) fn upstream(&self) -> UpstreamId {
        self.upstream
    }

    /// The id of the current or last link.
    pub fn id(&self) -> LinkId {
        LinkId { upstream: self.upstream, dial: self.dial }
    }

    /// Records that other links lead to the same server: they take turns.
    pub(super) fn share_dials(&mut self, server: Option<UpstreamId>) {
        self.shared_with = server;
    }

    /// Continues the numbers of dials after this one.
    pub(super) fn continue_dials(&mut self, last: u32) {
        // The first dial over HTTP begins the first session, which needs a number of its own.
        let begins_session = self.dialer == Dialer::Exchanges && last > 0;
        self.dial = last + u32::from(begins_session);
    }

    pub fn state(&self) -> LinkState {
        self.state
    }

    pub fn is_up(&self) -> bool {
        self.state == LinkState::Up
    }

    pub(super) fn is_parked(&self) -> bool {
        self.state == LinkState::Parked
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.permission == Permission::Stopped
    }

    pub(super) fn may_dial(&self) -> bool {
        self.permission == Permission::Granted
    }

    /// Lost, and not dialed again until a call or the operator requests it.
    pub(super) fn waits_for_request(&self) -> bool {
        self.state == LinkState::Idle && self.incident.is_some() && !self.policy.is_by_itself()
    }

    /// The redials of this incident so far, and their limit before it is parked.
    pub(super) fn redials(&self) -> Option<(u32, Option<u32>)> {
        let most = (self.policy.attempts < u32::MAX).then_some(self.policy.attempts);
        self.incident.map(|incident| (incident.redials, most))
    }

    /// Stopped, and not in use.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopped() && self.state == LinkState::Idle
    }

    /// The reason of the last failure.
    pub(super) fn failure(&self) -> Option<&Reason> {
        self.failure.as_ref().map(|failure| &failure.why)
    }

    /// Returns whether only a person can make it usable.
    pub(super) fn has_failed_permanently(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_permanent) && self.state != LinkState::Up
    }

    pub(super) fn note_failure(&mut self, why: Reason, is_permanent: bool) {
        self.failure = Some(Failure { why, is_permanent });
    }

    /// The time until the next dial, or until a call can wake it.
    pub(super) fn retry_after(&self, now: Moment) -> Duration {
        match self.state {
            LinkState::Parked => self.wakes_at.min(self.dialed + defaults::PARKED_COOL_DOWN).since(now),
            LinkState::Waiting => self.wakes_at.since(now),
            LinkState::Idle | LinkState::Dialing | LinkState::Up | LinkState::Draining => Duration::ZERO,
        }
    }

    // ---- health ----

    pub(super) fn note_open(&mut self, now: Moment) {
        self.health.ready.get_or_insert(now);
    }

    pub(super) fn note_answer(&mut self, is_clients: bool, cx: &mut Cx<'_>) {
        self.ever_answered = true;
        let was = self.health.proof;
        self.health.proof = was.max(if is_clients { Proof::Served } else { Proof::Answered });
        if was == Proof::None {
            let after = cx.now.since(self.dialed);
            self.slowest_start = self.slowest_start.max(after);
            self.missed_handshakes = 0;
            cx.emit(Event::UpstreamReady { upstream: self.upstream, link: self.id(), after });
        }
    }

    pub(super) fn note_unhealthy(&mut self) {
        self.ever_answered = true;
        self.health.proof = Proof::None;
    }

    pub(super) fn forget_health(&mut self) {
        self.health = Health::default();
    }

    pub(super) fn has_answered(&self) -> bool {
        self.health.proof > Proof::None
    }

    pub(super) fn has_ever_answered(&self) -> bool {
        self.ever_answered
    }

    pub(super) fn slowest_start(&self) -> Option<Duration> {
        Some(self.slowest_start).filter(|start| !start.is_zero())
    }

    pub(super) fn note_start(&mut self, start: Duration) {
        self.slowest_start = self.slowest_start.max(start);
    }

    pub(super) fn note_missed_handshake(&mut self) {
        self.missed_handshakes = self.missed_handshakes.saturating_add(1);
    }

    /// Returns whether the server can be expected to answer a handshake within this time. One that was slower before,
    /// or that has missed it repeatedly, needs longer to start.
    pub(super) fn starts_within(&self, limit: Duration) -> bool {
        self.slowest_start * 2 <= limit && self.missed_handshakes < defaults::MISSED_HANDSHAKES
    }

    /// Records a client that has just started: it waits for the server.
    pub(super) fn note_client(&mut self, now: Moment) {
        self.hurried_until = now + defaults::CLIENT_START;
    }

    // ---- dials and losses ----

    /// Ends its dials. Returns to idle unless it is in use.
    pub(super) fn stop(&mut self, is_being_probed: bool, cx: &mut Cx<'_>) {
        self.permission = Permission::Stopped;
        self.stop_waiting(is_being_probed, LossReason::Stopping, cx);
    }

    /// Returns to idle from a wait for the next dial, or from a dial that is only a probe.
    pub(super) fn stop_waiting(&mut self, is_being_probed: bool, why: LossReason, cx: &mut Cx<'_>) {
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) || is_being_probed {
            self.go_idle_because(why, cx);
        }
    }

    pub(super) fn go_idle_because(&mut self, why: LossReason, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        self.move_to(LinkState::Idle, Some(why.into()), cx);
    }

    /// Records that its timer has fired.
    pub(super) fn note_timer(&mut self) {
        self.timer = None;
    }

    pub(super) fn handle_timer(&mut self, cx: &mut Cx<'_>) {
        self.note_timer();
        match self.state {
            LinkState::Waiting => self.dial(None, cx),
            LinkState::Parked => self.dial(Some(LossReason::Probe), cx),
            LinkState::Idle | LinkState::Dialing | LinkState::Up | LinkState::Draining => {}
        }
    }

    pub(super) fn count_dial(&mut self, now: Moment) {
        if let Some(incident) = &mut self.incident {
            incident.redials += 1;
        }
        if self.dialer == Dialer::Process || self.dial == 0 {
            self.dial += 1;
        }
        self.dialed = now;
        self.dials.push_back(now);
        while self.dials.len() > defaults::DIALS_PER_MINUTE {
            self.dials.pop_front();
        }
    }

    pub(super) fn dial(&mut self, why: Option<LossReason>, cx: &mut Cx<'_>) {
        self.count_dial(cx.now);
        cx.disarm(&mut self.timer);
        self.move_to(LinkState::Dialing, why.map(Reason::Loss), cx);
        if self.dialer == Dialer::Process {
            cx.output(Output::Spawn { link: self.id() });
        }
    }

    /// Plans the next dial for the earliest time: the last link was no failure.
    pub(super) fn dial_next(&mut self, why: LossReason, cx: &mut Cx<'_>) {
        self.forget_health();
        self.move_to(LinkState::Waiting, Some(why.into()), cx);
        self.sleep_until(self.earliest_dial(cx.now), cx);
    }

    /// Records the exit of a child that Mendline did not end.
    pub(super) fn note_crash(&mut self, now: Moment) {
        self.crashes.push_back(now);
        while self.crashes.len() > defaults::CRASH_LOOP_EXITS {
            self.crashes.pop_front();
        }
    }

    pub(super) fn lose_if_up(&mut self, why: Reason, cx: &mut Cx<'_>) {
        if self.state == LinkState::Up {
            self.lose(why, false, true, cx);
        }
    }

    pub(super) fn lose(&mut self, why: Reason, permanent: bool, called: bool, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        if self.is_stopped() {
            return self.move_to(LinkState::Idle, Some(why), cx);
        }
        self.note_failure(why.clone(), permanent);
        let is_old = self.health.ready.is_some_and(|ready| cx.now.since(ready) >= defaults::PROVEN);
        let proven = self.health.proof == Proof::Served || (self.has_answered() && is_old);
        let mut incident = match self.incident {
            Some(incident) if !proven => incident,
            _ => Incident::new(cx.now),
        };
        // The next link has to prove its health anew.
        self.forget_health();
        let spent = incident.redials >= self.policy.attempts && cx.now.since(incident.since) >= self.policy.patience;
        incident.parked |= permanent || spent;
        self.incident = Some(incident);
        if self.permission == Permission::Held {
            return self.move_to(LinkState::Idle, Some(why), cx);
        }
        if !self.policy.is_by_itself() {
            cx.emit(Event::ReconnectDisabled { upstream: self.upstream, why: why.clone() });
            self.move_to(LinkState::Idle, Some(why), cx);
        } else if incident.parked {
            self.move_to(LinkState::Parked, Some(why), cx);
            self.sleep_until(self.earliest_dial(cx.now + defaults::PARKED_PROBE), cx);
        } else {
            // A crash loop goes on at the slowest pace.
            let attempt = if self.crash_loops(cx.now) { u32::MAX } else { incident.redials + 1 };
            let called = called || cx.now < self.hurried_until;
            let delay = backoff::redial(&self.policy, attempt, called, cx.rng);
            self.move_to(LinkState::Waiting, Some(why), cx);
            self.sleep_until(self.earliest_dial(cx.now + delay), cx);
        }
    }

    fn crash_loops(&self, now: Moment) -> bool {
        self.crashes.len() >= defaults::CRASH_LOOP_EXITS
            && self.crashes.front().is_some_and(|first| now.since(*first) <= defaults::CRASH_LOOP_WINDOW)
    }

    /// Forgets failures: they were those of another target. A wait for the next dial ends.
    pub(super) fn forget_failures(&mut self, cx: &mut Cx<'_>) {
        self.incident = None;
        self.forget_health();
        self.crashes.clear();
        self.not_before = Moment::ZERO;
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) && !self.is_stopped() {
            if self.is_parked() {
                self.move_to(LinkState::Waiting, Some(LossReason::ConfigurationChanged.into()), cx);
            }
            self.sleep_until(self.earliest_dial(cx.now), cx);
        }
    }

    /// `wanted_at`, or later if it would exceed the dial limit of a minute. A quick policy that has used up its burst
    /// continues at a steady pace; otherwise no dial would be left when the server comes back.
    pub(super) fn earliest_dial(&self, wanted_at: Moment) -> Moment {
        const MINUTE: Duration = Duration::from_secs(60);
        let wanted_at = wanted_at.max(self.not_before);
        let burst = self.dials.len().checked_sub(defaults::DIAL_BURST).and_then(|at| self.dials.get(at));
        let steady = match (burst, self.dials.back()) {
            (Some(first), Some(last)) if *first + MINUTE > wanted_at => wanted_at.max(*last + self.pace()),
            _ => wanted_at,
        };
        match self.dials.front() {
            Some(first) if self.dials.len() >= defaults::DIALS_PER_MINUTE => steady.max(*first + MINUTE),
            _ => steady,
        }
    }

    /// The steady pace of the dials. It differs from dial to dial, so that it does not keep step with a network that
    /// comes and goes.
    fn pace(&self) -> Duration {
        const STEPS: u32 = 5;
        defaults::DIAL_PACE + defaults::DIAL_PACE_SPREAD * (self.dial.wrapping_mul(2) % STEPS) / (STEPS - 1)
    }

    pub(super) fn sleep_until(&mut self, at: Moment, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        let at = match (self.shared_with, self.state) {
            (Some(server), LinkState::Waiting | LinkState::Parked) => cx.dial_paces.take(server, at, cx.now),
            _ => at,
        };
        self.wakes_at = at;
        self.timer = cx.timers.arm(at, Alarm::Link(self.upstream));
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) {
            let (redials, most) = self.redials().unwrap_or((0, None));
            let (attempt, wait) = (redials + 1, at.since(cx.now));
            let most = most.filter(|most| attempt <= *most);
            cx.emit(Event::DialPlanned { upstream: self.upstream, attempt, most, wait });
        }
    }

    pub(super) fn move_to(&mut self, to: LinkState, why: Option<Reason>, cx: &mut Cx<'_>) {
        self.move_over(to, why, None, cx);
    }

    /// Records a link that is up. It has to prove its health.
    pub(super) fn come_up(&mut self, over: Over, cx: &mut Cx<'_>) {
        self.forget_health();
        self.move_over(LinkState::Up, None, Some(over), cx);
    }

    fn move_over(&mut self, to: LinkState, why: Option<Reason>, over: Option<Over>, cx: &mut Cx<'_>) {
        let from = std::mem::replace(&mut self.state, to);
        let repeated = to == LinkState::Parked && self.is_reported(cx.now);
        match to {
            LinkState::Parked if !repeated => self.reported_parked = Some(cx.now),
            LinkState::Up => self.reported_parked = None,
            _ => {}
        }
        cx.emit(Event::LinkStateChanged { upstream: self.upstream, from, to, why, over, repeated });
    }

    /// Returns whether it was reported within the last hour that the link is parked.
    pub(super) fn is_reported(&self, now: Moment) -> bool {
        self.reported_parked.is_some_and(|reported| now.since(reported) < defaults::PARKED_REPORT)
    }
}
