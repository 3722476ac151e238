//! The supervisor of a link: dialing, waiting, parking.
//!
//! A link is dialed and supervised, for example a child process. It knows whether its upstream is *down*; breakers know
//! whether one that is up is unhealthy.
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
//! When the incident has used up its redials, or the command does not exist, the link is *parked*: it is probed slowly, and a call wakes it, with a cool-down. Only proven health ends this, or an event
//! that invalidates the past: the machine resumed, the network changed.
//!
//! Under a policy without redials a lost link waits for the next call, which dials once.
//!
//! # The shutdown sequence
//!
//! A child is ended as the specification requires: EOF on its stdin, then TERM, then KILL. Signals go to its whole
//! process group.
//!
//! `link/wanted.rs` handles requests to dial or to hold; `link/reached.rs` handles what exchanges find out over HTTP.

mod reached;
mod stderr;
mod wanted;

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::{Reconnect, Transport};
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::{Event, LinkState, Over};
use crate::moment::Moment;
use crate::policy::backoff;
use crate::port::{Exit, LinkId, Output, Signal, SpawnError, UpstreamId};
use crate::reason::{LossReason, Reason};
use crate::timers::TimerId;
use stderr::StderrTail;

/// The next step of the shutdown sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownStep {
    Term,
    Kill,
}

/// The side that ended a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Mendline: the end says nothing about the server.
    Us,
    /// The server: it broke off, and Mendline only cleans up.
    Server,
}

/// From the first loss to proven health.
#[derive(Clone, Copy, Debug)]
struct Incident {
    since: Moment,
    redials: u32,
    /// It was parked once; only proven health ends this.
    parked: bool,
}

/// The health of the current or last link.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    ready: Option<Moment>,
    /// The server has answered.
    answered: bool,
    /// The server has answered a client's request: it is healthy, however short its connections live.
    served: bool,
}

/// The supervisor of one upstream's link.
#[derive(Debug)]
pub struct Link {
    upstream: UpstreamId,
    policy: Reconnect,
    transport: Transport,
    state: LinkState,
    dial: u32,
    dialed: Moment,
    health: Health,
    incident: Option<Incident>,
    shutdown_step: ShutdownStep,
    /// The child is ended to be replaced: no loss, and it is dialed again automatically.
    renewing: bool,
    /// The reason why Mendline ends the child, and the side that caused it.
    ending: Option<(Reason, EndedBy)>,
    dials: VecDeque<Moment>,
    exits: VecDeque<Moment>,
    timer: Option<TimerId>,
    wakes_at: Moment,
    stopped: bool,
    /// The last loss is permanent until a person acts: no such command, an untrusted server.
    permanent: bool,
    /// The operator holds it.
    held: bool,
    /// The end of the pause that the server requested.
    not_before: Moment,
    /// The end of the time after a client's start in which dials are as frequent as for a waiting call.
    hurried_until: Moment,
    last_failure: Option<Reason>,
    stderr_tail: StderrTail,
    /// The time of the last report that the link is parked.
    reported_parked: Option<Moment>,
    /// The longest time from a dial to the first answer.
    slowest_start: Duration,
    /// Consecutive handshakes without an answer in time.
    missed_handshakes: u32,
}

impl Link {
    pub fn new(upstream: UpstreamId, policy: Reconnect, transport: Transport) -> Self {
        Link {
            upstream,
            policy,
            transport,
            state: LinkState::Idle,
            dial: 0,
            dialed: Moment::ZERO,
            health: Health::default(),
            incident: None,
            shutdown_step: ShutdownStep::Term,
            renewing: false,
            ending: None,
            dials: VecDeque::new(),
            exits: VecDeque::new(),
            timer: None,
            wakes_at: Moment::ZERO,
            stopped: false,
            permanent: false,
            held: false,
            not_before: Moment::ZERO,
            hurried_until: Moment::ZERO,
            last_failure: None,
            stderr_tail: StderrTail::default(),
            reported_parked: None,
            slowest_start: Duration::ZERO,
            missed_handshakes: 0,
        }
    }

