//! N06: connections are neither accepted nor refused.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct ConnectBlackHole;

impl Fault for ConnectBlackHole {
    fn name(&self) -> &'static str {
        "n06_connect_blackhole"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.connect = ConnectResult::BlackHole;
        }
        None
    }
}
