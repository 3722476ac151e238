//! The upper layers, which are the same for every server: handshake, lists, pings, and both eras.
//!
//! They use the engine of `mendline run` without retries: the doctor wants the first failure, not its repair.

use std::time::{Duration, Instant};

use super::report::{Section, short};
use super::step::{Step, limit_text, timed};
use crate::mcp_client::{Era, EventObserver, McpClient, RequestError, ServerInfo};
use crate::plan::Plan;
use crate::untrusted_text::{counted, one_line};

/// Number of pings.
const PINGS: usize = 5;

/// Time of a request above which the server is slow, which is a warning.
const SLOW: Duration = Duration::from_secs(1);

/// Time of a request above which the server is too slow: half of the time that a keep-alive ping has.
const TOO_SLOW: Duration = Duration::from_secs(5);

/// Number of slow requests that are enough to know.
const ENOUGH: usize = 2;

/// Time limit for an answer in the other era. Some servers do not answer unknown requests at all.
pub(crate) const OTHER_ERA: Duration = Duration::from_secs(2);

/// Margin by which the engine's timeouts exceed ours.
const SLACK: Duration = Duration::from_secs(5);

/// Advice about a server that rejects the handshake.
pub(crate) const SERVER_MESSAGE_ADVICE: &str =
    "The message is the server's own: its log or its manual may say more. It may also be too old or too new";

/// Returns the plan without retries, and with this time limit.
pub(crate) fn without_retries(plan: &Plan, limit: Duration) -> Plan {
    let mut plan = plan.clone();
    let upstream = &mut plan.upstream;
    upstream.reconnect.attempts = 0;
    upstream.retry.attempts = 1;
    upstream.keep_alive = None;
    upstream.breaker = None;
    upstream.rate_limit = None;
    // Longer than our own limit, so that ours decides.
    let later = limit + SLACK;
    let timeouts = &mut upstream.timeouts;
    (timeouts.call, timeouts.total, timeouts.handshake) = (later, later, later);
    timeouts.recovery = timeouts.recovery.min(later);
    plan
}

/// Result of a handshake.
pub(crate) struct Handshake {
    pub(crate) client: McpClient,
    pub(crate) result: Result<ServerInfo, RequestError>,
    pub(crate) took: Duration,
}

/// Performs the handshake. The loss of the connection ends it at once.
pub(crate) async fn connect(plan: &Plan, limit: Duration) -> Result<Handshake, String> {
    let begin = Instant::now();
    let mut client = McpClient::open(without_retries(plan, limit), None::<EventObserver>)?;
    let events = client.events().clone();
    let result = tokio::select! {
        biased;
        result = tokio::time::timeout(limit, client.handshake()) => result.unwrap_or(Err(RequestError::Timeout(limit))),
        why = events.trouble() => Err(RequestError::Unavailable(why.to_string())),
    };
    Ok(Handshake { client, result, took: begin.elapsed() })
}

/// Reports a successful handshake.
pub(crate) fn handshake_step(info: &ServerInfo) -> Step {
    let who = match (&info.name, &info.release) {
        (Some(name), Some(release)) => format!("{} {}", one_line(name), one_line(release)),
        (Some(name), None) => one_line(name),
        (None, _) => "a server without a name".to_owned(),
    };
    let (version, era) = (one_line(&info.version), info.era.word());
    Step::ok("handshake", format!("{who} speaks MCP {version} ({era} era)"))
        .fact("era", era)
        .fact("protocolVersion", info.version.as_str())
        .fact("serverName", info.name.clone())
        .fact("serverVersion", info.release.clone())
}

/// The time of one request, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// About this time.
    About(Duration),
    /// A ping was not answered in time.
    Unanswered,
    /// Unknown: the server rejects pings.
    Unknown,
}

impl Pace {
    /// Measures the time with a ping, or with a second one if the first was slow.
    pub(crate) async fn measure(client: &mut McpClient, limit: Duration) -> Pace {
        let mut fastest = None::<Duration>;
        for _ in 0..ENOUGH {
            let (answer, took) = timed(limit, client.ping()).await;
            match answer {
                Some(Ok(())) => fastest = Some(fastest.map_or(took, |fastest| fastest.min(took))),
                Some(Err(_)) => return Pace::Unknown,
                None => return fastest.map_or(Pace::Unanswered, Pace::About),
            }
            if took < SLOW {
                break;
            }
        }
        fastest.map_or(Pace::Unknown, Pace::About)
    }
}

/// Examines lists and pings after the handshake. A server whose every request is slow is reported as slow, and not
/// examined further: each further request would only take as long. Returns whether it was examined to the end.
pub(crate) async fn examine(
    client: &mut McpClient,
    info: &ServerInfo,
    limit: Duration,
    pace: Pace,
    section: &mut Section,
) -> bool {
    let mut limit_of_lists = limit;
    if let Pace::About(took) = pace
        && took >= SLOW
    {
        section.add(speed(took));
        if took >= TOO_SLOW {
            section.skip(&["lists", "ping"], "not tried: each request would take as long");
            return false;
        }
        // A notification that is answered as slowly may come first.
        limit_of_lists = limit.max(took * 4);
    }
    section.begin("lists");
    let (listed, step) = lists(client, info, limit_of_lists).await;
    if pace == Pace::Unanswered {
        if listed == Listed::TimedOut {
            let words = format!("neither a ping nor a list was answered within {}", limit_text(limit));
            section.add(Step::failed("ping", words).advice("It is very slow or hangs. --timeout gives it more time"));
            section.skip(&["lists"], "not known");
            return false;
        }
        section.add(step);
        section.add(unanswered(limit));
        return true;
    }
    section.add(step);
    section.begin("ping");
    let step = pings(client, limit).await;
    section.add(step);
    true
}

