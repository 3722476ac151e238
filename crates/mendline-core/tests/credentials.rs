//! Credentials that are renewed: once for all refused requests, which are sent again once.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{CredentialKind, Dialect};
use mendline_core::event::CredentialState;
use mendline_core::port::{Challenge, Content, ExchangeEnd, Verb};
use mendline_core::reason::{CredentialError, CutReason};
use mendline_core::status::Status;
use mendline_core::{Event, Input, LinkState, Moment, defaults};
use serde_json::Value;
use stage::http::{INITIALIZE, NOTES, SentRequest, Stage, call, complete_handshake, endpoint, outcome};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
const MOMENT: Duration = Duration::from_millis(10);

fn of_kind(kind: CredentialKind) -> Stage {
    Stage::with(Dialect::Auto, |notes| {
        notes.keep_alive = None;
        notes.credential = kind;
    })
}

/// Creates an initialized stage whose credential has the number 1.
fn with_login() -> Stage {
    with_kind(CredentialKind::Login)
}

fn with_kind(kind: CredentialKind) -> Stage {
    let mut stage = of_kind(kind);
    changed(&mut stage, 1);
    stage.initialize_session()
}

fn changed(stage: &mut Stage, number: u32) {
    stage.input(Input::CredentialChanged { upstream: NOTES, number });
}

fn failed(stage: &mut Stage, why: CredentialError) {
    stage.input(Input::CredentialFailed { upstream: NOTES, why });
}

fn unavailable() -> CredentialError {
    CredentialError::Unavailable { why: "the token endpoint answered HTTP 503".to_owned() }
}

fn failure(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.mendline/failure"]
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn refuse(stage: &mut Stage, seen: &SentRequest) {
    stage.challenge(seen, 401);
}

fn is_call(seen: &SentRequest) -> bool {
    seen.ask.verb == Verb::Post && seen.json()["method"] == "tools/call"
}

fn state(stage: &Stage) -> CredentialState {
    let mut status = Status::default();
    stage.events.iter().for_each(|event| status.apply(event));
    status.upstreams[&NOTES].credential.clone().unwrap().state
}

const ONE: [(u32, Challenge); 1] = [(1, Challenge::Credential)];

#[test]
fn a73_refused_calls_share_one_renewal_and_are_sent_again_once() {
    let mut stage = with_login();
    for id in 1..=3 {
        stage.client_sends(&call(id, "create_note"));
    }
    for _ in 1..=3 {
        let seen = stage.next_sent();
        refuse(&mut stage, &seen);
    }
    assert_eq!(stage.renewals, ONE);
    assert_eq!(state(&stage), CredentialState::Renewing);
    // New calls and notifications are not sent with a refused credential.
    stage.client_sends(&call(4, "create_note"));
    stage.client_sends(NOTIFICATION);
    assert!(stage.seen.is_empty() && stage.client_reads().is_none());
    changed(&mut stage, 2);
    let sent: Vec<_> = stage.seen.iter().filter(|seen| is_call(seen)).map(|seen| seen.json()["id"].clone()).collect();
    assert_eq!((sent.len(), stage.seen.len()), (4, 5), "{sent:?}");
    let read = stage.run(MOMENT, Stage::serve);
    assert_eq!(read.len(), 4, "{read:?}");
    assert!(read.iter().all(|(_, answer)| answer["result"] == serde_json::json!({})), "{read:?}");
    assert_eq!((stage.renewals.len(), state(&stage)), (1, CredentialState::Current));
    assert!(
        !stage.events.iter().any(|event| matches!(event, Event::ServerSuspected { .. } | Event::LoginRequired { .. }))
    );
}

#[test]
fn a73_a_thousand_calls_meet_an_expired_token_with_one_renewal() {
    let mut stage = with_login();
    for id in 1..=1000 {
        stage.client_sends(&call(id, "create_note"));
    }
    let read = stage.run(MOMENT, refuse);
    assert_eq!((read.len(), stage.renewals.len()), (0, 1));
    changed(&mut stage, 2);
    let mut executed = 0;
    let read = stage.run(Duration::from_secs(1), |stage, seen| {
        executed += usize::from(is_call(seen));
        stage.serve(seen);
    });
    assert_eq!((read.len(), executed, stage.renewals.len()), (1000, 1000, 1));
    assert!(read.iter().all(|(_, answer)| answer["result"] == serde_json::json!({})));
}

#[test]
fn attempts_and_budget_are_not_spent_by_expired_tokens() {
    let mut stage = with_login();
    for number in 1..60 {
        stage.client_sends(&call(number, "create_note"));
        let seen = stage.next_sent();
        refuse(&mut stage, &seen);
        assert_eq!(stage.renewals.len() as u32, number);
        changed(&mut stage, number + 1);
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        assert_eq!(stage.client_reads().unwrap()["result"], serde_json::json!({}), "{number}");
    }
    assert!(
        !stage.events.iter().any(|event| matches!(event, Event::RetryRefused { .. } | Event::BreakerOpened { .. }))
    );
}

#[test]
fn refusal_of_an_older_credential_is_repeated_at_once() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    changed(&mut stage, 2);
    refuse(&mut stage, &seen);
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.renewals, []);
}

