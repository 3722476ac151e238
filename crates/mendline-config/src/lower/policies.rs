//! The policies of a server and their contradictions.

use std::time::Duration;

use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::{
    AutoReconnect, Breaker, FailureForm, KeepAlive, OnError, OpenFor, RateLimit, Reconnect, Sharing, Startup,
    ToolPolicy,
};
use mendline::decisions::policy::effect::Effect;
use mendline::decisions::policy::tool_filter::ToolFilter;

use super::Settings;
use crate::check::{Block, Checker, TypedValue};
use crate::finding::Finding;

/// Reports contradictory values. Only values of the same object are compared: the value of a server overrides a default
/// for all servers.
pub(super) fn check_contradictions(settings: Settings<'_>, checker: &mut Checker<'_>) {
    let own = Settings { own: settings.own, defaults: &Block::default() };
    for (shorter, longer, otherwise) in [
        ("timeouts.call", "timeouts.total", None),
        ("autoReconnect.initialRetryDelay", "autoReconnect.maxRetryDelay", Some(Reconnect::default().cap_idle)),
        ("retry.initialDelay", "retry.maxDelay", Some(mendline::decisions::config::Retry::default().cap)),
        ("keepAlive.timeout", "keepAlive.interval", None),
    ] {
        let Some(short) = own.duration(shorter) else { continue };
        let Some(long) =
            own.duration(longer).or(settings.duration(longer).filter(|_| otherwise.is_some())).or(otherwise)
        else {
            continue;
        };
        if short > long {
            let (short_name, long_name) = (last(shorter), last(longer));
            let what =
                format!("`{short_name}` is {}, which is longer than `{long_name}`, {}", shown(short), shown(long));
            let at = own.own_span(shorter).unwrap_or(0..0);
            checker.report(Finding::error(at, what).help(format!("raise `{long_name}`, or lower `{short_name}`")));
        }
    }
    check_rate_limit(own, settings.real("rateLimit.perSecond").is_some(), checker);
    if let Some(TypedValue::Each(tools)) = own.find("tools").map(|found| &found.value) {
        for (_, block) in tools {
            check_rate_limit(Settings { own: block, defaults: &Block::default() }, false, checker);
        }
    }
}

