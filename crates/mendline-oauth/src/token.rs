//! Requests to the token endpoint.
//!
//! The result tells three cases apart, because each has another consequence for the login: the tokens; an error code of
//! OAuth, which alone can end a login; and everything else, which can pass.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mendline::decisions::Secret;
use serde_json::{Map, Value};

use crate::OAuth;
use crate::assertion::Signer;
use crate::error::{OAuthError, is_client_error};
use crate::http::{Fate, Request, Response};
use crate::metadata::{object, text};
use crate::registration::Client;
use crate::settings::AuthMethod;
use crate::text::quoted;
use crate::url::{Parts, encode, push_parameter};

/// The grant type of the device login.
pub(crate) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The grant of a token request.
#[derive(Clone, Debug)]
pub(crate) enum Grant<'a> {
    Code { code: &'a Secret, verifier: &'a Secret, redirect: &'a str },
    Refresh { token: &'a Secret },
    Device { code: &'a Secret },
    ClientCredentials { scopes: &'a [String], audience: Option<&'a str> },
}

/// A token request.
#[derive(Clone, Debug)]
pub(crate) struct TokenRequest<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) client: &'a Client,
    pub(crate) signer: Option<&'a Signer>,
    pub(crate) grant: Grant<'a>,
    pub(crate) resource: Option<&'a str>,
}

/// The tokens of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) access_token: Secret,
    pub(crate) refresh_token: Option<Secret>,
    pub(crate) id_token: Option<Secret>,
    /// The lifetime of the access token, if the server said it.
    pub(crate) expires_in: Option<Duration>,
    pub(crate) scopes: Option<Vec<String>>,
}

/// The result of a token request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenResult {
    Granted(Tokens),
    /// The server answered with an error code of OAuth.
    Denied {
        error: String,
        description: Option<String>,
    },
    /// No usable answer. The trouble can pass.
    Unavailable {
        why: String,
        retry_after: Option<Duration>,
        may_be_received: bool,
    },
    /// Mendline does not send the request to this address.
    NotAllowed {
        why: String,
    },
}

impl TokenResult {
    /// Returns whether the grant is not valid. Some servers have other names for that.
    pub(crate) fn is_invalid_grant(&self) -> bool {
        let names = ["invalid_grant", "invalid_refresh_token", "bad_refresh_token"];
        matches!(self, TokenResult::Denied { error, .. } if names.contains(&error.as_str()))
    }

    /// Returns whether the server does not know the client.
    pub(crate) fn is_invalid_client(&self) -> bool {
        matches!(self, TokenResult::Denied { error, .. } if is_client_error(error))
    }

    /// Returns whether the server refuses the `resource` parameter.
    pub(crate) fn refuses_resource(&self) -> bool {
        matches!(self, TokenResult::Denied { error, .. } if error == "invalid_target")
    }

    /// Returns the tokens, or the failure as an error.
    pub(crate) fn into_tokens(self, endpoint: &str) -> Result<Tokens, OAuthError> {
        match self {
            TokenResult::Granted(tokens) => Ok(tokens),
            TokenResult::Denied { error, description } => Err(OAuthError::Denied { error, description }),
            TokenResult::Unavailable { why, .. } => Err(OAuthError::Unavailable { url: endpoint.to_owned(), why }),
            TokenResult::NotAllowed { why } => Err(OAuthError::Denied { error: why, description: None }),
        }
    }
}

/// Sends a token request. New secrets are known to the redactor afterwards. Requests that were sent in vain are counted;
/// those that never left this machine cost the server nothing.
pub(crate) async fn request(oauth: &OAuth, request: &TokenRequest<'_>) -> Result<TokenResult, OAuthError> {
    let origin = Parts::of(request.endpoint).map_or(request.endpoint, |parts| parts.origin);
    // A person who logs in is not stopped by what programs have tried before.
    if matches!(request.grant, Grant::Refresh { .. } | Grant::ClientCredentials { .. }) {
        oauth.store.check_ceiling(origin, (oauth.clock)())?;
        if let Some(left) = oauth.store.pause(origin, (oauth.clock)()) {
            let why =
                format!("no request is sent to it for another {} s, after its earlier answers", left.as_secs() + 1);
            return Ok(TokenResult::Unavailable { why, retry_after: Some(left), may_be_received: false });
        }
    }
    let prepared = prepare(oauth, request)?;
    let result = match oauth.http.send(prepared).await {
        Ok(response) => parse(oauth, &response),
        Err(error) => {
            let why = quoted(&oauth.redactor, &error.why);
            match error.fate {
                Fate::NotAllowed => TokenResult::NotAllowed { why },
                fate => {
                    TokenResult::Unavailable { why, retry_after: None, may_be_received: fate == Fate::MayBeReceived }
                }
            }
        }
    };
    match &result {
        TokenResult::Granted(tokens) => {
            oauth.redactor.learn_renewed([&tokens.access_token]);
            oauth.redactor.learn_renewed(tokens.refresh_token.iter().chain(&tokens.id_token));
        }
        // The device login asks until the person has confirmed.
        TokenResult::Denied { error, .. } if error == "authorization_pending" || error == "slow_down" => {}
        TokenResult::Denied { .. } => oauth.store.count_fruitless(origin, 1, (oauth.clock)()).await,
        TokenResult::Unavailable { may_be_received: true, retry_after, .. } => {
            oauth.store.count_failure(origin, (oauth.clock)()).await;
            if let Some(pause) = retry_after {
                oauth.store.set_pause(origin, *pause, (oauth.clock)()).await;
            }
        }
        TokenResult::Unavailable { .. } | TokenResult::NotAllowed { .. } => {}
    }
    Ok(result)
}

