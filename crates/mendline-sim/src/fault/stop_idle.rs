//! A gateway stops a process or session that is not used, again and again; the next request starts it.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct StopIdle;

impl Fault for StopIdle {
    fn name(&self) -> &'static str {
        "stop_idle"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.stop_idle(at);
        Some(world.rng.millis(200, 5_000))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.begin(world, at)
    }

    fn end(&self, _: &mut World, _: usize) {}
}
