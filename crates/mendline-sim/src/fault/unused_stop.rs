//! The shell requests the end of a process or session that has no calls, again and again.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct UnusedStop;

impl Fault for UnusedStop {
    fn name(&self) -> &'static str {
        "unused_stop"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.stop_unused(at);
        Some(world.rng.millis(1_000, 20_000))
    }

    fn end(&self, _: &mut World, _: usize) {}
}
