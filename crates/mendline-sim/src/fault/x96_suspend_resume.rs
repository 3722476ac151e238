//! X96: the machine is suspended. After it resumes, time has passed and every connection is silently dead.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct SuspendResume;

impl Fault for SuspendResume {
    fn name(&self) -> &'static str {
        "x96_suspend_resume"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let slept = world.rng.millis(5_000, 900_000);
        world.suspend(at, slept);
        Some(world.rng.millis(5_000, 60_000))
    }
}
