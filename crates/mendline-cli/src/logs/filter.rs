//! Selection of lines.
//!
//! `--grep` searches for a text in any case. Some texts match more: the name of a system error matches every
//! wording of it (`ETIMEDOUT`: `timed out`, `os error 110`), and so does the name of a signal (`SIGKILL`: `signal 9`). A
//! number that can be an HTTP status matches as a status or as a word, not inside of another number.
//!
//! The history of a call includes the messages of all its attempts. Every attempt has its own request id, so that a
//! late answer to one is not taken for the answer to another; the line about its sending names the id.

use std::collections::BTreeSet;

use mendline::observe::errno::{SystemError, find_http_status, has_word};
use mendline::observe::log::LogLevel;
use mendline::observe::signal::SystemSignal;

use super::LogsOptions;
use super::lines::Line;
use super::message;
use super::record::Record;
use super::show::without_colours;
use crate::target::ServerSelector;

/// A call by its number, optionally with its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId {
    pub(super) pid: Option<u32>,
    pub(super) number: u64,
}

impl CallId {
    pub(super) fn parse(text: &str) -> Result<CallId, String> {
        let wrong = || "a call is a number such as 65537, or PID:NUMBER; errors name it as `call`".to_owned();
        let (pid, number) = match text.split_once(':') {
            Some((pid, number)) => (Some(pid.parse().map_err(|_| wrong())?), number),
            None => (None, text),
        };
        Ok(CallId { pid, number: number.parse().map_err(|_| wrong())? })
    }
}

/// The criteria of a selection.
pub(super) struct Filter {
    /// The selected servers. The files of a gateway have lines of others, too.
    server: Option<ServerSelector>,
    level: LogLevel,
    call: Option<CallId>,
    /// Request ids of the later attempts, by process.
    attempts: BTreeSet<(u32, u64)>,
    text: Option<Text>,
    wire: bool,
}

/// Kinds of searched text.
enum Text {
    /// Any text, in lower case.
    Plain(String),
    Error(SystemError),
    Signal(SystemSignal),
    Status(u16, String),
}

impl Filter {
    pub(super) fn new(options: &LogsOptions, server: Option<&ServerSelector>) -> Filter {
        let usual = if options.call.is_some() { LogLevel::Debug } else { LogLevel::Info };
        Filter {
            server: server.cloned(),
            level: options.level.unwrap_or(usual),
            call: options.call,
            attempts: BTreeSet::new(),
            text: options.grep.as_deref().map(Text::new),
            wire: options.wire,
        }
    }

    /// Returns whether the history of a call is selected.
    pub(super) fn shows_history(&self) -> bool {
        self.call.is_some()
    }

    pub(super) fn takes(&self, record: &Record<'_>) -> bool {
        let is_loud = if record.is_message() { self.wire } else { record.level() <= self.level };
        let is_of_call = || self.call.is_none_or(|call| self.is_of(call, record));
        let is_of_server = || self.server.as_ref().is_none_or(|it| it.is_or_becomes(&record.server, record.pid));
        is_loud && is_of_server() && is_of_call() && self.text.as_ref().is_none_or(|text| text.is_in(record))
    }

    /// Learns the request id of another attempt of the call, if this line names it.
    pub(super) fn learn(&mut self, line: &Line) {
        if let Some(call) = self.call.filter(|_| self.wire)
            && let Some(record) = Record::parse(&line.text)
            && let Some(number) = record.number.filter(|_| record.call == Some(call.number))
        {
            self.attempts.insert((record.pid, number));
        }
    }

    fn is_of(&self, call: CallId, record: &Record<'_>) -> bool {
        call.pid.is_none_or(|pid| pid == record.pid)
            && match record.call {
                Some(number) => number == call.number,
                None => message::attempt(record)
                    .is_some_and(|number| number == call.number || self.attempts.contains(&(record.pid, number))),
            }
    }
}

