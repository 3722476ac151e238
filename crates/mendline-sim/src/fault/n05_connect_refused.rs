//! N05: connections are refused.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct ConnectRefused;

impl Fault for ConnectRefused {
    fn name(&self) -> &'static str {
        "n05_connect_refused"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.connect = ConnectResult::Refused;
        }
        None
    }
}
