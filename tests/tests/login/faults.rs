//! A token endpoint that fails, and a login that the provider has ended.

use std::time::Duration;

use mendline_faults::{AuthorizationSettings, TokenFault};
use mendline_peers::processes::eventually;

use crate::stage::{SOON, Stage, call, needs_login, until_it_works};

#[test]
fn passing_faults_of_the_token_endpoint_end_no_login() {
    let stage = Stage::logged_in(AuthorizationSettings { access_seconds: 3, ..AuthorizationSettings::default() });
    let mut caller = stage.start(0);
    let faults = [
        TokenFault::Status { status: 503, retry_after: None },
        TokenFault::Status { status: 500, retry_after: None },
        TokenFault::Status { status: 429, retry_after: Some(1) },
        TokenFault::Html,
        TokenFault::WrongJson,
        TokenFault::ErrorInSuccess("temporarily_unavailable".to_owned()),
        TokenFault::Cut,
        // One wrong refusal is not the end of a login.
        TokenFault::Error("invalid_grant".to_owned()),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let met = stage.authorization.counts().token_faults;
        stage.authorization.fail_token(fault.clone(), 1);
        // Calls go on until a renewal has met the fault.
        for attempt in 0.. {
            let answer = call(&mut caller, "lookup", &format!("w{number}-{attempt}"));
            assert!(!needs_login(&answer), "{fault:?}: {answer}\n{}", caller.log());
            if stage.authorization.counts().token_faults > met {
                break;
            }
            assert!(attempt < 200, "no renewal\n{}", caller.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        let others = until_it_works(&mut caller, &format!("f{number}"));
        assert!(others.iter().all(|answer| !needs_login(answer)), "{fault:?}: {others:?}");
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, stage.home.visits()), (1, 0, 1), "{counts:?}");
}

#[test]
fn revoked_login_needs_a_login_and_makes_few_requests() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    let mut caller = stage.start(0);
    stage.authorization.revoke_all();
    let answer = call(&mut caller, "lookup", "k");
    assert!(needs_login(&answer), "{answer}\n{}", caller.log());
    // Calls are sent until a probe is refused, too.
    let is_known = eventually(SOON, || {
        let before = stage.authorization.counts().refused();
        assert!(needs_login(&call(&mut caller, "lookup", "probed")));
        stage.authorization.counts().refused() == before
    });
    assert!(is_known, "{}", caller.log());
    let before = stage.authorization.counts();
    for number in 0..50 {
        assert!(needs_login(&call(&mut caller, "lookup", &format!("k{number}"))));
    }
    let after = stage.authorization.counts();
    assert!(after.token_requests - before.token_requests <= 2, "{before:?} {after:?}");
    assert!(after.refused() - before.refused() <= 4, "{before:?} {after:?}");
    stage.home.login().unwrap();
    until_it_works(&mut caller, "again");
    assert_eq!(stage.authorization.counts().logins, 2);
}
