//! Notifications, streams and resumptions that are refused for their credential.

use super::*;

#[test]
fn refused_notification_is_sent_again_once() {
    let mut stage = with_login();
    stage.client_sends(NOTIFICATION);
    let note = stage.next_sent();
    refuse(&mut stage, &note);
    assert_eq!(stage.renewals, ONE);
    changed(&mut stage, 2);
    let note = stage.next_sent();
    assert_eq!(note.method(), "notifications/roots/list_changed");
    refuse(&mut stage, &note);
    assert!(stage.seen.is_empty());
    assert_eq!(stage.renewals, ONE, "no loop");
    assert!(stage.events.iter().any(|event| matches!(event, Event::MessageDropped { .. })));
}

/// Starts and cuts the response to an unsafe call, and returns the GET that resumes it.
fn resumed(stage: &mut Stage) -> (SentRequest, SentRequest) {
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, Some("e1"), "");
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.advance(defaults::RESUME_WAIT);
    let get = stage.next_sent();
    assert_eq!(get.header("last-event-id"), Some("e1"));
    (seen, get)
}

#[test]
fn a74_resumption_with_expired_token_is_repeated() {
    let mut stage = with_login();
    let (seen, mut get) = resumed(&mut stage);
    for number in 2..5 {
        refuse(&mut stage, &get);
        assert_eq!(stage.renewals.len() as u32, number - 1);
        assert!(stage.seen.is_empty() && stage.client_reads().is_none());
        stage.advance(Duration::from_secs(50));
        changed(&mut stage, number);
        stage.advance(Duration::ZERO);
        get = stage.next_sent();
        assert_eq!((get.ask.verb, get.header("last-event-id")), (Verb::Get, Some("e1")));
        stage.status(get.id, 200, Content::Events, None);
        stage.end(get.id, ExchangeEnd::Cut(CutReason::Reset));
        stage.advance(defaults::RESUME_WAIT);
        get = stage.next_sent();
    }
    stage.status(get.id, 200, Content::Events, None);
    stage.event(get.id, Some("e2"), &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, seen.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["result"], serde_json::json!({}));
}

#[test]
fn a74_resumption_without_newer_credential_is_unknown() {
    let mut stage = with_login();
    let (_, get) = resumed(&mut stage);
    refuse(&mut stage, &get);
    failed(&mut stage, CredentialError::LoginEnded);
    let answer = stage.client_reads().expect("at once");
    assert_eq!((outcome(&answer), &failure(&answer)["cause"]), ("unknown", &"outcome_unknown".into()), "{answer}");
}

#[test]
fn get_stream_is_opened_again_with_the_newer_credential() {
    for is_renewed in [true, false] {
        let mut stage = of_kind(CredentialKind::Login);
        changed(&mut stage, 1);
        stage.client_sends(INITIALIZE);
        stage.answer_initialize("s1");
        stage.client_reads().unwrap();
        let get = stage.send_initialized();
        refuse(&mut stage, &get);
        assert_eq!(stage.renewals, ONE);
        if !is_renewed {
            failed(&mut stage, CredentialError::LoginEnded);
            stage.advance(Duration::from_secs(300));
            assert!(stage.seen.iter().all(|seen| seen.ask.verb == Verb::Post));
        }
        stage.seen.clear();
        changed(&mut stage, 2);
        assert_eq!(stage.next_sent().ask.verb, Verb::Get, "renewed: {is_renewed}");
    }
}

#[test]
fn sse_stream_is_opened_again_with_the_newer_credential() {
    let mut stage = Stage::with(Dialect::Sse, |notes| {
        notes.keep_alive = None;
        notes.credential = CredentialKind::Login;
    });
    stage.client_sends(INITIALIZE);
    let get = stage.next_sent();
    refuse(&mut stage, &get);
    assert_eq!(stage.renewals, [(0, Challenge::Credential)]);
    stage.advance(Duration::from_secs(2));
    assert!(stage.seen.is_empty());
    changed(&mut stage, 1);
    let sse = stage.next_sent();
    assert_eq!(sse.ask.verb, Verb::Get);
    endpoint(&mut stage, sse.id, "/messages?s=1");
    assert_eq!(stage.next_sent().method(), "initialize");
    let lost = |event: &Event| matches!(event, Event::LinkStateChanged { to: LinkState::Waiting, .. });
    assert!(!stage.events.iter().any(lost), "no outage: {:?}", stage.log);
}

#[test]
fn sse_stream_without_login_is_requested_when_the_login_is_done() {
    let mut stage = Stage::with(Dialect::Sse, |notes| {
        notes.keep_alive = None;
        notes.credential = CredentialKind::Login;
    });
    stage.client_sends(INITIALIZE);
    let get = stage.next_sent();
    refuse(&mut stage, &get);
    failed(&mut stage, CredentialError::NoLogin);
    stage.run(Duration::from_secs(100), refuse);
    assert_eq!(stage.renewals.len(), 1);
    changed(&mut stage, 1);
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.next_sent().ask.verb, Verb::Get);
}
