//! Flags about circuit breakers and the rate limit.

use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::{OpenFor, RateLimit};

use super::values::{duration, rate_limit, threshold};

#[derive(Args)]
#[command(next_help_heading = "Circuit breaker and rate limit")]
pub(super) struct ProtectionFlags {
    /// Turn the circuit breaker off: never reject calls because a tool keeps failing
    #[arg(long, conflicts_with_all = ["breaker_threshold", "breaker_reset", "count_tool_errors"])]
    no_breaker: bool,

    /// Failed calls of a tool in a row that open its circuit breaker [default: 5]
    #[arg(long, value_name = "N", value_parser = threshold, allow_negative_numbers = true)]
    breaker_threshold: Option<u32>,

    /// Time until an open circuit breaker lets one call through (half open) [default: 5s, doubled each time up to 1m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    breaker_reset: Option<Duration>,

    /// Count results with isError as failures of their tool, too
    #[arg(long)]
    count_tool_errors: bool,

    /// Calls per second, minute or hour, and the burst after a pause: 10/s, 30/m:5; further calls wait, or fail with a
    /// time to retry [default: no limit]
    #[arg(long, value_name = "N/s|m|h[:BURST]", value_parser = rate_limit, allow_hyphen_values = true)]
    rate_limit: Option<RateLimit>,
}

impl ProtectionFlags {
    pub(super) fn apply(&self, upstream: &mut UpstreamConfig) {
        if self.no_breaker {
            upstream.breaker = None;
        }
        let is_chosen = self.breaker_threshold.is_some() || self.breaker_reset.is_some() || self.count_tool_errors;
        if is_chosen {
            let policy = upstream.breaker.get_or_insert_default();
            policy.failures = self.breaker_threshold.unwrap_or(policy.failures);
            policy.open_for = self.breaker_reset.map_or(policy.open_for, OpenFor::Exactly);
            policy.count_tool_errors |= self.count_tool_errors;
        }
        upstream.rate_limit = self.rate_limit.or(upstream.rate_limit);
    }
}
