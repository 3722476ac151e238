//! The layers of a server at a URL, from its name to its pings.

use std::time::{Duration, SystemTime};

use mendline::decisions::config::{Dialect, Transport};
use mendline::decisions::reason::{ConnectError, ProxyError, TlsError};
use mendline::transport::http::probe::{Connection, Message, Probe, Response, TcpConnection, TlsHandshake};
use serde_json::json;

use super::answer::{is_events, judge_response, may_be_old, unanswered, version};
use super::authorization::FoundCredential;
use super::certificate::{distrusted, trusted, with_certificate};
use super::protocol::Pace;
use super::report::{Section, short};
use super::step::{Step, Verdict, limit_text, timed};
use super::{Limits, authorization, protocol};
use crate::mcp_client::RequestError;
use crate::plan::{Address, Plan};
use crate::untrusted_text::one_line;

/// Tolerated difference between the clocks.
const CLOCK: Duration = Duration::from_secs(60);

/// Time limit for closing a session that was opened only for a check.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// All layers, in their order.
const LAYERS: [&str; 8] = ["name", "tcp", "tls", "http", "auth", "handshake", "lists", "ping"];

/// Examines the layers from the name to the pings.
pub(crate) async fn examine(plan: &Plan, address: &Address, limits: Limits, section: &mut Section) {
    let found = FoundCredential::of(plan, address, limits.step, section.redactor().redactor()).await;
    let examination = Examination { plan, address, limit: limits.step, found };
    if let Err(FailedLayer(at)) = examination.run(section).await {
        let above = LAYERS.iter().position(|layer| *layer == at).map_or(LAYERS.len(), |at| at + 1);
        let is_there = |layer: &&str| examination.is_secure() || *layer != "tls";
        let above: Vec<&'static str> = LAYERS[above..].iter().copied().filter(is_there).collect();
        if !above.is_empty() {
            section.skip(&above, "not tried");
        }
    }
}

/// The layer at which the examination ended.
struct FailedLayer(&'static str);

/// An examination of a server at a URL.
struct Examination<'a> {
    plan: &'a Plan,
    address: &'a Address,
    limit: Duration,
    /// The credential that its source gives.
    found: FoundCredential,
}

