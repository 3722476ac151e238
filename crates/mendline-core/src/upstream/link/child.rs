//! A child process as a link: its start, its exit and its end.
//!
//! # The shutdown sequence
//!
//! A child is ended as the specification requires: EOF on its stdin, then TERM, then KILL. Signals go to its whole
//! process group.

use super::stderr::StderrTail;
use super::{Dialer, EndedBy, Supervisor};
use crate::config::Reconnect;
use crate::cx::Cx;
use crate::defaults;
use crate::event::{Event, LinkState, Over};
use crate::port::{Exit, LinkId, Output, Signal, SpawnError, UpstreamId};
use crate::reason::{LossReason, Reason};

/// A child process under supervision.
#[derive(Debug)]
pub struct ChildLink {
    supervisor: Supervisor,
    /// The end that Mendline has begun.
    ending: Option<Ending>,
    stderr_tail: StderrTail,
}

/// The end of a child that Mendline has begun.
#[derive(Debug)]
struct Ending {
    why: Reason,
    ended_by: EndedBy,
    next: ShutdownStep,
    /// The next child, once this one is gone.
    successor: Successor,
}

/// The next step of the shutdown sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownStep {
    Term,
    Kill,
}

/// The start of the next child after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    /// As after every loss.
    AfterLoss,
    /// At once: the child is replaced, which is no loss.
    AtOnce,
    /// With the next request: the child was not used, and its end is no loss.
    OnUse,
}

impl ChildLink {
    pub fn new(upstream: UpstreamId, policy: Reconnect) -> Self {
        let supervisor = Supervisor::new(upstream, policy, Dialer::Process);
        ChildLink { supervisor, ending: None, stderr_tail: StderrTail::default() }
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    pub(super) fn supervisor_mut(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }

    /// The process that inputs may be about now.
    pub fn current(&self) -> Option<LinkId> {
        let is_current = matches!(self.supervisor.state(), LinkState::Dialing | LinkState::Up | LinkState::Draining);
        is_current.then_some(self.supervisor.id())
    }

    /// Records a quotable line of its stderr.
    pub fn note_stderr(&mut self, line: &str) {
        self.stderr_tail.push(line);
    }

    pub fn handle_spawned(&mut self, pid: u32, cx: &mut Cx<'_>) {
        self.stderr_tail.clear();
        self.supervisor.come_up(Over::Child(pid), cx);
        if self.supervisor.is_stopped() {
            self.drain(LossReason::Stopping.into(), EndedBy::Us, cx);
        }
    }

    pub fn handle_spawn_failed(&mut self, why: &SpawnError, called: bool, cx: &mut Cx<'_>) {
        let repeated = self.supervisor.is_reported(cx.now);
        cx.emit(Event::DialFailed { upstream: self.supervisor.upstream(), why: why.clone(), repeated });
        self.supervisor.note_failure(why.clone().into(), why.is_permanent());
        self.supervisor.forget_health();
        self.supervisor.lose(why.clone().into(), why.is_permanent(), called, cx);
    }

    pub fn handle_exited(&mut self, how: Exit, called: bool, cx: &mut Cx<'_>) {
        let ending = self.ending.take();
        match ending.as_ref().map(|it| it.successor).filter(|_| self.supervisor.may_dial()) {
            Some(Successor::AtOnce) => return self.supervisor.dial_next(LossReason::ConfigurationChanged, cx),
            Some(Successor::OnUse) if called => return self.supervisor.dial_next(LossReason::WokenByCall, cx),
            Some(Successor::OnUse) => return self.supervisor.stop_unused(cx),
            Some(Successor::AfterLoss) | None => {}
        }
        let by_us = ending.as_ref().is_some_and(|it| it.ended_by == EndedBy::Us);
        let mut why = match ending {
            // Mendline ended it, so the reason says more than the exit status.
            Some(ending) if by_us || ending.next == ShutdownStep::Kill => ending.why,
            _ => LossReason::Exited(how).into(),
        };
        if let (false, Some(stderr)) = (self.supervisor.has_answered(), self.stderr_tail.explanation()) {
            why = Reason::WithStderr { why: Box::new(why), stderr };
        }
        if !by_us {
            self.supervisor.note_crash(cx.now);
        }
        self.supervisor.lose(why, false, called, cx);
    }

    /// Ends the child, by the shutdown sequence.
    pub(super) fn drain(&mut self, why: Reason, ended_by: EndedBy, cx: &mut Cx<'_>) {
        self.end(why, ended_by, Successor::AfterLoss, cx);
    }

    fn end(&mut self, why: Reason, ended_by: EndedBy, successor: Successor, cx: &mut Cx<'_>) {
        if !self.supervisor.is_up() {
            return;
        }
        self.ending = Some(Ending { why: why.clone(), ended_by, next: ShutdownStep::Term, successor });
        self.supervisor.move_to(LinkState::Draining, Some(why), cx);
        cx.output(Output::CloseStdin { link: self.supervisor.id() });
        self.supervisor.sleep_until(cx.now + defaults::SHUTDOWN_STEP, cx);
    }

    /// Ends a child that is not used. The next request starts another one.
    pub(super) fn stop_unused(&mut self, cx: &mut Cx<'_>) {
        match (&mut self.ending, self.supervisor.state()) {
            (Some(ending), LinkState::Draining) => ending.successor = Successor::OnUse,
            (_, LinkState::Up) => self.end(LossReason::Unused.into(), EndedBy::Us, Successor::OnUse, cx),
            (_, LinkState::Waiting | LinkState::Parked) => self.supervisor.stop_unused(cx),
            _ => {}
        }
    }

    /// Replaces the child for a new target: one that runs is ended, and the next one is started.
    pub(super) fn reset(&mut self, cx: &mut Cx<'_>) {
        self.supervisor.forget_failures(cx);
        if !self.supervisor.is_stopped() {
            self.end(LossReason::ConfigurationChanged.into(), EndedBy::Us, Successor::AtOnce, cx);
        }
    }

    pub(super) fn handle_timer(&mut self, cx: &mut Cx<'_>) {
        match &mut self.ending {
            Some(ending) if self.supervisor.state() == LinkState::Draining => {
                let signal = match ending.next {
                    ShutdownStep::Term => Signal::Term,
                    ShutdownStep::Kill => Signal::Kill,
                };
                // KILL is repeated: a process that hangs in the kernel dies when it comes back.
                ending.next = ShutdownStep::Kill;
                self.supervisor.note_timer();
                cx.output(Output::Signal { link: self.supervisor.id(), signal });
                self.supervisor.sleep_until(cx.now + defaults::SHUTDOWN_STEP, cx);
            }
            _ => self.supervisor.handle_timer(cx),
        }
    }
}
