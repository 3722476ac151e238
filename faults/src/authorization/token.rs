//! The token endpoint.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::StatusCode;
use http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::authorize::check_resource;
use super::fault::TokenFault;
use super::grants::{Grant, Redeemed};
use super::settings::Refresh;
use super::state::{AuthorizationState, Incoming, json_reply};
use super::{device, form};
use crate::server::reply::Reply;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const JWT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// An error of the token endpoint.
type TokenError = (StatusCode, &'static str);

const INVALID_CLIENT: TokenError = (StatusCode::UNAUTHORIZED, "invalid_client");
const INVALID_GRANT: TokenError = (StatusCode::BAD_REQUEST, "invalid_grant");
const INVALID_REQUEST: TokenError = (StatusCode::BAD_REQUEST, "invalid_request");

/// Answers a token request, with a fault if one is set.
pub(crate) async fn answer(state: &AuthorizationState, incoming: &Incoming<'_>) -> Reply {
    state.counters.record(|counts| counts.token_requests += 1);
    let fault = next_fault(state);
    if let Some(fault) = &fault {
        state.counters.record(|counts| counts.token_faults += 1);
        if let Some(reply) = fault.before().await {
            return reply;
        }
    }
    let reply = match exchange(state, incoming) {
        Ok(tokens) => json_reply(StatusCode::OK, &tokens),
        Err((status, error)) => {
            state.counters.record(|counts| *counts.token_errors.entry(error.to_owned()).or_default() += 1);
            json_reply(status, &json!({ "error": error }))
        }
    };
    match fault {
        Some(fault) => fault.after(reply).await,
        None => reply,
    }
}

fn next_fault(state: &AuthorizationState) -> Option<TokenFault> {
    let mut grants = state.grants();
    let (fault, left) = grants.faults.front_mut()?;
    let fault = fault.clone();
    *left = left.saturating_sub(1);
    if *left == 0 {
        grants.faults.pop_front();
    }
    Some(fault)
}

fn exchange(state: &AuthorizationState, incoming: &Incoming<'_>) -> Result<Value, TokenError> {
    let client = authenticate(state, incoming)?;
    if incoming.get("grant_type") != Some("refresh_token")
        && let Some(error) = check_resource(&incoming.settings, state, incoming.get("resource"))
    {
        return Err((StatusCode::BAD_REQUEST, error));
    }
    let grant = match incoming.get("grant_type") {
        Some("authorization_code") => redeem_code(state, incoming, &client)?,
        Some("refresh_token") => return refresh(state, incoming, &client),
        Some(DEVICE_GRANT) => device::poll(state, incoming).map_err(|error| (StatusCode::BAD_REQUEST, error))?,
        Some("client_credentials") => {
            state.counters.record(|counts| counts.logins += 1);
            return Ok(issue_for_machine(state, incoming, &client));
        }
        _ => return Err((StatusCode::BAD_REQUEST, "unsupported_grant_type")),
    };
    state.counters.record(|counts| counts.logins += 1);
    let mut grants = state.grants();
    let number = grants.open(grant.clone());
    let has_refresh = incoming.settings.refresh != Refresh::Absent
        && (!incoming.settings.needs_offline_access || grant.scope.split(' ').any(|scope| scope == "offline_access"));
    let refresh = has_refresh.then(|| grants.issue_refresh(number));
    let access = grants.issue_access(number, &grant.scope, Duration::from_secs(incoming.settings.access_seconds));
    Ok(response(incoming, &grant, &access, refresh))
}

/// Checks the client and returns its id.
fn authenticate(state: &AuthorizationState, incoming: &Incoming<'_>) -> Result<String, TokenError> {
    let settings = &incoming.settings;
    if let Some(assertion) = incoming.get("client_assertion") {
        let is_jwt = incoming.get("client_assertion_type") == Some(JWT_ASSERTION);
        return is_jwt.then(|| assertion_client(incoming, assertion)).flatten().ok_or(INVALID_CLIENT);
    }
    let basic = basic_credentials(incoming);
    let (id, secret) = match basic {
        Some((id, secret)) => (id, Some(secret)),
        None => {
            (incoming.get("client_id").unwrap_or_default().to_owned(), incoming.get("client_secret").map(str::to_owned))
        }
    };
    if settings.client_documents && id.contains("://") {
        return Ok(id);
    }
    let client = state.grants().client(&id, &settings.clients).ok_or(INVALID_CLIENT)?;
    if client.secret.is_some() && client.secret != secret {
        return Err(INVALID_CLIENT);
    }
    Ok(id)
}

fn basic_credentials(incoming: &Incoming<'_>) -> Option<(String, String)> {
    let value = incoming.request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let text = String::from_utf8(STANDARD.decode(value.strip_prefix("Basic ")?).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((form::decode(id), form::decode(secret)))
}

/// Returns the client of a JWT whose claims are valid. The signature is not verified.
fn assertion_client(incoming: &Incoming<'_>, assertion: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let audiences = [incoming.issuer.clone(), format!("{}/token", incoming.issuer)];
    let is_ours = |value: &Value| value.as_str().is_some_and(|text| audiences.iter().any(|ours| ours == text));
    let is_audience = is_ours(&claims["aud"]) || claims["aud"].as_array().is_some_and(|all| all.iter().any(is_ours));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_fresh = claims["exp"].as_u64().is_some_and(|until| until > now);
    let id = claims["iss"].as_str().filter(|id| claims["sub"] == **id)?;
    let is_known = incoming.settings.clients.contains_key(id);
    (is_audience && is_fresh && is_known).then(|| id.to_owned())
}

fn redeem_code(state: &AuthorizationState, incoming: &Incoming<'_>, client: &str) -> Result<Grant, TokenError> {
    let verifier = incoming.get("code_verifier").ok_or(INVALID_REQUEST)?;
    let code = incoming.get("code").ok_or(INVALID_REQUEST)?;
    let code = state.grants().codes.remove(code).ok_or(INVALID_GRANT)?;
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    let is_ours = code.grant.client == client && incoming.get("redirect_uri") == Some(&code.redirect);
    if !is_ours || code.challenge.is_none_or(|wanted| wanted != challenge) {
        return Err(INVALID_GRANT);
    }
    Ok(code.grant)
}

fn refresh(state: &AuthorizationState, incoming: &Incoming<'_>, client: &str) -> Result<Value, TokenError> {
    let settings = &incoming.settings;
    let token = incoming.get("refresh_token").ok_or(INVALID_REQUEST)?;
    let mut grants = state.grants();
    if grants.grant_of(token).is_none_or(|grant| grant.client != client) {
        return Err(INVALID_GRANT);
    }
    if let Some(error) = check_resource(settings, state, incoming.get("resource")) {
        return Err((StatusCode::BAD_REQUEST, error));
    }
    let rotates = settings.refresh == Refresh::Rotated;
    let (number, grant) = match grants.redeem(token, rotates, Duration::from_millis(settings.reuse_grace_ms)) {
        Redeemed::Grant(number, grant) => (number, grant),
        Redeemed::Invalid => return Err(INVALID_GRANT),
        Redeemed::Reused => {
            state.counters.record(|counts| counts.reuses += 1);
            return Err(INVALID_GRANT);
        }
    };
    state.counters.record(|counts| counts.refreshes += 1);
    let next = rotates.then(|| grants.issue_refresh(number));
    let scope = incoming.get("scope").unwrap_or(&grant.scope).to_owned();
    let access = grants.issue_access(number, &scope, Duration::from_secs(settings.access_seconds));
    Ok(response(incoming, &Grant { scope, ..grant }, &access, next))
}

fn issue_for_machine(state: &AuthorizationState, incoming: &Incoming<'_>, client: &str) -> Value {
    let grant = Grant {
        client: client.to_owned(),
        user: client.to_owned(),
        scope: incoming.get("scope").unwrap_or("mcp").to_owned(),
        is_revoked: false,
    };
    let mut grants = state.grants();
    let number = grants.open(grant.clone());
    let access = grants.issue_access(number, &grant.scope, Duration::from_secs(incoming.settings.access_seconds));
    response(incoming, &grant, &access, None)
}

fn response(incoming: &Incoming<'_>, grant: &Grant, access: &str, refresh: Option<String>) -> Value {
    let settings = &incoming.settings;
    let mut tokens = json!({ "access_token": access, "token_type": "Bearer", "scope": grant.scope });
    match settings.expires_in.unwrap_or(settings.access_seconds) {
        0 => {}
        seconds => tokens["expires_in"] = seconds.into(),
    }
    if let Some(refresh) = refresh {
        tokens["refresh_token"] = refresh.into();
    }
    if grant.scope.split(' ').any(|scope| scope == "openid") {
        tokens["id_token"] = id_token(incoming, grant).into();
    }
    tokens
}

/// Returns an ID token. Its signature is not valid.
fn id_token(incoming: &Incoming<'_>, grant: &Grant) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let claims = json!({
        "iss": incoming.issuer, "aud": grant.client, "sub": grant.user, "email": grant.user,
        "iat": now, "exp": now + 3600,
    });
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2lnbmF0dXJl", encoded(&json!({ "alg": "RS256", "typ": "JWT" })), encoded(&claims))
}
