//! Tests of the authorization server and of the protected MCP server.

use std::net::SocketAddr;

use mendline_faults::{
    AuthorizationServer, AuthorizationSettings, Consent, Iss, Metadata, MetadataFault, Redirects, Refresh,
    ResourceMetadata, ResourceRule, Server, Settings, TokenFault,
};
use serde_json::{Value, json};

use crate::client::{Client, Connection, End, Reply, call, initialize};

/// The challenge of RFC 7636, appendix B, and its verifier.
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CALLBACK: &str = "http://127.0.0.1:7/callback";

/// A protected MCP server and its authorization server.
struct Pair {
    server: Server,
    authorization: AuthorizationServer,
}

impl Pair {
    async fn start(settings: AuthorizationSettings) -> Pair {
        let server = Server::start(Settings::default()).await.unwrap();
        let authorization = AuthorizationServer::start(settings).await.unwrap();
        server.protect(&authorization);
        Pair { server, authorization }
    }

    fn address(&self) -> SocketAddr {
        self.authorization.address()
    }

    /// Changes the settings.
    fn set(&self, change: impl FnOnce(&mut AuthorizationSettings)) {
        let mut settings = self.authorization.settings();
        change(&mut settings);
        self.authorization.change_settings(settings);
    }

    async fn register(&self) -> Value {
        let body = json!({ "redirect_uris": [CALLBACK] }).to_string();
        let reply = send(self.address(), "POST", "/register", "Content-Type: application/json\r\n", &body).await;
        serde_json::from_slice(&reply.body).unwrap()
    }

    async fn client(&self) -> String {
        self.register().await["client_id"].as_str().unwrap().to_owned()
    }

    async fn authorize(&self, client: &str, more: &str) -> Reply {
        let query = format!(
            "response_type=code&client_id={client}&redirect_uri={CALLBACK}&state=s1&code_challenge={CHALLENGE}\
             &code_challenge_method=S256{more}"
        );
        send(self.address(), "GET", &format!("/authorize?{query}"), "", "").await
    }

    async fn code(&self, client: &str, more: &str) -> String {
        parameter(&self.authorize(client, more).await, "code").unwrap()
    }

