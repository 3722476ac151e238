//! Each demand, with facts that meet it and facts that miss it.

use super::*;
use crate::observed::Arrival;

const OUTAGE: (u64, u64) = (5_000, 15_000);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn cell(form: Form, situation: Situation) -> Cell {
    Cell { form, seconds: 10, situation, has_session: true }
}

fn success(at: u64) -> Answer {
    let result = AnswerResult::Success { server: Some("mendline-faults".to_owned()), instructions: None };
    Answer { at: ms(at), result, digest: None }
}

fn failure(at: u64, outcome: &str, attempts: u64) -> Answer {
    let (outcome, attempts) = (Some(outcome.to_owned()), Some(attempts));
    Answer {
        at: ms(at),
        result: AnswerResult::Failure { code: None, outcome, attempts, text: "failed".to_owned() },
        digest: None,
    }
}

fn call(kind: Kind, sent: u64, answer: Answer) -> Call {
    let id = format!("{}{sent}", kind.prefix());
    Call { id, kind, sent: ms(sent), in_flight: sent < OUTAGE.0, answers: vec![answer] }
}

/// Facts of a cell that met every demand, with these calls and a last read just after the end.
fn observed(calls: Vec<Call>) -> Observed {
    let mut calls = calls;
    calls.push(call(Kind::Read, 15_010, success(15_500)));
    Observed {
        begin: ms(OUTAGE.0),
        end: ms(OUTAGE.1),
        calls,
        dials: Some(Vec::new()),
        exit_code: Some(0),
        ..Observed::default()
    }
}

fn ran(mut facts: Observed, key: &str, runs: u64) -> Observed {
    facts.executions.insert(key.to_owned(), runs);
    facts
}

fn arrived(mut facts: Observed, what: &str, key: Option<&str>, at: u64) -> Observed {
    let met_outage = (OUTAGE.0..OUTAGE.1).contains(&at);
    facts.arrivals.push(Arrival { at: ms(at), what: what.to_owned(), key: key.map(str::to_owned), met_outage });
    facts
}

fn demands(cell: &Cell, facts: &Observed) -> Vec<String> {
    judge(cell, facts).into_iter().map(|miss| miss.demanded).collect()
}

/// Expects one miss whose demand contains these words.
fn misses(cell: &Cell, facts: &Observed, words: &str) {
    let demands = demands(cell, facts);
    assert!(matches!(&demands[..], [demand] if demand.contains(words)), "{words}: {demands:?}");
}

fn passes(cell: &Cell, facts: &Observed) {
    assert_eq!(judge(cell, facts), []);
}

#[test]
fn read_must_succeed_soon_after_the_end() {
    let cell = cell(Form::Status502, Situation::ReadDuring);
    passes(&cell, &observed(vec![call(Kind::Read, 6_000, success(17_900))]));
    misses(&cell, &observed(vec![call(Kind::Read, 6_000, failure(6_500, "unknown", 3))]), "every read succeeds");
    let late = judge(&cell, &observed(vec![call(Kind::Read, 6_000, success(18_100))]));
    assert!(matches!(&late[..], [miss] if miss.is_time), "{late:?}");
}

#[test]
fn every_request_needs_exactly_one_answer() {
    let cell = cell(Form::Status502, Situation::ReadDuring);
    let mut unanswered = call(Kind::Read, 6_000, success(15_100));
    unanswered.answers.clear();
    misses(&cell, &observed(vec![unanswered]), "gets an answer");
    let mut twice = call(Kind::Read, 6_000, success(15_100));
    twice.answers.push(success(15_200));
    misses(&cell, &observed(vec![twice]), "exactly one answer");
    let strays = vec!["read-99".to_owned()];
    misses(&cell, &Observed { strays, ..observed(Vec::new()) }, "without a request");
}

#[test]
fn first_success_must_follow_the_end_in_time() {
    let cell = cell(Form::Status502, Situation::ReadDuring);
    let mut facts = observed(Vec::new());
    facts.calls[0].answers[0].at = ms(18_100);
    assert!(demands(&cell, &facts).iter().any(|demand| demand.contains("of the end")));
    facts.calls.clear();
    misses(&cell, &facts, "of the end");
}

