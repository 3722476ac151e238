//! The demands on a row. A balancer hides what reached the server, so that an unsafe call of the time of the outage may
//! succeed or be `unknown`; it must not run twice in either case.

use std::time::Duration;

use super::{Event, IDLE_CALLS, Row};
use crate::judge::{HANDSHAKE, Miss, RECOVERY, seconds};
use crate::observed::{Answer, Call, Kind, Observed};

/// The attempts of a call that an available server received.
const ATTEMPTS: u64 = 3;
/// The longest time of three attempts that the balancer ends after one second each, and the pauses between them.
const SLOW_LIMIT: Duration = Duration::from_secs(15);
/// A call within this time of a reload can cross the end of its connection.
const CROSSING: Duration = Duration::from_millis(300);
/// The old process of a reloaded balancer closes its last connections after this time.
const HARD_STOP: Duration = Duration::from_secs(5);

/// Returns every demand that the row did not meet.
pub(super) fn judge(row: &Row, observed: &Observed) -> Vec<Miss> {
    let mut misses = Vec::new();
    for call in &observed.calls {
        match call.answers.as_slice() {
            [answer] => misses.extend(judge_call(row, observed, call, answer)),
            answers => {
                let seen = format!("{}: {} answers", describe(observed, call), answers.len());
                misses.push(Miss::new("every request gets exactly one answer", seen));
            }
        }
    }
    if let [first, ..] = observed.strays.as_slice() {
        misses.push(Miss::new("no answer without a request", format!("{} such, first {first}", observed.strays.len())));
    }
    if observed.exit_code != Some(0) {
        misses.push(Miss::new("Mendline ends with 0 when its client leaves", format!("{:?}", observed.exit_code)));
    }
    misses.extend(event_happened(row, observed));
    misses
}

/// A row in which nothing happened proves nothing.
fn event_happened(row: &Row, observed: &Observed) -> Option<Miss> {
    match row.event {
        Event::Slow => {
            let stays_slow = observed.stays_slow.as_ref();
            let again = observed.executions.iter().any(|(key, runs)| *runs > 1 && Some(key) != stays_slow);
            (!again).then(|| Miss::setup("the balancer answered no slow read itself"))
        }
        Event::IdleTimeout => {
            // Without the right to count dials this cannot be seen.
            let dials = observed.dials.as_ref()?.iter().filter(|at| **at >= observed.begin).count();
            (dials < IDLE_CALLS / 2).then(|| Miss::setup("the balancer closed no idle connection"))
        }
        Event::Reload | Event::Down(_) => None,
    }
}

fn judge_call(row: &Row, observed: &Observed, call: &Call, answer: &Answer) -> Vec<Miss> {
    let runs = observed.runs(&call.id);
    let seen = || format!("{}: ran {runs} times, {answer}", describe(observed, call));
    if observed.stays_slow.as_deref() == Some(&call.id) {
        let is_met = !answer.is_success() && answer.attempts() == Some(ATTEMPTS) && runs <= ATTEMPTS;
        let demanded = "a read that is always too slow gets three attempts, then an error";
        return if !is_met {
            vec![Miss::new(demanded, seen())]
        } else if answer.at > call.sent + SLOW_LIMIT {
            vec![Miss::late(format!("{demanded} within {}", seconds(SLOW_LIMIT)), seen())]
        } else {
            Vec::new()
        };
    }
    let mut misses = Vec::new();
    let limit = match row.event {
        Event::Slow if runs > 1 => call.sent + SLOW_LIMIT,
        _ => call.sent.max(observed.end) + RECOVERY + HANDSHAKE,
    };
    match (call.kind, answer.is_success(), answer.outcome()) {
        (Kind::Unsafe, true, _) if runs != 1 => misses.push(Miss::new("a call that succeeds has run once", seen())),
        (Kind::Unsafe, false, Some("unknown")) if runs <= 1 && may_be_unknown(row, observed, call) => {}
        (Kind::Unsafe, false, _) => misses.push(Miss::new("an unsafe call succeeds, or is `unknown` if cut", seen())),
        (_, false, _) => misses.push(Miss::new("every read succeeds", seen())),
        (_, true, _) => {}
    }
    if runs > 1 && call.kind == Kind::Unsafe && !misses.iter().any(|miss| !miss.is_time) {
        misses.push(Miss::new("an unsafe call runs at most once", seen()));
    }
    if answer.is_success() && answer.at > limit {
        misses.push(Miss::late(format!("the call is answered by {}", seconds(limit)), seen()));
    }
    misses
}

