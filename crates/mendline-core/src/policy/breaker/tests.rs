//! Tests of the breaker, and of its agreement with a model.

use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

fn breaker() -> (Breaker, SeededRng) {
    (Breaker::new(Some(config::Breaker::default())), SeededRng::new(1))
}

/// Records failures until it opens; returns the time of the last.
fn fail_until_open(breaker: &mut Breaker, rng: &mut SeededRng, from: Moment) -> Moment {
    let mut now = from;
    for call in 0..5 {
        let began = now;
        now = now + Duration::from_millis(10);
        breaker.note(call, Sign::Failed(began, now), now, rng);
        now = now + Duration::from_millis(1);
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    now
}

#[test]
fn five_failures_in_a_row_open_it_and_a_success_resets() {
    let (mut breaker, mut rng) = breaker();
    for n in 0..40 {
        let sign = if n % 5 == 4 { Sign::Healthy } else { Sign::Failed(at(n * 4_000), at(n * 4_000 + 1)) };
        assert_eq!(breaker.note(n, sign, at(n * 4_000 + 1), &mut rng), None, "attempt {n}");
    }
    for n in 40..45 {
        let transition = breaker.note(n, Sign::Failed(at(n * 4_000), at(n * 4_000 + 1)), at(n * 4_000 + 1), &mut rng);
        assert_eq!(transition.is_some(), n == 44, "attempt {n}");
    }
    let Admission::Blocked(Some(wait)) = breaker.admits(at(44 * 4_000 + 1)) else { panic!("it is open") };
    assert!((4_000..=6_000).contains(&wait.as_millis()), "{wait:?}");
    assert_eq!(breaker.reason(false), RefusalReason::BreakerFailures { calls: 5, of_tool: false });
}

#[test]
fn open_time_has_jitter_around_the_configured_time() {
    let waits: Vec<Duration> = (0..40)
        .map(|seed| {
            let (mut breaker, mut rng) = (breaker().0, SeededRng::new(seed));
            fail_until_open(&mut breaker, &mut rng, Moment::ZERO);
            breaker.open_for
        })
        .collect();
    let OpenFor::Growing { first, .. } = config::Breaker::default().open_for else { panic!("it grows") };
    let (low, high) = (first.mul_f64(0.8), first.mul_f64(1.2));
    assert!(waits.iter().all(|wait| (low..=high).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait < first) && waits.iter().any(|wait| *wait > first), "{waits:?}");
}

#[test]
fn breaker_without_policy_only_opens_by_isolation() {
    let (mut breaker, mut rng) = breaker();
    fail_until_open(&mut breaker, &mut rng, Moment::ZERO);
    breaker.reconfigure(None);
    assert_eq!(breaker.state(), BreakerState::Closed);
    breaker.isolate();
    breaker.reconfigure(None);
    assert_eq!(breaker.state(), BreakerState::Isolated);
}

#[test]
fn new_policy_applies_at_once_and_keeps_the_counts() {
    let (mut breaker, mut rng) = breaker();
    for call in 0..3 {
        breaker.note(call, Sign::Failed(at(call * 100), at(call * 100 + 1)), at(call * 100 + 1), &mut rng);
    }
    breaker.reconfigure(Some(config::Breaker { failures: 4, ..config::Breaker::default() }));
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert!(breaker.note(9, Sign::Failed(at(900), at(901)), at(901), &mut rng).is_some(), "the fourth in a row");
    breaker.reconfigure(Some(config::Breaker::default()));
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn trial_blocks_others_for_as_long_as_the_breaker_was_open() {
    let (mut breaker, mut rng) = breaker();
    let now = fail_until_open(&mut breaker, &mut rng, Moment::ZERO) + Duration::from_secs(60);
    breaker.begin_trial(7);
    breaker.note_sent(7, now);
    let patience = now + breaker.open_for;
    assert!(matches!(breaker.admits(Moment(patience.0 - 1)), Admission::Blocked(Some(_))));
    assert!(matches!(breaker.admits(patience), Admission::Trial));
}

#[test]
fn concurrent_failures_count_once() {
    let (mut breaker, mut rng) = breaker();
    for call in 0..8 {
        assert_eq!(breaker.note(call, Sign::Broke(at(call), at(100)), at(100), &mut rng), None);
        assert_eq!(breaker.note(call, Sign::Failed(at(call), at(101)), at(101), &mut rng), None);
    }
    assert_eq!(breaker.row, 1);
    assert_eq!(breaker.window.counts(at(101)).failures, 9, "each answer is the server's own, the break is one");
}

#[test]
fn low_success_rate_opens_the_breaker() {
    let (mut breaker, mut rng) = breaker();
    let mut opened = None;
    for n in 0..30 {
        let sign = if n % 5 < 2 { Sign::Healthy } else { Sign::Failed(at(n * 500), at(n * 500 + 100)) };
        if let Some(Transition::Opened(_)) = breaker.note(n, sign, at(n * 500 + 100), &mut rng) {
            opened = Some((n, breaker.reason(false).to_string()));
            break;
        }
    }
    assert_eq!(opened, Some((9, "6 of the last 10 calls have failed".to_owned())));
}

#[test]
fn one_trial_at_a_time_and_two_answers_close_it() {
    let (mut breaker, mut rng) = breaker();
    let opened = fail_until_open(&mut breaker, &mut rng, at(0));
    assert!(matches!(breaker.admits(opened), Admission::Blocked(Some(_))));
    let later = opened + Duration::from_secs(6);
    assert_eq!(breaker.admits(later), Admission::Trial);
    assert_eq!(breaker.begin_trial(7), Some(Transition::HalfOpened));
    assert!(matches!(breaker.admits(later), Admission::Blocked(Some(_))), "one at a time");
    assert_eq!(breaker.note(3, Sign::Healthy, later, &mut rng), None);
    assert!(matches!(breaker.admits(later), Admission::Blocked(_)), "an earlier call is no trial");
    assert_eq!(breaker.note(7, Sign::Healthy, later, &mut rng), None);
    breaker.note_ended(7);
    assert_eq!(breaker.admits(later), Admission::Trial, "one may have been luck");
    assert_eq!(breaker.begin_trial(8), None);
    assert_eq!(breaker.note(8, Sign::Healthy, later, &mut rng), Some(Transition::Closed));
    assert!(breaker.is_healthy(later) && breaker.admits(later) == Admission::Allowed);
}

#[test]
fn failed_trial_doubles_the_open_time_up_to_the_cap() {
    let (mut breaker, mut rng) = breaker();
    let mut now = fail_until_open(&mut breaker, &mut rng, at(0));
    for seconds in [5u64, 10, 20, 40, 60, 60] {
        let (low, high) = (Duration::from_millis(seconds * 800), Duration::from_millis(seconds * 1_200));
        assert!((low..=high).contains(&breaker.open_for), "{:?} is not about {seconds} s", breaker.open_for);
        now = now + high;
        breaker.begin_trial(9);
        assert!(matches!(breaker.note(9, Sign::Broke(now, now), now, &mut rng), Some(Transition::Opened(..))));
    }
}

#[test]
fn configured_open_time_is_exact() {
    let minute = Duration::from_secs(60);
    let policy = config::Breaker { open_for: OpenFor::Exactly(minute), failures: 1, ..config::Breaker::default() };
    let (mut breaker, mut rng) = (Breaker::new(Some(policy)), SeededRng::new(1));
    for round in 0..3 {
        let now = Moment::ZERO + minute * round;
        breaker.begin_trial(1);
        assert!(
            matches!(breaker.note(1, Sign::Failed(now, now), now, &mut rng), Some(Transition::Opened(time)) if time == minute)
        );
    }
}

#[test]
fn inconclusive_or_slow_trial_does_not_block_the_next() {
    let (mut breaker, mut rng) = breaker();
    let mut now = fail_until_open(&mut breaker, &mut rng, at(0)) + Duration::from_secs(6);
    breaker.begin_trial(7);
    breaker.note_ended(6);
    assert!(matches!(breaker.admits(now), Admission::Blocked(_)), "the ended call was not the trial");
    breaker.note_ended(7);
    assert_eq!(breaker.admits(now), Admission::Trial);
    breaker.begin_trial(8);
    now = now + Duration::from_secs(60);
    assert!(matches!(breaker.admits(now), Admission::Blocked(_)), "the trial is not sent yet");
    breaker.note_sent(8, now);
    now = now + Duration::from_secs(6);
    assert_eq!(breaker.admits(now), Admission::Trial, "a slow trial blocks no other");
    breaker.note_waits(8);
    assert!(matches!(breaker.admits(now), Admission::Blocked(_)), "a trial that waits for its retry blocks the others");
    breaker.note_sent(8, now);
    now = now + Duration::from_secs(6);
    breaker.begin_trial(9);
    assert_eq!(breaker.note(8, Sign::Failed(at(0), now), now, &mut rng), None, "its end does not count any more");
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
}

#[test]
fn isolation_lasts_until_resumed() {
    let (mut breaker, mut rng) = breaker();
    assert!(breaker.isolate() && !breaker.isolate());
    assert_eq!(breaker.note(1, Sign::Healthy, at(1), &mut rng), None);
    assert_eq!(breaker.admits(at(10_000_000)), Admission::Blocked(None));
    assert!(breaker.resume() && !breaker.resume());
    assert_eq!(breaker.admits(at(1)), Admission::Allowed);
    let mut without = Breaker::new(None);
    for n in 0..100 {
        assert_eq!(
            without.note(n, Sign::Failed(at(n), at(n)), at(n), &mut rng),
            None,
            "without a policy nothing counts"
        );
    }
    assert!(without.isolate());
}

/// The inputs of the model test.
#[derive(Clone, Debug)]
enum Step {
    /// A call; if it is admitted, it ends like this after so many milliseconds.
    Call(u64, Fate),
    /// Time passes.
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    Failed,
    Broke,
    Silent,
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        4 => Just(Fate::Failed), 3 => Just(Fate::Answered), 2 => Just(Fate::Broke), 1 => Just(Fate::Silent),
    ];
    prop_oneof![3 => (1u64..3_000, fate).prop_map(|(took, fate)| Step::Call(took, fate)), 1 => (0u64..9_000).prop_map(Step::Pass)]
}

/// The model: all admitted calls in flight, and the results since the breaker last closed.
struct Model {
    policy: config::Breaker,
    breaker: Breaker,
    rng: SeededRng,
    now: Moment,
    /// The calls in flight: their ends, numbers, beginnings and results.
    out: Vec<(Moment, u64, Moment, Fate)>,
    /// Failures and successes since it last closed.
    signs: Vec<(Moment, bool)>,
    /// The calls that try it, and the time until which each blocks the next.
    trials: Vec<(u64, Moment)>,
    /// Answered trials since it last opened.
    answered: u32,
    /// The number of openings since it last closed.
    opened: u32,
}

impl Model {
    fn new(seed: u64) -> Model {
        let policy = config::Breaker::default();
        Model {
            policy,
            breaker: Breaker::new(Some(policy)),
            rng: SeededRng::new(seed),
            now: Moment::ZERO,
            out: Vec::new(),
            signs: Vec::new(),
            trials: Vec::new(),
            answered: 0,
            opened: 0,
        }
    }

    /// Begins a call if the breaker admits it. Returns whether it does.
    fn begin(&mut self, call: u64, took: u64, fate: Fate) -> Result<bool, TestCaseError> {
        let now = self.now;
        match (self.breaker.admits(now), self.breaker.state()) {
            (Admission::Allowed, state) => prop_assert_eq!(state, BreakerState::Closed),
            (Admission::Blocked(wait), _) => {
                let wait = wait.expect("it is not isolated");
                prop_assert!(wait > Duration::ZERO && wait <= Duration::from_secs(72));
                return Ok(false);
            }
            (Admission::Trial, _) => {
                self.trials.retain(|(_, patience)| *patience > now);
                prop_assert!(self.trials.is_empty(), "two try at once: {:?}", self.trials);
                self.breaker.begin_trial(call);
                self.breaker.note_sent(call, now);
                prop_assert!(self.breaker.is_tried_by(call));
                self.trials.push((call, now + self.breaker.open_for));
            }
        }
        self.out.push((now + Duration::from_millis(took), call, now, fate));
        Ok(true)
    }

    /// Ends the calls that are due until this time.
    fn end_calls(&mut self, until: Moment) -> Result<(), TestCaseError> {
        self.out.sort_by_key(|(at, call, ..)| (*at, *call));
        while let Some((at, call, began, fate)) = self.out.first().copied().filter(|(at, ..)| *at <= until) {
            self.out.remove(0);
            self.now = at;
            match fate {
                Fate::Answered => self.end(call, Sign::Healthy)?,
                Fate::Failed => self.end(call, Sign::Failed(began, at))?,
                Fate::Broke => self.end(call, Sign::Broke(began, at))?,
                Fate::Silent => self.forget(call),
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Ends a call with a result, and compares the transition with the model.
    fn end(&mut self, call: u64, sign: Sign) -> Result<(), TestCaseError> {
        let (before, was_trial) = (self.breaker.state(), self.breaker.is_tried_by(call));
        if before == BreakerState::Closed {
            self.signs.push((self.now, sign == Sign::Healthy));
        }
        let transition = self.breaker.note(call, sign, self.now, &mut self.rng);
        self.forget(call);
        self.answered += u32::from(was_trial && sign == Sign::Healthy);
        match transition {
            Some(Transition::Opened(time)) => self.check_opened(time, was_trial)?,
            Some(Transition::Closed) => {
                prop_assert!(was_trial && self.answered >= self.policy.successes);
                (self.answered, self.opened) = (0, 0);
                self.signs.clear();
            }
            Some(Transition::HalfOpened) => prop_assert!(false, "only a trial opens it by half"),
            None => prop_assert_eq!(self.breaker.state(), before),
        }
        Ok(())
    }

    fn forget(&mut self, call: u64) {
        self.breaker.note_ended(call);
        self.trials.retain(|(trial, _)| *trial != call);
    }

    /// Checks that the breaker had a reason to open, and the open time.
    fn check_opened(&mut self, time: Duration, was_trial: bool) -> Result<(), TestCaseError> {
        let (now, signs) = (self.now, &self.signs);
        let row = signs.iter().rev().take_while(|(_, well)| !well).count();
        // The window starts somewhere in its last slice.
        let ages = signs.iter().map(|(at, _)| now.since(*at));
        let reach = self.policy.window * 9 / 10..self.policy.window;
        let is_unhealthy = |back: Duration| {
            let young = signs.iter().filter(|(at, _)| now.since(*at) <= back);
            let (well, all) = young.fold((0, 0), |(well, all), (_, it)| (well + u32::from(*it), all + 1));
            all >= 10 && well * 2 < all
        };
        let reason =
            was_trial || row >= 5 || ages.filter(|age| reach.contains(age)).chain([reach.start]).any(is_unhealthy);
        prop_assert!(reason, "opened after {row} failures in a row of {signs:?}");
        let about = (5 << self.opened.min(4)).min(60) as f64;
        let ratio = time.as_secs_f64() / about;
        prop_assert!((0.79..=1.21).contains(&ratio), "{time:?} the {}th time", self.opened);
        self.opened += 1;
        self.answered = 0;
        self.signs.clear();
        self.trials.clear();
        Ok(())
    }

    /// Checks that after the open time a trial is admitted, and that two answered trials close the breaker.
    fn check_closes(&mut self) -> Result<(), TestCaseError> {
        self.now = self.now + Duration::from_secs(80);
        for call in 1_000..1_002 {
            if self.breaker.admits(self.now) == Admission::Trial {
                self.breaker.begin_trial(call);
            }
            self.breaker.note(call, Sign::Healthy, self.now, &mut self.rng);
            self.breaker.note_ended(call);
        }
        prop_assert_eq!(self.breaker.admits(self.now), Admission::Allowed);
        Ok(())
    }
}

proptest! {
    #[test]
    fn breaker_follows_the_model(steps in prop::collection::vec(step(), 1..250), seed: u64) {
        let mut model = Model::new(seed);
        for (call, step) in (0..).zip(steps) {
            let until = match step {
                Step::Pass(millis) => model.now + Duration::from_millis(millis),
                Step::Call(took, fate) => {
                    if !model.begin(call, took, fate)? {
                        continue;
                    }
                    model.now
                }
            };
            model.end_calls(until)?;
        }
        model.check_closes()?;
    }
}