#[test]
fn silent_read_has_a_longer_limit() {
    let cell = cell(Form::Silence, Situation::ReadDuring);
    passes(&cell, &observed(vec![call(Kind::Read, 6_000, success(44_000))]));
    misses(&cell, &observed(vec![call(Kind::Read, 6_000, success(44_600))]), "the read is answered in time");
}

#[test]
fn retry_after_allows_the_hint_after_the_end() {
    let cell = cell(Form::Status503RetryAfter, Situation::ReadDuring);
    passes(&cell, &observed(vec![call(Kind::Read, 6_000, success(18_900))]));
    misses(&cell, &observed(vec![call(Kind::Read, 6_000, success(19_100))]), "the read is answered in time");
}

#[test]
fn unsafe_call_that_was_met_must_be_unknown() {
    let cell = cell(Form::Status500, Situation::UnsafeDuring);
    let facts = |answer: Answer, runs: u64| {
        let facts = observed(vec![call(Kind::Unsafe, 6_000, answer)]);
        arrived(ran(facts, "unsafe-6000", runs), "tools/call", Some("unsafe-6000"), 6_010)
    };
    passes(&cell, &facts(failure(6_500, "unknown", 1), 1));
    let untrue = demands(&cell, &facts(failure(6_500, "not_sent", 1), 1));
    assert!(
        matches!(&untrue[..], [one, two] if one.contains("`unknown`") && two.contains("did not run")),
        "{untrue:?}"
    );
    misses(&cell, &facts(success(15_500), 1), "`unknown`");
    let again = arrived(facts(failure(6_500, "unknown", 1), 1), "tools/call", Some("unsafe-6000"), 15_100);
    misses(&cell, &again, "not sent again");
    let twice = facts(failure(6_500, "unknown", 1), 2);
    misses(&cell, &twice, "at most once");
}

#[test]
fn unsent_unsafe_call_must_succeed() {
    let cell = cell(Form::Refused, Situation::UnsafeDuring);
    let facts = |answer| observed(vec![call(Kind::Unsafe, 6_000, answer)]);
    passes(&cell, &ran(facts(success(15_500)), "unsafe-6000", 1));
    misses(&cell, &facts(success(15_500)), "has run");
    misses(&cell, &facts(failure(6_500, "not_sent", 0)), "waits for the end");
    misses(&cell, &facts(failure(6_500, "unknown", 1)), "waits for the end");
    misses(&cell, &ran(facts(success(18_100)), "unsafe-6000", 1), "an unsent call is answered in time");
}

#[test]
fn unsafe_call_in_flight_must_be_unknown_unless_refused() {
    let lost = cell(Form::Fin, Situation::ManyInFlight);
    let facts = |answer| ran(observed(vec![call(Kind::Unsafe, 4_000, answer)]), "unsafe-4000", 1);
    passes(&lost, &facts(failure(5_100, "unknown", 1)));
    misses(&lost, &facts(success(15_500)), "`unknown`");
    let refused = cell(Form::Status429, Situation::ManyInFlight);
    passes(&refused, &facts(success(15_500)));
    misses(&refused, &facts(failure(5_100, "unknown", 1)), "waits for the end");
}

#[test]
fn refusal_is_an_answer_only_just_before_the_end() {
    let cell = cell(Form::Page404, Situation::UnsafeDuring);
    let facts = |sent: u64| {
        let facts = observed(vec![call(Kind::Unsafe, sent, failure(15_200, "refused", 1))]);
        arrived(facts, "tools/call", Some(&format!("unsafe-{sent}")), sent + 10)
    };
    passes(&cell, &facts(14_500));
    misses(&cell, &facts(6_000), "a refused call waits");
    let ran_all_the_same = ran(facts(14_500), "unsafe-14500", 1);
    assert!(demands(&cell, &ran_all_the_same).iter().any(|demand| demand.contains("did not run")));
}