#[test]
fn a77_refusal_with_the_newer_credential_needs_login_at_once() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    changed(&mut stage, 2);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    let answer = stage.client_reads().expect("at once");
    assert_eq!((failure(&answer)["cause"].as_str(), outcome(&answer)), (Some("needs_login"), "refused"));
    assert!(text(&answer).ends_with("Ask the user to run `mendline login notes`."), "{answer}");
    assert_eq!((stage.renewals.len(), state(&stage)), (1, CredentialState::Refused));
    stage.refuse_probe(401);
    stage.client_sends(&call(2, "create_note"));
    assert_eq!(failure(&stage.client_reads().expect("at once"))["cause"], "needs_login");
}

#[test]
fn a77_server_that_refuses_every_token_is_asked_at_the_pace_of_probes() {
    let mut stage = with_login();
    let mut number = 1;
    let mut requests = 0;
    for id in 1..=3600 {
        stage.client_sends(&call(id, "create_note"));
        let read = stage.run(Duration::from_secs(1), |stage, seen| {
            requests += 1;
            refuse(stage, seen);
            if stage.renewals.len() >= number as usize {
                number += 1;
                changed(stage, number);
            }
        });
        assert!(read.iter().all(|(_, answer)| failure(answer)["cause"] == "needs_login"), "{read:?}");
    }
    assert!((10..25).contains(&stage.renewals.len()), "{} renewals in an hour", stage.renewals.len());
    assert!(requests < 60, "{requests} requests in an hour");
    // The server accepts the next one.
    number += 1;
    changed(&mut stage, number);
    stage.run(MOMENT, Stage::serve);
    stage.client_sends(&call(9999, "create_note"));
    assert_eq!(stage.run(MOMENT, Stage::serve)[0].1["result"], serde_json::json!({}));
}

#[test]
fn source_without_newer_credential_fails_sent_and_unsent_calls() {
    let cases = [
        (CredentialKind::Login, CredentialError::NoLogin, "there is no login yet"),
        (CredentialKind::Login, CredentialError::Unchanged, "HTTP 401"),
        (
            CredentialKind::Source,
            CredentialError::VariableMissing { name: "TOKEN".into() },
            "the variable TOKEN is not set",
        ),
    ];
    for (kind, why, expected) in cases {
        let mut stage = with_kind(kind);
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        refuse(&mut stage, &seen);
        stage.client_sends(&call(2, "create_note"));
        failed(&mut stage, why);
        let (first, second) = (stage.client_reads().unwrap(), stage.client_reads().unwrap());
        for (answer, expected_outcome) in [(&first, "refused"), (&second, "not_sent")] {
            assert_eq!((failure(answer)["cause"].as_str(), outcome(answer)), (Some("needs_login"), expected_outcome));
            assert!(text(answer).contains(expected), "{answer}");
            assert_eq!(text(answer).contains("mendline login notes"), kind == CredentialKind::Login, "{answer}");
        }
        assert_eq!(state(&stage), CredentialState::Refused);
        stage.refuse_probe(401);
        assert!(stage.events.iter().any(|event| matches!(event, Event::LoginRequired { .. })));
        assert_eq!(stage.renewals, ONE);
    }
}

