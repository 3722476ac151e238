//! Tests of renewals: races, faults, and deaths at every step.

use std::time::{Duration, SystemTime};

use mendline::credential::{CredentialSource, Occasion};

use super::*;
use crate::OAuthSource;
use crate::store::Full;
use crate::testing::block_on;
use crate::testing::server::{Fault, Server, logged_in, settings, stored};

/// Faults that can pass, whatever the server has done.
const PASSING: [Fault; 9] = [
    Fault::Status(500),
    Fault::Status(502),
    Fault::Status(503),
    Fault::Status(429),
    Fault::Status(403),
    Fault::Html,
    Fault::WrongJson,
    Fault::UnknownError,
    Fault::CutBefore,
];

#[test]
fn renewed_login_is_stored_and_used() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        let renewed = renew(&server.oauth(), &settings(), &old).await.unwrap();
        assert_ne!(renewed.access_token, old);
        assert_eq!((stored(&server), renewed.renewals), (renewed, 1));
        assert_eq!(server.state().refreshes, 1);
    });
}

#[test]
fn token_of_another_process_is_adopted() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        let first = renew(&server.oauth(), &settings(), &old).await.unwrap();
        let second = renew(&server.oauth(), &settings(), &old).await.unwrap();
        assert_eq!((first, server.state().refreshes), (second, 1));
    });
}

#[test]
fn a76_concurrent_renewals_make_one_request() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.state().faults.push_back(Fault::Slow(3000));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (oauth, old) = (server.oauth(), old.clone());
                tokio::spawn(async move { renew(&oauth, &settings(), &old).await.unwrap().access_token })
            })
            .collect();
        let mut tokens = Vec::new();
        for task in tasks {
            tokens.push(task.await.unwrap());
        }
        assert!(tokens.iter().all(|token| *token == tokens[0] && *token != old));
        assert_eq!(server.read(|it| (it.refreshes, it.reuses)), (1, 0));
    });
}

#[test]
fn a76_eight_sources_survive_fifty_expiries_with_one_login() {
    block_on(async {
        let server = Server::new();
        server.state().lifetime = Some(60);
        logged_in(&server).await;
        let tasks: Vec<_> = (0..8u64)
            .map(|number| {
                let mut source = OAuthSource::new(server.oauth(), settings());
                tokio::spawn(async move {
                    for round in 0..=50u64 {
                        let occasion = match (number + round) % 3 {
                            0 => Occasion::Expiring,
                            1 => Occasion::Refused { challenges: Vec::new() },
                            _ => Occasion::Start,
                        };
                        source.read(&occasion).await.unwrap().unwrap();
                        sleep(Duration::from_millis(61_000 + number * 7)).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let state = server.state();
        assert_eq!((state.logins, state.reuses), (1, 0));
        assert_eq!(state.refreshes, 50);
    });
}

#[test]
fn a75_passing_faults_never_end_a_login() {
    block_on(async {
        for fault in PASSING {
            let server = Server::new();
            let old = logged_in(&server).await;
            let before = stored(&server);
            server.state().faults.push_back(fault);
            let error = renew(&server.oauth(), &settings(), &old).await.unwrap_err();
            assert!(error.can_pass(), "{fault:?}: {error}");
            assert_eq!(stored(&server), before, "{fault:?}");
            assert!(renew(&server.oauth(), &settings(), &old).await.is_ok(), "{fault:?}");
        }
    });
}

#[test]
fn single_invalid_grant_does_not_end_a_login() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.state().faults.push_back(Fault::InvalidGrant);
        let start = tokio::time::Instant::now();
        assert!(renew(&server.oauth(), &settings(), &old).await.is_ok());
        assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    });
}

#[test]
fn second_invalid_grant_ends_a_login_and_keeps_the_file() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.end_all();
        let error = renew(&server.oauth(), &settings(), &old).await.unwrap_err();
        assert_eq!(error, OAuthError::LoginEnded { name: "notes".to_owned() });
        assert!(stored(&server).ended);
        let requests = server.state().requests.len();
        assert!(renew(&server.oauth(), &settings(), &old).await.is_err());
        assert_eq!(server.state().requests.len(), requests, "an ended login is not tried again");
    });
}

