//! The host of one upstream and its processes.

use std::time::Duration;

use bytes::Bytes;
use mendline_core::port::{Exit, SpawnError};
use mendline_core::{Input, LinkId};

use super::World;
use crate::child::{Child, ProcessState};
use crate::clock::{Due, Ending};
use crate::fact::{Fact, Via};
use crate::oracle::Key;
use crate::rng::Rng;
use crate::server::{Action, Era, ReplyStream, ServerProfile};
use crate::server_faults::{ServerFaults, SpawnResult};
use crate::site::Site;

/// Maximum duration of a spawn.
pub(super) const LONGEST_SPAWN: Duration = Duration::from_millis(15);

/// The settings of one upstream; all its processes share them.
#[derive(Clone, Debug)]
pub struct Host {
    /// The name in the configuration.
    pub name: String,
    /// The era of its server.
    pub era: Era,
    /// New processes use the other era.
    pub flipped: bool,
    /// The current faults.
    pub faults: ServerFaults,
    /// The settings without a fault.
    pub baseline: ServerFaults,
    /// The profile of its server.
    pub profile: ServerProfile,
    /// Capacity of a pipe to it in bytes.
    pub capacity: u64,
    /// Number of bytes that the shell pulls beyond what the pipe has accepted.
    pub pull_ahead: u64,
    /// Latency of output in milliseconds: minimum and maximum.
    pub latency: (u64, u64),
    /// Maximum number of calls, in flight and waiting.
    pub call_slots: usize,
    /// A tool has its own limit of calls in flight.
    pub limits_tools: bool,
    /// The HTTP server, if it is not a child.
    pub site: Option<Site>,
    /// Its random number generator.
    pub rng: Rng,
}

impl World {
    pub(super) fn spawn_ends(&mut self, link: LinkId) {
        let host = &self.hosts[usize::from(link.upstream.0)];
        let faults = host.faults.clone();
        let failure = match faults.spawn {
            SpawnResult::Succeeds => None,
            SpawnResult::NotFound => Some(SpawnError::NotFound { command: "notes-server".to_owned() }),
            SpawnResult::Exhausted => {
                let error = "resource temporarily unavailable".to_owned();
                Some(SpawnError::Exhausted { command: "notes-server".to_owned(), error })
            }
        };
        if let Some(why) = failure {
            self.children.remove(&link);
            self.record(&Fact::NotStarted(link));
            return self.send_input(Input::SpawnFailed { link, why });
        }
        self.pids += 1;
        let (pid, now) = (self.pids, self.clock.now());
        let Some(child) = self.children.get_mut(&link) else { return };
        child.state = ProcessState::Alive;
        child.reads_from = now + faults.start;
        let pending_end = child.pending_end.take();
        self.record(&Fact::Started(link));
        self.send_input(Input::Spawned { link, pid });
        if let Some(after) = faults.crashes_after {
            self.clock.after(after, Due::ChildEnds(link, Ending::Code(1)));
        }
        if let Some(ending) = pending_end {
            self.clock.at(now, Due::ChildEnds(link, ending));
        }
    }

    /// Schedules a read, if there are unread bytes and a reader.
    pub(super) fn wake_reader(&mut self, link: LinkId) {
        let host = &self.hosts[usize::from(link.upstream.0)];
        let (ignores_stdin, ignores_term) = (host.faults.ignores_stdin, host.faults.ignores_term);
        let now = self.clock.now();
        let Some(child) = self.children.get_mut(&link) else { return };
        if !child.is_alive() || child.stopped || ignores_stdin {
            return;
        }
        if child.stdin.unread() > 0 && !child.will_read {
            child.will_read = true;
            let at = (now + child.rng.millis(0, 1)).max(child.reads_from);
            self.clock.at(at, Due::ChildReads(link));
        } else if child.stdin_closing && !child.stdin_closed && child.stdin.unread() + child.stdin.unaccepted() == 0 {
            child.stdin_closed = true;
            let wait = child.rng.millis(1, 60);
            self.record(&Fact::Signalled(link, None));
            if !ignores_term {
                self.clock.after(wait, Due::ChildEnds(link, Ending::Code(0)));
            }
        }
    }

