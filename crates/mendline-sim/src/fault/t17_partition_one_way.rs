//! T17: requests arrive and are executed, but neither answers nor connections come back.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct PartitionOneWay;

impl Fault for PartitionOneWay {
    fn name(&self) -> &'static str {
        "t17_partition_one_way"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.silent = Some(100);
            site.faults.connect = ConnectResult::BlackHole;
        }
        world.silence(at);
        None
    }
}
