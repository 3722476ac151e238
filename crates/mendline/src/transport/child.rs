//! A server that runs as a child process.
//!
//! Each child leads its own process group, so that a wrapper and all processes that it started can be ended together.
//! It registers itself with [`Guard`] before it executes the server. A pidfd reports its exit without reaping it. While
//! the exited process still owns its id, its pipes are drained, the rest of its group is killed and the guard is
//! notified. Then it is reaped. The engine decides when to end a child and with which signal.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::BytesMut;
use mendline_core::port::{Exit, Signal, SpawnError};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::group;
use super::guard::Guard;
use crate::driver::{Child, Drained};
use crate::raw;

/// The size of the pipe from a child's stdout: a large result then takes fewer context switches. Its stdin keeps the
/// default size, because every unread byte in it makes the outcome less certain when the child dies.
const STDOUT_PIPE_BYTES: usize = 256 * 1024;

/// The command line of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildCommand {
    /// The program; searched for in PATH unless it contains a slash.
    pub program: OsString,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// Variables that are set in addition to the environment of Mendline.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory, if not that of Mendline.
    pub directory: Option<PathBuf>,
}

impl ChildCommand {
    /// A program with its arguments, in the environment and directory of Mendline.
    pub fn new(program: impl Into<OsString>, arguments: impl IntoIterator<Item = OsString>) -> ChildCommand {
        ChildCommand {
            program: program.into(),
            arguments: arguments.into_iter().collect(),
            environment: Vec::new(),
            directory: None,
        }
    }
}

/// A process that was started and is not yet reaped.
pub struct LiveChild {
    process: process::Child,
    pidfd: AsyncFd<OwnedFd>,
    pipes: Option<(Sender, Receiver, Receiver)>,
    guard: Option<Arc<Mutex<Guard>>>,
    reaped: bool,
}

impl LiveChild {
    /// Starts a child and registers it with the guard.
    pub(super) fn start(spec: &ChildCommand, guard: Option<Arc<Mutex<Guard>>>) -> io::Result<LiveChild> {
        let mut command = Command::new(&spec.program);
        command.args(&spec.arguments).envs(spec.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &spec.directory {
            command.current_dir(directory);
        }
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(guard) = &guard {
            let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
            // A machine that cannot start a guard can probably start no child either; then the start of the child
            // reports the error.
            let _ = guard.ensure_running();
            guard.announce(&mut command);
        }
        let mut process = command.spawn().inspect_err(|_| {
            if let Some(guard) = &guard {
                guard.lock().unwrap_or_else(PoisonError::into_inner).report_failed_start();
            }
        })?;
        match open_handles(&mut process, guard.as_deref()) {
            Ok((pidfd, pipes)) => Ok(LiveChild { process, pidfd, pipes: Some(pipes), guard, reaped: false }),
            Err(error) => {
                // The process is not reaped, so its id is still that of its group.
                let _ = kill_process_group(Pid::from_child(&process), rustix::process::Signal::KILL);
                reap(&mut process, guard.as_deref());
                Err(error)
            }
        }
    }

    fn signal_group(&self, signal: rustix::process::Signal) {
        group::signal(self.pidfd.get_ref().as_fd(), self.process.id(), signal);
    }

    /// Kills the group, removes it from the guard's list and reaps its leader, in this order: the id stays valid until
    /// the last step.
    fn end(&mut self) -> Exit {
        self.reaped = true;
        self.signal_group(rustix::process::Signal::KILL);
        reap(&mut self.process, self.guard.as_deref())
    }
}

impl Child for LiveChild {
    type Stdin = Sender;
    type Stdout = Receiver;
    type Stderr = Receiver;

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn pipes(&mut self) -> Option<(Sender, Receiver, Receiver)> {
        self.pipes.take()
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Readiness is not cleared: an exited process stays exited.
        self.pidfd.poll_read_ready(cx).map(drop)
    }

    fn signal(&mut self, signal: Signal) {
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        self.signal_group(signal);
    }

    fn reap(&mut self) -> Exit {
        self.end()
    }

    fn unread(&self, stdin: &Sender) -> u64 {
        let mut fds = [PollFd::new(stdin, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        // Poll reports an error on the writing end of a pipe exactly when no process holds a reading end. Otherwise a
        // process that left the group, for example, may still read these bytes.
        if polled.is_err() || !fds[0].revents().contains(PollFlags::ERR) {
            return 0;
        }
        rustix::io::ioctl_fionread(stdin).unwrap_or(0)
    }

    fn drain_stdout(&self, stdout: &mut Receiver, into: &mut BytesMut) -> Drained {
        drain(stdout, into)
    }

    fn drain_stderr(&self, stderr: &mut Receiver, into: &mut BytesMut) -> Drained {
        drain(stderr, into)
    }
}

impl Drop for LiveChild {
    fn drop(&mut self) {
        if !self.reaped {
            self.end();
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

type Handles = (AsyncFd<OwnedFd>, (Sender, Receiver, Receiver));

fn open_handles(process: &mut process::Child, guard: Option<&Mutex<Guard>>) -> io::Result<Handles> {
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
    let stdin = Sender::from_owned_fd(OwnedFd::from(stdin))?;
    let stdout = Receiver::from_owned_fd(OwnedFd::from(stdout))?;
    let stderr = Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    Ok((pidfd, (stdin, stdout, stderr)))
}

/// Reads without tokio's cached readiness, which may not yet include the last bytes of a process that has exited.
fn drain(pipe: &Receiver, into: &mut BytesMut) -> Drained {
    let mut last = Vec::with_capacity(64 * 1024);
    loop {
        match rustix::io::read(pipe.as_fd(), spare_capacity(&mut last)) {
            Ok(0) => return Drained::Nothing,
            Ok(count) => {
                into.extend_from_slice(&last);
                return Drained::Bytes(count);
            }
            Err(Errno::INTR) => {}
            Err(_) => return Drained::Nothing,
        }
    }
}

/// Translates an error of the operating system into a kind and a text with a next step.
pub(super) fn spawn_error(program: &ChildCommand, error: &io::Error) -> SpawnError {
    let command = program.program.to_string_lossy().into_owned();
    if let Some(directory) = program.directory.as_ref().filter(|directory| !directory.is_dir()) {
        return SpawnError::NoDirectory { command, directory: directory.display().to_string() };
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR) => SpawnError::NotFound { command },
        Some(Errno::ACCESS) => SpawnError::NotExecutable { command },
        Some(Errno::NOEXEC) => SpawnError::NotAProgram { command },
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            SpawnError::Exhausted { command, error: error.to_string() }
        }
        _ => SpawnError::Other { command, error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(program: &str, errno: Errno) -> SpawnError {
        spawn_error(&ChildCommand::new(program, []), &io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    #[test]
    fn missing_command_is_named_with_next_step() {
        let missing = failure_of("npxx", Errno::NOENT);
        assert!(missing.is_permanent());
        assert_eq!(missing.to_string(), "`npxx` was not found; is it installed and on PATH?");
    }

    #[test]
    fn resource_shortage_is_not_reported_as_missing_command() {
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE] {
            assert!(matches!(failure_of("node", errno), SpawnError::Exhausted { .. }));
        }
        assert!(matches!(failure_of("node", Errno::IO), SpawnError::Other { .. }));
    }

    #[test]
    fn missing_directory_is_named_in_error() {
        let mut command = ChildCommand::new("sh", []);
        command.directory = Some("/nonexistent/directory".into());
        let error = io::Error::from_raw_os_error(Errno::NOENT.raw_os_error());
        assert!(spawn_error(&command, &error).to_string().contains("/nonexistent/directory"));
    }
}
