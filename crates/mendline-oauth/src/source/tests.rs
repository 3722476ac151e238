//! Tests of the sources.

use mendline::credential::{CredentialSource, Occasion};
use tokio::time::timeout;

use super::*;
use crate::settings::{ClientCredentialsSettings, ClientProof, ResourceSetting};
use crate::testing::server::{Fault, MCP, Server, logged_in, settings, stored};
use crate::testing::{Fake, Person, block_on, json};

fn source(server: &Server) -> OAuthSource {
    OAuthSource::new(server.oauth(), settings())
}

fn refused(header: &str) -> Occasion {
    Occasion::Refused { challenges: Challenge::parse(header) }
}

const INVALID: &str = r#"Bearer error="invalid_token", resource_metadata="https://mcp.example/meta""#;

async fn token(source: &mut OAuthSource, occasion: &Occasion) -> Result<Option<String>, CredentialError> {
    let credential = source.read(occasion).await?;
    Ok(credential.map(|it| it.headers[0].1.expose().trim_start_matches("Bearer ").to_owned()))
}

#[test]
fn nothing_is_requested_while_nothing_is_stored_and_refused() {
    block_on(async {
        let server = Server::new();
        let mut source = source(&server);
        assert_eq!(source.read(&Occasion::Start).await, Ok(None));
        assert!(timeout(Duration::from_secs(60), source.changed()).await.is_err());
        assert!(server.state().requests.is_empty());
        assert!(std::fs::read_dir(server.folder()).unwrap().next().is_none(), "no file is created");
        assert_eq!(token(&mut source, &refused(INVALID)).await, Err(CredentialError::NoLogin));
        assert!(server.state().requests.is_empty(), "a person has to log in");
    });
}

#[test]
fn a73_expired_token_is_renewed_at_start_and_before_expiry() {
    block_on(async {
        let server = Server::new();
        let first = logged_in(&server).await;
        let mut source = source(&server);
        assert_eq!(token(&mut source, &Occasion::Start).await.unwrap().unwrap(), first.expose());
        let second = token(&mut source, &Occasion::Expiring).await.unwrap().unwrap();
        assert_ne!(second, first.expose());
        sleep(Duration::from_secs(4000)).await;
        let third = token(&mut OAuthSource::new(server.oauth(), settings()), &Occasion::Start).await.unwrap().unwrap();
        assert_eq!(token(&mut source, &Occasion::Expiring).await.unwrap().unwrap(), third, "adopted");
        assert_eq!(server.state().refreshes, 2);
    });
}

#[test]
fn a73_refused_token_is_renewed_once_whatever_the_clock_says() {
    block_on(async {
        let server = Server::new();
        let first = logged_in(&server).await;
        let (mut one, mut other) = (source(&server), source(&server));
        for source in [&mut one, &mut other] {
            assert_eq!(token(source, &Occasion::Start).await.unwrap().unwrap(), first.expose());
        }
        let renewed = token(&mut one, &refused(INVALID)).await.unwrap().unwrap();
        assert_eq!(token(&mut other, &refused(INVALID)).await.unwrap().unwrap(), renewed);
        assert_eq!(server.state().refreshes, 1);
    });
}

#[test]
fn a77_server_that_refuses_every_token_gets_new_ones_after_pauses() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        let mut last = token(&mut source, &Occasion::Start).await.unwrap();
        let mut renewals = 0;
        for _ in 0..20 {
            let next = token(&mut source, &refused(INVALID)).await.unwrap();
            renewals += u32::from(next != last);
            last = next;
        }
        assert_eq!(renewals, 3);
        // The pause ends, and the source says so.
        timeout(Duration::from_secs(24 * 3600), source.changed()).await.unwrap();
        assert_ne!(token(&mut source, &Occasion::Changed).await.unwrap(), last);
    });
}

#[test]
fn a75_failures_of_the_authorization_server_keep_the_login() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        token(&mut source, &Occasion::Start).await.unwrap();
        for fault in [Fault::Status(503), Fault::Html, Fault::CutBefore, Fault::Status(429)] {
            server.state().faults.push_back(fault);
            let why = token(&mut source, &Occasion::Expiring).await.unwrap_err();
            assert!(why.can_pass(), "{fault:?}: {why}");
        }
        assert!(token(&mut source, &Occasion::Expiring).await.is_ok());
        assert_eq!(server.state().logins, 1);
    });
}

