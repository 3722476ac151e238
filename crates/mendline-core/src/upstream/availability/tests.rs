use std::collections::VecDeque;

use super::*;
use crate::dial_pace::DialPaces;
use crate::dispatch::Dispatch;
use crate::ledger::Ledger;
use crate::port::Output;
use crate::quote::Unredacted;
use crate::rng::SeededRng;
use crate::timers::Timers;

const CONDITIONS: [Condition; 4] = [Condition::Available, Condition::Suspect, Condition::Away, Condition::NeedsLogin];

/// The conditions after an end, from each of [`CONDITIONS`].
fn after(end: End) -> [Condition; 4] {
    CONDITIONS.map(|condition| condition.after(end))
}

#[test]
fn every_end_moves_every_condition_as_documented() {
    use Condition::{Available, Away, NeedsLogin, Suspect};
    for sign in [Sign::Failed, Sign::Unknown, Sign::LoginRequired] {
        assert_eq!(after(End::Call(sign)), [Suspect, Suspect, Away, NeedsLogin], "{sign:?}");
    }
    assert_eq!(after(End::Call(Sign::Unreachable)), [Away, Away, Away, NeedsLogin]);
    for sign in [Sign::Overloaded, Sign::Nothing] {
        assert_eq!(after(End::Call(sign)), CONDITIONS, "{sign:?}");
    }
    for sign in [Sign::Failed, Sign::Unknown, Sign::Unreachable, Sign::Nothing] {
        assert_eq!(after(End::Probe(sign)), [Away, Away, Away, NeedsLogin], "{sign:?}");
    }
    assert_eq!(after(End::Probe(Sign::LoginRequired)), [NeedsLogin; 4]);
    assert_eq!(after(End::Probe(Sign::Overloaded)), [Available, Available, Away, NeedsLogin]);
    for end in [End::Call(Sign::Answered), End::Probe(Sign::Answered), End::Process] {
        assert_eq!(after(end), [Available; 4], "{end:?}");
    }
}

#[test]
fn names_of_conditions_are_stable() {
    assert_eq!(CONDITIONS.map(Condition::name), ["available", "suspect", "away", "needs_login"]);
}

fn availability(condition: Condition, begun_before: u64) -> Availability {
    Availability { condition, begun_before, ..Availability::new(UpstreamId(0)) }
}

#[test]
fn only_response_to_later_request_is_the_verdict() {
    for condition in [Condition::Suspect, Condition::Away] {
        let availability = availability(condition, 7);
        assert!(!availability.is_decided_by(7) && availability.is_decided_by(8), "{condition}");
    }
    assert!(availability(Condition::NeedsLogin, 7).is_decided_by(1), "any response shows an accepted login");
    assert!(!availability(Condition::Available, 7).is_decided_by(8), "nothing is to be decided");
}

#[test]
fn lost_call_waits_only_if_the_verdict_can_change_its_answer() {
    let suspect = availability(Condition::Suspect, 7);
    let lost = LostCall { begun: 8, chance: Chance::Open, is_refusal: false, is_final: false };
    let answered = |lost: LostCall| suspect.is_answered_now(&lost, false);
    assert!(!answered(lost));
    assert!(answered(LostCall { chance: Chance::Spent, ..lost }));
    assert!(answered(LostCall { chance: Chance::None, ..lost }));
    assert!(!answered(LostCall { chance: Chance::None, is_refusal: true, ..lost }), "it may not have been processed");
    assert!(answered(LostCall { is_refusal: true, is_final: true, ..lost }), "a configured rule answers it");
}

#[test]
fn call_that_is_its_own_probe_waits_with_spent_attempts() {
    let away = availability(Condition::Away, 7);
    let lost = LostCall { begun: 8, chance: Chance::Spent, is_refusal: false, is_final: false };
    assert!(away.is_probe(8, true) && !away.is_answered_now(&lost, true));
    assert!(away.is_answered_now(&LostCall { chance: Chance::None, ..lost }, true));
    assert!(away.is_answered_now(&lost, false), "the link is not dialed");
    assert!(away.is_answered_now(&LostCall { begun: 7, ..lost }, true), "it was sent before the outage");
    assert!(!availability(Condition::Suspect, 7).is_probe(8, true));
}

