//! The upper layers, which are the same for every server: greeting, lists, pings, and whether it speaks both eras.
//!
//! They go through the engine of `mendline run`, with its patience taken away: a doctor wants the first failure and not the
//! mending of it.

use std::time::{Duration, Instant};

use super::report::{Sheet, short};
use super::step::{Step, said, timed};
use crate::conversation::{Conversation, Era, Greeting, Trouble, Witness};
use crate::outside::{counted, one_line};
use crate::plan::Plan;

/// How many pings are sent.
const PINGS: usize = 5;

/// What an answer may take before it is worth a look.
const SLOW: Duration = Duration::from_secs(1);

/// How long a server has to say that it speaks the other era, too. Those that do not may say nothing at all.
pub(crate) const OTHER_ERA: Duration = Duration::from_secs(2);

/// How much later than ours the engine's patience ends.
const SLACK: Duration = Duration::from_secs(5);

/// What to make of a server that says no.
pub(crate) const ITS_OWN_WORDS: &str =
    "It speaks MCP, and these are its own words: its log or its manual may say more. It may also be too old or too new";

/// The same plan for somebody who wants to see what fails.
pub(crate) fn impatient(plan: &Plan, limit: Duration) -> Plan {
    let mut plan = plan.clone();
    let upstream = &mut plan.upstream;
    upstream.reconnect.attempts = 0;
    upstream.retry.attempts = 1;
    upstream.keep_alive = None;
    upstream.breaker = None;
    upstream.rate_limit = None;
    // Longer than we wait ourselves: of two clocks that strike together nobody knows which is heard.
    let later = limit + SLACK;
    let timeouts = &mut upstream.timeouts;
    (timeouts.call, timeouts.total, timeouts.handshake) = (later, later, later);
    timeouts.recovery = timeouts.recovery.min(later);
    plan
}

/// A server that was greeted, or the reason why not.
pub(crate) struct Meeting {
    pub(crate) conversation: Conversation,
    pub(crate) greeted: Result<Greeting, Trouble>,
    pub(crate) took: Duration,
}

/// Greets a server. One that is lost meanwhile is not waited for.
pub(crate) async fn meet(plan: &Plan, limit: Duration) -> Result<Meeting, String> {
    let begin = Instant::now();
    let mut conversation = Conversation::open(impatient(plan, limit), None::<Witness>)?;
    let witness = conversation.witness().clone();
    let greeted = tokio::select! {
        biased;
        greeted = tokio::time::timeout(limit, conversation.greet()) => greeted.unwrap_or(Err(Trouble::Silence(limit))),
        why = witness.trouble() => Err(Trouble::Away(why)),
    };
    Ok(Meeting { conversation, greeted, took: begin.elapsed() })
}

/// What a greeting shows.
pub(crate) fn handshake(greeting: &Greeting) -> Step {
    let who = match (&greeting.name, &greeting.release) {
        (Some(name), Some(release)) => format!("{} {}", one_line(name), one_line(release)),
        (Some(name), None) => one_line(name),
        (None, _) => "a server that does not say its name".to_owned(),
    };
    let (version, era) = (one_line(&greeting.version), greeting.era.word());
    Step::ok("handshake", format!("{who} speaks MCP {version} ({era} era)"))
        .fact("era", era)
        .fact("protocolVersion", greeting.version.as_str())
        .fact("serverName", greeting.name.clone())
        .fact("serverVersion", greeting.release.clone())
}

/// Lists and pings of a server that was greeted.
pub(crate) async fn examine(conversation: &mut Conversation, greeting: &Greeting, limit: Duration, sheet: &mut Sheet) {
    sheet.begin("lists");
    let step = lists(conversation, greeting, limit).await;
    sheet.put(step);
    sheet.begin("ping");
    let step = pings(conversation, limit).await;
    sheet.put(step);
}

