//! X96: the machine sleeps. Time has passed when it wakes up, and whatever was connected is dead without a word.

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
