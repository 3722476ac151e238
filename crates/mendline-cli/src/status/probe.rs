//! Probes of configured servers that do not run.
//!
//! Each server is reached as `mendline run` would reach it, by the same engine and driver, with a client that only
//! performs the handshake. All probes run at once, with one time limit. A child that was started for a probe is ended
//! together with all its processes.

use std::future::pending;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use mendline::Observer;
use mendline::control::snapshot::TransportKind;
use mendline::decisions::config::{AutoReconnect, Catalogue, Dialect, Reconnect, Startup, Transport};
use mendline::decisions::words::Cause;
use mendline::decisions::{ClientId, Config, Engine, Event, LinkState, Quote as _, UpstreamConfig, UpstreamId};
use mendline::driver::{At, Client, Driver, Host};
use mendline::frontend::StdioFrontend;
use mendline::observe::redact::Redactor;
use mendline::transport::child::Children;
use mendline::transport::guard::Guard;
use mendline::transport::remote::Remote;
use mendline_wire::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

use super::report::{ProbeOutcome, Probed, Report};
use crate::GUARD;
use crate::named::{Refusal, locate, read};
use crate::plan::{Endpoint, Plan};

/// Maximum length of quoted text of a server.
const LONGEST: usize = 200;

/// Probes every configured server that does not run, or the one with this name.
pub(super) fn probe(
    file: Option<&Path>,
    name: Option<&str>,
    within: Duration,
    running: &Report,
) -> Result<Vec<Probed>, Refusal> {
    let loaded = locate(file).and_then(|found| read(&found))?;
    // A running server has its sanitized name.
    let is_running = |name: &str| {
        let name = loaded.server(name).map_or(name, |server| &server.policies.name);
        running.servers.iter().any(|row| row.server.name == name)
    };
    let is_meant = |server: &str| name.is_none_or(|name| name == server) && !is_running(server);
    let mut trials = Vec::new();
    for name in loaded.names.iter().filter(|name| is_meant(name)) {
        let obstacle = loaded.obstacles(name).first().map(|finding| finding.line(&loaded.source));
        trials.push(match (loaded.server(name), obstacle) {
            (Some(server), None) if server.is_disabled => {
                Trial::Known(known(&server.policies, ProbeOutcome::Disabled, None))
            }
            (Some(server), None) => match Plan::of_server(server, None) {
                Ok(plan) => Trial::Open(Box::new(plan)),
                Err(why) => Trial::Known(known(&server.policies, ProbeOutcome::Fails, Some(why))),
            },
            (_, obstacle) => {
                let why = obstacle.unwrap_or_else(|| "its entry is invalid".to_owned());
                Trial::Known(known(&UpstreamConfig::child(name, ""), ProbeOutcome::Fails, Some(why)))
            }
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::from(error.to_string()))?;
    let probed = runtime.block_on(async {
        let running: Vec<_> = trials.into_iter().map(|trial| tokio::spawn(trial.run(within))).collect();
        let mut probed = Vec::new();
        for trial in running {
            probed.extend(trial.await.ok());
        }
        probed
    });
    runtime.shutdown_background();
    Ok(probed)
}

/// A server to probe, or one whose result is known already.
enum Trial {
    Known(Probed),
    Open(Box<Plan>),
}

impl Trial {
    async fn run(self, within: Duration) -> Probed {
        match self {
            Trial::Known(probed) => probed,
            Trial::Open(plan) => attempt(*plan, within).await,
        }
    }
}

async fn attempt(plan: Plan, within: Duration) -> Probed {
    let redactor = Redactor::default();
    redactor.learn(&plan.secrets());
    let Plan { mut upstream, endpoint, limits } = plan;
    let mut probed = known(&upstream, ProbeOutcome::Fails, None);
    // No answer comes from the cache, and one attempt is enough: the question is whether the server is available now.
    upstream.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    upstream.reconnect = Reconnect::from(AutoReconnect { max_retries: Some(Some(0)), ..AutoReconnect::default() });
    upstream.timeouts.handshake = upstream.timeouts.handshake.min(within);
    let begun = Instant::now();
    let answer = match endpoint {
        Endpoint::Child(command) => {
            let guard = Guard::start("/proc/self/exe", vec![GUARD.into()]).ok();
            handshake(upstream, limits, Children::new(vec![command], guard), within, &redactor).await
        }
        Endpoint::Remote(address) => match address.target() {
            Ok(target) => {
                handshake(upstream, limits.clone(), Remote::new(target.limits(limits)), within, &redactor).await
            }
            Err(why) => Err(Failure { outcome: ProbeOutcome::Fails, why }),
        },
    };
    probed.took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(server) => (probed.outcome, probed.server) = (ProbeOutcome::Answers, server),
        Err(failure) => (probed.outcome, probed.why) = (failure.outcome, Some(plain(&failure.why, &redactor))),
    }
    probed
}

/// The reason why a server did not answer.
struct Failure {
    outcome: ProbeOutcome,
    why: String,
}

/// Performs the handshake through a separate driver. Returns the name of the server, if it has one.
async fn handshake<H: Host + 'static>(
    upstream: UpstreamConfig,
    limits: Limits,
    host: H,
    within: Duration,
    redactor: &Redactor,
) -> Result<Option<String>, Failure> {
    let engine = Engine::new(Config::new(vec![upstream]), fastrand::u64(..));
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(far);
    let frontend = StdioFrontend::new(reader, writer, &limits);
    let client = Client { id: ClientId(1), upstream: UpstreamId(0), frontend };
    let last_failure = LastFailure::default();
    let driver = Driver::new(engine, limits, host, last_failure.clone()).with_client(client);
    let driver = driver.with_redactor(redactor.clone());
    let driven = tokio::spawn(driver.run(|_| Poll::Pending));
    let (hears, mut says) = tokio::io::split(near);
    let said = tokio::time::timeout(within, async {
        if says.write_all(initialize_request().as_bytes()).await.is_err() {
            pending::<()>().await;
        }
        answer(hears).await
    })
    .await;
    // Dropping the client ends the driver, and with it the child; the guard ends a stubborn one.
    drop(says);
    let _ = tokio::time::timeout(Duration::from_secs(1), driven).await;
    match said {
        Ok(Some(answer)) if answer.get("result").is_some() => Ok(who(&answer["result"]["serverInfo"], redactor)),
        Ok(answer) => {
            let code = answer.as_ref().and_then(|answer| answer["error"]["code"].as_i64());
            let said = answer.as_ref().and_then(|answer| answer["error"]["message"].as_str());
            let needs_login = code == Some(Cause::NeedsLogin.code());
            let outcome = if needs_login { ProbeOutcome::NeedsLogin } else { ProbeOutcome::Fails };
            let why = last_failure.take().unwrap_or_else(|| said.unwrap_or("it ended without an answer").to_owned());
            Err(Failure { outcome, why })
        }
        Err(_) => {
            let why = last_failure.take().unwrap_or_else(|| "no answer in time".to_owned());
            Err(Failure { outcome: ProbeOutcome::Fails, why })
        }
    }
}