#[test]
fn call_cut_at_accept_may_be_unknown_or_succeed() {
    let cell = cell(Form::Reset, Situation::UnsafeDuring);
    let facts = |answer| observed(vec![call(Kind::Unsafe, 6_000, answer)]);
    passes(&cell, &facts(failure(6_500, "unknown", 1)));
    passes(&cell, &ran(facts(success(15_500)), "unsafe-6000", 1));
}

#[test]
fn swallowed_unsafe_call_is_unknown_at_its_deadline() {
    let cell = cell(Form::Silence, Situation::UnsafeDuring);
    let facts = |answer| observed(vec![call(Kind::Unsafe, 6_000, answer)]);
    passes(&cell, &facts(failure(51_100, "unknown", 1)));
    misses(&cell, &facts(failure(52_100, "unknown", 1)), "`unknown` is answered in time");
    misses(&cell, &facts(failure(51_100, "not_sent", 1)), "waits for the end");
}

#[test]
fn command_that_dies_gets_three_attempts() {
    let cell = cell(Form::DiesAtCall, Situation::ReadDuring);
    let facts = |answer, runs| ran(observed(vec![call(Kind::Read, 6_000, answer)]), "read-6000", runs);
    passes(&cell, &facts(failure(7_000, "unknown", 3), 3));
    passes(&cell, &facts(success(15_500), 3));
    misses(&cell, &facts(failure(7_000, "unknown", 1), 1), "three attempts");
    misses(&cell, &facts(failure(7_000, "unknown", 3), 4), "three attempts");
    let after = observed(vec![call(Kind::Read, 15_200, failure(15_300, "unknown", 3))]);
    misses(&cell, &after, "every read succeeds");
}

#[test]
fn retry_budget_may_end_the_attempts_of_an_agent() {
    let mut stopped = failure(7_000, "unknown", 2);
    if let AnswerResult::Failure { text, .. } = &mut stopped.result {
        "it was not sent again, because the retry budget is spent".clone_into(text);
    }
    let facts = |answer| ran(observed(vec![call(Kind::Read, 6_000, answer)]), "read-6000", 2);
    passes(&cell(Form::DiesAtCall, Situation::Agent), &facts(stopped.clone()));
    misses(&cell(Form::DiesAtCall, Situation::Agent), &facts(failure(7_000, "unknown", 2)), "three attempts");
    misses(&cell(Form::DiesAtCall, Situation::ReadDuring), &facts(stopped), "three attempts");
}

fn handshake(form: Form, answer: Answer) -> (Cell, Observed) {
    let facts = Observed { start: ms(5_000), ..observed(vec![call(Kind::Initialize, 5_000, answer)]) };
    (cell(form, Situation::FirstStart), facts)
}

fn provisional(at: u64, instructions: Option<&str>) -> Answer {
    let (server, instructions) = (Some("mendline".to_owned()), instructions.map(str::to_owned));
    Answer { at: ms(at), result: AnswerResult::Success { server, instructions }, digest: None }
}

#[test]
fn first_handshake_must_not_fail_and_must_be_in_time() {
    let reason = Some("not started yet: connection reset");
    let (cell, facts) = handshake(Form::Reset, provisional(8_050, reason));
    passes(&cell, &facts);
    let (cell, facts) = handshake(Form::Reset, failure(5_100, "unknown", 3));
    misses(&cell, &facts, "not failed by trouble");
    let (cell, facts) = handshake(Form::Reset, provisional(9_100, reason));
    misses(&cell, &facts, "initialize is answered within");
    let (cell, facts) = handshake(Form::Reset, provisional(6_000, reason));
    misses(&cell, &facts, "not before");
    let (cell, facts) = handshake(Form::Reset, provisional(8_050, None));
    misses(&cell, &facts, "`instructions`");
    let (cell, facts) = handshake(Form::Silence, provisional(18_050, reason));
    passes(&cell, &facts);
    let (cell, facts) = handshake(Form::Reset, success(6_000));
    passes(&cell, &facts);
}

