//! Authorization: whether the server accepts our requests, and what it requires.
//!
//! A server that requires a login says so in `WWW-Authenticate`. This module reads the parts of it that tell a person
//! what to do.

use mendline::transport::http::Challenge;
use mendline::transport::http::probe::Response;

use super::step::Step;
use crate::plan::Address;

const LAYER: &str = "auth";

/// Judges the authorization by a response.
pub(crate) fn examine(answer: &Response, address: &Address) -> Step {
    let has_credential = address.header_names().any(|name| name.eq_ignore_ascii_case("authorization"));
    let names: Vec<&str> = address.header_names().collect();
    match answer.status {
        401 | 403 => refused(answer, has_credential, &names),
        300..=399 => Step::skipped(LAYER, "not known: every request is redirected"),
        _ if has_credential => Step::ok(LAYER, "the credential in Authorization is accepted"),
        _ if !names.is_empty() => Step::ok(LAYER, format!("no login is required beyond {}", names.join(", "))),
        _ => Step::ok(LAYER, "no login is required"),
    }
    .fact("status", answer.status)
    .fact("credential", has_credential)
}

fn refused(answer: &Response, has_credential: bool, names: &[&str]) -> Step {
    let challenges = answer.challenges();
    let challenge = challenges.iter().flat_map(|text| Challenge::parse(text)).next().unwrap_or_default();
    let status = answer.status;
    let mut words = match (status, has_credential) {
        (401, false) => "the server requires a login (401)".to_owned(),
        (401, true) => "the server does not accept the credential in Authorization (401)".to_owned(),
        (_, false) => "the server forbids access (403)".to_owned(),
        (_, true) => "the credential is valid, but lacks permission (403)".to_owned(),
    };
    if let Some(said) = challenge.description.as_ref().or(challenge.error.as_ref()) {
        words.push_str(&format!(": {said}"));
    }
    let mut step = Step::failed(LAYER, words).fact("challenges", challenges);
    if let Some(place) = &challenge.resource_metadata {
        step = step.details([format!("the login is described at {}", without_query(place))]);
    }
    if let Some(scope) = &challenge.scope {
        step = step.details([format!("required scopes: {scope}")]);
    }
    if let Some(realm) = &challenge.realm {
        step = step.details([format!("realm: {realm}")]);
    }
    let kind = if challenge.scheme.is_empty() { "Bearer" } else { challenge.scheme.as_str() };
    let advice = match (status, has_credential) {
        (401, false) if !names.is_empty() => format!(
            "The configured {} is not enough. Send a token, too: --header 'Authorization: {kind} ${{TOKEN}}', or \
             `headers` in the configuration file",
            names.join(", ")
        ),
        (401, false) => format!(
            "Get a token from its operator and send it: --header 'Authorization: {kind} ${{TOKEN}}', or `headers` in the \
             configuration file"
        ),
        (401, true) => "The credential may have expired, or belong to another server. Get a new one".to_owned(),
        (_, true) => "Ask its operator for permission, or for a token with the required scopes".to_owned(),
        (_, false) => "It may require a token, or reject your network (a firewall, a VPN, an Origin)".to_owned(),
    };
    let step = step.advice(advice);
    // Without a credential, 403 may have another reason than a missing login.
    if status == 401 || has_credential { step.needs_login() } else { step }
}

fn without_query(place: &str) -> &str {
    place.split(['?', '#']).next().unwrap_or_default()
}
