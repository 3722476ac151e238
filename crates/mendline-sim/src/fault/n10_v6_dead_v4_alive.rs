//! N10: the first address does not respond and the second one works, so connecting takes longer.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct V6DeadV4Alive;

impl Fault for V6DeadV4Alive {
    fn name(&self) -> &'static str {
        "n10_v6_dead_v4_alive"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::Slow);
        None
    }
}
