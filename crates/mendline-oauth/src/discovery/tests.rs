//! Tests of the discovery.

use super::*;
use crate::testing::{Fake, block_on, json};

const SERVER: &str = "https://mcp.example/api/mcp";
const PRM: &str = "https://mcp.example/.well-known/oauth-protected-resource/api/mcp";

fn prm(resource: &str, issuer: &str) -> String {
    serde_json::json!({"resource": resource, "authorization_servers": [issuer], "scopes_supported": ["r"]}).to_string()
}

fn metadata(issuer: &str) -> String {
    serde_json::json!({
        "issuer": issuer, "authorization_endpoint": "https://auth.example/authorize",
        "token_endpoint": "https://auth.example/token", "code_challenge_methods_supported": ["S256"],
    })
    .to_string()
}

fn found(fake: &Fake, challenges: &[Challenge]) -> Result<Discovered, OAuthError> {
    block_on(discover(&fake.oauth(), &Settings::new(SERVER), challenges))
}

fn challenge(header: &str) -> Vec<Challenge> {
    Challenge::parse(header)
}

#[test]
fn challenge_is_followed_first() {
    let fake = Fake::new();
    fake.on("https://mcp.example/meta", json(200, &prm(SERVER, "https://auth.example")));
    fake.on(PRM, json(200, &prm(SERVER, "https://other.example")));
    fake.on(
        "https://auth.example/.well-known/oauth-authorization-server",
        json(200, &metadata("https://auth.example")),
    );
    let header = r#"Bearer resource_metadata="https://mcp.example/meta", scope="a b""#;
    let found = found(&fake, &challenge(header)).unwrap();
    assert_eq!(found.provider.token_endpoint, "https://auth.example/token");
    assert_eq!(found.challenge_scopes, ["a", "b"]);
    assert_eq!((found.resource.as_deref(), found.resource_scopes), (Some(SERVER), vec!["r".to_owned()]));
}

#[test]
fn server_is_asked_when_no_challenge_is_known() {
    let fake = Fake::new();
    let mut refusal = json(401, "{}");
    let header = r#"Bearer resource_metadata="https://mcp.example/meta""#;
    refusal.headers.push(("WWW-Authenticate".to_owned(), header.to_owned()));
    fake.on(SERVER, refusal);
    fake.on("https://mcp.example/meta", json(200, &prm(SERVER, "https://auth.example")));
    fake.on(
        "https://auth.example/.well-known/oauth-authorization-server",
        json(200, &metadata("https://auth.example")),
    );
    assert!(found(&fake, &[]).is_ok());
    assert_eq!(fake.urls()[..2], [SERVER, "https://mcp.example/meta"]);
}

#[test]
fn server_with_anonymous_handshake_gives_its_challenge_for_a_list() {
    let fake = Fake::new();
    fake.on(SERVER, json(200, "{}"));
    let mut refusal = json(401, "{}");
    let header = r#"Bearer resource_metadata="https://mcp.example/meta", scope="basic""#;
    refusal.headers.push(("WWW-Authenticate".to_owned(), header.to_owned()));
    fake.on(SERVER, refusal);
    fake.on("https://mcp.example/meta", json(200, &prm(SERVER, "https://auth.example")));
    fake.on(
        "https://auth.example/.well-known/oauth-authorization-server",
        json(200, &metadata("https://auth.example")),
    );
    assert_eq!(found(&fake, &[]).unwrap().challenge_scopes, ["basic"]);
    assert_eq!(fake.urls()[..3], [SERVER, SERVER, "https://mcp.example/meta"]);
}