    pub(super) fn child_reads(&mut self, link: LinkId) {
        let faults = self.hosts[usize::from(link.upstream.0)].faults.clone();
        let Some(child) = self.children.get_mut(&link) else { return };
        child.will_read = false;
        if !child.is_alive() || child.stopped || faults.ignores_stdin {
            return;
        }
        let at_most = if child.rng.percent(20) { child.rng.between(1, 200) } else { 1 << 20 };
        for queued in child.stdin.read(at_most) {
            if let Some(key) = queued.key {
                self.record(&Fact::Read { by: Via::Child(link), key, message: &queued.message });
            }
            let Some(child) = self.children.get_mut(&link) else { return };
            let actions = child.server.receive(&queued.message, queued.key, ReplyStream::PIPE, &faults);
            self.perform(link, actions);
        }
        self.wake_reader(link);
    }

    pub(super) fn job_continues(&mut self, link: LinkId, job: u32) {
        let faults = self.hosts[usize::from(link.upstream.0)].faults.clone();
        let Some(child) = self.children.get_mut(&link).filter(|child| child.is_alive()) else { return };
        if child.stopped {
            child.missed_jobs.push(job);
            return;
        }
        let actions = child.server.continue_job(job, &faults);
        self.perform(link, actions);
    }

    /// Executes the actions of a server.
    pub fn perform(&mut self, link: LinkId, actions: Vec<Action>) {
        let upstream = usize::from(link.upstream.0);
        for action in actions {
            match action {
                Action::Write(_, line) | Action::Request(_, line) | Action::WriteMalformed(_, line) => {
                    self.child_writes(link, line);
                }
                Action::Notify(_, line, stamp) => {
                    let is_list_change = String::from_utf8_lossy(&line).contains("list_changed");
                    self.record(&Fact::NoticeWritten { by: Via::Child(link), stamp, is_list_change });
                    self.child_writes(link, line);
                }
                Action::Answer(_, line, key, body) => {
                    self.record_reply(upstream, key, body);
                    self.child_writes(link, line);
                }
                Action::Run(key) => self.record_run(Via::Child(link), key),
                Action::Continue(job, wait) => self.clock.after(wait, Due::JobContinues(link, job)),
                Action::Violation(text) => self.record(&Fact::ServerViolation { by: Via::Child(link), text: &text }),
            }
        }
    }

    /// Records an answer.
    pub(super) fn record_reply(&mut self, upstream: usize, key: Option<Key>, body: Bytes) {
        if let Some(key) = key {
            self.oracle.of_mut(key).replies.push(body.clone());
        }
        if let Some(bodies) = self.oracle.bodies_by_upstream.get_mut(&upstream) {
            bodies.push(body);
        }
    }

    /// Records an execution.
    pub(super) fn record_run(&mut self, by: Via, key: Key) {
        self.oracle.of_mut(key).runs += 1;
        self.record(&Fact::Ran { by, key });
    }

    /// Writes a line to the stdout of a child.
    pub fn child_writes(&mut self, link: LinkId, line: Bytes) {
        let now = self.clock.now();
        let latency = self.hosts[usize::from(link.upstream.0)].latency;
        let Some(child) = self.children.get_mut(&link) else { return };
        let arrives = now + child.rng.millis(latency.0, latency.1);
        let arrives = child.write(line, arrives);
        self.clock.at(arrives, Due::OutputArrives(link));
    }

