//! The client at an authorization server: configured, described by a document, or registered.
//!
//! The order is that of MCP: a configured client, then a client id metadata document where the authorization server
//! accepts them, then dynamic registration (RFC 7591). A registration is stored with its issuer and its redirect URL,
//! and is used until the authorization server says that it does not know it.

use mendline::decisions::Secret;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::OAuth;
use crate::error::OAuthError;
use crate::http::Request;
use crate::metadata::{Provider, object, text};
use crate::profile::Profile;
use crate::settings::{AuthMethod, Settings};
use crate::store::record::{optional_secret, seconds};
use crate::text::quoted;
use crate::token::{DEVICE_GRANT, error_of};
use crate::url::Parts;

/// A client at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    #[serde(default, with = "optional_secret")]
    pub(crate) secret: Option<Secret>,
    pub(crate) method: AuthMethod,
    pub(crate) origin: ClientOrigin,
    /// The redirect URL with which it was registered.
    #[serde(default)]
    pub(crate) redirect: Option<String>,
    /// The expiry of the secret, in seconds since 1970.
    #[serde(default)]
    pub(crate) secret_expires_at: Option<u64>,
}

/// The origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientOrigin {
    Configured,
    Document,
    Registered,
}

impl Client {
    /// Returns the port of the redirect URL with which the client was registered.
    pub(crate) fn redirect_port(&self) -> Option<u16> {
        Parts::of(self.redirect.as_deref()?)?.port
    }

    fn is_expired(&self, oauth: &OAuth) -> bool {
        self.secret_expires_at.is_some_and(|at| at <= seconds((oauth.clock)()))
    }
}

/// Returns the configured client, if there is one.
pub(crate) fn configured(settings: &Settings, provider: &Provider) -> Option<Client> {
    let id = settings.client_id.clone()?;
    let secret = settings.client_secret.clone();
    let method = settings.auth_method.unwrap_or_else(|| method_for(provider, secret.is_some()));
    Some(Client { id, secret, method, origin: ClientOrigin::Configured, redirect: None, secret_expires_at: None })
}

/// Returns the client for a login, and whether it was registered just now.
pub(crate) async fn client_for(
    oauth: &OAuth,
    settings: &Settings,
    provider: &Provider,
    known: Option<&Client>,
    redirect: &str,
) -> Result<(Client, bool), OAuthError> {
    if let Some(client) = configured(settings, provider) {
        return Ok((client, false));
    }
    if let (Some(url), true) = (&settings.client_metadata_url, provider.accepts_metadata_documents) {
        let (id, method, origin) = (url.clone(), AuthMethod::None, ClientOrigin::Document);
        return Ok((Client { id, secret: None, method, origin, redirect: None, secret_expires_at: None }, false));
    }
    if let Some(client) = known.filter(|it| it.redirect.as_deref() == Some(redirect) && !it.is_expired(oauth)) {
        return Ok((client.clone(), false));
    }
    match &provider.registration_endpoint {
        Some(endpoint) if !needs_client(settings, provider) => {
            register(oauth, provider, endpoint, redirect).await.map(|client| (client, true))
        }
        _ => Err(OAuthError::ClientNeeded { issuer: provider.issuer.clone(), redirect: redirect.to_owned() }),
    }
}

/// Returns whether a login needs a client that a person creates at the authorization server first.
pub fn needs_client(settings: &Settings, provider: &Provider) -> bool {
    let has_document = settings.client_metadata_url.is_some() && provider.accepts_metadata_documents;
    let registers = provider.registration_endpoint.is_some() && Profile::of(provider).registers;
    settings.client_id.is_none() && !has_document && !registers
}

async fn register(oauth: &OAuth, provider: &Provider, endpoint: &str, redirect: &str) -> Result<Client, OAuthError> {
    let method = method_to_request(provider);
    let mut grants = vec!["authorization_code", "refresh_token"];
    if provider.device_endpoint.is_some() {
        grants.push(DEVICE_GRANT);
    }
    let body = json!({
        "client_name": "Mendline",
        "client_uri": "https://mendline.dev",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": method.as_str(),
    });
    let unavailable =
        |why: String| OAuthError::Unavailable { url: endpoint.to_owned(), why: quoted(&oauth.redactor, &why) };
    let request = Request::json(endpoint, Secret::new(body.to_string()));
    let response = oauth.http.send(request).await.map_err(|error| unavailable(error.why))?;
    if response.status >= 500 || response.status == 429 {
        return Err(unavailable(format!("HTTP {}", response.status)));
    }
    let answer = object(response.body.expose()).unwrap_or_default();
    let Some(id) = text(&answer, "client_id").filter(|_| response.is_success()) else {
        let why = error_of(&answer).map_or_else(
            || format!("HTTP {}", response.status),
            |(error, words)| match words {
                Some(words) => format!("{error}: {words}"),
                None => error,
            },
        );
        let issuer = provider.issuer.clone();
        return Err(OAuthError::RegistrationRefused { issuer, why: quoted(&oauth.redactor, &why) });
    };
    let secret = text(&answer, "client_secret").map(Secret::new);
    oauth.redactor.learn(secret.iter());
    let given = text(&answer, "token_endpoint_auth_method").and_then(|name| AuthMethod::parse(&name));
    let method = match given {
        Some(AuthMethod::None) => AuthMethod::None,
        Some(method) if secret.is_some() => method,
        _ => method_for(provider, secret.is_some()),
    };
    let expires = answer.get("client_secret_expires_at").and_then(serde_json::Value::as_u64).filter(|at| *at > 0);
    Ok(Client {
        id,
        secret,
        method,
        origin: ClientOrigin::Registered,
        redirect: Some(redirect.to_owned()),
        secret_expires_at: expires,
    })
}