    async fn token(&self, form: &str) -> (u16, Value) {
        let headers = "Content-Type: application/x-www-form-urlencoded\r\n";
        let reply = send(self.address(), "POST", "/token", headers, form).await;
        (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    async fn redeem(&self, client: &str, code: &str) -> (u16, Value) {
        let code = format!("grant_type=authorization_code&code={code}&client_id={client}");
        self.token(&format!("{code}&redirect_uri={CALLBACK}&code_verifier={VERIFIER}")).await
    }

    async fn refresh(&self, client: &str, tokens: &Value) -> (u16, Value) {
        let token = tokens["refresh_token"].as_str().unwrap_or_default();
        self.token(&format!("grant_type=refresh_token&refresh_token={token}&client_id={client}")).await
    }

    async fn login(&self, more: &str) -> (String, Value) {
        let client = self.client().await;
        let code = self.code(&client, more).await;
        let (status, tokens) = self.redeem(&client, &code).await;
        assert_eq!(status, 200, "{tokens}");
        (client, tokens)
    }

    /// Calls a tool with a token.
    async fn call(&self, tool: &str, tokens: &Value) -> Reply {
        self.send(&call(1, tool, &json!({ "key": "k" })), tokens).await
    }

    async fn send(&self, message: &Value, tokens: &Value) -> Reply {
        let client = Client::modern(self.server.address());
        let token = tokens["access_token"].as_str().unwrap_or("none");
        let request = client.post(message).replacen("\r\n", &format!("\r\nAuthorization: Bearer {token}\r\n"), 1);
        client.exchange(&request).await
    }
}

async fn send(address: SocketAddr, verb: &str, path: &str, headers: &str, body: &str) -> Reply {
    let head = format!("{verb} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    let mut connection = Connection::dial(address).await;
    match connection.send_request(&format!("{head}{body}")).await {
        Ok(reply) => connection.rest(reply).await,
        Err(end) => Reply { status: 0, headers: Vec::new(), body: Vec::new(), end },
    }
}

async fn document(address: SocketAddr, path: &str) -> (u16, Value) {
    let reply = send(address, "GET", path, "", "").await;
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
}

/// Returns a parameter of the redirect.
fn parameter(reply: &Reply, name: &str) -> Option<String> {
    let (_, query) = reply.header("location")?.split_once('?')?;
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

#[tokio::test]
async fn login_gives_tokens_that_the_server_accepts() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let reply = Client::modern(pair.server.address()).call("create_note", "k").await;
    let challenge = reply.header("www-authenticate").unwrap().to_owned();
    assert_eq!(reply.status, 401);
    let (_, metadata) = challenge.split_once("resource_metadata=\"").unwrap();
    let path = metadata.trim_end_matches('"').trim_start_matches(&format!("http://{}", pair.server.address()));
    let (_, resource) = document(pair.server.address(), path).await;
    assert_eq!(resource["resource"], pair.server.url());
    assert_eq!(resource["authorization_servers"][0], pair.authorization.issuer());
    let (_, metadata) = document(pair.address(), "/.well-known/oauth-authorization-server").await;
    assert_eq!(metadata["issuer"], pair.authorization.issuer());
    let (_, tokens) = pair.login("&scope=mcp").await;
    assert_eq!(pair.call("create_note", &tokens).await.tool_text(), "wrote k");
    assert_eq!(pair.call("create_note", &json!({})).await.status, 401);
    let counts = pair.authorization.counts();
    assert_eq!((counts.registrations, counts.authorizations, counts.logins, counts.accepted), (1, 1, 1, 1));
    assert_eq!((counts.refused_without_token, counts.refused_token, counts.refused()), (1, 1, 2));
    assert_eq!(pair.server.oracle().counts().executions_of("k"), 1);
}

#[tokio::test]
async fn code_is_bound_to_its_verifier_and_used_once() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let client = pair.client().await;
    let code = pair.code(&client, "").await;
    let wrong = format!("grant_type=authorization_code&code={code}&client_id={client}&redirect_uri={CALLBACK}");
    assert_eq!(pair.token(&format!("{wrong}&code_verifier=guess")).await.1["error"], "invalid_grant");
    let code = pair.code(&client, "").await;
    assert_eq!(pair.redeem(&client, &code).await.0, 200);
    assert_eq!(pair.redeem(&client, &code).await.1["error"], "invalid_grant");
    let reply = pair.authorize(&client, "").await;
    assert_eq!(parameter(&reply, "state").as_deref(), Some("s1"));
    assert!(parameter(&reply, "iss").is_some());
    assert_eq!(pair.authorize("stranger", "").await.status, 400);
}

#[tokio::test]
async fn rotated_refresh_token_that_is_reused_revokes_the_login() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let (client, first) = pair.login("").await;
    let (_, second) = pair.refresh(&client, &first).await;
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(pair.call("lookup", &second).await.status, 200);
    assert_eq!(pair.refresh(&client, &first).await.1["error"], "invalid_grant");
    assert_eq!(pair.refresh(&client, &second).await.1["error"], "invalid_grant");
    assert_eq!(pair.call("lookup", &second).await.status, 401);
    let counts = pair.authorization.counts();
    assert_eq!((counts.refreshes, counts.reuses, counts.token_errors_of("invalid_grant")), (1, 1, 2));

    pair.set(|settings| settings.refresh = Refresh::Constant);
    let (client, first) = pair.login("").await;
    let (_, second) = pair.refresh(&client, &first).await;
    assert_eq!(second["refresh_token"], Value::Null);
    assert_eq!(pair.refresh(&client, &first).await.0, 200);
    pair.set(|settings| settings.refresh = Refresh::Absent);
    assert_eq!(pair.login("").await.1["refresh_token"], Value::Null);
}

#[tokio::test]
async fn tokens_expire_and_are_revoked() {
    let pair = Pair::start(AuthorizationSettings { access_seconds: 1, ..AuthorizationSettings::default() }).await;
    let (client, tokens) = pair.login("").await;
    assert_eq!(tokens["expires_in"], 1);
    while pair.call("lookup", &tokens).await.status == 200 {}
    let (_, tokens) = pair.refresh(&client, &tokens).await;
    assert_eq!(pair.call("lookup", &tokens).await.status, 200);
    pair.set(|settings| settings.access_seconds = 3600);
    let (_, tokens) = pair.refresh(&client, &tokens).await;
    pair.authorization.expire_access_tokens();
    assert_eq!(pair.call("lookup", &tokens).await.status, 401);
    let (_, tokens) = pair.refresh(&client, &tokens).await;
    let token = format!("token={}", tokens["refresh_token"].as_str().unwrap());
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(send(pair.address(), "POST", "/revoke", form, &token).await.status, 200);
    assert_eq!(pair.call("lookup", &tokens).await.status, 401);
    let (client, tokens) = pair.login("").await;
    pair.authorization.revoke_all();
    assert_eq!(pair.call("lookup", &tokens).await.status, 401);
    assert_eq!(pair.refresh(&client, &tokens).await.1["error"], "invalid_grant");
    pair.authorization.forget_clients();
    assert_eq!(pair.refresh(&client, &tokens).await, (401, json!({ "error": "invalid_client" })));
    assert_eq!(pair.authorization.counts().revocations, 1);
}

#[tokio::test]
async fn token_faults_meet_requests_in_order() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let (client, tokens) = pair.login("").await;
    let old = tokens.clone();
    pair.authorization.fail_token(TokenFault::Status { status: 503, retry_after: Some(7) }, 2);
    for fault in [TokenFault::Html, TokenFault::WrongJson, TokenFault::ErrorInSuccess("no".to_owned())] {
        pair.authorization.fail_token(fault, 1);
    }
    pair.authorization.fail_token(TokenFault::Error("temporarily_unavailable".to_owned()), 1);
    pair.authorization.fail_token(TokenFault::Cut, 1);
    for status in [503, 503, 200, 200, 200, 400, 0] {
        assert_eq!(pair.refresh(&client, &tokens).await.0, status);
    }
    pair.authorization.fail_token(TokenFault::Slow(1), 1);
    let (_, tokens) = pair.refresh(&client, &tokens).await;
    assert_eq!(pair.call("lookup", &tokens).await.status, 200);
    let counts = pair.authorization.counts();
    assert_eq!((counts.token_faults, counts.refreshes, counts.reuses), (8, 1, 0));
    // The answer is lost after the rotation, so that the token that the client holds is a used one.
    pair.authorization.fail_token(TokenFault::CutAfterProcessing, 1);
    assert_eq!(pair.refresh(&client, &tokens).await.0, 0);
    assert_eq!(pair.refresh(&client, &tokens).await.1["error"], "invalid_grant");
    assert_ne!(old, tokens);
}

