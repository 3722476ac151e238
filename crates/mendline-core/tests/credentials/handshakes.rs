//! Handshakes that are refused for their credential.

use super::*;

#[test]
fn a73_first_handshake_is_repeated_with_the_newer_credential() {
    let mut stage = of_kind(CredentialKind::Login);
    stage.client_sends(INITIALIZE);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    assert_eq!(stage.renewals, [(0, Challenge::Credential)]);
    assert!(stage.seen.is_empty());
    changed(&mut stage, 1);
    stage.answer_initialize("s1");
    assert_eq!(stage.client_reads().unwrap()["result"]["protocolVersion"], "2025-11-25");
    let lost = |event: &Event| matches!(event, Event::LinkStateChanged { to: LinkState::Waiting, .. });
    assert!(!stage.events.iter().any(lost), "no outage: {:?}", stage.log);
}

#[test]
fn first_handshake_without_login_is_answered_provisionally() {
    let mut stage = of_kind(CredentialKind::Login);
    stage.client_sends(INITIALIZE);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, CredentialError::NoLogin);
    let read = stage.run(defaults::GRACE_AFTER_FAILURE + MOMENT, refuse);
    let instructions = read[0].1["result"]["instructions"].as_str().unwrap().to_owned();
    assert!(
        instructions.contains("there is no login yet") && instructions.contains("`mendline login notes`"),
        "{instructions}"
    );
    stage.client_sends(INITIALIZED);
    stage.run(Duration::from_secs(60), refuse);
    assert_eq!(stage.renewals.len(), 1, "a login tells when it changes");
    // The login is done: the server is used at once.
    changed(&mut stage, 1);
    stage.client_sends(&call(1, "create_note"));
    let read = stage.run(Duration::from_millis(300), Stage::serve);
    let answers: Vec<_> = read.iter().filter(|(_, message)| message["id"] == 1).collect();
    assert_eq!(answers.len(), 1, "{read:?}");
    stage.client_sends(&call(2, "create_note"));
    let read = stage.run(Duration::from_secs(1), Stage::serve);
    assert!(
        read.iter().any(|(_, message)| message["id"] == 2 && message["result"] == serde_json::json!({})),
        "{read:?}"
    );
}

#[test]
fn only_the_handshake_probes_a_server_without_login() {
    let mut stage = of_kind(CredentialKind::Login);
    stage.client_sends(INITIALIZE);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, CredentialError::NoLogin);
    let mut probes = 0;
    stage.run(Duration::from_secs(60), |stage, seen| {
        assert_eq!(seen.method(), "initialize");
        probes += 1;
        refuse(stage, seen);
    });
    assert!((3..=6).contains(&probes), "{probes} probes in a minute");
}

#[test]
fn new_login_dials_a_server_that_is_not_dialed_by_itself() {
    use mendline_core::config::AutoReconnect;
    let mut stage = Stage::with(Dialect::Auto, |notes| {
        notes.keep_alive = None;
        notes.credential = CredentialKind::Login;
        notes.reconnect = AutoReconnect { enabled: Some(false), ..AutoReconnect::default() }.into();
    });
    changed(&mut stage, 1);
    let mut stage = stage.initialize_session();
    stage.client_sends(&call(1, "create_note"));
    stage.refuse_connection();
    stage.client_reads().unwrap();
    stage.client_sends(&call(2, "create_note"));
    stage.run(MOMENT, refuse);
    failed(&mut stage, CredentialError::LoginEnded);
    stage.run(Duration::from_secs(60), refuse);
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Idle));
    changed(&mut stage, 2);
    stage.run(MOMENT, Stage::serve);
    stage.client_sends(&call(3, "create_note"));
    let read = stage.run(MOMENT, Stage::serve);
    assert!(read.iter().any(|(_, it)| it["id"] == 3 && it["result"] == serde_json::json!({})), "{read:?}");
}

#[test]
fn handshake_during_a_long_renewal_is_answered_provisionally_and_sent_later() {
    let mut stage = of_kind(CredentialKind::Source);
    stage.client_sends(INITIALIZE);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, unavailable());
    let read = stage.run(Duration::from_secs(120), |_, seen| panic!("nothing is sent: {:?}", seen.ask));
    let [(at, answer)] = &read[..] else { panic!("{read:?}") };
    assert_eq!(at.since(Moment::ZERO), defaults::GRACE_AFTER_FAILURE);
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("the token endpoint answered HTTP 503"), "{instructions}");
    stage.client_sends(INITIALIZED);
    stage.client_sends(&call(1, "create_note"));
    changed(&mut stage, 1);
    let read = stage.run(Duration::from_secs(1), Stage::serve);
    assert!(
        read.iter().any(|(_, message)| message["id"] == 1 && message["result"] == serde_json::json!({})),
        "{read:?}"
    );
    assert_eq!(stage.renewals.len(), 1);
}

#[test]
fn replayed_handshake_and_its_calls_survive_an_expired_token() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 404, Content::Empty, None);
    stage.end(seen.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let handshake = stage.next_sent();
    assert_eq!(handshake.method(), "initialize");
    refuse(&mut stage, &handshake);
    assert_eq!(stage.renewals, ONE);
    stage.advance(Duration::from_secs(30));
    assert!(stage.seen.is_empty());
    changed(&mut stage, 2);
    let read = stage.run(Duration::from_secs(1), Stage::serve);
    assert_eq!((read.len(), &read[0].1["result"]), (1, &serde_json::json!({})), "{read:?}");
    let is_trouble = |event: &Event| {
        matches!(event, Event::SessionReplayFailed { .. } | Event::LinkStateChanged { to: LinkState::Waiting, .. })
    };
    assert!(!stage.events.iter().any(is_trouble), "no outage: {:?}", stage.log);
}

#[test]
fn refused_initialized_is_sent_again() {
    let mut stage = of_kind(CredentialKind::Login);
    changed(&mut stage, 1);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    stage.client_sends(INITIALIZED);
    let note = stage.next_sent();
    refuse(&mut stage, &note);
    stage.client_sends(&call(1, "create_note"));
    assert!(stage.seen.is_empty());
    changed(&mut stage, 2);
    complete_handshake(&mut stage);
    let seen = stage.next_sent();
    assert!(is_call(&seen));
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.renewals, ONE);
}
