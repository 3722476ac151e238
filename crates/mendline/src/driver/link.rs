//! One child in the driver: its process, its pipes, and pipes that closed early.
//!
//! When a process dies, its pipes close shortly before its exit is visible. If the driver reported both, every exit
//! would look like two faults. So a closed pipe is only *suspected* for [`GRACE`]. It is reported if the process is
//! still alive after that.

use std::time::Duration;

use mendline_core::port::Pipe;
use mendline_core::{LinkId, Moment};

use super::host::Child;
use super::sink::Sink;
use super::source::Source;

/// The time between the close of a pipe and the report. The exit follows within microseconds, or milliseconds under
/// load.
const GRACE: Duration = Duration::from_millis(20);

/// The limit of a line on stderr, in bytes. Longer lines are data and not messages for people.
pub(super) const STDERR_LINE: usize = 4 * 1024;

/// The limit of bytes read from the pipes of an exited process: more than a pipe holds.
pub(super) const DRAIN_BYTES: usize = 1024 * 1024;

/// A child process and its pipes.
pub(super) struct Link<C: Child> {
    pub(super) id: LinkId,
    pub(super) child: C,
    pub(super) stdin: Sink<C::Stdin>,
    pub(super) stdout: Source<C::Stdout>,
    pub(super) stderr: Source<C::Stderr>,
    /// The engine did not allow reading in the last iteration.
    pub(super) paused: bool,
    suspicions: Vec<(Moment, Pipe)>,
}

impl<C: Child> Link<C> {
    /// Creates a link over these pipes. The limit of a message is `message_limit` bytes.
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

    /// Notes that a pipe closed while the process seems to be alive.
    pub(super) fn suspect(&mut self, pipe: Pipe, now: Moment) {
        self.suspicions.push((now + GRACE, pipe));
    }

    /// Returns the time at which the next suspected pipe is reported.
    pub(super) fn next_suspicion(&self) -> Option<Moment> {
        self.suspicions.iter().map(|(due, _)| *due).min()
    }

    /// Removes and returns a pipe whose grace period is over.
    pub(super) fn confirmed(&mut self, now: Moment) -> Option<Pipe> {
        let at = self.suspicions.iter().position(|(due, _)| *due <= now)?;
        Some(self.suspicions.swap_remove(at).1)
    }
}
