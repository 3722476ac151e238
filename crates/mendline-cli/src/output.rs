//! Output of the process: everything that a command writes to stdout and to stderr.
//!
//! The macros of the standard library panic when a write fails. Macros of the same names replace them here, so that no
//! command can use the others by accident.
//!
//! - A reader that closes the pipe is no error. The command finishes its work, writes nothing more, and exits with its
//!   own code: a tool that was called may have run.
//! - Any other failed write, such as one to a full disk, is reported once, on stderr, when the command ends. It turns
//!   exit code 0 into 1; other codes stay.
//! - A failed write to stderr cannot be reported.
//!
//! Text is escaped by the rule of [`Escaped`](mendline::observe::escaped::Escaped) on its way out: everything that is
//! not harmless becomes an escape, except line ends, tabs and, on a terminal, the few control sequences that Mendline
//! itself writes. This is a second layer of defence. Untrusted names and messages are escaped where they are put into a
//! sentence, because only there a line end in them can be told from one of ours. JSON has its own escapes, and [`data`]
//! is for programs and stays as it is.
//!
//! Descriptors 0 to 2 that are closed when the process starts are opened on `/dev/null` by the standard library before
//! `main`, so no socket or file gets their numbers.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use mendline::observe::escaped::{EscapedJson, is_harmless};
use mendline::os::output::{write_to_stderr, write_to_stdout};

use crate::cli::NEGATIVE;

/// Writes text to stdout.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::out(format_args!($($text)*)) };
}

/// Writes a line to stdout.
macro_rules! println {
    () => { $crate::output::out(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes text to stderr.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::err(format_args!($($text)*)) };
}

/// Writes a line to stderr.
macro_rules! eprintln {
    () => { $crate::output::err(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// The first failure of a write to stdout. Nothing is written after it.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Stdout without a buffer. It remembers the first failure for [`finish`].
pub(crate) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = FAILURE.get() {
            return Err(copied(error));
        }
        write_to_stdout(bytes).map_err(|error| copied(FAILURE.get_or_init(|| error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stderr without a buffer.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_to_stderr(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes text to stdout; a failure is kept for [`finish`].
pub(crate) fn out(text: fmt::Arguments<'_>) {
    let _ = Stdout.write_all(shown(&text.to_string(), io::stdout().is_terminal()).as_bytes());
}

/// Writes text to stderr.
pub(crate) fn err(text: fmt::Arguments<'_>) {
    let _ = Stderr.write_all(shown(&text.to_string(), io::stderr().is_terminal()).as_bytes());
}

/// Writes a JSON text and a line end to stdout, with the escapes of JSON for everything that is not harmless.
pub(crate) fn json(text: &str) {
    let _ = Stdout.write_all(format!("{}\n", EscapedJson(text)).as_bytes());
}

/// Writes bytes to stdout exactly as they are, for programs.
pub(crate) fn data(bytes: &[u8]) {
    let _ = Stdout.write_all(bytes);
}

/// Returns whether a write to stdout has failed.
pub(crate) fn has_failed() -> bool {
    FAILURE.get().is_some()
}

fn copied(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

fn is_end_of_reading(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Reports a failed write, and returns the exit code of the process for that of its command.
pub(crate) fn finish(code: ExitCode) -> ExitCode {
    match FAILURE.get() {
        Some(error) if !is_end_of_reading(error) => {
            eprintln!("error: cannot write to stdout: {}", reason(error));
            if code == ExitCode::SUCCESS { ExitCode::from(NEGATIVE) } else { code }
        }
        _ => code,
    }
}

/// Control sequences with which Mendline draws over a line.
const DRAWS_OVER: [&str; 3] = ["\r\x1b[K", "\r\x1b[2K", "\x1b[2A"];

/// Maximum number of digits and semicolons of a colour code.
const LONGEST_COLOUR: usize = 16;

/// Escapes everything that is not harmless, except line ends, tabs and, on a terminal, our own sequences.
fn shown(text: &str, is_terminal: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let own = if is_terminal { own_sequence(rest) } else { 0 };
        let taken = own.max(character.len_utf8());
        if own > 0 || is_harmless(character) || matches!(character, '\n' | '\t') {
            shown.push_str(&rest[..taken]);
        } else {
            shown.extend(character.escape_default());
        }
        rest = &rest[taken..];
    }
    shown
}

/// Returns the length of the control sequence at the beginning of a text, if Mendline writes it.
fn own_sequence(text: &str) -> usize {
    if let Some(sequence) = DRAWS_OVER.iter().find(|sequence| text.starts_with(*sequence)) {
        return sequence.len();
    }
    let Some(after) = text.strip_prefix("\x1b[") else { return 0 };
    let codes = after.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if codes <= LONGEST_COLOUR && after[codes..].starts_with('m') { codes + 3 } else { 0 }
}

/// Returns the message of the system for an error, without its number.
fn reason(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or(&words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s07_text_keeps_only_the_sequences_of_mendline() {
        let text = "\x1b[1;32mok\x1b[0m\r\x1b[K\ta\n\x1b]0;x\x07\x1b[2J\u{9b}2J\u{202e}\r\x1b[2Ky";
        let escaped = "ok\\u{1b}[0m\\r\\u{1b}[K\ta\n\\u{1b}]0;x\\u{7}\\u{1b}[2J\\u{9b}2J\\u{202e}\\r\\u{1b}[2Ky";
        assert_eq!(shown(text, false), format!("\\u{{1b}}[1;32m{escaped}"));
        let seen = "\x1b[1;32mok\x1b[0m\r\x1b[K\ta\n\\u{1b}]0;x\\u{7}\\u{1b}[2J\\u{9b}2J\\u{202e}\r\x1b[2Ky";
        assert_eq!(shown(text, true), seen);
        assert_eq!(shown("\x1b[", true), "\\u{1b}[");
        assert_eq!(own_sequence(&format!("\x1b[{}m", "1;".repeat(40))), 0);
    }

    #[test]
    fn reason_has_no_number() {
        let full = io::Error::from(rustix::io::Errno::NOSPC);
        assert_eq!(reason(&full), "No space left on device");
    }
}
