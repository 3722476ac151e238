//! A call as sentences for a person.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use mendline::control::call_report::{CallReport, CallStep};
use mendline::decisions::policy::rule::Rule;

use super::advice::Ran;
use crate::untrusted_text::{counted, one_line};

/// Returns the name of the rule that decided last.
pub(super) fn rule_name(report: &CallReport) -> Option<&str> {
    let end = report.end.as_ref().and_then(|end| end.rule.as_deref());
    end.or_else(|| report.steps.iter().rev().find_map(|step| step.rule.as_deref()))
}

/// Returns the rule that decided last.
pub(super) fn rule(report: &CallReport) -> Option<Rule> {
    rule_name(report).and_then(Rule::from_name)
}

/// Returns the explanation as text.
pub(super) fn text(report: &CallReport, is_of_log: bool, next_steps: &[String]) -> String {
    let number = report.call.map(|call| format!("#{call} ")).unwrap_or_default();
    let (what, server) = (one_line(report.what()), one_line(&report.server));
    let source = if is_of_log { "from its log files" } else { "running" };
    // Writing to a string cannot fail.
    let mut text = format!("{number}{what} of {server} (process {}, {source})\n\n", report.pid);
    let client = report.client.as_ref().map(|client| format!(" {} {}", client.name, client.version));
    let sent = UNIX_EPOCH + Duration::from_micros(report.accepted_at);
    let sent = humantime::format_rfc3339_millis(sent);
    let _ = writeln!(text, "{sent}  The client{} sent {}.", one_line_before(client.as_deref()), report.method);
    for step in &report.steps {
        line(report, step, &mut text);
    }
    if report.omitted > 0 {
        let _ = writeln!(text, "{:>11}  {} more are left out.", "", counted(report.omitted as usize, "step"));
    }
    match &report.end {
        Some(end) => line(report, end, &mut text),
        None => text += "             The call is open.\n",
    }
    let _ = writeln!(text, "\nDid it run?  {}", Ran::of(report).text(report));
    if let Some(name) = rule_name(report) {
        let sentence = rule(report).map(|rule| rule.to_string()).unwrap_or_default();
        let _ = writeln!(text, "Rule         {name}: {sentence}");
    }
    for (at, step) in next_steps.iter().enumerate() {
        let _ = writeln!(text, "{}{step}", if at == 0 { "Next step    " } else { "             " });
    }
    if !report.stderr.is_empty() {
        text += "\nLast lines of the server's stderr:\n";
        for line in &report.stderr {
            let _ = writeln!(text, "{:>11}  {}", after(report, line.at), one_line(&line.text));
        }
    }
    text
}

fn one_line_before(text: Option<&str>) -> String {
    text.map(|text| format!(" {}", one_line(text))).unwrap_or_default()
}

fn line(report: &CallReport, step: &CallStep, text: &mut String) {
    let _ = writeln!(text, "{:>11}  {}", after(report, step.at), one_line(&sentence(step)));
}