#[tokio::test]
async fn settings_choose_the_differences_of_providers() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let client = pair.client().await;
    pair.set(|settings| settings.resource = ResourceRule::Refused);
    let reply = pair.authorize(&client, "&resource=http://x").await;
    assert_eq!(parameter(&reply, "error").as_deref(), Some("invalid_target"));
    pair.set(|settings| settings.resource = ResourceRule::Exact);
    assert_eq!(parameter(&pair.authorize(&client, "").await, "error").as_deref(), Some("invalid_target"));
    let url = format!("&resource={}", pair.server.url());
    let code = pair.code(&client, &url).await;
    assert_eq!(pair.redeem(&client, &code).await.1["error"], "invalid_target");
    pair.set(|settings| {
        settings.resource = ResourceRule::Optional;
        settings.iss = Iss::Wrong;
    });
    assert_eq!(parameter(&pair.authorize(&client, "").await, "iss").unwrap(), "https%3A%2F%2Fissuer.example.com");
    pair.set(|settings| settings.redirects = Redirects::OnlyLocalhost);
    assert_eq!(pair.authorize(&client, "").await.status, 400);
    assert_eq!(pair.register().await["error"], "invalid_redirect_uri");
    pair.set(|settings| settings.consent = Consent::Denied);
    pair.set(|settings| settings.redirects = Redirects::Loopback);
    assert_eq!(parameter(&pair.authorize(&client, "").await, "error").as_deref(), Some("access_denied"));
    pair.set(|settings| settings.registration = false);
    assert_eq!(send(pair.address(), "POST", "/register", "", "").await.status, 404);
    assert_eq!(parameter(&pair.authorize(&client, "&scope=other").await, "error").as_deref(), Some("invalid_scope"));
}

