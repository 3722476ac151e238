//! Dynamic registration of clients (RFC 7591).

use http::StatusCode;
use serde_json::{Value, json};

use super::grants::Client;
use super::settings::{AuthorizationSettings, Redirects};
use super::state::{AuthorizationState, Incoming, json_reply};
use crate::server::reply::Reply;

/// Registers a client.
pub(crate) fn answer(state: &AuthorizationState, incoming: &Incoming<'_>, body: Option<Value>) -> Reply {
    let Some(mut document) = body.filter(Value::is_object) else {
        return refusal("invalid_client_metadata", "the body is no JSON object");
    };
    let uris = document["redirect_uris"].as_array().map(Vec::as_slice).unwrap_or_default();
    let redirects: Vec<String> = uris.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if let Some(uri) = redirects.iter().find(|uri| !is_accepted(uri, &incoming.settings)) {
        return refusal("invalid_redirect_uri", &format!("{uri} is not accepted"));
    }
    let mut grants = state.grants();
    let id = grants.name("client");
    let method = document["token_endpoint_auth_method"].as_str().unwrap_or("client_secret_basic").to_owned();
    let is_public = method == "none";
    let secret = (incoming.settings.client_secrets && !is_public).then(|| grants.issue("secret"));
    document["client_id"] = id.clone().into();
    document["client_id_issued_at"] = 0.into();
    if let Some(secret) = &secret {
        document["client_secret"] = secret.clone().into();
        document["client_secret_expires_at"] = 0.into();
        document["token_endpoint_auth_method"] = method.into();
    } else {
        document["token_endpoint_auth_method"] = "none".into();
    }
    grants.clients.insert(id, Client { secret, redirects: Some(redirects) });
    drop(grants);
    state.counters.record(|counts| counts.registrations += 1);
    json_reply(StatusCode::CREATED, &document)
}

/// Returns whether clients may use this redirect URI.
pub(crate) fn is_accepted(uri: &str, settings: &AuthorizationSettings) -> bool {
    match settings.redirects {
        Redirects::OnlyLocalhost => uri.starts_with("http://localhost:") || uri.starts_with("http://localhost/"),
        Redirects::OnlyAddress => uri.starts_with("http://127.0.0.1:") || uri.starts_with("http://127.0.0.1/"),
        Redirects::Loopback | Redirects::Exact => true,
    }
}

/// Returns whether a redirect URI is one of the registered ones. The ports of loopback addresses may differ.
pub(crate) fn is_registered(uri: &str, registered: &[String], settings: &AuthorizationSettings) -> bool {
    let is_exact = settings.redirects == Redirects::Exact;
    registered.iter().any(|known| known == uri || !is_exact && without_port(known) == without_port(uri))
}

/// Returns a loopback URI without its port, and any other unchanged.
fn without_port(uri: &str) -> String {
    for host in ["http://127.0.0.1", "http://localhost", "http://[::1]"] {
        if let Some(rest) = uri.strip_prefix(host).and_then(|rest| rest.strip_prefix(':')) {
            return format!("{host}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
    }
    uri.to_owned()
}

fn refusal(error: &str, description: &str) -> Reply {
    json_reply(StatusCode::BAD_REQUEST, &json!({ "error": error, "error_description": description }))
}
