//! What must hold of a conversation, wherever it was cut.

use std::time::Duration;

use mendline::decisions::defaults;
use serde_json::Value;

use super::faulty_stream::{Fault, Kind, Direction};
use super::conversation::Wire;
use super::seen::{Asked, Role, Seen};
use super::site::{Manner, Twist};

/// What a promise in time may be late by.
const TICK: Duration = Duration::from_millis(250);

/// What a driver may take to end once its client has left: calls, goodbye, the three steps that end a child, last words.
const ENDING: Duration = Duration::from_secs(10 + 2 + 3 * 2 + 1);

/// How a request came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    Well,
    NotSent,
    Refused,
    Unknown,
    /// Some other failure, which a good server never causes.
    Badly,
}

/// How this answer says that it came out.
pub fn came(answer: &Value) -> Came {
    let facts = [&answer["error"]["data"], &answer["result"]["_meta"]["dev.mendline/failure"]];
    match facts.iter().find_map(|facts| facts["outcome"].as_str()) {
        None if answer.get("result").is_some() => Came::Well,
        Some("not_sent") => Came::NotSent,
        Some("refused") => Came::Refused,
        Some("unknown") => Came::Unknown,
        _ => Came::Badly,
    }
}

/// Everything that was promised and not kept.
pub fn violations(seen: &Seen, fault: Option<Fault>) -> Vec<String> {
    let mut found = Vec::new();
    // A cable that swallows everything can cost all the time that a call has; any other fault is mended.
    let may_cost_everything = fault.is_some_and(|fault| fault.kind == Kind::Stall);
    let is_harmless = !seen.struck || fault.is_none_or(|fault| fault.kind == Kind::Drip);
    for asked in &seen.asked {
        let role = asked.role;
        if asked.cancelled {
            cancelled_for_good(asked, seen, is_harmless, &mut found);
            continue;
        }
        let Some(came) = one_answer_in_time(asked, may_cost_everything, &mut found) else { continue };
        match (role, came) {
            (_, Came::Badly) => found.push(format!("{role:?} failed strangely: {}", asked.answers[0])),
            (Role::Unsafe, Came::Well) if seen.runs != 1 => {
                found.push(format!("I5 answered, but the oracle saw {} runs", seen.runs));
            }
            (Role::Unsafe, Came::NotSent | Came::Refused) if seen.runs > 0 => {
                found.push(format!("I5 said not to have run, but the oracle saw {} runs", seen.runs));
            }
            (_, Came::Well) => {}
            (_, Came::NotSent | Came::Refused) if asked.took.is_some_and(|took| took > defaults::RECOVERY + TICK) => {
                found.push(format!("{role:?} waited {:?} to be sent", asked.took));
            }
            (Role::Unsafe, Came::Unknown)
                if seen.runs == 0 && fault.is_some_and(|fault| cannot_arrive_whole(fault, seen)) =>
            {
                found.push("an unsafe call that cannot have arrived whole was given up".to_owned());
            }
            (Role::Unsafe, Came::Unknown)
                if asked.after_fault && fault.is_some_and(|fault| is_over_at_once(fault, seen.wire)) =>
            {
                found.push("an unsafe call that was made after the fault was lost to it".to_owned());
            }
            (_, Came::Unknown) if was_resumed(seen) && !may_cost_everything => {
                found.push(format!("{role:?} was resumed and lost all the same"));
            }
            (_, came) if is_harmless => found.push(format!("{role:?} came out {came:?} although nothing was lost")),
            (Role::Initialize | Role::Read, came) if !may_cost_everything => {
                found.push(format!("{role:?} was not mended: {came:?}"));
            }
            (Role::Unsafe, Came::NotSent | Came::Refused) if !may_cost_everything => {
                found.push("an unsafe call that was not sent was not sent again either".to_owned());
            }
            _ => {}
        }
    }
    let asks = matches!(seen.twist, Twist::Asks | Twist::AsksElsewhere);
    if seen.questions.len() > 1 || (is_harmless && asks && seen.questions.is_empty()) {
        found.push(format!("I8 the client was asked {} times", seen.questions.len()));
    }
    if seen.runs > 1 {
        found.push(format!("I3 the oracle saw {} runs", seen.runs));
    }
    match seen.ended {
        None => found.push("the driver did not end".to_owned()),
        Some(took) if took > ENDING => found.push(format!("the driver took {took:?} to end")),
        Some(_) => {}
    }
    found
}

/// The response was asked for again after the fault, of a server that had it ready. One that has to be polled is asked in
/// any case.
fn was_resumed(seen: &Seen) -> bool {
    seen.resumed > 0 && seen.manner != Manner::PolledEvents
}

