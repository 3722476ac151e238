//! The layers of a server at a URL, from its name to its pings.

use std::time::{Duration, SystemTime};

use mendline::decisions::config::{Dialect, Transport};
use mendline::transport::http::probe::{Answer, Distrust, Line, Message, NoAnswer, Probe, Reached, Shown};
use mendline::transport::http::{Certificate, DialError};
use serde_json::{Value, json};

use super::report::{Sheet, short};
use super::step::{Step, Verdict, said, timed};
use super::{Limits, authorization, protocol};
use crate::conversation::Trouble;
use crate::outside::{headline, one_line};
use crate::plan::{Address, Plan};

/// A certificate that ends so soon should have been renewed.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Clocks that are this far apart still let everything work.
const CLOCK: Duration = Duration::from_secs(60);

/// How long a session that was opened only for a look gets to be closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// All layers, in their order.
const LAYERS: [&str; 8] = ["name", "tcp", "tls", "http", "auth", "handshake", "lists", "ping"];

/// Walks from the name to the pings.
pub(crate) async fn examine(plan: &Plan, address: &Address, limits: Limits, sheet: &mut Sheet) {
    let walk = Walk { plan, address, limit: limits.step };
    if let Err(Ends(at)) = walk.take(sheet).await {
        let above = LAYERS.iter().position(|layer| *layer == at).map_or(LAYERS.len(), |at| at + 1);
        let is_there = |layer: &&str| walk.is_secure() || *layer != "tls";
        let above: Vec<&'static str> = LAYERS[above..].iter().copied().filter(is_there).collect();
        if !above.is_empty() {
            sheet.skip(&above, "not tried");
        }
    }
}

/// The layer at which the way ends.
struct Ends(&'static str);

/// What the lowest layers are walked with.
struct Walk<'a> {
    plan: &'a Plan,
    address: &'a Address,
    limit: Duration,
}

