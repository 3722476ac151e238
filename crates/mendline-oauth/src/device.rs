//! The device login (RFC 8628): the person confirms a code on another device.

use std::time::Duration;

use mendline::decisions::Secret;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::OAuth;
use crate::error::OAuthError;
use crate::http::Request;
use crate::metadata::{Provider, object, text};
use crate::registration::Client;
use crate::settings::AuthMethod;
use crate::text::{quoted, shown};
use crate::token::{self, Grant, TokenRequest, TokenResult, Tokens, error_of};
use crate::ui::{LoginUi, Progress};
use crate::url::{AddressRule, push_parameter};

/// The interval of questions, unless the server says otherwise.
const INTERVAL: Duration = Duration::from_secs(5);

/// The addition to the interval after `slow_down`.
const SLOWER: Duration = Duration::from_secs(5);

/// The longest interval that a server can ask for.
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// The lifetime of a code, unless the server says otherwise.
const LIFETIME: Duration = Duration::from_secs(600);

/// The longest lifetime of a code that a server can give.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The parts of a device login.
pub(crate) struct DeviceLogin<'a> {
    pub(crate) provider: &'a Provider,
    pub(crate) client: &'a Client,
    pub(crate) scopes: &'a [String],
    pub(crate) resource: Option<&'a str>,
    pub(crate) rule: AddressRule<'a>,
}

/// A device code.
struct Code {
    code: Secret,
    interval: Duration,
    lifetime: Duration,
}

/// Shows a code and waits until the person has confirmed it.
pub(crate) async fn run(oauth: &OAuth, login: &DeviceLogin<'_>, ui: &dyn LoginUi) -> Result<Tokens, OAuthError> {
    let code = start(oauth, login, ui).await?;
    let deadline = Instant::now() + code.lifetime;
    let mut interval = code.interval;
    loop {
        sleep(interval).await;
        if Instant::now() >= deadline {
            return Err(OAuthError::DeviceExpired);
        }
        let request = TokenRequest {
            endpoint: &login.provider.token_endpoint,
            client: login.client,
            signer: None,
            grant: Grant::Device { code: &code.code },
            resource: login.resource,
        };
        match token::request(oauth, &request).await? {
            TokenResult::Granted(tokens) => return Ok(tokens),
            TokenResult::Denied { error, .. } if error == "authorization_pending" => {}
            TokenResult::Denied { error, .. } if error == "slow_down" => {
                interval = (interval + SLOWER).min(MAX_INTERVAL);
            }
            TokenResult::Denied { error, .. } if error == "expired_token" => return Err(OAuthError::DeviceExpired),
            TokenResult::Denied { error, description } => {
                return Err(OAuthError::AuthorizationDenied { error, description });
            }
            // A connection that timed out: RFC 8628 asks for a longer interval.
            TokenResult::Unavailable { retry_after, .. } => {
                interval = retry_after.unwrap_or(interval * 2).clamp(interval, MAX_INTERVAL);
            }
            TokenResult::NotAllowed { why } => return Err(OAuthError::Denied { error: why, description: None }),
        }
    }
}

