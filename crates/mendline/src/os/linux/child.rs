//! A child process that leads its own process group.
//!
//! A wrapper and all processes that it started can be ended together, because they share the group. The child registers
//! itself with [`Guard`] before it executes the program. A pidfd reports its exit without reaping it. While the exited
//! process still owns its id, its pipes are drained, the rest of its group is killed and the guard is notified. Then it
//! is reaped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::BytesMut;
use mendline_core::port::{Exit, Signal};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
pub use tokio::net::unix::pipe::{Receiver as PipeReader, Sender as PipeWriter};

use super::guard::Guard;
use super::process_group as group;
use super::raw;

/// The size of the pipe from a child's stdout: a large result then takes fewer context switches. Its stdin keeps the
/// default size, because every unread byte in it makes the outcome less certain when the child dies.
const STDOUT_PIPE_BYTES: usize = 256 * 1024;

/// The stdin, stdout and stderr of a child, seen from Mendline.
pub(crate) type Pipes = (PipeWriter, PipeReader, PipeReader);

/// A process that was started and is not yet reaped.
pub(crate) struct ChildProcess {
    process: process::Child,
    pidfd: AsyncFd<OwnedFd>,
    guard: Option<Arc<Mutex<Guard>>>,
    reaped: bool,
}

impl ChildProcess {
    /// Starts a command as the leader of a new group, with pipes as its standard streams. Without a guard, it may
    /// outlive Mendline when that is killed. Must be called inside a tokio runtime.
    pub(crate) fn start(command: &mut Command, guard: Option<Arc<Mutex<Guard>>>) -> io::Result<(ChildProcess, Pipes)> {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(guard) = &guard {
            let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
            // A machine that cannot start a guard can probably start no child either; then the start of the child
            // reports the error.
            let _ = guard.ensure_running();
            guard.announce(command);
        }
        let mut process = command.spawn().inspect_err(|_| {
            if let Some(guard) = &guard {
                guard.lock().unwrap_or_else(PoisonError::into_inner).report_failed_start();
            }
        })?;
        match open_handles(&mut process, guard.as_deref()) {
            Ok((pidfd, pipes)) => Ok((ChildProcess { process, pidfd, guard, reaped: false }, pipes)),
            Err(error) => {
                // The process is not reaped, so its id is still that of its group.
                let _ = kill_process_group(Pid::from_child(&process), rustix::process::Signal::KILL);
                reap(&mut process, guard.as_deref());
                Err(error)
            }
        }
    }

    /// Returns its process id, which is also the id of its group.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Becomes ready when the process has exited, and stays ready.
    pub(crate) fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Readiness is not cleared: an exited process stays exited.
        self.pidfd.poll_read_ready(cx).map(drop)
    }

    /// Sends a signal to every process of its group.
    pub(crate) fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        group::signal(self.pidfd.get_ref().as_fd(), self.process.id(), signal);
    }

    /// Kills the group, removes it from the guard's list and reaps its leader, in this order: the id stays valid until
    /// the last step.
    pub(crate) fn end(&mut self) -> Exit {
        self.reaped = true;
        self.signal(Signal::Kill);
        reap(&mut self.process, self.guard.as_deref())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !self.reaped {
            self.end();
        }
    }
}

/// Returns the number of bytes in the stdin of an ended child that no process has read or can still read; 0 unless that
/// is certain.
pub(crate) fn unread_bytes(stdin: &PipeWriter) -> u64 {
    let mut fds = [PollFd::new(stdin, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    // Poll reports an error on the writing end of a pipe exactly when no process holds a reading end. Otherwise a
    // process that left the group, for example, may still read these bytes.
    if polled.is_err() || !fds[0].revents().contains(PollFlags::ERR) {
        return 0;
    }
    rustix::io::ioctl_fionread(stdin).unwrap_or(0)
}

/// Reads the bytes that are in a pipe now, and returns their number; 0 if it is empty or closed. Does not use tokio's
/// cached readiness, which may not yet include the last bytes of a process that has exited.
pub(crate) fn read_available(pipe: &PipeReader, into: &mut BytesMut) -> usize {
    let mut last = Vec::with_capacity(64 * 1024);
    loop {
        match rustix::io::read(pipe.as_fd(), spare_capacity(&mut last)) {
            Ok(count) => {
                into.extend_from_slice(&last);
                return count;
            }
            Err(Errno::INTR) => {}
            Err(_) => return 0,
        }
    }
}

/// Removes the group from the guard's list, then reaps its leader, which holds the id until then.
fn reap(process: &mut process::Child, guard: Option<&Mutex<Guard>>) -> Exit {
    if let Some(guard) = guard {
        guard.lock().unwrap_or_else(PoisonError::into_inner).remove(process.id());
    }
    match process.wait() {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Code(-1),
        },
        // The kernel reaped it, as it does when SIGCHLD is ignored; the exit status is lost.
        Err(_) => Exit::Code(-1),
    }
}

fn open_handles(process: &mut process::Child, guard: Option<&Mutex<Guard>>) -> io::Result<(AsyncFd<OwnedFd>, Pipes)> {
    let pidfd = pidfd_open(Pid::from_child(process), PidfdFlags::empty())?;
    if let Some(guard) = guard {
        guard.lock().unwrap_or_else(PoisonError::into_inner).add(process.id(), &pidfd);
    }
    let pidfd = raw::watch(pidfd, Interest::READABLE)?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(io::Error::other("the child has no pipes"));
    };
    // The kernel refuses more than a limit of pipe memory per user; then the default size is used.
    let _ = rustix::pipe::fcntl_setpipe_size(&stdout, STDOUT_PIPE_BYTES);
    let stdin = PipeWriter::from_owned_fd(OwnedFd::from(stdin))?;
    let stdout = PipeReader::from_owned_fd(OwnedFd::from(stdout))?;
    let stderr = PipeReader::from_owned_fd(OwnedFd::from(stderr))?;
    Ok((pidfd, (stdin, stdout, stderr)))
}