impl Text {
    fn new(text: &str) -> Text {
        let status = text.parse().ok().filter(|status| text.len() == 3 && (100..600).contains(status));
        match (SystemError::named(text), SystemSignal::named(text), status) {
            (Some(error), ..) => Text::Error(error),
            (_, Some(signal), _) => Text::Signal(signal),
            (.., Some(status)) => Text::Status(status, text.to_owned()),
            _ => Text::Plain(text.to_lowercase()),
        }
    }

    fn is_in(&self, record: &Record<'_>) -> bool {
        // As it is shown.
        let shown = without_colours(&record.text);
        match self {
            Text::Plain(text) => {
                let places = [Some(&record.kind), record.method.as_ref(), record.errno.as_ref()];
                let mut places = std::iter::once(shown.as_str()).chain(places.into_iter().flatten().map(|it| &**it));
                places.any(|place| place.to_lowercase().contains(text))
            }
            Text::Error(error) => record.errno.as_deref() == Some(error.name) || error.is_in(&shown),
            Text::Signal(signal) => signal.is_in(&shown),
            Text::Status(status, text) => {
                record.status == Some(*status) || find_http_status(&shown) == Some(*status) || has_word(&shown, text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(grep: &str, text: &str) -> bool {
        let line = serde_json::json!({
            "time": "2026-11-15T12:20:12.123Z", "level": "info", "server": "notes", "pid": 1, "kind": "stderr", "text": text,
        });
        let line = line.to_string();
        Text::new(grep).is_in(&Record::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn system_error_matches_every_wording() {
        for text in ["connect ETIMEDOUT", "timed out (os error 110)", "[Errno 110] Connection timed out", "x etimedout"]
        {
            assert!(found("ETIMEDOUT", text) && found("etimedout", text), "{text}");
        }
        assert!(!found("ETIMEDOUT", "connection refused (os error 111)"));
    }

    #[test]
    fn u07_error_matches_the_words_of_mendline() {
        for (grep, text) in [
            ("ENOENT", "parked: `no-such-server` was not found; is it installed and on PATH?"),
            ("ENOENT", "`npx` was not started: its directory /srv/x does not exist"),
            ("EACCES", "`server.py` may not be run; is it a program, and executable?"),
            ("ENOEXEC", "`server` is no program for this machine; does a script lack its `#!` line?"),
            ("ETIMEDOUT", "10.0.0.1:80 did not answer within 5 s"),
            ("ETIMEDOUT", "no answer after 30 s"),
            ("ENOENT", "\u{1b}[31mEN\u{1b}[0mOENT"),
        ] {
            assert!(found(grep, text), "{grep}: {text}");
        }
        assert!(!found("ENOENT", "the tool was not found"));
    }

    #[test]
    fn u07_signal_matches_every_wording() {
        for text in [
            "Up → Waiting: the server was killed by signal 9",
            "killed by SIGKILL",
            "died with <Signals.SIGKILL: 9>",
            "exited with code 137",
            "ended with exit code 137",
        ] {
            assert!(found("SIGKILL", text) && found("sigkill", text), "{text}");
        }
        assert!(!found("SIGKILL", "killed by signal 90") && !found("SIGTERM", "killed by signal 9"));
        assert!(found("SIGTERM", "killed by signal 15"));
    }

    #[test]
    fn status_matches_as_status_and_not_inside_numbers() {
        for text in ["the server answered HTTP 503", "HTTP/1.1 503 Service Unavailable", "got 503!", "status=503"] {
            assert!(found("503", text), "{text}");
        }
        assert!(!found("503", "call 15037 sent") && !found("503", "port 5031"));
    }

    #[test]
    fn other_text_matches_in_any_case() {
        assert!(found("GRÜSSE", "viele Grüsse") && found("stderr", "x") && !found("x", "y"));
    }

    #[test]
    fn call_id_is_a_number_with_or_without_process() {
        assert_eq!(CallId::parse("65537"), Ok(CallId { pid: None, number: 65_537 }));
        assert_eq!(CallId::parse("12:65537"), Ok(CallId { pid: Some(12), number: 65_537 }));
        for text in ["", "x", "1:x", ":1", "-1"] {
            assert!(CallId::parse(text).unwrap_err().contains("65537"), "{text}");
        }
    }
}
