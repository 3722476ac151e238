//! Tokens that expire or are refused while clients call.

use mendline_faults::{AuthorizationSettings, TokenFault};
use rustix::process::Signal;
use serde_json::json;

use crate::client::{SOON, eventually, failure};
use crate::stage::Stage;

#[test]
fn expired_token_is_renewed_and_the_call_runs_once() {
    let stage = Stage::new();
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    stage.authorization.expire_access_tokens();
    for number in 0..8 {
        let key = format!("k{number}");
        client.call(&key, "create_note", &json!({ "key": key }));
    }
    for number in 0..8 {
        let key = format!("k{number}");
        let answer = client.answer(&key);
        assert_eq!(answer["result"]["content"][0]["text"], format!("wrote {key}"), "{answer}");
        assert_eq!(stage.executions(&key), 1);
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.refreshes, counts.logins, counts.reuses), (1, 1, 0), "{counts:?}");
}

#[test]
fn login_survives_a_restart_and_many_expiries() {
    let stage = Stage::with(AuthorizationSettings { access_seconds: 1, ..AuthorizationSettings::default() });
    stage.log_in();
    for round in 0..3 {
        let mut client = stage.client(&[]);
        client.initialize();
        let before = stage.authorization.counts().refreshes;
        let mut number = 0;
        eventually("the token was renewed", SOON, || {
            number += 1;
            let key = format!("r{round}n{number}");
            let result = client.result(&key, "create_note", &json!({ "key": key }));
            assert_eq!(result["content"][0]["text"], format!("wrote {key}"), "{result}");
            stage.authorization.counts().refreshes > before
        });
        // A renewal may be under way; its token must not be lost.
        client.stdin = None;
        assert_eq!(client.exit_code(SOON), Some(0));
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses), (1, 0), "{counts:?}");
}

#[test]
fn failing_provider_ends_no_login() {
    let stage = Stage::new();
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    stage.authorization.fail_token(TokenFault::Status { status: 503, retry_after: None }, 1);
    stage.authorization.fail_token(TokenFault::Html, 1);
    stage.authorization.expire_access_tokens();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(result["content"][0]["text"], "wrote a", "{result}");
    assert_eq!(stage.authorization.counts().logins, 1);
}

#[test]
fn revoked_login_is_reported_with_the_command() {
    let stage = Stage::new();
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    stage.authorization.revoke_all();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("`mendline login notes`"), "{result}");
    let status = stage.run(&["status", "notes"]);
    assert!(status.stdout.contains("mendline login notes") && !status.stdout.contains("canary"), "{status:?}");
    let doctor = stage.run(&["doctor", "notes"]);
    assert!(doctor.code == Some(6) && doctor.stdout.contains("mendline login notes"), "{doctor:?}");
}

#[test]
fn client_that_leaves_during_a_renewal_loses_no_login() {
    let stage = Stage::new();
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    // The provider has rotated the token, and its answer is on the way.
    stage.authorization.fail_token(TokenFault::SlowAfterProcessing(1500), 1);
    stage.authorization.expire_access_tokens();
    client.call("a", "lookup", &json!({ "key": "a" }));
    eventually("the token is rotated", SOON, || stage.authorization.counts().refreshes == 1);
    client.signal(Signal::TERM);
    client.signal(Signal::TERM);
    client.exit_code(SOON);
    let mut client = stage.client(&[]);
    client.initialize();
    let result = client.result("b", "create_note", &json!({ "key": "b" }));
    assert_eq!(result["content"][0]["text"], "wrote b", "{result}");
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, counts.refreshes), (1, 0, 1), "{counts:?}");
}

#[test]
fn token_that_expired_during_a_suspension_is_renewed_before_the_call() {
    let stage = Stage::with(AuthorizationSettings { access_seconds: 4, ..AuthorizationSettings::default() });
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    let refused = stage.authorization.counts().refused_token;
    client.signal(Signal::STOP);
    let before = stage.authorization.counts().refreshes;
    let begun = std::time::Instant::now();
    eventually("the token has expired", SOON, || begun.elapsed() > std::time::Duration::from_secs(5));
    client.call("a", "create_note", &json!({ "key": "a" }));
    client.signal(Signal::CONT);
    let answer = client.answer("a");
    assert_eq!(answer["result"]["content"][0]["text"], "wrote a", "{answer}");
    let counts = stage.authorization.counts();
    assert_eq!((counts.refused_token, counts.refreshes), (refused, before + 1), "nothing was refused: {counts:?}");
}

#[test]
fn pause_of_the_token_endpoint_is_kept_by_all_processes() {
    let stage = Stage::new();
    stage.log_in();
    let mut client = stage.client(&["--recovery-timeout", "3s"]);
    client.initialize();
    stage.authorization.fail_token(TokenFault::Status { status: 429, retry_after: Some(600) }, 1);
    stage.authorization.expire_access_tokens();
    let result = client.result("a", "lookup", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "unavailable", "{result}");
    let requests = stage.authorization.counts().token_requests;
    for _ in 0..3 {
        let called = stage.run(&["call", "--timeout", "2s", "notes", "lookup", "--arg", "key=b"]);
        assert_ne!(called.code, Some(0), "{called:?}");
    }
    assert_eq!(stage.authorization.counts().token_requests, requests);
    // A person who logs in is not stopped.
    stage.log_in();
    stage.until_calls_work(&mut client);
}