/// Returns whether the balancer may have taken the answer of an unsafe call.
fn may_be_unknown(row: &Row, observed: &Observed, call: &Call) -> bool {
    match row.event {
        // Only calls that the balancer cuts with a connection of its old process.
        Event::Reload => {
            let near = |at: Duration| call.sent + CROSSING >= at && call.sent <= at + CROSSING;
            near(observed.begin) || near(observed.begin + HARD_STOP)
        }
        Event::Down(_) => call.sent + CROSSING >= observed.begin && call.sent < observed.end,
        // The slow one, which is issued at the beginning.
        Event::Slow => call.sent <= observed.begin + CROSSING,
        Event::IdleTimeout => false,
    }
}

fn describe(observed: &Observed, call: &Call) -> String {
    let event = observed.begin.as_secs_f64();
    format!("{} (sent {:+.2} s relative to the event)", call.id, call.sent.as_secs_f64() - event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::{Kind as Balancer, ServerKind};
    use crate::observed::AnswerResult;

    fn row(event: Event) -> Row {
        Row { balancer: Balancer::Haproxy, server: ServerKind::Faults, event }
    }

    fn answer(at: u64, outcome: Option<&str>) -> Answer {
        let result = match outcome {
            None => AnswerResult::Success { server: None, instructions: None },
            Some(outcome) => AnswerResult::Failure {
                code: None,
                outcome: Some(outcome.to_owned()),
                attempts: Some(3),
                text: String::new(),
            },
        };
        Answer { at: Duration::from_millis(at), result, digest: None }
    }

    fn facts(kind: Kind, sent: u64, answer: Answer, runs: u64) -> Observed {
        let id = "a".to_owned();
        let sent = Duration::from_millis(sent);
        let call = Call { id: id.clone(), kind, sent, in_flight: false, answers: vec![answer] };
        Observed {
            begin: Duration::from_secs(5),
            end: Duration::from_secs(6),
            calls: vec![call],
            executions: [(id, runs)].into(),
            exit_code: Some(0),
            ..Observed::default()
        }
    }

    fn misses(event: Event, facts: &Observed) -> usize {
        judge(&row(event), facts).len()
    }

    #[test]
    fn read_must_succeed_in_time() {
        let down = Event::Down(1);
        assert_eq!(misses(down, &facts(Kind::Read, 5_500, answer(8_900, None), 1)), 0);
        assert_eq!(misses(down, &facts(Kind::Read, 5_500, answer(9_100, None), 1)), 1);
        assert_eq!(misses(down, &facts(Kind::Read, 5_500, answer(5_600, Some("unknown")), 1)), 1);
    }

    #[test]
    fn unsafe_call_may_be_unknown_only_around_the_event() {
        let down = Event::Down(1);
        assert_eq!(misses(down, &facts(Kind::Unsafe, 5_500, answer(5_600, Some("unknown")), 1)), 0);
        assert_eq!(misses(down, &facts(Kind::Unsafe, 6_500, answer(6_600, Some("unknown")), 0)), 1);
        assert_eq!(misses(down, &facts(Kind::Unsafe, 5_500, answer(6_600, None), 2)), 1);
        assert_eq!(misses(down, &facts(Kind::Unsafe, 5_500, answer(6_600, None), 0)), 1);
        let idle = facts(Kind::Unsafe, 5_500, answer(5_600, Some("unknown")), 1);
        assert_eq!(misses(Event::IdleTimeout, &idle), 1);
    }

    #[test]
    fn read_that_stays_slow_gets_three_attempts() {
        let slow = |answer, runs| {
            let mut facts = facts(Kind::Read, 5_000, answer, runs);
            facts.executions.insert("another".to_owned(), 2);
            Observed { stays_slow: Some("a".to_owned()), ..facts }
        };
        assert_eq!(misses(Event::Slow, &slow(answer(9_000, Some("unknown")), 3)), 0);
        assert_eq!(misses(Event::Slow, &slow(answer(9_000, Some("unknown")), 4)), 1);
        assert_eq!(misses(Event::Slow, &slow(answer(9_000, None), 3)), 1);
        assert_eq!(misses(Event::Slow, &slow(answer(21_000, Some("unknown")), 3)), 1);
    }

    #[test]
    fn row_without_its_event_fails() {
        let quick = facts(Kind::Read, 5_500, answer(5_600, None), 1);
        assert_eq!(misses(Event::Slow, &quick), 1);
        let dials = |count| Some(vec![Duration::from_secs(7); count]);
        assert_eq!(misses(Event::IdleTimeout, &Observed { dials: dials(1), ..quick.clone() }), 1);
        assert_eq!(misses(Event::IdleTimeout, &Observed { dials: dials(8), ..quick }), 0);
    }
}