#[test]
fn login_by_another_process_is_noticed_at_once() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        token(&mut source, &Occasion::Start).await.unwrap();
        server.end_all();
        assert_eq!(token(&mut source, &refused(INVALID)).await, Err(CredentialError::LoginEnded));
        assert!(timeout(Duration::from_secs(30), source.changed()).await.is_err(), "our own change");
        let new = logged_in(&server).await;
        timeout(Duration::from_millis(1100), source.changed()).await.unwrap();
        assert_eq!(token(&mut source, &Occasion::Changed).await.unwrap().unwrap(), new.expose());
        assert!(timeout(Duration::from_secs(30), source.changed()).await.is_err());
    });
}

#[test]
fn logout_by_another_process_is_noticed() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        token(&mut source, &Occasion::Start).await.unwrap();
        crate::logout(&server.oauth(), &settings()).await.unwrap();
        timeout(Duration::from_millis(5100), source.changed()).await.unwrap();
        assert_eq!(token(&mut source, &Occasion::Changed).await, Ok(None));
    });
}

#[test]
fn token_without_refresh_is_used_until_it_is_refused() {
    block_on(async {
        let server = Server::new();
        server.state().gives_refresh = false;
        let first = logged_in(&server).await;
        let mut source = source(&server);
        assert_eq!(token(&mut source, &Occasion::Start).await.unwrap().unwrap(), first.expose());
        assert_eq!(token(&mut source, &Occasion::Expiring).await.unwrap().unwrap(), first.expose());
        assert_eq!(token(&mut source, &refused(INVALID)).await, Err(CredentialError::LoginEnded));
    });
}

#[test]
fn a78_missing_scopes_are_named_and_requested_by_the_next_login() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        token(&mut source, &Occasion::Start).await.unwrap();
        let challenge = r#"Bearer error="insufficient_scope", scope="write admin""#;
        let why = CredentialError::Scope { scopes: "write admin".to_owned() };
        assert_eq!(token(&mut source, &refused(challenge)).await, Err(why.clone()));
        assert_eq!(server.state().refreshes, 0, "a renewal has the same scopes");
        logged_in(&server).await;
        assert_eq!(stored(&server).requested_scopes, ["read", "write", "admin"]);
        assert!(token(&mut source, &refused(challenge)).await.is_ok(), "the new login is tried");
        assert_eq!(token(&mut source, &refused(challenge)).await, Err(why), "it has the scopes, and is refused");
    });
}

#[test]
fn automatic_login_opens_one_browser() {
    block_on(async {
        let server = Server::new();
        let person = Person::browsing(|_| {});
        let mut sources: Vec<OAuthSource> =
            (0..3).map(|_| source(&server).auto_login(Arc::new(person.clone()))).collect();
        for round in 0..3 {
            for (number, source) in sources.iter_mut().enumerate() {
                let why = token(source, &refused(INVALID)).await.unwrap_err();
                assert_eq!(why, CredentialError::LoginPending, "round {round}, source {number}");
                tokio::task::yield_now().await;
            }
            sleep(Duration::from_secs(20)).await;
        }
        assert_eq!(person.urls().len(), 1);
        // The person does not answer; the reason changes, and no second browser opens.
        timeout(Duration::from_secs(400), sources[0].changed()).await.unwrap();
        assert!(token(&mut sources[0], &Occasion::Changed).await.is_err());
        for source in &mut sources {
            assert_eq!(token(source, &refused(INVALID)).await, Err(CredentialError::NoLogin));
        }
        assert_eq!(person.urls().len(), 1);
        // After the cool-down it may ask again.
        sleep(Duration::from_secs(600)).await;
        assert_eq!(token(&mut sources[1], &refused(INVALID)).await, Err(CredentialError::LoginPending));
    });
}

