//! P59: the child ends while a grandchild holds its pipes open, so that its end is known later.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct GrandchildHoldsPipe;

impl Fault for GrandchildHoldsPipe {
    fn name(&self) -> &'static str {
        "p59_grandchild_holds_pipe"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.reap_delay = world.rng.millis(100, 3_000);
        world.kill(at, Ending::Code(0));
        Some(world.rng.millis(2_000, 30_000))
    }
}