#[tokio::test]
async fn metadata_has_the_chosen_location_and_fault() {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    let pair = Pair::start(AuthorizationSettings::default()).await;
    pair.set(|settings| settings.metadata = Metadata::Openid);
    assert_eq!(document(pair.address(), OAUTH).await.0, 404);
    assert_eq!(document(pair.address(), "/.well-known/openid-configuration").await.0, 200);
    pair.set(|settings| {
        settings.metadata = Metadata::Both;
        settings.issuer_path = "/tenant".to_owned();
    });
    let (_, metadata) = document(pair.address(), &format!("{OAUTH}/tenant")).await;
    assert_eq!(metadata["token_endpoint"], format!("{}/token", pair.authorization.issuer()));
    assert_eq!(document(pair.address(), "/tenant/.well-known/openid-configuration").await.0, 200);
    pair.set(|settings| settings.issuer_path.clear());
    for (fault, status) in [(MetadataFault::Loop, 302), (MetadataFault::Html, 200), (MetadataFault::Error, 500)] {
        pair.set(|settings| settings.metadata_fault = Some(fault));
        assert_eq!(document(pair.address(), OAUTH).await, (status, Value::Null));
    }
    pair.set(|settings| settings.metadata_fault = Some(MetadataFault::LinkLocal));
    assert_eq!(document(pair.address(), OAUTH).await.1["token_endpoint"], "http://169.254.169.254/token");
    pair.set(|settings| settings.metadata_fault = Some(MetadataFault::WrongIssuer));
    assert_eq!(document(pair.address(), OAUTH).await.1["issuer"], "https://issuer.example.com");
    pair.set(|settings| settings.resource_metadata = ResourceMetadata::Root);
    assert_eq!(document(pair.server.address(), "/.well-known/oauth-protected-resource/mcp").await.0, 404);
    assert_eq!(document(pair.server.address(), "/.well-known/oauth-protected-resource").await.0, 200);
    pair.set(|settings| settings.date_skew_seconds = -86_400);
    let date = send(pair.address(), "GET", OAUTH, "", "").await.header("date").unwrap().to_owned();
    pair.set(|settings| settings.date_skew_seconds = 0);
    assert_ne!(date[..16], send(pair.address(), "GET", OAUTH, "", "").await.header("date").unwrap()[..16]);
}

#[tokio::test]
async fn machine_gets_a_token_by_secret_and_by_assertion() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let form = "grant_type=client_credentials&client_id=machine";
    let (_, tokens) = pair.token(&format!("{form}&client_secret=secret-canary-machine")).await;
    assert_eq!(pair.call("lookup", &tokens).await.status, 200);
    assert_eq!(pair.token(&format!("{form}&client_secret=guess")).await.0, 401);
    let headers = "Content-Type: application/x-www-form-urlencoded\r\nAuthorization: Basic ";
    // The text is machine:secret-canary-machine.
    let headers = format!("{headers}bWFjaGluZTpzZWNyZXQtY2FuYXJ5LW1hY2hpbmU=\r\n");
    let reply = send(pair.address(), "POST", "/token", &headers, "grant_type=client_credentials").await;
    assert_eq!(reply.status, 200);
    // The claims are {"iss":"machine","sub":"machine","aud":"another","exp":99999999999}.
    let claims = "eyJpc3MiOiJtYWNoaW5lIiwic3ViIjoibWFjaGluZSIsImF1ZCI6ImFub3RoZXIiLCJleHAiOjk5OTk5OTk5OTk5fQ";
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let assertion =
        format!("grant_type=client_credentials&client_assertion_type={kind}&client_assertion=e30.{claims}.s");
    assert_eq!(pair.token(&assertion).await.1["error"], "invalid_client");
}

