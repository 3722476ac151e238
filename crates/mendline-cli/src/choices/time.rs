//! How long things may take.

use std::time::Duration;

use clap::Args;
use mendline::decisions::UpstreamConfig;

use super::values::{duration, shown, tool_timeout};

#[derive(Args)]
#[command(next_help_heading = "Time")]
pub(super) struct Waiting {
    /// How long a call may take, counted from its arrival or its last progress [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_timeout: Option<Duration>,

    /// How long calls of one tool may take instead; may be given several times
    #[arg(long, value_name = "TOOL=DURATION", value_parser = tool_timeout)]
    tool_timeout: Vec<(String, Duration)>,

    /// How long a call may take in all, whatever progress it reports [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    total_timeout: Option<Duration>,

    /// How long a call waits for a server that is not there; most clients give up after a minute [default: 45s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    recovery_timeout: Option<Duration>,

    /// How long a new session may take to be greeted [default: 1m for a command, which may have to be downloaded; 10s for
    /// a URL]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    handshake_timeout: Option<Duration>,
}

impl Waiting {
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
            // Who chooses only one of them means it: the other gives way.
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
                    "--tool-timeout {tool}={} is longer than a call may take in all, {}; raise --total-timeout",
                    shown(*timeout),
                    shown(timeouts.total)
                ));
            }
            let before = upstream.tools.entry(tool.clone()).or_default().timeout.replace(*timeout);
            if before.is_some_and(|before| before != *timeout) && self.says_twice(tool) {
                return Err(format!("--tool-timeout says two different things about {tool:?}"));
            }
        }
        timeouts.recovery = self.recovery_timeout.unwrap_or(timeouts.recovery);
        timeouts.handshake = self.handshake_timeout.unwrap_or(timeouts.handshake);
        Ok(())
    }

    fn says_twice(&self, tool: &str) -> bool {
        self.tool_timeout.iter().filter(|(named, _)| named == tool).count() > 1
    }
}
