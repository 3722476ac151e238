//! A simulated child process: a server, two pipes and a process state.
//!
//! The shell learns of the end of a process later than it happens. Between the two moments there are lines that the
//! process wrote and bytes that its stdin accepted. Both are kept here until the shell reports them, because the
//! contract of a child link depends on them.

use std::collections::VecDeque;

use bytes::Bytes;
use mendline_core::port::Exit;
use mendline_core::{LinkId, Moment};

use crate::clock::Ending;
use crate::pipe::Pipe;
use crate::rng::Rng;
use crate::server::Server;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Being spawned.
    Spawning,
    /// Alive.
    Alive,
    /// Dead, not yet reaped.
    Dead(Exit),
    /// Reaped; the shell reports it once all output is delivered.
    Reaped(Exit),
}

/// One child process.
pub struct Child {
    /// Its link.
    pub link: LinkId,
    /// Its state.
    pub state: ProcessState,
    /// Its stdin.
    pub stdin: Pipe,
    /// The engine requested to close its stdin.
    pub stdin_closing: bool,
    /// Its stdin is closed and fully written.
    pub stdin_closed: bool,
    /// The earliest time at which it reads.
    pub reads_from: Moment,
    /// A read of its stdin is scheduled.
    pub will_read: bool,
    /// Its server.
    pub server: Server,
    /// Lines that it wrote to its stdout and that are not read yet, with their arrival times.
    pub stdout: VecDeque<(Moment, Bytes)>,
    /// Lines that it wrote to its stderr.
    pub stderr: VecDeque<Bytes>,
    /// The shell has reported that the stdin pipe is broken.
    pub reported_broken: bool,
    /// It is stopped (SIGSTOP).
    pub stopped: bool,
    /// Jobs that became due while it was stopped.
    pub missed_jobs: Vec<u32>,
    /// An end that is pending because the process is stopped or not started yet.
    pub pending_end: Option<Ending>,
    /// Its random number generator.
    pub rng: Rng,
}

impl Child {
    /// Creates a process that is being spawned.
    pub fn new(link: LinkId, capacity: u64, server: Server, rng: Rng) -> Child {
        Child {
            link,
            state: ProcessState::Spawning,
            stdin: Pipe::new(capacity),
            stdin_closing: false,
            stdin_closed: false,
            reads_from: Moment::ZERO,
            will_read: false,
            server,
            stdout: VecDeque::new(),
            stderr: VecDeque::new(),
            reported_broken: false,
            stopped: false,
            missed_jobs: Vec::new(),
            pending_end: None,
            rng,
        }
    }

    /// Returns whether it is alive.
    pub fn is_alive(&self) -> bool {
        self.state == ProcessState::Alive
    }

    /// Returns whether a line of its stdout can be read now.
    pub fn has_output(&self, now: Moment) -> bool {
        self.stdout.front().is_some_and(|(arrives, _)| *arrives <= now)
    }

    /// Writes a line to stdout. It arrives after all earlier lines.
    pub fn write(&mut self, line: Bytes, arrives: Moment) -> Moment {
        let arrives = self.stdout.back().map_or(arrives, |(before, _)| arrives.max(*before));
        self.stdout.push_back((arrives, line));
        arrives
    }
}
