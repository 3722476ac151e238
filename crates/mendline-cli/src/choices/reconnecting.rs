//! When a lost server is looked for again, and how it is found out that it is lost.

use std::time::Duration;

use clap::Args;
use mendline::decisions::config::{AutoReconnect, KeepAlive, Reconnect};

use super::values::{Interval, Retries, duration, keep_alive, multiplier, retries, shown};

#[derive(Args)]
#[command(next_help_heading = "Reconnecting")]
pub(super) struct Reconnecting {
    /// Never reconnect by itself: a lost server is tried once when the next call needs it
    #[arg(long, conflicts_with_all = ["max_retries", "initial_retry_delay", "max_retry_delay", "backoff_multiplier"])]
    no_reconnect: bool,

    /// Tries before a lost server is only looked at now and then; -1: no end, 0: as --no-reconnect [default: 10, but not
    /// before two minutes have passed]
    #[arg(long, value_name = "N", value_parser = retries, allow_negative_numbers = true)]
    max_retries: Option<Retries>,

    /// The wait before the first try; half of every wait is chance, so that many clients do not come at once [default: up
    /// to 200ms]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    initial_retry_delay: Option<Duration>,

    /// The longest wait between two tries [default: 30s; 5s at most while a call waits]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_retry_delay: Option<Duration>,

    /// How many times longer each wait is than the one before [default: 2]
    #[arg(long, value_name = "X", value_parser = multiplier, allow_negative_numbers = true)]
    backoff_multiplier: Option<f64>,

    /// Tell the client about it: as progress of calls that wait, and as log messages if it asked for them
    #[arg(long)]
    tell_client: bool,

    /// An idle server is asked whether it is there this often, and replaced if it misses twice; off: never [default: 30s]
    #[arg(long, value_name = "DURATION|off", value_parser = keep_alive)]
    keep_alive: Option<Interval>,

    /// How long it has to answer that [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    keep_alive_timeout: Option<Duration>,
}

impl Reconnecting {
    pub(super) fn policy(&self, before: &Reconnect) -> Result<Reconnect, String> {
        let delays = [
            ("--initial-retry-delay", self.initial_retry_delay.is_some()),
            ("--max-retry-delay", self.max_retry_delay.is_some()),
            ("--backoff-multiplier", self.backoff_multiplier.is_some()),
        ];
        if let (Some(Retries(Some(0))), Some((flag, _))) = (self.max_retries, delays.iter().find(|(_, given)| *given)) {
            return Err(format!("{flag} has no meaning with --max-retries 0: nothing is tried by itself"));
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
                "--initial-retry-delay {} is longer than the longest wait, {}; raise --max-retry-delay",
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
                return Err("--keep-alive-timeout has no meaning with --keep-alive off: nothing is asked".to_owned());
            }
            Some(Interval(None)) => return Ok(None),
            Some(Interval(Some(interval))) => policy.interval = interval,
            None => {}
        }
        policy.timeout = self.keep_alive_timeout.unwrap_or(policy.timeout);
        Ok(Some(policy))
    }
}