/// The authentication method to request: none for a program on a person's machine, if that is offered.
fn method_to_request(provider: &Provider) -> AuthMethod {
    let Some(methods) = &provider.auth_methods else { return AuthMethod::None };
    let order = [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost];
    order.into_iter().find(|method| methods.contains(method)).unwrap_or(AuthMethod::None)
}

/// The authentication method of a client with or without a secret.
pub(crate) fn method_for(provider: &Provider, has_secret: bool) -> AuthMethod {
    if !has_secret {
        return AuthMethod::None;
    }
    match &provider.auth_methods {
        Some(methods) if methods.contains(&AuthMethod::ClientSecretBasic) => AuthMethod::ClientSecretBasic,
        Some(methods) if methods.contains(&AuthMethod::ClientSecretPost) => AuthMethod::ClientSecretPost,
        _ => AuthMethod::ClientSecretBasic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, block_on, json as answer};

    const REDIRECT: &str = "http://127.0.0.1:4711/callback";
    const REGISTER: &str = "https://auth.example/register";

    fn provider(methods: Option<Vec<AuthMethod>>) -> Provider {
        Provider {
            issuer: "https://auth.example".to_owned(),
            registration_endpoint: Some(REGISTER.to_owned()),
            auth_methods: methods,
            ..Provider::default()
        }
    }

    fn run(
        fake: &Fake,
        settings: &Settings,
        provider: &Provider,
        known: Option<&Client>,
    ) -> Result<(Client, bool), OAuthError> {
        block_on(client_for(&fake.oauth(), settings, provider, known, REDIRECT))
    }

    fn settings() -> Settings {
        Settings::new("https://mcp.example/mcp")
    }

    #[test]
    fn configured_client_comes_first_then_document_then_registration() {
        let fake = Fake::new();
        fake.on(REGISTER, answer(201, r#"{"client_id":"dynamic"}"#));
        let mut provider = provider(None);
        provider.accepts_metadata_documents = true;
        let mut settings = settings();
        assert_eq!(run(&fake, &settings, &provider, None).unwrap().0.id, "dynamic");
        settings.client_metadata_url = Some("https://me.example/client.json".to_owned());
        assert_eq!(run(&fake, &settings, &provider, None).unwrap().0.id, "https://me.example/client.json");
        provider.accepts_metadata_documents = false;
        assert_eq!(run(&fake, &settings, &provider, None).unwrap().0.id, "dynamic");
        settings.client_id = Some("mine".to_owned());
        let client = run(&fake, &settings, &provider, None).unwrap().0;
        assert_eq!((client.id.as_str(), client.method), ("mine", AuthMethod::None));
        settings.client_secret = Some(Secret::new("s"));
        assert_eq!(run(&fake, &settings, &provider, None).unwrap().0.method, AuthMethod::ClientSecretBasic);
    }

    #[test]
    fn registration_names_what_a_native_client_needs() {
        let fake = Fake::new();
        fake.on(REGISTER, answer(201, r#"{"client_id":"c","client_secret":"shh","client_secret_expires_at":0}"#));
        let (client, new) = run(&fake, &settings(), &provider(Some(vec![AuthMethod::ClientSecretPost])), None).unwrap();
        assert!(new && client.secret_expires_at.is_none());
        assert_eq!(client.method, AuthMethod::ClientSecretPost);
        let body = fake.requests()[0].body.clone().unwrap().1;
        let body: serde_json::Value = serde_json::from_str(body.expose()).unwrap();
        assert_eq!(body["application_type"], "native");
        assert_eq!(body["redirect_uris"][0], REDIRECT);
        assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(body["token_endpoint_auth_method"], "client_secret_post");
    }

    #[test]
    fn known_registration_is_used_for_its_redirect_url_only() {
        let fake = Fake::new();
        fake.on(REGISTER, answer(201, r#"{"client_id":"new"}"#));
        let mut known = Client {
            id: "old".to_owned(),
            secret: None,
            method: AuthMethod::None,
            origin: ClientOrigin::Registered,
            redirect: Some(REDIRECT.to_owned()),
            secret_expires_at: None,
        };
        assert_eq!(run(&fake, &settings(), &provider(None), Some(&known)).unwrap(), (known.clone(), false));
        known.secret_expires_at = Some(1);
        assert_eq!(run(&fake, &settings(), &provider(None), Some(&known)).unwrap().0.id, "new");
        known.secret_expires_at = None;
        known.redirect = Some("http://127.0.0.1:1/callback".to_owned());
        assert_eq!(run(&fake, &settings(), &provider(None), Some(&known)).unwrap().0.id, "new");
    }

    #[test]
    fn server_without_registration_says_what_to_configure() {
        let mut without = provider(None);
        without.registration_endpoint = None;
        let error = run(&Fake::new(), &settings(), &without, None).unwrap_err();
        assert!(error.to_string().contains("auth.clientId") && error.to_string().contains(REDIRECT), "{error}");
    }

    #[test]
    fn refused_registration_gives_the_reason() {
        let fake = Fake::new();
        fake.on(REGISTER, answer(400, r#"{"error":"invalid_redirect_uri","error_description":"no loopback"}"#));
        let error = run(&fake, &settings(), &provider(None), None).unwrap_err();
        assert!(error.to_string().contains("invalid_redirect_uri: no loopback"), "{error}");
        let fake = Fake::new();
        fake.on(REGISTER, answer(503, ""));
        assert!(run(&fake, &settings(), &provider(None), None).unwrap_err().can_pass());
    }
}