/// Says whether a server that was greeted in the legacy era speaks the modern one as well. This is asked last: there are
/// servers that end when they are asked something unknown.
pub(crate) async fn eras(conversation: &mut Conversation, legacy: &Greeting, limit: Duration) -> Option<Step> {
    if legacy.era == Era::Modern {
        return None;
    }
    let (modern, took) = timed(limit.min(OTHER_ERA), conversation.discover()).await;
    modern.flatten().map(|modern| both(legacy, &modern).took(took))
}

/// The same for a command that lets the first request decide which era it speaks in this life: in another one.
pub(crate) async fn eras_in_another_life(plan: &Plan, legacy: &Greeting, limit: Duration) -> Option<Step> {
    if legacy.era == Era::Modern {
        return None;
    }
    let mut conversation = Conversation::open(impatient(plan, limit), None::<Witness>).ok()?;
    let (modern, took) = timed(limit, conversation.discover()).await;
    conversation.close().await;
    modern.flatten().map(|modern| both(legacy, &modern).took(took))
}

fn both(legacy: &Greeting, modern: &Greeting) -> Step {
    let version = one_line(&modern.version);
    Step::ok("eras", format!("it speaks MCP {version} (modern era), too; Mendline speaks whichever its client speaks"))
        .fact("eras", vec![legacy.era.word(), modern.era.word()])
        .fact("protocolVersions", vec![legacy.version.as_str(), modern.version.as_str()])
}

async fn lists(conversation: &mut Conversation, greeting: &Greeting, limit: Duration) -> Step {
    const LAYER: &str = "lists";
    let begin = Instant::now();
    let offered: Vec<&str> =
        ["tools", "prompts", "resources"].into_iter().filter(|what| greeting.offers(what)).collect();
    let mut counts = Vec::new();
    for what in &offered {
        match timed(limit, conversation.list(&format!("{what}/list"), what)).await.0 {
            Some(Ok(items)) => counts.push((*what, items.len())),
            Some(Err(trouble)) => {
                return Step::failed(LAYER, format!("its {what} cannot be listed: {}", trouble.words()))
                    .took(begin.elapsed())
                    .advice("The server offers them and does not give them: that is a fault of the server");
            }
            None => {
                return Step::failed(LAYER, format!("its {what} were not listed within {}", said(limit)))
                    .took(begin.elapsed())
                    .advice("It may wait for something itself; --timeout gives it longer");
            }
        }
    }
    let words: Vec<String> = counts.iter().map(|(what, count)| counted(*count, what.trim_end_matches('s'))).collect();
    let step = match counts.iter().map(|(_, count)| count).sum::<usize>() {
        0 if offered.is_empty() => Step::warning(LAYER, "it offers neither tools nor prompts nor resources"),
        0 => Step::warning(LAYER, format!("it has {}: a client will find nothing to use", words.join(", "))),
        _ => Step::ok(LAYER, words.join(", ")),
    };
    counts.iter().fold(step.took(begin.elapsed()), |step, (what, count)| step.fact(what, *count))
}

async fn pings(conversation: &mut Conversation, limit: Duration) -> Step {
    const LAYER: &str = "ping";
    let mut times = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let (answer, took) = timed(limit, conversation.ping()).await;
        match answer {
            Some(Ok(())) => times.push(took),
            Some(Err(trouble)) => {
                return Step::warning(LAYER, format!("it does not answer pings: {}", trouble.words())).advice(
                    "Mendline tests an idle line with pings; without an answer it may think the server is gone",
                );
            }
            None => return Step::failed(LAYER, format!("no answer to a ping within {}", said(limit))).took(took),
        }
    }
    times.sort_unstable();
    let (middle, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    let words = format!("{PINGS} pings, half of them within {}, the slowest {}", short(middle), short(slowest));
    let step = if middle > SLOW { Step::warning(LAYER, words) } else { Step::ok(LAYER, words) };
    let millis = |time: Duration| (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0;
    step.took(middle).fact("p50Ms", millis(middle)).fact("slowestMs", millis(slowest))
}
