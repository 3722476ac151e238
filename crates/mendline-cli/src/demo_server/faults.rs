//! The faults of the demo server.
//!
//! A fault is a word, some with a value: the number of the call at which it happens, or a duration. With a ledger,
//! calls are counted over all lifetimes of the server, so that "dies at the third call" happens once.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerFault {
    /// Dies at the n-th call without running it.
    DieBefore(usize),
    /// Runs the n-th call and dies before answering.
    DieAfter(usize),
    /// Dies within the line that answers the n-th call.
    PartialLine(usize),
    /// Stops reading after the n-th call.
    StopReading(usize),
    /// Closes its stdout at the n-th call and keeps running.
    CloseStdout(usize),
    /// Prints text that is not protocol to stdout.
    Noise,
    /// Prints this many lines to stderr at every call.
    StderrFlood(usize),
    /// Keeps running when its stdin ends.
    IgnoreEof,
    /// Ignores SIGTERM.
    IgnoreTerm,
    /// Starts a process that holds its pipes and ignores the shutdown.
    Grandchild,
    /// Is that process.
    Linger,
    /// Exits at once with this code.
    ExitAtOnce(u8),
    /// Takes this long to start.
    SlowStart(Duration),
    /// Starts only when this file exists.
    WaitFor(PathBuf),
    /// Has an additional tool while this file exists.
    ToolIf(PathBuf),
    /// Answers every call twice.
    AnswerTwice,
    /// Sends an answer with an unknown id before every answer.
    UnknownId,
    /// Writes broken JSON before every answer.
    Malformed,
    /// Breaks off its response to the n-th call. Like the faults below, only over HTTP.
    CutStream(usize),
    /// Loses all sessions at the n-th call.
    Forget(usize),
    /// Runs the n-th call and never answers it.
    Stall(usize),
    /// Answers 429 from the n-th call on, for one second.
    Busy(usize),
    /// Answers 503 to the n-th call and to the next.
    Unavailable(usize),
}

impl ServerFault {
    /// Returns whether the fault is available over HTTP.
    pub(super) fn is_for_http(&self) -> bool {
        matches!(
            self,
            ServerFault::DieBefore(_)
                | ServerFault::DieAfter(_)
                | ServerFault::ExitAtOnce(_)
                | ServerFault::SlowStart(_)
                | ServerFault::WaitFor(_)
                | ServerFault::ToolIf(_)
        ) || self.is_only_for_http()
    }

    /// Returns whether the fault is available only over HTTP.
    pub(super) fn is_only_for_http(&self) -> bool {
        matches!(
            self,
            ServerFault::CutStream(_)
                | ServerFault::Forget(_)
                | ServerFault::Stall(_)
                | ServerFault::Busy(_)
                | ServerFault::Unavailable(_)
        )
    }
}

impl FromStr for ServerFault {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerFault, String> {
        let (word, value) = text.split_once('=').unwrap_or((text, ""));
        let number = |default: usize| match value {
            "" => Ok(default),
            value => value.parse::<usize>().map_err(|error| format!("{word}={value}: {error}")),
        };
        Ok(match word {
            "die-before" => ServerFault::DieBefore(number(1)?),
            "die-after" => ServerFault::DieAfter(number(1)?),
            "partial-line" => ServerFault::PartialLine(number(1)?),
            "stop-reading" => ServerFault::StopReading(number(1)?),
            "close-stdout" => ServerFault::CloseStdout(number(1)?),
            "noise" => ServerFault::Noise,
            "stderr-flood" => ServerFault::StderrFlood(number(2000)?),
            "ignore-eof" => ServerFault::IgnoreEof,
            "ignore-term" => ServerFault::IgnoreTerm,
            "grandchild" => ServerFault::Grandchild,
            "linger" => ServerFault::Linger,
            "exit-at-once" => ServerFault::ExitAtOnce(u8::try_from(number(3)?).unwrap_or(u8::MAX)),
            "slow-start" => {
                ServerFault::SlowStart(humantime::parse_duration(value).map_err(|error| error.to_string())?)
            }
            "wait-for" => ServerFault::WaitFor(value.into()),
            "tool-if" => ServerFault::ToolIf(value.into()),
            "answer-twice" => ServerFault::AnswerTwice,
            "unknown-id" => ServerFault::UnknownId,
            "malformed" => ServerFault::Malformed,
            "cut-stream" => ServerFault::CutStream(number(1)?),
            "forget-sessions" => ServerFault::Forget(number(1)?),
            "stall" => ServerFault::Stall(number(1)?),
            "busy" => ServerFault::Busy(number(1)?),
            "unavailable" => ServerFault::Unavailable(number(1)?),
            _ => return Err("unknown fault".to_owned()),
        })
    }
}

/// All faults of one server.
#[derive(Clone)]
pub(super) struct ServerFaults(Vec<ServerFault>);

impl ServerFaults {
    pub(super) fn new(faults: &[ServerFault]) -> ServerFaults {
        ServerFaults(faults.to_vec())
    }

    /// Returns whether all faults are available for this transport.
    pub(super) fn are_available(&self, over_http: bool) -> bool {
        self.0.iter().all(|fault| if over_http { fault.is_for_http() } else { !fault.is_only_for_http() })
    }

    /// Returns whether this fault is set.
    pub(super) fn has(&self, fault: &ServerFault) -> bool {
        self.0.contains(fault)
    }

    /// Returns the code to exit with at once.
    pub(super) fn exit_at_once(&self) -> Option<u8> {
        self.0.iter().find_map(|fault| if let ServerFault::ExitAtOnce(code) = fault { Some(*code) } else { None })
    }

    /// Returns the delay of the start.
    pub(super) fn slow_start(&self) -> Duration {
        let durations = self.0.iter().filter_map(|fault| match fault {
            ServerFault::SlowStart(duration) => Some(*duration),
            _ => None,
        });
        durations.sum()
    }

    /// Returns the file to wait for before the start.
    pub(super) fn waits_for(&self) -> Option<&Path> {
        self.0.iter().find_map(|fault| if let ServerFault::WaitFor(path) = fault { Some(path.as_path()) } else { None })
    }

    /// Returns whether the additional tool is available.
    pub(super) fn has_more_tools(&self) -> bool {
        self.0.iter().any(|fault| matches!(fault, ServerFault::ToolIf(path) if path.exists()))
    }

    /// Returns the number of stderr lines per call.
    pub(super) fn stderr_flood(&self) -> usize {
        self.0
            .iter()
            .find_map(|fault| if let ServerFault::StderrFlood(lines) = fault { Some(*lines) } else { None })
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_a_word_with_or_without_value() {
        assert_eq!("noise".parse(), Ok(ServerFault::Noise));
        assert_eq!("die-after=3".parse(), Ok(ServerFault::DieAfter(3)));
        assert_eq!("slow-start=50ms".parse(), Ok(ServerFault::SlowStart(Duration::from_millis(50))));
        assert_eq!("busy=5".parse(), Ok(ServerFault::Busy(5)));
        assert!("die-after=x".parse::<ServerFault>().is_err());
        assert!("kindness".parse::<ServerFault>().is_err());
    }

    #[test]
    fn fault_is_available_for_stdio_http_or_both() {
        let are_available = |fault, over_http| ServerFaults::new(&[fault]).are_available(over_http);
        assert!(are_available(ServerFault::DieAfter(1), true) && are_available(ServerFault::DieAfter(1), false));
        assert!(are_available(ServerFault::Busy(1), true) && !are_available(ServerFault::Busy(1), false));
        assert!(!are_available(ServerFault::Noise, true) && are_available(ServerFault::Noise, false));
    }
}
