//! A server that runs as a child process.
//!
//! `crate::os::child` starts and ends the process. The engine decides when to end it and with which signal. This
//! module knows the command of each upstream and says why one cannot be started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::BytesMut;
use mendline_core::port::{Exit, Signal, SpawnError};

use super::guard::Guard;
use crate::driver::{Child, Drained};
use crate::os::child::{ChildProcess, PipeReader, PipeWriter, Pipes, read_available, unread_bytes};
use crate::os::errors::{StartFailure, start_failure};
use crate::os::files::can_execute;
use crate::os::login_shell;

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

    pub(crate) fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Returns the search path of the command: its own PATH, or that of Mendline.
    pub fn search_path(&self) -> OsString {
        let own = self.environment.iter().rev().find(|(name, _)| name == PATH).map(|(_, value)| value.clone());
        own.or_else(|| std::env::var_os(PATH)).unwrap_or_default()
    }

    /// Looks for a program that is not on the search path on the PATH of the user's login shell. If it is there, the
    /// command uses that PATH from now on. Blocks while the shell starts, but only if the program was not found.
    pub fn found_by_login_shell(self) -> ChildCommand {
        self.found_on(login_shell::path)
    }

    fn found_on(mut self, path: impl FnOnce() -> Option<OsString>) -> ChildCommand {
        let has_own_path = self.environment.iter().any(|(name, _)| name == PATH);
        let is_named = !self.program.as_encoded_bytes().contains(&b'/') && !self.program.is_empty();
        if has_own_path || !is_named || is_on(&self.program, &self.search_path()) {
            return self;
        }
        if let Some(path) = path().filter(|path| is_on(&self.program, path)) {
            // The program may need others of the same directories, as `npx` needs `node`.
            self.environment.push((PATH.into(), path));
        }
        self
    }
}

const PATH: &str = "PATH";

fn is_on(program: &OsStr, path: &OsStr) -> bool {
    let is_there = |directory: PathBuf| is_program(&directory.join(program));
    std::env::split_paths(path).any(is_there)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && can_execute(path)
}

/// A process that was started and is not yet reaped.
pub struct LiveChild {
    process: ChildProcess,
    pipes: Option<Pipes>,
}

impl LiveChild {
    /// Starts a child and registers it with the guard.
    pub(super) fn start(spec: &ChildCommand, guard: Option<Arc<Mutex<Guard>>>) -> io::Result<LiveChild> {
        let (process, pipes) = ChildProcess::start(&mut spec.to_command(), guard)?;
        Ok(LiveChild { process, pipes: Some(pipes) })
    }
}

impl Child for LiveChild {
    type Stdin = PipeWriter;
    type Stdout = PipeReader;
    type Stderr = PipeReader;

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn pipes(&mut self) -> Option<Pipes> {
        self.pipes.take()
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.process.poll_exited(cx)
    }

    fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    fn reap(&mut self) -> Exit {
        self.process.end()
    }

    fn unread(&self, stdin: &PipeWriter) -> u64 {
        unread_bytes(stdin)
    }

    fn drain_stdout(&self, stdout: &mut PipeReader, into: &mut BytesMut) -> Drained {
        drain(stdout, into)
    }

    fn drain_stderr(&self, stderr: &mut PipeReader, into: &mut BytesMut) -> Drained {
        drain(stderr, into)
    }
}

fn drain(pipe: &PipeReader, into: &mut BytesMut) -> Drained {
    match read_available(pipe, into) {
        0 => Drained::Nothing,
        count => Drained::Bytes(count),
    }
}

/// Translates an error of the operating system into a kind and a text with a next step.
pub(crate) fn spawn_error(program: &ChildCommand, error: &io::Error) -> SpawnError {
    let command = program.program.to_string_lossy().into_owned();
    if let Some(directory) = program.directory.as_ref().filter(|directory| !directory.is_dir()) {
        return SpawnError::NoDirectory { command, directory: directory.display().to_string() };
    }
    match start_failure(error) {
        StartFailure::NotFound => SpawnError::NotFound { command },
        StartFailure::NotExecutable => SpawnError::NotExecutable { command },
        StartFailure::NotAProgram => SpawnError::NotAProgram { command },
        StartFailure::Exhausted => SpawnError::Exhausted { command, error: error.to_string() },
        StartFailure::Other => SpawnError::Other { command, error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

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
    fn missing_program_is_looked_up_on_the_path_of_the_login_shell() {
        let tools = tempfile::tempdir().unwrap();
        let program = tools.path().join("mendline-test-tool");
        std::fs::copy("/bin/true", &program).unwrap();
        let path: OsString = tools.path().into();
        let named = || ChildCommand::new("mendline-test-tool", []);

        let found = named().found_on(|| Some(path.clone()));
        assert_eq!(found.environment, [("PATH".into(), path)]);
        assert_eq!(named().found_on(|| Some("/nonexistent".into())), named());
        assert_eq!(named().found_on(|| None), named());

        let unused = || panic!("the shell is started only for a program that is not found");
        let mut own = named();
        own.environment.push(("PATH".into(), "/nonexistent".into()));
        assert_eq!(own.clone().found_on(unused), own, "a configured PATH is final");
        let unused = || panic!("the shell is started only for a program that is not found");
        let with_slash = ChildCommand::new("/nonexistent/tool", []);
        assert_eq!(with_slash.clone().found_on(unused), with_slash);
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
