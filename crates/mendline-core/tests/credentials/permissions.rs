//! Calls that need more permissions.

use super::*;

#[test]
fn a78_missing_permissions_concern_only_their_call() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.challenge_with(&seen, 403, Challenge::Scope);
    assert_eq!(stage.renewals, [(1, Challenge::Scope)]);
    stage.client_sends(&call(2, "create_note"));
    let other = stage.next_sent();
    stage.answer(&other, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2, "others are not held");
    failed(&mut stage, CredentialError::Scope { scopes: "notes:write".to_owned() });
    let answer = stage.client_reads().expect("at once");
    assert_eq!((failure(&answer)["reason"].as_str(), outcome(&answer)), (Some("insufficient_scope"), "refused"));
    assert!(text(&answer).contains("notes:write"), "{answer}");
    assert_eq!(state(&stage), CredentialState::Current);
    stage.answer_probe();
    stage.client_sends(&call(3, "create_note"));
    let seen = stage.next_sent();
    stage.challenge_with(&seen, 403, Challenge::Scope);
    let answer = stage.client_reads().expect("at once");
    assert!(text(&answer).contains("notes:write"), "{answer}");
    assert_eq!(stage.renewals.len(), 1, "this credential has no more permissions");
}

#[test]
fn a78_call_is_sent_again_with_more_permissions() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
    changed(&mut stage, 2);
    let seen = stage.next_sent();
    stage.challenge_with(&seen, 403, Challenge::Scope);
    assert_eq!(stage.renewals, [(1, Challenge::Credential), (2, Challenge::Scope)]);
    changed(&mut stage, 3);
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["result"], serde_json::json!({}));
}

#[test]
fn a78_invalid_credential_is_renewed_after_missing_permissions() {
    let mut stage = with_login();
    for id in [1, 2] {
        stage.client_sends(&call(id, "create_note"));
    }
    let (first, second) = (stage.next_sent(), stage.next_sent());
    stage.challenge_with(&first, 403, Challenge::Scope);
    refuse(&mut stage, &second);
    assert_eq!(stage.renewals, [(1, Challenge::Scope)], "one renewal at a time");
    failed(&mut stage, CredentialError::Scope { scopes: String::new() });
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.renewals, [(1, Challenge::Scope), (1, Challenge::Credential)]);
    changed(&mut stage, 2);
    let seen = stage.seen.iter().position(is_call).expect("the other call");
    let seen = stage.seen.remove(seen).unwrap();
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn notification_without_permissions_is_dropped_and_reported() {
    let mut stage = with_login();
    stage.client_sends(NOTIFICATION);
    let seen = stage.next_sent();
    stage.challenge_with(&seen, 403, Challenge::Scope);
    failed(&mut stage, CredentialError::Scope { scopes: "notes:write".to_owned() });
    assert!(stage.log.iter().any(|line| line.contains("it cannot be delivered")), "{:?}", stage.log);
}
