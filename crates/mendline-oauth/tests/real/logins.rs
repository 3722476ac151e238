//! Logins and renewals over real sockets.

use std::time::{Duration, SystemTime};

use mendline::credential::{CredentialSource, Occasion};
use mendline_faults::{
    AuthorizationSettings, Iss, Metadata, MetadataFault, ResourceMetadata, ResourceRule, TokenFault,
};
use mendline_oauth::{LoggedOut, OAuthError, OAuthSource, logout, token};

use crate::stage::{Stage, run};

fn refused() -> Occasion {
    Occasion::Refused { challenges: Vec::new() }
}

#[test]
fn login_renewal_and_logout_with_real_servers() {
    run(async {
        let stage = Stage::start(AuthorizationSettings::default()).await;
        let result = stage.login().await.unwrap();
        assert_eq!(result.info.identity.unwrap().shown(), Some("ada@example.com"));
        let first = token(&stage.oauth(), &stage.settings()).await.unwrap();
        stage.authorization.expire_access_tokens();
        let mut source = OAuthSource::new(stage.oauth(), stage.settings());
        assert_eq!(source.read(&Occasion::Start).await.unwrap().unwrap(), first);
        assert_ne!(source.read(&refused()).await.unwrap().unwrap(), first);
        let counts = stage.authorization.counts();
        assert_eq!((counts.logins, counts.refreshes, counts.registrations), (1, 1, 1));
        assert_eq!(logout(&stage.oauth(), &stage.settings()).await, Ok(LoggedOut::Revoked));
        assert_eq!(stage.authorization.counts().revocations, 1);
    });
}

#[test]
fn every_form_of_metadata_is_found() {
    run(async {
        for (metadata, path) in [
            (Metadata::Oauth, ""),
            (Metadata::Openid, ""),
            (Metadata::Both, "/tenant"),
            (Metadata::Openid, "/tenant"),
            (Metadata::Oauth, "/tenant/v2"),
        ] {
            let settings = AuthorizationSettings { metadata, issuer_path: path.to_owned(), ..Default::default() };
            let stage = Stage::start(settings).await;
            let result = stage.login().await.unwrap_or_else(|error| panic!("{metadata:?} {path}: {error}"));
            assert_eq!(result.info.issuer, stage.authorization.issuer());
        }
    });
}

#[test]
fn server_of_2025_03_26_is_its_own_authorization_server() {
    run(async {
        for metadata in [Metadata::Oauth, Metadata::Absent] {
            let settings = AuthorizationSettings {
                metadata,
                combined: true,
                resource_metadata: ResourceMetadata::Absent,
                challenge_names_metadata: false,
                ..Default::default()
            };
            let stage = Stage::start(settings).await;
            stage.login().await.unwrap_or_else(|error| panic!("{metadata:?}: {error}"));
        }
    });
}

#[test]
fn hostile_metadata_is_refused() {
    run(async {
        for fault in [
            MetadataFault::Loop,
            MetadataFault::RedirectToLinkLocal,
            MetadataFault::LinkLocal,
            MetadataFault::File,
            MetadataFault::WrongIssuer,
            MetadataFault::Html,
            MetadataFault::Error,
        ] {
            let settings = AuthorizationSettings { metadata_fault: Some(fault), ..Default::default() };
            let stage = Stage::start(settings).await;
            let error = stage.login().await.unwrap_err();
            assert_eq!(stage.authorization.counts().authorizations, 0, "{fault:?}: {error}");
        }
    });
}

#[test]
fn wrong_issuer_of_the_response_is_refused() {
    run(async {
        let stage = Stage::start(AuthorizationSettings { iss: Iss::Wrong, ..Default::default() }).await;
        assert!(matches!(stage.login().await, Err(OAuthError::WrongIssuer { .. })));
        assert_eq!(stage.authorization.counts().token_requests, 0);
    });
}