#[tokio::test]
async fn device_is_approved_after_some_polls() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let client = pair.client().await;
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let reply = send(pair.address(), "POST", "/device_authorization", form, &format!("client_id={client}")).await;
    let device: Value = serde_json::from_slice(&reply.body).unwrap();
    let poll = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code={}&client_id={client}",
        device["device_code"].as_str().unwrap()
    );
    assert_eq!(pair.token(&poll).await.1["error"], "authorization_pending");
    let (_, tokens) = pair.token(&poll).await;
    assert_eq!(pair.call("lookup", &tokens).await.status, 200);
    assert_eq!(pair.token(&poll).await.1["error"], "expired_token");
}

#[tokio::test]
async fn consent_page_leads_to_a_code() {
    let pair = Pair::start(AuthorizationSettings { consent: Consent::Page, ..AuthorizationSettings::default() }).await;
    let client = pair.client().await;
    let page = pair.authorize(&client, "").await.text();
    let (_, number) = page.split_once("value=\"").unwrap();
    let number = number.split('"').next().unwrap();
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let allow = format!("page={number}&decision=allow");
    let reply = send(pair.address(), "POST", "/consent", form, &allow).await;
    let code = parameter(&reply, "code").unwrap();
    assert_eq!(pair.redeem(&client, &code).await.0, 200);
    assert_eq!(send(pair.address(), "POST", "/consent", form, &allow).await.status, 400);
    assert_eq!((pair.authorization.counts().pages, pair.authorization.counts().logins), (1, 1));
}

#[tokio::test]
async fn tool_with_a_scope_is_refused_with_a_challenge() {
    let pair = Pair::start(AuthorizationSettings::default()).await;
    let (_, tokens) = pair.login("&scope=mcp").await;
    let reply = pair.call("big", &tokens).await;
    let challenge = reply.header("www-authenticate").unwrap();
    assert_eq!(reply.status, 403);
    assert!(challenge.contains("error=\"insufficient_scope\"") && challenge.contains("scope=\"files\""), "{challenge}");
    let (_, tokens) = pair.login("&scope=mcp%20files%20openid").await;
    assert_eq!(pair.call("big", &tokens).await.status, 200);
    assert!(tokens["id_token"].is_string());
    let headers = format!("Authorization: Bearer {}\r\n", tokens["access_token"].as_str().unwrap());
    let reply = send(pair.address(), "GET", "/userinfo", &headers, "").await;
    assert!(reply.text().contains("ada@example.com"));
    assert_eq!(send(pair.address(), "GET", "/userinfo", "", "").await.status, 401);
}

#[tokio::test]
async fn handshake_can_be_anonymous() {
    let settings = AuthorizationSettings { anonymous_handshake: true, ..AuthorizationSettings::default() };
    let pair = Pair::start(settings).await;
    let client = Client::legacy(pair.server.address()).await;
    assert_eq!(client.send(&initialize()).await.status, 200);
    assert_eq!(client.call("lookup", "k").await.status, 401);
}

#[tokio::test]
async fn stream_ends_when_its_token_expires() {
    let settings =
        AuthorizationSettings { access_seconds: 1, streams_end_at_expiry: true, ..AuthorizationSettings::default() };
    let pair = Pair::start(settings).await;
    let (_, tokens) = pair.login("").await;
    let slow = call(1, "slow", &json!({ "key": "k", "steps": 1000, "stepMs": 50 }));
    let reply = pair.send(&slow, &tokens).await;
    assert_eq!((reply.status, reply.end), (200, End::Fin));
    assert!(!reply.events().is_empty());
}

#[tokio::test]
async fn combined_server_has_the_endpoints_at_its_own_origin() {
    let settings = AuthorizationSettings {
        combined: true,
        resource_metadata: ResourceMetadata::Absent,
        metadata: Metadata::Absent,
        ..AuthorizationSettings::default()
    };
    let pair = Pair::start(settings).await;
    let body = json!({ "redirect_uris": [CALLBACK] }).to_string();
    let reply = send(pair.server.address(), "POST", "/register", "Content-Type: application/json\r\n", &body).await;
    assert_eq!(reply.status, 201);
    assert_eq!(document(pair.server.address(), "/.well-known/oauth-authorization-server").await.0, 404);
    assert_eq!(document(pair.server.address(), "/.well-known/oauth-protected-resource").await.0, 404);
}