async fn start(oauth: &OAuth, login: &DeviceLogin<'_>, ui: &dyn LoginUi) -> Result<Code, OAuthError> {
    let Some(endpoint) = &login.provider.device_endpoint else {
        return Err(OAuthError::NoDeviceLogin { issuer: login.provider.issuer.clone() });
    };
    let mut form = String::new();
    push_parameter(&mut form, "client_id", &login.client.id);
    if !login.scopes.is_empty() {
        push_parameter(&mut form, "scope", &login.scopes.join(" "));
    }
    if let Some(resource) = login.resource {
        push_parameter(&mut form, "resource", resource);
    }
    if let (AuthMethod::ClientSecretPost | AuthMethod::ClientSecretBasic, Some(secret)) =
        (login.client.method, &login.client.secret)
    {
        push_parameter(&mut form, "client_secret", secret.expose());
    }
    let unavailable = |why: &str| OAuthError::Unavailable { url: endpoint.clone(), why: quoted(&oauth.redactor, why) };
    let request = Request::form(endpoint.as_str(), Secret::new(form));
    let response = oauth.http.send(request).await.map_err(|error| unavailable(&error.why))?;
    let answer = object(response.body.expose()).unwrap_or_default();
    if let Some((error, description)) = error_of(&answer) {
        let description = description.map(|words| quoted(&oauth.redactor, &words));
        return Err(OAuthError::Denied { error: quoted(&oauth.redactor, &error), description });
    }
    let url = text(&answer, "verification_uri").or_else(|| text(&answer, "verification_url"));
    let (Some(code), Some(user_code), Some(url)) = (text(&answer, "device_code"), text(&answer, "user_code"), url)
    else {
        return Err(unavailable(&format!("HTTP {} without a code", response.status)));
    };
    login.rule.check("verification page", &url)?;
    let complete_url = text(&answer, "verification_uri_complete").filter(|it| login.rule.check("", it).is_ok());
    let code = Secret::new(code);
    oauth.redactor.learn([&code]);
    ui.progress(&Progress::Device { code: shown(&user_code), url, complete_url });
    let seconds = |name: &str| answer.get(name).and_then(Value::as_u64).filter(|it| *it > 0).map(Duration::from_secs);
    let interval = seconds("interval").unwrap_or(INTERVAL).min(MAX_INTERVAL);
    Ok(Code { code, interval, lifetime: seconds("expires_in").unwrap_or(LIFETIME).min(MAX_LIFETIME) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::ClientOrigin;
    use crate::testing::{Fake, Person, block_on, json};

    const DEVICE: &str = "https://auth.example/device";
    const TOKEN: &str = "https://auth.example/token";

    fn run_with(fake: &Fake, person: &Person) -> (Result<Tokens, OAuthError>, Duration) {
        let provider = Provider {
            issuer: "https://auth.example".to_owned(),
            token_endpoint: TOKEN.to_owned(),
            device_endpoint: Some(DEVICE.to_owned()),
            ..Provider::default()
        };
        let client = Client {
            id: "c".to_owned(),
            secret: None,
            method: AuthMethod::None,
            origin: ClientOrigin::Configured,
            redirect: None,
            secret_expires_at: None,
        };
        let rule = AddressRule::for_server("https://mcp.example", false);
        let login = DeviceLogin { provider: &provider, client: &client, scopes: &[], resource: None, rule };
        block_on(async {
            let before = Instant::now();
            let result = run(&fake.oauth(), &login, person).await;
            (result, before.elapsed())
        })
    }

    fn code(fake: &Fake) {
        let body = r#"{"device_code":"d","user_code":"AB-CD","verification_uri":"https://auth.example/go","interval":2,"expires_in":60}"#;
        fake.on(DEVICE, json(200, body));
    }

    #[test]
    fn code_is_shown_and_asked_about_at_the_interval() {
        let (fake, person) = (Fake::new(), Person::default());
        code(&fake);
        fake.on(TOKEN, json(400, r#"{"error":"authorization_pending"}"#));
        fake.on(TOKEN, json(400, r#"{"error":"slow_down"}"#));
        fake.on(TOKEN, json(503, ""));
        fake.on(TOKEN, json(200, r#"{"access_token":"a"}"#));
        let (result, took) = run_with(&fake, &person);
        assert_eq!(result.unwrap().access_token, Secret::new("a"));
        assert_eq!(took.as_secs(), 2 + 2 + 7 + 14);
        assert!(person.steps()[0].to_string().contains("open https://auth.example/go and enter the code AB-CD"));
    }

    #[test]
    fn expired_or_refused_code_ends_the_login() {
        let fake = Fake::new();
        code(&fake);
        fake.on(TOKEN, json(400, r#"{"error":"authorization_pending"}"#));
        let (result, took) = run_with(&fake, &Person::default());
        assert_eq!(result, Err(OAuthError::DeviceExpired));
        assert!(took.as_secs() <= 62, "{took:?}");
        for (error, expired) in [("expired_token", true), ("access_denied", false)] {
            let fake = Fake::new();
            code(&fake);
            fake.on(TOKEN, json(400, &format!(r#"{{"error":"{error}"}}"#)));
            assert_eq!(run_with(&fake, &Person::default()).0 == Err(OAuthError::DeviceExpired), expired);
        }
    }

    #[test]
    fn code_with_an_endless_lifetime_is_accepted() {
        let fake = Fake::new();
        let body = r#"{"device_code":"d","user_code":"A","verification_uri":"https://auth.example/go","expires_in":18446744073709551615}"#;
        fake.on(DEVICE, json(200, body));
        fake.on(TOKEN, json(200, r#"{"access_token":"a"}"#));
        assert!(run_with(&fake, &Person::default()).0.is_ok());
    }

    #[test]
    fn page_of_the_code_may_not_be_private() {
        let fake = Fake::new();
        fake.on(DEVICE, json(200, r#"{"device_code":"d","user_code":"A","verification_uri":"file:///etc/passwd"}"#));
        assert!(matches!(run_with(&fake, &Person::default()).0, Err(OAuthError::Address { .. })));
    }
}