#[test]
fn refused_credential_reported_again_is_no_newer_one() {
    let mut stage = with_login();
    changed(&mut stage, 1);
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    changed(&mut stage, 1);
    assert_eq!(failure(&stage.client_reads().expect("at once"))["cause"], "needs_login");
}

#[test]
fn a75_failure_that_can_pass_lets_calls_wait_for_recovery() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, unavailable());
    stage.client_sends(&call(2, "create_note"));
    let recovery = Duration::from_secs(45);
    assert_eq!(stage.run(recovery - MOMENT * 2, Stage::serve), []);
    failed(&mut stage, unavailable());
    let read = stage.run(MOMENT * 4, Stage::serve);
    assert_eq!(read.len(), 2, "{read:?}");
    for ((_, answer), expected) in read.iter().zip(["refused", "not_sent"]) {
        assert_eq!((failure(answer)["cause"].as_str(), outcome(answer)), (Some("unavailable"), expected), "{answer}");
        assert_eq!(failure(answer)["retryable"], true);
        assert!(text(answer).contains("the token endpoint answered HTTP 503"), "{answer}");
    }
    stage.client_sends(&call(3, "create_note"));
    changed(&mut stage, 2);
    assert_eq!(stage.run(MOMENT, Stage::serve)[0].1["result"], serde_json::json!({}));
    assert_eq!(stage.renewals, ONE, "the shell goes on by itself");
}

#[test]
fn a80_source_that_hangs_ends_no_call_before_its_time() {
    let mut stage = with_kind(CredentialKind::Source);
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    let read = stage.run(Duration::from_secs(46), |_, seen| panic!("nothing is sent: {:?}", seen.ask));
    let [(at, answer)] = &read[..] else { panic!("{read:?}") };
    assert!(at.since(Moment::ZERO) >= Duration::from_secs(45));
    assert_eq!((failure(answer)["cause"].as_str(), outcome(answer)), (Some("unavailable"), "refused"), "{answer}");
    assert_eq!(failure(answer)["reason"], "credential_renewal");
}

#[test]
fn fixed_credential_is_never_renewed() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    assert_eq!(failure(&stage.client_reads().expect("at once"))["cause"], "needs_login");
    assert_eq!(stage.renewals, []);
}

#[test]
fn error_body_of_a_refused_credential_is_no_answer() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.refuse(&seen, 401, -32001, "token expired");
    assert_eq!((stage.client_reads(), stage.renewals.len()), (None, 1));
    changed(&mut stage, 2);
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["result"], serde_json::json!({}));
}

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

#[test]
fn probe_of_a_suspect_server_is_repeated_after_a_renewal() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.page(&seen, 503);
    let probe = stage.next_probe();
    refuse(&mut stage, &probe);
    assert_eq!(stage.renewals, ONE);
    stage.advance(Duration::from_secs(20));
    changed(&mut stage, 2);
    stage.answer_probe();
    assert_eq!(outcome(&stage.client_reads().expect("the verdict")), "unknown");
    stage.client_sends(&call(2, "create_note"));
    assert!(is_call(&stage.next_sent()));
}

