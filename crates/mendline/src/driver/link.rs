//! One child as the driver holds it: its pipes, and what is suspected about them.
//!
//! When a process dies, its pipes close a moment before it can be seen to have ended. Telling the engine about both would
//! make every death look like two faults, so a closed pipe is only *suspected* for [`GRACE`]; a process that really lives
//! on without it is reported after that.

use std::time::Duration;

use mendline_core::port::Pipe;
use mendline_core::{LinkId, Moment};

use super::host::Child;
use super::sink::Sink;
use super::source::Source;

/// How long a closed pipe may wait for the end of its process. Between the two the kernel needs microseconds, and a busy
/// machine milliseconds.
const GRACE: Duration = Duration::from_millis(20);

/// What a line on stderr is cut to. Longer ones are somebody's data, not a message to a person.
pub(super) const STDERR_LINE: usize = 4 * 1024;

/// What is read at most from the pipes of a process that has ended: more than any pipe holds.
pub(super) const DRAIN_BYTES: usize = 1024 * 1024;

/// A child process and its pipes.
pub(super) struct Link<C: Child> {
    pub(super) id: LinkId,
    pub(super) child: C,
    pub(super) stdin: Sink<C::Stdin>,
    pub(super) stdout: Source<C::Stdout>,
    pub(super) stderr: Source<C::Stderr>,
    /// Not read from in the last round, for want of leave.
    pub(super) paused: bool,
    suspicions: Vec<(Moment, Pipe)>,
}

impl<C: Child> Link<C> {
    /// A link over these pipes; messages may be `message_limit` bytes long.
    pub(super) fn new(id: LinkId, child: C, pipes: (C::Stdin, C::Stdout, C::Stderr), message_limit: usize) -> Link<C> {
        let (stdin, stdout, stderr) = pipes;
        Link {
            id,
            child,
            stdin: Sink::new(stdin),
            stdout: Source::new(stdout, message_limit),
            stderr: Source::new(stderr, STDERR_LINE),
            paused: false,
            suspicions: Vec::new(),
        }
    }

    /// A pipe closed although the process has not been seen to end.
    pub(super) fn suspect(&mut self, pipe: Pipe, now: Moment) {
        self.suspicions.push((now + GRACE, pipe));
    }

    /// When the next suspicion becomes a fact.
    pub(super) fn next_suspicion(&self) -> Option<Moment> {
        self.suspicions.iter().map(|(due, _)| *due).min()
    }

    /// A suspicion that has become a fact.
    pub(super) fn confirmed(&mut self, now: Moment) -> Option<Pipe> {
        let at = self.suspicions.iter().position(|(due, _)| *due <= now)?;
        Some(self.suspicions.swap_remove(at).1)
    }
}
