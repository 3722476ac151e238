//! An authorization server and a protected MCP server in memory.
//!
//! Refresh tokens are rotated, and the second use of one ends the whole family, as strict servers do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mendline::decisions::Secret;
use ring::digest::{SHA256, digest};
use serde_json::json;
use tokio::time::Instant;

use super::json as answer;
use crate::http::{Fate, HttpClient, HttpFuture, Request, Response, SendError};
use crate::settings::Settings;
use crate::url::{parameters, push_parameter};
use crate::{OAuth, Store};

pub(crate) const MCP: &str = "https://mcp.example/mcp";
pub(crate) const ISSUER: &str = "https://auth.example";

/// A fault of the next token request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Status(u16),
    Html,
    WrongJson,
    /// The connection ends before the server has the request.
    CutBefore,
    /// The connection ends after the server has processed the request.
    CutAfter,
    /// The server processes the request only after this many milliseconds.
    Slow(u64),
    /// No answer ever comes, and the request is not processed.
    Hang,
    /// A wrong refusal.
    InvalidGrant,
    /// A refusal with this code.
    Denied(&'static str),
    /// A refusal with a code of its own and the status 200.
    UnknownError,
}

/// The servers.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    folder: tempfile::TempDir,
    epoch: (SystemTime, Mutex<Option<Instant>>),
}

/// Settings and facts, which tests change and read.
pub(crate) struct State {
    pub(crate) lifetime: Option<u64>,
    pub(crate) rotates: bool,
    pub(crate) gives_refresh: bool,
    pub(crate) refuses_resource: bool,
    pub(crate) registers: bool,
    pub(crate) names_issuer: Option<String>,
    pub(crate) issuers: Vec<String>,
    pub(crate) email: Option<String>,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) clients: BTreeSet<String>,
    pub(crate) registrations: u32,
    pub(crate) logins: u32,
    pub(crate) refreshes: u32,
    pub(crate) reuses: u32,
    pub(crate) revocations: u32,
    pub(crate) requests: Vec<String>,
    pub(crate) scopes: Vec<String>,
    codes: BTreeMap<String, (String, String)>,
    /// The family of each refresh token, and whether it was used.
    refresh: BTreeMap<String, (u32, bool)>,
    ended: BTreeSet<u32>,
    number: u32,
}

impl Server {
    pub(crate) fn new() -> Server {
        let state = State {
            lifetime: Some(3600),
            rotates: true,
            gives_refresh: true,
            refuses_resource: false,
            registers: true,
            names_issuer: Some(ISSUER.to_owned()),
            issuers: vec![ISSUER.to_owned()],
            email: None,
            faults: VecDeque::new(),
            clients: BTreeSet::new(),
            registrations: 0,
            logins: 0,
            refreshes: 0,
            reuses: 0,
            revocations: 0,
            requests: Vec::new(),
            scopes: Vec::new(),
            codes: BTreeMap::new(),
            refresh: BTreeMap::new(),
            ended: BTreeSet::new(),
            number: 0,
        };
        let epoch = (SystemTime::now(), Mutex::new(None));
        Server(Arc::new(Inner { state: Mutex::new(state), folder: tempfile::tempdir().unwrap(), epoch }))
    }