impl Walk<'_> {
    fn is_secure(&self) -> bool {
        self.plan.upstream.place.starts_with("https://")
    }

    async fn take(&self, sheet: &mut Sheet) -> Result<(), Ends> {
        let target = match self.address.target() {
            Ok(target) => target,
            Err(why) => {
                sheet.put(Step::failed("name", why));
                return Err(Ends("name"));
            }
        };
        let probe = Probe::new(target);
        if probe.has_proxy() {
            let place = probe.place().to_string();
            let words = format!("the way to {} leads through the proxy {place}, as a variable says", probe.server());
            sheet.put(Step::ok("proxy", words).fact("proxy", place));
        }
        let reached = self.reach(&probe, sheet).await?;
        let line = self.secure(&probe, reached, sheet).await?;
        self.speak(&probe, line, sheet).await?;
        self.converse(sheet).await
    }

    /// Name, TCP, and the tunnel through a proxy.
    async fn reach(&self, probe: &Probe, sheet: &mut Sheet) -> Result<Reached, Ends> {
        let (place, limit) = (probe.place(), self.limit);
        sheet.begin("name");
        let (found, took) = timed(limit, probe.look_up()).await;
        let late = || Err(DialError(format!("the name {} could not be looked up within {}", place.host, said(limit))));
        let addresses = match found.unwrap_or_else(late) {
            Ok(addresses) => addresses,
            Err(DialError(words)) => {
                let advice = "Is the host in the URL spelled right? Is this machine online, and in the VPN if the name is known \
                              only there?";
                sheet.put(Step::failed("name", words).took(took).advice(advice));
                return Err(Ends("name"));
            }
        };
        let ips: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
        let words = match ips.as_slice() {
            [only] if *only == place.host => format!("{only} is an address"),
            [only] => format!("{} is {only}", place.host),
            [first, rest @ ..] => format!("{} is {first} and {} more", place.host, rest.len()),
            [] => place.host.clone(),
        };
        sheet.put(Step::ok("name", words).took(took).fact("addresses", ips));
        sheet.begin("tcp");
        let (dialed, took) = timed(limit, probe.dial(addresses)).await;
        let late = || Err(DialError(format!("{place} did not answer within {}", said(limit))));
        let mut reached = match dialed.unwrap_or_else(late) {
            Ok(reached) => reached,
            Err(DialError(words)) => {
                let advice = if words.contains("refused") {
                    "The machine is there, but nothing listens on that port: does the server run, and is the port right?"
                } else {
                    "A firewall may stand between, the machine may be off, or it is known only inside a VPN"
                };
                sheet.put(Step::failed("tcp", words).took(took).advice(advice));
                return Err(Ends("tcp"));
            }
        };
        let step = Step::ok("tcp", format!("connected to {}", reached.address)).took(took);
        sheet.put(step.fact("address", reached.address.to_string()));
        if probe.has_proxy() && probe.is_secure() {
            let (made, took) = timed(limit, probe.tunnel(&mut reached)).await;
            let late = || Err(format!("the proxy {place} made no tunnel within {}", said(limit)));
            if let Err(words) = made.unwrap_or_else(late) {
                let advice = "Ask whoever runs the proxy, or name the host in NO_PROXY if it can be reached without it";
                sheet.put(Step::failed("proxy", words).took(took).advice(advice));
                return Err(Ends("tcp"));
            }
        }
        Ok(reached)
    }

    /// TLS, where there is any.
    async fn secure(&self, probe: &Probe, reached: Reached, sheet: &mut Sheet) -> Result<Line, Ends> {
        if !probe.is_secure() {
            return Ok(reached.into());
        }
        sheet.begin("tls");
        let (shown, took) = timed(self.limit, probe.shake_hands(reached)).await;
        let Some(Shown { certificate, outcome }) = shown else {
            let words = format!("{} did not finish the TLS handshake within {}", probe.server(), said(self.limit));
            let advice = "Something between may hold it up, or the port is not one for https";
            sheet.put(Step::failed("tls", words).took(took).advice(advice));
            return Err(Ends("tls"));
        };
        let step = match &outcome {
            Ok(secured) => trusted(secured.version, secured.is_http2, certificate.as_ref(), SystemTime::now()),
            Err(Distrust::Untrusted(words)) => distrusted(words, certificate.as_ref()),
            Err(Distrust::Failed(words)) if words.contains("does not speak TLS") => Step::failed("tls", words.as_str())
                .advice("Write http:// instead of https://, or the port that speaks TLS"),
            Err(Distrust::Failed(words)) => Step::failed("tls", words.as_str()).advice(
                "A proxy or firewall may cut it, or the server wants something else (an old TLS, a client certificate)",
            ),
        };
        let step = certificate.iter().fold(step, with_certificate);
        sheet.put(step.took(took));
        outcome.map(Line::from).map_err(|_| Ends("tls"))
    }

    /// HTTP, and whether we are let in.
    async fn speak(&self, probe: &Probe, line: Line, sheet: &mut Sheet) -> Result<(), Ends> {
        let wants_events = self.plan.upstream.transport == Transport::Http(Dialect::Sse);
        let message = (!wants_events).then(initialize);
        sheet.begin("http");
        let (answered, took) = timed(self.limit, probe.ask(line, message, &[])).await;
        let answer = match answered {
            Some(Ok(answer)) => answer,
            Some(Err(fault)) => {
                sheet.put(unanswered(&fault, probe).took(took));
                return Err(Ends("http"));
            }
            None => {
                let words = format!("connected, but no answer to a request within {}", said(self.limit));
                sheet.put(
                    Step::failed("http", words)
                        .took(took)
                        .advice("The server is busy, stuck, or no HTTP server at all"),
                );
                return Err(Ends("http"));
            }
        };
        if let Some(session) = answer.session() {
            // It was opened only for a look. Whoever does not close it in time is not waited for.
            let _ = tokio::time::timeout(FAREWELL, self.leave(probe, session)).await;
        }
        let old = if !wants_events && may_be_old(&answer) { self.old(probe).await } else { None };
        let is_old = old.is_some() || (wants_events && is_events(&answer));
        let answer = old.unwrap_or(answer);
        let step = if is_old {
            let words = format!("{}, the old transport: HTTP+SSE of 2024-11-05", version(&answer));
            Step::ok("http", words).fact("transport", "sse")
        } else {
            judged(&answer)
        };
        let is_well = step.verdict != Verdict::Failed;
        sheet.put(step.took(took).fact("status", answer.status).fact("server", answer.server().map(str::to_owned)));
        if let Some(step) = clock(&answer, SystemTime::now()) {
            sheet.put(step);
        }
        if !is_well {
            return Err(Ends("http"));
        }
        let step = authorization::examine(&answer, self.address);
        let is_well = step.verdict != Verdict::Failed;
        sheet.put(step);
        if is_well { Ok(()) } else { Err(Ends("auth")) }
    }

    /// A connection of its own, as far as it can be had.
    async fn another(&self, probe: &Probe) -> Option<Line> {
        let addresses = probe.look_up().await.ok()?;
        let mut reached = probe.dial(addresses).await.ok()?;
        probe.tunnel(&mut reached).await.ok()?;
        if probe.is_secure() {
            probe.shake_hands(reached).await.outcome.ok().map(Line::from)
        } else {
            Some(reached.into())
        }
    }

    async fn leave(&self, probe: &Probe, session: &str) {
        if let Some(line) = self.another(probe).await {
            probe.leave(line, session).await;
        }
    }

    /// The answer to somebody who asks for a stream of events, if that is what this address is for.
    async fn old(&self, probe: &Probe) -> Option<Answer> {
        let look = async {
            let line = self.another(probe).await?;
            probe.ask(line, None, &[]).await.ok()
        };
        tokio::time::timeout(self.limit, look).await.ok().flatten().filter(is_events)
    }

    async fn converse(&self, sheet: &mut Sheet) -> Result<(), Ends> {
        sheet.begin("handshake");
        let meeting = match protocol::meet(self.plan, self.limit).await {
            Ok(meeting) => meeting,
            Err(why) => {
                sheet.put(Step::failed("handshake", why));
                return Err(Ends("handshake"));
            }
        };
        let mut conversation = meeting.conversation;
        let ended = match meeting.greeted {
            Ok(greeting) => {
                sheet.put(protocol::handshake(&greeting).took(meeting.took));
                protocol::examine(&mut conversation, &greeting, self.limit, sheet).await;
                Ok(())
            }
            Err(trouble) => {
                sheet.put(not_greeted(&trouble).took(meeting.took));
                Err(Ends("handshake"))
            }
        };
        conversation.close().await;
        ended
    }
}

