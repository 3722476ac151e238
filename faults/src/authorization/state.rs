//! The state of the authorization server, and the dispatch of its requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, DATE, HOST};
use http::{Method as Verb, StatusCode};
use serde_json::{Value, json};

use super::counts::{AuthorizationRequest, Counters};
use super::grants::Grants;
use super::settings::AuthorizationSettings;
use super::{authorize, device, form, metadata, register, token};
use crate::HttpRequest;
use crate::server::reply::Reply;

/// The state of an authorization server.
#[derive(Debug)]
pub(crate) struct AuthorizationState {
    pub(crate) counters: Counters,
    /// The origin of the server.
    pub(crate) origin: String,
    /// The URL of the protected MCP server.
    pub(crate) resource: RwLock<Option<String>>,
    settings: RwLock<AuthorizationSettings>,
    grants: Mutex<Grants>,
}

/// A request with its parsed parameters.
pub(crate) struct Incoming<'a> {
    pub(crate) request: &'a HttpRequest,
    /// The parameters of the query or the form.
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) settings: AuthorizationSettings,
    /// The issuer, at the host that the request names.
    pub(crate) issuer: String,
}

impl Incoming<'_> {
    /// Returns a parameter that is present and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl AuthorizationState {
    pub(crate) fn new(settings: AuthorizationSettings, origin: String) -> AuthorizationState {
        AuthorizationState {
            counters: Counters::new(),
            origin,
            resource: RwLock::default(),
            settings: RwLock::new(settings),
            grants: Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> AuthorizationSettings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change_settings(&self, settings: AuthorizationSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub(crate) fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the URL of the protected MCP server.
    pub(crate) fn resource(&self) -> Option<String> {
        self.resource.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the origin that the metadata of the resource names: that of the MCP server if both are one.
    pub(crate) fn issuer(&self, settings: &AuthorizationSettings) -> String {
        let resource = self.resource();
        let combined = resource.as_deref().filter(|_| settings.combined).map(origin_of);
        format!("{}{}", combined.unwrap_or(&self.origin), settings.issuer_path)
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, request: &HttpRequest) -> Reply {
        let settings = self.settings();
        let skew = settings.date_skew_seconds;
        let text = if request.verb == Verb::GET { request.query.as_bytes() } else { &request.text[..] };
        let is_json = request.lists("content-type", "application/json");
        let body = if is_json { serde_json::from_slice(&request.text).ok() } else { None };
        let parameters = if is_json { BTreeMap::new() } else { form::parse(&String::from_utf8_lossy(text)) };
        self.counters.arrived(AuthorizationRequest {
            endpoint: format!("{} {}", request.verb, request.path),
            parameters: parameters.clone(),
            body: body.clone(),
        });
        let scheme = self.origin.split("://").next().unwrap_or("http");
        let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
        let origin = host.map_or_else(|| self.origin.clone(), |host| format!("{scheme}://{host}"));
        let issuer = format!("{origin}{}", settings.issuer_path);
        let incoming = Incoming { request, parameters, settings, issuer };
        dated(self.dispatch(&incoming, body).await, skew)
    }

    async fn dispatch(&self, incoming: &Incoming<'_>, body: Option<Value>) -> Reply {
        let path = incoming.request.path.as_str();
        if path.contains("/.well-known/") {
            self.counters.record(|counts| counts.metadata += 1);
            return metadata::answer(incoming);
        }
        let Some(endpoint) = path.strip_prefix(incoming.settings.issuer_path.as_str()) else {
            return Reply::empty(StatusCode::NOT_FOUND);
        };
        match (&incoming.request.verb, endpoint) {
            (&Verb::GET, "/authorize") => authorize::begin(self, incoming),
            (&Verb::POST, "/consent") => authorize::decide(self, incoming),
            (&Verb::POST, "/token") => token::answer(self, incoming).await,
            (&Verb::POST, "/register") if incoming.settings.registration => register::answer(self, incoming, body),
            (&Verb::POST, "/device_authorization") if incoming.settings.device => device::begin(self, incoming),
            (&Verb::GET, "/device") if incoming.settings.device => device::page(incoming),
            (&Verb::POST, "/device") if incoming.settings.device => device::approve(self, incoming),
            (&Verb::POST, "/revoke") => self.revoke(incoming),
            (&Verb::GET, "/userinfo") => self.userinfo(incoming),
            _ => Reply::empty(StatusCode::NOT_FOUND),
        }
    }

    fn revoke(&self, incoming: &Incoming<'_>) -> Reply {
        if incoming.get("token").is_some_and(|token| self.grants().revoke(token)) {
            self.counters.record(|counts| counts.revocations += 1);
        }
        // RFC 7009: an unknown token is no error.
        Reply::empty(StatusCode::OK)
    }

    fn userinfo(&self, incoming: &Incoming<'_>) -> Reply {
        let token = bearer(incoming.request).and_then(|token| self.grants().valid(token));
        let Some(token) = token else { return Reply::empty(StatusCode::UNAUTHORIZED) };
        self.counters.record(|counts| counts.userinfo += 1);
        let name = token.user.split('@').next().unwrap_or_default();
        json_reply(StatusCode::OK, &json!({ "sub": token.user, "email": token.user, "name": name }))
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer(request: &HttpRequest) -> Option<&str> {
    let (scheme, token) = request.headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns the scheme and the authority of a URL.
pub(crate) fn origin_of(url: &str) -> &str {
    let after = url.find("://").map_or(0, |at| at + 3);
    let end = url[after..].find('/').map_or(url.len(), |at| after + at);
    &url[..end]
}

/// A JSON response that no cache may keep.
pub(crate) fn json_reply(status: StatusCode, value: &Value) -> Reply {
    Reply::json(status, Bytes::from(value.to_string())).with(CACHE_CONTROL, "no-store")
}

/// An HTML page.
pub(crate) fn page(status: StatusCode, title: &str, content: &str) -> Reply {
    let text = format!(
        "<!doctype html><html><head><meta charset=\"utf-8\"><title>{title}</title></head>\
         <body><h1>{title}</h1>{content}</body></html>"
    );
    Reply::whole(status, Some("text/html; charset=utf-8"), Bytes::from(text))
}

/// Escapes text for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Sets a `Date` that differs from the clock.
fn dated(reply: Reply, skew: i64) -> Reply {
    if skew == 0 {
        return reply;
    }
    let shift = Duration::from_secs(skew.unsigned_abs());
    let now = SystemTime::now();
    let shifted = if skew > 0 { now.checked_add(shift) } else { now.checked_sub(shift) };
    reply.with(DATE, &httpdate::fmt_http_date(shifted.unwrap_or(now)))
}