/// Reports a rate limit without a rate.
fn check_rate_limit(own: Settings<'_>, has_rate: bool, checker: &mut Checker<'_>) {
    if let Some(limit) = own.own.find("rateLimit").filter(|_| !has_rate) {
        // A wrong value is already reported.
        let is_empty = matches!(&limit.value, TypedValue::Block(block) if block.find("perSecond").is_none());
        let is_reported = checker
            .findings
            .iter()
            .any(|finding| finding.at.as_ref().is_some_and(|at| at.start >= limit.at.start && at.end <= limit.at.end));
        if is_empty && !is_reported {
            let finding = Finding::error(limit.key_at.clone(), "`rateLimit` has no `perSecond`");
            checker.report(finding.help("add `perSecond`, for example 10"));
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn shown(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Applies the configured policies over those that `upstream` has; a policy that is not configured keeps its value.
pub(super) fn apply(settings: Settings<'_>, upstream: &mut UpstreamConfig) {
    apply_keys(settings, upstream, true);
}

/// Applies the keys of Mendline, and not those by which Codex limits its own waiting.
pub(super) fn apply_own(settings: Settings<'_>, upstream: &mut UpstreamConfig) {
    apply_keys(settings, upstream, false);
}

fn apply_keys(settings: Settings<'_>, upstream: &mut UpstreamConfig, with_codex: bool) {
    upstream.reconnect = auto_reconnect(settings).over(upstream.reconnect.clone());
    timeouts(settings, upstream, with_codex);
    retry(settings, upstream);
    upstream.breaker = breaker(settings, upstream.breaker.take());
    upstream.rate_limit = rate_limit(settings).or(upstream.rate_limit);
    upstream.keep_alive = keep_alive(settings, upstream.keep_alive);
    upstream.resume_attempts = settings.count("resume.maxAttempts").unwrap_or(upstream.resume_attempts);
    upstream.resume_total = settings.count("resume.maxTotal").unwrap_or(upstream.resume_total);
    let limits = &mut upstream.limits;
    limits.in_flight = settings.count("limits.inFlight").map_or(limits.in_flight, |most| most as usize);
    limits.waiting = settings.count("limits.waiting").map_or(limits.waiting, |most| most as usize);
    upstream.trust_hints = settings.flag("trustHints").unwrap_or(upstream.trust_hints);
    upstream.own_tools = settings.flag("ownTools").unwrap_or(upstream.own_tools);
    if settings.find("allowTools").or_else(|| settings.find("denyTools")).is_some() {
        upstream.tool_filter = tool_filter(settings, "allowTools", "denyTools");
    }
    upstream.catalogue.cache = settings.flag("catalogue.cache").unwrap_or(upstream.catalogue.cache);
    upstream.catalogue.startup = match settings.choice("startup") {
        Some("wait") => Startup::Wait,
        Some(_) => Startup::Immediate,
        None => upstream.catalogue.startup,
    };
    upstream.sharing = match settings.choice("sharing") {
        Some("perClient") => Some(Sharing::PerClient),
        Some(_) => Some(Sharing::Shared),
        None => upstream.sharing,
    };
    upstream.idle = settings.duration("idle").unwrap_or(upstream.idle);
    upstream.failures = match settings.choice("failures") {
        Some("error") => FailureForm::Error,
        Some(_) => FailureForm::Result,
        None => upstream.failures,
    };
    tools(settings, upstream);
}

fn auto_reconnect(settings: Settings<'_>) -> AutoReconnect {
    AutoReconnect {
        enabled: settings.flag("autoReconnect.enabled"),
        // -1 means no limit; the table allows no other negative number.
        max_retries: settings.whole("autoReconnect.maxRetries").map(|number| u32::try_from(number).ok()),
        initial_retry_delay: settings.duration("autoReconnect.initialRetryDelay"),
        max_retry_delay: settings.duration("autoReconnect.maxRetryDelay"),
        backoff_multiplier: settings.real("autoReconnect.backoffMultiplier"),
        silent: settings.flag("autoReconnect.silent"),
    }
}

fn timeouts(settings: Settings<'_>, upstream: &mut UpstreamConfig, with_codex: bool) {
    let codex = |path: &str| settings.duration(path).filter(|_| with_codex);
    let timeouts = &mut upstream.timeouts;
    let own = Settings { own: settings.own, defaults: &Block::default() };
    let call = settings.duration("timeouts.call").or(codex("tool_timeout_sec"));
    let total = settings.duration("timeouts.total");
    match (call, total) {
        // If only one of the two is configured, the other one is adapted, and so is a default for all servers.
        (Some(call), Some(total)) if call > total && own.duration("timeouts.total").is_some() => {
            (timeouts.call, timeouts.total) = (total, total);
        }
        (Some(call), total) => (timeouts.call, timeouts.total) = (call, total.unwrap_or(timeouts.total).max(call)),
        (None, Some(total)) => (timeouts.call, timeouts.total) = (timeouts.call.min(total), total),
        (None, None) => {}
    }
    timeouts.recovery = settings.duration("timeouts.recovery").unwrap_or(timeouts.recovery);
    let started = codex("startup_timeout_sec").or(codex("startup_timeout_ms"));
    if let Some(handshake) = settings.duration("timeouts.handshake").or(started) {
        (timeouts.handshake, timeouts.handshake_again) = (handshake, handshake);
    }
    timeouts.attempt = settings.duration("timeouts.attempt").or(timeouts.attempt);
}

fn retry(settings: Settings<'_>, upstream: &mut UpstreamConfig) {
    let retry = &mut upstream.retry;
    retry.attempts = settings.count("retry.maxAttempts").unwrap_or(retry.attempts);
    retry.initial = settings.duration("retry.initialDelay").unwrap_or(retry.initial);
    retry.cap = settings.duration("retry.maxDelay").unwrap_or(retry.cap).max(retry.initial);
    let meant = |word: &str| match word {
        "never" => OnError::Never,
        "always" => OnError::Always,
        _ => OnError::Reads,
    };
    if let Some(TypedValue::Codes(codes)) = settings.find("retry.codes").map(|found| &found.value) {
        retry.codes = codes.iter().map(|(code, word)| (*code, meant(word))).collect();
    }
    if let Some(TypedValue::Codes(statuses)) = settings.find("retry.statuses").map(|found| &found.value) {
        let known = |(status, word): &(i64, &'static str)| Some((u16::try_from(*status).ok()?, meant(word)));
        retry.statuses = statuses.iter().filter_map(known).collect();
    }
}

fn breaker(settings: Settings<'_>, before: Option<Breaker>) -> Option<Breaker> {
    let is_off = before.is_none() && settings.find("circuitBreaker").is_none();
    if is_off || settings.flag("circuitBreaker.enabled") == Some(false) {
        return None;
    }
    let usual = before.unwrap_or_default();
    Some(Breaker {
        failures: settings.count("circuitBreaker.failureThreshold").unwrap_or(usual.failures),
        success_rate: settings.real("circuitBreaker.successRate").unwrap_or(usual.success_rate),
        window: settings.duration("circuitBreaker.window").unwrap_or(usual.window),
        window_calls: settings.count("circuitBreaker.windowCalls").unwrap_or(usual.window_calls),
        open_for: settings.duration("circuitBreaker.resetTimeout").map_or(usual.open_for, OpenFor::Exactly),
        successes: settings.count("circuitBreaker.successThreshold").unwrap_or(usual.successes),
        count_tool_errors: settings.flag("circuitBreaker.countToolErrors").unwrap_or(usual.count_tool_errors),
    })
}

pub(super) fn rate_limit(settings: Settings<'_>) -> Option<RateLimit> {
    let per_second = settings.real("rateLimit.perSecond")?;
    let burst = settings.count("rateLimit.burst").unwrap_or_else(|| per_second.ceil().max(1.0) as u32);
    Some(RateLimit { burst, per_second })
}

/// Returns the filter of two lists of patterns.
pub(super) fn tool_filter(settings: Settings<'_>, allow: &str, deny: &str) -> ToolFilter {
    let allowed = settings.find(allow).map(|_| settings.words(allow));
    ToolFilter::new(allowed, settings.words(deny))
}

fn keep_alive(settings: Settings<'_>, before: Option<KeepAlive>) -> Option<KeepAlive> {
    let is_off = before.is_none() && settings.find("keepAlive").is_none();
    if is_off || settings.flag("keepAlive.enabled") == Some(false) {
        return None;
    }
    let usual = before.unwrap_or_default();
    Some(KeepAlive {
        interval: settings.duration("keepAlive.interval").unwrap_or(usual.interval),
        timeout: settings.duration("keepAlive.timeout").unwrap_or(usual.timeout),
    })
}

fn tools(settings: Settings<'_>, upstream: &mut UpstreamConfig) {
    let Some(TypedValue::Each(tools)) = settings.find("tools").map(|found| &found.value) else { return };
    for (name, block) in tools {
        let tool = Settings { own: block, defaults: &Block::default() };
        let effect = tool.choice("effect").map(|word| match word {
            "read" => Effect::Read,
            "idempotent" => Effect::Idempotent,
            _ => Effect::Unsafe,
        });
        let known = upstream.tools.get(name).copied().unwrap_or_default();
        let count = |path: &str| tool.count(path).map(|most| most as usize);
        let own_breaker = tool.find("circuitBreaker").is_some();
        let policy = ToolPolicy {
            effect: effect.or(known.effect),
            timeout: tool.duration("timeout").or(known.timeout),
            in_flight: count("limits.inFlight").or(known.in_flight),
            waiting: count("limits.waiting").or(known.waiting),
            rate_limit: rate_limit(tool).or(known.rate_limit),
            // Keys that are not named follow the breaker of the server.
            breaker: match own_breaker {
                true => Some(breaker(tool, known.breaker.unwrap_or(upstream.breaker))),
                false => known.breaker,
            },
        };
        if policy != ToolPolicy::default() {
            upstream.tools.insert(name.clone(), policy);
        }
    }
}
