//! `mendline explain`: one call, from the request of the client to its answer.
//!
//! A running process knows its last calls (`mendline::control::store`); the log files know those of processes that are
//! gone ([`logged`]). Both give the same [`CallReport`]. [`words`] makes sentences of it, [`advice`] names the next
//! step. Everything passes through the anonymizer of `mendline report`, so that it can be sent to the vendor of a server.

mod advice;
mod logged;
mod words;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mendline::control::Registry;
use mendline::control::call_report::{CallReport, KnownCall};
use mendline::control::snapshot::Server;
use serde::Serialize;
use serde_json::Value;

use self::advice::Ran;
use crate::cli::{NEGATIVE, UNKNOWN};
use crate::named::Refusal;
use crate::names;
use crate::next_step::next_step;
use crate::output;
use crate::report;
use crate::target::ServerSelector;
use crate::untrusted_text::one_line;

/// The time that running processes have to answer.
const WITHIN: Duration = Duration::from_secs(2);

/// The version of the format of `--json`.
const VERSION: u32 = 1;

const EXAMPLES: &str = "\
Examples:
  mendline explain                     the last call that was sent again, failed or was rejected,
                                       else the last call
  mendline explain last notes          of one server
  mendline explain 7                   one call, by its number in errors, logs and status
  mendline explain 7 notes#4711        of one process
  mendline explain --json | jq .ran

It shows when the client sent the call, what it waited for, each attempt with what was written and
read, what happened to the server meanwhile, the rule that decided, whether the call ran, and what
to do. A running process knows its last calls; others are read from its log files. Secrets, the home
directory and the names of the user and the machine are replaced, so that the output can be sent to
the vendor of the server. Read it before you send it.
Exit codes: 0 ok, 1 there is no call yet, 2 wrong usage, 3 unknown call or name.";

/// Options of `mendline explain`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainOptions {
    /// Number of the call, or `last`
    #[arg(value_name = "CALL|last", value_parser = parse_call, default_value = "last")]
    call: WantedCall,

    /// Server by its name, or by NAME#PID or PID [default: all of them]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Print JSON in a stable format
    #[arg(long)]
    json: bool,
}

/// A call that is to be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedCall {
    Last,
    Number(u64),
}

impl WantedCall {
    fn number(self) -> Option<u64> {
        match self {
            WantedCall::Last => None,
            WantedCall::Number(number) => Some(number),
        }
    }
}

fn parse_call(text: &str) -> Result<WantedCall, String> {
    match text {
        "last" => Ok(WantedCall::Last),
        _ => {
            let number = text.strip_prefix('#').unwrap_or(text).parse();
            number.map(WantedCall::Number).map_err(|_| "a call is a number such as 7, or `last`".to_owned())
        }
    }
}

/// Where a report comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Source {
    Process,
    Log,
}

/// A call that was found.
struct Found {
    report: CallReport,
    source: Source,
    /// The state of its server now, if its process runs, and the name that selects it.
    server: Option<(String, Server)>,
}

/// The format of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation<'a> {
    version: u32,
    source: Source,
    #[serde(flatten)]
    report: &'a CallReport,
    ran: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_text: Option<String>,
    next_steps: Vec<String>,
}

/// Runs `mendline explain`.
pub(crate) fn run(options: &ExplainOptions) -> ExitCode {
    let found = match find(options) {
        Ok(found) => found,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            return ExitCode::from(refusal.code);
        }
    };
    let anonymizer = report::anonymizer();
    let next = found.server.as_ref().and_then(|(id, server)| next_step(id, server));
    let steps = advice::next_steps(&found.report, next);
    if options.json {
        let rule = words::rule(&found.report);
        let explanation = Explanation {
            version: VERSION,
            source: found.source,
            report: &found.report,
            ran: Ran::of(&found.report).name(),
            rule: words::rule_name(&found.report),
            rule_text: rule.map(|rule| rule.to_string()),
            next_steps: steps,
        };
        let anonymous = |text: &str| anonymizer.anonymous(text).trim_end_matches('\n').to_owned();
        let value = serde_json::to_value(&explanation).unwrap_or_default();
        let value = with_texts(value, &anonymous);
        output::json(&serde_json::to_string_pretty(&value).unwrap_or_default());
    } else {
        print!("{}", anonymizer.anonymous(&words::text(&found.report, found.source == Source::Log, &steps)));
    }
    ExitCode::SUCCESS
}

/// Replaces all texts in a JSON value.
fn with_texts(value: Value, replace: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(replace(&text)),
        Value::Array(values) => values.into_iter().map(|value| with_texts(value, replace)).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, with_texts(value, replace))).collect(),
        other => other,
    }
}

