//! A child process: a server's mind, two pipes and a pulse.
//!
//! The process dies at one moment and the shell learns of it later; in between lie the last lines that it wrote and the
//! bytes that its stdin had accepted. Both are kept here until the shell reports them, because the contract of a child link
//! is all about that gap.

use std::collections::VecDeque;

use bytes::Bytes;
use mendline_core::port::Exit;
use mendline_core::{LinkId, Moment};

use crate::clock::Ending;
use crate::rng::Rng;
use crate::pipe::Pipe;
use crate::server::Server;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Asked for; the operating system is at it.
    Spawning,
    /// Alive.
    Alive,
    /// Dead, not yet reaped.
    Dead(Exit),
    /// Dead, and the shell may say so once everything that it wrote is delivered.
    Reaped(Exit),
}

/// One child process.
pub struct Child {
    /// Its link.
    pub link: LinkId,
    /// Where it stands.
    pub state: ProcessState,
    /// Its stdin.
    pub stdin: Pipe,
    /// The engine asked to close its stdin.
    pub stdin_closing: bool,
    /// Its stdin has come to the end: closed by us and all written.
    pub stdin_closed: bool,
    /// It reads its first byte no sooner than this.
    pub reads_from: Moment,
    /// A read of its stdin is planned.
    pub will_read: bool,
    /// Its mind.
    pub server: Server,
    /// What it wrote to its stdout and we have not read: when it arrives, and the line.
    pub stdout: VecDeque<(Moment, Bytes)>,
    /// What it wrote to its stderr.
    pub stderr: VecDeque<Bytes>,
    /// The shell has said that the stdin pipe is broken.
    pub reported_broken: bool,
    /// It is stopped: alive, and doing nothing at all.
    pub stopped: bool,
    /// Jobs that were due while it was stopped.
    pub missed_jobs: Vec<u32>,
    /// An end that it could not react to: it was stopped, or not even started.
    pub pending_end: Option<Ending>,
    /// Its own dice.
    pub rng: Rng,
}

impl Child {
    /// A process that is being started.
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

    /// Whether it can do anything.
    pub fn is_alive(&self) -> bool {
        self.state == ProcessState::Alive
    }

    /// Whether a line of its stdout can be read now.
    pub fn has_output(&self, now: Moment) -> bool {
        self.stdout.front().is_some_and(|(arrives, _)| *arrives <= now)
    }

    /// Writes a line; it arrives after those before it.
    pub fn write(&mut self, line: Bytes, arrives: Moment) -> Moment {
        let arrives = self.stdout.back().map_or(arrives, |(before, _)| arrives.max(*before));
        self.stdout.push_back((arrives, line));
        arrives
    }
}