#[test]
fn refused_resource_is_left_out() {
    run(async {
        let stage = Stage::start(AuthorizationSettings { resource: ResourceRule::Refused, ..Default::default() }).await;
        stage.login().await.unwrap();
        stage.authorization.expire_access_tokens();
        let mut source = OAuthSource::new(stage.oauth(), stage.settings());
        source.read(&Occasion::Start).await.unwrap();
        assert!(source.read(&refused()).await.is_ok());
    });
}

#[test]
fn a75_faults_of_the_token_endpoint_keep_the_login() {
    run(async {
        let stage = Stage::start(AuthorizationSettings::default()).await;
        stage.login().await.unwrap();
        let mut source = OAuthSource::new(stage.oauth(), stage.settings());
        source.read(&Occasion::Start).await.unwrap();
        for fault in [
            TokenFault::Status { status: 500, retry_after: None },
            TokenFault::Status { status: 429, retry_after: None },
            TokenFault::Html,
            TokenFault::WrongJson,
            TokenFault::Cut,
            TokenFault::Error("temporarily_unavailable".to_owned()),
        ] {
            stage.authorization.fail_token(fault.clone(), 1);
            let why = source.read(&Occasion::Expiring).await.unwrap_err();
            assert!(why.can_pass(), "{fault:?}: {why}");
        }
        stage.authorization.fail_token(TokenFault::ErrorInSuccess("invalid_refresh_token".to_owned()), 1);
        assert!(source.read(&Occasion::Expiring).await.is_ok(), "seen once, it does not end the login");
        let counts = stage.authorization.counts();
        assert_eq!((counts.logins, counts.refreshes, counts.reuses), (1, 1, 0));
    });
}

#[test]
fn a76_eight_sources_share_one_rotating_login() {
    run(async {
        let stage = Stage::start(AuthorizationSettings::default()).await;
        stage.login().await.unwrap();
        let mut sources: Vec<OAuthSource> = (0..8).map(|_| OAuthSource::new(stage.oauth(), stage.settings())).collect();
        for source in &mut sources {
            source.read(&Occasion::Start).await.unwrap();
        }
        for round in 1..=10 {
            stage.authorization.expire_access_tokens();
            let tasks: Vec<_> = sources
                .drain(..)
                .map(|mut source| {
                    tokio::spawn(async move {
                        let credential = source.read(&refused()).await.unwrap().unwrap();
                        (source, credential)
                    })
                })
                .collect();
            let mut credentials = Vec::new();
            for task in tasks {
                let (source, credential) = task.await.unwrap();
                sources.push(source);
                credentials.push(credential);
            }
            assert!(credentials.iter().all(|it| *it == credentials[0]), "round {round}");
            // The pause after quick refusals is not the subject here.
            sources = (0..8).map(|_| OAuthSource::new(stage.oauth(), stage.settings())).collect();
            for source in &mut sources {
                source.read(&Occasion::Start).await.unwrap();
            }
        }
        let counts = stage.authorization.counts();
        assert_eq!((counts.logins, counts.refreshes, counts.reuses), (1, 10, 0));
    });
}

#[test]
fn a79_clock_wrong_by_a_day_costs_renewals_and_no_login() {
    run(async {
        let stage = Stage::start(AuthorizationSettings::default()).await;
        stage.login().await.unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        // The token seems to have expired.
        let ahead = SystemTime::now() + day;
        token(&stage.oauth().clock(move || ahead), &stage.settings()).await.unwrap();
        assert_eq!(stage.authorization.counts().refreshes, 1);
        // It seems to be valid for another day, but has expired: the refusal renews it.
        stage.authorization.expire_access_tokens();
        let behind = SystemTime::now() - day;
        let mut source = OAuthSource::new(stage.oauth().clock(move || behind), stage.settings());
        let old = source.read(&Occasion::Start).await.unwrap().unwrap();
        assert_ne!(source.read(&refused()).await.unwrap().unwrap().headers, old.headers);
        let counts = stage.authorization.counts();
        assert_eq!((counts.logins, counts.refreshes), (1, 2));
    });
}