/// Makes the request with the grant and the authentication of the client.
fn prepare(oauth: &OAuth, request: &TokenRequest<'_>) -> Result<Request, OAuthError> {
    let mut form = String::new();
    match &request.grant {
        Grant::Code { code, verifier, redirect } => {
            push_parameter(&mut form, "grant_type", "authorization_code");
            push_parameter(&mut form, "code", code.expose());
            push_parameter(&mut form, "code_verifier", verifier.expose());
            push_parameter(&mut form, "redirect_uri", redirect);
        }
        Grant::Refresh { token } => {
            push_parameter(&mut form, "grant_type", "refresh_token");
            push_parameter(&mut form, "refresh_token", token.expose());
        }
        Grant::Device { code } => {
            push_parameter(&mut form, "grant_type", DEVICE_GRANT);
            push_parameter(&mut form, "device_code", code.expose());
        }
        Grant::ClientCredentials { scopes, audience } => {
            push_parameter(&mut form, "grant_type", "client_credentials");
            if !scopes.is_empty() {
                push_parameter(&mut form, "scope", &scopes.join(" "));
            }
            if let Some(audience) = audience {
                push_parameter(&mut form, "audience", audience);
            }
        }
    }
    if let Some(resource) = request.resource {
        push_parameter(&mut form, "resource", resource);
    }
    let authorization = authenticate(oauth, request, &mut form)?;
    let prepared = Request::form(request.endpoint, Secret::new(form));
    Ok(match authorization {
        Some(value) => prepared.header("Authorization", value),
        None => prepared,
    })
}

/// Adds the authentication of the client to the form, or returns it as a header.
fn authenticate(oauth: &OAuth, request: &TokenRequest<'_>, form: &mut String) -> Result<Option<Secret>, OAuthError> {
    let client = request.client;
    match (client.method, &client.secret, request.signer) {
        (AuthMethod::PrivateKeyJwt, _, Some(signer)) => {
            let assertion = signer.assertion(&client.id, (oauth.clock)())?;
            push_parameter(form, "client_id", &client.id);
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            push_parameter(form, "client_assertion_type", kind);
            push_parameter(form, "client_assertion", assertion.expose());
            Ok(None)
        }
        (AuthMethod::ClientSecretBasic, Some(secret), _) => {
            let mut pair = String::new();
            encode(&mut pair, &client.id);
            pair.push(':');
            encode(&mut pair, secret.expose());
            Ok(Some(Secret::new(format!("Basic {}", STANDARD.encode(pair)))))
        }
        (AuthMethod::ClientSecretPost, Some(secret), _) => {
            push_parameter(form, "client_id", &client.id);
            push_parameter(form, "client_secret", secret.expose());
            Ok(None)
        }
        _ => {
            push_parameter(form, "client_id", &client.id);
            Ok(None)
        }
    }
}

/// Parses a response as far as possible.
fn parse(oauth: &OAuth, response: &Response) -> TokenResult {
    let unavailable = |why: String| {
        let seconds = response.header("retry-after").and_then(|text| text.trim().parse().ok());
        TokenResult::Unavailable { why, retry_after: seconds.map(Duration::from_secs), may_be_received: true }
    };
    let status = response.status;
    if status >= 500 || status == 429 || status == 408 {
        return unavailable(format!("HTTP {status}"));
    }
    let Some(object) = object(response.body.expose()) else {
        let kind = response.header("content-type").unwrap_or("no type");
        return unavailable(format!("HTTP {status} with a body that is not JSON ({})", quoted(&oauth.redactor, kind)));
    };
    if let Some((error, description)) = error_of(&object) {
        let error = quoted(&oauth.redactor, &error);
        if ["temporarily_unavailable", "server_error"].contains(&error.as_str()) {
            return unavailable(error);
        }
        let description = description.map(|words| quoted(&oauth.redactor, &words));
        return TokenResult::Denied { error, description };
    }
    let tokens = tokens_of(&object).or_else(|| tokens_of(object.get("authed_user")?.as_object()?));
    match tokens {
        Some(tokens) if response.is_success() => TokenResult::Granted(tokens),
        _ => unavailable(format!("HTTP {status} without a token")),
    }
}

/// Returns whether an error code is one that RFC 6749 or RFC 8707 defines for token requests.
pub(crate) fn is_known_error(error: &str) -> bool {
    const KNOWN: [&str; 7] = [
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "invalid_target",
    ];
    KNOWN.contains(&error)
}

/// Returns the error of a response: an object of OAuth, whatever the status, or an object in place of the code.
pub(crate) fn error_of(object: &Map<String, Value>) -> Option<(String, Option<String>)> {
    let description = text(object, "error_description").or_else(|| text(object, "message"));
    match object.get("error")? {
        Value::String(error) if !error.is_empty() => Some((error.clone(), description)),
        Value::Object(inner) => {
            let code = text(inner, "code").or_else(|| text(inner, "status")).or_else(|| text(inner, "type"))?;
            Some((code, text(inner, "message").or(description)))
        }
        _ => None,
    }
}

fn tokens_of(object: &Map<String, Value>) -> Option<Tokens> {
    let secret = |name: &str| text(object, name).map(Secret::new);
    let expires_in = object.get("expires_in").and_then(|value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    });
    // Zero and nonsense mean that the server does not say it.
    let expires_in = expires_in.filter(|seconds| *seconds >= 1.0 && *seconds < 1e10);
    Some(Tokens {
        access_token: secret("access_token")?,
        refresh_token: secret("refresh_token"),
        id_token: secret("id_token"),
        expires_in: expires_in.map(Duration::from_secs_f64),
        scopes: text(object, "scope")
            .map(|scopes| scopes.split([' ', ',']).filter(|it| !it.is_empty()).map(str::to_owned).collect()),
    })
}

#[cfg(test)]
mod tests;
