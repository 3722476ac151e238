//! Flags about retries of calls, effects of tools, and limits on concurrent calls.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::Transport;
use mendline::decisions::policy::effect::Effect;

use super::values::{attempts, duration, effect, in_flight, resumptions, resumptions_in_total, shown, waiting};

#[derive(Args)]
#[command(next_help_heading = "Calls")]
pub(super) struct CallFlags {
    /// Attempts per call, if it is safe to send it again [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts, allow_negative_numbers = true)]
    max_attempts: Option<u32>,

    /// Delay before a call is sent again to a server that is available; half of it is jitter, and it doubles with each
    /// further retry [default: 500ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_retry_delay: Option<Duration>,

    /// Longest delay before a call is sent again [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_call_retry_delay: Option<Duration>,

    /// Attempts to resume a broken response stream of a URL without receiving anything new [default: 10]
    #[arg(long, value_name = "N", value_parser = resumptions, allow_negative_numbers = true)]
    resume_attempts: Option<u32>,

    /// Attempts to resume one broken response stream of a URL in total [default: 100]
    #[arg(long, value_name = "N", value_parser = resumptions_in_total, allow_negative_numbers = true)]
    resume_total: Option<u32>,

    /// Effect of a tool, whatever its server says: read or idempotent (sent again if the outcome is unknown), or unsafe
    /// (never sent again); may be repeated
    #[arg(long, value_name = "TOOL=EFFECT", value_parser = effect)]
    effect: Vec<(String, Effect)>,

    /// Ignore the server's hints about its tools: all are unsafe except those named by --effect
    #[arg(long)]
    no_trust_hints: bool,

    /// Calls in flight at once; further calls wait (backpressure) [default: 256]
    #[arg(long, value_name = "N", value_parser = in_flight, allow_negative_numbers = true)]
    max_in_flight: Option<usize>,

    /// Calls that may wait; further calls are rejected at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = waiting, allow_negative_numbers = true)]
    max_waiting: Option<usize>,
}

impl CallFlags {
    pub(super) fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        let resumes = [("--resume-attempts", self.resume_attempts), ("--resume-total", self.resume_total)];
        if let Some((flag, _)) = resumes.iter().find(|(_, given)| given.is_some())
            && upstream.transport == Transport::Child
        {
            return Err(format!("{flag} is for servers at a URL; responses of a command cannot be resumed"));
        }
        let mut effects = BTreeMap::new();
        for (tool, effect) in &self.effect {
            if effects.insert(tool.clone(), *effect).is_some_and(|before| before != *effect) {
                return Err(format!("--effect has two different values for {tool:?}"));
            }
        }
        for (tool, effect) in effects {
            upstream.tools.entry(tool).or_default().effect = Some(effect);
        }
        upstream.trust_hints &= !self.no_trust_hints;
        upstream.retry.attempts = self.max_attempts.unwrap_or(upstream.retry.attempts);
        upstream.retry.initial = self.call_retry_delay.unwrap_or(upstream.retry.initial);
        upstream.retry.cap = self.max_call_retry_delay.unwrap_or(upstream.retry.cap);
        if self.call_retry_delay.is_some_and(|initial| initial > upstream.retry.cap) {
            return Err(format!(
                "--call-retry-delay {} is longer than the longest delay, {}; raise --max-call-retry-delay",
                shown(upstream.retry.initial),
                shown(upstream.retry.cap)
            ));
        }
        upstream.resume_attempts = self.resume_attempts.unwrap_or(upstream.resume_attempts);
        upstream.resume_total = self.resume_total.unwrap_or(upstream.resume_total);
        upstream.limits.in_flight = self.max_in_flight.unwrap_or(upstream.limits.in_flight);
        upstream.limits.waiting = self.max_waiting.unwrap_or(upstream.limits.waiting);
        Ok(())
    }
}
