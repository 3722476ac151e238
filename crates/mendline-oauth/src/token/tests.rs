//! Tests of token requests and responses.

use super::*;
use crate::http::SendError;
use crate::registration::ClientOrigin;
use crate::testing::{Fake, block_on, json};
use crate::url::parameters;

const ENDPOINT: &str = "https://auth.example/token";

fn client(method: AuthMethod) -> Client {
    Client {
        id: "id:1".to_owned(),
        secret: Some(Secret::new("s/ cret")),
        method,
        origin: ClientOrigin::Configured,
        redirect: None,
        secret_expires_at: None,
    }
}

fn refresh(fake: &Fake, method: AuthMethod) -> TokenResult {
    let (client, token) = (client(method), Secret::new("refresh-1"));
    let grant = Grant::Refresh { token: &token };
    let resource = Some("https://mcp.example/mcp");
    let request = TokenRequest { endpoint: ENDPOINT, client: &client, signer: None, grant, resource };
    block_on(super::request(&fake.oauth(), &request)).unwrap()
}

fn answered(response: Response) -> TokenResult {
    let fake = Fake::new();
    fake.on(ENDPOINT, response);
    refresh(&fake, AuthMethod::None)
}

#[test]
fn client_is_authenticated_by_its_method() {
    for method in [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost] {
        let fake = Fake::new();
        refresh(&fake, method);
        let request = &fake.requests()[0];
        let form = parameters(request.body.as_ref().unwrap().1.expose());
        let has = |name: &str| form.iter().any(|(it, _)| it == name);
        let header = request.headers.iter().find(|(name, _)| name == "Authorization").map(|(_, value)| value.expose());
        let basic = format!("Basic {}", STANDARD.encode("id%3A1:s%2F%20cret"));
        assert_eq!(header, (method == AuthMethod::ClientSecretBasic).then_some(basic.as_str()));
        assert_eq!(has("client_secret"), method == AuthMethod::ClientSecretPost);
        assert_eq!(has("client_id"), method != AuthMethod::ClientSecretBasic);
        assert!(form.contains(&("resource".to_owned(), "https://mcp.example/mcp".to_owned())));
        assert!(form.contains(&("refresh_token".to_owned(), "refresh-1".to_owned())));
    }
}

