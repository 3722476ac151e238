//! One renewal for all refused requests, which are sent again once.

use super::*;

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
fn refused_credential_reported_again_is_no_newer_one() {
    let mut stage = with_login();
    changed(&mut stage, 1);
    refused_call(&mut stage, 1);
    changed(&mut stage, 1);
    assert_eq!(failure(&stage.client_reads().expect("at once"))["cause"], "needs_login");
}

#[test]
fn a75_failure_that_can_pass_lets_calls_wait_for_recovery() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
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
    refused_call(&mut stage, 1);
    let read = stage.run(Duration::from_secs(46), |_, seen| panic!("nothing is sent: {:?}", seen.ask));
    let [(at, answer)] = &read[..] else { panic!("{read:?}") };
    assert!(at.since(Moment::ZERO) >= Duration::from_secs(45));
    assert_eq!((failure(answer)["cause"].as_str(), outcome(answer)), (Some("unavailable"), "refused"), "{answer}");
    assert_eq!(failure(answer)["reason"], "credential_renewal");
}

#[test]
fn fixed_credential_is_never_renewed() {
    let mut stage = Stage::initialized();
    refused_call(&mut stage, 1);
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
fn another_target_forgets_refusals() {
    use mendline_core::UpstreamConfig;
    use mendline_core::port::Change;
    let mut stage = with_login();
    refused_call(&mut stage, 1);
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
    refused_call(&mut stage, 1);
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

#[test]
fn refused_attempt_does_not_count_against_the_limit() {
    let mut stage = of_kind_with(CredentialKind::Login, 2);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:1"}}"#);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    changed(&mut stage, 2);
    stage.advance(MOMENT);
    let second = stage.next_sent();
    assert_eq!(second.method(), "resources/read");
    stage.end(second.id, ExchangeEnd::Cut(CutReason::Reset));
    let read = stage.run(Duration::from_secs(10), Stage::serve);
    assert_eq!(read.last().unwrap().1["result"], serde_json::json!({}), "{read:?}");
}

/// Creates an initialized stage with this number of attempts, whose credential has the number 1.
fn of_kind_with(kind: CredentialKind, attempts: u32) -> Stage {
    let mut stage = Stage::with(Dialect::Auto, |notes| {
        (notes.keep_alive, notes.credential, notes.retry.attempts) = (None, kind, attempts);
    });
    changed(&mut stage, 1);
    stage.initialize_session()
}

#[test]
fn refused_attempt_is_counted_in_log_of_silent_call() {
    let mut stage = with_login();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:1"}}"#);
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    changed(&mut stage, 2);
    stage.advance(MOMENT);
    assert_eq!(stage.next_sent().method(), "resources/read");
    stage.advance(defaults::SILENCE);
    let ping = stage.next_sent();
    stage.answer(&ping, "{}");
    assert!(stage.log.iter().any(|line| line.contains("(attempt 3 of 4)")), "{:?}", stage.log);
}
