//! The rules that every conversation must meet, wherever it was cut.

use std::time::Duration;

use mendline::decisions::defaults;
use serde_json::Value;

use super::conversation::Wire;
use super::faulty_stream::{Direction, Fault, Kind};
use super::observations::{Observations, RequestRecord, Role};
use super::site::{AnswerMode, Variant};

/// The tolerance of deadlines.
const TICK: Duration = Duration::from_millis(250);

/// The time that the driver may take after its client has left: running calls, session delete, the shutdown sequence of
/// a child, and its stderr tail.
const ENDING: Duration = Duration::from_secs(10 + 2 + 3 * 2 + 1);

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    Success,
    NotSent,
    Refused,
    Unknown,
    /// Any other failure, which a healthy server never causes.
    OtherFailure,
}

/// Returns the result that an answer reports.
pub fn answer_kind(answer: &Value) -> AnswerKind {
    let facts = [&answer["error"]["data"], &answer["result"]["_meta"]["dev.mendline/failure"]];
    match facts.iter().find_map(|facts| facts["outcome"].as_str()) {
        None if answer.get("result").is_some() => AnswerKind::Success,
        Some("not_sent") => AnswerKind::NotSent,
        Some("refused") => AnswerKind::Refused,
        Some("unknown") => AnswerKind::Unknown,
        _ => AnswerKind::OtherFailure,
    }
}

/// Returns all violated rules.
pub fn violations(observed: &Observations, fault: Option<Fault>) -> Vec<String> {
    let mut found = Vec::new();
    // A stalled stream may cost the whole deadline of a call. Every other fault is recovered.
    let may_cost_everything = fault.is_some_and(|fault| fault.kind == Kind::Stall);
    let is_harmless = !observed.struck || fault.is_none_or(|fault| fault.kind == Kind::Drip);
    for request in &observed.requests {
        let role = request.role;
        if request.cancelled {
            cancelled_for_good(request, observed, is_harmless, &mut found);
            continue;
        }
        let Some(answer_kind) = one_answer_in_time(request, may_cost_everything, &mut found) else { continue };
        match (role, answer_kind) {
            (_, AnswerKind::OtherFailure) => found.push(format!("{role:?} failed strangely: {}", request.answers[0])),
            (Role::Unsafe, AnswerKind::Success) if observed.runs != 1 => {
                found.push(format!("I5 answered, but the oracle saw {} runs", observed.runs));
            }
            (Role::Unsafe, AnswerKind::NotSent | AnswerKind::Refused) if observed.runs > 0 => {
                found.push(format!("I5 reported as not run, but the oracle saw {} runs", observed.runs));
            }
            (_, AnswerKind::Success) => {}
            (_, AnswerKind::NotSent | AnswerKind::Refused)
                if request.took.is_some_and(|took| took > defaults::RECOVERY + TICK) =>
            {
                found.push(format!("{role:?} waited {:?} to be sent", request.took));
            }
            (Role::Unsafe, AnswerKind::Unknown)
                if observed.runs == 0 && fault.is_some_and(|fault| cannot_arrive_whole(fault, observed)) =>
            {
                found.push("an unsafe call that cannot have arrived whole was given up".to_owned());
            }
            (Role::Unsafe, AnswerKind::Unknown)
                if request.after_fault && fault.is_some_and(|fault| is_over_at_once(fault, observed.wire)) =>
            {
                found.push("an unsafe call that was made after the fault was lost to it".to_owned());
            }
            (_, AnswerKind::Unknown) if was_resumed(observed) && !may_cost_everything => {
                found.push(format!("{role:?} was resumed and lost all the same"));
            }
            (_, answer_kind) if is_harmless => {
                found.push(format!("{role:?} came out {answer_kind:?} although nothing was lost"));
            }
            (Role::Initialize | Role::Read, answer_kind) if !may_cost_everything => {
                found.push(format!("{role:?} was not mended: {answer_kind:?}"));
            }
            (Role::Unsafe, AnswerKind::NotSent | AnswerKind::Refused) if !may_cost_everything => {
                found.push("an unsafe call that was not sent was not sent again either".to_owned());
            }
            _ => {}
        }
    }
    let asks = matches!(observed.variant, Variant::Asks | Variant::AsksElsewhere);
    if observed.questions.len() > 1 || (is_harmless && asks && observed.questions.is_empty()) {
        found.push(format!("I8 the client was asked {} times", observed.questions.len()));
    }
    if observed.runs > 1 {
        found.push(format!("I3 the oracle saw {} runs", observed.runs));
    }
    match observed.ended {
        None => found.push("the driver did not end".to_owned()),
        Some(took) if took > ENDING => found.push(format!("the driver took {took:?} to end")),
        Some(_) => {}
    }
    found
}

/// Returns true if the response was resumed after the fault, at a server that had it ready. A polled response is
/// resumed in any case.
fn was_resumed(observed: &Observations) -> bool {
    observed.resumed > 0 && observed.mode != AnswerMode::PolledEvents
}

