//! Which policies were chosen, and which of them cannot be together.

use std::time::Duration;

use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::{
    AutoReconnect, Breaker, KeepAlive, OnError, OpenFor, RateLimit, Reconnect, Startup, ToolPolicy,
};
use mendline::decisions::policy::effect::Effect;

use super::Sayings;
use crate::check::{Block, Checker, What};
use crate::finding::Finding;

/// What two values cannot be together. Only what a block says itself is held against it: of two words of which one is a
/// default for all, the server's own holds and the other gives way.
pub(super) fn contradictions(sayings: Sayings<'_>, checker: &mut Checker<'_>) {
    let own = Sayings { own: sayings.own, defaults: &Block::default() };
    for (shorter, longer, otherwise) in [
        ("timeouts.call", "timeouts.total", None),
        ("autoReconnect.initialRetryDelay", "autoReconnect.maxRetryDelay", Some(Reconnect::default().cap_idle)),
        ("retry.initialDelay", "retry.maxDelay", Some(mendline::decisions::config::Retry::default().cap)),
        ("keepAlive.timeout", "keepAlive.interval", None),
    ] {
        let Some(short) = own.duration(shorter) else { continue };
        let Some(long) =
            own.duration(longer).or(sayings.duration(longer).filter(|_| otherwise.is_some())).or(otherwise)
        else {
            continue;
        };
        if short > long {
            let (short_name, long_name) = (last(shorter), last(longer));
            let what =
                format!("`{short_name}` is {}, which is longer than `{long_name}`, {}", shown(short), shown(long));
            let at = own.own_place(shorter).unwrap_or(0..0);
            checker.find(Finding::error(at, what).help(format!("raise `{long_name}`, or lower `{short_name}`")));
        }
    }
    if let Some(limit) = own.own.find("rateLimit").filter(|_| sayings.real("rateLimit.perSecond").is_none()) {
        // A value that is there and wrong has been said already.
        let is_empty = matches!(&limit.what, What::Block(block) if block.find("perSecond").is_none());
        let is_said = checker
            .findings
            .iter()
            .any(|finding| finding.at.as_ref().is_some_and(|at| at.start >= limit.at.start && at.end <= limit.at.end));
        if is_empty && !is_said {
            let finding = Finding::error(limit.key_at.clone(), "`rateLimit` does not say how many calls");
            checker.find(finding.help("add `perSecond`, for example 10"));
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn shown(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

pub(super) fn apply(sayings: Sayings<'_>, upstream: &mut UpstreamConfig) {
    upstream.reconnect = Reconnect::from(auto_reconnect(sayings));
    timeouts(sayings, upstream);
    retry(sayings, upstream);
    upstream.breaker = breaker(sayings);
    upstream.rate_limit = rate_limit(sayings);
    upstream.keep_alive = keep_alive(sayings);
    upstream.resume_attempts = sayings.count("resume.maxAttempts").unwrap_or(upstream.resume_attempts);
    let limits = &mut upstream.limits;
    limits.in_flight = sayings.count("limits.inFlight").map_or(limits.in_flight, |most| most as usize);
    limits.waiting = sayings.count("limits.waiting").map_or(limits.waiting, |most| most as usize);
    upstream.trust_hints = sayings.flag("trustHints").unwrap_or(upstream.trust_hints);
    upstream.catalogue.cache = sayings.flag("catalogue.cache").unwrap_or(upstream.catalogue.cache);
    upstream.catalogue.startup = match sayings.choice("startup") {
        Some("wait") => Startup::Wait,
        _ => Startup::AtOnce,
    };
    tools(sayings, upstream);
}

fn auto_reconnect(sayings: Sayings<'_>) -> AutoReconnect {
    AutoReconnect {
        enabled: sayings.flag("autoReconnect.enabled"),
        // -1 is no end, and nothing else that passed the table is below nothing.
        max_retries: sayings.whole("autoReconnect.maxRetries").map(|number| u32::try_from(number).ok()),
        initial_retry_delay: sayings.duration("autoReconnect.initialRetryDelay"),
        max_retry_delay: sayings.duration("autoReconnect.maxRetryDelay"),
        backoff_multiplier: sayings.real("autoReconnect.backoffMultiplier"),
        silent: sayings.flag("autoReconnect.silent"),
    }
}

fn timeouts(sayings: Sayings<'_>, upstream: &mut UpstreamConfig) {
    let timeouts = &mut upstream.timeouts;
    let own = Sayings { own: sayings.own, defaults: &Block::default() };
    let call = sayings.duration("timeouts.call").or(sayings.duration("tool_timeout_sec"));
    let total = sayings.duration("timeouts.total");
    match (call, total) {
        // Who chooses only one of them means it: the other gives way, and so does a default for all.
        (Some(call), Some(total)) if call > total && own.duration("timeouts.total").is_some() => {
            (timeouts.call, timeouts.total) = (total, total);
        }
        (Some(call), total) => (timeouts.call, timeouts.total) = (call, total.unwrap_or(timeouts.total).max(call)),
        (None, Some(total)) => (timeouts.call, timeouts.total) = (timeouts.call.min(total), total),
        (None, None) => {}
    }
    timeouts.recovery = sayings.duration("timeouts.recovery").unwrap_or(timeouts.recovery);
    let started = sayings.duration("startup_timeout_sec").or(sayings.duration("startup_timeout_ms"));
    timeouts.handshake = sayings.duration("timeouts.handshake").or(started).unwrap_or(timeouts.handshake);
}

fn retry(sayings: Sayings<'_>, upstream: &mut UpstreamConfig) {
    let retry = &mut upstream.retry;
    retry.attempts = sayings.count("retry.maxAttempts").unwrap_or(retry.attempts);
    retry.initial = sayings.duration("retry.initialDelay").unwrap_or(retry.initial);
    retry.cap = sayings.duration("retry.maxDelay").unwrap_or(retry.cap).max(retry.initial);
    if let Some(What::Codes(codes)) = sayings.find("retry.codes").map(|said| &said.what) {
        let meant = |word: &str| match word {
            "never" => OnError::Never,
            "always" => OnError::Always,
            _ => OnError::Reads,
        };
        retry.codes = codes.iter().map(|(code, word)| (*code, meant(word))).collect();
    }
}

fn breaker(sayings: Sayings<'_>) -> Option<Breaker> {
    if sayings.flag("circuitBreaker.enabled") == Some(false) {
        return None;
    }
    let usual = Breaker::default();
    Some(Breaker {
        failures: sayings.count("circuitBreaker.failureThreshold").unwrap_or(usual.failures),
        success_rate: sayings.real("circuitBreaker.successRate").unwrap_or(usual.success_rate),
        window: sayings.duration("circuitBreaker.window").unwrap_or(usual.window),
        window_calls: sayings.count("circuitBreaker.windowCalls").unwrap_or(usual.window_calls),
        open_for: sayings.duration("circuitBreaker.resetTimeout").map_or(usual.open_for, OpenFor::Exactly),
        successes: sayings.count("circuitBreaker.successThreshold").unwrap_or(usual.successes),
        count_tool_errors: sayings.flag("circuitBreaker.countToolErrors").unwrap_or(usual.count_tool_errors),
    })
}

fn rate_limit(sayings: Sayings<'_>) -> Option<RateLimit> {
    let per_second = sayings.real("rateLimit.perSecond")?;
    let burst = sayings.count("rateLimit.burst").unwrap_or_else(|| per_second.ceil().max(1.0) as u32);
    Some(RateLimit { burst, per_second })
}

fn keep_alive(sayings: Sayings<'_>) -> Option<KeepAlive> {
    if sayings.flag("keepAlive.enabled") == Some(false) {
        return None;
    }
    let usual = KeepAlive::default();
    Some(KeepAlive {
        interval: sayings.duration("keepAlive.interval").unwrap_or(usual.interval),
        timeout: sayings.duration("keepAlive.timeout").unwrap_or(usual.timeout),
    })
}

fn tools(sayings: Sayings<'_>, upstream: &mut UpstreamConfig) {
    let Some(What::Each(tools)) = sayings.find("tools").map(|said| &said.what) else { return };
    for (name, block) in tools {
        let said = Sayings { own: block, defaults: &Block::default() };
        let effect = said.choice("effect").map(|word| match word {
            "read" => Effect::Read,
            "idempotent" => Effect::Idempotent,
            _ => Effect::Unsafe,
        });
        let policy = ToolPolicy { effect, timeout: said.duration("timeout") };
        if policy != ToolPolicy::default() {
            upstream.tools.insert(name.clone(), policy);
        }
    }
}
