//! Probes of configured servers that do not run.
//!
//! Each server is reached as `mendline run` would reach it, by the same engine, with a client that only performs the
//! handshake. All probes run at once, with one time limit. A child that was started for a probe is ended
//! together with all its processes.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mendline::Observer;
use mendline::control::snapshot::TransportKind;
use mendline::decisions::config::{AutoReconnect, Dialect, Reconnect, Transport};
use mendline::decisions::words::Cause;
use mendline::decisions::{Event, LinkState, Quote as _, UpstreamConfig, UpstreamId};
use mendline::driver::At;
use mendline::observe::redact::Redactor;
use mendline_config::Loaded;

use super::report::{ProbeOutcome, Probed, Report};
use crate::mcp_client::{McpClient, RequestError, ServerInfo};
use crate::named::{Refusal, locate, read};
use crate::names::ClientFiles;
use crate::plan::Plan;

/// Time limit for closing.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length of quoted text of a server.
const LONGEST: usize = 200;

/// Probes every configured server that does not run, or the one with this name.
pub(super) fn probe(
    file: Option<&Path>,
    name: Option<&str>,
    within: Duration,
    running: &Report,
) -> Result<Vec<Probed>, Refusal> {
    let clients = if file.is_none() { ClientFiles::of_user() } else { ClientFiles::default() };
    let mut trials = match (locate(file), clients.is_empty()) {
        (Ok(found), _) => of_file(&read(&found)?, name, running),
        (Err(why), true) => return Err(why.into()),
        (Err(_), false) => Vec::new(),
    };
    // The own file has the name first.
    if name.is_none() || trials.is_empty() {
        trials.extend(of_clients(&clients, name, running));
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

/// Returns the servers of clients that are to be probed, each once. Those of the own file are probed already.
fn of_clients(clients: &ClientFiles, name: Option<&str>, running: &Report) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut plans: Vec<Plan> = Vec::new();
    let entries = match name {
        Some(name) => clients.matching(name),
        None => clients.entries().collect(),
    };
    for entry in entries {
        let (Some(server), None) = (entry.server, entry.reference()) else { continue };
        let is_running = running.servers.iter().any(|row| row.server.name == server.policies.name);
        if is_running || server.is_disabled {
            continue;
        }
        match Plan::of_server(server, None) {
            Ok(plan) if plans.iter().any(|other| other.endpoint == plan.endpoint) => {}
            Ok(plan) => {
                plans.push(plan.clone());
                trials.push(Trial::Open(Box::new(plan)));
            }
            Err(why) => trials.push(Trial::Known(known(&server.policies, ProbeOutcome::Fails, Some(why)))),
        }
    }
    trials
}

/// Returns the servers of a file that are to be probed.
fn of_file(loaded: &Loaded, name: Option<&str>, running: &Report) -> Vec<Trial> {
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
    trials
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

async fn attempt(mut plan: Plan, within: Duration) -> Probed {
    let redactor = Redactor::default();
    redactor.learn(&plan.secrets());
    let upstream = &mut plan.upstream;
    let mut probed = known(upstream, ProbeOutcome::Fails, None);
    // One attempt is enough: the question is whether the server is available now.
    upstream.reconnect = Reconnect::from(AutoReconnect { max_retries: Some(Some(0)), ..AutoReconnect::default() });
    upstream.timeouts.handshake = upstream.timeouts.handshake.min(within);
    let begun = Instant::now();
    let answer = handshake(plan, within).await;
    probed.took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(server) => (probed.outcome, probed.server) = (ProbeOutcome::Answers, who(&server, &redactor)),
        Err(failure) => (probed.outcome, probed.why) = (failure.outcome, Some(plain(&failure.why, &redactor))),
    }
    probed
}

/// The reason why a server did not answer.
struct Failure {
    outcome: ProbeOutcome,
    why: String,
}

/// Performs the handshake through a separate engine.
async fn handshake(plan: Plan, within: Duration) -> Result<ServerInfo, Failure> {
    let last_failure = LastFailure::default();
    let opened = McpClient::open(plan, last_failure.clone());
    let mut client = opened.map_err(|why| Failure { outcome: ProbeOutcome::Fails, why })?;
    let answer = tokio::time::timeout(within, client.handshake()).await;
    let seen = last_failure.take();
    client.close_within(CLOSE_TIMEOUT).await;
    let (outcome, said) = match answer {
        Ok(Ok(server)) => return Ok(server),
        Ok(Err(RequestError::Error { code, message, .. })) if code == Cause::NeedsLogin.code() => {
            (ProbeOutcome::NeedsLogin, message)
        }
        Ok(Err(RequestError::Error { message, .. })) => (ProbeOutcome::Fails, message),
        Ok(Err(RequestError::Closed)) => (ProbeOutcome::Fails, "it ended without an answer".to_owned()),
        Ok(Err(error)) => (ProbeOutcome::Fails, error.words()),
        Err(_) => (ProbeOutcome::Fails, "no answer in time".to_owned()),
    };
    Err(Failure { outcome, why: seen.unwrap_or(said) })
}

fn who(server: &ServerInfo, redactor: &Redactor) -> Option<String> {
    let (name, version) = (server.name.as_deref()?, server.release.as_deref().unwrap_or_default());
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
