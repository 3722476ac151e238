//! How a server that is sick or busy is left alone.

use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::{OpenFor, RateLimit};

use super::values::{duration, rate_limit, threshold};

#[derive(Args)]
#[command(next_help_heading = "Sick or busy servers")]
pub(super) struct Protecting {
    /// Never hold calls back from a server, or a tool, that keeps failing
    #[arg(long, conflicts_with_all = ["breaker_threshold", "breaker_reset", "count_tool_errors"])]
    no_breaker: bool,

    /// So many failures in a row, of a server or of one of its tools, hold calls back for a while [default: 5]
    #[arg(long, value_name = "N", value_parser = threshold, allow_negative_numbers = true)]
    breaker_threshold: Option<u32>,

    /// How long calls are held back before one may try [default: 5s, then twice as long each time up to 1m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    breaker_reset: Option<Duration>,

    /// Results that say isError are failures of their tool, too
    #[arg(long)]
    count_tool_errors: bool,

    /// How many calls the server is sent in what time, and how many at once after a pause: 10/s, 30/m:5; others wait
    /// their turn, or are told when to come back [default: no limit]
    #[arg(long, value_name = "N/s|m|h[:BURST]", value_parser = rate_limit, allow_hyphen_values = true)]
    rate_limit: Option<RateLimit>,
}

impl Protecting {
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
