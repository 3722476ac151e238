//! Errors of starting a child process.

use std::fmt;

/// The reason why a child process could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// No command is configured for this server.
    NotConfigured,
    /// The working directory does not exist.
    NoDirectory {
        /// The command as configured.
        command: String,
        /// The directory as configured.
        directory: String,
    },
    /// There is no such command.
    NotFound {
        /// The command as configured.
        command: String,
    },
    /// The file may not be executed.
    NotExecutable {
        /// The command as configured.
        command: String,
    },
    /// The file is not a program for this machine.
    NotAProgram {
        /// The command as configured.
        command: String,
    },
    /// The machine is short of processes, memory or descriptors; another attempt may succeed later.
    Exhausted {
        /// The command as configured.
        command: String,
        /// The operating system's text.
        error: String,
    },
    /// Any other error of the operating system.
    Other {
        /// The command as configured.
        command: String,
        /// The operating system's text.
        error: String,
    },
}

impl SpawnError {
    /// Returns whether another attempt fails the same way until a person changes something.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, SpawnError::Exhausted { .. } | SpawnError::Other { .. })
    }

    /// Returns the stable name for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            SpawnError::NotConfigured => "not_configured",
            SpawnError::NoDirectory { .. } => "no_directory",
            SpawnError::NotFound { .. } => "command_not_found",
            SpawnError::NotExecutable { .. } => "not_executable",
            SpawnError::NotAProgram { .. } => "not_a_program",
            SpawnError::Exhausted { .. } => "out_of_resources",
            SpawnError::Other { .. } => "spawn_failed",
        }
    }

    /// Passes every text that comes from outside to `each`.
    pub fn texts(&mut self, each: &mut dyn FnMut(&mut String)) {
        match self {
            SpawnError::NotConfigured => {}
            SpawnError::NoDirectory { command, directory } => {
                each(command);
                each(directory);
            }
            SpawnError::NotFound { command }
            | SpawnError::NotExecutable { command }
            | SpawnError::NotAProgram { command } => each(command),
            SpawnError::Exhausted { command, error } | SpawnError::Other { command, error } => {
                each(command);
                each(error);
            }
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::NotConfigured => f.write_str("no command is configured for this server"),
            SpawnError::NoDirectory { command, directory } => {
                write!(f, "`{command}` was not started: its directory {directory} does not exist")
            }
            SpawnError::NotFound { command } => {
                write!(f, "`{command}` was not found; is it installed and on PATH?")
            }
            SpawnError::NotExecutable { command } => {
                write!(f, "`{command}` may not be run; is it a program, and executable?")
            }
            SpawnError::NotAProgram { command } => {
                write!(f, "`{command}` is no program for this machine; does a script lack its `#!` line?")
            }
            SpawnError::Exhausted { command, error } => write!(
                f,
                "`{command}` could not be started: the machine is short of processes, memory or files ({error})"
            ),
            SpawnError::Other { command, error } => write!(f, "`{command}` could not be started: {error}"),
        }
    }
}
