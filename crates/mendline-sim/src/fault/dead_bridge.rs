//! The child is a bridge and has lost its remote side: it answers every request with an error about that.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct DeadBridge;

impl Fault for DeadBridge {
    fn name(&self) -> &'static str {
        "dead_bridge"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.lose_bridges(at);
        None
    }
}
