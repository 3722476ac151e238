//! One login, and the processes that use it one after the other.

use std::process::Command;

use mendline_faults::{AuthorizationSettings, Consent, TokenFault};
use mendline_peers::caller::Caller;
use serde_json::json;

use crate::stage::{SOON, Stage, call, needs_login, shake_hands, succeeded, until_it_works};

#[test]
fn login_is_used_by_calls_and_by_later_processes() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    for number in 0..2 {
        let mut caller = stage.start(number);
        let answer = call(&mut caller, "create_note", &format!("n{number}"));
        assert!(succeeded(&answer), "{answer}");
        assert_eq!(stage.executions_of(&format!("n{number}")), 1);
    }
    let counts = stage.authorization.counts();
    assert_eq!(
        (counts.logins, counts.registrations, counts.refreshes, counts.refused_token),
        (1, 1, 0, 0),
        "{counts:?}"
    );
    assert_eq!(stage.home.visits(), 1);
}

#[test]
fn refused_token_is_refreshed_once_and_unsafe_call_runs_once() {
    let stage = Stage::logged_in(AuthorizationSettings::default());
    let mut caller = stage.start(0);
    // After more refusals of fresh tokens Mendline would pause.
    for round in 1..=3 {
        stage.authorization.expire_access_tokens();
        let key = format!("n{round}");
        let answer = call(&mut caller, "create_note", &key);
        assert!(succeeded(&answer), "{answer}\n{}", caller.log());
        assert_eq!((stage.executions_of(&key), stage.authorization.counts().refreshes), (1, round));
    }
    drop(caller);
    let mut caller = stage.start(1);
    assert!(succeeded(&call(&mut caller, "create_note", "after a restart")));
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.reuses, counts.refreshes), (1, 0, 3), "{counts:?}");
}

#[test]
fn server_works_after_a_login_without_a_restart_of_the_client() {
    let stage = Stage::new(AuthorizationSettings::default());
    let mut caller = stage.home.start(0, &["--login", "never"]).unwrap();
    let who = json!({ "name": "caller", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    caller.request("handshake", "initialize", &hello).unwrap();
    let answer = caller.answer("handshake", SOON).unwrap();
    let instructions = answer["result"]["instructions"].as_str().unwrap_or_default().to_owned();
    assert!(instructions.contains("mendline login"), "{answer}");
    caller.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    let answer = call(&mut caller, "lookup", "early");
    assert!(needs_login(&answer), "{answer}");
    assert!(answer.to_string().contains("mendline login"), "{answer}");
    stage.home.login().unwrap();
    let others = until_it_works(&mut caller, "late");
    assert!(others.iter().all(needs_login), "{others:?}");
    assert_eq!((stage.authorization.counts().logins, stage.home.visits()), (1, 1));
}

#[test]
fn automatic_login_opens_the_browser_once_for_all_processes() {
    let stage = Stage::new(AuthorizationSettings::default());
    let mut callers: Vec<Caller> = Vec::new();
    for number in 0..3 {
        let mut caller = stage.home.start(number, &[]).unwrap();
        shake_hands(&mut caller);
        until_it_works(&mut caller, "k");
        callers.push(caller);
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.registrations, stage.home.visits()), (1, 1, 1), "{counts:?}");
    // The login is revoked soon after: no other page opens, however often the clients call.
    let denied = AuthorizationSettings { consent: Consent::Denied, ..stage.authorization.settings() };
    stage.authorization.change_settings(denied);
    stage.authorization.revoke_all();
    for number in 0..20 {
        for caller in &mut callers {
            let answer = call(caller, "lookup", &format!("revoked-{number}"));
            assert!(needs_login(&answer), "{answer}");
        }
    }
    assert_eq!(stage.home.visits(), 1);
}

#[test]
fn automatic_login_opens_the_browser_once_for_processes_that_start_together() {
    let stage = Stage::new(AuthorizationSettings::default());
    let mut callers: Vec<Caller> = (0..3).map(|number| stage.home.start(number, &[]).unwrap()).collect();
    callers.iter_mut().for_each(shake_hands);
    for caller in &mut callers {
        until_it_works(caller, "k");
    }
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.registrations, stage.home.visits()), (1, 1, 1), "{counts:?}");
}

#[test]
fn issued_secrets_are_in_no_log_and_no_output() {
    let stage = Stage::new(AuthorizationSettings { client_secrets: true, ..AuthorizationSettings::default() });
    let shown = stage.home.login().unwrap();
    assert!(!shown.contains("canary"), "{shown}");
    let mut caller = stage.start(0);
    stage.authorization.expire_access_tokens();
    assert!(succeeded(&call(&mut caller, "lookup", "k")));
    stage.authorization.fail_token(TokenFault::Error("invalid_scope".to_owned()), 2);
    stage.authorization.expire_access_tokens();
    let _ = call(&mut caller, "lookup", "k2");
    for arguments in [&["status", "--json"][..], &["doctor", "notes"]] {
        let [subcommand, rest @ ..] = arguments else { continue };
        let command = stage.home.command(&[&[*subcommand], rest].concat());
        let output = Command::new(&command[0]).args(&command[1..]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&text).contains("canary"), "{arguments:?}");
    }
    drop(caller);
    // The store of logins is the one place for secrets.
    let found = stage.home.files_with("canary", &["login", "credential"]);
    assert!(found.is_empty(), "{found:?}");
}