fn initialize_request() -> String {
    let who = json!({ "name": "mendline-status", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }))
}

/// Returns the response to the handshake, and skips other messages.
async fn answer(hears: impl AsyncRead + Unpin) -> Option<Value> {
    let mut lines = BufReader::new(hears).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Value>(&line) {
            Ok(message) if message["id"] == 1 && message.get("method").is_none() => return Some(message),
            _ => {}
        }
    }
    None
}

fn who(server: &Value, redactor: &Redactor) -> Option<String> {
    let name = server["name"].as_str()?;
    let version = server["version"].as_str().unwrap_or_default();
    Some(plain(format!("{name} {version}").trim(), redactor))
}

/// Formats text of or about a server on one line, without secrets.
fn plain(text: &str, redactor: &Redactor) -> String {
    redactor.quote(text.as_bytes(), LONGEST)
}

fn known(upstream: &UpstreamConfig, outcome: ProbeOutcome, why: Option<String>) -> Probed {
    let transport = match upstream.transport {
        Transport::Child => TransportKind::Child,
        Transport::Http(Dialect::Sse) => TransportKind::Sse,
        Transport::Http(_) => TransportKind::Http,
    };
    let (name, target) = (upstream.name.clone(), upstream.place.clone());
    Probed { name, transport, target, outcome, took_ms: 0, server: None, why }
}

/// The last failure, taken from events.
#[derive(Clone, Default)]
struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Observer for LastFailure {
    fn on_event(&mut self, event: &Event, _: At) {
        let why = match event {
            Event::DialFailed { why, .. } => why.to_string(),
            Event::LinkStateChanged { to: LinkState::Waiting | LinkState::Parked, why: Some(why), .. }
            | Event::ReconnectDisabled { why, .. }
            | Event::CallFailed { why, .. } => why.to_string(),
            _ => return,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn on_stderr(&mut self, _: UpstreamId, _: &[u8]) {}
}