#[test]
fn keep_alive_ping_with_expired_token_renews_before_a_call() {
    let mut stage = Stage::with(Dialect::Auto, |notes| notes.credential = CredentialKind::Login);
    changed(&mut stage, 1);
    let mut stage = stage.initialize_session();
    stage.advance(defaults::KEEP_ALIVE);
    let ping = stage.next_sent();
    assert_eq!(ping.method(), "ping");
    refuse(&mut stage, &ping);
    assert_eq!(stage.renewals, ONE);
    stage.advance(Duration::from_secs(60));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up), "a renewal is no silence of the server");
    changed(&mut stage, 2);
    assert_eq!(stage.next_sent().method(), "ping");
}

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
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
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
fn new_login_is_probed_at_once_and_ends_needs_login() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, CredentialError::LoginEnded);
    stage.client_reads().unwrap();
    stage.run(Duration::from_secs(400), refuse);
    changed(&mut stage, 2);
    stage.advance(Duration::ZERO);
    let probe = stage.next_sent();
    assert!(probe.is_probe());
    stage.answer(&probe, "{}");
    assert!(stage.events.iter().any(|event| matches!(event, Event::LoginAccepted { .. })));
    stage.client_sends(&call(2, "create_note"));
    assert!(is_call(&stage.next_sent()));
    assert_eq!(stage.renewals, ONE);
}

#[test]
fn failed_source_is_asked_again_at_the_pace_of_probes() {
    let mut stage = with_kind(CredentialKind::Source);
    stage.client_sends(&call(1, "create_note"));
    stage.run(MOMENT, refuse);
    failed(&mut stage, CredentialError::Command { why: "exit code 1".to_owned() });
    let mut asked = 1;
    for _ in 0..600 {
        stage.run(Duration::from_secs(1), refuse);
        if stage.renewals.len() > asked {
            asked = stage.renewals.len();
            failed(&mut stage, CredentialError::Command { why: "exit code 1".to_owned() });
        }
    }
    assert!((5..10).contains(&asked), "{asked} times in ten minutes");
    // The command works again, and the next probe finds out.
    let mut number = 1;
    stage.run(defaults::LOGIN_PROBE_CAP, |stage, seen| {
        if number == 2 {
            return stage.serve(seen);
        }
        refuse(stage, seen);
        if stage.renewals.len() > asked {
            number = 2;
            changed(stage, 2);
        }
    });
    stage.client_sends(&call(2, "create_note"));
    assert_eq!(stage.run(MOMENT, Stage::serve).last().unwrap().1["result"], serde_json::json!({}));
}

#[test]
fn scenario_l_other_calls_in_flight_stay_and_succeed() {
    let mut stage = with_login();
    for id in 1..=31 {
        stage.client_sends(&call(id, "create_note"));
    }
    let in_flight: Vec<_> = (1..=31).map(|_| stage.next_sent()).collect();
    refuse(&mut stage, &in_flight[0]);
    failed(&mut stage, CredentialError::LoginEnded);
    assert_eq!(stage.client_reads().expect("at once")["id"], 1);
    stage.refuse_probe(401);
    for seen in &in_flight[1..] {
        stage.answer(seen, "{}");
        assert_eq!(stage.client_reads().unwrap()["result"], serde_json::json!({}));
    }
}

#[test]
fn another_target_forgets_refusals() {
    use mendline_core::UpstreamConfig;
    use mendline_core::port::Change;
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    let mut config = UpstreamConfig::http("notes", "https://other.example/mcp", Dialect::Auto);
    config.credential = CredentialKind::Source;
    stage.input(Input::Reconfigure { upstream: NOTES, config: Box::new(config), change: Change::Transport });
    let read = stage.run(Duration::from_secs(1), Stage::serve);
    assert!(
        read.iter().any(|(_, message)| message["id"] == 1 && message["result"] == serde_json::json!({})),
        "{read:?}"
    );
}

#[test]
fn status_folds_number_renewals_and_failures() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, unavailable());
    changed(&mut stage, 2);
    let mut status = Status::default();
    stage.events.iter().for_each(|event| status.apply(event));
    let credential = status.upstreams[&NOTES].credential.clone().unwrap();
    assert_eq!((credential.number, credential.renewals, credential.failures, credential.why), (2, 1, 1, None));
    let names: Vec<_> = stage.events.iter().map(Event::name).filter(|name| name.starts_with("credential_")).collect();
    let expected =
        ["credential_renewed", "credential_renewal_started", "credential_renewal_failed", "credential_renewed"];
    assert_eq!(names, expected);
}