/// The message that is posted for a look.
fn initialize() -> Message {
    let who = json!({ "name": "mendline", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    Message::from(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string())
}

fn not_greeted(trouble: &Trouble) -> Step {
    let step = Step::failed("handshake", format!("it does not take the greeting: {}", one_line(&trouble.words())));
    match trouble {
        Trouble::Silence(_) => step.advice("It takes requests and does not answer them; --timeout gives it longer"),
        trouble if trouble.exit_code() == crate::cli::NEEDS_LOGIN => step.advice("Send a token").needs_login(),
        Trouble::Error { failure: None, .. } => step.advice(protocol::ITS_OWN_WORDS),
        _ => step
            .advice("It speaks HTTP, but not MCP: is the path of the URL right? Many servers are at /mcp or at /sse"),
    }
}

fn version(answer: &Answer) -> &'static str {
    if answer.is_http2 { "HTTP/2" } else { "HTTP/1.1" }
}

fn is_events(answer: &Answer) -> bool {
    (200..300).contains(&answer.status) && answer.content_type().as_deref() == Some("text/event-stream")
}

/// What a server of the old transport says to a message at its address for events.
fn may_be_old(answer: &Answer) -> bool {
    matches!(answer.status, 400 | 404 | 405 | 406 | 415) && !is_json_rpc(&answer.body)
}

fn is_json_rpc(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|value| value.get("jsonrpc").is_some())
}

