//! The child is a bridge itself and has lost what it bridges to: it answers everything, and only with that.

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
