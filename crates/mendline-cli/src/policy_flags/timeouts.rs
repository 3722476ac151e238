//! Flags about timeouts.

use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;

use super::values::{duration, shown, tool_timeout};

#[derive(Args)]
#[command(next_help_heading = "Timeouts")]
pub(super) struct TimeoutFlags {
    /// Time limit of a call, from its arrival or its last progress [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_timeout: Option<Duration>,

    /// Time limit of the calls of one tool; may be repeated
    #[arg(long, value_name = "TOOL=DURATION", value_parser = tool_timeout)]
    tool_timeout: Vec<(String, Duration)>,

    /// Time limit of a call in total, whatever progress it reports [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    total_timeout: Option<Duration>,

    /// Time that a call waits for an unavailable server; most clients give up after a minute [default: 45s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    recovery_timeout: Option<Duration>,

    /// Time limit of one attempt of a call; then a call that may be repeated is sent again [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    attempt_timeout: Option<Duration>,

    /// Time limit of every handshake with the server [default: 1m for the first start of a command, which may have to be
    /// downloaded; else 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    handshake_timeout: Option<Duration>,
}

impl TimeoutFlags {
    pub(super) fn apply(&self, upstream: &mut UpstreamConfig) -> Result<(), String> {
        let timeouts = &mut upstream.timeouts;
        match (self.call_timeout, self.total_timeout) {
            (Some(call), Some(total)) if call > total => {
                return Err(format!(
                    "--call-timeout {} is longer than --total-timeout {}, which no call may exceed",
                    shown(call),
                    shown(total)
                ));
            }
            // If only one of them is given, the other is adjusted.
            (Some(call), total) => {
                timeouts.call = call;
                timeouts.total = total.unwrap_or(timeouts.total.max(call));
            }
            (None, Some(total)) => {
                timeouts.total = total;
                timeouts.call = timeouts.call.min(total);
            }
            (None, None) => {}
        }
        for (tool, timeout) in &self.tool_timeout {
            if *timeout > timeouts.total {
                return Err(format!(
                    "--tool-timeout {tool}={} is longer than the limit of a whole call, {}; raise --total-timeout",
                    shown(*timeout),
                    shown(timeouts.total)
                ));
            }
            let before = upstream.tools.entry(tool.clone()).or_default().timeout.replace(*timeout);
            if before.is_some_and(|before| before != *timeout) && self.is_repeated(tool) {
                return Err(format!("--tool-timeout has two different values for {tool:?}"));
            }
        }
        timeouts.recovery = self.recovery_timeout.unwrap_or(timeouts.recovery);
        timeouts.attempt = self.attempt_timeout.or(timeouts.attempt);
        if let Some(handshake) = self.handshake_timeout {
            (timeouts.handshake, timeouts.handshake_again) = (handshake, handshake);
        }
        Ok(())
    }

    fn is_repeated(&self, tool: &str) -> bool {
        self.tool_timeout.iter().filter(|(named, _)| named == tool).count() > 1
    }
}