/// The time since the arrival of the call.
fn after(report: &CallReport, at: u64) -> String {
    let (sign, micros) = match at.checked_sub(report.accepted_at) {
        Some(micros) => ("+", micros),
        None => ("-", report.accepted_at - at),
    };
    match micros {
        0..10_000_000 => format!("{sign}{}.{} ms", micros / 1000, micros / 100 % 10),
        _ => format!("{sign}{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

/// The sentence about a step. Events of the server, and those without a sentence here, are quoted.
fn sentence(step: &CallStep) -> String {
    let attempt = step.attempt.unwrap_or(1);
    // The text of an event begins with the number of its call.
    let quoted = || step.text.split_once(": ").map_or(step.text.as_str(), |(_, rest)| rest);
    let took = step.took_ms.map(|ms| format!(" {ms} ms after it arrived")).unwrap_or_default();
    match step.kind.as_str() {
        "attempt_started" => format!("Attempt {attempt}: handed to the transport."),
        "attempt_ended" => {
            let outcome = step.outcome.as_deref().unwrap_or("unknown");
            format!("Attempt {attempt}: {}; {}. Outcome {outcome}: {}.", written(step), read(step), why(step))
        }
        "call_retried" => {
            let most = step.attempts.map(|most| format!(" of {most}")).unwrap_or_default();
            format!("Sent again as attempt {attempt}{most}, by the rule {}.", step.rule.as_deref().unwrap_or("?"))
        }
        "call_returned" => "Waits: it was not sent, so it costs no attempt.".to_owned(),
        "verdict_awaited" => format!("Waits for a probe of the server: {}.", why(step)),
        "hints_awaited" => format!("Waits for the hints of its tool: {}.", why(step)),
        "rate_limited" => format!("Waits: {}.", quoted()),
        "retry_refused" => "Not sent again: the retry budget is spent.".to_owned(),
        "call_answered" => {
            let what = match (step.result.as_deref(), step.code) {
                (Some("tool_error"), _) => "a result with isError".to_owned(),
                (Some("error"), Some(code)) => format!("the JSON-RPC error {code}"),
                _ => "a result".to_owned(),
            };
            let server = step.attempt_ms.map(|ms| format!("; the last attempt took {ms} ms")).unwrap_or_default();
            format!("The server answered with {what}{took}{server}.")
        }
        "call_failed" => {
            let cause = step.cause.as_deref().unwrap_or("unknown");
            format!("Answered with a failure{took}: {cause}. {}", quoted())
        }
        "call_rejected" => format!("Rejected at once: {}.", step.text),
        "call_cancelled" => "The client cancelled it.".to_owned(),
        "call_abandoned" => "Its client is gone.".to_owned(),
        "provisional_answer" => format!("Mendline answered it{took}, because the server was not ready."),
        "call_silent" | "silence_ended" | "response_resumed" | "id_type_repaired" => format!("{}.", step.text),
        _ => format!("Server: {}", step.text),
    }
}

fn written(step: &CallStep) -> &'static str {
    match step.written.as_deref() {
        Some("nothing") => "nothing of the request was written",
        Some("partial") => "a part of the request was written",
        Some("whole") => "the whole request was written",
        _ => "it is not known what was written",
    }
}

fn read(step: &CallStep) -> String {
    match (step.reply.as_deref(), step.status) {
        (Some("none"), _) => "nothing was read".to_owned(),
        (Some("response"), _) => "a JSON-RPC response was read".to_owned(),
        (Some("unreadable"), _) => "a reply was read that is no JSON-RPC response".to_owned(),
        (Some("refused_by_transport"), _) => "the transport reported that it was refused".to_owned(),
        (Some("session_gone"), _) => "the server reported that the session is gone".to_owned(),
        (Some("headers_refused"), _) => "the server refused the headers".to_owned(),
        (Some("status"), Some(status)) => format!("HTTP {status} was read"),
        _ => "it is not known what was read".to_owned(),
    }
}

/// The reason of a step: its text after our own words.
fn why(step: &CallStep) -> &str {
    let end = match step.kind.as_str() {
        "attempt_ended" => "): ",
        "verdict_awaited" => "probe: ",
        _ => "tool: ",
    };
    step.text.split_once(end).map_or(step.text.as_str(), |(_, why)| why)
}

#[cfg(test)]
mod tests {
    use mendline::control::call_report::StderrLine;

    use super::*;

    fn step(at: u64, kind: &str, text: &str) -> CallStep {
        CallStep { at: 1_000_000 + at, kind: kind.to_owned(), text: text.to_owned(), ..CallStep::default() }
    }

    fn retried() -> CallReport {
        let owned = |text: &str| Some(text.to_owned());
        let ended = CallStep {
            attempt: Some(1),
            outcome: owned("unknown"),
            written: owned("whole"),
            reply: owned("none"),
            ..step(40_000, "attempt_ended", "#7 read: attempt 1 ended (unknown): the connection ended")
        };
        let again = CallStep {
            attempt: Some(2),
            attempts: Some(3),
            rule: owned("may_repeat"),
            ..step(41_000, "call_retried", "#7 read: retrying")
        };
        let end = CallStep {
            result: owned("ok"),
            took_ms: Some(120),
            attempt_ms: Some(9),
            ..step(120_000, "call_answered", "")
        };
        CallReport {
            pid: 4711,
            server: "notes".to_owned(),
            call: Some(7),
            method: "tools/call".to_owned(),
            tool: owned("read"),
            accepted_at: 1_000_000,
            troubled: true,
            steps: vec![
                CallStep { attempt: Some(1), ..step(100, "attempt_started", "#7: attempt 1 started") },
                ended,
                step(40_500, "link_state_changed", "Up → Waiting: the connection ended"),
                again,
            ],
            end: Some(end),
            stderr: vec![StderrLine { at: 1_039_000, text: "out of memory".to_owned() }],
            ..CallReport::default()
        }
    }

    #[test]
    fn retried_call_is_told_from_request_to_answer() {
        let text = text(&retried(), false, &["Nothing.".to_owned()]);
        insta::assert_snapshot!(text, @r"
        #7 read of notes (process 4711, running)

        1970-01-01T00:00:01.000Z  The client sent tools/call.
            +0.1 ms  Attempt 1: handed to the transport.
           +40.0 ms  Attempt 1: the whole request was written; nothing was read. Outcome unknown: the connection ended.
           +40.5 ms  Server: Up → Waiting: the connection ended
           +41.0 ms  Sent again as attempt 2 of 3, by the rule may_repeat.
          +120.0 ms  The server answered with a result 120 ms after it arrived; the last attempt took 9 ms.

        Did it run?  Yes. The server answered it; an earlier attempt may have run as well.
        Rule         may_repeat: The request may have run, but it may run twice: it is a read or idempotent.
        Next step    Nothing.

        Last lines of the server's stderr:
           +39.0 ms  out of memory
        ");
    }

    #[test]
    fn times_before_the_request_are_negative() {
        assert_eq!(after(&retried(), 999_000), "-1.0 ms");
        assert_eq!(after(&retried(), 13_500_000), "+12.5 s");
    }

    #[test]
    fn open_call_has_no_end_and_no_rule() {
        let report = CallReport { end: None, steps: Vec::new(), ..retried() };
        let text = text(&report, true, &[]);
        assert!(text.contains("The call is open.") && text.contains("from its log files"), "{text}");
        assert!(!text.contains("Rule"), "{text}");
    }
}