    pub(super) fn child_ends(&mut self, link: LinkId, ending: Ending) {
        let reap_delay = self.hosts[usize::from(link.upstream.0)].faults.reap_delay;
        let Some(child) = self.children.get_mut(&link) else { return };
        let killed = ending == Ending::Signal(9);
        if child.state == ProcessState::Spawning || (child.is_alive() && child.stopped && !killed) {
            child.pending_end =
                Some(if child.pending_end == Some(Ending::Signal(9)) { Ending::Signal(9) } else { ending });
            return;
        }
        if !child.is_alive() {
            return;
        }
        child.state = ProcessState::Dead(match ending {
            Ending::Code(code) => Exit::Code(code),
            Ending::Signal(signal) => Exit::Signal(signal),
        });
        let wait = child.rng.millis(0, 25) + reap_delay;
        self.coverage.cut_within_a_line(child.stdin.is_within_a_line());
        self.record(&Fact::Died(link));
        self.clock.after(wait, Due::Reap(link));
    }

    pub(super) fn reap(&mut self, link: LinkId) {
        if let Some(child) = self.children.get_mut(&link)
            && let ProcessState::Dead(how) = child.state
        {
            child.state = ProcessState::Reaped(how);
        }
    }

    /// Returns the living processes of an upstream.
    pub fn living(&self, upstream: usize) -> Vec<LinkId> {
        let of = |link: &LinkId| usize::from(link.upstream.0) == upstream;
        self.children.iter().filter(|(link, child)| of(link) && child.is_alive()).map(|(link, _)| *link).collect()
    }

    /// Ends every living process of an upstream.
    pub fn kill(&mut self, upstream: usize, ending: Ending) {
        for link in self.living(upstream) {
            self.child_ends(link, ending);
        }
    }

    /// Same as [`World::kill`], and ends spawning processes once they run.
    pub fn kill_all(&mut self, upstream: usize, ending: Ending) {
        self.kill(upstream, ending);
        let starting = |child: &Child| child.state == ProcessState::Spawning;
        let links: Vec<LinkId> =
            self.children.iter().filter(|(_, child)| starting(child)).map(|(link, _)| *link).collect();
        for link in links.into_iter().filter(|link| usize::from(link.upstream.0) == upstream) {
            self.clock.after(LONGEST_SPAWN, Due::ChildEnds(link, ending));
        }
    }

    /// Stops every living process of an upstream, as SIGSTOP does.
    pub fn halt(&mut self, upstream: usize) {
        for link in self.living(upstream) {
            if let Some(child) = self.children.get_mut(&link)
                && !std::mem::replace(&mut child.stopped, true)
            {
                self.record(&Fact::Frozen(link));
            }
        }
    }

    /// Makes an upstream silent until it is restored.
    pub fn stall(&mut self, upstream: usize) {
        self.halt(upstream);
        if let Some(site) = &mut self.hosts[upstream].site {
            site.faults.silent = Some(20);
        }
        self.silence(upstream);
    }

    /// Disconnects the remote side of every living bridge of an upstream.
    pub fn lose_bridges(&mut self, upstream: usize) {
        for link in self.living(upstream) {
            if let Some(child) = self.children.get_mut(&link) {
                child.server.lose_bridge();
            }
        }
    }

    /// Gives new processes another edition of the lists.
    pub fn change_edition(&mut self, upstream: usize) {
        self.hosts[upstream].profile.edition += 1;
        self.record(&Fact::NewEdition(upstream));
    }

    /// Continues stopped processes, reads stdin again and releases held answers, at the end of a fault.
    pub fn release(&mut self, upstream: usize) {
        let now = self.clock.now();
        for link in self.living(upstream) {
            let Some(child) = self.children.get_mut(&link) else { continue };
            let thaws = std::mem::take(&mut child.stopped);
            child.reads_from = child.reads_from.min(now + Duration::from_millis(100));
            child.will_read = false;
            let (missed_jobs, pending_end) = (std::mem::take(&mut child.missed_jobs), child.pending_end.take());
            let actions = child.server.release_held();
            if thaws {
                self.record(&Fact::Continued(link));
            }
            for job in missed_jobs {
                self.clock.at(now, Due::JobContinues(link, job));
            }
            if let Some(ending) = pending_end {
                self.clock.at(now, Due::ChildEnds(link, ending));
            }
            self.perform(link, actions);
            self.wake_reader(link);
        }
    }
}
