//! The control port: changes a server or a proxy from another process.
//!
//! It has its own port, so that control requests never mix with the tested ones. Bodies are JSON, paths begin with
//! `/_faults/`:
//!
//! | | the server | the proxy |
//! |---|---|---|
//! | `GET counts`, `DELETE counts` | returns the counts; resets them | returns the counts |
//! | `GET seen` | returns the received requests | |
//! | `GET rules`, `POST rules`, `DELETE rules` | returns the rules; adds one; removes all | |
//! | `POST outage`, `DELETE outage` | begins an outage: `"refused"`, `{"page": {"status": 502}}`; ends it | |
//! | `GET settings`, `POST settings` | returns the settings; changes some of them | |
//! | `POST notify`, `POST request` | sends to all clients: `{"method", "params"}`; `{"what": "roots"}` | |
//! | `POST forget`, `POST end-listens` | drops all sessions; ends all subscriptions | |
//! | `GET toxics`, `POST toxics`, `DELETE toxics` | | returns the toxics; adds one, with its `direction`; removes all |
//! | `DELETE toxics/7` | | removes one |
//! | `POST cut` | ends all connections: `{"ending": "reset"}` | the same |
//! | `GET faults` | returns all faults | returns all toxics |
//!
//! A server with an authorization server has these paths too:
//!
//! | | |
//! |---|---|
//! | `GET auth/counts`, `DELETE auth/counts` | returns the counts; resets them |
//! | `GET auth/seen` | returns the requests to the authorization server |
//! | `GET auth/settings`, `POST auth/settings` | returns the settings; changes some of them |
//! | `POST auth/fail`, `DELETE auth/fail` | lets token requests fail: `{"fault": "html", "times": 2}`; removes the faults |
//! | `POST auth/expire`, `POST auth/revoke` | ends all access tokens; revokes all logins |
//! | `POST auth/forget` | forgets all registrations |

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method as Verb, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::proxy::{Direction, Proxy};
use crate::server::reply::{Content, Outgoing};
use crate::server::socket::ConnectionHandle;
use crate::server::{Server, read};
use crate::task::Task;
use crate::{AuthorizationServer, Ending, Outage, Rule, TokenFault, fault, toxic};

const PREFIX: &str = "/_faults/";

/// A control port of a server or a proxy. It closes when it is dropped.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    _accepting: Task,
}

impl Control {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(subject: Subject) -> std::io::Result<Control> {
        Control::start_on((Ipv4Addr::LOCALHOST, 0).into(), subject).await
    }

    /// Starts on this address.
    pub async fn start_on(address: SocketAddr, subject: Subject) -> std::io::Result<Control> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Control { address, _accepting: Task::spawn(accept(listener, subject)) })
    }

    /// The URL that all paths are relative to.
    pub fn url(&self) -> String {
        format!("http://{}{PREFIX}", self.address)
    }

    /// The address of the control port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The server or proxy that a control port changes.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A server.
    Server(Arc<Server>),
    /// A server and its authorization server.
    Protected(Arc<Server>, Arc<AuthorizationServer>),
    /// A proxy.
    Proxy(Arc<Proxy>),
}

/// The reason why a control request failed.
#[derive(Debug)]
enum ControlError {
    /// The path is unknown.
    UnknownPath,
    /// The body is invalid.
    BadRequest(String),
}

impl<E: fmt::Display> From<E> for ControlError {
    fn from(error: E) -> ControlError {
        ControlError::BadRequest(error.to_string())
    }
}

impl Subject {
    fn perform(&self, verb: &Verb, path: &str, input: &Value) -> Result<Value, ControlError> {
        match self {
            Subject::Server(server) => change_server(server, verb, path, input),
            Subject::Protected(server, authorization) => match path.strip_prefix("auth/") {
                Some(path) => change_authorization(authorization, verb, path, input),
                None => change_server(server, verb, path, input),
            },
            Subject::Proxy(proxy) => change_proxy(proxy, verb, path, input),
        }
    }
}

/// Handles the requests that change a server. All others are queries.
fn change_server(server: &Server, verb: &Verb, path: &str, input: &Value) -> Result<Value, ControlError> {
    match (verb.as_str(), path) {
        ("DELETE", "counts") => server.oracle().reset(),
        ("POST", "rules") => server.add(parsed::<Rule>(input)?)?,
        ("DELETE", "rules") => server.clear(),
        ("POST", "outage") => server.begin_outage(parsed::<Outage>(input)?),
        ("DELETE", "outage") => server.end_outage(),
        ("POST", "settings") => server.change_settings(server.settings().changed(input)?),
        ("POST", "forget") => server.forget_sessions(),
        ("POST", "end-listens") => server.end_listens(),
        ("POST", "cut") => server.cut(parsed::<Ending>(&input["ending"])?),
        _ => return query_server(server, verb, path, input),
    }
    Ok(json!({}))
}

