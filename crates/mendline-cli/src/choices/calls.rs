//! When a call is sent again, what tools do, and how many calls there may be.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::Transport;
use mendline::decisions::policy::effect::Effect;

use super::values::{attempts, duration, effect, in_flight, resumptions, shown, waiting};

#[derive(Args)]
#[command(next_help_heading = "Calls")]
pub(super) struct Calls {
    /// How often a call may be sent in all, when it is safe to send it again [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts, allow_negative_numbers = true)]
    max_attempts: Option<u32>,

    /// The wait before a call is sent again to a server that is there; all of it is chance, and the next may be twice as
    /// long [default: up to 100ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_retry_delay: Option<Duration>,

    /// The longest such wait [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_call_retry_delay: Option<Duration>,

    /// How often a response from a URL that broke off is asked for again without anything new in it [default: 10]
    #[arg(long, value_name = "N", value_parser = resumptions, allow_negative_numbers = true)]
    resume_attempts: Option<u32>,

    /// What a tool does, whatever its server says: read, idempotent (both may be called again when nobody knows whether
    /// they ran) or unsafe (never); may be given several times
    #[arg(long, value_name = "TOOL=EFFECT", value_parser = effect)]
    effect: Vec<(String, Effect)>,

    /// Do not believe what the server says about its tools: all are unsafe but those named by --effect
    #[arg(long)]
    no_trust_hints: bool,

    /// How many calls may be with the server at once; others wait [default: 256]
    #[arg(long, value_name = "N", value_parser = in_flight, allow_negative_numbers = true)]
    max_in_flight: Option<usize>,

    /// How many calls may wait; others are refused at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = waiting, allow_negative_numbers = true)]
    max_waiting: Option<usize>,
}

impl Calls {
    pub(super) fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        if self.resume_attempts.is_some() && upstream.transport == Transport::Child {
            return Err("--resume-attempts is for servers at a URL; a command's answers cannot be resumed".to_owned());
        }
        let mut effects = BTreeMap::new();
        for (tool, effect) in &self.effect {
            if effects.insert(tool.clone(), *effect).is_some_and(|before| before != *effect) {
                return Err(format!("--effect says two different things about {tool:?}"));
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
                "--call-retry-delay {} is longer than the longest wait, {}; raise --max-call-retry-delay",
                shown(upstream.retry.initial),
                shown(upstream.retry.cap)
            ));
        }
        upstream.resume_attempts = self.resume_attempts.unwrap_or(upstream.resume_attempts);
        upstream.limits.in_flight = self.max_in_flight.unwrap_or(upstream.limits.in_flight);
        upstream.limits.waiting = self.max_waiting.unwrap_or(upstream.limits.waiting);
        Ok(())
    }
}