    pub fn state(&self) -> LinkState {
        self.state
    }

    /// The link that inputs may be about now.
    pub fn current(&self) -> Option<LinkId> {
        // Over HTTP exchanges are independent: all their inputs are handled.
        let is_current = matches!(self.state, LinkState::Dialing | LinkState::Up | LinkState::Draining);
        (is_current || self.transport != Transport::Child).then_some(self.id())
    }

    pub fn is_up(&self) -> bool {
        self.state == LinkState::Up
    }

    pub fn is_parked(&self) -> bool {
        self.state == LinkState::Parked
    }

    /// Lost, and not dialed again until a call or the operator requests it.
    pub fn waits_for_request(&self) -> bool {
        self.state == LinkState::Idle && self.incident.is_some() && !self.policy.is_by_itself()
    }

    /// The redials of this incident so far, and their limit before it is parked.
    pub fn redials(&self) -> Option<(u32, Option<u32>)> {
        let most = (self.policy.attempts < u32::MAX).then_some(self.policy.attempts);
        self.incident.map(|incident| (incident.redials, most))
    }

    /// Stopped, without a child.
    pub fn is_over(&self) -> bool {
        self.stopped && self.state == LinkState::Idle
    }

    /// Returns why it cannot be used.
    pub fn failure_reason(&self) -> Reason {
        let is_child = self.transport == Transport::Child;
        self.last_failure.clone().unwrap_or({
            Reason::Loss(match self.state {
                LinkState::Up if is_child => LossReason::StartedNotInitialized,
                LinkState::Up => LossReason::ConnectedNotInitialized,
                LinkState::Dialing if !is_child => LossReason::NotConnected,
                _ => LossReason::NotStarted,
            })
        })
    }

    /// Returns whether only a person can make it usable.
    pub fn has_failed_permanently(&self) -> bool {
        self.permanent && self.state != LinkState::Up
    }

    /// Returns whether anything has failed so far.
    pub fn has_failed(&self) -> bool {
        self.last_failure.is_some()
    }

    /// The time until the next dial, or until a call can wake it.
    pub fn retry_after(&self, now: Moment) -> Duration {
        match self.state {
            LinkState::Parked => self.wakes_at.min(self.dialed + defaults::PARKED_COOL_DOWN).since(now),
            LinkState::Waiting => self.wakes_at.since(now),
            LinkState::Idle | LinkState::Dialing | LinkState::Up | LinkState::Draining => Duration::ZERO,
        }
    }

    pub fn handle_spawned(&mut self, pid: u32, cx: &mut Cx<'_>) {
        self.health = Health::default();
        self.stderr_tail.clear();
        self.come_up(Over::Child(pid), cx);
        if self.stopped {
            self.drain(LossReason::Stopping.into(), EndedBy::Us, cx);
        }
    }

    pub fn handle_spawn_failed(&mut self, why: &SpawnError, called: bool, cx: &mut Cx<'_>) {
        let repeated = self.is_reported(cx.now);
        cx.emit(Event::DialFailed { upstream: self.upstream, why: why.clone(), repeated });
        self.last_failure = Some(why.clone().into());
        self.health = Health::default();
        self.lose(why.clone().into(), why.is_permanent(), called, cx);
    }

    pub fn handle_exited(&mut self, how: Exit, called: bool, cx: &mut Cx<'_>) {
        let ending = self.ending.take();
        if std::mem::take(&mut self.renewing) && !self.stopped && !self.held {
            self.health = Health::default();
            self.move_to(LinkState::Waiting, Some(LossReason::ConfigurationChanged.into()), cx);
            return self.sleep_until(self.earliest_dial(cx.now), cx);
        }
        let by_us = matches!(ending, Some((_, EndedBy::Us)));
        let mut why = match ending {
            // Mendline ended it, so the reason says more than the exit status.
            Some((why, ended_by)) if ended_by == EndedBy::Us || self.shutdown_step == ShutdownStep::Kill => why,
            _ => LossReason::Exited(how).into(),
        };
        if let (false, Some(stderr)) = (self.health.answered, self.stderr_tail.explanation()) {
            why = Reason::WithStderr { why: Box::new(why), stderr };
        }
        if !by_us {
            self.exits.push_back(cx.now);
            while self.exits.len() > defaults::CRASH_LOOP_EXITS {
                self.exits.pop_front();
            }
        }
        self.lose(why, false, called, cx);
    }

