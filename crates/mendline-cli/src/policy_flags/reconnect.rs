//! Flags about reconnecting and keep-alive.

use std::time::Duration;

use clap::Args;
use mendline::decisions::config::{AutoReconnect, KeepAlive, Reconnect};

use super::values::{Interval, Retries, duration, keep_alive, multiplier, retries, shown};

#[derive(Args)]
#[command(next_help_heading = "Reconnecting")]
pub(super) struct ReconnectFlags {
    /// Do not reconnect automatically: try a lost server once, when the next call needs it
    #[arg(long, conflicts_with_all = ["max_retries", "initial_retry_delay", "max_retry_delay", "backoff_multiplier"])]
    no_reconnect: bool,

    /// Reconnect attempts before a lost server is parked, then tried rarely; -1: unlimited, 0: as --no-reconnect
    /// [default: 10, for at least two minutes]
    #[arg(long, value_name = "N", value_parser = retries, allow_negative_numbers = true)]
    max_retries: Option<Retries>,

    /// Delay before the first attempt; half of every delay is random jitter, so that many clients do not reconnect at
    /// once [default: up to 200ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initial_retry_delay: Option<Duration>,

    /// Longest delay between two attempts [default: 30s; at most 2.4s while a call waits]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_retry_delay: Option<Duration>,

    /// Factor by which each delay is longer than the one before [default: 2]
    #[arg(long, value_name = "X", value_parser = multiplier, allow_negative_numbers = true)]
    backoff_multiplier: Option<f64>,

    /// Notify the client while reconnecting: as progress of waiting calls, and as log messages if it asked for them
    #[arg(long)]
    tell_client: bool,

    /// Interval of pings to an idle server, which is replaced after two missed pings; off: none [default: 30s]
    #[arg(long, value_name = "DURATION|off", value_parser = keep_alive)]
    keep_alive: Option<Interval>,

    /// Time limit for the answer to a ping [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    keep_alive_timeout: Option<Duration>,
}

impl ReconnectFlags {
    pub(super) fn policy(&self, before: &Reconnect) -> Result<Reconnect, String> {
        let delays = [
            ("--initial-retry-delay", self.initial_retry_delay.is_some()),
            ("--max-retry-delay", self.max_retry_delay.is_some()),
            ("--backoff-multiplier", self.backoff_multiplier.is_some()),
        ];
        if let (Some(Retries(Some(0))), Some((flag, _))) = (self.max_retries, delays.iter().find(|(_, given)| *given)) {
            return Err(format!("{flag} has no effect with --max-retries 0, which turns reconnecting off"));
        }
        let said = AutoReconnect {
            enabled: self.no_reconnect.then_some(false),
            max_retries: self.max_retries.map(|Retries(most)| most),
            initial_retry_delay: self.initial_retry_delay,
            max_retry_delay: self.max_retry_delay,
            backoff_multiplier: self.backoff_multiplier,
            silent: self.tell_client.then_some(false),
        };
        let policy = said.over(before.clone());
        match self.initial_retry_delay {
            Some(initial) if initial > policy.cap_idle => Err(format!(
                "--initial-retry-delay {} is longer than the longest delay, {}; raise --max-retry-delay",
                shown(initial),
                shown(policy.cap_idle)
            )),
            _ => Ok(policy),
        }
    }

    pub(super) fn keep_alive(&self, before: Option<KeepAlive>) -> Result<Option<KeepAlive>, String> {
        if self.keep_alive.is_none() && self.keep_alive_timeout.is_none() {
            return Ok(before);
        }
        let mut policy = before.unwrap_or_default();
        match self.keep_alive {
            Some(Interval(None)) if self.keep_alive_timeout.is_some() => {
                return Err("--keep-alive-timeout has no effect with --keep-alive off".to_owned());
            }
            Some(Interval(None)) => return Ok(None),
            Some(Interval(Some(interval))) => policy.interval = interval,
            None => {}
        }
        policy.timeout = self.keep_alive_timeout.unwrap_or(policy.timeout);
        Ok(Some(policy))
    }
}