/// What was cancelled is not answered any more, and the server hears of it unless that was lost on the way.
fn cancelled_for_good(asked: &Asked, seen: &Seen, is_harmless: bool, found: &mut Vec<String>) {
    let role = asked.role;
    if !asked.answers.is_empty() {
        found.push(format!("I1 {role:?} was answered although it was cancelled"));
    }
    if is_harmless && !seen.server_knows_of_cancel {
        found.push(format!("I18 the server was not told that {role:?} was cancelled"));
    }
}

/// The shell itself saw that not everything was taken, unless the fault struck right behind a request that the server had
/// whole and turned away. HTTP/2 mixes the bytes of all streams, and what is not known there counts as received.
fn cannot_arrive_whole(fault: Fault, seen: &Seen) -> bool {
    !seen.wire.is_http2()
        && !seen.turned_away.contains(&fault.at)
        && matches!((fault.kind, fault.direction), (Kind::Cut | Kind::WriteError, Direction::Up))
}

/// The connection is visibly dead as soon as the fault has struck, so nothing more can be lost to it. A child that closes
/// its stdout and lives on is only suspected at first.
fn is_over_at_once(fault: Fault, wire: Wire) -> bool {
    fault.kind == Kind::Cut || (wire != Wire::Stdio && (fault.kind, fault.direction) == (Kind::End, Direction::Down))
}

fn one_answer_in_time(asked: &Asked, may_cost_everything: bool, found: &mut Vec<String>) -> Option<Came> {
    let role = asked.role;
    if asked.answers.len() != 1 {
        found.push(format!("I1 {role:?} was answered {} times", asked.answers.len()));
    }
    let most = if may_cost_everything { defaults::CALL } else { defaults::RECOVERY } + TICK;
    if let Some(took) = asked.took.filter(|took| *took > most) {
        found.push(format!("I2 {role:?} was answered after {took:?}"));
    }
    asked.answers.first().map(came)
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

    fn seen(answers: &[Value], runs: usize) -> Seen {
        let took = Some(Duration::ZERO);
        let answers = answers.to_vec();
        let asked = Asked { role: Role::Unsafe, after_fault: false, cancelled: false, took, answers };
        let nothing = Seen::nothing(Wire::Http1, Manner::ResumableEvents, Twist::Plain);
        Seen { asked: vec![asked], runs, struck: true, ended: Some(Duration::ZERO), ..nothing }
    }

    #[test]
    fn correct_conversation_has_no_violation() {
        assert_eq!(violations(&seen(&[well()], 1), Some(CUT)), [""; 0]);
        assert_eq!(violations(&seen(&[failed("unknown")], 1), Some(CUT)), [""; 0]);
    }

    #[test]
    fn every_violation_is_detected() {
        let late = |seconds| {
            let mut late = seen(&[well()], 1);
            late.asked[0].took = Some(Duration::from_secs(seconds));
            late
        };
        let mut lost_afterwards = seen(&[failed("unknown")], 1);
        lost_afterwards.asked[0].after_fault = true;
        let cancelled = |answers: &[Value], struck| {
            let mut cancelled = Seen { struck, ..seen(answers, 1) };
            cancelled.asked[0].cancelled = true;
            cancelled
        };
        let asked = |questions: usize, struck| {
            let questions = vec![Value::Null; questions];
            Seen { twist: Twist::Asks, questions, struck, ..seen(&[well()], 1) }
        };
        let cases = [
            (cancelled(&[well()], true), "although it was cancelled"),
            (cancelled(&[], false), "was not told"),
            (Seen { resumed: 1, ..seen(&[failed("unknown")], 1) }, "resumed and lost"),
            (asked(2, true), "asked 2 times"),
            (asked(0, false), "asked 0 times"),
            (seen(&[], 0), "I1"),
            (seen(&[well(), well()], 1), "I1"),
            (late(46), "I2"),
            (seen(&[failed("unknown")], 2), "I3"),
            (seen(&[well()], 0), "I5"),
            (seen(&[failed("not_sent")], 1), "I5"),
            (seen(&[failed("refused")], 1), "I5"),
            (seen(&[failed("not_sent")], 0), "not sent again"),
            (seen(&[failed("answered")], 0), "strangely"),
            (seen(&[failed("unknown")], 0), "cannot have arrived whole"),
            (lost_afterwards, "made after the fault"),
            (Seen { struck: false, ..seen(&[failed("unknown")], 1) }, "nothing was lost"),
            (Seen { ended: None, ..seen(&[well()], 1) }, "did not end"),
        ];
        for (seen, expected) in cases {
            let found = violations(&seen, Some(CUT)).join("; ");
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
