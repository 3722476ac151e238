//! Whether a call ran, and what to do about it.

use mendline::control::call_report::CallReport;
use mendline::decisions::policy::rule::Rule;

use super::words;

/// Whether the server ran a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// The server answered it.
    Yes,
    /// It was not sent, or the server refused it.
    No,
    /// It was sent, and no answer came.
    Perhaps,
    /// It is open.
    Open,
}

impl Ran {
    pub(super) fn of(report: &CallReport) -> Ran {
        let Some(end) = &report.end else { return Ran::Open };
        match (end.kind.as_str(), end.outcome.as_deref()) {
            ("call_answered", _) | (_, Some("answered")) => Ran::Yes,
            (_, Some("not_sent" | "refused")) => Ran::No,
            (_, Some(_)) => Ran::Perhaps,
            ("provisional_answer", _) => Ran::Perhaps,
            // Cancelled or abandoned. Without a word about it, the attempts decide.
            _ => match end.sent.unwrap_or_else(|| report.steps.iter().any(|step| step.kind == "attempt_started")) {
                true => Ran::Perhaps,
                false => Ran::No,
            },
        }
    }

    /// The name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Ran::Yes => "yes",
            Ran::No => "no",
            Ran::Perhaps => "perhaps",
            Ran::Open => "open",
        }
    }

    pub(super) fn text(self, report: &CallReport) -> &'static str {
        let is_answer_of_cache = report.end.as_ref().is_some_and(|end| end.kind == "provisional_answer");
        match self {
            Ran::Yes if has_unknown_attempt(report) => {
                "Yes. The server answered it; an earlier attempt may have run as well."
            }
            Ran::Yes => "Yes. The server answered it.",
            Ran::No => "No. It was not sent, or the server refused it before it processed it.",
            Ran::Perhaps if is_answer_of_cache => "Mendline answered it itself; the server may process it as well.",
            Ran::Perhaps => "Perhaps. The server can have received it, and no answer came.",
            Ran::Open => "Not known yet: the call is open.",
        }
    }
}

fn has_unknown_attempt(report: &CallReport) -> bool {
    report.steps.iter().any(|step| step.kind == "attempt_ended" && step.outcome.as_deref() == Some("unknown"))
}

/// Returns what to do. `of_server` is the next step for the server in its state now.
pub(super) fn next_steps(report: &CallReport, of_server: Option<String>) -> Vec<String> {
    let mut steps = vec![about_call(report)];
    steps.extend(of_server.map(|step| format!("For the server, as it is now: {step}.")));
    steps
}

fn about_call(report: &CallReport) -> String {
    let name = &report.server;
    let Some(end) = &report.end else {
        return format!("Wait for its answer; `mendline status {name}` shows the state of the server.");
    };
    match (end.kind.as_str(), end.result.as_deref()) {
        ("call_answered", Some("ok") | None) => return "Nothing: the client has the result.".to_owned(),
        ("call_answered", Some(_)) => {
            return "The error is the server's own answer: correct the arguments of the call, or ask the server's \
                    vendor."
                .to_owned();
        }
        ("provisional_answer", _) => {
            return format!("Nothing; `mendline status {name}` shows when the server is ready.");
        }
        ("call_cancelled" | "call_abandoned", _) if Ran::of(report) == Ran::Perhaps => {
            return "The client gave it up. Look in the server whether it ran, if it changes something.".to_owned();
        }
        ("call_cancelled" | "call_abandoned", _) => {
            return "Nothing: the client gave it up before it was sent.".to_owned();
        }
        _ => {}
    }
    match words::rule(report) {
        Some(Rule::NotRepeatable) => format!(
            "Look in the server whether {} ran before you call it again. If it may run twice, configure that: \
             `effect: idempotent` or `read` for the tool, or `--effect`.",
            report.what()
        ),
        Some(Rule::Deadline) => format!(
            "Call it again if it may run twice. If the server needs longer, raise `timeouts.call` of {name}; \
             `mendline status {name}` shows how long its calls take."
        ),
        Some(Rule::QueueFull) => "Call it again later, with fewer calls at a time.".to_owned(),
        Some(Rule::RateLimited) => format!("Call it again later, or raise the rate limit of {name}."),
        Some(Rule::BudgetSpent | Rule::HeldBack | Rule::BreakerOpen) => {
            format!("Call it again later. `mendline logs {name}` shows the failures before it.")
        }
        Some(Rule::NeedsLogin) => format!("Log in with `mendline login {name}`, or renew the credential of its entry."),
        Some(Rule::Isolated) => format!("`mendline resume {name}` puts the server back into service."),
        Some(Rule::RefusedForGood | Rule::ConfiguredStatus) => {
            format!("`mendline doctor {name}` checks the URL, the credential and the version of the protocol.")
        }
        Some(Rule::CannotPassOn | Rule::OtherEra) => "Send this explanation to the vendor of the server.".to_owned(),
        Some(Rule::Stopping) => "Call it again: Mendline was stopped meanwhile.".to_owned(),
        _ => format!("`mendline doctor {name}` finds out why the server does not work; then call it again."),
    }
}

#[cfg(test)]
mod tests {
    use mendline::control::call_report::CallStep;

    use super::*;

    fn report(kind: &str, outcome: Option<&str>, rule: Option<&str>) -> CallReport {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let end = CallStep { kind: kind.to_owned(), outcome: owned(outcome), rule: owned(rule), ..CallStep::default() };
        CallReport { server: "notes".to_owned(), end: Some(end), ..CallReport::default() }
    }

    #[test]
    fn outcome_decides_whether_a_call_ran() {
        for (kind, outcome, expected) in [
            ("call_answered", None, Ran::Yes),
            ("call_failed", Some("unknown"), Ran::Perhaps),
            ("call_failed", Some("not_sent"), Ran::No),
            ("call_failed", Some("refused"), Ran::No),
            ("call_rejected", Some("not_sent"), Ran::No),
            ("call_cancelled", None, Ran::No),
        ] {
            assert_eq!(Ran::of(&report(kind, outcome, None)), expected, "{kind} {outcome:?}");
        }
        assert_eq!(Ran::of(&CallReport::default()), Ran::Open);
    }

    #[test]
    fn every_rule_has_its_step() {
        for (rule, words) in [
            ("not_repeatable", "before you call it again"),
            ("deadline", "`timeouts.call`"),
            ("needs_login", "`mendline login notes`"),
            ("isolated", "`mendline resume notes`"),
            ("parked", "`mendline doctor notes`"),
        ] {
            let steps = next_steps(&report("call_failed", Some("unknown"), Some(rule)), Some("wait".to_owned()));
            assert!(steps[0].contains(words), "{rule}: {steps:?}");
            assert_eq!(steps[1], "For the server, as it is now: wait.");
        }
    }
}