#[test]
fn due_probe_is_sent_unless_another_shows_the_same() {
    let due = |condition, facts| availability(condition, 0).handle_timer(facts);
    let facts = TimerFacts { is_paused: false, is_up: true, runs_other_probe: false };
    assert_eq!(due(Condition::Suspect, facts), Due::Probe);
    assert_eq!(due(Condition::NeedsLogin, facts), Due::Probe);
    assert_eq!(due(Condition::Available, facts), Due::Nothing);
    assert_eq!(due(Condition::Away, facts), Due::Nothing);
    let other = TimerFacts { runs_other_probe: true, ..facts };
    assert_eq!((due(Condition::Suspect, other), due(Condition::NeedsLogin, other)), (Due::Later, Due::Probe));
    let lost = TimerFacts { is_up: false, ..facts };
    assert_eq!((due(Condition::Suspect, lost), due(Condition::NeedsLogin, lost)), (Due::Away, Due::Nothing));
    let paused = TimerFacts { is_paused: true, ..lost };
    assert_eq!((due(Condition::Suspect, paused), due(Condition::NeedsLogin, paused)), (Due::AfterPause, Due::Nothing));
}

/// Calls `does` with a context, and returns the events that it emitted.
fn events(does: impl FnOnce(&mut Cx<'_>)) -> Vec<Event> {
    let mut outputs = VecDeque::new();
    let mut cx = Cx {
        now: Moment::ZERO,
        timers: &mut Timers::default(),
        ledger: &mut Ledger::new(0),
        rng: &mut SeededRng::new(1),
        outputs: &mut outputs,
        dispatch: &mut Dispatch::default(),
        dial_paces: &mut DialPaces::default(),
        accepted: &mut 0,
        quote: &Unredacted,
    };
    does(&mut cx);
    let event = |output| if let Output::Event(event) = output { Some(event) } else { None };
    outputs.into_iter().filter_map(event).collect()
}

#[test]
fn waits_for_a_login_grow_until_the_credential_changes() {
    let mut availability = availability(Condition::NeedsLogin, 0);
    events(|cx| {
        let waits: Vec<_> = (0..3).map(|_| availability.next_login_wait(false, cx)).collect();
        assert_eq!(waits, [1, 2, 4].map(|factor| defaults::LOGIN_PROBE * factor));
        availability.restart_login_waits();
        assert_eq!(availability.next_login_wait(false, cx), defaults::LOGIN_PROBE);
        availability.handle_answer(cx);
        assert_eq!(availability.next_login_wait(false, cx), defaults::LOGIN_PROBE);
    });
}

#[test]
fn wanted_login_is_taken_once() {
    let mut availability = availability(Condition::Suspect, 0);
    assert!(!availability.take_wanted_login(), "a failed call wants no login");
    availability.note_login_wanted();
    assert!(availability.wants_login() && availability.take_wanted_login());
    assert!(!availability.wants_login() && !availability.take_wanted_login());
}

#[test]
fn verdict_is_reported_once_and_is_one_incident() {
    let mut availability = availability(Condition::Available, 0);
    let before = availability.incident();
    let suspected = events(|cx| {
        availability.handle_failed_call(Sign::Failed, Reason::Error, cx);
        availability.handle_failed_call(Sign::Failed, Reason::Error, cx);
    });
    assert!(matches!(suspected[..], [Event::ServerSuspected { .. }]), "{suspected:?}");
    assert_eq!(availability.incident(), before, "the verdict is open");
    let lost = events(|cx| {
        availability.handle_loss(3, cx);
        availability.handle_loss(4, cx);
    });
    assert!(matches!(lost[..], [Event::VerdictReached { condition: Condition::Away, .. }]), "{lost:?}");
    assert!(availability.incident() != before && !availability.is_after_failure(4) && availability.is_after_failure(5));
    let answered = events(|cx| {
        availability.handle_answer(cx);
        availability.handle_answer(cx);
    });
    assert!(matches!(answered[..], [Event::VerdictReached { condition: Condition::Available, .. }]), "{answered:?}");
}