fn speed(took: Duration) -> Step {
    let words = format!("slow: every request takes about {}", short(took));
    let step = if took >= TOO_SLOW { Step::failed("speed", words) } else { Step::warning("speed", words) };
    step.advice("The server, a service that it waits for, or the network is slow or overloaded; its log may say which")
        .fact("requestMs", millis(took))
}

/// Reports whether a server that was initialized in the legacy era supports the modern one as well. This check comes
/// last, because some servers exit at an unknown request.
pub(crate) async fn eras(client: &mut McpClient, legacy: &ServerInfo, limit: Duration) -> Option<Step> {
    if legacy.era == Era::Modern {
        return None;
    }
    let (modern, took) = timed(limit.min(OTHER_ERA), client.discover()).await;
    modern.flatten().map(|modern| both(legacy, &modern).took(took))
}

/// The same check in a new process, for commands whose first request decides the era.
pub(crate) async fn eras_in_new_process(plan: &Plan, legacy: &ServerInfo, limit: Duration) -> Option<Step> {
    if legacy.era == Era::Modern {
        return None;
    }
    let mut client = McpClient::open(without_retries(plan, limit), None::<EventObserver>).ok()?;
    let (modern, took) = timed(limit, client.discover()).await;
    client.close().await;
    modern.flatten().map(|modern| both(legacy, &modern).took(took))
}

fn both(legacy: &ServerInfo, modern: &ServerInfo) -> Step {
    let version = one_line(&modern.version);
    Step::ok("eras", format!("it supports MCP {version} (modern era), too; Mendline uses the era of its client"))
        .fact("eras", vec![legacy.era.word(), modern.era.word()])
        .fact("protocolVersions", vec![legacy.version.as_str(), modern.version.as_str()])
}

/// Result of listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Done,
    Failed,
    TimedOut,
}

async fn lists(client: &mut McpClient, info: &ServerInfo, limit: Duration) -> (Listed, Step) {
    const LAYER: &str = "lists";
    let begin = Instant::now();
    let offered: Vec<&str> = ["tools", "prompts", "resources"].into_iter().filter(|what| info.offers(what)).collect();
    let mut counts = Vec::new();
    for what in &offered {
        match timed(limit, client.list(&format!("{what}/list"), what)).await.0 {
            Some(Ok(items)) => counts.push((*what, items.len())),
            Some(Err(trouble)) => {
                let step = Step::failed(LAYER, format!("its {what} cannot be listed: {}", trouble.words()))
                    .took(begin.elapsed())
                    .advice("The server announces this list and does not return it: this is a fault of the server");
                return (Listed::Failed, step);
            }
            None => {
                let step = Step::failed(LAYER, format!("its {what} were not listed within {}", limit_text(limit)))
                    .took(begin.elapsed())
                    .advice("It may wait for another service; --timeout gives it more time");
                return (Listed::TimedOut, step);
            }
        }
    }
    let words: Vec<String> = counts.iter().map(|(what, count)| counted(*count, what.trim_end_matches('s'))).collect();
    let step = match counts.iter().map(|(_, count)| count).sum::<usize>() {
        0 if offered.is_empty() => Step::warning(LAYER, "it offers neither tools nor prompts nor resources"),
        0 => Step::warning(LAYER, format!("it has {}: there is nothing for a client to use", words.join(", "))),
        _ => Step::ok(LAYER, words.join(", ")),
    };
    (Listed::Done, counts.iter().fold(step.took(begin.elapsed()), |step, (what, count)| step.fact(what, *count)))
}

async fn pings(client: &mut McpClient, limit: Duration) -> Step {
    const LAYER: &str = "ping";
    let mut times = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let (answer, took) = timed(limit, client.ping()).await;
        match answer {
            Some(Ok(())) => times.push(took),
            Some(Err(trouble)) => {
                return Step::warning(LAYER, format!("it does not answer pings: {}", trouble.words())).advice(
                    "Mendline tests an idle connection with pings; without an answer it considers the server lost",
                );
            }
            None => return unanswered(limit).took(took),
        }
        if times.len() >= ENOUGH && times.iter().all(|took| *took >= SLOW) {
            break;
        }
    }
    times.sort_unstable();
    let (middle, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    let words = format!("{} pings, median {}, slowest {}", times.len(), short(middle), short(slowest));
    let step = match middle >= SLOW {
        true => Step::warning(LAYER, format!("slow: {words}"))
            .advice("The server or the network is slow; Mendline considers a server lost that misses two pings of 10s"),
        false => Step::ok(LAYER, words),
    };
    step.took(middle).fact("p50Ms", millis(middle)).fact("slowestMs", millis(slowest))
}

fn unanswered(limit: Duration) -> Step {
    Step::failed("ping", format!("no answer to a ping within {}", limit_text(limit)))
        .advice("Mendline tests an idle connection with pings; without an answer it considers the server lost")
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