fn query_server(server: &Server, verb: &Verb, path: &str, input: &Value) -> Result<Value, ControlError> {
    let text = |name: &str| input[name].as_str().unwrap_or_default();
    Ok(match (verb.as_str(), path) {
        ("GET", "counts") => serde_json::to_value(server.oracle().counts())?,
        ("GET", "seen") => serde_json::to_value(server.oracle().seen())?,
        ("GET", "faults") => {
            fault::ALL.iter().map(|fault| json!({ "name": fault.name, "description": fault.description })).collect()
        }
        ("GET", "rules") => serde_json::to_value(server.rules())?,
        ("GET", "settings") => serde_json::to_value(server.settings())?,
        ("POST", "notify") => json!({ "clients": server.notify(text("method"), &input["params"]) }),
        ("POST", "request") => json!({ "clients": server.send_request(text("what")) }),
        _ => return Err(ControlError::UnknownPath),
    })
}

fn change_authorization(
    server: &AuthorizationServer,
    verb: &Verb,
    path: &str,
    input: &Value,
) -> Result<Value, ControlError> {
    match (verb.as_str(), path) {
        ("GET", "counts") => return Ok(serde_json::to_value(server.counts())?),
        ("GET", "seen") => return Ok(serde_json::to_value(server.seen())?),
        ("GET", "settings") => return Ok(serde_json::to_value(server.settings())?),
        ("DELETE", "counts") => server.reset_counts(),
        ("POST", "settings") => server.change_settings(server.settings().changed(input)?),
        ("POST", "fail") => {
            server.fail_token(parsed::<TokenFault>(&input["fault"])?, input["times"].as_u64().unwrap_or(1));
        }
        ("DELETE", "fail") => server.clear_faults(),
        ("POST", "expire") => server.expire_access_tokens(),
        ("POST", "revoke") => server.revoke_all(),
        ("POST", "forget") => server.forget_clients(),
        _ => return Err(ControlError::UnknownPath),
    }
    Ok(json!({}))
}

fn change_proxy(proxy: &Proxy, verb: &Verb, path: &str, input: &Value) -> Result<Value, ControlError> {
    match (verb.as_str(), path) {
        ("DELETE", "toxics") => proxy.clear(),
        ("POST", "cut") => proxy.cut(parsed::<Ending>(&input["ending"])?),
        ("DELETE", path) if path.starts_with("toxics/") => {
            let number = path.trim_start_matches("toxics/").parse::<u64>()?;
            if !proxy.remove(number) {
                return Err(ControlError::UnknownPath);
            }
        }
        _ => return query_proxy(proxy, verb, path, input),
    }
    Ok(json!({}))
}

fn query_proxy(proxy: &Proxy, verb: &Verb, path: &str, input: &Value) -> Result<Value, ControlError> {
    Ok(match (verb.as_str(), path) {
        ("GET", "counts") => serde_json::to_value(proxy.counts())?,
        ("GET", "faults") => toxic::ALL
            .iter()
            .map(|(name, _, description)| json!({ "name": name, "description": description }))
            .collect(),
        ("GET", "toxics") => {
            let toxics = proxy.toxics().into_iter();
            toxics.map(|(number, direction, toxic)| json!([number, direction, toxic])).collect()
        }
        ("POST", "toxics") => {
            let mut input = input.clone();
            let direction = input.as_object_mut().and_then(|members| members.remove("direction"));
            let direction = direction.map_or(Ok(Direction::Both), |direction| parsed(&direction))?;
            json!({ "number": proxy.add(direction, parsed(&input)?) })
        }
        _ => return Err(ControlError::UnknownPath),
    })
}

fn parsed<T: DeserializeOwned>(input: &Value) -> Result<T, ControlError> {
    serde_json::from_value(input.clone()).map_err(ControlError::from)
}

async fn accept(listener: TcpListener, subject: Subject) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let subject = subject.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(subject.clone(), request));
            // The change is already made if the client leaves before the response.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(subject: Subject, request: Request<Incoming>) -> Result<Response<Outgoing>, Infallible> {
    let (parts, body) = request.into_parts();
    let (status, text) = match handle(&subject, &parts, body).await {
        Ok(value) => (StatusCode::OK, value),
        Err(ControlError::UnknownPath) => {
            (StatusCode::NOT_FOUND, json!({ "error": "unknown path; see src/control.rs for the list" }))
        }
        Err(ControlError::BadRequest(message)) => (StatusCode::BAD_REQUEST, json!({ "error": message })),
    };
    let content = Content::Whole(Bytes::from(text.to_string()));
    let mut response = Response::new(Outgoing::new(content, ConnectionHandle::new(0)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn handle(subject: &Subject, parts: &http::request::Parts, body: Incoming) -> Result<Value, ControlError> {
    let path = parts.uri.path().strip_prefix(PREFIX).ok_or(ControlError::UnknownPath)?;
    let text = read(body).await?;
    let input = if text.is_empty() { json!({}) } else { serde_json::from_slice(&text)? };
    subject.perform(&parts.method, path, &input)
}
