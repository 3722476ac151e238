//! Faults of a host and its server program.
//!
//! A fault changes one or two of these settings and later restores them. The settings belong to the upstream, not to
//! one process: a crash loop is a property of the program, so a new child inherits it.

use std::time::Duration;

/// The result of a spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnResult {
    /// The process starts.
    Succeeds,
    /// The command does not exist.
    NotFound,
    /// No process is available (`EAGAIN`).
    Exhausted,
}

/// The settings.
#[derive(Clone, Debug)]
pub struct ServerFaults {
    /// The result of every spawn.
    pub spawn: SpawnResult,
    /// Time from the start of a child until it reads its first byte.
    pub start: Duration,
    /// Time after its start at which a child crashes.
    pub crashes_after: Option<Duration>,
    /// The server reads no request; its jobs continue.
    pub ignores_stdin: bool,
    /// The child ignores the end of its stdin and TERM.
    pub ignores_term: bool,
    /// All work takes this many times longer.
    pub slowdown: u32,
    /// Lists are never answered.
    pub lists_hang: bool,
    /// Calls are never answered.
    pub calls_hang: bool,
    /// Calls of `read_note` are never answered.
    pub read_note_hangs: bool,
    /// Every answer is written twice.
    pub duplicates_answers: bool,
    /// Additional delay of every answer; cancellations are ignored.
    pub answer_delay: Duration,
    /// Numeric ids come back as strings.
    pub ids_as_strings: bool,
    /// Answers are malformed JSON.
    pub malformed_json: bool,
    /// Percentage of requests that fail with an internal error; requests that set session state are exempt.
    pub internal_errors: u64,
    /// Percentage of tool calls that run and are answered with an error about a session of the tool itself.
    pub session_errors: u64,
    /// Additional delay until the shell learns of the end of a child.
    pub reap_delay: Duration,
    /// A modern server requires more input before it completes a call.
    pub needs_input: bool,
    /// Longest line that the shell accepts.
    pub line_limit: Option<usize>,
    /// Calls report progress at this interval and never end.
    pub progress_forever: Option<Duration>,
}

impl Default for ServerFaults {
    fn default() -> ServerFaults {
        ServerFaults {
            spawn: SpawnResult::Succeeds,
            start: Duration::from_millis(100),
            crashes_after: None,
            ignores_stdin: false,
            ignores_term: false,
            slowdown: 1,
            lists_hang: false,
            calls_hang: false,
            read_note_hangs: false,
            duplicates_answers: false,
            answer_delay: Duration::ZERO,
            ids_as_strings: false,
            malformed_json: false,
            internal_errors: 0,
            session_errors: 0,
            reap_delay: Duration::ZERO,
            needs_input: false,
            line_limit: None,
            progress_forever: None,
        }
    }
}