    /// The state, to change or to read.
    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Reads the state. Unlike with [`Server::state`], one statement can do it twice.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state())
    }

    /// The directory of the store.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.0.folder.path()
    }

    /// The operations with these servers. The clock follows the time of tokio.
    pub(crate) fn oauth(&self) -> OAuth {
        let inner = self.0.clone();
        let clock = move || {
            let start = *inner.epoch.1.lock().unwrap().get_or_insert_with(Instant::now);
            inner.epoch.0 + start.elapsed()
        };
        OAuth::new(Arc::new(self.clone()), Store::new(self.folder())).clock(clock)
    }

    /// Ends all logins, as an administrator can.
    pub(crate) fn end_all(&self) {
        let mut state = self.state();
        let all: Vec<u32> = state.refresh.values().map(|(family, _)| *family).collect();
        state.ended.extend(all);
    }

    /// The person confirms at the authorization endpoint. Returns the redirect.
    pub(crate) fn authorize(&self, url: &str) -> String {
        let query = parameters(url.split_once('?').unwrap().1);
        let of = |name: &str| query.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
        let mut state = self.state();
        let mut redirect = format!("{}?", of("redirect_uri").unwrap());
        if state.refuses_resource && of("resource").is_some() {
            push_parameter(&mut redirect, "error", "invalid_target");
        } else {
            state.number += 1;
            let code = format!("code-{}", state.number);
            state.scopes = of("scope").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
            state.codes.insert(code.clone(), (of("code_challenge").unwrap(), of("client_id").unwrap()));
            push_parameter(&mut redirect, "code", &code);
        }
        push_parameter(&mut redirect, "state", &of("state").unwrap());
        if let Some(issuer) = &state.names_issuer {
            push_parameter(&mut redirect, "iss", issuer);
        }
        redirect
    }

    fn answer(&self, request: &Request) -> Response {
        let form = request.body.as_ref().map(|(_, body)| parameters(body.expose())).unwrap_or_default();
        let of = |name: &str| form.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
        let mut state = self.state();
        match request.url.as_str() {
            MCP => {
                let mut response = answer(401, "{}");
                let header = r#"Bearer resource_metadata="https://mcp.example/meta", scope="read""#;
                response.headers.push(("WWW-Authenticate".to_owned(), header.to_owned()));
                response
            }
            "https://mcp.example/meta" => {
                answer(200, &json!({"resource": MCP, "authorization_servers": state.issuers}).to_string())
            }
            "https://auth.example/.well-known/oauth-authorization-server" => answer(200, &metadata(&state)),
            "https://auth.example/register" => {
                state.registrations += 1;
                let id = format!("client-{}", state.registrations);
                state.clients.insert(id.clone());
                answer(201, &json!({"client_id": id, "token_endpoint_auth_method": "none"}).to_string())
            }
            "https://auth.example/token" => state.token(&of),
            "https://auth.example/revoke" => {
                state.revocations += 1;
                answer(200, "")
            }
            _ => answer(404, "{}"),
        }
    }
}

fn metadata(state: &State) -> String {
    let mut metadata = json!({
        "issuer": ISSUER, "authorization_endpoint": "https://auth.example/authorize",
        "token_endpoint": "https://auth.example/token", "revocation_endpoint": "https://auth.example/revoke",
        "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": state.names_issuer.is_some(),
    });
    if state.registers {
        metadata["registration_endpoint"] = "https://auth.example/register".into();
    }
    metadata.to_string()
}