#[test]
fn login_by_another_process_between_two_refusals_is_used() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.end_all();
        let renewal = tokio::spawn({
            let (oauth, old) = (server.oauth(), old.clone());
            async move { renew(&oauth, &settings(), &old).await }
        });
        sleep(Duration::from_secs(1)).await;
        let new = logged_in(&server).await;
        assert_eq!(renewal.await.unwrap().unwrap().access_token, new);
        assert!(!stored(&server).ended);
    });
}

#[test]
fn refused_resource_is_left_out_and_remembered() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.state().refuses_resource = true;
        let renewed = renew(&server.oauth(), &settings(), &old).await.unwrap();
        assert!(renewed.resource.is_none() && renewed.quirks.refuses_resource);
        let requests = server.state().requests.len();
        renew(&server.oauth(), &settings(), &renewed.access_token).await.unwrap();
        assert_eq!(server.state().requests.len(), requests + 1);
    });
}

#[test]
fn refresh_token_without_rotation_is_kept() {
    block_on(async {
        let server = Server::new();
        server.state().rotates = false;
        let old = logged_in(&server).await;
        let refresh = stored(&server).refresh_token;
        let renewed = renew(&server.oauth(), &settings(), &old).await.unwrap();
        assert!(renewed.refresh_token.is_some() && renewed.refresh_token == refresh);
        assert!(renew(&server.oauth(), &settings(), &renewed.access_token).await.is_ok());
    });
}

#[test]
fn forgotten_client_keeps_the_tokens_and_drops_the_registration() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        let before = stored(&server);
        server.state().clients.clear();
        let error = renew(&server.oauth(), &settings(), &old).await.unwrap_err();
        assert!(matches!(&error, OAuthError::Denied { error, .. } if error == "invalid_client"), "{error}");
        assert_eq!(stored(&server), before);
        assert_eq!(crate::testing::now(server.oauth().store().known(&before.issuer)).unwrap().registration, None);
    });
}

#[test]
fn caller_that_goes_away_does_not_stop_a_renewal() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.state().faults.push_back(Fault::Slow(3000));
        let oauth = server.oauth();
        let (settings, wait) = (settings(), Duration::from_secs(1));
        assert!(tokio::time::timeout(wait, renew(&oauth, &settings, &old)).await.is_err());
        let renewed = renew(&oauth, &settings, &old).await.unwrap();
        assert_eq!((server.state().refreshes, stored(&server)), (1, renewed));
    });
}

#[test]
fn a79_wrong_clock_leads_to_a_renewal_and_nothing_worse() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        let day = Duration::from_secs(24 * 60 * 60);
        let (ahead, behind) = (SystemTime::now() + day, SystemTime::now() - day);
        let token = crate::token(&server.oauth().clock(move || ahead), &settings()).await.unwrap();
        assert_eq!((server.state().refreshes, token.expires_at > Some(ahead)), (1, true));
        // The token now seems to be valid for a day too long; a refusal renews it.
        crate::token(&server.oauth().clock(move || behind), &settings()).await.unwrap();
        let mut source = OAuthSource::new(server.oauth().clock(move || behind), settings());
        source.read(&Occasion::Start).await.unwrap().unwrap();
        source.read(&Occasion::Refused { challenges: Vec::new() }).await.unwrap().unwrap();
        assert_eq!(server.read(|it| (it.refreshes, it.reuses)), (2, 0));
        assert_ne!(stored(&server).access_token, old);
    });
}

#[test]
fn runtime_that_ends_during_a_request_releases_the_lock() {
    let server = Server::new();
    let old = block_on(logged_in(&server));
    server.state().faults.push_back(Fault::Hang);
    block_on(async {
        let (oauth, settings) = (server.oauth(), settings());
        let renewal = renew(&oauth, &settings, &old);
        assert!(tokio::time::timeout(Duration::from_secs(1), renewal).await.is_err());
    });
    // The runtime is gone, and its tasks with it.
    let renewed = block_on(renew(&server.oauth(), &settings(), &old)).unwrap();
    assert_eq!((server.read(|it| (it.logins, it.reuses)), renewed.renewals), ((1, 0), 1));
}

