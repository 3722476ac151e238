//! Calls of processes that are gone, from their log files.
//!
//! A log file has the calls that were sent again, failed or were rejected. Lines are read from the newest to the oldest,
//! up to a limit.

use std::io;
use std::time::UNIX_EPOCH;

use mendline::control::call_report::{CallReport, CallStep, KnownCall, StderrLine};
use serde::Deserialize;

use crate::logs::LogLines;
use crate::target::ServerSelector;

/// The limit of lines that are read.
const MOST_LINES: usize = 200_000;

/// The limit of lines that are read before the first line of a call, for the server's stderr.
const LINES_BEFORE: usize = 500;

/// The number of stderr lines.
const STDERR_LINES: usize = 20;

/// The limit of calls in [`Logs::known`].
const KNOWN: usize = 20;

/// The events of servers that belong to the story of an open call.
const OF_SERVER: [&str; 24] = [
    "link_state_changed",
    "dial_failed",
    "dial_planned",
    "upstream_ready",
    "reconnect_requested",
    "reconnect_disabled",
    "server_replaced",
    "session_replayed",
    "session_replay_failed",
    "login_required",
    "login_accepted",
    "credential_renewal_started",
    "credential_renewed",
    "credential_renewal_failed",
    "server_suspected",
    "verdict_reached",
    "breaker_opened",
    "breaker_half_opened",
    "breaker_closed",
    "isolated",
    "resumed",
    "paused",
    "pause_ended",
    "connectivity_changed",
];

/// The events that end a call.
const ENDS: [&str; 6] =
    ["call_answered", "call_failed", "call_cancelled", "call_abandoned", "provisional_answer", "call_rejected"];

/// The log files of this user.
pub(super) struct Logs(Option<LogLines>);

/// The members of a line that are needed here.
#[derive(Debug, Deserialize)]
struct Logged {
    time: String,
    server: String,
    pid: u32,
    call: Option<u64>,
    method: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    before: Vec<Earlier>,
    #[serde(flatten)]
    step: CallStep,
}

/// An earlier event of a call, in the first line about it.
#[derive(Debug, Deserialize)]
struct Earlier {
    time: String,
    kind: Option<String>,
    text: String,
}

impl Logged {
    fn parse(line: &[u8]) -> Option<Logged> {
        let mut logged: Logged = serde_json::from_slice(line).ok()?;
        logged.step.at = micros(&logged.time);
        Some(logged)
    }

    fn is_about_trouble(&self) -> bool {
        let is_error = self.step.result.as_deref().is_some_and(|result| result != "ok");
        let kinds = ["call_failed", "call_retried", "attempt_ended", "call_rejected"];
        kinds.contains(&self.step.kind.as_str()) || is_error
    }

    fn is_of(&self, report: &CallReport) -> bool {
        self.pid == report.pid && self.server == report.server
    }
}

impl Logs {
    pub(super) fn open() -> Logs {
        Logs(LogLines::of_user().ok())
    }

    /// Returns the names of the servers with log files.
    pub(super) fn servers(&self) -> Vec<String> {
        self.0.as_ref().map(LogLines::servers).unwrap_or_default()
    }

    pub(super) fn has(&self, selector: &ServerSelector) -> bool {
        self.0.as_ref().is_some_and(|lines| lines.has(selector))
    }

    /// Returns the newest call with this number, or the newest that had trouble.
    pub(super) fn find(&self, call: Option<u64>, selector: Option<&ServerSelector>) -> io::Result<Option<CallReport>> {
        let Some(lines) = &self.0 else { return Ok(None) };
        let mut backward = lines.backward(selector);
        let mut tale: Option<Tale> = None;
        for _ in 0..MOST_LINES {
            let Some(line) = backward.next()? else { break };
            let Some(logged) = Logged::parse(&line) else { continue };
            match &mut tale {
                Some(tale) => {
                    if !tale.add(logged) {
                        break;
                    }
                }
                None => {
                    let is_wanted = match call {
                        Some(call) => logged.call == Some(call),
                        None => logged.is_about_trouble(),
                    };
                    tale = is_wanted.then(|| Tale::begin(logged));
                }
            }
        }
        Ok(tale.map(Tale::finish))
    }

    /// Returns the last calls, the newest first.
    pub(super) fn known(&self, selector: Option<&ServerSelector>) -> Vec<KnownCall> {
        let Some(lines) = &self.0 else { return Vec::new() };
        let mut backward = lines.backward(selector);
        let mut known: Vec<KnownCall> = Vec::new();
        for _ in 0..MOST_LINES {
            let Ok(Some(line)) = backward.next() else { break };
            let Some(logged) = Logged::parse(&line).filter(|logged| logged.call.is_some()) else { continue };
            let is_known = known.iter().any(|it| it.call == logged.call && it.server == logged.server);
            let what = logged.tool.or(logged.method);
            if let (Some(what), false) = (what, is_known) {
                known.push(KnownCall {
                    server: logged.server,
                    call: logged.call,
                    what,
                    at: logged.step.at,
                    troubled: true,
                });
            }
            if known.len() == KNOWN {
                break;
            }
        }
        known
    }
}

