//! The policies of an upstream: recovery, limits, limits of tools, startup.

use std::time::Duration;

use mendline_core::UpstreamConfig;
use mendline_core::config::{
    AutoReconnect, Breaker, Catalogue, KeepAlive, OnError, OpenFor, RateLimit, Startup, ToolPolicy,
};
use mendline_core::policy::effect::Effect;

use super::Pair;
use crate::catalogue::CachedCatalogue;
use crate::rng::Rng;

/// Configures an upstream that answers the handshake before its server is up.
pub(super) fn start_at_once(upstream: &mut UpstreamConfig, pair: &mut Pair, rng: &mut Rng) {
    upstream.catalogue = Catalogue {
        cache: rng.percent(85),
        startup: *rng.pick(&[Startup::Immediate, Startup::Immediate, Startup::Immediate, Startup::Wait]),
    };
    pair.workload.plain = rng.percent(85);
    if upstream.catalogue.cache && rng.percent(65) {
        // Either the current edition or an older one.
        let edition = *rng.pick(&[0, 90, 91]);
        pair.catalogue = Some(CachedCatalogue { name: upstream.name.clone(), era: pair.host.era, edition });
    }
}

/// Draws recovery policies.
pub(super) fn choose_recovery_policies(upstream: &mut UpstreamConfig, rng: &mut Rng) {
    let second = Duration::from_secs(1);
    upstream.keep_alive = *rng.pick(&[
        None,
        Some(KeepAlive::default()),
        Some(KeepAlive { interval: second, timeout: second / 2 }),
        Some(KeepAlive { interval: 5 * second, timeout: second }),
        Some(KeepAlive { interval: 5 * second, timeout: 2 * second }),
    ]);
    let quick = AutoReconnect {
        initial_retry_delay: Some(Duration::from_millis(50)),
        max_retry_delay: Some(2 * second),
        backoff_multiplier: Some(*rng.pick(&[1.0, 3.0])),
        ..AutoReconnect::default()
    };
    let retries = |most| AutoReconnect { max_retries: Some(most), ..AutoReconnect::default() };
    let mut auto_reconnect = match rng.below(8) {
        0 => AutoReconnect { enabled: Some(false), ..AutoReconnect::default() },
        1 => retries(Some(1)),
        2 => retries(Some(3)),
        3 => retries(None),
        4 => quick,
        _ => AutoReconnect::default(),
    };
    auto_reconnect.silent = Some(rng.percent(50));
    upstream.reconnect = auto_reconnect.into();
    upstream.retry.attempts = *rng.pick(&[1, 2, 3, 3, 5]);
    upstream.resume_attempts = *rng.pick(&[0, 2, 10, 10]);
    upstream.trust_hints = rng.percent(80);
    if rng.percent(30) {
        upstream.tools = [("read_note", Effect::Read), ("put_note", *rng.pick(&[Effect::Idempotent, Effect::Unsafe]))]
            .map(|(tool, effect)| (tool.to_owned(), ToolPolicy { effect: Some(effect), ..ToolPolicy::default() }))
            .into();
    }
}

/// Draws a breaker, a rate limit and tool timeouts. Without limits there is no breaker either.
pub(super) fn choose_limits(upstream: &mut UpstreamConfig, rng: Option<Rng>) {
    let Some(mut rng) = rng else {
        upstream.breaker = None;
        return;
    };
    let usual = Breaker::default();
    let second = Duration::from_secs(1);
    upstream.breaker = *rng.pick(&[
        None,
        Some(usual),
        Some(usual),
        Some(Breaker { count_tool_errors: true, failures: 3, ..usual }),
        Some(Breaker { failures: 2, open_for: OpenFor::Exactly(second), ..usual }),
        Some(Breaker { failures: 1_000, window_calls: 4, window: 10 * second, ..usual }),
        Some(Breaker { failures: 3, open_for: OpenFor::Growing { first: second, cap: 4 * second }, ..usual }),
    ]);
    upstream.rate_limit = *rng.pick(&[
        None,
        None,
        Some(RateLimit { burst: 2, per_second: 2.0 }),
        Some(RateLimit { burst: 10, per_second: 10.0 }),
        Some(RateLimit { burst: 1, per_second: 20.0 }),
    ]);
    if rng.percent(30) {
        let timeout = Some(upstream.timeouts.call.min(*rng.pick(&[second, 3 * second])));
        let effect = upstream.tools.get("read_note").and_then(|tool| tool.effect);
        upstream.tools.insert("read_note".to_owned(), ToolPolicy { effect, timeout, ..ToolPolicy::default() });
    }
    if rng.percent(20) {
        upstream.retry.codes = [(-32603, *rng.pick(&[OnError::Never, OnError::Reads]))].into();
    }
}

/// Draws limits of tools, and rules for statuses without a JSON-RPC response.
pub(super) fn choose_tool_policies(upstream: &mut UpstreamConfig, pair: &mut Pair, rng: &mut Rng) {
    let second = Duration::from_secs(1);
    let usual = Breaker::default();
    for tool in ["read_note", "put_note", "create_note"] {
        if rng.percent(30) {
            continue;
        }
        let policy = upstream.tools.entry(tool.to_owned()).or_default();
        policy.in_flight = *rng.pick(&[None, Some(1), Some(2), Some(8)]);
        policy.waiting = *rng.pick(&[None, Some(1), Some(3), Some(20)]);
        policy.rate_limit = *rng.pick(&[
            None,
            None,
            Some(RateLimit { burst: 1, per_second: 5.0 }),
            Some(RateLimit { burst: 5, per_second: 1.0 }),
        ]);
        policy.breaker = *rng.pick(&[
            None,
            None,
            Some(None),
            Some(Some(Breaker { failures: 2, open_for: OpenFor::Exactly(second), ..usual })),
        ]);
    }
    pair.host.limits_tools = upstream.tools.values().any(|tool| tool.in_flight.is_some());
    for status in [403, 409, 500, 502, 504] {
        if rng.percent(40) {
            let rule = *rng.pick(&[OnError::Never, OnError::Reads, OnError::Always]);
            upstream.retry.statuses.insert(status, rule);
        }
    }
    if let Some(site) = &mut pair.host.site {
        let is_always = |(status, rule): (&u16, &OnError)| (*rule == OnError::Always).then_some(*status);
        site.harmless = upstream.retry.statuses.iter().filter_map(is_always).collect();
    }
}