#[test]
fn tokens_are_read_tolerantly() {
    for (body, seconds) in [
        (r#"{"access_token":"a","expires_in":3600,"token_type":"bearer"}"#, Some(3600)),
        (r#"{"access_token":"a","expires_in":"3600"}"#, Some(3600)),
        (r#"{"access_token":"a","token_type":"BEARER"}"#, None),
        (r#"{"access_token":"a","expires_in":0}"#, None),
        (r#"{"access_token":"a","expires_in":-5}"#, None),
        (r#"{"access_token":"a","expires_in":1e300}"#, None),
        (r#"{"access_token":"a","expires_in":[]}"#, None),
        (r#"{"ok":true,"authed_user":{"access_token":"a","expires_in":60}}"#, Some(60)),
    ] {
        let TokenResult::Granted(tokens) = answered(json(200, body)) else { panic!("{body}") };
        assert_eq!(tokens.expires_in, seconds.map(Duration::from_secs), "{body}");
    }
    let TokenResult::Granted(tokens) = answered(json(200, r#"{"access_token":"a","scope":"x y,z"}"#)) else { panic!() };
    assert_eq!(tokens.scopes.unwrap(), ["x", "y", "z"]);
}

#[test]
fn error_code_is_a_denial_whatever_the_status() {
    for (status, body, error) in [
        (400, r#"{"error":"invalid_grant","error_description":"gone"}"#, "invalid_grant"),
        (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#, "invalid_refresh_token"),
        (200, r#"{"error":"bad_refresh_token"}"#, "bad_refresh_token"),
        (401, r#"{"error":"invalid_client"}"#, "invalid_client"),
        (400, r#"{"error":{"code":"invalid_grant","message":"x"}}"#, "invalid_grant"),
    ] {
        let result = answered(json(status, body));
        assert!(matches!(&result, TokenResult::Denied { error: found, .. } if found == error), "{body}: {result:?}");
        assert_eq!(result.is_invalid_grant(), error != "invalid_client");
        assert_eq!(result.is_invalid_client(), error == "invalid_client");
    }
}

#[test]
fn passing_faults_are_never_denials() {
    let mut limited = json(429, r#"{"error":"invalid_grant"}"#);
    limited.headers.push(("Retry-After".to_owned(), "7".to_owned()));
    let TokenResult::Unavailable { retry_after, .. } = answered(limited) else { panic!() };
    assert_eq!(retry_after, Some(Duration::from_secs(7)));
    for response in [
        json(500, r#"{"error":"invalid_grant"}"#),
        json(503, "<html>"),
        json(200, "<html>"),
        json(403, "<html>blocked</html>"),
        json(200, "{}"),
        json(200, r#"{"access_token":5}"#),
        json(200, r#"{"access_token":""}"#),
        json(400, "{}"),
        json(302, ""),
        json(400, r#"{"error":"temporarily_unavailable"}"#),
    ] {
        let body = response.body.expose().to_owned();
        let result = answered(response);
        assert!(matches!(result, TokenResult::Unavailable { may_be_received: true, .. }), "{body}: {result:?}");
    }
}

#[test]
fn failed_request_says_whether_it_may_be_received() {
    for (fate, received) in [(Fate::NotSent, false), (Fate::MayBeReceived, true)] {
        let fake = Fake::new();
        fake.fail(ENDPOINT, SendError { fate, why: "reset".to_owned() });
        let result = refresh(&fake, AuthMethod::None);
        assert!(matches!(result, TokenResult::Unavailable { may_be_received, .. } if may_be_received == received));
    }
}

#[test]
fn fruitless_requests_reach_a_ceiling() {
    let fake = Fake::new();
    fake.on(ENDPOINT, json(400, r#"{"error":"invalid_grant"}"#));
    let oauth = fake.oauth();
    block_on(async {
        for _ in 0..crate::store::counters::MAX_FRUITLESS {
            oauth.store.count_fruitless("https://auth.example", 1, (oauth.clock)()).await;
        }
    });
    let (client, token) = (client(AuthMethod::None), Secret::new("r"));
    let grant = Grant::Refresh { token: &token };
    let request = TokenRequest { endpoint: ENDPOINT, client: &client, signer: None, grant, resource: None };
    assert!(matches!(block_on(super::request(&oauth, &request)), Err(OAuthError::Ceiling { count: 300, .. })));
    assert!(fake.urls().is_empty());
    assert_eq!(oauth.store.fruitless_today("https://auth.example"), 300);
}

#[test]
fn request_that_was_not_sent_is_not_counted() {
    for fate in [Fate::NotSent, Fate::NotAllowed] {
        let fake = Fake::new();
        fake.fail(ENDPOINT, SendError { fate, why: "no route".to_owned() });
        refresh(&fake, AuthMethod::None);
        assert_eq!(fake.oauth().store.fruitless_today("https://auth.example"), 0, "{fate:?}");
    }
}

#[test]
fn provider_that_fails_all_day_gets_few_requests_and_no_ceiling() {
    let fake = Fake::new();
    fake.on(ENDPOINT, json(503, "<html>"));
    let midnight = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * 24 * 60 * 60);
    let (client, token) = (client(AuthMethod::None), Secret::new("r"));
    let mut last_gap = 0;
    for second in (0..24 * 60 * 60).step_by(10) {
        let oauth = fake.oauth().clock(move || midnight + Duration::from_secs(second));
        let grant = Grant::Refresh { token: &token };
        let request = TokenRequest { endpoint: ENDPOINT, client: &client, signer: None, grant, resource: None };
        let before = fake.urls().len();
        let result = block_on(super::request(&oauth, &request)).expect("no ceiling");
        assert!(matches!(result, TokenResult::Unavailable { .. }));
        last_gap = if fake.urls().len() > before { 0 } else { last_gap + 10 };
        assert!(last_gap <= 600, "a request at least every ten minutes");
    }
    assert!((200..=300).contains(&fake.urls().len()), "{}", fake.urls().len());
}
