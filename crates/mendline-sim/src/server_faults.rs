//! How a host and its server program behave.
//!
//! Every fault turns one or two of these knobs and turns them back. A temper belongs to the upstream, not to one of its
//! processes: a crash loop is a property of the program, and a new child inherits it.

use std::time::Duration;

/// What the operating system says to a spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnResult {
    /// It works.
    Succeeds,
    /// There is no such command.
    NotFound,
    /// There is no process to be had.
    Exhausted,
}

/// The knobs.
#[derive(Clone, Debug)]
pub struct ServerFaults {
    /// What a spawn meets.
    pub spawn: SpawnResult,
    /// How long a child takes before it reads its first byte.
    pub start: Duration,
    /// How long after its start a child dies by itself.
    pub crashes_after: Option<Duration>,
    /// It works on, but does not read its stdin.
    pub ignores_stdin: bool,
    /// Neither the end of its stdin nor TERM makes it end.
    pub ignores_term: bool,
    /// All work takes this many times longer.
    pub slowdown: u32,
    /// Lists are never answered.
    pub lists_hang: bool,
    /// Calls are never answered.
    pub calls_hang: bool,
    /// Calls of the one tool that only reads are never answered.
    pub read_note_hangs: bool,
    /// Every answer is written twice.
    pub duplicates_answers: bool,
    /// Answers are held back for this much longer, and cancellations are ignored.
    pub answer_delay: Duration,
    /// Numbers in ids come back as strings.
    pub ids_as_strings: bool,
    /// Answers come back as broken JSON.
    pub malformed_json: bool,
    /// Of a hundred requests that are no state, so many are answered with an internal error.
    pub internal_errors: u64,
    /// Of a hundred calls of tools, so many run and are answered with an error about a session of the tool's own.
    pub session_errors: u64,
    /// The end of a child is known this much later.
    pub reap_delay: Duration,
    /// A modern server wants more from its client before it finishes a call.
    pub needs_input: bool,
    /// Longer lines are too long for the shell.
    pub line_limit: Option<usize>,
    /// Calls report progress once in this time and never end.
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