#[test]
fn automatic_login_completes_and_is_noticed() {
    block_on(async {
        let server = Server::new();
        let person = Person::pasting({
            let server = server.clone();
            move |url| server.authorize(url)
        });
        let mut source = source(&server).auto_login(Arc::new(person));
        let first = format!(r#"{INVALID}, scope="read""#);
        assert_eq!(token(&mut source, &refused(&first)).await, Err(CredentialError::LoginPending));
        timeout(Duration::from_secs(5), source.changed()).await.unwrap();
        let first = token(&mut source, &Occasion::Changed).await.unwrap().unwrap();
        assert_eq!(first, stored(&server).access_token.expose());
        // The server then wants more scopes: one more login, without a cool-down.
        let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
        assert_eq!(token(&mut source, &refused(challenge)).await, Err(CredentialError::LoginPending));
        timeout(Duration::from_secs(5), source.changed()).await.unwrap();
        assert_ne!(token(&mut source, &Occasion::Changed).await.unwrap().unwrap(), first);
        assert_eq!(stored(&server).requested_scopes, ["write", "read"]);
        // It refuses again, although the scope is there: no loop.
        assert!(matches!(token(&mut source, &refused(challenge)).await, Err(CredentialError::Scope { .. })));
        assert_eq!(server.state().logins, 2);
    });
}

#[test]
fn failed_automatic_login_gives_its_reason() {
    block_on(async {
        let server = Server::new();
        server.state().registers = false;
        let mut source = source(&server).auto_login(Arc::new(Person::default()));
        assert_eq!(token(&mut source, &refused(INVALID)).await, Err(CredentialError::LoginPending));
        timeout(Duration::from_secs(5), source.changed()).await.unwrap();
        let why = token(&mut source, &Occasion::Changed).await.unwrap_err().to_string();
        assert!(why.contains("auth.clientId"), "{why}");
    });
}

#[test]
fn tokens_of_another_authorization_server_are_not_renewed() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        token(&mut source, &Occasion::Start).await.unwrap();
        server.state().issuers = vec!["https://new.example".to_owned()];
        assert_eq!(token(&mut source, &refused(INVALID)).await, Err(CredentialError::NoLogin));
        assert_eq!(server.state().refreshes, 0);
    });
}

#[test]
fn valid_token_of_mcp_remote_is_used_until_it_is_refused() {
    block_on(async {
        let server = Server::new();
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("mcp-remote-0.1.29");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join(format!("{}_tokens.json", crate::md5::md5(MCP.as_bytes())));
        std::fs::write(&file, r#"{"access_token":"theirs","expires_in":3600}"#).unwrap();
        let mut source = source(&server).adopt_from(home.path().to_owned(), Vec::new());
        assert_eq!(token(&mut source, &Occasion::Start).await.unwrap().unwrap(), "theirs");
        assert_eq!(token(&mut source, &refused(INVALID)).await, Err(CredentialError::NoLogin));
        let own = logged_in(&server).await;
        assert_eq!(token(&mut source, &Occasion::Changed).await.unwrap().unwrap(), own.expose());
    });
}

#[test]
fn readable_store_is_said_with_the_command_to_run() {
    use std::os::unix::fs::PermissionsExt;
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let folder = server.folder().join("credentials");
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).unwrap();
        }
        let why = token(&mut source(&server), &Occasion::Start).await.unwrap_err();
        assert!(matches!(&why, CredentialError::File { why, .. } if why.contains("chmod 600")), "{why}");
    });
}

fn machine(proof: ClientProof) -> ClientCredentialsSettings {
    ClientCredentialsSettings {
        server: MCP.to_owned(),
        token_endpoint: Some("https://auth.example/token".to_owned()),
        client_id: "robot".to_owned(),
        proof,
        auth_method: None,
        scopes: vec!["read".to_owned()],
        resource: ResourceSetting::Fixed(MCP.to_owned()),
        audience: Some("api".to_owned()),
        allow_private: false,
    }
}

