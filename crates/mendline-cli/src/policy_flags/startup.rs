//! Flags about the time before the server is ready.

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::Startup;

#[derive(Args)]
#[command(next_help_heading = "Startup and cache")]
pub(super) struct StartupFlags {
    /// at-once: answer the client's handshake and lists from the cache while the server starts, without a cache after
    /// 20 seconds, or 3 after a failure; wait: leave the handshake to the server [default: at-once]
    #[arg(long, value_name = "at-once|wait", value_enum, hide_possible_values = true)]
    startup: Option<StartupFlag>,

    /// Keep no cache of the server's handshake and lists, neither on disk nor while the server is away
    #[arg(long)]
    no_catalogue: bool,

    /// Show the client a tool and a resource of Mendline itself, `mendline_status`, which report the state of the server
    #[arg(long)]
    own_tools: bool,
}

/// Values of `--startup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StartupFlag {
    AtOnce,
    Wait,
}

impl StartupFlags {
    pub(super) fn apply(&self, upstream: &mut UpstreamConfig) {
        upstream.own_tools |= self.own_tools;
        upstream.catalogue.cache &= !self.no_catalogue;
        upstream.catalogue.startup = match self.startup {
            Some(StartupFlag::AtOnce) => Startup::Immediate,
            Some(StartupFlag::Wait) => Startup::Wait,
            None => upstream.catalogue.startup,
        };
    }
}
