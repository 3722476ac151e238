//! Mendline is killed at each step of a renewal.

use std::time::Duration;

use mendline_faults::{AuthorizationSettings, TokenFault};
use mendline_peers::processes::eventually;
use serde_json::json;

use crate::stage::{SOON, Stage, call, needs_login, shake_hands, succeeded, until_it_works};

/// Makes a call that needs a refresh and kills Mendline when the condition holds.
fn killed_during_refresh(stage: &Stage, number: usize, is_time: impl Fn(&Stage) -> bool) {
    let mut caller = stage.start(number);
    stage.authorization.expire_access_tokens();
    let _ = caller.call("killed", "lookup", &json!({ "key": "killed" }));
    assert!(eventually(SOON, || is_time(stage)), "the moment never came\n{}", caller.log());
    caller.kill();
}

#[test]
fn kill_before_the_rotation_loses_no_login() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    for round in 0..3 {
        let faults = stage.authorization.counts().token_faults;
        stage.authorization.fail_token(TokenFault::Hang, 1);
        killed_during_refresh(&stage, round, |stage| stage.authorization.counts().token_faults > faults);
        let mut caller = stage.start(100 + round);
        let answer = call(&mut caller, "lookup", "k");
        assert!(succeeded(&answer), "{answer}\n{}", caller.log());
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, counts.refreshes), (1, 0, 3), "{counts:?}");
}

#[test]
fn kill_between_rotation_and_receipt_needs_one_login() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    stage.authorization.fail_token(TokenFault::HangAfterProcessing, 1);
    killed_during_refresh(&stage, 0, |stage| stage.authorization.counts().refreshes == 1);
    let mut caller = stage.home.start(1, &["--login", "never"]).unwrap();
    shake_hands(&mut caller);
    let answer = call(&mut caller, "lookup", "k");
    assert!(needs_login(&answer), "{answer}\n{}", caller.log());
    stage.home.login().unwrap();
    until_it_works(&mut caller, "again");
    assert_eq!(stage.authorization.counts().logins, 2);
}

#[test]
fn kill_at_any_time_after_receipt_loses_no_login() {
    // The server accepts a rotated token again, so that only a damaged store can lose the login.
    let stage = Stage::logged_in(AuthorizationSettings { reuse_grace_ms: 60_000, ..AuthorizationSettings::default() });
    let rounds: u64 = 20;
    for round in 0..rounds {
        let mut caller = stage.start(usize::try_from(round).unwrap());
        stage.authorization.expire_access_tokens();
        let requests = stage.authorization.counts().token_requests;
        let _ = caller.call("killed", "lookup", &json!({ "key": "killed" }));
        assert!(eventually(SOON, || stage.authorization.counts().token_requests > requests), "{}", caller.log());
        std::thread::sleep(Duration::from_micros(500 * round));
        caller.kill();
    }
    let mut caller = stage.start(1000);
    let answer = call(&mut caller, "create_note", "k");
    assert!(succeeded(&answer), "{answer}\n{}", caller.log());
    let counts = stage.authorization.counts();
    println!("killed {rounds} times during a refresh: {} refreshes, {} reuses", counts.refreshes, counts.reuses);
    assert_eq!((counts.logins, counts.reuses), (1, 0), "{counts:?}");
}