#[test]
fn catalogue_must_answer_at_once() {
    let cell = cell(Form::Reset, Situation::SecondStart);
    passes(&cell, &observed(vec![call(Kind::Initialize, 5_000, success(5_100))]));
    misses(&cell, &observed(vec![call(Kind::Initialize, 5_000, success(8_000))]), "catalogue answers within");
    misses(&cell, &observed(vec![call(Kind::Initialize, 5_000, provisional(5_100, None))]), "of the catalogue");
    misses(&cell, &observed(vec![call(Kind::List, 5_200, failure(5_300, "not_sent", 0))]), "the catalogue answers");
}

#[test]
fn dials_during_the_outage_are_limited() {
    let cell = cell(Form::Reset, Situation::ReadDuring);
    let dials = |count: u64| Some((0..count).map(|number| ms(5_000 + number * 100)).collect());
    passes(&cell, &Observed { dials: dials(15), ..observed(Vec::new()) });
    misses(&cell, &Observed { dials: dials(16), ..observed(Vec::new()) }, "at most 15 dials");
    passes(&cell, &Observed { dials: None, ..observed(Vec::new()) });
    let after = Some((0..50).map(|number| ms(15_000 + number)).collect());
    passes(&cell, &Observed { dials: after, ..observed(Vec::new()) });
}

#[test]
fn pause_of_the_server_is_kept() {
    let hinted = cell(Form::Status503RetryAfter, Situation::ReadDuring);
    let probed = |at: u64| arrived(arrived(observed(Vec::new()), "ping", None, 6_000), "ping", None, at);
    passes(&hinted, &probed(9_000));
    misses(&hinted, &probed(8_000), "no request for 3.00 s");
    let called = arrived(arrived(observed(Vec::new()), "tools/call", Some("a"), 6_000), "ping", None, 6_200);
    passes(&hinted, &called);
    let bare = cell(Form::Status429, Situation::ReadDuring);
    misses(&bare, &probed(6_150), "no request for 0.25 s");
    passes(&bare, &probed(6_260));
}

#[test]
fn redirect_is_not_followed_and_exit_code_is_zero() {
    let cell = cell(Form::Redirect307, Situation::ReadDuring);
    misses(&cell, &Observed { elsewhere: 1, ..observed(Vec::new()) }, "not followed");
    misses(&cell, &Observed { exit_code: None, ..observed(Vec::new()) }, "ends with 0");
    misses(&cell, &Observed { exit_code: Some(1), ..observed(Vec::new()) }, "ends with 0");
}

#[test]
fn calls_are_not_sent_after_the_verdict() {
    let cell = cell(Form::Status502, Situation::Agent);
    let reads = || observed(vec![call(Kind::Read, 5_100, success(15_500)), call(Kind::Read, 9_000, success(15_500))]);
    let facts = |at: u64| arrived(reads(), "tools/call", Some("read-9000"), at);
    passes(&cell, &facts(7_000));
    misses(&cell, &facts(9_010), "no call is sent once");
    passes(&cell, &arrived(reads(), "ping", None, 9_010));
    let unknown = call(Kind::Unsafe, 9_000, failure(9_100, "unknown", 1));
    let facts = observed(vec![call(Kind::Read, 5_100, success(15_500)), unknown]);
    misses(&cell, &facts, "known to be away waits");
}

#[test]
fn lists_are_equal_and_not_announced_as_changed() {
    let list = |sent: u64, digest: &str| {
        let answer = Answer { digest: Some(digest.to_owned()), ..success(sent + 10) };
        call(Kind::List, sent, answer)
    };
    let during = cell(Form::Reset, Situation::ReadDuring);
    assert_eq!(demands(&during, &observed(vec![list(1, "a"), list(16_000, "a")])), Vec::<String>::new());
    misses(&during, &observed(vec![list(1, "a"), list(16_000, "b")]), "equal byte for byte");
    let mut announced = observed(vec![list(1, "a")]);
    announced.list_changes = 1;
    misses(&during, &announced, "announced as changed");
}