/// What an answer to a greeting says about the kind of server.
fn judged(answer: &Answer) -> Step {
    const LAYER: &str = "http";
    let (status, http) = (answer.status, version(answer));
    let kind = answer.content_type().unwrap_or_default();
    let page = || match title(&answer.body) {
        Some(title) => format!(" ({title:?})"),
        None => String::new(),
    };
    let path = "Is the path of the URL right? Many servers are at /mcp or at /sse";
    match status {
        200..300 if matches!(kind.as_str(), "application/json" | "text/event-stream") && (is_json_rpc(&answer.body) || kind == "text/event-stream") => {
            Step::ok(LAYER, format!("{http}, answers a message with {kind}")).fact("transport", "streamable")
        }
        200..300 if is_json_rpc(&answer.body) => {
            Step::warning(LAYER, format!("{http}, answers with JSON but calls it {kind:?}"))
                .advice("Mendline takes it all the same; other clients may not. The server should say application/json")
        }
        200..300 if kind == "text/html" => {
            let advice = format!("This is a page for people: a login, a portal, or the wrong address. {path}");
            Step::failed(LAYER, format!("a web page{} came back, and no message", page())).advice(advice)
        }
        200..300 => Step::failed(LAYER, format!("what came back ({status}, {kind:?}) is no message of MCP")).advice(path),
        300..400 => match &answer.redirect {
            Some(Ok(place)) => Step::warning(LAYER, format!("{http}, sends every request on to {place} ({status})"))
                .advice("Mendline follows; write that address into the configuration to save the detour"),
            Some(Err(why)) => Step::failed(LAYER, why.as_str()).advice("Use the address that it sends you to, if you trust it"),
            None => Step::failed(LAYER, format!("a redirect ({status}) to nowhere")).advice(path),
        },
        401 | 403 => Step::ok(LAYER, format!("{http}, answers with {status}")),
        429 => {
            let wait = answer.retry_after().map_or_else(String::new, |wait| format!(", Retry-After: {}", one_line(wait)));
            Step::failed(LAYER, format!("it asks to be left alone (429{wait})"))
                .advice("Too many requests come from here; wait, and ask again")
        }
        400..500 if is_json_rpc(&answer.body) => Step::ok(LAYER, format!("{http}, turns a legacy greeting down, in words of MCP ({status})")),
        404 => Step::failed(LAYER, format!("there is nothing at this path (404){}", page())).advice(path),
        405 => Step::failed(LAYER, "this path takes no messages (405)").advice(path),
        400..500 => Step::failed(LAYER, format!("the server turns the request down ({status}){}", page())).advice(path),
        _ => Step::failed(LAYER, format!("the server itself fails ({status}){}", page()))
            .advice("It, or what stands before it, is broken or being restarted; look at its own log, and try again in a minute"),
    }
}

/// The title of a web page.
fn title(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    Some(headline(&text[start..end], 60)).filter(|title| !title.is_empty())
}

fn unanswered(fault: &NoAnswer, probe: &Probe) -> Step {
    match fault {
        NoAnswer::NotHttp(_) => Step::failed("http", format!("{} answers, but not in HTTP", probe.server()))
            .advice("Another kind of server listens there: is the port right?"),
        NoAnswer::Cut(_) if !probe.is_secure() => {
            Step::failed("http", format!("{} closed the connection instead of answering", probe.server()))
                .advice("Is it a port for https? Then write https:// instead of http://")
        }
        NoAnswer::Cut(why) => {
            Step::failed("http", format!("{} closed the connection instead of answering ({why})", probe.server()))
                .advice("The server crashes at this request, or something between cuts it; look at its own log")
        }
        NoAnswer::Unsendable(why) => Step::failed("http", why.as_str()).advice("Mend the headers that are configured"),
    }
}

