//! The authorization endpoint and its consent page.

use std::collections::BTreeMap;

use http::StatusCode;
use http::header::LOCATION;

use super::form::encode;
use super::grants::{Client, Code, Grant};
use super::register::{is_accepted, is_registered};
use super::settings::{AuthorizationSettings, Consent, Iss, ResourceRule};
use super::state::{AuthorizationState, Incoming, escape, page};
use crate::server::reply::Reply;

/// Answers an authorization request: with a redirect, with a consent page, or with an error page if the client or its
/// redirect URI is unknown.
pub(crate) fn begin(state: &AuthorizationState, incoming: &Incoming<'_>) -> Reply {
    let settings = &incoming.settings;
    let id = incoming.get("client_id").unwrap_or_default();
    let document = || {
        let is_document = settings.client_documents && id.contains("://");
        is_document.then_some(Client { secret: None, redirects: None })
    };
    let client = state.grants().client(id, &settings.clients).or_else(document);
    let Some(client) = client else {
        return page(StatusCode::BAD_REQUEST, "Unknown client", "The client is not registered.");
    };
    let redirect = incoming.get("redirect_uri").unwrap_or_default();
    let is_known = client.redirects.is_none_or(|known| is_registered(redirect, &known, settings));
    if redirect.is_empty() || !is_known || !is_accepted(redirect, settings) {
        return page(StatusCode::BAD_REQUEST, "Unknown redirect", "The redirect URI is not registered.");
    }
    if let Some(error) = check(state, incoming) {
        return redirect_with(incoming, &incoming.parameters, &[("error", error)]);
    }
    state.counters.record(|counts| counts.authorizations += 1);
    match settings.consent {
        Consent::Automatic => allow(state, incoming, &incoming.parameters),
        Consent::Denied => redirect_with(incoming, &incoming.parameters, &[("error", "access_denied")]),
        Consent::Page => consent_page(state, incoming, id),
    }
}

/// Answers the button of a consent page.
pub(crate) fn decide(state: &AuthorizationState, incoming: &Incoming<'_>) -> Reply {
    let asked = incoming.get("page").and_then(|page| state.grants().pages.remove(page));
    let Some(asked) = asked else {
        return page(StatusCode::BAD_REQUEST, "Unknown page", "The request was answered before.");
    };
    if incoming.get("decision") == Some("allow") {
        allow(state, incoming, &asked)
    } else {
        redirect_with(incoming, &asked, &[("error", "access_denied")])
    }
}

/// Returns the error of an invalid request.
fn check(state: &AuthorizationState, incoming: &Incoming<'_>) -> Option<&'static str> {
    if incoming.get("response_type") != Some("code") {
        return Some("unsupported_response_type");
    }
    if incoming.get("code_challenge").is_none() || incoming.get("code_challenge_method") != Some("S256") {
        return Some("invalid_request");
    }
    if !is_scope_known(incoming) {
        return Some("invalid_scope");
    }
    check_resource(&incoming.settings, state, incoming.get("resource"))
}

fn is_scope_known(incoming: &Incoming<'_>) -> bool {
    let known = &incoming.settings.scopes;
    let asked = incoming.get("scope").unwrap_or_default();
    asked
        .split(' ')
        .filter(|scope| !scope.is_empty())
        .all(|scope| matches!(scope, "openid" | "email" | "profile") || known.iter().any(|known| known == scope))
}

/// Returns the error of an invalid `resource`.
pub(crate) fn check_resource(
    settings: &AuthorizationSettings,
    state: &AuthorizationState,
    resource: Option<&str>,
) -> Option<&'static str> {
    let is_valid = match settings.resource {
        ResourceRule::Optional => true,
        ResourceRule::Refused => resource.is_none(),
        ResourceRule::Exact => resource.is_some() && resource.map(str::to_owned) == state.resource(),
    };
    (!is_valid).then_some("invalid_target")
}

fn consent_page(state: &AuthorizationState, incoming: &Incoming<'_>, client: &str) -> Reply {
    let mut grants = state.grants();
    let number = grants.name("page");
    grants.pages.insert(number.clone(), incoming.parameters.clone());
    drop(grants);
    state.counters.record(|counts| counts.pages += 1);
    let form = format!(
        "<p>{} wants to use the MCP server.</p><form method=\"post\" action=\"{}/consent\">\
         <input type=\"hidden\" name=\"page\" value=\"{number}\">\
         <button name=\"decision\" value=\"allow\">Allow</button> \
         <button name=\"decision\" value=\"deny\">Deny</button></form>",
        escape(client),
        incoming.settings.issuer_path,
    );
    page(StatusCode::OK, "Allow access?", &form)
}

fn allow(state: &AuthorizationState, incoming: &Incoming<'_>, asked: &BTreeMap<String, String>) -> Reply {
    let text = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let scope = asked.get("scope").filter(|scope| !scope.is_empty()).cloned();
    let grant = Grant {
        client: text("client_id"),
        user: incoming.settings.user.clone(),
        scope: scope.unwrap_or_else(|| "mcp".to_owned()),
        is_revoked: false,
    };
    let mut grants = state.grants();
    let code = grants.issue("code");
    let challenge = asked.get("code_challenge").cloned();
    grants.codes.insert(code.clone(), Code { grant, challenge, redirect: text("redirect_uri") });
    drop(grants);
    redirect_with(incoming, asked, &[("code", &code)])
}

/// Redirects to the client.
fn redirect_with(incoming: &Incoming<'_>, asked: &BTreeMap<String, String>, pairs: &[(&str, &str)]) -> Reply {
    let mut url = asked.get("redirect_uri").cloned().unwrap_or_default();
    let iss = match incoming.settings.iss {
        Iss::Right => Some(incoming.issuer.as_str()),
        Iss::Wrong => Some("https://issuer.example.com"),
        Iss::Missing | Iss::Unsupported => None,
    };
    let state = asked.get("state").map(|state| ("state", state.as_str()));
    for (name, value) in pairs.iter().copied().chain(state).chain(iss.map(|iss| ("iss", iss))) {
        let separator = if url.contains('?') { '&' } else { '?' };
        url = format!("{url}{separator}{name}={}", encode(value));
    }
    Reply::empty(StatusCode::FOUND).with(LOCATION, &url)
}