impl Examination<'_> {
    fn is_secure(&self) -> bool {
        self.plan.upstream.place.starts_with("https://")
    }

    fn login_argument(&self) -> String {
        self.address.login_argument(&self.plan.upstream.name)
    }

    async fn run(&self, section: &mut Section) -> Result<(), FailedLayer> {
        let target = match self.address.target().and_then(|target| self.found.add_to(target)) {
            Ok(target) => target,
            Err(why) => {
                section.add(Step::failed("name", why));
                return Err(FailedLayer("name"));
            }
        };
        let probe = Probe::new(target);
        if probe.has_proxy() {
            let place = probe.first_hop().to_string();
            let words =
                format!("requests to {} go through the proxy {place}, as set in the environment", probe.server());
            section.add(Step::ok("proxy", words).fact("proxy", place));
        }
        let reached = self.reach(&probe, section).await?;
        let line = self.secure(&probe, reached, section).await?;
        let took = self.request(&probe, line, section).await?;
        self.handshake(took, section).await
    }

    /// Resolves the name, connects, and opens the tunnel through a proxy.
    async fn reach(&self, probe: &Probe, section: &mut Section) -> Result<TcpConnection, FailedLayer> {
        let (place, limit) = (probe.first_hop(), self.limit);
        section.begin("name");
        let (found, took) = timed(limit, probe.look_up()).await;
        let late = || Err(ConnectError::NameLookupTimedOut { host: place.host.clone(), after: limit });
        let addresses = match found.unwrap_or_else(late) {
            Ok(addresses) => addresses,
            Err(error @ ConnectError::AddressNotAllowed { .. }) => {
                let advice = "Check the DNS entry of this name; if the server really has this address, write the \
                              address into the URL";
                section.add(Step::failed("name", error.to_string()).took(took).advice(advice));
                return Err(FailedLayer("name"));
            }
            Err(error) => {
                let advice = "Is the host in the URL spelled right? Is this machine online, and in the VPN if the name is known \
                              only there?";
                section.add(Step::failed("name", error.to_string()).took(took).advice(advice));
                return Err(FailedLayer("name"));
            }
        };
        let ips: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
        let words = match ips.as_slice() {
            [only] if *only == place.host => format!("{only} is an address"),
            [only] => format!("{} is {only}", place.host),
            [first, rest @ ..] => format!("{} is {first} and {} more", place.host, rest.len()),
            [] => place.host.clone(),
        };
        section.add(Step::ok("name", words).took(took).fact("addresses", ips));
        section.begin("tcp");
        let (dialed, took) = timed(limit, probe.dial(addresses)).await;
        let late = || Err(ConnectError::TimedOut { target: place.to_string(), after: Some(limit) });
        let mut reached = match dialed.unwrap_or_else(late) {
            Ok(reached) => reached,
            Err(error) => {
                let advice = if matches!(error, ConnectError::Refused { .. }) {
                    "The machine is there, but nothing listens on that port: does the server run, and is the port right?"
                } else {
                    "A firewall may block the connection, the machine may be off, or it is reachable only inside a VPN"
                };
                section.add(Step::failed("tcp", error.to_string()).took(took).advice(advice));
                return Err(FailedLayer("tcp"));
            }
        };
        let step = Step::ok("tcp", format!("connected to {}", reached.address)).took(took);
        section.add(step.fact("address", reached.address.to_string()));
        if probe.has_proxy() && probe.is_secure() {
            let (made, took) = timed(limit, probe.tunnel(&mut reached)).await;
            let timed_out = ProxyError::TimedOut { after: limit };
            let late = || Err(ConnectError::Proxy { proxy: place.to_string(), error: timed_out });
            if let Err(error) = made.unwrap_or_else(late) {
                let advice =
                    "Ask the operator of the proxy, or add the host to NO_PROXY if it can be reached without it";
                section.add(Step::failed("proxy", error.to_string()).took(took).advice(advice));
                return Err(FailedLayer("tcp"));
            }
        }
        Ok(reached)
    }

    /// Performs the TLS handshake, if the URL is https.
    async fn secure(
        &self,
        probe: &Probe,
        reached: TcpConnection,
        section: &mut Section,
    ) -> Result<Connection, FailedLayer> {
        if !probe.is_secure() {
            return Ok(reached.into());
        }
        section.begin("tls");
        let (shown, took) = timed(self.limit, probe.tls_handshake(reached)).await;
        let Some(TlsHandshake { certificate, outcome }) = shown else {
            let words =
                format!("{} did not finish the TLS handshake within {}", probe.server(), limit_text(self.limit));
            let advice = "A device in between may block it, or the port is not one for https";
            section.add(Step::failed("tls", words).took(took).advice(advice));
            return Err(FailedLayer("tls"));
        };
        let step = match &outcome {
            Ok(secured) => trusted(secured.version, secured.is_http2, certificate.as_ref(), SystemTime::now()),
            Err(TlsError::NotTls) => Step::failed("tls", TlsError::NotTls.with(&probe.server().to_string()).to_string())
                .advice("Write http:// instead of https://, or the port that speaks TLS"),
            Err(error) if error.is_permanent() => distrusted(error, &probe.server().to_string(), certificate.as_ref()),
            Err(error) => Step::failed("tls", error.with(&probe.server().to_string()).to_string()).advice(
                "A proxy or firewall may close it, or the server requires something else (an old TLS, a client certificate)",
            ),
        };
        let step = certificate.iter().fold(step, with_certificate);
        section.add(step.took(took));
        outcome.map(Connection::from).map_err(|_| FailedLayer("tls"))
    }

    /// Sends a request, and judges the response and the authorization. Returns the time of the request.
    async fn request(&self, probe: &Probe, line: Connection, section: &mut Section) -> Result<Duration, FailedLayer> {
        let wants_events = self.plan.upstream.transport == Transport::Http(Dialect::Sse);
        let message = (!wants_events).then(initialize);
        section.begin("http");
        let (answered, took) = timed(self.limit, probe.request(line, message, &[])).await;
        let answer = match answered {
            Some(Ok(answer)) => answer,
            Some(Err(fault)) => {
                section.add(unanswered(&fault, probe).took(took));
                return Err(FailedLayer("http"));
            }
            None => {
                let words = format!("connected, but no answer to a request within {}", limit_text(self.limit));
                let advice =
                    "The server is slow or overloaded, hangs, or is no HTTP server; --timeout gives it more time";
                section.add(Step::failed("http", words).took(took).advice(advice));
                return Err(FailedLayer("http"));
            }
        };
        if let Some(session) = answer.session() {
            // The session was opened only for a check, so closing it has a short time limit.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.close(probe, session)).await;
        }
        let old = if !wants_events && may_be_old(&answer) { self.old(probe).await } else { None };
        let is_old = old.as_ref().is_some_and(is_events) || (wants_events && is_events(&answer));
        let answer = old.unwrap_or(answer);
        let step = if is_old {
            let words = format!("{}, the old transport: HTTP+SSE of 2024-11-05", version(&answer));
            Step::ok("http", words).fact("transport", "sse")
        } else {
            judge_response(&answer, section.redactor())
        };
        let is_ok = step.verdict != Verdict::Failed;
        section.add(step.took(took).fact("status", answer.status).fact("server", answer.server().map(str::to_owned)));
        if let Some(step) = clock(&answer, SystemTime::now()) {
            section.add(step);
        }
        if !is_ok {
            return Err(FailedLayer("http"));
        }
        let (name, found) = (&self.plan.upstream.name, &self.found);
        let discovered = authorization::discover(&answer, self.address, name, found, self.limit).await;
        let step = authorization::examine(&answer, self.address, &self.login_argument(), found, discovered);
        let is_ok = step.verdict != Verdict::Failed;
        section.add(step);
        if is_ok { Ok(took) } else { Err(FailedLayer("auth")) }
    }

    /// Opens another connection, if that is possible.
    async fn another(&self, probe: &Probe) -> Option<Connection> {
        let addresses = probe.look_up().await.ok()?;
        let mut reached = probe.dial(addresses).await.ok()?;
        probe.tunnel(&mut reached).await.ok()?;
        if probe.is_secure() {
            probe.tls_handshake(reached).await.outcome.ok().map(Connection::from)
        } else {
            Some(reached.into())
        }
    }

    async fn close(&self, probe: &Probe, session: &str) {
        if let Some(line) = self.another(probe).await {
            probe.delete_session(line, session).await;
        }
    }

    /// Returns the response to a request for an event stream, if it is one, or if it requires a login: a server of the old
    /// transport rejects the request for its stream, and has no use for messages at that path.
    async fn old(&self, probe: &Probe) -> Option<Response> {
        let look = async {
            let line = self.another(probe).await?;
            probe.request(line, None, &[]).await.ok()
        };
        tokio::time::timeout(self.limit, look)
            .await
            .ok()
            .flatten()
            .filter(|answer| is_events(answer) || answer.status == 401)
    }

    async fn handshake(&self, first: Duration, section: &mut Section) -> Result<(), FailedLayer> {
        section.begin("handshake");
        let handshake = match protocol::connect(self.plan, self.limit).await {
            Ok(handshake) => handshake,
            Err(why) => {
                section.add(Step::failed("handshake", why));
                return Err(FailedLayer("handshake"));
            }
        };
        let mut client = handshake.client;
        let ended = match handshake.result {
            Ok(info) => {
                section.add(protocol::handshake_step(&info).took(handshake.took));
                // Two requests were sent, and the faster one tells how long one takes.
                let pace = Pace::About(first.min(handshake.took));
                if protocol::examine(&mut client, &info, self.limit, pace, section).await {
                    section.begin("eras");
                    let eras = protocol::eras(&mut client, &info, self.limit).await;
                    section.add_if_any(eras);
                }
                Ok(())
            }
            Err(trouble) => {
                section.add(handshake_failed(&trouble, self.found.advice(&self.login_argument())).took(handshake.took));
                Err(FailedLayer("handshake"))
            }
        };
        client.close().await;
        ended
    }
}

