//! Tokens that expire or are refused while clients call.

use mendline_faults::{AuthorizationSettings, TokenFault};
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
