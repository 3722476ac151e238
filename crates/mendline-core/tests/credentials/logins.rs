//! A server that needs a login, and its probes.

use super::*;

#[test]
fn a77_refusal_with_the_newer_credential_needs_login_at_once() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
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
        refused_call(&mut stage, 1);
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
fn new_login_is_probed_at_once_and_ends_needs_login() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
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
fn limit_of_fruitless_requests_stops_probes_until_it_ends() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
    failed(&mut stage, CredentialError::LoginEnded);
    stage.client_reads().unwrap();
    stage.refuse_probe(401);
    failed(&mut stage, CredentialError::FruitlessLimit { count: 300 });
    stage.run(Duration::from_secs(2 * 60 * 60), |_, seen| panic!("nothing is sent at the limit: {:?}", seen.ask));
    stage.client_sends(&call(2, "create_note"));
    let answer = stage.client_reads().expect("at once");
    assert!(text(&answer).contains("300 requests without a valid credential"), "{answer}");
    assert!(text(&answer).contains("mendline login notes"), "{answer}");
    failed(&mut stage, CredentialError::LoginEnded);
    stage.advance(Duration::ZERO);
    assert!(stage.next_sent().is_probe(), "the next day has begun");
    assert_eq!(stage.renewals, ONE);
}

#[test]
fn another_credential_ends_the_limit_of_fruitless_requests() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
    failed(&mut stage, CredentialError::FruitlessLimit { count: 300 });
    stage.client_reads().unwrap();
    stage.refuse_probe(401);
    stage.run(Duration::from_secs(3600), |_, seen| panic!("nothing is sent at the limit: {:?}", seen.ask));
    changed(&mut stage, 2);
    stage.advance(Duration::ZERO);
    stage.answer_probe();
    stage.client_sends(&call(2, "create_note"));
    assert!(is_call(&stage.next_sent()));
}

#[test]
fn reconnect_by_the_operator_allows_another_renewal() {
    let mut stage = with_login();
    refused_call(&mut stage, 1);
    failed(&mut stage, CredentialError::LoginEnded);
    stage.client_reads().unwrap();
    stage.run(Duration::from_secs(600), refuse);
    assert_eq!(stage.renewals, ONE, "a login is not renewed again by itself");
    stage.input(Input::Reconnect { upstream: NOTES });
    stage.run(Duration::from_secs(1), refuse);
    assert_eq!(stage.renewals.len(), 2);
}

/// A modern client whose first request was refused, while a person logs in.
fn pending_negotiation() -> Stage {
    let mut stage = of_kind(CredentialKind::Login);
    stage.client_sends(&modern(1, "server/discover", ""));
    let seen = stage.next_sent();
    refuse(&mut stage, &seen);
    failed(&mut stage, CredentialError::LoginPending);
    stage
}

#[test]
fn first_request_of_a_modern_client_waits_for_the_person() {
    let mut stage = pending_negotiation();
    assert_eq!(stage.run(Duration::from_secs(30), refuse), [], "the client would end, and the login with it");
    stage.client_sends(&modern(2, "tools/list", ""));
    let read = stage.run(MOMENT, refuse);
    let [(_, list)] = &read[..] else { panic!("other requests are answered at once: {read:?}") };
    assert_eq!((&list["id"], &list["error"]["code"]), (&2.into(), &(-31008).into()), "{list}");
    changed(&mut stage, 1);
    let read = stage.run(MOMENT, Stage::serve);
    assert_eq!(read.iter().map(|(_, answer)| &answer["id"]).collect::<Vec<_>>(), [1], "{read:?}");
    assert!(read[0].1["result"].is_object(), "{read:?}");
}

#[test]
fn first_request_of_a_modern_client_ends_with_the_login_or_its_time() {
    let mut stage = pending_negotiation();
    failed(&mut stage, CredentialError::Refused { why: "access_denied".to_owned() });
    let answer = stage.client_reads().expect("at once");
    assert_eq!(answer["error"]["code"], -31008, "{answer}");
    assert!(answer.to_string().contains("access_denied"), "{answer}");
    let mut stage = pending_negotiation();
    let read = stage.run(Duration::from_secs(50), refuse);
    let [(at, answer)] = &read[..] else { panic!("{read:?}") };
    assert!(at.since(Moment::ZERO) >= Duration::from_secs(45), "{at:?}");
    assert_eq!(answer["error"]["code"], -31008, "{answer}");
}

#[test]
fn answer_to_a_call_in_flight_ends_the_refusal() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "create_note"));
    let other = stage.next_sent();
    refused_call(&mut stage, 2);
    failed(&mut stage, CredentialError::NoLogin);
    assert_eq!(stage.engine.credential_state(NOTES), Some(CredentialState::Refused));
    stage.answer(&other, "{}");
    assert_eq!(stage.engine.credential_state(NOTES), Some(CredentialState::Current));
}

#[test]
fn limit_of_fruitless_requests_is_reported_where_login_is_needed() {
    for is_needed in [false, true] {
        let mut stage = with_login();
        refused_call(&mut stage, 1);
        failed(&mut stage, CredentialError::NoLogin);
        if is_needed {
            stage.refuse_probe(401);
        }
        let reports =
            |stage: &Stage| stage.events.iter().filter(|event| matches!(event, Event::LoginRequired { .. })).count();
        let before = reports(&stage);
        failed(&mut stage, CredentialError::FruitlessLimit { count: 300 });
        assert_eq!(reports(&stage) - before, usize::from(is_needed), "{:?}", stage.log);
    }
}

#[test]
fn lookup_that_was_refused_ends_with_its_renewal() {
    let mut stage = with_login();
    stage.client_sends(&call(1, "look"));
    let seen = stage.next_sent();
    stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset));
    stage.answer_probe();
    let lookup = stage.next_sent();
    assert_eq!(lookup.method(), "tools/list");
    refuse(&mut stage, &lookup);
    failed(&mut stage, CredentialError::NoLogin);
    assert_eq!(outcome(&stage.client_reads().expect("at once")), "unknown");
}