/// A report that is made from the last line about its call to the first.
struct Tale {
    report: CallReport,
    /// The first line about the call was read; the number of lines since.
    begun: Option<usize>,
}

impl Tale {
    fn begin(logged: Logged) -> Tale {
        let report = CallReport {
            pid: logged.pid,
            server: logged.server.clone(),
            call: logged.call,
            method: "request".to_owned(),
            accepted_at: logged.step.at,
            troubled: true,
            ..CallReport::default()
        };
        let mut tale = Tale { report, begun: None };
        tale.add(logged);
        tale
    }

    /// Adds an earlier line. Returns whether lines before it can belong to the report.
    fn add(&mut self, logged: Logged) -> bool {
        if !logged.is_of(&self.report) {
            return true;
        }
        if let Some(passed) = &mut self.begun {
            *passed += 1;
        }
        let report = &mut self.report;
        let is_own = match report.call {
            Some(call) => logged.call == Some(call),
            None => self.begun.is_none() && logged.step.kind == "call_rejected",
        };
        if logged.step.kind == "stderr" {
            if report.stderr.len() < STDERR_LINES {
                report.stderr.push(StderrLine { at: logged.step.at, text: logged.step.text });
            }
        } else if is_own {
            report.accepted_at = logged.step.at;
            if report.tool.is_none() {
                report.tool = logged.tool;
            }
            if let Some(method) = logged.method {
                report.method = method;
            }
            if ENDS.contains(&logged.step.kind.as_str()) && report.end.is_none() && report.steps.is_empty() {
                if logged.step.kind == "call_rejected" {
                    self.begun = Some(0);
                }
                report.end = Some(logged.step);
            } else if logged.step.kind == "call_accepted" {
                self.begun = Some(0);
            } else {
                report.steps.push(logged.step);
            }
            for earlier in logged.before.iter().rev() {
                self.begun = Some(0);
                let at = micros(&earlier.time);
                report.accepted_at = report.accepted_at.min(at);
                let kind = earlier.kind.clone().unwrap_or_default();
                if kind == "attempt_started" {
                    let text = earlier.text.clone();
                    let step = CallStep { at, kind, text, attempt: Some(1), ..CallStep::default() };
                    report.steps.push(step);
                }
            }
        } else if self.begun.is_none() && OF_SERVER.contains(&logged.step.kind.as_str()) {
            report.steps.push(logged.step);
        }
        let is_full = report.stderr.len() == STDERR_LINES;
        self.begun.is_none_or(|passed| passed < LINES_BEFORE && !is_full)
    }

    fn finish(self) -> CallReport {
        let mut report = self.report;
        report.steps.reverse();
        // An attempt that is named in a later line started earlier.
        report.steps.sort_by_key(|step| step.at);
        report.stderr.reverse();
        report
    }
}

fn micros(time: &str) -> u64 {
    let time = humantime::parse_rfc3339(time).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, rest: &str) -> Logged {
        let line = format!(
            r#"{{"time":"2026-11-18T10:00:{second:02}.000000Z","level":"info","server":"notes","pid":7,{rest}}}"#
        );
        Logged::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn report_is_made_from_the_lines_of_one_call() {
        let before = r#""before":[{"time":"2026-11-18T10:00:01.000000Z","kind":"call_accepted","text":"x"},{"time":"2026-11-18T10:00:02.000000Z","kind":"attempt_started","text":"y"}]"#;
        let lines = [
            line(
                9,
                r#""kind":"call_failed","text":"failed","call":5,"tool":"write","outcome":"unknown","rule":"not_repeatable","method":"tools/call""#,
            ),
            line(8, r#""kind":"call_answered","text":"other","call":4"#),
            line(7, r#""kind":"link_state_changed","text":"Up → Waiting""#),
            line(
                6,
                &format!(
                    r#""kind":"attempt_ended","text":"ended","call":5,"attempt":1,"written":"whole","reply":"none",{before}"#
                ),
            ),
            line(5, r#""kind":"stderr","text":"boom""#),
            line(0, r#""kind":"link_state_changed","text":"Dialing → Up""#),
        ];
        let mut lines = lines.into_iter();
        let mut tale = Tale::begin(lines.next().unwrap());
        assert!(lines.all(|line| tale.add(line)));
        let report = tale.finish();
        let kinds: Vec<&str> = report.steps.iter().map(|step| step.kind.as_str()).collect();
        assert_eq!(kinds, ["attempt_started", "attempt_ended", "link_state_changed"]);
        assert_eq!((report.what(), report.method.as_str(), report.call), ("write", "tools/call", Some(5)));
        assert_eq!(report.end.unwrap().rule.as_deref(), Some("not_repeatable"));
        assert_eq!((report.stderr.len(), report.steps[0].at - report.accepted_at), (1, 1_000_000));
    }
}