    /// Records a quotable line of the child's stderr.
    pub fn note_stderr(&mut self, line: &str) {
        self.stderr_tail.push(line);
    }

    /// Records that calls may be sent over it.
    pub fn note_open(&mut self, now: Moment) {
        self.health.ready.get_or_insert(now);
    }

    /// Records a real answer. The first one on a link makes it ready. An answer to a client's request proves its health.
    pub fn note_answer(&mut self, is_clients: bool, cx: &mut Cx<'_>) {
        self.health.served |= is_clients;
        if !std::mem::replace(&mut self.health.answered, true) {
            let after = cx.now.since(self.dialed);
            self.slowest_start = self.slowest_start.max(after);
            self.missed_handshakes = 0;
            cx.emit(Event::UpstreamReady { upstream: self.upstream, link: self.id(), after });
        }
    }

    /// The longest time from a start of the server to its first answer, if it has started.
    pub fn slowest_start(&self) -> Option<Duration> {
        Some(self.slowest_start).filter(|start| !start.is_zero())
    }

    /// Records the longest start of an earlier run.
    pub fn note_start(&mut self, start: Duration) {
        self.slowest_start = self.slowest_start.max(start);
    }

    /// Records a handshake without an answer in time.
    pub fn note_missed_handshake(&mut self) {
        self.missed_handshakes = self.missed_handshakes.saturating_add(1);
    }

    /// Returns whether the server can be expected to answer a handshake within this time. One that was slower before,
    /// or that has missed it repeatedly, needs longer to start.
    pub fn starts_within(&self, limit: Duration) -> bool {
        self.slowest_start * 2 <= limit && self.missed_handshakes < defaults::MISSED_HANDSHAKES
    }

    /// Records a client that has just started: it waits for the server.
    pub fn note_client(&mut self, now: Moment) {
        self.hurried_until = now + defaults::CLIENT_START;
    }

    /// Returns whether the server has given a real answer on this link.
    pub fn has_answered(&self) -> bool {
        self.health.answered
    }

    /// Records an answer that proves no health.
    pub fn note_unhealthy(&mut self) {
        (self.health.answered, self.health.served) = (false, false);
    }

    /// Ends the child, by the shutdown sequence.
    pub fn drain(&mut self, why: Reason, ended_by: EndedBy, cx: &mut Cx<'_>) {
        if self.state == LinkState::Up && self.transport != Transport::Child {
            self.lose(why, false, true, cx);
        } else if self.state == LinkState::Up {
            self.ending = Some((why.clone(), ended_by));
            self.move_to(LinkState::Draining, Some(why), cx);
            cx.output(Output::CloseStdin { link: self.id() });
            self.shutdown_step = ShutdownStep::Term;
            self.sleep_until(cx.now + defaults::SHUTDOWN_STEP, cx);
        }
    }

    /// No more dials; ends what runs.
    pub fn stop(&mut self, cx: &mut Cx<'_>) {
        self.stopped = true;
        match self.state {
            LinkState::Up => self.drain(LossReason::Stopping.into(), EndedBy::Us, cx),
            LinkState::Waiting | LinkState::Parked => self.go_idle_because(LossReason::Stopping, cx),
            LinkState::Dialing if self.transport != Transport::Child => self.go_idle_because(LossReason::Stopping, cx),
            LinkState::Idle | LinkState::Dialing | LinkState::Draining => {}
        }
    }

    fn go_idle_because(&mut self, why: LossReason, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        self.move_to(LinkState::Idle, Some(why.into()), cx);
    }