/// Finds the call: in the running processes, else in the log files.
fn find(options: &ExplainOptions) -> Result<Found, Refusal> {
    let wanted = options.call;
    let registry = Registry::of_user();
    let statuses = registry.snapshots_within(WITHIN);
    let servers: Vec<(u32, Server)> = statuses
        .iter()
        .filter_map(|status| status.snapshot.as_ref().ok())
        .flat_map(|snapshot| snapshot.servers.iter().map(|server| (snapshot.process.pid, server.clone())))
        .collect();
    let logs = logged::Logs::open();
    let is_there = |selector: &ServerSelector| {
        servers.iter().any(|(pid, server)| selector.is_or_becomes(&server.name, *pid)) || logs.has(selector)
    };
    let selector = options.name.as_deref().map(|name| names::selector(name, is_there));
    if let Some(selector) = selector.as_ref().filter(|selector| !is_there(selector)) {
        let mut known: Vec<String> = servers.iter().map(|(_, server)| server.name.clone()).collect();
        known.extend(logs.servers());
        return Err(unknown_name(selector, known));
    }
    let mut reports = Vec::new();
    let mut known = Vec::new();
    for (pid, server) in servers
        .iter()
        .filter(|(pid, server)| selector.as_ref().is_none_or(|selector| selector.is_or_becomes(&server.name, *pid)))
    {
        let process = statuses.iter().find(|status| status.process.pid == *pid);
        let Some(Ok(answer)) = process.map(|it| it.process.call(wanted.number(), Some(&server.name), WITHIN)) else {
            continue;
        };
        known.extend(answer.known);
        let id = format!("{}#{pid}", server.name);
        reports.extend(answer.report.map(|report| (*report, (id, server.clone()))));
    }
    // One with trouble before a healthy one, then the newest.
    let newest = reports.into_iter().max_by_key(|(report, _)| {
        let is_troubled = wanted == WantedCall::Last && report.troubled;
        (is_troubled, report.last_at())
    });
    if let Some((report, server)) = newest {
        return Ok(Found { report, source: Source::Process, server: Some(server) });
    }
    match logs.find(wanted.number(), selector.as_ref()) {
        Ok(Some(report)) => Ok(Found { report, source: Source::Log, server: None }),
        Ok(None) => Err(no_call(wanted, &known, logs.known(selector.as_ref()))),
        Err(error) => Err(Refusal { words: format!("error: cannot read the log files: {error}"), code: NEGATIVE }),
    }
}

fn unknown_name(selector: &ServerSelector, mut known: Vec<String>) -> Refusal {
    known.sort();
    known.dedup();
    let mut words = format!("error: nothing is known about a server {:?}", selector.text());
    if let Some(meant) = mendline_config::nearest(selector.text(), known.iter().map(String::as_str)) {
        words += &format!("; did you mean {meant:?}?");
    }
    if !known.is_empty() {
        let known: Vec<String> = known.iter().map(|name| one_line(name)).collect();
        words += &format!("\n\nKnown: {}", known.join(", "));
    }
    Refusal { words, code: UNKNOWN }
}

/// The error about an unknown call, with the calls that there are.
fn no_call(wanted: WantedCall, known: &[KnownCall], logged: Vec<KnownCall>) -> Refusal {
    let mut known: Vec<KnownCall> = known.iter().cloned().chain(logged).collect();
    known.sort_by_key(|call| std::cmp::Reverse(call.at));
    known.truncate(MOST_KNOWN);
    let WantedCall::Number(number) = wanted else {
        let words = "No call is known yet: no running process has one, and the log files have none that was sent again \
                     or failed.";
        return Refusal { words: words.to_owned(), code: NEGATIVE };
    };
    let mut words = format!("error: there is no call #{number}: it was never made, or it is too old");
    if known.is_empty() {
        words += "; no other one is known either";
    } else {
        words += "\n\nKnown calls, the newest first:";
        for call in known.iter().filter(|call| call.call.is_some()) {
            let trouble = if call.troubled { "" } else { ", healthy" };
            let number = call.call.unwrap_or_default();
            words += &format!("\n  {number}  {} of {}{trouble}", one_line(&call.what), one_line(&call.server));
        }
    }
    Refusal { words, code: UNKNOWN }
}

/// The longest list of known calls.
const MOST_KNOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_a_number_or_last() {
        assert_eq!(parse_call("last"), Ok(WantedCall::Last));
        assert_eq!((parse_call("#7"), parse_call("7")), (Ok(WantedCall::Number(7)), Ok(WantedCall::Number(7))));
        assert!(parse_call("first").is_err());
    }

    #[test]
    fn unknown_call_names_what_there_is() {
        let call = |call, troubled| KnownCall {
            server: "notes".to_owned(),
            call: Some(call),
            what: "read".to_owned(),
            at: call,
            troubled,
        };
        let refusal = no_call(WantedCall::Number(9), &[call(1, true)], vec![call(2, false)]);
        assert_eq!(refusal.code, UNKNOWN);
        assert!(
            refusal.words.ends_with("first:\n  2  read of notes, healthy\n  1  read of notes"),
            "{}",
            refusal.words
        );
        assert_eq!(no_call(WantedCall::Last, &[], Vec::new()).code, NEGATIVE);
    }
}
