//! T18: nothing arrives on either side, without an error.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct PartitionTwoWay;

impl Fault for PartitionTwoWay {
    fn name(&self) -> &'static str {
        "t18_partition_two_way"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.silent = Some(0);
            site.faults.connect = ConnectResult::BlackHole;
        }
        world.silence(at);
        None
    }
}