/// Returns the `initialize` request of the check.
fn initialize() -> Message {
    let who = json!({ "name": "mendline", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    Message::from(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string())
}

fn handshake_failed(trouble: &RequestError, advice: String) -> Step {
    let step = Step::failed("handshake", format!("the handshake failed: {}", one_line(&trouble.words())));
    match trouble {
        RequestError::Timeout(_) => {
            step.advice("It accepts requests and does not answer them; --timeout gives it more time")
        }
        trouble if trouble.exit_code() == crate::cli::NEEDS_LOGIN => step.advice(advice).needs_login(),
        RequestError::Error { failure: None, .. } => step.advice(protocol::SERVER_MESSAGE_ADVICE),
        _ => step
            .advice("It speaks HTTP, but not MCP: is the path of the URL right? Many servers are at /mcp or at /sse"),
    }
}

/// Returns a warning if the clock of the server differs from ours.
fn clock(answer: &Response, now: SystemTime) -> Option<Step> {
    let theirs = answer.date()?;
    let (apart, is_ahead) = match now.duration_since(theirs) {
        Ok(behind) => (behind, false),
        Err(ahead) => (ahead.duration(), true),
    };
    (apart > CLOCK).then(|| {
        let side = if is_ahead { "ahead of" } else { "behind" };
        Step::warning("clock", format!("the server's clock is {} {side} this machine's", short(apart)))
            .advice("One of them is wrong. Certificates and tokens are judged by the clock")
            .fact("secondsApart", apart.as_secs())
    })
}