impl State {
    fn token(&mut self, of: &dyn Fn(&str) -> Option<String>) -> Response {
        let client = of("client_id").unwrap_or_default();
        if !self.clients.contains(&client) {
            return answer(401, r#"{"error":"invalid_client"}"#);
        }
        if self.refuses_resource && of("resource").is_some() {
            return answer(400, r#"{"error":"invalid_target"}"#);
        }
        if !self.refuses_resource && of("resource").as_deref() != Some(MCP) {
            return answer(400, r#"{"error":"invalid_request","error_description":"no resource"}"#);
        }
        match of("grant_type").as_deref() {
            Some("authorization_code") => {
                let verifier = of("code_verifier").unwrap_or_default();
                let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
                match self.codes.remove(&of("code").unwrap_or_default()) {
                    Some(known) if known == (challenge, client) => {
                        self.logins += 1;
                        let family = self.logins;
                        self.grant(family, true)
                    }
                    _ => answer(400, r#"{"error":"invalid_grant"}"#),
                }
            }
            Some("refresh_token") => self.refreshed(&of("refresh_token").unwrap_or_default()),
            _ => answer(400, r#"{"error":"unsupported_grant_type"}"#),
        }
    }

    fn refreshed(&mut self, token: &str) -> Response {
        let Some(&(family, used)) = self.refresh.get(token) else {
            return answer(400, r#"{"error":"invalid_grant"}"#);
        };
        if used {
            self.reuses += 1;
            self.ended.insert(family);
        }
        if self.ended.contains(&family) {
            return answer(400, r#"{"error":"invalid_grant"}"#);
        }
        if self.rotates {
            self.refresh.insert(token.to_owned(), (family, true));
        }
        self.refreshes += 1;
        self.grant(family, self.rotates)
    }

    fn grant(&mut self, family: u32, with_refresh: bool) -> Response {
        self.number += 1;
        let mut body = json!({"access_token": format!("access-{}", self.number), "token_type": "Bearer"});
        if let Some(lifetime) = self.lifetime {
            body["expires_in"] = lifetime.into();
        }
        if with_refresh && self.gives_refresh {
            let refresh = format!("refresh-{}", self.number);
            body["refresh_token"] = refresh.as_str().into();
            self.refresh.insert(refresh, (family, false));
        }
        if let Some(email) = &self.email {
            let claims = json!({"sub": email, "email": email}).to_string();
            body["id_token"] = format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims)).into();
        }
        answer(200, &body.to_string())
    }
}

impl HttpClient for Server {
    fn send(&self, request: Request) -> HttpFuture<'_> {
        self.state().requests.push(request.url.clone());
        let is_token = request.url.ends_with("/token");
        let fault = if is_token { self.state().faults.pop_front() } else { None };
        let cut = |fate| Err(SendError { fate, why: "connection reset".to_owned() });
        Box::pin(async move {
            // Other tasks run between the request and its processing.
            tokio::task::yield_now().await;
            match fault {
                None => Ok(self.answer(&request)),
                Some(Fault::Status(status)) => Ok(answer(status, "<html>")),
                Some(Fault::Html) => Ok(answer(200, "<html>maintenance</html>")),
                Some(Fault::WrongJson) => Ok(answer(200, r#"{"access_token":["x"],"#)),
                Some(Fault::InvalidGrant) => Ok(answer(400, r#"{"error":"invalid_grant"}"#)),
                Some(Fault::Denied(error)) => Ok(answer(400, &json!({"error": error}).to_string())),
                Some(Fault::UnknownError) => Ok(answer(200, r#"{"ok":false,"error":"token_expired"}"#)),
                Some(Fault::CutBefore) => cut(Fate::NotSent),
                Some(Fault::CutAfter) => {
                    self.answer(&request);
                    cut(Fate::MayBeReceived)
                }
                Some(Fault::Slow(time)) => {
                    tokio::time::sleep(Duration::from_millis(time)).await;
                    Ok(self.answer(&request))
                }
                Some(Fault::Hang) => std::future::pending().await,
            }
        })
    }
}

/// The settings of a login to the MCP server.
pub(crate) fn settings() -> Settings {
    Settings { name: Some("notes".to_owned()), ..Settings::new(MCP) }
}

/// Stores a login without a browser. Returns its access token.
pub(crate) async fn logged_in(server: &Server) -> Secret {
    let person = super::Person::pasting({
        let server = server.clone();
        move |url| server.authorize(url)
    });
    let options = crate::LoginOptions { way: crate::Way::Paste, ..crate::LoginOptions::default() };
    crate::login(&server.oauth(), &settings(), &options, &person).await.unwrap();
    stored(server).access_token
}

/// Returns the stored login.
pub(crate) fn stored(server: &Server) -> crate::store::record::Login {
    let store = Store::new(server.folder());
    // Nothing is awaited without a keyring.
    super::now(store.load(&Store::key(MCP, None))).unwrap().unwrap()
}