fn trusted(version: &str, is_http2: bool, certificate: Option<&Certificate>, now: SystemTime) -> Step {
    let http = if is_http2 { "HTTP/2" } else { "HTTP/1.1" };
    let Some(certificate) = certificate else { return Step::ok("tls", format!("{version}, {http}")) };
    let left = certificate.not_after.duration_since(now).unwrap_or_default();
    let days = left.as_secs() / 86_400;
    let words = format!(
        "{version}, {http}; certificate for {} by {}, good for {days} days",
        whose(certificate),
        one_line(&certificate.issuer)
    );
    let step = if left < SOON {
        Step::warning("tls", words).advice("Whoever runs it should renew it now")
    } else {
        Step::ok("tls", words)
    };
    step.fact("version", version).fact("alpn", http)
}

fn distrusted(words: &str, certificate: Option<&Certificate>) -> Step {
    let advice = match certificate {
        Some(certificate) if words.contains("authority") && certificate.is_self_signed => {
            "It vouches for itself. If it is yours, put its certificate into a PEM file and name that in NODE_EXTRA_CA_CERTS"
        }
        Some(_) if words.contains("authority") => {
            "If it is your company's authority, name its PEM file in NODE_EXTRA_CA_CERTS; if not, somebody may be listening in"
        }
        Some(_) if words.contains("expired") => {
            "Whoever runs it must renew it. If it is good elsewhere: is this machine's clock right?"
        }
        Some(_) if words.contains("is for ") => {
            "Use a name that the certificate is for, or ask whoever runs it for one with this name"
        }
        _ => "Nothing is sent to a server that cannot prove who it is",
    };
    Step::failed("tls", words).advice(advice)
}

fn with_certificate(step: Step, certificate: &Certificate) -> Step {
    let date = |time| humantime::format_rfc3339_seconds(time).to_string();
    let step = if step.verdict == Verdict::Failed {
        let (subject, issuer) = (whose(certificate), one_line(&certificate.issuer));
        step.details([format!("certificate for {subject} by {issuer}, until {}", date(certificate.not_after))])
    } else {
        step
    };
    step.fact("subject", certificate.subject.as_str())
        .fact("issuer", certificate.issuer.as_str())
        .fact("names", certificate.names.clone())
        .fact("notBefore", date(certificate.not_before))
        .fact("notAfter", date(certificate.not_after))
}

fn whose(certificate: &Certificate) -> String {
    match certificate.names.as_slice() {
        [] => one_line(&certificate.subject),
        [only] => one_line(only),
        [first, rest @ ..] => format!("{} and {} more", one_line(first), rest.len()),
    }
}

/// How far the server's clock is from ours.
fn clock(answer: &Answer, now: SystemTime) -> Option<Step> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(left: Duration) -> Certificate {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Certificate {
            subject: "a.test".into(),
            issuer: "An authority".into(),
            names: vec!["a.test".into(), "b.test".into()],
            not_before: SystemTime::UNIX_EPOCH,
            not_after: now + left,
            is_self_signed: false,
        }
    }

    #[test]
    fn a_certificate_that_ends_soon_is_worth_a_look() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let days = |days: u64| trusted("TLS 1.3", true, Some(&certificate(Duration::from_secs(days * 86_400))), now);
        assert_eq!(
            days(90).words,
            "TLS 1.3, HTTP/2; certificate for a.test and 1 more by An authority, good for 90 days"
        );
        assert_eq!((days(90).verdict, days(13).verdict), (Verdict::Ok, Verdict::Warning));
    }

    #[test]
    fn the_title_of_a_page_is_found_and_cannot_talk_to_the_terminal() {
        assert_eq!(title(b"<html><TITLE lang=x> Sign\x1b in </title>").as_deref(), Some("Sign\\u{1b} in"));
        for body in [&b""[..], b"<title", b"<title>", b"<title></title>", b"\xff<title>"] {
            assert_eq!(title(body), None);
        }
    }
}
