//! The server spreads each message over several lines, with a byte order mark before it and line ends after it. Every
//! message must reach the client on one line.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct PrettyPrinted;

impl Fault for PrettyPrinted {
    fn name(&self) -> &'static str {
        "pretty_printed"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.pretty = true;
        }
        None
    }
}
