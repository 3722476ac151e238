//! P56: a new child takes a long time (a download, for example) before it reads its first byte.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct SlowStart;

impl Fault for SlowStart {
    fn name(&self) -> &'static str {
        "p56_slow_start"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let start = world.rng.millis(1_000, 45_000);
        world.hosts[at].faults.start = start;
        world.kill(at, Ending::Code(1));
        None
    }
}
