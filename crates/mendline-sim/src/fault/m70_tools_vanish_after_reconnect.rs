//! M70: the server restarts in another edition with other tools, prompts and resources.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct ToolsVanishAfterReconnect;

impl Fault for ToolsVanishAfterReconnect {
    fn name(&self) -> &'static str {
        "m70_tools_vanish_after_reconnect"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.change_edition(at);
        world.kill(at, Ending::Code(0));
        world.restart(at);
        Some(world.rng.millis(3_000, 40_000))
    }
}