    pub fn handle_timer(&mut self, cx: &mut Cx<'_>) {
        self.timer = None;
        match self.state {
            LinkState::Waiting => self.dial(None, cx),
            LinkState::Parked => self.dial(Some(LossReason::Probe), cx),
            LinkState::Draining => self.next_shutdown_step(cx),
            LinkState::Idle | LinkState::Dialing | LinkState::Up => {}
        }
    }

    fn next_shutdown_step(&mut self, cx: &mut Cx<'_>) {
        let signal = match self.shutdown_step {
            ShutdownStep::Term => Signal::Term,
            ShutdownStep::Kill => Signal::Kill,
        };
        cx.output(Output::Signal { link: self.id(), signal });
        // KILL is repeated: a process that hangs in the kernel dies when it comes back.
        self.shutdown_step = ShutdownStep::Kill;
        self.sleep_until(cx.now + defaults::SHUTDOWN_STEP, cx);
    }

    fn count_dial(&mut self, now: Moment) {
        if let Some(incident) = &mut self.incident {
            incident.redials += 1;
        }
        // Over HTTP a session outlives connections, and a link id stands for a session.
        if self.transport == Transport::Child || self.dial == 0 {
            self.dial += 1;
        }
        self.dialed = now;
        self.dials.push_back(now);
        while self.dials.len() > defaults::DIALS_PER_MINUTE {
            self.dials.pop_front();
        }
    }

    fn dial(&mut self, why: Option<LossReason>, cx: &mut Cx<'_>) {
        self.count_dial(cx.now);
        cx.disarm(&mut self.timer);
        self.move_to(LinkState::Dialing, why.map(Reason::Loss), cx);
        if self.transport == Transport::Child {
            cx.output(Output::Spawn { link: self.id() });
        }
    }

    fn lose(&mut self, why: Reason, permanent: bool, called: bool, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        if self.stopped {
            return self.move_to(LinkState::Idle, Some(why), cx);
        }
        self.last_failure = Some(why.clone());
        self.permanent = permanent;
        let fresh = Incident { since: cx.now, redials: 0, parked: false };
        let is_old = self.health.ready.is_some_and(|ready| cx.now.since(ready) >= defaults::PROVEN);
        let proven = self.health.served || (self.health.answered && is_old);
        let mut incident = match self.incident {
            Some(incident) if !proven => incident,
            _ => fresh,
        };
        // The next link has to prove its health anew.
        self.health = Health::default();
        let spent = incident.redials >= self.policy.attempts && cx.now.since(incident.since) >= self.policy.patience;
        incident.parked |= permanent || spent;
        self.incident = Some(incident);
        if self.held {
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
        self.exits.len() >= defaults::CRASH_LOOP_EXITS
            && self.exits.front().is_some_and(|first| now.since(*first) <= defaults::CRASH_LOOP_WINDOW)
    }

    /// `wanted_at`, or later if it would exceed the dial limit of a minute. A quick policy that has used up its burst
    /// continues at a steady pace; otherwise no dial would be left when the server comes back.
    fn earliest_dial(&self, wanted_at: Moment) -> Moment {
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

    fn sleep_until(&mut self, at: Moment, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.timer);
        self.wakes_at = at;
        self.timer = cx.timers.arm(at, Alarm::Link(self.upstream));
        if matches!(self.state, LinkState::Waiting | LinkState::Parked) {
            let (redials, most) = self.redials().unwrap_or((0, None));
            let (attempt, wait) = (redials + 1, at.since(cx.now));
            let most = most.filter(|most| attempt <= *most);
            cx.emit(Event::DialPlanned { upstream: self.upstream, attempt, most, wait });
        }
    }

    fn move_to(&mut self, to: LinkState, why: Option<Reason>, cx: &mut Cx<'_>) {
        self.move_over(to, why, None, cx);
    }

    fn come_up(&mut self, over: Over, cx: &mut Cx<'_>) {
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
    fn is_reported(&self, now: Moment) -> bool {
        self.reported_parked.is_some_and(|reported| now.since(reported) < defaults::PARKED_REPORT)
    }

    fn id(&self) -> LinkId {
        LinkId { upstream: self.upstream, dial: self.dial }
    }
}