#[test]
fn lost_answer_of_a_rotation_is_said_once() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.state().faults.push_back(Fault::CutAfter);
        assert!(renew(&server.oauth(), &settings(), &old).await.unwrap_err().can_pass());
        // The refresh token was used up; nothing can bring the new one back.
        let ended = renew(&server.oauth(), &settings(), &old).await.unwrap_err();
        assert!(matches!(ended, OAuthError::LoginEnded { .. }));
        // A server that does not rotate answers again.
        let server = Server::new();
        server.state().rotates = false;
        let old = logged_in(&server).await;
        server.state().faults.push_back(Fault::CutAfter);
        assert!(renew(&server.oauth(), &settings(), &old).await.is_err());
        assert!(renew(&server.oauth(), &settings(), &old).await.is_ok());
    });
}

/// Refusals that may be mistakes of the server.
const REFUSALS: [&str; 4] = ["invalid_request", "invalid_scope", "unauthorized_client", "invalid_client"];

#[test]
fn single_refusal_of_a_request_is_checked_again() {
    block_on(async {
        for error in REFUSALS {
            let server = Server::new();
            let old = logged_in(&server).await;
            server.state().faults.push_back(Fault::Denied(error));
            assert!(renew(&server.oauth(), &settings(), &old).await.is_ok(), "{error}");
            let known = server.oauth().store.known(crate::testing::server::ISSUER).await.unwrap();
            assert!(known.registration.is_some(), "{error}: the registration stays");
        }
    });
}

#[test]
fn repeated_refusal_of_a_request_keeps_the_login() {
    block_on(async {
        for error in REFUSALS {
            let server = Server::new();
            let old = logged_in(&server).await;
            let before = stored(&server);
            server.state().faults.extend([Fault::Denied(error); 2]);
            let refused = renew(&server.oauth(), &settings(), &old).await.unwrap_err();
            assert_eq!(refused, OAuthError::Denied { error: error.to_owned(), description: None });
            assert_eq!(stored(&server), before, "{error}");
            assert!(renew(&server.oauth(), &settings(), &old).await.is_ok(), "{error}");
        }
    });
}

#[test]
fn refusals_of_two_kinds_do_not_end_a_login() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        server.state().faults.extend([Fault::Denied("invalid_request"), Fault::InvalidGrant]);
        assert!(renew(&server.oauth(), &settings(), &old).await.unwrap_err().can_pass());
        assert!(!stored(&server).ended);
    });
}

#[test]
fn full_disk_is_noticed_before_the_refresh_token_is_sent() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        let before = stored(&server);
        let oauth = server.oauth();
        *oauth.store.full.lock().unwrap() = Some(Full::Always);
        assert!(matches!(renew(&oauth, &settings(), &old).await, Err(OAuthError::Store { .. })));
        assert_eq!((server.state().refreshes, stored(&server)), (0, before));
        *oauth.store.full.lock().unwrap() = None;
        assert!(renew(&oauth, &settings(), &old).await.is_ok());
    });
}

#[test]
fn rotated_tokens_that_cannot_be_written_are_used_and_written_later() {
    block_on(async {
        let server = Server::new();
        let old = logged_in(&server).await;
        let before = stored(&server);
        let said = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let oauth = server.oauth().notices({
            let said = said.clone();
            move |notice| said.lock().unwrap().push(notice.to_owned())
        });
        let full = oauth.store.full.clone();
        *full.lock().unwrap() = Some(Full::AfterReserve);
        let mut source = OAuthSource::new(oauth.clone(), settings());
        source.read(&Occasion::Start).await.unwrap().unwrap();
        let renewed = source.read(&Occasion::Refused { challenges: Vec::new() }).await.unwrap().unwrap();
        let path = oauth.store.lock_path(&Store::key(&before.server, None));
        let lock = std::fs::File::options().write(true).open(path).unwrap();
        assert!(lock.try_lock().is_err(), "another process must not send the old refresh token");
        assert!(said.lock().unwrap()[0].contains("only in memory"), "{said:?}");
        // The next renewal uses the refresh token in memory.
        let next = renew(&oauth, &settings(), &token_of(&renewed)).await.unwrap();
        assert_eq!(server.read(|it| (it.refreshes, it.reuses)), (2, 0));
        assert_ne!(next.access_token, old);
        *full.lock().unwrap() = None;
        tokio::time::timeout(Duration::from_secs(60), source.changed()).await.unwrap();
        assert_eq!(stored(&server), next);
        assert!(lock.try_lock().is_ok(), "the lock is released");
    });
}

fn token_of(credential: &mendline::credential::Credential) -> Secret {
    Secret::new(credential.headers[0].1.expose().trim_start_matches("Bearer "))
}
