//! What is answered before the server is there.

use clap::Args;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::config::Startup;

#[derive(Args)]
#[command(next_help_heading = "Starting")]
pub(super) struct Starting {
    /// What the client's greeting waits for: at-once answers it, and the lists, from what was last known of the server while
    /// it starts, and without that after three seconds; wait leaves it to the server, however long it takes [default:
    /// at-once]
    #[arg(long, value_name = "at-once|wait", value_enum, hide_possible_values = true)]
    startup: Option<StartupFlag>,

    /// Keep nothing of what the server says of itself, neither for the next time nor for while it is away
    #[arg(long)]
    no_catalogue: bool,
}

/// What a client's greeting waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StartupFlag {
    AtOnce,
    Wait,
}

impl Starting {
    pub(super) fn apply(&self, upstream: &mut UpstreamConfig) {
        upstream.catalogue.cache &= !self.no_catalogue;
        upstream.catalogue.startup = match self.startup {
            Some(StartupFlag::AtOnce) => Startup::AtOnce,
            Some(StartupFlag::Wait) => Startup::Wait,
            None => upstream.catalogue.startup,
        };
    }
}