#[test]
fn challenge_without_metadata_leads_to_that_of_the_first_refusal() {
    let fake = Fake::new();
    let mut refusal = json(401, "{}");
    let header = r#"Bearer resource_metadata="https://mcp.example/meta", scope="read""#;
    refusal.headers.push(("WWW-Authenticate".to_owned(), header.to_owned()));
    fake.on(SERVER, refusal);
    fake.on("https://mcp.example/meta", json(200, &prm(SERVER, "https://auth.example")));
    let metadata = json(200, &metadata("https://auth.example"));
    fake.on("https://auth.example/.well-known/oauth-authorization-server", metadata);
    let found = found(&fake, &challenge(r#"Bearer error="insufficient_scope", scope="write""#)).unwrap();
    assert_eq!(
        (found.provider.issuer.as_str(), found.challenge_scopes),
        ("https://auth.example", vec!["write".to_owned()])
    );
}

#[test]
fn well_known_paths_are_tried_in_order() {
    let fake = Fake::new();
    let root = "https://mcp.example/.well-known/oauth-protected-resource";
    fake.on(root, json(200, &prm("https://mcp.example", "https://auth.example/tenant")));
    let appended = "https://auth.example/tenant/.well-known/openid-configuration";
    fake.on(appended, json(200, &metadata("https://auth.example/tenant")));
    assert!(found(&fake, &challenge("Bearer")).is_ok());
    assert_eq!(
        fake.urls(),
        [
            PRM,
            root,
            "https://auth.example/.well-known/oauth-authorization-server/tenant",
            "https://auth.example/.well-known/openid-configuration/tenant",
            appended,
        ]
    );
}

#[test]
fn metadata_about_another_server_is_refused() {
    let fake = Fake::new();
    fake.on(PRM, json(200, &prm("https://evil.example/mcp", "https://auth.example")));
    assert!(matches!(found(&fake, &challenge("Bearer")), Err(OAuthError::ResourceMismatch { .. })));
    assert_eq!(fake.urls(), [PRM], "nothing else is requested");
}

#[test]
fn metadata_of_another_issuer_is_refused() {
    let fake = Fake::new();
    fake.on(PRM, json(200, &prm(SERVER, "https://auth.example")));
    fake.on(
        "https://auth.example/.well-known/oauth-authorization-server",
        json(200, &metadata("https://evil.example")),
    );
    assert!(matches!(found(&fake, &challenge("Bearer")), Err(OAuthError::IssuerMismatch { .. })));
}

#[test]
fn private_addresses_and_files_in_metadata_are_refused() {
    for issuer in ["https://169.254.169.254", "file:///etc/passwd", "http://auth.example", "https://127.0.0.1"] {
        let fake = Fake::new();
        fake.on(PRM, json(200, &prm(SERVER, issuer)));
        assert!(matches!(found(&fake, &challenge("Bearer")), Err(OAuthError::Address { .. })), "{issuer}");
        assert_eq!(fake.urls(), [PRM]);
    }
    let fake = Fake::new();
    let header = r#"Bearer resource_metadata="http://169.254.169.254/latest/meta-data""#;
    assert!(matches!(found(&fake, &challenge(header)), Err(OAuthError::Address { .. })));
    assert!(fake.urls().is_empty());
}

const OWN_METADATA: &str = "https://mcp.example/.well-known/oauth-authorization-server";

#[test]
fn server_of_2025_03_26_is_its_own_authorization_server() {
    let fake = Fake::new();
    fake.on(OWN_METADATA, json(200, &metadata("https://mcp.example")));
    let with_metadata = found(&fake, &challenge("Bearer")).unwrap();
    assert_eq!((with_metadata.provider.issuer.as_str(), with_metadata.resource), ("https://mcp.example", None));

    let without = found(&Fake::new(), &challenge("Bearer")).unwrap();
    assert_eq!(without.provider.authorization_endpoint.as_deref(), Some("https://mcp.example/authorize"));
    assert_eq!(without.provider.registration_endpoint.as_deref(), Some("https://mcp.example/register"));
}

#[test]
fn endpoints_of_another_issuer_come_from_that_issuer() {
    let fake = Fake::new();
    let copy = metadata("https://auth.example").replace("https://auth.example/token", "https://evil.example/token");
    fake.on(OWN_METADATA, json(200, &copy));
    let own = json(200, &metadata("https://auth.example"));
    fake.on("https://auth.example/.well-known/oauth-authorization-server", own);
    let provider = found(&fake, &challenge("Bearer")).unwrap().provider;
    assert_eq!(
        (provider.issuer.as_str(), provider.token_endpoint.as_str()),
        ("https://auth.example", "https://auth.example/token")
    );
}

#[test]
fn issuer_without_own_metadata_is_refused() {
    let fake = Fake::new();
    fake.on(OWN_METADATA, json(200, &metadata("https://auth.example")));
    assert!(matches!(found(&fake, &challenge("Bearer")), Err(OAuthError::IssuerMismatch { .. })));
    let fake = Fake::new();
    fake.on(OWN_METADATA, json(200, &metadata("https://auth.example")));
    let third = json(200, &metadata("https://third.example"));
    fake.on("https://auth.example/.well-known/oauth-authorization-server", third);
    assert!(matches!(found(&fake, &challenge("Bearer")), Err(OAuthError::IssuerMismatch { .. })));
    assert_eq!(fake.urls().last().unwrap(), "https://auth.example/.well-known/oauth-authorization-server");
}

#[test]
fn server_with_anonymous_handshake_is_found_by_its_metadata() {
    let fake = Fake::new();
    fake.on(SERVER, json(200, "{}"));
    fake.on(PRM, json(200, &prm(SERVER, "https://auth.example")));
    let metadata = json(200, &metadata("https://auth.example"));
    fake.on("https://auth.example/.well-known/oauth-authorization-server", metadata);
    assert!(found(&fake, &[]).is_ok());
}

#[test]
fn server_that_refuses_nothing_offers_no_login() {
    let fake = Fake::new();
    fake.on(SERVER, json(200, "{}"));
    assert!(matches!(found(&fake, &[]), Err(OAuthError::NoLoginOffered { .. })));
}

#[test]
fn outage_is_not_taken_for_missing_metadata() {
    let fake = Fake::new();
    fake.on(PRM, json(503, "<html>"));
    let error = found(&fake, &challenge("Bearer")).unwrap_err();
    assert!(error.can_pass(), "{error}");
}

#[test]
fn configured_endpoints_replace_discovery() {
    let fake = Fake::new();
    let mut settings = Settings::new(SERVER);
    settings.authorization_endpoint = Some("https://idp.example/a".to_owned());
    settings.token_endpoint = Some("https://idp.example/t".to_owned());
    let found = block_on(discover(&fake.oauth(), &settings, &[])).unwrap();
    assert_eq!((found.provider.issuer.as_str(), found.provider.pkce), ("https://idp.example", true));
    assert!(fake.urls().is_empty());
}