#[test]
fn machine_gets_a_token_with_its_secret() {
    let fake = Fake::new();
    fake.on("https://auth.example/token", json(200, r#"{"access_token":"m","expires_in":60}"#));
    let mut source = ClientCredentialsSource::new(fake.oauth(), machine(ClientProof::Secret(Secret::new("hush-hush"))));
    let credential = block_on(source.read(&Occasion::Start)).unwrap().unwrap();
    assert_eq!(credential.headers[0].1.expose(), "Bearer m");
    assert!(credential.expires_at.is_some());
    let request = &fake.requests()[0];
    let form = crate::url::parameters(request.body.as_ref().unwrap().1.expose());
    for (name, value) in
        [("grant_type", "client_credentials"), ("scope", "read"), ("audience", "api"), ("resource", MCP)]
    {
        assert!(form.contains(&(name.to_owned(), value.to_owned())), "{name}");
    }
    assert!(
        request.headers.iter().any(|(name, value)| name == "Authorization" && value.expose().starts_with("Basic "))
    );
}

#[test]
fn machine_leaves_out_a_refused_resource() {
    let fake = Fake::new();
    fake.on("https://auth.example/token", json(400, r#"{"error":"invalid_target"}"#));
    fake.on("https://auth.example/token", json(200, r#"{"access_token":"m"}"#));
    let mut settings = machine(ClientProof::Secret(Secret::new("s")));
    settings.resource = ResourceSetting::Fixed(MCP.to_owned());
    let mut source = ClientCredentialsSource::new(fake.oauth(), settings);
    assert!(block_on(source.token()).is_ok());
    assert_eq!(fake.urls().len(), 2);
}

#[test]
fn machine_with_a_wrong_key_says_so() {
    let proof =
        ClientProof::Key { pem: Secret::new("canary"), algorithm: crate::settings::Algorithm::Es256, key_id: None };
    let mut source = ClientCredentialsSource::new(Fake::new().oauth(), machine(proof));
    let why = block_on(source.read(&Occasion::Start)).unwrap_err().to_string();
    assert!(why.contains("not PEM") && !why.contains("canary"), "{why}");
}

#[test]
fn refused_renewal_is_tried_again_by_itself() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        let first = token(&mut source, &Occasion::Start).await.unwrap();
        server.state().faults.extend([Fault::Denied("invalid_scope"); 4]);
        assert!(token(&mut source, &refused(INVALID)).await.is_err());
        timeout(FAILED_PAUSE * 2, source.changed()).await.unwrap();
        assert!(token(&mut source, &Occasion::Changed).await.is_err(), "refused again");
        assert!(timeout(FAILED_PAUSE, source.changed()).await.is_err(), "the pause grows");
        timeout(FAILED_PAUSE * 2, source.changed()).await.unwrap();
        server.state().faults.push_back(Fault::Status(503));
        assert!(token(&mut source, &Occasion::Changed).await.is_err(), "unavailable meanwhile");
        timeout(FAILED_PAUSE * 2, source.changed()).await.unwrap();
        assert_ne!(token(&mut source, &Occasion::Changed).await.unwrap(), first);
        assert_eq!(server.state().logins, 1);
    });
}

#[test]
fn renewal_goes_on_the_day_after_the_limit() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        let mut source = source(&server);
        let first = token(&mut source, &Occasion::Start).await.unwrap();
        let oauth = server.oauth();
        oauth.store.count_fruitless("https://auth.example", 300, (oauth.clock)()).await;
        let why = token(&mut source, &refused(INVALID)).await.unwrap_err();
        assert!(!why.can_pass() && why.to_string().contains("before tomorrow"), "{why}");
        assert_eq!(server.state().refreshes, 0);
        timeout(Duration::from_secs(24 * 60 * 60 + 60), source.changed()).await.unwrap();
        assert_ne!(token(&mut source, &Occasion::Changed).await.unwrap(), first);
    });
}

#[test]
fn login_with_configured_endpoints_is_renewed_after_an_early_refusal() {
    block_on(async {
        let server = Server::new();
        logged_in(&server).await;
        // The metadata names an issuer with a path; the endpoints say only its origin.
        server.state().issuers = vec!["https://auth.example/tenant".to_owned()];
        let endpoint = |name: &str| Some(format!("https://auth.example/{name}"));
        let (authorization_endpoint, token_endpoint) = (endpoint("authorize"), endpoint("token"));
        let settings = Settings { authorization_endpoint, token_endpoint, ..settings() };
        let mut source = OAuthSource::new(server.oauth(), settings);
        let first = token(&mut source, &Occasion::Start).await.unwrap();
        assert_ne!(token(&mut source, &refused(INVALID)).await.unwrap(), first);
        assert_eq!(server.state().refreshes, 1);
    });
}

#[test]
fn token_of_mcp_remote_is_used_for_its_own_account_only() {
    use base64::Engine;
    block_on(async {
        let server = Server::new();
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("mcp-remote-v1");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join(format!("{}_tokens.json", crate::md5::md5(MCP.as_bytes())));
        let source = |account: &str| {
            let settings = Settings { account: Some(account.to_owned()), ..settings() };
            OAuthSource::new(server.oauth(), settings).adopt_from(home.path().to_owned(), Vec::new())
        };
        std::fs::write(&file, r#"{"access_token":"theirs"}"#).unwrap();
        assert_eq!(
            token(&mut source("me@work"), &Occasion::Start).await,
            Ok(None),
            "it is not known whose token it is"
        );
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(r#"{"sub":"1","email":"me@work"}"#);
        std::fs::write(&file, format!(r#"{{"access_token":"theirs","id_token":"e30.{claims}.x"}}"#)).unwrap();
        assert!(token(&mut source("me@work"), &Occasion::Start).await.unwrap().is_some());
        assert_eq!(token(&mut source("you@work"), &Occasion::Start).await, Ok(None));
    });
}