/// A cancelled request gets no answer, and the server gets the cancellation unless it was lost.
fn cancelled_for_good(request: &RequestRecord, observed: &Observations, is_harmless: bool, found: &mut Vec<String>) {
    let role = request.role;
    if !request.answers.is_empty() {
        found.push(format!("I1 {role:?} was answered although it was cancelled"));
    }
    if is_harmless && !observed.server_knows_of_cancel {
        found.push(format!("I18 the server did not learn that {role:?} was cancelled"));
    }
}

/// Returns true if the transport saw that not all bytes were accepted, unless the fault came right after a request that
/// the server had received and rejected. HTTP/2 mixes the bytes of all streams, so unknown bytes count as received
/// there.
fn cannot_arrive_whole(fault: Fault, observed: &Observations) -> bool {
    !observed.wire.is_http2()
        && !observed.rejected.contains(&fault.at)
        && matches!((fault.kind, fault.direction), (Kind::Cut | Kind::WriteError, Direction::Up))
}

/// Returns true if the connection is visibly dead right after the fault, so that it can lose nothing more. A child that
/// closes only its stdout is at first suspect.
fn is_over_at_once(fault: Fault, wire: Wire) -> bool {
    fault.kind == Kind::Cut || (wire != Wire::Stdio && (fault.kind, fault.direction) == (Kind::End, Direction::Down))
}

fn one_answer_in_time(
    request: &RequestRecord,
    may_cost_everything: bool,
    found: &mut Vec<String>,
) -> Option<AnswerKind> {
    let role = request.role;
    if request.answers.len() != 1 {
        found.push(format!("I1 {role:?} was answered {} times", request.answers.len()));
    }
    let most = if may_cost_everything { defaults::CALL } else { defaults::RECOVERY } + TICK;
    if let Some(took) = request.took.filter(|took| *took > most) {
        found.push(format!("I2 {role:?} was answered after {took:?}"));
    }
    request.answers.first().map(answer_kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CUT: Fault = Fault { kind: Kind::Cut, direction: Direction::Up, at: 1 };

    fn well() -> Value {
        json!({"id": "unsafe", "result": {}})
    }

    fn failed(outcome: &str) -> Value {
        json!({"id": "unsafe", "result": {"isError": true, "_meta": {"dev.mendline/failure": {"outcome": outcome}}}})
    }

    fn observed(answers: &[Value], runs: usize) -> Observations {
        let took = Some(Duration::ZERO);
        let answers = answers.to_vec();
        let request = RequestRecord { role: Role::Unsafe, after_fault: false, cancelled: false, took, answers };
        let nothing = Observations::nothing(Wire::Http1, AnswerMode::ResumableEvents, Variant::Plain);
        Observations { requests: vec![request], runs, struck: true, ended: Some(Duration::ZERO), ..nothing }
    }

    #[test]
    fn correct_conversation_has_no_violation() {
        assert_eq!(violations(&observed(&[well()], 1), Some(CUT)), [""; 0]);
        assert_eq!(violations(&observed(&[failed("unknown")], 1), Some(CUT)), [""; 0]);
    }

    #[test]
    fn every_violation_is_detected() {
        let late = |seconds| {
            let mut late = observed(&[well()], 1);
            late.requests[0].took = Some(Duration::from_secs(seconds));
            late
        };
        let mut lost_afterwards = observed(&[failed("unknown")], 1);
        lost_afterwards.requests[0].after_fault = true;
        let cancelled = |answers: &[Value], struck| {
            let mut cancelled = Observations { struck, ..observed(answers, 1) };
            cancelled.requests[0].cancelled = true;
            cancelled
        };
        let request = |questions: usize, struck| {
            let questions = vec![Value::Null; questions];
            Observations { variant: Variant::Asks, questions, struck, ..observed(&[well()], 1) }
        };
        let cases = [
            (cancelled(&[well()], true), "although it was cancelled"),
            (cancelled(&[], false), "did not learn"),
            (Observations { resumed: 1, ..observed(&[failed("unknown")], 1) }, "resumed and lost"),
            (request(2, true), "asked 2 times"),
            (request(0, false), "asked 0 times"),
            (observed(&[], 0), "I1"),
            (observed(&[well(), well()], 1), "I1"),
            (late(46), "I2"),
            (observed(&[failed("unknown")], 2), "I3"),
            (observed(&[well()], 0), "I5"),
            (observed(&[failed("not_sent")], 1), "I5"),
            (observed(&[failed("refused")], 1), "I5"),
            (observed(&[failed("not_sent")], 0), "not sent again"),
            (observed(&[failed("answered")], 0), "strangely"),
            (observed(&[failed("unknown")], 0), "cannot have arrived whole"),
            (lost_afterwards, "made after the fault"),
            (Observations { struck: false, ..observed(&[failed("unknown")], 1) }, "nothing was lost"),
            (Observations { ended: None, ..observed(&[well()], 1) }, "did not end"),
        ];
        for (observed, expected) in cases {
            let found = violations(&observed, Some(CUT)).join("; ");
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
